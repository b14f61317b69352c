/* summary.c - sums up a recording and makes the report's rows of it.
 *
 * Each thread sums into tables of its own (pass.c), which are merged at the end. Kernel histograms
 * are added last. */
#include "analyze/summary.h"

#include "analyze/functions.h"
#include "analyze/pass.h"
#include "base/map64.h"
#include "wire/event.h"

#define MAX_OPEN_LISTED 1000

struct job {
	struct row_visitor visitor;
	struct summary *ret;
	const struct rec_tables *tables;
	struct summary_options options;
	struct fn_ids ids;
	uint32_t *same_name; /* probe -> the first one of its layer and name */
	bool *thread_wanted;
	uint8_t **thread_counted;
	VEC(uint8_t *) bitmaps; /* what thread_counted points to */
	struct pass *passes;	/* the threads' states */
	size_t passes_len;
};

/* ---- a thread's share ---- */

static void begin_pass(const struct job *job, struct pass *p)
{
	p->ids = &job->ids;
	p->same_name = job->same_name;
	p->thread_wanted = job->thread_wanted;
	p->thread_counted = job->thread_counted;
	pass_init(p);
}

static void visit_calls(const struct row_visitor *v, void *state, const struct visited_rows *rows)
{
	struct pass *p = state;
	if (!p->ids)
		begin_pass((const struct job *)v, p);
	pass_block(p, rows->block, rows->rows, rows->len);
}

static void note_unread(const struct row_visitor *v, void *state, enum row_kind kind,
			const struct err *why)
{
	struct pass *p = state;
	(void)v;
	(void)kind;
	if (!p->blocks_unread++)
		p->unread = *why;
}

/* ---- what is wanted, and what histograms have counted ---- */

static void choose_threads(struct job *job)
{
	const struct rec_tables *t = job->tables;
	if (!job->options.pid)
		return;
	job->thread_wanted = xcalloc(t->threads.len + 1, sizeof(bool));
	for (size_t i = 0; i < t->threads.len; i++)
		job->thread_wanted[i] = t->threads.data[i].pid == job->options.pid;
}

/* Overloads of one operator are several probes of one name. */
static void find_same_names(struct job *job)
{
	const struct rec_tables *t = job->tables;
	struct map64 first = {0};
	job->same_name = xcalloc(t->probes.len + 1, sizeof(*job->same_name));
	for (uint32_t i = 0; i < t->probes.len; i++) {
		const struct m_probe *p = &t->probes.data[i];
		uint64_t at = i, key = (uint64_t)p->layer << 32 | p->name;
		if (!map64_get(&first, key, &at))
			map64_set(&first, key, i);
		job->same_name[i] = (uint32_t)at;
	}
	map64_free(&first);
}

static bool hist_wanted(const struct job *job, const struct m_hist *h)
{
	return (!job->options.pid || h->pid == job->options.pid) &&
	       h->probe < job->tables->probes.len;
}

static void mark_counted(struct job *job)
{
	const struct rec_tables *t = job->tables;
	struct map64 by_pid = {0}; /* pid -> index into bitmaps */
	size_t bytes = t->probes.len / 8 + 1;
	for (size_t i = 0; i < t->hists.len; i++) {
		const struct m_hist *h = &t->hists.data[i];
		uint64_t at = job->bitmaps.len;
		if (!hist_wanted(job, h))
			continue;
		if (!map64_get(&by_pid, h->pid, &at)) {
			*vec_push(&job->bitmaps) = xcalloc(bytes, 1);
			map64_set(&by_pid, h->pid, at);
		}
		job->bitmaps.data[at][h->probe / 8] |= (uint8_t)(1u << h->probe % 8);
	}
	if (job->bitmaps.len) {
		job->thread_counted = xcalloc(t->threads.len + 1, sizeof(uint8_t *));
		for (size_t i = 0; i < t->threads.len; i++) {
			uint64_t at;
			if (map64_get(&by_pid, t->threads.data[i].pid, &at))
				job->thread_counted[i] = job->bitmaps.data[at];
		}
	}
	map64_free(&by_pid);
}

/* Bucket b of a kernel histogram holds [low, high): see HIST_* in wire/event.h. */
static uint64_t bucket_low(unsigned b)
{
	return (uint64_t)(4 + b % 4) << (HIST_MIN_SHIFT - 2 + b / 4);
}

static void add_hist(struct pass *p, const struct m_hist *h)
{
	struct fn_sums *f = pass_sums(p, fn_id_named(p->ids, h->probe, h->name));
	f->from_histogram = true;
	f->calls += h->count;
	f->errors += h->errors;
	f->nested += h->nested;
	f->total_ns += h->total_ns;
	if (h->max_ns > f->max_ns)
		f->max_ns = h->max_ns;
	for (unsigned b = 0; b < HIST_BUCKETS; b++) {
		if (!h->buckets[b])
			continue;
		uint64_t low = bucket_low(b), high = bucket_low(b + 1);
		/* Nothing is longer than the longest call. */
		if (h->max_ns && h->max_ns < high)
			high = h->max_ns > low ? h->max_ns : low;
		hist_add_range(&f->durations, low, high, h->buckets[b]);
	}
	if (f->durations.count && h->max_ns > f->durations.max)
		f->durations.max = h->max_ns; /* exact, unlike its bucket */
}

/* ---- rows ---- */

static void function_row(struct summary_function *ret, const struct fn_ids *ids, uint32_t id,
			 const struct fn_sums *f)
{
	struct fn_label label;
	fn_label_make(ids, id, &label);
	uint64_t timed = f->calls - f->instants;
	*ret = (struct summary_function){
		.layer = label.layer,
		.name = label.name,
		.file = label.file,
		.line = label.line,
		.calls = f->calls,
		.errors = f->errors,
		.nested = f->nested,
		.instants = f->instants,
		.open = f->open,
		.unwound = f->unwound,
		.total_ns = f->total_ns > f->again_ns ? f->total_ns - f->again_ns : 0,
		.self_ns = f->total_ns > f->inside_ns ? f->total_ns - f->inside_ns : 0,
		.mean_ns = timed ? f->total_ns / timed : 0,
		.p50_ns = hist_quantile(&f->durations, 0.50),
		.p99_ns = hist_quantile(&f->durations, 0.99),
		.max_ns = f->max_ns,
		.from_histogram = f->from_histogram,
		.self_known = !f->from_histogram,
	};
	if (ret->total_ns < ret->self_ns) /* where what ended in earlier blocks was put together */
		ret->total_ns = ret->self_ns;
	if (ret->p50_ns > ret->max_ns)
		ret->p50_ns = ret->max_ns;
	if (ret->p99_ns > ret->max_ns)
		ret->p99_ns = ret->max_ns;
}

static int compare_functions(const void *a, const void *b)
{
	const struct summary_function *x = a, *y = b;
	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	if (x->calls != y->calls)
		return x->calls > y->calls ? -1 : 1;
	int by_layer = strcmp(x->layer, y->layer);
	return by_layer ? by_layer : strcmp(x->name, y->name);
}

/* Overloads of one operator are several probes of one name, and one row. */
static uint32_t same_name(struct strtab *seen, const struct fn_ids *ids, uint32_t id)
{
	struct fn_label label;
	fn_label_make(ids, id, &label);
	struct buf key = {0};
	buf_add(&key, label.layer, strlen(label.layer) + 1);
	buf_add(&key, label.name, strlen(label.name));
	uint32_t number = strtab_add(seen, (const char *)key.data, key.len);
	buf_free(&key);
	free(label.name);
	return number;
}

/* Adds the sums of another worker, or takes them over: there may be as many as calls. */
static void take_sums(struct fn_sums **to, struct fn_sums **from)
{
	if (!*from)
		return;
	if (*to) {
		fn_sums_merge(*to, *from);
		return;
	}
	*to = *from;
	*from = NULL;
}

/* ---- what a budget turned down ---- */

static void lower(double *ratio, double to)
{
	if (to < *ratio)
		*ratio = to;
}

/* By probe: the least share of the time in which it, or another of its name, was on. */
static double *find_on_ratios(const struct job *job)
{
	const struct rec_tables *t = job->tables;
	double *ret = xcalloc(t->probes.len + 1, sizeof(*ret));
	for (size_t i = 0; i < t->probes.len; i++)
		ret[i] = 1;
	for (size_t i = 0; i < t->coverages.len; i++) {
		const struct m_coverage *c = &t->coverages.data[i];
		double sum_ns = (double)c->on_ns + (double)c->off_ns;
		if (c->probe < t->probes.len && c->off_ns)
			lower(&ret[job->same_name[c->probe]], (double)c->on_ns / sum_ns);
	}
	for (size_t i = 0; i < t->probes.len; i++)
		ret[i] = ret[job->same_name[i]];
	return ret;
}

static void lower_named(const struct fn_ids *ids, const struct fn_probe *p, double *ret, double to)
{
	for (size_t i = 0; i < ids->ranges.len; i++) {
		const struct fn_range *r = &ids->ranges.data[i];
		for (uint32_t k = 0; r->base == p->base && k < r->len; k++)
			lower(&ret[r->base + k], to);
	}
}

/* By function; NULL where all were on all the time. */
static double *find_on_by_function(const struct job *job)
{
	const struct fn_ids *ids = &job->ids;
	if (!job->tables->coverages.len)
		return NULL;
	double *of_probe = find_on_ratios(job), *ret = xcalloc(ids->len + 1, sizeof(*ret));
	for (uint32_t i = 0; i < ids->len; i++)
		ret[i] = 1;
	for (size_t i = 0; i < job->tables->probes.len; i++) {
		lower(&ret[ids->probes[i].own], of_probe[i]);
		if (ids->probes[i].name_arg >= 0 && of_probe[i] < 1)
			lower_named(ids, &ids->probes[i], ret, of_probe[i]);
	}
	free(of_probe);
	return ret;
}

static void make_functions(struct summary *s, struct job *job)
{
	struct pass *first = &job->passes[0];
	struct strtab seen = {0};
	VEC(uint32_t) row_fn = {0}; /* name number - 1 -> function number that stands for it */
	double *on_ratios = find_on_by_function(job);
	for (uint32_t id = 0; id < job->ids.len; id++) {
		for (size_t i = 1; i < job->passes_len; i++)
			take_sums(&first->sums[id], &job->passes[i].sums[id]);
		if (!first->sums[id] || !(first->sums[id]->calls || first->sums[id]->again_ns))
			continue;
		uint32_t number = same_name(&seen, &job->ids, id);
		if (number > row_fn.len) {
			*vec_push(&row_fn) = id;
			continue;
		}
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): numbers are from 1 on */
		uint32_t stands = row_fn.data[number - 1];
		if (on_ratios)
			lower(&on_ratios[stands], on_ratios[id]);
		if (first->sums[id])
			fn_sums_merge(first->sums[stands], first->sums[id]);
	}
	for (size_t i = 0; i < row_fn.len; i++) {
		struct summary_function *f = vec_push(&s->functions);
		function_row(f, &job->ids, row_fn.data[i], first->sums[row_fn.data[i]]);
		f->on_ratio = on_ratios ? on_ratios[row_fn.data[i]] : 1;
		/* what is around calls that were not seen has no time of its own */
		f->self_known &= !on_ratios || f->on_ratio < 1;
	}
	free(on_ratios);
	if (s->functions.len)
		qsort(s->functions.data, s->functions.len, sizeof(*s->functions.data),
		      compare_functions);
	vec_free(&row_fn);
	strtab_free(&seen);
}

static void make_processes(struct summary *s, const struct job *job)
{
	const struct rec_tables *t = job->tables;
	struct map64 by_pid = {0};
	for (size_t i = 0; i < t->processes.len; i++) {
		const struct m_process *row = &t->processes.data[i];
		if (job->options.pid && row->pid != job->options.pid)
			continue;
		/* What was seen of a process before its fork was told, or before it ran another
		 * program, has a row of its own. Only after one has ended is its number another's.
		 */
		uint64_t at;
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): at is one that was pushed */
		if (map64_get(&by_pid, row->pid, &at) && !s->processes.data[at].row->end_ns) {
			s->processes.data[at].row = row;
			continue;
		}
		map64_set(&by_pid, row->pid, s->processes.len);
		((struct summary_process *)vec_push(&s->processes))->row = row;
	}
	for (size_t i = 0; i < t->threads.len; i++) {
		uint64_t at;
		if (!map64_get(&by_pid, t->threads.data[i].pid, &at))
			continue;
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): found means there is one */
		s->processes.data[at].threads++;
		for (size_t k = 0; k < job->passes_len; k++)
			s->processes.data[at].calls += job->passes[k].thread_calls[i];
	}
	map64_free(&by_pid);
}

static int compare_open(const void *a, const void *b)
{
	const struct m_call *x = a, *y = b;
	if (x->dur_ns != y->dur_ns)
		return x->dur_ns > y->dur_ns ? -1 : 1;
	return x->depth < y->depth ? -1 : x->depth > y->depth;
}

static void make_open_calls(struct summary *s, const struct job *job)
{
	VEC(struct m_call) all = {0};
	for (size_t i = 0; i < job->passes_len; i++) {
		s->open_calls_total += job->passes[i].open_calls_total;
		for (size_t k = 0; k < job->passes[i].open_calls.len; k++)
			*vec_push(&all) = job->passes[i].open_calls.data[k];
	}
	if (all.len)
		qsort(all.data, all.len, sizeof(*all.data), compare_open);
	for (size_t i = 0; i < all.len && i < MAX_OPEN_LISTED; i++) {
		const struct m_call *c = &all.data[i];
		const struct m_thread *thread = &job->tables->threads.data[c->thread];
		struct fn_label label;
		fn_label_make(&job->ids, fn_id(&job->ids, c), &label);
		*(struct summary_open_call *)vec_push(&s->open_calls) = (struct summary_open_call){
			.name = label.name,
			.layer = label.layer,
			.pid = thread->pid,
			.tid = thread->tid,
			.start_ns = c->start_ns,
			.dur_ns = c->dur_ns,
		};
	}
	vec_free(&all);
}

static void make_totals(struct summary *s, const struct job *job)
{
	for (size_t i = 0; i < job->passes_len; i++) {
		const struct pass *p = &job->passes[i];
		if (p->first_ns && (!s->first_ns || p->first_ns < s->first_ns))
			s->first_ns = p->first_ns;
		if (p->last_ns > s->last_ns)
			s->last_ns = p->last_ns;
		if (p->blocks_unread && !s->blocks_unread)
			s->unread = p->unread;
		s->blocks_unread += p->blocks_unread;
	}
}

static void job_free(struct job *job)
{
	for (size_t i = 0; i < job->passes_len; i++)
		pass_free(&job->passes[i]);
	for (size_t i = 0; i < job->bitmaps.len; i++)
		free(job->bitmaps.data[i]);
	vec_free(&job->bitmaps);
	free(job->thread_counted);
	free(job->thread_wanted);
	free(job->same_name);
	fn_ids_free(&job->ids);
	free(job);
}

static void end_visit(struct row_visitor *v, void *states, size_t n)
{
	struct job *job = (struct job *)v;
	struct summary s = {0};
	job->passes = states;
	job->passes_len = n;
	for (size_t i = 0; i < n; i++)
		if (!job->passes[i].ids)
			begin_pass(job, &job->passes[i]);
	pass_join_edges(job->passes, n);
	for (size_t i = 0; i < job->tables->hists.len; i++)
		if (hist_wanted(job, &job->tables->hists.data[i]))
			add_hist(&job->passes[0], &job->tables->hists.data[i]);
	make_functions(&s, job);
	make_processes(&s, job);
	make_open_calls(&s, job);
	make_totals(&s, job);
	*job->ret = s;
	job_free(job);
}

struct row_visitor *summary_visitor(struct summary *ret, const struct row_source *s,
				    const struct summary_options *options)
{
	struct job *job = xcalloc(1, sizeof(*job));
	*job = (struct job){.visitor = {.kinds = 1u << ROW_CALL,
					.state_bytes = sizeof(struct pass),
					.rows = visit_calls,
					.unread = note_unread,
					.end = end_visit},
			    .ret = ret,
			    .tables = s->tables,
			    .options = *options};
	fn_ids_make(&job->ids, job->tables);
	find_same_names(job);
	choose_threads(job);
	mark_counted(job);
	return &job->visitor;
}

void summary_make(struct summary *ret, const struct row_source *s,
		  const struct summary_options *options)
{
	struct row_visitor *v = summary_visitor(ret, s, options);
	rows_visit(s, &v, 1, &options->visit);
}

void summary_free(struct summary *s)
{
	for (size_t i = 0; i < s->functions.len; i++)
		free(s->functions.data[i].name);
	for (size_t i = 0; i < s->open_calls.len; i++)
		free(s->open_calls.data[i].name);
	vec_free(&s->functions);
	vec_free(&s->processes);
	vec_free(&s->open_calls);
}
