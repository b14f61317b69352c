/* nccl_api.h - what the fake libnccl.so.2 exports. Names, arguments and numbers: nccl.h of
 * NCCL 2.28. */
#pragma once

#include <stddef.h>

#include "cuda_api.h"

typedef int ncclResult_t;
typedef struct ncclComm *ncclComm_t;
typedef struct {
	char internal[128];
} ncclUniqueId;
typedef struct {
	size_t size;
	unsigned magic, version;
	int blocking;
} ncclConfig_t; /* the real one goes on */

enum { ncclSuccess = 0, ncclInvalidArgument = 4, ncclInProgress = 7 };
enum { ncclNumTypes = 12 };

/* Not NCCL's: a call with this count and a number of milliseconds more comes back after these. */
#define FAKE_BLOCKING_COUNT ((size_t)1 << 40)

ncclResult_t ncclCommInitRank(ncclComm_t *ret, int size, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *ret, int size, ncclUniqueId id, int rank,
				    ncclConfig_t *config);
ncclResult_t ncclCommInitRankScalable(ncclComm_t *ret, int size, int rank, int ids,
				      ncclUniqueId *id, ncclConfig_t *config);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *ret,
			   ncclConfig_t *config);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommCount(const ncclComm_t comm, int *ret);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *ret);
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *ret);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, int type, int op,
			   ncclComm_t comm, CUstream stream);
ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, int type, int root,
			   ncclComm_t comm, CUstream stream);
ncclResult_t ncclBcast(void *buffer, size_t count, int type, int root, ncclComm_t comm,
		       CUstream stream);
ncclResult_t ncclReduce(const void *send, void *recv, size_t count, int type, int op, int root,
			ncclComm_t comm, CUstream stream);
ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, int type, ncclComm_t comm,
			   CUstream stream);
ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op,
			       ncclComm_t comm, CUstream stream);
ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, int type, ncclComm_t comm,
			  CUstream stream);
ncclResult_t ncclGather(const void *send, void *recv, size_t count, int type, int root,
			ncclComm_t comm, CUstream stream);
ncclResult_t ncclScatter(const void *send, void *recv, size_t count, int type, int root,
			 ncclComm_t comm, CUstream stream);
ncclResult_t ncclSend(const void *send, size_t count, int type, int peer, ncclComm_t comm,
		      CUstream stream);
ncclResult_t ncclRecv(void *recv, size_t count, int type, int peer, ncclComm_t comm,
		      CUstream stream);
