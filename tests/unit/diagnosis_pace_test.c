/* diagnosis_pace_test.c - what an incident cost by its pace, against what its steps explain.
 *
 * links: incident detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <linux/types.h>

#include "incident/diagnosis_impl.h"

#define S 1000000000ULL

/* Of ten seconds. */
static struct diagnosed incident(double lost_s)
{
	return (struct diagnosed){.id = 1,
				  .onset_ns = 100 * S,
				  .end_ns = 110 * S,
				  .lost_until_ns = 110 * S,
				  .lost_by_pace = true,
				  .cost_ns = lost_s * 1e9};
}

static struct diagnosed piece(double whole_s, double excess_s)
{
	struct diagnosed ret = {.blamed = true,
				.cost_ns = excess_s * 1e9,
				.evidence.blame = {.whole_ns = whole_s * 1e9,
						   .usual_ns = (whole_s - excess_s) * 1e9},
				.cause = {.cause = CAUSE_CPU_CONTENTION,
					  .runner_up = CAUSE_UNKNOWN,
					  .explained_ns = excess_s * 1e9,
					  .confidence = 0.99,
					  .culprit = {.kind = CULPRIT_PROCESS, .pid = 7}}};
	*vec_push(&ret.evidence.blame.parts) = (struct blame_part){.ns = excess_s * 1e9};
	return ret;
}

static void end(struct diagnosed *in)
{
	cause_free(&in->cause);
	vec_free(&in->steps);
	vec_free(&in->evidence.blame.parts);
}

static double s_of(double ns)
{
	return round(ns / 1e6) / 1e3;
}

static void steps_as_before_have_no_cause(void **state)
{
	(void)state;
	struct diagnosed of = incident(4), in = piece(10, 0.025);
	diagnosis_compare_pace(&in, 1, &of);
	assert_int_equal(in.cause.cause, CAUSE_UNKNOWN);
	assert_int_equal(in.cause.culprit.kind, CULPRIT_NONE);
	assert_true(in.cause.confidence < 0.01);
	assert_int_equal(in.cause.runner_up, CAUSE_CPU_CONTENTION);
	assert_string_equal(in.cause.against, "it explains 25.0 ms of 4.00 s");
	assert_int_equal(in.cause.evidence_len, 1);
	assert_non_null(strstr(in.cause.evidence[0], "learn it again"));
	assert_true(s_of(in.cost_ns) == 4);
	assert_true(s_of(in.evidence.blame.unexplained_ns) == 3.975);
	assert_true(s_of(evidence_excess(&in.evidence)) ==
		    4); /* and the whole is as long as it was */
	assert_true(s_of(in.evidence.blame.whole_ns) == 10);
	end(&in);
}

/* While it lasts its end goes on, and what the pace lost is told again at the end alone. */
static void what_lasts_keeps_its_share(void **state)
{
	(void)state;
	struct diagnosed of = incident(4), in = piece(40, 1);
	of.end_ns = 140 * S;
	diagnosis_compare_pace(&in, 1, &of);
	assert_int_equal(in.cause.cause, CAUSE_UNKNOWN);
	assert_true(s_of(in.cost_ns) == 4); /* that is what was lost, as far as it is known */
	end(&in);
}

/* Its steps add up to it. */
static void steps_are_unexplained_too(void **state)
{
	(void)state;
	struct diagnosed of = incident(4), in = piece(10, 0.02);
	for (size_t i = 0; i < 10; i++)
		*vec_push(&in.steps) =
			(struct diagnosed_step){.blame = {.whole_ns = 1e9, .usual_ns = 0.998e9}};
	diagnosis_compare_pace(&in, 1, &of);
	double sum_ns = 0;
	for (size_t i = 0; i < 10; i++) {
		const struct blame *b = &in.steps.data[i].blame;
		sum_ns += b->whole_ns - b->usual_ns;
		assert_true(s_of(b->unexplained_ns) == 0.398);
	}
	assert_true(s_of(sum_ns) == s_of(in.cost_ns));
	end(&in);
}

/* Sums of what calls of many threads lost are more than the job did; and what another rank lost is
 * not what the victim's pace says. */
static void other_losses_are_not_compared(void **state)
{
	(void)state;
	struct diagnosed of = incident(4), in = piece(10, 0.025);
	of.lost_by_pace = false;
	diagnosis_compare_pace(&in, 1, &of);
	assert_int_equal(in.cause.cause, CAUSE_CPU_CONTENTION);
	of.lost_by_pace = of.aside = true;
	diagnosis_compare_pace(&in, 1, &of);
	assert_int_equal(in.cause.cause, CAUSE_CPU_CONTENTION);
	end(&in);
}

static void what_explains_a_good_part_stays(void **state)
{
	(void)state;
	struct diagnosed of = incident(4), in = piece(10, 1);
	diagnosis_compare_pace(&in, 1, &of);
	assert_int_equal(in.cause.cause, CAUSE_CPU_CONTENTION);
	assert_true(in.cost_ns == 1e9 && in.evidence.blame.unexplained_ns == 0);
	end(&in);
}

/* What was walked is compared with what was lost in as much time. */
static void only_the_end_of_a_long_one_was_walked(void **state)
{
	(void)state;
	struct diagnosed of = incident(4), in = piece(1, 0.3);
	diagnosis_compare_pace(&in, 1, &of);
	assert_int_equal(in.cause.cause, CAUSE_CPU_CONTENTION);
	end(&in);
}

/* A piece that is small is one of several. */
static void pieces_are_compared_together(void **state)
{
	(void)state;
	struct diagnosed of = incident(4), all[] = {piece(5, 0.1), piece(5, 3)};
	diagnosis_compare_pace(all, 2, &of);
	assert_int_equal(all[0].cause.cause, CAUSE_CPU_CONTENTION);
	assert_int_equal(all[1].cause.cause, CAUSE_CPU_CONTENTION);
	end(&all[0]);
	end(&all[1]);
}

/* It was compared with what it came to, and is told for itself. */
static void what_came_beside_stays(void **state)
{
	(void)state;
	struct diagnosed of = incident(4), all[] = {piece(10, 0.025), piece(2, 0.02)};
	all[1].beside = true;
	diagnosis_compare_pace(all, 2, &of);
	assert_int_equal(all[0].cause.cause, CAUSE_UNKNOWN);
	assert_int_equal(all[1].cause.cause, CAUSE_CPU_CONTENTION);
	end(&all[0]);
	end(&all[1]);
}

static void where_no_loss_is_known_nothing_is_compared(void **state)
{
	(void)state;
	struct diagnosed of = incident(0), in = piece(10, 0.025);
	diagnosis_compare_pace(&in, 1, &of);
	assert_int_equal(in.cause.cause, CAUSE_CPU_CONTENTION);
	end(&in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_as_before_have_no_cause),
		cmocka_unit_test(what_lasts_keeps_its_share),
		cmocka_unit_test(steps_are_unexplained_too),
		cmocka_unit_test(other_losses_are_not_compared),
		cmocka_unit_test(what_explains_a_good_part_stays),
		cmocka_unit_test(only_the_end_of_a_long_one_was_walked),
		cmocka_unit_test(pieces_are_compared_together),
		cmocka_unit_test(what_came_beside_stays),
		cmocka_unit_test(where_no_loss_is_known_nothing_is_compared),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
