/* libnccl.c - a libnccl.so.2 that moves nothing: the real names, arguments and result codes.
 * A communicator's rank, size and device lie a megabyte into its object, as in NCCL 2.28, and
 * the getters copy them out. */
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "nccl_api.h"

struct ncclComm {
	char front[0x1044d0];
	int rank;
	int size;
	int device;
	bool nonblocking;
};

static ncclResult_t make(ncclComm_t *ret, int size, int rank, const ncclConfig_t *config)
{
	if (!ret || size < 1 || rank < 0 || rank >= size)
		return ncclInvalidArgument;
	ncclComm_t c = calloc(1, sizeof(*c));
	c->rank = rank;
	c->size = size;
	c->device = rank % 8;
	c->nonblocking = config && config->blocking == 0;
	*ret = c;
	return c->nonblocking ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *ret, int size, ncclUniqueId id, int rank)
{
	(void)id;
	return make(ret, size, rank, NULL);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *ret, int size, ncclUniqueId id, int rank,
				    ncclConfig_t *config)
{
	(void)id;
	return make(ret, size, rank, config);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t *ret, int size, int rank, int ids,
				      ncclUniqueId *id, ncclConfig_t *config)
{
	return ids < 1 || !id ? ncclInvalidArgument : make(ret, size, rank, config);
}

/* As the tests split: color is rank modulo a number of groups of equal size. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *ret,
			   ncclConfig_t *config)
{
	if (!comm || !ret)
		return ncclInvalidArgument;
	*ret = NULL;
	if (color < 0)
		return ncclSuccess; /* NCCL_SPLIT_NOCOLOR */
	return make(ret, (comm->size + 1 - color) / 2, key / 2, config);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	return comm ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	if (!comm)
		return ncclInvalidArgument;
	free(comm);
	return ncclSuccess;
}

static ncclResult_t check(const struct ncclComm *comm, const void *ret)
{
	return comm && ret ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *ret)
{
	ncclResult_t rc = check(comm, ret);
	if (rc)
		return rc;
	*ret = comm->size;
	return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *ret)
{
	ncclResult_t rc = check(comm, ret);
	if (rc)
		return rc;
	*ret = comm->rank;
	return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *ret)
{
	ncclResult_t rc = check(comm, ret);
	if (rc)
		return rc;
	*ret = comm->device;
	return ncclSuccess;
}

static _Thread_local int groups;

ncclResult_t ncclGroupStart(void)
{
	groups++;
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
	return --groups < 0 ? ncclInvalidArgument : ncclSuccess;
}

/* What all of them do: refuse bad arguments. The calls are told apart by what. */
static __attribute__((noinline)) ncclResult_t enqueue(int what, size_t count, int type, int other,
						      ncclComm_t comm)
{
	__asm__ volatile("" : "+r"(what), "+r"(count));
	if (!comm || type < 0 || type >= ncclNumTypes || other < 0)
		return ncclInvalidArgument;
	if (count >= FAKE_BLOCKING_COUNT && count < FAKE_BLOCKING_COUNT + 60000)
		usleep((useconds_t)(1000 * (count - FAKE_BLOCKING_COUNT)));
	return comm->nonblocking ? ncclInProgress : ncclSuccess;
}

#define UNUSED (void)send, (void)recv, (void)stream

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, int type, int op,
			   ncclComm_t comm, CUstream stream)
{
	UNUSED;
	return enqueue(1, count, type, op, comm);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, int type, int root,
			   ncclComm_t comm, CUstream stream)
{
	UNUSED;
	return enqueue(2, count, type, root, comm);
}

ncclResult_t ncclBcast(void *buffer, size_t count, int type, int root, ncclComm_t comm,
		       CUstream stream)
{
	return ncclBroadcast(buffer, buffer, count, type, root, comm, stream); /* as NCCL has it */
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, int type, int op, int root,
			ncclComm_t comm, CUstream stream)
{
	UNUSED;
	return enqueue(4, count, type, op < root ? op : root, comm);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, int type, ncclComm_t comm,
			   CUstream stream)
{
	UNUSED;
	return enqueue(5, count, type, 0, comm);
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op,
			       ncclComm_t comm, CUstream stream)
{
	UNUSED;
	return enqueue(6, count, type, op, comm);
}

ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, int type, ncclComm_t comm,
			  CUstream stream)
{
	UNUSED;
	return enqueue(7, count, type, 0, comm);
}

ncclResult_t ncclGather(const void *send, void *recv, size_t count, int type, int root,
			ncclComm_t comm, CUstream stream)
{
	UNUSED;
	return enqueue(8, count, type, root, comm);
}

ncclResult_t ncclScatter(const void *send, void *recv, size_t count, int type, int root,
			 ncclComm_t comm, CUstream stream)
{
	UNUSED;
	return enqueue(9, count, type, root, comm);
}

ncclResult_t ncclSend(const void *send, size_t count, int type, int peer, ncclComm_t comm,
		      CUstream stream)
{
	(void)send, (void)stream;
	return enqueue(10, count, type, peer, comm);
}

ncclResult_t ncclRecv(void *recv, size_t count, int type, int peer, ncclComm_t comm,
		      CUstream stream)
{
	(void)recv, (void)stream;
	return enqueue(11, count, type, peer, comm);
}
