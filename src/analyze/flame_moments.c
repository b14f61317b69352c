/* flame_moments.c - the samples of a flame graph in order of time, a lane for each thread. */
#include <stdlib.h>

#include "analyze/flame_impl.h"

struct lane {
	uint32_t thread;
	uint64_t total;
};

static int by_total(const void *a, const void *b)
{
	const struct lane *x = a, *y = b;
	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

static int by_lane(const void *a, const void *b)
{
	const struct calltree_moment *x = a, *y = b;
	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	if (x->end_ns != y->end_ns)
		return x->end_ns < y->end_ns ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

static uint32_t lane_name(const struct flame_job *job, uint32_t thread)
{
	const struct m_thread *row = &job->t->threads.data[thread];
	char *name = xasprintf("%s (pid %u, tid %u)", strtab_get(&job->t->strings, row->comm, NULL),
			       row->pid, row->tid);
	uint32_t string = strtab_add_z(&job->tree->strings, name);
	free(name);
	return string;
}

/* By thread: the number of its lane. */
static uint32_t *make_lanes(struct flame_job *job)
{
	size_t threads = job->t->threads.len;
	struct lane *lanes = xcalloc(threads + 1, sizeof(*lanes));
	uint32_t *lane_of = xcalloc(threads + 1, sizeof(*lane_of));
	for (size_t i = 0; i < threads; i++)
		lanes[i].thread = (uint32_t)i;
	for (size_t i = 0; i < job->moments.len; i++)
		lanes[job->moments.data[i].thread].total += (uint64_t)job->moments.data[i].weight;
	qsort(lanes, threads, sizeof(*lanes), by_total);
	for (size_t i = 0; i < threads && lanes[i].total; i++) {
		lane_of[lanes[i].thread] = (uint32_t)i;
		*vec_push(&job->tree->lanes) = lane_name(job, lanes[i].thread);
	}
	free(lanes);
	return lane_of;
}

void flame_moments_add(struct flame_job *job)
{
	struct calltree *tree = job->tree;
	uint64_t start_ns = job->from_ns ? job->from_ns : flame_start_ns(job->t);
	if (!job->moments.len)
		return;
	uint32_t *lane_of = make_lanes(job);
	for (size_t i = 0; i < job->moments.len; i++) {
		const struct flame_sample *m = &job->moments.data[i];
		*vec_push(&tree->moments) = (struct calltree_moment){
			.end_ns = m->time_ns > start_ns ? m->time_ns - start_ns : 0,
			.weight = m->weight,
			.node = job->node_of[m->row],
			.lane = lane_of[m->thread]};
	}
	qsort(tree->moments.data, tree->moments.len, sizeof(*tree->moments.data), by_lane);
	free(lane_of);
}
