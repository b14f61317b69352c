/* detector_job.c - what the job does that a row is of: the process, that which it works for, or for
 * a GPU that whose work it does. Loaders of data, and whatever else works for another process, have
 * its pace (windows.h): while its usual work goes on as fast as usual, nobody waits for the time
 * that they take; while it does other work, so do they. And while it is known to be abnormally
 * slow, less tells that a row is a part of that. */
#include "base/buffer.h"
#include "detect/detector_impl.h"
#include "detect/learn.h"

#define LAG_WINDOWS 2 /* batches of other work that are on the way */

void job_process(struct detector *d, const struct m_process *row)
{
	windows_parent(d->windows, row->pid, row->parent_pid);
}

/* The process that a row is of. */
static uint32_t process_of(const struct feature_row *row)
{
	return row->pid ? row->pid : row->gpu_pid;
}

static bool has_calls(const struct feature_row *row)
{
	return row->layer != DETECT_HARDWARE && row->layer != DETECT_HOST &&
	       row->layer != DETECT_STEP;
}

void job_row(struct detector *d, const struct feature_row *row, bool leaves)
{
	if (has_calls(row) && leaves)
		map64_set(&d->left_work, row->pid, row->end_ns);
}

bool job_left_work(const struct detector *d, const struct feature_row *row)
{
	uint64_t left = 0;
	return !has_calls(row) && map64_get(&d->left_work, process_of(row), &left) &&
	       left > row->start_ns;
}

void job_told(struct detector *d, const struct feature_row *row)
{
	if (process_of(row))
		map64_set(&d->told_slow, process_of(row), row->end_ns);
}

/* Rows of a window are judged one after the other: that its job is slow may be known since the one
 * before alone. */
bool job_is_told(const struct detector *d, const struct feature_row *row)
{
	uint64_t until = 0, of_parent = 0;
	uint32_t parent = row->parents_pace ? windows_parent_of(d->windows, row->pid) : 0;
	map64_get(&d->told_slow, process_of(row), &until);
	if (parent)
		map64_get(&d->told_slow, parent, &of_parent);
	until = of_parent > until ? of_parent : until;
	return until && until >= row->start_ns;
}

enum job_work job_work(const struct detector *d, const struct feature_row *row)
{
	uint64_t left = 0;
	bool own_pace = row->pace > 0 && !row->parents_pace;
	if (d->model->without & WITHOUT_PACE || !row->pid || own_pace || row->layer == DETECT_STEP)
		return JOB_UNKNOWN;
	uint32_t parent = windows_parent_of(d->windows, row->pid);
	if (parent)
		map64_get(&d->left_work, parent, &left);
	if (left + LAG_WINDOWS * d->window_ns > row->start_ns)
		return JOB_LEFT;
	return row->pace >= SLOWED ? JOB_USUAL : JOB_UNKNOWN;
}

void job_forget(struct detector *d, uint32_t pid)
{
	map64_del(&d->left_work, pid);
	map64_del(&d->told_slow, pid);
}
