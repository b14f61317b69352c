/* flame_gpu.c - GPU work by the stack that launched it.
 *
 * Of each group of calls - the launches of one kernel in one process, its launches of graphs,
 * its copies, its sets - only some have a stack. What the group did is known from the spans
 * of the GPU, or, without them, from the number of calls; it is given to the stacks by what
 * their calls did. Which span belongs to which call: if there are as many calls as there are
 * correlation numbers, both in order. Else each call counts the same.
 *
 * Of a backward pass the stack is that of the operator's call in the forward pass, unless the own
 * one is asked for (forward_stacks.h).
 *
 * So the sum of a tree is the sum of all spans (or of all launches), to the nanosecond. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <linux/types.h>

#include "analyze/flame_impl.h"
#include "analyze/forward_stacks.h"
#include "analyze/gpu_graphs.h"
#include "analyze/gpu_kept.h"
#include "base/kernel_name.h"
#include "wire/event.h"

enum group_class { OF_LAUNCHES, OF_GRAPHS, OF_COPIES, OF_SETS, NO_CLASS };

struct launch {
	uint64_t start_ns;
	uint64_t stream;
	uint32_t thread;
	uint32_t stack;
	uint32_t probe;
	uint32_t name; /* string: the kernel */
};

struct span {
	uint32_t correlation;
	uint32_t leaf; /* index into the group's leaves */
	uint64_t ns;   /* 0 when not in the time that is asked for */
};

/* What one kernel, or one kind of copy, adds up to in a group. */
struct leaf {
	uint32_t frame;
	uint64_t total;		   /* ns or launches */
	unsigned __int128 sampled; /* of that: of calls with a stack, each times its stack_every */
	unsigned __int128 given;   /* of sampled: what was gone through so far */
	uint64_t gone;		   /* of total: went to stacks */
	bool rest;		   /* none of its own calls has a stack: see rest_parts */
};

struct group {
	uint32_t pid;
	uint8_t class;
	uint32_t name;	  /* of OF_LAUNCHES: number in gpu_flame.names */
	uint64_t counted; /* launches that only the kernel's histograms tell of */
	VEC(struct launch) launches;
	VEC(struct span) spans;
	VEC(struct leaf) leaves;
};

struct gpu_flame {
	struct flame_job *job;
	struct gpu_probes probes;
	struct gpu_graphs *graphs;
	struct forward_stacks *forward; /* NULL: the stacks stay as they are */
	bool has_spans;
	struct strtab names; /* of kernels, readable; a group's is one of these */
	VEC(struct group) groups;
	struct map64 group_of;	   /* pid, class, name */
	struct map64 in_histogram; /* pid << 32 | probe: calls that the kernel has counted */
	uint32_t *name_of;	   /* by string of the recording: number in names + 1 */
	VEC(uint32_t) frame_of;	   /* by name: frame of the tree, 0 = not yet */
};

struct worker {
	VEC(struct launch) launches;
	gpu_kept_t kept; /* what makes graphs */
};

/* ---- reading calls ---- */

static enum group_class class_of(uint8_t role)
{
	switch (role) {
	case GPU_LAUNCH:
		return OF_LAUNCHES;
	case GPU_GRAPH_LAUNCH:
		return OF_GRAPHS;
	case GPU_COPY:
		return OF_COPIES;
	case GPU_SET:
		return OF_SETS;
	default:
		return NO_CLASS;
	}
}

static void take(void *state, void *ctx, const struct m_call *c, uint64_t order)
{
	struct worker *w = state;
	const struct gpu_flame *g = ctx;
	const struct gpu_probe *p = &g->probes.rows[c->probe];
	uint32_t pid = g->job->o->pid;
	struct gpu_kept k;
	if (pid && g->job->t->threads.data[c->thread].pid != pid)
		return;
	if (p->role >= GPU_CAPTURE_BEGIN && gpu_keep(&k, p, c, order))
		*vec_push(&w->kept) = k;
	if (class_of(p->role) == NO_CLASS || c->flags & CALL_ERROR)
		return;
	*vec_push(&w->launches) = (struct launch){
		.start_ns = c->start_ns,
		.stream = gpu_arg(p, c, GPU_ARG_STREAM),
		.thread = c->thread,
		.stack = c->stack,
		.probe = c->probe,
		.name = (uint32_t)gpu_arg(p, c, GPU_ARG_KERNEL),
	};
}

/* ---- groups ---- */

/* A kernel's readable name, demangled once. */
static uint32_t name_of(struct gpu_flame *g, uint32_t string)
{
	if (!g->name_of[string]) {
		const char *text = strtab_get(&g->job->t->strings, string, NULL);
		bool mangled = g->job->o->demangle && text[0] == '_' && text[1] == 'Z';
		char *readable = mangled ? g->job->o->demangle(text, 1) : NULL;
		g->name_of[string] = strtab_add_z(&g->names, readable ? readable : text) + 1;
		free(readable);
	}
	return g->name_of[string] - 1;
}

static struct group *group_of(struct gpu_flame *g, uint32_t pid, enum group_class class,
			      uint32_t name)
{
	uint64_t at;
	uint64_t key = (uint64_t)pid << 34 | (uint64_t) class << 32 | name; /* pids: 22 bits */
	if (!map64_get(&g->group_of, key, &at)) {
		at = g->groups.len;
		map64_set(&g->group_of, key, at);
		struct group *group = vec_push(&g->groups);
		group->pid = pid;
		group->class = class;
		group->name = name;
	}
	return &g->groups.data[at];
}

static bool captured(const struct gpu_flame *g, uint32_t pid, const struct launch *l)
{
	const struct gpu_probe *p = &g->probes.rows[l->probe];
	if (!g->graphs || p->arg[GPU_ARG_STREAM] < 0)
		return false;
	return gpu_graphs_capture(g->graphs, pid, gpu_stream_of(p, l->stream, l->thread),
				  l->start_ns) != GPU_NONE;
}

/* What was captured did not run: its graph's launches did. */
static void group_launches(struct gpu_flame *g, struct worker *workers, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < workers[i].launches.len; k++) {
			const struct launch *l = &workers[i].launches.data[k];
			uint32_t pid = g->job->t->threads.data[l->thread].pid;
			enum group_class class = class_of(g->probes.rows[l->probe].role);
			uint32_t name = class == OF_LAUNCHES ? name_of(g, l->name) : 0;
			if (!captured(g, pid, l))
				*vec_push(&group_of(g, pid, class, name)->launches) = *l;
		}
		vec_free(&workers[i].launches);
	}
}

static void make_graphs(struct gpu_flame *g, struct worker *workers, size_t n)
{
	gpu_kept_t kept = {0};
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < workers[i].kept.len; k++)
			*vec_push(&kept) = workers[i].kept.data[k];
		vec_free(&workers[i].kept);
	}
	gpu_kept_sort(&kept);
	g->graphs = gpu_graphs_new(g->job->t, &g->probes, &kept);
	if (!gpu_graphs_captures(g->graphs)) {
		gpu_graphs_free(g->graphs);
		g->graphs = NULL;
	}
	vec_free(&kept);
}

/* ---- leaves ---- */

static uint32_t leaf_of(struct group *group, uint32_t frame)
{
	for (size_t i = group->leaves.len; i > 0; i--) /* graphs have some hundred at most */
		if (group->leaves.data[i - 1].frame == frame)
			return (uint32_t)i - 1;
	((struct leaf *)vec_push(&group->leaves))->frame = frame;
	return (uint32_t)group->leaves.len - 1;
}

static uint32_t kernel_frame(struct gpu_flame *g, uint32_t name)
{
	char text[KERNEL_NAME_BYTES];
	while (g->frame_of.len <= name)
		(void)vec_push(&g->frame_of);
	if (!g->frame_of.data[name]) {
		kernel_name_short(text, sizeof(text), strtab_get(&g->names, name, NULL));
		g->frame_of.data[name] = calltree_frame(g->job->tree, CALLTREE_GPU,
							text[0] ? text : "[kernel]", "", 0, "");
	}
	return g->frame_of.data[name];
}

static void group_span(struct gpu_flame *g, const struct m_gpu_span *s)
{
	uint32_t name = s->work == WORK_KERNEL ? name_of(g, s->name) : 0;
	enum group_class class = s->graph_node		? OF_GRAPHS
				 : s->work == WORK_COPY ? OF_COPIES
				 : s->work == WORK_SET	? OF_SETS
							: OF_LAUNCHES;
	uint32_t frame =
		s->work == WORK_KERNEL
			? kernel_frame(g, name)
			: calltree_frame(g->job->tree, CALLTREE_GPU,
					 s->work == WORK_SET ? "set" : copy_kind_name(s->copy_kind),
					 "", 0, "");
	struct group *group = group_of(g, s->pid, class, class == OF_LAUNCHES ? name : 0);
	uint64_t ns = flame_in_time(g->job, s->start_ns) ? s->end_ns - s->start_ns : 0;
	uint32_t leaf = leaf_of(group, frame);
	if (__builtin_add_overflow(group->leaves.data[leaf].total, ns,
				   &group->leaves.data[leaf].total) ||
	    group->leaves.data[leaf].total > INT64_MAX)
		group->leaves.data[leaf].total = INT64_MAX; /* times of no GPU */
	*vec_push(&group->spans) = (struct span){s->correlation, leaf, ns};
}

static void group_spans(void *ctx, const struct visited_rows *rows)
{
	struct gpu_flame *g = ctx;
	const struct m_gpu_span *spans = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		if (!g->job->o->pid || spans[i].pid == g->job->o->pid)
			group_span(g, &spans[i]);
}

static int compare_groups(const void *a, const void *b, void *arg)
{
	const struct group *x = a, *y = b;
	const struct gpu_flame *g = arg;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->class != y->class)
		return x->class < y->class ? -1 : 1;
	return strcmp(strtab_get(&g->names, x->name, NULL), strtab_get(&g->names, y->name, NULL));
}

/* In an order that does not depend on which worker was first. group_of is void after it. */
static void sort_groups(struct gpu_flame *g)
{
	map64_free(&g->group_of);
	if (g->groups.len)
		qsort_r(g->groups.data, g->groups.len, sizeof(*g->groups.data), compare_groups, g);
}

/* In modes tail and stats not all launches are in the recording, but all are counted; without
 * times, so not where a span of time is asked for. */
static void count_histograms(struct gpu_flame *g)
{
	const struct flame_options *o = g->job->o;
	for (size_t i = 0; i < g->job->t->hists.len; i++) {
		const struct m_hist *h = &g->job->t->hists.data[i];
		const struct gpu_probe *p = &g->probes.rows[h->probe];
		bool by_kernel =
			p->arg[GPU_ARG_KERNEL] >= 0 &&
			g->job->t->probes.data[h->probe].name_arg == p->arg[GPU_ARG_KERNEL];
		if (p->role != GPU_LAUNCH || !by_kernel || (o->pid && h->pid != o->pid) ||
		    o->from_ns || o->to_ns)
			continue;
		map64_set(&g->in_histogram, (uint64_t)h->pid << 32 | h->probe, 1);
		group_of(g, h->pid, OF_LAUNCHES, name_of(g, (uint32_t)h->name))->counted +=
			h->count;
	}
}

/* Without spans each launch is one, and nothing is known of copies. */
static void count_launches(struct gpu_flame *g)
{
	for (size_t i = 0; i < g->groups.len; i++) {
		struct group *group = &g->groups.data[i];
		if (!(group->launches.len || group->counted) || group->class > OF_GRAPHS)
			continue;
		uint32_t frame =
			group->class == OF_GRAPHS
				? calltree_frame(g->job->tree, CALLTREE_GPU, "graph", "", 0, "")
				: kernel_frame(g, group->name);
		uint32_t number = leaf_of(group, frame);
		struct leaf *leaf = &group->leaves.data[number];
		leaf->total = group->counted;
		for (size_t k = 0; k < group->launches.len; k++) {
			const struct launch *l = &group->launches.data[k];
			uint64_t unused, key = (uint64_t)group->pid << 32 | l->probe;
			leaf->total += flame_in_time(g->job, l->start_ns) &&
				       !map64_get(&g->in_histogram, key, &unused);
		}
	}
}

/* ---- from totals to stacks ---- */

static int compare_launches(const void *a, const void *b)
{
	const struct launch *x = a, *y = b;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static int compare_spans(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	if (x->correlation != y->correlation)
		return x->correlation < y->correlation ? -1 : 1;
	if (x->leaf != y->leaf)
		return x->leaf < y->leaf ? -1 : 1;
	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static size_t correlations(const struct group *group)
{
	size_t n = 0;
	for (size_t i = 0; i < group->spans.len; i++)
		n += !i || group->spans.data[i].correlation != group->spans.data[i - 1].correlation;
	return n;
}

/* One call stands for so many. */
static uint64_t stands_for(const struct gpu_flame *g, const struct launch *l)
{
	uint32_t every = g->job->t->probes.data[l->probe].stack_every;
	return every ? every : 1;
}

static uint32_t operator_frame(struct gpu_flame *g, const char *prefix, uint32_t string)
{
	const char *full = strtab_get(&g->job->t->strings, string, NULL);
	const char *last = *prefix ? strrchr(full, ':') : NULL; /* of "torch::...::MmBackward0" */
	char *name = xasprintf("%s%s", prefix, last ? last + 1 : full);
	uint32_t frame = calltree_frame(g->job->tree, CALLTREE_OPERATOR, name, "", 0, "");
	free(name);
	return frame;
}

/* Puts the kernel of a backward pass under the forward pass: below its operator the node, below
 * that the kernel. */
static void put_under_forward(struct gpu_flame *g, const struct launch *l, struct flame_row *row)
{
	const struct forward_stack *f =
		g->forward ? forward_stack_of(g->forward, l->thread, l->start_ns) : NULL;
	if (!f)
		return;
	uint32_t kernel = row->leaf[0];
	size_t n = 0;
	row->stack = f->stack;
	if (f->operator_name)
		row->leaf[n++] = operator_frame(g, "", f->operator_name);
	row->leaf[n++] = operator_frame(g, FLAME_BACKWARD_PREFIX, f->node);
	row->leaf[n] = kernel;
}

/* A part of what a leaf did was the call's. All parts of a leaf together are its total: each
 * takes what the parts so far make of it, less what was given. */
static void give(struct gpu_flame *g, struct group *group, struct leaf *leaf,
		 const struct launch *l, unsigned __int128 part)
{
	leaf->given += part;
	/* Up to the last part, of which the quotient is 1, it only rises. */
	long double share = (long double)leaf->given / leaf->sampled;
	uint64_t so_far = (uint64_t)((long double)leaf->total * share + 0.5L);
	struct flame_row row = {
		.pid = group->pid,
		.thread = l->thread,
		.stack = l->stack,
		.leaf = {leaf->frame},
		.weight = (int64_t)(so_far - leaf->gone),
	};
	leaf->gone = so_far;
	put_under_forward(g, l, &row);
	flame_add(g->job, row);
}

/* What is done with the parts: first their sums are made, then they are given. */
typedef void part_fn(struct gpu_flame *g, struct group *group, struct leaf *leaf,
		     const struct launch *l, unsigned __int128 part);

static void add_sampled(struct gpu_flame *g, struct group *group, struct leaf *leaf,
			const struct launch *l, unsigned __int128 part)
{
	(void)g;
	(void)group;
	(void)l;
	leaf->sampled += part;
}

static void matched_parts(struct gpu_flame *g, struct group *group, part_fn *part)
{
	size_t at = 0; /* the call */
	for (size_t i = 0; i < group->spans.len; i++) {
		const struct span *s = &group->spans.data[i];
		at += i && s->correlation != s[-1].correlation;
		const struct launch *l = &group->launches.data[at];
		if (l->stack && s->ns)
			part(g, group, &group->leaves.data[s->leaf], l,
			     (unsigned __int128)s->ns * stands_for(g, l));
	}
}

/* Every call the same; those in time, where there are any. */
static void equal_parts(struct gpu_flame *g, struct group *group, part_fn *part)
{
	bool any = false;
	for (size_t i = 0; i < group->launches.len; i++)
		any |= group->launches.data[i].stack &&
		       flame_in_time(g->job, group->launches.data[i].start_ns);
	for (size_t i = 0; i < group->launches.len; i++) {
		const struct launch *l = &group->launches.data[i];
		if (!l->stack || (any && !flame_in_time(g->job, l->start_ns)))
			continue;
		for (size_t k = 0; k < group->leaves.len; k++)
			part(g, group, &group->leaves.data[k], l, stands_for(g, l));
	}
}

/* What was done by calls of which none has a stack, in a short time, say: the group's others
 * answer for it, whenever they were. */
static void rest_parts(struct gpu_flame *g, struct group *group, part_fn *part)
{
	for (size_t k = 0; k < group->leaves.len; k++) {
		struct leaf *leaf = &group->leaves.data[k];
		for (size_t i = 0; leaf->rest && i < group->launches.len; i++) {
			const struct launch *l = &group->launches.data[i];
			if (l->stack)
				part(g, group, leaf, l, stands_for(g, l));
		}
	}
}

/* What no call with a stack can answer for. */
static void add_without_stack(struct gpu_flame *g, const struct group *group,
			      const struct leaf *leaf)
{
	struct flame_row row = {
		.pid = group->pid,
		.thread = FLAME_NO_THREAD,
		.leaf = {leaf->frame},
		.weight = (int64_t)leaf->total,
	};
	if (group->class == OF_COPIES || group->class == OF_SETS) {
		row.stack = FLAME_NO_STACK;
		row.leaf[1] = row.leaf[0];
		row.leaf[0] =
			flame_other_frame(g->job, group->class == OF_SETS ? "[set]" : "[copy]");
	}
	flame_add(g->job, row);
}

static void add_group(struct gpu_flame *g, struct group *group)
{
	if (group->launches.len)
		qsort(group->launches.data, group->launches.len, sizeof(*group->launches.data),
		      compare_launches);
	if (group->spans.len)
		qsort(group->spans.data, group->spans.len, sizeof(*group->spans.data),
		      compare_spans);
	bool matched = g->has_spans && correlations(group) == group->launches.len;
	void (*parts)(struct gpu_flame *, struct group *, part_fn *) =
		matched ? matched_parts : equal_parts;
	parts(g, group, add_sampled);
	for (size_t i = 0; i < group->leaves.len; i++) {
		struct leaf *leaf = &group->leaves.data[i];
		leaf->rest = leaf->total && !leaf->sampled;
	}
	rest_parts(g, group, add_sampled);
	parts(g, group, give);
	rest_parts(g, group, give);
	for (size_t i = 0; i < group->leaves.len; i++)
		if (!group->leaves.data[i].sampled)
			add_without_stack(g, group, &group->leaves.data[i]);
}

/* ---- all of it ---- */

static void gpu_flame_free(struct gpu_flame *g)
{
	for (size_t i = 0; i < g->groups.len; i++) {
		vec_free(&g->groups.data[i].launches);
		vec_free(&g->groups.data[i].spans);
		vec_free(&g->groups.data[i].leaves);
	}
	vec_free(&g->groups);
	map64_free(&g->group_of);
	map64_free(&g->in_histogram);
	strtab_free(&g->names);
	free(g->name_of);
	vec_free(&g->frame_of);
	gpu_graphs_free(g->graphs);
	forward_stacks_free(g->forward);
	gpu_probes_free(&g->probes);
}

int flame_gpu(struct flame_job *job, struct err *e)
{
	struct gpu_flame g = {.job = job, .has_spans = job->t->gpu_spans > 0};
	size_t n, work = 0;
	gpu_probes_make(&g.probes, job->t);
	g.name_of = xcalloc(strtab_len(&job->t->strings) + 1, sizeof(*g.name_of));
	struct worker *workers = flame_calls(job, sizeof(*workers), take, &g, &n);
	make_graphs(&g, workers, n);
	group_launches(&g, workers, n);
	free(workers);
	if (job->o->backward == FLAME_BACKWARD_FORWARD)
		g.forward = forward_stacks_new(
			job->source, job->o->pid,
			&(struct visit_options){.threads = job->o->visit.threads});
	if (g.has_spans)
		rows_read(job->source, ROW_GPU_SPAN, group_spans, &g);
	else
		count_histograms(&g);
	sort_groups(&g);
	if (!g.has_spans)
		count_launches(&g);
	for (size_t i = 0; i < g.groups.len; i++) {
		work += g.groups.data[i].leaves.len;
		add_group(&g, &g.groups.data[i]);
	}
	job->tree->unit = g.has_spans ? "ns" : "count";
	gpu_flame_free(&g);
	if (!work)
		return err_set(
			e, ENODATA,
			"the recording has no launches of kernels: record with the layer cuda");
	return 0;
}
