/* attach_job.c - a job that uses the fake GPU in several threads for as long as it is let, and
 * into which a CUPTI may come and from which it may go at any time.
 *
 * usage: attach_job THREADS [idle|replay|older|newer|graphs|torch|pools|subscribe|profile]
 *   idle       nothing is launched
 *   replay     a graph is launched beside each kernel
 *   older      likewise, from SIGUSR2 on; it was made at the start. To launch it beside a CUPTI
 *              ends the job with status 98
 *   newer      likewise, and it is made at SIGUSR2
 *   torch      it has loaded a libtorch_cuda.so
 *   pools      likewise, which has made a pool of memory, as for a graph
 *   graphs     CUPTI tells all work as graphs, as wholes
 *   subscribe  another tool has subscribed to CUPTI
 *   profile    another tool has CUPTI write records to a buffer of its own, which it uses again
 *              at the end
 *
 * Says "ready" when it runs, "graph" when it is about to launch one that it was told to. At SIGUSR1
 * and at SIGTERM, which ends it, it says "launches N made N wrong N": calls of the driver, kernels
 * of which CUPTI made a record, and calls after which a register or the state of SSE was not what
 * it had been. */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda_api.h"
#include "cupti_abi.h"
#include "fake_cupti.h"

#define MAX_THREADS  64
#define PAUSE_NS     100000L
#define LAUNCH	     307 /* cuLaunchKernel, as a CUpti_driver_api_trace_cbid */
#define GRAPH_LAUNCH 514 /* cuGraphLaunch */

static atomic_ulong launches, made, wrong;
static atomic_bool ended;
static bool graphs;
static _Atomic(CUgraphExec) replayed; /* NULL: none */
static atomic_bool replays;	      /* a thread is about to */
static bool older;
static CUfunction function;

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "attach_job: %s\n", what);
	exit(99);
}

static int is_cupti(struct dl_phdr_info *info, size_t size, void *unused)
{
	const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
	(void)size, (void)unused;
	return slash && !strcmp(slash + 1, "libcupti.so.13");
}

/* A reference to CUPTI while it is loaded, else NULL. dlopen() alone would look for its file, and
 * open that, at each call. */
static void *hold_cupti(void)
{
	return dl_iterate_phdr(is_cupti, NULL) ? dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD)
					       : NULL;
}

static bool has_cupti(void)
{
	void *cupti = hold_cupti();
	fake_cupti_is_in_fn *is_in = NULL;
	if (!cupti)
		return false;
	*(void **)&is_in = dlsym(cupti, "fake_cupti_is_in");
	bool in = is_in && is_in();
	dlclose(cupti);
	return in;
}

static void launch_graph(CUgraphExec exec)
{
	cuGraphLaunch(exec, NULL);
	if (older && has_cupti())
		_exit(98);
}

/* The arguments arrive as they were given, and what a call has to keep is kept: the driver is
 * entered where a thread may be redirected. */
static bool launch(unsigned number)
{
	unsigned before_mxcsr, after_mxcsr;
	double kept = number;
	__asm__ volatile("stmxcsr %0" : "=m"(before_mxcsr));
	CUgraphExec exec = atomic_load(&replayed);
	if (exec) {
		atomic_store(&replays, true);
		launch_graph(exec);
	}
	int rc = cuLaunchKernel(function, number | 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	__asm__ volatile("stmxcsr %0" : "=m"(after_mxcsr));
	return !rc && before_mxcsr == after_mxcsr && kept == number;
}

/* A reference is held while CUPTI is called: it may be unloaded by who has loaded it. */
static void tell_cupti(unsigned number)
{
	void *cupti = hold_cupti();
	fake_cupti_did_fn *did = NULL;
	fake_cupti_entered_fn *enter = NULL;
	fake_cupti_clock_fn *clock = NULL;
	fake_cupti_called_fn *called = NULL;
	if (!cupti)
		return;
	*(void **)&did = dlsym(cupti, "fake_cupti_did");
	*(void **)&enter = dlsym(cupti, "fake_cupti_entered");
	*(void **)&clock = dlsym(cupti, "fake_cupti_clock");
	*(void **)&called = dlsym(cupti, "fake_cupti_called");
	if (!did) { /* a real one */
		dlclose(cupti);
		return;
	}
	enter(0);
	struct fake_work w = {.kind = graphs ? CUPTI_KIND_GRAPH_TRACE
					     : CUPTI_KIND_CONCURRENT_KERNEL,
			      .name = "attached_kernel",
			      .start_ns = clock(),
			      .device = 1,
			      .context = 2,
			      .stream = 7,
			      .correlation = number};
	w.end_ns = w.start_ns + 1000;
	called(&(struct fake_call){.function = graphs ? GRAPH_LAUNCH : LAUNCH,
				   .correlation = number,
				   .start_ns = w.start_ns - 1000,
				   .end_ns = w.start_ns});
	if (did(&w))
		atomic_fetch_add(&made, 1);
	enter(1);
	dlclose(cupti);
}

static void *work(void *arg)
{
	void *volatile first =
		malloc(1); /* what a thread's malloc() maps is there from the start */
	free(first);
	(void)arg;
	while (!atomic_load(&ended)) {
		unsigned number = (unsigned)atomic_fetch_add(&launches, 1);
		if (!launch(number))
			atomic_fetch_add(&wrong, 1);
		tell_cupti(number);
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	}
	return NULL;
}

static CUgraphExec make_graph(void)
{
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;
	must(!cuGraphCreate(&graph, 0) && !cuGraphInstantiateWithFlags(&exec, graph, 0),
	     "no graph");
	return exec;
}

/* The numbers of PyTorch's next pools of memory. */
static void load_torch(bool makes_pool)
{
	uint64_t *next = NULL;
	void *torch = dlopen("libtorch_cuda.so", RTLD_NOW);
	must(torch != NULL, "no libtorch_cuda.so");
	*(void **)&next = dlsym(torch, "_ZN2at4cuda7MemPool5uuid_E");
	must(next && *next == 1, "libtorch_cuda.so is another");
	*next += makes_pool;
}

static void on_call(void *user, uint32_t domain, uint32_t id, const struct cupti_callback *data)
{
	(void)user, (void)domain, (void)id, (void)data;
}

static void subscribe(void)
{
	static void *handle;
	int (*subscribe_to)(void **, cupti_call_fn, void *) = NULL;
	void *cupti = dlopen("libcupti.so.13", RTLD_NOW);
	must(cupti != NULL, "no libcupti.so.13");
	*(void **)&subscribe_to = dlsym(cupti, "cuptiSubscribe");
	must(subscribe_to && !subscribe_to(&handle, on_call, NULL), "cannot subscribe");
}

static uint8_t tools_buffer[1u << 20] __attribute__((aligned(4096)));

static void request(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
	*buffer = tools_buffer;
	*bytes = 1u << 16;
	*most_records = 0;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
	(void)context, (void)stream, (void)buffer, (void)bytes, (void)valid;
}

static void profile(void)
{
	int (*enable)(uint32_t) = NULL;
	int (*set)(cupti_request_fn, cupti_complete_fn) = NULL;
	void *cupti = dlopen("libcupti.so.13", RTLD_NOW);
	must(cupti != NULL, "no libcupti.so.13");
	*(void **)&enable = dlsym(cupti, "cuptiActivityEnable");
	*(void **)&set = dlsym(cupti, "cuptiActivityRegisterCallbacks");
	must(enable && set && !set(request, complete) && !enable(CUPTI_KIND_CONCURRENT_KERNEL),
	     "cannot profile");
}

static void say(void)
{
	printf("launches %lu made %lu wrong %lu\n", atomic_load(&launches), atomic_load(&made),
	       atomic_load(&wrong));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS] = {0};
	CUmodule module;
	sigset_t set;
	int signal_number, n = argc > 1 ? atoi(argv[1]) : 0;
	const char *how = argc > 2 ? argv[2] : "";
	must(n > 0 && n <= MAX_THREADS, "usage: attach_job THREADS [HOW]");
	must(!cuInit(0) && !cuModuleLoadData(&module, "image") &&
		     !cuModuleGetFunction(&function, module, "attached_kernel"),
	     "the driver does not start");
	graphs = !strcmp(how, "graphs");
	older = !strcmp(how, "older");
	bool newer = !strcmp(how, "newer");
	CUgraphExec made_first = older ? make_graph() : NULL;
	if (!strcmp(how, "replay"))
		atomic_store(&replayed, make_graph());
	if (!strcmp(how, "torch") || !strcmp(how, "pools"))
		load_torch(!strcmp(how, "pools"));
	if (!strcmp(how, "subscribe"))
		subscribe();
	if (!strcmp(how, "profile"))
		profile();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < n && strcmp(how, "idle") != 0; i++)
		must(!pthread_create(&threads[i], NULL, work, NULL), "no thread");
	puts("ready");
	fflush(stdout);
	while (!sigwait(&set, &signal_number) && signal_number != SIGTERM) {
		if (signal_number != SIGUSR2) {
			say();
			continue;
		}
		atomic_store(&replayed, newer ? make_graph() : made_first);
		while (n > 0 && strcmp(how, "idle") != 0 && !atomic_load(&replays))
			sched_yield();
		puts("graph");
		fflush(stdout);
	}
	atomic_store(&ended, true);
	for (int i = 0; i < n && strcmp(how, "idle") != 0; i++)
		pthread_join(threads[i], NULL);
	memset(tools_buffer, 0, sizeof(tools_buffer));
	say();
	return 0;
}
