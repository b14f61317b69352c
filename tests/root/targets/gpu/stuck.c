/* stuck.c - ranks that do not all enter a collective: stuck KIND RANKS N MILLISECONDS.
 *
 * Each rank is a process that makes a communicator and enters N collectives; what the last rank
 * does then is its KIND. The others enter one more and stay for so long.
 *
 *   level     enters it too
 *   skips     stays without it
 *   blocks    likewise, and the others do not come back from the call meanwhile
 *   late      enters it when the time is over, and all stay for another second
 *   ends      ends, with status 0
 *   size      enters it with another size
 *   function  enters another function
 *   leaves    all destroy the communicator instead and stay
 *
 * Prints "comm RANK PID". */
#include <sys/random.h>
#include <sys/wait.h>

#include "gpu.h"
#include "nccl_api.h"

#define FLOATS 1000

static void stay(unsigned ms)
{
	usleep(1000 * ms);
}

static void last(ncclComm_t c, const char *kind, unsigned ms)
{
	if (!strcmp(kind, "level"))
		MUST(ncclAllReduce(NULL, NULL, FLOATS, 7, 0, c, NULL));
	if (!strcmp(kind, "size"))
		MUST(ncclAllReduce(NULL, NULL, FLOATS + 1, 7, 0, c, NULL));
	if (!strcmp(kind, "function"))
		MUST(ncclBroadcast(NULL, NULL, FLOATS, 7, 0, c, NULL));
	if (!strcmp(kind, "ends"))
		_exit(0);
	stay(ms);
	if (!strcmp(kind, "late")) {
		MUST(ncclAllReduce(NULL, NULL, FLOATS, 7, 0, c, NULL));
		stay(1000);
	}
}

static void other(ncclComm_t c, const char *kind, unsigned ms)
{
	if (!strcmp(kind, "blocks")) {
		MUST(ncclAllReduce(NULL, NULL, FAKE_BLOCKING_COUNT + ms, 7, 0, c, NULL));
		return;
	}
	MUST(ncclAllReduce(NULL, NULL, FLOATS, 7, 0, c, NULL));
	stay(!strcmp(kind, "late") ? ms + 1000 : ms);
}

static int run(const ncclUniqueId *id, const char *kind, int rank, int size, unsigned n,
	       unsigned ms)
{
	ncclComm_t c;
	MUST(ncclCommInitRank(&c, size, *id, rank));
	for (unsigned i = 0; i < n; i++)
		MUST(ncclAllReduce(NULL, NULL, FLOATS, 7, 0, c, NULL));
	if (!strcmp(kind, "leaves")) {
		MUST(ncclCommDestroy(c));
		stay(ms);
		return 0;
	}
	if (rank == size - 1)
		last(c, kind, ms);
	else
		other(c, kind, ms);
	MUST(ncclCommDestroy(c));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 95;
	int size = atoi(argv[2]);
	ncclUniqueId id;
	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return 95;
	for (int rank = 0; rank < size; rank++) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(run(&id, argv[1], rank, size, (unsigned)atoi(argv[3]),
				  (unsigned)atoi(argv[4])));
		printf("comm %d %d\n", rank, pid);
	}
	fflush(stdout);
	int status, bad = 0;
	while (wait(&status) > 0)
		bad |= status;
	return bad ? 99 : 0;
}
