/* steps_wait.c - what a thread waited for between its operations: who ended the wait tells whether
 * it was for a batch. Waits inside operations are theirs. */
#include "analyze/steps_impl.h"

#define LEAST_WAITS    3
#define MOST_ANCESTORS 8

/* Loaders may be started by a process that only starts them (forkserver). */
static bool is_child(const struct process_index *index, uint32_t pid, uint32_t of)
{
	for (int i = 0; pid && i < MOST_ANCESTORS; i++) {
		const struct m_process *row = process_index_row(index, pid);
		pid = row ? row->parent_pid : 0;
		if (pid == of)
			return true;
	}
	return false;
}

static enum steps_waker waker_of(const struct process_index *index, uint32_t pid,
				 const struct m_wait *w)
{
	const struct m_process *own = process_index_row(index, pid);
	if (!w->waker_pid)
		return WAKER_NONE;
	if (w->waker_pid == pid)
		return WAKER_THREAD;
	if (own && w->waker_pid == own->parent_pid)
		return WAKER_PARENT;
	return is_child(index, w->waker_pid, pid) ? WAKER_CHILD : WAKER_NONE;
}

static size_t first_of_thread(const steps_wait_rows_t *rows, uint32_t thread)
{
	size_t low = 0, high = rows->len;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (rows->data[mid].thread < thread)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

void steps_waits_make(steps_waits_t *ret, const struct steps_input *in, uint32_t thread,
		      const struct process_index *index, const struct steps_text *t)
{
	uint32_t pid = in->threads[thread].pid;
	size_t op = 0;
	for (size_t i = first_of_thread(&in->waits, thread);
	     i < in->waits.len && in->waits.data[i].thread == thread; i++) {
		const struct m_wait *w = &in->waits.data[i];
		while (op < t->len && steps_op_end(&t->ops[op]) <= w->start_ns)
			op++;
		bool could_run = w->reason == WAIT_PREEMPTED || w->reason == WAIT_HELD ||
				 w->reason == WAIT_STOPPED;
		if (could_run || (op < t->len && t->ops[op].start_ns <= w->start_ns))
			continue;
		*vec_push(ret) =
			(struct steps_wait){w->start_ns, w->end_ns, waker_of(index, pid, w)};
	}
}

bool steps_waits_feed(const steps_waits_t *waits)
{
	size_t children = 0;
	for (size_t i = 0; i < waits->len; i++)
		children += waits->data[i].waker == WAKER_CHILD;
	return children >= LEAST_WAITS;
}

size_t steps_waits_from(const steps_waits_t *waits, uint64_t ns)
{
	size_t low = 0, high = waits->len;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (waits->data[mid].end_ns <= ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}
