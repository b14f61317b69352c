/* metrics.c - the metrics of counters: a number for each thing's value of a name. Where nothing is
 * kept they are told when they are new, and told to be gone when no counter has been of them for
 * IDLE_NS by the counters' own times: processes come and go for days. Numbers are not used again:
 * there are enough for 50 new processes a second for a month. */
#include "events/metric.h"

#include "pipeline/pipeline_impl.h"

#define IDLE_NS	 60000000000ULL
#define EVERY_NS 10000000000ULL

struct known {
	struct m_metric row;
	uint32_t number;
	uint64_t key; /* in of_row */
	uint64_t used_ns;
};

struct metrics {
	VEC(struct known) list;
	struct map64 of_row; /* hash -> index */
	uint64_t looked_ns;
};

struct metrics *metrics_new(void)
{
	return xcalloc(1, sizeof(struct metrics));
}

void metrics_free(struct metrics *ms)
{
	vec_free(&ms->list);
	map64_free(&ms->of_row);
	free(ms);
}

static void drop(struct pipeline *p, size_t i)
{
	struct metrics *ms = p->metrics;
	struct known *gone = &ms->list.data[i];
	emit_row_gone(p, ROW_METRIC, gone->number);
	map64_del(&ms->of_row, gone->key);
	*gone = ms->list.data[--ms->list.len];
	if (i < ms->list.len)
		map64_set(&ms->of_row, gone->key, i);
}

static void drop_idle(struct pipeline *p, uint64_t now_ns)
{
	struct metrics *ms = p->metrics;
	if (!p->forgets || now_ns < ms->looked_ns + EVERY_NS)
		return;
	ms->looked_ns = now_ns;
	for (size_t i = ms->list.len; i-- > 0;)
		if (ms->list.data[i].used_ns + IDLE_NS < now_ns)
			drop(p, i);
}

uint32_t pipeline_metric(struct pipeline *p, const struct entity *of, const char *name,
			 uint64_t time_ns)
{
	struct metrics *ms = p->metrics;
	struct m_metric row = metric_of(of, name);
	uint64_t i, key;
	row.label = rec_string_z(p->writer, of->label);
	row.name = rec_string_z(p->writer, name);
	drop_idle(p, time_ns);
	key = metric_hash(&row);
	bool known = map64_get(&ms->of_row, key, &i);
	if (known && !metric_is(&ms->list.data[i].row, &row)) {
		drop(p, i); /* another of the same hash */
		known = false;
	}
	if (!known) {
		map64_set(&ms->of_row, key, i = ms->list.len);
		*vec_push(&ms->list) = (struct known){row, emit_new_metric(p, &row), key, 0};
	}
	struct known *k = &ms->list.data[i];
	k->used_ns = time_ns > k->used_ns ? time_ns : k->used_ns;
	return k->number;
}
