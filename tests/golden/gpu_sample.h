/* gpu_sample.h - a small way to write recordings of CUDA and NCCL calls by hand.
 *
 * Probes have the roles and argument names that docs/catalog.md lists. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "recording/recording.h"

enum gpu_sample_probe {
	GS_LAUNCH,	 /* cuLaunchKernel(kernel, grid, block, stream) */
	GS_GRAPH_LAUNCH, /* cuGraphLaunch(graph_exec, stream) */
	GS_INSTANTIATE,	 /* cuGraphInstantiateWithFlags(graph_exec, graph) */
	GS_EXEC_DESTROY, /* cuGraphExecDestroy(graph_exec) */
	GS_KERNEL_NODE,	 /* cuGraphAddKernelNode_v2(graph) */
	GS_CHILD_NODE,	 /* cuGraphAddChildGraphNode(graph, child) */
	GS_CLONE,	 /* cuGraphClone(clone, graph) */
	GS_CAPTURE,	 /* cuStreamBeginCapture_v2(stream) */
	GS_CAPTURE_END,	 /* cuStreamEndCapture(stream, graph) */
	GS_RECORD,	 /* cuEventRecord(event, stream) */
	GS_WAIT,	 /* cuStreamWaitEvent(stream, event) */
	GS_HTOD,	 /* cuMemcpyHtoD_v2(bytes) */
	GS_HTOD_ASYNC,	 /* cuMemcpyHtoDAsync_v2(bytes, stream) */
	GS_COPY_ASYNC,	 /* cuMemcpyAsync(destination, source, bytes, stream) */
	GS_SET_ASYNC,	 /* cuMemsetD8Async(bytes, stream) */
	GS_ALLOC,	 /* cuMemAlloc_v2(pointer, bytes) */
	GS_ALLOC_ASYNC,	 /* cuMemAllocAsync(pointer, bytes, stream) */
	GS_FREE,	 /* cuMemFree_v2(pointer) */
	GS_CREATE,	 /* cuMemCreate(handle, bytes, device) */
	GS_MAP,		 /* cuMemMap(address, bytes, handle) */
	GS_UNMAP,	 /* cuMemUnmap(address, bytes) */
	GS_RELEASE,	 /* cuMemRelease(handle) */
	GS_HOST_ALLOC,	 /* cuMemHostAlloc(pointer, bytes) */
	GS_HOST_FREE,	 /* cuMemFreeHost(pointer) */
	GS_SET_CONTEXT,	 /* cuCtxSetCurrent(context) */
	GS_PUSH_CONTEXT, /* cuCtxPushCurrent_v2(context) */
	GS_POP_CONTEXT,	 /* cuCtxPopCurrent_v2() */
	GS_RETAIN,	 /* cuDevicePrimaryCtxRetain(context, device) */
	GS_SYNC,	 /* cuStreamSynchronize(stream) */
	GS_RT_LAUNCH,	 /* cudaLaunchKernel(): no role */
	GS_ALL_REDUCE,	 /* ncclAllReduce(bytes, count, datatype, op, comm, stream, sequence) */
	GS_OPERATOR,	 /* torch aten::mm */
	GS_FRAME,	 /* python train */
	GS_SEND,	 /* ncclSend(bytes, count, datatype, peer, comm, stream, sequence) */
	GS_GROUP_START,	 /* ncclGroupStart() */
	GS_GROUP_END,	 /* ncclGroupEnd() */
	GS_PROBES,
};

/* Puts all probes, numbered as the enum, and the names of codes and types. */
void gpu_sample_probes(struct rec_writer *w);

/* Puts a call; the arguments are those that the enum lists, then 0 as return value. */
void gpu_sample_call(struct rec_writer *w, uint32_t thread, enum gpu_sample_probe probe,
		     uint64_t start_ns, uint64_t dur_ns, const uint64_t *args);
#define GPU_CALL(w, thread, probe, start_ns, dur_ns, ...)                                          \
	gpu_sample_call(w, thread, probe, start_ns, dur_ns, (const uint64_t[8]){__VA_ARGS__})

/* As above with depth and flags, and a return value. */
void gpu_sample_call_full(struct rec_writer *w, uint32_t thread, enum gpu_sample_probe probe,
			  uint64_t start_ns, uint64_t dur_ns, const uint64_t *args, uint8_t depth,
			  uint8_t flags, uint64_t result);

/* A whole recording with some of everything, for goldens: a GPU with counters and an Xid, two
 * ranks, launches of two kernels under operators, a captured graph, copies, memory, errors. */
#define GPU_SAMPLE_T0 1000000000000ULL
int gpu_sample_write(const char *path, struct err *e);
