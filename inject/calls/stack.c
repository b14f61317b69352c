/* stack.c - asks for the mapping of the stack pointer: by the ioctl PROCMAP_QUERY of Linux 6.11
 * (include/uapi/linux/fs.h), else in the text of /proc/self/maps. pthread_getattr_np(3) says it
 * too, but allocates.
 *
 * A thread that libc has made has its control block, to which fs points, at the top of its stack's
 * mapping; the first thread has __libc_stack_end in it. */
#include "stack.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

extern void *__libc_stack_end; /* ld.so's, for libc's own libraries: GLIBC_2.2.5 */

struct procmap_query {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t vma_start, vma_end;
	uint64_t vma_flags, vma_page_size, vma_offset;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	uint32_t vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};
#define PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)

static bool ask(int fd, uint64_t address, uint64_t *low, uint64_t *high)
{
	struct procmap_query q = {.size = sizeof(q), .query_addr = address};
	if (ioctl(fd, PROCMAP_QUERY, &q))
		return false;
	*low = q.vma_start;
	*high = q.vma_end;
	return true;
}

/* One line's "low-high", a character at a time. */
struct reading {
	uint64_t number[2];
	int at; /* which of the two; 2: the rest of the line */
};

static bool read_character(struct reading *r, char c, uint64_t address)
{
	bool found = false;
	if (c == '\n') {
		*r = (struct reading){0};
	} else if (r->at < 2 && (c == '-' || c == ' ')) {
		r->at++;
		found = r->at == 2 && address >= r->number[0] && address < r->number[1];
	} else if (r->at < 2) {
		r->number[r->at] =
			r->number[r->at] << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return found;
}

static bool read_text(int fd, uint64_t address, uint64_t *low, uint64_t *high)
{
	char text[512];
	struct reading r = {0};
	for (ssize_t n; (n = read(fd, text, sizeof(text))) > 0;)
		for (ssize_t i = 0; i < n; i++)
			if (read_character(&r, text[i], address)) {
				*low = r.number[0];
				*high = r.number[1];
				return true;
			}
	return false;
}

static bool contains(uint64_t low, uint64_t high, const void *address)
{
	return (uint64_t)(uintptr_t)address >= low && (uint64_t)(uintptr_t)address < high;
}

/* The first thread's grows until here. */
static uint64_t lowest(uint64_t low, uint64_t high)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	    limit.rlim_cur > high)
		return 0;
	return high - limit.rlim_cur < low ? high - limit.rlim_cur : low;
}

bool stack_find(uint64_t *low, uint64_t *high)
{
	void *block, *sp = __builtin_frame_address(0);
	__asm__("mov %%fs:16, %0" : "=r"(block)); /* tcbhead_t's `self` */
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool found = ask(fd, (uint64_t)(uintptr_t)sp, low, high) ||
		     read_text(fd, (uint64_t)(uintptr_t)sp, low, high);
	close(fd);
	if (!found)
		return false;
	if (contains(*low, *high, __libc_stack_end)) {
		*low = lowest(*low, *high);
		return true;
	}
	return contains(*low, *high, block);
}
