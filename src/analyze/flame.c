/* flame.c - from a recording to a tree: which rows count, titles, differences. */
#include "analyze/flame.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/flame_impl.h"
#include "analyze/process_index.h"
#include "analyze/programs.h"

enum flame_kind flame_kind_of(const char *name)
{
	static const char *const names[] = FLAME_KIND_NAMES;
	for (int i = 0; i < FLAME_KINDS; i++)
		if (!strcmp(names[i], name))
			return (enum flame_kind)i;
	return FLAME_KINDS;
}

/* ---- rows ---- */

static bool wanted(const struct flame_job *job, const struct flame_row *row)
{
	const struct flame_options *o = job->o;
	if (o->pid && row->pid != o->pid)
		return false;
	return !o->tid ||
	       (row->thread != FLAME_NO_THREAD && job->t->threads.data[row->thread].tid == o->tid);
}

static bool same_row(const struct flame_row *a, const struct flame_row *b)
{
	return a->pid == b->pid && a->thread == b->thread && a->stack == b->stack &&
	       !memcmp(a->leaf, b->leaf, sizeof(a->leaf));
}

uint32_t flame_add(struct flame_job *job, struct flame_row row)
{
	uint64_t at;
	if (row.weight <= 0 || !wanted(job, &row)) /* what is no int64_t no eACGM writes */
		return FLAME_NO_ROW;
	if (!job->o->threads)
		row.thread = FLAME_NO_THREAD;
	uint64_t key = hash_u64((uint64_t)row.pid << 32 | row.thread);
	key = hash_u64(key ^ ((uint64_t)row.leaf[0] << 32 | row.leaf[1]));
	key = hash_u64(key ^ ((uint64_t)row.leaf[2] << 32 | row.stack));
	for (; map64_get(&job->row_of, key, &at); key++) { /* another row may have the hash */
		if (!same_row(&job->rows.data[at], &row))
			continue;
		if (__builtin_add_overflow(job->rows.data[at].weight, row.weight,
					   &job->rows.data[at].weight))
			job->rows.data[at].weight = INT64_MAX;
		return (uint32_t)at;
	}
	row.number = (uint32_t)job->rows.len;
	map64_set(&job->row_of, key, row.number);
	*vec_push(&job->rows) = row;
	return row.number;
}

uint32_t flame_other_frame(struct flame_job *job, const char *fmt, ...)
{
	char name[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	return calltree_frame(job->tree, CALLTREE_OTHER, name, "", 0, "");
}

/* ---- times ---- */

uint64_t flame_meta_number(const struct rec_tables *t, const char *key)
{
	const char *text = rec_meta(t, key);
	return text ? strtoull(text, NULL, 10) : 0;
}

uint64_t flame_start_ns(const struct rec_tables *t)
{
	uint64_t start = flame_meta_number(t, "start_monotonic_ns");
	for (size_t i = 0; i < t->processes.len; i++)
		if (!start && t->processes.data[i].start_ns)
			start = t->processes.data[i].start_ns;
	return start;
}

static void set_times(struct flame_job *job)
{
	uint64_t start = flame_start_ns(job->t), end = rec_end_ns(job->t);
	const struct flame_options *o = job->o;
	job->from_ns = o->from_ns ? start + o->from_ns : 0;
	job->to_ns = o->to_ns ? start + o->to_ns : UINT64_MAX;
	job->at_ns = start + o->at_ns;
	if (job->which)
		return;
	job->tree->start_realtime_ns = flame_meta_number(job->t, "start_realtime_ns") + o->from_ns;
	job->tree->duration_ns = end > start ? end - start : 0;
	if (o->to_ns && o->to_ns < job->tree->duration_ns)
		job->tree->duration_ns = o->to_ns;
	job->tree->duration_ns -=
		o->from_ns < job->tree->duration_ns ? o->from_ns : job->tree->duration_ns;
}

/* ---- titles ---- */

static const char *what(const struct calltree *tree, const struct flame_options *o)
{
	switch (o->kind) {
	case FLAME_CPU:
		return "CPU time";
	case FLAME_OFFCPU:
		return "Time off the CPU";
	case FLAME_GPU:
		return !strcmp(tree->unit, "ns") ? "GPU time" : "GPU work by launches";
	case FLAME_GPU_ALLOC:
		return "GPU memory allocated";
	case FLAME_GPU_INUSE:
		return o->at == FLAME_AT_PEAK  ? "GPU memory in use at its peak"
		       : o->at == FLAME_AT_END ? "GPU memory in use at the end"
					       : "GPU memory in use";
	default:
		return "Pinned memory allocated";
	}
}

static const char *file_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static char *title_of(const struct calltree *tree, const struct flame_options *o,
		      const struct rec_tables *t)
{
	char pid[32] = "", moment[48] = "";
	const char *command = rec_meta(t, "command");
	if (o->pid)
		snprintf(pid, sizeof(pid), "process %u of ", o->pid);
	if (o->kind == FLAME_GPU_INUSE && o->at == FLAME_AT_TIME)
		snprintf(moment, sizeof(moment), " at %.3f s", (double)o->at_ns / 1e9);
	return xasprintf("%s%s of %s%s", what(tree, o), moment, pid,
			 command && *command ? file_of(command) : "all processes");
}

/* ---- all of it ---- */

static void job_begin(struct flame_job *job, struct calltree *tree, const struct row_source *s,
		      const struct flame_options *o, int which)
{
	static const char *const types[] = FLAME_KIND_NAMES;
	*job = (struct flame_job){
		.source = s, .t = s->tables, .o = o, .tree = tree, .which = which};
	tree->type = types[o->kind];
	set_times(job);
}

static int job_rows(struct flame_job *job, struct err *e)
{
	if (job->o->kind == FLAME_CPU || job->o->kind == FLAME_OFFCPU)
		return flame_samples(job, e);
	return job->o->kind == FLAME_GPU ? flame_gpu(job, e) : flame_memory(job, e);
}

/* Whether there is more than one root: processes of one program are put together. */
static bool several_processes(const struct flame_job *job)
{
	bool apart = job->o->processes || job->tree->differential, several = false;
	struct process_index processes;
	const char *first = NULL;
	process_index_make(&processes, job->t);
	for (size_t i = 0; i < job->rows.len && !several; i++) {
		uint32_t pid = job->rows.data[i].pid;
		const struct m_process *p = process_index_row(&processes, pid);
		const char *name = p ? process_program(job->t, p) : "";
		if (!first)
			first = name;
		several = apart ? pid != job->rows.data[0].pid : strcmp(name, first) != 0;
	}
	process_index_free(&processes);
	return several;
}

static void job_free(struct flame_job *job)
{
	vec_free(&job->rows);
	vec_free(&job->moments);
	free(job->node_of);
	map64_free(&job->row_of);
}

int flame_make(struct calltree *ret, const struct row_source *s, const struct flame_options *o,
	       struct err *e)
{
	struct calltree tree;
	struct flame_job job;
	calltree_init(&tree);
	job_begin(&job, &tree, s, o, 0);
	int rc = job_rows(&job, e);
	if (!rc && !job.rows.len)
		rc = err_set(e, ENODATA, "nothing of that kind is in what was asked for");
	if (!rc) {
		job.several_processes = several_processes(&job);
		flame_frames_add(&job);
		flame_moments_add(&job);
		calltree_sum(&tree);
		tree.title = title_of(&tree, o, job.t);
		*ret = tree;
	} else {
		calltree_free(&tree);
	}
	job_free(&job);
	return rc;
}

/* Scales the base so that the totals are equal, to the last unit: what rounding takes from
 * one node goes to the next. */
static void normalise_base(struct calltree *tree)
{
	long double sums[2] = {0, 0}, seen = 0;
	for (size_t i = 0; i < tree->nodes.len; i++)
		for (int which = 0; which < 2; which++)
			sums[which] += (long double)tree->nodes.data[i].self[which];
	if (sums[0] > INT64_MAX || sums[1] <= 0)
		return;
	for (size_t i = 0; i < tree->nodes.len; i++) {
		int64_t *self = &tree->nodes.data[i].self[1];
		int64_t before = (int64_t)(sums[0] * (seen / sums[1]));
		seen += (long double)*self;
		*self = (int64_t)(sums[0] * (seen / sums[1])) - before;
	}
}

int flame_make_diff(struct calltree *ret, const struct row_source *s, const char *name,
		    const struct row_source *base, const char *base_name, bool normalise,
		    const struct flame_options *o, struct err *e)
{
	struct calltree tree;
	struct flame_job jobs[2];
	const char *units[2] = {"", ""};
	int rc = 0;
	bool failed = false;
	calltree_init(&tree);
	tree.differential = true;
	for (int i = 0; i < 2; i++) {
		job_begin(&jobs[i], &tree, i ? base : s, o, i);
		rc = rc ? rc : job_rows(&jobs[i], e);
		units[i] = tree.unit;
		if (!rc && !jobs[i].rows.len)
			rc = err_set(e, ENODATA, "nothing of that kind is in what was asked for");
		if (rc && i && !failed)
			err_wrap(e, rc, "%s", base_name);
		failed = rc != 0;
	}
	if (!rc && strcmp(units[0], units[1]) != 0)
		rc = err_set(e, EINVAL, "'%s' is in %s and '%s' in %s: they cannot be compared",
			     name, units[0], base_name, units[1]);
	for (int i = 0; !rc && i < 2; i++) {
		jobs[i].several_processes =
			several_processes(&jobs[0]) || several_processes(&jobs[1]);
		flame_frames_add(&jobs[i]);
	}
	if (!rc) {
		if (normalise)
			normalise_base(&tree);
		calltree_sum(&tree);
		tree.title = xasprintf("%s: %s against %s%s", what(&tree, o), name, base_name,
				       normalise ? ", scaled to the same total" : "");
		*ret = tree;
	} else {
		calltree_free(&tree);
	}
	job_free(&jobs[0]);
	job_free(&jobs[1]);
	return rc;
}
