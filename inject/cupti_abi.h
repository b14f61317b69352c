/* cupti_abi.h - the part of CUPTI that the shim uses.
 *
 * Numbers, layouts and signatures are those of cupti_activity.h, cupti_result.h and
 * cupti_version.h of CUDA 13.0 (CUPTI 130001) and of its cupti_activity_deprecated.h, which
 * holds what CUDA 12 has; the declarations are our own. CUPTI is opened at run time, so nothing
 * here is linked against.
 *
 * Of each record only the beginning is declared, up to the last field that is read. It is the
 * same in every version that CUPTI has given records of since CUDA 11.1: a version appends
 * fields, and where a record ends cuptiActivityGetNextRecord knows. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* CUptiResult */
enum {
	CUPTI_SUCCESS = 0,
};

/* CUpti_ActivityKind */
enum {
	CUPTI_KIND_MEMCPY = 1,
	CUPTI_KIND_MEMSET = 2,
	CUPTI_KIND_KERNEL = 3,
	CUPTI_KIND_DRIVER = 4,		   /* calls of the driver */
	CUPTI_KIND_CONCURRENT_KERNEL = 10, /* its records say so, or CUPTI_KIND_KERNEL */
	CUPTI_KIND_MEMCPY2 = 22,	   /* between devices */
	CUPTI_KIND_SYNCHRONIZATION = 38,
	CUPTI_KIND_GRAPH_TRACE = 51, /* graphs as wholes, not their nodes */
};

enum { CUPTI_FLUSH_FORCED = 1 }; /* CUPTI_ACTIVITY_FLAG_FLUSH_FORCED */
enum { CUPTI_COPY_ASYNC = 1 };	 /* CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC */

/* CUpti_ActivityThreadIdType */
enum {
	CUPTI_THREAD_ID_DEFAULT, /* pthread_self's lower half */
	CUPTI_THREAD_ID_SYSTEM,	 /* the kernel's */
};

struct cupti_record {
	uint32_t kind;
};

/* CUpti_ActivityAPI */
struct cupti_call {
	uint32_t kind, function; /* the latter of cupti_driver_cbid.h */
	uint64_t start, end;
	uint32_t process, thread, correlation, result;
};
_Static_assert(offsetof(struct cupti_call, result) == 36, "CUpti_ActivityAPI");

/* CUpti_ActivityKernel5 to 10 */
struct cupti_kernel {
	uint32_t kind;
	uint8_t cache, shared_config;
	uint16_t registers;
	uint32_t partitioned_requested, partitioned_executed;
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3];
	int32_t static_shared, dynamic_shared;
	uint32_t local_per_thread, local_total;
	uint32_t correlation;
	int64_t grid_id;
	const char *name;
	void *reserved;
	uint64_t queued, submitted;
	uint8_t launch_type, carveout_requested, carveout, pad;
	uint32_t shared_executed;
	uint64_t graph_node;
	uint32_t shared_limit;
	uint32_t graph;
};
_Static_assert(offsetof(struct cupti_kernel, start) == 16, "CUpti_ActivityKernel10");
_Static_assert(offsetof(struct cupti_kernel, device) == 40, "CUpti_ActivityKernel10");
_Static_assert(offsetof(struct cupti_kernel, correlation) == 92, "CUpti_ActivityKernel10");
_Static_assert(offsetof(struct cupti_kernel, name) == 104, "CUpti_ActivityKernel10");
_Static_assert(offsetof(struct cupti_kernel, graph_node) == 144, "CUpti_ActivityKernel10");
_Static_assert(offsetof(struct cupti_kernel, graph) == 156, "CUpti_ActivityKernel10");

/* CUpti_ActivityMemcpy4 to 6 */
struct cupti_copy {
	uint32_t kind;
	uint8_t copy_kind, source_kind, destination_kind, flags;
	uint64_t bytes;
	uint64_t start, end;
	uint32_t device, context, stream;
	uint32_t correlation, runtime_correlation;
	uint32_t pad;
	void *reserved;
	uint64_t graph_node;
	uint32_t graph;
};
_Static_assert(offsetof(struct cupti_copy, start) == 16, "CUpti_ActivityMemcpy6");
_Static_assert(offsetof(struct cupti_copy, correlation) == 44, "CUpti_ActivityMemcpy6");
_Static_assert(offsetof(struct cupti_copy, graph_node) == 64, "CUpti_ActivityMemcpy6");

/* CUpti_ActivityMemcpyPtoP3 and 4, of CUPTI_KIND_MEMCPY2 */
struct cupti_peer_copy {
	uint32_t kind;
	uint8_t copy_kind, source_kind, destination_kind, flags;
	uint64_t bytes;
	uint64_t start, end;
	uint32_t device, context, stream;
	uint32_t source_device, source_context, destination_device, destination_context;
	uint32_t correlation;
	void *reserved;
	uint64_t graph_node;
	uint32_t graph;
};
_Static_assert(offsetof(struct cupti_peer_copy, correlation) == 60, "CUpti_ActivityMemcpyPtoP4");
_Static_assert(offsetof(struct cupti_peer_copy, graph_node) == 72, "CUpti_ActivityMemcpyPtoP4");

/* CUpti_ActivityMemset3 and 4 */
struct cupti_set {
	uint32_t kind;
	uint32_t value;
	uint64_t bytes;
	uint64_t start, end;
	uint32_t device, context, stream;
	uint32_t correlation;
	uint16_t flags, memory_kind;
	uint32_t pad;
	void *reserved;
	uint64_t graph_node;
	uint32_t graph;
};
_Static_assert(offsetof(struct cupti_set, correlation) == 44, "CUpti_ActivityMemset4");
_Static_assert(offsetof(struct cupti_set, graph_node) == 64, "CUpti_ActivityMemset4");

/* CUpti_ActivitySynchronization and 2 */
struct cupti_sync {
	uint32_t kind, type;
	uint64_t start, end;
	uint32_t correlation, context, stream;
	uint32_t event;
};
_Static_assert(offsetof(struct cupti_sync, stream) == 32, "CUpti_ActivitySynchronization2");

/* CUpti_ActivityGraphTrace and 2 */
struct cupti_graph {
	uint32_t kind, correlation;
	uint64_t start, end;
	uint32_t device, graph, context, stream;
};
_Static_assert(offsetof(struct cupti_graph, stream) == 36, "CUpti_ActivityGraphTrace2");

typedef void (*cupti_request_fn)(uint8_t **buffer, size_t *bytes, size_t *most_records);
typedef void (*cupti_complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
				  size_t valid_bytes);
typedef uint64_t (*cupti_clock_fn)(void);

/* CUpti_CallbackData */
struct cupti_callback {
	uint32_t site; /* CUpti_ApiCallbackSite */
	uint32_t pad;
	const char *function;
	const void *arguments; /* as generated_cuda_meta.h has them */
	const void *result;    /* at the exit */
	const char *symbol;
	void *context;
	uint32_t context_number;
	uint32_t pad2;
	uint64_t *own; /* the subscriber's: the same at a call's entry and exit */
	uint32_t correlation;
};
_Static_assert(offsetof(struct cupti_callback, correlation) == 64, "CUpti_CallbackData");
enum { CUPTI_SITE_ENTRY, CUPTI_SITE_EXIT };
enum { CUPTI_DOMAIN_DRIVER = 1 };

typedef void (*cupti_call_fn)(void *user, uint32_t domain, uint32_t function,
			      const struct cupti_callback *data);

/* Functions that must be there: F(name after "cupti", arguments). */
#define CUPTI_FUNCTIONS(F)                                                                         \
	F(ActivityRegisterCallbacks, (cupti_request_fn, cupti_complete_fn))                        \
	F(ActivityEnable, (uint32_t kind))                                                         \
	F(ActivityDisable, (uint32_t kind))                                                        \
	F(ActivityFlushAll, (uint32_t flags))                                                      \
	F(ActivityGetNextRecord, (uint8_t * buffer, size_t valid_bytes, void **record))            \
	F(ActivityGetNumDroppedRecords, (void *context, uint32_t stream, size_t *ret))             \
	F(GetTimestamp, (uint64_t * ret))

/* Functions that may be missing: the first is of CUDA 11.6 and later, that of single calls and
 * that of threads' numbers of late versions of CUDA 12. */
#define CUPTI_OPTIONAL_FUNCTIONS(F)                                                                \
	F(ActivityRegisterTimestampCallback, (cupti_clock_fn))                                     \
	F(ActivityEnableDriverApi, (uint32_t function, uint8_t on))                                \
	F(SetThreadIdType, (uint32_t type))                                                        \
	F(Subscribe, (void **subscriber, cupti_call_fn, void *user))                               \
	F(Unsubscribe, (void *subscriber))                                                         \
	F(EnableCallback, (uint32_t on, void *subscriber, uint32_t domain, uint32_t function))     \
	F(EnableDomain, (uint32_t on, void *subscriber, uint32_t domain))                          \
	F(Finalize, (void))                                                                        \
	F(GetResultString, (int result, const char **ret))                                         \
	F(GetVersion, (uint32_t * ret))

struct cupti {
	void *handle;
#define CUPTI_MEMBER(name, args) int(*name) args;
	CUPTI_FUNCTIONS(CUPTI_MEMBER)
	CUPTI_OPTIONAL_FUNCTIONS(CUPTI_MEMBER)
#undef CUPTI_MEMBER
};
