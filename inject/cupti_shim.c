/* cupti_shim.c - is loaded into a traced process, by CUDA itself (CUDA_INJECTION64_PATH) or by
 * src/remote while it runs, and hands on what CUPTI's activity records say of kernels, copies,
 * sets, waits and graphs.
 *
 * It calls nothing of CUDA's driver or runtime, keeps the job waiting for nothing and prints
 * nothing; what goes wrong is said in the ring's header. Where eacgm has ended or asks for it,
 * recording is switched off, CUPTI is ended, and the process goes on without; where it came while
 * the process ran it unloads itself.
 *
 * CUPTI hands over a buffer when it is full, or at a flush once all work in it is complete
 * (cuptiActivityFlushAll in cupti_activity.h): so a thread flushes at intervals, and buffers are
 * small. Times are CLOCK_MONOTONIC: CUPTI reads the clock that we register to convert the
 * device's; where it is too old for that, each buffer's are shifted by what the two clocks
 * differ then. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "buffers.h"
#include "detach.h"
#include "driver_calls.h"
#include "ending.h"
#include "find.h"
#include "gate.h"
#include "kinds.h"
#include "records.h"
#include "ring.h"
#include "presence.h"
#include "torch_ops.h"

#define CLOCK_SLACK_NS 1000000000ULL
#define THREAD_NAME    "eacgm-gpu"

/* The process's one shim. */
static struct {
	pid_t pid; /* that it was started in; a forked child is another */
	struct cupti cupti;
	bool own_clock;	  /* CUPTI's times are CLOCK_MONOTONIC */
	unsigned options; /* of enum gpu_options */
	bool attached;	  /* while the process ran */
	bool registered;  /* CUPTI knows our functions */
	/* CUPTI has prepared CUDA graphs of the process for itself. Once it is finalized their next
	 * launch fails ("unspecified launch failure"), so it is not. Never false again. */
	bool graphs;
	bool paused;
	bool foreign; /* atomic: buffers came that are another's */

	pthread_mutex_t ring_lock;
	struct ring ring;
} shim = {.ring_lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((visibility("default"))) int InitializeInjection(void);
__attribute__((used, visibility("hidden"))) void *shim_attached(const char *argument, void *handle,
								uint64_t *entered);
__attribute__((used, visibility("hidden"))) void on_request(uint8_t **buffer, size_t *bytes,
							    size_t *most_records);
__attribute__((used, visibility("hidden"))) void
on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid_bytes);
extern const char on_request_gate[] __attribute__((visibility("hidden")));
extern const char on_complete_gate[] __attribute__((visibility("hidden")));
GATE(on_request)
GATE(on_complete)

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

/* ---- records ---- */

static int64_t clock_difference(void)
{
	uint64_t narrowest = UINT64_MAX;
	int64_t difference = 0;
	if (shim.own_clock)
		return 0;
	for (int i = 0; i < 3; i++) {
		uint64_t before = now_ns(), theirs = 0;
		if (shim.cupti.GetTimestamp(&theirs))
			continue;
		uint64_t after = now_ns();
		if (after - before < narrowest) {
			narrowest = after - before;
			difference = (int64_t)(before + narrowest / 2 - theirs);
		}
	}
	return difference;
}

static void take_call(struct gpu_ring_call *call, int64_t difference_ns)
{
	bool makes_graph = driver_calls_makes_graph(call->function);
	shim.graphs |= makes_graph || driver_calls_starts_graph(call->function);
	if (makes_graph || !call->start_ns || call->end_ns < call->start_ns)
		return;
	call->start_ns += (uint64_t)difference_ns;
	call->end_ns += (uint64_t)difference_ns;
	ring_put_call(&shim.ring, call);
}

/* Times of 0 are CUPTI's way to say that it has none, or that the work is not complete. */
static void take_record(const void *record, int64_t difference_ns, uint64_t now)
{
	struct gpu_ring_span span;
	struct gpu_ring_call call;
	const char *name;
	if (driver_calls_read(record, &call))
		take_call(&call, difference_ns);
	if (!records_read(record, &span, &name))
		return;
	shim.graphs |= span.work == GPU_RING_GRAPH || span.graph_node;
	if (!span.start_ns || !span.end_ns || span.end_ns < span.start_ns) {
		__atomic_fetch_add(&shim.ring.header->untimed, 1, __ATOMIC_RELAXED);
		return;
	}
	span.start_ns += (uint64_t)difference_ns;
	span.end_ns += (uint64_t)difference_ns;
	if (span.end_ns > now) { /* of another clock: it began while we told CUPTI ours */
		__atomic_fetch_add(&shim.ring.header->untimed, 1, __ATOMIC_RELAXED);
		return;
	}
	ring_put(&shim.ring, &span, name);
}

static void take_buffer(uint8_t *buffer, size_t valid_bytes)
{
	void *record = NULL;
	size_t dropped = 0;
	pthread_mutex_lock(&shim.ring_lock);
	int64_t difference_ns = shim.ring.header ? clock_difference() : 0; /* NULL: at rest */
	uint64_t now = now_ns() + CLOCK_SLACK_NS;
	while (shim.ring.header &&
	       shim.cupti.ActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS)
		take_record(record, difference_ns, now);
	if (shim.ring.header &&
	    shim.cupti.ActivityGetNumDroppedRecords(NULL, 0, &dropped) == CUPTI_SUCCESS && dropped)
		__atomic_fetch_add(&shim.ring.header->dropped, dropped, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&shim.ring_lock);
}

/* ---- buffers ---- */

void on_request(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
	gate_enter();
	*most_records = 0;
	*buffer = buffers_lend();
	*bytes = *buffer ? BUFFER_BYTES : 0;
}

void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid_bytes)
{
	gate_enter();
	(void)context;
	(void)stream;
	(void)bytes;
	if (!buffers_take_back(buffer)) {
		__atomic_store_n(&shim.foreign, true, __ATOMIC_RELAXED);
		return;
	}
	if (getpid() == shim.pid && valid_bytes)
		take_buffer(buffer, valid_bytes);
	buffers_keep(buffer);
}

/* ---- on and off ---- */

static void fail(const char *doing, int rc)
{
	char text[256];
	const char *why = NULL;
	if (shim.cupti.GetResultString)
		shim.cupti.GetResultString(rc, &why);
	snprintf(text, sizeof(text), "CUPTI cannot %s: %s (%d)", doing, why ? why : "error", rc);
	ring_set_state(&shim.ring, GPU_RING_FAILED, text);
}

static void disable(void)
{
	kinds_disable(&shim.cupti);
	shim.cupti.ActivityDisable(CUPTI_KIND_GRAPH_TRACE);
}

/* In a process that ran already, graphs are told as wholes, whatever was asked for: to tell the
 * nodes of a graph that was made before, CUPTI makes its next launch crash. */
static bool enable_graphs(struct cupti *c)
{
	if (!shim.attached && !(shim.options & GPU_OPTION_GRAPHS))
		return true;
	int rc = c->ActivityEnable(CUPTI_KIND_GRAPH_TRACE);
	if (rc && shim.attached)
		fail("leave CUDA graphs whole", rc);
	return !rc || !shim.attached; /* before CUDA 11.7: nodes */
}

/* Once more after a pause. 0, or CUPTI's word. */
static int enable_kinds(void)
{
	bool calls = false;
	int rc = kinds_enable(&shim.cupti, shim.options, &calls);
	if (calls)
		ring_set_tells(&shim.ring, GPU_RING_TELLS_CALLS);
	return rc;
}

static bool enable(void)
{
	struct cupti *c = &shim.cupti;
	shim.registered = true;
	shim.own_clock = c->ActivityRegisterTimestampCallback &&
			 !c->ActivityRegisterTimestampCallback(now_ns);
	int rc = c->ActivityRegisterCallbacks((cupti_request_fn)(uintptr_t)on_request_gate,
					      (cupti_complete_fn)(uintptr_t)on_complete_gate);
	if (rc) {
		fail("hand over records", rc);
		return false;
	}
	if (!enable_graphs(c))
		return false;
	rc = enable_kinds();
	if (rc) {
		disable();
		fail("record what the GPU does", rc);
	}
	return !rc;
}

/* Bursts: nothing is recorded for the time being. Graphs are told as wholes then, and go on to be:
 * see enable_graphs. */
static void follow_pause(void)
{
	bool pause = ring_paused(&shim.ring);
	if (pause == shim.paused)
		return;
	shim.paused = pause;
	if (pause)
		kinds_disable(&shim.cupti);
	else
		enable_kinds();
}

#define GRAPHS_STAY                                                                                \
	"CUPTI stays in the process, switched off: it has prepared the CUDA graphs, which would "  \
	"fail without it"

#define FOREIGN                                                                                    \
	"another tool recorded through CUPTI when the timeline began: what it has of this time "   \
	"is not whole"

/* Hands over all that is complete, and what is not: of that the times are missing, and it is
 * counted. */
static bool end_recording(bool goes_on)
{
	const char *stays = NULL;
	bool left = torch_ops_stop(goes_on);
	if (goes_on)
		disable();
	shim.cupti.ActivityFlushAll(CUPTI_FLUSH_FORCED);
	if (goes_on && shim.graphs)
		stays = GRAPHS_STAY;
	else if (goes_on)
		stays = detach_cupti(&shim.cupti);
	if (!left && !stays)
		stays = "the shim stays in the process: an operator has not ended";
	pthread_mutex_lock(&shim.ring_lock);
	bool foreign = __atomic_load_n(&shim.foreign, __ATOMIC_RELAXED);
	ring_set_state(&shim.ring, GPU_RING_ENDED, stays ? stays : foreign ? FOREIGN : "");
	pthread_mutex_unlock(&shim.ring_lock);
	buffers_free();
	return !stays;
}

/* True when CUPTI was ended: eacgm asked for it, or has ended. False when the process ends. */
static bool flush_at_intervals(void)
{
	while (!ending_wait_a_while()) {
		if (ring_stopped(&shim.ring) || presence_has_ended())
			return end_recording(true);
		follow_pause();
		shim.cupti.ActivityFlushAll(0);
	}
	return false;
}

static void *flush(void *arg)
{
	(void)arg;
	flush_at_intervals();
	ending_thread_is_done();
	return NULL;
}

static void start_flusher(void)
{
	sigset_t all, old;
	pthread_t flusher;
	sigfillset(&all); /* the job's signals are for the job's threads */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	bool runs = !pthread_create(&flusher, NULL, flush, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	ending_set_thread(runs);
	if (!runs)
		return;
	pthread_setname_np(flusher, THREAD_NAME);
	pthread_detach(flusher);
}

/* Handlers run in the reverse order of their registration: this one before the driver's. Where
 * the shim is unloaded it runs too, and finds all done. */
static void on_exit_of_process(void)
{
	if (getpid() == shim.pid && ending_stop_thread())
		end_recording(false);
}

/* The ring is open; what goes wrong is said there. */
static bool start(void)
{
	char path[sizeof(shim.ring.header->text)] = "";
	ending_open();
	const char *missing = cupti_find(&shim.cupti, path, sizeof(path));
	if (!missing && shim.attached)
		missing = detach_other_user(&shim.cupti);
	if (missing) {
		ring_set_state(&shim.ring, GPU_RING_FAILED, missing);
		return false;
	}
	if (shim.cupti.GetVersion)
		shim.cupti.GetVersion(&shim.ring.header->cupti_version);
	ring_set_state(&shim.ring, GPU_RING_STARTING, path);
	if (!enable())
		return false;
	ring_set_state(&shim.ring, GPU_RING_ON, NULL);
	if (shim.options & GPU_OPTION_OPERATORS)
		torch_ops_start(&shim.ring, &shim.ring_lock,
				shim.options & GPU_OPTION_LAUNCHES ? &shim.cupti : NULL);
	atexit(on_exit_of_process);
	return true;
}

/* ---- loaded by CUDA ---- */

/* CUDA does not unload what it has loaded, but nobody says so. */
static void stay_loaded(void)
{
	Dl_info info;
	if (dladdr(&shim, &info) && info.dli_fname)
		dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

/* CUDA calls it once, at the process's first cuInit. */
int InitializeInjection(void)
{
	const char *folder = getenv(GPU_RINGS_ENV), *options = getenv(GPU_OPTIONS_ENV);
	if (shim.pid || !folder)
		return 1;
	stay_loaded();
	shim.pid = getpid();
	shim.options = options ? (unsigned)strtoul(options, NULL, 10) : 0;
	if (presence_set(folder, (int)strlen(folder)) && ring_open(&shim.ring, folder) && start())
		start_flusher();
	return 1;
}

/* ---- come into a running process ---- */

/* The argument is "OPTIONS RING", the ring's file in the session's folder. */
static bool begin(const char *argument)
{
	char *ring;
	shim.options = (unsigned)strtoul(argument, &ring, 10);
	char *slash = *ring == ' ' ? strrchr(++ring, '/') : NULL;
	return slash && presence_set(ring, (int)(slash - ring)) &&
	       ring_open_file(&shim.ring, ring) && start();
}

/* All that the process has of us, but the shim itself. CUPTI's library stays: it has destructors
 * for data of each thread that it met, which run when these threads end. */
static void give_back(void)
{
	pthread_mutex_lock(&shim.ring_lock);
	if (shim.ring.header)
		ring_close(&shim.ring);
	pthread_mutex_unlock(&shim.ring_lock);
	ending_close();
	shim.cupti = (struct cupti){0};
	shim.foreign = false;
	shim.pid = 0;
}

/* A thread that the job did not start, with all signals blocked. Returns the handle when the shim
 * is to be unloaded: CUPTI knows nothing of it, and nobody is in it. */
void *shim_attached(const char *argument, void *handle, uint64_t *entered)
{
	char copy[4096];
	snprintf(copy, sizeof(copy), "%s", argument);
	__atomic_store_n(entered, 1, __ATOMIC_SEQ_CST);
	pthread_setname_np(pthread_self(), THREAD_NAME);
	if (shim.pid)
		return NULL;
	shim.pid = getpid();
	shim.attached = true;
	bool out = true;
	if (begin(copy)) {
		ending_set_thread(true);
		out = flush_at_intervals();
		if (!ending_thread_is_done())
			for (;;)
				pause(); /* the process ends, and this code with it */
	} else if (shim.registered)
		out = !detach_cupti(&shim.cupti);
	bool unload = out && gate_wait();
	if (unload || shim.graphs)
		give_back(); /* where the shim stays, it is at rest; the next recording has another
			      */
	return unload ? handle : NULL;
}
