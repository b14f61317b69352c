/* collectives.c - ranks that call NCCL: collectives RANKS N [MILLISECONDS].
 *
 * Each rank is a process, which keeps its communicators that long before it destroys them. Every
 * collective with every data type, point to point in groups, a split in two, communicators made in
 * each way, one of them non-blocking. Prints, for each rank, "id HEX" of the unique id, "comm
 * HANDLE RANK SIZE WHAT" and "call FUNCTION WHAT CALLS BYTES" with WHAT one of world, split,
 * config, scalable. */
#include <stdarg.h>
#include <sys/random.h>
#include <sys/wait.h>

#include "gpu.h"
#include "nccl_api.h"

static const unsigned type_bytes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static unsigned keep_ms;

/* One write a line: ranks share the output. */
static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
	char line[512];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		exit(95);
}

static void say_comm(const char *what, ncclComm_t comm)
{
	int rank, size, device;
	MUST(ncclCommUserRank(comm, &rank));
	MUST(ncclCommCount(comm, &size));
	MUST(ncclCommCuDevice(comm, &device));
	say("comm %p %d %d %s %d %d\n", (void *)comm, rank, size, what, device, getpid());
}

static void say_call(const char *function, const char *what, unsigned calls, uint64_t bytes)
{
	say("call %s %s %u %lu %d\n", function, what, calls, (unsigned long)bytes, getpid());
}

static void every_collective(ncclComm_t c, unsigned n)
{
	uint64_t bytes = 0;
	for (unsigned i = 0; i < n; i++)
		for (int t = 0; t < ncclNumTypes; t++) {
			MUST(ncclAllReduce(NULL, NULL, 1000 + i, t, t % 5, c, NULL));
			bytes += (1000 + i) * type_bytes[t];
		}
	say_call("ncclAllReduce", "world", n * ncclNumTypes, bytes);
	for (unsigned i = 0; i < n; i++) {
		MUST(ncclBroadcast(NULL, NULL, 100, 7, 0, c, NULL));
		MUST(ncclBcast(NULL, 200, 8, 0, c, NULL));
		MUST(ncclReduce(NULL, NULL, 300, 9, 2, 1, c, NULL));
		MUST(ncclAllGather(NULL, NULL, 400, 0, c, NULL));
		MUST(ncclReduceScatter(NULL, NULL, 500, 2, 1, c, NULL));
		MUST(ncclAlltoAll(NULL, NULL, 600, 4, c, NULL));
		MUST(ncclGather(NULL, NULL, 700, 6, 0, c, NULL));
		MUST(ncclScatter(NULL, NULL, 800, 10, 0, c, NULL));
	}
	say_call("ncclBroadcast", "world", n, n * 400ul);
	say_call("ncclBroadcast", "world", n, n * 1600ul); /* ncclBcast's */
	say("ncclBcast %u\n", n);
	say_call("ncclReduce", "world", n, n * 600ul);
	say_call("ncclAllGather", "world", n, n * 400ul);
	say_call("ncclReduceScatter", "world", n, n * 2000ul);
	say_call("ncclAlltoAll", "world", n, n * 4800ul);
	say_call("ncclGather", "world", n, n * 1400ul);
	say_call("ncclScatter", "world", n, n * 800ul);
}

static void point_to_point(ncclComm_t c, int rank, int size, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		MUST(ncclGroupStart());
		MUST(ncclSend(NULL, 11, 7, (rank + 1) % size, c, NULL));
		MUST(ncclRecv(NULL, 11, 7, (rank + size - 1) % size, c, NULL));
		MUST(ncclGroupEnd());
	}
	say_call("ncclSend", "world", n, n * 44ul);
	say_call("ncclRecv", "world", n, n * 44ul);
}

static void others(const ncclUniqueId *id, int rank, int size, unsigned n, ncclComm_t world)
{
	ncclComm_t split, config, scalable;
	ncclConfig_t nonblocking = {.size = sizeof(nonblocking), .blocking = 0};
	MUST(ncclCommSplit(world, rank % 2, rank, &split, NULL));
	say_comm("split", split);
	for (unsigned i = 0; i < n + 1; i++)
		MUST(ncclAllReduce(NULL, NULL, 10, 7, 0, split, NULL));
	say_call("ncclAllReduce", "split", n + 1, (n + 1) * 40ul);
	FAILS(ncclInProgress, ncclCommInitRankConfig(&config, size, id[1], rank, &nonblocking));
	say_comm("config", config);
	for (unsigned i = 0; i < n + 2; i++)
		FAILS(ncclInProgress, ncclAllReduce(NULL, NULL, 20, 7, 0, config, NULL));
	say_call("ncclAllReduce", "config", n + 2, (n + 2) * 80ul);
	ncclUniqueId ids[1] = {id[2]};
	MUST(ncclCommInitRankScalable(&scalable, size, rank, 1, ids, NULL));
	say_comm("scalable", scalable);
	for (unsigned i = 0; i < n + 3; i++)
		MUST(ncclAllReduce(NULL, NULL, 30, 7, 0, scalable, NULL));
	say_call("ncclAllReduce", "scalable", n + 3, (n + 3) * 120ul);
	FAILS(ncclInvalidArgument, ncclAllReduce(NULL, NULL, 1, 99, 0, scalable, NULL));
	usleep(1000 * keep_ms);
	MUST(ncclCommDestroy(scalable));
	MUST(ncclCommDestroy(split));
}

static int run(const ncclUniqueId *id, int rank, int size, unsigned n)
{
	ncclComm_t world;
	MUST(ncclCommInitRank(&world, size, id[0], rank));
	say_comm("world", world);
	every_collective(world, n);
	point_to_point(world, rank, size, n);
	others(id, rank, size, n, world);
	MUST(ncclCommFinalize(world));
	MUST(ncclCommDestroy(world));
	return 0;
}

int main(int argc, char **argv)
{
	int size = argc > 1 ? atoi(argv[1]) : 2;
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	keep_ms = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
	static const char *const names[] = {"world", "config", "scalable"};
	ncclUniqueId id[3];
	if (getrandom(id, sizeof(id), 0) != sizeof(id))
		return 95;
	for (int k = 0; k < 3; k++) {
		char hex[257];
		for (int i = 0; i < 128; i++)
			snprintf(hex + 2L * i, 3, "%02x", (unsigned char)id[k].internal[i]);
		say("id %s %s\n", names[k], hex);
	}
	for (int rank = 0; rank < size; rank++)
		if (fork() == 0)
			_exit(run(id, rank, size, n));
	int status, bad = 0;
	while (wait(&status) > 0)
		bad |= status;
	return bad ? 99 : 0;
}
