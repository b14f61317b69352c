/* gpu_memory_ledger.c - blocks by address, and memory that is made by itself, mapped at addresses
 * and released: it is there until its handle is released and no address has it. A block whose end
 * was not seen ends where its address is given away again.
 */
#include "session/gpu_memory_ledger.h"

#include <stdbool.h>
#include <string.h>

#define BLOCKS_ALL   (1 << 16)
#define MAPPINGS_ALL (1 << 16)
#define NO_BLOCK     UINT32_MAX

struct gpu_memory_block {
	uint64_t address; /* or handle */
	uint64_t bytes, from_ns;
	uint32_t mappings;
	uint8_t owner;
	bool live, created, released;
};

struct gpu_memory_mapping {
	uint64_t bytes;
	uint32_t block; /* NO_BLOCK: of memory that was not seen being made */
};

static void block_begin(struct gpu_memory_ledger *l, struct map64 *index,
			const struct gpu_memory_block *b)
{
	size_t at = l->blocks.len;
	if (l->room->blocks >= BLOCKS_ALL) {
		l->room->left_out++;
		return;
	}
	if (l->free_blocks.len)
		at = l->free_blocks.data[--l->free_blocks.len];
	else
		(void)vec_push(&l->blocks);
	l->blocks.data[at] = *b;
	map64_set(index, b->address, at);
	l->bytes[b->owner] += b->bytes;
	l->room->blocks++;
}

static void block_end(struct gpu_memory_ledger *l, size_t at)
{
	struct gpu_memory_block *b = &l->blocks.data[at];
	struct map64 *index = b->created ? &l->handle_of : &l->block_of;
	uint64_t named;
	b->live = false;
	l->bytes[b->owner] -= b->bytes;
	if (map64_get(index, b->address, &named) && named == at)
		map64_del(index, b->address);
	*vec_push(&l->free_blocks) = (uint32_t)at;
	l->room->blocks--;
}

static void end_unused(struct gpu_memory_ledger *l, size_t at)
{
	const struct gpu_memory_block *b = &l->blocks.data[at];
	if (b->live && b->released && !b->mappings)
		block_end(l, at);
}

static void take_alloc(struct gpu_memory_ledger *l, const struct gpu_memory_item *i)
{
	bool created = i->what == MEMORY_CREATE;
	struct map64 *index = created ? &l->handle_of : &l->block_of;
	uint64_t at;
	if (map64_get(index, i->v[0], &at)) { /* its end was not seen */
		l->blocks.data[at].released = true;
		if (!l->blocks.data[at].mappings)
			block_end(l, at);
	}
	block_begin(l, index,
		    &(struct gpu_memory_block){.address = i->v[0],
					       .bytes = i->v[1],
					       .from_ns = i->time_ns,
					       .owner = i->owner,
					       .live = true,
					       .created = created});
}

/* The runtime's call holds the driver's: the memory is that of who called the runtime. */
static void take_caller(struct gpu_memory_ledger *l, const struct gpu_memory_item *i)
{
	uint64_t at;
	if (!map64_get(&l->block_of, i->v[0], &at))
		return;
	struct gpu_memory_block *b = &l->blocks.data[at];
	if (b->from_ns < i->start_ns || b->from_ns > i->time_ns)
		return;
	l->bytes[b->owner] -= b->bytes;
	b->owner = i->owner;
	l->bytes[b->owner] += b->bytes;
}

/* A call that came late may be of what was at the address before. */
static void take_free(struct gpu_memory_ledger *l, const struct gpu_memory_item *i)
{
	uint64_t at;
	if (map64_get(&l->block_of, i->v[0], &at) && l->blocks.data[at].from_ns <= i->time_ns)
		block_end(l, at);
}

static void mapping_end(struct gpu_memory_ledger *l, uint64_t address, size_t at)
{
	uint32_t block = l->mappings.data[at].block;
	map64_del(&l->mapping_of, address);
	*vec_push(&l->free_mappings) = (uint32_t)at;
	l->room->mappings--;
	if (block == NO_BLOCK)
		return;
	l->blocks.data[block].mappings--;
	end_unused(l, block);
}

/* Also of memory that was not seen being made: what is unmapped with it is found behind it. */
static void take_map(struct gpu_memory_ledger *l, const struct gpu_memory_item *i)
{
	uint64_t at, block = NO_BLOCK;
	if (map64_get(&l->mapping_of, i->v[0], &at))
		mapping_end(l, i->v[0], at);
	if (l->room->mappings >= MAPPINGS_ALL) {
		l->room->left_out++;
		return;
	}
	if (map64_get(&l->handle_of, i->v[2], &block))
		l->blocks.data[block].mappings++;
	at = l->mappings.len;
	if (l->free_mappings.len)
		at = l->free_mappings.data[--l->free_mappings.len];
	else
		(void)vec_push(&l->mappings);
	l->room->mappings++;
	l->mappings.data[at] =
		(struct gpu_memory_mapping){.bytes = i->v[1], .block = (uint32_t)block};
	map64_set(&l->mapping_of, i->v[0], at);
}

/* One call may unmap several that lie side by side. */
static void take_unmap(struct gpu_memory_ledger *l, const struct gpu_memory_item *i)
{
	uint64_t address = i->v[0], left = i->v[1], at;
	while (map64_get(&l->mapping_of, address, &at)) {
		uint64_t bytes = l->mappings.data[at].bytes;
		mapping_end(l, address, at);
		if (!bytes || bytes >= left)
			return;
		address += bytes;
		left -= bytes;
	}
}

/* The handle is void from now on, and may come again. */
static void take_release(struct gpu_memory_ledger *l, const struct gpu_memory_item *i)
{
	uint64_t at;
	if (!map64_get(&l->handle_of, i->v[0], &at) || l->blocks.data[at].from_ns > i->time_ns)
		return;
	map64_del(&l->handle_of, i->v[0]);
	l->blocks.data[at].released = true;
	end_unused(l, at);
}

void gpu_memory_ledger_take(struct gpu_memory_ledger *l, const struct gpu_memory_item *i)
{
	switch ((enum gpu_memory_what)i->what) {
	case MEMORY_ALLOC:
	case MEMORY_CREATE:
		take_alloc(l, i);
		break;
	case MEMORY_ALLOC_CALLER:
		take_caller(l, i);
		break;
	case MEMORY_FREE:
		take_free(l, i);
		break;
	case MEMORY_MAP:
		take_map(l, i);
		break;
	case MEMORY_UNMAP:
		take_unmap(l, i);
		break;
	case MEMORY_RELEASE:
		take_release(l, i);
		break;
	case MEMORY_NOTHING:
	case MEMORY_ANSWER:
		break;
	}
}

void gpu_memory_ledger_empty(struct gpu_memory_ledger *l)
{
	l->room->blocks -= l->blocks.len - l->free_blocks.len;
	l->room->mappings -= l->mappings.len - l->free_mappings.len;
	vec_free(&l->blocks);
	vec_free(&l->free_blocks);
	vec_free(&l->mappings);
	vec_free(&l->free_mappings);
	map64_free(&l->block_of);
	map64_free(&l->handle_of);
	map64_free(&l->mapping_of);
	memset(l->bytes, 0, sizeof(l->bytes));
}

static bool frees(const struct gpu_memory_item *i)
{
	return i->what == MEMORY_FREE || i->what == MEMORY_UNMAP || i->what == MEMORY_RELEASE;
}

int gpu_memory_items_compare(const void *a, const void *b)
{
	const struct gpu_memory_item *x = a, *y = b;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return frees(x) != frees(y) ? (frees(x) ? -1 : 1) : (int)x->what - (int)y->what;
}
