/* scan_files.c - the files that a process has mapped: opened once, known once, and what makes a
 * process, or a file, one that is not probed. */
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "probe/scan_impl.h"

#define SCAN_FILES 4096
#define HIDDEN_UNWINDER                                                                            \
	"its exception unwinder is linked in and stripped of its symbols, so exceptions could "    \
	"not pass traced functions"

/* Whether an open file is the one that was mapped. The process may have mapped another one there
 * since; btrfs alone shows another device number in /proc/PID/maps than stat(2) gives, and nobody
 * else can make one of those. */
static bool is_mapped_file(int fd, const struct stat *st, const struct proc_map *m)
{
	struct statfs fs;
	return st->st_ino == m->inode &&
	       (st->st_dev == m->device ||
		(!fstatfs(fd, &fs) && (uint32_t)fs.f_type == BTRFS_SUPER_MAGIC));
}

/* The registry entry of a file that is found by its own numbers, and by the mapping's as well where
 * those are of the same file. */
static struct probed_file *entry_of(struct tracer *t, int fd, const struct stat *st,
				    const struct proc_map *m)
{
	struct probed_file *f = files_find(&t->files, st->st_dev, st->st_ino);
	char link[32], path[4096];
	if (is_mapped_file(fd, st, m)) {
		if (!f)
			return files_add(&t->files, m->device, m->inode, m->path);
		files_alias(&t->files, m->device, m->inode, f);
	}
	if (f)
		return f;
	/* the mapping's name is of the file that was there before */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = 0;
	proc_cut_deleted(path);
	return files_add(&t->files, st->st_dev, st->st_ino, path);
}

/* The registry entry of a mapping, opened once: what is read is what is attached to, and
 * an inode that is held open is not given to another file. */
static struct probed_file *file_of(struct tracer *t, pid_t pid, const struct proc_map *m)
{
	struct stat st;
	struct probed_file *f = files_find(&t->files, m->device, m->inode);
	if (f && f->fd >= 0)
		return f;
	int fd = proc_map_open("/proc", pid, m, &st);
	if (fd < 0)
		return f ? f : files_add(&t->files, m->device, m->inode, m->path);
	if (!f || !is_mapped_file(fd, &st, m))
		f = entry_of(t, fd, &st, m);
	if (f->fd >= 0) {
		close(fd);
		return f;
	}
	f->fd = fd;
	if (f->state == FILE_REFUSED) /* it could not be opened before */
		f->state = FILE_NEW;
	return f;
}

void scan_list_files(struct tracer *t, struct scan *s)
{
	for (size_t i = 0; i < s->maps.len && s->files.len < SCAN_FILES; i++) {
		const struct proc_map *m = &s->maps.data[i];
		if (!m->inode)
			continue;
		struct probed_file *f = file_of(t, s->pid, m);
		files_use(&t->files, f);
		t->files_expected += f->expected && f->state == FILE_PROBED;
		f->expected = false;
		*vec_push(&s->files) = f;
		*vec_push(&s->map_of) = i;
		s->fresh += f->state == FILE_NEW;
		if (f->state == FILE_NEW)
			reading_want(t, f);
	}
}

/* ---- what is not probed ---- */

/* Libraries that run code on stacks of their own making. The kernel takes a thread's
 * pending return probes for one stack: a switch in between makes a call return to where
 * another was called from. greenlet copies what it switches from and to the thread's own stack. */
#define STACK_COPIER "_greenlet*.so*"
static const char *const stack_switchers[] = {STACK_COPIER, "libboost_context*.so*",
					      "libboost_coroutine*.so*", "libboost_fiber*.so*"};

/* Takes a process out of tracing for good, and says why. */
static void exclude(struct tracer *t, pid_t pid, const char *file, const char *why)
{
	char subject[32], reason[480];
	struct err full;
	int rc = tracer_exclude(t, pid, EXCLUDED_UNSAFE, EXCLUDED_UNSAFE, &full);
	/* other links cannot leave a process out: they reach all that map the file */
	bool all_off = rc < 0 || t->method != ATTACH_SESSION;
	if (!rc || (rc < 0 && t->switching.off_for_good))
		return; /* it is out already */
	t->excluded_any = true;
	snprintf(subject, sizeof(subject), "process %d", pid);
	snprintf(reason, sizeof(reason), "not traced since it loaded %.120s: %s%s%s%.120s", file,
		 why, all_off ? "; all probes were taken off" : "", rc < 0 ? ", since " : "",
		 rc < 0 ? full.msg : "");
	tracer_note(t, subject, reason);
	if (all_off)
		tracer_all_off(t);
}

bool scan_copies_stacks(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && !fnmatch(STACK_COPIER, slash + 1, 0);
}

static bool switches_stacks(const char *path)
{
	const char *slash = strrchr(path, '/');
	for (size_t k = 0; slash && k < sizeof(stack_switchers) / sizeof(char *); k++)
		if (!fnmatch(stack_switchers[k], slash + 1, 0))
			return true;
	return false;
}

void scan_exclude_unsafe(struct tracer *t, struct scan *s)
{
	char exe[4096] = "";
	proc_exe("/proc", s->pid, exe, sizeof(exe));
	for (size_t i = 0; i < s->files.len; i++) {
		const struct probed_file *f = s->files.data[i];
		const struct proc_map *m = &s->maps.data[s->map_of.data[i]];
		s->copies_stacks |= scan_copies_stacks(m->path);
		if (switches_stacks(m->path))
			exclude(t, s->pid, strrchr(m->path, '/') + 1,
				t->opts.inside
					? "it switches stacks, which the kernel's return probes do "
					  "not survive; what is told inside of it is told"
					: "it switches stacks, which return probes do not survive");
		if (f->unreadable)
			exclude(t, s->pid, m->path, "what is in it could not be read");
		/* a library's hidden unwinder handles its own exceptions; a program's handles all
		 * that its libraries call back into */
		if (f->facts.hides_unwinder && !strcmp(m->path, exe))
			exclude(t, s->pid, m->path, HIDDEN_UNWINDER);
	}
}

void scan_refuse_hidden(struct tracer *t, struct probed_file *f)
{
	f->state = FILE_PROBED;
	if (plan_wants(&t->plan, f->path))
		tracer_note(t, f->path, "not traced: " HIDDEN_UNWINDER);
}

/* ---- what programs are told ---- */

static bool has_stacks(const struct probed_file *f)
{
	for (size_t g = 0; g < f->groups.len; g++)
		for (size_t i = 0; i < f->groups.data[g].sites.len; i++)
			if (f->groups.data[g].sites.data[i].cookie & COOKIE_WITH_STACK)
				return true;
	return false;
}

/* Each process that maps it is to have its probes written. */
static bool is_probed_inside(const struct probed_file *f)
{
	for (size_t g = 0; g < f->groups.len; g++)
		if (f->groups.data[g].inside)
			return true;
	return false;
}

void scan_tell_known(struct tracer *t, struct probed_file *f)
{
	struct known_file key = known_file_of(f->device, f->inode);
	if (f->known || f->fd < 0 || f->unguarded || f->unreadable || f->facts.hides_unwinder ||
	    switches_stacks(f->path) || is_probed_inside(f))
		return;
	bool ruled = t->opts.leaves_out && f->groups.len;
	uint8_t how = has_stacks(f) ? KNOWN_AWAITED : ruled ? KNOWN_RULED : KNOWN_FILE;
	f->known = !bpf_map_update_elem(bpf_map__fd(t->bpf->maps.known_files), &key, &how, BPF_ANY);
}

struct known_file known_file_of(uint64_t device, uint64_t inode)
{
	return (struct known_file){
		.device = (uint64_t)gnu_dev_major(device) << 20 | gnu_dev_minor(device),
		.inode = inode,
	};
}
