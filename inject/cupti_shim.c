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
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "detach.h"
#include "driver_calls.h"
#include "find.h"
#include "gate.h"
#include "ring.h"
#include "torch_ops.h"

#define BUFFER_BYTES   (1u << 20) /* some 5,000 kernels */
#define SPARE_BUFFERS  16
#define LENT_BUFFERS   4096 /* CUPTI holds one for each context and thread, and some more */
#define CLOCK_SLACK_NS 1000000000ULL
#define FLUSH_NS       100000000L
#define JOIN_S	       2
#define THREAD_NAME    "eacgm-gpu"

static const uint32_t kinds[] = {CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_KIND_MEMCPY, CUPTI_KIND_MEMSET,
				 CUPTI_KIND_MEMCPY2};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* The process's one shim. */
static struct {
	pid_t pid; /* that it was started in; a forked child is another */
	char lock_path[4096];
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

	pthread_mutex_t buffer_lock;
	uint8_t *spare[SPARE_BUFFERS];
	size_t spares;
	uint8_t *lent[LENT_BUFFERS]; /* to CUPTI */
	size_t lents;

	pthread_mutex_t end_lock;
	pthread_cond_t end_wake;
	bool ending;
	bool ended; /* the thread has no more to do */
	bool flusher_runs;
} shim = {.ring_lock = PTHREAD_MUTEX_INITIALIZER,
	  .buffer_lock = PTHREAD_MUTEX_INITIALIZER,
	  .end_lock = PTHREAD_MUTEX_INITIALIZER};

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

/* False for kinds that were not asked for. */
static bool read_record(const void *record, struct gpu_ring_span *ret, const char **name)
{
	const struct cupti_kernel *k = record;
	const struct cupti_copy *c = record;
	const struct cupti_peer_copy *p = record;
	const struct cupti_set *s = record;
	const struct cupti_sync *y = record;
	const struct cupti_graph *g = record;
#define COMMON(r)                                                                                  \
	.start_ns = (r)->start, .end_ns = (r)->end, .device = (r)->device,                         \
	.context = (r)->context, .stream = (r)->stream, .correlation = (r)->correlation,           \
	.graph_node = (r)->graph_node, .graph = (r)->graph
#define COPY(r)                                                                                    \
	COMMON(r), .work = GPU_RING_COPY, .copy_kind = (r)->copy_kind, .bytes = (r)->bytes,        \
		   .source_kind = (r)->source_kind, .destination_kind = (r)->destination_kind,     \
		   .async = (r)->flags & CUPTI_COPY_ASYNC
	*name = NULL;
	switch (((const struct cupti_record *)record)->kind) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		*ret = (struct gpu_ring_span){
			COMMON(k),
			.work = GPU_RING_KERNEL,
			.grid = {(uint32_t)k->grid[0], (uint32_t)k->grid[1], (uint32_t)k->grid[2]},
			.block = {(uint32_t)k->block[0], (uint32_t)k->block[1],
				  (uint32_t)k->block[2]},
			.shared_bytes = (uint32_t)k->static_shared + (uint32_t)k->dynamic_shared,
			.registers = k->registers,
		};
		*name = k->name;
		return true;
	case CUPTI_KIND_MEMCPY:
		*ret = (struct gpu_ring_span){COPY(c)};
		return true;
	case CUPTI_KIND_MEMCPY2:
		*ret = (struct gpu_ring_span){COPY(p)};
		return true;
	case CUPTI_KIND_MEMSET:
		*ret = (struct gpu_ring_span){COMMON(s), .work = GPU_RING_SET, .bytes = s->bytes};
		return true;
	case CUPTI_KIND_SYNCHRONIZATION:
		*ret = (struct gpu_ring_span){.start_ns = y->start,
					      .end_ns = y->end,
					      .context = y->context,
					      .stream = y->stream,
					      .correlation = y->correlation,
					      .work = GPU_RING_SYNC,
					      .copy_kind = (uint8_t)y->type};
		return true;
	case CUPTI_KIND_GRAPH_TRACE:
		*ret = (struct gpu_ring_span){.start_ns = g->start,
					      .end_ns = g->end,
					      .device = g->device,
					      .context = g->context,
					      .stream = g->stream,
					      .correlation = g->correlation,
					      .graph = g->graph,
					      .work = GPU_RING_GRAPH};
		return true;
	default:
		return false;
	}
#undef COMMON
#undef COPY
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
	if (!read_record(record, &span, &name))
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

/* Not of malloc: what is given back goes to the kernel, not to the heap of one of the job's
 * threads. */
static uint8_t *new_buffer(void)
{
	void *p = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	return p == MAP_FAILED ? NULL : p;
}

void on_request(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
	gate_enter();
	*buffer = NULL;
	*most_records = 0;
	pthread_mutex_lock(&shim.buffer_lock);
	if (shim.lents < LENT_BUFFERS)
		*buffer = shim.spares ? shim.spare[--shim.spares] : new_buffer();
	if (*buffer)
		shim.lent[shim.lents++] = *buffer;
	pthread_mutex_unlock(&shim.buffer_lock);
	*bytes = *buffer ? BUFFER_BYTES : 0; /* without one CUPTI drops records, and counts them */
}

/* False when it is not ours: a tool that was there before us has given it, and has our functions in
 * the place of its own. */
static bool take_back(const uint8_t *buffer)
{
	bool found = false;
	pthread_mutex_lock(&shim.buffer_lock);
	for (size_t i = 0; i < shim.lents && !found; i++) {
		found = shim.lent[i] == buffer;
		if (found)
			shim.lent[i] = shim.lent[--shim.lents];
	}
	pthread_mutex_unlock(&shim.buffer_lock);
	return found;
}

void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid_bytes)
{
	gate_enter();
	(void)context;
	(void)stream;
	(void)bytes;
	if (!take_back(buffer)) {
		__atomic_store_n(&shim.foreign, true, __ATOMIC_RELAXED);
		return;
	}
	if (getpid() == shim.pid && valid_bytes)
		take_buffer(buffer, valid_bytes);
	pthread_mutex_lock(&shim.buffer_lock);
	bool keeps = shim.spares < SPARE_BUFFERS;
	if (keeps)
		shim.spare[shim.spares++] = buffer;
	pthread_mutex_unlock(&shim.buffer_lock);
	if (!keeps)
		munmap(buffer, BUFFER_BYTES);
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

static void disable_kinds(void)
{
	for (size_t i = 0; i < KINDS; i++)
		shim.cupti.ActivityDisable(kinds[i]);
	shim.cupti.ActivityDisable(CUPTI_KIND_SYNCHRONIZATION);
	driver_calls_disable(&shim.cupti);
}

static void disable(void)
{
	disable_kinds();
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
static int enable_kinds(const struct cupti *c)
{
	for (size_t i = 0; i < KINDS; i++) {
		int rc = c->ActivityEnable(kinds[i]);
		if (rc)
			return rc;
	}
	if (shim.options & GPU_OPTION_WAITS)
		c->ActivityEnable(CUPTI_KIND_SYNCHRONIZATION);
	if (driver_calls_enable(c))
		ring_set_tells(&shim.ring, GPU_RING_TELLS_CALLS);
	return 0;
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
	rc = enable_kinds(c);
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
		disable_kinds();
	else
		enable_kinds(&shim.cupti);
}

static void free_spares(void)
{
	pthread_mutex_lock(&shim.buffer_lock);
	while (shim.spares)
		munmap(shim.spare[--shim.spares], BUFFER_BYTES);
	pthread_mutex_unlock(&shim.buffer_lock);
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
	free_spares();
	return !stays;
}

/* The path is opened each time: a job may close descriptors that are not its own. To close it
 * again releases this process's own locks on it, of which there are none. */
static bool eacgm_has_ended(void)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	int fd = open(shim.lock_path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT;
	bool unlocked = !fcntl(fd, F_GETLK, &lock) && lock.l_type == F_UNLCK;
	close(fd);
	return unlocked;
}

/* True when the process ends. */
static bool wait_a_while(void)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += FLUSH_NS;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_nsec -= 1000000000L;
		until.tv_sec++;
	}
	pthread_mutex_lock(&shim.end_lock);
	while (!shim.ending && !pthread_cond_timedwait(&shim.end_wake, &shim.end_lock, &until))
		;
	bool ending = shim.ending;
	pthread_mutex_unlock(&shim.end_lock);
	return ending;
}

/* True when CUPTI was ended: eacgm asked for it, or has ended. False when the process ends. */
static bool flush_at_intervals(void)
{
	while (!wait_a_while()) {
		if (ring_stopped(&shim.ring) || eacgm_has_ended())
			return end_recording(true);
		follow_pause();
		shim.cupti.ActivityFlushAll(0);
	}
	return false;
}

/* Whoever ends the process waits for this. True when nobody does. */
static bool end_flusher(void)
{
	pthread_mutex_lock(&shim.end_lock);
	shim.ended = true;
	pthread_cond_broadcast(&shim.end_wake);
	bool ending = shim.ending;
	pthread_mutex_unlock(&shim.end_lock);
	return !ending;
}

static void *flush(void *arg)
{
	(void)arg;
	flush_at_intervals();
	end_flusher();
	return NULL;
}

static void start_flusher(void)
{
	sigset_t all, old;
	pthread_t flusher;
	sigfillset(&all); /* the job's signals are for the job's threads */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	shim.flusher_runs = !pthread_create(&flusher, NULL, flush, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!shim.flusher_runs)
		return;
	pthread_setname_np(flusher, THREAD_NAME);
	pthread_detach(flusher);
}

/* True when the thread left the end of recording to us. One that hangs in CUPTI does not keep the
 * process from its end. */
static bool stop_flusher(void)
{
	struct timespec until;
	if (!shim.flusher_runs)
		return true;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += JOIN_S;
	pthread_mutex_lock(&shim.end_lock);
	bool had_ended = shim.ended;
	shim.ending = true;
	pthread_cond_broadcast(&shim.end_wake);
	while (!shim.ended && !pthread_cond_timedwait(&shim.end_wake, &shim.end_lock, &until))
		;
	bool ended = shim.ended;
	pthread_mutex_unlock(&shim.end_lock);
	return ended && !had_ended;
}

/* Handlers run in the reverse order of their registration: this one before the driver's. Where
 * the shim is unloaded it runs too, and finds all done. */
static void on_exit_of_process(void)
{
	if (getpid() == shim.pid && stop_flusher())
		end_recording(false);
}

/* The ring is open; what goes wrong is said there. */
static bool start(void)
{
	char path[sizeof(shim.ring.header->text)] = "";
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&shim.end_wake, &attributes);
	pthread_condattr_destroy(&attributes);
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

static bool set_lock_path(const char *folder, int len)
{
	int n = snprintf(shim.lock_path, sizeof(shim.lock_path), "%.*s/" GPU_RINGS_LOCK, len,
			 folder);
	return n > 0 && (size_t)n < sizeof(shim.lock_path) && !eacgm_has_ended();
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
	if (set_lock_path(folder, (int)strlen(folder)) && ring_open(&shim.ring, folder) && start())
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
	return slash && set_lock_path(ring, (int)(slash - ring)) &&
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
	pthread_cond_destroy(&shim.end_wake);
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
		shim.flusher_runs = true;
		out = flush_at_intervals();
		if (!end_flusher())
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
