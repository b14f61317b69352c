/* evidence_own.c - what calls took by themselves, less what others within them lost, and how many
 * are not within one of the same name: a second time through the calls, as what is usual is known.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "detect/own_time.h"
#include "incident/evidence_impl.h"

/* Of the excess: calls that took less more are not worth another look. */
#define WORTH_A_LOOK 0.1

/* A thread's last calls, to know which are within one of the same name. */
#define RECENT 64
struct recent {
	uint64_t start_ns, end_ns;
	double own_ns;
	uint32_t probe;
	bool inner;
};
struct recents {
	size_t n; /* so many came */
	struct recent calls[RECENT];
};

/* What a call within others usually takes. What is not called usually is work of the call around
 * it; but collections and waits for others have their time themselves. */
static double usual_of(const struct gathering *g, const struct track *k, const struct m_call *c)
{
	const struct call_sum was =
		evidence_sum_of(&g->sums.data[k->usual_sums].calls, &g->probes, c->probe);
	const char *layer = strtab_get(&g->t->strings, g->t->probes.data[c->probe].layer, NULL);
	if (was.n > 0)
		return was.ns / was.n;
	return strcmp(layer, "torch") == 0 || strcmp(layer, "cuda") == 0 ? (double)c->dur_ns : NAN;
}

static const struct track *first_track(const struct gathering *g, uint32_t pid)
{
	for (size_t i = 0; i < g->tracks.len; i++)
		if (g->tracks.data[i].pid == pid)
			return &g->tracks.data[i];
	return NULL;
}

static void count_own(struct gathering *g, uint32_t pid, const struct recent *r, double times)
{
	for (size_t k = 0; k < g->tracks.len; k++) {
		struct sums *s = g->tracks.data[k].pid == pid
					 ? evidence_sums_at(g, &g->tracks.data[k], r->end_ns)
					 : NULL;
		if (!s)
			continue;
		struct call_sum *of = evidence_sum_at(&s->calls, &g->probes, r->probe);
		of->own_ns += times * r->own_ns;
		of->outer_n += times;
	}
}

/* Calls come in order of their ends. What a function called of itself (operators have variants of
 * one name) is no call of its own: it is counted no longer. */
static void add_recent(struct gathering *g, uint32_t pid, const struct m_call *c, double own_ns)
{
	struct recents *of = &g->recents[c->thread];
	const struct m_probe *probes = g->t->probes.data;
	struct recent now = {c->start_ns, c->start_ns + c->dur_ns, own_ns, c->probe, false};
	for (size_t i = 1; i <= RECENT && i <= of->n; i++) {
		struct recent *r = &of->calls[(of->n - i) % RECENT];
		if (r->start_ns < c->start_ns)
			break;
		if (r->inner || probes[r->probe].name != probes[c->probe].name)
			continue;
		r->inner = true;
		count_own(g, pid, r, -1);
	}
	count_own(g, pid, &now, 1);
	of->calls[of->n++ % RECENT] = now;
}

static void find_backward(struct gathering *g)
{
	g->backward = 0;
	for (size_t i = 0; i < g->t->probes.len; i++)
		if (!strcmp(strtab_get(&g->t->strings, g->t->probes.data[i].role, NULL),
			    "backward"))
			g->backward = g->t->probes.data[i].role;
}

/* A backward pass runs on threads of its own while it is waited for. */
static bool is_backward(const struct gathering *g, const struct m_call *c)
{
	return g->backward && g->t->probes.data[c->probe].role == g->backward;
}

/* A function of Python within an operator is work of that, and so is what it calls. */
static bool is_asked(const struct gathering *g, const struct m_call *c)
{
	return g->asked[c->thread] && g->t->probes.data[c->probe].name_arg < 0;
}

static void add_own_call(struct gathering *g, const struct m_call *c)
{
	const struct track *first = first_track(g, g->t->threads.data[c->thread].pid);
	if (!first)
		return;
	double own = own_time_ns(g->own, &(struct own_call){.pid = first->pid,
							    .tid = c->thread,
							    .start_ns = c->start_ns,
							    .dur_ns = c->dur_ns,
							    .usual_ns = usual_of(g, first, c),
							    .waits = is_backward(g, c)});
	add_recent(g, first->pid, c, own);
}

static int by_end(const void *a, const void *b)
{
	const struct m_call *x = *(const struct m_call *const *)a;
	const struct m_call *y = *(const struct m_call *const *)b;
	uint64_t x_ns = x->start_ns + x->dur_ns, y_ns = y->start_ns + y->dur_ns;
	if (x_ns != y_ns)
		return x_ns < y_ns ? -1 : 1;
	return x < y ? -1 : x > y; /* a thread's are in their order */
}

/* A block has one thread's behind another's: what is waited for has to come before the pass that
 * waits. What ends in the next block is not known then: of 64 Ki calls that is little. */
static void add_own(void *ctx, const struct visited_rows *rows)
{
	struct gathering *g = ctx;
	const struct m_call *calls = rows->rows;
	const struct m_call **order = xcalloc(rows->len + 1, sizeof(const struct m_call *));
	size_t n = 0;
	for (size_t i = 0; i < rows->len; i++)
		if (is_asked(g, &calls[i]))
			order[n++] = &calls[i];
	if (g->backward)
		qsort(order, n, sizeof(const struct m_call *), by_end);
	for (size_t i = 0; i < n; i++)
		add_own_call(g, order[i]);
	free(order);
}

/* Whether calls grew that much, each of them, that it matters what they took by themselves. */
static bool is_worth_a_look(const struct evidence *e)
{
	for (size_t i = 0; i < e->calls.len; i++) {
		const struct call_growth *c = &e->calls.data[i];
		double usual = c->usual_n > 0 ? c->n * c->usual_ns / c->usual_n : c->ns;
		if (c->ns - usual > WORTH_A_LOOK * evidence_excess(e))
			return true;
	}
	return false;
}

void evidence_add_own(struct evidence *ret, const uint32_t *track, const uint32_t *sums, size_t n,
		      struct gathering *g, const struct row_source *s)
{
	bool worth = false;
	for (size_t i = 0; i < n; i++)
		worth |= is_worth_a_look(&ret[i]);
	if (!worth)
		return;
	find_backward(g);
	g->own = own_times_new();
	g->recents = xcalloc(g->t->threads.len + 1, sizeof(*g->recents));
	rows_read(s, ROW_CALL, add_own, g);
	own_times_free(g->own);
	free(g->recents);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < ret[i].calls.len; k++) {
			struct call_growth *c = &ret[i].calls.data[k];
			const struct call_sum is =
				evidence_sum_of(&g->sums.data[sums[i]].calls, &g->probes, c->probe);
			const struct call_sum was = evidence_sum_of(
				&g->sums.data[g->tracks.data[track[i]].usual_sums].calls,
				&g->probes, c->probe);
			double scale = was.n > 0 ? c->usual_n / was.n : 0;
			c->own_ns = is.own_ns;
			c->usual_own_ns = scale * was.own_ns;
			c->outer_n = is.outer_n;
			c->usual_outer_n = scale * was.outer_n;
		}
}
