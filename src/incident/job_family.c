/* job_family.c - what the job does that a row is of: the process, that which it works for, or for
 * a GPU that whose work it does. Loaders of data, and whatever else works for another process, have
 * its pace (windows.h). While a process is known to be abnormally slow, or another that the same
 * process has started (ranks), less tells that a row is a part of that. */
#include "incident/job_family.h"

void job_free(struct job_family *j)
{
	map64_free(&j->work_since);
	map64_free(&j->left_work);
	map64_free(&j->told_slow);
	map64_free(&j->told_children);
	job_paces_free(&j->paces);
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

bool layer_has_counters(enum detect_layer layer)
{
	return detect_layer_traits(layer) & LAYER_BY_COUNTERS;
}

static bool is_of_work(enum detect_layer layer)
{
	return detect_layer_traits(layer) & LAYER_IS_WORK;
}

void job_row(struct job_family *j, const struct feature_row *row, bool leaves)
{
	uint64_t since;
	if (is_of_work(row->layer) && row->events > 0 &&
	    !map64_get(&j->work_since, row->pid, &since))
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

void job_pace_correct(struct job_family *j, struct feature_row *row)
{
	uint32_t pid = process_of(row);
	if (pid)
		job_pace_row(&j->paces, row,
			     row->parents_pace ? windows_parent_of(j->windows, pid) : pid,
			     is_told(j, &j->told_slow, pid, row));
}

bool job_is_told(const struct job_family *j, const struct feature_row *row)
{
	uint32_t family = family_of(j, row);
	return is_told(j, &j->told_slow, process_of(row), row) ||
	       is_told(j, &j->told_children, family, row) ||
	       (row->parents_pace && is_told(j, &j->told_slow, family, row));
}

void job_forget_work(struct job_family *j, uint32_t pid)
{
	map64_del(&j->work_since, pid);
}

void job_forget(struct job_family *j, const struct m_process *ended)
{
	map64_del(&j->left_work, ended->pid);
	map64_del(&j->told_slow, ended->pid);
	map64_del(&j->told_children, ended->pid);
	map64_del(&j->told_children, ended->parent_pid); /* others tell it anew */
	job_pace_forget(&j->paces, ended->pid);
}
