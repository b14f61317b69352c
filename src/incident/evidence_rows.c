/* evidence_rows.c - calls, counters, the GPU's spans, stalls and disks, each into the sums of the
 * stretches that it lies in. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/entity.h"
#include "incident/evidence_impl.h"

/* Counters of what was since the value before, not of the moment. */
enum since_last { OF_MOMENT, TOTAL_SO_FAR, MEAN_SINCE, MEAN_SINCE_LAST };
struct last_value {
	enum since_last kind;
	double value; /* NaN: none came yet */
	uint64_t time_ns;
};

struct held_time {
	uint64_t from_ns, to_ns;
};

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
			struct sums *s = g->tracks.data[k].pid == pid
						 ? evidence_sums_at(g, &g->tracks.data[k],
								    c->start_ns + c->dur_ns)
						 : NULL;
			if (s)
				add(evidence_sum_at(&s->calls, &g->probes, c->probe),
				    (double)c->dur_ns);
		}
	}
}

/* What went over a link since the value before: while a process comes to a GPU its driver may not
 * answer for seconds. (Of GPUs without such counts the driver tells a moment, which stands for the
 * time until then as well as anything.) */
static enum since_last of_gpu(const char *name)
{
	return !strcmp(name, "pcie_rx_bytes_per_s") || !strcmp(name, "pcie_tx_bytes_per_s")
		       ? MEAN_SINCE_LAST
		       : OF_MOMENT;
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
		const char *name = strtab_get(&g->t->strings, m->name, NULL);
		if (m->kind == ENTITY_PROCESS || m->kind == ENTITY_INTERFACE)
			g->last[i].kind = since_last_of(name);
		else if (m->kind == ENTITY_GPU)
			g->last[i].kind = of_gpu(name);
	}
}

/* A value that holds for a while counts in each stretch for as long as it lies there: what is
 * shorter than from one value to the next has it too. */
static void add_while(struct gathering *g, const struct track *k, uint32_t metric,
		      const struct held_time *held, double value)
{
	for (size_t i = evidence_place_after(k, held->from_ns);
	     i < k->places.len && k->places.data[i].from_ns < held->to_ns; i++) {
		const struct place *p = &k->places.data[i];
		uint64_t from = p->from_ns > held->from_ns ? p->from_ns : held->from_ns;
		uint64_t to = p->to_ns < held->to_ns ? p->to_ns : held->to_ns;
		struct call_sum *s =
			evidence_sum_at(&g->sums.data[p->sums].counters, &g->metrics, metric);
		s->n += (double)(to - from) / 1e9;
		s->ns += (double)(to - from) / 1e9 * value;
	}
}

/* The value a second since the one before and *ret, the time that it is of; NaN: there is none
 * before, or a total fell. */
static double value_since(const struct last_value *last, const struct m_counter *c,
			  struct held_time *ret)
{
	/* The former are told once a second, where there is any. */
	const uint64_t most = last->kind == MEAN_SINCE ? 1000000000 : 5000000000;
	*ret = (struct held_time){last->time_ns, c->time_ns};
	if (c->time_ns <= last->time_ns)
		return NAN;
	if (last->kind == TOTAL_SO_FAR)
		return c->value >= last->value ? (c->value - last->value) * 1e9 /
							 (double)(c->time_ns - last->time_ns)
					       : NAN;
	if (c->time_ns - last->time_ns > most)
		ret->from_ns = c->time_ns - most;
	return c->value;
}

static void add_counter(struct gathering *g, const struct m_counter *c)
{
	struct last_value *last = &g->last[c->metric];
	struct held_time held = {0, 0};
	double value = last->kind ? value_since(last, c, &held) : c->value;
	*last = (struct last_value){last->kind, c->value, c->time_ns};
	for (size_t k = 0; k < g->tracks.len && !isnan(value); k++) {
		struct sums *s =
			last->kind ? NULL : evidence_sums_at(g, &g->tracks.data[k], c->time_ns);
		if (last->kind)
			add_while(g, &g->tracks.data[k], c->metric, &held, value);
		else if (s)
			add(evidence_sum_at(&s->counters, &g->metrics, c->metric), value);
	}
}

static void add_counters(void *ctx, const struct visited_rows *rows)
{
	const struct m_counter *counters = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		add_counter(ctx, &counters[i]);
}

/* CUpti_ActivityMemcpyKind of cupti_activity.h. */
enum { COPY_HOST_TO_DEVICE = 1, COPY_DEVICE_TO_HOST = 2 };

static bool is_between_host_and_gpu(const struct timeline_kind *kind)
{
	return kind->work == WORK_COPY &&
	       (kind->copy_kind == COPY_HOST_TO_DEVICE || kind->copy_kind == COPY_DEVICE_TO_HOST);
}

static void add_span(struct sums *sums, const struct timeline_kind *kind, double ns)
{
	if (kind->work == WORK_KERNEL) {
		add(&sums->kernels, ns);
		return;
	}
	sums->copied_ns += ns;
	sums->copied_bytes += (double)kind->bytes;
}

static void add_spans(struct gathering *g, const struct timeline *t)
{
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		const struct timeline_kind *kind = timeline_kind_of(t, s);
		if (kind->work != WORK_KERNEL && !is_between_host_and_gpu(kind))
			continue;
		for (size_t k = 0; k < g->tracks.len; k++) {
			struct sums *sums =
				g->tracks.data[k].pid == kind->pid
					? evidence_sums_at(g, &g->tracks.data[k], s->start_ns)
					: NULL;
			if (sums)
				add_span(sums, kind, (double)(s->end_ns - s->start_ns));
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
			struct sums *s =
				g->tracks.data[k].pid == pid
					? evidence_sums_at(g, &g->tracks.data[k], r->start_ns)
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
			struct sums *s = evidence_sums_at(g, &g->tracks.data[k], middle);
			if (s)
				disk_of(s, r)->bytes +=
					(double)r->read_bytes + (double)r->written_bytes;
		}
	}
}

void evidence_add_rows(struct gathering *g, const struct row_source *s, const struct timeline *t)
{
	find_since_last(g);
	rows_read(s, ROW_CALL, add_calls, g);
	rows_read(s, ROW_COUNTER, add_counters, g);
	rows_read(s, ROW_STALL, add_stalls, g);
	rows_read(s, ROW_DISK_IO, add_disks, g);
	add_spans(g, t);
	free(g->last);
}
