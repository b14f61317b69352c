"""common.py - what the programs share: a small model, a step of it, and which of the two they are.

A program is run as `NAME.py problem` or `NAME.py repaired [NUMBER]`; NUMBER is what the advice
recommends, where that is a number. The line that the advice has to name ends with "# named"."""
import os
import sys

import torch
from torch import nn

REPAIRED = sys.argv[1] == "repaired"
SCALE = float(os.environ.get("ADVICE_SCALE", "1"))  # of how many steps
NUMBER = int(sys.argv[2]) if len(sys.argv) > 2 else 0


class Trainer:
    def __init__(self, inputs=64, width=256):
        self.model = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width),
                                   nn.ReLU(), nn.Linear(width, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01)

    def step(self, x, y):
        self.optimizer.zero_grad()
        out = self.model(x)
        nn.functional.cross_entropy(out, y).backward()
        self.optimizer.step()
        return out


def scaled(n):
    return int(n * SCALE)


def batches(n, size=32, inputs=64):
    for _ in range(scaled(n)):
        yield torch.randn(size, inputs), torch.randint(0, 10, (size,))
