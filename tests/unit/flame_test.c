/* flame_test.c - call trees of small recordings made here: every kind, names of frames, and
 * that nothing is lost between the rows and the tree.
 *
 * links: base recording analyze export symbolize */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/types.h>

#include "golden/counters.h"
#include "analyze/flame.h"
#include "analyze/profile.h"
#include "export/flame.h"
#include "recording/recording.h"
#include "wire/event.h"

#define S   1000000000ULL
#define T0  (100 * S) /* start of every recording here */
#define GIB (1ULL << 30)

/* ---- recordings ---- */

struct world {
	char *path;
	struct rec_writer *w;
	struct rec_reader *r;
	uint32_t threads[3]; /* 10/10 "main", 10/11 "loader", 20/20 "main" */
};

static void world_begin(struct world *x)
{
	struct err e;
	char path[] = "/tmp/flame_test.XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	*x = (struct world){.path = xstrdup(path)};
	assert_int_equal(rec_writer_open(&x->w, path, NULL, &e), 0);
	rec_put_meta(x->w, "start_monotonic_ns", "100000000000");
	rec_put_meta(x->w, "end_monotonic_ns", "110000000000");
	rec_put_meta(x->w, "command", "/usr/bin/python3");
	rec_put_meta(x->w, "sample_hz", "1000");
	uint32_t python = rec_string_z(x->w, "python3"), main = rec_string_z(x->w, "main");
	rec_put_process(x->w, &(struct m_process){
				      .pid = 10, .parent_pid = 1, .comm = python, .start_ns = T0});
	rec_put_process(x->w, &(struct m_process){.pid = 20,
						  .parent_pid = 1,
						  .comm = python,
						  .start_ns = T0,
						  .end_ns = T0 + 9 * S,
						  .rank = 1});
	x->threads[0] = rec_add_thread(x->w, &(struct m_thread){10, 10, main});
	x->threads[1] =
		rec_add_thread(x->w, &(struct m_thread){10, 11, rec_string_z(x->w, "loader")});
	x->threads[2] = rec_add_thread(x->w, &(struct m_thread){20, 20, main});
}

static void world_read(struct world *x)
{
	struct err e;
	assert_int_equal(rec_writer_close(x->w, false, &e), 0);
	if (rec_open(&x->r, x->path, &e))
		fail_msg("%s", e.msg);
}

static void world_end(struct world *x)
{
	rec_close(x->r);
	unlink(x->path);
	free(x->path);
}

/* A frame of "p:name@line" Python in /job/train.py, "i:name" native of the interpreter, "n:name"
 * native, "g:name" native whose caller was guessed, "k:name" kernel, "c:reason" a cut, "o:eacgm" a
 * probe at work, "u:" in no file; an empty name is one that was not found. */
static uint32_t put_frame(struct rec_writer *w, const char *what)
{
	char name[128];
	struct m_frame f = {.kind = FRAME_NATIVE};
	const char *at = what[0] == 'p' ? strchr(what, '@') : NULL;
	snprintf(name, sizeof(name), "%.*s", at ? (int)(at - what - 2) : 100, what + 2);
	f.name = rec_string_z(w, name);
	f.kind = what[0] == 'p'	  ? FRAME_PYTHON
		 : what[0] == 'k' ? FRAME_KERNEL
		 : what[0] == 'c' ? FRAME_CUT
		 : what[0] == 'o' ? FRAME_OWN
				  : FRAME_NATIVE;
	f.in_python = what[0] == 'i';
	if (f.kind == FRAME_PYTHON)
		f.file = rec_string_z(w, "/job/train.py");
	f.guessed = what[0] == 'g';
	if (f.kind == FRAME_NATIVE && what[0] != 'u')
		f.library = rec_string_z(w, "/usr/lib/libx.so");
	f.line = at ? (uint32_t)atoi(at + 1) : 0;
	f.address = 0x1234;
	return rec_add_frame(w, &f);
}

/* A stack of frames, root first, in one string parted by blanks. */
static uint32_t put_stack(struct rec_writer *w, const char *frames)
{
	char *copy = xstrdup(frames), *rest = copy, *what;
	uint32_t stack = 0;
	while ((what = strsep(&rest, " ")))
		stack = rec_add_stack(w, &(struct m_stack){stack, put_frame(w, what)});
	free(copy);
	return stack;
}

struct arg_def {
	const char *name;
	uint8_t type;
};

static uint32_t put_probe(struct rec_writer *w, const char *role, uint32_t every,
			  const struct arg_def *args)
{
	struct m_probe p = {.layer = rec_string_z(w, "cuda"),
			    .name = rec_string_z(w, role),
			    .role = rec_string_z(w, role),
			    .stack_every = every,
			    .name_arg = -1};
	for (; args[p.nargs].name; p.nargs++) {
		p.arg_names[p.nargs] = rec_string_z(w, args[p.nargs].name);
		p.arg_types[p.nargs] = args[p.nargs].type;
	}
	return rec_add_probe(w, &p);
}

static const struct arg_def launch_args[] = {
	{"kernel", ARG_TYPE_STRING}, {"stream", ARG_TYPE_PTR}, {NULL, 0}};
static const struct arg_def alloc_args[] = {
	{"pointer", ARG_TYPE_PTR}, {"bytes", ARG_TYPE_BYTES}, {NULL, 0}};
static const struct arg_def torch_args[] = {
	{"address", ARG_TYPE_PTR}, {"bytes", ARG_TYPE_BYTES}, {NULL, 0}};

static void put_call(struct rec_writer *w, uint32_t thread, uint32_t probe, uint64_t start_ns,
		     uint32_t stack, uint64_t a, uint64_t b)
{
	struct m_call c = {.start_ns = T0 + start_ns,
			   .dur_ns = 10,
			   .thread = thread,
			   .probe = probe,
			   .nargs = 2,
			   .stack = stack,
			   .args = {a, b}};
	rec_put_calls(w, &c, 1);
}

static void put_sample(struct world *x, uint32_t thread, uint64_t time_ns, uint64_t weight_ns,
		       uint32_t stack)
{
	rec_put_sample(x->w, &(struct m_sample){.time_ns = T0 + time_ns,
						.weight_ns = weight_ns,
						.thread = x->threads[thread],
						.stack = stack});
}

/* ---- trees ---- */

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The tree, folded, its lines sorted. */
static char *folded(const struct calltree *t)
{
	char *text = NULL, *lines[64] = {NULL}, *rest;
	struct buf sorted = {0};
	size_t len, n = 0;
	struct err e;
	FILE *out = open_memstream(&text, &len);
	assert_int_equal(flame_folded.write(out, t, &e), 0);
	fclose(out);
	rest = text;
	while (rest && *rest && n < 64)
		lines[n++] = strsep(&rest, "\n");
	qsort(lines, n, sizeof(*lines), compare_lines);
	for (size_t i = 0; i < n; i++)
		buf_printf(&sorted, "%s\n", lines[i]);
	buf_byte(&sorted, 0);
	free(text);
	return (char *)sorted.data;
}

static void make(const struct world *x, struct flame_options o, struct calltree *ret)
{
	struct err e = {0};
	if (flame_make(ret, rec_source(x->r), &o, &e))
		fail_msg("%s", e.msg);
	/* Parents before children, and the sum of all own weights is the root's total. */
	int64_t sum = 0;
	for (size_t i = 0; i < ret->nodes.len; i++) {
		assert_true(!i || ret->nodes.data[i].parent < i);
		sum += ret->nodes.data[i].self[0];
	}
	assert_int_equal(sum, ret->nodes.data[0].total[0]);
}

static void expect(const struct world *x, struct flame_options o, const char *want)
{
	struct calltree t;
	make(x, o, &t);
	char *text = folded(&t);
	assert_string_equal(text, want);
	free(text);
	calltree_free(&t);
}

static void expect_none(const struct world *x, struct flame_options o, const char *part)
{
	struct calltree t;
	struct err e = {0};
	assert_int_equal(flame_make(&t, rec_source(x->r), &o, &e), -ENODATA);
	if (!strstr(e.msg, part))
		fail_msg("'%s' is not in '%s'", part, e.msg);
}

static const struct calltree_frame *frame_named(const struct calltree *t, const char *name)
{
	for (size_t i = 1; i < t->frames.len; i++)
		if (!strcmp(strtab_get(&t->strings, t->frames.data[i].name, NULL), name))
			return &t->frames.data[i];
	fail_msg("no frame '%s'", name);
	return NULL;
}

/* ---- CPU ---- */

static void test_cpu(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	uint32_t f10 = put_stack(x.w, "n:_start i:Py_Main p:f@10 i:eval p:g@20 i:call n:matmul");
	uint32_t f11 = put_stack(x.w, "n:_start i:Py_Main p:f@11 i:eval p:g@20 i:call n:matmul");
	put_sample(&x, 0, 1 * S, 1000, f10);
	put_sample(&x, 0, 2 * S, 1000, f10);
	put_sample(&x, 1, 3 * S, 1000, f11);
	put_sample(&x, 0, 4 * S, 900, 0);
	rec_put_sample(x.w, &(struct m_sample){.time_ns = T0, /* not of this kind */
					       .weight_ns = 77,
					       .stack = f10,
					       .kind = SAMPLE_OFFCPU});
	world_read(&x);
	/* What is the interpreter's between Python frames goes; outside of them it stays. */
	expect(&x, (struct flame_options){0},
	       "[stack not taken] 900\n"
	       "_start;Py_Main;f (train.py);g (train.py);call;matmul 3000\n");
	expect(&x, (struct flame_options){.native = true},
	       "[stack not taken] 900\n"
	       "_start;Py_Main;f (train.py);eval;g (train.py);call;matmul 3000\n");
	expect(&x, (struct flame_options){.lines = true},
	       "[stack not taken] 900\n"
	       "_start;Py_Main;f (train.py:10);g (train.py:20);call;matmul 2000\n"
	       "_start;Py_Main;f (train.py:11);g (train.py:20);call;matmul 1000\n");
	expect(&x, (struct flame_options){.threads = true},
	       "loader;_start;Py_Main;f (train.py);g (train.py);call;matmul 1000\n"
	       "main;[stack not taken] 900\n"
	       "main;_start;Py_Main;f (train.py);g (train.py);call;matmul 2000\n");
	expect(&x, (struct flame_options){.tid = 11},
	       "_start;Py_Main;f (train.py);g (train.py);call;matmul 1000\n");
	/* From 2 s on, up to before 4 s. */
	expect(&x, (struct flame_options){.from_ns = 2 * S, .to_ns = 4 * S},
	       "_start;Py_Main;f (train.py);g (train.py);call;matmul 2000\n");
	expect_none(&x, (struct flame_options){.pid = 20}, "what was asked for");
	struct calltree t;
	make(&x, (struct flame_options){.lines = true}, &t);
	assert_string_equal(t.title, "CPU time of python3");
	assert_string_equal(t.unit, "ns");
	assert_string_equal(t.type, "cpu");
	assert_int_equal(t.period_ns, 1000000);
	assert_int_equal(t.duration_ns, 10 * S);
	const struct calltree_frame *f = frame_named(&t, "f (train.py:10)");
	assert_int_equal(f->kind, CALLTREE_PYTHON);
	assert_int_equal(f->line, 10);
	assert_string_equal(strtab_get(&t.strings, f->file, NULL), "/job/train.py");
	f = frame_named(&t, "matmul");
	assert_int_equal(f->kind, CALLTREE_NATIVE);
	assert_string_equal(strtab_get(&t.strings, f->library, NULL), "/usr/lib/libx.so");
	calltree_free(&t);
	world_end(&x);
}

/* Without a word about its end a recording lasts until its last row, of whatever kind. */
static void test_killed(void **state)
{
	struct world x;
	struct calltree t;
	(void)state;
	for (int last = 0; last < 4; last++) {
		world_begin(&x);
		rec_put_meta(x.w, "end_monotonic_ns", "0");
		uint32_t probe = put_probe(x.w, "launch", 1, launch_args);
		put_sample(&x, 0, last == 0 ? 7 * S : S, 1, put_stack(x.w, "n:main"));
		put_call(x.w, x.threads[0], probe, last == 1 ? 7 * S - 10 : S, 0, 0, 0);
		rec_put_gpu_span(x.w, &(struct m_gpu_span){.start_ns = T0 + S,
							   .end_ns = T0 + (last == 2 ? 7 : 1) * S,
							   .pid = 10});
		put_counter_of(x.w, T0 + (last == 3 ? 7 : 1) * S, "", "", 0);
		world_read(&x);
		assert_int_equal(rec_tables(x.r)->last_ns, T0 + 7 * S);
		make(&x, (struct flame_options){.kind = FLAME_CPU}, &t);
		assert_int_equal(t.duration_ns, 7 * S);
		calltree_free(&t);
		world_end(&x);
	}
}

static void test_names(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	/* The probe knows that sum.dim_IntList is an overload of sum; no rule could. */
	struct m_probe op = {.name = rec_string_z(x.w, "aten::sum"),
			     .symbol =
				     rec_string_z(x.w, "_ZN2at4_ops15sum_dim_IntList4callERKNS_6T"),
			     .name_arg = -1};
	rec_add_probe(x.w, &op);
	static const char *const frames[] = {
		"c:no_rules",
		"n:",
		"k:",
		"k:do_syscall_64",
		"n:at::_ops::sum_dim_IntList::call(at::Tensor)",
		"n:at::_ops::add_Tensor::call",
		"n:at::_ops::mm_out::call(at::Tensor)",
		"n:at::_ops::log_softmax_int::redispatch(at::Tensor)",
		"n:at::_ops::_local_scalar_dense::call(at::Tensor)",
	};
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++)
		put_sample(&x, 0, i, 1, put_stack(x.w, frames[i]));
	world_read(&x);
	expect(&x, (struct flame_options){0},
	       "[cut: no_rules] 1\n"
	       "[kernel] 1\n"
	       "[libx.so] 1\n"
	       "at::_ops::log_softmax_int::redispatch(at::Tensor) 1\n"
	       "aten::_local_scalar_dense 1\n"
	       "aten::add 1\n"
	       "aten::mm 1\n"
	       "aten::sum 1\n"
	       "do_syscall_64 1\n");
	struct calltree t;
	make(&x, (struct flame_options){.lines = true}, &t);
	assert_int_equal(frame_named(&t, "aten::add")->kind, CALLTREE_OPERATOR);
	assert_int_equal(frame_named(&t, "do_syscall_64")->kind, CALLTREE_KERNEL);
	assert_int_equal(frame_named(&t, "[cut: no_rules]")->kind, CALLTREE_OTHER);
	assert_int_equal(frame_named(&t, "[libx.so+0x1234]")->kind, CALLTREE_NATIVE);
	calltree_free(&t);
	world_end(&x);
}

static void test_processes(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	uint32_t stack = put_stack(x.w, "n:main");
	put_sample(&x, 0, S, 5, stack);
	put_sample(&x, 2, S, 6, stack);
	world_read(&x);
	/* of one program: put together, and nothing stands above */
	expect(&x, (struct flame_options){0}, "main 11\n");
	expect(&x, (struct flame_options){.threads = true}, "main;main 11\n");
	expect(&x, (struct flame_options){.processes = true},
	       "python3 (10);main 5\npython3 (20);main 6\n");
	expect(&x, (struct flame_options){.processes = true, .threads = true},
	       "python3 (10);main;main 5\npython3 (20);main;main 6\n");
	expect(&x, (struct flame_options){.pid = 20}, "main 6\n");
	expect_none(&x, (struct flame_options){.kind = FLAME_OFFCPU}, "--profile offcpu");
	expect_none(&x, (struct flame_options){.kind = FLAME_GPU}, "layer cuda");
	expect_none(&x, (struct flame_options){.kind = FLAME_GPU_ALLOC}, "layer cuda");
	expect_none(&x, (struct flame_options){.kind = FLAME_GPU_INUSE}, "in use");
	world_end(&x);
}

static void test_offcpu(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	uint32_t stack = put_stack(x.w, "p:f@1 n:take");
	struct m_sample s = {.time_ns = T0 + S,
			     .weight_ns = 100,
			     .stack = stack,
			     .kind = SAMPLE_OFFCPU,
			     .reason = WAIT_GIL,
			     .waker = rec_string_z(x.w, "loader"),
			     .waker_tid = 11};
	rec_put_sample(x.w, &s);
	s.waker = 0;
	s.weight_ns = 30;
	rec_put_sample(x.w, &s);
	s.reason = WAIT_PAGE_FAULT;
	rec_put_sample(x.w, &s);
	put_sample(&x, 0, S, 5, stack);
	world_read(&x);
	expect(&x, (struct flame_options){.kind = FLAME_OFFCPU},
	       "f (train.py);take;[gil] 130\nf (train.py);take;[page_fault] 30\n");
	expect(&x, (struct flame_options){.kind = FLAME_OFFCPU, .wakers = true},
	       "f (train.py);take;[gil] 30\n"
	       "f (train.py);take;[gil];woken by loader 100\n"
	       "f (train.py);take;[page_fault] 30\n");
	world_end(&x);
}

/* ---- GPU ---- */

static char *demangle_for_test(const char *name, int params)
{
	(void)params;
	return xstrdup(!strcmp(name, "_Z1av") ? "a()" : name);
}

static void put_span(struct world *x, uint32_t pid, const char *name, uint32_t correlation,
		     uint64_t start_ns, uint64_t ns)
{
	rec_put_gpu_span(x->w, &(struct m_gpu_span){.start_ns = T0 + start_ns,
						    .end_ns = T0 + start_ns + ns,
						    .pid = pid,
						    .correlation = correlation,
						    .name = rec_string_z(x->w, name)});
}

/* Ten launches of a(), of which every third has a stack: the first, fourth... Spans come in
 * another order than the launches and are told apart by their correlation. */
static void put_launches(struct world *x, uint32_t probe, uint32_t first, uint32_t second)
{
	uint32_t a = rec_string_z(x->w, "a()");
	for (uint32_t i = 0; i < 10; i++) {
		uint32_t stack = i % 3 ? 0 : i < 5 ? first : second;
		put_call(x->w, x->threads[i % 2], probe, i * S / 2, stack, a, 7);
	}
}

static void test_gpu_launches(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	uint32_t probe = put_probe(x.w, "launch", 3, launch_args);
	put_launches(&x, probe, put_stack(x.w, "p:f@1 n:launch"), put_stack(x.w, "p:g@1 n:launch"));
	uint32_t b = rec_string_z(x.w, "void ns::b<float>(int)");
	put_call(x.w, x.threads[0], probe, 5 * S, 0, b, 7);
	put_call(x.w, x.threads[0], probe, 6 * S, 0, b, 7);
	world_read(&x);
	/* Exactly as many as there were, in the proportion of those with a stack. */
	expect(&x, (struct flame_options){.kind = FLAME_GPU},
	       "[stack not taken];b<float> 2\n"
	       "f (train.py);launch;a 5\n"
	       "g (train.py);launch;a 5\n");
	/* From 2 s on: launches 4 to 9, of which 6 and 9 have a stack. */
	expect(&x, (struct flame_options){.kind = FLAME_GPU, .from_ns = 2 * S, .to_ns = 5 * S},
	       "g (train.py);launch;a 6\n");
	struct calltree t;
	make(&x, (struct flame_options){.kind = FLAME_GPU}, &t);
	assert_string_equal(t.title, "GPU work by launches of python3");
	assert_string_equal(t.unit, "count");
	assert_int_equal(frame_named(&t, "b<float>")->kind, CALLTREE_GPU);
	calltree_free(&t);
	world_end(&x);
}

/* Of ten launches, those from 4 s to 4.5 s have no stack; the others' answer for their time. */
static void test_gpu_window_without_stacks(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	uint32_t probe = put_probe(x.w, "launch", 3, launch_args);
	put_launches(&x, probe, put_stack(x.w, "p:f@1 n:launch"), put_stack(x.w, "p:g@1 n:launch"));
	for (uint32_t i = 0; i < 10; i++)
		put_span(&x, 10, "a()", i + 1, i * S / 2 + 1, 100);
	world_read(&x);
	expect(&x,
	       (struct flame_options){.kind = FLAME_GPU, .from_ns = 4 * S, .to_ns = 4 * S + S / 2},
	       "f (train.py);launch;a 50\n"
	       "g (train.py);launch;a 50\n");
	world_end(&x);
}

/* In mode tail a few launches are recorded and all are counted, by kernel. */
static void test_gpu_histograms(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	struct m_probe p = {.role = rec_string_z(x.w, "launch"), .nargs = 1, .stack_every = 1};
	p.arg_names[0] = rec_string_z(x.w, "kernel");
	p.arg_types[0] = ARG_TYPE_STRING;
	uint32_t probe = rec_add_probe(x.w, &p);
	uint32_t a = rec_string_z(x.w, "a()"), b = rec_string_z(x.w, "b()");
	put_call(x.w, x.threads[0], probe, S, put_stack(x.w, "p:f@1"), a, 0);
	put_call(x.w, x.threads[0], probe, S, put_stack(x.w, "p:g@1"), a, 0);
	rec_put_hist(x.w, &(struct m_hist){.pid = 10, .probe = probe, .name = a, .count = 1000});
	rec_put_hist(x.w, &(struct m_hist){.pid = 10, .probe = probe, .name = b, .count = 7});
	world_read(&x);
	expect(&x, (struct flame_options){.kind = FLAME_GPU},
	       "[stack not taken];b 7\nf (train.py);a 500\ng (train.py);a 500\n");
	expect(&x, (struct flame_options){.kind = FLAME_GPU, .to_ns = 2 * S},
	       "f (train.py);a 1\ng (train.py);a 1\n");
	world_end(&x);
}

static void test_gpu_spans(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	uint32_t probe = put_probe(x.w, "launch", 3, launch_args);
	put_launches(&x, probe, put_stack(x.w, "p:f@1"), put_stack(x.w, "p:g@1"));
	/* Launch i takes 10 * (i + 1): 550 in all. With a stack are 0 and 3 (f: 10 + 40), 6 and 9
	 * (g: 70 + 100). */
	for (uint32_t i = 10; i-- > 0;)
		put_span(&x, 10, "_Z1av", 100 + 7 * i, 5 * S + i, 10 * (i + 1));
	put_span(&x, 10, "_Z1bv", 99, S, 1000); /* nobody is known to have launched it */
	put_span(&x, 20, "_Z1av", 1, S, 3000);	/* nor this, in another process */
	world_read(&x);
	struct flame_options o = {.kind = FLAME_GPU, .demangle = demangle_for_test, .pid = 10};
	/* f: 550 * 50 / 220 = 125 */
	expect(&x, o,
	       "[stack not taken];_Z1bv 1000\n"
	       "f (train.py);a 125\n"
	       "g (train.py);a 425\n");
	o.pid = 0;
	struct calltree t;
	make(&x, o, &t);
	assert_int_equal(t.nodes.data[0].total[0], 550 + 1000 + 3000);
	assert_string_equal(t.title, "GPU time of python3");
	calltree_free(&t);
	/* Only part of the spans: whose they are is still known. */
	o.pid = 10;
	o.from_ns = 5 * S;
	o.to_ns = 5 * S + 4; /* launches 0 to 3: 100 in all, and f has both stacks */
	expect(&x, o, "f (train.py);a 100\n");
	world_end(&x);
}

/* One span too many: all calls count the same, and nothing is lost. */
static void test_gpu_unmatched(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	uint32_t probe = put_probe(x.w, "launch", 3, launch_args);
	uint32_t f = put_stack(x.w, "p:f@1"), g = put_stack(x.w, "p:g@1");
	put_launches(&x, probe, f, g);
	put_call(x.w, x.threads[0], probe, 6 * S, f, rec_string_z(x.w, "a()"), 7);
	for (uint32_t i = 0; i < 12; i++)
		put_span(&x, 10, "_Z1av", i, S, i == 11 ? 2 : 1);
	world_read(&x);
	/* 13 for five stacks, f having three */
	expect(&x, (struct flame_options){.kind = FLAME_GPU, .demangle = demangle_for_test},
	       "f (train.py);a 8\ng (train.py);a 5\n");
	world_end(&x);
}

static void test_gpu_graphs_and_copies(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	static const struct arg_def graph_args[] = {
		{"graph_exec", ARG_TYPE_PTR}, {"stream", ARG_TYPE_PTR}, {NULL, 0}};
	static const struct arg_def copy_args[] = {
		{"destination", ARG_TYPE_PTR}, {"bytes", ARG_TYPE_BYTES}, {NULL, 0}};
	uint32_t graph = put_probe(x.w, "graph_launch", 1, graph_args);
	uint32_t copy = put_probe(x.w, "copy_htod", 1, copy_args);
	uint32_t f = put_stack(x.w, "p:f@1"), g = put_stack(x.w, "p:g@1");
	put_call(x.w, x.threads[0], graph, S, f, 1, 7);
	put_call(x.w, x.threads[0], graph, 2 * S, g, 1, 7);
	put_call(x.w, x.threads[0], copy, 3 * S, g, 1, 7);
	for (uint32_t i = 0; i < 2; i++) {
		struct m_gpu_span s = {.start_ns = T0,
				       .end_ns = T0 + 10 + i,
				       .pid = 10,
				       .correlation = 50 + i,
				       .name = rec_string_z(x.w, "k1"),
				       .graph_node = 1};
		rec_put_gpu_span(x.w, &s);
		s.name = rec_string_z(x.w, "k2");
		s.end_ns = T0 + 100 + i;
		rec_put_gpu_span(x.w, &s);
	}
	struct m_gpu_span s = {.start_ns = T0,
			       .end_ns = T0 + 1000,
			       .pid = 10,
			       .correlation = 52,
			       .work = WORK_COPY,
			       .copy_kind = 1};
	rec_put_gpu_span(x.w, &s);
	s.work = WORK_SET;
	s.end_ns = T0 + 5;
	rec_put_gpu_span(x.w, &s);
	world_read(&x);
	expect(&x, (struct flame_options){.kind = FLAME_GPU},
	       "[set];set 5\n"
	       "f (train.py);k1 10\n"
	       "f (train.py);k2 100\n"
	       "g (train.py);copy host to device 1000\n"
	       "g (train.py);k1 11\n"
	       "g (train.py);k2 101\n");
	world_end(&x);
}

/* A launch into a stream that is being captured does not run. */
static void test_gpu_captured(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	static const struct arg_def capture_args[] = {
		{"stream", ARG_TYPE_PTR}, {"graph", ARG_TYPE_PTR}, {NULL, 0}};
	uint32_t launch = put_probe(x.w, "launch", 1, launch_args);
	uint32_t begin = put_probe(x.w, "capture_begin", 0, capture_args);
	uint32_t end = put_probe(x.w, "capture_end", 0, capture_args);
	uint32_t f = put_stack(x.w, "p:f@1"), g = put_stack(x.w, "p:g@1");
	uint32_t a = rec_string_z(x.w, "a()");
	put_call(x.w, x.threads[0], begin, 1 * S, 0, 7, 0);
	put_call(x.w, x.threads[0], launch, 2 * S, f, a, 7);
	put_call(x.w, x.threads[0], end, 3 * S, 0, 7, 0x99);
	put_call(x.w, x.threads[0], launch, 4 * S, g, a, 7);
	world_read(&x);
	expect(&x, (struct flame_options){.kind = FLAME_GPU}, "g (train.py);a 1\n");
	world_end(&x);
}

/* ---- memory ---- */

static void test_memory(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	uint32_t alloc = put_probe(x.w, "alloc", 1, alloc_args);
	uint32_t release = put_probe(x.w, "free", 0, alloc_args);
	uint32_t host = put_probe(x.w, "host_alloc", 1, alloc_args);
	uint32_t f = put_stack(x.w, "p:f@1"), g = put_stack(x.w, "p:g@1");
	uint32_t main = x.threads[0], other = x.threads[2];
	put_call(x.w, main, alloc, 1 * S, f, 0x1000, 100);
	put_call(x.w, main, alloc, 2 * S, g, 0x2000, 3 * GIB);
	put_call(x.w, main, release, 3 * S, 0, 0x1000, 0);
	put_call(x.w, main, alloc, 4 * S, f, 0x1000, 7);
	put_call(x.w, main, release, 5 * S, 0, 0x2000, 0);
	put_call(x.w, main, host, 6 * S, g, 0x1000, 55);
	put_call(x.w, main, alloc, 7 * S, 0, 0x5000, 1);
	put_call(x.w, other, alloc, 1 * S, f, 0x1000, 40); /* the same address elsewhere */
	world_read(&x);
	struct flame_options o = {.kind = FLAME_GPU_ALLOC, .pid = 10};
	expect(&x, o, "[stack not taken] 1\nf (train.py) 107\ng (train.py) 3221225472\n");
	o.kind = FLAME_PINNED;
	expect(&x, o, "g (train.py) 55\n");
	o.kind = FLAME_GPU_INUSE;
	expect(&x, o, "[stack not taken] 1\nf (train.py) 7\n");
	o.at = FLAME_AT_PEAK; /* after the second allocation */
	expect(&x, o, "f (train.py) 100\ng (train.py) 3221225472\n");
	o.at = FLAME_AT_TIME;
	o.at_ns = 45 * S / 10;
	expect(&x, o, "f (train.py) 7\ng (train.py) 3221225472\n");
	o.at_ns = 5 * S / 10;
	expect_none(&x, o, "in use then");
	/* Process 20 ended at 9 s and had its memory until then. */
	o = (struct flame_options){.kind = FLAME_GPU_INUSE};
	expect(&x, o, "[stack not taken] 1\nf (train.py) 47\n");
	o.processes = true;
	expect(&x, o,
	       "python3 (10);[stack not taken] 1\n"
	       "python3 (10);f (train.py) 7\n"
	       "python3 (20);f (train.py) 40\n");
	o.at = FLAME_AT_TIME;
	o.at_ns = 95 * S / 10;
	expect(&x, o, "[stack not taken] 1\nf (train.py) 7\n");
	o.level = FLAME_TORCH;
	expect_none(&x, o, "--level driver");
	world_end(&x);
}

/* The driver gives one large block, of which PyTorch's allocator gives two tensors. */
static void test_memory_levels(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	uint32_t alloc = put_probe(x.w, "alloc", 1, alloc_args);
	uint32_t torch_alloc = put_probe(x.w, "torch_alloc", 1, torch_args);
	uint32_t torch_free = put_probe(x.w, "torch_free", 0, torch_args);
	uint32_t f = put_stack(x.w, "p:f@1"), g = put_stack(x.w, "p:g@1");
	put_call(x.w, x.threads[0], alloc, 1 * S, f, 0x1000, 2 << 20);
	put_call(x.w, x.threads[0], torch_alloc, 1 * S, f, 0x1000, 512);
	put_call(x.w, x.threads[0], torch_alloc, 2 * S, g, 0x1200, 1024);
	put_call(x.w, x.threads[0], torch_free, 3 * S, 0, 0x1000, 0);
	put_call(x.w, x.threads[0], torch_alloc, 4 * S, g, 0x1000, 256);
	world_read(&x);
	struct flame_options o = {.kind = FLAME_GPU_ALLOC};
	expect(&x, o, "f (train.py) 512\ng (train.py) 1280\n");
	o.level = FLAME_DRIVER;
	expect(&x, o, "f (train.py) 2097152\n");
	o = (struct flame_options){.kind = FLAME_GPU_INUSE};
	expect(&x, o, "g (train.py) 1280\n");
	o.at = FLAME_AT_PEAK;
	expect(&x, o, "f (train.py) 512\ng (train.py) 1024\n");
	o.level = FLAME_DRIVER;
	expect(&x, o, "f (train.py) 2097152\n");
	world_end(&x);
}

/* Two devices of one process are at their peaks at different times. */
static void test_memory_devices(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	static const struct arg_def args[] = {{"address", ARG_TYPE_PTR},
					      {"bytes", ARG_TYPE_BYTES},
					      {"device", ARG_TYPE_I64},
					      {NULL, 0}};
	uint32_t alloc = put_probe(x.w, "torch_alloc", 1, args);
	uint32_t release = put_probe(x.w, "torch_free", 0, torch_args);
	uint32_t stacks[2] = {put_stack(x.w, "p:f@1"), put_stack(x.w, "p:g@1")};
	for (uint64_t device = 0; device < 2; device++) {
		struct m_call c = {.start_ns = T0 + device * S,
				   .dur_ns = 10,
				   .probe = alloc,
				   .nargs = 3,
				   .stack = stacks[device],
				   .args = {0x1000 + device, 100 + device, device}};
		rec_put_calls(x.w, &c, 1);
		put_call(x.w, x.threads[0], release, device * S + S / 2, 0, 0x1000 + device, 0);
	}
	world_read(&x);
	expect(&x, (struct flame_options){.kind = FLAME_GPU_INUSE, .at = FLAME_AT_PEAK},
	       "f (train.py) 100\ng (train.py) 101\n");
	expect_none(&x, (struct flame_options){.kind = FLAME_GPU_INUSE}, "in use then");
	world_end(&x);
}

/* Virtual memory lives until its handle is released and no mapping is left. */
static void test_memory_virtual(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	static const struct arg_def create_args[] = {
		{"handle", ARG_TYPE_U64}, {"bytes", ARG_TYPE_BYTES}, {NULL, 0}};
	uint32_t create = put_probe(x.w, "vmm_create", 1, create_args);
	uint32_t release = put_probe(x.w, "vmm_release", 0, create_args);
	uint32_t f = put_stack(x.w, "p:f@1"), g = put_stack(x.w, "p:g@1");
	put_call(x.w, x.threads[0], create, 1 * S, f, 1, 2 << 20);
	put_call(x.w, x.threads[0], create, 2 * S, g, 2, 4 << 20);
	put_call(x.w, x.threads[0], release, 3 * S, 0, 1, 0);
	world_read(&x);
	expect(&x, (struct flame_options){.kind = FLAME_GPU_ALLOC},
	       "f (train.py) 2097152\ng (train.py) 4194304\n");
	expect(&x, (struct flame_options){.kind = FLAME_GPU_INUSE}, "g (train.py) 4194304\n");
	world_end(&x);
}

/* ---- many calls, several threads ---- */

static void test_workers(void **state)
{
	(void)state;
	struct world x;
	world_begin(&x);
	uint32_t probe = put_probe(x.w, "launch", 64, launch_args);
	uint32_t stacks[5], kernels[9];
	for (uint32_t i = 0; i < 5; i++) {
		char text[16];
		snprintf(text, sizeof(text), "p:f%u@1", i);
		stacks[i] = put_stack(x.w, text);
	}
	for (uint32_t i = 0; i < 9; i++) {
		char text[16];
		snprintf(text, sizeof(text), "k%u()", i);
		kernels[i] = rec_string_z(x.w, text);
	}
	for (uint32_t i = 0; i < 300000; i++)
		put_call(x.w, x.threads[i % 2], probe, i * 1000 + hash_u64(i) % 512,
			 i % 64 ? 0 : stacks[i / 64 % 5], kernels[(8 * 300000 - i) % 9], 7);
	world_read(&x);
	assert_true(rec_call_blocks(x.r) > 4);
	char *first = NULL;
	for (unsigned workers = 1; workers <= 4; workers++) {
		struct calltree t;
		make(&x, (struct flame_options){.kind = FLAME_GPU, .visit.threads = workers}, &t);
		assert_int_equal(t.nodes.data[0].total[0], 300000);
		char *text = NULL;
		size_t len;
		FILE *out = open_memstream(&text, &len);
		assert_int_equal(flame_folded.write(out, &t, NULL), 0);
		fclose(out);
		if (first)
			assert_string_equal(text, first); /* also in the order of its lines */
		free(first);
		first = text;
		calltree_free(&t);
	}
	free(first);
	world_end(&x);
}

/* ---- differences ---- */

static void test_diff(void **state)
{
	(void)state;
	struct world a, b;
	struct err e = {0};
	struct calltree t;
	world_begin(&a);
	put_sample(&a, 0, S, 100, put_stack(a.w, "p:f@1"));
	put_sample(&a, 0, S, 200, put_stack(a.w, "p:g@1"));
	world_read(&a);
	world_begin(&b);
	put_sample(&b, 0, S, 10, put_stack(b.w, "n:new"));
	put_sample(&b, 0, S, 23, put_stack(b.w, "p:g@2"));
	world_read(&b);
	struct flame_options o = {0};
	assert_int_equal(
		flame_make_diff(&t, rec_source(a.r), "a", rec_source(b.r), "b", false, &o, &e), 0);
	assert_true(t.differential);
	assert_string_equal(t.title, "CPU time: a against b");
	char *text = folded(&t);
	assert_string_equal(text, "f (train.py) 0 100\ng (train.py) 23 200\nnew 10 0\n");
	free(text);
	calltree_free(&t);
	assert_int_equal(
		flame_make_diff(&t, rec_source(a.r), "a", rec_source(b.r), "b", true, &o, &e), 0);
	assert_int_equal(t.nodes.data[0].total[0], 300);
	assert_int_equal(t.nodes.data[0].total[1], 300);
	calltree_free(&t);
	o.kind = FLAME_OFFCPU;
	assert_int_equal(
		flame_make_diff(&t, rec_source(a.r), "a", rec_source(b.r), "b", true, &o, &e),
		-ENODATA);
	world_end(&a);
	world_end(&b);
}

/* ---- the report's sums ---- */

/* All stacks may have been lost: there is no frame to look at. */
static void test_profile_without_frames(void **state)
{
	(void)state;
	struct world x;
	struct profile p;
	world_begin(&x);
	put_sample(&x, 0, 1 * S, 100, 0);
	world_read(&x);
	profile_make(&p, rec_source(x.r), &(struct profile_options){0});
	assert_int_equal(p.samples, 1);
	assert_int_equal(p.whole, 0);
	assert_int_equal(p.ends.len, 1);
	assert_string_equal(p.ends.data[0].reason, "not_taken");
	assert_int_equal(p.ends.data[0].library_samples, 1);
	assert_string_equal(p.ends.data[0].library, "");
	profile_free(&p);
	world_end(&x);
}

static void expect_function(const struct profile *p, size_t i, const char *name, uint64_t self_ns,
			    uint64_t total_ns)
{
	assert_true(i < p->functions.len);
	assert_string_equal(p->functions.data[i].name, name);
	assert_int_equal(p->functions.data[i].self_ns, self_ns);
	assert_int_equal(p->functions.data[i].total_ns, total_ns);
}

static void test_profile(void **state)
{
	(void)state;
	struct world x;
	struct profile p;
	world_begin(&x);
	uint32_t once = put_stack(x.w, "n:_start p:f@1 n:mm");
	uint32_t twice = put_stack(x.w, "n:_start p:f@1 p:g@1 p:f@2"); /* f is on it twice */
	uint32_t cut = put_stack(x.w, "c:no_rules n:mm");
	put_sample(&x, 0, 1 * S, 100, once);
	put_sample(&x, 0, 2 * S, 100, once);
	put_sample(&x, 0, 3 * S, 30, twice);
	put_sample(&x, 2, 4 * S, 5, cut);
	put_sample(&x, 2, 5 * S, 6, 0);
	struct m_sample wait = {.time_ns = T0 + S, .weight_ns = 70, .kind = SAMPLE_OFFCPU};
	wait.reason = WAIT_GIL;
	rec_put_sample(x.w, &wait);
	rec_put_sample(x.w, &wait);
	wait.reason = WAIT_DISK;
	wait.weight_ns = 1000;
	rec_put_sample(x.w, &wait);
	world_read(&x);
	profile_make(&p, rec_source(x.r), &(struct profile_options){0});
	assert_int_equal(p.samples, 5);
	assert_int_equal(p.total_ns, 241);
	assert_int_equal(p.period_ns, 1000000);
	assert_int_equal(p.whole, 3);
	assert_int_equal(p.ends.len, 2);
	assert_string_equal(p.ends.data[0].reason, "no_rules");
	assert_int_equal(p.ends.data[0].samples, 1);
	assert_string_equal(p.ends.data[0].library, "/usr/lib/libx.so");
	assert_int_equal(p.ends.data[0].library_samples, 1);
	assert_string_equal(p.ends.data[1].reason, "not_taken");
	assert_int_equal(p.functions.len, 4);
	expect_function(&p, 0, "mm", 205, 205);
	expect_function(&p, 1, "f (train.py)", 30, 230);
	expect_function(&p, 2, "_start", 0, 230);
	expect_function(&p, 3, "g (train.py)", 0, 30);
	assert_int_equal(p.functions.data[1].kind, CALLTREE_PYTHON);
	assert_string_equal(p.functions.data[1].file, "/job/train.py");
	assert_string_equal(p.functions.data[0].library, "/usr/lib/libx.so");
	assert_int_equal(p.waits, 3);
	assert_int_equal(p.waited_ns, 1140);
	assert_int_equal(p.reasons.len, 2);
	assert_string_equal(p.reasons.data[0].reason, "disk");
	assert_string_equal(p.reasons.data[1].reason, "gil");
	assert_int_equal(p.reasons.data[1].waits, 2);
	assert_int_equal(p.reasons.data[1].total_ns, 140);
	profile_free(&p);
	/* Of one process; of a span of time. */
	profile_make(&p, rec_source(x.r), &(struct profile_options){.pid = 20});
	assert_int_equal(p.samples, 2);
	assert_int_equal(p.total_ns, 11);
	assert_int_equal(p.waits, 0);
	profile_free(&p);
	profile_make(&p, rec_source(x.r),
		     &(struct profile_options){.from_ns = T0 + 2 * S, .to_ns = T0 + 4 * S});
	assert_int_equal(p.samples, 2);
	assert_int_equal(p.total_ns, 130);
	profile_free(&p);
	world_end(&x);
}

/* Probes at work are no part of the job; a frame in no file makes a stack less than whole. */
static void test_profile_of_odd_frames(void **state)
{
	(void)state;
	struct world x;
	struct profile p;
	world_begin(&x);
	put_sample(&x, 0, 1 * S, 100, put_stack(x.w, "n:_start n:mm"));
	put_sample(&x, 0, 2 * S, 20, put_stack(x.w, "n:_start n:mm o:eacgm"));
	put_sample(&x, 0, 3 * S, 7, put_stack(x.w, "n:_start u: n:mm"));
	put_sample(&x, 0, 4 * S, 5, put_stack(x.w, "n:_start g:asm n:mm"));
	world_read(&x);
	profile_make(&p, rec_source(x.r), &(struct profile_options){0});
	assert_int_equal(p.samples, 4);
	assert_int_equal(p.whole, 3);
	assert_int_equal(p.guessed, 1);
	assert_int_equal(p.ends.len, 1);
	assert_string_equal(p.ends.data[0].reason, "unknown_frame");
	assert_int_equal(p.own_ns, 20);
	assert_int_equal(p.total_ns, 112);
	expect_function(&p, 0, "mm", 112, 112);
	expect_function(&p, 1, "_start", 0, 112);
	profile_free(&p);
	world_end(&x);
}

static void test_kinds(void **state)
{
	(void)state;
	assert_int_equal(flame_kind_of("cpu"), FLAME_CPU);
	assert_int_equal(flame_kind_of("pinned"), FLAME_PINNED);
	assert_int_equal(flame_kind_of("gpu-inuse"), FLAME_GPU_INUSE);
	assert_int_equal(flame_kind_of("disk"), FLAME_KINDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpu),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_offcpu),
		cmocka_unit_test(test_gpu_launches),
		cmocka_unit_test(test_gpu_window_without_stacks),
		cmocka_unit_test(test_gpu_histograms),
		cmocka_unit_test(test_gpu_spans),
		cmocka_unit_test(test_gpu_unmatched),
		cmocka_unit_test(test_gpu_graphs_and_copies),
		cmocka_unit_test(test_gpu_captured),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_memory_levels),
		cmocka_unit_test(test_memory_virtual),
		cmocka_unit_test(test_memory_devices),
		cmocka_unit_test(test_workers),
		cmocka_unit_test(test_diff),
		cmocka_unit_test(test_profile),
		cmocka_unit_test(test_profile_without_frames),
		cmocka_unit_test(test_profile_of_odd_frames),
		cmocka_unit_test(test_kinds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
