#!/usr/bin/env python3
"""budget.py - whether `record --budget` keeps what it says: how much slower a job really gets
under it, beside what the budget reckons itself, in interleaved pairs.

One job goes on all the time and works when it is told to; a pair is a segment untraced and one
traced, in turn one or the other first; eacgm attaches to it, gets some seconds to settle, and
leaves. Loads: `ops` are small operators of PyTorch on one CPU as fast as they come; `changing`
makes a hundredth as many for some seconds, and again as many; `gpt2` (with --gpu) is the
launch-bound training of gpu_overhead.py. The same amount of work is done in all segments of a
load. `slower by CPU` compares the job's own processor time, `by clock` the time that passed;
`bursts` (of `ops`) is what pieces of 4 ms took beyond the usual around them, without the same of
the untraced segment. On a machine that others use as well all of these vary by more than a budget.
--no-budget compares with no budget. Needs root and a Python with PyTorch."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import common
import gpu_overhead
from common import Failed

SETTLE_S = 4

JOB = r'''
import json, statistics, sys, time
import torch
torch.set_num_threads(1)
a, big = torch.ones(8), torch.ones(192, 192)

def small(n):
    for _ in range(n):
        b = a + a
        c = b * a
        d = c.sum()
        e = torch.relu(b)

def large(n):
    for _ in range(n):
        for _ in range(25):
            big @ big
        small(1)

def chunks(work, n, each):
    """What each piece of the work took beyond the usual around it, of all that it took: bursts."""
    times = []
    for _ in range(max(1, n // each)):
        began = time.process_time()
        work(each)
        times.append(time.process_time() - began)
    beyond = 0
    for i in range(0, len(times), 10):
        usual = statistics.median(times[max(0, i - 60):i + 70])
        beyond += sum(t - usual for t in times[i:i + 10])
    return beyond, sum(times)

def rate(work, n):
    began = time.process_time()
    work(n)
    return n / (time.process_time() - began)

small(20000)
large(20)
small_s, large_s = rate(small, 40000), rate(large, 400)
print("ready", flush=True)
for line in sys.stdin:
    word, seconds = line.split()
    seconds = float(seconds)
    cpu, began = time.process_time(), time.monotonic()
    if word == "ops":
        beyond, total = chunks(small, int(small_s * seconds), int(small_s * 0.004))
    else:
        beyond, total = 0, 1
        for _ in range(max(1, round(seconds / 6))):
            small(int(small_s * 3))
            large(int(large_s * 3))
    print(json.dumps({"beyond": beyond / (total - beyond), "cpu_s": time.process_time() - cpu,
                      "wall_s": time.monotonic() - began}), flush=True)
'''


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("--eacgm", metavar="PATH", help="default: BUILD/eacgm")
    p.add_argument("--python", default="/usr/bin/python3", help="default: %(default)s")
    p.add_argument("--budget", action="append", metavar="PCT", help="default: 2%%")
    p.add_argument("--no-budget", action="store_true", help="also without one")
    p.add_argument("--load", action="append", choices=("ops", "changing", "gpt2"))
    p.add_argument("--gpu", action="store_true", help="the load gpt2 alone")
    p.add_argument("--pairs", type=int, default=10)
    p.add_argument("--seconds", type=float, default=12, help="of a segment (default: %(default)s)")
    p.add_argument("--options", default="", help="of record, beside the budget")
    args = p.parse_args()
    args.eacgm = os.path.abspath(args.eacgm or os.path.join(args.build, "eacgm"))
    args.load = args.load or (["gpt2"] if args.gpu else ["ops", "changing"])
    return args


class Small(gpu_overhead.Job):
    """The job of this file."""

    def __init__(self, args, load, folder):
        path = os.path.join(folder, "job.py")
        with open(path, "w") as f:
            f.write(JOB)
        self.log, self.rest, self.load = os.path.join(folder, "job.log"), b"", load
        self.seconds = args.seconds
        with open(self.log, "w") as err:
            self.p = subprocess.Popen(
                [args.python, path], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=err, start_new_session=True)
        while self.line(gpu_overhead.START_SECONDS) != "ready":
            pass

    def work(self, seconds=None):
        self.p.stdin.write(("%s %g\n" % (self.load, seconds or self.seconds)).encode())
        self.p.stdin.flush()
        return json.loads(self.line(gpu_overhead.SEGMENT_SECONDS))


class Gpt2(gpu_overhead.Job):
    def __init__(self, args, folder):
        args.warmup, args.device = 20, "cuda"
        super().__init__(args, gpu_overhead.LOADS[0], os.path.join(folder, "job.log"))
        self.seconds = args.seconds
        self.steps = max(1, round(args.seconds * 1e3 / self.run(20)["mean_ms"]))

    def work(self, seconds=None):
        steps = self.steps if not seconds else max(1, round(self.steps * seconds / self.seconds))
        cpu_s = gpu_overhead.cpu_s_of(self.p.pid)
        ran = self.run(steps)
        return {"cpu_s": gpu_overhead.cpu_s_of(self.p.pid) - cpu_s,
                "wall_s": ran["mean_ms"] * steps / 1e3}


def traced(args, job, recording, options):
    with gpu_overhead.Attached(args, job.p.pid, recording, options):
        job.work(SETTLE_S)
        made = job.work()
    told = common.report_of(args.eacgm, recording)["recording"]
    os.unlink(recording)
    return made, told


def measure(args, name, options, job, folder):
    rows = []
    for i in range(args.pairs):
        common.say("%s, pair %d of %d" % (name, i + 1, args.pairs))
        recording = os.path.join(folder, "run.eacgm")
        if i % 2:
            new, told = traced(args, job, recording, options)
            old = job.work()
        else:
            old = job.work()
            new, told = traced(args, job, recording, options)
        rows.append({"cpu": new["cpu_s"] / old["cpu_s"], "wall": new["wall_s"] / old["wall_s"],
                     "bursts": new.get("beyond", 0) - old.get("beyond", 0),
                     "told": told["overhead"]["cpu_ratio"],
                     "budget": told.get("budget", {}).get("used_ratio")})
    common.said()
    return {"config": name, "pairs": rows,
            "cpu": common.interval([r["cpu"] for r in rows]),
            "wall": common.interval([r["wall"] for r in rows]),
            "bursts": common.interval([r["bursts"] for r in rows]),
            "told": statistics.median(r["told"] for r in rows),
            "budget": statistics.median(r["budget"] or 0 for r in rows)}


def cells(r):
    def change(q):
        return ["%+.2f %%" % (100 * q["median"] - 100),
                "%+.1f .. %+.1f %%" % (100 * q["low"] - 100, 100 * q["high"] - 100)]
    b = r["bursts"]
    return [r["config"], "%.2f %%" % (100 * b["median"]),
            "%.2f .. %.2f %%" % (100 * b["low"], 100 * b["high"]), *change(r["cpu"]),
            *change(r["wall"]), "%.2f %%" % (100 * r["told"]),
            "%.2f %%" % (100 * r["budget"]), r["cpu"]["n"]]


HEADS = ["configuration", "bursts", "95 %", "slower by CPU", "95 %", "by clock", "95 %",
         "report: cost", "budget: used", "pairs"]


def main():
    args = arguments()
    results = common.Results("budget", args.eacgm, {"pairs": args.pairs, "seconds": args.seconds,
                                                    "options": args.options})
    results["loads"] = {}
    budgets = args.budget or ["2%"]
    extra = args.options.split()
    configs = [("--budget " + b, ["--budget", b, *extra]) for b in budgets]
    if args.no_budget:
        configs.append(("no budget", extra))
    for load in args.load:
        with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
            job = Gpt2(args, folder) if load == "gpt2" else Small(args, load, folder)
            try:
                rows = [measure(args, n, o, job, folder) for n, o in configs]
            finally:
                job.end()
        results.data["loads"][load] = rows
        results.write(args.json)
        common.print_table(load, HEADS, [cells(r) for r in rows])
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
