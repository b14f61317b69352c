/* libcuda.c - a libcuda.so.1 without a device: the real names, arguments and error codes, and
 * enough state that a program's mistakes are refused as the driver refuses them. Nothing is
 * computed and no memory is given: device addresses are numbers.
 *
 * The object behind a kernel's handle holds the address of its name 8 bytes in, as driver 580
 * has it; FAKE_CUDA_NAME_AT=24 puts it elsewhere. Not for threads that share a stream. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_api.h"

#define DEVICE_BYTES	 (80ull << 30)
#define MAX_ALLOCATIONS	 4096
#define MAX_SHARED_BYTES (228u << 10)

struct fake_kernel {
	uint64_t words[64];
};
struct fake_graph {
	uint64_t kernels, copies, sets;
	CUstream origin; /* of the capture that makes it */
	unsigned forks;	 /* streams that joined the capture and were not joined again */
};
struct fake_exec {
	struct fake_graph graph;
};
struct fake_stream {
	CUgraph capture;
	bool forked;
	unsigned not_ready; /* queries that are still answered so */
};
struct fake_event {
	CUgraph capture;
	CUstream stream;
};
struct fake_context {
	int device;
};

static struct {
	pthread_mutex_t lock;
	bool started;
	uint64_t next_address, used_bytes, kernels_run;
	struct {
		uint64_t address, bytes;
	} list[MAX_ALLOCATIONS];
} device = {PTHREAD_MUTEX_INITIALIZER, false, 0x7f0000000000, 0, 0, {{0, 0}}};
static struct fake_context contexts[8] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
static _Thread_local CUcontext stack[16];
static _Thread_local unsigned stack_len;

uint64_t fake_kernels_run(void)
{
	return __atomic_load_n(&device.kernels_run, __ATOMIC_RELAXED);
}

/* ---- contexts ---- */

CUresult cuInit(unsigned flags)
{
	device.started = true;
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Exported functions do not call each other: each call of them is the program's. */
static CUresult context_of(CUcontext *ret, int index)
{
	if (!ret || index < 0 || index > 7)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = &contexts[index];
	return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
	if (!context || stack_len == 16)
		return CUDA_ERROR_INVALID_CONTEXT;
	stack[stack_len++] = context;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, int index)
{
	return context_of(ret, index);
}

CUresult cuCtxCreate_v2(CUcontext *ret, unsigned flags, int index)
{
	(void)flags;
	CUresult rc = context_of(ret, index);
	return rc ? rc : push(*ret);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	if (!stack_len)
		stack_len = 1;
	stack[stack_len - 1] = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	return push(context);
}

CUresult cuCtxPopCurrent_v2(CUcontext *ret)
{
	if (!stack_len)
		return CUDA_ERROR_INVALID_CONTEXT;
	stack_len--;
	if (ret)
		*ret = stack[stack_len];
	return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
	struct timespec moment = {0, 50000};
	nanosleep(&moment, NULL);
	return CUDA_SUCCESS;
}

/* ---- kernels ---- */

static CUresult load(CUmodule *ret, const void *code)
{
	if (!ret || !code)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = calloc(1, 64);
	return CUDA_SUCCESS;
}

static CUresult unload(CUmodule module)
{
	free(module);
	return module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleLoadData(CUmodule *ret, const void *image)
{
	return load(ret, image);
}

CUresult cuModuleUnload(CUmodule module)
{
	return unload(module);
}

CUresult cuLibraryLoadData(CUmodule *ret, const void *code, void *options, void **values,
			   unsigned count, void *library_options, void **library_values,
			   unsigned library_count)
{
	(void)options, (void)values, (void)count;
	(void)library_options, (void)library_values, (void)library_count;
	return load(ret, code);
}

CUresult cuLibraryUnload(CUmodule library)
{
	return unload(library);
}

/* The name is no name of the object's own: other words point to what is not text. */
static CUfunction new_kernel(const char *name)
{
	static const unsigned char not_text[16] = {0x90, 1, 2, 3, 0xff};
	const char *at = getenv("FAKE_CUDA_NAME_AT");
	unsigned place = at ? (unsigned)atoi(at) / 8 : 1;
	CUfunction f = calloc(1, sizeof(*f));
	for (unsigned i = 0; i < place; i++)
		f->words[i] = (uint64_t)(uintptr_t)not_text;
	f->words[place] = (uint64_t)(uintptr_t)strdup(name);
	f->words[place + 1] = strlen(name);
	return f;
}

static CUresult find_kernel(CUfunction *ret, CUmodule module, const char *name)
{
	if (!ret || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!strncmp(name, "missing", 7))
		return CUDA_ERROR_NOT_FOUND;
	*ret = new_kernel(name);
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *ret, CUmodule module, const char *name)
{
	return find_kernel(ret, module, name);
}

CUresult cuLibraryGetKernel(CUfunction *ret, CUmodule library, const char *name)
{
	return find_kernel(ret, library, name);
}

CUresult cuKernelGetFunction(CUfunction *ret, CUfunction kernel)
{
	if (!ret || !kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = calloc(1, sizeof(**ret));
	memcpy(*ret, kernel, sizeof(**ret)); /* another handle, the same name */
	return CUDA_SUCCESS;
}

static CUresult launch(CUfunction f, unsigned grid, unsigned block, unsigned shared,
		       CUstream stream)
{
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!grid || !block)
		return CUDA_ERROR_INVALID_VALUE;
	if (block > 1024 || shared > MAX_SHARED_BYTES)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	if (stream && stream->capture)
		stream->capture->kernels++;
	else
		__atomic_add_fetch(&device.kernels_run, 1, __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

CU_LAUNCH(cuLaunchKernel)
{
	(void)params, (void)extra;
	return launch(f, gx * gy * gz, bx * by * bz, shared, stream);
}

CU_LAUNCH(cuLaunchKernel_ptsz)
{
	(void)params, (void)extra;
	return launch(f, gx * gy * gz, bx * by * bz, shared, stream);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
				   unsigned by, unsigned bz, unsigned shared, CUstream stream,
				   void **params)
{
	(void)params;
	return launch(f, gx * gy * gz, bx * by * bz, shared, stream);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
	(void)params, (void)extra;
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	return launch(f, c->grid_x * c->grid_y * c->grid_z, c->block_x * c->block_y * c->block_z,
		      c->shared_bytes, c->stream);
}

CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *data)
{
	if (!function)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream || !stream->capture)
		function(data);
	return CUDA_SUCCESS;
}

/* ---- memory ---- */

static CUresult allocate(uint64_t *ret, uint64_t bytes)
{
	if (!ret || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&device.lock);
	for (unsigned i = 0; i < MAX_ALLOCATIONS && bytes <= DEVICE_BYTES - device.used_bytes;
	     i++) {
		if (device.list[i].address)
			continue;
		*ret = device.list[i].address = device.next_address;
		device.list[i].bytes = bytes;
		device.used_bytes += bytes;
		device.next_address += (bytes + 511) / 512 * 512;
		rc = CUDA_SUCCESS;
		break;
	}
	pthread_mutex_unlock(&device.lock);
	return rc;
}

static CUresult release(uint64_t address)
{
	CUresult rc = address ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	pthread_mutex_lock(&device.lock);
	for (unsigned i = 0; i < MAX_ALLOCATIONS && rc; i++) {
		if (device.list[i].address != address)
			continue;
		device.used_bytes -= device.list[i].bytes;
		device.list[i].address = 0;
		rc = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&device.lock);
	return rc;
}

CUresult cuMemAlloc_v2(CUdeviceptr *ret, size_t bytes)
{
	return allocate(ret, bytes);
}

CUresult cuMemAllocManaged(CUdeviceptr *ret, size_t bytes, unsigned flags)
{
	return flags == 1 || flags == 2 ? allocate(ret, bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *ret, size_t *ret_pitch, size_t width, size_t height,
			    unsigned element)
{
	if (!ret_pitch || (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_pitch = (width + 511) / 512 * 512;
	return allocate(ret, *ret_pitch * height);
}

CUresult cuMemAllocAsync(CUdeviceptr *ret, size_t bytes, CUstream stream)
{
	(void)stream;
	return allocate(ret, bytes);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *ret, size_t bytes, CUstream stream)
{
	(void)stream;
	return allocate(ret, bytes);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *ret, size_t bytes, void *pool, CUstream stream)
{
	(void)stream;
	return pool ? allocate(ret, bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFree_v2(CUdeviceptr p)
{
	return release(p);
}

CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream)
{
	(void)stream;
	return p ? release(p) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolTrimTo(void *pool, size_t bytes)
{
	(void)bytes;
	return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemCreate(uint64_t *ret, size_t bytes, const CUmemAllocationProp *prop,
		     unsigned long long flags)
{
	if (!prop || flags || bytes % (2 << 20))
		return CUDA_ERROR_INVALID_VALUE;
	return allocate(ret, bytes);
}

CUresult cuMemRelease(uint64_t handle)
{
	return handle ? release(handle) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, uint64_t handle,
		  unsigned long long flags)
{
	return p && bytes && !offset && handle && !flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemUnmap(CUdeviceptr p, size_t bytes)
{
	return p && bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAddressReserve(CUdeviceptr *ret, size_t bytes, size_t alignment, CUdeviceptr wanted,
			     unsigned long long flags)
{
	(void)alignment, (void)wanted;
	if (!ret || !bytes || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = __atomic_fetch_add(&device.next_address, bytes, __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes)
{
	return p && bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemSetAccess(CUdeviceptr p, size_t bytes, const void *access, size_t count)
{
	return p && bytes && access && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult host_allocate(void **ret, size_t bytes)
{
	if (!ret || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = malloc(bytes);
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemHostAlloc(void **ret, size_t bytes, unsigned flags)
{
	return flags > 7 ? CUDA_ERROR_INVALID_VALUE : host_allocate(ret, bytes);
}

CUresult cuMemAllocHost_v2(void **ret, size_t bytes)
{
	return host_allocate(ret, bytes);
}

CUresult cuMemFreeHost(void *p)
{
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	free(p);
	return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags)
{
	(void)flags;
	return p && bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostUnregister(void *p)
{
	return p ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemPrefetchAsync(CUdeviceptr p, size_t bytes, int index, CUstream stream)
{
	(void)index, (void)stream;
	return p && bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- copies ---- */

static CUresult move(uint64_t destination, uint64_t source, uint64_t bytes, CUstream stream)
{
	if (bytes && (!destination || !source))
		return CUDA_ERROR_INVALID_VALUE;
	if (stream && stream->capture)
		stream->capture->copies++;
	return CUDA_SUCCESS;
}

#define MOVE(stream) move((uint64_t)destination, (uint64_t)source, bytes, stream)
/* clang-format off */
CU_COPY(cuMemcpyHtoD_v2, CUdeviceptr, const void *) { return MOVE(NULL); }
CU_COPY(cuMemcpyHtoD_v2_ptds, CUdeviceptr, const void *) { return MOVE(NULL); }
CU_COPY(cuMemcpyDtoH_v2, void *, CUdeviceptr) { return MOVE(NULL); }
CU_COPY(cuMemcpyDtoD_v2, CUdeviceptr, CUdeviceptr) { return MOVE(NULL); }
CU_COPY(cuMemcpy, CUdeviceptr, CUdeviceptr) { return MOVE(NULL); }
CU_COPY_ASYNC(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *) { return MOVE(stream); }
CU_COPY_ASYNC(cuMemcpyHtoDAsync_v2_ptsz, CUdeviceptr, const void *) { return MOVE(stream); }
CU_COPY_ASYNC(cuMemcpyDtoHAsync_v2, void *, CUdeviceptr) { return MOVE(stream); }
CU_COPY_ASYNC(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr) { return MOVE(stream); }
CU_COPY_ASYNC(cuMemcpyAsync, CUdeviceptr, CUdeviceptr) { return MOVE(stream); }
/* clang-format on */

CUresult cuMemcpyPeer(CUdeviceptr destination, CUcontext to, CUdeviceptr source, CUcontext from,
		      size_t bytes)
{
	return to && from ? MOVE(NULL) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext to, CUdeviceptr source,
			   CUcontext from, size_t bytes, CUstream stream)
{
	return to && from ? MOVE(stream) : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult move_block(int to, int from, uint64_t bytes, CUstream stream)
{
	if (to < 1 || to > 4 || from < 1 || from > 4)
		return CUDA_ERROR_INVALID_VALUE;
	return move(1, 1, bytes, stream);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *c)
{
	return move_block(c->destination_type, c->source_type, c->width * c->height, NULL);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream)
{
	return move_block(c->destination_type, c->source_type, c->width * c->height, stream);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *c)
{
	return move_block(c->destination_type, c->source_type, c->width * c->height * c->depth,
			  NULL);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *c, CUstream stream)
{
	return move_block(c->destination_type, c->source_type, c->width * c->height * c->depth,
			  stream);
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *destinations, CUdeviceptr *sources, size_t *sizes,
			    size_t count, void *attributes, size_t *indexes, size_t attribute_count,
			    size_t *failed, CUstream stream)
{
	(void)attributes, (void)indexes, (void)attribute_count, (void)failed, (void)stream;
	return destinations && sources && sizes && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult set(uint64_t p, uint64_t value, uint64_t bytes, CUstream stream)
{
	(void)value;
	if (bytes && !p)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream && stream->capture)
		stream->capture->sets++;
	return CUDA_SUCCESS;
}

/* clang-format off */
CU_SET(cuMemsetD8_v2, unsigned char) { return set(p, value, count, NULL); }
CU_SET(cuMemsetD16_v2, unsigned short) { return set(p, value, 2 * count, NULL); }
CU_SET(cuMemsetD32_v2, unsigned) { return set(p, value, 4 * count, NULL); }
CU_SET_ASYNC(cuMemsetD8Async, unsigned char) { return set(p, value, count, stream); }
CU_SET_ASYNC(cuMemsetD16Async, unsigned short) { return set(p, value, 2 * count, stream); }
CU_SET_ASYNC(cuMemsetD32Async, unsigned) { return set(p, value, 4 * count, stream); }
#define SET_2D(size, stream)                                                                       \
	(pitch < width * (size) ? CUDA_ERROR_INVALID_VALUE                                         \
				: set(p, value, width * height * (size), stream))
CU_SET_2D(cuMemsetD2D8_v2, unsigned char) { return SET_2D(1, NULL); }
CU_SET_2D(cuMemsetD2D16_v2, unsigned short) { return SET_2D(2, NULL); }
CU_SET_2D(cuMemsetD2D32_v2, unsigned) { return SET_2D(4, NULL); }
CU_SET_2D_ASYNC(cuMemsetD2D8Async, unsigned char) { return SET_2D(1, stream); }
CU_SET_2D_ASYNC(cuMemsetD2D16Async, unsigned short) { return SET_2D(2, stream); }
CU_SET_2D_ASYNC(cuMemsetD2D32Async, unsigned) { return SET_2D(4, stream); }
/* clang-format on */

/* ---- streams and events ---- */

CUresult cuStreamCreate(CUstream *ret, unsigned flags)
{
	if (!ret || flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = calloc(1, sizeof(**ret));
	(*ret)->not_ready = 3;
	return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	free(stream);
	return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	if (stream)
		stream->not_ready = 0;
	return CUDA_SUCCESS;
}

/* Three times not ready, then ready. */
CUresult cuStreamQuery(CUstream stream)
{
	if (!stream || !stream->not_ready)
		return CUDA_SUCCESS;
	stream->not_ready--;
	return CUDA_ERROR_NOT_READY;
}

CUresult cuEventCreate(CUevent *ret, unsigned flags)
{
	(void)flags;
	*ret = calloc(1, sizeof(**ret));
	return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	event->capture = stream ? stream->capture : NULL;
	event->stream = stream;
	return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
	return event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventSynchronize(CUevent event)
{
	return event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* A stream that waits for an event of a capture takes part in it; the origin that waits for
 * such a stream joins it again. */
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
	if (!event || flags > 1)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!stream || !event->capture)
		return CUDA_SUCCESS;
	if (!stream->capture) {
		stream->capture = event->capture;
		stream->forked = true;
		stream->capture->forks++;
	} else if (stream == stream->capture->origin && event->stream->forked) {
		event->stream->forked = false;
		event->stream->capture = NULL;
		stream->capture->forks--;
	}
	return CUDA_SUCCESS;
}

/* ---- graphs ---- */

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	if (!stream || mode < 0 || mode > 2)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	stream->capture = calloc(1, sizeof(*stream->capture));
	stream->capture->origin = stream;
	return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *ret)
{
	if (!stream || !ret || !stream->capture || stream->capture->origin != stream)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	CUgraph graph = stream->capture;
	stream->capture = NULL;
	if (graph->forks) {
		*ret = NULL;
		return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	}
	*ret = graph;
	return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph *ret, unsigned flags)
{
	(void)flags;
	*ret = calloc(1, sizeof(**ret));
	return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *ret, CUgraph graph)
{
	if (!ret || !graph)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = calloc(1, sizeof(**ret));
	**ret = *graph;
	return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *ret, CUgraph graph, unsigned long long flags)
{
	(void)flags;
	if (!ret || !graph)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = calloc(1, sizeof(**ret));
	(*ret)->graph = *graph;
	return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, void *result)
{
	(void)result;
	if (!exec || !graph)
		return CUDA_ERROR_INVALID_VALUE;
	exec->graph = *graph;
	return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	(void)stream;
	return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	(void)stream;
	if (!exec)
		return CUDA_ERROR_INVALID_HANDLE;
	__atomic_add_fetch(&device.kernels_run, exec->graph.kernels, __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	if (!exec)
		return CUDA_ERROR_INVALID_HANDLE;
	free(exec);
	return CUDA_SUCCESS;
}

static CUresult add_node(CUgraphNode *ret, CUgraph graph, int type)
{
	if (!ret || !graph || type < CU_GRAPH_NODE_TYPE_KERNEL || type > CU_GRAPH_NODE_TYPE_MEMSET)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = graph;
	uint64_t *const counts[] = {&graph->kernels, &graph->copies, &graph->sets};
	++*counts[type];
	return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after,
				 size_t count, const void *params)
{
	(void)after, (void)count, (void)params;
	return add_node(ret, graph, CU_GRAPH_NODE_TYPE_KERNEL);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after,
			      size_t count, const void *params, CUcontext context)
{
	(void)after, (void)count, (void)params, (void)context;
	return add_node(ret, graph, CU_GRAPH_NODE_TYPE_MEMCPY);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after,
			      size_t count, const void *params, CUcontext context)
{
	(void)after, (void)count, (void)params, (void)context;
	return add_node(ret, graph, CU_GRAPH_NODE_TYPE_MEMSET);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after,
				  size_t count, CUgraph child)
{
	(void)after, (void)count;
	if (!ret || !graph || !child)
		return CUDA_ERROR_INVALID_VALUE;
	graph->kernels += child->kernels;
	graph->copies += child->copies;
	graph->sets += child->sets;
	*ret = child;
	return CUDA_SUCCESS;
}

CUresult cuGraphAddNode(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after, size_t count,
			CUgraphNodeParams *params)
{
	(void)after, (void)count;
	return params ? add_node(ret, graph, params->type) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddNode_v2(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after,
			   const void *edges, size_t count, CUgraphNodeParams *params)
{
	(void)after, (void)edges, (void)count;
	return params ? add_node(ret, graph, params->type) : CUDA_ERROR_INVALID_VALUE;
}
