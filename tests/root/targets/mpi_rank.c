/* mpi_rank.c - a rank of a job that calls MPI's library: mpi_rank SLOW. Rank SLOW works before each
 * of ten collectives; the others wait for it there. One call more fails. */
#include <stdlib.h>
#include <time.h>

#define COLLECTIVES 10
#define WORK_NS	    50000000L

int MPI_Allreduce(const void *send, void *receive, int count, void *datatype, void *op, void *comm);
int MPI_Comm_rank(void *comm, int *rank);

int main(int argc, char **argv)
{
	double x[7] = {0};
	int rank;
	if (argc != 2 || MPI_Comm_rank(NULL, &rank))
		return 2;
	for (int i = 0; i < COLLECTIVES; i++) {
		if (rank == atoi(argv[1]))
			nanosleep(&(struct timespec){0, WORK_NS}, NULL);
		if (MPI_Allreduce(x, x, 7, NULL, NULL, NULL))
			return 1;
	}
	return MPI_Allreduce(x, x, -1, NULL, NULL, NULL) == 0;
}
