/* expected.c - a list of paths a command, kept as the caches are: a file HASH.files. The hash is of
 * the executable, the arguments and the working folder, so that none of these is kept. Two commands
 * of the same hash expect each other's files, in vain. */
#include "probe/expected.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache_folder.h"
#include "base/clock.h"
#include "base/map64.h"
#include "probe/scan_impl.h"

#define TURN_NS	     1000000 /* whoever is held comes first */
#define FILES_MOST   1024
#define FILE_BYTES   (256 << 10)
#define RULES_A_LOOK 32
#define ENDING	     ".files"

static const char magic[8] = "eACGMEx";

struct expected {
	char name[32];
	struct buf kept; /* magic, then paths, each with its zero */
	size_t at;	 /* of the next path */
	VEC(struct probed_file *) files;
	size_t next_hook, next_probe, next_rules;
	bool looked; /* at some on behalf of this process, for their rules */
};

/* ---- the folder ---- */

static struct cache_folder *open_folder(void)
{
	const struct cache_kind kind = {.folder = "expected",
					.ending = ENDING,
					.max_bytes = 16 << 20,
					.max_files = 1024,
					.max_bytes_a_file = FILE_BYTES};
	return geteuid() ? NULL : cache_folder_open(NULL, &kind);
}

static bool is_list(void *ctx, const uint8_t *bytes, size_t len)
{
	(void)ctx;
	return len > sizeof(magic) && !memcmp(bytes, magic, sizeof(magic)) && !bytes[len - 1];
}

static void name_of(const char *path, char *const *command, char ret[32])
{
	char folder[PATH_MAX] = "";
	struct buf key = {0};
	buf_add(&key, path, strlen(path) + 1);
	for (size_t i = 0; command[i]; i++)
		buf_add(&key, command[i], strlen(command[i]) + 1);
	if (getcwd(folder, sizeof(folder)))
		buf_add(&key, folder, strlen(folder));
	snprintf(ret, 32, "%016" PRIx64 ENDING, hash_bytes(key.data, key.len));
	buf_free(&key);
}

void expected_keep(const struct tracer *t)
{
	const struct expected *x = t->expected;
	struct buf list = {0};
	size_t n = 0;
	if (!x)
		return;
	buf_add(&list, magic, sizeof(magic));
	for (size_t i = 0; i < t->files.list.len && n < FILES_MOST; i++) {
		const struct probed_file *f = t->files.list.data[i];
		if (f->expected || f->state < FILE_HOOKED || f->state == FILE_REFUSED)
			continue;
		buf_add(&list, f->path, strlen(f->path) + 1);
		n++;
	}
	if (n && list.len <= FILE_BYTES &&
	    (list.len != x->kept.len || memcmp(list.data, x->kept.data, list.len))) {
		struct cache_folder *folder = open_folder();
		cache_folder_store(folder, x->name, list.data, list.len);
		cache_folder_close(folder);
	}
	buf_free(&list);
}

void expected_free(struct expected *x)
{
	if (!x)
		return;
	buf_free(&x->kept);
	vec_free(&x->files);
	free(x);
}

/* ---- files ---- */

/* A regular file: whatever else has the name by now is not opened. */
static int open_regular(const char *path, struct stat *st)
{
	char link[32];
	int named = open(path, O_PATH | O_CLOEXEC), fd = -1;
	if (named < 0)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", named);
	if (!fstat(named, st) && S_ISREG(st->st_mode))
		fd = open(link, O_RDONLY | O_CLOEXEC);
	close(named);
	return fd;
}

static void expect(struct tracer *t, const char *path)
{
	struct stat st;
	int fd = path[0] == '/' ? open_regular(path, &st) : -1;
	if (fd < 0)
		return;
	if (files_find(&t->files, st.st_dev, st.st_ino)) {
		close(fd);
		return;
	}
	struct probed_file *f = files_add(&t->files, st.st_dev, st.st_ino, path);
	f->fd = fd;
	f->expected = true;
	if (!reading_recall(t, f)) {
		files_remove(&t->files, f);
		return;
	}
	files_use(&t->files, f); /* until the end: it is in our list */
	*vec_push(&t->expected->files) = f;
}

/* As if this process had mapped them: rules are loaded for who has, and stay until there is no room
 * for others. A few at a time, since a process that has come is served in between. */
static void look_at_rules(struct tracer *t)
{
	struct expected *x = t->expected;
	proc_maps_t maps = {0};
	for (int i = 0; i < RULES_A_LOOK && x->next_rules < x->files.len; i++) {
		const struct probed_file *f = x->files.data[x->next_rules++];
		*vec_push(&maps) = (struct proc_map){
			.device = f->device, .inode = f->inode, .path = xstrdup(f->path)};
	}
	unwinder_look(t->unwinder, getpid(), &maps);
	x->looked = true;
}

/* True when there are no more; who is told that rules are there calls again. */
static bool rules_go_on(struct tracer *t)
{
	struct expected *x = t->expected;
	if (x->looked && !unwinder_settle(t->unwinder, getpid(), 0))
		return false;
	if (t->unwinder && x->next_rules < x->files.len) {
		look_at_rules(t);
		return false;
	}
	if (x->looked)
		unwinder_forget(t->unwinder, getpid());
	x->looked = false;
	return true;
}

/* What is not mapped may go like all that nobody has mapped. */
static void let_go(struct tracer *t)
{
	struct expected *x = t->expected;
	for (size_t i = 0; i < x->files.len; i++)
		files_unuse(&t->files, x->files.data[i]);
	vec_free(&x->files);
}

static void expect_next(struct tracer *t)
{
	struct expected *x = t->expected;
	const char *path = (const char *)x->kept.data + x->at;
	x->at += strlen(path) + 1;
	expect(t, path);
}

static void hook_next(struct tracer *t)
{
	struct probed_file *f = t->expected->files.data[t->expected->next_hook++];
	if (f->state == FILE_READ)
		tracer_hook_file(t, f);
}

/* Hooks first, as in scan.c; false when all are probed. */
static bool go_on(struct tracer *t)
{
	struct expected *x = t->expected;
	if (x->at < x->kept.len)
		expect_next(t);
	else if (x->next_hook < x->files.len)
		hook_next(t);
	else if (x->next_probe < x->files.len)
		scan_probe_expected(t, x->files.data[x->next_probe++]);
	else
		return false;
	return true;
}

bool expected_go_on(struct tracer *t)
{
	uint64_t until_ns = monotonic_ns() + TURN_NS;
	struct expected *x = t->expected;
	bool more = x && (x->files.len || x->at < x->kept.len);
	if (!more)
		return false;
	while (more && monotonic_ns() < until_ns)
		more = go_on(t);
	if (rules_go_on(t) && !more)
		let_go(t);
	return more;
}

/* ---- beginning ---- */

void expected_begin(struct tracer *t, const char *path, char *const *command)
{
	struct expected *x = xcalloc(1, sizeof(*x));
	struct cache_folder *folder = open_folder();
	name_of(path, command, x->name);
	if (t->method == ATTACH_SESSION && t->can_hold)
		cache_folder_load(folder, x->name, is_list, NULL, &x->kept);
	cache_folder_close(folder);
	x->at = sizeof(magic);
	t->expected = x;
	for (int i = 0; i < RULES_A_LOOK && x->at < x->kept.len; i++)
		expect_next(t);
	scans_go_on(t); /* their rules are copied while the first hook is waited for */
}
