/* live_collectives.c - rows by what is told of them, so that no two read alike. What a communicator
 * is, the session's names know; it is looked up anew when they learn of one. */
#include "session/live_collectives.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyze/collectives.h"
#include "session/live_names.h"
#include "session/live_series.h"

#define RECENT	16384
#define NO_ROOM SIZE_MAX

struct live_collective_probe {
	bool known, between_ranks;
	uint8_t op; /* enum collective_op */
	/* -1: none; point to point calls are not numbered as those of all ranks are */
	int8_t comm_arg, bytes_arg, sequence_arg;
};

const char *live_collective_name(char ret[static COLLECTIVES_NAME_BYTES],
				 const struct live_collective *of)
{
	if (of->other)
		snprintf(ret, COLLECTIVES_NAME_BYTES, "(other)");
	else
		snprintf(ret, COLLECTIVES_NAME_BYTES, "%s0x%" PRIx64, of->hash ? "" : "handle ",
			 of->hash ? of->hash : of->handle);
	return ret;
}

/* ---- functions ---- */

static int arg_named(const struct session_view *v, const struct m_probe *row, const char *name)
{
	for (int i = 0; i < row->nargs && i < MODEL_MAX_ARGS; i++)
		if (!strcmp(live_string(v, row->arg_names[i]), name))
			return i;
	return -1;
}

/* NULL: nothing is known of it yet. */
static const struct live_collective_probe *probe_of(struct live_collectives *k,
						    const struct session_view *v, uint32_t number)
{
	while (k->probes.len <= number)
		*vec_push(&k->probes) = (struct live_collective_probe){0};
	struct live_collective_probe *p = &k->probes.data[number];
	const struct m_probe *row = p->known ? NULL : v->names->probe(v->names->ctx, number);
	if (p->known || !row)
		return p->known ? p : NULL;
	const char *role = live_string(v, row->role);
	p->known = true;
	bool of_all = !strcmp(role, "collective");
	p->between_ranks = of_all || !strcmp(role, "p2p");
	p->sequence_arg = of_all ? (int8_t)arg_named(v, row, "sequence") : -1;
	p->op = (uint8_t)collective_op_from(live_string(v, row->name));
	p->comm_arg = (int8_t)arg_named(v, row, "comm");
	p->bytes_arg = (int8_t)live_bytes_arg(v, row);
	return p;
}

static uint64_t arg_of(const struct m_call *c, int8_t arg)
{
	return arg >= 0 && arg < c->nargs ? c->args[arg] : 0;
}

/* ---- rows ---- */

static uint64_t key_of(const struct live_collective *r)
{
	uint64_t key = hash_u64((uint64_t)r->pid << 32 | (uint32_t)r->rank);
	key = hash_u64(key ^ ((uint64_t)(uint32_t)r->size << 32 | (uint64_t)r->other << 8 | r->op));
	return hash_u64(key ^ (r->hash ? r->hash : hash_u64(r->handle)));
}

static void index_row(struct live_collectives *k, size_t at)
{
	uint64_t n = 0;
	const struct live_collective *r = &k->rows.data[at];
	map64_get(&k->rows_of, r->pid, &n);
	map64_set(&k->rows_of, r->pid, n + 1);
	map64_set(&k->place_of, key_of(r), at);
	map64_set(&k->place_of_number, r->number, at);
}

static double bus_bytes(const struct live_collective *r, uint64_t bytes, int32_t size)
{
	return (double)bytes * collective_bus_factor((enum collective_op)r->op, size);
}

/* How many ranks there are may be known after the first calls: theirs are counted by it then. */
static bool find_nameless(struct live_collectives *k, const struct live_collective *of,
			  uint64_t *ret)
{
	struct live_collective before = *of;
	before.rank = -1;
	before.size = 0;
	if (!of->size || !map64_get(&k->place_of, key_of(&before), ret))
		return false;
	struct live_collective *r = &k->rows.data[*ret];
	map64_del(&k->place_of, key_of(&before));
	r->rank = of->rank;
	r->size = of->size;
	r->bytes = collective_total_bytes((enum collective_op)r->op, r->bytes, r->size);
	r->bus_bytes = bus_bytes(r, r->bytes, r->size);
	map64_set(&k->place_of, key_of(r), *ret);
	return true;
}

/* The place of a row like that, or NO_ROOM. */
static size_t place_of(struct live_collectives *k, const struct live_collective *of)
{
	uint64_t at, n = 0;
	if (map64_get(&k->place_of, key_of(of), &at) || find_nameless(k, of, &at))
		return at;
	map64_get(&k->rows_of, of->pid, &n);
	bool full = n >= COLLECTIVES_OF_PROCESS || k->rows.len >= COLLECTIVES_ALL;
	if (full && !of->other)
		return place_of(k,
				&(struct live_collective){
					.pid = of->pid, .other = true, .rank = -1, .op = of->op});
	if (k->rows.len >= COLLECTIVES_ALL + COLLECTIVES_OTHERS) {
		k->left_out++;
		return NO_ROOM;
	}
	struct live_collective *r = vec_push(&k->rows);
	*r = *of;
	r->number = ++k->numbers;
	index_row(k, k->rows.len - 1);
	return k->rows.len - 1;
}

/* One that is known by its uses alone begins with the first that was read. */
static const struct m_comm *comm_of(const struct session_view *v, uint32_t pid, uint64_t handle,
				    const struct m_call *c)
{
	const struct m_comm *ret =
		v->names->comm(v->names->ctx, pid, handle, c->start_ns + c->dur_ns);
	return ret ? ret : v->names->comm(v->names->ctx, pid, handle, UINT64_MAX);
}

static size_t place_of_call(struct live_collectives *k, const struct session_view *v, uint32_t pid,
			    const struct live_collective_probe *p, const struct m_call *c,
			    int32_t *ret_size)
{
	uint64_t handle = arg_of(c, p->comm_arg), at;
	uint64_t key = hash_u64(hash_u64((uint64_t)pid << 32 | p->op) ^ handle);
	bool changes = v->batch->comms.len != 0;
	if (!changes && map64_get(&k->recent, key, &at) && !k->rows.data[at].other) {
		*ret_size = k->rows.data[at].size;
		return at;
	}
	const struct m_comm *comm = comm_of(v, pid, handle, c);
	struct live_collective of = {.pid = pid, .handle = handle, .rank = -1, .op = p->op};
	if (comm) {
		of.hash = comm->hash;
		of.rank = comm->rank;
		of.size = comm->size;
	}
	*ret_size = of.size;
	at = place_of(k, &of);
	if (!changes && at != NO_ROOM)
		map64_set(&k->recent, key, at);
	return at;
}

static void take_arrival(void *ctx, uint64_t number, uint64_t ahead_ns)
{
	struct live_collectives *k = ctx;
	uint64_t at;
	if (!map64_get(&k->place_of_number, number, &at))
		return;
	k->rows.data[at].compared++;
	k->rows.data[at].ahead_ns += (double)ahead_ns;
}

static void take_call(struct live_collectives *k, const struct session_view *v,
		      const struct live_series *s, const struct m_call *c)
{
	const struct live_collective_probe *p = probe_of(k, v, c->probe);
	if (!p || !p->between_ranks || c->flags & CALL_ERROR)
		return;
	const struct m_thread *thread = v->names->thread(v->names->ctx, c->thread);
	if (!thread || !live_series_process(s, thread->pid))
		return;
	int32_t size;
	size_t at = place_of_call(k, v, thread->pid, p, c, &size);
	if (at == NO_ROOM)
		return;
	struct live_collective *r = &k->rows.data[at];
	if (c->start_ns > r->end_ns)
		r->end_ns = 0; /* another lies where it was */
	uint64_t bytes =
		collective_total_bytes((enum collective_op)r->op, arg_of(c, p->bytes_arg), size);
	r->calls++;
	r->bytes += bytes;
	r->bus_bytes += bus_bytes(r, bytes, size);
	r->ns += (double)c->dur_ns;
	if (p->sequence_arg >= 0 && p->sequence_arg < c->nargs)
		live_arrivals_enter(&k->arrivals,
				    &(struct live_arrival){.pid = thread->pid,
							   .handle = arg_of(c, p->comm_arg),
							   .sequence = c->args[p->sequence_arg],
							   .start_ns = c->start_ns,
							   .end_ns = c->start_ns + c->dur_ns,
							   .what = r->number},
				    take_arrival, k);
}

/* Ranks whose calls are not all seen have counts of their own. */
static void take_coverages(struct live_collectives *k, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->coverages.len; i++) {
		const struct m_coverage *row = &v->batch->coverages.data[i];
		const struct live_collective_probe *p = probe_of(k, v, row->probe);
		k->arrivals.ended |= p && p->sequence_arg >= 0 && row->off_ns;
	}
}

/* Calls may be read after the end of their process was told. */
static bool has_ended(const struct live_series *s, uint32_t pid)
{
	const struct live_process *p = live_series_process(s, pid);
	return !p || p->end_ns;
}

static void end_rows(struct live_collectives *k, const struct m_comm *comm)
{
	for (size_t i = 0; i < k->rows.len; i++) {
		struct live_collective *r = &k->rows.data[i];
		bool same = r->hash ? r->hash == comm->hash : r->handle == comm->handle;
		if (r->pid != comm->pid || r->rank != comm->rank || r->other || !same)
			continue;
		r->end_ns = comm->end_ns;
		if (!k->first_end_ns || r->end_ns < k->first_end_ns)
			k->first_end_ns = r->end_ns;
	}
}

/* Before the calls of a batch those that there are now, after them those that are gone. */
static void take_comms(struct live_collectives *k, const struct session_view *v, bool before,
		       const struct live_series *s)
{
	const struct feed_batch *b = v->batch;
	for (size_t i = 0; i < b->comms.len; i++)
		if (before == !b->comms.data[i].end_ns)
			live_arrivals_comm(&k->arrivals, &b->comms.data[i]);
	for (size_t i = 0; !before && i < b->comms.len; i++)
		if (b->comms.data[i].end_ns)
			end_rows(k, &b->comms.data[i]);
	for (size_t i = 0; !before && i < b->comms.len; i++)
		if (has_ended(s, b->comms.data[i].pid))
			live_arrivals_process_ended(&k->arrivals, b->comms.data[i].pid);
	for (size_t i = 0; !before && i < b->processes.len; i++)
		if (b->processes.data[i].end_ns)
			live_arrivals_process_ended(&k->arrivals, b->processes.data[i].pid);
	if (!before && (b->comms.len || b->processes.len))
		live_arrivals_forget(&k->arrivals);
}

/* ---- all of it ---- */

void live_collectives_batch(struct live_collectives *k, const struct session_view *v,
			    const struct live_series *s)
{
	if (v->batch->comms.len || k->recent.len > RECENT)
		map64_free(&k->recent);
	take_coverages(k, v);
	take_comms(k, v, true, s);
	for (size_t i = 0; i < v->batch->calls.len; i++)
		take_call(k, v, s, &v->batch->calls.data[i]);
	take_comms(k, v, false, s);
	if (k->first_end_ns && k->first_end_ns + SERIES_OLD_NS < s->now_ns)
		live_collectives_forget(k, s);
}

static bool is_kept(const struct live_series *s, const struct live_collective *r)
{
	return live_series_process(s, r->pid) &&
	       (!r->end_ns || r->end_ns + SERIES_OLD_NS >= s->now_ns);
}

void live_collectives_forget(struct live_collectives *k, const struct live_series *s)
{
	size_t kept = 0;
	k->first_end_ns = 0;
	for (size_t i = 0; i < k->rows.len; i++) {
		const struct live_collective r = k->rows.data[i];
		if (!is_kept(s, &r))
			continue;
		if (r.end_ns && (!k->first_end_ns || r.end_ns < k->first_end_ns))
			k->first_end_ns = r.end_ns;
		k->rows.data[kept++] = r;
	}
	if (kept == k->rows.len)
		return;
	k->rows.len = kept;
	map64_free(&k->place_of);
	map64_free(&k->place_of_number);
	map64_free(&k->recent);
	map64_free(&k->rows_of);
	for (size_t i = 0; i < kept; i++)
		index_row(k, i);
}

void live_collectives_free(struct live_collectives *k)
{
	vec_free(&k->rows);
	vec_free(&k->probes);
	map64_free(&k->place_of);
	map64_free(&k->place_of_number);
	map64_free(&k->recent);
	map64_free(&k->rows_of);
	live_arrivals_free(&k->arrivals);
}
