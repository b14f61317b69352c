/* session_detect_test.c - a session with a budget is judged by the functions that are on all the
 * time: how often others were called is in no row, and what is usual is learned anew when the
 * budget turns down others. Nor is it judged for seconds in which all is on.
 *
 * links: cli */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "detect_names.h"
#include "pipeline/pipeline_impl.h"
#include "session/session_detect.h"

#define SECOND	    1000000000ULL
#define EACH_SECOND 20
#define SLOW_MOST   60
#define LEARN_MOST  600 /* seconds in which what is usual is to be known */

struct run {
	struct fake_names f;
	struct detect_names names;
	struct pipeline *p;
	struct session_detect *d;
	_Atomic uint64_t held_until_ns, raised_ns;
	uint64_t now_s;
	VEC(struct feature_row) rows;
};

static void on_row(void *ctx, const struct feature_row *row, double score, bool alarmed)
{
	struct run *r = ctx;
	(void)score;
	(void)alarmed;
	if (!strcmp(detect_layer_name(session_detect_layers(r->d), row->layer), "cuda"))
		*vec_push(&r->rows) = *row;
}

static void on_anomaly(void *ctx, const struct anomaly *a)
{
	(void)ctx;
	(void)a;
}

static void on_misfit(void *ctx, const struct model_misfit *m)
{
	(void)ctx;
	(void)m;
}

static void on_change(void *ctx, const struct change *c)
{
	(void)ctx;
	(void)c;
}

static void on_incident(void *ctx, const struct incident_said *told)
{
	(void)ctx;
	(void)told;
}

static void on_warning(void *ctx, const struct outlook_warning *w)
{
	(void)ctx;
	(void)w;
}

static void begin(struct run *r)
{
	struct rec_writer *w;
	struct err e = {""};
	*r = (struct run){.now_s = 1000};
	if (rec_writer_open(&w, NULL, NULL, &e))
		fail_msg("%s", e.msg);
	r->p = pipeline_new(w, "/proc", NULL);
	fake_names_make(&r->f);
	r->names = fake_names_of(&r->f);
	r->d = session_detect_new(&(struct session_detect_options){.ctx = r,
								   .anomaly = on_anomaly,
								   .misfit = on_misfit,
								   .change = on_change,
								   .incident = on_incident,
								   .warning = on_warning,
								   .row = on_row});
}

static void end(struct run *r)
{
	struct err e = {""};
	session_detect_free(r->d);
	assert_int_equal(pipeline_close(r->p, &e), 0);
	strtab_free(&r->f.strings);
	vec_free(&r->f.metrics);
	vec_free(&r->rows);
}

static void hand_over(struct run *r, struct feed_batch *b)
{
	const struct session_view view = {.pipeline = r->p,
					  .batch = b,
					  .names = &r->names,
					  .upto_ns = b->upto_ns,
					  .held_until_ns = &r->held_until_ns,
					  .raised_ns = &r->raised_ns};
	session_detect_batch(r->d, &view);
	vec_free(&b->calls);
	vec_free(&b->coverages);
}

static void call(struct run *r, struct feed_batch *b, enum fake_probe probe, uint64_t start_ns,
		 uint64_t dur_ns)
{
	struct m_call c = fake_call(probe, 0, start_ns, dur_ns);
	c.args[0] = fake_string(&r->f, "kernel");
	*vec_push(&b->calls) = c;
}

/* Work as ever, some copies in a burst, and what the budget says, if it does. */
static void second(struct run *r, uint32_t copies, const struct m_coverage *coverage)
{
	struct feed_batch b = {.upto_ns = (r->now_s + 1) * SECOND};
	uint64_t at_ns = r->now_s++ * SECOND;
	for (uint32_t i = 0; i < EACH_SECOND; i++)
		call(r, &b, FAKE_LAUNCH, at_ns + i * SECOND / EACH_SECOND,
		     SECOND / EACH_SECOND / 2);
	for (uint32_t i = 0; i < copies; i++)
		call(r, &b, FAKE_COPY, at_ns + SECOND - 1000000 * (copies - i), 300000);
	if (coverage)
		*vec_push(&b.coverages) = *coverage;
	hand_over(r, &b);
}

/* Half as much work, each piece of which takes twice as long. */
static void slow_second(struct run *r)
{
	struct feed_batch b = {.upto_ns = (r->now_s + 1) * SECOND};
	uint64_t at_ns = r->now_s++ * SECOND;
	for (uint32_t i = 0; i < EACH_SECOND / 2; i++)
		call(r, &b, FAKE_LAUNCH, at_ns + i * 2 * SECOND / EACH_SECOND,
		     SECOND / EACH_SECOND);
	hand_over(r, &b);
}

static void calls_of_bursts_are_in_no_row(void **state)
{
	(void)state;
	static struct run r;
	const struct m_coverage down = {.probe = FAKE_COPY, .in_bursts = true};
	begin(&r);
	for (uint32_t s = 0; s < 10; s++)
		second(&r, 7 * (s % 5), NULL);
	size_t before = r.rows.len;
	bool any = false;
	for (size_t i = 0; i < before; i++)
		any |= r.rows.data[i].events > EACH_SECOND;
	assert_true(before >= 5 && any);
	second(&r, 3, &down);
	r.rows.len = 0;
	for (uint32_t s = 0; s < 30; s++)
		second(&r, 7 * (s % 5), s % 5 ? NULL : &down);
	assert_true(r.rows.len >= 20);
	for (size_t i = 0; i < r.rows.len; i++)
		assert_int_equal(r.rows.data[i].events, EACH_SECOND);
	end(&r);
}

static void learn(struct run *r)
{
	for (int s = 0; s < LEARN_MOST && !session_detect_judges(r->d); s++)
		second(r, 5, NULL);
	assert_true(session_detect_judges(r->d));
}

static void what_is_usual_is_learned_anew(void **state)
{
	(void)state;
	static struct run r;
	const struct m_coverage down = {.probe = FAKE_COPY, .in_bursts = true},
				up = {.probe = FAKE_COPY};
	begin(&r);
	learn(&r);
	second(&r, 5, &down);
	assert_false(session_detect_judges(r.d));
	learn(&r);
	second(&r, 5, &down); /* as before */
	assert_true(session_detect_judges(r.d));
	second(&r, 5, &up);
	assert_false(session_detect_judges(r.d));
	end(&r);
}

static void the_budget_is_held_by_what_lasts(void **state)
{
	(void)state;
	static struct run r;
	begin(&r);
	learn(&r);
	for (int s = 0; s < 20; s++)
		second(&r, 5, NULL);
	assert_int_equal(r.held_until_ns, 0);
	for (int s = 0; s < SLOW_MOST && !r.held_until_ns; s++)
		slow_second(&r);
	uint64_t since_ns = monotonic_ns();
	assert_in_range(r.held_until_ns, since_ns + 5 * SECOND, since_ns + 10 * SECOND);
	end(&r);
}

/* All calls are recorded for a time, which makes the job slower. */
static void what_is_slow_while_all_is_on_is_not_judged(void **state)
{
	(void)state;
	static struct run r;
	begin(&r);
	learn(&r);
	for (int s = 0; s < 20; s++)
		second(&r, 5, NULL);
	assert_int_equal(session_detect_lossy(r.d), 0);
	for (int s = 0; s < SLOW_MOST; s++) {
		r.raised_ns = (r.now_s + 1) * SECOND;
		slow_second(&r);
	}
	for (int s = 0; s < 20; s++)
		second(&r, 5, NULL);
	uint64_t passed_over = session_detect_lossy(r.d);
	assert_in_range(passed_over, SLOW_MOST, 3 * SLOW_MOST);
	assert_int_equal(r.held_until_ns, 0); /* there was no anomaly */
	assert_true(session_detect_judges(r.d));
	for (int s = 0; s < SLOW_MOST && !r.held_until_ns; s++)
		slow_second(&r);
	assert_int_not_equal(r.held_until_ns, 0); /* nor was it learned as usual */
	assert_int_equal(session_detect_lossy(r.d), passed_over);
	end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_of_bursts_are_in_no_row),
		cmocka_unit_test(what_is_usual_is_learned_anew),
		cmocka_unit_test(the_budget_is_held_by_what_lasts),
		cmocka_unit_test(what_is_slow_while_all_is_on_is_not_judged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
