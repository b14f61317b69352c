/* detector_job.c - what a process's parent does. Loaders of data, and whatever else works for a
 * process, have no pace of their own: how much they do is up to who asks. While the parent's usual
 * work goes on at its usual pace, nothing in them costs the job anything; while it does other work,
 * so do they. */
#include "base/buffer.h"
#include "detect/detector_impl.h"
#include "detect/learn.h"

#define LAG_WINDOWS 2 /* batches of other work that are on the way */

static bool is_of_calls(const struct feature_row *row)
{
	return row->layer != DETECT_HARDWARE && row->layer != DETECT_HOST &&
	       row->layer != DETECT_STEP;
}

void job_process(struct detector *d, const struct m_process *row)
{
	if (row->parent_pid && row->parent_pid != row->pid)
		map64_set(&d->parents, row->pid, row->parent_pid);
}

void job_row(struct detector *d, const struct feature_row *row, bool leaves)
{
	if (!is_of_calls(row))
		return;
	if (leaves)
		map64_set(&d->left_work, row->pid, row->end_ns);
	if (!leaves && row->pace >= SLOWED)
		map64_set(&d->usual_work, row->pid, row->end_ns);
	else
		map64_del(&d->usual_work, row->pid);
}

/* The end of the parent's last window in the map, 0: none. */
static uint64_t of_parent(const struct detector *d, const struct map64 *ends, uint32_t pid)
{
	uint64_t parent, end = 0;
	if (map64_get(&d->parents, pid, &parent))
		map64_get(ends, parent, &end);
	return end;
}

enum job_work job_work(const struct detector *d, const struct feature_row *row)
{
	uint64_t lag = LAG_WINDOWS * d->window_ns;
	if (d->model->without & WITHOUT_PACE || !row->pid || row->pace > 0 ||
	    row->layer == DETECT_STEP)
		return JOB_UNKNOWN;
	if (of_parent(d, &d->left_work, row->pid) + lag > row->start_ns)
		return JOB_LEFT;
	return of_parent(d, &d->usual_work, row->pid) >= row->start_ns ? JOB_USUAL : JOB_UNKNOWN;
}

void job_forget(struct detector *d, uint32_t pid)
{
	map64_del(&d->parents, pid);
	map64_del(&d->left_work, pid);
	map64_del(&d->usual_work, pid);
}
