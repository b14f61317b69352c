#!/usr/bin/env python3
"""neighbour.py - what a process that is not traced pays while another one is, where both map the
same libraries: the kernel's probes are of a file, so that each process that maps it meets them; those
inside of a process are met by nobody else.

The neighbour loops over small operators of PyTorch. The one that is recorded makes some
now and then, so that it takes little CPU. By turns it is not recorded, recorded by the kernel's
probes, and by such that are inside of it. Told is the neighbour's CPU time of a round against the one
before it in which nothing was recorded. Needs root and PyTorch."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import common
from common import Failed

PYTHON = "/usr/bin/python3"
SELDOM = """
import torch, time
print(flush=True)
while True:
    torch.randn(4) @ torch.randn(4)
    time.sleep(0.02)
"""
LOOPS = """
import sys, time, torch
torch.set_num_threads(1)
x = torch.randn(16, 16)
for line in sys.stdin:
    began, rounds, end = time.thread_time_ns(), 0, time.monotonic() + float(line)
    while time.monotonic() < end:
        for _ in range(60):
            torch.relu(x @ x + x).sum()
        rounds += 1
    print((time.thread_time_ns() - began) / rounds, flush=True)
"""
HOW = {"kernel": "attached to 1 process", "inprocess": "functions inside"}  # and what says that it is so
PATIENCE_S = 60  # for that
SETTLE_S = 2     # the kernel's probes go half a second after the others came


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("--pairs", type=int, default=10, help="of each kind (default: %(default)s)")
    p.add_argument("--seconds", type=float, default=2, help="of a turn (default: %(default)s)")
    args = p.parse_args()
    args.eacgm = os.path.join(args.build, "eacgm")
    return args


def start(script):
    return subprocess.Popen([PYTHON, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True)


def turn_ns(args, neighbour):
    neighbour.stdin.write("%g\n" % args.seconds)
    neighbour.stdin.flush()
    said = neighbour.stdout.readline()
    if not said:
        raise Failed("the neighbour ended")
    return float(said)


def wait_for(recorder, what):
    said, end = "", time.monotonic() + PATIENCE_S
    while what not in said:
        line = recorder.stderr.readline()
        said += line
        if not line or "kernel's probes go on" in line or time.monotonic() > end:
            raise Failed("record did not say '%s': %s" % (what, said.strip()))


def recorded_ns(args, how, pid, neighbour, folder):
    recorder = subprocess.Popen(
        [args.eacgm, "record", "-p", str(pid), "--probes", how, "-o", os.path.join(folder, "a.eacgm")],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(recorder, HOW[how])
        time.sleep(SETTLE_S)
        return turn_ns(args, neighbour)
    finally:
        recorder.terminate()
        recorder.communicate()


def measure(args, folder):
    recorded, neighbour = start(SELDOM), start(LOOPS)
    try:
        recorded.stdout.readline()
        turn_ns(args, neighbour)  # warm
        ratios, alone = {how: [] for how in HOW}, []
        for _ in range(args.pairs):
            for how in HOW:
                alone.append(turn_ns(args, neighbour))
                ratios[how].append(
                    recorded_ns(args, how, recorded.pid, neighbour, folder) / alone[-1])
        return statistics.median(alone), ratios
    finally:
        for p in (recorded, neighbour):
            p.kill()
            p.wait()


def main():
    args = arguments()
    results = common.Results("neighbour", args.eacgm, {"pairs": args.pairs, "seconds": args.seconds})
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        alone_ns, ratios = measure(args, folder)
    rows = {how: common.interval(ratios[how]) for how in HOW}
    common.print_table("a neighbour's round of 240 small operators (%.0f us alone)" % (alone_ns / 1e3),
                       ["the other is recorded by", "times as long", "95 %", "pairs"],
                       [[how, "%.2f" % r["median"], "%.2f .. %.2f" % (r["low"], r["high"]), r["n"]]
                        for how, r in rows.items()])
    results["alone_ns"] = alone_ns
    results["rows"] = rows
    results.write(args.json)
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
