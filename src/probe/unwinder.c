/* unwinder.c - the thread that reads what processes have mapped and publishes it to BPF.
 *
 * Order: processes are published first, with a number for each file's table; then the files'
 * rules are compiled, one by one, and appear under their numbers. Mappings that BPF may still be
 * searching are deleted a second after they were replaced. */
#include "probe/unwinder.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map64.h"
#include "base/thread.h"
#include "probe/mapping_set.h"

#define GRACE_NS   1000000000ULL
#define TICK_MS	   250
#define LOOKS_MAX  65536 /* processes that wait for the thread */
#define HANDED_MAX 64	 /* of these, whose mappings are kept until then */
#define WANTS_MAX  1024	 /* pages that are asked for; others are asked for again */

/* Of a stack, where return addresses are looked for. */
#define STACK_PAGES 16
#define STACK_PAGE  4096

/* What a process had mapped when it was looked at. */
struct handed {
	pid_t pid;
	proc_maps_t maps;
};

struct unwinder {
	struct unwinder_maps maps;
	struct unwind_files *files; /* the thread's own */
	bool small;
	uint64_t stack[STACK_PAGES * STACK_PAGE / 8]; /* the thread's own */
	pthread_t thread;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t wake;
	pthread_cond_t idle;
	VEC(pid_t) queue;
	VEC(struct handed) handed; /* of some in the queue */
	VEC(struct rec_rules) wants;
	pid_t looking;	      /* what the thread is publishing, 0 = nothing */
	bool looking_at_dead; /* that process ended meanwhile */
	bool loading;	      /* files are left to be loaded */
	VEC(pid_t) awaited;   /* processes of which not all was there; 0 = all */
	int settled_fd;	      /* eventfd(2): now it is */
	bool stop;
	struct map64 sets_of; /* pid -> struct mapping_set * */
	VEC(struct mapping_set *) sets;
	uint32_t next_generation;
	struct unwinder_stats stats;
};

/* ---- sets ---- */

static void set_unref(struct mapping_set *s)
{
	if (!--s->refs)
		s->unused_ns = monotonic_ns();
}

/* With the lock held: the process has this set now, NULL = none. */
static void assign(struct unwinder *u, pid_t pid, struct mapping_set *s)
{
	uint64_t before;
	if (map64_get(&u->sets_of, (uint64_t)pid, &before))
		set_unref((struct mapping_set *)before);
	if (!s) {
		map64_del(&u->sets_of, (uint64_t)pid);
		return;
	}
	s->refs++;
	map64_set(&u->sets_of, (uint64_t)pid, (uint64_t)s);
}

static void delete_blocks(struct unwinder *u, const struct mapping_set *s)
{
	struct unwind_block_key key = {.owner = s->owner, .generation = s->generation};
	for (; key.block < s->blocks; key.block++)
		bpf_map_delete_elem(u->maps.blocks, &key);
}

static void set_free(struct unwinder *u, struct mapping_set *s)
{
	delete_blocks(u, s);
	mapping_set_free(s);
}

static void collect_garbage(struct unwinder *u)
{
	uint64_t now = monotonic_ns();
	pthread_mutex_lock(&u->lock);
	for (size_t i = u->sets.len; i-- > 0;) {
		struct mapping_set *s = u->sets.data[i];
		if (s->refs || now - s->unused_ns < GRACE_NS)
			continue;
		u->sets.data[i] = u->sets.data[--u->sets.len];
		set_free(u, s);
	}
	pthread_mutex_unlock(&u->lock);
}

/* ---- publishing ---- */

struct publication {
	struct unwinder *u;
	pid_t pid;
	const struct mapping_set *before; /* NULL = none */
	struct mapping_set *set;
	struct unwind_process process;
	struct unwind_block block; /* being filled */
	bool failed;
};

static void write_block(struct publication *p)
{
	struct unwind_block_key key = {
		.owner = p->set->owner, .generation = p->set->generation, .block = p->set->blocks};
	if (bpf_map_update_elem(p->u->maps.blocks, &key, &p->block, BPF_ANY)) {
		p->failed = true;
		return;
	}
	p->set->blocks++;
	memset(&p->block, 0, sizeof(p->block));
}

static void add_mapping(struct publication *p, const struct unwind_mapping *m)
{
	p->block.m[p->process.mappings++ % UNWIND_BLOCK_MAPPINGS] = *m;
	if (p->process.mappings % UNWIND_BLOCK_MAPPINGS == 0)
		write_block(p);
}

static void add_python(struct publication *p, const struct unwind_python *py, uint64_t bias)
{
	p->process.python = 1;
	p->process.py_runtime = py->runtime + bias;
	p->process.py_frames = py->frames;
	p->process.py_layout = py->layout;
	for (int i = 0; i < PY_EVAL_RANGES && py->eval[i][1]; i++) {
		p->process.eval[i][0] = py->eval[i][0] + bias;
		p->process.eval[i][1] = py->eval[i][1] + bias;
	}
}

static struct unwind_file *file_of(struct publication *p, const struct proc_map *m)
{
	if (!m->inode && strcmp(m->path, "[vdso]") != 0)
		return NULL;
	struct unwind_file *f = mapping_set_file(p->before, m);
	if (!f)
		return unwind_files_get(p->u->files, p->pid, m);
	unwind_file_ref(f);
	return f;
}

static void publish_map(struct publication *p, const struct proc_map *m)
{
	struct unwind_mapping mapping = {
		.start = m->start, .end = m->end, .table = MAPPING_NO_RULES};
	struct unwind_file *f = file_of(p, m);
	uint64_t bias = 0;
	if (f && unwind_file_bias(f, m, &bias)) {
		const struct unwind_python *py = unwind_file_python(f);
		mapping.bias = bias;
		mapping.table = unwind_file_table(f);
		if (py && !p->process.python)
			add_python(p, py, bias);
	}
	mapping_set_add(p->set, m, f);
	add_mapping(p, &mapping);
}

static void collect(struct publication *p, const proc_maps_t *maps)
{
	p->set = xcalloc(1, sizeof(*p->set));
	p->set->owner = p->process.owner = (uint32_t)p->pid;
	p->set->generation = p->process.generation = ++p->u->next_generation;
	for (size_t i = 0; i < maps->len; i++) {
		if (!p->failed)
			publish_map(p, &maps->data[i]);
	}
	if (p->process.mappings % UNWIND_BLOCK_MAPPINGS)
		write_block(p);
}

/* With the lock held. */
static struct mapping_set *set_of(const struct unwinder *u, pid_t pid)
{
	uint64_t set;
	return map64_get(&u->sets_of, (uint64_t)pid, &set) ? (struct mapping_set *)set : NULL;
}

/* Makes the set the process's; false when it is not worth it, or the process has ended. */
static bool install(struct publication *p)
{
	struct unwinder *u = p->u;
	uint32_t key = (uint32_t)p->pid;
	pthread_mutex_lock(&u->lock);
	bool wanted = !p->failed && p->process.mappings && !u->looking_at_dead &&
		      !bpf_map_update_elem(u->maps.processes, &key, &p->process, BPF_ANY);
	if (wanted) {
		*vec_push(&u->sets) = p->set;
		assign(u, p->pid, p->set);
	}
	pthread_mutex_unlock(&u->lock);
	return wanted;
}

/* The set that a process has stays as long as this thread does not collect it. */
static const struct mapping_set *set_before(struct unwinder *u, pid_t pid)
{
	pthread_mutex_lock(&u->lock);
	const struct mapping_set *s = set_of(u, pid);
	pthread_mutex_unlock(&u->lock);
	return s;
}

static void publish(struct unwinder *u, pid_t pid, proc_maps_t *maps)
{
	struct err e;
	struct publication p = {.u = u, .pid = pid, .before = set_before(u, pid)};
	if (!maps->len && proc_code_read("/proc", pid, maps, &e))
		return; /* it has ended */
	if (p.before && p.before->owner == (uint32_t)pid && mapping_set_is(p.before, maps))
		return; /* what is as it was is not published again */
	collect(&p, maps);
	if (!install(&p))
		set_free(u, p.set);
}

/* ---- pages ---- */

/* Reads the used end of a stack; how many words of it. Pages behind its beginning are not mapped.
 */
static size_t read_stack(struct unwinder *u, pid_t pid, uint64_t sp)
{
	struct iovec to = {u->stack, sizeof(u->stack)}, pages[STACK_PAGES];
	uint64_t at = sp & ~7ULL;
	for (size_t i = 0; i < STACK_PAGES; i++) {
		size_t len = STACK_PAGE - at % STACK_PAGE;
		pages[i] = (struct iovec){(void *)at, len};
		at += len;
	}
	ssize_t n = process_vm_readv(pid, &to, 1, pages, STACK_PAGES, 0);
	return n > 0 ? (size_t)n / sizeof(u->stack[0]) : 0;
}

/* A stack is cut at the first page that is not there. So that those behind it do not cut the next
 * ones, pages of all that lies on the stack and looks like a return address come at once. */
static void bring_callers(struct unwinder *u, const struct rec_rules *r)
{
	const struct mapping_set *set = set_before(u, (pid_t)r->tgid);
	size_t n = set ? read_stack(u, (pid_t)r->tgid, r->sp) : 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t address = u->stack[i] - 1, bias;
		const struct mapped_code *c = mapping_set_at(set, address);
		if (c && c->file && unwind_file_bias(c->file, &c->map, &bias))
			unwind_files_want_at(u->files, c->file, address - bias);
	}
}

static void bring_wanted(struct unwinder *u)
{
	pthread_mutex_lock(&u->lock);
	VEC(struct rec_rules) wants = {u->wants.data, u->wants.len, u->wants.cap};
	u->wants.data = NULL;
	u->wants.len = u->wants.cap = 0;
	pthread_mutex_unlock(&u->lock);
	for (size_t i = 0; i < wants.len && !unwind_files_are_full(u->files); i++) {
		unwind_files_want(u->files, wants.data[i].table, wants.data[i].page);
		bring_callers(u, &wants.data[i]);
	}
	vec_free(&wants);
}

/* ---- the thread ---- */

/* With the lock held: what was handed over of a process, if anything. */
static proc_maps_t take_handed(struct unwinder *u, pid_t pid)
{
	proc_maps_t maps = {0};
	for (size_t i = 0; i < u->handed.len; i++) {
		if (u->handed.data[i].pid != pid)
			continue;
		maps = u->handed.data[i].maps;
		u->handed.data[i] = u->handed.data[--u->handed.len];
		break;
	}
	return maps;
}

static void drop_handed(struct unwinder *u, pid_t pid)
{
	proc_maps_t maps = take_handed(u, pid);
	proc_maps_free(&maps);
}

/* With the lock held: until there is a process to look at, or a tick; 0 = none. */
static pid_t next_look(struct unwinder *u)
{
	if (!u->queue.len && !u->loading && !u->wants.len) {
		struct timespec until;
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += TICK_MS * 1000000L;
		if (until.tv_nsec >= 1000000000L) {
			until.tv_nsec -= 1000000000L;
			until.tv_sec++;
		}
		pthread_cond_clockwait(&u->wake, &u->lock, CLOCK_MONOTONIC, &until);
	}
	if (!u->queue.len)
		return 0;
	pid_t pid = u->queue.data[0];
	u->queue.len--;
	memmove(u->queue.data, u->queue.data + 1, u->queue.len * sizeof(pid));
	return pid;
}

/* With the lock held: whether all of a process, or of all, is there. */
static bool is_settled(const struct unwinder *u, pid_t pid)
{
	if (!pid)
		return !u->queue.len && !u->looking && !u->loading;
	if (u->looking == pid)
		return false;
	for (size_t i = 0; i < u->queue.len; i++) {
		if (u->queue.data[i] == pid)
			return false;
	}
	const struct mapping_set *s = set_of(u, pid);
	return !s || !mapping_set_pending(s);
}

/* With the lock held: somebody was told that not all is there. */
static void await(struct unwinder *u, pid_t pid)
{
	for (size_t i = 0; i < u->awaited.len; i++)
		if (u->awaited.data[i] == pid)
			return;
	*vec_push(&u->awaited) = pid;
}

/* With the lock held: a step is done. */
static void tell_settled(struct unwinder *u)
{
	uint64_t one = 1;
	size_t waited = u->awaited.len;
	pthread_cond_broadcast(&u->idle);
	for (size_t i = waited; i-- > 0;)
		if (is_settled(u, u->awaited.data[i]))
			u->awaited.data[i] = u->awaited.data[--u->awaited.len];
	if (u->awaited.len < waited)
		(void)!write(u->settled_fd, &one, sizeof(one));
}

static void *work(void *arg)
{
	struct unwinder *u = arg;
	setpriority(PRIO_PROCESS, 0,
		    -10); /* tasks may be held for it; it compiles nothing itself */
	pthread_mutex_lock(&u->lock);
	while (!u->stop) {
		u->looking = next_look(u);
		u->looking_at_dead = false;
		proc_maps_t maps = take_handed(u, u->looking);
		bool loading = u->loading;
		pthread_mutex_unlock(&u->lock);
		if (u->looking) {
			publish(u, u->looking, &maps);
			proc_maps_free(&maps);
			loading = true;
		} else if (loading) {
			loading = unwind_files_load(u->files);
		}
		bring_wanted(u);
		collect_garbage(u);
		if (u->small)
			unwind_files_age(u->files);
		pthread_mutex_lock(&u->lock);
		u->looking = 0;
		u->loading = loading;
		unwind_files_stats(u->files, &u->stats);
		tell_settled(u);
	}
	pthread_mutex_unlock(&u->lock);
	return NULL;
}

/* ---- the interface ---- */

int unwinder_start(struct unwinder **ret, const struct unwinder_maps *maps,
		   const struct unwinder_listener *listener, struct parser_host *host, bool small,
		   struct err *e)
{
	struct unwinder *u = xcalloc(1, sizeof(*u));
	u->maps = *maps;
	u->small = small;
	u->settled_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	u->files = unwind_files_new(maps, listener, host, small);
	pthread_mutex_init(&u->lock, NULL);
	pthread_cond_init(&u->wake, NULL);
	pthread_cond_init(&u->idle, NULL);
	int rc = thread_start(&u->thread, work, u, "eacgm-unwind");
	if (rc) {
		unwind_files_free(u->files);
		close(u->settled_fd);
		free(u);
		return err_set(e, -rc, "cannot start a thread: %s", strerror(-rc));
	}
	*ret = u;
	return 0;
}

void unwinder_stop(struct unwinder *u)
{
	if (!u)
		return;
	pthread_mutex_lock(&u->lock);
	u->stop = true;
	pthread_cond_signal(&u->wake);
	pthread_mutex_unlock(&u->lock);
	pthread_join(u->thread, NULL);
	for (size_t i = 0; i < u->sets.len; i++)
		set_free(u, u->sets.data[i]);
	vec_free(&u->sets);
	vec_free(&u->queue);
	vec_free(&u->wants);
	vec_free(&u->awaited);
	while (u->handed.len)
		drop_handed(u, u->handed.data[0].pid);
	vec_free(&u->handed);
	map64_free(&u->sets_of);
	unwind_files_free(u->files);
	pthread_mutex_destroy(&u->lock);
	pthread_cond_destroy(&u->wake);
	pthread_cond_destroy(&u->idle);
	close(u->settled_fd);
	free(u);
}

/* With the lock held; false when too many wait. */
static bool enqueue(struct unwinder *u, pid_t pid)
{
	for (size_t i = 0; i < u->queue.len; i++)
		if (u->queue.data[i] == pid)
			return true;
	if (u->queue.len >= LOOKS_MAX)
		return false;
	*vec_push(&u->queue) = pid;
	return true;
}

void unwinder_look(struct unwinder *u, pid_t pid, proc_maps_t *maps)
{
	pthread_mutex_lock(&u->lock);
	drop_handed(u, pid); /* older */
	if (enqueue(u, pid) && u->handed.len < HANDED_MAX) {
		*vec_push(&u->handed) = (struct handed){pid, *maps};
		*maps = (proc_maps_t){0};
	}
	pthread_cond_signal(&u->wake);
	pthread_mutex_unlock(&u->lock);
	proc_maps_free(maps);
}

/* With the lock held: the set that BPF gave a process, NULL when it is not known any more. */
static struct mapping_set *published_set(const struct unwinder *u, pid_t pid)
{
	struct unwind_process process;
	uint32_t key = (uint32_t)pid;
	if (bpf_map_lookup_elem(u->maps.processes, &key, &process))
		return NULL;
	for (size_t i = u->sets.len; i-- > 0;) {
		struct mapping_set *s = u->sets.data[i];
		if (s->owner == process.owner && s->generation == process.generation)
			return s;
	}
	return NULL;
}

void unwinder_want(struct unwinder *u, const struct rec_rules *r)
{
	pthread_mutex_lock(&u->lock);
	if (u->wants.len < WANTS_MAX)
		*vec_push(&u->wants) = *r;
	pthread_cond_signal(&u->wake);
	pthread_mutex_unlock(&u->lock);
}

bool unwinder_forked(struct unwinder *u, pid_t child)
{
	pthread_mutex_lock(&u->lock);
	struct mapping_set *s = published_set(u, child);
	if (s)
		assign(u, child, s);
	pthread_mutex_unlock(&u->lock);
	return s;
}

void unwinder_forget(struct unwinder *u, pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	pthread_mutex_lock(&u->lock);
	assign(u, pid, NULL);
	drop_handed(u, pid);
	for (size_t i = u->queue.len; i-- > 0;) {
		if (u->queue.data[i] != pid)
			continue;
		u->queue.len--;
		memmove(&u->queue.data[i], &u->queue.data[i + 1], (u->queue.len - i) * sizeof(pid));
	}
	u->looking_at_dead |= u->looking == pid;
	bpf_map_delete_elem(u->maps.processes, &key);
	pthread_mutex_unlock(&u->lock);
}

bool unwinder_settle(struct unwinder *u, pid_t pid, unsigned timeout_ms)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += (long)(timeout_ms % 1000) * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_nsec -= 1000000000L;
		until.tv_sec++;
	}
	pthread_mutex_lock(&u->lock);
	bool settled;
	int rc = 0;
	while (!(settled = is_settled(u, pid)) && !rc)
		rc = pthread_cond_clockwait(&u->idle, &u->lock, CLOCK_MONOTONIC, &until);
	if (!settled)
		await(u, pid);
	pthread_mutex_unlock(&u->lock);
	return settled;
}

int unwinder_fd(const struct unwinder *u)
{
	return u->settled_fd;
}

void unwinder_stats(struct unwinder *u, struct unwinder_stats *ret)
{
	pthread_mutex_lock(&u->lock);
	*ret = u->stats;
	ret->processes = u->sets_of.len;
	pthread_mutex_unlock(&u->lock);
}
