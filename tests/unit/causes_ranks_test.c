/* causes_ranks_test.c - the cause where processes wait for each other, or for the network.
 * links: incident detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "made_evidence.h"

/* Of the thread at 1, of process 50, which is rank 1. */
static void peer_part(enum blame_kind kind, double ms, uint32_t pid)
{
	if (tables.threads.len == 1) {
		*vec_push(&tables.threads) = (struct m_thread){50, 50, 0};
		*vec_push(&tables.processes) = (struct m_process){.pid = 50, .rank = 1};
	}
	part(kind, VIA_ITSELF, ms, pid);
	e.blame.parts.data[e.blame.parts.len - 1].owner.peer = 2;
}

static void a_straggler_and_what_held_it_back(void **state)
{
	(void)state;
	part(BLAME_RUNS, VIA_ITSELF, 100, 0);
	peer_part(BLAME_RIVAL, 600, 4242);
	e.blame.parts.data[1].owner.name = strtab_add_z(&tables.strings, "hog");
	peer_part(BLAME_SPREAD, 100, 0);
	struct cause_found f = is(CAUSE_STRAGGLER);
	assert_int_equal(f.culprit.kind, CULPRIT_RANK);
	assert_int_equal(f.culprit.pid, 50);
	assert_int_equal(f.culprit.rank, 1);
	assert_int_equal(f.why, CAUSE_CPU_CONTENTION);
	assert_int_equal(f.why_culprit.pid, 4242);
	assert_true(f.confidence > 0.5);
	assert_string_equal(cause_found_advice(&f), cause_advice(CAUSE_CPU_CONTENTION));
	says(&f, "straggler: rank 1 (50), CPU contention by hog (4242)");
}

/* What another rank did is no cause of one's own. */
static void what_ranks_wait_for_together_is_the_network(void **state)
{
	(void)state;
	peer_part(BLAME_NETWORK, 500, 0);
	peer_part(BLAME_RUNS, 200, 0);
	is(CAUSE_NETWORK);
	peer_part(BLAME_OTHER, 900, 0);
	struct cause_found f = is(CAUSE_STRAGGLER);
	says(&f, "straggler: rank 1 (50)");
}

static void nobody_named_is_a_straggler_too(void **state)
{
	(void)state;
	part(BLAME_RANKS, VIA_ITSELF, 500, 0);
	assert_int_equal(is(CAUSE_STRAGGLER).culprit.kind, CULPRIT_NONE);
}

static void why_the_network_was_slow(void **state)
{
	(void)state;
	part(BLAME_NETWORK, VIA_ITSELF, 400, 0);
	part(BLAME_NETWORK, VIA_LOCK, 100, 0);
	struct cause_found f = is(CAUSE_NETWORK); /* nothing is known of it */
	sent(4e6, 12e6, 200, 5);
	is(CAUSE_NET_LOSS);
	nic(4e6, 12e6); /* 1 to 1, as usual */
	f = is(CAUSE_NET_LOSS);
	assert_int_equal(f.culprit.kind, CULPRIT_INTERFACE);
	says(&f, "the network lost packets, which were sent again: eth0");
	size_t before = e.counters.len;
	round_trip(9, 5);
	is(CAUSE_NET_LOSS); /* 7 % of segments: more than that queue loses */
	e.counters.len = before;
	round_trip(30, 5);
	f = is(CAUSE_NET_BANDWIDTH);
	says(&f, "the network was full, or limited: eth0");
	sent(4e6, 12e6, 20, 0);
	nic(4e6, 12e6);
	round_trip(9, 5);
	is(CAUSE_NET_BANDWIDTH); /* 0.7 % */
	sent(4e6, 12e6, 0, 0);
	nic(4e6, 12e6);
	round_trip(30, 5);
	is(CAUSE_NET_BANDWIDTH);
	sent(2e6, 12e6, 140, 0); /* 10 % */
	nic(2e6, 12e6);
	round_trip(30, 5);
	is(CAUSE_NET_LOSS);
	sent(4e30, -12e6, 0, 0); /* of a damaged file */
	cause_find(&f, &e);
	cause_free(&f);
	sent(2e5, 6e5, 0, 0); /* too little to fill anything */
	nic(2e5, 6e5);
	round_trip(30, 5);
	is(CAUSE_NETWORK);
}

/* A second, beside round trips of a queue. */
static void timers(double ran_out, double usual, double resent, double round_trip_ms)
{
	sent(2e6, 12e6, 9, 0);
	grows("net_resent_bytes", resent, 0);
	grows("net_timeouts", ran_out, usual);
	nic(2e6, 12e6);
	round_trip(round_trip_ms, 5);
}

static void timers_tell_a_bad_link_from_a_full_one(void **state)
{
	(void)state;
	part(BLAME_NETWORK, VIA_ITSELF, 400, 0);
	timers(0.9, 0, 2e4, 30); /* 1 % */
	is(CAUSE_NET_LOSS);
	timers(0.4, 0, 2e4, 30); /* few */
	is(CAUSE_NET_BANDWIDTH);
	timers(0.9, 0.4, 2e4, 30); /* as usual */
	is(CAUSE_NET_BANDWIDTH);
	timers(0.9, 0, 2e3, 30); /* next to nothing was sent again */
	is(CAUSE_NET_BANDWIDTH);
	timers(0.9, 0, 2e4, 300); /* a queue as long as a timer */
	is(CAUSE_NET_BANDWIDTH);
}

/* What was sent again without payload, as for a connection that is made, is no loss of it. */
static void bytes_go_before_segments(void **state)
{
	(void)state;
	part(BLAME_NETWORK, VIA_ITSELF, 400, 0);
	sent(1e5, 12e6, 1, 0);
	nic(1e5, 12e6);
	round_trip(5, 5);
	is(CAUSE_NET_LOSS); /* a guess: 1.4 % */
	grows("net_resent_bytes", 0, 0);
	is(CAUSE_NETWORK);
	e.counters.len = 0;
	sent(2e6, 12e6, 200, 0); /* of 15 % by their number, but they are short */
	grows("net_resent_bytes", 4e3, 0);
	nic(2e6, 12e6);
	round_trip(30, 5);
	is(CAUSE_NET_BANDWIDTH);
}

static void others_on_the_network(void **state)
{
	(void)state;
	part(BLAME_NETWORK, VIA_ITSELF, 500, 0);
	sent(4e6, 12e6, 200, 5);
	nic(12e6, 12e6); /* as much as usual, a third of it the job's */
	struct cause_found f = is(CAUSE_NET_FOREIGN);
	says(&f, "others used the network beside the job: eth0");
	sent(4e6, 12e6, 200, 5);
	nic(300e6, 1e6); /* an interface that the job does not use */
	is(CAUSE_NET_LOSS);
}

static void a_rank_that_does_not_come(void **state)
{
	(void)state;
	part(BLAME_RANKS, VIA_ITSELF, 400, 0);
	part(BLAME_NETWORK, VIA_LOCK, 100, 0);
	*vec_push(&tables.processes) = (struct m_process){
		.pid = 51, .comm = strtab_add_z(&tables.strings, "python3"), .rank = 3};
	event(25000000000ULL, "rank 3", "collective_hang", "no progress for 5 s");
	is(CAUSE_STRAGGLER); /* another time */
	event(15000000000ULL, "rank 3", "collective_hang", "no progress for 5 s");
	struct cause_found f = is(CAUSE_HANG);
	assert_int_equal(f.culprit.kind, CULPRIT_RANK);
	assert_int_equal(f.culprit.rank, 3);
	says(&f, "hang: rank 3 (51)");
}

/* Why a rank is late is no hang; and it is told of the rank that is missing alone. */
static void a_hang_says_why_its_rank_is_late(void **state)
{
	(void)state;
	part(BLAME_RANKS, VIA_ITSELF, 400, 0);
	peer_part(BLAME_RIVAL, 600, 4242);
	*vec_push(&e.stalls) = (struct stall_growth){STALL_SOFTIRQ, 0, 900 * MS, 0};
	event(15000000000ULL, "rank 1", "collective_hang", "no progress for 5 s");
	struct cause_found f = is(CAUSE_HANG);
	assert_int_equal(f.culprit.pid, 50);
	assert_int_equal(f.why, CAUSE_CPU_CONTENTION);
	tables.events.len = 0;
	*vec_push(&tables.processes) = (struct m_process){.pid = 51, .rank = 3};
	event(15000000000ULL, "rank 3", "collective_hang", "no progress for 5 s");
	f = is(CAUSE_HANG);
	assert_int_equal(f.culprit.pid, 51);
	assert_int_equal(f.why, CAUSE_UNKNOWN);
	tables.events.len = 0;
	event(15000000000ULL, "rank -1", "collective_hang", "no progress for 5 s");
	assert_int_equal(is(CAUSE_HANG).culprit.kind, CULPRIT_NONE);
}

static struct diagnosed *incident(struct diagnosis *d, uint32_t pid, uint64_t from_s, uint64_t to_s)
{
	struct diagnosed *in = vec_push(&d->incidents);
	*in = (struct diagnosed){.pid = pid,
				 .blamed = true,
				 .cost_ns = 1e9,
				 .onset_ns = from_s * 1000000000ULL,
				 .end_ns = to_s * 1000000000ULL};
	in->cause.culprit.kind = CULPRIT_NONE;
	return in;
}

static struct diagnosed *waits_for(struct diagnosis *d, uint32_t pid, uint64_t from_s,
				   uint64_t to_s, uint32_t rank_pid)
{
	struct diagnosed *in = incident(d, pid, from_s, to_s);
	in->cause.cause = CAUSE_STRAGGLER;
	in->cause.culprit = (struct culprit){.kind = CULPRIT_RANK, .pid = rank_pid};
	return in;
}

static void one_incident_of_ranks_that_wait_for_one(void **state)
{
	(void)state;
	struct diagnosis d = {0};
	incident(&d, 50, 10, 14)->cause.cause = CAUSE_PYTHON_GC;
	waits_for(&d, 7, 9, 15, 50)->aside = true;
	waits_for(&d, 8, 10, 16, 50)->cost_ns = 0.5e9;
	incident(&d, 50, 20, 24)->cause.cause = CAUSE_DISK; /* nobody waited */
	incident(&d, 7, 20, 24)->aside = true;
	waits_for(&d, 7, 30, 34, 50);
	incident(&d, 50, 38, 44)->cause.cause = CAUSE_LOCK;	/* another time */
	incident(&d, 50, 50, 54)->cause.cause = CAUSE_NET_LOSS; /* between them */
	waits_for(&d, 7, 50, 54, 50)->aside = true;
	diagnosis_join_ranks(&d);
	assert_int_equal(d.incidents.len, 5);
	const struct diagnosed *in = d.incidents.data;
	assert_int_equal(in[0].pid, 7);
	assert_int_equal(in[0].cause.why, CAUSE_PYTHON_GC);
	assert_int_equal(in[0].onset_ns, 9000000000ULL);
	assert_int_equal(in[0].end_ns, 16000000000ULL);
	assert_int_equal(in[1].cause.cause, CAUSE_DISK);
	assert_int_equal(in[2].cause.cause, CAUSE_STRAGGLER);
	assert_int_equal(in[3].cause.cause, CAUSE_LOCK);
	assert_int_equal(in[4].cause.cause, CAUSE_NET_LOSS);
	diagnosis_free(&d);
}

/* A worker that waits for its parent lost more than that; a launcher above lost nothing. */
static void a_slow_parent_is_the_victim_not_who_waits_for_its_work(void **state)
{
	const struct anomaly lost[] = {{.pid = 30, .lost_ns = 5 * MS},
				       {.pid = 20, .lost_ns = 3 * MS},
				       {.pid = 20, .lost_ns = NAN},
				       {.pid = 0, .lost_ns = 9 * MS}};
	const struct anomaly *all[] = {&lost[0], &lost[1], &lost[2], &lost[3]};
	double ns;
	(void)state;
	*vec_push(&tables.processes) = (struct m_process){.pid = 10, .parent_pid = 1};
	*vec_push(&tables.processes) = (struct m_process){.pid = 20, .parent_pid = 10};
	*vec_push(&tables.processes) = (struct m_process){.pid = 30, .parent_pid = 20};
	assert_int_equal(diagnosis_victim(&tables, all, 4, &ns), 20);
	assert_true(ns == 3 * MS);
	assert_int_equal(diagnosis_victim(&tables, all, 1, &ns), 30); /* nobody above lost any */
	assert_true(ns == 5 * MS);
	assert_int_equal(diagnosis_victim(&tables, &all[3], 1, &ns), 0);
	/* of a damaged file: each is the other's parent */
	tables.processes.data[1].parent_pid = 30;
	assert_int_not_equal(diagnosis_victim(&tables, all, 4, &ns), 0);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, begin, end)
	const struct CMUnitTest tests[] = {
		T(a_straggler_and_what_held_it_back),
		T(what_ranks_wait_for_together_is_the_network),
		T(nobody_named_is_a_straggler_too),
		T(a_rank_that_does_not_come),
		T(a_hang_says_why_its_rank_is_late),
		T(why_the_network_was_slow),
		T(timers_tell_a_bad_link_from_a_full_one),
		T(bytes_go_before_segments),
		T(others_on_the_network),
		T(one_incident_of_ranks_that_wait_for_one),
		T(a_slow_parent_is_the_victim_not_who_waits_for_its_work),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
