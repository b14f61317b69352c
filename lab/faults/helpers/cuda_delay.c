/* cuda_delay.c - makes calls of the CUDA driver take longer, from within the job, for the fault
 * laboratory: CUPTI's callback on the entry of a launch or a copy waits there, hence within the
 * call, and takes down which call it was.
 *
 * The job loads it, switches it on and off and takes the calls out after each step
 * (faults/cuda_delay.py). One subscriber at a time: that is CUPTI's rule. The calls of a step that
 * find no room are delayed and not taken down; with CALLS_MOST that is no real step. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "find.h"

#define CALLS_MOST 8192
#define EXPORTED   __attribute__((visibility("default")))

struct call {
	uint64_t start_ns, end_ns;
	uint32_t tid, cbid;
};
_Static_assert(sizeof(struct call) == 24, "faults/cuda_delay.py reads it");

/* CUpti_driver_api_trace_cbid of cupti_driver_cbid.h: append-only since CUDA 4. */
static const struct {
	uint32_t cbid;
	const char *name;
} DELAYED[] = {
	{277, "cuMemcpyHtoDAsync_v2"},
	{279, "cuMemcpyDtoHAsync_v2"},
	{307, "cuLaunchKernel"},
	{652, "cuLaunchKernelEx"},
};
#define DELAYED_LEN (sizeof(DELAYED) / sizeof(DELAYED[0]))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct call calls[CALLS_MOST]; /* lock */
static size_t calls_len;	      /* lock */
static uint64_t delay_ns;
static struct cupti cupti;
static void *subscriber;
static _Thread_local uint64_t entered_ns;

EXPORTED const char *fault_cuda_begin(void);
EXPORTED void fault_cuda_set(uint64_t ns);
EXPORTED size_t fault_cuda_take(struct call *ret, size_t most);
EXPORTED const char *fault_cuda_name(uint32_t cbid);
EXPORTED void fault_cuda_end(void);

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static void take_down(uint32_t cbid, uint64_t end_ns)
{
	pthread_mutex_lock(&lock);
	if (calls_len < CALLS_MOST)
		calls[calls_len++] = (struct call){
			.start_ns = entered_ns,
			.end_ns = end_ns,
			.tid = (uint32_t)syscall(SYS_gettid),
			.cbid = cbid,
		};
	pthread_mutex_unlock(&lock);
}

static void on_call(void *ctx, uint32_t domain, uint32_t cbid, const struct cupti_callback *call)
{
	(void)ctx, (void)domain;
	if (call->site == CUPTI_SITE_EXIT) {
		if (entered_ns) /* 0: it began before the fault did */
			take_down(cbid, now_ns());
		entered_ns = 0;
		return;
	}
	entered_ns = now_ns();
	uint64_t until = entered_ns + __atomic_load_n(&delay_ns, __ATOMIC_RELAXED);
	while (now_ns() < until)
		;
}

/* Launches and copies are taken down from now on, without delay yet. NULL, or why not. */
const char *fault_cuda_begin(void)
{
	char path[512] = "";
	const char *missing = cupti_find(&cupti, path, sizeof(path));
	if (missing)
		return missing;
	if (!cupti.Subscribe || !cupti.Unsubscribe || !cupti.EnableCallback)
		return "this CUPTI has no callbacks";
	fault_cuda_set(0);
	if (cupti.Subscribe(&subscriber, on_call, NULL))
		return "CUPTI takes no subscriber: it knows but one, and needs a GPU";
	for (size_t i = 0; i < DELAYED_LEN; i++)
		cupti.EnableCallback(1, subscriber, CUPTI_DOMAIN_DRIVER, DELAYED[i].cbid);
	return NULL;
}

void fault_cuda_set(uint64_t ns)
{
	__atomic_store_n(&delay_ns, ns, __ATOMIC_RELAXED);
}

/* The calls since the last time; how many. */
size_t fault_cuda_take(struct call *ret, size_t most)
{
	pthread_mutex_lock(&lock);
	size_t n = calls_len < most ? calls_len : most;
	memcpy(ret, calls, n * sizeof(*ret));
	calls_len = 0;
	pthread_mutex_unlock(&lock);
	return n;
}

const char *fault_cuda_name(uint32_t cbid)
{
	for (size_t i = 0; i < DELAYED_LEN; i++) {
		if (DELAYED[i].cbid == cbid)
			return DELAYED[i].name;
	}
	return "?";
}

void fault_cuda_end(void)
{
	if (subscriber)
		cupti.Unsubscribe(subscriber);
	subscriber = NULL;
}
