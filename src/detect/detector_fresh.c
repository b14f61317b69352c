/* detector_fresh.c - windows in which a process began something new: calls with sizes that it had
 * not made before. What the job does then changes, benignly, before regimes.h can say that it has:
 * such windows are not judged. New functions of Python are no sign of it: they have no sizes, and
 * handling of faults calls them. */
#include <math.h>

#include "base/buffer.h"
#include "detect/detector_impl.h"

#define FRESH_S	      15 /* so long a key is new */
#define FRESH_LEAST   8	 /* events of new keys in a window that is new work */
#define FRESH_RATIO   0.1
#define FRESH_WINDOWS 64 /* that are kept, and as many before them */

static uint64_t place(uint32_t pid, uint64_t window)
{
	return (uint64_t)pid << 40 ^ window;
}

static void add(struct detector *d, uint32_t pid, uint64_t window)
{
	uint64_t n = 0;
	map64_get(&d->fresh[0], place(pid, window), &n);
	map64_set(&d->fresh[0], place(pid, window), n + 1);
}

void fresh_event(struct detector *d, const struct windows_event *e)
{
	if (e->key <= d->keys_known || e->layer == DETECT_PYTHON)
		return;
	uint32_t index = e->key - d->keys_known - 1;
	while (d->first_seen.len <= index)
		*vec_push(&d->first_seen) = 0;
	uint64_t *first = &d->first_seen.data[index], end = e->start_ns + e->dur_ns;
	if (!*first)
		*first = end;
	if (end > *first + FRESH_S * 1000000000ULL)
		return;
	add(d, e->pid, end / d->window_ns);
	add(d, 0, end / d->window_ns); /* for GPUs */
}

void fresh_upto(struct detector *d, uint64_t now_ns)
{
	uint64_t window = now_ns / d->window_ns;
	if (window < d->fresh_from + FRESH_WINDOWS)
		return; /* each map is of so many, and events up to some windows ahead */
	map64_free(&d->fresh[1]);
	d->fresh[1] = d->fresh[0];
	d->fresh[0] = (struct map64){0};
	d->fresh_from = window;
}

static uint64_t count(const struct detector *d, uint32_t pid, uint64_t window)
{
	uint64_t n = 0, older = 0;
	map64_get(&d->fresh[0], place(pid, window), &n);
	map64_get(&d->fresh[1], place(pid, window), &older);
	return n + older;
}

/* New work begins and ends within windows: of these one has less of it than that beside it. */
bool fresh_work(const struct detector *d, const struct feature_row *row)
{
	uint64_t window = row->start_ns / d->window_ns;
	uint64_t least = (uint64_t)fmax(FRESH_LEAST, FRESH_RATIO * (double)row->events + 1);
	if (row->layer == DETECT_STEP || count(d, row->pid, window) < FRESH_LEAST)
		return false;
	return count(d, row->pid, window) >= least || count(d, row->pid, window + 1) >= least ||
	       (window && count(d, row->pid, window - 1) >= least);
}
