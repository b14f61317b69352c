/* report_disks.c - which process had which disk do what, of all processes of the host: they share
 * it. How much of a disk's time was used is among the counters. */
#include <stdlib.h>

#include "base/human.h"
#include "base/map64.h"
#include "report/report_section.h"

enum {
	COLUMN_SIZE = 10,
	COLUMN_OF = 2 * COLUMN_SIZE + COLUMN_CALLS + 3 * COLUMN_TIME,
};

/* Of one process, by number and name, and disk: its rows added up. */
struct used {
	struct m_disk_io sum;
	bool is_job; /* it is a process of the recording */
};

struct state {
	const struct report *r;
	VEC(struct used) list; /* whose requests took longest first */
	struct map64 at;       /* places in it, by disk, process and name */
};

static void *begin(const struct report *r, struct report_visitors *v)
{
	(void)v;
	struct state *s = xcalloc(1, sizeof(*s));
	s->r = r;
	return s;
}

static void end(void *state)
{
	struct state *s = state;
	vec_free(&s->list);
	map64_free(&s->at);
	free(s);
}

static struct used *used_of(struct state *s, const struct m_disk_io *row)
{
	uint32_t parts[] = {row->disk, row->pid, row->comm};
	uint64_t key = hash_bytes(parts, sizeof(parts)), at;
	if (map64_get(&s->at, key, &at))
		return &s->list.data[at];
	map64_set(&s->at, key, s->list.len);
	struct used *ret = vec_push(&s->list);
	*ret = (struct used){.sum = {.disk = row->disk, .pid = row->pid, .comm = row->comm}};
	return ret;
}

static void add(struct m_disk_io *to, const struct m_disk_io *row)
{
	to->reads += row->reads;
	to->writes += row->writes;
	to->flushes += row->flushes;
	to->read_bytes += row->read_bytes;
	to->written_bytes += row->written_bytes;
	to->read_ns += row->read_ns;
	to->write_ns += row->write_ns;
	to->flush_ns += row->flush_ns;
	to->queued_ns += row->queued_ns;
	if (row->longest_ns > to->longest_ns)
		to->longest_ns = row->longest_ns;
}

static void on_rows(void *ctx, const struct visited_rows *rows)
{
	struct state *s = ctx;
	const struct report_options *o = s->r->options;
	const struct m_disk_io *io = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		if (io[i].until_ns > o->from_ns && (!o->to_ns || io[i].since_ns < o->to_ns) &&
		    (!o->pid || io[i].pid == o->pid))
			add(&used_of(s, &io[i])->sum, &io[i]);
}

static uint64_t requests_of(const struct m_disk_io *d)
{
	return d->reads + d->writes + d->flushes;
}

/* With the disk, without what went before. */
static uint64_t took_ns(const struct m_disk_io *d)
{
	return d->read_ns + d->write_ns + d->flush_ns;
}

static int by_time(const void *a, const void *b)
{
	const struct m_disk_io *x = &((const struct used *)a)->sum;
	const struct m_disk_io *y = &((const struct used *)b)->sum;
	uint64_t of_x = took_ns(x) + x->queued_ns, of_y = took_ns(y) + y->queued_ns;
	return (of_x < of_y) - (of_x > of_y);
}

static void find_job(struct state *s, const struct rec_tables *t)
{
	struct map64 pids = {0};
	uint64_t any;
	for (size_t i = 0; i < t->processes.len; i++)
		map64_set(&pids, t->processes.data[i].pid, 1);
	for (size_t i = 0; i < s->list.len; i++)
		s->list.data[i].is_job = map64_get(&pids, s->list.data[i].sum.pid, &any);
	map64_free(&pids);
}

static bool make(const struct report *r, void *state)
{
	struct state *s = state;
	rows_read(r->source, ROW_DISK_IO, on_rows, s);
	if (!s->list.len)
		return false;
	find_job(s, r->tables);
	qsort(s->list.data, s->list.len, sizeof(*s->list.data), by_time);
	return true;
}

/* ---- text ---- */

/* "vda  python3 (4242)" */
static void row_text(const struct page *p, const struct used *u)
{
	const struct strtab *strings = &p->r->tables->strings;
	const struct m_disk_io *d = &u->sum;
	uint64_t n = requests_of(d);
	struct buf b = {0};
	page_bytes(p, d->read_bytes, COLUMN_SIZE);
	page_bytes(p, d->written_bytes, COLUMN_SIZE);
	page_count(p, n, COLUMN_CALLS);
	page_ns(p, n ? d->queued_ns / n : 0, COLUMN_TIME);
	page_ns(p, n ? took_ns(d) / n : 0, COLUMN_TIME);
	page_ns(p, d->longest_ns, COLUMN_TIME);
	buf_printf(&b, "%s  %s (%u)%s", strtab_get(strings, d->disk, NULL),
		   strtab_get(strings, d->comm, NULL), d->pid, u->is_job ? "" : ", not of the job");
	buf_byte(&b, 0);
	page_rest(p, (const char *)b.data, COLUMN_OF);
	buf_free(&b);
}

static void text(const struct page *p, const void *state)
{
	const struct state *s = state;
	size_t shown = page_shown(p, s->list.len);
	fputc('\n', p->out);
	page_styled(p, BOLD, "what disks did");
	fputc('\n', p->out);
	page_right(p, "read", COLUMN_SIZE);
	page_right(p, "written", COLUMN_SIZE);
	page_right(p, "requests", COLUMN_CALLS);
	page_right(p, "queued", COLUMN_TIME);
	page_right(p, "took", COLUMN_TIME);
	page_right(p, "longest", COLUMN_TIME);
	fputs("  of which disk, for whom\n", p->out);
	for (size_t i = 0; i < shown; i++)
		row_text(p, &s->list.data[i]);
	page_more(p, s->list.len, shown, COLUMN_SIZE);
}

static double relevance(const struct report *r, const void *state)
{
	(void)r;
	(void)state;
	return RELEVANT_DETAIL - 1;
}

/* ---- JSON ---- */

static json_t *row_json(const struct report *r, const struct used *u)
{
	const struct strtab *strings = &r->tables->strings;
	const struct m_disk_io *d = &u->sum;
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {{"reads", d->reads},
		       {"writes", d->writes},
		       {"flushes", d->flushes},
		       {"read_bytes", d->read_bytes},
		       {"written_bytes", d->written_bytes},
		       {"read_ns", d->read_ns},
		       {"write_ns", d->write_ns},
		       {"flush_ns", d->flush_ns},
		       {"queued_ns", d->queued_ns},
		       {"longest_ns", d->longest_ns}};
	json_t *o = json_object();
	json_object_set_new(o, "disk", report_text_json(strtab_get(strings, d->disk, NULL)));
	json_object_set_new(o, "pid", report_number_json(d->pid));
	json_object_set_new(o, "command", report_text_json(strtab_get(strings, d->comm, NULL)));
	json_object_set_new(o, "of_the_job", json_boolean(u->is_job));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(o, numbers[i].name, report_number_json(numbers[i].value));
	return o;
}

static void json(struct json_stream *out, const struct report *r, const void *state)
{
	const struct state *s = state;
	json_stream_array(out, "disks");
	for (size_t i = 0; i < s->list.len; i++)
		json_stream_put(out, NULL, row_json(r, &s->list.data[i]));
	json_stream_close(out);
}

const struct report_section report_disks = {.name = "disks",
					    .begin = begin,
					    .make = make,
					    .relevance = relevance,
					    .text = text,
					    .json = json,
					    .end = end};
