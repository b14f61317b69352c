/* outlook_rules.c - which counters are looked at, and when what they do is worth a warning. Whether
 * something grows is trend.h's. */
#include <math.h>
#include <string.h>

#include "incident/outlook_impl.h"

#define MIB (1024.0 * 1024)

/* Growth has been seen for so long at least. What is still under way may be a model that is loaded,
 * or data: it is told later, but where more than half of what there was has gone already. In
 * hindsight that has ended, or the recording has. */
#define SPAN_LEAST_S	    12
#define SPAN_RUNNING_S	    30
#define SPAN_LEAK_RUNNING_S 60
#define SPAN_FILES_S	    60 /* values come every 5 s, and files are written in turns */

#define LEFT_MOST_S	  (30 * 60)  /* memory: what is further off will change before */
#define LEFT_FILES_MOST_S (6 * 3600) /* nobody clears a disk in half an hour at night */
#define LEFT_HEAT_MOST_S  (10 * 60)  /* a GPU is warm within minutes */
#define AHEAD		  10	     /* times as long as it was seen: no further is guessed */
#define GROWN_LEAST	  (8 * MIB)  /* less is noise of pages and pools */
#define LEAK_LEAST	  (32 * MIB) /* the arenas of allocators are up to 64 MiB, taken bit by bit */
#define LEAK_SHARE	  0.01	     /* of what it has */
#define LEAK_LIFE	  0.25	     /* of the time in which it was seen */

#define HEAT_WINDOW_NS (30 * S)
#define HEAT_LEAST     3    /* degrees in it: they are whole numbers */
#define HEAT_NEAR      20   /* degrees below the limit: from further off it settles first */
#define HEAT_STRAIGHT  0.95 /* of the difference before: from here on it rises in a line */

#define RESENT_WINDOW_NS (15 * S)
#define RESENT_LEAST	 1    /* a second, of a process */
#define RESENT_HOST	 10   /* a second, of all that the host sends, to anywhere */
#define RESENT_SHARE	 1e-3 /* of its segments: TCP's speed falls with the root of it */
#define SEGMENT_BYTES	 1448 /* of a frame of 1,500 */

static double span_s(const struct trend_growth *g)
{
	return (double)(g->until_ns - g->since_ns) / 1e9;
}

static double value_of(const struct series *s, double in_trend)
{
	return s->of->falls ? -in_trend : in_trend;
}

void outlook_fill_in(const struct series *s, const struct trend_growth *g,
		     struct outlook_warning *ret)
{
	*ret = (struct outlook_warning){
		.of = s->who,
		.name = s->own_name || !s->of->instead ? s->of->name : s->of->instead,
		.value = value_of(s, s->trend.last),
		.from = g ? value_of(s, g->from) : NAN,
		.limit = NAN,
		.per_s = g ? g->per_s : NAN,
		.left_s = NAN,
		.share = NAN,
		.since_ns = g ? g->since_ns : s->first_ns,
		.now_ns = s->last_ns,
	};
}

/* How long until there is no more, where that can be told from growth that was seen so long. */
static bool ends_within(const struct series *s, double most_s, struct outlook_warning *ret)
{
	struct trend_growth g;
	double limit = s->of->falls ? 0 : s->beside;
	if (isnan(limit) || !trend_steady(&s->trend, &g))
		return false;
	double per_s = g.per_s - (s->of->beside && g.beside_per_s > 0 ? g.beside_per_s : 0);
	double margin = limit > s->trend.last ? limit - s->trend.last : 0;
	double left_s = per_s > 0 ? margin / per_s : INFINITY;
	outlook_fill_in(s, &g, ret);
	ret->limit = s->of->falls ? NAN : limit;
	ret->left_s = left_s;
	return left_s <= most_s && left_s <= AHEAD * span_s(&g) && g.to - g.from >= GROWN_LEAST;
}

static double seen_s(const struct outlook_warning *w)
{
	return (double)(w->now_ns - w->since_ns) / 1e9;
}

static bool runs_out(const struct outlook *o, const struct series *s, struct outlook_warning *ret)
{
	if (!ends_within(s, LEFT_MOST_S, ret))
		return false;
	ret->kind = OUTLOOK_RUNS_OUT;
	return seen_s(ret) >= SPAN_RUNNING_S ||
	       (seen_s(ret) >= SPAN_LEAST_S && (o->options.whole || ret->left_s <= seen_s(ret)));
}

static bool fills(const struct outlook *o, const struct series *s, struct outlook_warning *ret)
{
	(void)o;
	if (!ends_within(s, LEFT_FILES_MOST_S, ret))
		return false;
	ret->kind = OUTLOOK_FILLS;
	return seen_s(ret) >= SPAN_FILES_S;
}

bool outlook_leaks(const struct outlook *o, const struct series *s, struct outlook_warning *ret)
{
	struct trend_growth g;
	double life_s = (double)(s->trend.last_ns - s->trend.first_ns) / 1e9;
	if (!trend_steady(&s->trend, &g))
		return false;
	outlook_fill_in(s, &g, ret);
	ret->kind = OUTLOOK_LEAK;
	return span_s(&g) >= (o->options.whole ? SPAN_LEAST_S : SPAN_LEAK_RUNNING_S) &&
	       span_s(&g) >= LEAK_LIFE * life_s && g.to - g.from >= LEAK_LEAST &&
	       g.to - g.from >= LEAK_SHARE * g.to;
}

bool outlook_is_same_gpu(const struct entity *a, const struct entity *b)
{
	return a->gpu == b->gpu && a->instance == b->instance && a->host_len == b->host_len &&
	       !memcmp(a->host, b->host, a->host_len);
}

/* Whose memory grows is told of processes, where the driver tells what each has. */
static bool device(const struct outlook *o, const struct series *s, struct outlook_warning *ret)
{
	bool by_process = false;
	if (runs_out(o, s, ret))
		return true;
	for (uint32_t i = 0; i < o->len && !by_process; i++)
		by_process = o->series[i]->of && o->series[i]->of->of_pid &&
			     outlook_is_same_gpu(&o->series[i]->who, &s->who);
	return !by_process && outlook_leaks(o, s, ret);
}

/* Three means of equal times: those of a GPU that settles come ever nearer to each other, and their
 * differences, which then fall in one ratio, say where it settles. */
static bool means(const struct trend *t, uint64_t window_ns, double ret[3])
{
	double n[3] = {0};
	uint64_t from_ns = t->last_ns - window_ns;
	memset(ret, 0, 3 * sizeof(*ret));
	for (uint32_t i = 0; i < t->recent.len; i++) {
		const struct trend_point *p = &t->recent.at[i];
		if (p->begin_ns < from_ns)
			continue;
		size_t third = (size_t)((p->begin_ns - from_ns) * 3 / (window_ns + 1));
		ret[third] += p->low;
		n[third]++;
	}
	for (int i = 0; i < 3; i++)
		ret[i] /= n[i];
	return n[0] >= 3 && n[1] >= 3 && n[2] >= 3;
}

static bool heats(const struct outlook *o, const struct series *s, struct outlook_warning *ret)
{
	const struct trend *t = &s->trend;
	double mean[3], third_s = (double)HEAT_WINDOW_NS / 3e9;
	(void)o;
	if (isnan(s->beside) || t->last_ns - t->first_ns < HEAT_WINDOW_NS ||
	    !means(t, HEAT_WINDOW_NS, mean))
		return false;
	double before = mean[1] - mean[0], step = mean[2] - mean[1], ratio = step / before;
	double margin = s->beside - t->last, thirds = margin / step;
	if (before <= 0 || step <= 0 || before + step < HEAT_LEAST || margin <= 0 ||
	    margin > HEAT_NEAR)
		return false;
	if (ratio < HEAT_STRAIGHT)
		thirds = log(1 - margin * (1 - ratio) / (step * ratio)) / log(ratio);
	outlook_fill_in(s, NULL, ret);
	ret->kind = OUTLOOK_HEATS;
	ret->from = mean[0];
	ret->since_ns = t->last_ns - HEAT_WINDOW_NS;
	ret->limit = s->beside;
	ret->per_s = step / third_s;
	ret->left_s = thirds * third_s;
	return ret->left_s <= LEFT_HEAT_MOST_S; /* false where it settles before: NAN */
}

/* By how much it grew in the third of the window that ends so many before the last. */
static double grew(const struct trend *t, unsigned before)
{
	uint64_t third_ns = RESENT_WINDOW_NS / 3, end_ns = t->last_ns - before * third_ns;
	const struct trend_point *from = trend_at(t, end_ns - third_ns), *to = trend_at(t, end_ns);
	return !from || !to ? NAN : (before ? to->low : t->last) - from->low;
}

bool outlook_resends(const struct outlook *o, const struct series *s, struct outlook_warning *ret)
{
	const struct trend *t = &s->trend;
	double sum = 0, window_s = (double)RESENT_WINDOW_NS / 1e9;
	double least = (s->of->is_rate ? RESENT_HOST : RESENT_LEAST) * window_s / 3;
	(void)o;
	if (t->last_ns - t->first_ns < RESENT_WINDOW_NS)
		return false;
	for (unsigned before = 0; before < 3; before++) {
		double by = grew(t, before);
		if (!(by >= least))
			return false;
		sum += by;
	}
	outlook_fill_in(s, NULL, ret);
	ret->kind = OUTLOOK_RESENDS;
	ret->value = sum;
	ret->from = 0;
	ret->since_ns = t->last_ns - RESENT_WINDOW_NS;
	ret->per_s = sum / window_s;
	const struct trend_point *begin = trend_at(t, ret->since_ns);
	if (s->of->beside && s->beside > begin->beside)
		ret->share = sum * SEGMENT_BYTES / (s->beside - begin->beside);
	ret->share = ret->share > 1 ? 1 : ret->share;
	return isnan(ret->share) || ret->share >= RESENT_SHARE;
}

/* ---- the table ---- */

const struct thing outlook_things[] = {
	{ENTITY_GPU, false, false, false, "memory_used_bytes", "memory_total_bytes", NULL, device},
	{ENTITY_GPU, true, false, false, "memory_used_bytes", NULL, NULL, outlook_leaks},
	{ENTITY_GPU, false, false, false, "temperature_celsius", "temperature_slowdown_celsius",
	 NULL, heats},
	{ENTITY_GPU, false, false, false, "ecc_corrected_errors", NULL, NULL, NULL},
	{ENTITY_GPU, false, false, false, "ecc_uncorrected_errors", NULL, NULL, NULL},
	{ENTITY_GPU, false, false, false, "remapped_rows", NULL, NULL, NULL},
	{ENTITY_CGROUP, false, false, false, "memory_unreclaimable_bytes", "memory_limit_bytes",
	 NULL, runs_out},
	{ENTITY_HOST, false, true, false, "memory_available_bytes", NULL, NULL, runs_out},
	{ENTITY_HOST, false, false, true, "tcp_retransmits_per_s", NULL, NULL, outlook_resends},
	{ENTITY_FILESYSTEM, false, true, false, "available_bytes", NULL, NULL, fills},
	{ENTITY_PROCESS, false, false, false, "rss_anon_bytes", NULL, "rss_bytes", outlook_leaks},
	{ENTITY_PROCESS, false, false, false, "net_retransmits", "net_sent_bytes", NULL,
	 outlook_resends},
};
const size_t outlook_things_len = sizeof(outlook_things) / sizeof(outlook_things[0]);
