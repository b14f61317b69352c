/* rare_rows.c - the model, and what was given to the detector and told by it. */
#include "rare_rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buffer.h"

#define GIVEN_MOST 4096

struct given {
	enum detect_layer layer;
	uint32_t pid;
	int32_t gpu;
	uint64_t start_ns;
	uint32_t told; /* so often */
	double p;
	bool alarmed;
};

static struct given given[GIVEN_MOST];
static size_t given_len;

struct model model;
struct detector *detector;
struct detector_options options;
uint64_t second;
struct anomaly found[16];
size_t found_len;
struct anomaly told[64];
size_t told_len;

/* ---- the model ---- */

static void make_mixture(struct model_mixture *m, const char *feature)
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

static void make_layer(enum detect_layer layer, const char *feature)
{
	make_mixture(&model.layers[layer], feature);
}

void make_helpers(double scale)
{
	make_mixture(&model.helpers, "cpu_ratio");
	model.helpers.scale[0] = scale;
}

void forget_helpers(void)
{
	free(model.helpers.names[0]);
	gmm_free(&model.helpers.gmm);
	model.helpers = (struct model_mixture){0};
}

int make_model(void **state)
{
	(void)state;
	model_init(&model);
	model.window_ns = SECOND;
	model.recordings = UINT32_MAX;
	vec_push(&model.regimes);
	make_layer(DETECT_TORCH, "slowdown");
	make_layer(DETECT_STEP, "duration");
	make_layer(DETECT_HARDWARE, "gpm_sm_ratio");
	make_layer(DETECT_HOST, "cpu_ratio");
	return 0;
}

int free_model(void **state)
{
	(void)state;
	model_free(&model);
	return 0;
}

/* The place of the layer's column. */
static size_t column_of(enum detect_layer layer)
{
	return layer == DETECT_HARDWARE;
}

/* ---- what is told ---- */

static void on_anomaly(void *ctx, const struct anomaly *a)
{
	(void)ctx;
	if (told_len < sizeof(told) / sizeof(told[0]))
		told[told_len++] = *a;
	if (a->ended && found_len < sizeof(found) / sizeof(found[0]))
		found[found_len++] = *a;
}

/* Of a test's calls the detector makes rows itself: those were not given. */
static void on_row(void *ctx, const struct feature_row *row, double score, double p, bool alarmed)
{
	(void)ctx;
	(void)score;
	for (size_t i = 0; i < given_len; i++) {
		struct given *g = &given[i];
		if (g->layer != row->layer || g->pid != row->pid || g->gpu != row->gpu ||
		    g->start_ns != row->start_ns)
			continue;
		g->told++;
		g->p = p;
		g->alarmed = alarmed;
	}
}

static const struct given *given_at(enum detect_layer layer, uint32_t pid, size_t at)
{
	for (size_t i = 0; i < given_len; i++)
		if (given[i].layer == layer && given[i].pid == pid &&
		    given[i].start_ns == (BEGIN + at) * SECOND)
			return &given[i];
	fail_msg("no row of second %zu was given", at);
	return NULL;
}

double p_at(enum detect_layer layer, uint32_t pid, size_t at)
{
	return given_at(layer, pid, at)->p;
}

bool is_alarmed_at(enum detect_layer layer, uint32_t pid, size_t at)
{
	return given_at(layer, pid, at)->alarmed;
}

double p_of(size_t at)
{
	return p_at(DETECT_TORCH, PID, at);
}

void expect_anomaly(size_t i, uint64_t from, uint64_t to)
{
	assert_true(i < found_len);
	assert_int_equal(found[i].start_ns, from * SECOND);
	assert_int_equal(found[i].end_ns, to * SECOND);
	assert_int_equal(found[i].windows, to - from);
}

/* ---- what is given ---- */

int begin(void **state)
{
	(void)state;
	options = (struct detector_options){.model = &model,
					    .alarms_per_hour = 1,
					    .tell = on_anomaly,
					    .row = on_row,
					    .least_effect = NO_EFFECT};
	model.recordings = UINT32_MAX;
	model.without = 0;
	model.layers[DETECT_TORCH].cusum_ratio = 1;
	return 0;
}

void start(bool whole)
{
	options.whole = whole;
	detector = detector_new(&options);
	second = BEGIN;
	found_len = told_len = given_len = 0;
}

void stop(void)
{
	detector_end(detector);
	for (size_t i = 0; i < given_len; i++)
		assert_int_equal(given[i].told, 1);
	detector_free(detector);
}

struct feature_row rare_row(enum detect_layer layer, uint32_t pid, double p)
{
	struct feature_row ret = {.start_ns = second * SECOND,
				  .end_ns = (second + 1) * SECOND,
				  .layer = layer,
				  .pid = pid,
				  .gpu = layer == DETECT_HARDWARE ? 0 : -1,
				  .regime = 1,
				  .events = 100};
	for (size_t f = 0; f < FEATURES_MOST; f++)
		ret.x[f] = f == column_of(layer) ? sqrt(-2 * log(p)) : NAN;
	return ret;
}

/* A row is judged with a blur that follows from its place, up to 0.5 of HOST's x: it is taken off
 * before. */
static struct feature_row exact_of(const struct feature_row *row)
{
	struct feature_row exact = *row, blurred;
	size_t column = column_of(row->layer);
	explain_blurred(&blurred, row);
	exact.x[column] -= blurred.x[column] - row->x[column];
	return exact;
}

static void note_given(const struct feature_row *row)
{
	assert_true(given_len < GIVEN_MOST);
	given[given_len++] =
		(struct given){row->layer, row->pid, row->gpu, row->start_ns, 0, NAN, false};
}

void give(const struct feature_row *row)
{
	struct feature_row exact = exact_of(row);
	note_given(row);
	detector_row(detector, &exact);
}

void give_losing(const struct feature_row *row, double lost_s)
{
	struct made_row made = {.row = exact_of(row), .calls.lost_ns = lost_s * SECOND};
	note_given(row);
	judging_row(detector, &made);
}

void losing_row(double p, double lost_s)
{
	struct feature_row row = rare_row(DETECT_TORCH, PID, p);
	give_losing(&row, lost_s);
	second++;
}

void row_with(double p, uint32_t regime, double pace)
{
	struct feature_row row = rare_row(DETECT_TORCH, PID, p);
	row.regime = regime;
	row.pace = pace;
	give(&row);
	second++;
}

void rows(size_t n, double p)
{
	for (size_t i = 0; i < n; i++)
		row_with(p, 1, 0);
}

void new_calls(uint64_t in_second, uint32_t n)
{
	struct windows_event e = {.start_ns = in_second * SECOND + SECOND / 2,
				  .key = detector->fresh.keys_known + 1,
				  .pid = PID,
				  .layer = DETECT_TORCH};
	for (uint32_t i = 0; i < n; i++)
		fresh_work_event(&detector->fresh, &e);
}

void unjudged_row(double p)
{
	new_calls(second, 50);
	rows(1, p);
}
