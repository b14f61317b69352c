"""gpu_precision.py - large products of matrices in FP32, without tensor cores. Repaired, they may
use TF32."""
import torch
from common import REPAIRED
from gpu import run

if REPAIRED:
    torch.set_float32_matmul_precision("high")
x = torch.randn(4096, 4096, device="cuda")
weights = [torch.randn(4096, 4096, device="cuda").mul_(0.01).requires_grad_() for _ in range(8)]
optimizer = torch.optim.SGD(weights, 1e-6)


def step(_):
    optimizer.zero_grad()
    h = x
    for weight in weights:
        h = torch.relu(h @ weight)  # named
    h.square().mean().backward()
    optimizer.step()


run(step, 80)
