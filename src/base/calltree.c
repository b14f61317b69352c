/* calltree.c - frames and nodes by hash maps. */
#include "base/calltree.h"

#include <stdlib.h>

void calltree_init(struct calltree *t)
{
	*t = (struct calltree){.unit = "count", .type = "cpu"};
	calltree_frame(t, CALLTREE_OTHER, "", "", 0, "");
	(void)vec_push(&t->nodes);
}

void calltree_free(struct calltree *t)
{
	free((char *)t->title);
	strtab_free(&t->strings);
	vec_free(&t->frames);
	vec_free(&t->nodes);
	vec_free(&t->moments);
	vec_free(&t->lanes);
	map64_free(&t->frame_of);
	map64_free(&t->child_of);
	map64_free(&t->build_of);
	*t = (struct calltree){0};
}

static bool same_frame(const struct calltree_frame *a, const struct calltree_frame *b)
{
	return a->kind == b->kind && a->name == b->name && a->file == b->file &&
	       a->line == b->line && a->library == b->library;
}

static uint64_t frame_hash(const struct calltree_frame *f)
{
	uint64_t h = hash_u64((uint64_t)f->name << 32 | f->file);
	return hash_u64(h ^ ((uint64_t)f->line << 32 | f->library)) ^ f->kind;
}

uint32_t calltree_frame(struct calltree *t, enum calltree_kind kind, const char *name,
			const char *file, uint32_t line, const char *library)
{
	struct calltree_frame f = {
		.kind = (uint8_t)kind,
		.name = strtab_add_z(&t->strings, name),
		.file = strtab_add_z(&t->strings, file),
		.line = line,
		.library = strtab_add_z(&t->strings, library),
	};
	uint64_t number;
	uint64_t key = frame_hash(&f);
	for (; map64_get(&t->frame_of, key, &number); key++) /* another frame may have the hash */
		if (same_frame(&t->frames.data[number], &f))
			return (uint32_t)number;
	map64_set(&t->frame_of, key, t->frames.len);
	*vec_push(&t->frames) = f;
	return (uint32_t)t->frames.len - 1;
}

void calltree_build_id(struct calltree *t, const char *library, const char *build_id)
{
	uint64_t unused;
	uint32_t path = strtab_add_z(&t->strings, library);
	if (path && *build_id && !map64_get(&t->build_of, path, &unused))
		map64_set(&t->build_of, path, strtab_add_z(&t->strings, build_id));
}

uint32_t calltree_child(struct calltree *t, uint32_t parent, uint32_t frame)
{
	uint64_t number;
	uint64_t key = (uint64_t)parent << 32 | frame;
	if (map64_get(&t->child_of, key, &number))
		return (uint32_t)number;
	map64_set(&t->child_of, key, t->nodes.len);
	struct calltree_node *n = vec_push(&t->nodes);
	n->parent = parent;
	n->frame = frame;
	return (uint32_t)t->nodes.len - 1;
}

/* Weights come from files: the sum of absurd ones stays at the bound. */
static void add_weight(int64_t *to, int64_t weight)
{
	if (__builtin_add_overflow(*to, weight, to))
		*to = weight < 0 ? INT64_MIN : INT64_MAX;
}

void calltree_add(struct calltree *t, uint32_t node, int64_t weight, int which)
{
	add_weight(&t->nodes.data[node].self[which], weight);
}

void calltree_sum(struct calltree *t)
{
	struct calltree_node *nodes = t->nodes.data;
	for (size_t i = 0; i < t->nodes.len; i++)
		memcpy(nodes[i].total, nodes[i].self, sizeof(nodes[i].total));
	/* Parents come before their children: from the end each node is complete. */
	for (size_t i = t->nodes.len; i-- > 1;)
		for (int which = 0; which < 2; which++)
			add_weight(&nodes[nodes[i].parent].total[which], nodes[i].total[which]);
}

/* ---- what is small ---- */

static int compare_down(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x > y ? -1 : x < y;
}

int64_t calltree_least(const struct calltree *t, size_t most, int64_t parts)
{
	size_t n = t->nodes.len;
	int64_t least = t->nodes.data[0].total[0] / parts + 1;
	if (n <= most)
		return least;
	int64_t *weights = xcalloc(n, sizeof(*weights));
	for (size_t i = 0; i < n; i++)
		weights[i] = t->nodes.data[i].total[0];
	qsort(weights, n, sizeof(*weights), compare_down);
	if (weights[most] >= least)
		least = weights[most] + 1;
	free(weights);
	return least;
}
