/* call_ring_open.c - calls that have not returned: those that are open now, and those that a
 * process left when it ended. */
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "collect/call_rings_impl.h"

/* A call that has left with its process; whether it is told too. */
static bool count_left(struct call_rings *r, const struct rec_call *c, uint8_t keep)
{
	uint8_t mode = keep & (uint8_t)~CALL_KEEP_ALWAYS;
	struct hist_key key = {.tgid = c->tgid, .probe = c->probe};
	struct hist_value one = {.count = 1,
				 .errors = !!(c->flags & CALL_ERROR),
				 .nested = !!(c->flags & CALL_NESTED),
				 .total_ns = c->dur_ns,
				 .max_ns = c->dur_ns};
	if (mode == MODE_TRACE)
		return true;
	if (c->flags & CALL_NAMED)
		key.name = c->args[0];
	one.buckets[hist_bucket(c->dur_ns) & (HIST_BUCKETS - 1)] = 1;
	call_hists_add(&r->hists, &key, &one, true);
	return keep & CALL_KEEP_ALWAYS ||
	       (mode == MODE_TAIL && c->dur_ns >= r->settings->thresholds_ns[c->probe]);
}

/* end_ns: until when it is known to have been open. */
static void open_call(struct call_rings *r, const struct ring_file *f, uint32_t tid, uint32_t depth,
		      const struct call_open *o, uint64_t end_ns, uint8_t flags)
{
	uint64_t start_ns = ring_time_ns(r, f, o->start);
	if (o->probe >= MAX_PROBES || o->nargs > MAX_ARGS || start_ns > end_ns)
		return;
	struct rec_call call = {
		.kind = REC_CALL,
		.flags = (uint8_t)((o->flags & FLAGS_TOLD) | flags),
		.depth = (uint8_t)depth,
		.nargs = o->nargs,
		.probe = o->probe,
		.tgid = f->pid,
		.tid = tid,
		.start_ns = start_ns,
		.dur_ns = end_ns - start_ns,
	};
	memcpy(call.args, o->args, sizeof(call.args));
	if (!(flags & CALL_UNWOUND) || count_left(r, &call, o->keep))
		r->events.on_call(r->events.ctx, &call, o->mark);
}

static void open_python(struct call_rings *r, const struct ring_file *f, uint32_t tid,
			uint32_t depth, const struct call_python_open *o, uint8_t flags)
{
	uint64_t now_ns = r->now.ns, start_ns = ring_time_ns(r, f, o->start);
	if (!o->code || start_ns > now_ns)
		return;
	struct rec_call call = {
		.kind = REC_CALL,
		.flags = (uint8_t)(flags | (depth ? CALL_NESTED : 0)),
		.depth = depth < UINT8_MAX ? (uint8_t)depth : UINT8_MAX,
		.nargs = 1,
		.probe = CALL_PYTHON,
		.tgid = f->pid,
		.tid = tid,
		.start_ns = start_ns,
		.dur_ns = now_ns - start_ns,
		.args = {ring_code_id(f, o->code)},
	};
	r->events.on_call(r->events.ctx, &call, 0);
}

/* Put aside: its stack may come back, as long as the process lives. */
static void parked_call(struct call_rings *r, const struct ring_file *f, uint32_t tid,
			const struct call_slot *s, uint32_t k, uint8_t flags)
{
	uint64_t at_ns = ring_time_ns(r, f, s->parked_at[k]), now_ns = r->now.ns;
	if (s->parked[k].sp) /* else there is none: others may write to the file */
		open_call(r, f, tid, 0, &s->parked[k],
			  flags & CALL_UNWOUND && at_ns < now_ns ? at_ns : now_ns, flags);
}

/* flags: what these calls have besides. False where no slot from here on was ever used. */
static bool open_calls_of(struct call_rings *r, struct ring_file *f, uint32_t i, uint8_t flags)
{
	struct call_slot s;
	if (pread(f->fd, &s, sizeof(s), slot_offset(i)) != sizeof(s))
		return false;
	if (!s.tid)
		return s.state != CALL_SLOT_FREE;
	uint32_t tid = ring_tid(f, s.tid);
	for (uint32_t k = 0; s.state == CALL_SLOT_USED && k < s.depth && k < MAX_OPEN_CALLS; k++)
		open_call(r, f, tid, k, &s.open[k], r->now.ns, flags);
	for (uint32_t k = 0; s.state == CALL_SLOT_USED && k < s.nparked && k < CALL_PARKED_MOST;
	     k++)
		parked_call(r, f, tid, &s, k, flags);
	for (uint32_t k = 0;
	     s.state == CALL_SLOT_USED && k < s.python_depth && k < CALL_PYTHON_OPEN; k++)
		open_python(r, f, tid, k, &s.python[k], flags);
	return true;
}

static void tell_all(struct call_rings *r, struct ring_file *f, uint8_t flags)
{
	for (uint32_t k = 0; f->known && k < CALL_THREADS_MOST && open_calls_of(r, f, k, flags);
	     k++)
		;
}

void ring_file_tell_left(struct call_rings *r, struct ring_file *f)
{
	tell_all(r, f, CALL_UNWOUND);
}

void ring_file_tell_open(struct call_rings *r, struct ring_file *f)
{
	tell_all(r, f, CALL_OPEN);
}
