/* inside_stacks.c - many stacks in one process_vm_readv(2), cut at pages: the call ends at the
 * first piece that cannot be read, which mostly is the end of that thread's stack. A stack of which
 * not even the first word came is asked for by itself. */
#include "probe/inside_stacks.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE_BYTES 4096
#define WORD_BYTES sizeof(uint64_t)
#define PIECES	   (INSIDE_STACK_BYTES / PAGE_BYTES + 1) /* of a stack that begins within a page */

struct pieces {
	struct iovec of[INSIDE_STACKS_AT_ONCE * PIECES];
	size_t first[INSIDE_STACKS_AT_ONCE + 1]; /* by thread */
	size_t len;
};

struct reading {
	int memory;
	char *room;
	void (*visit)(void *ctx, const uint64_t *words, size_t n);
	void *ctx;
};

static uint64_t begin_of(const struct hold_thread *thread)
{
	return thread->sp & ~(uint64_t)(WORD_BYTES - 1);
}

static void add_stack(struct pieces *p, uint64_t at)
{
	for (size_t left = INSIDE_STACK_BYTES; left;) {
		size_t in_page = PAGE_BYTES - at % PAGE_BYTES, n = in_page < left ? in_page : left;
		p->of[p->len++] = (struct iovec){(void *)(uintptr_t)at, n};
		at += n;
		left -= n;
	}
}

static void give(const struct reading *r, const char *at, size_t bytes)
{
	r->visit(r->ctx, (const uint64_t *)(const void *)at, bytes / WORD_BYTES);
}

/* False: it is not known. Where nothing is mapped nothing lies. */
static bool read_alone(const struct reading *r, const struct hold_thread *thread)
{
	ssize_t n = pread(r->memory, r->room, INSIDE_STACK_BYTES, (off_t)begin_of(thread));
	if (n < (ssize_t)WORD_BYTES)
		return n < 0 && (errno == EIO || errno == EFAULT || errno == EINVAL);
	give(r, r->room, (size_t)n);
	return true;
}

/* From thread i on, as far as one call goes; which one is the next, in *ret_next. */
static bool read_on(const struct reading *r, const struct pieces *p,
		    const struct hold_thread *threads, size_t n, size_t i, size_t *ret_next)
{
	struct iovec to = {r->room, INSIDE_STACKS_ROOM};
	/* by a thread that stands there: the first one of the process may have ended */
	ssize_t got = process_vm_readv(threads[i].tid, &to, 1, &p->of[p->first[i]],
				       p->len - p->first[i], 0);
	size_t left = got > 0 ? (size_t)got : 0;
	for (const char *at = r->room; i < n && left >= WORD_BYTES; i++) {
		size_t part = left < INSIDE_STACK_BYTES ? left : INSIDE_STACK_BYTES;
		give(r, at, part);
		at += part;
		left -= part;
		if (part < INSIDE_STACK_BYTES) {
			*ret_next = i + 1;
			return true;
		}
	}
	*ret_next = i + 1;
	return i >= n || read_alone(r, &threads[i]);
}

static bool read_some(const struct reading *r, const struct hold_thread *threads, size_t n)
{
	struct pieces p = {.len = 0};
	for (size_t i = 0; i < n; i++) {
		p.first[i] = p.len;
		add_stack(&p, begin_of(&threads[i]));
	}
	for (size_t i = 0; i < n;)
		if (!read_on(r, &p, threads, n, i, &i))
			return false;
	return true;
}

bool inside_stacks_visit(const struct hold_thread *threads, size_t n, int memory, void *room,
			 void (*visit)(void *ctx, const uint64_t *words, size_t n), void *ctx)
{
	const struct reading r = {memory, room, visit, ctx};
	for (size_t i = 0; i < n; i += INSIDE_STACKS_AT_ONCE)
		if (!read_some(&r, threads + i,
			       n - i < INSIDE_STACKS_AT_ONCE ? n - i : INSIDE_STACKS_AT_ONCE))
			return false;
	return true;
}
