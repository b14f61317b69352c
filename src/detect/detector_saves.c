/* detector_saves.c - a checkpoint now and then is no fault, however long it takes, and the model
 * may not have seen one: the windows that it is in, and the one after them, are not judged. Saving
 * again and again is: where of the last windows more have one. Of whom it is does not matter: the
 * other ranks wait. Which calls save: key_text_saves. */
#include "base/buffer.h"
#include "detect/detector_impl.h"

#define LOOKED_AT 10 /* windows */
#define EXCUSED	  2  /* of these: one checkpoint is in two, mostly */
#define KEPT	  64 /* live */

void saves_event(struct detector *d, const struct windows_event *e)
{
	uint64_t window = (e->start_ns + e->dur_ns) / d->window_ns;
	size_t at = d->saves.len;
	if (!e->saves)
		return;
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
}

/* How many of the windows first..last have one. */
static size_t saved(const struct detector *d, uint64_t first, uint64_t last)
{
	size_t n = 0;
	for (size_t i = d->saves.len; i-- > 0 && d->saves.data[i] >= first;)
		n += d->saves.data[i] <= last;
	return n;
}

bool saves_excuse(const struct detector *d, const struct feature_row *row)
{
	uint64_t first = row->start_ns / d->window_ns, last = (row->end_ns - 1) / d->window_ns;
	if (!d->saves.len || !saved(d, first ? first - 1 : 0, last))
		return false;
	return saved(d, last >= LOOKED_AT ? last - LOOKED_AT + 1 : 0, last + LOOKED_AT) <= EXCUSED;
}
