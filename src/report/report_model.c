/* report_model.c - a model as text and as JSON: for people, and for holding it against what other
 * libraries make of the same rows. It is not the model's file (src/detect/model_file.c). */
#include "report/report_model.h"

#include <math.h>
#include <string.h>

#include "base/human.h"
#include "detect/numbers_json.h"
#include "detect/pace_alarms.h"
#include "incident/detector.h"
#include "report/report_json.h"

static const char *const covariance_names[GMM_COVARIANCES] = GMM_COVARIANCE_NAMES;

void learned_free(struct learned *l)
{
	model_free(&l->model);
	vec_free(&l->suspects);
	for (int i = 0; i < DETECT_LAYERS; i++)
		free(l->left_out[i]);
}

static uint64_t keys_of(const struct model *m, enum detect_layer layer)
{
	uint64_t n = 0;
	for (size_t i = 0; i < m->keys.len; i++)
		n += m->keys.data[i].layer == layer;
	return n;
}

/* ---- JSON ---- */

static json_t *covariances_json(const struct gmm *g)
{
	json_t *list = json_array();
	for (uint32_t k = 0; k < g->components; k++)
		json_array_append_new(
			list, matrix_json(g->covariances + (size_t)k * g->d * g->d, g->d, g->d));
	return list;
}

static size_t tried(const struct model_mixture *m)
{
	size_t n = GMM_MAX_K;
	while (n && isnan(m->bics[n - 1]))
		n--;
	return n;
}

static json_t *mixture_json(const struct model_mixture *m)
{
	const struct gmm *g = &m->gmm;
	json_t *o = json_object(), *columns = json_array();
	for (uint32_t i = 0; i < m->columns; i++)
		json_array_append_new(columns, report_text_json(m->names[i]));
	json_object_set_new(o, "rows", report_number_json(g->rows));
	json_object_set_new(o, "rows_left_out", report_number_json(g->rows_left));
	json_object_set_new(o, "rows_trimmed", report_number_json(g->trimmed));
	json_object_set_new(o, "columns", columns);
	json_object_set_new(o, "centre", reals_json(m->centre, m->columns));
	json_object_set_new(o, "scale", reals_json(m->scale, m->columns));
	json_object_set_new(o, "components", report_number_json(g->components));
	json_object_set_new(o, "covariance", json_string(covariance_names[g->covariance]));
	json_object_set_new(o, "weights", reals_json(g->weights, g->components));
	json_object_set_new(o, "means", matrix_json(g->means, g->components, g->d));
	json_object_set_new(o, "covariances", covariances_json(g));
	json_object_set_new(o, "log_likelihood", real_json(g->log_density * (double)g->rows));
	json_object_set_new(o, "log_likelihood_mean", real_json(g->log_density));
	json_object_set_new(o, "bic", real_json(g->bic));
	json_object_set_new(o, "bics", reals_json(m->bics, tried(m)));
	json_object_set_new(o, "iterations", report_number_json(g->iterations));
	json_object_set_new(o, "converged", json_boolean(g->converged));
	json_object_set_new(o, "scores", report_number_json(m->tail.n));
	return o;
}

static json_t *layers_json(const struct learned *l)
{
	json_t *list = json_array();
	for (int i = 0; i < DETECT_LAYERS; i++) {
		const struct model_mixture *m = &l->model.layers[i];
		uint64_t keys = keys_of(&l->model, (enum detect_layer)i);
		if (!keys && !m->columns && !l->left_out[i])
			continue;
		json_t *o = m->columns ? mixture_json(m) : json_object();
		json_object_set_new(o, "layer", json_string(detect_layer_name(&l->model.named, i)));
		json_object_set_new(o, "learned", json_boolean(m->columns));
		json_object_set_new(o, "why_not", report_text_json(l->left_out[i]));
		json_object_set_new(o, "keys", report_number_json(keys));
		if (i == DETECT_HOST && l->model.helpers.columns)
			json_object_set_new(o, "helpers", mixture_json(&l->model.helpers));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *suspects_json(const struct learned *l)
{
	json_t *list = json_array();
	for (size_t i = 0; i < l->suspects.len; i++) {
		const struct learned_suspect *s = &l->suspects.data[i];
		json_t *o = json_object();
		json_object_set_new(o, "recording", report_text_json(s->path));
		json_object_set_new(o, "from_s", real_json(s->from_s));
		json_object_set_new(o, "to_s", real_json(s->to_s));
		json_array_append_new(list, o);
	}
	return list;
}

/* What is told where detect is asked for one alarm an hour and given no least effect. */
static const double slowdowns[] = {1.2, 1.5, 2};
#define SLOWDOWNS (sizeof(slowdowns) / sizeof(slowdowns[0]))

static double told_after_s(const struct model *m, double slowdown)
{
	const struct model_clock *c = &m->clock;
	return pace_alarms_windows(c->tails, c->sigma, LEAST_EFFECT, 1, slowdown) *
	       (double)m->window_ns / 1e9;
}

static json_t *told_json(const struct model *m)
{
	json_t *list = json_array();
	for (size_t i = 0; i < SLOWDOWNS && m->clock.layer < DETECT_LAYERS; i++) {
		json_t *o = json_object();
		json_object_set_new(o, "slowdown_ratio", real_json(slowdowns[i]));
		json_object_set_new(o, "after_s", real_json(told_after_s(m, slowdowns[i])));
		json_array_append_new(list, o);
	}
	return list;
}

json_t *learned_json(const struct learned *l)
{
	const struct model *m = &l->model;
	json_t *o = m->kind == MODEL_TABLE ? mixture_json(&m->layers[0]) : json_object();
	json_object_set_new(o, "kind", json_string(m->kind == MODEL_TABLE ? "table" : "job"));
	json_object_set_new(o, "origin", report_text_json(m->origin));
	if (m->kind == MODEL_TABLE)
		return o;
	json_object_set_new(o, "seconds", real_json(m->seconds));
	json_object_set_new(o, "window_ns", report_number_json(m->window_ns));
	json_object_set_new(o, "counters", report_number_json(m->counters.len));
	json_object_set_new(o, "regimes", report_number_json(m->regimes.len));
	json_object_set_new(o, "suspects", suspects_json(l));
	json_object_set_new(o, "told", told_json(m));
	json_object_set_new(o, "layers", layers_json(l));
	return o;
}

/* ---- text ---- */

enum { COLUMN_VALUE = 22, SUSPECTS_SHOWN = 8, LATE_S = 10 };

/* Text at the right of a column, cut to it. */
static void cell(FILE *out, const char *s, size_t columns)
{
	char fit[512];
	size_t taken = text_fit(fit, sizeof(fit), s, columns);
	fprintf(out, "  %*s%s", (int)(columns - taken), "", fit);
}

static void print_fit(FILE *out, const struct model_mixture *m)
{
	const struct gmm *g = &m->gmm;
	char count[HUMAN_BYTES];
	fprintf(out, "  %s rows", human_count(count, g->rows));
	if (g->rows_left)
		fprintf(out, ", %s left out (not finite)", human_count(count, g->rows_left));
	if (g->trimmed)
		fprintf(out, ", %s trimmed", human_count(count, g->trimmed));
	fprintf(out, "\n  %u %s, %s covariance", g->components,
		g->components == 1 ? "component" : "components", covariance_names[g->covariance]);
	if (tried(m))
		fprintf(out, ", the best by BIC of 1 to %zu", tried(m));
	fprintf(out, "\n  log-likelihood %.6g a row, BIC %.8g, %u iterations, %s\n", g->log_density,
		g->bic, g->iterations, g->converged ? "converged" : "not converged");
}

static void print_component(FILE *out, const struct model_mixture *m, uint32_t k, uint32_t shown)
{
	const struct gmm *g = &m->gmm;
	size_t d = g->d;
	char text[64];
	snprintf(text, sizeof(text), "%.1f %%", 100 * g->weights[k]);
	fprintf(out, "  %9u", k + 1);
	cell(out, text, 8);
	for (size_t i = 0; i < shown; i++) {
		snprintf(text, sizeof(text), "%.4g ± %.3g", g->means[k * d + i],
			 sqrt(g->covariances[(k * d + i) * d + i]));
		cell(out, text, COLUMN_VALUE);
	}
	fputc('\n', out);
}

/* Mean and standard deviation of each column in each component. */
static void print_components(FILE *out, unsigned width, const struct model_mixture *m)
{
	unsigned room = (width - 21) / (COLUMN_VALUE + 2);
	uint32_t shown = m->columns < room ? m->columns : room;
	fputs("\n  component    weight", out);
	for (uint32_t i = 0; i < shown; i++)
		cell(out, m->names[i], COLUMN_VALUE);
	fputc('\n', out);
	for (uint32_t k = 0; k < m->gmm.components; k++)
		print_component(out, m, k, shown);
	if (shown < m->columns)
		fprintf(out, "  and %u more columns: --json\n", m->columns - shown);
}

static void print_columns(FILE *out, const struct model_mixture *m)
{
	fputs("  ", out);
	for (uint32_t i = 0; i < m->columns; i++)
		text_printf(out, "%s%s", i ? ", " : "", m->names[i]);
}

/* The sentence without the layer's name, which stands before it already. */
static const char *why_alone(const char *why, const char *layer)
{
	size_t len = strlen(layer);
	return !strncmp(why, layer, len) && !strncmp(why + len, ": ", 2) ? why + len + 2 : why;
}

static void print_mixture(FILE *out, const struct model_mixture *x)
{
	char count[HUMAN_BYTES];
	cell(out, human_count(count, x->gmm.rows), 7);
	cell(out, x->gmm.trimmed ? human_count(count, x->gmm.trimmed) : "-", 8);
	cell(out, human_count(count, x->gmm.components), 10);
	print_columns(out, x);
	fputc('\n', out);
}

static void print_layer(FILE *out, const struct learned *l, enum detect_layer layer)
{
	const struct model_mixture *x = &l->model.layers[layer];
	const char *name = detect_layer_name(&l->model.named, layer);
	uint64_t keys = keys_of(&l->model, layer);
	char count[HUMAN_BYTES];
	if (!keys && !x->columns && !l->left_out[layer])
		return;
	fprintf(out, "  %-8s", name);
	cell(out, keys ? human_count(count, keys) : "-", 6);
	if (!x->columns) {
		const char *why = l->left_out[layer];
		text_printf(out, "  not learned%s%s\n", why ? ": " : "",
			    why ? why_alone(why, name) : "");
		return;
	}
	print_mixture(out, x);
	if (layer == DETECT_HOST && l->model.helpers.columns) {
		fprintf(out, "  %-8s", " helpers");
		cell(out, "-", 6);
		print_mixture(out, &l->model.helpers);
	}
}

static void print_layers(FILE *out, const struct learned *l)
{
	fputs("  layer       keys  windows  left out  components  features\n", out);
	for (int i = 0; i < DETECT_LAYERS; i++)
		print_layer(out, l, (enum detect_layer)i);
}

static void print_suspects(FILE *out, const struct learned *l)
{
	size_t len = l->suspects.len;
	double seconds = 0;
	for (size_t i = 0; i < len; i++)
		seconds += l->suspects.data[i].to_s - l->suspects.data[i].from_s;
	if (len)
		fprintf(out, "  %.0f s more looked faulty and were left out: slow work in\n",
			seconds);
	for (size_t i = 0; i < len && i < SUSPECTS_SHOWN; i++) {
		const struct learned_suspect *s = &l->suspects.data[i];
		text_printf(out, "    %s, %.1f .. %.1f s\n", s->path, s->from_s, s->to_s);
	}
	if (len > SUSPECTS_SHOWN)
		fprintf(out, "    and %zu more\n", len - SUSPECTS_SHOWN);
	if (len)
		fputc('\n', out);
}

/* How much has to be lost for an alarm is learned from what the recordings lost: of a few minutes,
 * or where the host was busy, that is much. */
static void print_told(FILE *out, const struct model *m)
{
	bool slow = false;
	if (m->clock.layer == DETECT_LAYERS)
		return;
	fprintf(out, "\n  at one alarm an hour, work is told that takes");
	for (size_t i = 0; i < SLOWDOWNS; i++) {
		double after = told_after_s(m, slowdowns[i]);
		fprintf(out, "%s %.3g x as long", i ? "," : "", slowdowns[i]);
		if (isfinite(after))
			fprintf(out, " after %.3g s", after);
		else
			fprintf(out, " never");
		slow |= slowdowns[i] > 1.4 && after > LATE_S;
	}
	fputc('\n', out);
	if (m->clock.cpu_slope > 0)
		fprintf(out,
			"  slower CPUs (shared cores, a lower clock) slow it too: that is left "
			"out of its pace\n");
	if (slow)
		fprintf(out, "  that is late: the recordings are short, or were slow for a while "
			     "themselves; learn from more of them\n");
}

void learned_text(FILE *out, unsigned width, const struct learned *l)
{
	const struct model *m = &l->model;
	if (m->kind == MODEL_TABLE) {
		print_fit(out, &m->layers[0]);
		print_components(out, width, &m->layers[0]);
		return;
	}
	char length[HUMAN_BYTES], window[HUMAN_BYTES];
	fprintf(out, "  %s of recording, windows of %s, %zu %s\n\n",
		human_ns(length, (uint64_t)(m->seconds * 1e9)), human_ns(window, m->window_ns),
		m->regimes.len, m->regimes.len == 1 ? "mix of work" : "mixes of work");
	print_suspects(out, l);
	print_layers(out, l);
	print_told(out, m);
}
