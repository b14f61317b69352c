/* standing_test.c - whether a job stands still, by a recording that is made by hand and by what is
 * said of its threads: two processes of one parent that train, of which one waits for the other.
 *
 * links: incident detect analyze recording base */
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

#include "incident/live_incident.h"
#include "recording/recording.h"
#include "made_file.h"

#define MS 1000000ULL
#define S  1000000000ULL

#define STEP	   (100 * MS)
#define BEGINS	   (1 * S)
#define STEPS	   50 /* up to 6 s */
#define RANKS_MOST 2

static const char *const operators[] = {"aten::linear",	  "aten::relu",	    "aten::linear",
					"aten::mse_loss", "backward",	    "aten::mul_",
					"aten::add_",	  "aten::addcmul_", "aten::addcdiv_"};
#define OPERATORS (sizeof(operators) / sizeof(*operators))

static struct job {
	struct rec_writer *w;
	struct rec_reader *reader;
	struct steps steps;
	struct standings all;
	uint32_t threads[RANKS_MOST], others[RANKS_MOST]; /* its own, a library's */
	uint32_t probes[OPERATORS], query;
	struct anomaly anomaly;
	const struct standing_process *known; /* one, or NULL */
	int ranks;
} job;

static const struct thread_now runs = {.time_ns = S, .state = 'R', .switches = 7};

static uint32_t pid_of(int rank)
{
	return 100 + (uint32_t)rank;
}

static uint32_t probe(const char *layer, const char *name, const char *role)
{
	return rec_add_probe(job.w, &(struct m_probe){.layer = rec_string_z(job.w, layer),
						      .name = rec_string_z(job.w, name),
						      .role = rec_string_z(job.w, role),
						      .name_arg = -1});
}

static void call(uint32_t thread, uint32_t of, uint64_t start_ns, uint64_t dur_ns)
{
	struct m_call c = {.start_ns = start_ns, .dur_ns = dur_ns, .thread = thread, .probe = of};
	rec_put_calls(job.w, &c, 1);
}

static void step(int rank, uint64_t start_ns)
{
	for (size_t i = 0; i < OPERATORS; i++)
		call(job.threads[rank], job.probes[i], start_ns + i * 10 * MS, 9 * MS);
}

static void process(int rank, uint32_t parent, bool ended)
{
	struct m_process row = {.pid = pid_of(rank),
				.parent_pid = parent,
				.comm = rec_string_z(job.w, "python3"),
				.start_ns = 1,
				.end_ns = ended ? 6 * S : 0,
				.rank = job.ranks > 1 ? rank : -1};
	rec_put_process(job.w, &row);
	job.threads[rank] = rec_add_thread(job.w, &(struct m_thread){row.pid, row.pid, 0});
	job.others[rank] = rec_add_thread(job.w, &(struct m_thread){row.pid, row.pid + 50, 0});
}

/* So many that train, up to 6 s. */
static void trains(int ranks, bool ended)
{
	struct err e = {0};
	job = (struct job){.ranks = ranks};
	job.anomaly = (struct anomaly){
		.id = 1, .incident = 9, .pid = pid_of(0), .start_ns = 6 * S, .end_ns = 8 * S};
	if (rec_writer_open(&job.w, path, NULL, &e))
		fail_msg("%s", e.msg);
	for (size_t i = 0; i < OPERATORS; i++) {
		bool backward = !strcmp(operators[i], "backward");
		job.probes[i] = probe("torch", operators[i], backward ? "backward" : "");
	}
	job.query = probe("cuda", "cudaEventQuery", "");
	for (int r = 0; r < ranks; r++) {
		process(r, 50, ended);
		for (uint64_t i = 0; i < STEPS; i++)
			step(r, BEGINS + i * STEP);
	}
}

static void look(uint64_t now_ns)
{
	struct err e = {0};
	if (rec_writer_close(job.w, false, &e) || rec_open(&job.reader, path, &e))
		fail_msg("%s", e.msg);
	const struct row_source *s = rec_source(job.reader);
	steps_make(&job.steps, s, NULL);
	standings_make(&job.all, s,
		       &(struct standings_asked){.steps = &job.steps,
						 .anomalies = &job.anomaly,
						 .anomalies_len = 1,
						 .known = job.known,
						 .known_len = job.known ? 1 : 0,
						 .now_ns = now_ns});
}

static void saw(int rank, enum wait_reason reason)
{
	const struct thread_now before = {.state = 'S', .reason = reason, .switches = 7};
	const struct thread_now now = {.time_ns = S,
				       .state = reason == WAIT_STOPPED ? 'T' : 'S',
				       .reason = reason,
				       .switches = 7};
	for (size_t i = 0; i < job.all.processes.len; i++)
		if (job.all.processes.data[i].pid == pid_of(rank))
			standing_saw(&job.all.processes.data[i], &before, &now);
}

static void done(void)
{
	standings_free(&job.all);
	steps_free(&job.steps);
	rec_close(job.reader);
}

static bool told(struct standing *ret)
{
	bool is_told = standing_of(ret, &job.all, 0, false);
	if (!is_told)
		standing_free(ret);
	return is_told;
}

static bool is_told(void)
{
	struct standing s;
	bool ret = told(&s);
	if (ret)
		standing_free(&s);
	return ret;
}

static void check_row(struct standing *s, const char *cause, const char *what, const char *evidence)
{
	struct m_incident row;
	struct incident_texts texts;
	const struct incident_said said = {.row = &row, .texts = &texts};
	standing_to_row(&row, &texts, s, job.reader ? rec_source(job.reader)->tables : NULL, 0);
	assert_string_equal(incident_text(&said, row.cause), cause);
	assert_string_equal(incident_text(&said, row.what), what);
	assert_string_equal(incident_text(&said, row.evidence[0]), evidence);
	assert_true(row.cost_ns == (double)(s->now_ns - s->since_ns));
	assert_int_equal(row.culprit_pid, s->culprit && s->processes.len > 1 ? s->culprit->pid : 0);
	assert_true(!row.culprit_pid || row.culprit_pid != row.pid);
	incident_texts_free(&texts);
	standing_free(s);
}

/* ---- the cases ---- */

static void who_sleeps_is_waited_for(void **state)
{
	struct standing s;
	(void)state;
	trains(2, false);
	look(10 * S);
	saw(0, WAIT_FUTEX);
	saw(1, WAIT_SLEEP);
	assert_true(told(&s));
	assert_int_equal(s.since_ns, BEGINS + STEPS * STEP - 11 * MS);
	check_row(&s, "hang", "the job stands still: rank 1 (101) sleeps, 1 other waits",
		  "rank 1 (101) sleeps: no call for 4.01 s, its steps take 100 ms");
	done();
}

static void who_is_stopped_is_told_as_such(void **state)
{
	struct standing s;
	(void)state;
	trains(2, false);
	look(10 * S);
	saw(0, WAIT_STOPPED);
	saw(1, WAIT_FUTEX);
	assert_true(told(&s));
	check_row(&s, "stopped", "the job was stopped: rank 0 (100), 1 other waits",
		  "rank 0 (100) is stopped: no call for 4.01 s, its steps take 100 ms");
	done();
}

static void of_ranks_that_all_wait_none_is_named(void **state)
{
	struct standing s;
	(void)state;
	trains(2, false);
	look(10 * S);
	saw(0, WAIT_FUTEX);
	saw(1, WAIT_POLL);
	assert_true(told(&s));
	check_row(&s, "hang", "the job stands still: rank 0 (100) and 1 other make no calls",
		  "rank 0 (100) waits for a lock: no call for 4.01 s, its steps take 100 ms");
	done();
}

static void ranks_that_wait_for_one_that_goes_on_do_not_stand_still(void **state)
{
	(void)state;
	trains(2, false);
	look(10 * S);
	saw(0, WAIT_FUTEX); /* of the other nothing was seen: it runs */
	assert_false(is_told());
	done();
}

static void one_process_stands_still_unless_it_may_idle(void **state)
{
	struct standing s;
	(void)state;
	trains(1, false);
	look(10 * S);
	static const enum wait_reason idle[] = {WAIT_POLL, WAIT_NETWORK, WAIT_OTHER, WAIT_CHILD};
	for (size_t i = 0; i < sizeof(idle) / sizeof(*idle); i++) {
		saw(0, idle[i]);
		assert_false(is_told());
	}
	saw(0, WAIT_FUTEX);
	assert_true(told(&s));
	check_row(&s, "hang", "the job stands still: python3 (100) waits for a lock",
		  "python3 (100) waits for a lock: no call for 4.01 s, its steps take 100 ms");
	saw(0, WAIT_POLL);
	job.all.processes.data[0].children = 1; /* which may make its data */
	assert_true(is_told());
	done();
}

/* It is beyond three seconds, ten steps, and twice the longest that is usual. */
static void it_takes_longer_than_is_usual(void **state)
{
	(void)state;
	trains(1, false);
	step(0, 8 * S); /* after 2 s */
	look(11 * S);
	saw(0, WAIT_SLEEP);
	assert_false(is_told()); /* 3 s: once it took 2 */
	job.all.now_ns = 13 * S;
	assert_true(is_told());
	job.all.now_ns = 10 * S + 900 * MS;
	job.all.processes.data[0].usual_ns = STEP; /* that was of an anomaly */
	assert_false(is_told());
	job.all.now_ns = 11 * S + 100 * MS;
	assert_true(is_told());
	struct standing s; /* of a cause that is known the long step may be, too, */
	saw(0, WAIT_FUTEX);
	assert_true(is_told());
	assert_false(standing_of(&s, &job.all, 0, true));
	standing_free(&s);
	saw(0, WAIT_SLEEP); /* but not where it waits for nobody */
	assert_true(standing_of(&s, &job.all, 0, true));
	standing_free(&s);
	job.all.processes.data[0].median_ns = S;
	assert_false(is_told());
	done();
}

/* What was an anomaly is not usual: a job that hangs once more is told as soon. */
static void a_step_of_an_anomaly_is_not_usual(void **state)
{
	(void)state;
	trains(1, false);
	step(0, 8 * S);
	job.anomaly.start_ns = 7 * S;
	look(12 * S);
	assert_true(job.all.processes.data[0].usual_ns < 2 * STEP);
	assert_true(job.all.processes.data[0].longest_ns > S);
	done();
}

static void calls_of_any_thread_are_progress(void **state)
{
	(void)state;
	trains(1, false);
	call(job.others[0], job.probes[0], 9 * S, MS);
	look(10 * S);
	saw(0, WAIT_FUTEX);
	assert_int_equal(job.all.processes.data[0].since_ns, 9 * S + MS);
	assert_false(is_told());
	done();
	trains(1, false);
	call(job.others[0], job.query, 9 * S, MS); /* but not of who looks after what hangs */
	look(10 * S);
	saw(0, WAIT_FUTEX);
	assert_true(is_told());
	done();
}

static void what_moves_does_not_stand_still(void **state)
{
	(void)state;
	trains(1, false);
	look(10 * S);
	struct standing_process *p = &job.all.processes.data[0];
	struct thread_now before = {.state = 'S', .reason = WAIT_SLEEP, .switches = 6};
	struct thread_now now = {.time_ns = S, .state = 'S', .reason = WAIT_SLEEP, .switches = 7};
	assert_true(standing_is_quiet(&job.all, p));
	standing_saw(p, NULL, &now);
	assert_false(is_told());
	standing_saw(p, &before, &now);
	assert_false(is_told());
	before.switches = 7;
	standing_saw(p, &before, &runs);
	assert_false(is_told());
	standing_saw(p, &before, &now);
	assert_true(is_told());
	now.cpu_ns = S / 2; /* other threads, or processes that it has started */
	standing_saw(p, &before, &now);
	assert_false(is_told());
	now.cpu_ns = S / 50;
	now.time_ns = S / 50; /* it was seen just before */
	standing_saw(p, &before, &now);
	assert_false(is_told());
	done();
}

static void what_has_ended_is_not_told_and_incidents_are_of_their_job(void **state)
{
	(void)state;
	trains(1, true);
	look(10 * S);
	assert_int_equal(job.all.processes.len, 0);
	done();
	trains(1, false);
	job.anomaly.ended = true;
	job.anomaly.end_ns = 5 * S;
	look(10 * S);
	assert_int_equal(standings_job(&job.all, 9), STANDING_NONE);
	done();
	trains(1, false);
	job.anomaly.ended = true; /* it ended while the job stood still */
	look(10 * S);
	assert_int_equal(standings_job(&job.all, 9), 0);
	done();
	trains(1, false);
	job.anomaly.pid = 4711;
	look(10 * S);
	assert_int_equal(standings_job(&job.all, 9), STANDING_NONE);
	done();
}

/* What it did before it stood still is not there any more. */
static void what_is_known_stays(void **state)
{
	const struct standing_process known = {.pid = pid_of(0),
					       .parent_pid = 50,
					       .tid = pid_of(0),
					       .rank = -1,
					       .since_ns = 6 * S,
					       .median_ns = STEP,
					       .longest_ns = STEP,
					       .usual_ns = STEP,
					       .waits = true,
					       .reason = WAIT_SLEEP};
	(void)state;
	for (int turn = 0; turn < 3; turn++) {
		trains(0, false);
		process(0, 50, turn == 1); /* once it has ended */
		job.known = &known;
		if (turn == 2)
			call(job.threads[0], job.probes[0], 19 * S, MS);
		look(20 * S);
		assert_int_equal(job.all.processes.len, turn == 1 ? 0 : 1);
		assert_false(is_told()); /* its thread is to be seen anew */
		saw(0, WAIT_SLEEP);
		assert_int_equal(is_told(), turn == 0);
		done();
	}
}

/* It runs its model and changes no parameters: it may wait for requests. */
static void what_infers_is_not_told(void **state)
{
	(void)state;
	trains(0, false);
	process(0, 50, false);
	for (uint64_t i = 0; i < STEPS; i++)
		for (size_t k = 0; k < 3; k++)
			call(job.threads[0], job.probes[k], BEGINS + i * STEP + k * 10 * MS,
			     9 * MS);
	look(10 * S);
	assert_int_equal(job.all.processes.len, 0);
	done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_sleeps_is_waited_for),
		cmocka_unit_test(who_is_stopped_is_told_as_such),
		cmocka_unit_test(of_ranks_that_all_wait_none_is_named),
		cmocka_unit_test(ranks_that_wait_for_one_that_goes_on_do_not_stand_still),
		cmocka_unit_test(one_process_stands_still_unless_it_may_idle),
		cmocka_unit_test(it_takes_longer_than_is_usual),
		cmocka_unit_test(a_step_of_an_anomaly_is_not_usual),
		cmocka_unit_test(calls_of_any_thread_are_progress),
		cmocka_unit_test(what_moves_does_not_stand_still),
		cmocka_unit_test(what_has_ended_is_not_told_and_incidents_are_of_their_job),
		cmocka_unit_test(what_is_known_stays),
		cmocka_unit_test(what_infers_is_not_told),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}
