/* flight.c - when a file is due, and on which thread what is done.
 *
 * The thread that looks copies the rows of a file's time out of the window; a thread that lives as
 * long as one file compresses them, writes, waits for the disk, and takes old files away. The
 * copy of 1.5 million calls, which are unpacked and packed again, takes half a second; where one
 * waits for a disk, nobody knows how long. Rows wait in the looker's queue for the copy: it has
 * room for seconds. In pieces between batches, without a copy, the window would lose rows that are
 * still to be written. There is one copy at a time; a file that is due meanwhile waits for it. At
 * most PENDING_MOST do, and what is triggered beyond that is held off. Which triggers make a file
 * flight_recent.c decides. */
#include "session/flight.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "session/flight_impl.h"
#include "session/live_window.h"

#define PENDING_MOST 8
#define RAW_BYTES    (4u << 20)	    /* of rows as they are; others are compressed */
#define LATE_NS	     600000000ULL   /* losses are told each half second: session_mover.c */
#define TOLD_NS	     10000000000ULL /* incidents are told some seconds after their onset */

struct flight {
	/* before_ns and after_ns, and what bounds files, are of the lock */
	struct flight_options options;

	/* the looker's */
	struct live_window *window;
	struct flight_kept kept;
	uint64_t began_ns; /* the session; of one that does not say so its first batch */
	uint64_t upto_ns;  /* what ended before has come */
	bool grown;	   /* the window has more room, since files are due */
	uint64_t lost_ns;  /* live_window_since_ns, as it was then */
	bool writes;	   /* there is a thread that writes, or it has ended and was not joined */
	pthread_t writer;

	/* the writer's, or the looker's while there is none */
	struct row_window *copy;
	struct flight_freeze writes_of;
	atomic_bool written;

	pthread_mutex_t lock; /* of all below */
	struct flight_freeze pending[PENDING_MOST];
	size_t npending;
	struct flight_recents recents;
	struct flight_stats stats;
};

struct flight *flight_new(const struct flight_options *o)
{
	struct flight *f = xcalloc(1, sizeof(*f));
	f->options = *o;
	f->window = live_window_new(o->window_bytes);
	live_window_bear_gaps(f->window);
	pthread_mutex_init(&f->lock, NULL);
	return f;
}

/* ---- triggers ---- */

static const char *of_whom(const struct flight_cause *c)
{
	return c->of ? c->of : "";
}

static void mark(struct flight_freeze *z, const struct flight_cause *c, uint64_t time_ns)
{
	z->triggers += !c->is_again;
	if (z->nmarks == FLIGHT_MARKS)
		return;
	struct flight_mark *m = &z->marks[z->nmarks++];
	m->time_ns = time_ns;
	snprintf(m->why, sizeof(m->why), "%s", c->why);
	m->is_again = c->is_again;
}

/* The lock is held, and that one is pending. */
static void join(struct flight *f, uint64_t number, const struct flight_cause *c, uint64_t time_ns)
{
	struct flight_freeze *z = f->pending;
	while (z->number != number)
		z++;
	if (c->is_known && c->id && (!z->id || c->id < z->id))
		z->id = c->id;
	mark(z, c, time_ns);
}

/* The lock is held. */
static void add_pending(struct flight *f, const struct flight_cause *c, uint64_t time_ns)
{
	struct flight_freeze *z = &f->pending[f->npending++];
	*z = (struct flight_freeze){
		.id = c->id,
		.number = flight_recents_add(&f->recents, &f->options, time_ns, of_whom(c))};
	mark(z, c, time_ns);
}

static void count(struct flight_stats *st, enum flight_taken taken)
{
	st->triggers++;
	st->joined += taken == FLIGHT_JOINS || taken == FLIGHT_LATE;
	st->held_off += taken == FLIGHT_HELD_OFF;
}

enum flight_taken flight_trigger(struct flight *f, const struct flight_cause *c,
				 struct flight_verdict *ret)
{
	uint64_t now_ns = monotonic_ns(), number;
	uint64_t time_ns = c->time_ns && c->time_ns < now_ns ? c->time_ns : now_ns;
	pthread_mutex_lock(&f->lock);
	flight_recents_judge(&f->recents, &f->options, time_ns, of_whom(c), ret, &number);
	if (ret->taken == FLIGHT_OWN && f->npending == PENDING_MOST) {
		ret->taken = FLIGHT_HELD_OFF;
		ret->hold = FLIGHT_HOLD_ROOM;
	}
	if (ret->taken == FLIGHT_OWN && !c->is_again)
		add_pending(f, c, time_ns);
	else if (ret->taken == FLIGHT_JOINS)
		join(f, number, c, time_ns);
	if (!c->is_again)
		count(&f->stats, ret->taken);
	pthread_mutex_unlock(&f->lock);
	return ret->taken;
}

uint64_t flight_until_ns(struct flight *f)
{
	uint64_t ret = 0;
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->npending; i++) {
		uint64_t ends_ns = f->pending[i].marks[0].time_ns + f->options.after_ns;
		ret = ends_ns > ret ? ends_ns : ret;
	}
	pthread_mutex_unlock(&f->lock);
	return ret;
}

void flight_limit(struct flight *f, const struct flight_options *o)
{
	pthread_mutex_lock(&f->lock);
	f->options.before_ns = o->before_ns;
	f->options.after_ns = o->after_ns;
	f->options.most_files = o->most_files;
	f->options.most_bytes = o->most_bytes;
	f->options.most_age_ns = o->most_age_ns;
	pthread_mutex_unlock(&f->lock);
}

static struct flight_options options_of(struct flight *f)
{
	pthread_mutex_lock(&f->lock);
	struct flight_options ret = f->options;
	pthread_mutex_unlock(&f->lock);
	return ret;
}

void flight_stats(struct flight *f, struct flight_stats *ret)
{
	pthread_mutex_lock(&f->lock);
	*ret = f->stats;
	pthread_mutex_unlock(&f->lock);
}

/* Its time is over, or the window begins to lose what was before. */
static bool is_due(const struct flight *f, const struct flight_freeze *z)
{
	uint64_t at_ns = z->marks[0].time_ns, since_ns = live_window_since_ns(f->window);
	return at_ns + f->options.after_ns + LATE_NS <= f->upto_ns ||
	       (since_ns > f->lost_ns && since_ns + f->options.before_ns > at_ns &&
		at_ns <= f->upto_ns);
}

/* The lock is held. file: its name, or NULL. */
static void set_stage(struct flight *f, uint64_t number, enum flight_stage stage, const char *file)
{
	struct flight_recent *r = flight_recents_at(&f->recents, number);
	if (!r)
		return;
	r->stage = stage;
	if (file)
		snprintf(r->file, sizeof(r->file), "%s", file);
}

/* Takes the first that is due; false: there is none. */
static bool take_due(struct flight *f, bool at_end, struct flight_freeze *ret)
{
	size_t i = 0;
	pthread_mutex_lock(&f->lock);
	while (i < f->npending && !at_end && !is_due(f, &f->pending[i]))
		i++;
	bool due = i < f->npending;
	if (due) {
		*ret = f->pending[i];
		set_stage(f, ret->number, FLIGHT_COPIED, NULL);
		memmove(&f->pending[i], &f->pending[i + 1],
			(--f->npending - i) * sizeof(f->pending[0]));
	}
	pthread_mutex_unlock(&f->lock);
	return due;
}

/* ---- writing ---- */

static void tell_written(const struct flight *f, const char *path, const struct err *failed)
{
	const struct flight_options *o = &f->options;
	const struct flight_freeze *z = &f->writes_of;
	const struct flight_mark *first = &z->marks[0];
	if (o->written)
		o->written(o->ctx, path, first->why, failed);
	for (const struct flight_mark *m = first + 1; m < first + z->nmarks; m++)
		if (!failed && o->joined && !m->is_again)
			o->joined(o->ctx, path, m->time_ns, m->why);
}

static void *write_copy(void *arg)
{
	struct flight *f = arg;
	struct err e = {""};
	char *path;
	const struct flight_freeze *z = &f->writes_of;
	uint64_t time_ns = z->marks[0].time_ns + realtime_offset_ns();
	const struct flight_options o = options_of(f);
	int rc = flight_file_write(&o, f->copy, time_ns, z->id, &path, &e);
	row_window_free(f->copy);
	f->copy = NULL;
	flight_files_bound(&o, rc ? NULL : path);
	pthread_mutex_lock(&f->lock);
	f->stats.files += !rc;
	f->stats.failed += rc != 0;
	set_stage(f, z->number, rc ? FLIGHT_FAILED : FLIGHT_THERE,
		  rc ? NULL : strrchr(path, '/') + 1);
	pthread_mutex_unlock(&f->lock);
	tell_written(f, path, rc ? &e : NULL);
	free(path);
	atomic_store(&f->written, true);
	return NULL;
}

static void await_writer(struct flight *f)
{
	if (f->writes)
		pthread_join(f->writer, NULL);
	f->writes = false;
}

static bool writer_is_busy(struct flight *f)
{
	if (f->writes && atomic_load(&f->written))
		await_writer(f);
	return f->writes;
}

/* Without a thread the one that looks writes: a file that is late is better than none. */
static void start_writer(struct flight *f)
{
	atomic_store(&f->written, false);
	f->writes = !thread_start(&f->writer, write_copy, f, "eacgm-flight");
	if (!f->writes)
		write_copy(f);
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static struct flight_span span_of(struct flight *f, uint64_t at_ns)
{
	const struct flight_options o = options_of(f);
	struct flight_span s = {.from_ns = at_ns > o.before_ns ? at_ns - o.before_ns : 0,
				.until_ns = at_ns + o.after_ns};
	if (s.until_ns > f->upto_ns)
		s.until_ns = later(f->upto_ns, at_ns); /* it ended before */
	s.since_ns = later(later(s.from_ns, f->began_ns), live_window_since_ns(f->window));
	if (s.since_ns > s.until_ns)
		s.since_ns = s.until_ns;
	s.whole_ns = later(s.since_ns, live_window_whole_ns(f->window));
	return s;
}

static void freeze(struct flight *f, const struct flight_freeze *z)
{
	struct flight_span span = span_of(f, z->marks[0].time_ns);
	pthread_mutex_lock(&f->lock);
	struct flight_recent *r = flight_recents_at(&f->recents, z->number);
	if (r) { /* what it has, of what it was to have */
		r->from_ns = span.since_ns;
		r->until_ns = span.until_ns;
	}
	pthread_mutex_unlock(&f->lock);
	f->writes_of = *z;
	f->copy = flight_copy(live_window_as_taken(f->window), &f->kept, &span, z);
	start_writer(f);
}

/* ---- the looker ---- */

static void note_begin(struct flight *f, const struct session_view *v)
{
	const struct feed_batch *b = v->batch;
	for (size_t i = 0; i < b->metas.len && !f->began_ns; i++)
		if (!strcmp(v->names->string(v->names->ctx, b->metas.data[i].key),
			    "start_monotonic_ns"))
			f->began_ns = strtoull(
				v->names->string(v->names->ctx, b->metas.data[i].value), NULL, 10);
	if (!f->began_ns)
		f->began_ns = b->upto_ns;
}

/* Before a batch is taken: room for what comes after a trigger. */
static void fit_window(struct flight *f)
{
	pthread_mutex_lock(&f->lock);
	bool grows = f->npending != 0;
	uint64_t keep_ns = f->options.before_ns + f->options.after_ns + LATE_NS + TOLD_NS;
	pthread_mutex_unlock(&f->lock);
	live_window_pack(f->window, RAW_BYTES, keep_ns);
	if (grows == f->grown)
		return;
	f->grown = grows;
	f->lost_ns = live_window_since_ns(f->window);
	live_window_bound(f->window, f->options.window_bytes * (grows ? 2 : 1));
}

void flight_batch(void *flight, const struct session_view *v)
{
	struct flight *f = flight;
	struct flight_freeze z;
	if (!f->began_ns)
		note_begin(f, v);
	fit_window(f);
	live_window_take(f->window, v);
	flight_kept_take(&f->kept, v->batch);
	f->upto_ns = later(f->upto_ns, v->upto_ns);
	if (!writer_is_busy(f) && take_due(f, false, &z))
		freeze(f, &z);
}

void flight_end(void *flight, const struct session_view *v)
{
	struct flight *f = flight;
	struct flight_freeze z;
	(void)v;
	await_writer(f);
	/* nothing is late any more */
	f->upto_ns = later(f->upto_ns, live_window_as_taken(f->window)->tables->last_ns);
	while (take_due(f, true, &z)) {
		freeze(f, &z);
		await_writer(f);
	}
}

void flight_free(struct flight *f)
{
	if (!f)
		return;
	await_writer(f);
	live_window_free(f->window);
	flight_kept_free(&f->kept);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* ---- files ---- */

size_t flight_files(struct flight *f, struct flight_found *ret, size_t most)
{
	size_t n = flight_files_list(&f->options, ret, most);
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < n; i++)
		flight_recents_span(&f->recents, &ret[i]);
	pthread_mutex_unlock(&f->lock);
	return n;
}

int flight_files_open(const struct flight *f, const char *name, uint64_t *ret_bytes)
{
	return flight_file_read(&f->options, name, ret_bytes);
}

const char *flight_folder(const struct flight *f)
{
	return f->options.folder;
}
