/* live_incident_test.c - rows of an incident that is diagnosed again and again: one for each piece,
 * and what is said of them.
 *
 * links: incident detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <linux/types.h>

#include "incident/live_incident.h"

#define S 1000000000ULL

struct said {
	uint32_t pid;
	uint64_t told_ns, onset_ns, end_ns, caused_ns;
	double cost_ns, owner_ns, unexplained_ns;
	char cause[32];
	bool ended, beside, told;
};

static struct rec_tables tables;
static struct live_incident w;
static struct anomaly anomaly;
static uint64_t begin_s; /* of what is looked at */
static VEC(struct said) all;
static VEC(struct diagnosed) parts;
static struct standings still; /* none unless a test says so */

static void put(void *ctx, const struct incident_said *s, bool told)
{
	struct said *to = vec_push(&all);
	(void)ctx;
	*to = (struct said){.pid = s->row->pid,
			    .told_ns = s->row->told_ns,
			    .onset_ns = s->row->onset_ns,
			    .end_ns = s->row->end_ns,
			    .caused_ns = s->row->caused_ns,
			    .cost_ns = s->row->cost_ns,
			    .owner_ns = s->row->owner_ns[0],
			    .unexplained_ns = s->row->unexplained_ns,
			    .ended = s->row->ended,
			    .beside = s->row->beside,
			    .told = told};
	snprintf(to->cause, sizeof(to->cause), "%s", incident_text(s, s->row->cause));
}

static int begin(void **state)
{
	(void)state;
	tables = (struct rec_tables){0};
	strtab_add(&tables.strings, "", 0);
	live_incident_begin(&w, 1, 102 * S);
	anomaly = (struct anomaly){.id = 1, .incident = 1, .start_ns = 100 * S, .lost_ns = NAN};
	all.len = parts.len = 0;
	begin_s = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	vec_free(&still.processes);
	live_incident_free(&w);
	vec_free(&all);
	vec_free(&parts);
	strtab_free(&tables.strings);
	return 0;
}

static void piece(double from_s, double to_s, enum cause cause)
{
	*vec_push(&parts) = (struct diagnosed){
		.id = 1,
		.onset_ns = (uint64_t)(from_s * 1e9),
		.end_ns = (uint64_t)(to_s * 1e9),
		.told_ns = (uint64_t)((from_s + 1) * 1e9),
		.pid = 42,
		.cost_ns = (to_s - from_s) * 0.5e9,
		.blamed = true,
		.cause = {.cause = cause,
			  .runner_up = CAUSE_UNKNOWN,
			  .culprit = {.frame = BLAME_NO_FRAME, .metric = UINT32_MAX}}};
}

/* Diagnoses; the parts are forgotten. */
static void find_at(double now_s, bool ended)
{
	struct diagnosis found = {0};
	anomaly.end_ns = (uint64_t)(now_s * 1e9);
	anomaly.ended = ended;
	memcpy(&found.incidents, &parts, sizeof(found.incidents));
	live_incident_find(&w, &(struct live_findings){.found = &found,
						       .t = &tables,
						       .begin_ns = begin_s * S,
						       .now_ns = (uint64_t)(now_s * 1e9),
						       .standings = &still,
						       .anomalies = &anomaly,
						       .anomalies_len = 1,
						       .put = put});
	parts.len = 0;
}

static const struct said *last(void)
{
	return &all.data[all.len - 1];
}

static void what_goes_on_has_one_row(void **state)
{
	(void)state;
	piece(100, 103, CAUSE_CPU_CONTENTION);
	find_at(103, false);
	piece(100, 108, CAUSE_CPU_CONTENTION);
	find_at(108, false);
	piece(100, 110, CAUSE_CPU_CONTENTION);
	find_at(111, true);
	assert_int_equal(all.len, 3);
	for (size_t i = 0; i < all.len; i++) {
		assert_int_equal(all.data[i].told_ns, 102 * S);
		assert_int_equal(all.data[i].caused_ns, 103 * S);
		assert_int_equal(all.data[i].told, i != 1); /* that it lasts is no news */
	}
	assert_true(last()->ended);
	assert_int_equal(last()->end_ns, 110 * S);
	find_at(112, true); /* it is over, and nothing is found any more */
	assert_false(last()->told);
}

static const struct said *last_of(enum cause cause)
{
	const struct said *ret = NULL;
	for (size_t i = 0; i < all.len; i++)
		if (!strcmp(all.data[i].cause, cause_id(cause)))
			ret = &all.data[i];
	assert_non_null(ret);
	return ret;
}

static void beside(double from_s, double to_s, enum cause cause)
{
	piece(from_s, to_s, cause);
	parts.data[parts.len - 1].beside = true;
}

/* It has its own row and its own end; the row of what stands goes on as if it were not there. */
static void what_comes_beside_has_a_row_of_its_own(void **state)
{
	(void)state;
	piece(100, 103, CAUSE_CPU_CONTENTION);
	find_at(103, false);
	piece(100, 110, CAUSE_CPU_CONTENTION);
	beside(106, 110, CAUSE_PYTHON_GC);
	find_at(110, false);
	assert_int_equal(all.len, 3);
	struct said gc = *last_of(CAUSE_PYTHON_GC);
	assert_true(gc.told && !gc.ended && gc.onset_ns == 106 * S && gc.caused_ns == 110 * S);
	assert_true(gc.beside && !last_of(CAUSE_CPU_CONTENTION)->beside);
	assert_int_not_equal(gc.told_ns, last_of(CAUSE_CPU_CONTENTION)->told_ns);
	piece(100, 111, CAUSE_CPU_CONTENTION);
	beside(106, 111, CAUSE_PYTHON_GC);
	find_at(111, false);
	assert_false(last_of(CAUSE_PYTHON_GC)->told); /* that it lasts is no news */
	piece(100, 114, CAUSE_CPU_CONTENTION);
	beside(106, 112, CAUSE_PYTHON_GC);
	find_at(114, false);
	gc = *last_of(CAUSE_PYTHON_GC);
	assert_true(gc.told && gc.ended && gc.end_ns == 112 * S && gc.caused_ns == 110 * S);
	assert_false(last_of(CAUSE_CPU_CONTENTION)->ended);
	piece(100, 120, CAUSE_CPU_CONTENTION);
	beside(106, 112, CAUSE_PYTHON_GC);
	beside(116, 120, CAUSE_PYTHON_GC); /* once more: another row */
	find_at(120, false);
	assert_true(last_of(CAUSE_PYTHON_GC)->told_ns > gc.told_ns);
	find_at(121, true); /* all is over, and nothing is found any more */
	assert_true(last_of(CAUSE_PYTHON_GC)->ended && last_of(CAUSE_PYTHON_GC)->told);
	assert_true(last_of(CAUSE_CPU_CONTENTION)->ended);
	size_t n = all.len;
	find_at(122, true);
	for (size_t i = n; i < all.len; i++)
		assert_false(all.data[i].told);
}

/* Its end goes on to be looked at when its beginning is not any more; one that is not found again
 * is over when what it came to went on for a second. */
static void the_end_of_what_comes_beside(void **state)
{
	(void)state;
	piece(100, 110, CAUSE_CPU_CONTENTION);
	beside(104, 110, CAUSE_PYTHON_GC);
	beside(106, 110, CAUSE_STOPPED);
	find_at(110, false);
	begin_s = 104;
	piece(100, 116, CAUSE_CPU_CONTENTION);
	beside(108, 115, CAUSE_PYTHON_GC);
	find_at(116, false);
	assert_int_equal(last_of(CAUSE_PYTHON_GC)->onset_ns, 104 * S);
	assert_int_equal(last_of(CAUSE_PYTHON_GC)->end_ns, 115 * S);
	assert_true(last_of(CAUSE_PYTHON_GC)->ended);
	assert_true(last_of(CAUSE_STOPPED)->ended && last_of(CAUSE_STOPPED)->told);
	assert_int_equal(last_of(CAUSE_STOPPED)->end_ns, 110 * S);
}

/* The victim may be another one in another diagnosis: that is another row. */
static void what_comes_beside_is_of_one_process(void **state)
{
	(void)state;
	piece(100, 110, CAUSE_CPU_CONTENTION);
	beside(104, 110, CAUSE_PYTHON_GC);
	find_at(110, false);
	uint64_t key = last_of(CAUSE_PYTHON_GC)->told_ns;
	piece(100, 110, CAUSE_CPU_CONTENTION);
	beside(104, 110, CAUSE_PYTHON_GC);
	parts.data[1].pid = 43;
	find_at(110, false);
	assert_int_not_equal(last_of(CAUSE_PYTHON_GC)->told_ns, key);
}

/* The keys of rows differ, whatever comes in which order. */
static void keys_are_of_one_row(void **state)
{
	(void)state;
	piece(100, 104, CAUSE_CPU_CONTENTION);
	beside(101, 104, CAUSE_PYTHON_GC); /* told at the same time */
	beside(101, 104, CAUSE_STOPPED);
	find_at(104, false);
	piece(100, 106, CAUSE_CPU_CONTENTION);
	piece(106, 110, CAUSE_SLOW_CODE); /* and another piece follows */
	find_at(110, false);
	for (size_t i = 0; i < all.len; i++)
		for (size_t k = 0; k < i; k++)
			assert_true((all.data[i].told_ns == all.data[k].told_ns) ==
				    !strcmp(all.data[i].cause, all.data[k].cause));
}

static void no_more_than_have_room(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++)
		beside(101 + 5 * i, 103 + 5 * i, CAUSE_PYTHON_GC);
	piece(100, 210, CAUSE_CPU_CONTENTION);
	find_at(210, false);
	assert_int_equal(w.besides.len, 8);
}

/* More of them than have room, one after the other: what ended first gives its own. */
static void each_of_many_in_turn(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		piece(100, 110 + 10 * i, CAUSE_CPU_CONTENTION);
		beside(103 + 10 * i, 106 + 10 * i, CAUSE_PYTHON_GC);
		find_at(110 + 10 * i, false);
		assert_true(last_of(CAUSE_PYTHON_GC)->told);
		assert_int_equal(last_of(CAUSE_PYTHON_GC)->onset_ns, (103 + 10ULL * i) * S);
	}
	assert_int_equal(w.besides.len, 8);
	for (size_t i = 0; i < all.len; i++)
		for (size_t k = 0; k < i; k++)
			assert_true(!all.data[i].beside || !all.data[k].beside ||
				    all.data[i].told_ns != all.data[k].told_ns);
}

/* It was thought to be over, and went on: its end is told again, with what it cost. */
static void what_comes_beside_goes_on(void **state)
{
	(void)state;
	piece(100, 110, CAUSE_CPU_CONTENTION);
	beside(104, 108, CAUSE_PYTHON_GC);
	find_at(110, false);
	assert_true(last_of(CAUSE_PYTHON_GC)->told && last_of(CAUSE_PYTHON_GC)->ended);
	piece(100, 114, CAUSE_CPU_CONTENTION);
	beside(104, 114, CAUSE_PYTHON_GC);
	find_at(114, false);
	assert_false(last_of(CAUSE_PYTHON_GC)->ended);
	piece(100, 122, CAUSE_CPU_CONTENTION);
	beside(104, 120, CAUSE_PYTHON_GC);
	find_at(122, false);
	assert_true(last_of(CAUSE_PYTHON_GC)->told && last_of(CAUSE_PYTHON_GC)->ended);
	assert_float_equal(last_of(CAUSE_PYTHON_GC)->cost_ns, 8e9, 1e3);
	piece(100, 124, CAUSE_CPU_CONTENTION);
	beside(104, 120, CAUSE_PYTHON_GC);
	find_at(124, false);
	assert_false(last_of(CAUSE_PYTHON_GC)->told);
}

/* What is found of it begins later: it was told before, so that it began before. */
static void what_comes_beside_keeps_its_beginning(void **state)
{
	(void)state;
	piece(100, 108, CAUSE_CPU_CONTENTION);
	beside(104, 108, CAUSE_PYTHON_GC); /* told at 105 */
	find_at(108, false);
	piece(100, 112, CAUSE_CPU_CONTENTION);
	beside(106, 112, CAUSE_PYTHON_GC);
	find_at(112, false);
	assert_int_equal(last_of(CAUSE_PYTHON_GC)->onset_ns, 104 * S);
	/* what is looked at begins behind it: its cost grows with it */
	begin_s = 110;
	piece(100, 120, CAUSE_CPU_CONTENTION);
	beside(110, 118, CAUSE_PYTHON_GC);
	find_at(120, false);
	assert_int_equal(last_of(CAUSE_PYTHON_GC)->onset_ns, 104 * S);
	assert_int_equal(last_of(CAUSE_PYTHON_GC)->end_ns, 118 * S);
	assert_float_equal(last_of(CAUSE_PYTHON_GC)->cost_ns, 3e9 + 4e9 * 6 / 8, 1e3);
}

/* That something beside was told late makes no piece begin before it is told. */
static void a_later_key_is_no_later_beginning(void **state)
{
	(void)state;
	piece(100, 110, CAUSE_CPU_CONTENTION);
	beside(104, 108, CAUSE_PYTHON_GC);
	parts.data[parts.len - 1].told_ns = 130 * S;
	find_at(110, false);
	piece(100, 112, CAUSE_CPU_CONTENTION);
	piece(112, 116, CAUSE_DISK); /* told at 113, with a key behind 130 */
	find_at(116, false);
	piece(100, 112, CAUSE_CPU_CONTENTION);
	piece(114, 124, CAUSE_STOPPED); /* it was something else */
	find_at(124, false);
	assert_true(last_of(CAUSE_DISK)->ended);
	assert_int_equal(last_of(CAUSE_DISK)->end_ns, 114 * S);
	assert_int_equal(last_of(CAUSE_STOPPED)->onset_ns, 114 * S);
	assert_true(last_of(CAUSE_STOPPED)->told_ns > last_of(CAUSE_DISK)->told_ns);
}

static void what_begins_when_it_is_told_is_told_later(void **state)
{
	(void)state;
	piece(102, 106, CAUSE_STOPPED);
	find_at(106, false);
	assert_int_equal(last()->onset_ns, 102 * S);
	assert_int_equal(last()->told_ns, 103 * S);
}

static void what_it_goes_on_as_has_a_row_of_its_own(void **state)
{
	(void)state;
	piece(100, 103, CAUSE_CPU_CONTENTION);
	find_at(103, false);
	piece(100, 105, CAUSE_CPU_CONTENTION);
	piece(105, 125, CAUSE_STOPPED);
	find_at(125, false);
	assert_int_equal(all.len, 3);
	assert_string_equal(all.data[1].cause, "cpu_contention");
	assert_true(all.data[1].ended && all.data[1].told);
	assert_int_equal(all.data[1].end_ns, 105 * S);
	assert_int_equal(all.data[1].caused_ns, 103 * S);
	assert_string_equal(last()->cause, "stopped");
	assert_int_equal(last()->told_ns, 106 * S);
	assert_int_equal(last()->caused_ns, 125 * S);
	assert_false(last()->ended);
	/* The first is not looked at again, though it may be found elsewhere now. */
	piece(100, 104, CAUSE_PYTHON_GC);
	piece(104, 126, CAUSE_STOPPED);
	find_at(127, true);
	assert_int_equal(all.len, 4);
	assert_int_equal(last()->told_ns, 106 * S);
	assert_true(last()->ended);
}

/* It was told of something that is no part of the piece: that began after it was told. */
static void what_was_something_else_ends(void **state)
{
	(void)state;
	piece(100, 106, CAUSE_MEM_BANDWIDTH);
	find_at(106, false);
	piece(104, 112, CAUSE_MEMORY_RECLAIM);
	find_at(112, false);
	assert_int_equal(all.len, 3);
	assert_true(all.data[1].ended && all.data[1].told);
	assert_string_equal(all.data[1].cause, "mem_bandwidth");
	assert_int_equal(all.data[1].end_ns, 104 * S);
	assert_float_equal(all.data[1].cost_ns, 2e9, 1e3); /* of 4 s of its 6 */
	assert_string_equal(last()->cause, "memory_reclaim");
	assert_int_equal(last()->told_ns, 105 * S);
	assert_int_equal(last()->onset_ns, 104 * S);
	/* The same cause that begins later is the same: what came first is not kept any more. */
	piece(109, 120, CAUSE_MEMORY_RECLAIM);
	find_at(120, false);
	assert_int_equal(all.len, 4);
	assert_int_equal(last()->told_ns, 105 * S);
	assert_int_equal(last()->onset_ns, 104 * S);
	assert_int_equal(last()->end_ns, 120 * S);
}

static void a_cause_that_is_found_late_counts_from_then(void **state)
{
	(void)state;
	piece(100, 103, CAUSE_UNKNOWN);
	find_at(103, false);
	assert_int_equal(last()->caused_ns, 0);
	assert_false(live_incident_has_cause(&w));
	piece(100, 105, CAUSE_DISK);
	find_at(105, false);
	assert_int_equal(last()->caused_ns, 105 * S);
	assert_true(last()->told && live_incident_has_cause(&w));
	piece(100, 107, CAUSE_CHECKPOINT);
	find_at(107, false);
	assert_int_equal(last()->caused_ns, 107 * S);
	assert_int_equal(last()->told_ns, 102 * S);
}

/* What was told is not the piece that is found first: the row is of that from the start. */
static void a_row_is_told_no_earlier_than_it_begins(void **state)
{
	(void)state;
	piece(104, 108, CAUSE_STOPPED);
	find_at(108, false);
	assert_int_equal(all.len, 1);
	assert_int_equal(last()->told_ns, 105 * S);
	assert_int_equal(last()->onset_ns, 104 * S);
}

/* Nothing is told twice for a little more; for much more it is. */
/* Its beginning is not looked at any more: the pace says what it goes on to cost, and the same
 * owners have it. */
static void what_lasts_is_put_down_to_whom_it_was(void **state)
{
	(void)state;
	piece(100, 104, CAUSE_CPU_CONTENTION);
	*vec_push(&parts.data[0].evidence.blame.parts) = (struct blame_part){
		.owner = {.kind = BLAME_SPREAD, .frame = BLAME_NO_FRAME}, .ns = 1.5e9};
	parts.data[0].evidence.blame.unexplained_ns = 0.5e9;
	struct blame_part *made = parts.data[0].evidence.blame.parts.data;
	find_at(104, false);
	assert_true(last()->cost_ns == 2e9 && last()->owner_ns == 1.5e9);
	begin_s = 101;
	piece(103, 120, CAUSE_CPU_CONTENTION);
	anomaly.lost_ns = 10e9;
	find_at(120, true);
	assert_true(last()->cost_ns == 10e9);
	assert_true(last()->owner_ns == 7.5e9 && last()->unexplained_ns == 2.5e9);
	free(made);
}

static void an_end_is_told_again_for_much_more(void **state)
{
	(void)state;
	piece(100, 110, CAUSE_DISK);
	find_at(111, true);
	piece(100, 111, CAUSE_DISK);
	find_at(112, true);
	assert_int_equal(all.len, 2);
	assert_true(all.data[0].told && !all.data[1].told);
	piece(100, 120, CAUSE_DISK);
	find_at(121, true);
	assert_true(last()->told);
}

/* ---- what stands still ---- */

/* Rank 1 sleeps, and rank 0, whose pid is 42, waits for it; from now on, or no more. */
static void stand_still(double since_s, double now_s, bool does)
{
	still.now_ns = (uint64_t)(now_s * 1e9);
	still.processes.len = 0;
	for (int32_t rank = 0; rank < 2; rank++)
		*vec_push(&still.processes) = (struct standing_process){
			.pid = 42 + (uint32_t)rank,
			.rank = rank,
			.incident = 1, /* and both are of the job 0 */
			.since_ns = (uint64_t)(since_s * 1e9),
			.median_ns = S / 10,
			.longest_ns = S,
			.usual_ns = S / 5,
			.waits = does,
			.reason = rank ? WAIT_SLEEP : WAIT_FUTEX,
		};
}

static void look_still(double since_s, double now_s)
{
	stand_still(since_s, now_s, true);
	find_at(now_s, false);
}

/* Nothing is found yet: it is told, once, and its cost goes on. What is found when it goes on takes
 * the place of that. */
static void what_stands_still_is_told_until_its_cause_is_known(void **state)
{
	(void)state;
	piece(100, 102, CAUSE_UNKNOWN);
	parts.data[0].blamed = false;
	look_still(100, 102);
	assert_int_equal(all.len, 0); /* for too short */
	look_still(100, 103.5);
	assert_int_equal(all.len, 1);
	assert_true(last()->told && !last()->ended && last()->cost_ns == 3.5e9);
	assert_string_equal(last()->cause, "hang");
	assert_true(last()->told_ns == 102 * S && last()->caused_ns == 103 * S + S / 2);
	assert_int_equal(last()->pid, 42);
	assert_true(live_incident_has_cause(&w));
	look_still(100, 110);
	assert_true(!last()->told && !last()->ended && last()->cost_ns == 10e9);
	assert_int_equal(last()->caused_ns, 103 * S + S / 2);
	stand_still(110, 111, false);
	piece(100, 111, CAUSE_UNKNOWN); /* no cause that is known is no better */
	find_at(111, false);
	assert_int_equal(all.len, 2);
	piece(99.9, 111.5, CAUSE_NETWORK); /* nor one that knows nothing of who was waited for */
	find_at(111.5, false);
	assert_int_equal(all.len, 2);
	piece(99.9, 112, CAUSE_STRAGGLER);
	parts.data[0].cause.culprit.kind = CULPRIT_RANK;
	parts.data[0].cause.culprit.pid = 43;
	find_at(112, false);
	assert_true(last()->told && !last()->ended);
	assert_string_equal(last()->cause, "straggler");
	assert_true(last()->told_ns == 102 * S && last()->caused_ns == 112 * S);
	find_at(113, true);
	assert_true(last()->told && last()->ended && last()->told_ns == 102 * S);
	assert_string_equal(last()->cause, "straggler");
}

/* Nor is one found where what was before is not looked at any more. */
static void what_stood_still_ends_without_a_cause(void **state)
{
	(void)state;
	look_still(100, 104);
	stand_still(104, 105, false);
	begin_s = 99;
	piece(99.9, 105, CAUSE_SLOW_CODE);
	find_at(105, true);
	assert_int_equal(all.len, 2);
	assert_true(last()->told && last()->ended && last()->cost_ns == 5e9); /* to its end */
	assert_string_equal(last()->cause, "hang");
}

/* Its anomalies end, for what they are of has become usual: it lasts all the same. */
static void what_stands_still_lasts(void **state)
{
	(void)state;
	look_still(100, 104);
	stand_still(100, 140, true);
	find_at(140, true);
	assert_true(!last()->ended && last()->cost_ns == 40e9);
	assert_true(live_incident_lasts(&w, &anomaly, 1));
	stand_still(150, 151, false);
	find_at(151, true);
	assert_true(last()->ended && !live_incident_lasts(&w, &anomaly, 1));
}

/* What had a cause before has its row and its end; what had none becomes this. */
static void what_stands_still_later_has_a_row_of_its_own(void **state)
{
	(void)state;
	piece(100, 110, CAUSE_CPU_CONTENTION);
	find_at(110, false);
	look_still(110, 114);
	assert_int_equal(all.len, 3);
	assert_string_equal(all.data[1].cause, "cpu_contention");
	assert_true(all.data[1].ended && all.data[1].told_ns == 102 * S);
	assert_true(last()->told && last()->told_ns == 114 * S && last()->onset_ns == 110 * S);
	assert_string_equal(last()->cause, "hang");
	stand_still(120, 121, false);
	piece(100, 110, CAUSE_CPU_CONTENTION);
	piece(110, 121, CAUSE_STRAGGLER);
	parts.data[1].cause.culprit.kind = CULPRIT_RANK;
	parts.data[1].cause.culprit.pid = 43;
	find_at(121, false);
	assert_string_equal(last()->cause, "straggler");
	assert_int_equal(last()->told_ns, 114 * S);
	assert_int_equal(all.len, 4);
}

static void what_had_no_cause_becomes_what_stands_still(void **state)
{
	(void)state;
	piece(100, 103, CAUSE_UNKNOWN);
	find_at(103, false);
	look_still(101, 106);
	assert_int_equal(all.len, 2);
	assert_true(last()->told && last()->told_ns == 102 * S);
	assert_string_equal(last()->cause, "hang");
}

/* The victim is part of the key: of another one it is another row, and this one ends. */
static void of_another_victim_it_is_another_row(void **state)
{
	(void)state;
	look_still(100, 104);
	stand_still(110, 111, false);
	piece(99.9, 111, CAUSE_SLOW_CODE);
	parts.data[0].pid = 43;
	find_at(111, false);
	assert_int_equal(all.len, 3);
	assert_true(all.data[1].ended && all.data[1].pid == 42 && !all.data[1].told);
	assert_true(last()->told && last()->pid == 43 && !last()->ended);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		T(what_goes_on_has_one_row),
		T(what_comes_beside_has_a_row_of_its_own),
		T(the_end_of_what_comes_beside),
		T(what_comes_beside_is_of_one_process),
		T(keys_are_of_one_row),
		T(no_more_than_have_room),
		T(each_of_many_in_turn),
		T(what_comes_beside_goes_on),
		T(what_comes_beside_keeps_its_beginning),
		T(a_later_key_is_no_later_beginning),
		T(what_begins_when_it_is_told_is_told_later),
		T(what_it_goes_on_as_has_a_row_of_its_own),
		T(what_was_something_else_ends),
		T(a_cause_that_is_found_late_counts_from_then),
		T(a_row_is_told_no_earlier_than_it_begins),
		T(what_lasts_is_put_down_to_whom_it_was),
		T(an_end_is_told_again_for_much_more),
		T(what_stands_still_is_told_until_its_cause_is_known),
		T(what_stood_still_ends_without_a_cause),
		T(what_stands_still_lasts),
		T(what_stands_still_later_has_a_row_of_its_own),
		T(what_had_no_cause_becomes_what_stands_still),
		T(of_another_victim_it_is_another_row),
	};
#undef T
	return cmocka_run_group_tests(tests, NULL, NULL);
}
