/* agent_flames.c - trees are kept as frames with their total, parents first, and names once for
 * all. A frame that is left out is part of its caller still: totals are added up, not what is a
 * frame's own. */
#include "cli/agent_flames.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/flame.h"
#include "base/clock.h"
#include "report/report_html.h"
#include "session/live_samples.h"
#include "symbolize/demangle.h"

#define EACH_NS	     10000000000ULL /* of a tree */
#define PARTS_MOST   2000	    /* a frame of less than one part in so many is left out */
#define PARTS_STORED 500	    /* of what a store gets */

struct kept_frame {
	uint32_t parent; /* in the same tree; the root's is itself */
	uint32_t name;
	uint8_t kind; /* enum calltree_kind */
	int64_t total;
};

struct kept_tree {
	uint32_t pid;
	uint32_t len;
	struct kept_frame *frames; /* the root first */
};

struct flames_piece {
	uint64_t from_ns, until_ns;
	VEC(struct kept_tree) trees;
};

struct agent_flames {
	struct live_samples *samples; /* those of the thread that looks */
	pthread_mutex_t lock;	      /* of what follows */
	struct flames_piece pieces[FLAMES_PIECES];
	size_t first, len; /* a ring */
	size_t bytes;
	struct strtab names;
};

struct agent_flames *agent_flames_new(void)
{
	struct agent_flames *f = xcalloc(1, sizeof(*f));
	pthread_mutex_init(&f->lock, NULL);
	f->samples = live_samples_new(EACH_NS);
	return f;
}

/* ---- pieces ---- */

static struct flames_piece *piece_at(struct agent_flames *f, size_t i)
{
	return &f->pieces[(f->first + i) % FLAMES_PIECES];
}

static size_t tree_bytes(const struct kept_tree *t)
{
	return sizeof(*t) + t->len * sizeof(*t->frames);
}

static void forget_first(struct agent_flames *f)
{
	struct flames_piece *p = piece_at(f, 0);
	for (size_t i = 0; i < p->trees.len; i++) {
		f->bytes -= tree_bytes(&p->trees.data[i]);
		free(p->trees.data[i].frames);
	}
	vec_free(&p->trees);
	f->first = (f->first + 1) % FLAMES_PIECES;
	f->len--;
}

static void forget_all(struct agent_flames *f)
{
	while (f->len)
		forget_first(f);
	strtab_free(&f->names);
	f->names = (struct strtab){0};
}

void agent_flames_free(struct agent_flames *f)
{
	forget_all(f);
	live_samples_free(f->samples);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* ---- what is kept ---- */

static void add_frame(struct agent_flames *f, struct kept_tree *to, const struct calltree *t,
		      const struct calltree_node *n, uint32_t parent)
{
	const struct calltree_frame *frame = &t->frames.data[n->frame];
	char name[REPORT_FRAME_BYTES];
	report_html_frame_name(name, t, frame);
	to->frames[to->len++] = (struct kept_frame){.parent = parent,
						    .name = strtab_add_z(&f->names, name),
						    .kind = frame->kind,
						    .total = n->total[0]};
}

static struct kept_tree kept_of(struct agent_flames *f, const struct calltree *t, uint32_t pid,
				uint32_t most, int64_t parts)
{
	int64_t least = calltree_least(t, most, parts);
	uint32_t *place = xcalloc(t->nodes.len, sizeof(*place)); /* + 1; 0: left out */
	struct kept_tree ret = {.pid = pid};
	ret.frames = xcalloc(most + 1, sizeof(*ret.frames));
	for (size_t i = 0; i < t->nodes.len && ret.len <= most; i++) {
		const struct calltree_node *n = &t->nodes.data[i];
		if (i && (n->total[0] < least || !place[n->parent]))
			continue;
		add_frame(f, &ret, t, n, i ? place[n->parent] - 1 : 0);
		place[i] = ret.len;
	}
	free(place);
	ret.frames = xrealloc(ret.frames, ret.len, sizeof(*ret.frames));
	return ret;
}

static void keep_tree(struct agent_flames *f, struct flames_piece *to, const struct calltree *t,
		      uint32_t pid)
{
	struct kept_tree kept = kept_of(f, t, pid, FLAMES_FRAMES, PARTS_MOST);
	f->bytes += tree_bytes(&kept);
	*vec_push(&to->trees) = kept;
}

/* Of totals, parents first, what is a frame's own. */
static void tell_store(struct agent_flames *f, struct store *store, const struct calltree *t,
		       uint32_t pid)
{
	struct kept_tree kept = kept_of(f, t, pid, FLAMES_STORED, PARTS_STORED);
	struct store_tree tree = {.pid = pid, .len = kept.len};
	tree.frames = xcalloc(kept.len, sizeof(*tree.frames));
	for (uint32_t i = 1; i < kept.len; i++)
		kept.frames[kept.frames[i].parent].total -= kept.frames[i].total;
	for (uint32_t i = 0; i < kept.len; i++) {
		const struct kept_frame *frame = &kept.frames[i];
		tree.frames[i] = (struct store_frame){
			.parent = frame->parent,
			.kind = frame->kind,
			.name = xstrdup(strtab_get(&f->names, frame->name, NULL)),
			.own_s = 1e-9 * (double)frame->total};
	}
	free(kept.frames);
	store_tree(store, tree);
}

/* A place for another piece. */
static struct flames_piece *begin_piece(struct agent_flames *f, const struct live_samples_piece *of)
{
	pthread_mutex_lock(&f->lock);
	if (strtab_len(&f->names) > FLAMES_NAMES)
		forget_all(f);
	if (f->len == FLAMES_PIECES)
		forget_first(f);
	struct flames_piece *ret = piece_at(f, f->len++);
	*ret = (struct flames_piece){.from_ns = of->from_ns, .until_ns = of->until_ns};
	pthread_mutex_unlock(&f->lock);
	return ret;
}

/* Trees are made without the lock: they take time. */
static void keep_piece(struct agent_flames *f, struct store *store,
		       const struct live_samples_piece *of)
{
	struct flames_piece *to = begin_piece(f, of);
	for (size_t i = 0; i < of->npids; i++) {
		const struct flame_options o = {.kind = FLAME_CPU,
						.pid = of->pids[i],
						.from_ns = of->from_in_ns,
						.demangle = demangle};
		struct calltree tree;
		if (flame_make(&tree, of->rows, &o, NULL))
			continue;
		pthread_mutex_lock(&f->lock);
		bool some = tree.nodes.data[0].total[0] > 0;
		if (some)
			keep_tree(f, to, &tree, of->pids[i]);
		if (some && store)
			tell_store(f, store, &tree, of->pids[i]);
		while (f->bytes > FLAMES_BYTES && f->len > 1)
			forget_first(f);
		pthread_mutex_unlock(&f->lock);
		calltree_free(&tree);
	}
}

void agent_flames_batch(struct agent_flames *f, struct store *store, const struct session_view *v,
			uint64_t now_ns)
{
	if (!live_samples_take(f->samples, v, now_ns))
		return;
	const struct live_samples_piece piece = live_samples_piece(f->samples, now_ns);
	keep_piece(f, store, &piece);
	live_samples_next(f->samples, now_ns);
}

/* ---- a stretch ---- */

static const struct kept_tree *tree_of(const struct flames_piece *p, uint32_t pid)
{
	for (size_t i = 0; i < p->trees.len; i++)
		if (p->trees.data[i].pid == pid)
			return &p->trees.data[i];
	return NULL;
}

/* What is a frame's own, in this tree: its total without those of what it called. */
static void add_tree(struct calltree *to, const struct agent_flames *f, const struct kept_tree *t)
{
	uint32_t *node = xcalloc(t->len, sizeof(*node)); /* the root's is 0 */
	for (uint32_t i = 0; i < t->len; i++) {
		const struct kept_frame *frame = &t->frames[i];
		if (i) {
			const char *name = strtab_get(&f->names, frame->name, NULL);
			uint32_t same = calltree_frame(to, (enum calltree_kind)frame->kind, name,
						       "", 0, "");
			node[i] = calltree_child(to, node[frame->parent], same);
			calltree_add(to, node[frame->parent], -frame->total, 0);
		}
		calltree_add(to, node[i], frame->total, 0);
	}
	free(node);
}

struct stretch {
	uint32_t pid;
	uint64_t from_ns, to_ns;
	uint64_t first_ns, last_ns; /* of the pieces that reach into it; 0: none does */
	struct calltree tree;
	json_t *pieces;
};

static void add_piece(struct stretch *s, const struct agent_flames *f, const struct flames_piece *p)
{
	const struct kept_tree *t = tree_of(p, s->pid);
	json_array_append_new(s->pieces,
			      json_pack("{s:I, s:I, s:I}", "from_ns", (json_int_t)p->from_ns,
					"to_ns", (json_int_t)p->until_ns, "cpu_ns",
					t ? (json_int_t)t->frames[0].total : (json_int_t)0));
	if (p->until_ns <= s->from_ns || p->from_ns >= s->to_ns)
		return;
	s->first_ns = s->first_ns ? s->first_ns : p->from_ns;
	s->last_ns = p->until_ns;
	if (t)
		add_tree(&s->tree, f, t);
}

static json_t *flame_json(struct stretch *s, json_t *left_out)
{
	calltree_sum(&s->tree);
	return s->tree.nodes.data[0].total[0] > 0 ? report_html_flame(&s->tree, "cpu", left_out)
						  : json_null();
}

json_t *agent_flames_json(struct agent_flames *f, uint32_t pid, uint64_t from_ns, uint64_t to_ns)
{
	struct stretch s = {.pid = pid, .from_ns = from_ns, .to_ns = to_ns, .pieces = json_array()};
	json_t *left_out = json_array();
	calltree_init(&s.tree);
	s.tree.title = xasprintf("CPU time of process %u", pid);
	s.tree.unit = "ns";
	s.tree.type = "cpu";
	if (f) {
		pthread_mutex_lock(&f->lock);
		for (size_t i = 0; i < f->len; i++)
			add_piece(&s, f, piece_at(f, i));
		pthread_mutex_unlock(&f->lock);
	}
	json_t *ret = json_pack("{s:b, s:I, s:o, s:I, s:I, s:o, s:o}", "samples", f != NULL, "pid",
				(json_int_t)pid, "pieces", s.pieces, "from_ns",
				(json_int_t)s.first_ns, "to_ns", (json_int_t)s.last_ns, "flame",
				flame_json(&s, left_out), "left_out", left_out);
	calltree_free(&s.tree);
	return ret;
}
