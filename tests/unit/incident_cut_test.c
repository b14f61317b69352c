/* incident_cut_test.c - where an incident is cut, slice by slice.
 * links: incident detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "made_evidence.h"

#define SLICES 12
static struct evidence_question q[SLICES];
static struct evidence at[SLICES];
static struct blame_span spans[SLICES];
static questions_t cut;

/* Of a second each, twice as long as usual; what they have more of is to be added. */
static const struct evidence_usual usual_time = {.long_ns = 1e8};

static void make_slices(void)
{
	for (size_t i = 0; i < SLICES; i++) {
		spans[i] =
			(struct blame_span){0, i * 1000000000ULL, (i + 1) * 1000000000ULL, 0.5e9};
		q[i] = (struct evidence_question){.slow = {&spans[i], 1, 0}, .usual = &usual_time};
		at[i] = (struct evidence){.t = &tables, .pid = 7, .n_slow = 1};
		at[i].blame.usual_ns = 0.5e9;
		at[i].blame.whole_ns = 1e9;
	}
}

static void free_slices(void)
{
	for (size_t i = 0; i < SLICES; i++)
		evidence_free(&at[i]);
	for (size_t i = 0; i < cut.len; i++)
		vec_free(&cut.data[i].slow);
	vec_free(&cut);
}

static void slice_has(struct evidence *slice, enum blame_kind kind, double ns)
{
	*vec_push(&slice->blame.parts) = (struct blame_part){
		.owner = {.kind = (uint8_t)kind, .frame = BLAME_NO_FRAME}, .ns = ns};
}

static void an_incident_is_cut_where_its_cause_changes(void **state)
{
	(void)state;
	make_slices();
	for (size_t i = 0; i < SLICES; i++) {
		if (i == 5 || i == 6) { /* as usual */
			at[i].blame.whole_ns = 0.51e9;
			continue;
		}
		slice_has(&at[i], i < 5 ? BLAME_RIVAL : BLAME_COLLECTS, i == 2 ? 0.1e9 : 0.4e9);
		if (i == 2) /* one slice of something else is no change */
			slice_has(&at[i], BLAME_COLLECTS, 0.2e9);
	}
	diagnosis_cut(q, at, SLICES, false, &cut);
	assert_int_equal(cut.len, 2);
	assert_int_equal(cut.data[0].slow.data[0].from_ns, 0);
	assert_int_equal(cut.data[0].slow.len, 5);
	assert_int_equal(cut.data[1].slow.data[0].from_ns, 7000000000ULL);
	assert_int_equal(cut.data[1].slow.len, 5);
	free_slices();
}

/* A full link, by one look at its counters in each second: measured on one of 20 Mbit/s. What few
 * seconds say of which of the network's causes it is cuts nothing; a real change does. */
static void pieces_of_network(size_t lossy_from, size_t lossy_to, size_t n)
{
	make_slices();
	for (size_t i = 0; i < SLICES; i++) {
		bool lossy = i >= lossy_from && i < lossy_to;
		slice_has(&at[i], BLAME_NETWORK, 0.4e9);
		sent(4.1e6, 14.4e6, lossy ? 134 : 81, 0);
		nic(4.1e6, 14.4e6);
		round_trip(lossy ? 21.9 : 41.1, 12.1);
		for (size_t k = 0; k < e.counters.len; k++)
			*vec_push(&at[i].counters) = e.counters.data[k];
	}
	diagnosis_cut(q, at, SLICES, false, &cut);
	assert_int_equal(cut.len, n);
	free_slices();
}

static void a_second_does_not_tell_the_networks_causes_apart(void **state)
{
	(void)state;
	pieces_of_network(5, 7, 1);
	pieces_of_network(6, SLICES, 2);
}

static void is_one_piece_from(size_t first)
{
	diagnosis_cut(q, at, SLICES, false, &cut);
	assert_int_equal(cut.len, 1);
	assert_int_equal(cut.data[0].slow.len, SLICES - first);
	assert_int_equal(cut.data[0].slow.data[0].from_ns, first * 1000000000ULL);
	free_slices();
}

/* What is read into a cgroup until it is full is of what comes then; a disk that was slow for long
 * before is not. */
static void what_fills_a_cgroup_is_of_its_being_full(void **state)
{
	(void)state;
	for (size_t before = 1; before < 6; before += 4) {
		make_slices();
		for (size_t i = 0; i < SLICES; i++) {
			slice_has(&at[i], BLAME_FILLS, 0.45e9);
			*vec_push(&at[i].counters) =
				(struct counter_change){USED, i < before ? 500e6 : 990e6, 400e6};
			*vec_push(&at[i].counters) = (struct counter_change){LIMIT, 1e9, 1e9};
		}
		diagnosis_cut(q, at, SLICES, false, &cut);
		assert_int_equal(cut.len, before == 1 ? 1 : 2);
		free_slices();
	}
}

/* Counters say a second late that a quota is used up: what the job's own threads seemed to take
 * before is of it. What others take is not. */
static void what_a_quota_takes_first_is_of_it(void **state)
{
	(void)state;
	for (int others = 0; others < 2; others++) {
		make_slices();
		for (size_t i = 0; i < SLICES; i++) {
			slice_has(&at[i], !i && others ? BLAME_RIVAL : BLAME_SIBLING, 0.45e9);
			at[i].blame.parts.data[0].owner.pid = !i && others ? 99 : 7;
			*vec_push(&at[i].counters) =
				(struct counter_change){THROTTLED, i ? 0.9 : 0, 0};
		}
		diagnosis_cut(q, at, SLICES, false, &cut);
		assert_int_equal(cut.len, others ? 2 : 1);
		free_slices();
	}
}

/* Others took some of two seconds before it, too little for a change of the cause. */
static void what_a_cause_has_no_part_in_is_left_off_its_ends(void **state)
{
	(void)state;
	make_slices();
	for (size_t i = 0; i < SLICES; i++)
		slice_has(&at[i], i < 2 ? BLAME_RIVAL : BLAME_COLLECTS, i < 2 ? 0.15e9 : 0.4e9);
	is_one_piece_from(2);
	/* where they took more, it is one */
	make_slices();
	for (size_t i = 0; i < SLICES; i++)
		slice_has(&at[i], i < 2 ? BLAME_RIVAL : BLAME_COLLECTS, i < 2 ? 0.25e9 : 0.4e9);
	diagnosis_cut(q, at, SLICES, false, &cut);
	assert_int_equal(cut.len, 2);
	free_slices();
}

/* It explains hardly more of each slice than usual time varies by. */
static void a_weak_cause_begins_where_it_does(void **state)
{
	(void)state;
	make_slices();
	for (size_t i = 0; i < SLICES; i++) {
		at[i].blame.whole_ns = i < 4 ? 0.51e9 : 0.58e9;
		if (i >= 4)
			slice_has(&at[i], BLAME_COLLECTS, 0.06e9);
	}
	is_one_piece_from(4);
}

/* Slices of five steps: those from a third of the second one on took twice as long as usual. */
static struct blame_span five[SLICES][5];

static void make_steps(void)
{
	uint64_t ns = 0;
	make_slices();
	for (size_t i = 0; i < SLICES; i++) {
		for (size_t k = 0; k < 5; k++) {
			uint64_t length = 5 * i + k < 8 || i > 9 ? 100000000 : 200000000;
			five[i][k] = (struct blame_span){0, ns, ns + length, 1e8};
			ns += length;
		}
		q[i] = (struct evidence_question){
			.slow = {five[i], 5, 0}, .by_steps = true, .usual = &usual_time};
		at[i].blame.whole_ns = (double)(five[i][4].to_ns - five[i][0].from_ns);
		if (i > 1 && i < 10)
			slice_has(&at[i], BLAME_COLLECTS, 0.4e9);
	}
}

static void is_piece(uint64_t from_ns, uint64_t to_ns)
{
	diagnosis_cut(q, at, SLICES, false, &cut);
	assert_int_equal(cut.len, 1);
	assert_int_equal(cut.data[0].slow.data[0].from_ns, from_ns);
	assert_int_equal(cut.data[0].slow.data[cut.data[0].slow.len - 1].to_ns, to_ns);
	free_slices();
}

/* What of a slice is slow is of it, though of the whole its cause explains nothing. */
static void its_ends_go_by_steps(void **state)
{
	(void)state;
	make_steps();
	is_piece(five[1][3].from_ns, five[9][4].to_ns);
	/* but not where another cause is known, if that is too little for a piece */
	make_steps();
	slice_has(&at[1], BLAME_RIVAL, 0.2e9);
	is_piece(five[2][0].from_ns, five[9][4].to_ns);
}

/* What no cause is known of is told as well. */
static void a_piece_may_be_unknown(void **state)
{
	(void)state;
	make_slices();
	for (size_t i = 0; i < SLICES; i++)
		slice_has(&at[i], i < 4 ? BLAME_COLLECTS : BLAME_OTHER, 0.5e9);
	diagnosis_cut(q, at, SLICES, false, &cut);
	assert_int_equal(cut.len, 2);
	assert_int_equal(cut.data[0].slow.len, 4);
	assert_int_equal(cut.data[1].slow.len, SLICES - 4);
	free_slices();
}

/* Plain time: the first and the last second are slow in part, and said to be as slow as the rest.
 */
static void ends_of_plain_time_say_little(void **state)
{
	(void)state;
	for (int by_steps = 0; by_steps < 2; by_steps++) {
		make_slices();
		for (size_t i = 0; i < SLICES; i++) {
			bool end = !i || i == SLICES - 1;
			slice_has(&at[i], end ? BLAME_SPREAD : BLAME_STOPPED, end ? 0.9e9 : 0.5e9);
			q[i].by_steps = by_steps;
		}
		diagnosis_cut(q, at, SLICES, false, &cut);
		assert_int_equal(cut.len, by_steps ? 3 : 1);
		free_slices();
	}
}

static void without_any_cause_it_stays_whole(void **state)
{
	(void)state;
	make_slices();
	diagnosis_cut(q, at, SLICES, false, &cut);
	assert_int_equal(cut.len, 1);
	assert_int_equal(cut.data[0].slow.len, SLICES);
	free_slices();
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, begin, end)
	const struct CMUnitTest tests[] = {
		T(an_incident_is_cut_where_its_cause_changes),
		T(a_second_does_not_tell_the_networks_causes_apart),
		T(what_fills_a_cgroup_is_of_its_being_full),
		T(what_a_quota_takes_first_is_of_it),
		T(what_a_cause_has_no_part_in_is_left_off_its_ends),
		T(a_weak_cause_begins_where_it_does),
		T(its_ends_go_by_steps),
		T(a_piece_may_be_unknown),
		T(ends_of_plain_time_say_little),
		T(without_any_cause_it_stays_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
