/* detector_saves.c - a checkpoint now and then is no fault, however long it takes, and the model
 * may not have seen one: the windows that it is in, and the one after them, are not judged. Saving
 * again and again is: where of the last windows more have the end of one. Of whom it is does not
 * matter: the other ranks wait. Which calls save: key_text_saves.
 *
 * A call is known when it ends. Live the first windows of a long one were judged by then. */
#include "base/buffer.h"
#include "detect/detector_impl.h"

#define LOOKED_AT 10 /* windows */
#define EXCUSED	  2  /* of these: one checkpoint is in two, mostly */
#define KEPT	  64 /* live */

/* Calls within the last one, and others at that time, are of the same checkpoint. */
static void add_long(struct detector *d, struct piece p)
{
	if (p.start_ns / d->window_ns == p.end_ns / d->window_ns)
		return;
	struct piece *last = d->long_saves.len ? &d->long_saves.data[d->long_saves.len - 1] : NULL;
	if (!last || p.start_ns > last->end_ns || p.end_ns < last->start_ns) {
		/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): room is made first */
		*vec_push(&d->long_saves) = p;
		return;
	}
	last->start_ns = p.start_ns < last->start_ns ? p.start_ns : last->start_ns;
	last->end_ns = p.end_ns > last->end_ns ? p.end_ns : last->end_ns;
}

void saves_event(struct detector *d, const struct windows_event *e)
{
	uint64_t window = (e->start_ns + e->dur_ns) / d->window_ns;
	size_t at = d->saves.len;
	if (!e->saves)
		return;
	add_long(d, (struct piece){e->start_ns, e->start_ns + e->dur_ns});
	while (at > 0 && d->saves.data[at - 1] > window)
		at--;
	if (at > 0 && d->saves.data[at - 1] == window)
		return;
	vec_push(&d->saves);
	for (size_t i = d->saves.len - 1; i > at; i--)
		d->saves.data[i] = d->saves.data[i - 1];
	d->saves.data[at] = window;
}

void saves_upto(struct detector *d, uint64_t now_ns)
{
	uint64_t window = now_ns / d->window_ns;
	size_t gone = 0;
	while (gone < d->saves.len && d->saves.data[gone] + KEPT < window)
		gone++;
	for (size_t i = gone; gone && i < d->saves.len; i++)
		d->saves.data[i - gone] = d->saves.data[i];
	d->saves.len -= gone;
	size_t kept = 0;
	for (size_t i = 0; i < d->long_saves.len; i++)
		if (d->long_saves.data[i].end_ns / d->window_ns + KEPT >= window)
			d->long_saves.data[kept++] = d->long_saves.data[i];
	d->long_saves.len = kept;
}

static size_t saved_before(const struct detector *d, uint64_t window)
{
	size_t low = 0, high = d->saves.len;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (d->saves.data[middle] < window)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* How many of the windows first..last have one. */
static size_t saved(const struct detector *d, uint64_t first, uint64_t last)
{
	return saved_before(d, last + 1) - saved_before(d, first);
}

static bool is_in_long(const struct detector *d, const struct feature_row *row)
{
	for (size_t i = 0; i < d->long_saves.len; i++)
		if (row->start_ns < d->long_saves.data[i].end_ns &&
		    row->end_ns > d->long_saves.data[i].start_ns)
			return true;
	return false;
}

bool saves_excuse(const struct detector *d, const struct feature_row *row)
{
	uint64_t first = row->start_ns / d->window_ns, last = (row->end_ns - 1) / d->window_ns;
	if (!d->saves.len)
		return false;
	if (!saved(d, first ? first - 1 : 0, last) && !is_in_long(d, row))
		return false;
	return saved(d, last >= LOOKED_AT ? last - LOOKED_AT + 1 : 0, last + LOOKED_AT) <= EXCUSED;
}
