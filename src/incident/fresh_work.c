/* fresh_work.c - windows in which a process began something new: calls with sizes that it had
 * not made before. What the job does then changes, benignly, before regimes.h can say that it has:
 * such windows are not judged. New functions of Python are no sign of it: they have no sizes, and
 * handling of faults calls them. */
#include "incident/fresh_work.h"

#include <math.h>

#define FRESH_S	      15 /* so long a key is new */
#define FRESH_LEAST   8	 /* events of new keys in a window that is new work */
#define FRESH_RATIO   0.1
#define FRESH_WINDOWS 64 /* that are kept, and as many before them */

static uint64_t place(uint32_t pid, uint64_t window)
{
	return (uint64_t)pid << 40 ^ window;
}

static void count_event(struct fresh_work *f, uint32_t pid, uint64_t window)
{
	uint64_t n = 0;
	map64_get(&f->counts[0], place(pid, window), &n);
	map64_set(&f->counts[0], place(pid, window), n + 1);
}

void fresh_work_free(struct fresh_work *f)
{
	vec_free(&f->first_seen);
	map64_free(&f->counts[0]);
	map64_free(&f->counts[1]);
}

void fresh_work_event(struct fresh_work *f, const struct windows_event *e)
{
	if (e->key <= f->keys_known || e->layer == DETECT_PYTHON)
		return;
	uint32_t index = e->key - f->keys_known - 1;
	while (f->first_seen.len <= index)
		*vec_push(&f->first_seen) = 0;
	uint64_t *first = &f->first_seen.data[index], end = e->start_ns + e->dur_ns;
	if (!*first)
		*first = end;
	if (end > *first + FRESH_S * 1000000000ULL)
		return;
	count_event(f, e->pid, end / f->window_ns);
	count_event(f, 0, end / f->window_ns); /* for GPUs */
}

void fresh_work_upto(struct fresh_work *f, uint64_t now_ns)
{
	uint64_t window = now_ns / f->window_ns;
	if (window < f->from + FRESH_WINDOWS)
		return; /* each map is of so many, and events up to some windows ahead */
	map64_free(&f->counts[1]);
	f->counts[1] = f->counts[0];
	f->counts[0] = (struct map64){0};
	f->from = window;
}

static uint64_t events_of(const struct fresh_work *f, uint32_t pid, uint64_t window)
{
	uint64_t n = 0, older = 0;
	map64_get(&f->counts[0], place(pid, window), &n);
	map64_get(&f->counts[1], place(pid, window), &older);
	return n + older;
}

/* New work begins and ends within windows: of these one has less of it than that beside it. */
bool fresh_work_covers(const struct fresh_work *f, const struct feature_row *row)
{
	uint64_t window = row->start_ns / f->window_ns;
	uint64_t least = (uint64_t)fmax(FRESH_LEAST, FRESH_RATIO * (double)row->events + 1);
	if (row->layer == DETECT_STEP || events_of(f, row->pid, window) < FRESH_LEAST)
		return false;
	return events_of(f, row->pid, window) >= least ||
	       events_of(f, row->pid, window + 1) >= least ||
	       (window && events_of(f, row->pid, window - 1) >= least);
}
