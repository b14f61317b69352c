/* timeline_spans.c - spans of GPUs in little memory: what many share stands once, as their kind.
 *
 * Kinds are looked up in a table of fixed size, so that spans of which no two are alike cost a row
 * each and nothing more. A kind that was pushed out of the table has another row when it comes
 * again: kinds are no identities. */
#include "analyze/timeline_spans.h"

#include "base/map64.h"

enum { SLOTS = 1 << 15, PROBES = 8 };

struct kind_table {
	uint32_t slots[SLOTS]; /* number of the kind + 1, 0 = free */
	uint32_t last;	       /* kind of the last span */
};

/* Padding is zero too, so that kinds compare as bytes. */
static void kind_of_row(struct timeline_kind *ret, const struct m_gpu_span *row)
{
	memset(ret, 0, sizeof(*ret));
	ret->bytes = row->bytes;
	ret->grid = row->grid;
	ret->block = row->block;
	ret->pid = row->pid;
	ret->device = row->device;
	ret->context = row->context;
	ret->stream = row->stream;
	ret->name = row->name;
	ret->called_tid = row->called_tid;
	ret->work = row->work;
	ret->copy_kind = row->copy_kind;
	ret->source_kind = row->source_kind;
	ret->destination_kind = row->destination_kind;
	ret->async = row->async;
	ret->of_graph = row->graph_node || row->work == WORK_GRAPH;
}

static uint64_t hash_kind(const struct timeline_kind *k)
{
	uint64_t words[sizeof(*k) / sizeof(uint64_t)], hash = 0;
	_Static_assert(sizeof(words) == sizeof(*k), "a kind is whole words");
	memcpy(words, k, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ULL;
	return hash_u64(hash);
}

static bool is_kind(const struct timeline *t, uint32_t number, const struct timeline_kind *k)
{
	return !memcmp(&t->kinds.data[number], k, sizeof(*k));
}

static uint32_t number_of_kind(struct timeline *t, struct kind_table *table,
			       const struct timeline_kind *k)
{
	if (t->kinds.len && is_kind(t, table->last, k))
		return table->last;
	uint64_t home = hash_kind(k);
	uint32_t *slot = NULL;
	for (uint64_t i = 0; i < PROBES; i++) {
		slot = &table->slots[(home + i) % SLOTS];
		if (!*slot)
			break;
		if (is_kind(t, *slot - 1, k))
			return table->last = *slot - 1;
	}
	if (*slot) /* all are taken: each in turn goes */
		slot = &table->slots[(home + t->kinds.len % PROBES) % SLOTS];
	table->last = (uint32_t)t->kinds.len;
	*slot = table->last + 1;
	*vec_push(&t->kinds) = *k;
	return table->last;
}

static void add_span(struct timeline *t, struct kind_table *table, const struct m_gpu_span *row)
{
	struct timeline_kind kind;
	kind_of_row(&kind, row);
	uint64_t before_ns = row->start_ns - row->called_ns; /* large if it was called later */
	bool near = row->called_ns && before_ns < UINT32_MAX;
	kind.called_ns = near ? 0 : row->called_ns;
	*vec_push(&t->spans) = (struct timeline_span){
		.start_ns = row->start_ns,
		.end_ns = row->end_ns,
		.correlation = row->correlation,
		.call = TIMELINE_NONE,
		.kind = number_of_kind(t, table, &kind),
		.called_before = near ? (uint32_t)before_ns + 1 : 0,
	};
}

static int compare_spans(const void *a, const void *b, void *arg)
{
	const struct timeline_span *x = a, *y = b;
	const struct timeline_kind *kinds = arg;
	uint32_t pid = kinds[x->kind].pid, other = kinds[y->kind].pid;
	if (pid != other)
		return pid < other ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->correlation != y->correlation)
		return x->correlation < y->correlation ? -1 : 1;
	return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

static bool is_sorted(const struct timeline *t)
{
	size_t i = 1;
	while (i < t->spans.len &&
	       compare_spans(&t->spans.data[i - 1], &t->spans.data[i], t->kinds.data) <= 0)
		i++;
	return i >= t->spans.len;
}

void timeline_load_spans(struct timeline *t, const struct rec_reader *r, uint32_t pid)
{
	struct m_gpu_spans rows = {0};
	struct kind_table *table = xcalloc(1, sizeof(*table));
	for (size_t b = 0; b < rec_gpu_span_blocks(r); b++) {
		if (rec_read_gpu_spans(r, b, &rows, NULL))
			continue;
		for (size_t i = 0; i < rows.len && t->spans.len < TIMELINE_NONE; i++)
			if (!pid || rows.rows[i].pid == pid)
				add_span(t, table, &rows.rows[i]);
	}
	m_gpu_spans_free(&rows);
	free(table);
	if (!is_sorted(t)) /* sorting takes as much memory again */
		qsort_r(t->spans.data, t->spans.len, sizeof(*t->spans.data), compare_spans,
			t->kinds.data);
}
