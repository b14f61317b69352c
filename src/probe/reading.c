/* reading.c - has the facts of files read, one after another, by a process without rights, and
 * never waits for it: who needs a file waits in scan.c. What an earlier session was told of the
 * same file is taken at once.
 *
 * A file may be made to be slow to read. So each has a time, and files of an owner other than root
 * have a time in sum; after that they are refused. A process that read a file of somebody else
 * reads nothing more: it could have been taken over, and would lie about the next. What is kept is
 * told by one that has read nothing but files that are kept: who has mounted another file system
 * may say whose its files are. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "parser/owners.h"
#include "parser/parser.h"
#include "probe/facts_cache.h"
#include "probe/facts_keeper.h"
#include "probe/tracer_impl.h"

#define READ_MS 2000 /* a file; PyTorch's largest takes a quarter of it */
#define READ_ROOT_MS                                                                               \
	10000 /* root's: nobody makes these slow, but a disk that is read first may be */
#define READ_OWNER_NS 30000000000ULL /* PyTorch with CUDA in a home folder takes a third */
#define SLOW_NS	      1000000000ULL  /* a user's own PyTorch is read in less */
#define MANY	      200	     /* files that wait, more than a program begins with */

struct reading {
	struct parser *parser;
	VEC(struct probed_file *) queue;
	struct probed_file *file; /* being read */
	uint64_t since_ns;
	struct buf key; /* of its answer, in the cache */
	bool doubtful;	/* the process has read what is not kept */
	struct owners owners;
	struct facts_cache *cache; /* only read here */
	struct library_names names;
	struct facts_keeper *keeper;
	struct reading_stats stats;
};

struct reading *reading_new(struct parser_host *host, const struct catalog *catalog)
{
	struct reading *r = xcalloc(1, sizeof(*r));
	r->parser = parser_new(host, true);
	r->owners.most_ns = READ_OWNER_NS;
	r->cache = facts_cache_open(NULL, 0);
	r->keeper = facts_keeper_new();
	library_names_add(&r->names, catalog);
	return r;
}

void reading_free(struct reading *r)
{
	if (!r)
		return;
	parser_free(r->parser);
	vec_free(&r->queue);
	buf_free(&r->key);
	facts_cache_close(r->cache);
	facts_keeper_free(r->keeper);
	library_names_free(&r->names);
	owners_free(&r->owners);
	free(r);
}

bool reading_is_busy(const struct reading *r)
{
	return r->file != NULL;
}

void reading_stats(const struct reading *r, struct reading_stats *ret)
{
	*ret = r->stats;
}

static void refuse(struct tracer *t, struct probed_file *f, const char *reason)
{
	f->state = FILE_REFUSED;
	snprintf(f->reason, sizeof(f->reason), "%.159s", reason);
	files_unuse(&t->files, f);
}

static void key_of(const struct tracer *t, const struct probed_file *f, struct buf *ret)
{
	struct buf question = {0};
	plan_question(&t->plan, &t->reading->names, f->path, &question);
	facts_cache_key(t->reading->cache, f->fd, PARSE_FACTS, question.data, question.len, ret);
	buf_free(&question);
}

static void ask_next(struct tracer *t)
{
	struct reading *r = t->reading;
	struct err e;
	while (!r->file && r->queue.len) {
		struct probed_file *f = r->queue.data[0];
		r->queue.len--;
		memmove(r->queue.data, r->queue.data + 1, r->queue.len * sizeof(f));
		if (!owners_may(&r->owners, f->owner)) {
			f->unreadable = true;
			refuse(t, f, "files of its owner took too long to read");
			continue;
		}
		buf_free(&r->key);
		key_of(t, f, &r->key);
		if (r->doubtful && r->key.len)
			parser_renew(r->parser);
		r->doubtful = !r->key.len;
		if (parser_send(r->parser, PARSE_FACTS, f->fd, f->path, strlen(f->path),
				f->owner ? READ_MS : READ_ROOT_MS, &e)) {
			f->unreadable = true;
			refuse(t, f, e.msg);
			continue;
		}
		r->file = f;
		r->since_ns = monotonic_ns();
		struct epoll_event readable = {.events = EPOLLIN};
		epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, parser_fd(r->parser), &readable);
	}
}

/* What came of it, rc; the file is not waited for any more. */
static void end(struct tracer *t, struct probed_file *f, int rc, const struct err *e)
{
	f->unreadable |= rc == -ETIMEDOUT || rc == -EPIPE || rc == -EPROTO;
	if (rc) {
		f->state = FILE_REFUSED;
		if (rc != -ENOEXEC && (f->unreadable || plan_wants(&t->plan, f->path)))
			tracer_note(t, f->path, e->msg);
		snprintf(f->reason, sizeof(f->reason), "%.159s", e->msg);
	} else {
		f->state = FILE_READ;
		tracer_tell_plan(t);
	}
	files_unuse(&t->files, f);
}

static int take_in(struct tracer *t, struct probed_file *f, const struct buf *answer, struct err *e)
{
	return file_facts_take(&f->facts, &t->plan, f->path, answer->data, answer->len, e);
}

/* Takes the answer over. */
static void take(struct tracer *t, struct probed_file *f, int rc, struct buf *answer, struct err *e)
{
	struct reading *r = t->reading;
	if (!rc) {
		r->stats.read++;
		rc = take_in(t, f, answer, e);
	}
	if (!rc)
		facts_keeper_store(r->keeper, f->fd, &r->key, answer);
	end(t, f, rc, e);
}

/* An answer that was kept and makes no sense is asked for again, and replaced. */
static bool take_cached(struct tracer *t, struct probed_file *f)
{
	struct reading *r = t->reading;
	struct buf key, answer = {0};
	struct err e = {0};
	uint64_t began_ns = monotonic_ns();
	key_of(t, f, &key);
	int rc = -EPROTO;
	if (facts_cache_load(r->cache, &key, &answer))
		rc = take_in(t, f, &answer, &e);
	buf_free(&answer);
	buf_free(&key);
	if (rc != -EPROTO) {
		r->stats.cached++;
		end(t, f, rc, &e);
	}
	t->plan_ns += monotonic_ns() - began_ns;
	return rc != -EPROTO;
}

bool reading_recall(struct tracer *t, struct probed_file *f)
{
	struct stat st;
	if (f->fd < 0 || fstat(f->fd, &st))
		return false;
	f->owner = st.st_uid;
	files_use(&t->files, f); /* take_cached ends the use */
	if (take_cached(t, f))
		return f->state == FILE_READ;
	files_unuse(&t->files, f);
	return false;
}

void reading_want(struct tracer *t, struct probed_file *f)
{
	struct stat st;
	f->state = FILE_ASKED;
	files_use(&t->files, f);
	if (f->fd < 0 || fstat(f->fd, &st)) {
		refuse(t, f, "cannot be opened");
		return;
	}
	f->owner = st.st_uid;
	if (take_cached(t, f))
		return;
	*vec_push(&t->reading->queue) = f;
	ask_next(t);
}

bool reading_go_on(struct tracer *t)
{
	struct reading *r = t->reading;
	struct buf answer = {0};
	struct err e = {0};
	bool any = false;
	while (r->file) {
		int rc = parser_receive(r->parser, &answer, &e);
		if (rc == -EAGAIN)
			break;
		struct probed_file *f = r->file;
		uint64_t took_ns = monotonic_ns() - r->since_ns;
		t->plan_ns += took_ns;
		owners_spent(&r->owners, f->owner, took_ns);
		if (f->owner && (took_ns > SLOW_NS || r->queue.len > MANY))
			scans_press(t);
		r->file = NULL;
		take(t, f, rc, &answer, &e);
		buf_free(&answer);
		if (f->owner)
			parser_renew(r->parser);
		any = true;
		ask_next(t);
	}
	return any;
}
