/* operators_test.c - GPU time goes to the operator that launched it, or whose backward did.
 * links: analyze recording base */
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

#include "analyze/operators.h"
#include "recording/recording.h"
#include "wire/event.h"

enum { MAIN, AUTOGRAD };
enum { US = 1000, NODES = 300 };

struct world {
	char path[64];
	struct rec_writer *w;
	uint32_t launch, node, backward;
	uint32_t correlation;
};

static uint32_t text(struct world *x, const char *s)
{
	return rec_string_z(x->w, s);
}

static void call(struct world *x, uint32_t thread, uint32_t probe, uint64_t start_us,
		 uint64_t dur_us, uint64_t first, uint64_t second, uint8_t nargs)
{
	struct m_call c = {.start_ns = start_us * US,
			   .dur_ns = dur_us * US,
			   .thread = thread,
			   .probe = probe,
			   .nargs = nargs,
			   .args = {first, second}};
	rec_put_calls(x->w, &c, 1);
}

static void operator(struct world *x, const char *name, uint32_t thread, uint64_t start_us,
		     uint64_t dur_us)
{
	struct m_probe p = {.layer = text(x, "torch"), .name = text(x, name), .name_arg = -1};
	call(x, thread, rec_add_probe(x->w, &p), start_us, dur_us, 0, 0, 0);
}

/* A launch, and its kernel 100 us later. */
static void launch(struct world *x, uint32_t thread, uint64_t start_us, uint64_t kernel_us)
{
	uint32_t kernel = text(x, "kernel");
	call(x, thread, x->launch, start_us, 1, kernel, 0, 1);
	rec_put_gpu_span(x->w, &(struct m_gpu_span){
				       .start_ns = (start_us + 100) * US,
				       .end_ns = (start_us + 100 + kernel_us) * US,
				       .pid = 10,
				       .correlation = ++x->correlation,
				       .name = kernel,
				       .work = WORK_KERNEL,
			       });
}

static void begin(struct world *x)
{
	struct err e = {0};
	*x = (struct world){0};
	strcpy(x->path, "/tmp/operators_test.XXXXXX");
	int fd = mkstemp(x->path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(rec_writer_open(&x->w, x->path, NULL, &e), 0);
	for (uint32_t i = 0; i < 2; i++)
		rec_add_thread(x->w, &(struct m_thread){.pid = 10, .tid = 10 + i});
	x->launch = rec_add_probe(x->w, &(struct m_probe){.layer = text(x, "cuda"),
							  .name = text(x, "cuLaunchKernel"),
							  .role = text(x, "launch"),
							  .name_arg = 0,
							  .nargs = 1,
							  .arg_names = {text(x, "kernel")},
							  .arg_types = {ARG_TYPE_STRING}});
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
}

static const struct operator_time *row(const struct operators *o, const char *name)
{
	for (size_t i = 0; i < o->rows.len; i++)
		if (!strcmp(o->rows.data[i].name, name))
			return &o->rows.data[i];
	return NULL;
}

static void test_sums(void **state)
{
	struct world x;
	struct err e = {0};
	struct rec_reader *r;
	struct timeline t;
	struct operators o;
	(void)state;
	begin(&x);
	operator(&x, "aten::linear", MAIN, 10, 50); /* outer: launches nothing itself */
	operator(&x, "aten::addmm", MAIN, 20, 30);
	launch(&x, MAIN, 25, 7);
	launch(&x, MAIN, 30, 3);
	launch(&x, MAIN, 70, 5); /* outside */
	operator(&x, "aten::mm", AUTOGRAD, 220, 10);
	launch(&x, AUTOGRAD, 222, 11);
	call(&x, AUTOGRAD, x.node, 210, 30, text(&x, "AddmmBackward0"), 4, 2);
	launch(&x, AUTOGRAD, 245, 2);
	call(&x, AUTOGRAD, x.node, 241, 10, text(&x, "torch::autograd::AccumulateGrad"), UINT64_MAX,
	     2);
	call(&x, MAIN, x.backward, 200, 100, 0, 0, 0);
	assert_int_equal(rec_writer_close(x.w, false, &e), 0);
	assert_int_equal(rec_open(&r, x.path, &e), 0);
	timeline_make(&t, rec_source(r), &(struct timeline_options){0});
	assert_int_equal(t.matched_spans, 5);
	operators_make(&o, rec_source(r), &t, 0);
	assert_int_equal(o.rows.len,
			 2); /* aten::linear and aten::mm started nothing of their own */
	const struct operator_time *addmm = row(&o, "aten::addmm");
	assert_non_null(addmm);
	assert_int_equal(addmm->calls, 1);
	assert_int_equal(addmm->forward_ns, 10 * US);
	assert_int_equal(addmm->forward_spans, 2);
	assert_int_equal(addmm->nodes, 1);
	assert_int_equal(addmm->backward_ns, 11 * US);
	const struct operator_time *accumulate = row(&o, "AccumulateGrad");
	assert_non_null(accumulate);
	assert_int_equal(accumulate->backward_ns, 2 * US);
	assert_int_equal(accumulate->forward_ns, 0);
	assert_int_equal(o.outside_ns, 5 * US);
	assert_int_equal(o.backward_ns, 13 * US);
	assert_int_equal(o.linked_ns, 11 * US);
	operators_free(&o);
	operators_make(&o, rec_source(r), &t, 11); /* another process */
	assert_int_equal(row(&o, "aten::addmm") != NULL, 0);
	operators_free(&o);
	timeline_free(&t);
	rec_close(r);
	unlink(x.path);
}

/* The rows move as they become more: each node is counted in its own. */
static void test_many_nodes(void **state)
{
	struct world x;
	struct err e = {0};
	struct rec_reader *r;
	struct timeline t;
	struct operators o;
	char name[32];
	(void)state;
	begin(&x);
	for (unsigned i = 0; i < NODES; i++) {
		snprintf(name, sizeof(name), "Made%uBackward", i);
		launch(&x, AUTOGRAD, 1000 + 10 * i, 2);
		call(&x, AUTOGRAD, x.node, 1000 + 10 * i, 5, text(&x, name), UINT64_MAX, 2);
	}
	call(&x, MAIN, x.backward, 900, 10 * NODES + 200, 0, 0, 0);
	assert_int_equal(rec_writer_close(x.w, false, &e), 0);
	assert_int_equal(rec_open(&r, x.path, &e), 0);
	timeline_make(&t, rec_source(r), &(struct timeline_options){0});
	operators_make(&o, rec_source(r), &t, 0);
	assert_int_equal(o.rows.len, NODES);
	for (unsigned i = 0; i < NODES; i++) {
		assert_int_equal(o.rows.data[i].nodes, 1);
		assert_int_equal(o.rows.data[i].backward_ns, 2 * US);
	}
	operators_free(&o);
	timeline_free(&t);
	rec_close(r);
	unlink(x.path);
}

/* Recordings of before there were roles; and those in which nodes were not traced. */
static void sums_without_roles(bool nodes)
{
	struct world x;
	struct err e = {0};
	struct rec_reader *r;
	struct timeline t;
	struct operators o;
	begin(&x);
	uint32_t node = rec_add_probe(
		x.w,
		&(struct m_probe){.layer = text(&x, "torch"),
				  .name = text(&x, "torch::autograd::Engine::evaluate_function"),
				  .symbol = text(&x, "_ZN5torch8autograd6Engine17evaluate_"
						     "functionERSt10shared_ptr"),
				  .nargs = 1,
				  .arg_names = {text(&x, "node")},
				  .arg_types = {ARG_TYPE_STRING}});
	uint32_t pass = rec_add_probe(
		x.w, &(struct m_probe){.layer = text(&x, "torch"),
				       .name = text(&x, "backward"),
				       .symbol = text(&x, "_ZN5torch8autograd6Engine7executeERK"),
				       .name_arg = -1});
	operator(&x, "aten::addmm", MAIN, 20, 30);
	launch(&x, MAIN, 25, 7);
	operator(&x, "aten::mm", AUTOGRAD, 220, 10);
	launch(&x, AUTOGRAD, 222, 11);
	if (nodes)
		call(&x, AUTOGRAD, node, 210, 30, text(&x, "AddmmBackward0"), 0, 1);
	call(&x, MAIN, pass, 200, 100, 0, 0, 0);
	assert_int_equal(rec_writer_close(x.w, false, &e), 0);
	assert_int_equal(rec_open(&r, x.path, &e), 0);
	timeline_make(&t, rec_source(r), &(struct timeline_options){0});
	operators_make(&o, rec_source(r), &t, 0);
	assert_int_equal(o.nodes_missing, !nodes);
	assert_int_equal(row(&o, "aten::addmm")->forward_ns, 7 * US);
	if (nodes) { /* the numbers that link them are missing too */
		assert_int_equal(row(&o, "AddmmBackward0")->backward_ns, 11 * US);
		assert_null(row(&o, "aten::mm"));
	} else {
		assert_int_equal(row(&o, "aten::mm")->forward_ns, 11 * US);
	}
	operators_free(&o);
	timeline_free(&t);
	rec_close(r);
	unlink(x.path);
}

static void test_without_roles(void **state)
{
	(void)state;
	sums_without_roles(true);
	sums_without_roles(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_many_nodes),
		cmocka_unit_test(test_without_roles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
