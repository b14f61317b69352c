/* python_hook.c - the interpreter has an entry for each audit hook, which it frees at its end by
 * whatever allocator it has then. Where a debugging one came after ours was made
 * (PYTHONMALLOC=debug, -X dev), or the program's own, that would find memory which it has not
 * given: it is not asked to free ours. The other functions and the context stay as they are, for
 * threads that are amid them. */
#include "python_hook.h"

static struct python_allocator original; /* when the hook was made */
static struct python_allocator later;
static void *entry;

static void *malloc_seen(void *ctx, size_t bytes)
{
	entry = original.malloc(ctx, bytes);
	return entry;
}

static void free_others(void *ctx, void *memory)
{
	if (memory != entry)
		later.free(ctx, memory);
}

void python_hook_add(python_auditor *hook)
{
	python.get_allocator(PYTHON_DOMAIN_RAW, &original);
	struct python_allocator watching = original;
	watching.malloc = malloc_seen;
	python.set_allocator(PYTHON_DOMAIN_RAW, &watching);
	python.add_hook(hook, NULL);
	python.set_allocator(PYTHON_DOMAIN_RAW, &original);
}

void python_hook_goes(void)
{
	python.get_allocator(PYTHON_DOMAIN_RAW, &later);
	if (!entry || later.free == original.free || later.free == free_others)
		return;
	struct python_allocator sparing = later;
	sparing.free = free_others;
	python.set_allocator(PYTHON_DOMAIN_RAW, &sparing);
}
