/* mpi_late_rank.c - ranks that reduce 30 times; before the 21st rank 1 sleeps for three seconds.
 * Built by the test that has need of it, with mpicc. */
#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int rank;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < 30; i++) {
		double mine = rank, sum;
		usleep(10000);
		if (i == 20 && rank == 1)
			sleep(3);
		MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	MPI_Finalize();
	return 0;
}
