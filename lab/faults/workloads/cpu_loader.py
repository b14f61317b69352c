#!/usr/bin/env python3
"""cpu_loader.py - trains a small CNN on the CPU on pictures that two worker processes read from
files. The files are made at the start, in --dir or a temporary folder."""

import shutil
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

import pictures
import stepper

SIDE, BATCH, FILES, WORKERS = 32, 16, 256, 2


def network():
    layers, width = [], 3
    for out in (16, 32, 32):
        layers += [nn.Conv2d(width, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(),
                   nn.MaxPool2d(2)]
        width = out
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * (SIDE // 8) ** 2, 10))


def train(job, folder):
    torch.manual_seed(job.args.seed)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batches = pictures.batches(job, folder, SIDE, BATCH, FILES, WORKERS)
    next(batches)
    job.begin(model, "cpu")
    while job.goes_on():
        x, y = next(batches)
        if job.half:
            x, y = x[:BATCH // 2], y[:BATCH // 2]
        if job.evaluating:
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(x), y).item()
            model.train()
            job.ended("eval")
            continue
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        loss.item()
        job.ended()


def main():
    args = stepper.parser(__doc__).parse_args()
    torch.set_num_threads(args.threads)
    folder = tempfile.mkdtemp(prefix="pictures-", dir=args.dir)
    try:
        train(stepper.Job(args), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
