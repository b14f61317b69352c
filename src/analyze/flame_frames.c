/* flame_frames.c - stacks of a recording as nodes of a tree: names of frames, and which of
 * them are shown. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "analyze/flame_impl.h"
#include "analyze/process_index.h"
#include "analyze/programs.h"

/* ---- names ---- */

static const char *text(const struct rec_tables *t, uint32_t string)
{
	return strtab_get(&t->strings, string, NULL);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

static const char operators_prefix[] = "at::_ops::";

/* "addmm_out" of "at::_ops::addmm_out::call(...)"; NULL of other names. */
static const char *operator_class(const char *name, size_t *ret_len)
{
	size_t prefix = sizeof(operators_prefix) - 1;
	if (strncmp(name, operators_prefix, prefix) != 0)
		return NULL;
	const char *end = strstr(name + prefix, "::call");
	if (!end || (end[6] && end[6] != '('))
		return NULL;
	*ret_len = (size_t)(end - name) - prefix;
	return memchr(name + prefix, ':', *ret_len) ? NULL : name + prefix;
}

/* Where the overload's name begins, by how they are mostly written: "_Tensor", "_out". */
static size_t without_overload(const char *class, size_t len)
{
	for (size_t i = 1; i + 1 < len; i++)
		if (class[i] == '_' && (isupper((unsigned char)class[i + 1]) ||
					(len - i == 4 && !memcmp(class + i, "_out", 4))))
			return i;
	return len;
}

/* The symbol of at::_ops::X::call is "_ZN2at4_ops", X with its length, "4callE...". */
void flame_operators(struct map64 *ret, const struct rec_tables *t)
{
	static const char prefix[] = "_ZN2at4_ops";
	for (size_t i = 0; i < t->probes.len; i++) {
		const struct m_probe *p = &t->probes.data[i];
		const char *symbol = text(t, p->symbol);
		char *class;
		if (strncmp(symbol, prefix, sizeof(prefix) - 1) != 0)
			continue;
		size_t len = strtoul(symbol + sizeof(prefix) - 1, &class, 10);
		if (len <= strlen(class) && !strncmp(class + len, "4callE", 6))
			map64_set(ret, hash_bytes(class, len), p->name);
	}
}

static char *operator_name(const struct rec_tables *t, const struct map64 *operators,
			   const char *class, size_t len)
{
	uint64_t string;
	if (operators && map64_get(operators, hash_bytes(class, len), &string))
		return xstrdup(text(t, (uint32_t)string));
	return xasprintf("aten::%.*s", (int)without_overload(class, len), class);
}

bool flame_is_operator(const struct rec_tables *t, const struct map64 *operators,
		       const struct m_frame *f, const char *name)
{
	size_t len;
	const char *class = f->kind == FRAME_NATIVE ? operator_class(text(t, f->name), &len) : NULL;
	char *own = class ? operator_name(t, operators, class, len) : NULL;
	bool ret = own && !strcmp(own, name);
	free(own);
	return ret;
}

static char *native_name(const struct rec_tables *t, const struct map64 *operators,
			 const struct m_frame *f, bool lines, enum calltree_kind *ret_kind)
{
	const char *name = text(t, f->name);
	size_t len;
	const char *class = operator_class(name, &len);
	if (class) {
		*ret_kind = CALLTREE_OPERATOR;
		return operator_name(t, operators, class, len);
	}
	if (*name)
		return xstrdup(name);
	const char *library = f->library		? base_name(text(t, f->library))
			      : f->kind == FRAME_KERNEL ? "kernel"
							: "unknown";
	if (lines)
		return xasprintf("[%s+0x%llx]", library, (unsigned long long)f->address);
	return xasprintf("[%s]", library);
}

char *flame_frame_name(const struct rec_tables *t, const struct map64 *operators,
		       const struct m_frame *f, bool lines, enum calltree_kind *ret_kind)
{
	switch (f->kind) {
	case FRAME_PYTHON:
		*ret_kind = CALLTREE_PYTHON;
		if (lines && f->line)
			return xasprintf("%s (%s:%u)", text(t, f->name),
					 base_name(text(t, f->file)), f->line);
		return xasprintf("%s (%s)", text(t, f->name), base_name(text(t, f->file)));
	case FRAME_OWN:
		*ret_kind = CALLTREE_OTHER;
		return xstrdup(FLAME_OWN);
	case FRAME_CUT:
		*ret_kind = CALLTREE_OTHER;
		return xasprintf("[cut: %s]", text(t, f->name));
	default:
		*ret_kind = f->kind == FRAME_KERNEL ? CALLTREE_KERNEL : CALLTREE_NATIVE;
		return native_name(t, operators, f, lines, ret_kind);
	}
}

/* ---- stacks ---- */

/* More than recordings have (STACK_FRAMES of wire/unwind.h); a hostile one is cut. */
#define MAX_PATH 1024

struct painter {
	struct flame_job *job;
	struct map64 operators;
	uint32_t *frame_of;   /* by frame of the recording: number in the tree, 0 = not yet */
	struct map64 node_of; /* root << 32 | stack -> node */
	VEC(uint32_t) path;   /* frames of the recording, from the root */
	uint32_t not_taken;   /* frame of stack 0 */
	uint32_t interpreter; /* frame of all of the interpreter's own */
	uint32_t too_large;   /* stands for the stacks beyond PATHS_FREE; 0 = there are none */
	uint64_t paths;	      /* bytes of the paths so far, each written out */
	uint64_t texts;	      /* bytes of the frames so far, each once */
	struct process_index processes;
	bool own; /* the process at hand is eACGM's: its stacks are not shown */
};

/* What the stacks may be that are told apart, each written out as folded formats do: a part that
 * any recording may have, and one for each byte of its file. Real ones are a tenth of it. */
#define PATHS_FREE     ((uint64_t)32 << 20)
#define PATHS_PER_BYTE 4096
#define NODE_BYTES     32 /* of a frame beside its name */
#define NODES_FREE     (1u << 20)
#define NODES_PER_BYTE 8

/* What the frames' texts may be together. */
#define TEXTS_FREE     ((uint64_t)64 << 20)
#define TEXTS_PER_BYTE 64

static uint32_t cut_frame(struct painter *p)
{
	if (!p->too_large)
		p->too_large = flame_other_frame(
			p->job, "[cut: more stacks than a file of its size can hold]");
	return p->too_large;
}

#define INTERPRETER UINT32_MAX /* in a path: painter.interpreter */

static uint32_t tree_frame(struct painter *p, uint32_t frame)
{
	const struct rec_tables *t = p->job->t;
	const struct m_frame *f = &t->frames.data[frame];
	bool lines = p->job->o->lines;
	enum calltree_kind kind;
	if (frame == INTERPRETER)
		return p->interpreter;
	if (p->frame_of[frame])
		return p->frame_of[frame];
	p->texts += strlen(text(t, f->name)) + strlen(text(t, f->file));
	if (p->texts > TEXTS_FREE + t->file_bytes * TEXTS_PER_BYTE)
		return p->frame_of[frame] = cut_frame(p);
	char *name = flame_frame_name(t, &p->operators, f, lines, &kind);
	p->frame_of[frame] = calltree_frame(p->job->tree, kind, name, text(t, f->file),
					    lines ? f->line : 0, text(t, f->library));
	free(name);
	if (f->library && f->build_id)
		calltree_build_id(p->job->tree, text(t, f->library), text(t, f->build_id));
	return p->frame_of[frame];
}

/* A collection of garbage is no mere running of Python. */
static bool is_interpreter(const struct rec_tables *t, const struct m_frame *f)
{
	return f->kind == FRAME_NATIVE && f->in_python &&
	       strncmp(text(t, f->name), "gc_collect", 10) != 0;
}

static void merge_interpreter(struct painter *p)
{
	const struct rec_tables *t = p->job->t;
	size_t left = 0;
	for (size_t i = 0; i < p->path.len; i++) {
		uint32_t frame = p->path.data[i];
		if (is_interpreter(t, &t->frames.data[frame]))
			frame = INTERPRETER;
		if (frame != INTERPRETER || !left || p->path.data[left - 1] != INTERPRETER)
			p->path.data[left++] = frame;
	}
	p->path.len = left;
}

/* Fills the path; leaves out what stands between the first and the last Python frame and is
 * the interpreter's own. */
static void take_path(struct painter *p, uint32_t stack)
{
	const struct rec_tables *t = p->job->t;
	p->path.len = 0;
	for (; stack && p->path.len < MAX_PATH; stack = t->stacks.data[stack].parent)
		*vec_push(&p->path) = t->stacks.data[stack].frame;
	for (size_t i = 0; i < p->path.len / 2; i++) {
		uint32_t swapped = p->path.data[i];
		p->path.data[i] = p->path.data[p->path.len - 1 - i];
		p->path.data[p->path.len - 1 - i] = swapped;
	}
	if (p->job->o->native)
		return;
	size_t first = p->path.len, last = 0, left = 0;
	for (size_t i = 0; i < p->path.len; i++)
		if (t->frames.data[p->path.data[i]].kind == FRAME_PYTHON) {
			first = first < i ? first : i;
			last = i;
		}
	for (size_t i = 0; i < p->path.len; i++) {
		const struct m_frame *f = &t->frames.data[p->path.data[i]];
		bool own = f->kind == FRAME_NATIVE && f->in_python && i > first && i < last;
		if (!own)
			p->path.data[left++] = p->path.data[i];
	}
	p->path.len = left;
}

static size_t frame_text(const struct calltree *tree, uint32_t of)
{
	size_t len;
	(void)strtab_get(&tree->strings, tree->frames.data[of].name, &len);
	return len;
}

static uint32_t stack_node(struct painter *p, uint32_t root, uint32_t stack)
{
	struct calltree *tree = p->job->tree;
	uint64_t key = (uint64_t)root << 32 | stack, known;
	if (stack == FLAME_NO_STACK || p->own)
		return root;
	if (!stack)
		return calltree_child(tree, root, p->not_taken);
	if (map64_get(&p->node_of, key, &known))
		return (uint32_t)known;
	uint32_t node = root;
	uint64_t file = p->job->t->file_bytes;
	take_path(p, stack);
	if (p->interpreter)
		merge_interpreter(p);
	for (size_t i = 0; i < p->path.len; i++)
		p->paths += NODE_BYTES + frame_text(tree, tree_frame(p, p->path.data[i]));
	if (p->paths > PATHS_FREE + file * PATHS_PER_BYTE ||
	    tree->nodes.len > NODES_FREE + file * NODES_PER_BYTE)
		return calltree_child(tree, root, cut_frame(p));
	for (size_t i = 0; i < p->path.len; i++)
		node = calltree_child(tree, node, tree_frame(p, p->path.data[i]));
	map64_set(&p->node_of, key, node);
	return node;
}

/* "python3"; told apart "python3 (4242)"; of a differential, where numbers differ from run to run,
 * "python3 rank 0". */
static uint32_t process_frame(const struct painter *p, uint32_t pid)
{
	struct flame_job *job = p->job;
	const struct rec_tables *t = job->t;
	const struct m_process *found = process_index_row(&p->processes, pid);
	const char *comm = found ? process_program(t, found) : "process";
	if (!job->tree->differential && job->o->processes)
		return flame_other_frame(job, "%s (%u)", comm, pid);
	if (job->tree->differential && found && found->rank >= 0)
		return flame_other_frame(job, "%s rank %d", comm, found->rank);
	return flame_other_frame(job, "%s", comm);
}

static uint32_t root_of(struct painter *p, const struct flame_row *row)
{
	struct flame_job *job = p->job;
	const struct m_process *process = process_index_row(&p->processes, row->pid);
	uint32_t node = 0;
	p->own = process && process_is_own(job->t, process);
	if (p->own)
		return calltree_child(job->tree, node, flame_other_frame(job, "%s", FLAME_OWN));
	if (job->several_processes)
		node = calltree_child(job->tree, node, process_frame(p, row->pid));
	if (job->o->threads && row->thread != FLAME_NO_THREAD)
		node = calltree_child(
			job->tree, node,
			flame_other_frame(job, "%s",
					  text(job->t, job->t->threads.data[row->thread].comm)));
	return node;
}

static int compare_rows(const void *a, const void *b)
{
	const struct flame_row *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	for (int k = 0; k < FLAME_LEAVES; k++)
		if (x->leaf[k] != y->leaf[k])
			return x->leaf[k] < y->leaf[k] ? -1 : 1;
	return 0;
}

void flame_frames_add(struct flame_job *job)
{
	struct painter p = {.job = job};
	uint32_t root = 0;
	p.frame_of = xcalloc(job->t->frames.len + 1, sizeof(*p.frame_of));
	p.not_taken = flame_other_frame(job, "[stack not taken]");
	if (job->o->interpreter)
		p.interpreter =
			calltree_frame(job->tree, CALLTREE_NATIVE, job->o->interpreter, "", 0, "");
	process_index_make(&p.processes, job->t);
	flame_operators(&p.operators, job->t);
	if (job->moments.len)
		job->node_of = xcalloc(job->rows.len + 1, sizeof(*job->node_of));
	/* In an order that does not depend on which worker was first. */
	if (job->rows.len)
		qsort(job->rows.data, job->rows.len, sizeof(*job->rows.data), compare_rows);
	for (size_t i = 0; i < job->rows.len; i++) {
		const struct flame_row *row = &job->rows.data[i];
		if (!i || row[-1].pid != row->pid || row[-1].thread != row->thread)
			root = root_of(&p, row);
		uint32_t node = stack_node(&p, root, row->stack);
		for (int k = 0; k < FLAME_LEAVES && row->leaf[k]; k++)
			node = calltree_child(job->tree, node, row->leaf[k]);
		if (job->node_of)
			job->node_of[row->number] = node;
		calltree_add(job->tree, node, row->weight, job->which);
	}
	free(p.frame_of);
	vec_free(&p.path);
	map64_free(&p.node_of);
	map64_free(&p.operators);
	process_index_free(&p.processes);
}
