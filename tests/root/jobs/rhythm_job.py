#!/usr/bin/env python3
"""rhythm_job.py - a training of PyTorch on the CPU whose operators take a known time: they are its
own, and sleep. Eight times as long from second FROM to second TO of the loop; with `prepare`, a
function of its own runs for as long instead, before each step. The loop begins when the file that
$RHYTHM_AFTER names is there, if it names one, and ends early when that of $RHYTHM_UNTIL is. It is
slow, too, while that of $RHYTHM_SLOW is there.

usage: rhythm_job.py SECONDS [FROM TO [prepare]]; prints on CLOCK_MONOTONIC, in ns, when it was slow, and how
many steps there were."""

import contextlib
import os
import sys
import time

import torch

seconds = float(sys.argv[1])
slow_from, slow_to = (float(word) for word in sys.argv[2:4]) if len(sys.argv) > 3 else (1e9, 1e9)
MS = 1.0
FACTOR = 8  # far more than what a busy machine does
prepares = "prepare" in sys.argv
slow = 1
slow_ns = []


def prepare(ms):
    end = time.monotonic() + ms / 1e3
    while time.monotonic() < end:
        pass


class Sleep(torch.autograd.Function):
    """Backward sleeps within a node of autograd, which is seen."""

    @staticmethod
    def forward(_ctx, x):
        time.sleep(MS * slow / 1e3)
        return x * 1

    @staticmethod
    def backward(_ctx, g):
        time.sleep(MS * slow / 1e3)
        return g


with contextlib.suppress(PermissionError):  # before others: what they take is not what is looked for
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
torch.set_num_threads(1)
x = torch.randn(16, 16, requires_grad=True)
optimizer = torch.optim.SGD([x], lr=1e-3)
after, until = os.environ.get("RHYTHM_AFTER"), os.environ.get("RHYTHM_UNTIL")
slow_while = os.environ.get("RHYTHM_SLOW")


def is_slow():
    return (slow_from <= time.monotonic() - begin < slow_to or
            (slow_while and os.path.exists(slow_while)))


while after and not os.path.exists(after):
    time.sleep(0.02)
steps, begin = 0, time.monotonic()
while time.monotonic() < begin + seconds and not (until and os.path.exists(until)):
    slow = FACTOR if is_slow() else 1
    if slow > 1:
        slow_ns.append(time.monotonic_ns())
        if prepares:
            prepare(16 * MS * (slow - 1))
            slow = 1
    optimizer.zero_grad()
    y = x
    for _i in range(8):
        y = Sleep.apply(y)
    y.sum().backward()
    optimizer.step()
    steps += 1
if slow_ns:
    print("slow", slow_ns[0], slow_ns[-1])
print("steps", steps)
