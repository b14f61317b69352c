#!/usr/bin/env python3
"""cnn.py - trains a residual convolutional network on random pictures through cuDNN: bf16
autocast, SGD with momentum, batch normalisation. --channels-last takes other kernels.
Prints one line with `step_ms NUMBER`."""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

import job


class Residual(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.shortcut = None
        if stride != 1 or inside != outside:
            self.shortcut = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return F.relu(y + (self.shortcut(x) if self.shortcut is not None else x))


def network():
    widths, layers, inside = (64, 128, 256, 512), [], 64
    for i, width in enumerate(widths):
        layers += [Residual(inside, width, 1 if i == 0 else 2), Residual(width, width, 1)]
        inside = width
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                         nn.MaxPool2d(3, 2, 1), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(inside, 1000))


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--size", type=int, default=128, help="of a picture's side")
    p.add_argument("--steps", type=int, default=15)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--channels-last", action="store_true")
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    job.add_common(p)
    return p.parse_args()


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    order = torch.channels_last if args.channels_last else torch.contiguous_format
    model = network().to(args.device, memory_format=order)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    pictures = torch.randn(args.batch, 3, args.size, args.size)
    if args.device == "cuda":
        pictures = pictures.pin_memory()
    labels = torch.randint(0, 1000, (args.batch,), device=args.device)

    def step():
        x = pictures.to(args.device, non_blocking=True, memory_format=order)
        with torch.autocast(args.device, torch.bfloat16):
            loss = F.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    for _ in range(args.warmup):
        step()
    lengths = []

    def steps():
        for _ in range(args.steps):
            began = time.monotonic_ns()
            step()
            lengths.append(time.monotonic_ns() - began)

    if args.device == "cpu":
        steps()
    else:
        with job.measured(args.profile) as m:
            steps()
        job.finish(args, m, steps=args.steps)
    print("step_ms %.4f steps %d" % (statistics.median(lengths) / 1e6, len(lengths)))


if __name__ == "__main__":
    main()
