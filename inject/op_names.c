/* op_names.c - names of operators and nodes, each once for all threads. Knows nothing of rows.
 *
 * A name is looked up by its address, where an operator's stays, and compared, for those of nodes
 * are made each time (op_threads.c); only a name that the thread meets for the first time takes a
 * lock, which is held for no longer than it takes to look it up among all. */
#include <stdlib.h>

#include "op_impl.h"

static uint64_t hash_text(const char *text, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ULL;
	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)text[i]) * 0x100000001b3ULL;
	return h ^ h >> 32;
}

static bool is_name(const struct name *n, uint64_t hash, const char *text, size_t len)
{
	return n->hash == hash && n->len == len && !memcmp(n->text, text, len);
}

/* The name's place in a table by text, or the free one where it belongs. */
static struct name **place_of(struct name **by_text, uint64_t hash, const char *text, size_t len)
{
	size_t i = hash % BY_TEXT;
	while (by_text[i] && !is_name(by_text[i], hash, text, len))
		i = (i + 1) % BY_TEXT;
	return &by_text[i];
}

/* NULL when there are too many, or no memory. */
static struct name *add_name(uint64_t hash, const char *text, size_t len)
{
	struct name *n = NULL;
	if (ops.names_len < GPU_RING_MAX_OPERATORS && len < GPU_RING_NAME_BYTES)
		n = calloc(1, sizeof(*n) + len + 1);
	if (!n)
		return NULL;
	n->hash = hash;
	n->len = (uint32_t)len;
	n->number = ops.names_len;
	bool is_node = !strncmp(text, NODE_PREFIX, sizeof(NODE_PREFIX) - 1);
	n->kind = is_node ? GPU_RING_NODE : GPU_RING_OPERATOR;
	memcpy(n->text, text, len);
	ops.names[ops.names_len++] = n;
	return n;
}

/* The name that all threads share. */
static struct name *shared_name(uint64_t hash, const char *text, size_t len)
{
	pthread_mutex_lock(&ops.lock);
	struct name **place = place_of(ops.by_text, hash, text, len);
	if (!*place)
		*place = add_name(hash, text, len);
	struct name *found = *place;
	pthread_mutex_unlock(&ops.lock);
	return found;
}

struct name *op_name_look_up(struct thread *t, const char *text)
{
	size_t len = strlen(text);
	uint64_t hash = hash_text(text, len);
	struct name **place = place_of(t->by_text, hash, text, len);
	if (!*place)
		*place = shared_name(hash, text, len);
	return *place;
}

void op_names_read_unwanted(void)
{
	pthread_mutex_lock(&ops.lock);
	uint32_t n = ops.names_len;
	pthread_mutex_unlock(&ops.lock);
	for (uint32_t i = 0; i < n; i++)
		__atomic_store_n(&ops.names[i]->unwanted, ring_wants_no(ops.ring, i),
				 __ATOMIC_RELAXED);
}

void op_names_free(void)
{
	for (uint32_t i = 0; i < ops.names_len; i++)
		free(ops.names[i]);
	ops.names_len = 0;
	memset(ops.by_text, 0, sizeof(ops.by_text));
}
