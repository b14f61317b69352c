/* files.c - the registry of mapped files. */
#include "base/clock.h"
#include "base/thread.h"
#include "probe/files.h"

#include <pthread.h>
#include <unistd.h>

#define UNUSED_MOST 512 /* files that nobody has mapped now; a host runs so many programs again */
#define CLOSERS	    32

static uint64_t inode_key(uint64_t device, uint64_t inode)
{
	return hash_u64(device) ^ inode;
}

struct probed_file *files_find(const struct files *fs, uint64_t device, uint64_t inode)
{
	uint64_t f;
	return map64_get(&fs->by_inode, inode_key(device, inode), &f) ? (struct probed_file *)f
								      : NULL;
}

struct probed_file *files_add(struct files *fs, uint64_t device, uint64_t inode, const char *path)
{
	struct probed_file *f = xcalloc(1, sizeof(*f));
	f->device = device;
	f->inode = inode;
	f->path = xstrdup(path);
	f->fd = -1;
	f->number = ++fs->added & 0x7fffffffU;
	files_alias(fs, device, inode, f);
	*vec_push(&fs->list) = f;
	fs->unused++;
	f->unused = ++fs->events;
	f->unused_ns = monotonic_ns();
	return f;
}

void files_alias(struct files *fs, uint64_t device, uint64_t inode, struct probed_file *f)
{
	uint64_t key = inode_key(device, inode);
	map64_set(&fs->by_inode, key, (uint64_t)f);
	*vec_push(&f->keys) = key;
}

/* What was planned is in groups once the file is probed; one that hides its unwinder never is. */
bool files_has_probes(const struct probed_file *f)
{
	return f->groups.len || (f->facts.plan.sites.len && !f->facts.hides_unwinder);
}

void files_use(struct files *fs, struct probed_file *f)
{
	fs->unused -= !f->users;
	f->users++;
}

void files_unuse(struct files *fs, struct probed_file *f)
{
	f->unused = ++fs->events;
	f->unused_ns = monotonic_ns();
	files_unpin(fs, f);
}

void files_unpin(struct files *fs, struct probed_file *f)
{
	fs->unused += !--f->users;
}

struct probed_file *files_surplus(const struct files *fs)
{
	struct probed_file *oldest = NULL;
	if (fs->unused <= UNUSED_MOST)
		return NULL;
	for (size_t i = 0; i < fs->list.len; i++) {
		struct probed_file *f = fs->list.data[i];
		if (!f->users && f->state != FILE_ASKED && !f->facts.hooks[HOOK_UNWIND_BEGINS].n &&
		    (!oldest || f->unused < oldest->unused))
			oldest = f;
	}
	return oldest;
}

bool files_is_unused(const struct probed_file *f, uint64_t before_ns)
{
	return !f->users && f->unused_ns < before_ns && f->state != FILE_ASKED;
}

bool files_is_plain(const struct probed_file *f)
{
	bool hooks = f->hooks.fds.len || f->facts.hides_unwinder || f->unreadable || f->unguarded;
	for (int kind = 0; kind < HOOK_KINDS; kind++)
		hooks |= f->facts.hooks[kind].n > 0;
	return f->state == FILE_PROBED && !hooks && !f->groups.len && !f->facts.plan.results.len &&
	       !f->facts.plan.sites.len;
}

static void free_file(struct probed_file *f)
{
	for (size_t g = 0; g < f->groups.len; g++)
		vec_free(&f->groups.data[g].sites);
	vec_free(&f->groups);
	vec_free(&f->keys);
	file_facts_free(&f->facts);
	if (f->fd >= 0)
		close(f->fd);
	free(f->path);
	free(f);
}

void files_remove(struct files *fs, struct probed_file *f)
{
	uint64_t at;
	for (size_t i = 0; i < f->keys.len; i++)
		if (map64_get(&fs->by_inode, f->keys.data[i], &at) && at == (uint64_t)f)
			map64_del(&fs->by_inode, f->keys.data[i]);
	for (size_t i = 0; i < fs->list.len; i++)
		if (fs->list.data[i] == f)
			fs->list.data[i] = fs->list.data[--fs->list.len];
	fs->unused -= !f->users;
	free_file(f);
}

/* ---- the end ---- */

/* Each link that goes waits until no program runs in the kernel: many wait together. */
struct closing {
	VEC(struct attach_links) links;
	size_t next; /* atomic */
	pthread_t threads[CLOSERS];
	size_t nthreads;
};

static void *close_some(void *arg)
{
	struct closing *c = arg;
	size_t i;
	while ((i = __atomic_fetch_add(&c->next, 1, __ATOMIC_SEQ_CST)) < c->links.len)
		attach_detach(&c->links.data[i]);
	return NULL;
}

static struct closing *closing_new(void)
{
	return xcalloc(1, sizeof(struct closing));
}

static void take_links(struct closing *c, struct attach_links *links)
{
	if (links->fds.len)
		*vec_push(&c->links) = *links;
	*links = (struct attach_links){0};
}

/* In no order. */
static void take_each(struct closing *c, struct attach_links *links)
{
	for (size_t i = 0; i < links->fds.len; i++) {
		struct attach_links one = {0};
		*vec_push(&one.fds) = links->fds.data[i];
		take_links(c, &one);
	}
	vec_free(&links->fds);
}

static void closing_begin(struct closing *c)
{
	while (c->nthreads < CLOSERS && c->nthreads < c->links.len &&
	       !thread_start(&c->threads[c->nthreads], close_some, c, "eacgm-close"))
		c->nthreads++;
}

/* NULL: there is none. */
static void closing_end(struct closing *c)
{
	if (!c)
		return;
	close_some(c);
	while (c->nthreads > 0)
		pthread_join(c->threads[--c->nthreads], NULL);
	vec_free(&c->links);
	free(c);
}

static void close_all(struct closing *c)
{
	closing_begin(c);
	closing_end(c);
}

static void close_probes(struct files *fs)
{
	struct closing *c = closing_new();
	for (size_t i = 0; i < fs->list.len; i++) {
		struct probed_file *f = fs->list.data[i];
		for (size_t g = 0; g < f->groups.len; g++)
			take_links(c, &f->groups.data[g].links);
	}
	close_all(c);
}

static void close_hooks(struct files *fs)
{
	struct closing *c = closing_new();
	for (size_t i = 0; i < fs->list.len; i++)
		take_links(c, &fs->list.data[i]->hooks);
	close_all(c);
}

void files_detach(struct files *fs)
{
	struct closing *c = closing_new();
	for (size_t i = 0; i < fs->list.len; i++) {
		struct probed_file *f = fs->list.data[i];
		for (size_t g = 0; g < f->groups.len; g++)
			take_each(c, &f->groups.data[g].links);
		take_each(c, &f->hooks);
	}
	closing_begin(c);
	fs->closing = c;
}

void files_free(struct files *fs)
{
	/* spans first: the exception guard must outlive every return probe */
	close_probes(fs);
	close_hooks(fs);
	closing_end(fs->closing);
	for (size_t i = 0; i < fs->list.len; i++)
		free_file(fs->list.data[i]);
	vec_free(&fs->list);
	map64_free(&fs->by_inode);
}
