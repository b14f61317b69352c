/* live_samples.c - a window that takes no rows but samples, and is emptied after each piece. */
#include "session/live_samples.h"

#include <string.h>

#include "session/live_window.h"

#define WINDOW_BYTES (8u << 20) /* 200,000: 40 processors at 99 Hz for 50 s */

struct live_samples {
	struct live_window *window;
	uint32_t pids[SAMPLES_PROCESSES];
	size_t npids;
	uint64_t each_ns, begun_ns, left_out;
};

struct live_samples *live_samples_new(uint64_t each_ns)
{
	struct live_samples *s = xcalloc(1, sizeof(*s));
	s->each_ns = each_ns;
	s->window = live_window_new(WINDOW_BYTES);
	live_window_bear_gaps(s->window);
	return s;
}

void live_samples_free(struct live_samples *s)
{
	if (!s)
		return;
	live_window_free(s->window);
	free(s);
}

static void note_pid(struct live_samples *s, uint32_t pid)
{
	size_t i = 0;
	while (i < s->npids && s->pids[i] != pid)
		i++;
	if (i < s->npids)
		return;
	if (s->npids < SAMPLES_PROCESSES)
		s->pids[s->npids++] = pid;
	else
		s->left_out++;
}

static void note_pids(struct live_samples *s, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->samples.len; i++) {
		const struct m_thread *t =
			v->names->thread(v->names->ctx, v->batch->samples.data[i].thread);
		if (t)
			note_pid(s, t->pid);
	}
}

/* A batch without rows of other kinds that may be millions: borrowed, not to be freed. */
static void without_others(struct feed_batch *b)
{
#define X(number, NAME, stem, members) memset(&b->members, 0, sizeof(b->members));
	typeof(b->samples) samples = b->samples;
	ROW_BULKS(X)
	b->samples = samples;
#undef X
}

bool live_samples_take(struct live_samples *s, const struct session_view *v, uint64_t now_ns)
{
	struct feed_batch samples = *v->batch;
	struct session_view view = *v;
	s->begun_ns = s->begun_ns ? s->begun_ns : now_ns;
	without_others(&samples);
	view.batch = &samples;
	live_window_take(s->window, &view);
	note_pids(s, v);
	return now_ns - s->begun_ns >= s->each_ns;
}

/* Times of trees are counted from the first process that is there. */
static uint64_t time_in(const struct row_source *rows, uint64_t ns)
{
	const struct rec_tables *t = rows->tables;
	for (size_t i = 0; i < t->processes.len; i++) {
		uint64_t start_ns = t->processes.data[i].start_ns;
		if (start_ns)
			return ns > start_ns ? ns - start_ns : 0;
	}
	return ns;
}

struct live_samples_piece live_samples_piece(struct live_samples *s, uint64_t now_ns)
{
	const struct row_source *rows = live_window_as_taken(s->window);
	return (struct live_samples_piece){.rows = rows,
					   .pids = s->pids,
					   .npids = s->npids,
					   .from_ns = s->begun_ns,
					   .until_ns = now_ns,
					   .from_in_ns = time_in(rows, s->begun_ns),
					   .left_out = s->left_out};
}

void live_samples_next(struct live_samples *s, uint64_t now_ns)
{
	live_window_begin_anew(s->window);
	s->npids = 0;
	s->left_out = 0;
	s->begun_ns = now_ns;
}
