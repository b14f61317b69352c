"""gpu_churn.py - PyTorch's cache of GPU memory is emptied in each step, so that the driver has to
give the same memory again. Repaired, the cache is kept."""
import torch
from common import REPAIRED
from gpu import Stack, run

torch.set_float32_matmul_precision("high")
stack = Stack(2048, 12)
x = torch.randn(8192, 2048, device="cuda")


def emptied():
    torch.cuda.empty_cache()  # named


def step(_):
    stack.step(x)
    if not REPAIRED:
        emptied()


run(step, 250)
