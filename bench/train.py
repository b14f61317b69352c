"""train.py - the training script of the benchmarks: a small perceptron on the CPU, one thread.

The steps are short and made of many small operators, which is where tracing shows most; a
real model spends more time per operator. What would take CPU time by chance is off: OpenBLAS's
threads, which spin for as long as others compute (sched_yield), and giving memory back to the
kernel, which is faulted in again in some runs and not in others. Prints one line of `name value` pairs at the end:
  step_ms       median time of a step after the warm-up
  step_p99_ms, step_mean_ms, steps
  measured_ns   start and end of the measured steps on CLOCK_MONOTONIC
--until-eof goes on until the standard input is closed; --tell FILE writes end and length of
every measured step in ns; the line `warm` says that the warm-up is over."""

import argparse
import ctypes
import os
import select
import statistics
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # read as they load

import torch

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # malloc.h


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--warmup", type=int, default=50)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--until-eof", action="store_true")
    p.add_argument("--tell", metavar="FILE")
    return p.parse_args()


def keep_memory():
    libc = ctypes.CDLL(None)
    for what, most in ((M_TRIM_THRESHOLD, 1 << 30), (M_TOP_PAD, 64 << 20),
                       (M_MMAP_THRESHOLD, 32 << 20)):
        libc.mallopt(what, most)


class Training:
    def __init__(self, batch, hidden):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.features = torch.randn(64 * batch, 64)
        self.labels = (self.features[:, :10].sum(1) > 0).long()
        self.batch = batch
        self.model = torch.nn.Sequential(
            torch.nn.Linear(64, hidden), torch.nn.ReLU(),
            torch.nn.Linear(hidden, hidden), torch.nn.ReLU(),
            torch.nn.Linear(hidden, 2))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.criterion = torch.nn.CrossEntropyLoss()

    def step(self, i):
        at = i % 64 * self.batch
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(self.features[at:at + self.batch]),
                              self.labels[at:at + self.batch])
        loss.backward()
        self.optimizer.step()
        return loss.item()


def goes_on(args, made):
    if not args.until_eof:
        return made < args.steps
    return not select.select([sys.stdin], [], [], 0)[0]


def main():
    args = arguments()
    keep_memory()
    training = Training(args.batch, args.hidden)
    for i in range(args.warmup):
        training.step(i)
    print("warm", flush=True)
    ends, lengths = [], []
    began = last = time.monotonic_ns()
    while goes_on(args, len(ends)):
        training.step(len(ends))
        now = time.monotonic_ns()
        ends.append(now)
        lengths.append(now - last)
        last = now
    if args.tell:
        with open(args.tell, "w") as f:
            f.writelines("%d %d\n" % row for row in zip(ends, lengths))
    if not lengths:
        return
    ranked = sorted(lengths)
    print("step_ms %.6f step_p99_ms %.6f step_mean_ms %.6f steps %d measured_ns %d %d" % (
        statistics.median(lengths) / 1e6, ranked[len(ranked) * 99 // 100] / 1e6,
        (last - began) / len(lengths) / 1e6, len(lengths), began, last))


main()
