/* hold.c - seizes the threads, stops them, and looks for new ones until there are none. To seize
 * does not stop: all that takes time is done before the first is. */
#include "remote/hold.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/utf8.h"

#define STEP_NS	     5000L
#define BRISK_NS     200000ULL /* for so long; then threads may need the CPU on which this asks */
#define CALM_STEP_NS 50000L
#define LATE_NS	     1000000000ULL
#define LATE_STEP_NS 100000L
#define ROUNDS	     64 /* in which threads were started */

enum state { SEIZED, INTERRUPTED, STOPPED, GONE };

struct held {
	struct hold_thread thread;
	enum state state;
	int signal; /* of the job's, which it was about to take; 0 = none */
	uint64_t since_ns;
	bool known; /* place and ends_early are */
	bool ends_early;
};

struct hold {
	pid_t pid;
	VEC(struct held) list;
	VEC(struct hold_thread) stopped;
	uint64_t since_ns;   /* 0: nobody was stopped yet */
	uint64_t longest_ns; /* that one of those that were let go has stood */
};

/* ---- seizing ---- */

static bool is_known(const struct hold *h, pid_t tid)
{
	for (size_t i = 0; i < h->list.len; i++)
		if (h->list.data[i].thread.tid == tid)
			return true;
	return false;
}

/* What /proc/PID/task/TID/NAME holds, up to `size` and a NUL; false: nothing. */
static bool read_of_thread(const struct hold *h, pid_t tid, const char *name, char *text,
			   size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", h->pid, tid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* As of proc_pid_stat(5), where it stands behind the name; 0: the thread is gone. */
static char state_of(const struct hold *h, pid_t tid)
{
	char text[512];
	const char *name_end =
		read_of_thread(h, tid, "stat", text, sizeof(text)) ? strrchr(text, ')') : NULL;
	return name_end && name_end[1] ? name_end[2] : 0;
}

/* The kernel refuses to trace one that is a zombie, as a process's first thread can be for long. */
static bool has_ended(const struct hold *h, pid_t tid)
{
	char state = state_of(h, tid);
	return !state || strchr("ZXx", state);
}

/* One that has ended meanwhile is none. */
static int seize(struct hold *h, pid_t tid, struct err *e)
{
	if (!ptrace(PTRACE_SEIZE, tid, 0, 0)) {
		*vec_push(&h->list) = (struct held){.thread = {.tid = tid}};
		return 0;
	}
	int code = errno;
	if (code == ESRCH || has_ended(h, tid))
		return 0;
	return err_set(e, code,
		       code == EPERM ? "it may not be traced: a debugger does so already, or a "
				       "rule forbids it"
				     : "thread %d: %s",
		       tid, strerror(code));
}

/* *found: there were some that we had not. */
static int seize_all(struct hold *h, bool *found, struct err *e)
{
	char path[64];
	size_t before = h->list.len;
	int rc = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", h->pid);
	DIR *dir = opendir(path);
	if (!dir)
		return err_set(e, ESRCH, "the process has ended");
	for (const struct dirent *entry; !rc && (entry = readdir(dir));) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (tid > 0 && !is_known(h, tid))
			rc = seize(h, tid, e);
	}
	closedir(dir);
	*found = h->list.len > before;
	return rc;
}

/* ---- stopping ---- */

static void interrupt_all(struct hold *h)
{
	if (!h->since_ns)
		h->since_ns = monotonic_ns();
	for (size_t i = 0; i < h->list.len; i++) {
		struct held *t = &h->list.data[i];
		if (t->state != SEIZED)
			continue;
		t->since_ns = monotonic_ns();
		t->state = ptrace(PTRACE_INTERRUPT, t->thread.tid, 0, 0) ? GONE : INTERRUPTED;
	}
}

/* What it was stopped by stays with it (WNOWAIT): where this process is killed, the kernel has the
 * thread take its signal. */
static void look(struct held *t)
{
	siginfo_t info = {0};
	if (waitid(P_PID, (id_t)t->thread.tid, &info,
		   WEXITED | WSTOPPED | WNOWAIT | WNOHANG | __WALL)) {
		t->state = GONE;
		return;
	}
	if (!info.si_pid)
		return;
	if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) {
		t->state = GONE;
		return;
	}
	t->state = STOPPED;
	t->signal = info.si_status >> 8 == PTRACE_EVENT_STOP ? 0 : info.si_status & 0x7f;
}

static bool all_have_stopped(struct hold *h)
{
	bool all = true;
	for (size_t i = 0; i < h->list.len; i++) {
		if (h->list.data[i].state == INTERRUPTED)
			look(&h->list.data[i]);
		all &= h->list.data[i].state != INTERRUPTED;
	}
	return all;
}

static bool stop_all(struct hold *h, uint64_t most_ns)
{
	while (!all_have_stopped(h)) {
		uint64_t waited_ns = monotonic_ns() - h->since_ns;
		if (waited_ns > most_ns)
			return false;
		long step_ns = waited_ns < BRISK_NS ? STEP_NS : CALM_STEP_NS;
		nanosleep(&(struct timespec){.tv_nsec = step_ns}, NULL);
	}
	return true;
}

/* Which thread, and where it is: in a function of the kernel's, or waiting for a CPU. */
static int say_who_did_not(const struct hold *h, struct err *e)
{
	char name[32] = "", where[64] = "";
	struct buf clean = {0};
	size_t i = 0;
	while (i + 1 < h->list.len && h->list.data[i].state != INTERRUPTED)
		i++;
	pid_t tid = h->list.data[i].thread.tid;
	double waited_ms = (double)(monotonic_ns() - h->list.data[i].since_ns) / 1e6;
	char state = state_of(h, tid);
	read_of_thread(h, tid, "comm", name, sizeof(name));
	name[strcspn(name, "\n")] = 0;
	utf8_append_clean(&clean, name, strlen(name), '?');
	if (!read_of_thread(h, tid, "wchan", where, sizeof(where)) || !strcmp(where, "0"))
		snprintf(where, sizeof(where), "%s", state == 'R' ? "runnable" : "in the kernel");
	err_set(e, EAGAIN, "its thread %d (%s) did not stop in %.1f ms: %s, state %c", tid,
		(const char *)clean.data, waited_ms, where, state ? state : '?');
	buf_free(&clean);
	return -EAGAIN;
}

/* ---- where they stand ---- */

/* Those of signal(7) that end with EINTR when their thread was stopped, without a signal. */
static bool ends_when_stopped(uint64_t number)
{
	switch (number) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_rt_sigtimedwait:
	case SYS_io_getevents:
	case SYS_io_pgetevents:
	case SYS_read: /* of inotify(7) */
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_readv:
	case SYS_recvmmsg: /* with SO_RCVTIMEO */
	case SYS_write:
	case SYS_writev:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg: /* with SO_SNDTIMEO */
	case SYS_accept:
	case SYS_accept4:
		return true;
	default:
		return false;
	}
}

static bool read_place(struct held *t)
{
	struct user_regs_struct regs;
	if (ptrace(PTRACE_GETREGS, t->thread.tid, 0, &regs))
		return false;
	t->thread.ip = regs.rip;
	t->thread.sp = regs.rsp;
	t->ends_early = (int64_t)regs.rax == -EINTR && ends_when_stopped(regs.orig_rax);
	t->known = true;
	return true;
}

static void read_places(struct hold *h)
{
	for (size_t i = 0; i < h->list.len; i++) {
		struct held *t = &h->list.data[i];
		if (t->state != STOPPED)
			continue;
		if (read_place(t))
			*vec_push(&h->stopped) = t->thread;
		else
			t->state = GONE;
	}
}

/* ---- going on ---- */

#define RESTARTS_WITHOUT_HANDLER 514 /* ERESTARTNOHAND, include/linux/errno.h */

/* As the kernel does for other waits: it is begun again, unless a signal has a handler that runs.
 */
static void begin_wait_again(struct held *t)
{
	struct user_regs_struct regs;
	if ((!t->known && !read_place(t)) || !t->ends_early ||
	    ptrace(PTRACE_GETREGS, t->thread.tid, 0, &regs))
		return;
	regs.rax = (uint64_t)-RESTARTS_WITHOUT_HANDLER;
	ptrace(PTRACE_SETREGS, t->thread.tid, 0, &regs);
}

/* A stop is reported whether it is asked for or not, and to one waiter alone: it is only taken note
 * of what has ended. (kernel/exit.c, wait_task_stopped: "regardless of options") */
static void reap(pid_t tid)
{
	siginfo_t info = {0};
	if (waitid(P_PID, (id_t)tid, &info, WEXITED | WNOWAIT | WNOHANG | __WALL) || !info.si_pid)
		return;
	if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED)
		waitid(P_PID, (id_t)tid, &info, WEXITED | WNOHANG | __WALL);
}

static void detach(struct hold *h, struct held *t)
{
	if (t->state != STOPPED)
		return;
	begin_wait_again(t);
	/* one that was killed meanwhile is a zombie that waits for us; the first thread's end is
	 * its parent's to learn */
	if (ptrace(PTRACE_DETACH, t->thread.tid, 0, t->signal) && t->thread.tid != h->pid)
		reap(t->thread.tid);
	t->state = GONE;
	uint64_t stood_ns = monotonic_ns() - t->since_ns;
	h->longest_ns = stood_ns > h->longest_ns ? stood_ns : h->longest_ns;
}

/* One that is seized can be let go only where it stands: who did not stop in time is waited for. */
static bool let_go_late(struct hold *h)
{
	bool any = true;
	interrupt_all(h); /* those too that were not told to stop yet */
	for (uint64_t end_ns = monotonic_ns() + LATE_NS; any && monotonic_ns() < end_ns;) {
		any = false;
		for (size_t i = 0; i < h->list.len; i++) {
			struct held *t = &h->list.data[i];
			if (t->state == INTERRUPTED)
				look(t);
			detach(h, t);
			any |= t->state == INTERRUPTED;
		}
		if (any)
			nanosleep(&(struct timespec){.tv_nsec = LATE_STEP_NS}, NULL);
	}
	return !any;
}

/* ---- the doors ---- */

void hold_reap(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *dir = opendir(path);
	if (!dir)
		return;
	for (const struct dirent *entry; (entry = readdir(dir));) {
		long tid = strtol(entry->d_name, NULL, 10);
		if (tid > 0 && tid != pid)
			reap(tid);
	}
	closedir(dir);
}

uint64_t hold_let_go(struct hold *h)
{
	for (size_t i = 0; i < h->list.len; i++)
		detach(h, &h->list.data[i]);
	uint64_t longest_ns = h->longest_ns;
	vec_free(&h->list);
	vec_free(&h->stopped);
	free(h);
	return longest_ns;
}

int hold_process(struct hold **ret, pid_t pid, uint64_t most_ns, struct err *e)
{
	struct hold *h = xcalloc(1, sizeof(*h));
	bool found = true;
	h->pid = pid;
	int rc = seize_all(h, &found, e);
	for (int i = 0; !rc && found; i++) {
		interrupt_all(h);
		if (!stop_all(h, most_ns))
			rc = say_who_did_not(h, e);
		else if (i == ROUNDS)
			rc = err_set(e, EAGAIN, "it starts threads without end");
		else
			rc = seize_all(h, &found, e);
	}
	if (!rc)
		read_places(h);
	if (!rc && !h->stopped.len)
		rc = err_set(e, ESRCH, "the process has ended");
	if (rc) {
		for (size_t i = 0; i < h->list.len; i++)
			detach(h, &h->list.data[i]);
		bool all = let_go_late(h);
		hold_let_go(h);
		return all ? rc : -ETIMEDOUT;
	}
	*ret = h;
	return 0;
}

size_t hold_threads(const struct hold *h, const struct hold_thread **ret)
{
	*ret = h->stopped.data;
	return h->stopped.len;
}
