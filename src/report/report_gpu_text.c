/* report_gpu_text.c - the report's tables of GPUs, kernels, copies, waits, collectives, memory,
 * errors and events. Each is there only where there is something to say. */
#include <inttypes.h>
#include <string.h>

#include "base/human.h"
#include "base/layer.h"
#include "base/other_process.h"
#include "report/report_section.h"

#define EVENTS_SHOWN 10
#define ROWS_SHOWN   10
#define WIDE	     100 /* columns from which a table has its rarer ones */

static void title(const struct page *p, const char *name)
{
	fputc('\n', p->out);
	page_styled(p, BOLD, name);
}

/* Says so where only some of the calls are there to read arguments from. */
static void recorded_only(const struct page *p)
{
	if (report_gpu_partial(p->r->tables))
		fprintf(p->out, "  incomplete: of the recorded calls only; %s\n",
			report_turned_down(p->r->tables, LAYER_NEEDS_GPU)
				? "to keep the budget some were not seen"
				: "modes tail and stats keep few");
}

static void heads(const struct page *p, const char *const *names, const unsigned *widths, size_t n)
{
	for (size_t i = 0; i < n; i++)
		page_right(p, names[i], widths[i]);
}

/* Of what --top does not restrict. */
static void more_in_json(const struct page *p, size_t all, size_t shown)
{
	char text[HUMAN_BYTES];
	if (all > shown)
		fprintf(p->out, "%*s... and %s more (--json has all)\n", COLUMN_CALLS - 3, "",
			human_count(text, all - shown));
}

/* ---- GPUs ---- */

static const struct gpu_counter *counter(const struct gpu_device *d, const char *const *names)
{
	for (; *names; names++)
		for (size_t i = 0; i < d->counters.len; i++)
			if (!strcmp(d->counters.data[i].name, *names))
				return &d->counters.data[i];
	return NULL;
}
#define COUNTER(d, ...) counter(d, (const char *const[]){__VA_ARGS__, NULL})

static void value(const struct page *p, const struct gpu_counter *c, double v, const char *unit,
		  size_t columns)
{
	char text[64] = "-";
	if (c)
		snprintf(text, sizeof(text), "%.0f%s", v, unit);
	page_right(p, text, columns);
}

/* What held the clocks down at some time: "power_cap, thermal_sw". */
static void holds(const struct gpu_device *d, struct buf *ret)
{
	static const char prefix[] = "clock_limit_";
	for (size_t i = 0; i < d->counters.len; i++) {
		const struct gpu_counter *c = &d->counters.data[i];
		if (!strncmp(c->name, prefix, strlen(prefix)) && c->sum.max > 0)
			buf_printf(ret, "%s%s", ret->len ? ", " : "", c->name + strlen(prefix));
	}
	buf_byte(ret, 0);
}

enum { GPU_USED = 76 };

static void gpu_row(const struct page *p, const struct gpu_device *d)
{
	const struct gpu_counter *busy =
		COUNTER(d, "sm_ratio", "gpm_graphics_ratio", "gpm_sm_ratio");
	const struct gpu_counter *used = COUNTER(d, "memory_used_bytes");
	const struct gpu_counter *all = COUNTER(d, "memory_total_bytes");
	const struct gpu_counter *power = COUNTER(d, "power_w"),
				 *limit = COUNTER(d, "power_limit_w");
	const struct gpu_counter *hot = COUNTER(d, "temperature_celsius");
	const struct gpu_counter *clock = COUNTER(d, "sm_clock_mhz");
	char name[128], whole[512];
	struct buf held = {0};
	uint64_t total = d->row && d->row->memory_bytes ? d->row->memory_bytes
			 : all				? (uint64_t)all->sum.max
							: 0;
	double limit_w = d->row && d->row->power_limit_w > 0 ? d->row->power_limit_w : 0;
	if (!(limit_w > 0) && limit)
		limit_w = limit->sum.last;
	snprintf(whole, sizeof(whole), "%s%s%s", d->host, *d->host ? " " : "",
		 d->row ? strtab_get(&p->r->tables->strings, d->row->name, NULL) : "");
	text_fit(name, sizeof(name), whole, 18);
	fprintf(p->out, "%5u  %s%*s", d->index, name, (int)(18 - text_columns(name)), "");
	value(p, busy, busy ? busy->sum.mean * 100 : 0, " %", 6);
	page_bytes(p, used ? (uint64_t)used->sum.max : 0, 9);
	page_bytes(p, total, 9);
	value(p, power, power ? power->sum.mean : 0, " W", 7);
	if (limit_w > 0)
		fprintf(p->out, "%5.0f W", limit_w);
	else
		page_right(p, "-", 7);
	value(p, hot, hot ? hot->sum.max : 0, " °C", 7);
	value(p, clock, clock ? clock->sum.mean : 0, "", 6);
	holds(d, &held);
	bool narrow = p->r->options->width < GPU_USED + 24;
	if (narrow)
		fputc('\n', p->out);
	if (narrow && held.len > 1)
		text_printf(p->out, "%*sclocks held down by: %s\n", 7, "", (char *)held.data);
	else if (!narrow)
		page_rest(p, held.len > 1 ? (char *)held.data : "-", GPU_USED);
	buf_free(&held);
}

static void gpus(const struct page *p, const void *unused)
{
	const struct gpu_summary *s = p->r->gpu;
	(void)unused;
	title(p, "GPUs");
	fprintf(p->out, "\n%5s  %-18s%6s%9s%9s%7s%7s%7s%6s%s\n", "gpu", "name", "busy", "memory",
		"of", "power", "limit", "temp", "MHz",
		p->r->options->width < GPU_USED + 24 ? "" : "  clocks held down by");
	for (size_t i = 0; i < s->devices.len; i++)
		gpu_row(p, &s->devices.data[i]);
}

/* ---- kernels ---- */

static void kernels_head(const struct page *p)
{
	const struct gpu_launches *n = &p->r->gpu->total;
	char a[HUMAN_BYTES], b[HUMAN_BYTES];
	uint64_t calls = n->launches + n->captured;
	struct buf graphs = {0};
	title(p, "kernels");
	fprintf(p->out, ": %s launches of %s kernels", human_count(a, n->launches),
		human_count(b, p->r->gpu->kernels.len));
	if (n->captured)
		fprintf(p->out, ", %s captured into graphs", human_count(a, n->captured));
	if (n->named < calls)
		fprintf(p->out, ", %.1f %% with a name", 100 * (double)n->named / (double)calls);
	fputc('\n', p->out);
	if (n->graphs)
		buf_printf(&graphs, "  %s launches of graphs ran %s kernels",
			   human_count(a, n->graphs), human_count(b, n->graph_kernels));
	if (n->graphs_unknown)
		buf_printf(&graphs, "; %s were of graphs made before the recording",
			   human_count(a, n->graphs_unknown));
	buf_byte(&graphs, 0);
	if (n->graphs)
		page_wrapped(p, 0, 4, "%s", (char *)graphs.data);
	buf_free(&graphs);
	if (!p->r->timeline->spans.len)
		fputs("  by launches: the device's own time is not in this recording\n", p->out);
	else if (p->r->kernel_times.others.count)
		fprintf(p->out,
			"  by time on the device; %s more of kernels launched by nothing seen\n",
			human_ns(a, p->r->kernel_times.others.total_ns));
	else
		fputs("  by time on the device\n", p->out);
}

static void dim3_text(char ret[static 48], uint64_t v)
{
	snprintf(ret, 48, "%u,%u,%u", dim3_x(v), dim3_y(v), dim3_z(v));
}

/* Columns beside those of all kernels. */
struct kernel_columns {
	bool device; /* time on the device */
	bool graphs;
	bool dims;
};

static struct kernel_columns kernel_columns(const struct page *p)
{
	const struct gpu_launches *n = &p->r->gpu->total;
	bool device = p->r->timeline->spans.len > 0;
	return (struct kernel_columns){
		.device = device,
		.graphs = n->graphs || n->captured,
		.dims = p->r->options->width >= WIDE + (device ? 30 : 0),
	};
}

/* Returns the columns that it took. */
static size_t kernel_heads(const struct page *p, const struct kernel_columns *c)
{
	size_t used = COLUMN_CALLS + COLUMN_TIME;
	page_right(p, "launches", COLUMN_CALLS);
	if (c->graphs) {
		page_right(p, "in graphs", 11);
		page_right(p, "captured", 10);
		used += 21;
	}
	page_right(p, "mean call", COLUMN_TIME + 1);
	if (c->device) {
		page_right(p, "device", 10);
		page_right(p, "mean", 10);
		page_right(p, "max", 10);
		used += 30;
	}
	if (c->dims) {
		page_right(p, "grid", 15);
		page_right(p, "block", 12);
		used += 27;
	}
	fputs("  kernel\n", p->out);
	return used;
}

static void kernel_row(const struct page *p, const struct kernel_columns *c, size_t index,
		       size_t used)
{
	const struct gpu_kernel *k = &p->r->gpu->kernels.data[index];
	const struct kernel_time *t = &p->r->kernel_times.rows[index];
	char dims[48];
	page_count(p, k->launches, COLUMN_CALLS);
	if (c->graphs) {
		page_count(p, k->graph_kernels, 11);
		page_count(p, k->captured, 10);
	}
	page_ns(p, k->launches ? k->total_ns / k->launches : 0, COLUMN_TIME + 1);
	if (c->device) {
		page_ns(p, t->total_ns, 10);
		page_ns(p, t->count ? t->total_ns / t->count : 0, 10);
		page_ns(p, t->max_ns, 10);
	}
	if (c->dims) {
		dim3_text(dims, k->grid);
		page_right(p, k->grid ? dims : "-", 15);
		dim3_text(dims, k->block);
		page_right(p, k->block ? dims : "-", 12);
	}
	page_rest(p, k->short_name, used + 1);
}

/* By time on the device; the same as they were where there is none. */
static int compare_kernel_times(const void *a, const void *b, void *arg)
{
	const struct kernel_time *rows = arg;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	if (rows[x].total_ns != rows[y].total_ns)
		return rows[x].total_ns > rows[y].total_ns ? -1 : 1;
	return x < y ? -1 : x > y;
}

static void kernels(const struct page *p, const void *unused)
{
	const struct gpu_summary *s = p->r->gpu;
	(void)unused;
	struct kernel_columns columns = kernel_columns(p);
	size_t shown = page_shown(p, s->kernels.len),
	       *order = xcalloc(s->kernels.len + 1, sizeof(*order));
	for (size_t i = 0; i < s->kernels.len; i++)
		order[i] = i;
	qsort_r(order, s->kernels.len, sizeof(*order), compare_kernel_times,
		p->r->kernel_times.rows);
	kernels_head(p);
	size_t used = kernel_heads(p, &columns);
	for (size_t i = 0; i < shown; i++)
		kernel_row(p, &columns, order[i], used);
	page_more(p, s->kernels.len, shown, COLUMN_CALLS);
	free(order);
}

/* ---- copies, waits ---- */

static void copies(const struct page *p, const void *unused)
{
	static const char *const directions[] = {
		[GPU_HTOD] = "host to device",	    [GPU_DTOH] = "device to host",
		[GPU_DTOD] = "within a device",	    [GPU_HTOH] = "within the host",
		[GPU_PTOP] = "device to device",    [GPU_UNIFIED] = "direction not known",
		[GPU_DIRECTIONS] = "memory filled",
	};
	static const char *const names[] = {"calls", "in graphs", "bytes", "time of calls"};
	static const unsigned widths[] = {COLUMN_CALLS, 11, 10, 15};
	const struct gpu_summary *s = p->r->gpu;
	(void)unused;
	title(p, "copies");
	fputc('\n', p->out);
	recorded_only(p);
	heads(p, names, widths, 4);
	fputs("  what\n", p->out);
	for (size_t i = 0; i < s->copies.len; i++) {
		const struct gpu_copies *c = &s->copies.data[i];
		page_count(p, c->calls, widths[0]);
		page_count(p, c->graph_nodes_run, widths[1]);
		page_bytes(p, c->bytes, widths[2]);
		page_ns(p, c->total_ns, widths[3]);
		fprintf(p->out, "  %s, %s\n", directions[c->set ? GPU_DIRECTIONS : c->direction],
			c->async ? "on a stream" : "host waits");
	}
}

static void syncs(const struct page *p, const void *unused)
{
	const struct gpu_summary *s = p->r->gpu;
	char text[HUMAN_BYTES];
	uint64_t total = 0;
	(void)unused;
	for (size_t i = 0; i < s->syncs.len; i++)
		total += s->syncs.data[i].total_ns;
	title(p, "host waited for the device");
	fprintf(p->out, ": %s, summed over threads\n", human_ns(text, total));
	page_right(p, "calls", COLUMN_CALLS);
	page_right(p, "total", COLUMN_TIME);
	page_right(p, "max", COLUMN_TIME);
	fputs("  function\n", p->out);
	for (size_t i = 0; i < s->syncs.len; i++) {
		const struct gpu_sync *y = &s->syncs.data[i];
		page_count(p, y->calls, COLUMN_CALLS);
		page_ns(p, y->total_ns, COLUMN_TIME);
		page_ns(p, y->max_ns, COLUMN_TIME);
		page_rest(p, y->name, COLUMN_CALLS + 2 * COLUMN_TIME);
	}
}

/* ---- collectives ---- */

static void collective_row(const struct page *p, const struct gpu_collective *c)
{
	char rank[32] = "-";
	struct buf what = {0};
	if (c->comm && c->comm->rank >= 0 && c->comm->size > 0)
		snprintf(rank, sizeof(rank), "%d of %d", c->comm->rank, c->comm->size);
	page_count(p, c->calls, COLUMN_CALLS);
	page_bytes(p, c->bytes, 10);
	page_ns(p, c->total_ns, 10);
	page_right(p, rank, 12);
	buf_printf(&what, "%s", c->function);
	if (c->datatype)
		buf_printf(&what, " %s", c->datatype);
	if (c->comm && c->comm->hash)
		buf_printf(&what, " on %" PRIx64, c->comm->hash);
	buf_byte(&what, 0);
	page_rest(p, (char *)what.data, COLUMN_CALLS + 32);
	buf_free(&what);
}

static void collectives(const struct page *p, const void *unused)
{
	const struct gpu_summary *s = p->r->gpu;
	size_t shown = page_shown(p, s->collectives.len);
	(void)unused;
	title(p, "collectives");
	fputs(" by bytes: time is the time to enqueue, not the collective's own\n", p->out);
	recorded_only(p);
	page_right(p, "calls", COLUMN_CALLS);
	page_right(p, "bytes", 10);
	page_right(p, "enqueue", 10);
	page_right(p, "rank", 12);
	fputs("  function\n", p->out);
	for (size_t i = 0; i < shown; i++)
		collective_row(p, &s->collectives.data[i]);
	page_more(p, s->collectives.len, shown, COLUMN_CALLS);
}

/* ---- memory ---- */

static const struct gpu_source *largest_source(const struct gpu_memory *m)
{
	const struct gpu_source *largest = NULL;
	for (size_t i = 0; i < m->sources.len; i++)
		if (!largest || m->sources.data[i].bytes > largest->bytes)
			largest = &m->sources.data[i];
	return largest;
}

static void memory_row(const struct page *p, const struct gpu_memory *m, bool pinned)
{
	char where[24] = "pinned", text[HUMAN_BYTES];
	if (!pinned)
		snprintf(where, sizeof(where), m->device < 0 ? "-" : "%d", m->device);
	fprintf(p->out, "%9u", m->pid);
	page_right(p, where, 8);
	page_bytes(p, m->peak_bytes, 10);
	/* Of a process that has ended: what it had not freed. */
	page_bytes(p, m->live_bytes ? m->live_bytes : m->leaked_bytes, 10);
	fputs(m->leaked_count && !m->live_bytes ? " at exit" : "        ", p->out);
	page_count(p, m->allocs, 10);
	page_count(p, m->frees, 10);
	const struct gpu_source *largest = largest_source(m);
	struct buf what = {0};
	if (largest)
		buf_printf(&what, "%s", largest->function);
	if (m->unmatched_frees)
		buf_printf(&what, "%s%s frees of memory from before", what.len ? ", " : "",
			   human_count(text, m->unmatched_frees));
	if (m->unmatched_allocs)
		buf_printf(&what, "%s%s frees not seen", what.len ? ", " : "",
			   human_count(text, m->unmatched_allocs));
	buf_byte(&what, 0);
	page_rest(p, (char *)what.data, 65);
	buf_free(&what);
}

static void memory(const struct page *p, const void *unused)
{
	const struct gpu_summary *s = p->r->gpu;
	(void)unused;
	title(p, "memory");
	fputs(" of processes: device memory and pinned host memory\n", p->out);
	fprintf(p->out, "%9s%8s%10s%10s        %10s%10s  %s\n", "pid", "device", "peak", "live",
		"allocs", "frees", "mostly from");
	for (size_t i = 0; i < s->memory.len; i++)
		memory_row(p, &s->memory.data[i], false);
	for (size_t i = 0; i < s->pinned.len; i++)
		memory_row(p, &s->pinned.data[i], true);
}

/* ---- errors, events ---- */

static void errors(const struct page *p, const void *unused)
{
	const struct gpu_summary *s = p->r->gpu;
	size_t shown = s->errors.len < ROWS_SHOWN ? s->errors.len : ROWS_SHOWN;
	(void)unused;
	title(p, "errors");
	fputs(" that calls returned\n", p->out);
	recorded_only(p);
	page_right(p, "calls", COLUMN_CALLS);
	fputs("  code\n", p->out);
	for (size_t i = 0; i < shown; i++) {
		const struct gpu_error *e = &s->errors.data[i];
		struct buf what = {0};
		page_count(p, e->calls, COLUMN_CALLS);
		buf_printf(&what, "%" PRId64 " %s from %s", e->code, e->name ? e->name : "",
			   e->function);
		buf_byte(&what, 0);
		page_rest(p, (char *)what.data, COLUMN_CALLS);
		buf_free(&what);
	}
	more_in_json(p, s->errors.len, shown);
}

static void event_line(const struct page *p, const struct m_event *e)
{
	const struct strtab *strings = &p->r->tables->strings;
	uint64_t start = report_number(p->r->tables, "start_monotonic_ns");
	char after[HUMAN_BYTES];
	struct buf what = {0};
	page_right(p, human_ns(after, e->time_ns > start ? e->time_ns - start : 0), COLUMN_CALLS);
	buf_printf(&what, "%s %s: %s", strtab_get(strings, e->entity, NULL),
		   strtab_get(strings, e->name, NULL), strtab_get(strings, e->text, NULL));
	buf_byte(&what, 0);
	page_rest(p, (char *)what.data, COLUMN_CALLS);
	buf_free(&what);
}

static bool is_of_others(const struct report *r, const struct m_event *e)
{
	return is_other_process_event(strtab_get(&r->tables->strings, e->name, NULL));
}

/* Each by its time; what is no fault behind those that are. */
static void events(const struct page *p, const void *unused)
{
	const struct gpu_summary *s = p->r->gpu;
	size_t shown = 0;
	(void)unused;
	title(p, "events");
	fputc('\n', p->out);
	for (int others = 0; others < 2; others++)
		for (size_t i = 0; i < s->events.len && shown < EVENTS_SHOWN; i++) {
			if (is_of_others(p->r, &s->events.data[i]) != (others == 1))
				continue;
			event_line(p, &s->events.data[i]);
			shown++;
		}
	more_in_json(p, s->events.len, shown);
}

static double events_relevance(const struct report *r)
{
	const struct gpu_summary *s = r->gpu;
	for (size_t i = 0; i < s->events.len; i++)
		if (!is_of_others(r, &s->events.data[i]))
			return RELEVANT_FAULT;
	return s->events.len ? RELEVANT_AFTER : RELEVANT_NOT;
}

static double kernels_relevance(const struct report *r)
{
	uint64_t ns = 0, calls = 0;
	for (size_t i = 0; i < r->gpu->kernels.len; i++) {
		ns += r->kernel_times.rows[i].total_ns;
		calls += r->gpu->kernels.data[i].total_ns;
	}
	if (!r->gpu->kernels.len && !r->gpu->total.graphs)
		return RELEVANT_NOT;
	return report_share(r, r->timeline->spans.len ? ns : calls);
}

static double syncs_relevance(const struct report *r)
{
	uint64_t ns = 0;
	for (size_t i = 0; i < r->gpu->syncs.len; i++)
		ns += r->gpu->syncs.data[i].total_ns;
	return r->gpu->syncs.len ? report_share(r, ns) : RELEVANT_NOT;
}

static double copies_relevance(const struct report *r)
{
	uint64_t ns = 0;
	for (size_t i = 0; i < r->gpu->copies.len; i++)
		ns += r->gpu->copies.data[i].total_ns;
	return r->gpu->copies.len ? RELEVANT_AFTER * report_share(r, ns) : RELEVANT_NOT;
}

static double collectives_relevance(const struct report *r)
{
	uint64_t ns = 0;
	for (size_t i = 0; i < r->gpu->collectives.len; i++)
		ns += r->gpu->collectives.data[i].total_ns;
	return r->gpu->collectives.len ? RELEVANT_AFTER * report_share(r, ns) : RELEVANT_NOT;
}

static double if_any(size_t n, double relevance)
{
	return n ? relevance : RELEVANT_NOT;
}

void report_gpu_parts(const struct report *r, struct report_parts *ret)
{
	const struct gpu_summary *s = r->gpu;
	const struct report_part parts[] = {
		{"gpus", NULL, if_any(s->devices.len, 1), false, gpus, NULL},
		{"kernels", NULL, kernels_relevance(r), false, kernels, NULL},
		{"copies", NULL, copies_relevance(r), false, copies, NULL},
		{"gpu-waits", NULL, syncs_relevance(r), false, syncs, NULL},
		{"collectives", NULL, collectives_relevance(r), false, collectives, NULL},
		{"memory", NULL, if_any(s->memory.len + s->pinned.len, 0), false, memory, NULL},
		{"errors", NULL, if_any(s->errors.len, RELEVANT_AFTER), false, errors, NULL},
		{"events", NULL, events_relevance(r), false, events, NULL},
	};
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		report_part_add(ret, &parts[i]);
}
