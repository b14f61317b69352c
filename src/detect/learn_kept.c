/* learn_kept.c - events in chunks that are read by themselves, as variable-length numbers:
 *
 *   flags   enum kept_flags
 *   end     the difference to the end of the event before, zigzag; of a chunk's first to 0
 *   lasted
 *   gap, previous key	where KEPT_GAP
 *   key
 *   size    0: none; else 1 + the place that it has in a mix of work
 *   pid     where KEPT_PID: it is not the one of the event before (a chunk's first has it) */
#include "detect/learn_kept.h"

#include <stdlib.h>

#include "detect/ahead.h"

#define CHUNK_EVENTS 8192
#define EVENT_BYTES  80 /* at most */

_Static_assert(REGIME_SIZES < 255, "a size's place is a byte");

enum kept_flags {
	KEPT_DEVICE = 1 << 0,
	KEPT_OUTERMOST = 1 << 1,
	KEPT_FAILED = 1 << 2,
	KEPT_DURATION = 1 << 3, /* that is how long it lasted */
	KEPT_GAP = 1 << 4,
	KEPT_PID = 1 << 5,
};

/* ---- writing ---- */

static uint8_t *put(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

static uint8_t flags_of(const struct kept *k, const struct windows_input *in)
{
	bool duration = in->duration_ns != USUAL_NONE, gap = in->gap_ns != USUAL_NONE;
	bool pid = !k->open_events || in->pid != k->pid;
	return (uint8_t)((in->device ? KEPT_DEVICE : 0) | (in->outermost ? KEPT_OUTERMOST : 0) |
			 (in->failed ? KEPT_FAILED : 0) | (duration ? KEPT_DURATION : 0) |
			 (gap ? KEPT_GAP : 0) | (pid ? KEPT_PID : 0));
}

static void let_go(struct kept *k, uint64_t *all)
{
	for (size_t i = 0; i < k->chunks.len; i++)
		free(k->chunks.data[i].bytes);
	vec_free(&k->chunks);
	buf_free(&k->open);
	*all -= k->bytes;
	*k = (struct kept){.whole = false};
}

static void end_chunk(struct kept *k, uint64_t *all)
{
	uint8_t *bytes = xrealloc(NULL, k->open.len, 1);
	memcpy(bytes, k->open.data, k->open.len);
	*vec_push(&k->chunks) = (struct kept_chunk){bytes, k->open_events};
	k->bytes += k->open.len;
	*all += k->open.len;
	k->open.len = 0;
	k->open_events = 0;
	k->end_ns = 0;
	if (*all > KEPT_BYTES_MOST)
		let_go(k, all);
}

void kept_add(struct kept *k, uint64_t *all, const struct windows_input *in)
{
	if (!k->whole)
		return;
	uint64_t ahead = in->end_ns - k->end_ns;
	uint8_t flags = flags_of(k, in);
	buf_reserve(&k->open, EVENT_BYTES);
	uint8_t *p = k->open.data + k->open.len;
	*p++ = flags;
	p = put(p, ahead << 1 ^ (0 - (ahead >> 63)));
	p = put(p, in->lasted_ns);
	if (flags & KEPT_GAP) {
		p = put(p, in->gap_ns);
		p = put(p, in->previous);
	}
	p = put(p, in->key);
	*p++ = (uint8_t)(in->size ? 1 + in->size % REGIME_SIZES : 0);
	if (flags & KEPT_PID)
		p = put(p, in->pid);
	k->open.len = (size_t)(p - k->open.data);
	k->end_ns = in->end_ns;
	k->pid = in->pid;
	if (++k->open_events == CHUNK_EVENTS)
		end_chunk(k, all);
}

void kept_end(struct kept *k, uint64_t *all)
{
	if (k->open_events)
		end_chunk(k, all);
	buf_free(&k->open);
}

void kept_free(struct kept *k)
{
	uint64_t all = k->bytes;
	let_go(k, &all);
}

/* ---- reading ---- */

/* A chunk's events, and against what is usual. */
struct replayed {
	struct windows_input *in;
	struct usual_z *usual;
	uint32_t len;
};

struct replay {
	const struct kept *kept;
	const struct usual *u;
};

static inline uint64_t get(const uint8_t **at)
{
	const uint8_t *p = *at;
	uint64_t v = *p & 0x7f;
	for (unsigned shift = 7; *p++ & 0x80; shift += 7)
		v |= (uint64_t)(*p & 0x7f) << shift;
	*at = p;
	return v;
}

static const uint8_t *read_event(const uint8_t *p, const struct windows_input *before,
				 struct windows_input *ret)
{
	uint8_t flags = *p++;
	uint64_t ahead = get(&p);
	ret->end_ns = before->end_ns + (ahead >> 1 ^ (0 - (ahead & 1)));
	ret->lasted_ns = get(&p);
	ret->duration_ns = flags & KEPT_DURATION ? ret->lasted_ns : USUAL_NONE;
	ret->gap_ns = flags & KEPT_GAP ? get(&p) : USUAL_NONE;
	ret->previous = flags & KEPT_GAP ? (uint32_t)get(&p) : 0;
	ret->key = (uint32_t)get(&p);
	uint8_t size = *p++;
	ret->size = size ? REGIME_SIZES + size - 1 : 0;
	ret->pid = flags & KEPT_PID ? (uint32_t)get(&p) : before->pid;
	ret->device = flags & KEPT_DEVICE;
	ret->outermost = flags & KEPT_OUTERMOST;
	ret->failed = flags & KEPT_FAILED;
	return p;
}

static void judge(const struct usual *u, const struct windows_input *in, struct usual_z *ret)
{
	usual_z_of(u,
		   &(struct usual_event){.key = in->key,
					 .previous = in->previous,
					 .duration_ns = in->duration_ns,
					 .gap_ns = in->gap_ns},
		   ret);
}

static void read_chunk(void *ctx, size_t stream, size_t number, void *slot)
{
	const struct replay *r = ctx;
	const struct kept_chunk *c = &r->kept->chunks.data[number];
	static const struct windows_input none;
	const struct windows_input *before = &none;
	struct replayed *ret = slot;
	const uint8_t *p = c->bytes;
	(void)stream;
	if (!ret->in) {
		ret->in = xcalloc(CHUNK_EVENTS, sizeof(*ret->in));
		ret->usual = xcalloc(CHUNK_EVENTS, sizeof(*ret->usual));
	}
	for (uint32_t i = 0; i < c->events; i++) {
		p = read_event(p, before, &ret->in[i]);
		before = &ret->in[i];
		if (r->u)
			judge(r->u, before, &ret->usual[i]);
	}
	ret->len = c->events;
}

static void replayed_free(void *slot)
{
	struct replayed *r = slot;
	free(r->in);
	free(r->usual);
}

void kept_replay(const struct kept *k, const struct usual *u, struct windows *w,
		 void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx)
{
	struct replay replay = {k, u};
	struct ahead *a = ahead_new(&(struct ahead_options){.ctx = &replay,
							    .streams = 1,
							    .things = {k->chunks.len},
							    .slot_bytes = sizeof(struct replayed),
							    .make = read_chunk,
							    .slot_free = replayed_free});
	const struct replayed *r;
	for (size_t done = 1; (r = ahead_next(a, 0)); done++) {
		for (uint32_t i = 0; i < r->len; i++)
			windows_again(w, &r->in[i], u ? &r->usual[i] : NULL);
		if (progress)
			progress(ctx, done, k->chunks.len);
	}
	ahead_free(a);
}
