/* gpu_count.c - counts calls of the roles that are too many to keep. */
#include "analyze/gpu_count.h"

#include <linux/types.h>

#include "wire/event.h"

/* ---- communicators ---- */

static int compare_comms(const void *a, const void *b, void *tables)
{
	const struct rec_tables *t = tables;
	const struct m_comm *x = &t->comms.data[*(const uint32_t *)a];
	const struct m_comm *y = &t->comms.data[*(const uint32_t *)b];
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->handle != y->handle)
		return x->handle < y->handle ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static uint64_t histogram_key(uint32_t pid, uint32_t probe)
{
	return (uint64_t)pid << 32 | probe;
}

void gpu_count_context_make(struct gpu_count_context *x, const struct rec_tables *t,
			    const struct gpu_probes *probes, uint64_t from_ns, uint64_t to_ns)
{
	*x = (struct gpu_count_context){
		.t = t,
		.probes = probes,
		.from_ns = from_ns,
		.to_ns = to_ns ? to_ns : UINT64_MAX,
		.histograms = t->hists.len && !from_ns && !to_ns,
	};
	for (size_t i = 0; x->histograms && i < t->hists.len; i++)
		map64_set(&x->in_histogram,
			  histogram_key(t->hists.data[i].pid, t->hists.data[i].probe), 1);
	x->comm_order = xcalloc(t->comms.len + 1, sizeof(*x->comm_order));
	for (uint32_t i = 0; i < t->comms.len; i++)
		x->comm_order[i] = i;
	qsort_r(x->comm_order, t->comms.len, sizeof(*x->comm_order), compare_comms, (void *)t);
}

void gpu_count_context_free(struct gpu_count_context *x)
{
	free(x->comm_order);
	map64_free(&x->in_histogram);
}

/* The communicator of the handle at that time. One that was first seen in use may be noted
 * a little after the call that used it: so the next one will do where none is before. */
static uint32_t comm_of(const struct gpu_count_context *x, uint32_t pid, uint64_t handle,
			uint64_t time_ns)
{
	size_t low = 0, high = x->t->comms.len;
	while (low < high) { /* the first that began after it */
		size_t mid = low + (high - low) / 2;
		const struct m_comm *m = &x->t->comms.data[x->comm_order[mid]];
		bool after = m->pid != pid	   ? m->pid > pid
			     : m->handle != handle ? m->handle > handle
						   : m->start_ns > time_ns;
		if (after)
			high = mid;
		else
			low = mid + 1;
	}
	const struct m_comm *all = x->t->comms.data;
	if (low) {
		const struct m_comm *m = &all[x->comm_order[low - 1]];
		if (m->pid == pid && m->handle == handle)
			return !m->end_ns || time_ns < m->end_ns ? x->comm_order[low - 1]
								 : GPU_NONE;
	}
	if (low < x->t->comms.len) {
		const struct m_comm *m = &all[x->comm_order[low]];
		if (m->pid == pid && m->handle == handle)
			return x->comm_order[low];
	}
	return GPU_NONE;
}

/* ---- life ---- */

void gpu_counts_init(struct gpu_counts *n, const struct gpu_count_context *x)
{
	const struct rec_tables *t = x->t;
	*n = (struct gpu_counts){0};
	n->kernel_of = xcalloc(strtab_len(&t->strings) + 1, sizeof(*n->kernel_of));
	n->syncs = xcalloc(t->probes.len + 1, sizeof(*n->syncs));
	n->comm_calls = xcalloc(t->comms.len + 1, sizeof(*n->comm_calls));
	n->comm_bytes = xcalloc(t->comms.len + 1, sizeof(*n->comm_bytes));
	if (x->graphs)
		n->exec_launches =
			xcalloc(gpu_graphs_execs(x->graphs) + 1, sizeof(*n->exec_launches));
}

void gpu_counts_free(struct gpu_counts *n)
{
	vec_free(&n->kernels);
	free(n->kernel_of);
	free(n->syncs);
	free(n->comm_calls);
	free(n->comm_bytes);
	free(n->exec_launches);
	gpu_tally_free(&n->collectives);
	gpu_tally_free(&n->errors);
	gpu_tally_free(&n->captured);
}

struct gpu_kernel_count *gpu_kernel_of(struct gpu_counts *n, uint32_t string)
{
	if (!n->kernel_of[string]) {
		struct gpu_kernel_count *k = vec_push(&n->kernels);
		k->string = string;
		k->first_ns = UINT64_MAX;
		n->kernel_of[string] = (uint32_t)n->kernels.len;
	}
	return &n->kernels.data[n->kernel_of[string] - 1];
}

static void kernel_merge(struct gpu_kernel_count *a, const struct gpu_kernel_count *b)
{
	a->launches += b->launches;
	a->captured += b->captured;
	a->total_ns += b->total_ns;
	a->named |= b->named;
	if (b->first_ns >= a->first_ns)
		return;
	a->first_ns = b->first_ns;
	a->grid = b->grid;
	a->block = b->block;
}

void gpu_counts_merge(struct gpu_counts *a, const struct gpu_counts *b,
		      const struct gpu_count_context *x)
{
	for (size_t i = 0; i < b->kernels.len; i++)
		kernel_merge(gpu_kernel_of(a, b->kernels.data[i].string), &b->kernels.data[i]);
	for (size_t i = 0; i < GPU_COPY_CELLS; i++) {
		a->copies[i].calls += b->copies[i].calls;
		a->copies[i].captured += b->copies[i].captured;
		a->copies[i].bytes += b->copies[i].bytes;
		a->copies[i].total_ns += b->copies[i].total_ns;
	}
	for (size_t i = 0; i < x->t->probes.len; i++) {
		a->syncs[i].calls += b->syncs[i].calls;
		a->syncs[i].total_ns += b->syncs[i].total_ns;
		if (b->syncs[i].max_ns > a->syncs[i].max_ns)
			a->syncs[i].max_ns = b->syncs[i].max_ns;
	}
	for (size_t i = 0; i < x->t->comms.len; i++) {
		a->comm_calls[i] += b->comm_calls[i];
		a->comm_bytes[i] += b->comm_bytes[i];
	}
	for (size_t i = 0; x->graphs && i < gpu_graphs_execs(x->graphs); i++)
		a->exec_launches[i] += b->exec_launches[i];
	gpu_tally_add(&a->collectives, &b->collectives, 1);
	gpu_tally_add(&a->errors, &b->errors, 1);
	gpu_tally_add(&a->captured, &b->captured, 1);
	a->graph_launches += b->graph_launches;
	a->graphs_unknown += b->graphs_unknown;
	a->asks_graphs |= b->asks_graphs;
	a->asks_addresses |= b->asks_addresses;
}

/* ---- calls ---- */

struct counted_call {
	const struct m_call *c;
	const struct gpu_probe *p;
	uint32_t pid;
	bool in_time;	  /* begins where calls are to be counted */
	uint32_t capture; /* that it is a part of, or GPU_NONE */
};

static uint32_t capture_of(const struct gpu_count_context *x, const struct counted_call *call)
{
	if (!x->graphs || !gpu_has_arg(call->p, call->c, GPU_ARG_STREAM))
		return GPU_NONE;
	uint64_t handle = gpu_arg(call->p, call->c, GPU_ARG_STREAM);
	return gpu_graphs_capture(x->graphs, call->pid,
				  gpu_stream_of(call->p, handle, call->c->thread),
				  call->c->start_ns);
}

static void capture_add(struct gpu_counts *n, uint32_t capture, enum gpu_piece piece,
			uint64_t which, uint64_t bytes)
{
	struct gpu_tally_row *row =
		gpu_tally_at(&n->captured, (struct gpu_key){piece, which, capture});
	row->calls++;
	row->bytes += bytes;
}

/* The kernel counts at return, so not what was still open. */
static bool in_histogram(const struct gpu_count_context *x, const struct counted_call *call)
{
	uint64_t unused;
	return x->histograms && !(call->c->flags & CALL_OPEN) &&
	       map64_get(&x->in_histogram, histogram_key(call->pid, call->c->probe), &unused);
}

static void count_launch(struct gpu_counts *n, const struct gpu_count_context *x,
			 const struct counted_call *call)
{
	uint32_t string = (uint32_t)gpu_arg(call->p, call->c, GPU_ARG_KERNEL);
	bool named = string != 0;
	if (!named)
		string = x->t->probes.data[call->c->probe].name;
	if (call->capture != GPU_NONE)
		capture_add(n, call->capture, GPU_PIECE_KERNEL, string, 0);
	struct gpu_kernel_count *k = gpu_kernel_of(n, string);
	k->named |= named;
	if (call->c->start_ns < k->first_ns) {
		k->first_ns = call->c->start_ns;
		k->grid = gpu_arg(call->p, call->c, GPU_ARG_GRID);
		k->block = gpu_arg(call->p, call->c, GPU_ARG_BLOCK);
	}
	if (!call->in_time || in_histogram(x, call))
		return;
	if (call->capture != GPU_NONE) {
		k->captured++;
		return;
	}
	k->launches++;
	k->total_ns += call->c->dur_ns;
}

static void count_graph_launch(struct gpu_counts *n, const struct gpu_count_context *x,
			       const struct counted_call *call)
{
	uint32_t exec = GPU_NONE;
	if (x->graphs)
		exec = gpu_graphs_exec(x->graphs, call->pid,
				       gpu_arg(call->p, call->c, GPU_ARG_GRAPH_EXEC),
				       call->c->start_ns);
	n->asks_graphs |= !x->graphs;
	if (call->capture != GPU_NONE) {
		if (exec != GPU_NONE)
			capture_add(n, call->capture, GPU_PIECE_EXEC, exec, 0);
		return;
	}
	if (!call->in_time)
		return;
	n->graph_launches++;
	if (exec != GPU_NONE)
		n->exec_launches[exec]++;
	else
		n->graphs_unknown++;
}

/* What a copy's descriptor says; GPU_UNIFIED where it leaves it to the pointers. */
static enum gpu_direction types_direction(const struct counted_call *call)
{
	enum { HOST = 1, ARRAY = 3 }; /* CUmemorytype of cuda.h; between them: device */
	uint64_t to = gpu_arg(call->p, call->c, GPU_ARG_DESTINATION_TYPE);
	uint64_t from = gpu_arg(call->p, call->c, GPU_ARG_SOURCE_TYPE);
	if (to < HOST || to > ARRAY || from < HOST || from > ARRAY)
		return GPU_UNIFIED;
	if (from == HOST)
		return to == HOST ? GPU_HTOH : GPU_HTOD;
	return to == HOST ? GPU_DTOH : GPU_DTOD;
}

static enum gpu_direction pointers_direction(const struct gpu_count_context *x,
					     const struct counted_call *call)
{
	uint64_t to = gpu_arg(call->p, call->c, GPU_ARG_DESTINATION);
	uint64_t from = gpu_arg(call->p, call->c, GPU_ARG_SOURCE);
	uint64_t time_ns = call->c->start_ns;
	if (!x->addresses)
		return GPU_UNIFIED;
	const struct gpu_range *d = gpu_addresses_find(x->addresses, call->pid, to, time_ns);
	const struct gpu_range *s = gpu_addresses_find(x->addresses, call->pid, from, time_ns);
	if (!d || !s)
		return GPU_UNIFIED;
	if (d->pinned)
		return s->pinned ? GPU_HTOH : GPU_DTOH;
	if (s->pinned)
		return GPU_HTOD;
	return d->device >= 0 && s->device >= 0 && d->device != s->device ? GPU_PTOP : GPU_DTOD;
}

static void count_copy(struct gpu_counts *n, const struct gpu_count_context *x,
		       const struct counted_call *call)
{
	uint32_t direction = call->p->direction;
	bool async = gpu_has_arg(call->p, call->c, GPU_ARG_STREAM);
	uint64_t bytes = gpu_arg(call->p, call->c, GPU_ARG_BYTES);
	if (call->p->role == GPU_COPY && direction == GPU_UNIFIED)
		direction = types_direction(call);
	if (call->p->role == GPU_COPY && direction == GPU_UNIFIED) {
		n->asks_addresses |= !x->addresses;
		direction = pointers_direction(x, call);
	}
	uint32_t cell = gpu_copy_cell(call->p->role == GPU_SET, direction, async);
	if (call->capture != GPU_NONE) {
		capture_add(n, call->capture, GPU_PIECE_COPY, cell, bytes);
		n->copies[cell].captured += call->in_time;
		return;
	}
	if (!call->in_time)
		return;
	n->copies[cell].calls++;
	n->copies[cell].bytes += bytes;
	n->copies[cell].total_ns += call->c->dur_ns;
}

static void count_sync(struct gpu_counts *n, const struct gpu_count_context *x,
		       const struct counted_call *call)
{
	const struct m_call *c = call->c;
	struct gpu_sync_count *s = &n->syncs[c->probe];
	if (!call->in_time || in_histogram(x, call))
		return;
	s->calls++;
	s->total_ns += c->dur_ns;
	if (c->dur_ns > s->max_ns)
		s->max_ns = c->dur_ns;
}

static void count_collective(struct gpu_counts *n, const struct gpu_count_context *x,
			     const struct counted_call *call)
{
	const struct m_probe *probe = &x->t->probes.data[call->c->probe];
	uint64_t bytes = gpu_arg(call->p, call->c, GPU_ARG_BYTES);
	uint32_t comm =
		comm_of(x, call->pid, gpu_arg(call->p, call->c, GPU_ARG_COMM), call->c->start_ns);
	struct gpu_key key = {probe->name, (uint64_t)(comm + 1) << 32 | call->pid, UINT64_MAX};
	if (gpu_has_arg(call->p, call->c, GPU_ARG_DATATYPE)) {
		key.a |= (uint64_t)probe->arg_enums[call->p->arg[GPU_ARG_DATATYPE]] << 32;
		key.c = gpu_arg(call->p, call->c, GPU_ARG_DATATYPE);
	}
	struct gpu_tally_row *row = gpu_tally_at(&n->collectives, key);
	row->calls++;
	row->bytes += bytes;
	row->total_ns += call->c->dur_ns;
	if (comm != GPU_NONE) {
		n->comm_calls[comm]++;
		n->comm_bytes[comm] += bytes;
	}
}

static void count_error(struct gpu_counts *n, const struct gpu_count_context *x,
			const struct counted_call *call)
{
	const struct m_probe *probe = &x->t->probes.data[call->c->probe];
	if (!call->p->has_code || !gpu_has_arg(call->p, call->c, GPU_ARG_RETURN))
		return;
	uint64_t code = gpu_arg(call->p, call->c, GPU_ARG_RETURN);
	struct gpu_key key = {(uint64_t)probe->layer << 32 | probe->name,
			      probe->arg_enums[call->p->arg[GPU_ARG_RETURN]], code};
	gpu_tally_at(&n->errors, key)->calls++;
}

void gpu_count_histogram(struct gpu_counts *n, const struct gpu_count_context *x,
			 const struct m_hist *h)
{
	if (!x->histograms || h->probe >= x->t->probes.len)
		return;
	const struct gpu_probe *p = &x->probes->rows[h->probe];
	const struct m_probe *probe = &x->t->probes.data[h->probe];
	if (p->role == GPU_LAUNCH) {
		bool named = probe->name_arg >= 0 && probe->name_arg == p->arg[GPU_ARG_KERNEL] &&
			     h->name && h->name < strtab_len(&x->t->strings);
		struct gpu_kernel_count *k =
			gpu_kernel_of(n, named ? (uint32_t)h->name : probe->name);
		k->named |= named;
		k->launches += h->count > h->errors ? h->count - h->errors : 0;
		k->total_ns += h->total_ns;
	} else if (p->role == GPU_SYNC) {
		struct gpu_sync_count *s = &n->syncs[h->probe];
		s->calls += h->count;
		s->total_ns += h->total_ns;
		if (h->max_ns > s->max_ns)
			s->max_ns = h->max_ns;
	}
}

void gpu_count(struct gpu_counts *n, const struct gpu_count_context *x, const struct m_call *c)
{
	struct counted_call call = {
		.c = c,
		.p = &x->probes->rows[c->probe],
		.pid = x->t->threads.data[c->thread].pid,
		.in_time = c->start_ns >= x->from_ns && c->start_ns < x->to_ns,
		.capture = GPU_NONE,
	};
	if (c->flags & CALL_ERROR) {
		if (call.in_time)
			count_error(n, x, &call);
		if (call.p->role == GPU_SYNC)
			count_sync(n, x, &call);
		return;
	}
	switch (call.p->role) {
	case GPU_LAUNCH:
		call.capture = capture_of(x, &call);
		count_launch(n, x, &call);
		break;
	case GPU_GRAPH_LAUNCH:
		call.capture = capture_of(x, &call);
		count_graph_launch(n, x, &call);
		break;
	case GPU_COPY:
	case GPU_SET:
		call.capture = capture_of(x, &call);
		count_copy(n, x, &call);
		break;
	case GPU_SYNC:
		count_sync(n, x, &call);
		break;
	case GPU_COLLECTIVE:
	case GPU_P2P:
		if (call.in_time)
			count_collective(n, x, &call);
		break;
	default: /* kept, or only a span */
		break;
	}
}
