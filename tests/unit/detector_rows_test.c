/* detector_rows_test.c - rows, each as rare as it is asked for, through a detector: which are
 * judged, where anomalies begin and end, which rows and events are of them.
 * links: detect analyze recording base */
#include <linux/types.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/alone.h"
#include "detect/detector_impl.h"
#include "detect/learn.h"
#include "detect_names.h"

#define SECOND	  1000000000ULL
#define PID	  100
#define BEGIN	  1000 /* seconds: the first row */
#define ROWS_MOST 400
#define RARE	  1e-6
#define USUAL	  0.5

static struct model model;
static struct detector *detector;
static struct detector_options options;
static uint64_t second; /* of the next row */

static struct anomaly found[16];
static size_t found_len;
static double p_of[ROWS_MOST]; /* by row */
static bool alarmed_at[ROWS_MOST];
static size_t rows_told;

/* ---- a model of which p is known: a first feature of x has p = exp(-x^2 / 2) ---- */

static void make_layer(struct model_mixture *m, const char *feature)
{
	struct err e = {0};
	m->columns = 1;
	m->names[0] = xstrdup(feature);
	m->scale[0] = 1;
	m->gmm = (struct gmm){.d = 1, .components = 1, .covariance = GMM_FULL};
	m->gmm.weights = xcalloc(1, sizeof(double));
	m->gmm.means = xcalloc(1, sizeof(double));
	m->gmm.covariances = xcalloc(1, sizeof(double));
	m->gmm.weights[0] = m->gmm.covariances[0] = 1;
	assert_int_equal(gmm_complete(&m->gmm, &e), 0);
	m->tail = (struct tail){
		.n = 1000000, .start = log(2 * M_PI) / 2, .start_ratio = 1, .shape = 0, .scale = 1};
	for (size_t i = 0; i < TAIL_POINTS; i++)
		m->tail.points[i] = m->tail.start;
}

static int make_model(void **state)
{
	(void)state;
	model_init(&model);
	model.window_ns = SECOND;
	model.recordings = UINT32_MAX;
	vec_push(&model.regimes);
	make_layer(&model.layers[DETECT_TORCH], "slowdown");
	make_layer(&model.layers[DETECT_STEP], "duration");
	make_layer(&model.layers[DETECT_HARDWARE], "gpm_sm_ratio");
	make_layer(&model.layers[DETECT_HOST], "cpu_ratio");
	return 0;
}

static int free_model(void **state)
{
	(void)state;
	model_free(&model);
	return 0;
}

static void on_anomaly(void *ctx, const struct anomaly *a)
{
	(void)ctx;
	if (a->ended && found_len < sizeof(found) / sizeof(found[0]))
		found[found_len++] = *a;
}

static void on_row(void *ctx, const struct feature_row *row, double score, double p, bool alarmed)
{
	(void)ctx;
	(void)score;
	if (row->layer != DETECT_TORCH)
		return;
	size_t at = row->start_ns / SECOND - BEGIN;
	assert_true(at < ROWS_MOST);
	p_of[at] = p;
	alarmed_at[at] = alarmed;
	rows_told++;
}

static int begin(void **state)
{
	(void)state;
	options = (struct detector_options){
		.model = &model, .alarms_per_hour = 1, .tell = on_anomaly, .row = on_row};
	model.recordings = UINT32_MAX;
	model.without = 0;
	model.layers[DETECT_TORCH].cusum_ratio = 1;
	return 0;
}

static void start(bool whole)
{
	options.whole = whole;
	detector = detector_new(&options);
	second = BEGIN;
	found_len = rows_told = 0;
}

static void stop(void)
{
	detector_end(detector);
	assert_int_equal(rows_told, second - BEGIN);
	detector_free(detector);
}

static void row_with(double p, uint32_t regime, double pace)
{
	struct feature_row row = {.start_ns = second * SECOND,
				  .end_ns = (second + 1) * SECOND,
				  .layer = DETECT_TORCH,
				  .pid = PID,
				  .gpu = -1,
				  .regime = regime,
				  .pace = pace,
				  .events = 100,
				  .x = {sqrt(-2 * log(p))}};
	for (size_t f = 1; f < FEATURES_MOST; f++)
		row.x[f] = NAN;
	second++;
	detector_row(detector, &row);
}

static void rows(size_t n, double p)
{
	for (size_t i = 0; i < n; i++)
		row_with(p, 1, 1);
}

/* From the row that begins then to that before the other. */
static void expect_anomaly(size_t i, uint64_t from, uint64_t to)
{
	assert_true(i < found_len);
	assert_int_equal(found[i].start_ns, from * SECOND);
	assert_int_equal(found[i].end_ns, to * SECOND);
	assert_int_equal(found[i].windows, to - from);
}

static void expect_alarmed(uint64_t from, const char *marks)
{
	for (size_t i = 0; marks[i]; i++)
		if (alarmed_at[from - BEGIN + i] != (marks[i] == '!'))
			fail_msg("row %zu of '%s'", i, marks);
}

/* ---- which rows are judged ---- */

/* Rows of work that no model knows, at this pace; returns the anomalies. */
static size_t of_new_work(double pace, bool whole)
{
	start(whole);
	rows(20, USUAL);
	for (int i = 0; i < 5; i++)
		row_with(RARE, 2, pace);
	rows(10, USUAL);
	stop();
	assert_true(isnan(p_of[22]) == (found_len == 0));
	if (found_len)
		expect_anomaly(0, BEGIN + 20, BEGIN + 25);
	return found_len;
}

static void slowed_work_is_no_new_work(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		assert_int_equal(of_new_work(0.5, whole), 1);
		assert_int_equal(of_new_work(0.95, whole), 0);
		assert_int_equal(of_new_work(1.5, whole), 0);
		assert_int_equal(of_new_work(0, whole), 0); /* unknown */
		model.without = WITHOUT_PACE;
		assert_int_equal(of_new_work(0.5, whole), 0);
		model.without = 0;
	}
}

/* New work that goes on for a while, after which it is known: its slow rows are none of that. */
static void new_work_is_learned_from_what_is_not_slowed(void **state)
{
	(void)state;
	start(false);
	rows(20, USUAL);
	for (int i = 0; i < REBASE_ROWS / 2; i++)
		row_with(RARE, 2, 0.5);
	for (int i = 0; i < REBASE_ROWS; i++)
		row_with(USUAL, 2, 1);
	size_t at = second - BEGIN;
	row_with(USUAL, 2, 1);
	stop();
	assert_true(isnan(p_of[at - 1]) && p_of[at] > 0.01);
	assert_int_equal(found_len, 1);
	expect_anomaly(0, BEGIN + 20, BEGIN + 20 + REBASE_ROWS / 2);
}

/* Windows with so many calls of keys that are new. */
static size_t with_new_keys(double pace, uint32_t calls)
{
	start(false);
	rows(20, USUAL);
	for (int i = 0; i < 5; i++) {
		struct windows_event e = {.start_ns = second * SECOND + SECOND / 2,
					  .key = detector->keys_known + 1,
					  .pid = PID,
					  .layer = DETECT_TORCH};
		for (uint32_t k = 0; k < calls; k++)
			fresh_event(detector, &e);
		row_with(RARE, 1, pace);
	}
	rows(10, USUAL);
	stop();
	assert_true(isnan(p_of[22]) == (found_len == 0));
	return found_len;
}

static void slowed_work_with_new_keys_is_judged(void **state)
{
	(void)state;
	assert_int_equal(with_new_keys(0.5, 50), 1);
	assert_int_equal(with_new_keys(0.95, 50), 0);
	assert_int_equal(with_new_keys(0, 50), 0);
	assert_int_equal(with_new_keys(0, 5), 1); /* of 100 */
}

/* Seconds of 1000 calls, of which so many were lost while they went by. */
static size_t with_lost_calls(uint64_t lost, bool whole)
{
	struct detector_stats st;
	start(whole);
	rows(20, USUAL);
	for (int i = 0; i < 5; i++) {
		for (uint64_t k = lost; k < 1000; k++)
			losses_seen(&detector->losses, second * SECOND + k * 1000000);
		detector_lost(detector, second * SECOND, (second + 1) * SECOND, lost);
		row_with(RARE, 1, 1);
	}
	rows(10, USUAL);
	detector_stats(detector, &st);
	stop();
	if (!whole)
		assert_int_equal(st.lossy_rows, found_len ? 0 : 5);
	assert_true(isnan(p_of[22]) == (found_len == 0));
	return found_len;
}

static void rows_that_lack_calls_are_not_judged(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		assert_int_equal(with_lost_calls(0, whole), 1);
		assert_int_equal(with_lost_calls(5, whole), 1);
		assert_int_equal(with_lost_calls(20, whole), 0);
		assert_int_equal(with_lost_calls(1000, whole), 0);
	}
}

/* What one launch says of others: -ln p is a quarter less, of three a tenth. */
static void few_recordings_make_rows_less_rare(void **state)
{
	(void)state;
	static const struct {
		uint32_t recordings;
		double less;
	} cases[] = {{UINT32_MAX, 1}, {0, 0.75}, {1, 0.75}, {3, 0.9}, {1000, 1}};
	double most = 0;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		model.recordings = cases[i].recordings;
		start(false);
		rows(20, USUAL);
		rows(1, RARE);
		stop();
		if (i == 0)
			most = log(p_of[20]);
		double less = log(p_of[20]) / most;
		if (fabs(less - cases[i].less) > 0.01)
			fail_msg("%u recordings: %g", cases[i].recordings, less);
	}
	assert_true(fabs(most / log(RARE) - 1) < 0.1);
}

/* ---- where anomalies begin and end ---- */

static void quiet_rows_end_an_anomaly(void **state)
{
	(void)state;
	static const struct {
		size_t quiet;
		double p;
		size_t anomalies;
	} cases[] = {
		{4, USUAL, 2}, {4, 0.2, 2},  {2, USUAL, 2}, {1, USUAL, 1},
		{1, 1, 1},     {2, 0.06, 2}, {2, 2e-3, 1},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int whole = 0; whole < 2; whole++) {
			const uint64_t from = BEGIN + 20, again = from + 3 + cases[i].quiet;
			start(whole);
			rows(20, USUAL);
			rows(3, RARE);
			rows(cases[i].quiet, cases[i].p);
			rows(3, RARE);
			rows(20, USUAL);
			stop();
			assert_int_equal(found_len, cases[i].anomalies);
			if (found_len == 1) {
				expect_anomaly(0, from, again + 3);
				continue;
			}
			expect_anomaly(0, from, from + 3);
			expect_anomaly(1, again, again + 3);
		}
}

/* A row that alarms by itself is of an anomaly, also where quiet rows are on both its sides. */
static void no_alarmed_row_is_left_out(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++)
		for (size_t times = 1; times < 4; times++) {
			start(whole);
			rows(20, USUAL);
			rows(3, RARE);
			for (size_t i = 0; i < times; i++) {
				rows(1, USUAL);
				rows(1, RARE);
			}
			rows(10, USUAL);
			stop();
			assert_int_equal(found_len, 1);
			expect_anomaly(0, BEGIN + 20, BEGIN + 23 + 2 * times);
		}
}

/* Rows that are rather rare after a fault are not the fault, however many there are; of one that is
 * as slight as they are they are. */
static void what_lingers_is_none_of_it(void **state)
{
	(void)state;
	for (int slight = 0; slight < 2; slight++) {
		start(false);
		rows(20, USUAL);
		rows(10, slight ? 0.01 : RARE);
		rows(7, 0.03);
		rows(10, USUAL);
		stop();
		assert_int_equal(found_len, 1);
		expect_anomaly(0, BEGIN + 20, BEGIN + (slight ? 36 : 30));
	}
}

/* By how much an anomaly is rare is asked far beyond what a sum counts. */
static void what_lingers_of_very_rare_rows_is_none_of_it(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		start(whole);
		rows(20, USUAL);
		rows(5, 1e-12);
		rows(4, 1e-3); /* a quarter of that */
		rows(10, USUAL);
		stop();
		assert_true(found_len >= 1);
		assert_int_equal(found[0].end_ns, (BEGIN + 25) * SECOND);
	}
}

/* What was rather rare belongs to an anomaly that follows at once, not to one that begins after
 * rows that would have ended it. Sums alone alarm here, and they have risen since then. */
static void an_onset_is_not_before_quiet_rows(void **state)
{
	(void)state;
	options.alarms_per_hour = 1e-6;
	for (size_t quiet = 0; quiet < 4; quiet += 2) {
		start(true);
		rows(20, USUAL);
		rows(14, 0.05);
		rows(quiet, USUAL);
		rows(4, RARE);
		rows(20, USUAL);
		stop();
		assert_int_equal(found_len, 1);
		expect_anomaly(0, BEGIN + (quiet ? 34 + quiet : 20), BEGIN + 38 + quiet);
	}
}

/* Those of a file are told what they are of; those that are merely less rare stay in it. */
static void quiet_rows_within_an_anomaly_are_none_of_it(void **state)
{
	(void)state;
	start(true);
	rows(20, USUAL);
	rows(6, RARE);
	rows(1, USUAL);
	rows(1, RARE);
	rows(1, 0.025);
	rows(1, RARE);
	rows(1, 0.05);
	rows(1, RARE);
	rows(10, USUAL);
	stop();
	assert_int_equal(found_len, 1);
	expect_anomaly(0, BEGIN + 20, BEGIN + 32);
	expect_alarmed(BEGIN + 18, "..!!!!!!.!!!.!..");
	start(true); /* of rows that are hardly rare one of p = 0.15 is rare enough */
	rows(20, USUAL);
	rows(10, 0.03);
	rows(1, 0.15);
	rows(10, 0.03);
	rows(10, USUAL);
	stop();
	assert_int_equal(found_len, 1);
	expect_alarmed(BEGIN + 26, "!!!!!!!!!");
}

/* ---- events ---- */

static uint32_t mm;
static size_t marked_len;
static uint64_t marked[ROWS_MOST * 10]; /* starts of those that are anomalous, in 0.1 s */

static void on_event(void *ctx, const struct detector_event *e)
{
	(void)ctx;
	if (e->anomalous)
		marked[marked_len++] = e->start_ns / (SECOND / 10);
}

/* Ten events in the second of the next row: the z of each is 4 ('!') or 0. */
static void events(const char *z)
{
	for (uint64_t i = 0; z[i]; i++) {
		struct windows_event e = {
			.start_ns = second * SECOND + i * SECOND / 10,
			.dur_ns = SECOND / 20,
			.key = mm,
			.pid = PID,
			.layer = DETECT_TORCH,
			.usual = {.z = z[i] == '!' ? 4 : 0, .gap_z = NAN, .usual_ns = NAN}};
		events_hold(detector, &e);
	}
}

static void start_with_events(bool whole)
{
	options.event = on_event;
	start(whole);
	marked_len = 0;
	mm = detect_keys_text(detector->known.keys, DETECT_TORCH, "aten::mm");
}

/* Those of this tenth of a second to before the other, and no others. */
static void expect_marked(size_t *at, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		if (*at == marked_len || marked[*at] != i)
			fail_msg("event %.1f s is not anomalous", (double)i / 10 - BEGIN);
		(*at)++;
	}
}

static void events_of_quiet_rows_are_not_marked(void **state)
{
	(void)state;
	static const double p[] = {USUAL, RARE, RARE, RARE, USUAL, RARE, RARE, USUAL, USUAL};
	for (int whole = 0; whole < 2; whole++) {
		const uint64_t from = (BEGIN + 21) * 10;
		size_t at = 0;
		start_with_events(whole);
		rows(20, USUAL);
		for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
			events("..........");
			rows(1, p[i]);
		}
		stop();
		assert_int_equal(found_len, 1);
		/* An event that ends where a row begins, or begins where it ends, is not in it. */
		expect_marked(&at, from, from + 30);
		expect_marked(&at, from + 40, from + 60);
		assert_int_equal(at, marked_len);
	}
}

/* Twenty rare rows after one that is as rare as said; that one, and the last, have these events. */
static void run_edges(double first_p, const char *first, const char *last, bool whole)
{
	options.alarms_per_hour = 20; /* sums alarm early */
	start_with_events(whole);
	rows(20, USUAL);
	events(first);
	rows(1, first_p);
	rows(1, 0.01); /* rare, but alarms with the next ones only */
	rows(18, RARE);
	events(last);
	rows(1, RARE);
	rows(10, USUAL);
	stop();
	assert_int_equal(found_len, 1);
	expect_anomaly(0, BEGIN + 20, BEGIN + 41);
}

/* Of a first window that is less rare than half the others its events are looked at; the last one
 * is as rare as they are. */
static void an_edge_is_where_the_evidence_rises(void **state)
{
	(void)state;
	static const struct {
		double p;
		const char *first;
		uint64_t from;
	} cases[] = {
		{0.026, "..!...!!!!", 6}, {0.026, "....!!.!!!", 4}, {0.026, "!!!!......", 0},
		{0.026, "..........", 0}, {RARE, "......!!!!", 0},
	};
	const uint64_t first = (BEGIN + 20) * 10, last = (BEGIN + 40) * 10;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int whole = 0; whole < 2; whole++) {
			size_t at = 0;
			run_edges(cases[i].p, cases[i].first, "!!!!......", whole);
			expect_marked(&at, first + cases[i].from, first + 10);
			expect_marked(&at, last, last + 10);
			assert_int_equal(at, marked_len);
		}
}

/* A sum that rises above its height by a row that is hardly rare, and ends there. */
static void run_end(const char *last, bool whole)
{
	const double of_five = 5 * (CUSUM_MOST - CUSUM_SLACK);
	model.layers[DETECT_TORCH].cusum_ratio = (of_five + 0.8) / cusum_height(exp2(HEIGHTS - 2));
	options.alarms_per_hour = 1e-6; /* no row by itself */
	start_with_events(whole);
	rows(20, USUAL);
	rows(5, RARE);
	events(last);
	rows(1, 0.0284);
	rows(10, USUAL);
	stop();
	assert_int_equal(found_len, 1);
	expect_anomaly(0, BEGIN + 20, BEGIN + 26);
}

static void an_edge_is_where_the_evidence_ends(void **state)
{
	(void)state;
	static const struct {
		const char *last;
		uint64_t to;
	} cases[] = {{"!!!!......", 4}, {"!!.!!.....", 5}, {"..........", 10}};
	const uint64_t last = (BEGIN + 25) * 10;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int whole = 0; whole < 2; whole++) {
			size_t at = 0;
			run_end(cases[i].last, whole);
			expect_marked(&at, last, last + cases[i].to);
			assert_int_equal(at, marked_len);
		}
}

/* ---- checkpoints ---- */

static struct fake_names fake;
static struct detect_names names;

static int begin_saving(void **state)
{
	begin(state);
	fake_names_make(&fake);
	names = fake_names_of(&fake);
	fake.codes[2] = (struct m_code){fake_string(&fake, "save"),
					fake_string(&fake, "/lib/torch/serialization.py"), 960};
	return 0;
}

static int end_saving(void **state)
{
	(void)state;
	strtab_free(&fake.strings);
	return 0;
}

/* A call of code 2, which saves, or 1, that ends in the second of the next row; of another process
 * where the thread is 5. */
static void call(uint64_t code, uint32_t thread)
{
	struct m_call c = fake_call(FAKE_FUNCTION, thread, second * SECOND, SECOND / 2);
	c.args[0] = code;
	detector_call(detector, &names, &c);
}

static void stop_saving(void)
{
	detector->last_event_ns = UINT64_MAX; /* rows alone: none of them ends early */
	stop();
}

/* Two slow windows, or more, of which so many have a call that ends in them. */
static size_t of_checkpoint(uint64_t code, uint32_t thread, size_t slow, size_t calls, bool whole)
{
	start(whole);
	rows(20, USUAL);
	for (size_t i = 0; i < slow; i++) {
		if (i < calls)
			call(code, thread);
		rows(1, RARE);
	}
	rows(20, USUAL);
	stop_saving();
	return found_len;
}

static void a_checkpoint_is_no_fault(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		assert_int_equal(of_checkpoint(2, 0, 2, 2, whole), 0);
		assert_true(isnan(p_of[20]) && isnan(p_of[21]) && isnan(p_of[22]));
		assert_true(p_of[19] > 0.1 && p_of[23] > 0.1);
		assert_int_equal(of_checkpoint(2, 0, 2, 1, whole), 0);
		assert_true(isnan(p_of[21]) && p_of[22] > 0.1);
		assert_int_equal(of_checkpoint(2, 5, 2, 2, whole), 0); /* other ranks wait */
		assert_int_equal(of_checkpoint(1, 0, 2, 2, whole), 1); /* saves nothing */
		expect_anomaly(0, BEGIN + 20, BEGIN + 22);
		/* What is slow beyond it is told. */
		assert_int_equal(of_checkpoint(2, 0, 8, 2, whole), 1);
		expect_anomaly(0, BEGIN + 23, BEGIN + 28);
	}
}

static void saving_again_and_again_is(void **state)
{
	(void)state;
	assert_int_equal(of_checkpoint(2, 0, 12, 12, true), 1);
	expect_anomaly(0, BEGIN + 20, BEGIN + 32);
	/* Live it is known from the third on. */
	assert_int_equal(of_checkpoint(2, 0, 12, 12, false), 1);
	expect_anomaly(0, BEGIN + 22, BEGIN + 32);
	/* Every four seconds as well. */
	start(false);
	rows(20, USUAL);
	for (int i = 0; i < 5; i++) {
		call(2, 0);
		rows(1, RARE);
		rows(3, USUAL);
	}
	stop_saving();
	assert_int_equal(found_len, 3);
	expect_anomaly(0, BEGIN + 28, BEGIN + 29);
	/* Every fifteen seconds it is a job that saves. */
	start(true);
	rows(20, USUAL);
	for (int i = 0; i < 4; i++) {
		call(2, 0);
		rows(2, RARE);
		rows(13, USUAL);
	}
	stop_saving();
	assert_int_equal(found_len, 0);
}

/* Threads end their calls in any order, and most windows have several. */
static void windows_of_saves_are_in_order(void **state)
{
	(void)state;
	start(false);
	for (uint64_t i = 0; i < 40; i++) {
		struct windows_event e = {.start_ns = (BEGIN + i * 7 % 20) * SECOND, .saves = true};
		saves_event(detector, &e);
	}
	assert_int_equal(detector->saves.len, 20);
	for (size_t i = 0; i < 20; i++)
		assert_int_equal(detector->saves.data[i], BEGIN + i);
	detector_free(detector);
}

static void saves_are_forgotten(void **state)
{
	(void)state;
	size_t most = 0;
	start(false);
	for (uint64_t i = 0; i < 100000; i++) {
		struct windows_event e = {.start_ns = (BEGIN + i) * SECOND, .saves = true};
		saves_event(detector, &e);
		detector_upto(detector, e.start_ns + SECOND);
		most = detector->saves.len > most ? detector->saves.len : most;
	}
	assert_in_range(most, 20, 100);
	assert_int_equal(detector->saves.data[detector->saves.len - 1], BEGIN + 99999);
	detector_free(detector);
}

static void other_row(bool other_work)
{
	struct feature_row row = {.start_ns = second * SECOND,
				  .end_ns = (second + 1) * SECOND,
				  .layer = DETECT_TORCH,
				  .pid = PID,
				  .gpu = -1,
				  .regime = 1,
				  .events = 100,
				  .other_work = other_work,
				  .x = {sqrt(-2 * log(RARE))}};
	for (size_t f = 1; f < FEATURES_MOST; f++)
		row.x[f] = NAN;
	second++;
	detector_row(detector, &row);
	row.layer = DETECT_STEP;
	row.other_work = false; /* nobody knows it of a step */
	detector_row(detector, &row);
}

/* Nor are the steps in its windows; those that come after it are. */
static void other_work_is_not_judged(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		start(whole);
		rows(20, USUAL);
		for (int i = 0; i < 10; i++)
			other_row(true);
		rows(10, USUAL);
		stop();
		assert_int_equal(found_len, 0);
		assert_true(isnan(p_of[20]) && isnan(p_of[29]) && !isnan(p_of[30]));
		start(whole);
		rows(20, USUAL);
		other_row(true);
		rows(10, USUAL);
		for (int i = 0; i < 10; i++)
			other_row(false);
		rows(10, USUAL);
		stop();
		assert_int_equal(found_len, 2); /* calls and steps */
	}
}

/* ---- where the work changes ---- */

static void counters_row(enum detect_layer layer, double p, bool other_work)
{
	struct feature_row row = {.start_ns = second * SECOND,
				  .end_ns = (second + 1) * SECOND,
				  .layer = layer,
				  .pid = layer == DETECT_HOST ? PID : 0,
				  .regime = 1,
				  .events = 100,
				  .other_work = other_work};
	for (size_t f = 0; f < FEATURES_MOST; f++) /* the layer's column of make_model */
		row.x[f] = f == (layer == DETECT_HARDWARE) ? sqrt(-2 * log(p)) : NAN;
	second++;
	detector_row(detector, &row);
}

static double p_of_gpu[ROWS_MOST];

static void on_gpu_row(void *ctx, const struct feature_row *row, double score, double p,
		       bool alarmed)
{
	(void)ctx;
	(void)score;
	(void)alarmed;
	p_of_gpu[row->start_ns / SECOND - BEGIN] = p;
	rows_told++;
}

static void run_counters(enum detect_layer layer)
{
	options.row = on_gpu_row;
	start(true);
	row_with(USUAL, 1, 1); /* the process works from here on */
	for (int i = 1; i < 20; i++)
		counters_row(layer, USUAL, false);
	counters_row(layer, RARE, true);
	for (int i = 0; i < 4; i++)
		counters_row(layer, RARE, false);
	stop();
	assert_false(isnan(p_of_gpu[19]));
	assert_true(isnan(p_of_gpu[20]) && isnan(p_of_gpu[21]));
}

/* The first windows after other work have its counters still: two of a GPU, one of a process. */
static void counters_lag(void **state)
{
	(void)state;
	run_counters(DETECT_HARDWARE);
	assert_true(isnan(p_of_gpu[22]));
	assert_false(isnan(p_of_gpu[23]));
	run_counters(DETECT_HOST);
	assert_false(isnan(p_of_gpu[22]));
}

/* Rather rare rows of the work before are none of the anomaly of the work after. */
static void an_onset_is_not_before_other_work(void **state)
{
	(void)state;
	start(true);
	rows(20, USUAL);
	rows(2, 0.005);
	row_with(USUAL, 7, 1);
	rows(5, RARE);
	rows(10, USUAL);
	stop();
	assert_int_equal(found_len, 1);
	assert_int_equal(found[0].start_ns, (BEGIN + 23) * SECOND);
}

/* Of processes that have ended nobody's parent is known; of those that come with no parent any
 * more neither. */
static void parents_are_forgotten(void **state)
{
	(void)state;
	start(false);
	for (uint32_t pid = 1000; pid < 3000; pid++) {
		struct m_process row = {.pid = pid, .parent_pid = PID};
		detector_process(detector, &row);
		row.end_ns = second * SECOND;
		detector_process(detector, &row);
	}
	detector_process(detector, &(struct m_process){.pid = 5000, .parent_pid = PID});
	detector_process(detector, &(struct m_process){.pid = 5000});
	assert_int_equal(windows_parent_of(detector->windows, 2999), PID);
	assert_int_equal(windows_parent_of(detector->windows, 5000), 0);
	detector_upto(detector, second * SECOND + 2 * DETECTOR_GONE_NS);
	assert_int_equal(windows_parent_of(detector->windows, 2999), 0);
	assert_int_equal(detector->left_work.len, 0);
	detector_free(detector);
}

/* What was slow is over with the work that was; what comes back after it is another anomaly. */
static void an_anomaly_ends_with_its_work(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		start(whole);
		rows(20, USUAL);
		rows(5, RARE);
		row_with(RARE, 7, 1);
		row_with(RARE, 7, 1);
		rows(5, RARE);
		rows(10, USUAL);
		stop();
		assert_int_equal(found_len, 2);
		expect_anomaly(0, BEGIN + 20, BEGIN + 25);
		expect_anomaly(1, BEGIN + 27, BEGIN + 32);
	}
}

/* ---- whom a process works for ---- */

#define CHILD 200

static double p_of_child[ROWS_MOST];

static void on_child_row(void *ctx, const struct feature_row *row, double score, double p,
			 bool alarmed)
{
	(void)ctx;
	(void)score;
	(void)alarmed;
	if (row->pid == CHILD)
		p_of_child[row->start_ns / SECOND - BEGIN] = p;
	rows_told++;
}

/* A window of a process and of a loader that works for it, and that has its pace. */
static void with_child(uint32_t regime, double pace, double p)
{
	row_with(USUAL, regime, pace);
	struct feature_row row = {.start_ns = (second - 1) * SECOND,
				  .end_ns = second * SECOND,
				  .layer = DETECT_TORCH,
				  .pid = CHILD,
				  .gpu = -1,
				  .regime = 1,
				  .pace = pace,
				  .parents_pace = true,
				  .events = 100,
				  .x = {sqrt(-2 * log(p))}};
	for (size_t f = 1; f < FEATURES_MOST; f++)
		row.x[f] = NAN;
	detector_row(detector, &row);
}

static void family(size_t usual, size_t slow, size_t other)
{
	options.row = on_child_row;
	start(true);
	detector_process(detector, &(struct m_process){.pid = CHILD, .parent_pid = PID});
	for (size_t i = 0; i < 20; i++)
		with_child(1, 1, USUAL);
	for (size_t i = 0; i < usual; i++)
		with_child(1, 0.95, RARE);
	for (size_t i = 0; i < slow; i++)
		with_child(1, 0.6, RARE);
	for (size_t i = 0; i < other; i++)
		with_child(9, 1, RARE);
	for (size_t i = 0; i < 10; i++)
		with_child(1, 1, USUAL);
	detector_end(detector);
	detector_free(detector);
}

static size_t of_child(void)
{
	size_t n = 0;
	for (size_t i = 0; i < found_len; i++)
		n += found[i].pid == CHILD;
	return n;
}

/* A loader that takes long costs nothing as long as it is waited for by nobody. */
static void loaders_of_work_as_usual_are_no_fault(void **state)
{
	(void)state;
	family(5, 0, 0);
	assert_int_equal(of_child(), 0);
	assert_true(p_of_child[22] >= 0.5);
	family(0, 5, 0);
	assert_int_equal(of_child(), 1);
	assert_true(p_of_child[22] < 0.01);
	model.without = WITHOUT_PACE; /* nor is anything known then */
	family(5, 0, 0);
	model.without = 0;
	assert_int_equal(of_child(), 1);
}

/* What it loads for other work, and what is on the way of it afterwards, is other work, too. */
static void loaders_of_other_work_are_not_judged(void **state)
{
	(void)state;
	family(0, 0, 5);
	assert_int_equal(of_child(), 0);
	assert_true(isnan(p_of_child[20]) && isnan(p_of_child[24]) && isnan(p_of_child[26]));
	assert_false(isnan(p_of_child[27]));
}

/* ---- one column by itself ---- */

static void students_tail(void **state)
{
	(void)state;
	assert_true(fabs(alone_student(0, 6) - 0.5) < 1e-12);
	assert_true(fabs(alone_student(2.776445, 4) - 0.025) < 1e-7);
	assert_true(fabs(alone_student(-1.812461, 10) - 0.95) < 1e-7);
	assert_true(fabs(alone_student(3.551808, 20) - 0.001) < 1e-8);
	assert_true(alone_student(1e6, 20) >= 1e-15 && alone_student(1e6, 20) < 1e-14);
}

/* Two components: each has its share of what is higher. */
static void a_column_by_itself(void **state)
{
	(void)state;
	struct model_mixture m = {0};
	double weights[] = {0.75, 0.25}, means[] = {0, 0, 0, 4};
	double covariances[] = {1, 0.5, 0.5, 1, 1, 0, 0, 4}, sigma = 0.1;
	m.columns = 2;
	m.names[0] = (char *)"slowdown";
	m.names[1] = (char *)"pace_loss";
	m.centre[1] = 0.5;
	m.scale[0] = 1;
	m.scale[1] = sigma;
	m.gmm = (struct gmm){.d = 2,
			     .components = 2,
			     .weights = weights,
			     .means = means,
			     .covariances = covariances};
	m.tail.n = ALONE_ROWS * 10 + 2; /* ten degrees of freedom */
	double least = ALONE_SIGMA / sigma, x = 0.5 + 6 * sigma;
	double p = 0.75 * alone_student(6 / sqrt(1 + least * least), 10) +
		   0.25 * alone_student(2 / sqrt(4 + least * least), 10);
	assert_true(fabs(alone_p(&m, "pace_loss", x) - p) < 1e-12);
	m.tail.n = 1000000;
	assert_true(alone_p(&m, "pace_loss", x) < p);
	m.tail.n = 1; /* four at least */
	assert_true(alone_p(&m, "pace_loss", x) > p && alone_p(&m, "pace_loss", x) < 0.1);
	assert_true(isnan(alone_p(&m, "pace_loss", NAN)));
	assert_true(isnan(alone_p(&m, "gap", 1)));
}

/* The loss of pace is asked for by itself; rarer than all columns together it decides, with its
 * share. */
static void pace_decides_by_itself(void **state)
{
	(void)state;
	struct model_mixture *m = &model.layers[DETECT_TORCH];
	char *name = m->names[0];
	m->names[0] = (char *)"pace_loss";
	m->tail.scale = 10; /* with other columns, of which there is nothing to say, it would be */
	start(true);
	for (int i = 0; i < 10; i++)
		row_with(USUAL, 1, 1);
	struct feature_row row = {.start_ns = second * SECOND,
				  .end_ns = (second + 1) * SECOND,
				  .layer = DETECT_TORCH,
				  .pid = PID,
				  .gpu = -1,
				  .regime = 1,
				  .pace = 0.9,
				  .events = 100};
	uint32_t n;
	const struct feature *features = features_of(DETECT_TORCH, &n);
	for (size_t f = 0; f < FEATURES_MOST; f++)
		row.x[f] = f < n && !strcmp(features[f].name, "pace_loss") ? 3 : NAN;
	second++;
	detector_row(detector, &row);
	stop();
	m->names[0] = name;
	m->tail.scale = 1;
	double alone = 5 * alone_student(3, ALONE_FREEDOM);   /* all together: 0.64 */
	if (p_of[10] < alone / 1.3 || p_of[10] > alone * 1.3) /* it is blurred */
		fail_msg("p %g is not %g", p_of[10], alone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(slowed_work_is_no_new_work, begin),
		cmocka_unit_test_setup(new_work_is_learned_from_what_is_not_slowed, begin),
		cmocka_unit_test_setup(slowed_work_with_new_keys_is_judged, begin),
		cmocka_unit_test_setup(rows_that_lack_calls_are_not_judged, begin),
		cmocka_unit_test_setup(few_recordings_make_rows_less_rare, begin),
		cmocka_unit_test_setup(quiet_rows_end_an_anomaly, begin),
		cmocka_unit_test_setup(no_alarmed_row_is_left_out, begin),
		cmocka_unit_test_setup(what_lingers_is_none_of_it, begin),
		cmocka_unit_test_setup(what_lingers_of_very_rare_rows_is_none_of_it, begin),
		cmocka_unit_test_setup(an_onset_is_not_before_quiet_rows, begin),
		cmocka_unit_test_setup(quiet_rows_within_an_anomaly_are_none_of_it, begin),
		cmocka_unit_test_setup(events_of_quiet_rows_are_not_marked, begin),
		cmocka_unit_test_setup(an_edge_is_where_the_evidence_rises, begin),
		cmocka_unit_test_setup(an_edge_is_where_the_evidence_ends, begin),
		cmocka_unit_test_setup_teardown(a_checkpoint_is_no_fault, begin_saving, end_saving),
		cmocka_unit_test_setup_teardown(saving_again_and_again_is, begin_saving,
						end_saving),
		cmocka_unit_test_setup(windows_of_saves_are_in_order, begin),
		cmocka_unit_test_setup(saves_are_forgotten, begin),
		cmocka_unit_test_setup(other_work_is_not_judged, begin),
		cmocka_unit_test_setup(counters_lag, begin),
		cmocka_unit_test_setup(an_onset_is_not_before_other_work, begin),
		cmocka_unit_test_setup(parents_are_forgotten, begin),
		cmocka_unit_test_setup(an_anomaly_ends_with_its_work, begin),
		cmocka_unit_test_setup(loaders_of_work_as_usual_are_no_fault, begin),
		cmocka_unit_test_setup(loaders_of_other_work_are_not_judged, begin),
		cmocka_unit_test(students_tail),
		cmocka_unit_test(a_column_by_itself),
		cmocka_unit_test_setup(pace_decides_by_itself, begin),
	};
	return cmocka_run_group_tests(tests, make_model, free_model);
}
