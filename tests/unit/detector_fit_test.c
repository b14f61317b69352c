/* detector_fit_test.c - a job that is not the one that was learned: told once and soon, learned
 * anew, and judged by that.
 * links: incident detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "detect/learn.h"
#include "incident/anomaly_list.h"
#include "incident/excuses.h"
#include "sim_job.h"
#include "recording/recording.h"

#define FOUND_MOST 200
#define QUICKER	   (1 / 4.5)

static struct model model;
static struct detect_names names;
static struct detector *detector;
static uint64_t last_second;

static struct {
	uint64_t start_ns, end_ns;
	enum detect_layer layer;
	char why[256];
} found[FOUND_MOST];
static size_t found_len, misfits;
static struct model_misfit misfit; /* the last, and its differs */
static char differs[128];
static const char *host; /* that the job runs on; NULL: it is not known */

/* ---- the model ---- */

static void write_job(const char *path, void (*what)(struct sim_job *s), uint64_t seed)
{
	struct sim_job s;
	struct rec_writer *w;
	struct err e = {0};
	sim_make(&s, seed);
	assert_int_equal(sim_open(&s, &w, path, &e), 0);
	rec_put_meta(w, "host", "gpu7");
	what(&s);
	assert_int_equal(rec_writer_close(w, false, &e), 0);
	sim_free(&s);
}

static void ten_minutes(struct sim_job *s)
{
	sim_run(s, 600);
}

static int make_model(void **state)
{
	(void)state;
	char path[] = "/tmp/eacgm-fit-XXXXXX";
	struct rec_reader *r;
	struct err e = {0};
	close(mkstemp(path));
	write_job(path, ten_minutes, 5);
	assert_int_equal(rec_open(&r, path, &e), 0);
	struct learn_options o = {.warmup_s = -1};
	const struct row_source *source = rec_source(r);
	assert_int_equal(learn_model(&model, &source, 1, &o, &e), 0);
	rec_close(r);
	unlink(path);
	return 0;
}

static int free_model(void **state)
{
	(void)state;
	model_free(&model);
	return 0;
}

/* ---- a running job ---- */

static void on_anomaly(void *ctx, const struct anomaly *a)
{
	(void)ctx;
	if (!a->ended || found_len == FOUND_MOST)
		return;
	found[found_len].start_ns = a->start_ns;
	found[found_len].end_ns = a->end_ns;
	snprintf(found[found_len].why, sizeof(found[0].why), "%s", a->why);
	found[found_len++].layer = a->layer;
}

static void on_misfit(void *ctx, const struct model_misfit *m)
{
	(void)ctx;
	misfits++;
	misfit = *m;
	snprintf(differs, sizeof(differs), "%s", m->differs ? m->differs : "");
}

static void on_setting(void *ctx, uint32_t pid, struct setting *ret)
{
	(void)ctx;
	assert_int_equal(pid, SIM_PID);
	setting_add(ret, "host", host);
}

static void on_call(void *ctx, const struct m_call *c)
{
	(void)ctx;
	uint64_t end = c->start_ns + c->dur_ns;
	if (end / SIM_SECOND != last_second) {
		last_second = end / SIM_SECOND;
		detector_upto(detector, end);
	}
	detector_call(detector, &names, c);
}

/* Returns when it began. */
static uint64_t run(void (*what)(struct sim_job *s), uint32_t without_excuses)
{
	struct sim_job s;
	sim_make(&s, 99);
	s.emit = on_call;
	names = sim_names(&s);
	uint64_t begin = s.now_ns;
	found_len = misfits = 0;
	detector = detector_new(&(struct detector_options){.model = &model,
							   .alarms_per_hour = 1,
							   .without_excuses = without_excuses,
							   .follow = true,
							   .tell = on_anomaly,
							   .misfit = on_misfit,
							   .setting = host ? on_setting : NULL});
	what(&s);
	detector_end(detector);
	detector_free(detector);
	sim_free(&s);
	return begin;
}

static double after_s(uint64_t begin, uint64_t time_ns)
{
	return ((double)time_ns - (double)begin) / 1e9;
}

/* Those that begin in so many seconds after the beginning. */
static size_t found_between(uint64_t begin, double from_s, double to_s)
{
	size_t n = 0;
	for (size_t i = 0; i < found_len; i++) {
		double at = after_s(begin, found[i].start_ns);
		n += at >= from_s && at < to_s;
	}
	return n;
}

static void assert_told_once(uint64_t begin, enum fit_verdict verdict)
{
	assert_int_equal(misfits, 1);
	assert_int_equal(misfit.verdict, verdict);
	assert_int_equal(misfit.pid, SIM_PID);
	if (after_s(begin, misfit.told_ns) > 30)
		fail_msg("told after %.1f s", after_s(begin, misfit.told_ns));
}

#define HOURS 2
#define ONSET (HOURS * 3600.0)

/* A fault of 2.1 at the end of some hours. */
static void slow_in_the_end(struct sim_job *s)
{
	double usual = s->all;
	sim_run(s, ONSET);
	s->all = 2.1 * usual;
	sim_run(s, 30);
	s->all = usual;
	sim_run(s, 30);
}

static void quicker(struct sim_job *s)
{
	s->all = QUICKER;
	slow_in_the_end(s);
}

static void a_quicker_job_is_learned_anew(void **state)
{
	(void)state;
	uint64_t begin = run(quicker, 0);
	assert_told_once(begin, FIT_QUICKER);
	assert_true(misfit.relearns);
	assert_true(misfit.pace > 4 && misfit.pace < 5);
	assert_non_null(strstr(misfit.why, "this run is not the job that was learned: its work "
					   "takes 0.2"));
	assert_in_range(found_between(begin, 0, ONSET - 5), 0, HOURS);
	assert_true(found_between(begin, ONSET - 2, ONSET + 2) > 0);
	if (getenv("EACGM_TEST_TELL"))
		print_message("%zu anomalies in %d hours\n", found_between(begin, 0, ONSET - 5),
			      HOURS);
	/* By the model alone the fault is still quicker than usual. */
	begin = run(quicker, excuse_bit("stale-model"));
	assert_int_equal(misfits, 0);
	assert_int_equal(found_between(begin, ONSET - 2, ONSET + 2), 0);
}

static void slower(struct sim_job *s)
{
	s->all = 2;
	slow_in_the_end(s);
}

/* Where something is known to differ; else it is a fault. */
static void a_slower_job_is_one_on_another_host(void **state)
{
	(void)state;
	host = "gpu8";
	uint64_t begin = run(slower, 0);
	assert_told_once(begin, FIT_SLOWER);
	assert_string_equal(differs, "host is gpu8, not gpu7");
	assert_in_range(found_between(begin, 0, ONSET - 5), 0, HOURS);
	assert_true(found_between(begin, ONSET - 2, ONSET + 2) > 0);
	host = NULL;
}

static void slow_at_first(struct sim_job *s)
{
	s->all = 2;
	sim_run(s, 40);
	s->all = 1;
	sim_run(s, 60);
}

static void a_fault_from_the_beginning_is_one(void **state)
{
	(void)state;
	const char *const hosts[] = {NULL, "gpu7"};
	for (size_t i = 0; i < 2; i++) {
		host = hosts[i];
		uint64_t begin = run(slow_at_first, 0);
		assert_int_equal(misfits, 0);
		assert_true(found_between(begin, 0, 10) > 0);
		assert_int_equal(found_between(begin, 45, 100), 0);
		assert_non_null(strstr(found[0].why, ", since its work began"));
	}
	host = NULL;
}

static void other_batch(struct sim_job *s)
{
	s->batch = 512;
	sim_run(s, 300);
}

/* Sizes are learned beside the model. */
static void other_sizes_are_told(void **state)
{
	(void)state;
	uint64_t begin = run(other_batch, 0);
	assert_told_once(begin, FIT_OTHER_SIZES);
	assert_false(misfit.relearns);
	assert_int_equal(found_len, 0);
}

static void other_program(struct sim_job *s)
{
	char name[32];
	for (uint32_t i = 0; i < SIM_FUNCTIONS; i++) {
		snprintf(name, sizeof(name), "other::%u", i);
		s->probes[i].name = strtab_add_z(&s->strings, name);
	}
	slow_in_the_end(s);
}

static void another_program_is_learned_anew(void **state)
{
	(void)state;
	uint64_t begin = run(other_program, 0);
	assert_told_once(begin, FIT_OTHER_CALLS);
	assert_true(misfit.relearns);
	assert_true(misfit.share > 0.9);
	assert_in_range(found_between(begin, 0, ONSET - 5), 0, HOURS);
	assert_true(found_between(begin, ONSET - 2, ONSET + 2) > 0);
}

static void quicker_later(struct sim_job *s)
{
	sim_run(s, 120);
	s->all = QUICKER;
	sim_run(s, 40);
	s->all = 1;
	sim_run(s, 120);
	s->all = QUICKER;
	sim_run(s, 200);
}

static void what_fitted_takes_longer(void **state)
{
	(void)state;
	uint64_t begin = run(quicker_later, 0);
	assert_int_equal(misfits, 1);
	double told = after_s(begin, misfit.told_ns);
	assert_true(told > 280 + 40 && told < 280 + 70);
	assert_int_equal(found_len, 0);
}

/* ---- a file ---- */

struct counted {
	uint64_t rows, last_ns, events;
};

static void count_row(void *ctx, const struct feature_row *row, const char *layer, double score,
		      double p, bool alarmed)
{
	struct counted *c = ctx;
	(void)layer;
	(void)score;
	(void)p;
	(void)alarmed;
	c->rows += row->layer == DETECT_TORCH;
	c->last_ns = row->start_ns;
}

static void count_event(void *ctx, const struct detector_event *e)
{
	struct counted *c = ctx;
	(void)e;
	c->events++;
}

static void judge_file(void (*what)(struct sim_job *s), struct anomaly_list *ret,
		       struct counted *counted)
{
	char path[] = "/tmp/eacgm-fit-XXXXXX";
	struct rec_reader *r;
	struct err e = {0};
	close(mkstemp(path));
	write_job(path, what, 99);
	assert_int_equal(rec_open(&r, path, &e), 0);
	*counted = (struct counted){0};
	anomaly_list_make(ret, rec_source(r),
			  &(struct anomaly_list_options){.model = &model,
							 .alarms_per_hour = 1,
							 .ctx = counted,
							 .row = count_row,
							 .event = count_event});
	rec_close(r);
	unlink(path);
}

static void quicker_then_slow(struct sim_job *s)
{
	s->all = QUICKER;
	sim_run(s, 120);
	s->all = 2.1 * QUICKER;
	sim_run(s, 20);
	s->all = QUICKER;
	sim_run(s, 20);
}

static void fits_then_quicker_then_slow(struct sim_job *s)
{
	sim_run(s, 60);
	s->all = 2;
	sim_run(s, 10);
	s->all = 1;
	sim_run(s, 60);
	quicker_then_slow(s);
}

static bool any_at(const struct anomaly_list *l, double second)
{
	for (size_t i = 0; i < l->rows.len; i++)
		if (fabs(after_s(1000 * SIM_SECOND, l->rows.data[i].a.start_ns) - second) < 2.01)
			return true;
	return false;
}

/* Each row and event is told once, by what it was judged by. */
static void a_file_is_read_again(void **state)
{
	(void)state;
	struct anomaly_list l = {0};
	struct counted c;
	judge_file(quicker_then_slow, &l, &c);
	assert_int_equal(l.misfits.len, 1);
	assert_true(l.misfits.data[0].told_ns < (1000 + 30) * SIM_SECOND);
	assert_true(any_at(&l, 120));
	assert_in_range(c.rows, 160, 161);
	assert_int_equal(c.events, l.stats.events);
	anomaly_list_free(&l);

	l = (struct anomaly_list){0};
	judge_file(fits_then_quicker_then_slow, &l, &c);
	assert_int_equal(l.misfits.len, 1);
	assert_true(any_at(&l, 60));
	assert_true(any_at(&l, 250));
	assert_in_range(c.rows, 290, 291);
	assert_int_equal(c.events, l.stats.events);
	for (size_t i = 0; i < l.rows.len; i++)
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(l.rows.data[i].a.id, l.rows.data[k].a.id);
	anomaly_list_free(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_quicker_job_is_learned_anew),
		cmocka_unit_test(a_slower_job_is_one_on_another_host),
		cmocka_unit_test(a_fault_from_the_beginning_is_one),
		cmocka_unit_test(other_sizes_are_told),
		cmocka_unit_test(another_program_is_learned_anew),
		cmocka_unit_test(what_fitted_takes_longer),
		cmocka_unit_test(a_file_is_read_again),
	};
	return cmocka_run_group_tests(tests, make_model, free_model);
}
