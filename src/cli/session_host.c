/* session_host.c - the loop around a session. Ctrl-C reaches the command too: its end is part of
 * the run. Asked a second time, or where there is no command, the session ends and what runs goes
 * on. */
#include "cli/session_host.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "session/privileges.h"

#define LARGE_BYTES	  (64 << 10)	 /* blocks that go back to the system when they are freed */
#define TRIM_NS		  10000000000ULL /* as long as what has ended is known: pipeline/forget.c */
#define INTERRUPT_WAIT_NS 5000000000ULL	 /* for the command to end after Ctrl-C */

/* ---- signals ---- */

static sigset_t signals_of_end(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	return set;
}

void session_host_block_signals(sigset_t *before)
{
	sigset_t set = signals_of_end();
	pthread_sigmask(SIG_BLOCK, &set, before);
}

/* Until here the recording is sure to get its end. What came since ended the questions to servers,
 * at most: it is not to end the program now. */
static void unblock_signals(const struct session_host *h)
{
	struct signalfd_siginfo info;
	while (read(h->signal_fd, &info, sizeof(info)) == sizeof(info))
		;
	pthread_sigmask(SIG_SETMASK, &h->before, NULL);
}

static void on_signal(struct session_host *h)
{
	struct signalfd_siginfo info;
	if (read(h->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP && h->hooks.hangup && !h->hooks.hangup(h->hooks.ctx))
		return;
	h->interrupted_ns = monotonic_ns();
	if (info.ssi_signo != SIGINT || !h->options.command || ++h->interrupts > 1)
		session_stop(h->session);
}

/* ---- memory ---- */

/* glibc's malloc takes the size of the largest block that was freed for what will be needed again:
 * after libbpf's copy of the kernel's types, 6 MB, smaller ones come from its arenas, which would
 * keep the highest water of queues and fits for days (mallopt(3), M_MMAP_THRESHOLD). What small
 * blocks leave behind goes back now and then: trim. */
static void give_back_large_blocks(void)
{
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
	mallopt(M_TRIM_THRESHOLD, LARGE_BYTES);
}

static void trim(struct session_host *h, uint64_t now_ns)
{
	if (now_ns - h->trimmed_ns < TRIM_NS)
		return;
	h->trimmed_ns = now_ns;
	malloc_trim(0);
}

/* ---- the session ---- */

#define PATIENCE_MOST 5 /* bpf/hold.h holds for a dozen seconds at most */

/* What makes no sense is as if it were not there. */
static uint32_t patience_from_environment(void)
{
	const char *text = getenv("EACGM_PATIENCE");
	unsigned long n = text ? strtoul(text, NULL, 10) : 1;
	return n >= 1 && n <= PATIENCE_MOST ? (uint32_t)n : 1;
}

/* Libraries are brought into processes that run, or probes are taken out of those that go on. */
static bool changes_processes(const struct session_options *o)
{
	return (o->gpu_timeline && !o->command) || session_asks_inside(o);
}

int session_host_open(struct session_host *h, const struct session_options *opts, struct err *e)
{
	sigset_t set = signals_of_end();
	give_back_large_blocks();
	*h = (struct session_host){.options = *opts};
	h->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (h->signal_fd < 0)
		return err_set(e, errno, "no descriptor is left");
	h->options.hurry_fd = h->signal_fd;
	h->options.btf_path = getenv("EACGM_BTF");
	h->options.patience = patience_from_environment();
	h->options.nvml_path = getenv("EACGM_NVML");
	h->options.cupti_taken = getenv("CUDA_INJECTION64_PATH") != NULL;
	h->options.preload = getenv("LD_PRELOAD");
	int rc = session_prepare(&h->session, &h->options, e);
	if (!rc)
		rc = privileges_give_up(changes_processes(opts), opts->method, e);
	if (rc)
		session_host_close(h);
	return rc;
}

void session_host_close(struct session_host *h)
{
	session_close(h->session);
	close(h->signal_fd);
}

/* Whoever attaches wants to know from when on calls are seen. */
static void say_attached(const struct session_host *h)
{
	const struct session_options *o = &h->options;
	struct session_attached a;
	session_attached(h->session, &a);
	char *text = xasprintf("attached to %zu process%s at %llu places%s", a.processes,
			       a.processes == 1 ? "" : "es", (unsigned long long)a.places,
			       o->output ? "; Ctrl-C ends the recording" : "");
	o->say(o->say_ctx, text);
	free(text);
	if (h->hooks.attached)
		h->hooks.attached(h->hooks.ctx, &a);
}

static void follow(struct session_host *h, const atomic_bool *stop)
{
	struct session *s = h->session;
	struct pollfd fds[SESSION_FDS + 1] = {{.fd = h->signal_fd, .events = POLLIN}};
	h->trimmed_ns = monotonic_ns();
	while (!session_ended(s)) {
		size_t n = session_fds(s, fds + 1);
		if (poll(fds, n + 1, -1) < 0 && errno != EINTR)
			break;
		if (fds[0].revents)
			on_signal(h);
		uint64_t now_ns = monotonic_ns();
		if ((stop && atomic_load(stop)) ||
		    (h->interrupts && now_ns - h->interrupted_ns > INTERRUPT_WAIT_NS))
			session_stop(s);
		session_service(s);
		trim(h, now_ns);
	}
}

int session_host_run(struct session_host *h, const atomic_bool *stop, struct session_result *ret,
		     struct err *e)
{
	int rc = session_open(h->session, e);
	if (!rc) {
		session_host_block_signals(&h->before);
		rc = session_start(h->session, e);
		if (!rc && !h->options.command)
			say_attached(h);
		if (!rc) {
			follow(h, stop);
			if (h->hooks.ends)
				h->hooks.ends(h->hooks.ctx);
			session_finish(h->session, ret, e);
		}
		unblock_signals(h);
	}
	session_host_close(h);
	return rc;
}
