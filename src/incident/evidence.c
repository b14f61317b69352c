/* evidence.c - reads calls, counters and GPU work of slow and of usual stretches: once for all
 * incidents. What of the host is the victim's is told by evidence_host.c. */
#include "incident/evidence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/entity.h"
#include "detect/own_time.h"

/* Of the excess: calls that took less more are not worth another look. */
#define WORTH_A_LOOK 0.1

/* A stretch of a process, and whose sums what lies in it adds to. */
struct place {
	uint64_t from_ns, to_ns;
	uint32_t sums; /* index */
};
typedef VEC(struct place) places_t;

struct call_sum {
	double n, ns;
	double own_ns, outer_n; /* of calls: by themselves; not within one of the same name */
};

/* Of a question's slow stretches, or of usual ones. */
struct sums {
	struct call_sum *calls;	   /* by probe */
	struct call_sum *counters; /* by metric: values, and their sum */
	struct call_sum kernels;
	VEC(struct stall_growth) stalls;   /* ns alone */
	VEC(struct sender_growth) senders; /* likewise */
	VEC(struct disk_growth) disks;	   /* bytes alone */
	double length_ns;
};

/* A counter that only grows: of what a process sent and received. */
/* Counters of what was since the value before, not of the moment. */
enum since_last { OF_MOMENT, TOTAL_SO_FAR, MEAN_SINCE };
struct last_value {
	enum since_last kind;
	double value; /* NaN: none came yet */
	uint64_t time_ns;
};

struct held_time {
	uint64_t from_ns, to_ns;
};

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

/* The stretches of a process. Those of steps and those of plain time may overlap, so that each list
 * of usual stretches is a list here as well. */
struct track {
	uint32_t pid;
	const struct evidence_usual *usual;
	uint32_t usual_sums;
	places_t places; /* in order of time, none overlaps another */
};

struct gathering {
	const struct rec_tables *t;
	VEC(struct track) tracks;
	VEC(struct sums) sums;
	bool *asked;		 /* by thread: of a process with a track */
	struct last_value *last; /* by metric */
	struct own_times *own;
	struct recents *recents; /* by thread */
	uint32_t backward;	 /* string: the role of backward passes; 0: there are none */
};

/* ---- which stretch a time is in ---- */

/* The first place that ends after a time. */
static size_t first_place_after(const struct track *k, uint64_t ns)
{
	size_t low = 0, n = k->places.len;
	while (low < n) {
		size_t middle = low + (n - low) / 2;
		if (k->places.data[middle].to_ns > ns)
			n = middle;
		else
			low = middle + 1;
	}
	return low;
}

static struct sums *sums_at(struct gathering *g, const struct track *k, uint64_t ns)
{
	size_t i = first_place_after(k, ns);
	bool in = i < k->places.len && k->places.data[i].from_ns <= ns;
	return in ? &g->sums.data[k->places.data[i].sums] : NULL;
}

static uint32_t sums_new(struct gathering *g)
{
	*vec_push(&g->sums) =
		(struct sums){.calls = xcalloc(g->t->probes.len + 1, sizeof(struct call_sum)),
			      .counters = xcalloc(g->t->metrics.len + 1, sizeof(struct call_sum))};
	return (uint32_t)(g->sums.len - 1);
}

static void add_places(struct gathering *g, struct track *k, uint32_t sums,
		       const blame_spans_t *spans)
{
	for (size_t i = 0; i < spans->len; i++) {
		const struct blame_span *s = &spans->data[i];
		*vec_push(&k->places) = (struct place){s->from_ns, s->to_ns, sums};
		g->sums.data[sums].length_ns += (double)(s->to_ns - s->from_ns);
	}
}

static uint32_t track_of(struct gathering *g, const struct evidence_question *q)
{
	uint32_t pid = g->t->threads.data[q->slow.data[0].thread].pid;
	for (size_t i = 0; i < g->tracks.len; i++)
		if (g->tracks.data[i].pid == pid && g->tracks.data[i].usual == q->usual)
			return (uint32_t)i;
	uint32_t sums = sums_new(g);
	struct track *k = vec_push(&g->tracks);
	*k = (struct track){.pid = pid, .usual = q->usual, .usual_sums = sums};
	add_places(g, k, sums, &q->usual->spans);
	return (uint32_t)(g->tracks.len - 1);
}

static int by_start(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

/* ---- rows ---- */

static void add(struct call_sum *s, double value)
{
	s->n++;
	s->ns += value;
}

static void add_calls(void *ctx, const struct visited_rows *rows)
{
	struct gathering *g = ctx;
	const struct m_call *calls = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_call *c = &calls[i];
		uint32_t pid = g->t->threads.data[c->thread].pid;
		for (size_t k = 0; k < g->tracks.len && g->asked[c->thread]; k++) {
			struct sums *s =
				g->tracks.data[k].pid == pid
					? sums_at(g, &g->tracks.data[k], c->start_ns + c->dur_ns)
					: NULL;
			if (s)
				add(&s->calls[c->probe], (double)c->dur_ns);
		}
	}
}

/* What a call within others usually takes. What is not called usually is work of the call around
 * it; but collections and waits for others have their time themselves. */
static double usual_of(const struct gathering *g, const struct track *k, const struct m_call *c)
{
	const struct call_sum *was = &g->sums.data[k->usual_sums].calls[c->probe];
	const char *layer = strtab_get(&g->t->strings, g->t->probes.data[c->probe].layer, NULL);
	if (was->n > 0)
		return was->ns / was->n;
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
					 ? sums_at(g, &g->tracks.data[k], r->end_ns)
					 : NULL;
		if (!s)
			continue;
		s->calls[r->probe].own_ns += times * r->own_ns;
		s->calls[r->probe].outer_n += times;
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

static void add_own_call(struct gathering *g, const struct m_call *c)
{
	const struct track *first =
		g->asked[c->thread] ? first_track(g, g->t->threads.data[c->thread].pid) : NULL;
	/* A function of Python within an operator is work of that, and so is what it calls. */
	if (!first || g->t->probes.data[c->probe].name_arg >= 0)
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

/* A second time through the calls, as what is usual is known. A block has one thread's behind
 * another's: what is waited for has to come before the pass that waits. */
static void add_own(void *ctx, const struct visited_rows *rows)
{
	struct gathering *g = ctx;
	const struct m_call *calls = rows->rows;
	if (!g->backward) {
		for (size_t i = 0; i < rows->len; i++)
			add_own_call(g, &calls[i]);
		return;
	}
	const struct m_call **order = xcalloc(rows->len + 1, sizeof(const struct m_call *));
	for (size_t i = 0; i < rows->len; i++)
		order[i] = &calls[i];
	qsort(order, rows->len, sizeof(const struct m_call *), by_end);
	for (size_t i = 0; i < rows->len; i++)
		add_own_call(g, order[i]);
	free(order);
}

static enum since_last since_last_of(const char *name)
{
	static const char *const totals[] = {"net_sent_bytes", "net_received_bytes",
					     "net_retransmits", "net_resent_bytes", "net_timeouts"};
	for (size_t k = 0; k < sizeof(totals) / sizeof(totals[0]); k++)
		if (!strcmp(name, totals[k]))
			return TOTAL_SO_FAR;
	bool is_mean = !strcmp(name, "net_round_trip_ns") || !strcmp(name, "sent_bytes_per_s") ||
		       !strcmp(name, "received_bytes_per_s");
	return is_mean ? MEAN_SINCE : OF_MOMENT;
}

static void find_since_last(struct gathering *g)
{
	g->last = xcalloc(g->t->metrics.len + 1, sizeof(*g->last));
	for (size_t i = 0; i < g->t->metrics.len; i++) {
		const struct m_metric *m = &g->t->metrics.data[i];
		g->last[i].value = NAN;
		if (m->kind == ENTITY_PROCESS || m->kind == ENTITY_INTERFACE)
			g->last[i].kind = since_last_of(strtab_get(&g->t->strings, m->name, NULL));
	}
}

/* A value that holds for a while counts in each stretch for as long as it lies there: what is
 * shorter than from one value to the next has it too. */
static void add_while(struct gathering *g, const struct track *k, uint32_t metric,
		      const struct held_time *held, double value)
{
	for (size_t i = first_place_after(k, held->from_ns);
	     i < k->places.len && k->places.data[i].from_ns < held->to_ns; i++) {
		const struct place *p = &k->places.data[i];
		uint64_t from = p->from_ns > held->from_ns ? p->from_ns : held->from_ns;
		uint64_t to = p->to_ns < held->to_ns ? p->to_ns : held->to_ns;
		struct call_sum *s = &g->sums.data[p->sums].counters[metric];
		s->n += (double)(to - from) / 1e9;
		s->ns += (double)(to - from) / 1e9 * value;
	}
}

/* The value a second since the one before and *ret, the time that it is of; NaN: there is none
 * before, or a total fell. */
static double value_since(const struct last_value *last, const struct m_counter *c,
			  struct held_time *ret)
{
	const uint64_t usual = 1000000000; /* these are told once a second, where there is any */
	*ret = (struct held_time){last->time_ns, c->time_ns};
	if (c->time_ns <= last->time_ns)
		return NAN;
	if (last->kind == TOTAL_SO_FAR)
		return c->value >= last->value ? (c->value - last->value) * 1e9 /
							 (double)(c->time_ns - last->time_ns)
					       : NAN;
	if (c->time_ns - last->time_ns > usual)
		ret->from_ns = c->time_ns - usual;
	return c->value;
}

static void add_counter(struct gathering *g, const struct m_counter *c)
{
	struct last_value *last = &g->last[c->metric];
	struct held_time held = {0, 0};
	double value = last->kind ? value_since(last, c, &held) : c->value;
	*last = (struct last_value){last->kind, c->value, c->time_ns};
	for (size_t k = 0; k < g->tracks.len && !isnan(value); k++) {
		struct sums *s = last->kind ? NULL : sums_at(g, &g->tracks.data[k], c->time_ns);
		if (last->kind)
			add_while(g, &g->tracks.data[k], c->metric, &held, value);
		else if (s)
			add(&s->counters[c->metric], value);
	}
}

static void add_counters(void *ctx, const struct visited_rows *rows)
{
	const struct m_counter *counters = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		add_counter(ctx, &counters[i]);
}

static void add_kernels(struct gathering *g, const struct timeline *t)
{
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		const struct timeline_kind *kind = timeline_kind_of(t, s);
		for (size_t k = 0; k < g->tracks.len && kind->work == WORK_KERNEL; k++) {
			struct sums *sums = g->tracks.data[k].pid == kind->pid
						    ? sums_at(g, &g->tracks.data[k], s->start_ns)
						    : NULL;
			if (sums)
				add(&sums->kernels, (double)(s->end_ns - s->start_ns));
		}
	}
}

static struct stall_growth *stall_of(struct sums *s, uint8_t kind, uint32_t name)
{
	for (size_t i = 0; i < s->stalls.len; i++)
		if (s->stalls.data[i].kind == kind && s->stalls.data[i].name == name)
			return &s->stalls.data[i];
	struct stall_growth *ret = vec_push(&s->stalls);
	*ret = (struct stall_growth){.kind = kind, .name = name};
	return ret;
}

static struct sender_growth *sender_of(struct sums *s, const struct m_stall *r)
{
	for (size_t i = 0; i < s->senders.len; i++)
		if (s->senders.data[i].pid == r->sender_pid)
			return &s->senders.data[i];
	struct sender_growth *ret = vec_push(&s->senders);
	*ret = (struct sender_growth){.pid = r->sender_pid, .comm = r->sender};
	return ret;
}

static void add_stalls(void *ctx, const struct visited_rows *rows)
{
	struct gathering *g = ctx;
	const struct m_stall *stalls = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_stall *r = &stalls[i];
		uint32_t pid = g->t->threads.data[r->thread].pid;
		for (size_t k = 0; k < g->tracks.len; k++) {
			struct sums *s = g->tracks.data[k].pid == pid
						 ? sums_at(g, &g->tracks.data[k], r->start_ns)
						 : NULL;
			if (!s)
				continue;
			stall_of(s, r->kind, r->name)->ns += (double)r->own_ns;
			if (r->sender_pid && r->kind == STALL_SOFTIRQ)
				sender_of(s, r)->ns += (double)r->own_ns;
		}
	}
}

static struct disk_growth *disk_of(struct sums *s, const struct m_disk_io *r)
{
	for (size_t i = 0; i < s->disks.len; i++)
		if (s->disks.data[i].disk == r->disk && s->disks.data[i].pid == r->pid)
			return &s->disks.data[i];
	struct disk_growth *ret = vec_push(&s->disks);
	*ret = (struct disk_growth){.disk = r->disk, .pid = r->pid, .comm = r->comm};
	return ret;
}

/* Sums of a second each, that lie where their middle does. */
static void add_disks(void *ctx, const struct visited_rows *rows)
{
	struct gathering *g = ctx;
	const struct m_disk_io *ios = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_disk_io *r = &ios[i];
		uint64_t middle = r->since_ns + (r->until_ns - r->since_ns) / 2;
		for (size_t k = 0; k < g->tracks.len; k++) {
			struct sums *s = sums_at(g, &g->tracks.data[k], middle);
			if (s)
				disk_of(s, r)->bytes +=
					(double)r->read_bytes + (double)r->written_bytes;
		}
	}
}

/* ---- answers ---- */

/* The host's part; usual sums have what there is of the same. */
static void answer_host(struct evidence *ret, const struct sums *slow, const struct sums *usual,
			double scale)
{
	for (size_t i = 0; i < slow->stalls.len; i++) {
		struct stall_growth at = slow->stalls.data[i];
		for (size_t k = 0; k < usual->stalls.len; k++)
			if (usual->stalls.data[k].kind == at.kind &&
			    usual->stalls.data[k].name == at.name)
				at.usual_ns = scale * usual->stalls.data[k].ns;
		*vec_push(&ret->stalls) = at;
	}
	for (size_t i = 0; i < slow->senders.len; i++) {
		struct sender_growth at = slow->senders.data[i];
		for (size_t k = 0; k < usual->senders.len; k++)
			if (usual->senders.data[k].pid == at.pid)
				at.usual_ns = scale * usual->senders.data[k].ns;
		*vec_push(&ret->senders) = at;
	}
	for (size_t i = 0; i < slow->disks.len; i++) {
		struct disk_growth at = slow->disks.data[i];
		for (size_t k = 0; k < usual->disks.len; k++)
			if (usual->disks.data[k].disk == at.disk &&
			    usual->disks.data[k].pid == at.pid)
				at.usual_bytes = scale * usual->disks.data[k].bytes;
		*vec_push(&ret->disks) = at;
	}
}

static void answer(struct evidence *ret, const struct gathering *g, const struct sums *slow,
		   const struct sums *usual)
{
	double scale = usual->length_ns > 0 ? ret->blame.usual_ns / usual->length_ns : 0;
	for (uint32_t i = 0; i < g->t->probes.len; i++)
		if (slow->calls[i].n > 0 || usual->calls[i].n > 0)
			*vec_push(&ret->calls) =
				(struct call_growth){.probe = i,
						     .n = slow->calls[i].n,
						     .usual_n = scale * usual->calls[i].n,
						     .ns = slow->calls[i].ns,
						     .usual_ns = scale * usual->calls[i].ns};
	for (uint32_t i = 0; i < g->t->metrics.len; i++) {
		const struct call_sum *is = &slow->counters[i], *was = &usual->counters[i];
		if (!(is->n > 0) && !(was->n > 0))
			continue;
		*vec_push(&ret->counters) =
			(struct counter_change){.metric = i,
						.mean = is->n > 0 ? is->ns / is->n : NAN,
						.usual = was->n > 0 ? was->ns / was->n : NAN};
	}
	answer_host(ret, slow, usual,
		    usual->length_ns > 0 ? ret->blame.whole_ns / usual->length_ns : 0);
	ret->kernels_n = slow->kernels.n;
	ret->kernels_ns = slow->kernels.ns;
	ret->usual_kernels_n = scale * usual->kernels.n;
	ret->usual_kernels_ns = scale * usual->kernels.ns;
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

static void answer_own(struct evidence *ret, const uint32_t *track, const uint32_t *sums, size_t n,
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
			const struct call_sum *is = &g->sums.data[sums[i]].calls[c->probe];
			const struct call_sum *was =
				&g->sums.data[g->tracks.data[track[i]].usual_sums].calls[c->probe];
			double scale = was->n > 0 ? c->usual_n / was->n : 0;
			c->own_ns = is->own_ns;
			c->usual_own_ns = scale * was->own_ns;
			c->outer_n = is->outer_n;
			c->usual_outer_n = scale * was->outer_n;
		}
}

static void begin(struct evidence *ret, const struct evidence_question *q,
		  const struct row_source *s)
{
	*ret = (struct evidence){.t = s->tables,
				 .thread = q->slow.data[0].thread,
				 .by_steps = q->by_steps,
				 .n_slow = q->slow.len,
				 .n_usual = q->usual->spans.len,
				 .from_ns = q->slow.data[0].from_ns,
				 .to_ns = q->slow.data[q->slow.len - 1].to_ns};
	ret->pid = s->tables->threads.data[ret->thread].pid;
}

static void forget(struct gathering *g)
{
	for (size_t i = 0; i < g->tracks.len; i++)
		vec_free(&g->tracks.data[i].places);
	for (size_t i = 0; i < g->sums.len; i++) {
		free(g->sums.data[i].calls);
		free(g->sums.data[i].counters);
		vec_free(&g->sums.data[i].stalls);
		vec_free(&g->sums.data[i].senders);
		vec_free(&g->sums.data[i].disks);
	}
	vec_free(&g->tracks);
	vec_free(&g->sums);
	free(g->asked);
	free(g->last);
}

void evidence_make(struct evidence *ret, struct blame *const *each, const struct row_source *s,
		   const struct timeline *t, const struct blame_world *w,
		   const struct evidence_question *questions, size_t n)
{
	struct gathering g = {.t = s->tables};
	uint32_t *track = xcalloc(n + 1, sizeof(*track)), *sums = xcalloc(n + 1, sizeof(*sums));
	for (size_t i = 0; i < n; i++) {
		begin(&ret[i], &questions[i], s);
		track[i] = track_of(&g, &questions[i]);
		sums[i] = sums_new(&g);
		add_places(&g, &g.tracks.data[track[i]], sums[i], &questions[i].slow);
	}
	for (size_t i = 0; i < g.tracks.len; i++)
		if (g.tracks.data[i].places.len)
			qsort(g.tracks.data[i].places.data, g.tracks.data[i].places.len,
			      sizeof(struct place), by_start);
	find_since_last(&g);
	g.asked = xcalloc(s->tables->threads.len + 1, sizeof(*g.asked));
	for (size_t i = 0; i < s->tables->threads.len; i++)
		for (size_t k = 0; k < g.tracks.len; k++)
			g.asked[i] |= s->tables->threads.data[i].pid == g.tracks.data[k].pid;
	rows_read(s, ROW_CALL, add_calls, &g);
	rows_read(s, ROW_COUNTER, add_counters, &g);
	rows_read(s, ROW_STALL, add_stalls, &g);
	rows_read(s, ROW_DISK_IO, add_disks, &g);
	add_kernels(&g, t);
	for (size_t i = 0; i < n; i++) {
		const struct evidence_question *q = &questions[i];
		blame_make(&ret[i].blame, each ? each[i] : NULL, w, q->slow.data, q->slow.len,
			   q->usual->blame);
		ret[i].saving_frame = blame_saving_frame(w, q->slow.data, q->slow.len);
		answer(&ret[i], &g, &g.sums.data[sums[i]],
		       &g.sums.data[g.tracks.data[track[i]].usual_sums]);
	}
	answer_own(ret, track, sums, n, &g, s);
	forget(&g);
	free(track);
	free(sums);
}

void evidence_free(struct evidence *e)
{
	blame_free(&e->blame);
	vec_free(&e->calls);
	vec_free(&e->counters);
	vec_free(&e->stalls);
	vec_free(&e->senders);
	vec_free(&e->disks);
}
