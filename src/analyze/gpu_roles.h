/* gpu_roles.h - what each probe's calls are to the analyses of GPUs, and where their
 * arguments are: by name, from m_probe.role and m_probe.arg_names (docs/catalog.md). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/gpu.h"
#include "events/visitor.h"

enum gpu_role {
	GPU_NO_ROLE,
	/* counted one by one as they are read */
	GPU_LAUNCH,
	GPU_GRAPH_LAUNCH,
	GPU_COPY, /* gpu_probe.direction says which; GPU_UNIFIED where pointers tell it */
	GPU_SET,
	GPU_SYNC,
	GPU_COLLECTIVE,
	GPU_P2P,	/* counted with the collectives */
	GPU_NCCL_GROUP, /* the two calls that begin and end a group of these; not counted */
	/* of PyTorch's caching allocator: not counted here, for they are of memory that the
	 * driver's calls made; flame_memory.c has a ledger of them alone */
	GPU_TORCH_ALLOC,
	GPU_TORCH_FREE,
	/* kept and gone through in order of time: for the ledger of memory */
	GPU_ALLOC,
	GPU_FREE,
	GPU_VMM_CREATE,
	GPU_VMM_MAP,
	GPU_VMM_UNMAP,
	GPU_VMM_RELEASE,
	GPU_HOST_ALLOC,
	GPU_HOST_FREE,
	GPU_CONTEXT_CURRENT,
	GPU_CONTEXT_PUSH,
	GPU_CONTEXT_POP,
	GPU_CONTEXT_RETAIN,
	GPU_DEVICE_CURRENT,
	GPU_PROCESS_END, /* made from the process table */
	/* likewise: for graphs */
	GPU_CAPTURE_BEGIN,
	GPU_CAPTURE_END,
	GPU_EVENT_RECORD, /* kept only where something is being captured */
	GPU_EVENT_WAIT,
	GPU_GRAPH_CREATE,
	GPU_GRAPH_DESTROY,
	GPU_GRAPH_INSTANTIATE,
	GPU_GRAPH_NODE, /* its type says of which kind */
	GPU_GRAPH_KERNEL_NODE,
	GPU_GRAPH_COPY_NODE,
	GPU_GRAPH_SET_NODE,
	GPU_GRAPH_CHILD_NODE,
	GPU_GRAPH_CLONE,
	GPU_GRAPH_EXEC_DESTROY,
	GPU_ROLES,
};

enum gpu_arg {
	GPU_ARG_KERNEL,
	GPU_ARG_GRID,
	GPU_ARG_BLOCK,
	GPU_ARG_STREAM,
	GPU_ARG_GRAPH_EXEC,
	GPU_ARG_BYTES,
	GPU_ARG_DESTINATION,
	GPU_ARG_SOURCE,
	GPU_ARG_DESTINATION_TYPE, /* CUmemorytype */
	GPU_ARG_SOURCE_TYPE,
	GPU_ARG_DATATYPE,
	GPU_ARG_COMM,
	GPU_ARG_PEER,
	GPU_ARG_ROOT,
	GPU_ARG_SEQUENCE, /* of collectives: how many the communicator had before */
	GPU_ARG_RETURN,
	GPU_ARGS,
};

#define GPU_KEPT_ARGS 3

struct gpu_probe {
	uint8_t role;	      /* enum gpu_role */
	uint8_t direction;    /* enum gpu_direction */
	bool at_start;	      /* kept calls: what they do happens when they begin */
	bool stream_threads;  /* stream 0 is one for each thread (the symbol ends with _ptsz) */
	bool has_code;	      /* its return value is one of an enumeration */
	int8_t arg[GPU_ARGS]; /* places of arguments, -1 */
	int8_t kept[GPU_KEPT_ARGS]; /* of kept calls: the values that gpu_kept.v takes */
};

struct gpu_probes {
	struct gpu_probe *rows; /* one for each probe of the recording */
	bool any;		/* one of them has a role or return codes */
};

void gpu_probes_make(struct gpu_probes *p, const struct rec_tables *t);
void gpu_probes_free(struct gpu_probes *p);

/* Copies and sets are counted in cells, by direction and whether they are on a stream. */
#define GPU_COPY_CELLS ((GPU_DIRECTIONS + 1) * 2)
static inline uint32_t gpu_copy_cell(bool set, uint32_t direction, bool async)
{
	return (set ? GPU_DIRECTIONS : direction) * 2 + async;
}

static inline bool gpu_role_is_kept(uint8_t role)
{
	return role >= GPU_ALLOC;
}

static inline bool gpu_has_arg(const struct gpu_probe *p, const struct m_call *c, enum gpu_arg a)
{
	return p->arg[a] >= 0 && p->arg[a] < c->nargs;
}

/* An argument's value, 0 where the call has none. */
static inline uint64_t gpu_arg(const struct gpu_probe *p, const struct m_call *c, enum gpu_arg a)
{
	return gpu_has_arg(p, c, a) ? c->args[p->arg[a]] : 0;
}

/* A stream in its process. The legacy default stream has two names; that of each thread has
 * one for all threads, so the thread goes with it. */
struct gpu_stream {
	uint64_t handle;
	uint32_t thread; /* thread index + 1 for per-thread default streams, else 0 */
};
static inline struct gpu_stream gpu_stream_of(const struct gpu_probe *p, uint64_t handle,
					      uint32_t thread)
{
	enum { LEGACY = 1, PER_THREAD = 2 };
	if (handle == PER_THREAD || (!handle && p->stream_threads))
		return (struct gpu_stream){PER_THREAD, thread + 1};
	return (struct gpu_stream){handle == LEGACY ? 0 : handle, 0};
}
