"""gpu_copies.py - each batch is copied from pageable memory, and nothing runs meanwhile. Repaired,
the loader hands over pinned memory, and the copy does not hold up the host."""
import torch
from common import REPAIRED, scaled
from gpu import WARM, Stack, run
from torch.utils.data import DataLoader, Dataset

STEPS, SIZE, KEPT = 250, 4096, 8  # batches of 64 MiB, each of which comes again and again


class Batches(Dataset):
    def __init__(self):
        self.kept = [torch.randn(SIZE, SIZE) for _ in range(KEPT)]

    def __len__(self):
        return scaled(STEPS) + WARM

    def __getitem__(self, i):
        return self.kept[i % KEPT]


torch.set_float32_matmul_precision("high")
stack = Stack(SIZE, 10)
batches = iter(DataLoader(Batches(), batch_size=None, pin_memory=REPAIRED))


def step(_):
    x = next(batches)
    x = x.to("cuda", non_blocking=REPAIRED)  # named
    stack.step(x)


run(step, STEPS)
