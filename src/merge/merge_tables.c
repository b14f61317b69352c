/* merge_tables.c - the rows of a source that are held, with the output's numbers and times. */
#include <stdio.h>
#include <string.h>

#include "analyze/process_index.h"
#include "events/metric.h"
#include "merge/merge_impl.h"

/* ---- rows that are kept once ---- */

bool row_set_find(struct row_set *s, const void *row, uint32_t **ret)
{
	uint64_t place, hash = hash_bytes(row, s->row_bytes);
	for (; map64_get(&s->by_hash, hash, &place); hash++)
		if (!memcmp(s->rows.data + place * s->row_bytes, row, s->row_bytes)) {
			*ret = &s->numbers.data[place];
			return true;
		}
	map64_set(&s->by_hash, hash, s->numbers.len);
	buf_add(&s->rows, row, s->row_bytes);
	*ret = vec_push(&s->numbers);
	return false;
}

void row_set_free(struct row_set *s)
{
	map64_free(&s->by_hash);
	buf_free(&s->rows);
	vec_free(&s->numbers);
}

/* ---- what a row's values are in the output ---- */

/* Of what there is one on each host. */
static bool needs_host(const struct merge *m, const struct entity *e)
{
	return m->clocks.len > 1 && entity_is_of_host(e) && !e->host_len;
}

/* "gpu 0 pid 12" -> "node7 gpu 0 pid 10000012". */
static uint32_t merge_entity(struct merge *m, const struct merge_input *in, uint32_t number)
{
	struct entity e;
	struct buf b = {0};
	entity_parse(&e, strtab_get(&in->t->strings, number, NULL));
	e.pid = merge_pid(in, e.pid);
	if (needs_host(m, &e)) {
		e.host = m->labels.data[in->clock];
		e.host_len = strlen(e.host);
	}
	entity_print(&b, &e);
	uint32_t ret = rec_string(m->w, (const char *)b.data, b.len);
	buf_free(&b);
	return ret;
}

/* What the name_arg of a probe of the source says. */
static uint64_t named(const struct merge_input *in, const struct m_hist *h)
{
	const struct m_probe *p = &in->t->probes.data[h->probe];
	return merge_argument(
		in, p->name_arg < 0 ? ARG_TYPE_U64 : p->arg_types[(size_t)p->name_arg], h->name);
}

static uint64_t merged(struct merge *m, const struct merge_input *in, enum field_meaning means,
		       const void *from, uint64_t value)
{
	switch (means) {
	case MEANS_STRING:
		return merge_string(in, (uint32_t)value);
	case MEANS_ENTITY:
		return merge_entity(m, in, (uint32_t)value);
	case MEANS_TIME:
		return merge_time(m, in, value);
	case MEANS_PID:
		return merge_pid(in, (uint32_t)value);
	case MEANS_THREAD:
		return in->numbers[ROW_THREAD][value];
	case MEANS_PROBE:
		return in->numbers[ROW_PROBE][value];
	case MEANS_FRAME:
		return in->numbers[ROW_FRAME][value];
	case MEANS_STACK:
		return value < in->t->stacks.len ? in->numbers[ROW_STACK][value] : 0;
	case MEANS_METRIC:
		return in->numbers[ROW_METRIC][value];
	case MEANS_VALUE:
		return named(in, from);
	case MEANS_NUMBER:
		break;
	}
	return value;
}

void merge_row(struct merge *m, const struct merge_input *in, const struct row_kind_info *k,
	       const void *from, void *to)
{
	memset(to, 0,
	       k->row_bytes); /* what lies between its fields too: rows are compared as bytes */
	for (size_t f = 0; f < k->nfields; f++)
		for (size_t i = 0; i < k->fields[f].count; i++)
			row_set_value(&k->fields[f], to, i,
				      merged(m, in, k->fields[f].means, from,
					     row_value(&k->fields[f], from, i)));
}

/* ---- rows ---- */

static void put_strings(struct merge *m, struct merge_input *in)
{
	size_t n = strtab_len(&in->t->strings);
	in->strings = xcalloc(n + 1, sizeof(*in->strings));
	for (uint32_t i = 1; i < n; i++) {
		size_t len;
		const char *s = strtab_get(&in->t->strings, i, &len);
		in->strings[i] = rec_string(m->w, s, len);
	}
}

static void complete_metric(struct merge *m, const struct merge_input *in, size_t i,
			    struct m_metric *row)
{
	struct entity e = metric_entity(&in->t->metrics.data[i], &in->t->strings);
	if (needs_host(m, &e))
		row->host = rec_string_z(m->w, m->labels.data[in->clock]);
}

/* Rows that others refer to by number; those that several sources have are put once. Threads are
 * nobody else's. A stack's parent comes before it. */
static void put_numbered(struct merge *m, struct merge_input *in, enum row_kind kind)
{
	const struct row_kind_info *k = row_kind_info(kind);
	const struct row_vec *rows = rec_rows(in->t, k);
	union merge_any_row row;
	uint32_t *number, own;
	in->numbers[kind] = xcalloc(rows->len + 1, sizeof(**in->numbers));
	for (size_t i = kind == ROW_STACK; i < rows->len; i++) {
		merge_row(m, in, k, rows->data + i * k->row_bytes, &row);
		if (kind == ROW_METRIC)
			complete_metric(m, in, i, &row.of_metric);
		number = &own;
		if (kind == ROW_THREAD || !row_set_find(&m->once[kind], &row, &number))
			*number = rec_add(m->w, kind, &row);
		in->numbers[kind][i] = *number;
	}
}

/* Later rows of a cause and CPU replace earlier ones, so what is put is the sum so far. */
static void add_loss(struct merge *m, struct m_loss *row)
{
	uint64_t k, key = (uint64_t)row->cause << 32 | row->cpu;
	if (!map64_get(&m->loss_of, key, &k)) {
		map64_set(&m->loss_of, key, k = m->losses.len);
		*vec_push(&m->losses) = (struct m_loss){row->cause, row->cpu, 0};
	}
	m->losses.data[k].count += row->count;
	row->count = m->losses.data[k].count;
}

/* What a merged row of a kind says besides. False: it is there already. */
static bool complete_row(struct merge *m, const struct merge_input *in, uint32_t source,
			 enum row_kind kind, union merge_any_row *row, uint32_t pid)
{
	uint32_t *number;
	switch (kind) {
	case ROW_PROCESS:
		row->of_process.rank = process_index_rank(&in->processes, pid);
		row->of_process.source = source;
		return true;
	case ROW_GPU:
		if (m->clocks.len > 1)
			row->of_gpu.host = rec_string_z(m->w, m->labels.data[in->clock]);
		return true;
	case ROW_LOSS:
		add_loss(m, &row->of_loss);
		return true;
	case ROW_ENUM:
		return !row_set_find(&m->once[ROW_ENUM], row, &number);
	default:
		return true;
	}
}

static void put_listed(struct merge *m, const struct merge_input *in, uint32_t source,
		       enum row_kind kind)
{
	const struct row_kind_info *k = row_kind_info(kind);
	const struct row_vec *rows = rec_rows(in->t, k);
	union merge_any_row row;
	for (size_t i = 0; i < rows->len; i++) {
		const uint8_t *from = rows->data + i * k->row_bytes;
		uint32_t pid = kind == ROW_PROCESS ? ((const struct m_process *)from)->pid : 0;
		merge_row(m, in, k, from, &row);
		if (complete_row(m, in, source, kind, &row, pid))
			rec_put(m->w, kind, &row);
	}
}

void merge_put_tables(struct merge *m, uint32_t source)
{
	struct merge_input *in = &m->inputs.data[source];
	put_strings(m, in);
	process_index_make(&in->processes, in->t);
#define X(number, NAME, stem, members) put_numbered(m, in, ROW_##NAME);
	ROW_NUMBERED(X)
#undef X
	/* the output has sources of its own */
#define X(number, NAME, stem, members)                                                             \
	if ((number) != ROW_SOURCE)                                                                \
		put_listed(m, in, source, ROW_##NAME);
	ROW_LISTED(X)
#undef X
	process_index_free(&in->processes);
}
