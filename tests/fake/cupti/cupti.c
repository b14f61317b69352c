/* cupti.c - a libcupti.so.13 without a GPU: it exports the real functions that the shim uses
 * and makes activity records, of the real sizes, of the work that it is told of
 * (fake_cupti.h). With FAKE_CUPTI_OLD it is one of CUDA 12 without a clock of the client's.
 *
 * Where FAKE_CUPTI_LOG names a file, each cuptiFinalize adds a line to it: "in a call" or
 * "outside".
 *
 * A buffer is handed over when it is full or at a flush, by the thread that does it. Where
 * FAKE_CUPTI_REFUSES is set in the environment, recording is refused as by a driver that does
 * not permit it; where FAKE_CUPTI_ENDS_S is, cuptiFinalize takes so many seconds. */
#include <pthread.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cupti_abi.h"
#include "fake_cupti.h"

#define EXPORT		   __attribute__((visibility("default")))
#define REFUSED		   35 /* CUPTI_ERROR_INSUFFICIENT_PRIVILEGES */
#define INVALID_PARAMETER  1  /* CUPTI_ERROR_INVALID_PARAMETER */
#define NO_MORE		   12 /* CUPTI_ERROR_MAX_LIMIT_REACHED */
#define UNKNOWN_KIND	   21 /* CUPTI_ERROR_INVALID_KIND */
#define ALREADY_SUBSCRIBED 39 /* CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED */
#define LARGEST_RECORD	   256
#define OTHER_CLOCK_NS	   3600000000000ULL /* a time so far ahead is of another clock */

/* sizeof of the structs of the header, of 13.0 or of 12 */
enum { SYNC_BYTES = 56, GRAPH_BYTES = 64 };
#ifdef FAKE_CUPTI_OLD
enum { KERNEL_BYTES = 208, COPY_BYTES = 88, PEER_COPY_BYTES = 96, SET_BYTES = 88 };
#else
enum { KERNEL_BYTES = 216, COPY_BYTES = 96, PEER_COPY_BYTES = 96, SET_BYTES = 88 };
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cupti_request_fn request;
static cupti_complete_fn complete;
static cupti_clock_fn own_clock;
static uint64_t enabled; /* bit by kind */
static uint8_t *buffer;
static size_t buffer_bytes, used;
static unsigned reading; /* clients, without the lock */
static pthread_cond_t nobody_reads = PTHREAD_COND_INITIALIZER;
static size_t dropped;
static bool told_calls[1024];	/* to the subscriber, likewise */
static bool wanted_calls[1024]; /* by CUpti_driver_api_trace_cbid */
static bool system_tids;
static cupti_call_fn subscriber;
static bool tells_calls; /* to the subscriber */
static _Thread_local bool in_call;

EXPORT int cuptiActivityRegisterCallbacks(cupti_request_fn on_request,
					  cupti_complete_fn on_complete);
EXPORT int cuptiActivityEnable(uint32_t kind);
EXPORT int cuptiActivityDisable(uint32_t kind);
EXPORT int cuptiActivityFlushAll(uint32_t flags);
EXPORT int cuptiActivityGetNextRecord(uint8_t *b, size_t valid, void **record);
EXPORT int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *ret);
EXPORT int cuptiGetTimestamp(uint64_t *ret);
EXPORT int cuptiGetResultString(int result, const char **ret);
EXPORT int cuptiSubscribe(void **ret, cupti_call_fn callback, void *user);
EXPORT int cuptiUnsubscribe(void *handle);
EXPORT int cuptiEnableDomain(uint32_t on, void *handle, uint32_t domain);
EXPORT int cuptiEnableCallback(uint32_t on, void *handle, uint32_t domain, uint32_t function);
EXPORT int cuptiFinalize(void);
EXPORT fake_cupti_at_launch_fn fake_cupti_at_launch;
EXPORT fake_cupti_did_fn fake_cupti_did;
EXPORT fake_cupti_entered_fn fake_cupti_entered;
EXPORT fake_cupti_called_fn fake_cupti_called;
EXPORT fake_cupti_drop_fn fake_cupti_drop;
EXPORT fake_cupti_clock_fn fake_cupti_clock;
EXPORT fake_cupti_is_in_fn fake_cupti_is_in;

/* ---- clock ---- */

static uint64_t realtime_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

uint64_t fake_cupti_clock(void)
{
	return own_clock ? own_clock() : realtime_ns();
}

int cuptiGetTimestamp(uint64_t *ret)
{
	*ret = fake_cupti_clock();
	return 0;
}

#ifndef FAKE_CUPTI_OLD
EXPORT int cuptiActivityRegisterTimestampCallback(cupti_clock_fn clock);
EXPORT int cuptiGetVersion(uint32_t *ret);
EXPORT int cuptiActivityEnableDriverApi(uint32_t function, uint8_t on);
EXPORT int cuptiSetThreadIdType(uint32_t type);

int cuptiActivityRegisterTimestampCallback(cupti_clock_fn clock)
{
	own_clock = clock;
	return 0;
}

/* As a driver that lacks the newest functions. */
int cuptiActivityEnableDriverApi(uint32_t function, uint8_t on)
{
	if (function >= 776)
		return INVALID_PARAMETER;
	wanted_calls[function] = on;
	return 0;
}

int cuptiSetThreadIdType(uint32_t type)
{
	system_tids = type == CUPTI_THREAD_ID_SYSTEM;
	return 0;
}

int cuptiGetVersion(uint32_t *ret)
{
	*ret = 130001;
	return 0;
}
#endif

int cuptiGetResultString(int result, const char **ret)
{
	*ret = result == REFUSED ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR_UNKNOWN";
	return 0;
}

/* ---- buffers ---- */

int cuptiActivityRegisterCallbacks(cupti_request_fn on_request, cupti_complete_fn on_complete)
{
	request = on_request;
	complete = on_complete;
	return 0;
}

int cuptiActivityEnable(uint32_t kind)
{
	if (getenv("FAKE_CUPTI_REFUSES"))
		return REFUSED;
	enabled |= 1ULL << kind;
	return 0;
}

int cuptiActivityDisable(uint32_t kind)
{
	enabled &= ~(1ULL << kind);
	return 0;
}

/* With the lock held; without it while the client reads. CUPTI may have been ended when it
 * returns. */
static void hand_over(void)
{
	uint8_t *full = buffer;
	size_t bytes = buffer_bytes, valid = used;
	cupti_complete_fn reader = complete;
	buffer = NULL;
	used = buffer_bytes = 0;
	if (!full || !reader)
		return;
	reading++;
	pthread_mutex_unlock(&lock);
	reader(NULL, 0, full, bytes, valid);
	pthread_mutex_lock(&lock);
	if (!--reading)
		pthread_cond_broadcast(&nobody_reads);
}

bool fake_cupti_is_in(void)
{
	return __atomic_load_n(&complete, __ATOMIC_SEQ_CST) != NULL;
}

int cuptiActivityFlushAll(uint32_t flags)
{
	(void)flags;
	pthread_mutex_lock(&lock);
	hand_over();
	pthread_mutex_unlock(&lock);
	return 0;
}

/* ---- one subscriber ---- */

int cuptiSubscribe(void **ret, cupti_call_fn callback, void *user)
{
	(void)user;
	if (subscriber)
		return ALREADY_SUBSCRIBED;
	subscriber = callback;
	*ret = &subscriber;
	return 0;
}

int cuptiUnsubscribe(void *handle)
{
	if (handle != &subscriber || !subscriber)
		return INVALID_PARAMETER;
	tells_calls = false;
	memset(told_calls, 0, sizeof(told_calls));
	subscriber = NULL;
	return 0;
}

int cuptiEnableDomain(uint32_t on, void *handle, uint32_t domain)
{
	if (handle != &subscriber || domain != 1)
		return INVALID_PARAMETER;
	tells_calls = on;
	return 0;
}

int cuptiEnableCallback(uint32_t on, void *handle, uint32_t domain, uint32_t function)
{
	if (handle != &subscriber || domain != 1 || function >= 1024)
		return INVALID_PARAMETER;
	told_calls[function] = on;
	return 0;
}

void fake_cupti_at_launch(uint32_t site, uint32_t function, const void *arguments,
			  uint32_t correlation, uint64_t *own, const int *result)
{
	struct cupti_callback data = {.site = site,
				      .arguments = arguments,
				      .correlation = correlation,
				      .own = own,
				      .result = site ? result : NULL};
	cupti_call_fn callback = subscriber;
	if (callback && function < 1024 && told_calls[function])
		callback(NULL, 1, function, &data);
}

static void log_end(void)
{
	const char *path = getenv("FAKE_CUPTI_LOG");
	const char *line = in_call ? "in a call\n" : "outside\n";
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
	if (fd < 0)
		return;
	if (write(fd, line, strlen(line)) < 0)
		abort();
	close(fd);
}

int cuptiFinalize(void)
{
	const char *seconds = getenv("FAKE_CUPTI_ENDS_S");
	log_end();
	if (seconds)
		sleep((unsigned)atoi(seconds));
	pthread_mutex_lock(&lock);
	enabled = 0;
	memset(wanted_calls, 0, sizeof(wanted_calls));
	hand_over();
	while (reading)
		pthread_cond_wait(&nobody_reads, &lock);
	request = NULL;
	complete = NULL;
	own_clock = NULL;
	subscriber = NULL;
	tells_calls = false;
	pthread_mutex_unlock(&lock);
	return 0;
}

void fake_cupti_entered(uint32_t site)
{
	struct cupti_callback data = {.site = site};
	cupti_call_fn callback = subscriber;
	if (!tells_calls || !callback)
		return;
	in_call = true;
	callback(NULL, 1, 307, &data);
	in_call = false;
}

/* ---- records ---- */

static size_t bytes_of(uint32_t kind)
{
	switch (kind) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		return KERNEL_BYTES;
	case CUPTI_KIND_MEMCPY:
		return COPY_BYTES;
	case CUPTI_KIND_MEMCPY2:
		return PEER_COPY_BYTES;
	case CUPTI_KIND_MEMSET:
		return SET_BYTES;
	case CUPTI_KIND_SYNCHRONIZATION:
		return SYNC_BYTES;
	case CUPTI_KIND_GRAPH_TRACE:
		return GRAPH_BYTES;
	case CUPTI_KIND_DRIVER:
		return sizeof(struct cupti_call);
	default:
		return 0;
	}
}

int cuptiActivityGetNextRecord(uint8_t *b, size_t valid, void **record)
{
	uint8_t *next = b;
	if (*record)
		next = (uint8_t *)*record + bytes_of(*(uint32_t *)*record);
	if (next >= b + valid)
		return NO_MORE;
	*record = next;
	return bytes_of(*(uint32_t *)(void *)next) ? 0 : UNKNOWN_KIND;
}

/* Tells what was dropped since the last question, as the real one. */
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *ret)
{
	(void)context;
	(void)stream;
	pthread_mutex_lock(&lock);
	*ret = dropped;
	dropped = 0;
	pthread_mutex_unlock(&lock);
	return 0;
}

void fake_cupti_drop(uint64_t records)
{
	pthread_mutex_lock(&lock);
	dropped += records;
	pthread_mutex_unlock(&lock);
}

/* ---- work ---- */

static void fill(void *record, const struct fake_work *w)
{
	struct cupti_kernel *k = record;
	struct cupti_copy *c = record;
	struct cupti_peer_copy *p = record;
	struct cupti_set *s = record;
	struct cupti_sync *y = record;
	struct cupti_graph *g = record;
#define FILL(r)                                                                                    \
	do {                                                                                       \
		(r)->kind = w->kind, (r)->start = w->start_ns, (r)->end = w->end_ns;               \
		(r)->device = w->device, (r)->context = w->context, (r)->stream = w->stream;       \
		(r)->correlation = w->correlation, (r)->graph_node = w->graph_node;                \
	} while (0)
	switch (w->kind) {
	case CUPTI_KIND_MEMCPY:
		FILL(c);
		c->bytes = w->bytes;
		c->copy_kind = w->copy_kind;
		break;
	case CUPTI_KIND_MEMCPY2:
		FILL(p);
		p->bytes = w->bytes;
		p->copy_kind = w->copy_kind;
		break;
	case CUPTI_KIND_MEMSET:
		FILL(s);
		s->bytes = w->bytes;
		break;
	case CUPTI_KIND_SYNCHRONIZATION:
		*y = (struct cupti_sync){.kind = w->kind,
					 .type = w->copy_kind,
					 .start = w->start_ns,
					 .end = w->end_ns,
					 .correlation = w->correlation,
					 .context = w->context,
					 .stream = w->stream};
		break;
	case CUPTI_KIND_GRAPH_TRACE:
		*g = (struct cupti_graph){.kind = w->kind,
					  .correlation = w->correlation,
					  .start = w->start_ns,
					  .end = w->end_ns,
					  .device = w->device,
					  .context = w->context,
					  .stream = w->stream};
		break;
	default:
		FILL(k);
		k->name = w->name;
	}
#undef FILL
}

static bool make_room(size_t bytes)
{
	size_t most = 0;
	if (buffer && buffer_bytes - used >= bytes)
		return true;
	hand_over();
	if (!buffer && request)
		request(&buffer, &buffer_bytes, &most);
	return buffer && buffer_bytes - used >= bytes;
}

/* CUPTI takes times itself, and is given a clock before it is told to record: where the job took
 * them by the clock of before, they are now. */
static void by_its_clock(uint64_t *start_ns, uint64_t *end_ns)
{
	uint64_t now_ns = fake_cupti_clock();
	if (*start_ns <= now_ns + OTHER_CLOCK_NS)
		return;
	*end_ns = now_ns + (*end_ns - *start_ns);
	*start_ns = now_ns;
}

int fake_cupti_did(const struct fake_work *work)
{
	size_t bytes = bytes_of(work->kind);
	pthread_mutex_lock(&lock);
	if (!(enabled & 1ULL << work->kind)) {
		pthread_mutex_unlock(&lock);
		return 0;
	}
	if (make_room(bytes)) {
		/* what lies behind the fields that a client may know is not 0 */
		memset(buffer + used, 0xa5, bytes);
		struct fake_work at = *work;
		by_its_clock(&at.start_ns, &at.end_ns);
		fill(buffer + used, &at);
		used += bytes;
	} else {
		dropped++;
	}
	pthread_mutex_unlock(&lock);
	return 1;
}

static uint32_t thread_id(void)
{
	return system_tids ? (uint32_t)gettid() : (uint32_t)(uintptr_t)pthread_self();
}

int fake_cupti_called(const struct fake_call *call)
{
	if (call->function >= sizeof(wanted_calls) || !wanted_calls[call->function])
		return 0;
	pthread_mutex_lock(&lock);
	if (make_room(sizeof(struct cupti_call))) {
		struct cupti_call *record = (void *)(buffer + used);
		*record = (struct cupti_call){.kind = CUPTI_KIND_DRIVER,
					      .function = call->function,
					      .start = call->start_ns,
					      .end = call->end_ns,
					      .process = (uint32_t)getpid(),
					      .thread = thread_id(),
					      .correlation = call->correlation};
		by_its_clock(&record->start, &record->end);
		used += sizeof(*record);
	} else {
		dropped++;
	}
	pthread_mutex_unlock(&lock);
	return 1;
}
