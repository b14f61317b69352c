/* model_file.c - writes a model's file, and reads the bytes of one; what they mean is checked by
 * model_parse.c.
 *
 * One JSON object:
 *   eacgm_model  1: the version. A newer one is refused; unknown keys are left out
 *   kind         "job" (of recordings) or "table" (of a table of numbers)
 *   origin       what it was learned from, for people
 *   window_ns    length of the windows, 0 of a table
 *   seconds      of recording that it was learned from, 0 of a table
 *   recordings   so many, 0 of a table
 *   without      what was left out of the method, bits of learn.h's enum learn_without
 *   setting      what the recordings were made on: lists of values by name ("host", "BLAS")
 *   keys         [[layer, text, duration, gap], ...]; duration and gap: [events, ln of the median
 *                (ns), sigma (of the ln), usual_ns, q99_ns], or null: not known
 *   counters     [[name, regime, values, median, sigma], ...], in the counter's unit
 *   regimes      [[windows, share of place 0, ..., of place REGIME_PLACES - 1], ...], the first
 *                one is regime 1
 *   clock        of a job, where its calls tell how fast its work goes on (clock.h):
 *     layer        whose calls tell it
 *     waits        whether waiting for the world is left out of its time
 *     wall         whether that is the window's time, and not that of the threads' calls
 *     start_ns     how long a launch takes, after the warm-up, until it is as usual
 *     windows      that it was learned from; centre, sigma: of their ln pace
 *     work_ns, cpu_slope  only where the speed of CPUs tells of it: cpu_speed.h
 *     counted      only where calls alone tell it: their pace in most windows, which sigma is of
 *     calls_per_s, share, most, peak   a value for each of CLOCK_PLACES places. Without peak it
 *                  is of before calls within others were counted, and refused
 *   layers       an object: of a job by the layer's name, of a table "table" alone; each has
 *     columns      names, in the order of all that follows
 *     centre, scale  a value for each column; a row is (x - centre) / scale
 *     covariance   "full", "diagonal", "tied"
 *     weights      a value for each component, sum 1
 *     means        [component][column], of standardised rows, as are
 *     covariances  of full [component][d x d values, row by row], of tied the same of one for
 *                  all, of diagonal [component][d variances]
 *     rows, rows_left, trimmed, log_density, bic, iterations, converged: of the fit, see gmm.h
 *     bics         by number of components from 1 on; null: not tried
 *     cusum_ratio  of the CUSUM's height, 0 = 1
 *     tail         null, or {n, start, start_ratio, shape, scale, points}: see tail.h
 *   helpers      likewise, of the counters of processes without a pace of their own; only where
 *                there were enough of both (learn_layer.h)
 *
 * Numbers have seventeen significant digits, so reading gives the same to the bit. */
#include "detect/model_file.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json_out.h"
#include "base/utf8.h"
#include "detect/numbers_json.h"
#include "detect/setting_json.h"

static const char *const covariance_names[GMM_COVARIANCES] = GMM_COVARIANCE_NAMES;

/* ---- as JSON: numbers that are not finite become null, which reading refuses ---- */

static json_t *count(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static json_t *text(const char *s)
{
	struct buf clean = {0};
	utf8_append(&clean, s ? s : "", s ? strlen(s) : 0);
	json_t *ret = json_stringn((const char *)clean.data, clean.len);
	buf_free(&clean);
	return ret;
}

static json_t *baseline_json(const struct baseline *b)
{
	if (!b->count)
		return json_null();
	json_t *list = json_array();
	json_array_append_new(list, count(b->count));
	json_array_append_new(list, real_json(b->log_median));
	json_array_append_new(list, real_json(b->sigma));
	json_array_append_new(list, real_json(b->usual_ns));
	json_array_append_new(list, real_json(b->q99_ns));
	return list;
}

static json_t *keys_json(const struct model *m)
{
	json_t *list = json_array();
	for (size_t i = 0; i < m->keys.len; i++) {
		const struct model_key *k = &m->keys.data[i];
		json_t *row = json_array();
		json_array_append_new(row, json_string(detect_layer_name(&m->named, k->layer)));
		json_array_append_new(row, text(k->text));
		json_array_append_new(row, baseline_json(&k->duration));
		json_array_append_new(row, baseline_json(&k->gap));
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *counters_json(const struct model *m)
{
	json_t *list = json_array();
	for (size_t i = 0; i < m->counters.len; i++) {
		const struct model_counter *c = &m->counters.data[i];
		json_t *row = json_array();
		json_array_append_new(row, text(c->name));
		json_array_append_new(row, count(c->regime));
		json_array_append_new(row, count(c->count));
		json_array_append_new(row, real_json(c->median));
		json_array_append_new(row, real_json(c->sigma));
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *regimes_json(const struct model *m)
{
	json_t *list = json_array();
	for (size_t i = 0; i < m->regimes.len; i++) {
		const struct model_regime *r = &m->regimes.data[i];
		json_t *row = json_array();
		json_array_append_new(row, count(r->windows));
		for (size_t k = 0; k < REGIME_PLACES; k++)
			json_array_append_new(row, real_json((double)r->places[k]));
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *covariances_json(const struct gmm *g)
{
	size_t d = g->d;
	if (g->covariance != GMM_DIAGONAL)
		return matrix_json(g->covariances, g->covariance == GMM_TIED ? 1 : g->components,
				   d * d);
	json_t *list = json_array();
	for (size_t k = 0; k < g->components; k++) {
		json_t *row = json_array();
		for (size_t i = 0; i < d; i++)
			json_array_append_new(row, real_json(g->covariances[(k * d + i) * d + i]));
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *bics_json(const double *bics)
{
	json_t *list = json_array();
	size_t n = GMM_MAX_K;
	while (n && isnan(bics[n - 1]))
		n--;
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, real_json(bics[i]));
	return list;
}

static json_t *tail_json(const struct tail *t)
{
	if (!t->n)
		return json_null();
	json_t *o = json_object();
	json_object_set_new(o, "n", count(t->n));
	json_object_set_new(o, "start", real_json(t->start));
	json_object_set_new(o, "start_ratio", real_json(t->start_ratio));
	json_object_set_new(o, "shape", real_json(t->shape));
	json_object_set_new(o, "scale", real_json(t->scale));
	json_object_set_new(o, "points", reals_json(t->points, TAIL_POINTS));
	return o;
}

static json_t *mixture_json(const struct model_mixture *m)
{
	const struct gmm *g = &m->gmm;
	json_t *o = json_object(), *columns = json_array();
	for (uint32_t i = 0; i < m->columns; i++)
		json_array_append_new(columns, text(m->names[i]));
	json_object_set_new(o, "columns", columns);
	json_object_set_new(o, "centre", reals_json(m->centre, m->columns));
	json_object_set_new(o, "scale", reals_json(m->scale, m->columns));
	json_object_set_new(o, "covariance", json_string(covariance_names[g->covariance]));
	json_object_set_new(o, "weights", reals_json(g->weights, g->components));
	json_object_set_new(o, "means", matrix_json(g->means, g->components, g->d));
	json_object_set_new(o, "covariances", covariances_json(g));
	json_object_set_new(o, "rows", count(g->rows));
	json_object_set_new(o, "rows_left", count(g->rows_left));
	json_object_set_new(o, "trimmed", count(g->trimmed));
	json_object_set_new(o, "log_density", real_json(g->log_density));
	json_object_set_new(o, "bic", real_json(g->bic));
	json_object_set_new(o, "iterations", count(g->iterations));
	json_object_set_new(o, "converged", json_boolean(g->converged));
	json_object_set_new(o, "bics", bics_json(m->bics));
	json_object_set_new(o, "cusum_ratio", real_json(m->cusum_ratio));
	json_object_set_new(o, "tail", tail_json(&m->tail));
	return o;
}

static json_t *layers_json(const struct model *m)
{
	json_t *o = json_object();
	if (m->kind == MODEL_TABLE) {
		json_object_set_new(o, "table", mixture_json(&m->layers[0]));
		return o;
	}
	for (size_t l = 0; l < DETECT_LAYERS; l++)
		if (m->layers[l].columns)
			json_object_set_new(o, detect_layer_name(&m->named, l),
					    mixture_json(&m->layers[l]));
	return o;
}

static json_t *tails_json(const struct pace_tail tails[PACE_TAILS])
{
	json_t *list = json_array();
	for (size_t i = 0; i < PACE_TAILS; i++) {
		const double of[] = {tails[i].start, tails[i].scale, tails[i].known, tails[i].rate};
		json_array_append_new(list, reals_json(of, 4));
	}
	return list;
}

static json_t *clock_json(const struct model *m)
{
	const struct model_clock *c = &m->clock;
	json_t *o = json_object();
	json_object_set_new(o, "layer", json_string(detect_layer_name(&m->named, c->layer)));
	json_object_set_new(o, "waits", json_boolean(c->waits));
	json_object_set_new(o, "wall", json_boolean(c->wall));
	json_object_set_new(o, "windows", count(c->windows));
	json_object_set_new(o, "start_ns", count(c->start_ns));
	json_object_set_new(o, "centre", real_json(c->centre));
	json_object_set_new(o, "sigma", real_json(c->sigma));
	if (c->cpu_slope > 0) {
		json_object_set_new(o, "work_ns", real_json(c->work_ns));
		json_object_set_new(o, "cpu_slope", real_json(c->cpu_slope));
	}
	if (c->counted > 0)
		json_object_set_new(o, "counted", real_json(c->counted));
	json_object_set_new(o, "calls_per_s", reals_json(c->calls_per_s, CLOCK_PLACES));
	json_object_set_new(o, "share", reals_json(c->share, CLOCK_PLACES));
	json_object_set_new(o, "most", reals_json(c->most, CLOCK_PLACES));
	json_object_set_new(o, "peak", reals_json(c->peak, CLOCK_PLACES));
	if (c->tails[0].known > 0)
		json_object_set_new(o, "tails", tails_json(c->tails));
	return o;
}

static json_t *model_json(const struct model *m)
{
	json_t *o = json_object();
	json_object_set_new(o, "eacgm_model", json_integer(1));
	json_object_set_new(o, "kind", json_string(m->kind == MODEL_TABLE ? "table" : "job"));
	json_object_set_new(o, "origin", text(m->origin));
	json_object_set_new(o, "window_ns", count(m->window_ns));
	json_object_set_new(o, "seconds", real_json(m->seconds));
	json_object_set_new(o, "recordings", count(m->recordings));
	json_object_set_new(o, "without", count(m->without));
	json_object_set_new(o, "setting", setting_json(&m->setting));
	json_object_set_new(o, "keys", keys_json(m));
	json_object_set_new(o, "counters", counters_json(m));
	json_object_set_new(o, "regimes", regimes_json(m));
	if (m->clock.layer < DETECT_LAYERS)
		json_object_set_new(o, "clock", clock_json(m));
	json_object_set_new(o, "layers", layers_json(m));
	if (m->helpers.columns)
		json_object_set_new(o, "helpers", mixture_json(&m->helpers));
	return o;
}

/* A model that `detect` would refuse is not written. */
static int check_text(const char *s, size_t len, struct err *e)
{
	struct model again;
	int rc = model_parse(&again, s, len, "the new model", e);
	if (!rc)
		model_free(&again);
	return rc;
}

int model_print(const struct model *m, char **ret, size_t *ret_len, struct err *e)
{
	json_t *o = model_json(m);
	char *s = json_out_text(o, JSON_COMPACT | JSON_REAL_PRECISION(17));
	json_decref(o);
	if (!s)
		return err_set(e, EINVAL, "the model cannot be written as JSON");
	size_t len = strlen(s);
	int rc = check_text(s, len, e);
	if (rc) {
		free(s);
		return rc;
	}
	*ret = s;
	*ret_len = len;
	return 0;
}

/* ---- files ---- */

static int write_bytes(const struct output_file *file, const char *s, size_t len, struct err *e)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = write(file->fd, s + at, len - at);
		if (n > 0)
			at += (size_t)n;
		else if (!n || errno != EINTR)
			return output_file_error(file, n ? errno : EIO, e);
	}
	return 0;
}

int model_write(const struct model *m, const char *path, const struct output_owner *owner,
		struct err *e)
{
	char *s;
	size_t len;
	struct output_file file;
	int rc = model_print(m, &s, &len, e);
	if (rc)
		return rc;
	rc = output_file_create(&file, path, owner, e);
	if (!rc)
		rc = output_file_finish(&file, write_bytes(&file, s, len, e), e);
	free(s);
	return rc;
}

static int read_error(const char *path, struct err *e)
{
	int code = errno ? errno : EIO;
	return err_set(e, code, "cannot read '%s': %s", path, strerror(code));
}

/* All of a file, up to one byte more than is allowed. */
static int read_bytes(FILE *f, struct buf *ret, const char *path, struct err *e)
{
	size_t n;
	do {
		buf_reserve(ret, 1 << 16);
		n = fread(ret->data + ret->len, 1, 1 << 16, f);
		ret->len += n;
	} while (n && ret->len <= MODEL_FILE_MOST);
	if (ferror(f))
		return read_error(path, e);
	if (ret->len > MODEL_FILE_MOST)
		return err_set(e, EINVAL, "'%s' is larger than a model may be (%zu MiB)", path,
			       MODEL_FILE_MOST >> 20);
	return 0;
}

int model_read(struct model *ret, const char *path, struct err *e)
{
	struct buf bytes = {0};
	FILE *f = fopen(path, "re");
	if (!f)
		return read_error(path, e);
	int rc = read_bytes(f, &bytes, path, e);
	fclose(f);
	if (!rc)
		rc = model_parse(ret, (const char *)bytes.data, bytes.len, path, e);
	buf_free(&bytes);
	return rc;
}

int model_read_for(struct model *ret, const char *path, enum model_kind kind, const char *what,
		   struct err *e)
{
	int rc = model_read(ret, path, e);
	if (rc || ret->kind == kind)
		return rc;
	model_free(ret);
	return err_set(e, EINVAL, "'%s' was learned from %s, and this is %s", path,
		       kind == MODEL_TABLE ? "recordings" : "a table", what);
}
