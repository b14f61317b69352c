/* worker.c - answers questions, one after another, with no rights at all: another user, no
 * capabilities, and the few system calls that reading a mapped file and answering take. It ends
 * itself when a question takes longer than its client waits. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/message.h"
#include "base/sandbox.h"
#include "parser/limits.h"
#include "parser/parser.h"

#define NOBODY 65534

/* AddressSanitizer needs terabytes of addresses. */
#ifdef __SANITIZE_ADDRESS__
#define SHADOWED true
#elif defined(__has_feature)
#define SHADOWED __has_feature(address_sanitizer)
#else
#define SHADOWED false
#endif

static const struct sandbox_call calls[] = {
	{SYS_read, 0, 0, 0},	       {SYS_pread64, 0, 0, 0},	    {SYS_write, 0, 0, 0},
	{SYS_sendto, 0, 0, 0},	       {SYS_sendmsg, 0, 0, 0},	    {SYS_recvfrom, 0, 0, 0},
	{SYS_recvmsg, 0, 0, 0},	       {SYS_close, 0, 0, 0},	    {SYS_fstat, 0, 0, 0},
	{SYS_newfstatat, 0, 0, 0},     {SYS_brk, 0, 0, 0},	    {SYS_mmap, 2, 4, 0},
	{SYS_munmap, 0, 0, 0},	       {SYS_mremap, 0, 0, 0},	    {SYS_madvise, 0, 0, 0},
	{SYS_mprotect, 2, 4, 0},       {SYS_futex, 0, 0, 0},	    {SYS_setitimer, 0, 0, 0},
	{SYS_clock_gettime, 0, 0, 0},  {SYS_getrandom, 0, 0, 0},    {SYS_rt_sigaction, 0, 0, 0},
	{SYS_rt_sigprocmask, 0, 0, 0}, {SYS_rt_sigreturn, 0, 0, 0}, {SYS_restart_syscall, 0, 0, 0},
	{SYS_sysinfo, 0, 0, 0}, /* qsort(3) */
	{SYS_getpid, 0, 0, 0},	       {SYS_gettid, 0, 0, 0},	    {SYS_lseek, 0, 0, 0},
	{SYS_sched_yield, 0, 0, 0},    {SYS_exit_group, 0, 0, 0},   {SYS_exit, 0, 0, 0},
};

static void limit(int what, uint64_t most)
{
	struct rlimit r = {most, most};
	setrlimit(what, &r);
}

static const struct sandbox worker_sandbox = {
	.rule = SANDBOX_ONLY,
	.calls = calls,
	.calls_len = sizeof(calls) / sizeof(calls[0]),
	.kill = true,
	.secret = true,
};

const struct sandbox *parser_worker_sandbox(void)
{
	return &worker_sandbox;
}

/* Where one step fails, nothing is read: the client is told that no worker answers. */
static int give_up_rights(pid_t host)
{
	struct err e;
	if (!SHADOWED)
		limit(RLIMIT_AS, PARSER_MEMORY_BYTES);
	limit(RLIMIT_CPU, PARSER_CPU_S);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, 0);
	if (geteuid() == 0 &&
	    (syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY) ||
	     syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY)))
		return -EPERM;
	/* one that is stopped or loops ends with the host too; a change of user forgets this */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != host)
		return -ESRCH;
	return sandbox_enter(&worker_sandbox, &e);
}

static bool read_all(int sock, void *to, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = recv(sock, (char *)to + done, len - done, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

static bool write_all(int sock, const void *from, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = send(sock, (const char *)from + done, len - done, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

/* Of its own time: a busy host is no reason. SIGPROF ends the worker. */
static void end_after(uint32_t ms)
{
	struct itimerval t = {.it_value = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000}};
	setitimer(ITIMER_PROF, &t, NULL);
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return timespec_ns(&ts);
}

static bool answer_one(const struct parser_ops *ops, int sock)
{
	struct parser_question q;
	struct parser_answer a = {.rc = -EINVAL};
	struct buf bytes = {0};
	struct err e = {0};
	int fd;
	uint64_t before_ns = cpu_ns();
	if (message_receive(sock, &q, sizeof(q), &fd) || q.len > PARSER_QUESTION_BYTES)
		return false;
	uint8_t *question = xcalloc(1, q.len + 1);
	bool going = read_all(sock, question, q.len);
	end_after(q.timeout_ms);
	if (going && q.op < ops->n)
		a.rc = ops->list[q.op].answer(ops->list[q.op].ctx, fd, question, q.len, &bytes, &e);
	end_after(0);
	if (bytes.len > PARSER_ANSWER_BYTES)
		a.rc = err_set(&e, E2BIG, "more than %llu bytes of tables", PARSER_ANSWER_BYTES);
	if (a.rc) {
		bytes.len = 0;
		snprintf(a.message, sizeof(a.message), "%.255s", e.msg);
	}
	a.len = (uint32_t)bytes.len;
	a.cpu_ns = cpu_ns() - before_ns;
	going = going && write_all(sock, &a, sizeof(a)) && write_all(sock, bytes.data, bytes.len);
	if (fd >= 0)
		close(fd);
	buf_free(&bytes);
	free(question);
	return going;
}

void worker_run(const struct parser_ops *ops, int sock, pid_t host)
{
	signal(SIGPROF, SIG_DFL);
	if (give_up_rights(host))
		_exit(1);
	while (answer_one(ops, sock))
		;
	_exit(0);
}
