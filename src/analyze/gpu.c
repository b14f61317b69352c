/* gpu.c - goes through a recording for what concerns GPUs and makes the rows of it.
 *
 * One round over the calls is enough where nothing was captured into a graph: it counts, and
 * keeps the few calls that have to be gone through in order of time (gpu_kept.h). Where
 * streams were captured a second round takes the events that let other streams join, and a
 * third counts again, now knowing which calls ran. The same when copies tell no direction. */
#include "analyze/gpu.h"

#include <string.h>

#include <linux/types.h>

#include "analyze/gpu_count.h"
#include "analyze/gpu_devices.h"
#include "analyze/gpu_kept.h"
#include "analyze/gpu_ledger.h"
#include "base/kernel_name.h"
#include "wire/event.h"

enum round { ROUND_FIRST, ROUND_EVENTS, ROUND_COUNT };

/* What a thread counts and keeps. */
struct share {
	struct gpu_counts counts;
	bool counts_made;
	gpu_kept_t kept;
};

struct job {
	struct gpu_summary *ret;
	const struct row_source *source;
	const struct rec_tables *t;
	struct gpu_options options;
	struct gpu_probes probes;
	struct gpu_count_context context;
	struct gpu_graphs *graphs; /* without those that joined; while events are read */
	bool *block_empty; /* no call of a role or with an error: left out from the second round */
	struct share *shares; /* of the round that has ended */
	size_t shares_len;
};

/* One round over the calls. */
struct round_visitor {
	struct row_visitor visitor;
	struct job *job;
	enum round round;
};

/* ---- a block ---- */

static bool sets_current(uint8_t role)
{
	return role == GPU_CONTEXT_CURRENT || role == GPU_DEVICE_CURRENT;
}

/* Calls that make the context or device of before current again change nothing. */
static bool context_again(const struct share *w, size_t kept_before, const struct gpu_kept *k)
{
	if (!sets_current(k->role))
		return false;
	for (size_t i = w->kept.len; i > kept_before; i--) {
		const struct gpu_kept *last = &w->kept.data[i - 1];
		if (last->thread != k->thread)
			return false;
		if (last->role == k->role)
			return last->v[0] == k->v[0];
		if (sets_current(last->role) || last->role == GPU_CONTEXT_PUSH ||
		    last->role == GPU_CONTEXT_POP)
			return false;
	}
	return false;
}

static void keep(const struct round_visitor *v, struct share *w, const struct gpu_probe *p,
		 const struct m_call *c, size_t kept_before, uint64_t order)
{
	const struct job *job = v->job;
	bool of_event = p->role == GPU_EVENT_RECORD || p->role == GPU_EVENT_WAIT;
	struct gpu_kept k;
	if (of_event != (v->round == ROUND_EVENTS) || c->start_ns >= job->context.to_ns)
		return;
	if (of_event && !gpu_graphs_capturing(job->graphs, job->t->threads.data[c->thread].pid,
					      c->start_ns, c->start_ns + c->dur_ns))
		return;
	if (gpu_keep(&k, p, c, order) && !context_again(w, kept_before, &k))
		*vec_push(&w->kept) = k;
}

static void visit_calls(const struct round_visitor *v, struct share *w,
			const struct visited_rows *rows)
{
	struct job *job = v->job;
	uint32_t pid = job->options.pid;
	size_t kept_before = w->kept.len;
	const struct m_call *calls = rows->rows;
	bool some = false;
	for (size_t i = 0; i < rows->len && !job->block_empty[rows->block]; i++) {
		const struct m_call *c = &calls[i];
		const struct gpu_probe *p = &job->probes.rows[c->probe];
		bool error = p->has_code && c->flags & CALL_ERROR;
		if (p->role == GPU_NO_ROLE && !error)
			continue;
		some = true;
		if (pid && job->t->threads.data[c->thread].pid != pid)
			continue;
		if (gpu_role_is_kept(p->role) && v->round != ROUND_COUNT)
			keep(v, w, p, c, kept_before, (uint64_t)rows->block << 32 | i);
		if (v->round != ROUND_EVENTS)
			gpu_count(&w->counts, &job->context, c);
	}
	job->block_empty[rows->block] = !some;
}

static void visit_rows(const struct row_visitor *visitor, void *state,
		       const struct visited_rows *rows)
{
	const struct round_visitor *v = (const struct round_visitor *)visitor;
	struct share *w = state;
	if (!w->counts_made && v->round != ROUND_EVENTS) {
		gpu_counts_init(&w->counts, &v->job->context);
		w->counts_made = true;
	}
	visit_calls(v, w, rows);
}

/* ---- rounds ---- */

static void make_summary(struct job *job);

static void shares_free(struct job *job)
{
	for (size_t i = 0; i < job->shares_len; i++) {
		if (job->shares[i].counts_made)
			gpu_counts_free(&job->shares[i].counts);
		vec_free(&job->shares[i].kept);
	}
	free(job->shares);
	job->shares = NULL;
	job->shares_len = 0;
}

static void end_round(struct row_visitor *visitor, void *states, size_t n)
{
	struct round_visitor *v = (struct round_visitor *)visitor;
	struct job *job = v->job;
	job->shares = xcalloc(n, sizeof(*job->shares));
	job->shares_len = n;
	memcpy(job->shares, states, n * sizeof(*job->shares));
	if (v->round == ROUND_FIRST)
		make_summary(job);
	free(v);
}

static struct row_visitor *round_visitor(struct job *job, enum round round)
{
	struct round_visitor *v = xcalloc(1, sizeof(*v));
	*v = (struct round_visitor){
		.visitor = {.kinds = job->probes.any ? 1u << ROW_CALL : 0,
			    .state_bytes = sizeof(struct share),
			    .rows = visit_rows,
			    .end = end_round},
		.job = job,
		.round = round,
	};
	return &v->visitor;
}

/* The shares are then those of the new round. */
static void run_round(struct job *job, enum round round)
{
	struct row_visitor *v = round_visitor(job, round);
	rows_visit(job->source, &v, 1, &job->options.visit);
}

/* All that the threads kept. */
static gpu_kept_t gather_kept(struct job *job)
{
	gpu_kept_t all = {0};
	for (size_t i = 0; i < job->shares_len; i++) {
		struct share *w = &job->shares[i];
		for (size_t k = 0; k < w->kept.len; k++)
			*vec_push(&all) = w->kept.data[k];
		vec_free(&w->kept);
	}
	return all;
}

/* Makes the graphs; where something was captured, with the streams that joined. */
static void make_graphs(struct job *job, gpu_kept_t *kept)
{
	job->graphs = gpu_graphs_new(job->t, &job->probes, kept);
	if (!gpu_graphs_captures(job->graphs))
		return;
	run_round(job, ROUND_EVENTS);
	gpu_kept_t events = gather_kept(job);
	for (size_t i = 0; i < events.len; i++)
		*vec_push(kept) = events.data[i];
	vec_free(&events);
	gpu_kept_sort(kept);
	gpu_graphs_free(job->graphs);
	job->graphs = gpu_graphs_new(job->t, &job->probes, kept);
}

/* ---- rows ---- */

static int compare_kernels(const void *a, const void *b)
{
	const struct gpu_kernel *x = a, *y = b;
	uint64_t runs_x = x->launches + x->graph_kernels, runs_y = y->launches + y->graph_kernels;
	if (runs_x != runs_y)
		return runs_x > runs_y ? -1 : 1;
	if (x->captured != y->captured)
		return x->captured > y->captured ? -1 : 1;
	return strcmp(x->name, y->name);
}

static struct gpu_kernel kernel_row(const struct rec_tables *t, const struct gpu_kernel_count *k,
				    uint64_t graph_kernels)
{
	char short_name[KERNEL_NAME_BYTES];
	const char *name = k->string ? strtab_get(&t->strings, k->string, NULL) : "kernel node";
	kernel_name_short(short_name, sizeof(short_name), name);
	return (struct gpu_kernel){
		.name = name,
		.short_name = xstrdup(short_name),
		.launches = k->launches,
		.captured = k->captured,
		.graph_kernels = graph_kernels,
		.total_ns = k->total_ns,
		.grid = k->grid,
		.block = k->block,
		.named = k->named && kernel_name_known(name),
	};
}

static void make_kernels(struct gpu_summary *s, struct job *job, struct gpu_counts *n,
			 const struct gpu_tally *ran)
{
	uint64_t *in_graphs;
	for (size_t i = 0; i < ran->rows.len; i++)
		if (ran->rows.data[i].key.a == GPU_PIECE_KERNEL)
			(void)gpu_kernel_of(n, (uint32_t)ran->rows.data[i].key.b);
	in_graphs = xcalloc(n->kernels.len + 1, sizeof(*in_graphs));
	for (size_t i = 0; i < ran->rows.len; i++) {
		const struct gpu_tally_row *row = &ran->rows.data[i];
		if (row->key.a == GPU_PIECE_KERNEL)
			in_graphs[n->kernel_of[row->key.b] - 1] += row->calls;
	}
	for (size_t i = 0; i < n->kernels.len; i++) {
		const struct gpu_kernel_count *k = &n->kernels.data[i];
		if (!k->launches && !k->captured && !in_graphs[i])
			continue; /* not in the time that is asked for */
		struct gpu_kernel row = kernel_row(job->t, k, in_graphs[i]);
		s->total.launches += row.launches;
		s->total.captured += row.captured;
		s->total.graph_kernels += row.graph_kernels;
		s->total.named += row.named ? row.launches + row.captured : 0;
		*vec_push(&s->kernels) = row;
	}
	free(in_graphs);
	if (s->kernels.len)
		qsort(s->kernels.data, s->kernels.len, sizeof(*s->kernels.data), compare_kernels);
	s->total.graphs = n->graph_launches;
	s->total.graphs_unknown = n->graphs_unknown;
}

static void make_copies(struct gpu_summary *s, const struct gpu_counts *n,
			const struct gpu_tally *ran)
{
	uint64_t nodes[GPU_COPY_CELLS] = {0}, bytes[GPU_COPY_CELLS] = {0};
	for (size_t i = 0; i < ran->rows.len; i++) {
		const struct gpu_tally_row *row = &ran->rows.data[i];
		if (row->key.a != GPU_PIECE_COPY)
			continue;
		nodes[row->key.b] += row->calls;
		bytes[row->key.b] += row->bytes;
	}
	for (uint32_t i = 0; i < GPU_COPY_CELLS; i++) {
		const struct gpu_copy_count *c = &n->copies[i];
		if (!c->calls && !c->captured && !nodes[i])
			continue;
		*(struct gpu_copies *)vec_push(&s->copies) = (struct gpu_copies){
			.direction = i / 2,
			.set = i / 2 == GPU_DIRECTIONS,
			.async = i % 2,
			.calls = c->calls,
			.captured = c->captured,
			.graph_nodes_run = nodes[i],
			.bytes = c->bytes + bytes[i],
			.total_ns = c->total_ns,
		};
	}
}

static int compare_syncs(const void *a, const void *b)
{
	const struct gpu_sync *x = a, *y = b;
	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* One function in several libraries is several probes. */
static struct gpu_sync *sync_of(struct gpu_summary *s, const struct job *job,
				struct map64 *place_of, uint32_t name)
{
	uint64_t at;
	if (map64_get(place_of, name, &at))
		return &s->syncs.data[at];
	map64_set(place_of, name, s->syncs.len);
	struct gpu_sync *row = vec_push(&s->syncs);
	row->name = strtab_get(&job->t->strings, name, NULL);
	return row;
}

static void make_syncs(struct gpu_summary *s, const struct job *job, const struct gpu_counts *n)
{
	struct map64 place_of = {0}; /* a name's -> index into syncs */
	for (size_t i = 0; i < job->t->probes.len; i++) {
		const struct gpu_sync_count *c = &n->syncs[i];
		if (!c->calls)
			continue;
		struct gpu_sync *row = sync_of(s, job, &place_of, job->t->probes.data[i].name);
		row->calls += c->calls;
		row->total_ns += c->total_ns;
		row->max_ns = c->max_ns > row->max_ns ? c->max_ns : row->max_ns;
	}
	map64_free(&place_of);
	if (s->syncs.len)
		qsort(s->syncs.data, s->syncs.len, sizeof(*s->syncs.data), compare_syncs);
}

static int compare_collectives(const void *a, const void *b)
{
	const struct gpu_collective *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	if (x->calls != y->calls)
		return x->calls > y->calls ? -1 : 1;
	int by_name = strcmp(x->function, y->function);
	if (by_name)
		return by_name;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->comm < y->comm ? -1 : x->comm > y->comm;
}

static void make_collectives(struct gpu_summary *s, const struct job *job,
			     const struct gpu_counts *n)
{
	const struct rec_tables *t = job->t;
	for (size_t i = 0; i < n->collectives.rows.len; i++) {
		const struct gpu_tally_row *row = &n->collectives.rows.data[i];
		uint32_t type = (uint32_t)(row->key.a >> 32), comm = (uint32_t)(row->key.b >> 32);
		struct gpu_collective *c = vec_push(&s->collectives);
		*c = (struct gpu_collective){
			.function = strtab_get(&t->strings, (uint32_t)row->key.a, NULL),
			.comm = comm ? &t->comms.data[comm - 1] : NULL,
			.pid = (uint32_t)row->key.b,
			.calls = row->calls,
			.bytes = row->bytes,
			.total_ns = row->total_ns,
		};
		if (row->key.c == UINT64_MAX)
			continue;
		const char *name = rec_enum_name(t, type, (int64_t)row->key.c);
		c->datatype = name ? xstrdup(name) : xasprintf("%lld", (long long)row->key.c);
	}
	if (s->collectives.len)
		qsort(s->collectives.data, s->collectives.len, sizeof(*s->collectives.data),
		      compare_collectives);
	for (size_t i = 0; i < t->comms.len; i++) {
		const struct m_comm *m = &t->comms.data[i];
		if (job->options.pid && m->pid != job->options.pid)
			continue;
		*(struct gpu_comm *)vec_push(&s->comms) =
			(struct gpu_comm){m, n->comm_calls[i], n->comm_bytes[i]};
	}
}

static int compare_errors(const void *a, const void *b)
{
	const struct gpu_error *x = a, *y = b;
	if (x->calls != y->calls)
		return x->calls > y->calls ? -1 : 1;
	int by_name = strcmp(x->function, y->function);
	return by_name ? by_name : x->code < y->code ? -1 : x->code > y->code;
}

static void make_errors(struct gpu_summary *s, const struct job *job, const struct gpu_counts *n)
{
	const struct rec_tables *t = job->t;
	for (size_t i = 0; i < n->errors.rows.len; i++) {
		const struct gpu_tally_row *row = &n->errors.rows.data[i];
		*(struct gpu_error *)vec_push(&s->errors) = (struct gpu_error){
			.layer = strtab_get(&t->strings, (uint32_t)(row->key.a >> 32), NULL),
			.function = strtab_get(&t->strings, (uint32_t)row->key.a, NULL),
			.name = rec_enum_name(t, (uint32_t)row->key.b, (int64_t)row->key.c),
			.code = (int64_t)row->key.c,
			.calls = row->calls,
		};
	}
	if (s->errors.len)
		qsort(s->errors.data, s->errors.len, sizeof(*s->errors.data), compare_errors);
}

static void make_rows(struct gpu_summary *s, struct job *job)
{
	struct share *first = &job->shares[0];
	struct gpu_tally ran = {0};
	if (!first->counts_made)
		gpu_counts_init(&first->counts, &job->context);
	first->counts_made = true;
	for (size_t i = 1; i < job->shares_len; i++)
		if (job->shares[i].counts_made)
			gpu_counts_merge(&first->counts, &job->shares[i].counts, &job->context);
	struct gpu_counts *n = &first->counts;
	for (size_t i = 0; i < job->t->hists.len; i++)
		if (!job->options.pid || job->t->hists.data[i].pid == job->options.pid)
			gpu_count_histogram(n, &job->context, &job->t->hists.data[i]);
	if (job->context.graphs)
		gpu_graphs_sum(job->context.graphs, n->exec_launches, &n->captured, &ran);
	make_kernels(s, job, n, &ran);
	make_copies(s, n, &ran);
	make_syncs(s, job, n);
	make_collectives(s, job, n);
	make_errors(s, job, n);
	gpu_tally_free(&ran);
}

/* ---- all of it ---- */

static void make_from_calls(struct gpu_summary *s, struct job *job)
{
	struct gpu_ledger ledger;
	bool asks_graphs = false, asks_addresses = false;
	for (size_t i = 0; i < job->shares_len; i++) {
		asks_graphs |= job->shares[i].counts.asks_graphs;
		asks_addresses |= job->shares[i].counts.asks_addresses;
	}
	gpu_kept_t kept = gather_kept(job);
	gpu_kept_process_ends(&kept, job->t, job->options.pid, job->context.to_ns);
	gpu_kept_sort(&kept);
	gpu_ledger_make(&ledger, job->t, &kept, asks_addresses);
	struct share *counted = job->shares; /* make_graphs may go another round */
	size_t counted_len = job->shares_len;
	job->shares = NULL;
	job->shares_len = 0;
	make_graphs(job, &kept);
	shares_free(job);
	job->shares = counted;
	job->shares_len = counted_len;
	struct gpu_addresses *addresses = NULL;
	if (asks_addresses)
		addresses = gpu_addresses_new(&ledger.ranges);
	vec_free(&kept);
	bool captures = gpu_graphs_captures(job->graphs) > 0;
	if (captures || asks_graphs || asks_addresses) {
		job->context.graphs = job->graphs;
		job->context.addresses = addresses;
		shares_free(job);
		run_round(job, ROUND_COUNT);
	}
	make_rows(s, job);
	for (size_t i = 0; i < ledger.memory.len; i++)
		*vec_push(&s->memory) = ledger.memory.data[i];
	for (size_t i = 0; i < ledger.pinned.len; i++)
		*vec_push(&s->pinned) = ledger.pinned.data[i];
	vec_free(&ledger.memory);
	vec_free(&ledger.pinned);
	gpu_addresses_free(addresses);
}

static void job_free(struct job *job)
{
	shares_free(job);
	free(job->block_empty);
	gpu_graphs_free(job->graphs);
	gpu_count_context_free(&job->context);
	gpu_probes_free(&job->probes);
	free(job);
}

static void make_summary(struct job *job)
{
	struct gpu_summary s = {0};
	make_from_calls(&s, job);
	gpu_devices_make(&s, job->source, job->context.from_ns, job->context.to_ns);
	*job->ret = s;
	job_free(job);
}

struct row_visitor *gpu_summary_visitor(struct gpu_summary *ret, const struct row_source *s,
					const struct gpu_options *options)
{
	struct job *job = xcalloc(1, sizeof(*job));
	*job = (struct job){.ret = ret, .source = s, .t = s->tables, .options = *options};
	gpu_probes_make(&job->probes, job->t);
	gpu_count_context_make(&job->context, job->t, &job->probes, options->from_ns,
			       options->to_ns);
	job->block_empty = xcalloc(s->blocks(s->ctx, ROW_CALL) + 1, sizeof(*job->block_empty));
	return round_visitor(job, ROUND_FIRST);
}

void gpu_summary_make(struct gpu_summary *ret, const struct row_source *s,
		      const struct gpu_options *options)
{
	struct row_visitor *v = gpu_summary_visitor(ret, s, options);
	rows_visit(s, &v, 1, &options->visit);
}

static void device_free(struct gpu_device *d)
{
	for (size_t i = 0; i < d->processes.len; i++)
		vec_free(&d->processes.data[i].counters);
	vec_free(&d->processes);
	vec_free(&d->counters);
}

void gpu_summary_free(struct gpu_summary *s)
{
	for (size_t i = 0; i < s->kernels.len; i++)
		free(s->kernels.data[i].short_name);
	for (size_t i = 0; i < s->collectives.len; i++)
		free(s->collectives.data[i].datatype);
	for (size_t i = 0; i < s->memory.len; i++)
		vec_free(&s->memory.data[i].sources);
	for (size_t i = 0; i < s->pinned.len; i++)
		vec_free(&s->pinned.data[i].sources);
	for (size_t i = 0; i < s->devices.len; i++)
		device_free(&s->devices.data[i]);
	vec_free(&s->kernels);
	vec_free(&s->copies);
	vec_free(&s->syncs);
	vec_free(&s->collectives);
	vec_free(&s->comms);
	vec_free(&s->memory);
	vec_free(&s->pinned);
	vec_free(&s->errors);
	vec_free(&s->devices);
	vec_free(&s->events);
}
