/* cuda_api.h - what the fake libcuda.so.1, libcudart.so.12 and libnccl.so.2 export: the names,
 * arguments and numbers of the real ones, as far as the tests call them.
 *
 * Signatures, struct layouts, error codes: cuda.h, cuda_runtime_api.h, driver_types.h of CUDA
 * 13.0, nccl.h of NCCL 2.28. Handles are addresses here, as they are there. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* ---- driver ---- */
typedef int CUresult;
typedef struct fake_kernel *CUfunction; /* a CUkernel is one too, as since CUDA 12 */
typedef struct fake_stream *CUstream;
typedef struct fake_event *CUevent;
typedef struct fake_graph *CUgraph;
typedef struct fake_exec *CUgraphExec;
typedef struct fake_context *CUcontext;
typedef void *CUgraphNode;
typedef void *CUmodule;
typedef uint64_t CUdeviceptr;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
	CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
	CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
};
enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 };
enum {
	CU_GRAPH_NODE_TYPE_KERNEL = 0,
	CU_GRAPH_NODE_TYPE_MEMCPY = 1,
	CU_GRAPH_NODE_TYPE_MEMSET = 2
};

typedef struct {
	unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z;
	unsigned shared_bytes;
	CUstream stream;
	void *attributes;
	unsigned attribute_count;
} CUlaunchConfig;

typedef struct {
	size_t source_x, source_y;
	int source_type;
	const void *source_host;
	CUdeviceptr source_device;
	void *source_array;
	size_t source_pitch;
	size_t destination_x, destination_y;
	int destination_type;
	void *destination_host;
	CUdeviceptr destination_device;
	void *destination_array;
	size_t destination_pitch;
	size_t width, height;
} CUDA_MEMCPY2D;

typedef struct {
	size_t source_x, source_y, source_z, source_lod;
	int source_type;
	const void *source_host;
	CUdeviceptr source_device;
	void *source_array, *reserved0;
	size_t source_pitch, source_height;
	size_t destination_x, destination_y, destination_z, destination_lod;
	int destination_type;
	void *destination_host;
	CUdeviceptr destination_device;
	void *destination_array, *reserved1;
	size_t destination_pitch, destination_height;
	size_t width, height, depth;
} CUDA_MEMCPY3D;

typedef struct {
	int type, handle_types, location_type, location_id;
	void *metadata;
	unsigned char flags[8];
} CUmemAllocationProp;

typedef struct {
	int type;
	int reserved[3];
	long long parameters[30];
} CUgraphNodeParams;

_Static_assert(offsetof(CUlaunchConfig, stream) == 32, "cuda.h");
_Static_assert(offsetof(CUDA_MEMCPY2D, destination_type) == 72, "cuda.h");
_Static_assert(offsetof(CUDA_MEMCPY2D, height) == 120, "cuda.h");
_Static_assert(offsetof(CUDA_MEMCPY3D, destination_type) == 120, "cuda.h");
_Static_assert(offsetof(CUDA_MEMCPY3D, depth) == 192, "cuda.h");
_Static_assert(offsetof(CUmemAllocationProp, location_id) == 12, "cuda.h");
_Static_assert(sizeof(CUgraphNodeParams) == 256, "cuda.h");

CUresult cuInit(unsigned flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, int device);
CUresult cuCtxCreate_v2(CUcontext *ret, unsigned flags, int device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxPushCurrent_v2(CUcontext context);
CUresult cuCtxPopCurrent_v2(CUcontext *ret);
CUresult cuCtxSynchronize(void);

CUresult cuModuleLoadData(CUmodule *ret, const void *image);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction *ret, CUmodule module, const char *name);
CUresult cuLibraryLoadData(CUmodule *ret, const void *code, void *options, void **values,
			   unsigned count, void *library_options, void **library_values,
			   unsigned library_count);
CUresult cuLibraryUnload(CUmodule library);
CUresult cuLibraryGetKernel(CUfunction *ret, CUmodule library, const char *name);
CUresult cuKernelGetFunction(CUfunction *ret, CUfunction kernel);

#define CU_LAUNCH(name)                                                                            \
	CUresult name(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,            \
		      unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,   \
		      void **extra)
CU_LAUNCH(cuLaunchKernel);
CU_LAUNCH(cuLaunchKernel_ptsz);
CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
				   unsigned by, unsigned bz, unsigned shared, CUstream stream,
				   void **params);
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra);
CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *data);

CUresult cuMemAlloc_v2(CUdeviceptr *ret, size_t bytes);
CUresult cuMemAllocManaged(CUdeviceptr *ret, size_t bytes, unsigned flags);
CUresult cuMemAllocPitch_v2(CUdeviceptr *ret, size_t *ret_pitch, size_t width, size_t height,
			    unsigned element);
CUresult cuMemAllocAsync(CUdeviceptr *ret, size_t bytes, CUstream stream);
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *ret, size_t bytes, CUstream stream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *ret, size_t bytes, void *pool, CUstream stream);
CUresult cuMemFree_v2(CUdeviceptr p);
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream);
CUresult cuMemPoolTrimTo(void *pool, size_t bytes);
CUresult cuMemCreate(uint64_t *ret, size_t bytes, const CUmemAllocationProp *prop,
		     unsigned long long flags);
CUresult cuMemRelease(uint64_t handle);
CUresult cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, uint64_t handle,
		  unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr p, size_t bytes);
CUresult cuMemAddressReserve(CUdeviceptr *ret, size_t bytes, size_t alignment, CUdeviceptr wanted,
			     unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes);
CUresult cuMemSetAccess(CUdeviceptr p, size_t bytes, const void *access, size_t count);
CUresult cuMemHostAlloc(void **ret, size_t bytes, unsigned flags);
CUresult cuMemAllocHost_v2(void **ret, size_t bytes);
CUresult cuMemFreeHost(void *p);
CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags);
CUresult cuMemHostUnregister(void *p);
CUresult cuMemPrefetchAsync(CUdeviceptr p, size_t bytes, int device, CUstream stream);

#define CU_COPY(name, to, from) CUresult name(to destination, from source, size_t bytes)
#define CU_COPY_ASYNC(name, to, from)                                                              \
	CUresult name(to destination, from source, size_t bytes, CUstream stream)
CU_COPY(cuMemcpyHtoD_v2, CUdeviceptr, const void *);
CU_COPY(cuMemcpyHtoD_v2_ptds, CUdeviceptr, const void *);
CU_COPY(cuMemcpyDtoH_v2, void *, CUdeviceptr);
CU_COPY(cuMemcpyDtoD_v2, CUdeviceptr, CUdeviceptr);
CU_COPY(cuMemcpy, CUdeviceptr, CUdeviceptr);
CU_COPY_ASYNC(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *);
CU_COPY_ASYNC(cuMemcpyHtoDAsync_v2_ptsz, CUdeviceptr, const void *);
CU_COPY_ASYNC(cuMemcpyDtoHAsync_v2, void *, CUdeviceptr);
CU_COPY_ASYNC(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr);
CU_COPY_ASYNC(cuMemcpyAsync, CUdeviceptr, CUdeviceptr);
CUresult cuMemcpyPeer(CUdeviceptr destination, CUcontext to, CUdeviceptr source, CUcontext from,
		      size_t bytes);
CUresult cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext to, CUdeviceptr source,
			   CUcontext from, size_t bytes, CUstream stream);
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy);
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream);
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy);
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream);
CUresult cuMemcpyBatchAsync(CUdeviceptr *destinations, CUdeviceptr *sources, size_t *sizes,
			    size_t count, void *attributes, size_t *indexes, size_t attribute_count,
			    size_t *failed, CUstream stream);

#define CU_SET(name, type) CUresult name(CUdeviceptr p, type value, size_t count)
#define CU_SET_ASYNC(name, type)                                                                   \
	CUresult name(CUdeviceptr p, type value, size_t count, CUstream stream)
#define CU_SET_2D(name, type)                                                                      \
	CUresult name(CUdeviceptr p, size_t pitch, type value, size_t width, size_t height)
#define CU_SET_2D_ASYNC(name, type)                                                                \
	CUresult name(CUdeviceptr p, size_t pitch, type value, size_t width, size_t height,        \
		      CUstream stream)
CU_SET(cuMemsetD8_v2, unsigned char);
CU_SET(cuMemsetD16_v2, unsigned short);
CU_SET(cuMemsetD32_v2, unsigned);
CU_SET_ASYNC(cuMemsetD8Async, unsigned char);
CU_SET_ASYNC(cuMemsetD16Async, unsigned short);
CU_SET_ASYNC(cuMemsetD32Async, unsigned);
CU_SET_2D(cuMemsetD2D8_v2, unsigned char);
CU_SET_2D(cuMemsetD2D16_v2, unsigned short);
CU_SET_2D(cuMemsetD2D32_v2, unsigned);
CU_SET_2D_ASYNC(cuMemsetD2D8Async, unsigned char);
CU_SET_2D_ASYNC(cuMemsetD2D16Async, unsigned short);
CU_SET_2D_ASYNC(cuMemsetD2D32Async, unsigned);

CUresult cuStreamCreate(CUstream *ret, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuEventCreate(CUevent *ret, unsigned flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *ret);
CUresult cuGraphCreate(CUgraph *ret, unsigned flags);
CUresult cuGraphClone(CUgraph *ret, CUgraph graph);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *ret, CUgraph graph, unsigned long long flags);
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, void *result);
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphAddKernelNode_v2(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after,
				 size_t count, const void *params);
CUresult cuGraphAddMemcpyNode(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after,
			      size_t count, const void *params, CUcontext context);
CUresult cuGraphAddMemsetNode(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after,
			      size_t count, const void *params, CUcontext context);
CUresult cuGraphAddChildGraphNode(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after,
				  size_t count, CUgraph child);
CUresult cuGraphAddNode(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after, size_t count,
			CUgraphNodeParams *params);
CUresult cuGraphAddNode_v2(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after,
			   const void *edges, size_t count, CUgraphNodeParams *params);

/* Not of the driver: kernels that ran so far, those of graphs included. */
uint64_t fake_kernels_run(void);

/* ---- runtime ---- */
typedef int cudaError_t;
typedef CUstream cudaStream_t;
typedef struct {
	unsigned x, y, z;
} dim3;
typedef struct {
	dim3 grid, block;
	size_t shared_bytes;
	cudaStream_t stream;
	void *attributes;
	unsigned attribute_count;
} cudaLaunchConfig_t;
enum { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
_Static_assert(offsetof(cudaLaunchConfig_t, stream) == 32, "driver_types.h");

/* What compiled programs call before main: host stub -> kernel. */
void __cudaRegisterFunction(void **fat, const char *host, char *device, const char *name,
			    int thread_limit, void *tid, void *bid, void *block, void *grid,
			    int *warp_size);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args,
			     size_t shared, cudaStream_t stream);
cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **args,
					size_t shared, cudaStream_t stream);
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
				void **args);
cudaError_t cudaMalloc(void **ret, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaMemcpy(void *destination, const void *source, size_t bytes, int kind);
cudaError_t cudaMemcpyAsync(void *destination, const void *source, size_t bytes, int kind,
			    cudaStream_t stream);
cudaError_t cudaMemset(void *p, int value, size_t bytes);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaDeviceSynchronize(void);
