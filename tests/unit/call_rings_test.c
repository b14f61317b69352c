/* call_rings_test.c - the calls that processes tell through files: which files are taken, what
 * comes of them and when it was, and what is said to processes.
 *
 * links: base collect symbolize */
#include "ring_process.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "wire/ticks.h"

/* ---- calls ---- */

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
	struct process p, q;
	(void)state;
	pid_t pid = make_dead(&p, &q);
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

/* ---- settings ---- */

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
		TEST(test_ticks),
		TEST(test_forged_ticks),
		TEST(test_upto),
		TEST(test_upto_of_next_program),
		TEST(test_python),
		TEST(test_python_of_two),
		TEST(test_forged_python),
		TEST(test_python_texts_end),
		TEST(test_open_python),
		TEST(test_settings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
