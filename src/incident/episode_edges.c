/* episode_edges.c - from which moment to which an anomaly reaches within its first and last
 * window: by how many events there were and how far out they lay, in bins of a hundredth of a
 * window. Marks nothing.
 *
 * A job that is slower has fewer events a second, one that does more beside has more: where the
 * window before was normal, the rate of the usual windows goes over into that of the anomaly's at
 * the moment that makes the counts likeliest (of two Poisson processes), be it in the window
 * before. Where the rates are alike and the first window is much less unlikely than the others,
 * only the events after its onset are anomalous: where the sum of z - EDGE_SLACK over the bins is
 * lowest before its highest. So are, of a last window that is much less unlikely, those before its
 * end, whatever the rates are. */
#include "incident/episode_events.h"

#include <math.h>
#include <stdlib.h>

#define EDGE_BINS  100 /* of a window */
#define EDGE_SLACK 1.0
#define EDGE_RATES 0.1 /* |ln| of rates that differ */
#define LEAST_RATE 16  /* events a window that a rate needs */

struct edge {
	uint64_t start_ns, bin_ns;
	uint32_t counts[2 * EDGE_BINS]; /* of two windows */
	float evidence[2 * EDGE_BINS];
};

struct edges {
	struct edge begin; /* the window before and the first */
	struct edge end;   /* the last */
};

void edges_reset(struct episode *e, uint64_t window_ns)
{
	uint64_t bin = window_ns / EDGE_BINS;
	if (e->first_end_ns < 2 * window_ns)
		return;
	if (!e->edges)
		e->edges = xcalloc(1, sizeof(*e->edges));
	*e->edges = (struct edges){.begin = {.start_ns = e->first_end_ns - 2 * window_ns},
				   .end = {.start_ns = e->last_start_ns}};
	e->edges->begin.bin_ns = e->edges->end.bin_ns = bin ? bin : 1;
}

uint64_t edges_from(const struct episode *e, uint64_t window_ns)
{
	return e->a.start_ns > window_ns ? e->a.start_ns - window_ns : 0;
}

static void edge_count(struct edge *to, const struct held_event *ev)
{
	uint64_t bin = (ev->start_ns - to->start_ns) / to->bin_ns;
	if (ev->start_ns < to->start_ns || bin >= 2 * EDGE_BINS)
		return;
	double z = isfinite(ev->z) ? ev->z : 0, gap = isfinite(ev->gap_z) ? ev->gap_z : 0;
	to->counts[bin]++;
	to->evidence[bin] += (float)(fmax(z, gap) - EDGE_SLACK);
}

void edges_count(struct episode *e, const struct held_event *ev)
{
	if (!e->edges)
		return;
	edge_count(&e->edges->begin, ev);
	edge_count(&e->edges->end, ev);
}

/* ---- by rates ---- */

static double mean_inside(const struct episode *e)
{
	return e->a.windows > 2
		       ? (e->events - e->first_events - e->last_events) / (double)(e->a.windows - 2)
		       : NAN;
}

/* Where the rate before goes over into that after: bins before that. */
static uint32_t changes_at(const struct edge *of, uint32_t from, uint32_t to, double before,
			   double after)
{
	double each = log(before / after), bin = (before - after) / EDGE_BINS, sum = 0, best = 0;
	uint32_t ret = from;
	for (uint32_t i = from; i < to; i++) {
		sum += of->counts[i] * each - bin;
		if (sum > best) {
			best = sum;
			ret = i + 1;
		}
	}
	return ret;
}

static bool rates_differ(const struct episode *e)
{
	double inside = mean_inside(e);
	return e->usual_events >= LEAST_RATE && inside > 0 &&
	       fabs(log(inside / e->usual_events)) > EDGE_RATES;
}

/* ---- by evidence ---- */

/* Where in its first window the evidence begins to rise. */
static void rise(struct episode *e)
{
	const struct edge *of = &e->edges->begin;
	double sum = 0, lowest = 0, best = 0;
	uint32_t since = EDGE_BINS;
	for (uint32_t i = EDGE_BINS; i < 2 * EDGE_BINS; i++) {
		if (sum <= lowest) {
			lowest = sum;
			since = i;
		}
		sum += of->evidence[i];
		if (sum - lowest > best) {
			best = sum - lowest;
			e->from_ns = of->start_ns + since * of->bin_ns;
		}
	}
}

/* And in its last ends to: the stretch of the highest sum. */
static void fall(struct episode *e)
{
	const struct edge *of = &e->edges->end;
	double sum = 0, best = 0;
	for (uint32_t i = 0; i < EDGE_BINS; i++) {
		sum += of->evidence[i];
		if (sum > best) {
			best = sum;
			e->to_ns = of->start_ns + (i + 1) * of->bin_ns;
		}
	}
}

/* A window at an edge that is as unlikely as those between is anomalous as a whole where rates tell
 * nothing: of many faults most events tell nothing. Nor does one whose events tell nothing have an
 * edge. */
void edges_find(struct episode *e)
{
	e->from_ns = e->a.start_ns;
	e->to_ns = e->a.end_ns;
	if (!e->edges)
		return;
	if (rates_differ(e)) {
		const struct edge *of = &e->edges->begin;
		uint32_t first = e->before_ns < e->a.start_ns ? 0 : EDGE_BINS;
		e->from_ns =
			of->start_ns + of->bin_ns * changes_at(of, first, 2 * EDGE_BINS,
							       e->usual_events, mean_inside(e));
	} else if (e->first_rarity < episode_half_rarity(e)) {
		rise(e);
	}
	if (e->last_rarity < episode_half_rarity(e))
		fall(e);
}
