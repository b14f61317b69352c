/* evidence.c - reads calls, counters and GPU work of slow and of usual stretches. */
#include "incident/evidence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map64.h"

struct gathering {
	struct evidence *e;
	const struct evidence_spans *spans;
	uint32_t pid;
	double scale;			     /* of usual time to that of as much work */
	double *n, *ns, *un, *uns;	     /* by probe: calls and their time; usual ones */
	double *sum, *count, *usum, *ucount; /* by metric */
};

/* ---- which stretch a time is in ---- */

static bool is_within(const struct blame_span *spans, size_t len, uint64_t ns)
{
	size_t low = 0, n = len;
	while (low < n) {
		size_t middle = low + (n - low) / 2;
		if (spans[middle].to_ns > ns)
			n = middle;
		else
			low = middle + 1;
	}
	return low < len && spans[low].from_ns <= ns;
}

static bool is_slow(const struct gathering *g, uint64_t ns)
{
	return is_within(g->spans->slow.data, g->spans->slow.len, ns);
}

static bool is_usual(const struct gathering *g, uint64_t ns)
{
	return is_within(g->spans->usual.data, g->spans->usual.len, ns);
}

/* ---- calls ---- */

static void add_calls(void *ctx, const struct visited_rows *rows)
{
	struct gathering *g = ctx;
	const struct rec_tables *t = g->e->t;
	const struct m_call *calls = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_call *c = &calls[i];
		if (t->threads.data[c->thread].pid != g->pid)
			continue;
		uint64_t end_ns = c->start_ns + c->dur_ns;
		if (is_slow(g, end_ns)) {
			g->n[c->probe]++;
			g->ns[c->probe] += (double)c->dur_ns;
		} else if (is_usual(g, end_ns)) {
			g->un[c->probe]++;
			g->uns[c->probe] += (double)c->dur_ns;
		}
	}
}

static void read_calls(struct gathering *g, const struct row_source *s)
{
	size_t n = g->e->t->probes.len + 1;
	g->n = xcalloc(n, sizeof(double));
	g->ns = xcalloc(n, sizeof(double));
	g->un = xcalloc(n, sizeof(double));
	g->uns = xcalloc(n, sizeof(double));
	rows_read(s, ROW_CALL, add_calls, g);
	for (uint32_t i = 0; i < g->e->t->probes.len; i++)
		if (g->n[i] > 0 || g->un[i] > 0)
			*vec_push(&g->e->calls) =
				(struct call_growth){.probe = i,
						     .n = g->n[i],
						     .usual_n = g->scale * g->un[i],
						     .ns = g->ns[i],
						     .usual_ns = g->scale * g->uns[i]};
	free(g->n);
	free(g->ns);
	free(g->un);
	free(g->uns);
}

/* ---- counters ---- */

static void add_counters(void *ctx, const struct visited_rows *rows)
{
	struct gathering *g = ctx;
	const struct m_counter *counters = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_counter *c = &counters[i];
		if (isnan(c->value))
			continue;
		if (c->time_ns >= g->e->from_ns && c->time_ns < g->e->to_ns) {
			g->sum[c->metric] += c->value;
			g->count[c->metric]++;
		} else if (is_usual(g, c->time_ns)) {
			g->usum[c->metric] += c->value;
			g->ucount[c->metric]++;
		}
	}
}

static void read_counters(struct gathering *g, const struct row_source *s)
{
	size_t n = g->e->t->metrics.len + 1;
	g->sum = xcalloc(n, sizeof(double));
	g->count = xcalloc(n, sizeof(double));
	g->usum = xcalloc(n, sizeof(double));
	g->ucount = xcalloc(n, sizeof(double));
	rows_read(s, ROW_COUNTER, add_counters, g);
	for (uint32_t i = 0; i < g->e->t->metrics.len; i++)
		*vec_push(&g->e->counters) = (struct counter_change){
			.metric = i,
			.mean = g->count[i] > 0 ? g->sum[i] / g->count[i] : NAN,
			.usual = g->ucount[i] > 0 ? g->usum[i] / g->ucount[i] : NAN};
	free(g->sum);
	free(g->count);
	free(g->usum);
	free(g->ucount);
}

/* ---- the GPU ---- */

static void read_kernels(struct gathering *g, const struct timeline *t)
{
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		const struct timeline_kind *k = timeline_kind_of(t, s);
		if (k->pid != g->pid || k->work != WORK_KERNEL)
			continue;
		double ns = (double)(s->end_ns - s->start_ns);
		if (is_slow(g, s->start_ns)) {
			g->e->kernels_n++;
			g->e->kernels_ns += ns;
		} else if (is_usual(g, s->start_ns)) {
			g->e->usual_kernels_n += g->scale;
			g->e->usual_kernels_ns += g->scale * ns;
		}
	}
}

/* ---- all of it ---- */

static double usual_length(const struct evidence_spans *spans)
{
	double ns = 0;
	for (size_t i = 0; i < spans->usual.len; i++)
		ns += (double)(spans->usual.data[i].to_ns - spans->usual.data[i].from_ns);
	return ns;
}

void evidence_make(struct evidence *ret, struct blame *each, const struct row_source *s,
		   const struct timeline *t, const struct blame_world *w,
		   const struct evidence_spans *spans)
{
	double usual_ns = usual_length(spans);
	*ret = (struct evidence){.t = s->tables,
				 .thread = spans->slow.data[0].thread,
				 .n_slow = spans->slow.len,
				 .n_usual = spans->usual.len,
				 .from_ns = spans->slow.data[0].from_ns,
				 .to_ns = spans->slow.data[spans->slow.len - 1].to_ns};
	ret->pid = s->tables->threads.data[ret->thread].pid;
	blame_make(&ret->blame, each, w, spans->slow.data, spans->slow.len, spans->usual.data,
		   spans->usual.len);
	struct gathering g = {.e = ret,
			      .spans = spans,
			      .pid = ret->pid,
			      .scale = usual_ns > 0 ? ret->blame.usual_ns / usual_ns : 0};
	read_calls(&g, s);
	read_counters(&g, s);
	read_kernels(&g, t);
}

void evidence_free(struct evidence *e)
{
	blame_free(&e->blame);
	vec_free(&e->calls);
	vec_free(&e->counters);
}

const struct counter_change *evidence_counter(const struct evidence *e, unsigned kind,
					      const char *name)
{
	const struct counter_change *ret = NULL;
	double most = -1;
	for (size_t i = 0; i < e->counters.len; i++) {
		const struct counter_change *c = &e->counters.data[i];
		const struct m_metric *m = &e->t->metrics.data[c->metric];
		if (m->kind != kind || isnan(c->mean) ||
		    strcmp(strtab_get(&e->t->strings, m->name, NULL), name) != 0)
			continue;
		double differs = isnan(c->usual) ? 0 : fabs(c->mean - c->usual);
		if (differs > most) {
			most = differs;
			ret = c;
		}
	}
	return ret;
}
