/* flops.c - collects calls with shapes, finds their kernels, and sums up.
 *
 * First all calls of the roles are read and put in order of thread and start; those inside of
 * others are dropped, so that what is left of a thread does not overlap. Then each launch looks
 * for the call that it lies in. */
#include <string.h>

#include "analyze/flops_impl.h"
#include "analyze/flops_peak.h"
#include "base/layer.h"
#include "base/sort.h"
#include "wire/event.h"

/* ---- calls ---- */

#define MOST_DUR_NS ((1ULL << 40) - 1)

static void load_call(const struct job *j, struct read_block *b, const struct m_call *c)
{
	const struct flops_probe *p = &j->probes[c->probe];
	struct flops_work work = {0};
	flops_count(&work, p, c);
	*vec_push(&b->rows) =
		(struct read_call){.start_ns = c->start_ns,
				   .dur_ns = c->dur_ns < MOST_DUR_NS ? c->dur_ns : MOST_DUR_NS,
				   .format = work.format,
				   .known = work.known,
				   .masked = work.masked > 0,
				   .model = work.model,
				   .hardware = work.hardware,
				   .thread = c->thread,
				   .probe = c->probe};
}

static void load_rows(const struct row_visitor *v, void *state, const struct visited_rows *rows)
{
	const struct job *j = (const struct job *)v;
	const struct m_call *calls = rows->rows;
	struct read_block *b = &j->blocks[rows->block];
	(void)state;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_call *c = &calls[i];
		if (!j->probes[c->probe].kind || c->flags & CALL_ERROR ||
		    (j->o.pid && j->t->threads.data[c->thread].pid != j->o.pid))
			continue;
		load_call(j, b, c);
	}
	vec_fit(&b->rows);
}

static struct work_call work_call(const struct read_call *c)
{
	return (struct work_call){.start_ns = c->start_ns,
				  .end_ns = c->start_ns + c->dur_ns,
				  .work = {.model = c->model,
					   .hardware = c->hardware,
					   .format = c->format,
					   .known = c->known,
					   .masked = c->masked ? c->model / 2 : 0},
				  .thread = c->thread,
				  .probe = c->probe,
				  .capture = NO_CAPTURE};
}

/* Those that hold others come before them. */
static int compare_calls(const void *a, const void *b, void *arg)
{
	const struct work_call *x = a, *y = b;
	(void)arg;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->end_ns > y->end_ns ? -1 : x->end_ns < y->end_ns;
}

/* Drops the calls inside of others and those that are not known. A call that casts its arguments
 * (autocast) calls itself anew with what it made: the format is the inner one's. */
static void drop_nested(struct job *j)
{
	size_t kept = 0;
	for (size_t i = 0; i < j->calls.len; i++) {
		const struct work_call *c = &j->calls.data[i];
		struct work_call *outer = kept ? &j->calls.data[kept - 1] : NULL;
		bool counts = flops_in_range(j, c->start_ns);
		if (outer && outer->thread == c->thread && c->start_ns < outer->end_ns) {
			j->f->within += counts;
			if (c->work.format)
				outer->work.format = c->work.format;
		} else if (!c->work.known) {
			j->f->unknown += counts;
		} else {
			j->calls.data[kept++] = *c;
		}
	}
	j->calls.len = kept;
}

/* What was captured is counted with the graphs; the rest is of another time. */
static void keep_counted(struct job *j)
{
	size_t kept = 0;
	for (size_t i = 0; i < j->calls.len; i++) {
		const struct work_call *c = &j->calls.data[i];
		if (!flops_in_range(j, c->start_ns))
			continue;
		if (c->capture == NO_CAPTURE)
			j->calls.data[kept++] = *c;
		else
			j->f->captured++;
	}
	j->calls.len = kept;
}

static void put_together(struct job *j)
{
	size_t total = 0;
	for (size_t b = 0; b < j->nblocks; b++)
		total += j->blocks[b].rows.len;
	vec_reserve(&j->calls, total + 1);
	for (size_t b = 0; b < j->nblocks; b++) {
		for (size_t i = 0; i < j->blocks[b].rows.len; i++)
			j->calls.data[j->calls.len++] = work_call(&j->blocks[b].rows.data[i]);
		vec_free(&j->blocks[b].rows);
	}
	sort_runs(j->calls.data, j->calls.len, sizeof(*j->calls.data), compare_calls, NULL);
	drop_nested(j);
	vec_fit(&j->calls);
	flops_graphs_add(j, j->source);
	keep_counted(j);
}

struct work_call *flops_find_call(const struct job *j, uint32_t thread, uint64_t time_ns)
{
	size_t low = 0, high = j->calls.len;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct work_call *c = &j->calls.data[middle];
		if (c->thread < thread || (c->thread == thread && c->start_ns <= time_ns))
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	struct work_call *c = &j->calls.data[low - 1];
	return c->thread == thread && time_ns < c->end_ns ? c : NULL;
}

/* ---- kernels ---- */

static void note_kernel(const struct job *j, struct work_call *c, uint32_t name)
{
	c->on_device = true;
	if (c->work.format == FORMAT_F32 &&
	    flops_kernel_is_tensor(strtab_get(&j->t->strings, name, NULL)))
		c->work.format = FORMAT_TF32;
}

static void add_other(struct job *j, uint32_t name, uint64_t ns)
{
	uint64_t at;
	if (!map64_get(&j->others, name, &at)) {
		at = j->f->others.len;
		map64_set(&j->others, name, at);
		*vec_push(&j->f->others) =
			(struct flops_kernel_time){.name = strtab_get(&j->t->strings, name, NULL)};
	}
	j->f->others.data[at].ns += ns;
}

static void add_span(struct job *j, const struct timeline_span *s)
{
	const struct timeline_kind *kind = timeline_kind_of(j->timeline, s);
	struct work_call *c = NULL;
	uint64_t ns = s->end_ns - s->start_ns;
	if (kind->work != WORK_KERNEL && kind->work != WORK_GRAPH)
		return;
	j->f->kernels_ns += ns;
	if (kind->of_graph) {
		j->f->graphs_ns += ns;
		if (j->f->graph_model > 0 && s->end_ns > j->last_ns)
			j->last_ns = s->end_ns;
	} else if (s->call != TIMELINE_NONE && j->call_of[s->call]) {
		c = &j->calls.data[j->call_of[s->call] - 1];
	}
	if (!c) {
		add_other(j, kind->name, ns);
		return;
	}
	j->f->counted_ns += ns;
	c->device_ns += ns;
	note_kernel(j, c, kind->name);
	if (ns > c->kernel_ns) {
		c->kernel_ns = ns;
		c->kernel = kind->name;
	}
	if (s->end_ns > j->last_ns)
		j->last_ns = s->end_ns;
}

/* The counted call that each call of the timeline lies in, + 1. Both are in order of start on a
 * thread. */
static uint32_t *find_calls(const struct job *j)
{
	const struct timeline *t = j->timeline;
	uint32_t *found = xcalloc(t->calls.len + 1, sizeof(*found));
	size_t *next = xcalloc(j->t->threads.len + 1, sizeof(*next)); /* by thread */
	size_t at = 0;
	for (size_t i = 0; i < j->t->threads.len; i++) {
		while (at < j->calls.len && j->calls.data[at].thread < i)
			at++;
		next[i] = at;
	}
	for (size_t i = 0; i < t->calls.len; i++) {
		uint64_t ns = t->calls.data[i].start_ns;
		uint32_t thread = timeline_call_kind_of(t, &t->calls.data[i])->thread;
		size_t *n = &next[thread];
		while (*n < j->calls.len && j->calls.data[*n].thread == thread &&
		       j->calls.data[*n].end_ns <= ns)
			++*n;
		if (*n < j->calls.len && j->calls.data[*n].thread == thread &&
		    j->calls.data[*n].start_ns <= ns)
			found[i] = (uint32_t)*n + 1;
	}
	free(next);
	return found;
}

static void find_kernels(struct job *j)
{
	const struct timeline *t = j->timeline;
	j->call_of = find_calls(j);
	for (size_t i = 0; i < t->calls.len; i++) {
		const struct timeline_call_kind *k = timeline_call_kind_of(t, &t->calls.data[i]);
		if (k->role == GPU_LAUNCH && j->call_of[i])
			note_kernel(j, &j->calls.data[j->call_of[i] - 1], k->name);
	}
	for (size_t i = 0; i < t->spans.len; i++)
		add_span(j, &t->spans.data[i]);
	free(j->call_of);
}

/* ---- devices ---- */

/* Until when each device was busy. Spans come by process and start, so of each device in order. */
static void sum_busy(struct job *j)
{
	struct map64 until = {0}; /* by pid << 32 | device */
	for (size_t i = 0; i < j->timeline->spans.len; i++) {
		const struct timeline_span *s = &j->timeline->spans.data[i];
		const struct timeline_kind *kind = timeline_kind_of(j->timeline, s);
		uint64_t key = (uint64_t)kind->pid << 32 | (uint32_t)kind->device, until_ns = 0;
		if (kind->work != WORK_KERNEL && kind->work != WORK_GRAPH)
			continue;
		bool known = map64_get(&until, key, &until_ns);
		uint64_t from = s->start_ns > until_ns ? s->start_ns : until_ns;
		if (s->end_ns > from)
			j->f->busy_ns += s->end_ns - from;
		if (!known || s->end_ns > from)
			map64_set(&until, key, s->end_ns > from ? s->end_ns : until_ns);
	}
	j->f->devices = (uint32_t)until.len;
	map64_free(&until);
}

/* Without a timeline: as many devices as processes launched kernels in counted calls. */
static void count_processes(struct job *j)
{
	struct map64 pids = {0};
	for (size_t i = 0; i < j->calls.len; i++)
		if (j->calls.data[i].on_device)
			map64_set(&pids, j->t->threads.data[j->calls.data[i].thread].pid, 1);
	j->f->devices = (uint32_t)pids.len;
	map64_free(&pids);
}

static const char *device_name(const struct rec_tables *t)
{
	const char *name = NULL;
	for (size_t i = 0; i < t->gpus.len; i++) {
		const char *this = strtab_get(&t->strings, t->gpus.data[i].name, NULL);
		if (t->gpus.data[i].parent >= 0 || (name && strcmp(name, this)))
			return NULL;
		name = this;
	}
	return name;
}

/* 0 where the peak of one of the formats is not known. */
static double ideal_s(const char *device, const double by_format[FLOPS_FORMATS])
{
	double s = 0;
	for (int i = 0; i < FLOPS_FORMATS; i++) {
		double peak = by_format[i] > 0 ? flops_peak(device, (enum flops_format)i) : 1;
		if (peak <= 0)
			return 0;
		s += by_format[i] / peak;
	}
	return s;
}

static void find_devices(struct job *j)
{
	struct flops *f = j->f;
	sum_busy(j);
	if (!f->devices)
		count_processes(j);
	f->device = device_name(j->t);
	if (!f->devices || !f->device)
		return;
	f->ideal_s = ideal_s(f->device, f->by_format);
	f->hardware_ideal_s = ideal_s(f->device, f->hardware_by_format);
}

/* ---- sums ---- */

static void add_to_row(flops_rows_t *rows, struct map64 *index, uint64_t name_number,
		       const struct flops_row *add)
{
	uint64_t key = name_number << 8 | add->format, at;
	if (!map64_get(index, key, &at)) {
		at = rows->len;
		map64_set(index, key, at);
		struct flops_row *row = vec_push(rows);
		*row = (struct flops_row){
			.name = add->name, .kind = add->kind, .format = add->format};
	}
	struct flops_row *row = &rows->data[at];
	row->calls += add->calls;
	row->model += add->model;
	row->hardware += add->hardware;
	row->host_ns += add->host_ns;
	row->device_ns += add->device_ns;
}

static int compare_rows(const void *a, const void *b)
{
	const struct flops_row *x = a, *y = b;
	if (x->model != y->model)
		return x->model > y->model ? -1 : 1;
	return strcmp(x->name, y->name);
}

void flops_add_work(struct flops *f, uint8_t format, double model, double hardware)
{
	f->model += model;
	f->hardware += hardware;
	f->by_format[format] += model;
	f->hardware_by_format[format] += hardware;
}

/* How much of a span of time the operators' probes were on: all of it, but for bursts. */
static uint64_t probed_ns(const struct rec_tables *t, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t sum = 0;
	bool any = false;
	for (size_t i = 0; i < t->windows.len; i++) {
		const struct m_window *w = &t->windows.data[i];
		const char *layer = strtab_get(&t->strings, w->layer, NULL);
		if (*layer && !(layer_traits_of_name(layer) & LAYER_HAS_OPERATORS))
			continue;
		any = true;
		uint64_t from = w->start_ns > from_ns ? w->start_ns : from_ns;
		uint64_t to = w->end_ns < to_ns ? w->end_ns : to_ns;
		sum += to > from ? to - from : 0;
	}
	return any ? sum : to_ns - from_ns;
}

static void sum_calls(struct job *j)
{
	struct flops *f = j->f;
	struct map64 operators = {0}, kernels = {0};
	for (size_t i = 0; i < j->calls.len; i++) {
		const struct work_call *c = &j->calls.data[i];
		uint32_t name = j->t->probes.data[c->probe].name;
		struct flops_row row = {.name = strtab_get(&j->t->strings, name, NULL),
					.kind = j->probes[c->probe].kind,
					.format = c->work.format,
					.calls = 1,
					.model = c->work.model,
					.hardware = c->work.hardware,
					.host_ns = c->end_ns - c->start_ns,
					.device_ns = c->device_ns};
		add_to_row(&f->operators, &operators, name, &row);
		flops_add_work(f, row.format, row.model, row.hardware);
		f->calls++;
		f->masked += c->work.masked;
		f->host_ns += row.host_ns;
		j->first_ns = c->start_ns < j->first_ns ? c->start_ns : j->first_ns;
		j->last_ns = c->end_ns > j->last_ns ? c->end_ns : j->last_ns;
		if (!c->kernel_ns)
			continue;
		row.name = strtab_get(&j->t->strings, c->kernel, NULL);
		row.kind = FLOPS_NONE;
		row.host_ns = 0;
		add_to_row(&f->kernels, &kernels, c->kernel, &row);
	}
	if (f->model > 0) {
		f->first_ns = j->first_ns;
		f->last_ns = j->last_ns;
		f->wall_ns = probed_ns(j->t, j->first_ns, j->last_ns);
	}
	if (f->operators.len)
		qsort(f->operators.data, f->operators.len, sizeof(*f->operators.data),
		      compare_rows);
	if (f->graphs.len)
		qsort(f->graphs.data, f->graphs.len, sizeof(*f->graphs.data), compare_rows);
	if (f->kernels.len)
		qsort(f->kernels.data, f->kernels.len, sizeof(*f->kernels.data), compare_rows);
	map64_free(&operators);
	map64_free(&kernels);
}

static int compare_others(const void *a, const void *b)
{
	const struct flops_kernel_time *x = a, *y = b;
	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return strcmp(x->name, y->name);
}

static const char *string_of(void *tables, uint32_t number)
{
	const struct rec_tables *t = tables;
	return strtab_get(&t->strings, number, NULL);
}

static bool make_probes(struct job *j)
{
	bool any = false;
	j->probes = xcalloc(j->t->probes.len + 1, sizeof(*j->probes));
	for (size_t i = 0; i < j->t->probes.len; i++) {
		flops_probe_make(&j->probes[i], string_of, (void *)j->t, &j->t->probes.data[i]);
		any |= j->probes[i].kind != FLOPS_NONE;
	}
	return any;
}

static void end_visit(struct row_visitor *v, void *states, size_t n)
{
	struct job *j = (struct job *)v;
	(void)states;
	(void)n;
	if (v->kinds) {
		put_together(j);
		find_kernels(j);
		sum_calls(j);
		find_devices(j);
	}
	flops_activity_read(j->f, j->source);
	if (j->f->others.len)
		qsort(j->f->others.data, j->f->others.len, sizeof(*j->f->others.data),
		      compare_others);
	map64_free(&j->others);
	vec_free(&j->calls);
	free(j->probes);
	free(j->blocks);
	free(j);
}

struct row_visitor *flops_visitor(struct flops *ret, const struct row_source *s,
				  const struct timeline *t, const struct flops_options *o)
{
	struct job *j = xcalloc(1, sizeof(*j));
	*ret = (struct flops){0};
	*j = (struct job){.visitor = {.rows = load_rows, .end = end_visit},
			  .f = ret,
			  .source = s,
			  .t = s->tables,
			  .timeline = t,
			  .o = *o,
			  .first_ns = UINT64_MAX};
	j->nblocks = s->blocks(s->ctx, ROW_CALL);
	j->blocks = xcalloc(j->nblocks + 1, sizeof(*j->blocks));
	j->visitor.kinds = make_probes(j) ? 1u << ROW_CALL : 0;
	return &j->visitor;
}

void flops_make(struct flops *ret, const struct row_source *s, const struct timeline *t,
		const struct flops_options *o)
{
	struct row_visitor *v = flops_visitor(ret, s, t, o);
	rows_visit(s, &v, 1, NULL);
}

void flops_free(struct flops *f)
{
	vec_free(&f->operators);
	vec_free(&f->kernels);
	vec_free(&f->graphs);
	vec_free(&f->others);
}

double flops_utilisation(const struct flops *f, bool hardware)
{
	double ideal = hardware ? f->hardware_ideal_s : f->ideal_s;
	if (ideal <= 0 || !f->wall_ns || !f->devices)
		return -1;
	return ideal / ((double)f->wall_ns / 1e9 * f->devices);
}
