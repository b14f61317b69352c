"""gpu_sync.py - three values of the output of each layer are read back at once, for a log; so the GPU
runs dry after each. Repaired, they stay on the GPU and are read now and then."""
import torch
from common import REPAIRED
from gpu import Stack, run

LAYERS, WIDTH, ROWS, EVERY = 24, 2048, 4096, 100

torch.set_float32_matmul_precision("high")
weights = [torch.randn(WIDTH, WIDTH, device="cuda").mul_(0.02) for _ in range(LAYERS)]
x = torch.randn(ROWS, WIDTH, device="cuda")
small = Stack(256, 2)
y = torch.randn(64, 256, device="cuda")
log = []


def watched(h):
    seen = []
    for weight in weights:
        h = torch.relu(h @ weight)
        for value in (h.max(), h.mean(), h.norm()):
            if REPAIRED:
                seen.append(value)
            else:
                seen.append(value.item())  # named
    return seen


def step(i):
    with torch.no_grad():
        seen = watched(x)
    small.step(y)
    if i % EVERY == 0:
        log.append([float(v) for v in seen])


run(step, 500)
