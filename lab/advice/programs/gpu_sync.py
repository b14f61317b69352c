"""gpu_sync.py - the largest output of each layer is read back at once, for a log; so the GPU runs
dry after each. Repaired, it stays on the GPU and is read once a step's work has been launched."""
import torch
from common import REPAIRED
from gpu import Stack, run

stack = Stack(2048, 24)
x = torch.randn(1024, 2048, device="cuda")
torch.set_float32_matmul_precision("high")
log = []


def watched(h):
    largest = []
    for layer in stack.model:
        h = layer(h)
        if REPAIRED:
            largest.append(h.max())
        else:
            largest.append(h.max().item())  # named
    return h, largest


def step(i):
    with torch.no_grad():
        h, largest = watched(x)
    loss = stack.step(x)
    if i % 100 == 0:
        log.append((float(loss), max(float(v) for v in largest)))


run(step, 700)
