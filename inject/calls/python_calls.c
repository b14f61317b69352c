/* python_calls.c - as calls.c, of calls that the interpreter tells: a call is pushed when its
 * function is entered or resumed, and popped when it returns or yields; then one record goes into
 * the thread's ring.
 *
 * The interpreter tells the end of a call by its code; by its frame it is known from others of the
 * same function. Where no frames are known it is that of the innermost open call of this code.
 * Others lie above it where a thread has several stacks (greenlets), and stay.
 *
 * The outermost open calls are where eacgm can read them, the rest in memory of the process. */
#include "python_calls.h"

#include <stdlib.h>
#include <string.h>

#include "../ticks.h"

#define TIMED_EVERY 256 /* as in calls.c */
#define DEEP_FIRST  1024

static uint32_t next_code = 1, first_code = 1;
static uint32_t state; /* enum call_python */

static void count(__u64 *what)
{
	__atomic_store_n(what, *what + 1, __ATOMIC_RELAXED);
}

void python_begin_child(void)
{
	first_code = next_code;
}

bool python_code_is_told(uint32_t code)
{
	return code >= first_code;
}

void python_tell_state(enum call_python s)
{
	state = s;
	if (eacgm_call_header)
		__atomic_store_n(&eacgm_call_header->python, state, __ATOMIC_RELAXED);
}

void python_count_yield(void)
{
	if (eacgm_call_header)
		__atomic_fetch_add(&eacgm_call_header->python_yields, 1, __ATOMIC_RELAXED);
}

void python_count_late(uint32_t threads)
{
	if (eacgm_call_header)
		__atomic_fetch_add(&eacgm_call_header->python_late, threads, __ATOMIC_RELAXED);
}

struct call_thread *python_thread(bool begins)
{
	struct call_thread *t = calls_own;
	if (!t || !t->header) {
		t = calls_begin_thread();
		python_tell_state(state); /* the file may be new */
	}
	if (t && t->slot)
		return t;
	if (begins)
		calls_count_slotless();
	return NULL;
}

bool python_has_stopped(void)
{
	const struct call_thread *t = calls_own;
	return t && t->slot && __atomic_load_n(&t->header->stop, __ATOMIC_RELAXED);
}

/* ---- the ring ---- */

/* A handler of a signal that calls what is probed meanwhile is not recorded. */
static void set_busy(struct call_thread *t, uint64_t sp)
{
	t->busy = sp;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static bool put(struct call_thread *t, const uint64_t *words, uint32_t n)
{
	const uint64_t mask = CALL_RING_BYTES / 8 - 1;
	struct call_slot *s = t->slot;
	bool fits;
	set_busy(t, (uint64_t)(uintptr_t)__builtin_frame_address(0));
	uint64_t head = s->head;
	fits = head + 8 * n - __atomic_load_n(&s->tail, __ATOMIC_ACQUIRE) <= CALL_RING_BYTES;
	for (uint32_t i = 0; i < n && fits; i++)
		t->ring[(head / 8 + i) & mask] = words[i];
	if (fits)
		__atomic_store_n(&s->head, head + 8 * n, __ATOMIC_RELEASE);
	else
		count(&s->full);
	set_busy(t, 0);
	if (!fits)
		calls_look_for_eacgm(t, ticks_now());
	return fits;
}

static void put_call(struct call_thread *t, const struct call_python_open *o, uint32_t depth,
		     uint8_t flags, uint64_t end)
{
	struct {
		struct call_record r;
		uint64_t code;
	} out = {.r = {.probe = CALL_PYTHON,
		       .flags = flags | (depth ? CALL_NESTED : 0),
		       .depth = depth < UINT8_MAX ? (uint8_t)depth : UINT8_MAX,
		       .nargs = 1,
		       .start = o->start,
		       .end = end},
		 .code = o->code};
	uint64_t words[sizeof(out) / 8];
	memcpy(words, &out, sizeof(words));
	put(t, words, sizeof(out) / 8);
}

/* Bytes of the text, of which a character has more than one. */
static uint32_t cut(const char *text, size_t most)
{
	size_t n = strnlen(text, most + 1);
	if (n > most)
		for (n = most; n && ((unsigned char)text[n] & 0xc0) == 0x80;)
			n--;
	return (uint32_t)n;
}

/* Threads of a free-threaded interpreter come at a time. 0: there are no more. */
static uint32_t take_number(void)
{
	uint32_t n = __atomic_load_n(&next_code, __ATOMIC_RELAXED);
	while (n != UINT32_MAX && !__atomic_compare_exchange_n(&next_code, &n, n + 1, true,
							       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return n == UINT32_MAX ? 0 : n;
}

uint32_t python_tell_code(struct call_thread *t, const char *name, const char *file, uint32_t line)
{
	union {
		struct call_code head;
		uint64_t words[CALL_CODE_MOST / 8];
	} out = {.head = {.probe = CALL_CODE, .line = line}};
	char *text = (char *)out.words + sizeof(out.head);
	struct call_code *head = &out.head;
	head->name_bytes = cut(name, CALL_CODE_NAME);
	head->file_bytes = cut(file, CALL_CODE_FILE);
	memcpy(text, name, head->name_bytes);
	memcpy(text + head->name_bytes, file, head->file_bytes);
	head->nargs = (uint8_t)((head->name_bytes + head->file_bytes + 7) / 8);
	head->code = take_number();
	return head->code && put(t, out.words, sizeof(*head) / 8 + head->nargs) ? head->code : 0;
}

/* ---- open calls ---- */

static struct call_python_open *open_at(struct call_thread *t, uint32_t depth)
{
	return depth < CALL_PYTHON_OPEN ? &t->slot->python[depth]
					: &t->python_deep[depth - CALL_PYTHON_OPEN];
}

static void set_depth(struct call_thread *t, uint32_t depth)
{
	t->python_depth = depth;
	__atomic_store_n(&t->slot->python_depth, depth, __ATOMIC_RELEASE);
}

static bool has_room(struct call_thread *t)
{
	uint32_t deep = t->python_depth - CALL_PYTHON_OPEN;
	if (t->python_depth < CALL_PYTHON_OPEN || deep < t->python_room)
		return true;
	uint32_t room = t->python_room ? 2 * t->python_room : DEEP_FIRST;
	void *more = room > deep ? realloc(t->python_deep, room * sizeof(*t->python_deep)) : NULL;
	if (!more)
		return false;
	t->python_deep = more;
	t->python_room = room;
	return true;
}

static uint64_t begin_timing(struct call_thread *t)
{
	if (++t->untimed < TIMED_EVERY)
		return 0;
	t->untimed = 0;
	return ticks_now();
}

void python_enter(struct call_thread *t, uint32_t code, uint64_t frame)
{
	uint64_t began = begin_timing(t);
	if (!has_room(t)) {
		count(&t->slot->deep);
		return;
	}
	struct call_python_open *o = open_at(t, t->python_depth);
	o->frame = frame;
	o->code = code;
	o->timed = 0;
	set_depth(t, t->python_depth + 1);
	o->start = ticks_now();
	if (began)
		o->timed = (uint32_t)(o->start - began) | 1;
}

static inline bool is_call(const struct call_python_open *o, uint32_t code, uint64_t frame)
{
	return o->code == code && o->frame == frame;
}

static void timed_leave(struct call_slot *slot, uint32_t entry_ticks, uint64_t end)
{
	slot->timed_ticks += entry_ticks + (ticks_now() - end);
	__atomic_store_n(&slot->timed, slot->timed + 1, __ATOMIC_RELAXED);
}

void python_leave(struct call_thread *t, uint32_t code, uint64_t frame)
{
	uint64_t end = ticks_now();
	uint32_t depth = t->python_depth, at = depth;
	while (at && !is_call(open_at(t, at - 1), code, frame))
		at--;
	if (!at) {
		if (depth)
			count(&t->slot->unmatched);
		return;
	}
	struct call_python_open o = *open_at(t, at - 1);
	for (uint32_t i = at; i < depth; i++)
		*open_at(t, i - 1) = *open_at(t, i);
	set_depth(t, depth - 1);
	put_call(t, &o, at - 1, 0, end);
	if (o.timed)
		timed_leave(t->slot, o.timed, end);
}

static void drop_all(struct call_thread *t, uint8_t flags)
{
	uint64_t now = ticks_now();
	while (t->python_depth) {
		struct call_python_open o = *open_at(t, t->python_depth - 1);
		set_depth(t, t->python_depth - 1);
		count(&t->slot->no_return);
		put_call(t, &o, t->python_depth, flags, now);
	}
}

void python_lose_sight(struct call_thread *t)
{
	drop_all(t, CALL_OPEN);
}

void python_drop_all(struct call_thread *t)
{
	drop_all(t, CALL_UNWOUND);
	free(t->python_deep);
	t->python_deep = NULL;
	t->python_room = 0;
}
