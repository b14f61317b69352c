/* proc_code.c - the executable mappings of a process, asked of the kernel one by one: a process
 * with PyTorch has 1,700 mappings, of which 300 hold code, and their text costs ten times as much.
 * It knows nothing of the other mappings. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "symbolize/proc_maps.h"

/* Of /proc/PID/maps since Linux 6.11 (include/uapi/linux/fs.h); headers may be older. Device, inode
 * and name are made by the kernel as those of the text are, but for newlines, which stay. */
struct procmap_query {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t vma_start;
	uint64_t vma_end;
	uint64_t vma_flags;
	uint64_t vma_page_size;
	uint64_t vma_offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t vma_name_size; /* in: of the buffer; out: with its zero, 0 = no name */
	uint32_t build_id_size;
	uint64_t vma_name_addr;
	uint64_t build_id_addr;
};
#define PROCMAP_QUERY	       _IOWR('f', 17, struct procmap_query)
#define QUERY_EXECUTABLE       0x04
#define QUERY_COVERING_OR_NEXT 0x10
#define VSYSCALL_START	       0xffffffffff600000ULL
#define VSYSCALL_END	       0xffffffffff601000ULL

static void add(proc_maps_t *maps, const struct procmap_query *q, const char *name)
{
	/* changed between two questions: what was seen last is so */
	while (maps->len && maps->data[maps->len - 1].end > q->vma_start)
		free(maps->data[--maps->len].path);
	struct proc_map *m = vec_push(maps);
	*m = (struct proc_map){
		.start = q->vma_start,
		.end = q->vma_end,
		.file_offset = q->vma_offset,
		.device = makedev(q->dev_major, q->dev_minor),
		.inode = q->inode,
		.executable = true,
		.path = xstrdup(q->vma_name_size ? name : ""),
	};
	if (m->inode)
		proc_cut_deleted(m->path);
}

/* The text lists it for each process; it belongs to none, and is not told here. A kernel without it
 * has nothing else there. */
static void add_vsyscall(proc_maps_t *maps)
{
	*vec_push(maps) = (struct proc_map){.start = VSYSCALL_START,
					    .end = VSYSCALL_END,
					    .executable = true,
					    .path = xstrdup("[vsyscall]")};
}

/* 0, or what the kernel says: -ENOTTY before 6.11. */
static int ask_all(int fd, proc_maps_t *ret)
{
	char name[PATH_MAX];
	struct procmap_query q = {0};
	for (;;) {
		q = (struct procmap_query){
			.size = sizeof(q),
			.query_flags = QUERY_EXECUTABLE | QUERY_COVERING_OR_NEXT,
			.query_addr = q.vma_end,
			.vma_name_size = sizeof(name),
			.vma_name_addr = (uintptr_t)name,
		};
		if (ioctl(fd, PROCMAP_QUERY, &q))
			return errno == ENOENT ? 0 : -errno;
		add(ret, &q, name);
	}
}

int proc_code_ask(const char *root, pid_t pid, proc_maps_t *ret)
{
	proc_maps_t maps = {0};
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/%d/maps", root, pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int rc = ask_all(fd, &maps);
	close(fd);
	if (rc) {
		proc_maps_free(&maps);
		return rc;
	}
	add_vsyscall(&maps);
	*ret = maps;
	return 0;
}

static void keep_code(proc_maps_t *maps)
{
	size_t kept = 0;
	for (size_t i = 0; i < maps->len; i++) {
		if (maps->data[i].executable)
			maps->data[kept++] = maps->data[i];
		else
			free(maps->data[i].path);
	}
	maps->len = kept;
}

/* Whatever goes wrong with the questions (an old kernel, a name that is too long, a process without
 * memory), the text is right. */
int proc_code_read(const char *root, pid_t pid, proc_maps_t *ret, struct err *e)
{
	if (!proc_code_ask(root, pid, ret))
		return 0;
	int rc = proc_maps_read(root, pid, ret, e);
	if (!rc)
		keep_code(ret);
	return rc;
}

/* ---- what two readings have in common ---- */

bool proc_map_same(const struct proc_map *a, const struct proc_map *b)
{
	return a->start == b->start && a->end == b->end && a->file_offset == b->file_offset &&
	       a->device == b->device && a->inode == b->inode;
}

void proc_maps_copy(proc_maps_t *ret, const proc_maps_t *from)
{
	for (size_t i = 0; i < from->len; i++) {
		struct proc_map *m = vec_push(ret);
		*m = from->data[i];
		m->path = xstrdup(from->data[i].path);
	}
}
