"""ranks.py - two ranks over gloo, each on a CPU of its own; one of them is given more to do."""
import os
import subprocess
import sys
import tempfile
import time

if "RANK" not in os.environ:
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen([sys.executable, *sys.argv],
                                  env=dict(os.environ, RANK=str(r), WORLD_SIZE="2",
                                           ADVICE_STORE=folder + "/store")) for r in range(2)]
        sys.exit(max(r.wait() for r in ranks))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

from common import REPAIRED, Trainer, batches  # noqa: E402

rank, cpus = int(os.environ["RANK"]), sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, [cpus[rank % len(cpus)]])
torch.set_num_threads(1)
dist.init_process_group("gloo", store=dist.FileStore(os.environ["ADVICE_STORE"], 2), rank=rank,
                        world_size=2)
trainer = Trainer(width=384)
trainer.model = torch.nn.parallel.DistributedDataParallel(trainer.model)
began_s = time.thread_time()
for x, y in batches(300):
    if rank == 1 and not REPAIRED:
        sum(i for i in range(2_000_000))
    trainer.step(x, y)
print("rank %d: %.3f s of its CPU" % (rank, time.thread_time() - began_s), flush=True)
