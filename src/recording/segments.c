/* segments.c - which segments there are, and when the next begins. What is written again in each is
 * kept by segment_rows.c.
 *
 * A segment that has ended is closed by the thread that syncs: to wait for the disk is its affair.
 */
#include "recording/segments.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "recording/segment_rows.h"

#define ENDING ".eacgm"

/* A segment that is not written any more. */
struct ended_segment {
	char *path;
	uint64_t bytes, end_ns; /* CLOCK_REALTIME */
	dev_t device;
	ino_t inode;
};

struct segments {
	struct segments_limits limits;
	struct output_owner owner;
	char *stem; /* NAME */
	uint32_t number;
	bool named;
	struct segment_rows rows;
	uint64_t begin_ns;		 /* CLOCK_MONOTONIC, as of the segment that is written */
	uint64_t bytes, most_grown;	 /* by one flush */
	VEC(struct ended_segment) ended; /* oldest first */
	struct rec_writer_stats sums;	 /* of those that this session has ended */
	pthread_mutex_t lock;
	struct rec_writer *writer;	  /* changes under lock */
	VEC(struct rec_writer *) closing; /* under lock */
};

static char *path_of(const struct segments *s, uint32_t number)
{
	return xasprintf("%s.%06u" ENDING, s->stem, number);
}

/* ---- those that have ended ---- */

static void note_ended(struct segments *s, char *path)
{
	struct stat st;
	if (lstat(path, &st) || !S_ISREG(st.st_mode)) {
		free(path);
		return;
	}
	*vec_push(&s->ended) = (struct ended_segment){.path = path,
						      .bytes = (uint64_t)st.st_size,
						      .end_ns = timespec_ns(&st.st_mtim),
						      .device = st.st_dev,
						      .inode = st.st_ino};
}

/* What lies in its place by now stays. */
static void remove_oldest(struct segments *s)
{
	struct ended_segment *g = &s->ended.data[0];
	struct stat st;
	if (!lstat(g->path, &st) && st.st_dev == g->device && st.st_ino == g->inode)
		unlink(g->path);
	free(g->path);
	memmove(g, g + 1, --s->ended.len * sizeof(*g));
}

static uint64_t bytes_of_all(const struct segments *s)
{
	uint64_t bytes = s->bytes;
	for (size_t i = 0; i < s->ended.len; i++)
		bytes += s->ended.data[i].bytes;
	return bytes;
}

/* more: segments that there are to be besides. */
static bool is_over(const struct segments *s, uint32_t more)
{
	const struct segments_limits *l = &s->limits;
	return (l->most_count && s->ended.len + 1 + more > l->most_count) ||
	       (l->most_bytes && bytes_of_all(s) + s->most_grown > l->most_bytes) ||
	       (l->most_age_ns && s->ended.data[0].end_ns + l->most_age_ns < realtime_ns());
}

static void remove_over(struct segments *s, uint32_t more)
{
	while (s->ended.len && is_over(s, more))
		remove_oldest(s);
}

/* ---- the one that is written ---- */

static int open_writer(struct segments *s, struct rec_writer **ret, struct err *e)
{
	struct rec_writer_options options = {.owner = s->owner, .named_when_told = true};
	char *path = path_of(s, s->number);
	int rc = rec_writer_open(ret, path, &options, e);
	free(path);
	return rc;
}

static void add_stats(struct rec_writer_stats *sums, const struct rec_writer *w)
{
	struct rec_writer_stats st;
	rec_writer_stats(w, &st);
	sums->calls += st.calls;
	sums->samples += st.samples;
	sums->gpu_spans += st.gpu_spans;
	sums->calls_dropped += st.calls_dropped;
	sums->samples_dropped += st.samples_dropped;
	sums->gpu_spans_dropped += st.gpu_spans_dropped;
	sums->bytes += st.bytes;
}

static void swap_writer(struct segments *s, struct rec_writer *next)
{
	pthread_mutex_lock(&s->lock);
	*vec_push(&s->closing) = s->writer;
	s->writer = next;
	pthread_mutex_unlock(&s->lock);
}

static bool is_full(const struct segments *s)
{
	const struct segments_limits *l = &s->limits;
	return s->named && ((l->segment_ns && monotonic_ns() - s->begin_ns >= l->segment_ns) ||
			    (l->segment_bytes && s->bytes >= l->segment_bytes));
}

static void note_bytes(struct segments *s, uint64_t before)
{
	struct rec_writer_stats st;
	rec_writer_stats(s->writer, &st);
	s->bytes = st.bytes;
	if (st.bytes - before > s->most_grown)
		s->most_grown = st.bytes - before;
}

/* What it begins with is in the file before the one before it ends. */
static int begin_next(struct segments *s, struct err *e)
{
	struct rec_writer *last = s->writer, *next = NULL;
	remove_over(s, 1);
	s->number++;
	int rc = open_writer(s, &next, e);
	if (rc)
		return rc;
	segment_rows_repeat(&s->rows, last, next);
	rc = rec_flush(next, e);
	if (!rc)
		rc = rec_writer_name(next, e);
	if (!rc)
		rc = rec_writer_end(last, false, e);
	if (rc) {
		rec_writer_close(next, false, NULL);
		return rc;
	}
	add_stats(&s->sums, last);
	swap_writer(s, next);
	note_ended(s, path_of(s, s->number - 1));
	s->begin_ns = monotonic_ns();
	note_bytes(s, 0);
	return 1;
}

int segments_flush(struct segments *s, struct err *e)
{
	int rc = rec_flush(s->writer, e);
	note_bytes(s, s->bytes);
	if (!rc && is_full(s))
		rc = begin_next(s, e);
	remove_over(s, 0);
	return rc;
}

int segments_name(struct segments *s, struct err *e)
{
	s->named = true;
	return rec_writer_name(s->writer, e);
}

/* Not under the lock: who writes waits for no disk. Nobody else closes what is synced here. */
void segments_sync(struct segments *s)
{
	pthread_mutex_lock(&s->lock);
	bool closes = s->closing.len != 0;
	struct rec_writer *w = closes ? s->closing.data[--s->closing.len] : s->writer;
	pthread_mutex_unlock(&s->lock);
	rec_writer_sync(w);
	if (closes)
		rec_writer_close(w, false, NULL);
}

void segments_stats(const struct segments *s, struct rec_writer_stats *ret)
{
	*ret = s->sums;
	add_stats(ret, s->writer);
}

/* ---- rows ---- */

static void on_string(void *ctx, uint32_t number, const char *text)
{
	struct segments *s = ctx;
	segment_rows_string(s->writer, number, text);
}

static void on_rows(void *ctx, enum row_kind kind, uint32_t number, const void *rows, size_t n)
{
	struct segments *s = ctx;
	segment_rows_put(&s->rows, s->writer, kind, number, rows, n);
}

uint32_t segments_number(const struct segments *s)
{
	return s->number;
}

struct event_listener segments_listener(struct segments *s)
{
	return (struct event_listener){.ctx = s, .string = on_string, .rows = on_rows};
}

/* ---- beginning and end ---- */

/* The number of a segment of ours, 0: it is none. */
static uint32_t number_of(const char *name, const char *stem)
{
	size_t len = strlen(stem);
	unsigned number = 0;
	int end = 0;
	if (strncmp(name, stem, len) != 0 ||
	    sscanf(name + len, ".%6u" ENDING "%n", &number, &end) != 1 || !end ||
	    name[len + (size_t)end])
		return 0;
	return number;
}

static int compare_numbers(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

/* Segments of an earlier session. */
static void find_earlier(struct segments *s)
{
	VEC(uint32_t) numbers = {0};
	const char *slash = strrchr(s->stem, '/');
	const char *name = slash ? slash + 1 : s->stem;
	char *folder = slash ? xasprintf("%.*s/", (int)(slash - s->stem), s->stem) : xstrdup(".");
	DIR *dir = opendir(folder);
	for (const struct dirent *entry; dir && (entry = readdir(dir));) {
		uint32_t number = number_of(entry->d_name, name);
		if (number)
			*vec_push(&numbers) = number;
	}
	if (dir)
		closedir(dir);
	if (numbers.len)
		qsort(numbers.data, numbers.len, sizeof(*numbers.data), compare_numbers);
	for (size_t i = 0; i < numbers.len; i++) {
		note_ended(s, path_of(s, numbers.data[i]));
		s->number = numbers.data[i];
	}
	vec_free(&numbers);
	free(folder);
}

/* So that there is room for what has ended beside the one that is written. */
static void bound_segment(struct segments_limits *l)
{
	uint64_t most = l->most_bytes / 4;
	if (most && (!l->segment_bytes || l->segment_bytes > most))
		l->segment_bytes = most;
}

int segments_open(struct segments **ret, const char *path, const struct output_owner *owner,
		  const struct segments_limits *limits, struct err *e)
{
	if ((!limits->segment_ns && !limits->segment_bytes && !limits->most_bytes) ||
	    limits->most_count == 1)
		return err_set(e, EINVAL, "segments need a length, and there are two at least");
	struct segments *s = xcalloc(1, sizeof(*s));
	size_t len = strlen(path), ending = strlen(ENDING);
	if (len > ending && !strcmp(path + len - ending, ENDING))
		len -= ending;
	s->stem = xasprintf("%.*s", (int)len, path);
	s->limits = *limits;
	s->owner = *owner;
	bound_segment(&s->limits);
	pthread_mutex_init(&s->lock, NULL);
	find_earlier(s);
	s->number++;
	remove_over(s, 0);
	int rc = open_writer(s, &s->writer, e);
	if (rc) {
		segments_free(s);
		return rc;
	}
	s->begin_ns = monotonic_ns();
	*ret = s;
	return 0;
}

int segments_finish(struct segments *s, struct err *e)
{
	int rc = rec_writer_end(s->writer, true, e);
	note_bytes(s, s->bytes);
	remove_over(s, 0);
	return rc;
}

void segments_free(struct segments *s)
{
	for (size_t i = 0; i < s->closing.len; i++) {
		rec_writer_sync(s->closing.data[i]);
		rec_writer_close(s->closing.data[i], false, NULL);
	}
	if (s->writer)
		rec_writer_close(s->writer, false, NULL);
	for (size_t i = 0; i < s->ended.len; i++)
		free(s->ended.data[i].path);
	vec_free(&s->ended);
	vec_free(&s->closing);
	segment_rows_free(&s->rows);
	pthread_mutex_destroy(&s->lock);
	free(s->stem);
	free(s);
}
