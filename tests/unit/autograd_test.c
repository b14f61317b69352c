/* autograd_test.c - nodes of backward passes find the operators that made them.
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

#include "analyze/autograd.h"
#include "recording/recording.h"
#include "wire/event.h"

enum { FORWARD_THREAD, BACKWARD_THREAD };
enum { US = 1000 };

struct made {
	char path[64];
	struct rec_writer *w;
	struct rec_reader *r;
	struct autograd_links links;
	uint32_t node, backward;
	uint64_t now_ns;
	VEC(uint64_t) expected; /* start of node, start of its operator, and so on */
	uint64_t sequence;
};

static uint32_t text(struct made *m, const char *s)
{
	return rec_string_z(m->w, s);
}

static void begin(struct made *m)
{
	struct err e = {0};
	*m = (struct made){.now_ns = 1000 * US};
	strcpy(m->path, "/tmp/autograd_test.XXXXXX");
	int fd = mkstemp(m->path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(rec_writer_open(&m->w, m->path, &(struct rec_writer_options){0}, &e), 0);
	for (uint32_t i = 0; i < 2; i++)
		rec_add_thread(m->w, &(struct m_thread){.pid = 10, .tid = 10 + i});
	m->node = rec_add_probe(m->w, &(struct m_probe){
					      .layer = text(m, "torch"),
					      .name = text(m, "evaluate_function"),
					      .role = text(m, "autograd_node"),
					      .nargs = 2,
					      .arg_names = {text(m, "node"), text(m, "sequence")},
					      .arg_types = {ARG_TYPE_STRING, ARG_TYPE_U64},
				      });
	m->backward = rec_add_probe(m->w, &(struct m_probe){.layer = text(m, "torch"),
							    .name = text(m, "backward"),
							    .role = text(m, "backward"),
							    .name_arg = -1});
}

static uint64_t call(struct made *m, uint32_t thread, uint32_t probe, uint64_t dur_ns,
		     const uint64_t args[2], uint8_t nargs)
{
	struct m_call c = {.start_ns = m->now_ns,
			   .dur_ns = dur_ns,
			   .thread = thread,
			   .probe = probe,
			   .nargs = nargs};
	if (nargs)
		memcpy(c.args, args, nargs * sizeof(*args));
	rec_put_calls(m->w, &c, 1);
	m->now_ns += 10 * US;
	return c.start_ns;
}

static uint64_t operator(struct made *m, const char *name)
{
	struct m_probe p = {.layer = text(m, "torch"), .name = text(m, name), .name_arg = -1};
	return call(m, FORWARD_THREAD, rec_add_probe(m->w, &p), 5 * US, NULL, 0);
}

struct node {
	const char *name;
	uint64_t sequence;
	uint64_t operator_ns; /* 0 = it has none */
};

/* The nodes run in the reverse of the order of their numbers. */
static void pass(struct made *m, const struct node *nodes, size_t n)
{
	uint64_t start_ns = m->now_ns;
	m->now_ns += US;
	for (size_t i = n; i-- > 0;) {
		uint64_t args[2] = {text(m, nodes[i].name), nodes[i].sequence};
		uint64_t at = call(m, BACKWARD_THREAD, m->node, 5 * US, args, 2);
		if (nodes[i].operator_ns) {
			*vec_push(&m->expected) = at;
			*vec_push(&m->expected) = nodes[i].operator_ns;
		}
	}
	struct m_call c = {
		.start_ns = start_ns, .dur_ns = m->now_ns - start_ns, .probe = m->backward};
	rec_put_calls(m->w, &c, 1);
	m->now_ns += US;
}

static void end(struct made *m)
{
	struct err e = {0};
	assert_int_equal(rec_writer_close(m->w, false, &e), 0);
	assert_int_equal(rec_open(&m->r, m->path, &e), 0);
	autograd_links_make(&m->links, rec_source(m->r), 0);
	assert_int_equal(m->links.rows.len, m->expected.len / 2);
	for (size_t i = 0; i < m->expected.len; i += 2) {
		const struct autograd_link *l =
			autograd_link_of(&m->links, BACKWARD_THREAD, m->expected.data[i]);
		assert_non_null(l);
		assert_int_equal(l->operator_start_ns, m->expected.data[i + 1]);
		assert_int_equal(l->operator_thread, FORWARD_THREAD);
	}
	assert_null(autograd_link_of(&m->links, BACKWARD_THREAD, 1));
	autograd_links_free(&m->links);
	rec_close(m->r);
	unlink(m->path);
	vec_free(&m->expected);
}

/* Three steps: the optimizer's operators have names of the forward pass, and no nodes. */
static void test_steps(void **state)
{
	struct made m;
	(void)state;
	begin(&m);
	for (int i = 0; i < 3; i++) {
		uint64_t s = m.sequence, n = UINT64_MAX;
		operator(&m, "aten::mul"); /* of the step before, or of nothing */
		uint64_t first = operator(&m, "aten::addmm");
		uint64_t norm = operator(&m, "aten::native_layer_norm");
		uint64_t mul = operator(&m, "aten::mul");
		uint64_t second = operator(&m, "aten::addmm");
		uint64_t soft = operator(&m, "aten::_log_softmax");
		uint64_t loss = operator(&m, "aten::nll_loss_forward");
		pass(&m,
		     (struct node[]){{"AddmmBackward0", s, first},
				     {"NativeLayerNormBackward0", s + 1, norm},
				     {"ViewBackward0", s + 2, 0},
				     {"MulBackward0", s + 3, mul},
				     {"AddmmBackward0", s + 4, second},
				     {"LogSoftmaxBackward0", s + 5, soft},
				     {"NllLossBackward0", s + 6, loss},
				     {"torch::autograd::AccumulateGrad", n, 0}},
		     8);
		m.sequence += 7;
		operator(&m, "aten::mul");
		operator(&m, "aten::addmm");
	}
	end(&m);
}

/* Two passes without a step between them, and one that has no forward pass. */
static void test_accumulation(void **state)
{
	struct made m;
	(void)state;
	begin(&m);
	for (int i = 0; i < 2; i++) {
		uint64_t a = operator(&m, "aten::add_"), b = operator(&m, "aten::sum");
		pass(&m,
		     (struct node[]){{"AddBackward0", m.sequence, a},
				     {"SumBackward1", m.sequence + 1, b}},
		     2);
		m.sequence += 2;
	}
	pass(&m, (struct node[]){{"AddBackward0", 0, 0}}, 1);
	end(&m);
}

static void test_keys(void **state)
{
	static const char *const names[][2] = {
		{"aten::_log_softmax", "LogSoftmaxBackward0"},
		{"aten::_scaled_dot_product_flash_attention",
		 "ScaledDotProductFlashAttentionBackward0"},
		{"aten::add_", "AddBackward1"},
		{"aten::t", "torch::autograd::generated::TBackward0"},
	};
	char a[64], b[64];
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		autograd_operator_key(a, sizeof(a), names[i][0]);
		autograd_node_key(b, sizeof(b), names[i][1]);
		assert_string_equal(a, b);
	}
	autograd_node_key(b, sizeof(b), "torch::autograd::AccumulateGrad");
	assert_string_equal(b, "");
	autograd_node_key(b, 4, "AddmmBackward0");
	assert_string_equal(b, "add");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_accumulation),
		cmocka_unit_test(test_keys),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
