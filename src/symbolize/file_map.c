/* file_map.c - maps files so that one that is cut short reads as zeros there.
 *
 * A page of a mapping that its file no longer has raises SIGBUS (man 2 mmap). Files of other
 * users are mapped here, and any of them may cut theirs. So the first file installs a handler
 * of SIGBUS: when the page is one of these files' it lays zeros over it and all that follows
 * (the file ends before it), and the read goes on. Faults elsewhere go to the handler that was
 * there before, or end the program as they would have.
 *
 * The handler takes no locks. Ranges are in a list that only grows: those of closed files are
 * used again. A range whose bounds change is of a file that nobody reads at that moment, and
 * the start, read before and after the end, tells that it changed. */
#include "symbolize/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"

struct file_range {
	_Atomic uintptr_t start; /* 0: free */
	_Atomic uintptr_t end;
	struct file_range *next;
};

static struct file_range *_Atomic ranges;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for those who change the list */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sigaction before; /* what did SIGBUS before */
static uintptr_t page_bytes;

/* ---- the handler ---- */

/* The end of the range that an address is in, or 0. */
static uintptr_t range_end(uintptr_t at)
{
	for (const struct file_range *r = atomic_load(&ranges); r; r = r->next) {
		uintptr_t start = atomic_load(&r->start);
		uintptr_t end = atomic_load(&r->end);

		if (start && start <= at && at < end && atomic_load(&r->start) == start)
			return end;
	}
	return 0;
}

static bool lay_zeros(uintptr_t at)
{
	uintptr_t page = at & ~(page_bytes - 1), end = range_end(at);

	return end &&
	       mmap((void *)page, end - page, PROT_READ,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static void pass_on(int number, siginfo_t *info, void *context)
{
	struct sigaction standard = {.sa_handler = SIG_DFL};

	if (before.sa_flags & SA_SIGINFO) {
		before.sa_sigaction(number, info, context);
	} else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
		before.sa_handler(number);
	} else if (info->si_code > 0 || before.sa_handler == SIG_DFL) {
		/* a fault comes again on return; one that was sent has to be sent again */
		sigaction(number, &standard, NULL);
		if (info->si_code <= 0)
			raise(number);
	}
}

static void on_sigbus(int number, siginfo_t *info, void *context)
{
	int code = errno;

	if (info->si_code != BUS_ADRERR || !lay_zeros((uintptr_t)info->si_addr))
		pass_on(number, info, context);
	errno = code;
}

static void install(void)
{
	struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, &before);
}

/* ---- ranges ---- */

static struct file_range *take_range(uintptr_t start, uintptr_t end)
{
	struct file_range *r;

	pthread_mutex_lock(&lock);
	for (r = atomic_load(&ranges); r && atomic_load(&r->start); r = r->next)
		;
	if (!r) {
		r = xcalloc(1, sizeof(*r));
		r->next = atomic_load(&ranges);
		atomic_store(&ranges, r);
	}
	atomic_store(&r->end, end);
	atomic_store(&r->start, start);
	pthread_mutex_unlock(&lock);
	return r;
}

static void give_range(struct file_range *r)
{
	pthread_mutex_lock(&lock);
	atomic_store(&r->start, 0);
	pthread_mutex_unlock(&lock);
}

/* ---- files ---- */

static size_t whole_pages(size_t len)
{
	return (len + page_bytes - 1) & ~(page_bytes - 1);
}

/* A page of zeros follows the file: a string that lost its end stops there. */
static int map(struct file_map *m, int fd)
{
	size_t len = whole_pages(m->len);
	uint8_t *room = mmap(NULL, len + page_bytes, PROT_READ,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (room == MAP_FAILED)
		return -errno;
	/* shared: the kernel writes the breakpoints of other tracers into private mappings */
	if (mmap(room, m->len, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		int code = errno;

		munmap(room, len + page_bytes);
		return -code;
	}
	m->data = room;
	m->range = take_range((uintptr_t)room, (uintptr_t)room + len);
	return 0;
}

/* What cannot be read, since the file was cut meanwhile, stays zeros. */
static int copy(struct file_map *m, int fd)
{
	size_t done = 0;
	ssize_t n = 1;

	m->copy = xcalloc(1, m->len + page_bytes);
	m->data = m->copy;
	while (done < m->len && n) {
		n = pread(fd, (uint8_t *)m->copy + done, m->len - done, (off_t)done);
		if (n < 0 && errno != EINTR) {
			int code = errno;

			free(m->copy);
			return -code;
		}
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int file_map_open_fd(struct file_map *ret, int fd, const char *name, size_t copy_bytes,
		     struct err *e)
{
	struct file_map m = {0};
	struct stat st;
	int rc;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, ENOEXEC, "%s: not a regular file", name);
	if (st.st_size == 0)
		return err_set(e, ENOEXEC, "%s: empty", name);
	pthread_once(&once, install);
	m.len = st.st_size;
	m.owner = st.st_uid;
	rc = m.len <= copy_bytes ? copy(&m, fd) : map(&m, fd);
	if (rc < 0)
		return err_set(e, -rc, "%s: cannot map: %s", name, strerror(-rc));
	*ret = m;
	return 0;
}

int file_map_open(struct file_map *ret, const char *path, size_t copy_bytes, struct err *e)
{
	/* Without O_NONBLOCK a fifo at that path would wait for a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int rc;

	if (fd < 0)
		return err_set(e, errno, "%s: %s", path, strerror(errno));
	rc = file_map_open_fd(ret, fd, path, copy_bytes, e);
	close(fd);
	return rc;
}

void file_map_rest(const struct file_map *m)
{
	if (m->range)
		madvise((void *)m->data, m->len, MADV_DONTNEED);
}

void file_map_close(struct file_map *m)
{
	if (m->range) {
		give_range(m->range);
		munmap((void *)m->data, whole_pages(m->len) + page_bytes);
	}
	free(m->copy);
	*m = (struct file_map){0};
}
