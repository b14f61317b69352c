"""gpu.py - what the programs for a GPU share: a stack of layers, steps of it, and a loop that says
how long it took. Its first steps, in which CUDA loads its code, are not counted.

Programs are run as common.py says; they end with a line "loop N.NNN s"."""
import time

import torch
from common import scaled
from torch import nn

WARM = 10


class Stack:
    def __init__(self, width, layers, bias=True):
        self.model = nn.Sequential(*(nn.Linear(width, width, bias=bias) for _ in range(layers)))
        self.model.cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-4, foreach=True)

    def step(self, x):
        self.optimizer.zero_grad(set_to_none=False)
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss


def run(step, steps, warm=WARM):
    """step(i), so many times, and before that warm times that are not counted."""
    steps = scaled(steps)
    for i in range(-warm, steps):
        if i == 0:
            torch.cuda.synchronize()
            began = time.monotonic()
        step(i)
    torch.cuda.synchronize()
    print(f"loop {time.monotonic() - began:.3f} s", flush=True)
