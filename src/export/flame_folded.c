/* flame_folded.c - folded stacks: one line a stack, "root;...;leaf weight", as
 * flamegraph.pl and its kin read them.
 *
 * Of a differential tree there are two weights, the base first, as difffolded.pl of
 * <https://github.com/brendangregg/FlameGraph> writes them. Names may not hold what separates
 * them: ";" and control characters become "_". */
#include "base/utf8.h"
#include "export/flame.h"

static void put_name(FILE *out, const struct calltree *t, uint32_t string, struct buf *clean)
{
	size_t len;
	const char *s = strtab_get(&t->strings, string, &len);
	clean->len = 0;
	utf8_append_clean(clean, s, len, '_');
	for (size_t i = 0; i < clean->len; i++)
		fputc(clean->data[i] == ';' ? '_' : clean->data[i], out);
}

/* Frames of a node from the root, which itself has no name. */
static void put_path(FILE *out, const struct calltree *t, uint32_t node, struct buf *path,
		     struct buf *name)
{
	path->len = 0;
	for (; node; node = t->nodes.data[node].parent)
		buf_add(path, &node, sizeof(node));
	for (size_t at = path->len; at; at -= sizeof(node)) {
		memcpy(&node, path->data + at - sizeof(node), sizeof(node));
		const struct calltree_frame *f = &t->frames.data[t->nodes.data[node].frame];
		if (at != path->len)
			fputc(';', out);
		put_name(out, t, f->name, name);
	}
}

static int write_folded(FILE *out, const struct calltree *t, struct err *e)
{
	struct buf path = {0}, name = {0};
	(void)e;
	for (uint32_t i = 1; i < t->nodes.len; i++) {
		const struct calltree_node *n = &t->nodes.data[i];
		if (!n->self[0] && !(t->differential && n->self[1]))
			continue;
		put_path(out, t, i, &path, &name);
		if (t->differential)
			fprintf(out, " %lld", (long long)n->self[1]);
		fprintf(out, " %lld\n", (long long)n->self[0]);
	}
	buf_free(&path);
	buf_free(&name);
	return 0;
}

const struct flame_format flame_folded = {
	.name = "folded",
	.extension = "folded",
	.write = write_folded,
};
