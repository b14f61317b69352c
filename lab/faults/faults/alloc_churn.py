"""alloc_churn.py - memory of varied sizes is taken and given back within each step, and what the
allocator keeps is emptied. Shows in cudaMalloc and cudaFree within steps; on the CPU in page
faults."""

import random
import time

from .base import Hook, Inside


class Churn(Hook):
    def begin(self):
        self.chance = random.Random(1)

    def before_step(self):
        import torch
        cuda = self.job.device != "cpu"
        end = time.monotonic_ns() + self.budget_ns()
        while time.monotonic_ns() < end:
            sizes = [self.chance.randrange(1 << 20, 1 << 24) for _ in range(4)]
            kept = [torch.empty(n, dtype=torch.uint8, device=self.job.device) for n in sizes]
            if cuda:
                del kept
                torch.cuda.empty_cache()
            else:
                for t in kept:
                    t[::4096] = 1


class AllocChurn(Inside):
    name = "alloc_churn"
    what = "allocations of varied sizes, the cache emptied"
    layers = ("cuda", "torch", "host")
    traits = ("torch",)
    values, unit = (0.2, 0.5, 1.0), "share of the usual step"
    hooked = Churn


FAULT = AllocChurn()
