"""Two MPI ranks that reduce after each round. Rank 1 computes four times as long."""
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
a = np.ones(100_000)
for _ in range(100):
    end = time.perf_counter() + (0.020 if comm.rank else 0.005)
    while time.perf_counter() < end:
        pass
    comm.Allreduce(MPI.IN_PLACE, a)
    a /= comm.size
