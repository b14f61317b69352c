/* episode_why.c - an anomaly in words and figures: what did most, by how much. */
#include "incident/episodes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "incident/job_family.h"

#define TIME_BYTES 32
#define LEAST_TOLD 0.05 /* ln ratio: less is no reason that is worth a sentence */

/* "3.1 s", "120 ms", "45 us": three digits. */
static const char *time_text(double ns, char out[TIME_BYTES])
{
	static const struct {
		double ns;
		const char *unit;
	} units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};
	for (size_t i = 0; i < 3; i++)
		if (fabs(ns) >= units[i].ns) {
			double v = ns / units[i].ns;
			int digits = fabs(v) >= 99.95 ? 0 : fabs(v) >= 9.995 ? 1 : 2;
			snprintf(out, TIME_BYTES, "%.*f %s", digits, v, units[i].unit);
			return out;
		}
	snprintf(out, TIME_BYTES, "%.0f ns", ns);
	return out;
}

static double more_of(const struct window_key *k)
{
	return k->total_ns - k->usual_ns;
}

static double gap_more_of(const struct window_key *k)
{
	return k->gap_ns - k->usual_gap_ns;
}

static int by_more(const void *a, const void *b)
{
	const struct window_key *x = a, *y = b;
	double mx = fmax(more_of(x), gap_more_of(x)), my = fmax(more_of(y), gap_more_of(y));
	if (mx != my)
		return mx > my ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

static const char *keep_text(struct episode *e, const char *text)
{
	for (size_t i = 0; i < e->texts.len; i++)
		if (!strcmp(e->texts.data[i], text))
			return e->texts.data[i];
	return *vec_push(&e->texts) = xstrdup(text);
}

/* ---- features of its worst row ---- */

/* The unit that a counter's name ends in. */
static const char *unit_of_counter(const char *name)
{
	static const char *const units[][2] = {
		{"_bytes_per_s", "bytes/s"}, {"_per_s", "1/s"}, {"_bytes", "bytes"}, {"_w", "W"},
		{"_celsius", "C"},	     {"_mhz", "MHz"},
	};
	size_t len = strlen(name);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t n = strlen(units[i][0]);
		if (len > n && !strcmp(name + len - n, units[i][0]))
			return units[i][1];
	}
	return "ratio";
}

void episode_features(const struct known *known, struct episode *e, const struct judged *j)
{
	uint32_t n;
	const struct feature *features = features_of(j->row->layer, &n);
	const double *values = made_row_values(j->made);
	bool taken[FEATURES_MOST] = {false};
	e->a.features_len = 0;
	while (e->a.features_len < ANOMALY_FEATURES) {
		uint32_t best = n;
		for (uint32_t f = 0; f < n; f++)
			if (!taken[f] && j->explained.shares[f] > 0.01 &&
			    (best == n || j->explained.shares[f] > j->explained.shares[best]))
				best = f;
		if (best == n)
			break;
		taken[best] = true;
		struct counter_usual usual = {0};
		uint32_t at = e->a.features_len++;
		e->a.features[at].name = features[best].name;
		e->a.features[at].unit = features[best].unit;
		e->a.features[at].value = j->row->x[best];
		e->a.features[at].usual = j->explained.usual[best] + j->shift[best];
		e->a.features[at].share_ratio = j->explained.shares[best];
		if (layer_has_counters(j->row->layer))
			counters_usual_get(known->counters, j->row->layer, best, j->row->regime,
					   &usual);
		if (usual.count && values) {
			e->a.features[at].unit = unit_of_counter(features[best].name);
			e->a.features[at].value = values[best];
			e->a.features[at].usual =
				usual.median + e->a.features[at].usual * usual.sigma;
		}
	}
}

/* ---- what did most ---- */

static void calls_describe(const struct known *known, struct episode *e,
			   const struct window_key *sorted)
{
	e->a.calls_len = 0;
	for (size_t i = 0; i < e->calls.len && e->a.calls_len < ANOMALY_CALLS; i++) {
		const struct window_key *k = &sorted[i];
		struct detect_key key;
		if (!k->calls)
			continue;
		detect_keys_get(known->keys, k->key, &key);
		uint32_t at = e->a.calls_len++;
		e->a.calls[at].key = keep_text(e, key.text);
		e->a.calls[at].calls = k->calls;
		e->a.calls[at].mean_ns = k->total_ns / (double)k->calls;
		e->a.calls[at].usual_ns = k->usual_ns / (double)k->calls;
		e->a.calls[at].more_ns = more_of(k);
	}
}

/* Whether the feature is the first of those that tell most. */
static bool is_of(const struct anomaly *a, const char *feature)
{
	return a->features_len && !strcmp(a->features[0].name, feature);
}

/* Its place; features_len: it is none of those that tell most. */
static uint32_t feature_at(const struct anomaly *a, const char *name)
{
	uint32_t i = 0;
	while (i < a->features_len && strcmp(a->features[i].name, name) != 0)
		i++;
	return i;
}

static struct reason reason_of_calls(const struct anomaly *a, const struct window_key *top)
{
	struct reason ret = {.kind = REASON_CALL, .key = top->key};
	if (is_of(a, "pace_loss"))
		ret.kind = REASON_PACE;
	else if (is_of(a, "errors"))
		ret.kind = REASON_ERRORS;
	else if (gap_more_of(top) > more_of(top))
		ret.kind = REASON_GAP;
	return ret;
}

/* Whether the figures still say what the reason does. */
static bool holds(const struct anomaly *a, const struct reason *r, const struct window_key *top)
{
	switch (r->kind) {
	case REASON_PACE:
		return feature_at(a, "pace_loss") < a->features_len;
	case REASON_ERRORS:
		return feature_at(a, "errors") < a->features_len;
	case REASON_GAP:
		return gap_more_of(top) > 0;
	default:
		return more_of(top) > 0;
	}
}

/* Where, beside how much: the call that most time was lost in, or before. */
static void why_of_pace(struct anomaly *a, const struct window_key *top, const char *span)
{
	double of_call = more_of(top), of_gap = gap_more_of(top);
	uint32_t at = feature_at(a, "pace_loss");
	int n = snprintf(a->why, sizeof(a->why), "work went on at %.2g x the usual pace, for %s",
			 exp(a->features[at].usual - a->features[at].value), span);
	if (n > 0 && (size_t)n < sizeof(a->why) && (of_call > 0 || of_gap > 0))
		snprintf(a->why + n, sizeof(a->why) - (size_t)n, ", most of it lost %s %.120s",
			 of_gap > of_call ? "before" : "in", a->name);
}

static void why_of_call(struct episode *e, const struct window_key *top)
{
	struct anomaly *a = &e->a;
	char more[TIME_BYTES], span[TIME_BYTES], longer[HUMAN_BYTES];
	time_text((double)(a->end_ns - a->start_ns), span);
	if (e->reason.kind == REASON_PACE) {
		why_of_pace(a, top, span);
	} else if (e->reason.kind == REASON_ERRORS) {
		double share = sin(a->features[feature_at(a, "errors")].value);
		snprintf(a->why, sizeof(a->why), "%.2g %% of the calls failed, of %s for one",
			 100 * share * share, a->name);
	} else if (e->reason.kind == REASON_GAP &&
		   gap_more_of(top) > (double)(a->end_ns - a->start_ns)) {
		snprintf(a->why, sizeof(a->why),
			 "calls of %.120s came later than usual in several threads, for %s",
			 a->name, span);
	} else if (e->reason.kind == REASON_GAP) {
		time_text(gap_more_of(top), more);
		snprintf(a->why, sizeof(a->why),
			 "%s more than usual passed before calls of %.120s, in %s", more, a->name,
			 span);
	} else {
		time_text(more_of(top), more);
		snprintf(a->why, sizeof(a->why), "%.120s took %s x as long as usual, %s more in %s",
			 a->name,
			 human_times(longer,
				     top->usual_ns > 0 ? top->total_ns / top->usual_ns : INFINITY),
			 more, span);
	}
}

/* The call that was told, else the one that most time was lost at. */
static struct window_key top_call(const struct episode *e, const struct window_key *sorted)
{
	for (size_t i = 0; e->reason.kind && i < e->calls.len; i++)
		if (sorted[i].key == e->reason.key)
			return sorted[i];
	return sorted[0];
}

static bool is_lost_between(const struct episode *e)
{
	double calls = 0, gaps = 0;
	for (size_t i = 0; i < e->calls.len; i++) {
		calls += more_of(&e->calls.data[i]);
		gaps += gap_more_of(&e->calls.data[i]);
	}
	return gaps > 0 && gaps > calls;
}

static void why_of_calls(const struct known *known, struct episode *e)
{
	struct anomaly *a = &e->a;
	char span[TIME_BYTES];
	if (!e->calls.len) {
		time_text((double)(a->end_ns - a->start_ns), span);
		snprintf(a->why, sizeof(a->why), "its calls were not as usual, for %s", span);
		return;
	}
	struct window_key *sorted = xcalloc(e->calls.len, sizeof(*sorted));
	memcpy(sorted, e->calls.data, e->calls.len * sizeof(*sorted));
	qsort(sorted, e->calls.len, sizeof(*sorted), by_more);
	calls_describe(known, e, sorted);
	struct window_key top = top_call(e, sorted);
	a->between_calls = is_lost_between(e);
	free(sorted);
	if (e->reason.kind && !holds(a, &e->reason, &top))
		return;
	if (!e->reason.kind)
		e->reason = reason_of_calls(a, &top);
	struct detect_key key;
	detect_keys_get(known->keys, top.key, &key);
	a->name = keep_text(e, key.name);
	why_of_call(e, &top);
}

#define NUMBER_BYTES 40

/* "0.503", "13,412", "3 C": shares have no unit, and of rates the name says it. */
static const char *number_text(char ret[static NUMBER_BYTES], double value, const char *unit)
{
	char count[HUMAN_BYTES];
	bool plain = !strcmp(unit, "ratio") || !strcmp(unit, "1/s");
	const char *space = plain || !*unit ? "" : " ";
	if (value >= 1000 && value < 1e15)
		snprintf(ret, NUMBER_BYTES, "%s%s%s", human_count(count, (uint64_t)value), space,
			 plain ? "" : unit);
	else
		snprintf(ret, NUMBER_BYTES, "%.3g%s%s", value, space, plain ? "" : unit);
	return ret;
}

static void why_of_counter(struct episode *e)
{
	struct anomaly *a = &e->a;
	char span[TIME_BYTES];
	time_text((double)(a->end_ns - a->start_ns), span);
	if (!a->features_len) {
		a->name = "counters";
		snprintf(a->why, sizeof(a->why), "counters were not as usual, for %s", span);
		return;
	}
	if (!e->reason.kind)
		e->reason = (struct reason){.kind = REASON_COUNTER, .feature = a->features[0].name};
	uint32_t at = feature_at(a, e->reason.feature);
	if (at == a->features_len)
		return;
	a->name = e->reason.feature;
	char was[NUMBER_BYTES], usual[NUMBER_BYTES];
	snprintf(a->why, sizeof(a->why), "%s was %s where %s is usual, for %s", a->name,
		 number_text(was, a->features[at].value, a->features[at].unit),
		 number_text(usual, a->features[at].usual, a->features[at].unit), span);
}

/* The phase, or count, that tells most beside the duration, where it adds to the step; NULL none.
 */
static const char *phase_of_step(const struct anomaly *a)
{
	for (uint32_t i = 0; i < a->features_len; i++)
		if (strcmp(a->features[i].name, "duration") != 0 &&
		    a->features[i].value - a->features[i].usual > LEAST_TOLD)
			return a->features[i].name;
	return NULL;
}

/* How much more than usual, as a logarithm; 0 where it is none of what tells most. */
static double more_of_feature(const struct anomaly *a, const char *name)
{
	uint32_t at = feature_at(a, name);
	return at < a->features_len ? a->features[at].value - a->features[at].usual : 0;
}

static void why_of_step(struct episode *e)
{
	struct anomaly *a = &e->a;
	char span[TIME_BYTES], longer[HUMAN_BYTES];
	double times = more_of_feature(a, "duration");
	struct reason now = {.kind = times > LEAST_TOLD ? REASON_STEP : REASON_PHASE,
			     .feature = e->reason.kind ? e->reason.feature : phase_of_step(a)};
	const char *phase = now.feature;
	double of_phase = phase ? more_of_feature(a, phase) : 0;
	if (e->reason.kind && (now.kind != e->reason.kind || (phase && of_phase <= LEAST_TOLD)))
		return;
	e->reason = now;
	time_text((double)(a->end_ns - a->start_ns), span);
	a->name = phase ? phase : "step";
	if (times > LEAST_TOLD && phase)
		snprintf(a->why, sizeof(a->why),
			 "steps took %s x as long as usual, most of it in %s",
			 human_times(longer, exp(times)), phase);
	else if (times > LEAST_TOLD)
		snprintf(a->why, sizeof(a->why), "steps took %s x as long as usual, for %s",
			 human_times(longer, exp(times)), span);
	else if (phase)
		snprintf(a->why, sizeof(a->why), "%s of a step was %s x the usual, for %s", phase,
			 human_times(longer, exp(of_phase)), span);
	else
		snprintf(a->why, sizeof(a->why), "the parts of a step were not as usual, for %s",
			 span);
}

/* It never was as usual. */
static void say_since_when(struct anomaly *a)
{
	static const char since[] = ", since its work began";
	size_t len = strlen(a->why);
	if (!strstr(a->why, since) && len + sizeof(since) <= sizeof(a->why))
		memcpy(a->why + len, since, sizeof(since));
}

void episode_describe(const struct known *known, struct episode *e, bool keep)
{
	if (!keep)
		e->reason = (struct reason){.kind = REASON_NONE};
	if (layer_has_counters(e->a.layer))
		why_of_counter(e);
	else if (e->a.layer == DETECT_STEP)
		why_of_step(e);
	else
		why_of_calls(known, e);
	if (e->series && e->series->judged_ns && e->a.start_ns <= e->series->judged_ns)
		say_since_when(&e->a);
}
