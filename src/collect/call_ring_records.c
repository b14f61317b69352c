/* call_ring_records.c - empties the rings of a process's threads: a record for each call that has
 * returned, and for each Python function that is met. Of a ring that makes no sense all that is in
 * it is skipped, and counted once. */
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "collect/call_rings_impl.h"

#define PYTHON_TOLD (CALL_NESTED | CALL_UNWOUND | CALL_OPEN)

uint64_t ring_time_ns(const struct call_rings *r, const struct ring_file *f, uint64_t ticks)
{
	return f->counted ? ticks_to_ns(&r->before, &r->now, ticks) : ticks;
}

uint64_t ring_code_id(const struct ring_file *f, uint32_t code)
{
	return CALL_CODE_BIT | (uint64_t)f->serial << 32 | code;
}

static bool take_code(const struct call_rings *r, const struct ring_file *f, const uint8_t *p)
{
	struct call_code in;
	memcpy(&in, p, sizeof(in));
	if (!in.code || in.marked || in.name_bytes > CALL_CODE_NAME ||
	    in.file_bytes > CALL_CODE_FILE || in.name_bytes + in.file_bytes > 8u * in.nargs)
		return false;
	const char *text = (const char *)p + sizeof(in);
	r->events.on_code(r->events.ctx, ring_code_id(f, in.code),
			  &(struct call_text){text, strnlen(text, in.name_bytes)},
			  &(struct call_text){text + in.name_bytes,
					      strnlen(text + in.name_bytes, in.file_bytes)},
			  in.line);
	return true;
}

static bool take_python(struct call_rings *r, const struct ring_file *f, uint32_t tid,
			const uint8_t *p)
{
	struct call_record in;
	uint64_t code;
	memcpy(&in, p, sizeof(in));
	if (in.nargs != 1 || in.marked || in.end < in.start || in.flags & ~PYTHON_TOLD)
		return false;
	memcpy(&code, p + sizeof(in), sizeof(code));
	if (!code || code > UINT32_MAX)
		return false;
	struct rec_call call = {
		.kind = REC_CALL,
		.flags = in.flags,
		.depth = in.depth,
		.nargs = 1,
		.probe = CALL_PYTHON,
		.tgid = f->pid,
		.tid = tid,
		.start_ns = ring_time_ns(r, f, in.start),
		.args = {ring_code_id(f, (uint32_t)code)},
	};
	uint64_t end_ns = ring_time_ns(r, f, in.end);
	call.dur_ns = end_ns > call.start_ns ? end_ns - call.start_ns : 0;
	r->events.on_call(r->events.ctx, &call, 0);
	r->past.calls++;
	r->past.python_calls++;
	return true;
}

static bool take_call(struct call_rings *r, const struct ring_file *f, uint32_t tid,
		      const uint8_t *p)
{
	struct call_record in;
	memcpy(&in, p, sizeof(in));
	uint64_t mark = 0;
	if (in.probe >= MAX_PROBES || in.nargs > MAX_ARGS || in.end < in.start ||
	    in.flags & ~FLAGS_TOLD || in.marked > 1)
		return false;
	struct rec_call call = {
		.kind = REC_CALL,
		.flags = in.flags,
		.depth = in.depth,
		.nargs = in.nargs,
		.probe = in.probe,
		.tgid = f->pid,
		.tid = tid,
		.start_ns = ring_time_ns(r, f, in.start),
	};
	uint64_t end_ns = ring_time_ns(r, f, in.end);
	call.dur_ns = end_ns > call.start_ns ? end_ns - call.start_ns : 0;
	memcpy(call.args, p + sizeof(in), 8u * in.nargs);
	if (in.marked)
		memcpy(&mark, p + sizeof(in) + 8u * in.nargs, sizeof(mark));
	r->events.on_call(r->events.ctx, &call, (uint32_t)mark);
	r->past.calls++;
	return true;
}

static bool take_record(struct call_rings *r, const struct ring_file *f, uint32_t tid,
			const uint8_t *p)
{
	uint32_t probe;
	memcpy(&probe, p, sizeof(probe));
	if (probe == CALL_CODE)
		return take_code(r, f, p);
	return probe == CALL_PYTHON ? take_python(r, f, tid, p) : take_call(r, f, tid, p);
}

/* How many bytes the record at p has, of `left` that are there; 0: not all of it is. */
static size_t record_bytes(const uint8_t *p, size_t left)
{
	struct call_record in;
	if (left < sizeof(in))
		return 0;
	memcpy(&in, p, sizeof(in));
	size_t bytes = sizeof(in) + 8u * in.nargs + (in.marked ? 8 : 0);
	return bytes <= left ? bytes : 0;
}

/* The ring's n bytes from position `at` on; a record's rest may lie at its beginning. */
static bool read_ring(const struct call_rings *r, const struct ring_file *f, uint32_t i,
		      uint64_t at, size_t n)
{
	uint64_t from = at & (CALL_RING_BYTES - 1);
	size_t first = n < CALL_RING_BYTES - from ? n : CALL_RING_BYTES - from;
	off_t ring = slot_offset(i) + CALL_SLOT_HEADER;
	return pread(f->fd, r->chunk, first, ring + (off_t)from) == (ssize_t)first &&
	       (first == n ||
		pread(f->fd, r->chunk + first, n - first, ring) == (ssize_t)(n - first));
}

static bool drain_some(struct call_rings *r, struct ring_file *f, uint32_t i, uint32_t tid,
		       uint64_t head)
{
	uint64_t left = head - f->tails[i];
	size_t n = left < CHUNK_BYTES ? left : CHUNK_BYTES, done = 0, bytes;
	if (!read_ring(r, f, i, f->tails[i], n))
		return false;
	while ((bytes = record_bytes(r->chunk + done, n - done))) {
		if (!take_record(r, f, tid, r->chunk + done))
			return false;
		done += bytes;
	}
	f->tails[i] += done;
	return done > 0;
}

static void free_slot(const struct ring_file *f, uint32_t i)
{
	uint32_t state = CALL_SLOT_FREE;
	pwrite(f->fd, &state, sizeof(state), slot_offset(i));
}

/* False where no slot from here on was ever used. */
static bool drain_slot(struct call_rings *r, struct ring_file *f, uint32_t i)
{
	union {
		struct call_slot s;
		uint8_t head[SLOT_HEAD];
	} u;
	if (pread(f->fd, u.head, SLOT_HEAD, slot_offset(i)) != SLOT_HEAD)
		return false;
	if (!u.s.tid) /* nobody's yet, or of one who is just coming */
		return u.s.state != CALL_SLOT_FREE;
	f->counts[i] = (struct call_slot_counts){.full = u.s.full,
						 .deep = u.s.deep,
						 .elsewhere = u.s.elsewhere,
						 .unmatched = u.s.unmatched,
						 .no_return = u.s.no_return,
						 .timed = u.s.timed,
						 .timed_ticks = u.s.timed_ticks,
						 .kept = u.s.kept,
						 .uncounted = u.s.uncounted};
	uint32_t tid = ring_tid(f, u.s.tid);
	uint64_t was = f->tails[i];
	bool holds = u.s.head == was ||
		     (u.s.head >= was && u.s.head - was <= CALL_RING_BYTES && u.s.head % 8 == 0);
	while (holds && f->tails[i] < u.s.head)
		holds = drain_some(r, f, i, tid, u.s.head);
	if (!holds) {
		f->bad_records++;
		f->tails[i] = u.s.head;
	}
	if (f->tails[i] != was)
		pwrite(f->fd, &f->tails[i], sizeof(f->tails[i]),
		       slot_offset(i) + (off_t)offsetof(struct call_slot, tail));
	if (u.s.state == CALL_SLOT_LEFT)
		free_slot(f, i);
	return true;
}

void ring_file_drain(struct call_rings *r, struct ring_file *f)
{
	f->tids.looked = false;
	if (!ring_file_read_header(f))
		return;
	for (uint32_t i = 0; i < CALL_THREADS_MOST && drain_slot(r, f, i); i++)
		;
}
