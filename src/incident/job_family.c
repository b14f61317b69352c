/* job_family.c - what the job does that a row is of: the process, that which it works for, or for
 * a GPU that whose work it does. Loaders of data, and whatever else works for another process, have
 * its pace (windows.h): while its usual work goes on as fast as usual, nobody waits for the time
 * that they take; while it does other work, so do they. And while it is known to be abnormally
 * slow, or another that the same process has started (ranks), less tells that a row is a part of
 * that. */
#include "incident/job_family.h"

#define LAG_WINDOWS 2 /* batches of other work that are on the way */

void job_free(struct job_family *j)
{
	map64_free(&j->work_since);
	map64_free(&j->left_work);
	map64_free(&j->told_slow);
	map64_free(&j->told_children);
	map64_free(&j->pace_of);
	vec_free(&j->paces);
}

/* The process that a row is of. */
static uint32_t process_of(const struct feature_row *row)
{
	return row->pid ? row->pid : row->gpu_pid;
}

bool layer_has_calls(enum detect_layer layer)
{
	return detect_layer_traits(layer) & LAYER_BY_CALLS;
}

static bool is_of_work(enum detect_layer layer)
{
	return detect_layer_traits(layer) & LAYER_IS_WORK;
}

static struct job_pace *pace_place(const struct job_family *j, uint32_t pid)
{
	uint64_t at;
	return map64_get(&j->pace_of, pid, &at) ? &j->paces.data[at] : NULL;
}

/* Rows of one window have the same. */
static void note_pace(struct job_family *j, const struct feature_row *row)
{
	struct job_pace *p = pace_place(j, row->pid);
	if (!p) {
		map64_set(&j->pace_of, row->pid, j->paces.len);
		p = vec_push(&j->paces);
		p->pid = row->pid;
	}
	p->any |= row->pace > 0;
	if (p->end_ns == row->end_ns) {
		p->now = row->pace;
		return;
	}
	p->before = p->end_ns == row->start_ns ? p->now : 0;
	p->now = row->pace;
	p->end_ns = row->end_ns;
}

double job_pace(const struct job_family *j, uint32_t pid, const struct feature_row *row,
		double *ret_before)
{
	const struct job_pace *p = pace_place(j, pid);
	*ret_before = 0;
	if (!p || p->end_ns + j->window_ns < row->start_ns)
		return row->pace;
	*ret_before = p->end_ns >= row->end_ns || row->layer == DETECT_STEP ? p->before : p->now;
	return row->layer == DETECT_STEP ? p->now : row->pace;
}

bool job_has_pace(const struct job_family *j, uint32_t pid)
{
	const struct job_pace *p = pace_place(j, pid);
	return p && p->any;
}

void job_row(struct job_family *j, const struct feature_row *row, bool leaves)
{
	uint64_t since;
	if (layer_has_calls(row->layer))
		note_pace(j, row);
	if (is_of_work(row->layer) && !map64_get(&j->work_since, row->pid, &since))
		map64_set(&j->work_since, row->pid, row->start_ns);
	if (layer_has_calls(row->layer) && leaves)
		map64_set(&j->left_work, row->pid, row->end_ns);
}

bool job_left_work(const struct job_family *j, const struct feature_row *row)
{
	uint64_t left = 0;
	return !layer_has_calls(row->layer) && map64_get(&j->left_work, process_of(row), &left) &&
	       left > row->start_ns && left < row->end_ns + j->window_ns;
}

/* The process that started the row's; 0: none that is of one job. */
static uint32_t family_of(const struct job_family *j, const struct feature_row *row)
{
	uint32_t parent = windows_parent_of(j->windows, process_of(row));
	return parent > 1 ? parent : 0;
}

static void tell_until(struct map64 *told, uint32_t pid, uint64_t end_ns)
{
	uint64_t until = 0;
	map64_get(told, pid, &until);
	if (pid && end_ns > until)
		map64_set(told, pid, end_ns);
}

void job_told(struct job_family *j, const struct feature_row *row)
{
	tell_until(&j->told_slow, process_of(row), row->end_ns);
	tell_until(&j->told_children, family_of(j, row), row->end_ns);
}

/* Rows of a window are judged one after the other: that its job is slow may be known since the one
 * before alone. */
static bool is_told(const struct job_family *j, const struct map64 *told, uint32_t pid,
		    const struct feature_row *row)
{
	uint64_t until;
	return pid && map64_get(told, pid, &until) && until >= row->start_ns &&
	       until <= row->end_ns + j->window_ns;
}

bool job_is_told(const struct job_family *j, const struct feature_row *row)
{
	uint32_t family = family_of(j, row);
	return is_told(j, &j->told_slow, process_of(row), row) ||
	       is_told(j, &j->told_children, family, row) ||
	       (row->parents_pace && is_told(j, &j->told_slow, family, row));
}

enum job_work job_work(const struct job_family *j, const struct feature_row *row)
{
	uint64_t left = 0;
	bool own_pace = row->pace > 0 && !row->parents_pace;
	if (j->without_pace || !row->pid || own_pace || row->layer == DETECT_STEP)
		return JOB_UNKNOWN;
	uint32_t parent = windows_parent_of(j->windows, row->pid);
	if (parent)
		map64_get(&j->left_work, parent, &left);
	if (left + LAG_WINDOWS * j->window_ns > row->start_ns)
		return JOB_LEFT;
	return row->pace >= SLOWED ? JOB_USUAL : JOB_UNKNOWN;
}

void job_forget_work(struct job_family *j, uint32_t pid)
{
	map64_del(&j->work_since, pid);
}

/* The last takes its place. */
static void forget_pace(struct job_family *j, uint32_t pid)
{
	uint64_t at;
	if (!map64_get(&j->pace_of, pid, &at))
		return;
	map64_del(&j->pace_of, pid);
	j->paces.data[at] = j->paces.data[--j->paces.len];
	if (at < j->paces.len)
		map64_set(&j->pace_of, j->paces.data[at].pid, at);
}

void job_forget(struct job_family *j, const struct m_process *ended)
{
	map64_del(&j->left_work, ended->pid);
	map64_del(&j->told_slow, ended->pid);
	map64_del(&j->told_children, ended->pid);
	map64_del(&j->told_children, ended->parent_pid); /* others tell it anew */
	forget_pace(j, ended->pid);
}
