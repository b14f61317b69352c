/* detector_job.c - what the process does that a process works for. Loaders of data, and whatever
 * else works for another process, have its pace (windows.h): while its usual work goes on as fast
 * as usual, nobody waits for the time that they take; while it does other work, so do they. */
#include "base/buffer.h"
#include "detect/detector_impl.h"
#include "detect/learn.h"

#define LAG_WINDOWS 2 /* batches of other work that are on the way */

void job_process(struct detector *d, const struct m_process *row)
{
	windows_parent(d->windows, row->pid, row->parent_pid);
}

void job_row(struct detector *d, const struct feature_row *row, bool leaves)
{
	bool of_calls = row->layer != DETECT_HARDWARE && row->layer != DETECT_HOST &&
			row->layer != DETECT_STEP;
	if (of_calls && leaves)
		map64_set(&d->left_work, row->pid, row->end_ns);
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
}
