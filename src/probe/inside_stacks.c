/* inside_stacks.c - many stacks in one process_vm_readv(2), cut at pages: the call ends at the
 * first piece that cannot be read, which is the end of that thread's stack. */
#include "probe/inside_stacks.h"

#include <sys/uio.h>

#define PAGE_BYTES 4096
#define PIECES	   (INSIDE_STACK_BYTES / PAGE_BYTES + 1) /* of a stack that begins within a page */

struct pieces {
	struct iovec of[INSIDE_STACKS_AT_ONCE * PIECES];
	size_t first[INSIDE_STACKS_AT_ONCE + 1]; /* by thread */
	size_t len;
};

static void add_stack(struct pieces *p, const proc_maps_t *maps, uint64_t at)
{
	const struct proc_map *m = proc_map_at(maps, at);
	uint64_t end = at + INSIDE_STACK_BYTES;
	end = m && m->end < end ? m->end : end;
	while (at < end && p->len < sizeof(p->of) / sizeof(p->of[0])) {
		uint64_t page_end = (at | (PAGE_BYTES - 1)) + 1;
		size_t n = (page_end < end ? page_end : end) - at;
		p->of[p->len++] = (struct iovec){(void *)(uintptr_t)at, n};
		at += n;
	}
}

/* How much of a thread's pieces `bytes` are, which begin with the first of these. */
static size_t part_of(const struct pieces *p, size_t thread, size_t bytes)
{
	size_t all = 0;
	for (size_t i = p->first[thread]; i < p->first[thread + 1]; i++)
		all += p->of[i].iov_len;
	return bytes < all ? bytes : all;
}

static void read_some(pid_t pid, const proc_maps_t *maps, const struct hold_thread *threads,
		      size_t n, char *room,
		      void (*visit)(void *ctx, const uint64_t *words, size_t n), void *ctx)
{
	struct pieces p = {.len = 0};
	for (size_t i = 0; i < n; i++) {
		p.first[i] = p.len;
		add_stack(&p, maps, threads[i].sp);
	}
	p.first[n] = p.len;
	for (size_t i = 0; i < n;) {
		struct iovec to = {room, INSIDE_STACKS_ROOM};
		ssize_t got =
			process_vm_readv(pid, &to, 1, &p.of[p.first[i]], p.len - p.first[i], 0);
		size_t left = got > 0 ? (size_t)got : 0;
		for (const char *at = room; i < n;) {
			size_t part = part_of(&p, i, left);
			bool whole = part == part_of(&p, i, SIZE_MAX);
			if (part >= sizeof(uint64_t))
				visit(ctx, (const uint64_t *)at, part / sizeof(uint64_t));
			i++;
			at += part;
			left -= part;
			if (!whole)
				break; /* what follows was not read */
		}
	}
}

void inside_stacks_visit(pid_t pid, const proc_maps_t *maps, const struct hold_thread *threads,
			 size_t n, void *room,
			 void (*visit)(void *ctx, const uint64_t *words, size_t n), void *ctx)
{
	for (size_t i = 0; i < n; i += INSIDE_STACKS_AT_ONCE)
		read_some(pid, maps, threads + i,
			  n - i < INSIDE_STACKS_AT_ONCE ? n - i : INSIDE_STACKS_AT_ONCE, room,
			  visit, ctx);
}
