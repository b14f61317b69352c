/* collectives.c - rows of collectives, their kernels, what ran beside them, and their sums.
 *
 * Kernels of a call: those launched inside it, else those launched inside the call that ends its
 * group, on its own stream where some of them are. Copies stand for kernels where NCCL made none:
 * a communicator of one rank copies. */
#include "analyze/collectives.h"

#include <string.h>

#include "base/map64.h"
#include "wire/event.h"

/* ---- functions ---- */

static const struct {
	const char *function, *name;
} ops[COLLECTIVE_OPS] = {
	[COLLECTIVE_OTHER] = {"", "other"},
	[COLLECTIVE_ALL_REDUCE] = {"AllReduce", "all_reduce"},
	[COLLECTIVE_REDUCE_SCATTER] = {"ReduceScatter", "reduce_scatter"},
	[COLLECTIVE_ALL_GATHER] = {"AllGather", "all_gather"},
	[COLLECTIVE_ALL_TO_ALL] = {"AlltoAll", "all_to_all"},
	[COLLECTIVE_BROADCAST] = {"Broadcast", "broadcast"},
	[COLLECTIVE_REDUCE] = {"Reduce", "reduce"},
	[COLLECTIVE_GATHER] = {"Gather", "gather"},
	[COLLECTIVE_SCATTER] = {"Scatter", "scatter"},
	[COLLECTIVE_SEND] = {"Send", "send"},
	[COLLECTIVE_RECV] = {"Recv", "recv"},
	[COLLECTIVE_SEND_RECV] = {"SendRecv", "send_recv"},
};

const char *collective_op_name(enum collective_op op)
{
	return op < COLLECTIVE_OPS ? ops[op].name : ops[COLLECTIVE_OTHER].name;
}

enum collective_op collective_op_from(const char *function)
{
	if (!strncmp(function, "nccl", 4))
		function += 4;
	for (int i = COLLECTIVE_OTHER + 1; i < COLLECTIVE_OPS; i++)
		if (!strcmp(function, ops[i].function))
			return (enum collective_op)i;
	return COLLECTIVE_OTHER;
}

static bool counts_a_share(enum collective_op op)
{
	return op == COLLECTIVE_REDUCE_SCATTER || op == COLLECTIVE_ALL_GATHER ||
	       op == COLLECTIVE_ALL_TO_ALL || op == COLLECTIVE_GATHER || op == COLLECTIVE_SCATTER;
}

uint64_t collective_total_bytes(enum collective_op op, uint64_t bytes, int32_t ranks)
{
	uint64_t total;
	if (ranks < 1 || !counts_a_share(op) ||
	    __builtin_mul_overflow(bytes, (uint64_t)ranks, &total))
		return bytes;
	return total;
}

double collective_bus_factor(enum collective_op op, int32_t ranks)
{
	if (ranks < 1)
		return 0;
	double part = (double)(ranks - 1) / (double)ranks;
	if (op == COLLECTIVE_ALL_REDUCE)
		return 2 * part;
	return counts_a_share(op) ? part : 1;
}

bool collective_is_kernel(const char *name)
{
	return strstr(name, "ncclDevKernel") || strstr(name, "ncclKernel");
}

/* ---- what is looked up ---- */

struct interval {
	uint64_t start_ns;
	uint64_t before_ns; /* sum of the lengths of those before it, which tells these too */
};

/* When a device computed: merged times of kernels that are not NCCL's. */
struct busy {
	uint32_t pid;
	int32_t device;
	VEC(struct interval) times;
	uint64_t end_ns; /* of the last */
};

struct job {
	struct collectives *c;
	const struct timeline *t;
	uint8_t *nccl_name; /* by string: 0 not looked at, 1 is none, 2 is one of NCCL's kernels */
	uint32_t *child;    /* by call: the first call made in it that started work, + 1 */
	uint32_t *sibling;  /* by call: the next one of the same parent, + 1 */
	bool *has_spans;    /* by thread: its process has spans */
	VEC(struct busy) busy;
	struct map64 busy_of; /* pid << 32 | device -> index */
};

static bool is_nccl(struct job *job, const struct timeline_kind *k)
{
	uint8_t *known = &job->nccl_name[k->name];
	if (!*known) {
		const char *name = strtab_get(&job->t->tables->strings, k->name, NULL);
		*known = collective_is_kernel(name) ? 2 : 1;
	}
	return *known == 2;
}

static uint64_t busy_key(uint32_t pid, int32_t device)
{
	return (uint64_t)pid << 32 | (uint32_t)device;
}

static struct busy *busy_of(struct job *job, const struct timeline_kind *k)
{
	uint64_t at, key = busy_key(k->pid, k->device);
	if (map64_get(&job->busy_of, key, &at))
		return &job->busy.data[at];
	map64_set(&job->busy_of, key, job->busy.len);
	struct busy *b = vec_push(&job->busy);
	*b = (struct busy){.pid = k->pid, .device = k->device};
	return b;
}

static uint64_t length_of(const struct busy *b, size_t i)
{
	const struct interval *x = &b->times.data[i];
	return i + 1 < b->times.len ? x[1].before_ns - x->before_ns : b->end_ns - x->start_ns;
}

/* Spans are in order of start within a process. */
static void add_busy(struct job *job, const struct timeline_span *s)
{
	struct busy *b = busy_of(job, timeline_kind_of(job->t, s));
	size_t n = b->times.len;
	if (!n || s->start_ns > b->end_ns) {
		uint64_t before_ns = n ? b->times.data[n - 1].before_ns + length_of(b, n - 1) : 0;
		*vec_push(&b->times) = (struct interval){s->start_ns, before_ns};
		b->end_ns = s->end_ns;
	} else if (s->end_ns > b->end_ns) {
		b->end_ns = s->end_ns;
	}
}

/* Time up to a moment in which it computed. */
static uint64_t busy_until(const struct busy *b, uint64_t time_ns)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): each kind has one */
	size_t low = 0, high = b->times.len;
	while (low < high) { /* the first that begins at it or later */
		size_t mid = low + (high - low) / 2;
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): mid is below its length */
		if (b->times.data[mid].start_ns < time_ns)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return 0;
	const struct interval *last = &b->times.data[low - 1];
	uint64_t length_ns = length_of(b, low - 1), since_ns = time_ns - last->start_ns;
	return last->before_ns + (since_ns < length_ns ? since_ns : length_ns);
}

static uint64_t overlap_of(const struct job *job, const struct collective *c)
{
	uint64_t at;
	if (!map64_get(&job->busy_of, busy_key(c->pid, c->device), &at))
		return 0;
	const struct busy *b = &job->busy.data[at];
	return busy_until(b, c->device_end_ns) - busy_until(b, c->device_start_ns);
}

static bool is_row(const struct timeline *t, size_t call)
{
	uint8_t role = timeline_call_kind_of(t, &t->calls.data[call])->role;
	return role == GPU_COLLECTIVE || role == GPU_P2P;
}

/* What computed beside collectives: nothing is to be known of it where there are none. */
static void look_at_kernels(struct job *job)
{
	const struct timeline *t = job->t;
	size_t i = 0;
	while (i < t->calls.len && !is_row(t, i))
		i++;
	for (size_t k = 0; i < t->calls.len && k < t->spans.len; k++) {
		const struct timeline_kind *of = timeline_kind_of(t, &t->spans.data[k]);
		if (of->work == WORK_GRAPH || (of->work == WORK_KERNEL && !is_nccl(job, of)))
			add_busy(job, &t->spans.data[k]);
	}
}

static void look_at_spans(struct job *job)
{
	const struct timeline *t = job->t;
	struct map64 pids = {0};
	uint64_t one;
	for (size_t i = 0; i < t->spans.len; i++)
		if (!i || t->spans.data[i].kind != t->spans.data[i - 1].kind)
			map64_set(&pids, timeline_kind_of(t, &t->spans.data[i])->pid, 1);
	for (size_t i = 0; i < t->tables->threads.len; i++)
		job->has_spans[i] = map64_get(&pids, t->tables->threads.data[i].pid, &one);
	job->c->has_spans = t->spans.len != 0;
	map64_free(&pids);
	look_at_kernels(job);
}

static void look_at_calls(struct job *job)
{
	const struct timeline *t = job->t;
	for (size_t i = t->calls.len; i-- > 0;) {
		const struct timeline_call *c = &t->calls.data[i];
		if (c->parent == TIMELINE_NONE || !c->spans)
			continue;
		job->sibling[i] = job->child[c->parent];
		job->child[c->parent] = (uint32_t)i + 1;
	}
}

/* ---- kernels of a call ---- */

struct wanted {
	bool on_stream; /* only calls of this stream */
	uint64_t stream;
	uint8_t work; /* enum gpu_work */
};

static uint32_t take_spans(struct job *job, uint32_t parent, const struct wanted *w)
{
	const struct timeline *t = job->t;
	uint32_t taken = 0;
	for (uint32_t k = job->child[parent]; k; k = job->sibling[k - 1]) {
		const struct timeline_call *c = &t->calls.data[k - 1];
		if (w->on_stream && timeline_call_kind_of(t, c)->stream != w->stream)
			continue;
		for (uint32_t i = 0; i < c->spans; i++) {
			uint32_t span = t->by_call.data[c->first_span + i];
			const struct timeline_kind *of = timeline_kind_of(t, &t->spans.data[span]);
			if (of->work != w->work || (of->work == WORK_KERNEL && !is_nccl(job, of)))
				continue;
			*vec_push(&job->c->spans) = span;
			taken++;
		}
	}
	return taken;
}

static bool is_group(const struct job *job, uint32_t call)
{
	return call != TIMELINE_NONE &&
	       timeline_call_kind_of(job->t, &job->t->calls.data[call])->role == GPU_NCCL_GROUP;
}

/* Returns the call that they were launched in: its own, or the group's end. */
static uint32_t find_spans(struct job *job, uint32_t call, struct collective *ret)
{
	const struct timeline_call *c = &job->t->calls.data[call];
	uint32_t in[] = {call, is_group(job, c->parent) ? c->parent : TIMELINE_NONE};
	ret->first_span = (uint32_t)job->c->spans.len;
	for (int copies = 0; copies < 2; copies++)
		for (int i = 0; i < 2; i++) {
			struct wanted w = {true, timeline_call_kind_of(job->t, c)->stream,
					   copies ? WORK_COPY : WORK_KERNEL};
			if (in[i] == TIMELINE_NONE)
				continue;
			ret->spans = take_spans(job, in[i], &w);
			w.on_stream = false;
			if (!ret->spans)
				ret->spans = take_spans(job, in[i], &w);
			if (ret->spans)
				return in[i];
		}
	return in[1];
}

static void time_spans(struct job *job, struct collective *c)
{
	for (uint32_t i = 0; i < c->spans; i++) {
		const struct timeline_span *s =
			&job->t->spans.data[job->c->spans.data[c->first_span + i]];
		if (!i || s->start_ns < c->device_start_ns)
			c->device_start_ns = s->start_ns;
		if (s->end_ns > c->device_end_ns)
			c->device_end_ns = s->end_ns;
		c->device = timeline_kind_of(job->t, s)->device;
	}
	if (c->spans)
		c->overlap_ns = overlap_of(job, c);
}

/* ---- communicators ---- */

static int compare_comms(const void *a, const void *b, void *ctx)
{
	const struct m_comm *all = ctx;
	const struct m_comm *x = &all[*(const uint32_t *)a], *y = &all[*(const uint32_t *)b];
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->handle != y->handle)
		return x->handle < y->handle ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static uint32_t *sort_comms(const struct rec_tables *t)
{
	uint32_t *order = xcalloc(t->comms.len + 1, sizeof(*order));
	for (size_t i = 0; i < t->comms.len; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, t->comms.len, sizeof(*order), compare_comms, t->comms.data);
	return order;
}

/* The last of its handle that had begun; one that is only known by its uses begins with the first
 * that was read, which need not be the earliest. */
static uint32_t find_comm(const struct rec_tables *t, const uint32_t *order, uint32_t pid,
			  uint64_t handle, uint64_t time_ns)
{
	size_t low = 0, high = t->comms.len;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct m_comm *m = &t->comms.data[order[mid]];
		if (m->pid < pid || (m->pid == pid && m->handle < handle))
			low = mid + 1;
		else
			high = mid;
	}
	uint32_t found = TIMELINE_NONE;
	for (; low < t->comms.len; low++) {
		const struct m_comm *m = &t->comms.data[order[low]];
		if (m->pid != pid || m->handle != handle ||
		    (m->start_ns > time_ns && found != TIMELINE_NONE))
			break;
		found = order[low];
	}
	return found;
}

/* ---- rows ---- */

static bool has_root(enum collective_op op)
{
	return op == COLLECTIVE_BROADCAST || op == COLLECTIVE_REDUCE || op == COLLECTIVE_GATHER ||
	       op == COLLECTIVE_SCATTER;
}

/* Calls of one group that have the same first kernel share it. Where there is none, those of a
 * stream are taken together. */
static uint32_t group_of(struct map64 *groups, const struct job *job, uint32_t launched_in,
			 uint32_t call, const struct collective *c)
{
	uint64_t number;
	if (launched_in == TIMELINE_NONE || launched_in == call)
		return 0;
	uint64_t what = c->spans ? job->c->spans.data[c->first_span] : hash_u64(c->stream);
	uint64_t key = hash_u64((uint64_t)launched_in << 32 | (c->spans != 0)) ^ what;
	if (!map64_get(groups, key, &number)) {
		number = groups->len + 1;
		map64_set(groups, key, number);
	}
	return (uint32_t)number;
}

static void add_row(struct job *job, uint32_t call, const uint32_t *comms, struct map64 *groups)
{
	const struct timeline *t = job->t;
	const struct timeline_call *at = &t->calls.data[call];
	const struct timeline_call_kind *from = timeline_call_kind_of(t, at);
	const char *function =
		strtab_get(&t->tables->strings, t->tables->probes.data[from->probe].name, NULL);
	struct collective c = {
		.pid = from->pid,
		.thread = from->thread,
		.rank = -1,
		.comm = from->comm,
		.comm_row = find_comm(t->tables, comms, from->pid, from->comm, at->start_ns),
		.probe = from->probe,
		.sequence = from->sequence,
		.bytes = from->bytes,
		.datatype = from->datatype,
		.root = COLLECTIVE_NO_PEER,
		.peer = COLLECTIVE_NO_PEER,
		.stream = from->stream,
		.start_ns = at->start_ns,
		.end_ns = at->end_ns,
		.device = -1,
		.stack = from->stack,
		.op = (uint8_t)collective_op_from(function),
		.open = from->flags & CALL_OPEN,
	};
	if (c.comm_row != TIMELINE_NONE) {
		const struct m_comm *m = &t->tables->comms.data[c.comm_row];
		c.rank = m->rank;
		c.size = m->size;
		c.hash = m->hash;
	}
	if (from->role == GPU_P2P)
		c.peer = from->partner;
	else if (has_root((enum collective_op)c.op))
		c.root = from->partner;
	c.group_calls = 1;
	c.group_op = c.op;
	c.total_bytes = c.group_bytes =
		collective_total_bytes((enum collective_op)c.op, c.bytes, c.size);
	if (!at->captured)
		c.group = group_of(groups, job, find_spans(job, call, &c), call, &c);
	time_spans(job, &c);
	c.timing = at->captured			  ? COLLECTIVE_CAPTURED
		   : c.spans			  ? COLLECTIVE_TIMED
		   : job->has_spans[from->thread] ? COLLECTIVE_UNTIMED
						  : COLLECTIVE_NO_SPANS;
	job->c->timed += c.timing == COLLECTIVE_TIMED;
	job->c->captured += c.timing == COLLECTIVE_CAPTURED;
	job->c->untimed += c.timing == COLLECTIVE_UNTIMED;
	*vec_push(&job->c->rows) = c;
}

/* ---- groups ---- */

/* The calls that share kernels; a call alone is one too. */
struct unit {
	uint32_t pid;
	uint32_t comm_row;
	uint64_t comm;
	uint32_t probe; /* of one call alone; else TIMELINE_NONE */
	uint8_t op;	/* enum collective_op */
	uint8_t bucket; /* logarithm of bytes, + 1; 0 = none */
	bool grouped;
	uint32_t row; /* the first */
	uint32_t calls;
	uint64_t bytes, host_ns;
	uint64_t device_ns; /* 0 unknown */
	uint64_t sent, received;
	bool moved; /* sends and receives only */
};
typedef VEC(struct unit) units_t;

static void add_to_unit(struct unit *u, const struct collective *c, uint32_t row)
{
	if (!u->calls++)
		*u = (struct unit){.pid = c->pid,
				   .comm_row = c->comm_row,
				   .comm = c->comm,
				   .probe = c->probe,
				   .op = c->op,
				   .row = row,
				   .calls = 1,
				   .moved = true,
				   .device_ns = c->device_end_ns - c->device_start_ns};
	bool sends = c->op == COLLECTIVE_SEND, receives = c->op == COLLECTIVE_RECV;
	u->moved &= sends || receives;
	if (u->op != c->op)
		u->op = u->moved ? COLLECTIVE_SEND_RECV : COLLECTIVE_OTHER;
	if (u->comm != c->comm)
		u->comm_row = TIMELINE_NONE;
	if (sends)
		u->sent += c->total_bytes;
	else if (receives)
		u->received += c->total_bytes;
	else
		u->bytes += c->total_bytes;
	u->host_ns += c->end_ns - c->start_ns;
}

/* A group that sends to each rank once is how all-to-all is made where NCCL has no call of it. */
static bool sends_to_all(const struct collectives *c, const struct unit *u, uint32_t group)
{
	const struct collective *first = &c->rows.data[u->row];
	uint64_t sends = 0;
	if (!u->moved || first->size < 2 || u->calls != 2 * (uint32_t)first->size)
		return false;
	bool *seen = xcalloc((size_t)first->size, sizeof(*seen));
	for (size_t i = u->row; i < c->rows.len && c->rows.data[i].pid == u->pid; i++) {
		const struct collective *row = &c->rows.data[i];
		if (row->group != group || row->op != COLLECTIVE_SEND)
			continue;
		if (row->peer < 0 || row->peer >= first->size || seen[row->peer])
			break;
		seen[row->peer] = true;
		if (++sends == (uint64_t)first->size)
			break;
	}
	free(seen);
	return sends == (uint64_t)first->size;
}

static uint8_t bucket_of(uint64_t bytes)
{
	return bytes ? (uint8_t)(64 - __builtin_clzll(bytes)) : 0;
}

static void make_units(struct collectives *c, uint32_t ngroups, units_t *units)
{
	uint32_t *unit_of = xcalloc((size_t)ngroups + 1, sizeof(*unit_of));
	for (size_t i = 0; i < c->rows.len; i++) {
		const struct collective *row = &c->rows.data[i];
		uint32_t at = row->group ? unit_of[row->group] : 0;
		bool known = at && at <= units->len;
		struct unit *u = known ? &units->data[at - 1] : vec_push(units);
		if (!known)
			unit_of[row->group] = (uint32_t)units->len;
		add_to_unit(u, row, (uint32_t)i);
	}
	for (size_t i = 0; i < units->len; i++) {
		struct unit *u = &units->data[i];
		u->grouped = u->calls > 1;
		if (u->grouped && sends_to_all(c, u, c->rows.data[u->row].group))
			u->op = COLLECTIVE_ALL_TO_ALL;
		if (u->grouped)
			u->probe = TIMELINE_NONE;
		u->bytes += u->sent > u->received ? u->sent : u->received;
		u->bucket = bucket_of(u->bytes);
	}
	for (size_t i = 0; i < c->rows.len; i++) {
		struct collective *row = &c->rows.data[i];
		if (!row->group)
			continue;
		const struct unit *u = &units->data[unit_of[row->group] - 1];
		row->group_calls = u->calls;
		row->group_bytes = u->bytes;
		row->group_op = u->op;
	}
	free(unit_of);
}

/* ---- sums ---- */

#define COMPARE(x, y)                                                                              \
	do {                                                                                       \
		if ((x) != (y))                                                                    \
			return (x) < (y) ? -1 : 1;                                                 \
	} while (0)

static int compare_kind(const struct unit *x, const struct unit *y)
{
	COMPARE(x->pid, y->pid);
	COMPARE(x->comm, y->comm);
	COMPARE(x->comm_row, y->comm_row);
	COMPARE(x->grouped, y->grouped);
	COMPARE(x->op, y->op);
	COMPARE(x->probe, y->probe);
	COMPARE(x->bucket, y->bucket);
	return 0;
}

static int compare_units(const void *a, const void *b)
{
	const struct unit *x = a, *y = b;
	int kind = compare_kind(x, y);
	if (kind)
		return kind;
	COMPARE(x->device_ns, y->device_ns);
	COMPARE(x->row, y->row);
	return 0;
}

/* Of one kind, in order of their times. */
static void sum_up(struct collectives *c, const struct unit *units, size_t n)
{
	const struct collective *first = &c->rows.data[units[0].row];
	struct collective_sum *s = vec_push(&c->sums);
	*s = (struct collective_sum){
		.pid = units[0].pid,
		.comm_row = units[0].comm_row,
		.comm = units[0].comm,
		.rank = first->rank,
		.size = first->size,
		.probe = units[0].probe,
		.op = units[0].op,
		.grouped = units[0].grouped,
		.from_bytes = units[0].bucket ? 1ULL << (units[0].bucket - 1) : 0,
		.count = n,
	};
	for (size_t i = 0; i < n; i++) {
		const struct unit *u = &units[i];
		s->calls += u->calls;
		s->bytes += u->bytes;
		s->host_ns += u->host_ns;
		if (!u->device_ns)
			continue;
		if (!s->timed)
			s->min_ns = u->device_ns;
		s->timed++;
		s->timed_bytes += u->bytes;
		s->device_ns += u->device_ns;
		s->overlap_ns += c->rows.data[u->row].overlap_ns;
	}
	if (!s->timed)
		return;
	s->p50_ns = units[n - s->timed + (s->timed - 1) / 2].device_ns;
	s->max_ns = units[n - 1].device_ns;
	s->algorithm_bandwidth = (double)s->timed_bytes * 1e9 / (double)s->device_ns;
	s->bus_bandwidth =
		s->algorithm_bandwidth * collective_bus_factor((enum collective_op)s->op, s->size);
}

static int compare_sums(const void *a, const void *b)
{
	const struct collective_sum *x = a, *y = b;
	COMPARE(y->device_ns, x->device_ns);
	COMPARE(y->bytes, x->bytes);
	COMPARE(x->pid, y->pid);
	COMPARE(x->comm, y->comm);
	COMPARE(x->op, y->op);
	COMPARE(x->probe, y->probe);
	COMPARE(x->from_bytes, y->from_bytes);
	return 0;
}

static void make_sums(struct collectives *c, units_t *units)
{
	if (!units->len)
		return;
	qsort(units->data, units->len, sizeof(*units->data), compare_units);
	for (size_t from = 0, to; from < units->len; from = to) {
		for (to = from + 1; to < units->len; to++)
			if (compare_kind(&units->data[from], &units->data[to]))
				break;
		sum_up(c, &units->data[from], to - from);
	}
	qsort(c->sums.data, c->sums.len, sizeof(*c->sums.data), compare_sums);
}

static int compare_longest(const void *a, const void *b)
{
	const struct unit *x = a, *y = b;
	COMPARE(y->device_ns, x->device_ns);
	COMPARE(x->row, y->row);
	return 0;
}

static void make_longest(struct collectives *c, units_t *units, uint32_t longest)
{
	if (units->len && longest)
		qsort(units->data, units->len, sizeof(*units->data), compare_longest);
	for (size_t i = 0; i < units->len && i < longest && units->data[i].device_ns; i++)
		*vec_push(&c->longest) = units->data[i].row;
}

/* ---- all of it ---- */

void collectives_make(struct collectives *ret, const struct timeline *t, uint32_t longest)
{
	*ret = (struct collectives){.timeline = t};
	struct job job = {
		.c = ret,
		.t = t,
		.nccl_name = xcalloc(strtab_len(&t->tables->strings) + 1, 1),
		.child = xcalloc(t->calls.len + 1, sizeof(*job.child)),
		.sibling = xcalloc(t->calls.len + 1, sizeof(*job.sibling)),
		.has_spans = xcalloc(t->tables->threads.len + 1, sizeof(*job.has_spans)),
	};
	uint32_t *comms = sort_comms(t->tables);
	struct map64 groups = {0};
	units_t units = {0};
	look_at_spans(&job);
	look_at_calls(&job);
	for (size_t i = 0; i < t->calls.len; i++)
		if (is_row(t, i))
			add_row(&job, (uint32_t)i, comms, &groups);
	make_units(ret, (uint32_t)groups.len, &units);
	make_sums(ret, &units);
	make_longest(ret, &units, longest);
	for (size_t i = 0; i < job.busy.len; i++)
		vec_free(&job.busy.data[i].times);
	vec_free(&job.busy);
	map64_free(&job.busy_of);
	vec_free(&units);
	map64_free(&groups);
	free(comms);
	free(job.nccl_name);
	free(job.child);
	free(job.sibling);
	free(job.has_spans);
}

void collectives_free(struct collectives *c)
{
	vec_free(&c->rows);
	vec_free(&c->spans);
	vec_free(&c->sums);
	vec_free(&c->longest);
}
