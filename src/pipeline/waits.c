/* waits.c - why a thread does not run, by the functions that it waits in: the kernel's first,
 * then the job's own; else as the programs say (bpf/waits.h). To add a reason: a line in one of the
 * tables. And waits that the programs have counted, as rows. */
#include <string.h>

#include "pipeline/stacks.h"

#define COUNTS_NS 1000000000ULL /* rows of a process so often */

struct wait_rule {
	const char *start; /* of the function's name, or of the library's */
	enum wait_reason reason;
};

/* Functions of the kernel; the first one from the leaf that is listed decides. */
static const struct wait_rule kernel_rules[] = {
	{"futex_", WAIT_FUTEX},
	{"do_futex", WAIT_FUTEX},
	{"io_schedule", WAIT_DISK},
	{"folio_wait", WAIT_DISK},
	{"wait_on_page", WAIT_DISK},
	{"filemap_", WAIT_DISK},
	{"blk_", WAIT_DISK},
	{"jbd2_", WAIT_DISK},
	{"ext4_", WAIT_DISK},
	{"xfs_", WAIT_DISK},
	{"btrfs_", WAIT_DISK},
	{"vfs_fsync", WAIT_DISK},
	{"do_nanosleep", WAIT_SLEEP},
	{"hrtimer_nanosleep", WAIT_SLEEP},
	{"common_nsleep", WAIT_SLEEP},
	{"ep_poll", WAIT_POLL},
	{"do_epoll_wait", WAIT_POLL},
	{"do_poll", WAIT_POLL},
	{"do_sys_poll", WAIT_POLL},
	{"do_select", WAIT_POLL},
	{"core_sys_select", WAIT_POLL},
	{"pipe_", WAIT_PIPE},
	{"anon_pipe_", WAIT_PIPE},
	{"tcp_", WAIT_NETWORK},
	{"udp_", WAIT_NETWORK},
	{"inet", WAIT_NETWORK},
	{"unix_", WAIT_NETWORK},
	{"sk_wait", WAIT_NETWORK},
	{"sock_", WAIT_NETWORK},
	{"__skb_", WAIT_NETWORK},
	{"skb_", WAIT_NETWORK},
	{"do_wait", WAIT_CHILD},
	{"kernel_wait", WAIT_CHILD},
	{"kernel_waitid", WAIT_CHILD},
	{"nvidia_", WAIT_GPU},
	{"nv_", WAIT_GPU},
	{"uvm_", WAIT_GPU},
	{"exc_page_fault", WAIT_PAGE_FAULT},
	{"do_user_addr_fault", WAIT_PAGE_FAULT},
	{"asm_exc_page_fault", WAIT_PAGE_FAULT},
};

static bool starts(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

static enum wait_reason by_kernel(struct pipeline *p, const uint32_t *frames, size_t n)
{
	enum wait_reason found = WAIT_OTHER;
	for (size_t i = 0; i < n; i++) {
		if (frames_get(p, frames[i])->row.kind != FRAME_KERNEL)
			break;
		const char *name = frames_name(p, frames[i]);
		for (size_t k = 0; k < sizeof(kernel_rules) / sizeof(kernel_rules[0]); k++) {
			if (!starts(name, kernel_rules[k].start))
				continue;
			/* a fault that reads from a disk is a fault */
			if (kernel_rules[k].reason == WAIT_PAGE_FAULT)
				return WAIT_PAGE_FAULT;
			if (found == WAIT_OTHER)
				found = kernel_rules[k].reason;
		}
	}
	return found;
}

static bool library_is(struct pipeline *p, const struct known_frame *f, const char *name)
{
	const char *path = rec_string_get(p->writer, f->row.library);
	const char *slash = strrchr(path, '/');
	return starts(slash ? slash + 1 : path, name);
}

static bool of_libc(struct pipeline *p, const struct known_frame *f)
{
	return library_is(p, f, "libc.so") || library_is(p, f, "libc-") ||
	       library_is(p, f, "libpthread");
}

/* take_gil() waits with pthread_cond_timedwait (Python/ceval_gil.c, COND_TIMED_WAIT); locks of
 * Python programs are semaphores (Python/thread_pthread.h). take_gil itself is a local symbol,
 * which distributions strip. */
static bool waits_for_gil(struct pipeline *p, const uint32_t *frames, size_t n)
{
	bool on_condition = false;
	for (size_t i = 0; i < n; i++) {
		const struct known_frame *f = frames_get(p, frames[i]);
		if (f->row.kind == FRAME_KERNEL)
			continue;
		if (f->row.kind != FRAME_NATIVE)
			return false;
		const char *name = frames_name(p, frames[i]);
		if (of_libc(p, f)) {
			on_condition |=
				starts(name, "pthread_cond_") || starts(name, "__pthread_cond_");
			continue;
		}
		return f->row.in_python && (on_condition || starts(name, "take_gil"));
	}
	return false;
}

static bool waits_for_gpu(struct pipeline *p, const uint32_t *frames, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct known_frame *f = frames_get(p, frames[i]);
		if (f->row.kind == FRAME_PYTHON)
			return false;
		if (f->row.kind == FRAME_NATIVE && library_is(p, f, "libcuda.so"))
			return true;
	}
	return false;
}

enum wait_reason wait_reason_of(struct pipeline *p, const uint32_t *frames, size_t n,
				enum wait_reason without_stack)
{
	enum wait_reason reason = by_kernel(p, frames, n);
	if (reason == WAIT_OTHER)
		reason = without_stack;
	if (reason == WAIT_FUTEX && waits_for_gil(p, frames, n))
		return WAIT_GIL;
	if (reason != WAIT_PAGE_FAULT && waits_for_gpu(p, frames, n))
		return WAIT_GPU;
	return reason;
}

/* ---- counted by the programs ---- */

void waits_add(struct pipeline *p, const struct rec_wait *r)
{
	char comm[sizeof(r->comm) + 1] = "", rival[sizeof(r->rival) + 1] = "";
	memcpy(comm, r->comm, sizeof(r->comm));
	memcpy(rival, r->rival, sizeof(r->rival));
	if (r->reason >= WAIT_REASONS || r->runnable_ns > r->duration_ns) {
		p->bad_records++;
		return;
	}
	if (!pipeline_is_told(p, r->tgid))
		return;
	struct m_wait row = {
		.start_ns = r->start_ns,
		.end_ns = r->start_ns + r->duration_ns,
		.runnable_ns = r->runnable_ns,
		.thread = pipeline_thread_named(p, r->tgid, r->tid, comm),
		.syscall = r->syscall,
		.waker_pid = r->waker_tgid,
		.waker_tid = r->waker_tid,
		.reason = r->reason,
		.rival_pid = r->rival_tgid,
		.rival = r->rival_tgid ? rec_string_z(p->writer, rival) : 0,
	};
	if (r->reason != WAIT_STOPPED)
		rivals_name(p, r, &row);
	emit_wait(p, &row);
}

/* Sums come from the ring of the CPU that the thread left: not in their order. */
static bool is_news(struct pipeline *p, uint32_t thread, const struct rec_wait_sums *r)
{
	uint64_t until_ns;
	if (map64_get(&p->waits_told, thread, &until_ns) && until_ns >= r->until_ns)
		return false;
	map64_set(&p->waits_told, thread, r->until_ns);
	return true;
}

/* Of all its threads. Each tells what it has not told before, about once a second: the sums are
 * told as often, and when one tells for the last time. */
static void add_counts(struct pipeline *p, const struct rec_wait_sums *r)
{
	struct known_process *k = pipeline_process_of(p, r->tgid);
	struct entity of = ENTITY_OF_PID(r->tgid);
	bool is_due = !k->counts_told_ns || r->until_ns >= k->counts_told_ns + COUNTS_NS;
	k->counts.migrations += r->migrations;
	k->counts.uninterruptible_ns += r->uninterruptible_ns;
	bool is_new = k->counts.migrations != k->counts_told.migrations ||
		      k->counts.uninterruptible_ns != k->counts_told.uninterruptible_ns;
	if (!is_due && !(r->last && is_new))
		return;
	if (r->until_ns > k->counts_told_ns) /* rings are not read in the order of time */
		k->counts_told_ns = r->until_ns;
	k->counts_told = k->counts;
	pipeline_put_counter(p, k->counts_told_ns, &of, "migrations", (double)k->counts.migrations);
	pipeline_put_counter(p, k->counts_told_ns, &of, "uninterruptible_ns",
			     (double)k->counts.uninterruptible_ns);
}

void waits_add_sums(struct pipeline *p, const struct rec_wait_sums *r)
{
	char comm[sizeof(r->comm) + 1] = "";
	memcpy(comm, r->comm, sizeof(r->comm));
	if (!pipeline_is_told(p, r->tgid))
		return;
	add_counts(p, r);
	uint32_t thread = pipeline_thread_named(p, r->tgid, r->tid, comm);
	if (!is_news(p, thread, r))
		return;
	for (unsigned reason = 0; reason < WAIT_REASONS; reason++) {
		const struct wait_sum *s = &r->sums[reason];
		if (!s->count)
			continue;
		emit_wait_total(p, &(struct m_wait_total){
					   .thread = thread,
					   .reason = (uint8_t)reason,
					   .since_ns = r->since_ns,
					   .until_ns = r->until_ns,
					   .count = s->count,
					   .waited_ns = s->waited_ns,
					   .runnable_ns = s->runnable_ns,
					   .longest_ns = s->longest_ns,
					   .left_out = s->left_out,
					   .cpus = r->cpus,
					   .uninterruptible_ns = s->uninterruptible_ns,
				   });
	}
}
