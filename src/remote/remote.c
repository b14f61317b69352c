/* remote.c - puts the stub into a process, redirects a thread to it, and takes it away. */
#include "remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "remote/modules.h"
#include "remote/stub.h"

#define STOP_NS	    5000000000ULL /* for a thread that is let go to stop */
#define STEP_NS	    10000L
#define FINISH_NS   1000000L
#define INSTRUCTION 16	   /* a thread stops behind the first one */
#define LEAVE_TRIES 1000   /* of FINISH_NS, for the thread to be out of the stub */
#define ENOUGH_NS   100000 /* of running, for a few instructions */

struct remote {
	struct modules modules;
	uint64_t code, words;
	struct buf stub;
	uint8_t *before; /* what lay where the stub lies */
	pid_t tid;	 /* that was redirected, 0 = none */
	bool written, failed;
};

static void wait_ns(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* ---- where the stub lies ---- */

/* Words that are not ours, or whose stub may still be run, are left alone. */
static bool is_free(const struct modules *m, uint64_t words)
{
	struct stub_words w;
	static const struct stub_words none;
	if (!modules_peek(m, words, &w, sizeof(w)))
		return false;
	if (!memcmp(&w, &none, sizeof(w)))
		return true;
	return w.magic == STUB_MAGIC && (!w.tid || (w.begun && w.entered));
}

static bool find_room(struct remote *r, size_t bytes)
{
	for (size_t i = 0; i < r->modules.list.len; i++) {
		const struct module *m = &r->modules.list.data[i];
		/* the loader's own allocator uses the end of its last page */
		if (!strncmp(m->name, "ld", 2) || m->code.end - m->code.start < bytes ||
		    m->data.end - m->data.start < sizeof(struct stub_words) ||
		    !is_free(&r->modules, m->data.start))
			continue;
		r->code = m->code.start;
		r->words = m->data.start;
		return true;
	}
	return false;
}

static int find_functions(const struct modules *m, struct stub_plan *plan, struct err *e)
{
	/* since glibc 2.34 all is in the first */
	static const char *const libc[] = {"libc.so", "libpthread.so", "libdl.so"};
	const struct {
		const char *name;
		uint64_t *ret;
	} functions[] = {
		{"pthread_create", &plan->pthread_create},
		{"pthread_detach", &plan->pthread_detach},
		{"dlopen", &plan->dlopen},
		{"dlsym", &plan->dlsym},
		{"dlerror", &plan->dlerror},
		{"strdup", &plan->strdup},
	};
	for (size_t i = 0; i < m->list.len; i++)
		if (!strncmp(m->list.data[i].name, "ld-musl", 7) ||
		    !strncmp(m->list.data[i].name, "libc.musl", 9))
			return err_set(e, ENOTSUP, "its C library is musl, and CUDA needs glibc");
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		*functions[i].ret = modules_function(m, libc, 3, functions[i].name);
		if (!*functions[i].ret)
			return err_set(e, ENOTSUP, "its C library has no %s", functions[i].name);
	}
	return 0;
}

static int place_stub(struct remote *r, struct stub_plan *plan, struct err *e)
{
	stub_build(&r->stub, plan); /* for its size */
	if (!find_room(r, r->stub.len))
		return err_set(e, ENOTSUP, "no mapping of code and data ends with %zu free bytes",
			       r->stub.len);
	plan->code = r->code;
	plan->words = r->words;
	r->stub.len = 0;
	stub_build(&r->stub, plan);
	r->before = xcalloc(1, r->stub.len);
	struct stub_words words = {.magic = STUB_MAGIC, .code = r->code};
	if (!modules_peek(&r->modules, r->code, r->before, r->stub.len) ||
	    !modules_poke(&r->modules, r->words, &words, sizeof(words)))
		return err_set(e, EPERM, "its memory may not be written: %s", strerror(errno));
	r->written = true;
	if (!modules_poke(&r->modules, r->code, r->stub.data, r->stub.len))
		return err_set(e, EPERM, "its code may not be written: %s", strerror(errno));
	return 0;
}

int remote_prepare(struct remote **ret, const struct remote_request *request, struct err *e)
{
	struct stub_plan plan = {.library = request->library,
				 .entry = request->entry,
				 .argument = request->argument};
	struct remote *r = xcalloc(1, sizeof(*r));
	r->modules.memory = -1;
	int rc = modules_read(&r->modules, request->pid, e);
	if (!rc)
		rc = find_functions(&r->modules, &plan, e);
	if (!rc)
		rc = place_stub(r, &plan, e);
	if (rc) {
		remote_close(r);
		return rc;
	}
	*ret = r;
	return 0;
}

/* ---- stopping one thread ---- */

/* signal: of the job's, which the thread was just about to take; 0 = none. */
static int wait_for_stop(pid_t tid, int *signal, struct err *e)
{
	int status;
	for (uint64_t end_ns = monotonic_ns() + STOP_NS; monotonic_ns() < end_ns;) {
		pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
		if (got < 0 || (got == tid && !WIFSTOPPED(status)))
			return err_set(e, ESRCH, "the thread ended");
		if (got == tid) {
			*signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
			return 0;
		}
		wait_ns(STEP_NS);
	}
	return err_set(e, ETIMEDOUT, "a thread of it did not stop");
}

/* A thread that is seized and does not stop cannot be let go by number: it is when it stops, or
 * when this thread ends. */
static int seize(pid_t tid, struct err *e)
{
	if (ptrace(PTRACE_SEIZE, tid, 0, 0))
		return err_set(e, errno,
			       errno == EPERM ? "it may not be traced: a debugger does so already, "
						"or a rule forbids it"
					      : "thread %d: %s",
			       tid, strerror(errno));
	if (ptrace(PTRACE_INTERRUPT, tid, 0, 0))
		return err_set(e, errno, "thread %d cannot be stopped: %s", tid, strerror(errno));
	return 0;
}

static bool is_at_place(const struct remote_stop *stop, uint64_t ip)
{
	for (size_t i = 0; i < stop->nplaces; i++)
		if (ip - stop->places[i].address < INSTRUCTION)
			return true;
	return false;
}

/* The thread stands still. What can go wrong does so before its registers are set. */
static int set_out(struct remote *r, const struct remote_stop *stop, struct err *e)
{
	struct user_regs_struct regs;
	uint64_t tid = (uint64_t)stop->tid;
	if (ptrace(PTRACE_GETREGS, stop->tid, 0, &regs))
		return err_set(e, errno, "thread %d has no registers: %s", stop->tid,
			       strerror(errno));
	if (!is_at_place(stop, regs.rip))
		return err_set(e, EAGAIN, "the thread had gone on");
	if (!modules_poke(&r->modules, r->code + stub_return_offset(), &regs.rip, 8) ||
	    !modules_poke(&r->modules, r->words + offsetof(struct stub_words, tid), &tid, 8))
		return err_set(e, EPERM, "its memory may not be written: %s", strerror(errno));
	regs.rip = r->code;
	if (ptrace(PTRACE_SETREGS, stop->tid, 0, &regs)) {
		int code = errno;
		tid = 0;
		modules_poke(&r->modules, r->words + offsetof(struct stub_words, tid), &tid, 8);
		return err_set(e, code, "its registers may not be set: %s", strerror(code));
	}
	r->tid = stop->tid;
	return 0;
}

int remote_redirect(struct remote *r, const struct remote_stop *stop, struct err *e)
{
	int signal = 0;
	int rc = seize(stop->tid, e);
	stop->let_go(stop->ctx);
	if (!rc)
		rc = wait_for_stop(stop->tid, &signal, e);
	if (rc)
		return rc;
	rc = signal ? err_set(e, EAGAIN, "the thread took a signal") : set_out(r, stop, e);
	ptrace(PTRACE_DETACH, stop->tid, 0, signal);
	return rc;
}

/* ---- taking the stub away ---- */

static bool is_in_stub(const struct remote *r, uint64_t ip)
{
	return ip >= r->code && ip < r->code + r->stub.len;
}

/* A file of the thread in /proc; false when the thread has ended. */
static bool read_thread_file(const struct remote *r, const char *name, char *ret, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", r->modules.pid, r->tid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, ret, size - 1);
	close(fd);
	ret[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* Where a thread waits in the kernel it is known where it will go on: the last number. */
static bool waits_outside(const struct remote *r, const char *syscall_file)
{
	const char *last = strrchr(syscall_file, ' ');
	return last && strncmp(syscall_file, "running", 7) != 0 &&
	       !is_in_stub(r, strtoull(last + 1, NULL, 16));
}

/* Whether the thread, which has no more to do in the stub, has left its last instructions: it
 * waits elsewhere, or its time on the CPU was counted twice since and grew in between. It is not
 * stopped for that: a wait in the kernel would end early. */
static bool has_left(const struct remote *r)
{
	char text[256];
	uint64_t counted_ns = 0;
	unsigned grew = 0;
	for (int i = 0; i < LEAVE_TRIES && grew < 3; i++) {
		if (!read_thread_file(r, "syscall", text, sizeof(text)) || waits_outside(r, text) ||
		    !read_thread_file(r, "schedstat", text, sizeof(text)))
			return true;
		uint64_t now_ns = strtoull(text, NULL, 10);
		if (now_ns > counted_ns + ENOUGH_NS) {
			counted_ns = now_ns;
			grew++; /* the first time is before we looked */
		}
		wait_ns(FINISH_NS);
	}
	return grew == 3;
}

static bool read_words(const struct remote *r, struct stub_words *ret)
{
	return modules_peek(&r->modules, r->words, ret, sizeof(*ret));
}

static void restore(struct remote *r)
{
	static const struct stub_words none;
	if (!r->written)
		return;
	modules_poke(&r->modules, r->code, r->before, r->stub.len);
	modules_poke(&r->modules, r->words, &none, sizeof(none));
	r->written = false;
}

static int tell_failure(const struct remote *r, const struct stub_words *w, struct err *e)
{
	char text[256] = "";
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		if (!modules_peek(&r->modules, w->error + i, &text[i], 1) || !text[i])
			break;
	return err_set(e, ENOEXEC, "the library does not load: %s", text);
}

int remote_finish(struct remote *r, unsigned timeout_ms, struct err *e)
{
	struct stub_words w;
	for (unsigned ms = 0; ms < timeout_ms; ms++) {
		if (!read_words(r, &w))
			return err_set(e, ESRCH, "the process ended");
		if (w.begun > 1)
			return err_set(e, ENOMEM, "it could not start a thread: %s",
				       strerror((int)w.begun - 1));
		if (w.entered == STUB_FAILED) {
			r->failed = true; /* the new thread may still be in the stub */
			return tell_failure(r, &w, e);
		}
		if (w.begun && w.entered)
			return 0;
		wait_ns(FINISH_NS);
	}
	return err_set(e, ETIMEDOUT, "the library was not loaded in %u ms", timeout_ms);
}

static void take_away(struct remote *r)
{
	struct stub_words w;
	if (r->written && !r->tid)
		restore(r);
	if (r->written && !r->failed && read_words(r, &w) && w.begun &&
	    (w.entered || w.begun > 1) && has_left(r))
		restore(r);
}

void remote_close(struct remote *r)
{
	take_away(r);
	modules_free(&r->modules);
	buf_free(&r->stub);
	free(r->before);
	free(r);
}
