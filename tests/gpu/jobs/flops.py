#!/usr/bin/env python3
"""flops.py - steps whose floating-point operations PyTorch's own FlopCounterMode tells: GPT-2
training (`gpt2`), a CNN's training (`cnn`), products replayed by a CUDA graph (`graph`).

--count runs one step under FlopCounterMode and prints {"flop": N}; without it --steps steps are
run as they are, and {"steps": N, "seconds": S} is printed, S without the first step."""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn


def gpt2(args):
    from gpt2 import Training
    return Training(args.batch, args.seq, 0).step


def cnn(args):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.ReLU(), nn.Conv2d(64, 128, 3, padding=1),
        nn.ReLU(), nn.Conv2d(128, 256, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 1000)).cuda()
    x = torch.randn(args.batch, 3, 224, 224, device="cuda")
    y = torch.randint(1000, (args.batch,), device="cuda")

    def step():
        F.cross_entropy(model(x), y).backward()
        model.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
    return step


def graph(_args):
    a, b = (torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def work():
        return torch.mm(torch.mm(a, b), b)
    for _ in range(3):
        work()  # not counted below: the count is of a replay
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        graph.kept = work()

    def step():
        captured.replay()
        torch.cuda.synchronize()
    step.eager = work
    step.before = 3
    return step


def count(step):
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False) as counter:
        getattr(step, "eager", step)()
    return {"flop": counter.get_total_flops()}


def run(step, steps):
    step()
    began = time.monotonic()
    for _ in range(steps - 1):
        step()
    return {"steps": steps + getattr(step, "before", 0), "seconds": time.monotonic() - began}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("kind", choices=["gpt2", "cnn", "graph"])
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--seq", type=int, default=512)
    p.add_argument("--count", action="store_true")
    args = p.parse_args()
    step = {"gpt2": gpt2, "cnn": cnn, "graph": graph}[args.kind](args)
    print(json.dumps(count(step) if args.count else run(step, args.steps)))


if __name__ == "__main__":
    main()
