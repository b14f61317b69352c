/* guard.c - the process that lets C++ exceptions pass: exchanges return addresses on the
 * stack of a task that bpf/unwind.h holds (process_vm_writev(2) is allowed where BPF may
 * not write).
 *
 * A process of its own, for two reasons. It does nothing else, so it answers in
 * microseconds. And it outlives the tracer: calls that are under way when the tracer
 * ends, or is killed, still have a return probe, and an exception that leaves them has to
 * be prepared for. So it holds the hooks' links too, for GUARD_LINGER_S after the end; and those of
 * graph_guard.c, for CUPTI goes only after a tracer that was killed. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/message.h"
#include "base/oom.h"
#include "base/process_title.h"
#include "base/sandbox.h"
#include "base/thread.h"
#include "probe/tracer_impl.h"

#define GUARD_LINGER_S 10
#define DROP_MS	       1000

/* The tracer's; a drop that has a number is answered with itself. */
struct guard_message {
	enum { GUARD_KEEP, GUARD_DROP, GUARD_END } kind;
	uint32_t owner;	 /* of the link that comes along, or of those to be dropped */
	uint32_t number; /* of a drop, from 1; 0: nobody waits for an answer */
};

static int on_unwind(void *ctx, void *data, size_t len)
{
	struct tracer *t = ctx;
	struct rec_unwind *r = data;
	struct iovec local[UNWIND_SLOTS], remote[UNWIND_SLOTS];
	if (len < sizeof(*r) || r->count > UNWIND_SLOTS)
		return 0;
	for (uint32_t i = 0; i < r->count; i++) {
		local[i] = (struct iovec){&r->slots[i].value, sizeof(r->slots[i].value)};
		remote[i] = (struct iovec){(void *)(uintptr_t)r->slots[i].address,
					   sizeof(r->slots[i].value)};
	}
	if (process_vm_writev((pid_t)r->pid, local, r->count, remote, r->count, 0) < 0 &&
	    errno != ESRCH)
		t->bpf->bss->guard_failures++;
	tracer_answer_unwind(t, r->sequence);
	return 0;
}

/* ---- the guard's side ---- */

struct kept {
	uint32_t owner;
	int fd;
};

struct keeper {
	int sock;
	VEC(struct kept) kept;
};

static void drop_kept(struct keeper *k, uint32_t owner)
{
	for (size_t i = k->kept.len; i-- > 0;) {
		if (k->kept.data[i].owner != owner)
			continue;
		close(k->kept.data[i].fd);
		k->kept.data[i] = k->kept.data[--k->kept.len];
	}
}

/* False when the tracer is gone. */
static bool take_message(struct keeper *k, bool *ret_end)
{
	struct guard_message m;
	int fd;
	if (message_receive(k->sock, &m, sizeof(m), &fd))
		return false;
	if (fd >= 0)
		*vec_push(&k->kept) = (struct kept){m.owner, fd};
	if (m.kind == GUARD_DROP) {
		drop_kept(k, m.owner);
		if (m.number)
			message_send(k->sock, &m, sizeof(m), -1);
	}
	*ret_end = m.kind == GUARD_END;
	return true;
}

static void close_all_but(int a, int b)
{
	int low = a < b ? a : b, high = a < b ? b : a;
	syscall(SYS_close_range, 3, low - 1, 0);
	syscall(SYS_close_range, low + 1, high - 1, 0);
	syscall(SYS_close_range, high + 1, ~0U, 0);
}

static const struct sandbox_capability guard_capabilities[] = {
	{CAP_SYS_PTRACE, "exchanges return addresses on stacks of other users' processes"},
};

static const struct sandbox_call guard_calls[] = {
	/* waiting, answering, ending */
	{.number = SYS_poll},
	{.number = SYS_ppoll},
	{.number = SYS_restart_syscall},
	{.number = SYS_clock_gettime},
	{.number = SYS_recvmsg},
	{.number = SYS_sendmsg},
	{.number = SYS_close},
	{.number = SYS_process_vm_writev},
	{.number = SYS_rt_sigreturn},
	{.number = SYS_exit_group},
	/* memory that is not executed, for libc and sanitizers */
	{.number = SYS_brk},
	{.number = SYS_mmap, .arg = 2, .mask = PROT_EXEC, .value = 0},
	{.number = SYS_munmap},
	{.number = SYS_madvise},
	{.number = SYS_futex},
	{.number = SYS_sigaltstack},
};

/* What fails fails: a guard that were killed would end the recording. */
static const struct sandbox guard_sandbox = {
	.capabilities = guard_capabilities,
	.capabilities_len = sizeof(guard_capabilities) / sizeof(guard_capabilities[0]),
	.rule = SANDBOX_ONLY,
	.calls = guard_calls,
	.calls_len = sizeof(guard_calls) / sizeof(guard_calls[0]),
	.secret = true,
};

const struct sandbox *tracer_guard_sandbox(void)
{
	return &guard_sandbox;
}

static void guard_main(struct tracer *t, int sock)
{
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	setsid(); /* not in the terminal's group: Ctrl-C is not for it */
	process_title_set("eacgm-guard");
	int map_fd = bpf_map__fd(t->bpf->maps.guard);
	int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3; fd++)
		dup2(nowhere, fd); /* whoever reads the tracer's output must see its end */
	close_all_but(map_fd, sock);
	struct ring_buffer *ring = ring_buffer__new(map_fd, on_unwind, t, NULL);
	if (!ring)
		_exit(1);
	/* a held task waits: answer before anything else runs, where that is allowed */
	struct sched_param first = {.sched_priority = 1};
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		setpriority(PRIO_PROCESS, 0, -20);
	oom_set(OOM_NEVER); /* tasks would be held for nobody */
	struct err e;
	if (sandbox_enter(&guard_sandbox, &e))
		_exit(1);
	struct pollfd fds[] = {{.fd = ring_buffer__epoll_fd(ring), .events = POLLIN},
			       {.fd = sock, .events = POLLIN}};
	uint64_t until_ns = 0;
	struct keeper keeper = {.sock = sock};
	bool end = false;
	while (!end && (!until_ns || monotonic_ns() < until_ns)) {
		if (poll(fds, 2, until_ns ? 200 : -1) < 0 && errno != EINTR)
			break;
		ring_buffer__consume(ring);
		if (fds[1].fd >= 0 && fds[1].revents && !take_message(&keeper, &end)) {
			fds[1].fd = -1;
			t->bpf->bss->closing_ns = monotonic_ns(); /* the tracer may have been */
			t->bpf->bss->closing = true;		  /* killed */
			until_ns = monotonic_ns() + GUARD_LINGER_S * 1000000000ULL;
		}
	}
	_exit(0);
}

/* ---- the tracer's side ---- */

/* Whether the memory of another process may be written: tried on the guard itself. */
static int check_write(pid_t pid, struct err *e)
{
	static uint64_t target; /* at the same address there */
	uint64_t value = 1;
	struct iovec local = {&value, sizeof(value)}, remote = {&target, sizeof(target)};
	if (process_vm_writev(pid, &local, 1, &remote, 1, 0) == sizeof(value))
		return 0;
	return err_set(e, EPERM,
		       "the memory of other processes may not be written (%s), so C++ exceptions "
		       "could not pass traced functions: CAP_SYS_PTRACE is needed, and "
		       "kernel.yama.ptrace_scope below 3",
		       strerror(errno));
}

int tracer_guard_start(struct tracer *t, struct err *e)
{
	int socks[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks))
		return err_set(e, errno, "cannot make a socket: %s", strerror(errno));
	fflush(NULL);
	t->guard_pid = fork();
	if (t->guard_pid < 0) {
		close(socks[0]);
		close(socks[1]);
		return err_set(e, errno, "cannot fork: %s", strerror(errno));
	}
	if (!t->guard_pid) {
		close(socks[0]);
		guard_main(t, socks[1]);
	}
	close(socks[1]);
	t->guard_sock = socks[0];
	static const char readable = 1; /* at the same address there */
	yield_target_set(t, t->guard_pid, &readable);
	return check_write(t->guard_pid, e);
}

bool tracer_guard_works(const struct tracer *t)
{
	return !t->guard_pid ||
	       (!waitpid(t->guard_pid, NULL, WNOHANG) && !t->bpf->bss->guard_failures);
}

void tracer_guard_keep(struct tracer *t, uint32_t owner, int link_fd)
{
	struct guard_message m = {.kind = GUARD_KEEP, .owner = owner};
	pthread_mutex_lock(&t->guard_lock);
	if (t->guard_pid > 0)
		message_send(t->guard_sock, &m, sizeof(m), link_fd);
	pthread_mutex_unlock(&t->guard_lock);
}

/* False where it does not come in time, or nobody answers any more. With the lock held. */
static bool await_answer(const struct tracer *t, uint32_t number)
{
	uint64_t until_ns = monotonic_ns() + DROP_MS * 1000000ULL;
	struct pollfd answer = {.fd = t->guard_sock, .events = POLLIN};
	struct guard_message m;
	int unused;
	for (uint64_t now_ns; (now_ns = monotonic_ns()) < until_ns;) {
		int n = poll(&answer, 1, (int)((until_ns - now_ns) / 1000000) + 1);
		if (n < 0 && errno != EINTR)
			return false;
		if (n <= 0)
			continue;
		if (message_receive(t->guard_sock, &m, sizeof(m), &unused))
			return false;
		if (m.number == number) /* else it came too late for an earlier one */
			return true;
	}
	return false;
}

/* One that was late, and has answered all by now, is waited for again. */
static void take_late_answers(struct tracer *t)
{
	struct pollfd answer = {.fd = t->guard_sock, .events = POLLIN};
	struct guard_message m;
	int unused;
	while (t->guard_late && poll(&answer, 1, 0) > 0 &&
	       !message_receive(t->guard_sock, &m, sizeof(m), &unused))
		t->guard_late = m.number != t->guard_drops;
}

/* Whoever closes a link last waits for the programs that it ran: that must not be the guard, on
 * whom held tasks wait. One that is stopped is waited for once, until it goes on. */
void tracer_guard_drop(struct tracer *t, uint32_t owner)
{
	pthread_mutex_lock(&t->guard_lock);
	if (t->guard_pid > 0)
		take_late_answers(t);
	struct guard_message m = {GUARD_DROP, owner, t->guard_late ? 0 : ++t->guard_drops};
	if (t->guard_pid > 0 && !message_send(t->guard_sock, &m, sizeof(m), -1) && m.number)
		t->guard_late = !await_answer(t, m.number);
	pthread_mutex_unlock(&t->guard_lock);
}

/* One that stays for a while ends as a child of this program. */
static void *await_end(void *pid)
{
	waitpid((pid_t)(intptr_t)pid, NULL, 0);
	return NULL;
}

static void leave_guard(pid_t pid)
{
	pthread_t thread;
	if (!thread_start(&thread, await_end, (void *)(intptr_t)pid, "eacgm-await"))
		pthread_detach(thread);
}

void tracer_guard_stop(struct tracer *t)
{
	struct guard_message m = {.kind = GUARD_END};
	pthread_mutex_lock(&t->guard_lock);
	if (t->guard_pid > 0) {
		t->guard_cpu_ns = process_cpu_ns(t->guard_pid);
		bool ends = !t->linger && !message_send(t->guard_sock, &m, sizeof(m), -1);
		close(t->guard_sock);
		if (ends)
			waitpid(t->guard_pid, NULL, 0);
		else
			leave_guard(t->guard_pid);
		t->guard_pid = 0;
	}
	pthread_mutex_unlock(&t->guard_lock);
}
