/* old_counters.c - counters of recordings that were made before there were metrics: each row had
 * the strings of its name and of what it was of, "gpu 0 pid 12". Their metrics are made when the
 * file is opened; nobody else knows such rows. */
#include <errno.h>

#include "events/metric.h"
#include "recording/column.h"
#include "recording/reader.h"

#define METRICS_MOST (1u << 20) /* of a file that was not made to have very many */

struct old_counter {
	uint64_t time_ns;
	uint32_t name, entity; /* strings */
	double value;
};
_Static_assert(sizeof(struct old_counter) == sizeof(struct m_counter), "one becomes the other");

#define FIELD(member, as, how)                                                                     \
	{                                                                                          \
		.name = #member, .offset = offsetof(struct old_counter, member), .count = 1,       \
		.type = FIELD_##as, .coding = CODING_##how                                         \
	}
static const struct row_field fields[] = {
	FIELD(time_ns, U64, DELTA),
	FIELD(name, U32, VARINT),
	FIELD(entity, U32, VARINT),
	FIELD(value, F64, FIXED),
};
static const struct row_kind_info kind = {.row_bytes = sizeof(struct old_counter),
					  .keeping = ROWS_BULK,
					  .fields = fields,
					  .nfields = sizeof(fields) / sizeof(fields[0])};

bool old_counters_are(const struct buf *raw)
{
	struct columns cols;
	/* a column of zeros is not written */
	return !columns_parse(raw->data, raw->len, &cols) &&
	       (columns_find(&cols, "entity") || columns_find(&cols, "name"));
}

static uint64_t key_of(const struct rec_reader *r, const struct old_counter *c)
{
	size_t strings = r->t.strings.strings.len;
	uint32_t name = c->name < strings ? c->name : r->lost_string;
	uint32_t entity = c->entity < strings ? c->entity : r->lost_string;
	return (uint64_t)name << 32 | entity;
}

int old_counters_decode(const struct rec_reader *r, const struct buf *raw, size_t n,
			void **ret_rows)
{
	void *rows;
	int rc = rows_decode(&kind, raw->data, raw->len, n, &rows, NULL);
	for (size_t i = 0; !rc && i < n; i++) {
		struct old_counter c = ((struct old_counter *)rows)[i];
		uint64_t metric = UINT32_MAX; /* is left out */
		map64_get(&r->old_metrics, key_of(r, &c), &metric);
		struct m_counter row = {c.time_ns, (uint32_t)metric, c.value};
		memcpy((uint8_t *)rows + i * sizeof(row), &row, sizeof(row));
	}
	if (!rc)
		*ret_rows = rows;
	return rc;
}

/* The hosts that entities name, and the recording's strings of them. */
struct hosts {
	struct strtab names;
	VEC(uint32_t) strings;
};

static uint32_t host_string(struct rec_reader *r, struct hosts *h, const char *s, size_t len)
{
	uint32_t i = strtab_add(&h->names, s, len);
	while (h->strings.len <= i)
		*vec_push(&h->strings) = len ? reader_string(r, s, len) : 0;
	return h->strings.data[i];
}

/* Labels came with metrics: what has one here is not what it seems. */
static void add_metric(struct rec_reader *r, struct hosts *hosts, const struct old_counter *c)
{
	uint64_t known, key = key_of(r, c);
	uint32_t name = (uint32_t)(key >> 32), entity = (uint32_t)key;
	struct entity of;
	if (r->t.metrics.len >= METRICS_MOST || map64_get(&r->old_metrics, key, &known))
		return;
	entity_parse(&of, strtab_get(&r->t.strings, entity, NULL));
	if (of.label[0])
		of = ENTITY_NAMED(ENTITY_OTHER, "");
	struct m_metric row = metric_of(&of, strtab_get(&r->t.strings, name, NULL));
	row.name = name;
	row.label = of.kind == ENTITY_OTHER ? entity : 0;
	row.host = host_string(r, hosts, of.host, of.host_len);
	map64_set(&r->old_metrics, key, r->t.metrics.len);
	*vec_push(&r->t.metrics) = row;
	*vec_push(&r->known[ROW_METRIC]) = 1;
}

static void add_metrics(struct rec_reader *r, struct hosts *hosts, const struct buf *raw, size_t n)
{
	void *rows;
	if (!old_counters_are(raw) || rows_decode(&kind, raw->data, raw->len, n, &rows, NULL))
		return;
	for (size_t i = 0; i < n; i++)
		add_metric(r, hosts, (struct old_counter *)rows + i);
	free(rows);
}

void old_counters_open(struct rec_reader *r)
{
	struct buf raw = {0};
	struct hosts hosts = {0};
	bool has_metrics = r->t.metrics.len;
	strtab_add(&hosts.names, "", 0);
	for (size_t b = 0; b < rec_blocks(r, ROW_COUNTER) && !has_metrics; b++) {
		const struct block_ref *ref = &r->blocks[ROW_COUNTER].data[b];
		raw.len = 0;
		if (!reader_payload(r, ref, &raw, NULL)) /* damage is told by who reads it */
			add_metrics(r, &hosts, &raw, ref->h.rows);
	}
	strtab_free(&hosts.names);
	vec_free(&hosts.strings);
	buf_free(&raw);
}
