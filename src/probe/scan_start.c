/* scan_start.c - at the beginning: what is to be there before anything goes on. Waits, and answers
 * held tasks meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/inside_write.h"
#include "probe/scan_impl.h"

bool tracer_hurries(const struct tracer *t)
{
	struct pollfd fd = {.fd = t->opts.hurry_fd, .events = POLLIN};
	return t->opts.hurry_fd && poll(&fd, 1, 0) > 0;
}

static void wait_a_little(struct tracer *t)
{
	struct pollfd fds[] = {{.fd = t->epoll_fd, .events = POLLIN},
			       {.fd = t->opts.hurry_fd, .events = POLLIN}};
	poll(fds, t->opts.hurry_fd ? 2 : 1, 20);
	tracer_control(t);
}

static void wait_until_read(struct tracer *t, const struct probed_file *f)
{
	while (f->state == FILE_ASKED && !tracer_hurries(t))
		wait_a_little(t);
}

static bool is_under_way(const struct scans *ss, pid_t pid)
{
	for (size_t i = 0; i < ss->list.len; i++)
		if (ss->list.data[i]->pid == pid && !ss->list.data[i]->done)
			return true;
	return false;
}

int tracer_scan_pid(struct tracer *t, pid_t pid, struct err *e)
{
	int fresh = scan_begin(t, pid, 0, e);
	if (fresh < 0)
		return fresh;
	t->scans->list.data[t->scans->list.len - 1]->was_there = true;
	scans_go_on(t);
	while (is_under_way(t->scans, pid) && !tracer_hurries(t))
		wait_a_little(t);
	return fresh;
}

/* A file of this host by its path, read and hooked; NULL when it is none, or cannot be read. */
static struct probed_file *hooked_by_path(struct tracer *t, const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return NULL;
	}
	struct probed_file *f = files_find(&t->files, st.st_dev, st.st_ino);
	if (!f)
		f = files_add(&t->files, st.st_dev, st.st_ino, path);
	if (f->fd < 0)
		f->fd = fd;
	else
		close(fd);
	files_use(&t->files, f); /* for good: it will be run again */
	if (f->state == FILE_NEW)
		reading_want(t, f);
	wait_until_read(t, f);
	if (f->state == FILE_READ)
		tracer_hook_file(t, f);
	return f->state == FILE_REFUSED ? NULL : f;
}

void tracer_hook_loaders(struct tracer *t)
{
	static const char *const loaders[] = {"/lib64/ld-linux-x86-64.so.2",
					      "/lib/ld-musl-x86_64.so.1"};
	char real[4096];
	for (size_t i = 0; i < sizeof(loaders) / sizeof(loaders[0]); i++)
		if (realpath(loaders[i], real)) /* a host may lack either */
			hooked_by_path(t, real);
}

void tracer_expect(struct tracer *t, const char *path, char *const *command)
{
	expected_begin(t, path, command);
}

int tracer_prepare_exec(struct tracer *t, const char *path, pid_t pid, struct err *e)
{
	char real[4096], linker_path[4096];
	if (!realpath(path, real))
		return err_set(e, errno, "%s: %s", path, strerror(errno));
	struct probed_file *exe = hooked_by_path(t, real);
	if (!exe)
		return 0; /* a script: its interpreter comes by exec */
	const char *interpreter = exe->facts.interpreter;
	struct probed_file *linker = NULL;
	if (interpreter[0] && realpath(interpreter, linker_path))
		linker = hooked_by_path(t, linker_path);
	/* a dynamic executable is probed when the linker holds it, after the exception guard
	 * of its libraries; nobody holds a static one */
	bool hooked = exe->state == FILE_HOOKED;
	if (exe->unguarded || (linker && t->can_hold) || (!hooked && exe->state != FILE_PROBED))
		return 0;
	if (hooked && exe->facts.hides_unwinder)
		scan_refuse_hidden(t, exe);
	else if (t->insider && !interpreter[0])
		insider_probe_static(t, exe, pid);
	else if (hooked)
		tracer_probe_file(t, exe);
	return 0;
}
