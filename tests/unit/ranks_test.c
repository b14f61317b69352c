/* ranks_test.c - ranks side by side, in recordings of simulated jobs: who is late, who waits, who
 * gives other bytes, who is missing; and what looks like one of these and is none.
 * links: analyze recording base golden */
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

#include "analyze/ranks.h"
#include "golden/rank_sample.h"
#include "made_file.h"

#define US 1000ULL
#define MS 1000000ULL
#define S  1000000000ULL

static struct {
	struct rec_reader *reader;
	struct timeline timeline;
	struct collectives collectives;
	struct ranks ranks;
} now;

static const struct ranks *made(const struct rank_sample *s)
{
	struct err e = {0};
	if (rank_sample_write(path, s, (1u << s->ranks) - 1, &e) || rec_open(&now.reader, path, &e))
		fail_msg("%s", e.msg);
	timeline_make(&now.timeline, rec_source(now.reader), &(struct timeline_options){0});
	collectives_make(&now.collectives, &now.timeline, 0);
	ranks_make(&now.ranks, rec_source(now.reader), &now.collectives);
	return &now.ranks;
}

static void done(void)
{
	ranks_free(&now.ranks);
	collectives_free(&now.collectives);
	timeline_free(&now.timeline);
	rec_close(now.reader);
}

/* Four ranks of one host; a rank's jitter is far below what counts as late. */
static struct rank_sample plain(void)
{
	return (struct rank_sample){
		.ranks = 4,
		.steps = 60,
		.step_ns = 100 * MS,
		.transfer_ns = 300 * US,
		.jitter_ns = 10 * US,
		.tail_ns = 10 * MS,
		.clocks = {{.host = "node0"},
			   {.host = "node0"},
			   {.host = "node0"},
			   {.host = "node0"}},
	};
}

static void nothing_is_found_where_nothing_is(void **state)
{
	(void)state;
	for (int no_hash = 0; no_hash < 2; no_hash++)
		for (int no_spans = 0; no_spans < 2; no_spans++) {
			struct rank_sample s = plain();
			s.no_hash = no_hash;
			s.no_spans = no_spans;
			const struct ranks *r = made(&s);
			assert_true(r->several);
			assert_int_equal(r->comms.len, 1);
			assert_int_equal(r->matching.groups.data[0].members, 4);
			assert_int_equal(r->comms.data[0].compared, 60);
			assert_int_equal(r->comms.data[0].on_device, no_spans ? 0 : 60);
			assert_int_equal(r->comms.data[0].late, 0);
			assert_int_equal(r->comms.data[0].straggler, RANKS_NONE);
			assert_int_equal(r->mismatches_total, 0);
			assert_int_equal(r->hangs.len, 0);
			done();
		}
}

/* One rank comes 20 ms late: the three others wait for it, and all then move bytes. */
static void straggler_is_named(void **state)
{
	(void)state;
	for (int no_spans = 0; no_spans < 2; no_spans++) {
		struct rank_sample s = plain();
		s.late_rank = 2;
		s.late_ns = 20 * MS;
		s.no_spans = no_spans;
		const struct ranks *r = made(&s);
		const struct ranks_comm *c = &r->comms.data[0];
		assert_int_equal(c->straggler, 2);
		assert_int_equal(r->matching.members.data[2].rank, 2);
		const struct ranks_member *m = &r->members.data[2];
		assert_int_equal(m->last, 60);
		assert_int_equal(m->late, 60);
		assert_in_range(m->p50_late_ns, 20 * MS - 20 * US, 20 * MS + 20 * US);
		assert_in_range(m->waited_for_ns, 60 * 3 * (20 * MS - 20 * US),
				60 * 3 * (20 * MS + 20 * US));
		assert_int_equal(m->wait_ns, 0);
		assert_in_range(r->members.data[0].wait_ns, 60 * (20 * MS - 20 * US),
				60 * (20 * MS + 20 * US));
		if (no_spans)
			assert_int_equal(c->transfer_ns, 0);
		else
			assert_in_range(c->transfer_ns, 60 * 300 * US, 60 * 310 * US);
		done();
	}
}

/* Once a step, while in its other collectives this rank or that is late by chance. */
static void straggler_of_few_collectives(void **state)
{
	(void)state;
	for (unsigned every = 1; every < 30; every += 4) {
		struct rank_sample s = plain();
		s.steps = 400;
		s.late_rank = 1;
		s.late_every = every;
		s.late_ns = 50 * MS;
		s.jitter_ns = MS;
		assert_int_equal(made(&s)->comms.data[0].straggler, 1);
		done();
		s.late_ns = 0;
		assert_int_equal(made(&s)->comms.data[0].straggler, RANKS_NONE);
		done();
	}
}

/* The GPU's timeline began in the midst: shares of devices' time are of what is known of it. */
static void waits_without_device_times_are_no_share(void **state)
{
	(void)state;
	struct rank_sample s = plain();
	s.late_rank = 2;
	s.late_ns = 20 * MS;
	s.spans_from = 40;
	const struct ranks_comm *c = &made(&s)->comms.data[0];
	assert_int_equal(c->compared, 60);
	assert_int_equal(c->on_device, 20);
	assert_in_range(c->wait_ns, 60 * 3 * (20 * MS - 20 * US), 60 * 3 * (20 * MS + 20 * US));
	assert_in_range(c->device_wait_ns, 20 * 3 * (20 * MS - 20 * US),
			20 * 3 * (20 * MS + 20 * US));
	assert_int_equal(c->rank_ns, c->device_wait_ns + 4 * c->transfer_ns);
	done();
}

/* Late by less than can be said, or too seldom: nobody is named. */
static void little_lateness_is_none(void **state)
{
	(void)state;
	struct rank_sample s = plain();
	s.late_rank = 1;
	s.late_ns = 30 * US;
	const struct ranks *r = made(&s);
	assert_int_equal(r->comms.data[0].straggler, RANKS_NONE);
	done();
	s.late_ns = 20 * MS;
	s.steps = RANKS_LATE_LEAST - 1;
	r = made(&s);
	assert_int_equal(r->comms.data[0].late, RANKS_LATE_LEAST - 1);
	assert_int_equal(r->comms.data[0].straggler, RANKS_NONE);
	done();
}

static void mismatch_is_found(void **state)
{
	(void)state;
	struct rank_sample s = plain();
	s.other_rank = 3;
	s.other_step = 11;
	s.other_bytes = 12;
	const struct ranks *r = made(&s);
	assert_int_equal(r->mismatches_total, 1);
	assert_int_equal(r->mismatches.data[0].what, RANKS_OTHER_BYTES);
	const struct rank_match *m = &r->matching.matches.data[r->mismatches.data[0].match];
	assert_int_equal(m->sequence, 11);
	assert_int_equal(r->calls.data[r->matching.matched.data[m->first + 3]].bytes, 12);
	done();
}

static const char *leaf_of(const struct ranks *r, uint32_t stack)
{
	const struct rec_tables *t = r->tables;
	assert_true(stack);
	const struct m_frame *f = &t->frames.data[t->stacks.data[stack].frame];
	return strtab_get(&t->strings, f->name, NULL);
}

/* Rank 1 stays in load_batch before collective 58; the others wait there, one ahead. */
static void missing_rank_is_named(void **state)
{
	(void)state;
	for (int no_spans = 0; no_spans < 2; no_spans++) {
		struct rank_sample s = plain();
		s.missing_rank = 1;
		s.missing = 2;
		s.tail_ns = 5 * S;
		s.no_spans = no_spans;
		const struct ranks *r = made(&s);
		assert_int_equal(r->hangs.len, 1);
		const struct ranks_hang *h = &r->hangs.data[0];
		assert_int_equal(h->sequence, 58);
		assert_int_equal(h->entered, 3);
		assert_int_equal(h->missing, 1);
		assert_in_range(h->quiet_ns, 5 * S, 5 * S + 200 * MS);
		assert_int_equal(h->ranks.len, 4);
		for (size_t i = 0; i < 4; i++) {
			const struct ranks_hung *rank = &h->ranks.data[i];
			assert_int_equal(rank->call == RANKS_NONE, i == 1);
			assert_string_equal(leaf_of(r, rank->stack),
					    i == 1 ? "load_batch" : "all_reduce");
		}
		done();
	}
}

/* A rank that is behind when the recording ends, but not for long, is not missing. */
static void short_quiet_is_no_hang(void **state)
{
	(void)state;
	struct rank_sample s = plain();
	s.missing_rank = 1;
	s.missing = 20;
	s.tail_ns = 1800 * MS;
	const struct ranks *r = made(&s);
	assert_int_equal(r->members.data[1].next_sequence, 40);
	assert_int_equal(r->hangs.len, 0);
	done();
}

/* The records of a rank's last collectives were lost: they ended on the others, so it was there. */
static void ended_collectives_do_not_hang(void **state)
{
	(void)state;
	struct rank_sample s = plain();
	s.missed[0] = 0;
	s.lost_rank = 1;
	s.lost = 3;
	s.tail_ns = 5 * S;
	const struct ranks *r = made(&s);
	assert_int_equal(r->members.data[1].next_sequence, 57);
	assert_int_equal(r->members.data[0].next_sequence, 60);
	assert_int_equal(r->hangs.len, 0);
	done();
}

/* All ranks enter and the device never ends: as after a mismatch. */
static void endless_collective_is_a_hang(void **state)
{
	(void)state;
	struct rank_sample s = plain();
	s.missing = 1; /* of a rank that there is not: all wait */
	s.missing_rank = 9;
	s.tail_ns = 5 * S;
	const struct ranks *r = made(&s);
	assert_int_equal(r->hangs.len, 1);
	assert_int_equal(r->hangs.data[0].sequence, 59);
	assert_int_equal(r->hangs.data[0].entered, 4);
	assert_int_equal(r->hangs.data[0].missing, 0);
	done();
	s.no_spans = true; /* nothing is known about ends: nothing is said */
	r = made(&s);
	assert_int_equal(r->hangs.len, 0);
	done();
}

/* Tracing began in the midst, and found each rank at another place. */
static void places_of_ranks_are_found(void **state)
{
	(void)state;
	struct rank_sample s = plain();
	s.no_hash = true;
	s.missed[0] = 3;
	s.missed[1] = 5;
	s.missed[3] = 4;
	s.late_rank = 3;
	s.late_ns = 5 * MS;
	const struct ranks *r = made(&s);
	assert_int_equal(r->comms.len, 1);
	assert_int_equal(r->matching.groups.data[0].members, 4);
	unsigned whole = 0;
	for (size_t i = 0; i < r->matching.matches.len; i++)
		whole += r->matching.matches.data[i].calls == 4;
	assert_int_equal(whole, 55);
	assert_int_equal(r->mismatches_total, 0);
	assert_int_equal(r->comms.data[0].straggler, 3);
	done();
}

static void ranks_of_processes(void **state)
{
	(void)state;
	struct rank_sample s = plain();
	const struct ranks *r = made(&s);
	for (unsigned rank = 0; rank < 4; rank++)
		assert_int_equal(process_index_rank(&r->processes, rank_sample_pid(&s, rank)),
				 rank);
	assert_int_equal(process_index_rank(&r->processes, 4242), -1);
	done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_found_where_nothing_is),
		cmocka_unit_test(straggler_is_named),
		cmocka_unit_test(straggler_of_few_collectives),
		cmocka_unit_test(waits_without_device_times_are_no_share),
		cmocka_unit_test(little_lateness_is_none),
		cmocka_unit_test(mismatch_is_found),
		cmocka_unit_test(missing_rank_is_named),
		cmocka_unit_test(short_quiet_is_no_hang),
		cmocka_unit_test(ended_collectives_do_not_hang),
		cmocka_unit_test(endless_collective_is_a_hang),
		cmocka_unit_test(places_of_ranks_are_found),
		cmocka_unit_test(ranks_of_processes),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}
