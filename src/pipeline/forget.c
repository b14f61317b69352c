/* forget.c - bounds what the pipeline knows of processes and threads that have ended.
 *
 * Records of a process may be read after its end was told, so what it had mapped and its threads
 * stay for FORGET_NS. The ends of threads are not told: when a process has had many, those that
 * /proc does not list any more are forgotten, at the second look that does not find them. One that
 * is met again after all is new. The process itself, a row and a few numbers, goes too where
 * nothing is kept and it runs for days; in a recording names of calls that were counted are still
 * asked for at its end.
 *
 * Of Python's code objects those go that were not asked for longest, where there are very many:
 * the programs have forgotten them long before. Where nothing is kept, so do kernels and
 * communicators. Stays: what the job has of libraries and functions, which frames.c and names.c
 * bound, and strings, which the writer bounds. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sort.h"
#include "pipeline/pipeline_impl.h"
#include "pipeline/stacks.h"

#define FORGET_NS     10000000000ULL
#define FORGET_EVERY  1000000000ULL
#define TIDS_FIRST    1024	/* threads of a process, before they are looked after */
#define CACHE_ENTRIES (1 << 16) /* of what can be found again */
#define KERNELS	      (1 << 18) /* of all processes, by handle */
#define COMMS	      (1 << 16)
#define FILES	      512	/* that are open: libraries and executables */
#define CODES	      (1 << 18) /* four times as many as the kernel's table has */

void pipeline_forget_ended(struct pipeline *p)
{
	p->forgets = true;
}

void pipeline_keep_texts(struct pipeline *p)
{
	p->keeps_texts = true;
}

void pipeline_tell_jobs_alone(struct pipeline *p)
{
	p->jobs_alone = true;
}

static void forget_thread(struct pipeline *p, uint32_t tgid, uint32_t tid)
{
	uint64_t key = (uint64_t)tgid << 32 | tid, index;
	if (!map64_get(&p->threads, key, &index))
		return;
	map64_del(&p->threads, key);
	emit_row_gone(p, ROW_THREAD, (uint32_t)index);
}

static bool thread_lives(const struct pipeline *p, uint32_t tgid, uint32_t tid)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%u/task/%u", p->proc_root, tgid, tid);
	return !access(path, F_OK);
}

void forget_thread_later(struct pipeline *p, struct known_process *k, uint32_t tid)
{
	size_t kept = 0, alive = 0;
	*vec_push(&k->tids) = (struct known_tid){.tid = tid};
	if (!k->tids_next)
		k->tids_next = TIDS_FIRST;
	if (k->tids.len < k->tids_next)
		return;
	for (size_t i = 0; i < k->tids.len; i++) {
		struct known_tid t = k->tids.data[i];
		bool lives = t.tid == tid || thread_lives(p, k->row.pid, t.tid);
		if (!lives && t.missed) {
			forget_thread(p, k->row.pid, t.tid);
			continue;
		}
		alive += lives;
		t.missed = !lives;
		k->tids.data[kept++] = t;
	}
	k->tids.len = kept;
	k->tids_next = kept + (alive > TIDS_FIRST ? alive : TIDS_FIRST);
}

void forget_parts(struct pipeline *p, struct known_process *k)
{
	for (size_t i = 0; i < k->tids.len; i++)
		forget_thread(p, k->row.pid, k->tids.data[i].tid);
	known_maps_unref(k->maps);
	k->maps = NULL;
	map64_free(&k->sent);
	vec_free(&k->tids);
}

/* Its number has gone to another, or will. */
void forget_replaced(struct pipeline *p, uint32_t process)
{
	struct known_process *k = &p->process_list.data[process];
	uint64_t now;
	forget_parts(p, k);
	if (map64_get(&p->processes, k->row.pid, &now) && now == process)
		map64_del(&p->processes, k->row.pid);
	/* addresses of the next one in this place are not this one's */
	*k = (struct known_process){.generation = k->generation + 1};
	*vec_push(&p->free_processes) = process;
}

void forget_later(struct pipeline *p, uint32_t process)
{
	*vec_push(&p->ended) = (struct ended_process){
		.process = process,
		.generation = p->process_list.data[process].generation,
		.forget_ns = monotonic_ns() + FORGET_NS,
	};
}

uint64_t forget_since(uint64_t *numbers, size_t n, size_t most)
{
	qsort(numbers, n, sizeof(*numbers), sort_compare_u64);
	return most < n ? numbers[n - most] : 0;
}

static void drop_large(struct map64 *cache)
{
	if (cache->len > CACHE_ENTRIES)
		map64_free(cache);
}

/* Codes of processes that are forgotten, by their ids. */
static void forget_codes_of(struct pipeline *p, const struct map64 *gone)
{
	if (!gone->len)
		return;
	codes_forget_of(p, gone);
	frames_forget_codes_of(p, gone);
}

/* ret_gone: unless another process has its id by now. */
static void forget_process(struct pipeline *p, uint32_t process, struct map64 *ret_gone)
{
	uint32_t pid = p->process_list.data[process].row.pid;
	uint64_t now;
	forget_replaced(p, process);
	if (!map64_get(&p->processes, pid, &now))
		map64_set(ret_gone, pid, 1);
}

static void forget_due(struct pipeline *p, uint64_t now_ns)
{
	struct map64 gone = {0};
	size_t kept = 0;
	for (size_t i = 0; i < p->ended.len; i++) {
		struct ended_process e = p->ended.data[i];
		struct known_process *k = &p->process_list.data[e.process];
		if (now_ns <= e.forget_ns)
			p->ended.data[kept++] = e;
		else if (k->generation != e.generation || !k->row.end_ns)
			continue; /* another's place by now */
		else if (p->forgets)
			forget_process(p, e.process, &gone);
		else
			forget_parts(p, k);
	}
	p->ended.len = kept;
	forget_codes_of(p, &gone);
	map64_free(&gone);
}

void forget_pass(struct pipeline *p)
{
	uint64_t now_ns = monotonic_ns();
	if (now_ns - p->forgot_ns < FORGET_EVERY)
		return;
	p->forgot_ns = now_ns;
	forget_due(p, now_ns);
	codes_forget(p, CODES);
	frames_forget_codes(p, CODES);
	elves_rest(p, FILES);
	drop_large(&p->elf_of_map);
	drop_large(&p->vtables);
	if (!p->forgets)
		return;
	drop_large(&p->hist_counts);
	drop_large(&p->waits_told);
	drop_large(&p->stalls_told);
	/* one that is used again after all is read from its process's memory */
	kernels_forget(p->kernels, KERNELS);
	comms_forget(p->comms, COMMS);
}
