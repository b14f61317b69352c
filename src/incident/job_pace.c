/* job_pace.c - the paces of processes, and what their launches have. */
#include "incident/job_pace.h"

#include <math.h>
#include <stdlib.h>

#include "incident/job_family.h"

static void pace_free(struct job_pace *p)
{
	pace_judge_free(&p->judge);
	free(p->row);
}

void job_paces_free(struct job_paces *all)
{
	for (size_t i = 0; i < all->list.len; i++)
		pace_free(&all->list.data[i]);
	vec_free(&all->list);
	map64_free(&all->at);
}

struct job_pace *job_pace_of(const struct job_paces *all, uint32_t pid)
{
	uint64_t at;
	return map64_get(&all->at, pid, &at) ? &all->list.data[at] : NULL;
}

static struct job_pace *place(struct job_paces *all, uint32_t pid)
{
	struct job_pace *p = job_pace_of(all, pid);
	if (p)
		return p;
	map64_set(&all->at, pid, all->list.len);
	p = vec_push(&all->list);
	p->pid = pid;
	return p;
}

static void correct(const struct job_pace *of, struct feature_row *row)
{
	size_t loss = feature_place(row->layer, "pace_loss");
	if (!of || !(row->pace > 0))
		return;
	row->pace = exp(-pace_judge_loss(&of->judge, row->pace, row->cpus));
	row->cpus = 0; /* whatever it was, it is taken account of */
	if (loss < FEATURES_MOST)
		row->x[loss] -= of->judge.launch.c;
}

/* Rows of one window have the same: it is seen once. */
static void see(struct job_paces *all, struct job_pace *p, const struct feature_row *row, bool slow)
{
	bool is_first = p->end_ns != row->end_ns;
	if (is_first && !row->other_work && !row->resized && !row->parents_pace && !slow)
		pace_judge_see(&p->judge, row->pace, row->cpus, all->learned);
	if (is_first)
		p->before = p->end_ns == row->start_ns ? p->now : 0;
	p->any |= row->pace > 0;
	if (is_first && row->pace > 0)
		p->own += row->parents_pace ? -1 : 1;
	p->end_ns = row->end_ns;
}

void job_pace_row(struct job_paces *all, struct feature_row *row, uint32_t pid, bool slow)
{
	if (!layer_has_calls(row->layer)) {
		correct(job_pace_of(all, pid), row);
		return;
	}
	struct job_pace *own = place(all, row->pid);
	see(all, own, row, slow);
	correct(job_pace_of(all, pid), row);
	own->now = row->pace;
}

double job_pace_at(const struct job_paces *all, uint32_t pid, const struct feature_row *row,
		   double *ret_before)
{
	const struct job_pace *p = job_pace_of(all, pid);
	*ret_before = 0;
	if (!p || p->end_ns + all->window_ns < row->start_ns)
		return row->pace;
	*ret_before = p->end_ns >= row->end_ns || row->layer == DETECT_STEP ? p->before : p->now;
	return row->layer == DETECT_STEP ? p->now : row->pace;
}

bool job_goes_on(const struct job_paces *all, uint32_t pid, const struct feature_row *row)
{
	const struct job_pace *p = job_pace_of(all, pid);
	return p && p->now > 0 && p->end_ns + all->window_ns >= row->end_ns;
}

bool job_is_helper(const struct job_paces *all, uint32_t pid)
{
	const struct job_pace *p = job_pace_of(all, pid);
	return !p || p->own <= 0;
}

bool job_has_pace(const struct job_paces *all, uint32_t pid)
{
	const struct job_pace *p = job_pace_of(all, pid);
	return p && p->any;
}

/* The last takes its place. */
void job_pace_forget(struct job_paces *all, uint32_t pid)
{
	uint64_t at;
	if (!map64_get(&all->at, pid, &at))
		return;
	map64_del(&all->at, pid);
	pace_free(&all->list.data[at]);
	all->list.data[at] = all->list.data[--all->list.len];
	if (at < all->list.len)
		map64_set(&all->at, all->list.data[at].pid, at);
}
