/* ring_process.h - a made-up process that tells its calls through a file, for tests of
 * collect/call_rings.h: the test's own pid, and files as inject/calls/threads.c makes them. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "collect/call_rings.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

struct told {
	struct rec_call call;
	uint32_t mark;
};

struct upto {
	uint32_t pid;
	uint64_t ns;
	size_t calls; /* that had come by then */
};

struct told_code {
	uint64_t id;
	uint32_t line;
	char text[2048];
};

static struct {
	VEC(struct told_code) codes;
	char parent[64];
	struct call_rings *rings;
	VEC(struct told) calls;
	VEC(struct upto) uptos;
	bool late; /* a call that ended before what on_upto said */
} t;

static inline void on_call(void *ctx, const struct rec_call *call, uint32_t mark)
{
	assert_ptr_equal(ctx, &t);
	*vec_push(&t.calls) = (struct told){*call, mark};
	for (size_t i = 0; i < t.uptos.len; i++)
		t.late |= t.uptos.data[i].pid == call->tgid &&
			  call->start_ns + call->dur_ns < t.uptos.data[i].ns;
}

static inline void on_upto(void *ctx, uint32_t pid, uint64_t ns)
{
	assert_ptr_equal(ctx, &t);
	*vec_push(&t.uptos) = (struct upto){pid, ns, t.calls.len};
}

static inline void on_code(void *ctx, uint64_t id, const struct call_text *name,
			   const struct call_text *file, uint32_t line)
{
	struct told_code *c = vec_push(&t.codes);
	assert_ptr_equal(ctx, &t);
	*c = (struct told_code){.id = id, .line = line};
	snprintf(c->text, sizeof(c->text), "%.*s|%.*s", (int)name->len, name->bytes, (int)file->len,
		 file->bytes);
}

static inline void open_rings(uid_t uid)
{
	struct call_rings_events events = {
		.on_call = on_call, .on_code = on_code, .on_upto = on_upto, .ctx = &t};
	struct err e;
	assert_int_equal(call_rings_open(&t.rings, t.parent, uid, getegid(), &events, &e), 0);
}

static inline int set_up(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	strcpy(t.parent, "/tmp/call_rings_test-XXXXXX");
	assert_non_null(mkdtemp(t.parent));
	open_rings(geteuid());
	return 0;
}

/* The folder goes, with all that is in it. */
static inline int tear_down(void **state)
{
	(void)state;
	call_rings_close(t.rings);
	vec_free(&t.calls);
	vec_free(&t.uptos);
	vec_free(&t.codes);
	return rmdir(t.parent);
}

static inline void forget_told(void)
{
	t.calls.len = t.uptos.len = 0;
}

/* ---- the process ---- */

struct process {
	int fd;
	uint64_t heads[CALL_THREADS_MOST];
	char path[PATH_MAX];
};

static inline void path_of(char ret[PATH_MAX], const char *name)
{
	snprintf(ret, PATH_MAX, "%s/%s", call_rings_folder(t.rings), name);
}

static inline const char *own_name(void)
{
	static char name[32];
	snprintf(name, sizeof(name), "%d", getpid());
	return name;
}

static inline void put(const struct process *p, off_t at, const void *data, size_t n)
{
	assert_int_equal(pwrite(p->fd, data, n, at), n);
}

static inline void get(const struct process *p, off_t at, void *ret, size_t n)
{
	assert_int_equal(pread(p->fd, ret, n, at), n);
}

static inline struct process make_empty(const char *name)
{
	struct process p = {0};
	path_of(p.path, name);
	p.fd = open(p.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(p.fd >= 0);
	return p;
}

static inline void put_header(const struct process *p, bool counted)
{
	struct call_header h = {.magic = CALL_MAGIC, .pid = (uint32_t)getpid(), .counted = counted};
	assert_int_equal(ftruncate(p->fd, (off_t)CALL_FILE_BYTES), 0);
	put(p, 0, &h, sizeof(h));
}

static inline struct process make_process(const char *name, bool counted)
{
	struct process p = make_empty(name);
	put_header(&p, counted);
	return p;
}

static inline off_t slot_at(uint32_t i)
{
	return (off_t)(CALL_HEADER_BYTES + (uint64_t)i * CALL_SLOT_BYTES);
}

extern const struct call_slot any_slot; /* for its types alone: there is none */

#define PUT_SLOT(p, i, field, value)                                                               \
	do {                                                                                       \
		__typeof__(any_slot.field) put_value = (value);                                    \
		put(p, slot_at(i) + (off_t)offsetof(struct call_slot, field), &put_value,          \
		    sizeof(put_value));                                                            \
	} while (0)
#define GET_SLOT(p, i, field, ret)                                                                 \
	get(p, slot_at(i) + (off_t)offsetof(struct call_slot, field), ret, sizeof(any_slot.field))

static inline uint64_t tail_of(const struct process *p, uint32_t i)
{
	uint64_t tail;
	GET_SLOT(p, i, tail, &tail);
	return tail;
}

static inline uint32_t state_of(const struct process *p, uint32_t i)
{
	uint32_t slot_state;
	GET_SLOT(p, i, state, &slot_state);
	return slot_state;
}

static inline void begin_thread(const struct process *p, uint32_t i, uint32_t tid)
{
	PUT_SLOT(p, i, state, CALL_SLOT_USED);
	PUT_SLOT(p, i, tid, tid);
}

/* Whether the words went on at the ring's beginning. */
static inline bool put_words(struct process *p, uint32_t i, const uint64_t *words, size_t n)
{
	bool wrapped = false;
	for (size_t k = 0; k < n; k++) {
		uint64_t at = p->heads[i] % CALL_RING_BYTES;
		wrapped |= k && !at;
		put(p, slot_at(i) + CALL_SLOT_HEADER + (off_t)at, &words[k], sizeof(*words));
		p->heads[i] += sizeof(*words);
	}
	return wrapped;
}

static inline void put_head(const struct process *p, uint32_t i)
{
	PUT_SLOT(p, i, head, p->heads[i]);
}

/* Without the head. args: NULL = 1, 2, 3, ... */
static inline bool put_record(struct process *p, uint32_t i, const struct call_record *r)
{
	uint64_t words[sizeof(*r) / 8 + UINT8_MAX + 1] = {0};
	memcpy(words, r, sizeof(*r));
	for (size_t k = 0; k < r->nargs; k++)
		words[sizeof(*r) / 8 + k] = r->start + k;
	if (r->marked)
		words[sizeof(*r) / 8 + r->nargs] = r->start + 1000;
	return put_words(p, i, words, sizeof(*r) / 8 + r->nargs + (r->marked ? 1 : 0));
}

static inline void put_call(struct process *p, uint32_t i, uint64_t start, uint64_t end)
{
	struct call_record r = {.probe = 7, .nargs = 1, .start = start, .end = end};
	put_record(p, i, &r);
	put_head(p, i);
}

static inline struct call_rings_stats stats(void)
{
	struct call_rings_stats st;
	call_rings_stats(t.rings, &st);
	return st;
}

/* Until so many files were found: one looks for new ones now and then. */
static inline size_t drain_until(uint64_t processes)
{
	size_t calls = 0;
	for (int i = 0; i < 10000 && stats().processes < processes; i++) {
		calls += call_rings_drain(t.rings);
		usleep(1000);
	}
	assert_int_equal(stats().processes, processes);
	return calls;
}

static inline void assert_call(const struct told *told, const struct call_record *r, uint32_t tid)
{
	const struct rec_call *c = &told->call;
	assert_int_equal(c->kind, REC_CALL);
	assert_int_equal(c->flags, r->flags);
	assert_int_equal(c->depth, r->depth);
	assert_int_equal(c->nargs, r->nargs);
	assert_int_equal(c->probe, r->probe);
	assert_int_equal(c->tgid, getpid());
	assert_int_equal(c->tid, tid);
	assert_int_equal(c->start_ns, r->start);
	assert_int_equal(c->dur_ns, r->end - r->start);
	for (uint32_t i = 0; i < MAX_ARGS; i++)
		assert_int_equal(c->args[i], i < r->nargs ? r->start + i : 0);
	assert_int_equal(told->mark, r->marked ? r->start + 1000 : 0);
}

static inline void put_open(const struct process *p, uint32_t i, uint32_t k,
			    const struct call_open *o)
{
	put(p, slot_at(i) + (off_t)(offsetof(struct call_slot, open) + k * sizeof(*o)), o,
	    sizeof(*o));
}

/* Two programs of a process that has ended, one after the other. */
static inline pid_t make_dead(struct process *first, struct process *second)
{
	char name[32], next[64];
	pid_t pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	snprintf(name, sizeof(name), "%d", pid);
	snprintf(next, sizeof(next), "%d.1", pid);
	*first = make_process(name, false);
	*second = make_process(next, false);
	return pid;
}

#define SIMPLE_FLAGS                                                                               \
	(CALL_NESTED | CALL_UNWOUND | CALL_ARG_FAULT | CALL_ARG_CUT | CALL_ERROR | CALL_NAMED)

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
