/* saves.c - a checkpoint now and then is no fault, however long it takes, and the model
 * may not have seen one: the windows that it is in, and the one after them, are not judged. Saving
 * again and again is: where of the last windows more have the end of one. Of whom it is does not
 * matter: the other ranks wait. Which calls save: key_text_saves.
 *
 * A call is known when it ends. Live the first windows of a long one were judged by then. */
#include "incident/saves.h"

#define LOOKED_AT 10 /* windows */
#define EXCUSED	  2  /* of these: one checkpoint is in two, mostly */
#define KEPT	  64 /* live */

/* Calls within the last one, and others at that time, are of the same checkpoint. */
static void join_longer(struct saves *s, struct piece p)
{
	if (p.start_ns / s->window_ns == p.end_ns / s->window_ns)
		return;
	struct piece *last = s->longer.len ? &s->longer.data[s->longer.len - 1] : NULL;
	if (!last || p.start_ns > last->end_ns || p.end_ns < last->start_ns) {
		/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): room is made first */
		*vec_push(&s->longer) = p;
		return;
	}
	last->start_ns = p.start_ns < last->start_ns ? p.start_ns : last->start_ns;
	last->end_ns = p.end_ns > last->end_ns ? p.end_ns : last->end_ns;
}

void saves_free(struct saves *s)
{
	vec_free(&s->windows);
	vec_free(&s->longer);
}

void saves_event(struct saves *s, const struct windows_event *e)
{
	uint64_t window = (e->start_ns + e->dur_ns) / s->window_ns;
	size_t at = s->windows.len;
	if (!e->saves)
		return;
	join_longer(s, (struct piece){e->start_ns, e->start_ns + e->dur_ns});
	while (at > 0 && s->windows.data[at - 1] > window)
		at--;
	if (at > 0 && s->windows.data[at - 1] == window)
		return;
	vec_push(&s->windows);
	for (size_t i = s->windows.len - 1; i > at; i--)
		s->windows.data[i] = s->windows.data[i - 1];
	s->windows.data[at] = window;
}

void saves_upto(struct saves *s, uint64_t now_ns)
{
	uint64_t window = now_ns / s->window_ns;
	size_t gone = 0;
	while (gone < s->windows.len && s->windows.data[gone] + KEPT < window)
		gone++;
	for (size_t i = gone; gone && i < s->windows.len; i++)
		s->windows.data[i - gone] = s->windows.data[i];
	s->windows.len -= gone;
	size_t kept = 0;
	for (size_t i = 0; i < s->longer.len; i++)
		if (s->longer.data[i].end_ns / s->window_ns + KEPT >= window)
			s->longer.data[kept++] = s->longer.data[i];
	s->longer.len = kept;
}

static size_t saved_before(const struct saves *s, uint64_t window)
{
	size_t low = 0, high = s->windows.len;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (s->windows.data[middle] < window)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* How many of the windows first..last have one. */
static size_t saved(const struct saves *s, uint64_t first, uint64_t last)
{
	return saved_before(s, last + 1) - saved_before(s, first);
}

static bool is_in_longer(const struct saves *s, const struct feature_row *row)
{
	for (size_t i = 0; i < s->longer.len; i++)
		if (row->start_ns < s->longer.data[i].end_ns &&
		    row->end_ns > s->longer.data[i].start_ns)
			return true;
	return false;
}

bool saves_cover(const struct saves *s, const struct feature_row *row)
{
	uint64_t first = row->start_ns / s->window_ns, last = (row->end_ns - 1) / s->window_ns;
	if (!s->windows.len)
		return false;
	if (!saved(s, first ? first - 1 : 0, last) && !is_in_longer(s, row))
		return false;
	return saved(s, last >= LOOKED_AT ? last - LOOKED_AT + 1 : 0, last + LOOKED_AT) <= EXCUSED;
}
