/* namer.c - asks, and believes no more of an answer than it has to. */
#include "pipeline/namer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "parser/owners.h"
#include "pipeline/pipeline_impl.h"

#define ASK_MS	      500 /* of the reader's own time; who asks empties rings meanwhile */
#define ASK_ROOT_MS   1000
#define OWNER_NS      10000000000ULL /* of files of one owner, in sum */
#define OWNER_FAILS   3		     /* files over which readers died or fell silent */
#define READERS_MOST  8
#define NOBODY	      65534
#define NO_SENSE      "what was read of it makes no sense"
#define OWNER_REFUSED "reading files of its owner took too long or failed"

/* A process that reads files of one owner. */
struct reader {
	uid_t owner;
	struct parser *parser;
	uint64_t asked; /* number of the last question */
};

struct namer {
	struct parser_service service;
	struct reader readers[READERS_MOST];
	size_t nreaders;
	uint64_t questions;
	uint32_t handles;
	struct owners owners;
	struct map64 refused; /* uid -> 1: that was told */
};

struct namer *namer_new(const struct parser_service *readers)
{
	struct namer *n = xcalloc(1, sizeof(*n));
	if (readers)
		n->service = *readers;
	n->owners.most_ns = OWNER_NS;
	return n;
}

void namer_free(struct namer *n)
{
	for (size_t i = 0; i < n->nreaders; i++)
		parser_free(n->readers[i].parser);
	owners_free(&n->owners);
	map64_free(&n->refused);
	free(n);
}

/* ---- who is asked ---- */

/* The owner's own; where there are too many, that takes the place of the one asked longest ago. */
static struct parser *reader_of(struct namer *n, uid_t owner)
{
	struct reader *r = n->readers;
	for (size_t i = 0; i < n->nreaders; i++) {
		struct reader *other = &n->readers[i];
		if (other->owner == owner) {
			other->asked = ++n->questions;
			return other->parser;
		}
		if (other->asked < r->asked)
			r = other;
	}
	if (n->nreaders < READERS_MOST)
		r = &n->readers[n->nreaders++];
	else
		parser_free(r->parser);
	*r = (struct reader){owner, parser_new(n->service.host, true), ++n->questions};
	return r->parser;
}

static bool may_ask(struct pipeline *p, uid_t owner)
{
	struct namer *n = p->namer;
	uint64_t told;
	char who[64];
	if (!n->service.host)
		return false;
	if (owners_may(&n->owners, owner))
		return true;
	if (map64_get(&n->refused, owner, &told))
		return false;
	map64_set(&n->refused, owner, 1);
	snprintf(who, sizeof(who), "names of files of user %u", (unsigned)owner);
	pipeline_note(p, who, OWNER_REFUSED);
	return false;
}

/* -EPIPE, -ETIMEDOUT: the reader died over it, or fell silent. */
static int ask(struct pipeline *p, uid_t owner, enum namer_op op, int fd,
	       const struct buf *question, struct buf *ret, struct err *e)
{
	struct namer *n = p->namer;
	if (!may_ask(p, owner))
		return err_set(e, EACCES, OWNER_REFUSED);
	uint64_t start_ns = monotonic_ns();
	int rc = parser_ask(reader_of(n, owner), n->service.first_op + op, fd, question->data,
			    question->len, owner ? ASK_MS : ASK_ROOT_MS, ret, e);
	owners_spent(&n->owners, owner, monotonic_ns() - start_ns);
	return rc;
}

/* ---- files ---- */

static void identify(int fd, struct named_file *ret)
{
	struct stat st = {0};
	if (fd < 0 || fstat(fd, &st))
		return;
	ret->owner = st.st_uid;
	ret->size_bytes = (uint64_t)st.st_size;
	ret->written_ns = timespec_ns(&st.st_mtim);
}

static bool is_written(const struct named_file *f)
{
	struct named_file now = *f;
	identify(f->fd, &now);
	return now.size_bytes != f->size_bytes || now.written_ns != f->written_ns;
}

void namer_close(struct named_file *f)
{
	if (f->handle && f->fd >= 0)
		close(f->fd);
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a closed one has no path */
	free(f->path);
	*f = (struct named_file){.fd = -1};
}

static bool has_reader(const struct namer *n, uid_t owner)
{
	for (size_t i = 0; i < n->nreaders; i++)
		if (n->readers[i].owner == owner)
			return true;
	return false;
}

/* A reader that does not take it has its files no more. */
static void close_at_reader(struct pipeline *p, uid_t owner, const struct buf *handles)
{
	struct buf answer = {0};
	struct err e;
	if (has_reader(p->namer, owner) && ask(p, owner, NAMER_REST, -1, handles, &answer, &e))
		parser_renew(reader_of(p->namer, owner));
	buf_free(&answer);
}

bool namer_is_open(const struct named_file *f)
{
	return f->handle && f->fd >= 0;
}

bool namer_rests(const struct named_file *f)
{
	return f->handle && f->fd < 0 && !f->vdso_bytes;
}

void namer_rest(struct pipeline *p, struct named_file *const *files, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct buf handles = {0};
		uid_t owner = files[i]->owner;
		for (size_t k = i; k < n; k++) {
			if (!namer_is_open(files[k]) || files[k]->owner != owner)
				continue;
			buf_add(&handles, &files[k]->handle, sizeof(files[k]->handle));
			close(files[k]->fd);
			files[k]->fd = -1;
		}
		if (handles.len)
			close_at_reader(p, owner, &handles);
		buf_free(&handles);
	}
}

void namer_wake(struct named_file *f, int fd)
{
	if (namer_rests(f))
		f->fd = fd;
	else
		close(fd);
}

/* Of its owner little more is read. */
static void give_up_on(struct pipeline *p, uid_t owner, const char *subject, const char *why)
{
	struct namer *n = p->namer;
	pipeline_note(p, subject, why);
	parser_renew(reader_of(n, owner));
	owners_spent(&n->owners, owner, OWNER_NS / OWNER_FAILS);
}

/* No more of it. */
static void give_up(struct pipeline *p, struct named_file *f, const char *why)
{
	char *subject = xasprintf("names of %s", f->path);
	give_up_on(p, f->owner, subject, why);
	free(subject);
	namer_close(f);
}

static int ask_of(struct pipeline *p, struct named_file *f, enum namer_op op,
		  const struct buf *question, struct buf *ret, struct err *e)
{
	int rc = ask(p, f->owner, op, f->fd, question, ret, e);
	if (rc == -EPIPE || rc == -ETIMEDOUT)
		give_up(p, f, e->msg);
	return rc;
}

static bool is_hexadecimal(const char *s, size_t size)
{
	size_t len = strnlen(s, size);
	return len < size && strspn(s, "0123456789abcdef") == len;
}

static int take_facts(struct namer_facts *ret, const struct buf *answer)
{
	if (answer->len != sizeof(*ret))
		return -EPROTO;
	memcpy(ret, answer->data, sizeof(*ret));
	return ret->segments.n <= ELF_MAX_SEGMENTS &&
			       is_hexadecimal(ret->build_id, sizeof(ret->build_id))
		       ? 0
		       : -EPROTO;
}

int namer_open(struct pipeline *p, int fd, uint32_t vdso_bytes, const char *path,
	       struct named_file *ret, struct namer_facts *ret_facts, struct err *e)
{
	struct buf question = {0}, answer = {0};
	*ret = (struct named_file){.handle = ++p->namer->handles,
				   .fd = fd,
				   .vdso_bytes = vdso_bytes,
				   .path = xstrdup(path)};
	identify(fd, ret);
	struct namer_question q = {.handle = ret->handle, .vdso_bytes = vdso_bytes};
	buf_add(&question, &q, sizeof(q));
	buf_add(&question, path, strlen(path));
	int rc = ask_of(p, ret, NAMER_OPEN, &question, &answer, e);
	if (!rc && (rc = take_facts(ret_facts, &answer))) {
		err_set(e, EPROTO, NO_SENSE);
		give_up(p, ret, NO_SENSE);
	}
	if (rc)
		namer_close(ret);
	buf_free(&question);
	buf_free(&answer);
	return rc;
}

/* ---- names ---- */

/* As many texts as were asked for, each with a zero at its end. */
static bool is_texts(const struct buf *answer, size_t n)
{
	size_t zeros = 0;
	for (size_t i = 0; i < answer->len; i++)
		zeros += !answer->data[i];
	return zeros == n && (!n || !answer->data[answer->len - 1]);
}

static void tell_names(const struct buf *answer, size_t n,
		       void (*name)(void *ctx, size_t i, const char *text), void *ctx)
{
	const char *text = (const char *)answer->data;
	for (size_t i = 0; i < n; i++, text += strlen(text) + 1)
		if (text[0])
			name(ctx, i, text);
}

int namer_names(struct pipeline *p, struct named_file *f, enum namer_form form,
		const uint64_t *addresses, size_t n,
		void (*name)(void *ctx, size_t i, const char *text), void *ctx)
{
	struct buf question = {0}, answer = {0};
	struct err e;
	if (!f->handle || namer_rests(f))
		return -ENOENT;
	struct namer_question q = {.handle = f->handle,
				   .vdso_bytes = f->vdso_bytes,
				   .written = is_written(f),
				   .form = form};
	buf_add(&question, &q, sizeof(q));
	buf_add(&question, addresses, n * sizeof(*addresses));
	int rc = ask_of(p, f, NAMER_NAMES, &question, &answer, &e);
	if (!rc && !is_texts(&answer, n)) {
		rc = -EPROTO;
		give_up(p, f, NO_SENSE);
	}
	if (!rc)
		tell_names(&answer, n, name, ctx);
	buf_free(&question);
	buf_free(&answer);
	return rc;
}

int namer_jit_names(struct pipeline *p, uid_t user, int fd, const uint64_t *addresses, size_t n,
		    void (*name)(void *ctx, size_t i, const char *text), void *ctx)
{
	struct buf answer = {0};
	struct buf question = {.data = (uint8_t *)addresses, .len = n * sizeof(*addresses)};
	struct err e;
	int rc = ask(p, user, NAMER_JIT, fd, &question, &answer, &e);
	if (!rc && !is_texts(&answer, n))
		rc = -EPROTO;
	if (!rc)
		tell_names(&answer, n, name, ctx);
	else if (rc == -EPIPE || rc == -ETIMEDOUT || rc == -EPROTO)
		give_up_on(p, user, "names of made code", rc == -EPROTO ? NO_SENSE : e.msg);
	buf_free(&answer);
	return rc;
}

/* Whose words a process's are: nobody's where it has ended. */
static uid_t user_of(struct pipeline *p, uint32_t tgid)
{
	char path[64];
	struct stat st = {.st_uid = NOBODY};
	snprintf(path, sizeof(path), "%s/%u", p->proc_root, tgid);
	return stat(path, &st) ? NOBODY : st.st_uid;
}

char *namer_demangle(struct pipeline *p, uint32_t tgid, const char *symbol)
{
	struct buf question = {0}, answer = {0};
	struct err e;
	if (strncmp(symbol, "_Z", 2) != 0)
		return xstrdup(symbol);
	uid_t user = user_of(p, tgid);
	buf_add(&question, symbol, strlen(symbol));
	int rc = ask(p, user, NAMER_DEMANGLE, -1, &question, &answer, &e);
	bool is_good = !rc && is_texts(&answer, 1);
	if (rc == -EPIPE || rc == -ETIMEDOUT || (!rc && !is_good)) {
		parser_renew(reader_of(p->namer, user));
		owners_spent(&p->namer->owners, user, OWNER_NS / OWNER_FAILS);
	}
	char *name = xstrdup(is_good ? (const char *)answer.data : symbol);
	buf_free(&question);
	buf_free(&answer);
	return name;
}
