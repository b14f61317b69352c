/* calls.c - a call begins, and returns: what bpf/calls.h does in the kernel, in the job's own
 * thread. A call is pushed on its thread's stack of open calls and popped when it returns; then one
 * record goes into the thread's ring, or one bucket is counted (hists.c), as the layer's mode says.
 * The stack is kept honest by the stack pointer: a frame below the current one has left, whether it
 * returned or not. Where stacks are switched (CALL_SWITCHES) it is put aside: its frame may come
 * back, at the same address as others, and is known by when its call began.
 *
 * A signal may come at any place here, and its handler may call what is probed: it finds `busy` set
 * and is not recorded. One that leaves by siglongjmp(3) leaves `busy` behind: it is of a frame
 * below the current one then. A handler on an alternate stack may be above all frames without that
 * any has left: whoever seems to be so is asked.
 *
 * Compiled without vector registers (-mgeneral-regs-only): those hold the job's arguments. Calls
 * nothing but its own, and process_vm_readv(2) where a pointer may lead nowhere. */
#include <errno.h>
#include <stddef.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../ticks.h"
#include "calls.h"
#include "entry.h"
#include "hists.h"
#include "texts.h"
#include "wire/shape.h"

/* What seldom happens is compiled apart: between two calls of a job's the processor has run enough
 * of its code to have forgotten ours, and each line of it has to come from further away. */
#define SELDOM	    __attribute__((cold, noinline))
#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

struct call_site eacgm_call_sites[CALL_SITES_MOST]
	__attribute__((visibility("default"), aligned(CALL_SITES_BYTES)));
uint32_t eacgm_call_used __attribute__((visibility("default"))) = 0;
uint32_t eacgm_call_switches __attribute__((visibility("default"))) = 0;

__thread struct call_thread *calls_own;
__thread uint32_t calls_asked;

static inline bool is_stopped(const struct call_thread *t)
{
	return __atomic_load_n(&t->header->stop, __ATOMIC_RELAXED);
}

static inline void count(__u64 *what)
{
	__atomic_store_n(what, *what + 1, __ATOMIC_RELAXED);
}

/* ---- the ring ---- */

static bool put_record(struct call_thread *t, const struct call_open *o, uint32_t depth,
		       uint64_t end)
{
	struct call_slot *s = t->slot;
	uint64_t head = s->head, words = sizeof(struct call_record) / 8 + o->nargs + !!o->mark;
	if (unlikely(head + 8 * words - __atomic_load_n(&s->tail, __ATOMIC_ACQUIRE) >
		     CALL_RING_BYTES)) {
		count(&s->full);
		calls_look_for_eacgm(t, end);
		return false;
	}
	const uint64_t mask = CALL_RING_BYTES / 8 - 1;
	uint64_t at = head / 8;
	/* struct call_record, on a little-endian machine */
	t->ring[at & mask] = o->probe | (uint64_t)o->flags << 32 | (uint64_t)depth << 40 |
			     (uint64_t)o->nargs << 48 | (uint64_t) !!o->mark << 56;
	t->ring[(at + 1) & mask] = o->start;
	t->ring[(at + 2) & mask] = end;
	for (uint32_t i = 0; i < o->nargs && i < MAX_ARGS; i++)
		t->ring[(at + 3 + i) & mask] = o->args[i];
	if (o->mark)
		t->ring[(at + words - 1) & mask] = o->mark;
	__atomic_store_n(&s->head, head + 8 * words, __ATOMIC_RELEASE);
	return true;
}

static void count_call(struct call_thread *t, const struct call_open *o, uint32_t depth,
		       uint64_t end)
{
	uint64_t ns = hists_count(t, o, end - o->start);
	bool slow = (o->keep & ~CALL_KEEP_ALWAYS) == MODE_TAIL &&
		    ns >= calls_settings->thresholds_ns[o->probe & (MAX_PROBES - 1)];
	if (!slow && !(o->keep & CALL_KEEP_ALWAYS))
		return;
	if (put_record(t, o, depth, end))
		count(&t->slot->kept);
}

/* Keeps a finished call as the mode of its layer says. */
static inline void keep_call(struct call_thread *t, const struct call_open *o, uint32_t depth,
			     uint64_t end)
{
	if (likely((o->keep & ~CALL_KEEP_ALWAYS) == MODE_TRACE))
		put_record(t, o, depth, end);
	else
		count_call(t, o, depth, end);
}

/* ---- arguments: as bpf/args_value.h and args_wide.h read them ---- */

SELDOM static bool peek_far(uint64_t address, void *ret, size_t bytes)
{
	int error = errno;
	struct iovec to = {ret, bytes}, from = {(void *)(uintptr_t)address, bytes};
	bool ok = process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)bytes;
	errno = error;
	return ok;
}

static inline void copy_words(void *ret, uint64_t address, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 4)
		*(uint32_t *)((char *)ret + i) =
			*(const volatile uint32_t *)(uintptr_t)(address + i);
}

/* What the function itself reads, and what lies on the thread's own stack above us, is read as it
 * is. bytes: a multiple of four. */
static inline bool peek(const struct call_thread *t, const struct call_site *s, uint64_t sp,
			uint64_t address, void *ret, size_t bytes)
{
	if (s->trust != CALL_TRUST_POINTERS &&
	    (address < sp || address + bytes > t->stack_high || address + bytes < address))
		return peek_far(address, ret, bytes);
	if (unlikely(address < LOWEST))
		return false;
	copy_words(ret, address, bytes);
	return true;
}

static inline uint64_t resize(uint64_t v, uint8_t size, bool is_signed)
{
	uint32_t drop = (64 - 8 * (uint32_t)(size & 15)) & 63;
	return is_signed ? (uint64_t)((int64_t)(v << drop) >> drop) : v << drop >> drop;
}

struct reader {
	const struct call_thread *t;
	const struct call_site *site;
	const struct call_frame *f;
	uint8_t flags;
};

static inline uint64_t raw_at(const struct reader *r, uint32_t position)
{
	if (position < 6)
		return r->f->args[position];
	position -= 6;
	return position < r->site->stack_words ? r->f->stack[position] : 0;
}

static inline uint32_t position_of(const struct arg_desc *a)
{
	return a->index + (a->source == ARG_STACK ? 6u : 0u);
}

/* Where the last pointer leads. */
static bool address_of(struct reader *r, const struct arg_desc *a, uint64_t v, uint64_t *ret)
{
	uint32_t n = a->nderef < 3 ? a->nderef : 3;
	for (uint32_t i = 0; i + 1 < n; i++)
		if (!peek(r->t, r->site, (uint64_t)(uintptr_t)r->f,
			  v + (uint64_t)(int64_t)a->deref[i], &v, 8))
			return false;
	*ret = v + (n ? (uint64_t)(int64_t)a->deref[n - 1] : 0);
	return true;
}

static bool read_at(struct reader *r, const struct arg_desc *a, uint64_t v, void *ret, size_t bytes)
{
	uint64_t address;
	if (address_of(r, a, v, &address) &&
	    peek(r->t, r->site, (uint64_t)(uintptr_t)r->f, address, ret, bytes))
		return true;
	r->flags |= CALL_ARG_FAULT;
	return false;
}

static uint64_t fetch_value(struct reader *r, const struct arg_desc *a, uint64_t v)
{
	if (a->nderef) {
		uint64_t word = 0;
		if (!read_at(r, a, v, &word, a->size == 8 ? 8 : 4))
			return 0;
		v = word;
	}
	return resize(v, a->size, a->is_signed);
}

static inline uint64_t dim3(uint64_t x, uint64_t y, uint64_t z)
{
	return (x & 0x7fffffff) | (y & 0xffff) << 31 | (z & 0xffff) << 47;
}

static uint64_t fetch_dimensions(struct reader *r, const struct arg_desc *a, uint64_t v)
{
	uint32_t position = position_of(a), xyz[3] = {0};
	if (a->fetch == FETCH_XYZ)
		return dim3((uint32_t)v, (uint32_t)raw_at(r, position + 1),
			    (uint32_t)raw_at(r, position + 2));
	if (!a->nderef)
		return dim3((uint32_t)v, v >> 32, (uint32_t)raw_at(r, position + 1));
	return read_at(r, a, v, xyz, sizeof(xyz)) ? dim3(xyz[0], xyz[1], xyz[2]) : 0;
}

static uint64_t fetch_shape(struct reader *r, const struct arg_desc *a, uint64_t v)
{
	struct tensor_sizes t;
	__u64 numel = 1;
	if (!read_at(r, a, v, &t, sizeof(t)) || t.dims > SHAPE_DIMS)
		return SHAPE_UNKNOWN;
	for (uint64_t i = 0; i < t.dims; i++)
		numel *= t.sizes[i];
	return numel == t.numel ? shape_pack(t.sizes, (uint32_t)t.dims) : SHAPE_UNKNOWN;
}

static uint64_t fetch_text(struct reader *r, const struct arg_desc *a, uint64_t v)
{
	uint64_t ret = 0;
	if ((!a->nderef || read_at(r, a, v, &v, 8)) && calls_text(r->site, a, v, &ret))
		return ret;
	r->flags |= CALL_ARG_FAULT;
	return 0;
}

static uint64_t fetch(struct reader *r, const struct arg_desc *a, uint64_t v)
{
	switch (a->fetch) {
	case FETCH_CSTRING:
	case FETCH_PYSTRING:
	case FETCH_PYCODE:
		return fetch_text(r, a, v);
	case FETCH_XYZ:
	case FETCH_DIM3:
		return fetch_dimensions(r, a, v);
	case FETCH_SHAPE:
		return fetch_shape(r, a, v);
	default:
		return fetch_value(r, a, v);
	}
}

static void fetch_at_entry(struct call_thread *t, const struct call_site *s,
			   const struct call_frame *f, struct call_open *o)
{
	struct reader r = {t, s, f, o->flags};
	for (uint32_t i = 0; i < o->nargs; i++) {
		const struct arg_desc *a = &s->desc.args[i];
		uint64_t v = a->source == ARG_RETURN ? 0 : raw_at(&r, position_of(a));
		o->args[i] = a->source == ARG_RETURN || a->at_return ? v : fetch(&r, a, v);
	}
	o->flags = r.flags;
}

static bool is_error(const struct probe_desc *d, uint64_t v)
{
	if (d->has_except && (int64_t)v == d->error_except)
		return false;
	return (d->error_rule == ERROR_NONZERO && v) ||
	       (d->error_rule == ERROR_NEGATIVE && (int64_t)v < 0) ||
	       (d->error_rule == ERROR_NULL && !v);
}

static void fetch_at_return(struct call_thread *t, const struct call_frame *f, struct call_open *o)
{
	const struct call_site *s = f->site;
	struct reader r = {t, s, f, o->flags};
	for (uint32_t i = 0; i < o->nargs; i++) {
		const struct arg_desc *a = &s->desc.args[i];
		if (a->source == ARG_RETURN) {
			o->args[i] = fetch(&r, a, f->result[0]);
			if (is_error(&s->desc, o->args[i]))
				r.flags |= CALL_ERROR;
		} else if (a->at_return) {
			o->args[i] = fetch(&r, a, o->args[i]);
		}
	}
	o->flags = r.flags;
}

/* ---- open calls ---- */

static inline void layer_left(struct call_slot *s, uint8_t layer)
{
	uint8_t *open = &s->layer_open[layer & (LAYERS_MAX - 1)];
	*open -= *open > 0;
}

SELDOM static void drop_top(struct call_thread *t, uint64_t now)
{
	struct call_slot *s = t->slot;
	uint32_t depth = s->depth ? (s->depth - 1) & (MAX_OPEN_CALLS - 1) : 0;
	struct call_open *o = &s->open[depth];
	s->depth = depth;
	layer_left(s, o->layer);
	o->flags |= CALL_UNWOUND;
	count(&s->no_return);
	keep_call(t, o, depth, now);
}

/* In memory that others may write to. */
static inline uint32_t depth_of(struct call_slot *s)
{
	if (unlikely(s->depth > MAX_OPEN_CALLS))
		s->depth = 0;
	return s->depth;
}

static inline uint32_t parked_of(const struct call_slot *s)
{
	return s->nparked < CALL_PARKED_MOST ? s->nparked : CALL_PARKED_MOST;
}

/* Nobody knows when, or whether, it left: at the latest that is known it was open. */
static void tell_parked(struct call_thread *t, uint32_t i)
{
	struct call_open o = t->slot->parked[i];
	o.flags |= CALL_UNWOUND;
	count(&t->slot->no_return);
	keep_call(t, &o, 0, t->slot->parked_at[i]);
}

void calls_drop_all(struct call_thread *t)
{
	uint64_t now = ticks_now();
	while (depth_of(t->slot))
		drop_top(t, now);
	for (uint32_t n = parked_of(t->slot); n-- > 0;) {
		t->slot->nparked = n;
		tell_parked(t, n);
	}
}

/* ---- several stacks ---- */

static inline bool switches_stacks(void)
{
	return __atomic_load_n(&eacgm_call_switches, __ATOMIC_RELAXED);
}

static uint32_t oldest_parked(const struct call_slot *s)
{
	uint32_t oldest = 0;
	for (uint32_t i = 1; i < CALL_PARKED_MOST; i++)
		if (s->parked_at[i] < s->parked_at[oldest])
			oldest = i;
	return oldest;
}

/* An exception may have ended it, or its stack may come back. Where there is no room, who waits for
 * longest is told. */
SELDOM static void park_top(struct call_thread *t)
{
	struct call_slot *s = t->slot;
	uint32_t depth = s->depth ? (s->depth - 1) & (MAX_OPEN_CALLS - 1) : 0, n = parked_of(s);
	uint32_t at = n < CALL_PARKED_MOST ? n : oldest_parked(s);
	s->depth = depth;
	layer_left(s, s->open[depth].layer);
	if (at < n)
		tell_parked(t, at);
	s->parked[at] = s->open[depth];
	s->parked_at[at] = ticks_now();
	s->nparked = at < n ? n : n + 1;
}

static inline bool is_frames(const struct call_open *o, const struct call_frame *f)
{
	return o->start == f->began && o->sp == (uint64_t)(uintptr_t)&f->return_address &&
	       o->probe == f->site->probe;
}

/* How many calls lie above the frame's; MAX_OPEN_CALLS: it is not among them. */
static uint32_t calls_above(const struct call_slot *s, uint32_t depth, const struct call_frame *f)
{
	for (uint32_t above = 0; above < depth; above++)
		if (is_frames(&s->open[depth - 1 - above], f))
			return above;
	return MAX_OPEN_CALLS;
}

/* The frame's call becomes the innermost open one, where it is still known; what lies above it is
 * another stack's. */
SELDOM static void come_back(struct call_thread *t, const struct call_frame *f)
{
	struct call_slot *s = t->slot;
	uint32_t above = calls_above(s, depth_of(s), f), n = parked_of(s);
	if (above < MAX_OPEN_CALLS) {
		while (above-- > 0)
			park_top(t);
		return;
	}
	for (uint32_t i = n; i-- > 0;) {
		if (!is_frames(&s->parked[i], f))
			continue;
		struct call_open o = s->parked[i];
		s->parked[i] = s->parked[n - 1];
		s->parked_at[i] = s->parked_at[n - 1];
		s->nparked = n - 1;
		if (depth_of(s) == MAX_OPEN_CALLS)
			park_top(t); /* there is room for one: this one's */
		uint32_t depth = depth_of(s) & (MAX_OPEN_CALLS - 1);
		s->open[depth] = o;
		__atomic_store_n(&s->depth, depth + 1, __ATOMIC_RELEASE);
		s->layer_open[o.layer & (LAYERS_MAX - 1)]++;
		return;
	}
}

/* Whether somebody is at work here whom a signal has interrupted, or we are on another stack. */
static bool is_elsewhere(const struct call_thread *t, uint64_t sp)
{
	if (unlikely(sp < t->stack_low || sp >= t->stack_high))
		return true;
	return unlikely(t->busy) && (sp < t->busy || calls_on_signal_stack());
}

static inline void set_busy(struct call_thread *t, uint64_t sp)
{
	t->busy = sp;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void set_idle(struct call_thread *t)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->busy = 0;
}

/* ---- whose stack is taken: as stack_of_call of bpf/calls.h ---- */

#define NAMES_MOST 4096 /* kernels of which one launch had its stack taken */
#define NAMES_NEAR 8

/* The first call of each name always has its stack: what is rare would be without one. Threads may
 * both be the first; where there are too many names the rest is left to chance. */
static bool is_first_named(const struct call_open *o)
{
	static uint64_t seen[NAMES_MOST];
	uint64_t key = ((o->args[0] ^ (uint64_t)o->probe << 48) * 0x9e3779b97f4a7c15ULL) | 1;
	if (!(o->flags & CALL_NAMED))
		return false;
	for (uint64_t i = key >> 40, end = i + NAMES_NEAR; i < end; i++) {
		uint64_t *at = &seen[i % NAMES_MOST], was = __atomic_load_n(at, __ATOMIC_RELAXED);
		if (was == key)
			return false;
		if (!was) {
			__atomic_store_n(at, key, __ATOMIC_RELAXED);
			return true;
		}
	}
	return false;
}

/* Marsaglia's xorshift: "Xorshift RNGs", Journal of Statistical Software 8 (14), 2003. */
static uint32_t next_random(struct call_thread *t)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return (uint32_t)(t->random >> 32);
}

static inline uint32_t mark_of(struct call_thread *t, const struct call_site *s,
			       const struct call_open *o)
{
	uint32_t chance = s->desc.stack_chance;
	if (likely(!chance) || (s->mode != MODE_TRACE && !s->desc.keep))
		return 0;
	uint32_t shift = __atomic_load_n(&t->header->stack_shift, __ATOMIC_RELAXED) & 31;
	if (chance != UINT32_MAX && next_random(t) > chance >> shift && !is_first_named(o))
		return 0;
	t->slot->marks += t->slot->marks == UINT32_MAX ? 2 : 1;
	return t->slot->marks;
}

static uint32_t push(struct call_thread *t, struct call_frame *f, uint64_t sp)
{
	struct call_slot *slot = t->slot;
	const struct call_site *site = f->site;
	uint32_t depth = depth_of(slot);
	if (unlikely(depth && slot->open[depth - 1].sp <= sp)) {
		if (calls_on_signal_stack()) {
			count(&slot->elsewhere);
			return 0;
		}
		uint64_t now = ticks_now();
		while (depth_of(slot) && slot->open[slot->depth - 1].sp <= sp) {
			if (switches_stacks())
				park_top(t);
			else
				drop_top(t, now);
		}
		depth = slot->depth;
	}
	if (unlikely(depth >= MAX_OPEN_CALLS)) {
		count(&slot->deep);
		return 0;
	}
	struct call_open *o = &slot->open[depth];
	uint8_t *layer_open = &slot->layer_open[site->layer & (LAYERS_MAX - 1)];
	o->sp = sp;
	o->probe = site->probe;
	o->layer = site->layer;
	o->nargs = site->desc.nargs < MAX_ARGS ? site->desc.nargs : MAX_ARGS;
	o->flags = site->flags | (*layer_open ? CALL_NESTED : 0);
	o->keep = site->mode | (site->desc.keep ? CALL_KEEP_ALWAYS : 0);
	if (o->nargs)
		fetch_at_entry(t, site, f, o);
	o->mark = mark_of(t, site, o);
	o->timed = 0;
	f->result[0] = o->mark;
	++*layer_open;
	slot->depth = depth + 1;
	o->start = ticks_now(); /* last: the call does not pay for its own entry */
	f->began = o->start;
	return depth + 1;
}

/* One that ended, or that has no slot; or eacgm wants no more. */
SELDOM static int enter_none(const struct call_thread *t)
{
	if (t && !t->slot)
		calls_count_slotless();
	return 0;
}

/* ---- what it costs: looked at now and then ---- */

#define TIMED_EVERY 256 /* calls of a thread */

static inline uint64_t begin_timing(struct call_thread *t)
{
	if (likely(++t->untimed < TIMED_EVERY))
		return 0;
	t->untimed = 0;
	return ticks_now();
}

/* The frame and the copying of arguments are not in it. */
SELDOM static void timed_entry(struct call_open *o, uint64_t began)
{
	uint64_t ticks = o->start - began;
	o->timed = ticks && ticks < UINT32_MAX ? (uint32_t)ticks : 1;
}

SELDOM static void timed_return(struct call_thread *t, const struct call_open *o, uint64_t end)
{
	struct call_slot *slot = t->slot;
	slot->timed_ticks += o->timed + (ticks_now() - end);
	__atomic_store_n(&slot->timed, slot->timed + 1, __ATOMIC_RELAXED);
	if ((o->keep & ~CALL_KEEP_ALWAYS) != MODE_TRACE) /* no ring will be full of these */
		calls_look_for_eacgm(t, end);
}

/* Whether another eacgm has come since the thread began, or asked. */
static bool is_anothers(const struct call_thread *t)
{
	uint32_t now = __atomic_load_n(&calls_generation, __ATOMIC_ACQUIRE);
	return calls_asked != now && t->header != eacgm_call_header;
}

/* Of the process. */
static bool calls_are_stopped(void)
{
	const struct call_header *h = eacgm_call_header;
	return h && __atomic_load_n(&h->stop, __ATOMIC_ACQUIRE);
}

int calls_enter(struct call_frame *f)
{
	uint64_t sp = (uint64_t)(uintptr_t)&f->return_address;
	struct call_thread *t = calls_own;
	f->token = 0;
	if (unlikely(!t || !t->header || (is_stopped(t) && is_anothers(t)))) {
		/* as it was when the call came in: by the end of that it may be told otherwise, and
		 * the kernel has told of this call */
		bool told_elsewhere = calls_are_stopped();
		t = calls_begin_thread();
		if (told_elsewhere)
			return enter_none(t);
	}
	if (unlikely(!t || is_stopped(t)))
		return enter_none(t);
	if (unlikely(__atomic_load_n(&calls_settings->rests, __ATOMIC_RELAXED)))
		return 0;
	if (unlikely(is_elsewhere(t, sp))) {
		count(&t->slot->elsewhere);
		return 0;
	}
	uint64_t began = begin_timing(t);
	set_busy(t, (uint64_t)(uintptr_t)f);
	f->result[0] = 0;
	uint32_t place = push(t, f, sp);
	f->token = place ? place | (uint64_t)t->generation << 32 : 0;
	if (unlikely(began && place))
		timed_entry(&t->slot->open[(place - 1) & (MAX_OPEN_CALLS - 1)], began);
	set_idle(t);
	return place && f->result[0] ? -1 : 0;
}

void calls_leave(const struct call_frame *f)
{
	uint64_t end = ticks_now();
	struct call_thread *t = calls_own;
	/* a fork's child returns from what its parent entered; or eacgm has gone, whose memory was
	 * given back, or another is here by now */
	if (unlikely(!t || !t->slot || is_stopped(t) ||
		     (uint32_t)(f->token >> 32) != t->generation))
		return;
	struct call_slot *slot = t->slot;
	uint32_t place = ((uint32_t)f->token - 1) & (MAX_OPEN_CALLS - 1);
	set_busy(t, (uint64_t)(uintptr_t)f);
	if (unlikely(switches_stacks())) {
		come_back(t, f);
		place = slot->depth ? (slot->depth - 1) & (MAX_OPEN_CALLS - 1) : 0;
	}
	while (depth_of(slot) > place + 1)
		drop_top(t, end);
	struct call_open *o = &slot->open[place];
	if (slot->depth != place + 1 || !is_frames(o, f)) {
		count(&slot->unmatched);
	} else {
		slot->depth = place;
		layer_left(slot, o->layer);
		if (o->nargs)
			fetch_at_return(t, f, o);
		keep_call(t, o, place, end);
		if (unlikely(o->timed))
			timed_return(t, o, end);
	}
	set_idle(t);
}
