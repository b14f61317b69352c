/* flame_backward_test.c - GPU work of backward passes stands under the forward pass: below the
 * call of the operator that made the node.
 *
 * links: base recording analyze export symbolize */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/types.h>

#include <cmocka.h>

#include "analyze/flame.h"
#include "analyze/gpu_lines.h"
#include "export/flame.h"
#include "recording/recording.h"
#include "wire/event.h"

enum { MAIN, AUTOGRAD };
enum { US = 1000, NONE = 0, LAYERS = 20 };

#define OWN_STACK "n:clone n:torch::autograd::Engine::thread_main n:at::_ops::mm::call(T)"
#define OWN	  "clone;torch::autograd::Engine::thread_main;aten::mm"

struct world {
	char path[64];
	struct rec_writer *w;
	struct rec_reader *r;
	uint32_t launch, alloc, node, backward, addmm, relu;
	uint32_t own, correlation;
	uint64_t now_us;
};

static uint32_t text(struct world *x, const char *s)
{
	return rec_string_z(x->w, s);
}

/* "p:name@line" Python in train.py, "l:name@line" in PyTorch's library, "n:name" native. */
static uint32_t put_frame(struct world *x, const char *what)
{
	char name[128];
	const char *at = what[0] == 'n' ? NULL : strchr(what, '@');
	snprintf(name, sizeof(name), "%.*s", at ? (int)(at - what - 2) : 100, what + 2);
	struct m_frame f = {.kind = what[0] == 'n' ? FRAME_NATIVE : FRAME_PYTHON,
			    .name = text(x, name),
			    .line = at ? (uint32_t)atoi(at + 1) : 0};
	if (what[0] == 'p')
		f.file = text(x, "/job/train.py");
	if (what[0] == 'l')
		f.file = text(x, "/usr/lib/python3/dist-packages/torch/nn/linear.py");
	return rec_add_frame(x->w, &f);
}

/* Frames parted by blanks, root first. */
static uint32_t put_stack(struct world *x, const char *frames)
{
	char *copy = xstrdup(frames), *rest = copy, *what;
	uint32_t stack = 0;
	while ((what = strsep(&rest, " ")))
		stack = rec_add_stack(x->w, &(struct m_stack){stack, put_frame(x, what)});
	free(copy);
	return stack;
}

static uint32_t operator_probe(struct world *x, const char *name, const char *symbol)
{
	return rec_add_probe(x->w, &(struct m_probe){.layer = text(x, "torch"),
						     .name = text(x, name),
						     .symbol = text(x, symbol),
						     .name_arg = -1});
}

static void put_probes(struct world *x)
{
	x->launch = rec_add_probe(x->w, &(struct m_probe){.layer = text(x, "cuda"),
							  .name = text(x, "cuLaunchKernel"),
							  .role = text(x, "launch"),
							  .stack_every = 4,
							  .name_arg = 0,
							  .nargs = 1,
							  .arg_names = {text(x, "kernel")},
							  .arg_types = {ARG_TYPE_STRING}});
	x->alloc = rec_add_probe(x->w, &(struct m_probe){.layer = text(x, "torch_cuda"),
							 .name = text(x, "malloc"),
							 .stack_every = 1,
							 .name_arg = -1});
	x->node = rec_add_probe(
		x->w, &(struct m_probe){.layer = text(x, "torch"),
					.name = text(x, "Engine::evaluate_function"),
					.role = text(x, "autograd_node"),
					.nargs = 2,
					.arg_names = {text(x, "node"), text(x, "sequence")},
					.arg_types = {ARG_TYPE_STRING, ARG_TYPE_U64}});
	x->backward = rec_add_probe(x->w, &(struct m_probe){.layer = text(x, "torch"),
							    .name = text(x, "backward"),
							    .role = text(x, "backward"),
							    .name_arg = -1});
	x->addmm = operator_probe(x, "aten::addmm", "_ZN2at4_ops5addmm4callERKNS_6T");
	x->relu = operator_probe(x, "aten::relu", "_ZN2at4_ops4relu4callERKNS_6T");
}

static void begin(struct world *x)
{
	struct err e = {0};
	*x = (struct world){.now_us = 1000};
	strcpy(x->path, "/tmp/flame_backward_test.XXXXXX");
	int fd = mkstemp(x->path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(rec_writer_open(&x->w, x->path, NULL, &e), 0);
	for (uint32_t i = 0; i < 2; i++)
		rec_add_thread(x->w, &(struct m_thread){.pid = 10, .tid = 10 + i});
	put_probes(x);
	x->own = put_stack(x, OWN_STACK);
}

static void call(struct world *x, uint32_t thread, uint32_t probe, uint64_t start_us,
		 uint64_t dur_us, struct m_call c)
{
	c.start_ns = start_us * US;
	c.dur_ns = dur_us * US;
	c.thread = thread;
	c.probe = probe;
	rec_put_calls(x->w, &c, 1);
}

static void launch(struct world *x, uint32_t thread, uint32_t stack, const char *kernel,
		   uint64_t kernel_us)
{
	uint32_t name = text(x, kernel);
	call(x, thread, x->launch, x->now_us, 1,
	     (struct m_call){.nargs = 1, .args = {name}, .stack = stack});
	rec_put_gpu_span(x->w, &(struct m_gpu_span){
				       .start_ns = (x->now_us + 5) * US,
				       .end_ns = (x->now_us + 5 + kernel_us) * US,
				       .pid = 10,
				       .correlation = ++x->correlation,
				       .name = name,
				       .work = WORK_KERNEL,
			       });
	x->now_us += 2;
}

/* An operator of the forward pass, in which memory was allocated. */
static void forward(struct world *x, uint32_t probe, uint32_t stack)
{
	uint64_t start_us = x->now_us++;
	call(x, MAIN, x->alloc, x->now_us++, 1, (struct m_call){.stack = stack});
	call(x, MAIN, probe, start_us, ++x->now_us - start_us, (struct m_call){0});
	x->now_us++;
}

/* A node of the backward pass, with a kernel. */
static void node(struct world *x, const char *name, uint64_t sequence, uint64_t kernel_us)
{
	uint64_t start_us = x->now_us++;
	launch(x, AUTOGRAD, x->own, "gemm", kernel_us);
	call(x, AUTOGRAD, x->node, start_us, ++x->now_us - start_us,
	     (struct m_call){.nargs = 2, .args = {text(x, name), sequence}});
	x->now_us++;
}

/* A step of two layers, called from two lines: whose stacks are given. */
static void step(struct world *x, uint32_t first, uint32_t second, uint64_t sequence)
{
	forward(x, x->addmm, first);
	forward(x, x->relu, NONE);
	forward(x, x->addmm, second);
	uint64_t start_us = x->now_us++;
	node(x, "AddmmBackward0", sequence + 2, 1);
	node(x, "ReluBackward0", sequence + 1, 10);
	node(x, "torch::autograd::generated::AddmmBackward0", sequence, 100);
	node(x, "torch::autograd::AccumulateGrad", UINT64_MAX, 1000);
	call(x, MAIN, x->backward, start_us, x->now_us - start_us, (struct m_call){0});
	x->now_us += 10;
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void expect(const struct world *x, struct flame_options o, const char *want)
{
	struct calltree t;
	struct err e = {0};
	char *folded = NULL, *lines[64] = {NULL};
	struct buf sorted = {0};
	size_t len, n = 0;
	o.kind = FLAME_GPU;
	if (flame_make(&t, rec_source(x->r), &o, &e))
		fail_msg("%s", e.msg);
	FILE *out = open_memstream(&folded, &len);
	assert_int_equal(flame_folded.write(out, &t, &e), 0);
	fclose(out);
	for (char *rest = folded; rest && *rest && n < 64;)
		lines[n++] = strsep(&rest, "\n");
	qsort(lines, n, sizeof(*lines), compare_lines);
	for (size_t i = 0; i < n; i++)
		buf_printf(&sorted, "%s\n", lines[i]);
	buf_byte(&sorted, 0);
	assert_string_equal((char *)sorted.data, want);
	free(folded);
	buf_free(&sorted);
	calltree_free(&t);
}

static void read_back(struct world *x)
{
	struct err e = {0};
	assert_int_equal(rec_writer_close(x->w, false, &e), 0);
	assert_int_equal(rec_open(&x->r, x->path, &e), 0);
}

static void end(struct world *x)
{
	rec_close(x->r);
	unlink(x->path);
}

#define ADDMM  "n:at::_ops::addmm::call(T)"
#define FIRST  "p:main p:forward n:at::_ops::linear::call(T) " ADDMM
#define SECOND "p:main p:head " ADDMM

/* What the nodes started is under the two calls of aten::addmm; relu's stack is not known, and
 * AccumulateGrad has no operator. */
static void test_under_forward(void **state)
{
	struct world x;
	(void)state;
	begin(&x);
	step(&x, put_stack(&x, FIRST " n:malloc"), put_stack(&x, SECOND " n:malloc"), 0);
	read_back(&x);
	expect(&x, (struct flame_options){0},
	       OWN ";gemm 1010000\n"
		   "main (train.py);forward (train.py);aten::linear;aten::addmm;"
		   "backward: AddmmBackward0;gemm 100000\n"
		   "main (train.py);head (train.py);aten::addmm;"
		   "backward: AddmmBackward0;gemm 1000\n");
	expect(&x, (struct flame_options){.backward = FLAME_BACKWARD_OWN}, OWN ";gemm 1111000\n");
	end(&x);
}

/* Of the second step no stack was taken in the forward pass: its operators are those at the same
 * places of the first. */
static void test_other_step(void **state)
{
	struct world x;
	(void)state;
	begin(&x);
	step(&x, put_stack(&x, FIRST), NONE, 0);
	step(&x, NONE, put_stack(&x, SECOND), 3);
	read_back(&x);
	expect(&x, (struct flame_options){0},
	       OWN ";gemm 2020000\n"
		   "main (train.py);forward (train.py);aten::linear;aten::addmm;"
		   "backward: AddmmBackward0;gemm 200000\n"
		   "main (train.py);head (train.py);aten::addmm;"
		   "backward: AddmmBackward0;gemm 2000\n");
	end(&x);
}

/* A step of a deep model: of two of its layers the stacks are known. */
static void deep_step(struct world *x, uint32_t tenth, uint32_t twelfth)
{
	for (int i = 0; i < LAYERS; i++) {
		forward(x, x->addmm, i == 10 ? tenth : i == 12 ? twelfth : NONE);
		forward(x, x->relu, NONE);
	}
	uint64_t start_us = x->now_us++;
	for (int i = LAYERS - 1; i >= 0; i--) {
		node(x, "ReluBackward0", 2 * (uint64_t)i + 1, 100);
		node(x, "AddmmBackward0", 2 * (uint64_t)i, 1);
	}
	call(x, MAIN, x->backward, start_us, x->now_us - start_us, (struct m_call){0});
	x->now_us += 10;
}

/* Layers with the same neighbours, four at each end have others, are called from one line. Who
 * called the function of that line may differ. */
static void test_layers_alike(void **state)
{
	struct world x;
	(void)state;
	begin(&x);
	deep_step(&x, put_stack(&x, "p:main@3 p:forward@12 l:linear@114 " ADDMM),
		  put_stack(&x, "p:warm@9 p:forward@12 l:linear@114 " ADDMM));
	read_back(&x);
	expect(&x, (struct flame_options){0},
	       OWN ";gemm 2008000\n"
		   "main (train.py);forward (train.py);linear (linear.py);aten::addmm;"
		   "backward: AddmmBackward0;gemm 11000\n"
		   "warm (train.py);forward (train.py);linear (linear.py);aten::addmm;"
		   "backward: AddmmBackward0;gemm 1000\n");
	end(&x);
}

/* Called from two lines: nobody knows which of them the others are called from. */
static void test_layers_of_two_lines(void **state)
{
	struct world x;
	(void)state;
	begin(&x);
	deep_step(&x, put_stack(&x, "p:main@3 p:forward@12 l:linear@114 " ADDMM),
		  put_stack(&x, "p:main@3 p:forward@13 l:linear@114 " ADDMM));
	read_back(&x);
	expect(&x, (struct flame_options){0},
	       OWN ";gemm 2018000\n"
		   "main (train.py);forward (train.py);linear (linear.py);aten::addmm;"
		   "backward: AddmmBackward0;gemm 2000\n");
	end(&x);
}

/* A stack that does not show the operator ends at its Python function, and the operator's name
 * comes below; one that shows neither says nothing. */
static void test_operator_not_on_stack(void **state)
{
	struct world x;
	(void)state;
	begin(&x);
	step(&x, put_stack(&x, "p:main p:forward n:dispatch n:malloc"), put_stack(&x, "n:malloc"),
	     0);
	read_back(&x);
	expect(&x, (struct flame_options){0},
	       OWN ";gemm 1011000\n"
		   "main (train.py);forward (train.py);aten::addmm;"
		   "backward: AddmmBackward0;gemm 100000\n");
	end(&x);
}

/* The forward pass launches the same kernel: its own time stays its own. */
static void test_totals(void **state)
{
	struct world x;
	(void)state;
	begin(&x);
	launch(&x, MAIN, put_stack(&x, FIRST), "gemm", 7);
	step(&x, put_stack(&x, FIRST), put_stack(&x, SECOND), 0);
	launch(&x, MAIN, put_stack(&x, "p:main p:step"), "adam", 3);
	read_back(&x);
	expect(&x, (struct flame_options){0},
	       OWN ";gemm 1010000\n"
		   "main (train.py);forward (train.py);aten::linear;aten::addmm;"
		   "backward: AddmmBackward0;gemm 100000\n"
		   "main (train.py);forward (train.py);aten::linear;aten::addmm;gemm 7000\n"
		   "main (train.py);head (train.py);aten::addmm;"
		   "backward: AddmmBackward0;gemm 1000\n"
		   "main (train.py);step (train.py);adam 3000\n");
	end(&x);
}

static void expect_line(const struct gpu_line *l, const char *name, uint32_t line,
			uint64_t forward_us, uint64_t backward_us)
{
	assert_string_equal(l->name, name);
	assert_int_equal(l->line, line);
	assert_int_equal(l->forward_ns, forward_us * US);
	assert_int_equal(l->backward_ns, backward_us * US);
}

/* Each at the innermost line of the job's own code: not in PyTorch's, except where there is no
 * other. */
static void test_lines(void **state)
{
	struct world x;
	struct gpu_lines l;
	(void)state;
	begin(&x);
	uint32_t first = put_stack(&x, "p:main@3 p:forward@12 l:linear@114 " ADDMM);
	launch(&x, MAIN, first, "relu", 7);
	step(&x, first, put_stack(&x, "p:main@3 p:forward@13 l:linear@114 " ADDMM), 0);
	launch(&x, MAIN, put_stack(&x, "l:step@80 n:launch"), "adam", 3);
	read_back(&x);
	gpu_lines_make(&l, rec_source(x.r), &(struct gpu_lines_options){0});
	assert_int_equal(l.total_ns, 1121 * US);
	assert_int_equal(l.elsewhere_ns, 1010 * US);
	assert_int_equal(l.rows.len, 3);
	expect_line(&l.rows.data[0], "forward (train.py:12)", 12, 7, 100);
	expect_line(&l.rows.data[1], "step (linear.py:80)", 80, 3, 0);
	expect_line(&l.rows.data[2], "forward (train.py:13)", 13, 0, 1);
	assert_string_equal(l.rows.data[0].file, "/job/train.py");
	gpu_lines_free(&l);
	end(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_under_forward),
		cmocka_unit_test(test_other_step),
		cmocka_unit_test(test_layers_alike),
		cmocka_unit_test(test_layers_of_two_lines),
		cmocka_unit_test(test_operator_not_on_stack),
		cmocka_unit_test(test_totals),
		cmocka_unit_test(test_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
