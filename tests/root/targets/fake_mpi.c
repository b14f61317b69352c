/* fake_mpi.c - a rank of a job that waits in a function of MPI's name: fake_mpi RANKS FOLDER. The
 * rank is in OMPI_COMM_WORLD_RANK. The last rank works before each collective, the others wait for
 * it there. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COLLECTIVES 10
#define WORK_NS	    50000000L

__attribute__((noinline)) int MPI_Allreduce(const char *folder, int ranks, int rank, int number);

static void rest(long ns)
{
	struct timespec ts = {0, ns};
	nanosleep(&ts, NULL);
}

/* Each rank leaves a file, and waits for those of all. */
int MPI_Allreduce(const char *folder, int ranks, int rank, int number)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%d-%d", folder, number, rank);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	for (int i = 0; i < ranks; i++) {
		snprintf(path, sizeof(path), "%s/%d-%d", folder, number, i);
		while (access(path, F_OK))
			rest(1000000);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *rank_text = getenv("OMPI_COMM_WORLD_RANK");
	if (argc != 3 || !rank_text)
		return 2;
	int ranks = atoi(argv[1]), rank = atoi(rank_text);
	for (int i = 0; i < COLLECTIVES; i++) {
		if (rank == ranks - 1)
			rest(WORK_NS);
		MPI_Allreduce(argv[2], ranks, rank, i);
	}
	return 0;
}
