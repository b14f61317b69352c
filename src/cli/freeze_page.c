/* freeze_page.c - a forked child that reads one recording and writes its page or its trace into
 * memory which both have. It is forked of a process with threads: what it uses is the C library's,
 * which may be used then, and what it makes itself. */
#include "cli/freeze_page.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/oom.h"
#include "base/sandbox.h"
#include "cli/detect_cli.h"
#include "cli/export_beside.h"
#include "export/export.h"
#include "recording/recording.h"
#include "report/report_html.h"

#define CPU_S	     60		     /* of processor time */
#define MOST_NS	     180000000000ULL /* by the clock */
#define MEMORY_BYTES (1ULL << 30)    /* more than there was at the fork */
#define NICE	     10
#define PAGE_BYTES   (32 << 20) /* of what is made */

struct freeze_pages {
	char *name; /* whose is being made, or is there; NULL: nothing */
	enum freeze_page_kind kind;
	int fd; /* a file in memory: what was made, or why it was not */
	pid_t child;
	uint64_t begun_ns;
};

struct freeze_pages *freeze_pages_new(void)
{
	struct freeze_pages *p = xcalloc(1, sizeof(*p));
	p->fd = -1;
	return p;
}

/* ---- the child ---- */

static uint64_t address_space(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	if (f && fscanf(f, "%llu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void limit(int what, uint64_t most)
{
	setrlimit((__rlimit_resource_t)what, &(struct rlimit){most, most});
}

/* Of all that the agent holds it keeps two files. */
static void keep_only(int *fd, int *out)
{
	const int first = 3, second = 4;
	int a = fcntl(*fd, F_DUPFD_CLOEXEC, 16), b = fcntl(*out, F_DUPFD_CLOEXEC, 16);
	*fd = dup2(a, first);
	*out = dup2(b, second);
	syscall(SYS_close_range, second + 1, ~0U, 0);
}

static int enter(void)
{
	const struct sandbox nothing = {.rule = SANDBOX_ALL_CALLS, .secret = true};
	struct err e;
	prctl(PR_SET_NAME, "eacgm-page");
	setpriority(PRIO_PROCESS, 0, NICE);
	oom_set(1000); /* before the agent */
	limit(RLIMIT_CPU, CPU_S);
	limit(RLIMIT_FSIZE, PAGE_BYTES);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_AS, address_space() + MEMORY_BYTES);
	signal(SIGXFSZ, SIG_IGN); /* a write that is too much fails */
	return sandbox_enter(&nothing, &e);
}

static int write_page(int out, const struct rec_reader *reader, const char *path, struct err *e)
{
	const struct report_options options = {0};
	struct report r;
	FILE *to = fdopen(out, "w");
	if (!to)
		return err_set(e, errno, "%s", strerror(errno));
	report_make(&r, path, rec_source(reader), &options, &(struct visit_options){0});
	int rc = report_html(to, &r, e);
	report_free(&r);
	if (fclose(to) && !rc)
		rc = err_set(e, errno, "%s", strerror(errno));
	return rc;
}

/* 0 says that it failed (fopencookie(3)). */
static ssize_t pack(void *z, const char *data, size_t n)
{
	int rc = gzwrite(z, data, (unsigned int)n);
	return rc > 0 ? rc : 0;
}

/* The rest of what there is no room for is not made. */
static bool has_room(void *to, uint64_t done, uint64_t total)
{
	(void)done;
	(void)total;
	return !ferror(to);
}

static int write_rows(gzFile z, const struct rec_reader *reader, struct err *e)
{
	const struct sink_format *format = sink_format("perfetto");
	struct judged_slices judged = {0};
	struct export_options options = {.progress = has_room};
	struct export_beside beside;
	uint64_t skipped;
	FILE *to = fopencookie(z, "w", (cookie_io_functions_t){.write = pack});
	if (!to)
		return err_set(e, errno, "%s", strerror(errno));
	options.progress_ctx = to;
	told_slices(&judged, reader);
	export_beside_make(&beside, reader, format);
	export_beside_put(&beside, &judged, &options);
	int rc = export_into(rec_source(reader), format, format->open(to, rec_tables(reader)),
			     &options, &skipped, e);
	export_beside_free(&beside);
	judged_slices_free(&judged);
	if ((ferror(to) | fclose(to)) && !rc)
		rc = err_set(e, EIO, "it could not be written whole");
	return rc;
}

static int write_trace(int out, const struct rec_reader *reader, const char *path, struct err *e)
{
	gzFile z = gzdopen(out, "wb");
	(void)path;
	if (!z)
		return err_set(e, ENOMEM, "%s", strerror(ENOMEM));
	int rc = write_rows(z, reader, e);
	if (gzclose(z) != Z_OK && !rc)
		rc = err_set(e, EIO, "it could not be written whole");
	return rc;
}

static const struct {
	const char *called;
	int (*write)(int out, const struct rec_reader *reader, const char *path, struct err *e);
} kinds[] = {
	[FREEZE_PAGE_HTML] = {"page", write_page},
	[FREEZE_PAGE_TRACE] = {"Perfetto trace", write_trace},
};

/* The copy of out is closed. */
static int write_it(enum freeze_page_kind kind, int out, const char *source, const char *path,
		    struct err *e)
{
	struct rec_reader *reader = NULL;
	struct stat st;
	int rc = rec_open(&reader, source, e);
	if (rc)
		return rc;
	rc = kinds[kind].write(dup(out), reader, path, e);
	rec_close(reader);
	if (rc && !fstat(out, &st) && st.st_size >= PAGE_BYTES)
		return err_set(e, EFBIG, "it has more than %u MB", PAGE_BYTES >> 20);
	return rc;
}

static _Noreturn void make_page(enum freeze_page_kind kind, const char *path, int fd, int out)
{
	struct err e = {"it may not be read"};
	char source[32];
	keep_only(&fd, &out);
	snprintf(source, sizeof(source), "/proc/self/fd/%d", fd);
	int rc = enter();
	if (!rc)
		rc = write_it(kind, out, source, path, &e);
	if (rc && !ftruncate(out, 0) && !lseek(out, 0, SEEK_SET))
		dprintf(out, "cannot make the %s of %s: %s\n", kinds[kind].called, path, e.msg);
	_exit(rc != 0);
}

/* ---- the agent's side ---- */

static void forget(struct freeze_pages *p)
{
	if (p->child > 0) {
		kill(p->child, SIGKILL);
		while (waitpid(p->child, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (p->fd >= 0)
		close(p->fd);
	free(p->name);
	*p = (struct freeze_pages){.fd = -1};
}

void freeze_pages_free(struct freeze_pages *p)
{
	if (!p)
		return;
	forget(p);
	free(p);
}

static bool begin(struct freeze_pages *p, enum freeze_page_kind kind, const char *path,
		  const char *name)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	pid_t parent = getpid();
	forget(p);
	p->fd = memfd_create("eacgm-page", MFD_CLOEXEC);
	p->child = fd >= 0 && p->fd >= 0 ? fork() : -1;
	if (!p->child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		make_page(kind, path, fd, p->fd);
	}
	if (fd >= 0)
		close(fd);
	if (p->child < 0)
		return false;
	p->name = xstrdup(name);
	p->kind = kind;
	p->begun_ns = monotonic_ns();
	return true;
}

/* Whether it has ended: then *ret_state says how. */
static bool has_ended(struct freeze_pages *p, enum freeze_page_state *ret_state)
{
	int status = 0;
	if (p->child > 0 && monotonic_ns() - p->begun_ns > MOST_NS)
		kill(p->child, SIGKILL);
	if (p->child > 0 && waitpid(p->child, &status, WNOHANG) != p->child)
		return false;
	p->child = 0;
	*ret_state =
		WIFEXITED(status) && !WEXITSTATUS(status) ? FREEZE_PAGE_THERE : FREEZE_PAGE_FAILED;
	if (!WIFEXITED(status) && ftruncate(p->fd, 0)) /* half a page is none */
		*ret_state = FREEZE_PAGE_FAILED;
	return true;
}

static uint64_t give(const struct freeze_pages *p, int *ret_fd)
{
	char path[64];
	struct stat st = {0};
	snprintf(path, sizeof(path), "/proc/self/fd/%d", p->fd);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC); /* with an offset of its own */
	if (*ret_fd >= 0 && fstat(*ret_fd, &st))
		st.st_size = 0;
	return (uint64_t)st.st_size;
}

enum freeze_page_state freeze_pages_get(struct freeze_pages *p, enum freeze_page_kind kind,
					const char *path, const char *name, int *ret_fd,
					uint64_t *ret_bytes)
{
	enum freeze_page_state state = FREEZE_PAGE_THERE;
	bool wanted = p->name && p->kind == kind && !strcmp(p->name, name);
	*ret_fd = -1;
	*ret_bytes = 0;
	if (p->child > 0 && !has_ended(p, &state))
		return FREEZE_PAGE_COMES;
	if (!wanted)
		return begin(p, kind, path, name) ? FREEZE_PAGE_COMES : FREEZE_PAGE_FAILED;
	*ret_bytes = give(p, ret_fd);
	if (state == FREEZE_PAGE_FAILED)
		forget(p); /* the next question tries again */
	return state;
}
