/* cupti_job.c - a program that uses the fake GPU: it does at `init` what the driver does in
 * cuInit with CUDA_INJECTION64_PATH, launches kernels through the fake driver, and has the fake
 * CUPTI see them run.
 *
 * usage: cupti_job WORD...
 *   load FILE              loads a library (a CUDA runtime, a CUPTI)
 *   init                   the driver starts
 *   kernel NAME TIMES NS   launches, each runs NS
 *   graph TIMES KERNELS    launches a graph of kernels, all with the launch's correlation
 *   late                   CUPTI tells calls only after what they started
 *   calls OFF              0: CUPTI tells no calls any more, 1: it does again
 *   whole NS               a graph that CUPTI tells as a whole
 *   wait TYPE NS           the host waits: a CUpti_ActivitySynchronizationType
 *   copy KIND BYTES        a copy of a CUpti_ActivityMemcpyKind; peer BYTES: between devices
 *   set BYTES              a memset
 *   node ID                what follows is of this node of a graph
 *   untimed                a kernel of which CUPTI has no times
 *   drop N                 CUPTI loses N records
 *   subscribe              another tool subscribes to CUPTI, and says whether it could
 *   sleep MS               waits
 *   fork                   the words behind it are done by a child, then by the parent
 *   kill                   ends itself with SIGKILL
 *   quiet                  says no more what it does
 *
 * Prints "span PID WORK DEVICE CONTEXT STREAM CORRELATION BYTES COPY_KIND NODE START END NAME"
 * for all that CUPTI made a record of, and "called PID CORRELATION TID START END" for each of
 * them whose call CUPTI made a record of too; times are CLOCK_MONOTONIC. */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cuda_api.h"
#include "cupti_abi.h"
#include "fake_cupti.h"

enum { DEVICE = 1, CONTEXT = 2, STREAM = 7 };

static fake_cupti_did_fn *did;
static fake_cupti_called_fn *called;
static fake_cupti_drop_fn *drop;
static int (*subscribe_to)(void **ret, cupti_call_fn callback, void *user);
static fake_cupti_clock_fn *cupti_clock;
static uint32_t correlation = 1000;
static uint64_t node;
static bool quiet, late, calls_off;
static CUmodule module;

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "cupti_job: %s: %s\n", what, dlerror());
	exit(99);
}

static uint64_t monotonic_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

/* As libcuda does. The fake CUPTI is the one that the shim has loaded, if any. */
static void init(void)
{
	static const char *const names[] = {"libcupti.so.13", "libcupti.so.12"};
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *shim = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
	int (*start)(void) = NULL;
	if (path) {
		must(shim != NULL, path);
		*(void **)&start = dlsym(shim, "InitializeInjection");
		must(start != NULL, "InitializeInjection");
		must(start() == 1, "InitializeInjection failed");
	}
	void *cupti = NULL;
	for (int i = 0; i < 2 && !cupti; i++)
		cupti = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
	if (cupti) {
		*(void **)&did = dlsym(cupti, "fake_cupti_did");
		*(void **)&called = dlsym(cupti, "fake_cupti_called");
		*(void **)&subscribe_to = dlsym(cupti, "cuptiSubscribe");
		*(void **)&drop = dlsym(cupti, "fake_cupti_drop");
		*(void **)&cupti_clock = dlsym(cupti, "fake_cupti_clock");
	}
	must(!cuInit(0) && !cuModuleLoadData(&module, "image"), "cuInit");
}

static void do_work(struct fake_work w, uint64_t duration_ns)
{
	static const char *const works[] = {[CUPTI_KIND_MEMCPY] = "copy",
					    [CUPTI_KIND_MEMSET] = "set",
					    [CUPTI_KIND_CONCURRENT_KERNEL] = "kernel",
					    [CUPTI_KIND_MEMCPY2] = "copy",
					    [CUPTI_KIND_SYNCHRONIZATION] = "sync",
					    [CUPTI_KIND_GRAPH_TRACE] = "graph"};
	w.device = DEVICE;
	w.context = CONTEXT;
	w.stream = STREAM;
	w.correlation = correlation++;
	w.graph_node = node;
	if (duration_ns && cupti_clock) {
		w.start_ns = cupti_clock();
		w.end_ns = w.start_ns + duration_ns;
	}
	uint64_t now_ns = monotonic_ns();
	/* exactly, if that is CUPTI's clock; else as near as two clocks can be read */
	bool same_clock = now_ns - w.start_ns < 1000000000;
	uint64_t start_ns = same_clock ? w.start_ns : now_ns;
	uint64_t end_ns = start_ns + duration_ns;
	if (!did || !did(&w) || quiet || !duration_ns)
		return;
	printf("span %d %s %u %u %u %u %llu %u %llu %llu %llu %s\n", getpid(), works[w.kind],
	       w.device, w.context, w.stream, w.correlation, (unsigned long long)w.bytes,
	       w.copy_kind, (unsigned long long)w.graph_node, (unsigned long long)start_ns,
	       (unsigned long long)end_ns, w.name ? w.name : "-");
	fflush(stdout);
}

/* The driver's call that the next `n` works come from began at start_ns and ends now. */
static void tell_call(uint32_t function, uint32_t number, uint64_t start_ns, unsigned n)
{
	struct fake_call c = {.function = function, .correlation = number, .start_ns = start_ns};
	c.end_ns = cupti_clock ? cupti_clock() : 0;
	if (!called || calls_off || !called(&c) || quiet)
		return;
	for (unsigned i = 0; i < n; i++)
		printf("called %d %u %d %llu %llu\n", getpid(), number, gettid(),
		       (unsigned long long)c.start_ns, (unsigned long long)c.end_ns);
	fflush(stdout);
}

static void launch(const char *name, CUfunction f, uint64_t ns)
{
	enum { LAUNCH_KERNEL = 307 };
	uint64_t start_ns = cupti_clock ? cupti_clock() : 0;
	uint32_t number = correlation;
	must(!cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), name);
	if (!late)
		tell_call(LAUNCH_KERNEL, number, start_ns, 1);
	do_work((struct fake_work){.kind = CUPTI_KIND_CONCURRENT_KERNEL, .name = name}, ns);
	if (late)
		tell_call(LAUNCH_KERNEL, number, start_ns, 1);
}

static void graphs(unsigned times, unsigned nodes)
{
	enum { GRAPH_LAUNCH = 514 };
	for (unsigned i = 0; i < times; i++) {
		uint32_t number = correlation;
		uint64_t start_ns = cupti_clock ? cupti_clock() : 0;
		if (!late)
			tell_call(GRAPH_LAUNCH, number, start_ns, nodes);
		for (unsigned k = 0; k < nodes; k++) {
			correlation = number;
			node = 1 + k;
			do_work((struct fake_work){.kind = CUPTI_KIND_CONCURRENT_KERNEL,
						   .name = "node"},
				1000);
		}
		if (late)
			tell_call(GRAPH_LAUNCH, number, start_ns, nodes);
		node = 0;
	}
}

static void kernels(const char *name, unsigned times, uint64_t ns)
{
	CUfunction f = NULL;
	must(!cuModuleGetFunction(&f, module, name), name);
	for (unsigned i = 0; i < times; i++)
		launch(name, f, ns);
}

static void take_a_child(void)
{
	fflush(stdout);
	pid_t child = fork();
	if (child > 0)
		waitpid(child, NULL, 0);
}

static uint64_t number(char ***at)
{
	must(**at != NULL, "a number is missing");
	return strtoull(*(*at)++, NULL, 0);
}

static const char *text(char ***at)
{
	must(**at != NULL, "a word is missing");
	return *(*at)++;
}

static void on_call(void *user, uint32_t domain, uint32_t function, const struct cupti_callback *c)
{
	(void)user, (void)domain, (void)function, (void)c;
}

static void subscribe(void)
{
	void *handle;
	must(subscribe_to != NULL, "no CUPTI");
	printf("subscribed %d\n", subscribe_to(&handle, on_call, NULL));
}

static void obey(char ***at)
{
	const char *word = text(at);
	if (!strcmp(word, "load")) {
		const char *path = text(at);
		must(dlopen(path, RTLD_NOW | RTLD_GLOBAL) != NULL, path);
	} else if (!strcmp(word, "init")) {
		init();
	} else if (!strcmp(word, "kernel")) {
		const char *name = text(at);
		unsigned times = (unsigned)number(at);
		kernels(name, times, number(at));
	} else if (!strcmp(word, "graph")) {
		unsigned times = (unsigned)number(at);
		graphs(times, (unsigned)number(at));
	} else if (!strcmp(word, "late")) {
		late = true;
	} else if (!strcmp(word, "calls")) {
		calls_off = !number(at);
	} else if (!strcmp(word, "copy")) {
		uint8_t kind = (uint8_t)number(at);
		do_work((struct fake_work){.kind = CUPTI_KIND_MEMCPY,
					   .copy_kind = kind,
					   .bytes = number(at)},
			5000);
	} else if (!strcmp(word, "peer")) {
		do_work((struct fake_work){.kind = CUPTI_KIND_MEMCPY2,
					   .copy_kind = 10,
					   .bytes = number(at)},
			7000);
	} else if (!strcmp(word, "whole")) {
		do_work((struct fake_work){.kind = CUPTI_KIND_GRAPH_TRACE}, number(at));
	} else if (!strcmp(word, "wait")) {
		uint8_t type = (uint8_t)number(at);
		do_work((struct fake_work){.kind = CUPTI_KIND_SYNCHRONIZATION, .copy_kind = type},
			number(at));
	} else if (!strcmp(word, "set")) {
		do_work((struct fake_work){.kind = CUPTI_KIND_MEMSET, .bytes = number(at)}, 3000);
	} else if (!strcmp(word, "untimed")) {
		do_work((struct fake_work){.kind = CUPTI_KIND_CONCURRENT_KERNEL, .name = "k"}, 0);
	} else if (!strcmp(word, "node")) {
		node = number(at);
	} else if (!strcmp(word, "drop")) {
		uint64_t n = number(at);
		must(drop != NULL, "no CUPTI");
		drop(n);
	} else if (!strcmp(word, "subscribe")) {
		subscribe();
	} else if (!strcmp(word, "sleep")) {
		usleep((useconds_t)number(at) * 1000);
	} else if (!strcmp(word, "fork")) {
		take_a_child();
	} else if (!strcmp(word, "kill")) {
		raise(SIGKILL);
	} else if (!strcmp(word, "quiet")) {
		quiet = true;
	} else {
		must(false, word);
	}
}

int main(int argc, char **argv)
{
	(void)argc;
	for (char **at = argv + 1; *at;)
		obey(&at);
	return 0;
}
