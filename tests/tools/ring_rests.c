/* ring_rests.c - rests as the reader of an agent's rings does, while a process on one CPU makes
 * calls, and tells when it was woken and what was in the rings. Judges nothing.
 *
 *   usage: ring_rests LIBTARGET CATALOG BYTES MS CALLS...
 *
 * LIBTARGET: libtarget.so, of which CATALOG, a file, probes target_push alone. BYTES: of a CPU's
 * ring. For each CALLS it lets a process call so often, rests for MS at most, waits until all
 * calls are made, and prints a line of JSON: whether it was woken before the end of its rest
 * (woken), the calls that it read then (calls), their bytes in the ring (bytes), the bytes of the
 * ring (ring) and what was lost so far (lost). Needs root.
 *
 * links: probe symbolize parser base */
#include <dlfcn.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/tracer.h"

#define HEADER 8 /* of each record of a ring: kernel/bpf/ringbuf.c, struct bpf_ringbuf_hdr */

struct caller {
	pid_t pid;
	int ask, answer;
};

struct seen {
	uint64_t calls, bytes, lost;
};

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "ring_rests: %s: %s\n", what, why);
	exit(1);
}

/* ---- who makes the calls ---- */

static void call(const char *library, int ask, int answer)
{
	cpu_set_t one;
	void *target = dlopen(library, RTLD_NOW);
	uint64_t (*push)(uint64_t), n = 0;
	*(void **)&push = target ? dlsym(target, "target_push") : NULL;
	CPU_ZERO(&one);
	CPU_SET((unsigned)sched_getcpu(), &one); /* all in one ring */
	if (!push || sched_setaffinity(0, sizeof(one), &one))
		_exit(1);
	do {
		for (uint64_t i = 0; i < n; i++)
			push(i);
	} while (write(answer, &n, sizeof(n)) == sizeof(n) &&
		 read(ask, &n, sizeof(n)) == sizeof(n));
	_exit(0);
}

static void done(const struct caller *c)
{
	uint64_t n;
	if (read(c->answer, &n, sizeof(n)) != sizeof(n))
		fail("the process that calls", "it has ended");
}

static struct caller start_caller(const char *library)
{
	int ask[2], answer[2];
	if (pipe(ask) || pipe(answer))
		fail("pipe", "cannot");
	struct caller c = {.pid = fork(), .ask = ask[1], .answer = answer[0]};
	if (!c.pid) {
		close(ask[1]);
		call(library, ask[0], answer[1]);
	}
	close(answer[1]);
	done(&c);
	return c;
}

/* ---- who reads ---- */

static int on_record(void *ctx, void *record, size_t len)
{
	struct seen *seen = ctx;
	const struct rec_call *r = record;
	if (r->kind != REC_CALL)
		return 0;
	seen->calls++;
	seen->bytes += HEADER + ((len + 7) & ~(size_t)7);
	return 0;
}

static void on_loss(void *ctx, enum loss_cause cause, uint32_t cpu, uint64_t count)
{
	uint64_t *lost = ctx;
	(void)cpu;
	if (cause == LOSS_RING_FULL)
		*lost += count;
}

static struct tracer *start_tracer(char **argv, pid_t pid, struct seen *seen)
{
	static struct catalog catalog;
	struct tracer_options opts = {.catalog = &catalog,
				      .layers = ~0u,
				      .wakes_reader = true,
				      .ring_bytes = (uint32_t)strtoul(argv[3], NULL, 10),
				      .without_guard = true};
	struct tracer *t;
	struct err e = {0};
	if (catalog_load_file(&catalog, argv[2], &e))
		fail(argv[2], e.msg);
	if (tracer_open(&t, &opts, &e) || tracer_set_drain(t, on_record, seen, &e) ||
	    tracer_add_pid(t, pid, &e) || tracer_scan_pid(t, pid, &e) < 0)
		fail("cannot trace", e.msg);
	return t;
}

static void one_rest(struct tracer *t, const struct caller *c, uint64_t calls, uint64_t rest_ns,
		     struct seen *seen)
{
	tracer_drain(t);
	*seen = (struct seen){0};
	uint64_t end_ns = monotonic_ns() + rest_ns;
	if (write(c->ask, &calls, sizeof(calls)) != sizeof(calls))
		fail("the process that calls", "it has ended");
	tracer_rest(t, rest_ns);
	bool woken = monotonic_ns() < end_ns;
	done(c);
	tracer_drain(t);
	tracer_losses(t, on_loss, &seen->lost);
	printf("{\"woken\": %s, \"calls\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"ring\": %u"
	       ", \"lost\": %" PRIu64 "}\n",
	       woken ? "true" : "false", seen->calls, seen->bytes, tracer_ring_bytes(t),
	       seen->lost);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct seen seen = {0};
	if (argc < 6)
		fail("usage", "ring_rests LIBTARGET CATALOG BYTES MS CALLS...");
	struct caller c = start_caller(argv[1]);
	struct tracer *t = start_tracer(argv, c.pid, &seen);
	for (int i = 5; i < argc; i++)
		one_rest(t, &c, strtoull(argv[i], NULL, 10), strtoull(argv[4], NULL, 10) * 1000000,
			 &seen);
	close(c.ask);
	waitpid(c.pid, NULL, 0);
	tracer_close(t);
	return 0;
}
