"""gpu_precision.py - large products of matrices in FP32, without tensor cores. Repaired, they may
use TF32."""
import torch
from common import REPAIRED
from gpu import Stack, run

if REPAIRED:
    torch.set_float32_matmul_precision("high")
stack = Stack(4096, 8)
x = torch.randn(4096, 4096, device="cuda")
run(lambda _: stack.step(x), 80)
