/* call_ring_files.c - the files of traced processes: which there are, whose they are, when they
 * end. What is in their rings is call_ring_records.c's concern. Files are read by pread(2), not
 * mapped: their process can cut them short at any time. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "collect/call_rings_impl.h"

#define MAX_FILES      4096
#define MAX_OF_PROCESS 512 /* and its children, in a folder of its own */
#define FILES_EVER     (1u << 31)

/* "PID", or "PID.N" of a later program of the same process. */
static bool pid_from_name(const char *name, uint32_t *ret)
{
	char *end;
	unsigned long pid = strtoul(name, &end, 10);
	*ret = (uint32_t)pid;
	size_t tail = strspn(*end == '.' ? end + 1 : end, "0123456789");
	return name[0] >= '1' && name[0] <= '9' && (!*end || (*end == '.' && !end[1 + tail])) &&
	       pid <= INT_MAX && strlen(name) < sizeof(((struct ring_file *)0)->name);
}

static bool is_known(const struct call_rings *r, const struct source *from, const char *name)
{
	for (size_t i = 0; i < r->files.len; i++)
		if (r->files.data[i].folder_fd == from->fd && !strcmp(r->files.data[i].name, name))
			return true;
	return false;
}

/* Whose a file is, by the number that its process has for itself. False: it cannot be told. */
static bool host_pid(const struct call_rings *r, const struct source *from, uint32_t *pid)
{
	uint64_t ancestor;
	if (!from->pid)
		return true;
	if (*pid != (uint32_t)from->inner_pid) /* a process may call files after others */
		return from->pid == from->inner_pid && map64_get(&r->children, *pid, &ancestor) &&
		       ancestor == (uint64_t)from->pid;
	*pid = (uint32_t)from->pid;
	return true;
}

/* Its owner may have linked a file of somebody else to here: rings are written to. */
static bool is_its_own(const struct source *from, int fd)
{
	struct stat st;
	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == from->owner &&
	       st.st_nlink == 1;
}

/* A program's file has the first name that is free, which may be that of one before whose file is
 * gone: of those that are found at once a later program's has the larger number, and those that
 * are found later are later. */
static uint64_t program_of(const struct call_rings *r, const char *name)
{
	const char *number = strchr(name, '.');
	return r->looks << 32 | (number ? strtoul(number + 1, NULL, 10) & UINT32_MAX : 0);
}

static uint64_t program_key(int folder_fd, uint32_t pid)
{
	return (uint64_t)folder_fd << 32 | pid;
}

static void add_file(struct call_rings *r, const struct source *from, const char *name,
		     uint32_t pid)
{
	int fd = openat(from->fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	if (!is_its_own(from, fd)) {
		close(fd);
		return;
	}
	struct ring_file *f = vec_push(&r->files);
	f->fd = fd;
	f->folder_fd = from->fd;
	f->pid = pid;
	f->serial = r->serial++ % FILES_EVER;
	snprintf(f->name, sizeof(f->name), "%s", name);
	f->program = program_of(r, name);
	gpu_tids_open(&f->tids, (pid_t)pid);
	r->past.processes++;
	map64_set(&r->pids, pid, 1);
	uint64_t newest = 0, key = program_key(from->fd, pid);
	map64_get(&r->programs, key, &newest);
	if (f->program > newest)
		map64_set(&r->programs, key, f->program);
}

void ring_files_find(struct call_rings *r, struct source *from)
{
	uint32_t pid;
	int fd = openat(from->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	uint32_t most = from->pid ? MAX_OF_PROCESS : UINT32_MAX;
	for (const struct dirent *entry;
	     (entry = readdir(dir)) && r->files.len < MAX_FILES && from->files < most;) {
		if (!pid_from_name(entry->d_name, &pid) || is_known(r, from, entry->d_name) ||
		    !host_pid(r, from, &pid))
			continue;
		from->files++;
		add_file(r, from, entry->d_name, pid);
	}
	closedir(dir);
}

bool ring_file_read_header(struct ring_file *f)
{
	struct call_header h;
	if (pread(f->fd, &h, sizeof(h), 0) != sizeof(h) || h.magic != CALL_MAGIC)
		return false;
	f->known = true;
	f->counted = h.counted != 0;
	f->no_slot = h.no_slot;
	f->python = h.python;
	f->python_yields = h.python_yields;
	f->python_late = h.python_late;
	return true;
}

bool ring_file_has_died(const struct call_rings *r, const struct ring_file *f)
{
	uint64_t newest = 0;
	map64_get(&r->programs, program_key(f->folder_fd, f->pid), &newest);
	if (newest > f->program)
		return true; /* it executes another one */
	return kill((pid_t)f->pid, 0) && errno == ESRCH;
}

void ring_file_empty(const struct ring_file *f)
{
	/* not what is before the ring: a thread that is just leaving may write there, and would be
	 * ended where there is no memory for that any more */
	for (uint32_t i = 0; i < CALL_THREADS_MOST; i++)
		(void)!fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 slot_offset(i) + CALL_SLOT_HEADER,
				 (off_t)(CALL_SLOT_BYTES - CALL_SLOT_HEADER));
}

void ring_file_stop(const struct ring_file *f)
{
	uint32_t stop = 1;
	if (f->known)
		pwrite(f->fd, &stop, sizeof(stop), offsetof(struct call_header, stop));
}

void ring_file_close(struct ring_file *f)
{
	close(f->fd);
	gpu_tids_free(&f->tids);
}
