/* jit.c - code that programs make while they run: who writes for perf what it is called.
 *
 * A runtime keeps a map in text, /tmp/perf-PID.map in its own view of the file system, or a jitdump
 * file, which it maps to be found. Both are opened when the process's made code is first met, and
 * read when names are looked for: at the end, when most is in them. The map may be written as late
 * as when the process ends, so that its folder stays open too. Only a regular file of the process's
 * own user counts, no link is followed, and bytes are read by a process without rights. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/stacks.h"

#define PROCESSES_MOST 256 /* whose files are kept open */

struct jit_process {
	uint64_t key; /* pipeline_process_key */
	uint32_t inner_pid;
	uid_t user;
	int folder; /* its /tmp, -1 = none */
	int map;    /* opened early: it may be removed before the end; -1 = was not there */
	int dump;
};

struct jit {
	VEC(struct jit_process) list;
	struct map64 by_key; /* -> index + 1; 0: there is nothing to be found */
};

struct jit *jit_new(void)
{
	return xcalloc(1, sizeof(struct jit));
}

static void close_if_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

void jit_free(struct jit *j)
{
	for (size_t i = 0; i < j->list.len; i++) {
		close_if_open(j->list.data[i].folder);
		close_if_open(j->list.data[i].map);
		close_if_open(j->list.data[i].dump);
	}
	vec_free(&j->list);
	map64_free(&j->by_key);
	free(j);
}

/* ---- files ---- */

/* Which number the process knows itself by: the last of NSpid. */
static uint32_t inner_pid(const struct pipeline *p, uint32_t tgid)
{
	char path[256], line[256];
	const char *last = NULL;
	uint32_t pid = tgid;
	snprintf(path, sizeof(path), "%s/%u/status", p->proc_root, tgid);
	FILE *f = fopen(path, "re");
	while (f && !last && fgets(line, sizeof(line), f))
		if (!strncmp(line, "NSpid:", 6))
			last = strrchr(line, '\t');
	if (f)
		fclose(f);
	if (last)
		sscanf(last, "%u", &pid);
	return pid;
}

/* Takes the descriptor (O_PATH) over: what it is of is opened for reading if it is a regular file
 * of that user. */
static int open_if_own(int found, uid_t user)
{
	char path[32];
	struct stat st;
	bool own = found >= 0 && !fstat(found, &st) && S_ISREG(st.st_mode) && st.st_uid == user;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	int fd = own ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
	close_if_open(found);
	return fd;
}

static int open_map(const struct jit_process *j)
{
	char name[32];
	snprintf(name, sizeof(name), "perf-%u.map", j->inner_pid);
	int found = j->folder < 0 ? -1 : openat(j->folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return open_if_own(found, j->user);
}

static bool is_dump(const struct proc_map *m)
{
	const char *slash = strrchr(m->path, '/');
	unsigned pid;
	char end;
	return m->inode && slash && sscanf(slash, "/jit-%u.dum%c", &pid, &end) == 2 && end == 'p';
}

/* The runtime maps its jitdump file to execute, for this: that may not have been told yet. */
static int open_dump(struct pipeline *p, uint32_t tgid, uid_t user)
{
	proc_maps_t maps = {0};
	struct err e;
	int fd = -1;
	if (proc_code_read(p->proc_root, (pid_t)tgid, &maps, &e))
		return -1;
	for (size_t i = 0; i < maps.len && fd < 0; i++) {
		struct stat st;
		if (!is_dump(&maps.data[i]))
			continue;
		fd = proc_map_open(p->proc_root, (pid_t)tgid, &maps.data[i], &st);
		if (fd >= 0 && st.st_uid != user) {
			close(fd);
			fd = -1;
		}
	}
	proc_maps_free(&maps);
	return fd;
}

static bool open_process(struct pipeline *p, uint32_t tgid, struct jit_process *ret)
{
	char path[256];
	struct stat st;
	snprintf(path, sizeof(path), "%s/%u", p->proc_root, tgid);
	if (stat(path, &st))
		return false;
	*ret = (struct jit_process){.key = pipeline_process_key(p, tgid),
				    .inner_pid = inner_pid(p, tgid),
				    .user = st.st_uid};
	snprintf(path, sizeof(path), "%s/%u/root/tmp", p->proc_root, tgid);
	ret->folder = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	ret->map = open_map(ret);
	ret->dump = open_dump(p, tgid, ret->user);
	return ret->folder >= 0 || ret->dump >= 0;
}

uint32_t jit_process_of(struct pipeline *p, uint32_t tgid)
{
	struct jit *j = p->jit;
	struct jit_process process;
	uint64_t known, key = pipeline_process_key(p, tgid);
	if (p->forgets)
		return 0;
	if (map64_get(&j->by_key, key, &known))
		return (uint32_t)known;
	bool found = j->list.len < PROCESSES_MOST && open_process(p, tgid, &process);
	if (found)
		*vec_push(&j->list) = process;
	map64_set(&j->by_key, key, found ? j->list.len : 0);
	return found ? (uint32_t)j->list.len : 0;
}

/* ---- names ---- */

struct jit_batch {
	struct pipeline *p;
	const uint32_t *frames; /* by rising address */
	size_t from;
};

static void take_name(void *ctx, size_t i, const char *text)
{
	const struct jit_batch *b = ctx;
	frames_set_name(b->p, b->frames[b->from + i], text);
}

static void name_from(struct pipeline *p, uid_t user, int fd, const uint32_t *frames, size_t n)
{
	uint64_t addresses[NAMER_BATCH];
	struct jit_batch b = {.p = p, .frames = frames};
	for (b.from = 0; fd >= 0 && b.from < n; b.from += NAMER_BATCH) {
		size_t some = n - b.from < NAMER_BATCH ? n - b.from : NAMER_BATCH;
		for (size_t i = 0; i < some; i++)
			addresses[i] = frames_get(p, frames[b.from + i])->row.address;
		if (namer_jit_names(p, user, fd, addresses, some, take_name, &b))
			return;
	}
}

void jit_name(struct pipeline *p, uint32_t process, const uint32_t *frames, size_t n)
{
	const struct jit_process *j = &p->jit->list.data[process - 1];
	int late = open_map(j);
	name_from(p, j->user, j->dump, frames, n);
	name_from(p, j->user, late >= 0 ? late : j->map, frames, n);
	close_if_open(late);
}
