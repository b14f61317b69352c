/* kernels_test.c - names of kernels by their handles, from naming calls and from memory: the
 * pipeline is given raw records of this process, whose handles are objects of this test.
 *
 * links: pipeline recording symbolize parser base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "padding.h"
#include "base/buffer.h"
#include "pipeline/pipeline.h"
#include "readers.h"

enum { NAME, ALIAS, LAUNCH }; /* probes */

static struct parser_service readers;

struct run {
	char path[64];
	struct pipeline *p;
	uint64_t next_text;
};

static void define(struct pipeline *p, uint32_t id, const char *symbol, const char *role,
		   const char *const names[2], uint8_t raw0, uint8_t raw1)
{
	struct pipeline_probe probe = {
		.id = id,
		.layer = "cuda",
		.library = "libcuda.so.1",
		.symbol = symbol,
		.name = xstrdup(symbol),
		.nargs = 3,
		.has_return = true,
		.name_arg = raw0 == RAW_KERNEL ? 0 : -1,
		.arg_names = {names[0], names[1], "return"},
		.arg_types = {raw0 == RAW_KERNEL ? ARG_TYPE_STRING : ARG_TYPE_PTR,
			      raw1 == RAW_TEXT ? ARG_TYPE_STRING : ARG_TYPE_PTR, ARG_TYPE_I64},
		.arg_raw = {raw0, raw1, RAW_PLAIN},
		.role = role,
	};
	pipeline_define_probe(p, &probe);
	free(probe.name);
}

static void begin(struct run *r)
{
	struct rec_writer *w;
	struct err e = {""};
	*r = (struct run){.next_text = 1000};
	snprintf(r->path, sizeof(r->path), "/tmp/kernels_test.%d", getpid());
	struct rec_writer_options options = {0};
	if (rec_writer_open(&w, r->path, &options, &e))
		fail_msg("%s", e.msg);
	r->p = pipeline_new(w, "/proc", &readers);
	pad_recording(r->p);
	define(r->p, NAME, "cuModuleGetFunction", "kernel_name",
	       (const char *const[]){"handle", "name"}, RAW_PLAIN, RAW_TEXT);
	define(r->p, ALIAS, "cuKernelGetFunction", "kernel_alias",
	       (const char *const[]){"function", "kernel"}, RAW_PLAIN, RAW_PLAIN);
	define(r->p, LAUNCH, "cuLaunchKernel", "launch", (const char *const[]){"kernel", "stream"},
	       RAW_KERNEL, RAW_PLAIN);
}

static void call(struct run *r, uint32_t probe, uint64_t start_ns, uint64_t a, uint64_t b,
		 uint8_t flags)
{
	struct rec_call c = {.kind = REC_CALL,
			     .flags = flags,
			     .nargs = 3,
			     .probe = probe,
			     .tgid = (uint32_t)getpid(),
			     .tid = (uint32_t)getpid(),
			     .start_ns = start_ns,
			     .dur_ns = 5,
			     .args = {a, b, 0}};
	pipeline_record(r->p, &c, sizeof(c));
}

static void name(struct run *r, uint64_t start_ns, const void *handle, const char *symbol)
{
	struct rec_text t = {.kind = REC_TEXT, .len = (uint32_t)strlen(symbol), .id = r->next_text};
	memcpy(t.bytes, symbol, t.len);
	pipeline_record(r->p, &t, sizeof(t));
	call(r, NAME, start_ns, (uintptr_t)handle, r->next_text++, 0);
}

static void launch(struct run *r, uint64_t start_ns, const void *handle)
{
	call(r, LAUNCH, start_ns, (uintptr_t)handle, 0, 0);
}

/* Ends the run; the launches' kernels are to be these, in order of time, up to a NULL. */
static void expect_kernels(struct run *r, const char *const *expected)
{
	struct err e = {""};
	struct rec_reader *reader;
	struct m_calls calls = {0};
	size_t n = 0;
	assert_int_equal(pipeline_close(r->p, &e), 0);
	if (rec_open(&reader, r->path, &e))
		fail_msg("%s", e.msg);
	const struct rec_tables *t = rec_tables(reader);
	uint64_t last_ns = 0;
	/* calls that waited for their name come in a later block than others */
	for (; expected[n]; n++) {
		uint64_t best_ns = UINT64_MAX;
		const char *seen = NULL;
		for (size_t b = 0; b < rec_call_blocks(reader); b++) {
			assert_int_equal(rec_read_calls(reader, b, &calls, &e), 0);
			for (size_t i = 0; i < calls.len; i++) {
				const struct m_call *c = &calls.rows[i];
				if (t->probes.data[c->probe].name_arg != 0 ||
				    c->start_ns <= last_ns || c->start_ns >= best_ns)
					continue;
				best_ns = c->start_ns;
				seen = strtab_get(&t->strings, (uint32_t)c->args[0], NULL);
			}
			m_calls_free(&calls);
		}
		assert_non_null(seen);
		assert_string_equal(seen, expected[n]);
		last_ns = best_ns;
	}
	rec_close(reader);
	unlink(r->path);
}

#define EXPECT(r, ...) expect_kernels(r, (const char *const[]){__VA_ARGS__, NULL})

/* A handle's object: words that are no addresses, and its name at a place. */
static uint64_t *object(unsigned at, const char *symbol)
{
	uint64_t *o = xcalloc(64, sizeof(*o));
	o[0] = 0x1234;
	o[at / 8] = (uintptr_t)symbol;
	return o;
}

static void by_naming_calls(void **state)
{
	(void)state;
	struct run r;
	uint64_t a[64] = {0}, b[64] = {0}, c[64] = {0};
	begin(&r);
	name(&r, 100, a, "_Z3addPfi");
	launch(&r, 200, a);
	pipeline_pass_end(r.p);
	/* rings are not in order of time: the launch lies before its name, and in one pass */
	launch(&r, 400, b);
	name(&r, 300, b, "plain_kernel");
	call(&r, ALIAS, 350, (uintptr_t)c, (uintptr_t)a, 0);
	launch(&r, 500, c);
	pipeline_pass_end(r.p);
	launch(&r, 600, a);
	EXPECT(&r, "add(float*, int)", "plain_kernel", "add(float*, int)", "add(float*, int)");
}

/* The name comes with the pass after that of the launch. */
static void late_names(void **state)
{
	(void)state;
	struct run r;
	uint64_t a[64] = {0};
	begin(&r);
	launch(&r, 200, a);
	pipeline_pass_end(r.p);
	name(&r, 100, a, "late_kernel");
	pipeline_pass_end(r.p);
	EXPECT(&r, "late_kernel");
}

/* Of a pass all namings are known before its launches, and another program may give the same
 * handle, of which we are told late. */
static void handles_that_are_given_again(void **state)
{
	(void)state;
	struct run r;
	char made_up[64];
	uint64_t a[64] = {0};
	snprintf(made_up, sizeof(made_up), "kernel 0x%lx", (unsigned long)(uintptr_t)a);
	begin(&r);
	name(&r, 100, a, "first_kernel");
	launch(&r, 200, a);
	launch(&r, 600, a);
	name(&r, 500, a, "third_kernel");
	launch(&r, 400, a);
	name(&r, 300, a, "second_kernel");
	pipeline_pass_end(r.p);
	struct rec_task exec = {.kind = REC_EXEC,
				.tgid = (uint32_t)getpid(),
				.tid = (uint32_t)getpid(),
				.time_ns = 700,
				.comm = "kernels_test"};
	name(&r, 800, a, "fourth_kernel");
	pipeline_pass_end(r.p);
	pipeline_task(r.p, &exec);
	launch(&r, 900, a);
	launch(&r, 750, a); /* by the new program, before it named it */
	pipeline_pass_end(r.p);
	EXPECT(&r, "first_kernel", "second_kernel", "third_kernel", made_up, "fourth_kernel");
}

static void failed_naming_names_nothing(void **state)
{
	(void)state;
	struct run r;
	uint64_t a[64] = {0};
	char made_up[64];
	snprintf(made_up, sizeof(made_up), "kernel 0x%lx", (unsigned long)(uintptr_t)a);
	begin(&r);
	struct rec_text t = {.kind = REC_TEXT, .len = 3, .id = 7, .bytes = "abc"};
	pipeline_record(r.p, &t, sizeof(t));
	call(&r, NAME, 100, (uintptr_t)a, 7, CALL_ERROR);
	call(&r, NAME, 110, (uintptr_t)a, 7, CALL_OPEN);
	launch(&r, 200, a);
	pipeline_pass_end(r.p);
	launch(&r, 300, a);
	EXPECT(&r, made_up, made_up);
}

static void from_memory(void **state)
{
	(void)state;
	static const unsigned places[] = {8, 24, 0, 248};
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct run r;
		uint64_t *first = object(places[i], "_Z5firstv");
		uint64_t *second = object(places[i], "second_kernel");
		begin(&r);
		launch(&r, 100, first);
		launch(&r, 200, second);
		pipeline_pass_end(r.p);
		launch(&r, 300, first);
		EXPECT(&r, "first()", "second_kernel", "first()");
		free(first);
		free(second);
	}
}

/* A kernel whose name is known tells the place, where another text lies before it. */
static void calibrated_by_a_known_name(void **state)
{
	(void)state;
	struct run r;
	uint64_t *known = object(40, "known_kernel"), *other = object(40, "other_kernel");
	known[1] = other[1] = (uintptr_t) "sm_90";
	begin(&r);
	name(&r, 100, known, "known_kernel");
	launch(&r, 200, other);
	pipeline_pass_end(r.p);
	EXPECT(&r, "other_kernel");
	free(known);
	free(other);
}

static void what_is_no_name(void **state)
{
	(void)state;
	static const char *const texts[] = {"not a name", "9th", "ab", "", "\x90\x01\x02"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct run r;
		char made_up[64];
		uint64_t *o = object(8, texts[i]);
		snprintf(made_up, sizeof(made_up), "kernel 0x%lx", (unsigned long)(uintptr_t)o);
		begin(&r);
		launch(&r, 100, o);
		pipeline_pass_end(r.p);
		EXPECT(&r, made_up);
		free(o);
	}
}

/* Handles and names at the end of what is mapped, and handles that are no addresses. */
static void what_is_not_mapped(void **state)
{
	(void)state;
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(page != MAP_FAILED);
	assert_int_equal(mprotect(page + 4096, 4096, PROT_NONE), 0);
	memset(page, 'x', 4096); /* no NUL before the end */
	struct run r;
	char cut[64], absent[64];
	uint64_t *o = object(8, page + 4090), *good = object(8, "good_kernel");
	snprintf(cut, sizeof(cut), "kernel 0x%lx", (unsigned long)(uintptr_t)o);
	snprintf(absent, sizeof(absent), "kernel 0x%lx", (unsigned long)(uintptr_t)(page + 5000));
	begin(&r);
	launch(&r, 100, o);
	launch(&r, 200, page + 5000);
	launch(&r, 300, NULL);
	launch(&r, 400, good);
	pipeline_pass_end(r.p);
	EXPECT(&r, cut, absent, "kernel 0x0", "good_kernel");
	/* a name that ends with the page is whole */
	memcpy(page + 4096 - 12, "last_kernel", 12);
	o[1] = (uintptr_t)page + 4096 - 12;
	begin(&r);
	launch(&r, 100, o);
	pipeline_pass_end(r.p);
	EXPECT(&r, "last_kernel");
	free(o);
	free(good);
	munmap(page, 8192);
}

static void long_names(void **state)
{
	(void)state;
	static char symbol[5000];
	struct run r;
	uint64_t a[64] = {0}, *o = object(8, symbol);
	memset(symbol, 'k', 4000);
	begin(&r);
	name(&r, 100, a, symbol);
	launch(&r, 200, a);
	launch(&r, 300, o);
	pipeline_pass_end(r.p);
	EXPECT(&r, symbol, symbol);
	free(o);
}

/* Where nothing is kept: of very many handles those are forgotten that are not used, never those
 * that are, and none is taken for another. */
static void those_that_are_not_used_are_forgotten(void **state)
{
	(void)state;
	struct run r;
	char symbol[32];
	begin(&r);
	pipeline_forget_ended(r.p);
	name(&r, 100, (void *)0x10, "used");
	name(&r, 100, (void *)0x20, "unused");
	for (uintptr_t i = 0; i < 1 << 18; i++) {
		snprintf(symbol, sizeof(symbol), "kernel_%u", (unsigned)i % 1000);
		/* as of jobs: no two alike in when */
		name(&r, 1000 * (i + 1) + (uint64_t)random() % 900, (void *)(0x100 + i), symbol);
		if (i % 10000 == 0)
			pipeline_pass_end(r.p);
	}
	launch(&r, 1000000000, (void *)0x10);
	pipeline_pass_end(r.p);
	usleep(1100000); /* what is forgotten is looked for once a second */
	pipeline_pass_end(r.p);
	launch(&r, 1000000001, (void *)0x10);
	launch(&r, 1000000002, (void *)(0x100 + (1 << 18) - 1));
	launch(&r, 1000000003, (void *)0x20);
	pipeline_pass_end(r.p);
	EXPECT(&r, "used", "used", "kernel_143", "kernel 0x20");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_naming_calls),
		cmocka_unit_test(late_names),
		cmocka_unit_test(handles_that_are_given_again),
		cmocka_unit_test(failed_naming_names_nothing),
		cmocka_unit_test(from_memory),
		cmocka_unit_test(calibrated_by_a_known_name),
		cmocka_unit_test(what_is_no_name),
		cmocka_unit_test(what_is_not_mapped),
		cmocka_unit_test(long_names),
		cmocka_unit_test(those_that_are_not_used_are_forgotten),
	};
	readers = readers_start();
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	parser_host_stop(readers.host);
	return failed;
}
