/* window_sums.c - what a window's features are computed from. docs/developers/detection-features.md
 * has the formulas. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "detect/windows_impl.h"

#define SPREAD_LEAST 0.1 /* sigma: so that windows of equal z have a spread */

/* ---- adding ---- */

static struct window_layer *layer_of(struct window *w, const struct window_event *e)
{
	if (!w->layers[e->layer])
		w->layers[e->layer] = xcalloc(1, sizeof(*w->layers[e->layer]));
	return w->layers[e->layer];
}

void window_free(struct window *w)
{
	for (size_t i = 0; i < DETECT_LAYERS; i++)
		free(w->layers[i]);
	free(w);
}

void window_add_event(struct window *w, const struct window_event *e)
{
	struct window_layer *l = layer_of(w, e);
	l->events++;
	if (e->device)
		return;
	l->calls++;
	l->errors += e->failed;
	regime_mix_add(&w->mix, e->keyed.function, e->keyed.size);
}

static void add_z(struct window_sum *s, double z)
{
	double cut = z > WINDOW_Z_CUT ? WINDOW_Z_CUT : z < -WINDOW_Z_CUT ? -WINDOW_Z_CUT : z;
	s->z += cut;
	s->z_squared += cut * cut;
	s->count++;
	s->tail += z > WINDOW_Z_TAIL;
}

/* The place of the key among those that are followed, or of the least important one, which it
 * takes. NULL: it is nothing unusual, and not followed. */
static struct window_key *follow(struct window_layer *l, uint32_t key, double more_ns)
{
	uint32_t i = 0, least = 0;
	while (i < l->keys_len && l->keys[i] != key)
		i++;
	if (i == l->keys_len) {
		if (more_ns <= 0)
			return NULL;
		if (l->keys_len < WINDOW_CANDIDATES) {
			l->keys_len++;
			l->weights[i] = 0;
		} else {
			for (i = 1; i < WINDOW_CANDIDATES; i++)
				if (l->weights[i] < l->weights[least])
					least = i;
			i = least;
		}
		l->keys[i] = key;
		l->of_keys[i] = (struct window_key){.key = key};
	}
	l->weights[i] += more_ns > 0 ? more_ns : 0;
	return &l->of_keys[i];
}

static void add_call(struct window_layer *l, const struct window_event *e, double ns,
		     double usual_ns)
{
	struct window_key *k = e->explains ? follow(l, e->keyed.number, ns - usual_ns) : NULL;
	if (!k)
		return;
	k->calls++;
	k->total_ns += ns;
	k->usual_ns += usual_ns;
}

/* What a model does not know is none of its usual work, however often it was met since. */
static struct clock_part part_of(const struct window_event *e, double ns, double usual_ns)
{
	return (struct clock_part){e->keyed.function, e->resized, ns,
				   e->known || e->resized ? usual_ns : NAN};
}

void window_add_duration(struct window *w, const struct window_event *e, double share)
{
	if (e->duration_ns == USUAL_NONE)
		return;
	struct window_layer *l = layer_of(w, e);
	double ns = share * (double)e->duration_ns, usual_ns = share * e->usual.usual_ns;
	struct clock_part part = part_of(e, ns, usual_ns);
	if (e->outermost)
		clock_add_call(&l->clock, &part, share);
	else
		clock_add_nested(&l->clock, &part, share);
	if (isnan(e->usual.z))
		return;
	add_z(&l->duration, e->usual.z);
	if (e->outermost) {
		l->duration.ns += ns;
		l->duration.usual_ns += usual_ns;
	}
	add_call(l, e, ns, usual_ns);
}

void window_add_device(struct window *w, const struct window_event *e, double share)
{
	if (isnan(e->usual.z))
		return;
	struct window_layer *l = layer_of(w, e);
	double ns = share * (double)e->duration_ns, usual_ns = share * e->usual.usual_ns;
	add_z(&l->device, e->usual.z);
	l->device.ns += ns;
	l->device.usual_ns += usual_ns;
	add_call(l, e, ns, usual_ns);
}

void window_add_gap(struct window *w, const struct window_event *e, double share)
{
	struct window_layer *l = layer_of(w, e);
	double ns = share * (double)e->gap_ns, usual_ns = share * e->usual.usual_gap_ns;
	struct clock_part part = part_of(e, ns, usual_ns);
	clock_add_gap(&l->clock, &part);
	if (isnan(e->usual.gap_z))
		return;
	add_z(&l->gap, e->usual.gap_z);
	l->gap.ns += ns;
	l->gap.usual_ns += usual_ns;
	struct window_key *k = e->explains ? follow(l, e->keyed.number, ns - usual_ns) : NULL;
	if (!k)
		return;
	k->gap_ns += ns;
	k->usual_gap_ns += usual_ns;
}

/* ---- features ---- */

static double ratio(const struct window_sum *s)
{
	return s->count >= WINDOWS_LEAST_SUM && s->ns > 0 && s->usual_ns > 0
		       ? log(s->ns / s->usual_ns)
		       : NAN;
}

static double mean_z(const struct window_sum *s)
{
	return s->count >= WINDOWS_LEAST_SUM ? s->z / s->count : NAN;
}

static double spread(const struct window_sum *s)
{
	if (s->count < WINDOWS_LEAST)
		return NAN;
	double mean = s->z / s->count, variance = s->z_squared / s->count - mean * mean;
	return log(sqrt(variance > 0 ? variance : 0) + SPREAD_LEAST);
}

/* The transformation makes the variance of a share about the same for all shares. */
static double share_of(uint32_t part, uint32_t whole)
{
	return whole >= WINDOWS_LEAST ? asin(sqrt((double)part / whole)) : NAN;
}

void window_features(const struct window_layer *l, struct feature_row *row)
{
	const double x[] = {
		ratio(&l->duration),
		ratio(&l->gap),
		mean_z(&l->duration),
		mean_z(&l->gap),
		spread(&l->duration),
		share_of(l->duration.tail, l->duration.count),
		share_of(l->gap.tail, l->gap.count),
		share_of(l->errors, l->calls),
		row->pace > 0 ? -log(row->pace) : NAN,
		ratio(&l->device),
		mean_z(&l->device),
		share_of(l->device.tail, l->device.count),
	};
	uint32_t n;
	features_of(row->layer, &n);
	row->events = l->events;
	for (uint32_t i = 0; i < FEATURES_MOST; i++)
		row->x[i] = i < n && i < sizeof(x) / sizeof(x[0]) ? x[i] : NAN;
}

static double excess(const struct window_key *k)
{
	return k->total_ns - k->usual_ns + k->gap_ns - k->usual_gap_ns;
}

static int compare_excess(const void *a, const void *b)
{
	double x = excess(a), y = excess(b);
	return x > y ? -1 : x < y;
}

void window_explain(const struct window_layer *l, struct window_detail *ret,
		    struct window_key keys[WINDOWS_KEYS])
{
	struct window_key sorted[WINDOW_CANDIDATES];
	memcpy(sorted, l->of_keys, l->keys_len * sizeof(*sorted));
	qsort(sorted, l->keys_len, sizeof(*sorted), compare_excess);
	uint32_t n = l->keys_len < WINDOWS_KEYS ? l->keys_len : WINDOWS_KEYS;
	memcpy(keys, sorted, n * sizeof(*keys));
	*ret = (struct window_detail){.events = l->events,
				      .known = l->duration.count + l->device.count,
				      .total_ns = l->duration.ns,
				      .usual_ns = l->duration.count ? l->duration.usual_ns : NAN,
				      .gap_ns = l->gap.ns,
				      .usual_gap_ns = l->gap.count ? l->gap.usual_ns : NAN,
				      .device_ns = l->device.ns,
				      .usual_device_ns = l->device.usual_ns,
				      .errors = l->errors,
				      .keys = keys,
				      .keys_len = n};
}
