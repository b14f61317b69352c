/* call_rings_test.c - the calls that processes tell through files, by a process that is made up:
 * the test's own pid, and files as inject/calls/threads.c makes them.
 *
 * links: base collect symbolize */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "collect/call_rings.h"
#include "wire/ticks.h"

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

static void on_call(void *ctx, const struct rec_call *call, uint32_t mark)
{
	assert_ptr_equal(ctx, &t);
	*vec_push(&t.calls) = (struct told){*call, mark};
	for (size_t i = 0; i < t.uptos.len; i++)
		t.late |= t.uptos.data[i].pid == call->tgid &&
			  call->start_ns + call->dur_ns < t.uptos.data[i].ns;
}

static void on_upto(void *ctx, uint32_t pid, uint64_t ns)
{
	assert_ptr_equal(ctx, &t);
	*vec_push(&t.uptos) = (struct upto){pid, ns, t.calls.len};
}

static void on_code(void *ctx, uint64_t id, const struct call_text *name,
		    const struct call_text *file, uint32_t line)
{
	struct told_code *c = vec_push(&t.codes);
	assert_ptr_equal(ctx, &t);
	*c = (struct told_code){.id = id, .line = line};
	snprintf(c->text, sizeof(c->text), "%.*s|%.*s", (int)name->len, name->bytes, (int)file->len,
		 file->bytes);
}

static void open_rings(uid_t uid)
{
	struct call_rings_events events = {
		.on_call = on_call, .on_code = on_code, .on_upto = on_upto, .ctx = &t};
	struct err e;
	assert_int_equal(call_rings_open(&t.rings, t.parent, uid, getegid(), &events, &e), 0);
}

static int set_up(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	strcpy(t.parent, "/tmp/call_rings_test-XXXXXX");
	assert_non_null(mkdtemp(t.parent));
	open_rings(geteuid());
	return 0;
}

/* The folder goes, with all that is in it. */
static int tear_down(void **state)
{
	(void)state;
	call_rings_close(t.rings);
	vec_free(&t.calls);
	vec_free(&t.uptos);
	vec_free(&t.codes);
	return rmdir(t.parent);
}

static void forget_told(void)
{
	t.calls.len = t.uptos.len = 0;
}

/* ---- the process ---- */

struct process {
	int fd;
	uint64_t heads[CALL_THREADS_MOST];
	char path[PATH_MAX];
};

static void path_of(char ret[PATH_MAX], const char *name)
{
	snprintf(ret, PATH_MAX, "%s/%s", call_rings_folder(t.rings), name);
}

static const char *own_name(void)
{
	static char name[32];
	snprintf(name, sizeof(name), "%d", getpid());
	return name;
}

static void put(const struct process *p, off_t at, const void *data, size_t n)
{
	assert_int_equal(pwrite(p->fd, data, n, at), n);
}

static void get(const struct process *p, off_t at, void *ret, size_t n)
{
	assert_int_equal(pread(p->fd, ret, n, at), n);
}

static struct process make_empty(const char *name)
{
	struct process p = {0};
	path_of(p.path, name);
	p.fd = open(p.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(p.fd >= 0);
	return p;
}

static void put_header(const struct process *p, bool counted)
{
	struct call_header h = {.magic = CALL_MAGIC, .pid = (uint32_t)getpid(), .counted = counted};
	assert_int_equal(ftruncate(p->fd, (off_t)CALL_FILE_BYTES), 0);
	put(p, 0, &h, sizeof(h));
}

static struct process make_process(const char *name, bool counted)
{
	struct process p = make_empty(name);
	put_header(&p, counted);
	return p;
}

static off_t slot_at(uint32_t i)
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

static uint64_t tail_of(const struct process *p, uint32_t i)
{
	uint64_t tail;
	GET_SLOT(p, i, tail, &tail);
	return tail;
}

static uint32_t state_of(const struct process *p, uint32_t i)
{
	uint32_t slot_state;
	GET_SLOT(p, i, state, &slot_state);
	return slot_state;
}

static void begin_thread(const struct process *p, uint32_t i, uint32_t tid)
{
	PUT_SLOT(p, i, state, CALL_SLOT_USED);
	PUT_SLOT(p, i, tid, tid);
}

/* Whether the words went on at the ring's beginning. */
static bool put_words(struct process *p, uint32_t i, const uint64_t *words, size_t n)
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

static void put_head(const struct process *p, uint32_t i)
{
	PUT_SLOT(p, i, head, p->heads[i]);
}

/* Without the head. args: NULL = 1, 2, 3, ... */
static bool put_record(struct process *p, uint32_t i, const struct call_record *r)
{
	uint64_t words[sizeof(*r) / 8 + UINT8_MAX + 1] = {0};
	memcpy(words, r, sizeof(*r));
	for (size_t k = 0; k < r->nargs; k++)
		words[sizeof(*r) / 8 + k] = r->start + k;
	if (r->marked)
		words[sizeof(*r) / 8 + r->nargs] = r->start + 1000;
	return put_words(p, i, words, sizeof(*r) / 8 + r->nargs + (r->marked ? 1 : 0));
}

static void put_call(struct process *p, uint32_t i, uint64_t start, uint64_t end)
{
	struct call_record r = {.probe = 7, .nargs = 1, .start = start, .end = end};
	put_record(p, i, &r);
	put_head(p, i);
}

static struct call_rings_stats stats(void)
{
	struct call_rings_stats st;
	call_rings_stats(t.rings, &st);
	return st;
}

/* Until so many files were found: one looks for new ones now and then. */
static size_t drain_until(uint64_t processes)
{
	size_t calls = 0;
	for (int i = 0; i < 10000 && stats().processes < processes; i++) {
		calls += call_rings_drain(t.rings);
		usleep(1000);
	}
	assert_int_equal(stats().processes, processes);
	return calls;
}

static void assert_call(const struct told *told, const struct call_record *r, uint32_t tid)
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

/* ---- calls ---- */

#define SIMPLE_FLAGS                                                                               \
	(CALL_NESTED | CALL_UNWOUND | CALL_ARG_FAULT | CALL_ARG_CUT | CALL_ERROR | CALL_NAMED)

static void test_calls(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_record in[40];
	size_t n = 0;
	(void)state;
	begin_thread(&p, 0, 1234);
	for (uint8_t nargs = 0; nargs <= MAX_ARGS; nargs++)
		for (uint8_t marked = 0; marked < 2; marked++, n++)
			in[n] = (struct call_record){.probe = (uint32_t)n * 900,
						     .depth = nargs,
						     .nargs = nargs,
						     .marked = marked,
						     .start = 1000000 + n,
						     .end = 1000000 + 10 * n};
	for (int bit = 0; bit < 8; bit++)
		if (SIMPLE_FLAGS & 1 << bit)
			in[n++] = (struct call_record){.flags = (uint8_t)(1 << bit),
						       .probe = MAX_PROBES - 1,
						       .start = 5,
						       .end = 5};
	in[n++] = (struct call_record){.flags = SIMPLE_FLAGS, .depth = 127, .start = 1, .end = 2};
	for (size_t i = 0; i < n; i++)
		put_record(&p, 0, &in[i]);
	/* nothing is there before the head says so */
	assert_int_equal(call_rings_drain(t.rings), 0);
	assert_int_equal(t.calls.len, 0);
	put_head(&p, 0);
	assert_int_equal(call_rings_drain(t.rings), n);
	assert_int_equal(t.calls.len, n);
	for (size_t i = 0; i < n; i++)
		assert_call(&t.calls.data[i], &in[i], 1234);
	assert_int_equal(tail_of(&p, 0), p.heads[0]);
	assert_int_equal(call_rings_drain(t.rings), 0);
	assert_int_equal(stats().calls, n);
	assert_int_equal(stats().processes, 1);
	assert_int_equal(stats().bad_records, 0);
	close(p.fd);
}

/* Each thread has its slot. */
static void test_threads(void **state)
{
	struct process p = make_process(own_name(), false);
	bool seen[CALL_THREADS_MOST] = {false};
	(void)state;
	for (uint32_t i = 0; i < CALL_THREADS_MOST; i++) {
		begin_thread(&p, i, 100 + i);
		put_call(&p, i, 1000 + i, 2000 + i);
	}
	assert_int_equal(call_rings_drain(t.rings), CALL_THREADS_MOST);
	for (size_t i = 0; i < t.calls.len; i++) {
		uint32_t k = t.calls.data[i].call.tid - 100;
		assert_in_range(k, 0, CALL_THREADS_MOST - 1);
		assert_false(seen[k]);
		seen[k] = true;
		assert_int_equal(t.calls.data[i].call.start_ns, 1000 + k);
	}
	close(p.fd);
}

static struct call_record numbered(uint64_t n)
{
	return (struct call_record){.probe = (uint32_t)(n % MAX_PROBES),
				    .nargs = (uint8_t)(n % 7),
				    .marked = n % 11 == 0,
				    .start = n,
				    .end = n + 1};
}

static size_t bytes_of(const struct call_record *r)
{
	return sizeof(*r) + 8u * r->nargs + (r->marked ? 8 : 0);
}

/* A writer that goes on as long as there is room, eight times around. */
static void test_wraps(void **state)
{
	struct process p = make_process(own_name(), false);
	uint64_t written = 0, read = 0;
	int wraps = 0;
	(void)state;
	begin_thread(&p, 0, 1234);
	while (p.heads[0] < 8ULL * CALL_RING_BYTES) {
		struct call_record r = numbered(written);
		/* by little and by much */
		uint64_t room = written % 3 ? CALL_RING_BYTES : CALL_RING_BYTES / 10;
		for (; p.heads[0] + bytes_of(&r) - tail_of(&p, 0) <= room; r = numbered(++written))
			wraps += put_record(&p, 0, &r);
		put_head(&p, 0);
		call_rings_drain(t.rings);
		assert_int_equal(tail_of(&p, 0), p.heads[0]);
		for (size_t i = 0; i < t.calls.len; i++, read++) {
			r = numbered(read);
			assert_call(&t.calls.data[i], &r, 1234);
		}
		assert_int_equal(read, written);
		t.calls.len = 0;
	}
	assert_true(wraps > 0);
	assert_int_equal(stats().bad_records, 0);
	close(p.fd);
}

/* Not a byte is left. */
static void test_full_ring(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < CALL_RING_BYTES / 32; i++) {
			struct call_record r = {.nargs = 1, .start = i, .end = i};
			put_record(&p, 0, &r);
		}
		put_head(&p, 0);
		assert_int_equal(call_rings_drain(t.rings), CALL_RING_BYTES / 32);
		assert_int_equal(stats().bad_records, 0);
	}
	close(p.fd);
}

static void test_thread_leaves(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	begin_thread(&p, 1, 1235);
	put_call(&p, 0, 10, 20);
	put_call(&p, 1, 11, 21);
	PUT_SLOT(&p, 0, state, CALL_SLOT_LEFT);
	assert_int_equal(call_rings_drain(t.rings), 2);
	assert_int_equal(state_of(&p, 0), CALL_SLOT_FREE);
	assert_int_equal(state_of(&p, 1), CALL_SLOT_USED);
	assert_int_equal(tail_of(&p, 0), p.heads[0]);
	/* a free one does not hide those behind it, and another thread takes it where it was left
	 */
	put_call(&p, 1, 12, 22);
	assert_int_equal(call_rings_drain(t.rings), 1);
	forget_told();
	begin_thread(&p, 0, 1236);
	put_call(&p, 0, 13, 23);
	assert_int_equal(call_rings_drain(t.rings), 1);
	assert_int_equal(t.calls.data[0].call.tid, 1236);
	assert_int_equal(t.calls.data[0].call.start_ns, 13);
	assert_int_equal(state_of(&p, 0), CALL_SLOT_USED);
	close(p.fd);
}

static void test_losses(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_rings_stats st;
	uint64_t no_slot = 5;
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		begin_thread(&p, i, 100 + i);
		PUT_SLOT(&p, i, full, 1);
		PUT_SLOT(&p, i, deep, 20);
		PUT_SLOT(&p, i, elsewhere, 300);
		PUT_SLOT(&p, i, unmatched, 4000);
		PUT_SLOT(&p, i, no_return, 50000);
	}
	put(&p, offsetof(struct call_header, no_slot), &no_slot, sizeof(no_slot));
	for (int again = 0; again < 2; again++) {
		call_rings_drain(t.rings);
		st = stats();
		assert_int_equal(st.full, 3);
		assert_int_equal(st.deep, 60);
		assert_int_equal(st.elsewhere, 900);
		assert_int_equal(st.unmatched, 12000);
		assert_int_equal(st.no_return, 150000);
		assert_int_equal(st.slotless, 5);
		assert_int_equal(st.calls, 0);
		assert_int_equal(st.bad_records, 0);
	}
	close(p.fd);
}

/* ---- files ---- */

static void test_next_program(void **state)
{
	char name[64];
	struct process first = make_process(own_name(), false), second;
	(void)state;
	begin_thread(&first, 0, 1234);
	put_call(&first, 0, 10, 20);
	snprintf(name, sizeof(name), "%d.1", getpid());
	second = make_process(name, false);
	begin_thread(&second, 0, 1234);
	put_call(&second, 0, 30, 40);
	put_call(&second, 0, 50, 60);
	assert_int_equal(call_rings_drain(t.rings), 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(t.calls.data[i].call.tgid, getpid());
	put_call(&first, 0, 70, 80); /* of a program that is no more */
	put_call(&second, 0, 90, 100);
	assert_int_equal(call_rings_drain(t.rings), 1);
	close(first.fd);
	close(second.fd);
}

/* A file that is made while others are read is found. */
static void test_later_process(void **state)
{
	char name[64];
	struct process first = make_process(own_name(), false), second;
	(void)state;
	drain_until(1);
	snprintf(name, sizeof(name), "%d.1", getpid());
	second = make_process(name, false);
	begin_thread(&second, 0, 1234);
	put_call(&second, 0, 30, 40);
	assert_int_equal(drain_until(2), 1);
	close(first.fd);
	close(second.fd);
}

/* The header's magic is written last. */
static void test_header_later(void **state)
{
	struct process p = make_process(own_name(), false);
	uint64_t magic = 0;
	(void)state;
	put(&p, offsetof(struct call_header, magic), &magic, sizeof(magic));
	begin_thread(&p, 0, 1234);
	put_call(&p, 0, 10, 20);
	for (int i = 0; i < 3; i++)
		assert_int_equal(call_rings_drain(t.rings), 0);
	assert_int_equal(t.uptos.len, 0);
	magic = CALL_MAGIC;
	put(&p, offsetof(struct call_header, magic), &magic, sizeof(magic));
	assert_int_equal(call_rings_drain(t.rings), 1);
	close(p.fd);
}

/* One that a good file was found behind: all of the folder was looked at. */
static void assert_only(struct process *good)
{
	begin_thread(good, 0, 1234);
	put_call(good, 0, 10, 20);
	assert_int_equal(drain_until(1), 1);
	assert_int_equal(t.calls.data[0].call.tid, 1234);
}

/* A whole file, of another thread. */
static struct process make_other(const char *name)
{
	struct process p = make_process(name, false);
	begin_thread(&p, 0, 4321);
	put_call(&p, 0, 11, 21);
	return p;
}

static void test_refused_names(void **state)
{
	static const char *const names[] = {"0",
					    "01",
					    "-1",
					    "+1",
					    " 1",
					    "1x",
					    "1-1",
					    "x1",
					    ".1",
					    "2147483648",
					    "4294967297",
					    "99999999999999999999",
					    "1.234567890123456789012345678901"};
	(void)state;
	for (size_t i = 0; i < COUNT(names); i++)
		close(make_other(names[i]).fd);
	struct process p = make_process(own_name(), false);
	assert_only(&p);
	close(p.fd);
}

static void test_refused_kinds(void **state)
{
	char path[PATH_MAX], elsewhere[PATH_MAX];
	(void)state;
	path_of(path, "101");
	assert_int_equal(mkfifo(path, 0600), 0);
	path_of(path, "102");
	assert_int_equal(mkdir(path, 0700), 0);
	/* to files of another folder: a link, and another name of it */
	snprintf(elsewhere, sizeof(elsewhere), "%s/x", t.parent);
	struct process other = make_other("x");
	assert_int_equal(rename(other.path, elsewhere), 0);
	path_of(path, "103");
	assert_int_equal(symlink(elsewhere, path), 0);
	path_of(path, "104");
	assert_int_equal(link(elsewhere, path), 0);
	/* two names in the folder itself */
	struct process twice = make_other("105");
	path_of(path, "106");
	assert_int_equal(link(twice.path, path), 0);
	struct process p = make_process(own_name(), false);
	assert_only(&p);
	/* nothing was written to them */
	assert_int_equal(tail_of(&other, 0), 0);
	assert_int_equal(tail_of(&twice, 0), 0);
	path_of(path, "102");
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(unlink(elsewhere), 0);
	close(other.fd);
	close(twice.fd);
	close(p.fd);
}

static void test_refused_owner(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root gives files away\n");
		skip();
	}
	struct process other = make_other("107");
	assert_int_equal(fchown(other.fd, 12345, 12345), 0);
	struct process p = make_process(own_name(), false);
	assert_only(&p);
	assert_int_equal(tail_of(&other, 0), 0);
	close(other.fd);
	close(p.fd);
}

/* For processes of another user. */
static void test_other_user(void **state)
{
	struct stat st;
	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root gives files away\n");
		skip();
	}
	call_rings_close(t.rings);
	open_rings(12345);
	assert_int_equal(stat(call_rings_folder(t.rings), &st), 0);
	assert_int_equal(st.st_uid, 12345);
	assert_int_equal(st.st_mode & 07777, 0700);
	struct process own = make_other("107");
	struct process p = make_process(own_name(), false);
	assert_int_equal(fchown(p.fd, 12345, 12345), 0);
	assert_only(&p);
	assert_int_equal(tail_of(&own, 0), 0);
	close(own.fd);
	close(p.fd);
}

static void test_process_dies(void **state)
{
	char name[32], next[64];
	(void)state;
	pid_t pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	snprintf(name, sizeof(name), "%d", pid);
	snprintf(next, sizeof(next), "%d.1", pid);
	struct process p = make_process(name, false), q = make_process(next, false);
	begin_thread(&p, 0, (uint32_t)pid);
	PUT_SLOT(&p, 0, full, 3);
	put_call(&p, 0, 10, 20);
	begin_thread(&q, 0, (uint32_t)pid);
	PUT_SLOT(&q, 0, full, 4);
	put_call(&q, 0, 30, 40);
	assert_int_equal(call_rings_drain(t.rings), 2);
	assert_int_equal(access(p.path, F_OK), -1);
	assert_int_equal(access(q.path, F_OK), -1);
	assert_int_equal(stats().full, 7);
	assert_int_equal(stats().calls, 2);
	assert_int_equal(call_rings_drain(t.rings), 0);
	call_rings_open_calls(t.rings);
	assert_int_equal(stats().full, 7);
	assert_int_equal(stats().processes, 2);
	close(p.fd);
	close(q.fd);
}

static void drain_until_gone(const struct process *p)
{
	while (!access(p->path, F_OK))
		call_rings_drain(t.rings);
}

/* The name of a program's file that was read to its end is free for a later program's. */
static void test_third_program(void **state)
{
	char name[64];
	(void)state;
	struct process first = make_process(own_name(), false);
	drain_until(1);
	snprintf(name, sizeof(name), "%d.1", getpid());
	struct process second = make_process(name, false);
	drain_until_gone(&first);
	struct process third = make_process(own_name(), false);
	drain_until_gone(&second);
	assert_int_equal(access(third.path, F_OK), 0);
	begin_thread(&third, 0, (uint32_t)getpid());
	put_call(&third, 0, 10, 20);
	uint64_t calls = stats().calls;
	call_rings_drain(t.rings);
	assert_int_equal(stats().calls, calls + 1);
	close(first.fd);
	close(second.fd);
	close(third.fd);
}

static uint32_t header_word(const struct process *p, size_t offset)
{
	uint32_t word;
	get(p, (off_t)offset, &word, sizeof(word));
	return word;
}

static void test_stop(void **state)
{
	struct process first = make_process(own_name(), false);
	const size_t stop = offsetof(struct call_header, stop);
	char name[64];
	(void)state;
	drain_until(1);
	assert_int_equal(header_word(&first, stop), 0);
	call_rings_stop(t.rings);
	assert_int_equal(header_word(&first, stop), 1);
	/* and of whom is found later */
	snprintf(name, sizeof(name), "%d.1", getpid());
	struct process second = make_process(name, false);
	drain_until(2);
	assert_int_equal(header_word(&second, stop), 1);
	close(first.fd);
	close(second.fd);
}

static void test_stack_shift(void **state)
{
	struct process p = make_process(own_name(), false);
	const size_t shift = offsetof(struct call_header, stack_shift);
	(void)state;
	drain_until(1);
	assert_int_equal(header_word(&p, shift), 0);
	call_rings_set_stack_shift(t.rings, 3);
	call_rings_drain(t.rings);
	assert_int_equal(header_word(&p, shift), 3);
	assert_int_equal(header_word(&p, offsetof(struct call_header, stop)), 0);
	call_rings_set_stack_shift(t.rings, 0);
	call_rings_drain(t.rings);
	assert_int_equal(header_word(&p, shift), 0);
	close(p.fd);
}

/* ---- what makes no sense ---- */

/* What is behind it comes again, where the writer goes on from a place that makes sense. */
static void goes_on(struct process *p, uint64_t head)
{
	p->heads[0] = head;
	forget_told();
	put_call(p, 0, 777, 778);
	assert_int_equal(call_rings_drain(t.rings), 1);
	assert_int_equal(t.calls.data[0].call.start_ns, 777);
	assert_int_equal(tail_of(p, 0), p->heads[0]);
}

static void test_forged_heads(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	put_call(&p, 0, 10, 20);
	assert_int_equal(call_rings_drain(t.rings), 1);
	const uint64_t tail = p.heads[0];
	const uint64_t heads[] = {tail - 8,
				  0,
				  tail + CALL_RING_BYTES + 8,
				  tail + 8,  /* amid a record */
				  tail + 24, /* of zeros, and not as many as it says */
				  1ULL << 63,
				  UINT64_MAX - 7};
	for (size_t i = 0; i < COUNT(heads); i++) {
		/* back to where it was */
		struct call_rings_stats before = stats();
		uint64_t words[3] = {0x0008000000000000ULL, 1, 2}; /* eight arguments */
		uint64_t head = heads[i];
		if (i == 4) {
			p.heads[0] = tail_of(&p, 0);
			put_words(&p, 0, words, 3);
			head = p.heads[0];
		} else if (i == 3) {
			head = tail_of(&p, 0) + 8;
		}
		PUT_SLOT(&p, 0, head, head);
		assert_int_equal(call_rings_drain(t.rings), 0);
		assert_int_equal(stats().bad_records, before.bad_records + 1);
		assert_int_equal(tail_of(&p, 0), head);
		assert_int_equal(call_rings_drain(t.rings), 0);
		assert_int_equal(stats().bad_records, before.bad_records + 1);
		if (head < 1ULL << 62)
			goes_on(&p, head);
	}
	close(p.fd);
}

static void test_odd_head(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	put_call(&p, 0, 10, 20);
	for (uint64_t odd = 1; odd < 8; odd++) {
		PUT_SLOT(&p, 0, head, p.heads[0] + odd);
		assert_int_equal(call_rings_drain(t.rings), 0);
		assert_int_equal(stats().bad_records, odd);
	}
	close(p.fd);
}

/* "Of a ring that makes no sense all that is in it is skipped, and counted once." */
static void test_odd_head_counts_once(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	PUT_SLOT(&p, 0, head, 36);
	call_rings_drain(t.rings);
	assert_int_equal(stats().bad_records, 1);
	for (int i = 0; i < 5; i++)
		call_rings_drain(t.rings);
	assert_int_equal(stats().bad_records, 1);
	close(p.fd);
}

static void test_forged_records(void **state)
{
	static const struct call_record forged[] = {
		{.nargs = MAX_ARGS + 1, .start = 1, .end = 2},
		{.nargs = UINT8_MAX, .start = 1, .end = 2},
		{.start = 2, .end = 1},
		{.start = UINT64_MAX, .end = 0},
		{.flags = CALL_INSTANT, .start = 1, .end = 2},
		{.flags = CALL_OPEN, .start = 1, .end = 2},
		{.flags = UINT8_MAX, .start = 1, .end = 2},
		{.probe = MAX_PROBES, .start = 1, .end = 2},
		{.probe = UINT32_MAX, .start = 1, .end = 2},
		{.marked = 2, .start = 1, .end = 2},
		{.marked = UINT8_MAX, .nargs = MAX_ARGS, .start = 1, .end = 2},
	};
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	for (size_t i = 0; i < COUNT(forged); i++) {
		forget_told();
		put_call(&p, 0, 10, 20);
		put_record(&p, 0, &forged[i]);
		put_call(&p, 0, 30, 40); /* whether a record is there cannot be told */
		assert_int_equal(call_rings_drain(t.rings), 1);
		assert_int_equal(t.calls.data[0].call.start_ns, 10);
		assert_int_equal(stats().bad_records, i + 1);
		assert_int_equal(tail_of(&p, 0), p.heads[0]);
		goes_on(&p, p.heads[0]);
	}
	close(p.fd);
}

/* It costs that thread's calls alone. */
static void test_other_threads_go_on(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		begin_thread(&p, i, 100 + i);
		put_call(&p, i, 10, 20);
	}
	PUT_SLOT(&p, 1, head, 12345678ULL);
	assert_int_equal(call_rings_drain(t.rings), 2);
	assert_int_equal(stats().bad_records, 1);
	close(p.fd);
}

/* A slot whose thread has left is free, also when nothing of it could be read. */
static void test_forged_slot_is_freed(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	PUT_SLOT(&p, 0, head, 12345678ULL);
	PUT_SLOT(&p, 0, state, CALL_SLOT_LEFT);
	assert_int_equal(call_rings_drain(t.rings), 0);
	assert_int_equal(state_of(&p, 0), CALL_SLOT_FREE);
	assert_int_equal(tail_of(&p, 0), 12345678ULL);
	begin_thread(&p, 1, 1235);
	PUT_SLOT(&p, 1, state, 77);
	put_call(&p, 1, 10, 20);
	assert_int_equal(call_rings_drain(t.rings), 1);
	close(p.fd);
}

/* Cut short, from the beginning or later. */
static void test_truncated(void **state)
{
	const off_t lengths[] = {
		0,
		1,
		sizeof(struct call_header) - 1,
		sizeof(struct call_header),
		CALL_HEADER_BYTES,
		CALL_HEADER_BYTES + 1,
		CALL_HEADER_BYTES + offsetof(struct call_slot, depth) - 1,
		CALL_HEADER_BYTES + offsetof(struct call_slot, depth),
		CALL_HEADER_BYTES + sizeof(struct call_slot) - 1,
		CALL_HEADER_BYTES + sizeof(struct call_slot),
		CALL_HEADER_BYTES + CALL_SLOT_HEADER,
		CALL_HEADER_BYTES + CALL_SLOT_HEADER + 31,
		CALL_HEADER_BYTES + CALL_SLOT_HEADER + 32,
		CALL_HEADER_BYTES + CALL_SLOT_HEADER + 40,
		CALL_HEADER_BYTES + CALL_SLOT_BYTES,
	};
	(void)state;
	for (size_t i = 0; i < COUNT(lengths); i++) {
		char name[64];
		struct stat st;
		size_t calls = 0;
		snprintf(name, sizeof(name), "%d.%zu", getpid(), i);
		struct process p = make_process(name, false);
		begin_thread(&p, 0, 1234);
		put_call(&p, 0, 10, 20);
		put_call(&p, 0, 30, 40);
		if (i % 2) /* it was whole when it was found */
			calls = drain_until(i + 1);
		assert_int_equal(ftruncate(p.fd, lengths[i]), 0);
		calls += drain_until(i + 1);
		for (int k = 0; k < 3; k++)
			calls += call_rings_drain(t.rings);
		call_rings_open_calls(t.rings);
		call_rings_stop(t.rings);
		assert_in_range(calls, i % 2 ? 2 : 0, 2);
		/* nothing of it grew but for the word that says to stop */
		assert_int_equal(fstat(p.fd, &st), 0);
		assert_true(st.st_size <= lengths[i] ||
			    st.st_size <= (off_t)sizeof(struct call_header));
		close(p.fd);
	}
	struct process whole = make_process(own_name(), false);
	begin_thread(&whole, 0, 1234);
	put_call(&whole, 0, 50, 60);
	assert_int_equal(drain_until(COUNT(lengths) + 1), 1);
	close(whole.fd);
}

/* A ring's part that ends behind its beginning, and whose file ends before. */
static void test_truncated_amid_wrap(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < CALL_RING_BYTES / 64 + 1000; i++)
			put_record(&p, 0, &(struct call_record){.nargs = 4, .start = i, .end = i});
		put_head(&p, 0);
		if (round)
			assert_int_equal(ftruncate(p.fd, CALL_HEADER_BYTES + CALL_SLOT_BYTES / 2),
					 0);
		call_rings_drain(t.rings);
	}
	assert_int_equal(stats().bad_records, 1);
	assert_int_equal(tail_of(&p, 0), p.heads[0]);
	close(p.fd);
}

/* ---- threads' numbers ---- */

static void test_huge_tid(void **state)
{
	static const uint32_t tids[] = {(1u << 22) + 1, INT_MAX, 1u << 31, UINT32_MAX};
	struct process p = make_process(own_name(), false);
	(void)state;
	for (uint32_t i = 0; i < COUNT(tids); i++) {
		begin_thread(&p, i, tids[i]);
		put_call(&p, i, 10 + i, 20 + i);
	}
	call_rings_drain(t.rings);
	for (size_t i = 0; i < t.calls.len; i++)
		assert_int_equal(t.calls.data[i].call.tid, 0);
	close(p.fd);
}

static void put_open(const struct process *p, uint32_t i, uint32_t k, const struct call_open *o)
{
	put(p, slot_at(i) + (off_t)(offsetof(struct call_slot, open) + k * sizeof(*o)), o,
	    sizeof(*o));
}

static void test_huge_tid_of_open_call(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_open o = {.start = 10};
	(void)state;
	begin_thread(&p, 0, UINT32_MAX);
	put_open(&p, 0, 0, &o);
	PUT_SLOT(&p, 0, depth, 1);
	drain_until(1);
	call_rings_open_calls(t.rings);
	for (size_t i = 0; i < t.calls.len; i++)
		assert_int_equal(t.calls.data[i].call.tid, 0);
	close(p.fd);
}

/* A thread that is being given slot 0 (claim() and tid are two steps) beside one that has slot 1:
 * "all calls of the process that ended before have come". */
static void test_slot_without_tid(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	drain_until(1);
	PUT_SLOT(&p, 0, state, CALL_SLOT_USED);
	begin_thread(&p, 1, 1235);
	uint64_t now_ns = monotonic_ns();
	put_call(&p, 1, now_ns - 10, now_ns);
	for (int i = 0; i < 3; i++)
		call_rings_drain(t.rings);
	PUT_SLOT(&p, 0, tid, 1234);
	call_rings_drain(t.rings);
	assert_int_equal(t.calls.len, 1);
	assert_false(t.late);
	close(p.fd);
}

/* ---- open calls ---- */

static void test_open_calls(void **state)
{
	struct process p = make_process(own_name(), false);
	uint64_t before = monotonic_ns();
	(void)state;
	begin_thread(&p, 0, 1234);
	begin_thread(&p, 1, 1235);
	for (uint32_t k = 0; k < 3; k++) {
		struct call_open o = {.sp = 1000 - k,
				      .start = before - 100 + k,
				      .probe = 10 + k,
				      .flags = k ? CALL_NESTED | CALL_INSTANT : CALL_ERROR,
				      .nargs = (uint8_t)k,
				      .mark = k * 5,
				      .args = {k, k + 1}};
		put_open(&p, 0, k, &o);
	}
	PUT_SLOT(&p, 0, depth, 2); /* the third has returned */
	drain_until(1);
	assert_int_equal(t.calls.len, 0);
	call_rings_open_calls(t.rings);
	uint64_t after = monotonic_ns();
	assert_int_equal(t.calls.len, 2);
	for (uint32_t k = 0; k < 2; k++) {
		const struct rec_call *c = &t.calls.data[k].call;
		assert_int_equal(c->kind, REC_CALL);
		assert_int_equal(c->flags, (k ? CALL_NESTED : CALL_ERROR) | CALL_OPEN);
		assert_int_equal(c->depth, k);
		assert_int_equal(c->probe, 10 + k);
		assert_int_equal(c->nargs, k);
		assert_int_equal(c->tid, 1234);
		assert_int_equal(c->tgid, getpid());
		assert_int_equal(c->start_ns, before - 100 + k);
		assert_in_range(c->start_ns + c->dur_ns, before, after);
		assert_int_equal(c->args[0], k);
		assert_int_equal(t.calls.data[k].mark, k * 5);
	}
	assert_int_equal(stats().calls, 0); /* they have not returned */
	/* they are no business of a thread that has left */
	forget_told();
	PUT_SLOT(&p, 0, state, CALL_SLOT_LEFT);
	call_rings_open_calls(t.rings);
	PUT_SLOT(&p, 0, state, CALL_SLOT_FREE);
	call_rings_open_calls(t.rings);
	assert_int_equal(t.calls.len, 0);
	close(p.fd);
}

static void test_forged_open_calls(void **state)
{
	static const struct call_open forged[] = {
		{.start = 1, .probe = MAX_PROBES},
		{.start = 1, .probe = UINT32_MAX},
		{.start = 1, .nargs = MAX_ARGS + 1},
		{.start = 1, .nargs = UINT8_MAX},
		{.start = UINT64_MAX},
		{.start = 1ULL << 63},
	};
	struct process p = make_process(own_name(), false);
	struct call_open good = {.start = 1, .probe = 3, .nargs = MAX_ARGS, .flags = UINT8_MAX};
	(void)state;
	begin_thread(&p, 0, 1234);
	drain_until(1);
	for (uint32_t i = 0; i < COUNT(forged); i++)
		put_open(&p, 0, i, &forged[i]);
	put_open(&p, 0, COUNT(forged), &good);
	PUT_SLOT(&p, 0, depth, COUNT(forged) + 1);
	call_rings_open_calls(t.rings);
	assert_int_equal(t.calls.len, 1);
	assert_int_equal(t.calls.data[0].call.depth, COUNT(forged));
	assert_int_equal(t.calls.data[0].call.flags, SIMPLE_FLAGS | CALL_OPEN);
	/* no more than there is room for */
	forget_told();
	for (uint32_t i = 0; i < MAX_OPEN_CALLS; i++)
		put_open(&p, 0, i, &good);
	PUT_SLOT(&p, 0, depth, UINT32_MAX);
	call_rings_open_calls(t.rings);
	assert_int_equal(t.calls.len, MAX_OPEN_CALLS);
	close(p.fd);
}

/* A file that nobody has finished says nothing. */
static void test_open_calls_without_header(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_open o = {.start = 1};
	uint64_t magic = 0;
	(void)state;
	put(&p, offsetof(struct call_header, magic), &magic, sizeof(magic));
	begin_thread(&p, 0, 1234);
	put_open(&p, 0, 0, &o);
	PUT_SLOT(&p, 0, depth, 1);
	drain_until(1);
	call_rings_open_calls(t.rings);
	assert_int_equal(t.calls.len, 0);
	close(p.fd);
}

/* ---- times ---- */

#define NEAR_NS 200000 /* loose: the machine may be busy amid each pair of readings */

static void assert_near(uint64_t ns, uint64_t low, uint64_t high)
{
	if (ns + NEAR_NS < low || ns > high + NEAR_NS)
		print_error("%llu is not in %llu..%llu\n", (unsigned long long)ns,
			    (unsigned long long)low, (unsigned long long)high);
	assert_true(ns + NEAR_NS >= low && ns <= high + NEAR_NS);
}

/* Whether the counter runs at one rate: else processes do not use it. */
static bool counter_is_constant(void)
{
	char line[8192];
	bool constant = false;
	FILE *f = fopen("/proc/cpuinfo", "re");
	while (f && !constant && fgets(line, sizeof(line), f))
		constant = strstr(line, " constant_tsc") != NULL;
	if (f)
		fclose(f);
	return constant;
}

struct moment {
	uint64_t low, high, ticks;
};

static struct moment moment_now(void)
{
	struct moment m = {.low = monotonic_ns()};
	m.ticks = ticks_read(true);
	m.high = monotonic_ns();
	return m;
}

static void test_ticks(void **state)
{
	struct process p;
	struct moment starts[20], ends[20];
	(void)state;
	if (!counter_is_constant()) {
		print_message("skipped: the processor's counter has no constant rate\n");
		skip();
	}
	p = make_process(own_name(), true);
	begin_thread(&p, 0, 1234);
	for (size_t i = 0; i < COUNT(starts); i++) {
		starts[i] = moment_now();
		usleep(i % 5 == 0 ? 20000 : 100);
		ends[i] = moment_now();
		put_call(&p, 0, starts[i].ticks, ends[i].ticks);
		if (i % 3 == 0)
			call_rings_drain(t.rings);
	}
	call_rings_drain(t.rings);
	assert_int_equal(t.calls.len, COUNT(starts));
	for (size_t i = 0; i < COUNT(starts); i++) {
		const struct rec_call *c = &t.calls.data[i].call;
		assert_near(c->start_ns, starts[i].low, starts[i].high);
		assert_near(c->start_ns + c->dur_ns, ends[i].low, ends[i].high);
	}
	/* an open one too */
	forget_told();
	struct moment m = moment_now();
	struct call_open o = {.start = m.ticks};
	put_open(&p, 0, 0, &o);
	PUT_SLOT(&p, 0, depth, 1);
	usleep(1000);
	call_rings_open_calls(t.rings);
	assert_int_equal(t.calls.len, 1);
	assert_near(t.calls.data[0].call.start_ns, m.low, m.high);
	assert_true(t.calls.data[0].call.dur_ns < 1000000000);
	close(p.fd);
}

/* Ticks of any number are times. */
static void test_forged_ticks(void **state)
{
	static const uint64_t ticks[] = {0, 1, 1ULL << 32, 1ULL << 62, 1ULL << 63, UINT64_MAX};
	struct process p = make_process(own_name(), true);
	size_t n = 0;
	(void)state;
	begin_thread(&p, 0, 1234);
	for (size_t i = 0; i < COUNT(ticks); i++)
		for (size_t k = i; k < COUNT(ticks); k++, n++)
			put_call(&p, 0, ticks[i], ticks[k]);
	assert_int_equal(call_rings_drain(t.rings), n);
	for (size_t i = 0; i < COUNT(ticks); i++) {
		struct call_open o = {.start = ticks[i]};
		put_open(&p, 0, (uint32_t)i, &o);
	}
	PUT_SLOT(&p, 0, depth, COUNT(ticks));
	call_rings_open_calls(t.rings);
	assert_true(stats().bad_records == 0);
	close(p.fd);
}

static void test_upto(void **state)
{
	struct process p = make_process(own_name(), false);
	uint64_t begun[6], ended[6];
	(void)state;
	begin_thread(&p, 0, 1234);
	for (size_t i = 0; i < COUNT(begun); i++) {
		size_t had = t.uptos.len;
		uint64_t now_ns = monotonic_ns();
		put_call(&p, 0, now_ns - 5, now_ns);
		begun[i] = monotonic_ns();
		call_rings_drain(t.rings);
		ended[i] = monotonic_ns();
		assert_int_equal(t.calls.len, i + 1);
		if (!i) { /* nothing is known of what was before */
			assert_int_equal(t.uptos.len, 0);
			continue;
		}
		assert_int_equal(t.uptos.len, had + 1);
		const struct upto *u = &t.uptos.data[had];
		assert_int_equal(u->pid, getpid());
		assert_int_equal(u->calls, i + 1); /* behind what came with it */
		assert_in_range(u->ns, begun[i - 1], ended[i - 1]);
	}
	assert_false(t.late);
	close(p.fd);
}

/* A process that went on to its next program before either file was found: what the first tells is
 * no later than what on_upto said. */
static void test_upto_of_next_program(void **state)
{
	char name[64];
	(void)state;
	call_rings_drain(t.rings);
	snprintf(name, sizeof(name), "%d.1", getpid());
	struct process first = make_process(own_name(), false);
	struct process second = make_process(name, false);
	uint64_t now_ns = monotonic_ns();
	begin_thread(&first, 0, 1234);
	begin_thread(&second, 0, 1234);
	put_call(&first, 0, now_ns - 10, now_ns - 5);
	put_call(&second, 0, now_ns - 4, now_ns);
	drain_until(2);
	assert_int_equal(t.calls.len, 2);
	assert_false(t.late);
	close(first.fd);
	close(second.fd);
}

/* ---- Python functions ---- */

static void put_code(struct process *p, uint32_t i, const struct call_code *code, const char *text)
{
	uint64_t words[sizeof(*code) / 8 + UINT8_MAX] = {0}; /* also of a forged nargs */
	memcpy(words, code, sizeof(*code));
	memcpy((char *)words + sizeof(*code), text, strlen(text));
	put_words(p, i, words, sizeof(*code) / 8 + code->nargs);
	put_head(p, i);
}

static struct call_code code_of(uint32_t number)
{
	return (struct call_code){.probe = CALL_CODE,
				  .nargs = 1,
				  .code = number,
				  .line = 12,
				  .name_bytes = 3,
				  .file_bytes = 4};
}

static void put_python(struct process *p, uint32_t i, uint64_t code, uint8_t flags)
{
	struct call_record r = {.probe = CALL_PYTHON,
				.flags = flags,
				.depth = 200,
				.nargs = 1,
				.start = code,
				.end = code + 5};
	put_record(p, i, &r); /* the argument is the start */
	put_head(p, i);
}

static void test_python(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_code code = code_of(7);
	(void)state;
	begin_thread(&p, 0, 1234);
	put_code(&p, 0, &code, "funf.py");
	put_python(&p, 0, 7, CALL_NESTED | CALL_OPEN);
	assert_int_equal(call_rings_drain(t.rings), 1);
	assert_int_equal(t.codes.len, 1);
	assert_string_equal(t.codes.data[0].text, "fun|f.py");
	assert_int_equal(t.codes.data[0].line, 12);
	assert_int_equal(t.calls.len, 1);
	const struct rec_call *c = &t.calls.data[0].call;
	assert_int_equal(c->probe, CALL_PYTHON);
	assert_int_equal(c->args[0], t.codes.data[0].id);
	assert_int_equal(c->depth, 200);
	assert_int_equal(c->flags, CALL_NESTED | CALL_OPEN);
	assert_int_equal(c->dur_ns, 5);
	assert_int_equal(stats().python_calls, 1);
	assert_int_equal(stats().bad_records, 0);
	close(p.fd);
}

/* Numbers are a process's own. */
static void test_python_of_two(void **state)
{
	char name[32];
	struct call_code code = code_of(7);
	(void)state;
	snprintf(name, sizeof(name), "%d.1", getpid());
	struct process first = make_process(own_name(), false);
	struct process second = make_process(name, false);
	begin_thread(&first, 0, 1234);
	begin_thread(&second, 0, 1234);
	put_code(&first, 0, &code, "funf.py");
	put_code(&second, 0, &code, "sung.py");
	drain_until(2);
	assert_int_equal(t.codes.len, 2);
	assert_true(t.codes.data[0].id != t.codes.data[1].id);
	close(first.fd);
	close(second.fd);
}

static void test_forged_python(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_code codes[] = {code_of(0), code_of(1), code_of(1), code_of(1), code_of(1)};
	(void)state;
	codes[1].name_bytes = UINT32_MAX;
	codes[2].name_bytes = 5; /* one more than there is room for */
	codes[3].file_bytes = CALL_CODE_FILE + 1;
	codes[3].nargs = 255;
	codes[4].marked = 1;
	for (uint32_t i = 0; i < COUNT(codes); i++) {
		begin_thread(&p, i, 100 + i);
		put_code(&p, i, &codes[i], "funf.py");
	}
	begin_thread(&p, 5, 105);
	put_python(&p, 5, 0, 0);
	begin_thread(&p, 6, 106);
	put_python(&p, 6, 1ULL << 32, 0);
	begin_thread(&p, 7, 107);
	put_python(&p, 7, 1, CALL_INSTANT);
	call_rings_drain(t.rings);
	assert_int_equal(t.codes.len, 0);
	assert_int_equal(t.calls.len, 0);
	assert_int_equal(stats().bad_records, 8);
	close(p.fd);
}

static void test_python_texts_end(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_code code = code_of(7);
	(void)state;
	begin_thread(&p, 0, 1234);
	put_code(&p, 0, &code, "fu"); /* NULs behind it */
	call_rings_drain(t.rings);
	assert_int_equal(t.codes.len, 1);
	assert_string_equal(t.codes.data[0].text, "fu|");
	close(p.fd);
}

static void test_open_python(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_python_open open[2] = {{.start = 5, .code = 7}, {.start = 6}};
	(void)state;
	begin_thread(&p, 0, 1234);
	PUT_SLOT(&p, 0, nparked, UINT32_MAX); /* nothing is there */
	put(&p, slot_at(0) + (off_t)offsetof(struct call_slot, python), open, sizeof(open));
	PUT_SLOT(&p, 0, python_depth, UINT32_MAX); /* the second has no code, and what follows */
	call_rings_drain(t.rings);
	call_rings_open_calls(t.rings);
	assert_int_equal(t.calls.len, 1);
	assert_int_equal(t.calls.data[0].call.flags, CALL_OPEN);
	assert_int_equal((uint32_t)t.calls.data[0].call.args[0], 7);
	close(p.fd);
}

/* ---- histograms ---- */

struct told_hist {
	struct hist_key key;
	struct hist_value value;
};

static VEC(struct told_hist) hists;

static void on_hist(void *ctx, const struct hist_key *key, const struct hist_value *value)
{
	assert_ptr_equal(ctx, &t);
	assert_int_equal(key->tgid != 0, 1);
	*vec_push(&hists) = (struct told_hist){*key, *value};
}

static size_t look_at_hists(void)
{
	vec_free(&hists);
	call_rings_histograms(t.rings, on_hist, &t);
	return hists.len;
}

static const struct hist_value *hist_of(uint32_t probe, uint64_t name)
{
	for (size_t i = 0; i < hists.len; i++)
		if (hists.data[i].key.probe == probe && hists.data[i].key.name == name)
			return &hists.data[i].value;
	return NULL;
}

static int tear_down_hists(void **state)
{
	vec_free(&hists);
	return tear_down(state);
}

static off_t hist_at(uint32_t i, uint32_t k)
{
	return (off_t)(CALL_HISTS_BEGIN + (uint64_t)i * CALL_HISTS_BYTES + 2 * CALL_HISTS_INDEX +
		       (uint64_t)k * sizeof(struct call_hist));
}

static void put_hist(const struct process *p, uint32_t i, uint32_t k, const struct call_hist *h)
{
	put(p, hist_at(i, k), h, sizeof(*h));
	PUT_SLOT(p, i, hists, k + 1);
}

static struct call_hist hist_like(uint32_t probe, uint64_t name, uint32_t calls)
{
	struct call_hist h = {.probe = probe,
			      .name = name,
			      .value = {.count = calls,
					.errors = calls / 2,
					.nested = calls / 3,
					.total_ns = calls * 100ULL,
					.max_ns = 100}};
	h.value.buckets[2] = calls;
	return h;
}

static void assert_hist(uint32_t probe, uint64_t name, uint64_t calls, uint64_t errors)
{
	const struct hist_value *v = hist_of(probe, name);
	assert_non_null(v);
	assert_int_equal(v->count, calls);
	assert_int_equal(v->errors, errors);
	assert_int_equal(v->total_ns, calls * 100);
	assert_int_equal(v->max_ns, 100);
	assert_int_equal(v->buckets[2], calls);
}

static void test_hists(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_hist a = hist_like(5, 0, 10), b = hist_like(5, 7, 3), c = hist_like(6, 0, 8);
	struct call_hist none = hist_like(9, 0, 0);
	(void)state;
	begin_thread(&p, 0, 1234);
	begin_thread(&p, 1, 1235);
	put_hist(&p, 0, 0, &a);
	put_hist(&p, 0, 1, &b);
	put_hist(&p, 0, 2, &none); /* being made */
	put_hist(&p, 1, 0, &c);
	put_hist(&p, 1, 1, &a);
	drain_until(1);
	for (int i = 0; i < 3; i++) { /* they are what they are, however often it is asked */
		assert_int_equal(look_at_hists(), 3);
		assert_hist(5, 0, 20, 10);
		assert_hist(5, 7, 3, 1);
		assert_hist(6, 0, 8, 4);
		assert_int_equal(stats().counted, 31);
	}
	assert_int_equal(hists.data[0].key.tgid, getpid());
	/* who leaves a slot, and who comes into it, leave what was counted */
	PUT_SLOT(&p, 0, state, CALL_SLOT_LEFT);
	call_rings_drain(t.rings);
	begin_thread(&p, 0, 1236);
	a = hist_like(5, 0, 11);
	put_hist(&p, 0, 0, &a);
	PUT_SLOT(&p, 0, hists, 3);
	PUT_SLOT(&p, 0, uncounted, 5);
	PUT_SLOT(&p, 1, uncounted, 6);
	PUT_SLOT(&p, 1, kept, 2);
	call_rings_drain(t.rings);
	assert_int_equal(look_at_hists(), 3);
	assert_hist(5, 0, 21, 10);
	assert_int_equal(stats().uncounted, 11);
	assert_int_equal(stats().kept, 2);
	assert_int_equal(stats().bad_records, 0);
	close(p.fd);
}

/* Two programs of a process that ends, one after the other, and what they had open. */
static void test_hists_of_dead(void **state)
{
	char name[32], next[64];
	(void)state;
	pid_t pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	snprintf(name, sizeof(name), "%d", pid);
	snprintf(next, sizeof(next), "%d.1", pid);
	struct process p = make_process(name, false), q = make_process(next, false);
	struct call_hist a = hist_like(5, 0, 10), b = hist_like(6, 0, 8);
	uint64_t now_ns = monotonic_ns();
	struct call_open open[] = {
		{.start = now_ns - 50, .probe = 5, .keep = MODE_STATS, .flags = CALL_ERROR},
		{.start = now_ns - 50, .probe = 7, .keep = MODE_STATS | CALL_KEEP_ALWAYS},
		{.start = now_ns - 50, .probe = 8, .keep = MODE_TAIL}, /* no threshold: slow */
		{.start = now_ns - 50, .probe = 9, .keep = MODE_TAIL},
		{.start = now_ns - 50, .probe = 10, .keep = MODE_TRACE},
		{.start = now_ns - 50, .probe = 11, .keep = 0x7f},
		{.start = now_ns - 50,
		 .probe = 12,
		 .keep = MODE_STATS,
		 .flags = CALL_NAMED,
		 .nargs = 1,
		 .args = {77}},
	};
	call_rings_set_threshold(t.rings, 9, 1ULL << 62);
	begin_thread(&p, 0, (uint32_t)pid);
	put_hist(&p, 0, 0, &a);
	put_hist(&p, 0, 1, &b);
	begin_thread(&q, 0, (uint32_t)pid);
	put_hist(&q, 0, 0, &a);
	for (uint32_t k = 0; k < COUNT(open); k++)
		put_open(&q, 0, k, &open[k]);
	PUT_SLOT(&q, 0, depth, COUNT(open));
	call_rings_drain(t.rings);
	assert_int_equal(access(p.path, F_OK), -1);
	assert_int_equal(access(q.path, F_OK), -1);
	static const uint32_t told[] = {7, 8, 10};
	assert_int_equal(t.calls.len, COUNT(told));
	for (size_t i = 0; i < COUNT(told); i++) {
		assert_int_equal(t.calls.data[i].call.probe, told[i]);
		assert_int_equal(t.calls.data[i].call.flags, CALL_UNWOUND);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(look_at_hists(), 7);
		assert_int_equal(hist_of(5, 0)->count, 21);
		assert_int_equal(hist_of(5, 0)->errors, 11);
		assert_hist(6, 0, 8, 4);
		for (uint32_t probe = 7; probe <= 11; probe++)
			assert_int_equal(probe == 10 || hist_of(probe, 0)->count == 1, 1);
		assert_null(hist_of(10, 0));
		assert_int_equal(hist_of(12, 77)->count, 1);
		assert_true(hist_of(12, 77)->max_ns >= 50);
	}
	assert_int_equal(stats().counted, 21 + 8 + 5);
	close(p.fd);
	close(q.fd);
}

/* No figure says more than there was time for, or than the others allow; and nobody else's is
 * touched. */
static void test_forged_hists(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_hist good = hist_like(5, 0, 10), forged[6];
	(void)state;
	for (uint32_t i = 0; i < COUNT(forged); i++)
		forged[i] = hist_like(20 + i, 0, 10);
	forged[0].probe = MAX_PROBES;
	forged[1].probe = UINT32_MAX;
	forged[2].value.count = 1ULL << 40;
	forged[3].value.count = UINT64_MAX;
	forged[4].value.buckets[127] = UINT32_MAX;
	memset(forged[5].value.buckets, 0xff, sizeof(forged[5].value.buckets));
	for (uint32_t i = 0; i < COUNT(forged); i++) {
		begin_thread(&p, i, 1234 + i);
		put_hist(&p, i, 0, &good);
		put_hist(&p, i, 1, &forged[i]);
		put_hist(&p, i, 2, &good); /* not believed any more */
	}
	begin_thread(&p, 6, 1300);
	good.value.errors = good.value.nested = good.value.total_ns = good.value.max_ns =
		UINT64_MAX;
	good.probe = 6;
	put_hist(&p, 6, 0, &good);
	drain_until(1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(look_at_hists(), 2);
		assert_hist(5, 0, 60, 30);
		const struct hist_value *v = hist_of(6, 0);
		assert_int_equal(v->count, 10);
		assert_int_equal(v->errors, 10);
		assert_int_equal(v->nested, 10);
		assert_true(v->max_ns < 600000000000ULL && v->total_ns <= 10 * v->max_ns);
		assert_int_equal(stats().bad_records, COUNT(forged)); /* each once */
	}
	close(p.fd);
}

/* As many as there is room for, and beyond. */
static void test_many_hists(void **state)
{
	struct process p = make_process(own_name(), false);
	(void)state;
	begin_thread(&p, 0, 1234);
	begin_thread(&p, 1, 1235);
	for (uint32_t k = 0; k < CALL_HISTS_MOST; k++) {
		struct call_hist h = hist_like(1, k + 1, 1), other = hist_like(2, k + 1, 1);
		put(&p, hist_at(0, k), &h, sizeof(h));
		put(&p, hist_at(1, k), &other, sizeof(other));
	}
	PUT_SLOT(&p, 0, hists, UINT32_MAX);
	PUT_SLOT(&p, 1, hists, UINT32_MAX);
	drain_until(1);
	assert_int_equal(look_at_hists(), 8192); /* of a process */
	assert_int_equal(look_at_hists(), 8192);
	assert_int_equal(stats().counted, 8192);
	assert_int_equal(stats().uncounted, 2 * CALL_HISTS_MOST - 8192);
	close(p.fd);
}

static void test_truncated_hists(void **state)
{
	struct process p = make_process(own_name(), false);
	struct call_hist h = hist_like(5, 0, 10);
	(void)state;
	begin_thread(&p, 0, 1234);
	put_hist(&p, 0, 0, &h);
	PUT_SLOT(&p, 0, hists, 600);
	drain_until(1);
	const off_t lengths[] = {hist_at(0, 600) - 1, hist_at(0, 0) + 1, hist_at(0, 0),
				 (off_t)CALL_HISTS_BEGIN, CALL_HEADER_BYTES};
	for (size_t i = 0; i < COUNT(lengths); i++) {
		assert_int_equal(ftruncate(p.fd, lengths[i]), 0);
		assert_in_range(look_at_hists(), 0, 1);
	}
	assert_in_range(stats().bad_records, 1, 2);
	close(p.fd);
}

/* What is said to processes: there before them, and not theirs to write. */
static void test_settings(void **state)
{
	char path[PATH_MAX];
	struct stat st;
	struct call_settings s, later;
	(void)state;
	path_of(path, CALL_SETTINGS);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(st.st_uid, geteuid());
	assert_true(st.st_blocks * 512 >= (off_t)sizeof(s)); /* to read it cannot fail */
	assert_int_equal(pread(fd, &s, sizeof(s), 0), sizeof(s));
	assert_int_equal(s.magic, CALL_SETTINGS_MAGIC);
	assert_true(s.rate > 1ULL << 28 && s.rate < 1ULL << 36); /* 62 MHz to 16 GHz */
	for (uint32_t i = 0; i < MAX_PROBES; i++)
		assert_int_equal(s.thresholds_ns[i], 0);
	call_rings_set_threshold(t.rings, 0, 1000);
	call_rings_set_threshold(t.rings, MAX_PROBES - 1, 1001);
	for (int i = 0; i < 8; i++) {
		usleep(200000);
		call_rings_drain(t.rings);
	}
	assert_int_equal(pread(fd, &later, sizeof(later), 0), sizeof(later));
	assert_int_equal(later.thresholds_ns[0], 1000);
	assert_int_equal(later.thresholds_ns[1], 0);
	assert_int_equal(later.thresholds_ns[MAX_PROBES - 1], 1001);
	assert_int_equal(later.rests, 0);
	for (uint32_t rests = 2; rests-- > 0;) {
		call_rings_set_rests(t.rings, rests);
		assert_int_equal(pread(fd, &later, sizeof(later), 0), sizeof(later));
		assert_int_equal(later.rests, rests);
	}
	/* the same clock, measured for longer */
	assert_in_range(later.rate, s.rate - s.rate / 100, s.rate + s.rate / 100);
	close(fd);
}

#define TEST_HISTS(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down_hists)
#define TEST(f)	      cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_calls),
		TEST(test_threads),
		TEST(test_wraps),
		TEST(test_full_ring),
		TEST(test_thread_leaves),
		TEST(test_losses),
		TEST(test_next_program),
		TEST(test_later_process),
		TEST(test_header_later),
		TEST(test_refused_names),
		TEST(test_refused_kinds),
		TEST(test_refused_owner),
		TEST(test_other_user),
		TEST(test_process_dies),
		TEST(test_third_program),
		TEST(test_stop),
		TEST(test_stack_shift),
		TEST(test_forged_heads),
		TEST(test_odd_head),
		TEST(test_odd_head_counts_once),
		TEST(test_forged_records),
		TEST(test_other_threads_go_on),
		TEST(test_forged_slot_is_freed),
		TEST(test_truncated),
		TEST(test_truncated_amid_wrap),
		TEST(test_huge_tid),
		TEST(test_huge_tid_of_open_call),
		TEST(test_slot_without_tid),
		TEST(test_open_calls),
		TEST(test_forged_open_calls),
		TEST(test_open_calls_without_header),
		TEST(test_ticks),
		TEST(test_forged_ticks),
		TEST(test_upto),
		TEST(test_upto_of_next_program),
		TEST(test_python),
		TEST(test_python_of_two),
		TEST(test_forged_python),
		TEST(test_python_texts_end),
		TEST(test_open_python),
		TEST_HISTS(test_hists),
		TEST_HISTS(test_hists_of_dead),
		TEST_HISTS(test_forged_hists),
		TEST_HISTS(test_many_hists),
		TEST_HISTS(test_truncated_hists),
		TEST(test_settings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
