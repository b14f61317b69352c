/* evidence_test.c - what grew in slow stretches, from recordings made by hand.
 *
 * links: incident detect analyze recording base golden */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <linux/types.h>

#include <cmocka.h>

#include "base/entity.h"
#include "incident/evidence.h"
#include "recording/recording.h"
#include "made_file.h"

#define MS  1000000ULL
#define JOB 7

static struct rec_writer *w;

static void create(void)
{
	struct err err = {0};
	if (rec_writer_open(&w, path, NULL, &err))
		fail_msg("%s", err.msg);
	rec_put_process(w, &(struct m_process){.pid = JOB, .parent_pid = 1, .start_ns = 1});
}

static uint32_t probe_of(const char *layer, const char *name, const char *role)
{
	return rec_add_probe(w, &(struct m_probe){.layer = (uint32_t)rec_string_z(w, layer),
						  .name = (uint32_t)rec_string_z(w, name),
						  .role = (uint32_t)rec_string_z(w, role),
						  .has_return = 1,
						  .name_arg = -1});
}

static uint32_t probe(const char *name, const char *role)
{
	return probe_of("torch", name, role);
}

static void call(uint32_t p, uint32_t thread, uint64_t from_us, uint64_t us)
{
	const struct m_call c = {
		.probe = p, .thread = thread, .start_ns = from_us * 1000, .dur_ns = us * 1000};
	rec_put_calls(w, &c, 1);
}

static const struct call_growth *growth(const struct evidence *e, uint32_t p)
{
	for (size_t i = 0; i < e->calls.len; i++)
		if (e->calls.data[i].probe == p)
			return &e->calls.data[i];
	fail_msg("nothing of probe %u", p);
	return NULL;
}

/* Ten calls of 5 ms in 0..100 ms, of 15 in 200..400. */
static void evidence_at(struct evidence *ret, struct rec_reader **ret_reader, uint64_t slow_ms)
{
	struct err err = {0};
	struct timeline timeline;
	if (rec_writer_close(w, false, &err) || rec_open(ret_reader, path, &err))
		fail_msg("%s", err.msg);
	const struct row_source *s = rec_source(*ret_reader);
	timeline_make(&timeline, s, &(struct timeline_options){0});
	struct blame_world *world = blame_world_new(s, &timeline);
	struct blame_span usual_span = {0, 0, 100 * MS, 0};
	struct blame_span slow_span = {0, slow_ms * MS, (slow_ms + 200) * MS, 100.0 * MS};
	struct evidence_usual usual = {.spans = {.data = &usual_span, .len = 1}};
	struct evidence_question q = {
		.slow = {.data = &slow_span, .len = 1}, .usual = &usual, .by_steps = true};
	usual.blame = blame_usual_new(world, &usual_span, 1);
	evidence_make(ret, NULL, s, &timeline, world, &q, 1);
	blame_usual_free(usual.blame);
	blame_world_free(world);
	timeline_free(&timeline);
}

static void evidence_of(struct evidence *ret, struct rec_reader **ret_reader)
{
	evidence_at(ret, ret_reader, 200);
}

/* A backward pass waits for another thread, whose nodes became slow: it is not slow by itself. */
static void what_is_waited_for_is_not_its_own(void **state)
{
	(void)state;
	struct evidence e;
	struct rec_reader *reader;
	create();
	uint32_t pass = probe("backward", "backward"), node = probe("MulBackward0", "");
	uint32_t other = probe("sync", "");
	uint32_t first = rec_add_thread(w, &(struct m_thread){JOB, JOB, 0});
	uint32_t engine = rec_add_thread(w, &(struct m_thread){JOB, 9, 0});
	for (uint64_t i = 0; i < 10; i++) {
		call(node, engine, i * 10000 + 500, 4000);
		call(pass, first, i * 10000, 5000);
		call(other, first, i * 10000 + 5000, 1000);
	}
	for (uint64_t i = 0; i < 10; i++) {
		call(node, engine, 200000 + i * 20000 + 500, 14000);
		call(pass, first, 200000 + i * 20000, 15000);
		call(other, first, 200000 + i * 20000 + 15000, 3000);
	}
	evidence_of(&e, &reader);
	const struct call_growth *g = growth(&e, node);
	assert_true(round(g->own_ns / MS) == 140 && round(g->usual_own_ns / MS) == 40);
	g = growth(&e, pass);
	assert_true(round(g->ns / MS) == 150);
	assert_true(round(g->own_ns / MS) == 50 && round(g->usual_own_ns / MS) == 50);
	g = growth(&e, other); /* nobody else was slow in it */
	assert_true(round(g->own_ns / MS) == 30 && round(g->usual_own_ns / MS) == 10);
	evidence_free(&e);
	rec_close(reader);
}

static double slow_mean(const struct evidence *e, uint32_t metric)
{
	for (size_t i = 0; i < e->counters.len; i++)
		if (e->counters.data[i].metric == metric)
			return e->counters.data[i].mean;
	return NAN;
}

/* What went over a GPU's link since the value before: the driver did not answer for a while, and
 * the slow time, 200 to 400 ms, has no value of its own. */
static void a_rate_is_of_the_time_since_the_value_before(void **state)
{
	(void)state;
	struct evidence e;
	struct rec_reader *reader;
	create();
	uint32_t p = probe("step", "");
	call(p, rec_add_thread(w, &(struct m_thread){JOB, JOB, 0}), 0, 400000);
	uint32_t rate = rec_add_metric(
		w, &(struct m_metric){.kind = ENTITY_GPU,
				      .instance = -1,
				      .name = (uint32_t)rec_string_z(w, "pcie_rx_bytes_per_s")});
	uint32_t clock = rec_add_metric(
		w, &(struct m_metric){.kind = ENTITY_GPU,
				      .instance = -1,
				      .name = (uint32_t)rec_string_z(w, "sm_clock_mhz")});
	const uint64_t at_ms[] = {50, 100, 150, 2200};
	const double rates[] = {1e9, 1e9, 1e9, 50e9};
	for (size_t i = 0; i < 4; i++) {
		rec_put_counter(w, &(struct m_counter){at_ms[i] * MS, rate, rates[i]});
		rec_put_counter(w, &(struct m_counter){at_ms[i] * MS, clock, rates[i]});
	}
	evidence_of(&e, &reader);
	assert_true(fabs(slow_mean(&e, rate) - 50e9) < 1);
	assert_true(isnan(slow_mean(&e, clock))); /* that of a moment is of no other */
	evidence_free(&e);
	rec_close(reader);
}

static uint32_t line(uint32_t parent, const char *function, const char *file, uint32_t number)
{
	uint32_t frame =
		rec_add_frame(w, &(struct m_frame){.kind = FRAME_PYTHON,
						   .name = (uint32_t)rec_string_z(w, function),
						   .file = (uint32_t)rec_string_z(w, file),
						   .line = number});
	return rec_add_stack(w, &(struct m_stack){parent, frame});
}

static void samples(uint32_t thread, uint64_t from_ms, uint64_t to_ms, uint32_t stack)
{
	for (uint64_t at = from_ms; at < to_ms; at++)
		rec_put_sample(w, &(struct m_sample){.time_ns = at * MS + MS / 2,
						     .weight_ns = MS,
						     .thread = thread,
						     .stack = stack});
}

/* 0: none. */
static uint32_t line_of(const struct rec_reader *reader, uint32_t frame)
{
	return frame == BLAME_NO_FRAME ? 0 : rec_tables(reader)->frames.data[frame].line;
}

/* The job's own line that has most of them, not torch.save's; and not one outside of the time where
 * there is one within. */
static uint32_t line_that_saves(bool within, uint64_t slow_ms)
{
	const char *torch = "/usr/lib/python3/dist-packages/torch/serialization.py";
	struct evidence e;
	struct rec_reader *reader;
	create();
	uint32_t first = rec_add_thread(w, &(struct m_thread){JOB, JOB, 0});
	uint32_t train = line(0, "main", "/job/train.py", 10);
	uint32_t best = line(train, "save_best", "/job/train.py", 57);
	uint32_t last = line(train, "save_last", "/job/train.py", 63);
	samples(first, 110, 180, line(last, "save", torch, 420));
	if (within)
		samples(first, 200, 230, line(line(best, "save", torch, 423), "_save", torch, 635));
	if (within)
		samples(first, 230, 250, line(last, "save", torch, 420));
	samples(first, 250, 400, train);
	evidence_at(&e, &reader, slow_ms);
	uint32_t ret = line_of(reader, e.saving_frame);
	evidence_free(&e);
	rec_close(reader);
	return ret;
}

/* A file may be saved in one step, and the disk be waited for in the next; not long after. */
static void a_checkpoint_has_the_line_that_writes_it(void **state)
{
	(void)state;
	assert_int_equal(line_that_saves(true, 200), 57);
	assert_int_equal(line_that_saves(false, 200), 63);
	assert_int_equal(line_that_saves(false, 660), 63);
	assert_int_equal(line_that_saves(false, 700), 0);
}

/* Garbage is collected where the line has made enough of it: one line that has most of it is named,
 * also of a library; of many none is. What runs between says nothing. */
static uint32_t line_that_collects(bool scattered)
{
	struct evidence e;
	struct rec_reader *reader;
	create();
	uint32_t first = rec_add_thread(w, &(struct m_thread){JOB, JOB, 0});
	uint32_t gc = probe_of("python", "gc", "");
	uint32_t train = line(0, "main", "/job/train.py", 10);
	uint32_t makes = line(train, "pairs", "/usr/lib/python3/library.py", 24);
	uint32_t others = line(train, "other", "/job/train.py", 30);
	call(gc, first, 210000, 50000);
	call(gc, first, 300000, 40000);
	samples(first, 200, 210, train);
	samples(first, 210, 260, makes);
	samples(first, 260, 300, train);
	samples(first, 300, 330, scattered ? others : makes);
	samples(first, 330, 340, scattered ? train : makes);
	samples(first, 340, 400, train);
	if (scattered)
		call(gc, first, 350000, 20000);
	evidence_of(&e, &reader);
	uint32_t ret = line_of(reader, e.collecting_frame);
	evidence_free(&e);
	rec_close(reader);
	return ret;
}

static void garbage_has_the_line_that_makes_it(void **state)
{
	(void)state;
	assert_int_equal(line_that_collects(false), 24);
	assert_int_equal(line_that_collects(true), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rate_is_of_the_time_since_the_value_before),
		cmocka_unit_test(what_is_waited_for_is_not_its_own),
		cmocka_unit_test(a_checkpoint_has_the_line_that_writes_it),
		cmocka_unit_test(garbage_has_the_line_that_makes_it),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}
