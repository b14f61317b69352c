/* rank.c - one rank of a job whose others are elsewhere: rank ID RANK SIZE FILE [FLOATS].
 *
 * It makes the communicator of a unique id, all of whose bytes are the number ID, and enters a
 * collective of so many floats (1000 unless told) each 10 ms until the file is there. */
#include "gpu.h"
#include "nccl_api.h"

int main(int argc, char **argv)
{
	if (argc < 5)
		return 95;
	ncclUniqueId id;
	ncclComm_t c;
	size_t floats = argc > 5 ? (size_t)atoi(argv[5]) : 1000;
	memset(&id, atoi(argv[1]), sizeof(id));
	MUST(ncclCommInitRank(&c, atoi(argv[3]), id, atoi(argv[2])));
	while (access(argv[4], F_OK)) {
		MUST(ncclAllReduce(NULL, NULL, floats, 7, 0, c, NULL));
		usleep(10000);
	}
	MUST(ncclCommDestroy(c));
	return 0;
}
