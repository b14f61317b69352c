/* store.c - the queue of batches, and the thread that writes them. */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "store/store_retain.h"
#include "store/store_rollup.h"
#include "store/store_schema.h"
#include "store/store_write.h"

#define BUSY_MS	  2000
#define LOCK_BYTE (1LL << 62)
/* In a second: processes of an agent that was killed may end a moment later. */
#define LOCK_TRIES 50
#define RETAIN_S   10 /* how often what is too old goes */

struct store {
	struct store_options options; /* its limits are of the lock */
	int file;		      /* with the lock on it that keeps others from writing */
	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* of the next six */
	pthread_cond_t wake;
	struct store_rollup rollup;
	VEC(struct store_batch) waiting;
	size_t rows; /* that wait */
	bool ends;
	int64_t tick_s; /* of who ticks */
	/* of the thread that writes */
	struct store_writer writer;
	bool failing;
	int64_t retained_s;
};

/* ---- what is said ---- */

static void say(struct store *s, const char *fmt, const char *why)
{
	char *text = xasprintf(fmt, s->options.path, why);
	s->options.say(s->options.ctx, text);
	free(text);
}

static void tell(struct store *s, int rc, const char *why)
{
	if (rc != SQLITE_OK && !s->failing)
		say(s, "the store '%s' cannot be written: %s; tries again", why);
	else if (rc == SQLITE_OK && s->failing)
		say(s, "the store '%s' is written again%s", "");
	s->failing = rc != SQLITE_OK;
}

/* ---- opening ---- */

/* Made for nobody else, which SQLite would not; no device, no pipe, no link to another file. */
static int open_file(const char *path)
{
	return open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
}

/* As far as the folder above it is there. */
static void make_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash > path ? xasprintf("%.*s", (int)(slash - path), path) : NULL;
	if (folder)
		mkdir(folder, 0700);
	free(folder);
}

/* A lock on a byte far behind the file, where SQLite has none (its own begin at 2^30). It goes with
 * the process, however that ends; where a file system knows no such lock there is none. */
static int lock_file(int fd, const char *path, struct err *e)
{
	struct flock byte = {.l_type = F_WRLCK, .l_start = LOCK_BYTE, .l_len = 1};
	for (int i = 0; fcntl(fd, F_OFD_SETLK, &byte); i++) {
		if (errno != EAGAIN && errno != EACCES)
			break;
		if (i == LOCK_TRIES)
			return err_set(e, EBUSY, "the store '%s': another agent writes to it",
				       path);
		nanosleep(&(struct timespec){.tv_nsec = 1000000000L / LOCK_TRIES}, NULL);
	}
	return 0;
}

/* *ret is closed when SQLite has closed the file: with it go the process's locks of fcntl(2). */
static int make_file(const char *path, int *ret, struct err *e)
{
	struct stat st;
	int fd = open_file(path);
	if (fd < 0 && errno == ENOENT) {
		make_folder(path);
		fd = open_file(path);
	}
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ENOENT, "the store '%s': there is no such folder", path);
	if (fd < 0)
		return err_set(e, errno, "the store '%s': %s", path, strerror(errno));
	int rc = fstat(fd, &st) || !S_ISREG(st.st_mode)
			 ? err_set(e, EINVAL, "the store '%s' is no regular file", path)
			 : lock_file(fd, path, e);
	if (rc)
		close(fd);
	else
		*ret = fd;
	return rc;
}

static int open_database(struct store *s, struct err *e)
{
	const char *path = s->options.path;
	char *name = path[0] == '/' ? xstrdup(path) : xasprintf("./%s", path);
	sqlite3 *db = NULL;
	sqlite3_initialize();
	int rc = sqlite3_open_v2(name, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	free(name);
	sqlite3_busy_timeout(db, BUSY_MS);
	if (rc == SQLITE_OK)
		rc = store_schema_bring(db, store_schema_steps, store_schema_version, path, e);
	if (rc == SQLITE_OK) {
		s->writer = (struct store_writer){.db = db};
		return rc;
	}
	if (rc != SQLITE_MISMATCH)
		err_set(e, EIO, "%s", sqlite3_errmsg(db));
	sqlite3_close(db);
	return rc;
}

int store_open(struct store **ret, const struct store_options *o, struct err *e)
{
	int file = -1;
	int failed = make_file(o->path, &file, e);
	if (failed)
		return failed;
	struct store *s = xcalloc(1, sizeof(*s));
	s->options = *o;
	s->file = file;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	int rc = open_database(s, e);
	if (rc == SQLITE_MISMATCH) {
		store_close(s, NULL);
		return -EINVAL;
	}
	tell(s, rc, e->msg);
	*ret = s;
	return 0;
}

/* ---- the thread that writes ---- */

static void retain(struct store *s, int64_t time_s)
{
	bool names;
	pthread_mutex_lock(&s->lock);
	const struct store_limits limits = {.keep_s = (int64_t)s->options.keep_s,
					    .bytes = (int64_t)s->options.most_bytes};
	pthread_mutex_unlock(&s->lock);
	store_retain(s->writer.db, &limits, time_s, &names);
	if (names)
		store_writer_forget(&s->writer);
	s->retained_s = time_s;
}

static int write_one(struct store *s, const struct store_batch *b, struct err *e)
{
	int rc = s->writer.db ? SQLITE_OK : open_database(s, e);
	if (rc != SQLITE_OK)
		return rc;
	rc = store_write(&s->writer, b);
	if (rc != SQLITE_OK)
		err_set(e, EIO, "%s", sqlite3_errstr(rc));
	/* also where there is no room: it makes some */
	if (rc != SQLITE_OK || b->time_s / RETAIN_S != s->retained_s / RETAIN_S)
		retain(s, b->time_s);
	return rc;
}

static bool has_room(const struct store *s, const struct store_batch *b)
{
	return s->waiting.len < STORE_BATCHES && s->rows + store_batch_rows(b) <= STORE_ROWS;
}

/* Puts back what could not be written, where there is room for it. */
static void put_back(struct store *s, struct store_batch *b)
{
	pthread_mutex_lock(&s->lock);
	bool fits = has_room(s, b) && !s->ends;
	if (fits) {
		vec_push(&s->waiting);
		memmove(s->waiting.data + 1, s->waiting.data,
			(s->waiting.len - 1) * sizeof(*s->waiting.data));
		s->waiting.data[0] = *b;
		s->rows += store_batch_rows(b);
	}
	pthread_mutex_unlock(&s->lock);
	if (!fits)
		store_batch_free(b);
}

/* Returns whether the next may be tried at once. */
static bool write_next(struct store *s, struct store_batch *b)
{
	struct err e = {0};
	int rc = write_one(s, b, &e);
	tell(s, rc, e.msg);
	if (rc == SQLITE_OK)
		store_batch_free(b);
	else
		put_back(s, b);
	return rc == SQLITE_OK;
}

/* With the lock held. false: it ends, and there is nothing left. */
static bool take_next(struct store *s, struct store_batch *ret)
{
	if (!s->waiting.len)
		return false;
	*ret = s->waiting.data[0];
	s->waiting.len--;
	s->rows -= store_batch_rows(ret);
	memmove(s->waiting.data, s->waiting.data + 1, s->waiting.len * sizeof(*s->waiting.data));
	return true;
}

static void *write_all(void *ctx)
{
	struct store *s = ctx;
	struct store_batch next;
	bool may = true;
	pthread_mutex_lock(&s->lock);
	for (;;) {
		/* what failed is tried again when the next batch comes */
		while (!s->ends && (!s->waiting.len || !may)) {
			pthread_cond_wait(&s->wake, &s->lock);
			may = true;
		}
		if (!take_next(s, &next))
			break;
		pthread_mutex_unlock(&s->lock);
		may = write_next(s, &next);
		pthread_mutex_lock(&s->lock);
		if (!may && s->ends)
			break;
	}
	pthread_mutex_unlock(&s->lock);
	if (may && s->writer.db)
		store_write_end(&s->writer);
	return NULL;
}

int store_start(struct store *s, struct err *e)
{
	int rc = thread_start(&s->thread, write_all, s, "eacgm-store");
	s->started = !rc;
	return rc ? err_set(e, -rc, "cannot start the store's thread: %s", strerror(-rc)) : 0;
}

/* ---- what comes ---- */

/* With the lock held. Of what waits too long the oldest goes. */
static void hand_over(struct store *s, const struct store_batch *b)
{
	struct store_batch oldest;
	while (!has_room(s, b) && take_next(s, &oldest))
		store_batch_free(&oldest);
	*vec_push(&s->waiting) = *b;
	s->rows += store_batch_rows(b);
	pthread_cond_signal(&s->wake);
}

static void take_batch(struct store *s, const struct store_seen *seen, uint64_t now_ns,
		       int64_t offset)
{
	struct store_batch b = store_rollup_take(&s->rollup, seen, now_ns, offset);
	hand_over(s, &b);
}

void store_tick(struct store *s, const struct store_seen *seen, uint64_t now_ns)
{
	int64_t offset = (int64_t)realtime_offset_ns(),
		now_s = ((int64_t)now_ns + offset) / 1000000000;
	if (now_s == s->tick_s)
		return;
	s->tick_s = now_s;
	pthread_mutex_lock(&s->lock);
	take_batch(s, seen, now_ns, offset);
	pthread_mutex_unlock(&s->lock);
}

void store_event(struct store *s, uint64_t time_ns, const char *entity, const char *name,
		 const char *text)
{
	int64_t real = (int64_t)(time_ns ? time_ns + realtime_offset_ns() : realtime_ns());
	pthread_mutex_lock(&s->lock);
	store_rollup_event(&s->rollup, real, entity, name, text);
	pthread_mutex_unlock(&s->lock);
}

void store_incident(struct store *s, const struct incident_said *told)
{
	int64_t offset = (int64_t)realtime_offset_ns();
	pthread_mutex_lock(&s->lock);
	store_rollup_incident(&s->rollup, told, offset);
	pthread_mutex_unlock(&s->lock);
}

void store_tree(struct store *s, struct store_tree tree)
{
	pthread_mutex_lock(&s->lock);
	store_rollup_tree(&s->rollup, tree);
	pthread_mutex_unlock(&s->lock);
}

void store_limit(struct store *s, uint64_t keep_s, uint64_t most_bytes)
{
	pthread_mutex_lock(&s->lock);
	s->options.keep_s = keep_s;
	s->options.most_bytes = most_bytes;
	pthread_mutex_unlock(&s->lock);
}

/* ---- its end ---- */

static void end_thread(struct store *s, const struct store_seen *seen)
{
	pthread_mutex_lock(&s->lock);
	if (s->tick_s)
		take_batch(s, seen, monotonic_ns(), (int64_t)realtime_offset_ns());
	s->ends = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
}

void store_close(struct store *s, const struct store_seen *seen)
{
	static const struct live_series none;
	struct store_batch left;
	if (s->started)
		end_thread(s, seen ? seen : &(struct store_seen){.series = &none});
	while (take_next(s, &left))
		store_batch_free(&left);
	vec_free(&s->waiting);
	store_rollup_free(&s->rollup);
	store_writer_close(&s->writer);
	close(s->file);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
