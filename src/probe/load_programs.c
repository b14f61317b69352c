/* load_programs.c - most of the time that loading takes is the kernel's verifier's, which checks
 * programs of several threads at once. libbpf loads them one after another, with this file's
 * function in the place of its own (ld --wrap=bpf_prog_load): it answers with a descriptor that
 * stands for the program, which takes its number once it is there. A libbpf that is linked
 * dynamically calls its own function: then they are loaded one after another. */
#include "probe/load_programs.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/thread.h"

#define THREADS_MOST 8

/* What points elsewhere lives as long as the object. */
struct program {
	enum bpf_prog_type type;
	const char *name, *license;
	const struct bpf_insn *insns;
	size_t n;
	struct bpf_prog_load_opts opts;
	int fd;	    /* stands for it */
	int loaded; /* the program's own; -1 = not yet */
};

struct loading {
	const struct bpf_object_skeleton *object;
	const struct beside_programs *beside;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t wake;
	VEC(struct program) programs;
	size_t begun;
	bool all; /* no more come */
	int failed;
	pthread_t threads[THREADS_MOST], beside_thread;
	size_t nthreads, most;
	bool has_beside, maps_are_there;
};

static _Thread_local struct loading *under_way;

int __real_bpf_prog_load(enum bpf_prog_type type, const char *name, const char *license,
			 const struct bpf_insn *insns, size_t n,
			 const struct bpf_prog_load_opts *opts);
int __wrap_bpf_prog_load(enum bpf_prog_type type, const char *name, const char *license,
			 const struct bpf_insn *insns, size_t n,
			 const struct bpf_prog_load_opts *opts);

/* ---- the threads ---- */

/* False when all have begun. */
static bool next_program(struct loading *l, struct program *ret, size_t *ret_index)
{
	pthread_mutex_lock(&l->lock);
	while (l->begun == l->programs.len && !l->all)
		pthread_cond_wait(&l->wake, &l->lock);
	bool more = l->begun < l->programs.len && !l->failed;
	if (more) {
		*ret_index = l->begun++;
		*ret = l->programs.data[*ret_index];
	}
	pthread_mutex_unlock(&l->lock);
	return more;
}

static void fail(struct loading *l, int code)
{
	pthread_mutex_lock(&l->lock);
	l->failed = l->failed ? l->failed : code;
	pthread_mutex_unlock(&l->lock);
}

static void load_one(struct loading *l, const struct program *p, size_t index)
{
	int fd = __real_bpf_prog_load(p->type, p->name, p->license, p->insns, p->n, &p->opts);
	if (fd < 0)
		fail(l, -errno);
	pthread_mutex_lock(&l->lock);
	l->programs.data[index].loaded = fd;
	pthread_mutex_unlock(&l->lock);
}

static void *load_some(void *ctx)
{
	struct loading *l = ctx;
	struct program p;
	size_t index;
	while (next_program(l, &p, &index))
		load_one(l, &p, index);
	return NULL;
}

/* ---- libbpf's thread ---- */

static void begin_beside(struct loading *l)
{
	if (l->maps_are_there || !l->beside)
		return;
	l->maps_are_there = true;
	l->has_beside =
		!thread_start(&l->beside_thread, l->beside->run, l->beside->ctx, "eacgm-beside");
	if (!l->has_beside)
		l->beside->run(l->beside->ctx);
}

/* Its descriptor, or negative errno. */
static int load_later(struct loading *l, struct program *p)
{
	p->fd = eventfd(0, EFD_CLOEXEC);
	if (p->fd < 0)
		return -errno;
	pthread_mutex_lock(&l->lock);
	*vec_push(&l->programs) = *p;
	bool another = l->nthreads < l->most;
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->lock);
	if (another && !thread_start(&l->threads[l->nthreads], load_some, l, "eacgm-load"))
		l->nthreads++;
	return p->fd;
}

static bool is_of_object(const struct loading *l, const struct bpf_insn *insns)
{
	for (int i = 0; i < l->object->prog_cnt; i++)
		if (bpf_program__insns(*l->object->progs[i].prog) == insns)
			return true;
	return false;
}

/* What libbpf tries the kernel with is loaded at once; so is what it tries again for a log. */
int __wrap_bpf_prog_load(enum bpf_prog_type type, const char *name, const char *license,
			 const struct bpf_insn *insns, size_t n,
			 const struct bpf_prog_load_opts *opts)
{
	struct loading *l = under_way;
	struct program p = {type, name, license, insns, n, {0}, -1, -1};
	if (!l || !name || !opts || opts->log_buf || opts->sz > sizeof(p.opts) ||
	    !is_of_object(l, insns))
		return __real_bpf_prog_load(type, name, license, insns, n, opts);
	begin_beside(l);
	memcpy(&p.opts, opts, opts->sz);
	if (l->most)
		return load_later(l, &p);
	return __real_bpf_prog_load(type, name, license, insns, n, opts);
}

/* ---- begin and end ---- */

static size_t threads_most(void)
{
	cpu_set_t cpus;
	size_t n = sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : (size_t)CPU_COUNT(&cpus);
	return n < THREADS_MOST ? n : THREADS_MOST;
}

/* The numbers that libbpf has are the programs' from here on. After a failure libbpf has closed
 * them: they may be others' by now. */
static void give_numbers(struct loading *l)
{
	for (size_t i = 0; i < l->programs.len; i++) {
		const struct program *p = &l->programs.data[i];
		if (!l->failed && dup3(p->loaded, p->fd, O_CLOEXEC) < 0)
			l->failed = -errno;
		if (p->loaded >= 0)
			close(p->loaded);
	}
}

static void end(struct loading *l)
{
	pthread_mutex_lock(&l->lock);
	l->all = true;
	pthread_cond_broadcast(&l->wake);
	pthread_mutex_unlock(&l->lock);
	for (size_t i = 0; i < l->nthreads; i++)
		pthread_join(l->threads[i], NULL);
	load_some(l); /* where no thread could be started */
	if (l->has_beside)
		pthread_join(l->beside_thread, NULL);
	give_numbers(l);
	vec_free(&l->programs);
	pthread_cond_destroy(&l->wake);
	pthread_mutex_destroy(&l->lock);
}

int load_programs(struct bpf_object_skeleton *s, bool at_once, const struct beside_programs *beside)
{
	struct loading l = {.object = s, .beside = beside, .most = at_once ? threads_most() : 0};
	pthread_mutex_init(&l.lock, NULL);
	pthread_cond_init(&l.wake, NULL);
	under_way = &l;
	int rc = bpf_object__load_skeleton(s);
	under_way = NULL;
	if (!rc)
		begin_beside(&l); /* libbpf's own function was called */
	else
		fail(&l, rc);
	end(&l);
	return rc ? rc : l.failed;
}
