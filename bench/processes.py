#!/usr/bin/env python3
"""processes.py - what recording costs a training, told by several processes of each configuration
that eacgm starts, and several that it does not know of, all there at once, which take turns.

Two equal processes of one host may differ (where their pages lie, which CPUs they come to), and
each has a speed of its own for seconds. A pair of processes cannot tell a cost of a few percent
from that, however many segments it makes, and its interval does not say so. Here a figure is of
several processes, and its interval is one of processes: a process counts by the median, over the
rounds, of its mean step in relation to that of all untraced ones in that round; the logarithms of
these are compared by Welch's test, which does not take variances for equal (Biometrika 34, 1947). "spread" is the standard deviation of such a process.

In each round each process makes one segment, in an order that is drawn anew; all others wait for
their turn meanwhile. The few probes of the kernel that `--probes inprocess` leaves are felt by all
processes, so that what they cost is not in the figure ("told by the kernel" says how many calls
these are). Loads and configurations are those of gpu_overhead.py that eacgm starts a process for,
and the profilers of Python and PyTorch, each of these in processes of its own. Needs root, and a
Python with PyTorch."""

import argparse
import concurrent.futures
import math
import os
import random
import statistics
import sys
import tempfile
import time

import common
import gpu_overhead
import to_markdown
from common import Failed

UNTRACED = "untraced"
HEADS = ["configuration", "processes", "ms", "spread", "step time", "95 %", "calls",
         "told by the kernel", "lost"]
# two-sided 95 % of Student's t by degrees of freedom; between them the smaller number's is taken
T_95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23,
        12: 2.18, 15: 2.13, 20: 2.09, 30: 2.04, 60: 2.00}


def configs():
    """Those of gpu_overhead.py that can be a process from first to last, by name."""
    return {c.name: c for c in gpu_overhead.configs()
            if (c.started and not c.switched) or c.way != "none" or c.client}


def arguments():
    names = list(configs())
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("--eacgm", metavar="PATH", help="default: BUILD/eacgm")
    p.add_argument("--beside", metavar="PATH", help="another eacgm: its processes are there as well")
    p.add_argument("--python", default=sys.executable, help="default: %(default)s")
    p.add_argument("--load", choices=[x.name for x in gpu_overhead.LOADS], default="launch-bound")
    p.add_argument("--only", action="append", choices=names, metavar="CONFIG",
                   help="may be repeated; of: " + "; ".join(names))
    p.add_argument("--processes", type=int, default=4, help="of each (default: %(default)s)")
    p.add_argument("--steps", type=int, default=6, help="of a segment (default: %(default)s)")
    p.add_argument("--seconds", type=float, default=120, help="of rounds (default: %(default)s)")
    p.add_argument("--warmup", type=int, default=20)
    p.add_argument("--keep", metavar="FOLDER", help="recordings stay there")
    p.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    args = p.parse_args()
    args.eacgm = os.path.abspath(args.eacgm or os.path.join(args.build, "eacgm"))
    args.beside = args.beside and os.path.abspath(args.beside)
    if args.processes < 2 or args.steps < 1 or args.seconds <= 0:
        p.error("--processes is at least 2, --steps and --seconds are positive")
    return args


class Process:
    """One of a configuration's, by an eacgm; config is None for an untraced one."""

    def __init__(self, args, load, config, eacgm, number, folder):
        self.config, self.eacgm = config, eacgm
        self.recording = os.path.join(folder, "%d.eacgm" % number)
        self.log = os.path.join(folder, "%d.log" % number)
        self.recorded = config is not None and config.eacgm is not None
        wrap, env = [], None
        if self.recorded:
            wrap = [eacgm, "record", "-u", "root", "-o", self.recording, *config.eacgm, "--"]
        if config is not None and config.client:
            env = {"CUDA_INJECTION64_PATH":
                   os.path.join(args.build, "bench", "libbench_cupti_client.so")}
            if config.name != gpu_overhead.CLIENT:
                env["CUPTI_CLIENT_LAUNCHES"] = "1"
        self.job = gpu_overhead.Job(args, load, self.log, env, wrap)
        try:
            if config is not None and config.resting:
                gpu_overhead.Switch(self.job.p.pid).set(1)
        except BaseException:
            self.job.end()
            raise
        self.segments = []

    def segment(self, steps):
        self.segments.append(self.job.run(steps, self.config.way if self.config else "none"))

    def told(self, args):
        """What its recording holds; the process ends."""
        status = self.job.quit()
        if not self.recorded:
            return {}
        with open(self.log, errors="replace") as f:
            text = f.read()
        said = gpu_overhead.SAID.search(text)
        if status or not said:
            raise Failed("eacgm ended with %d: %s" % (status, text.strip()[-400:]))
        meta = common.metas_of(args.eacgm, self.recording)
        return {"calls": int(said.group(1)), "lost": int(said.group(4)),
                "spans": int(said.group(2) or 0),
                "inside": int(meta.get("inside_calls", 0))}


def some_at_once():
    return concurrent.futures.ThreadPoolExecutor(max_workers=max(2, os.cpu_count() // 2))


def started(args, load, chosen, folder):
    """All at once, as few minutes as may be; each by a number that names its files."""
    kinds = [(None, args.eacgm)] + [(c, args.eacgm) for c in chosen]
    kinds += [(c, args.beside) for c in chosen if args.beside and c.eacgm is not None]
    wanted = [kind for kind in kinds for _ in range(args.processes)]
    with some_at_once() as pool:
        tries = [pool.submit(Process, args, load, *kind, i, folder)
                 for i, kind in enumerate(wanted)]
    there = [t.result() for t in tries if t.exception() is None]
    failed = next((t.exception() for t in tries if t.exception()), None)
    if failed:
        for process in there:
            process.job.end()
        raise failed
    return there


def make_rounds(args, processes):
    order, rng = list(processes), random.Random(1)
    until = time.monotonic() + args.seconds
    n = 0
    while time.monotonic() < until or n < 2:
        n += 1
        common.say("round %d" % n)
        rng.shuffle(order)
        for process in order:
            process.segment(args.steps)


def log_ratios(processes):
    """Of each process: ln of its step in relation to the round's untraced ones, the median."""
    rounds = range(min(len(p.segments) for p in processes))
    usual = [statistics.median(p.segments[i]["mean_ms"] for p in processes if p.config is None)
             for i in rounds]
    return {p: statistics.median(math.log(p.segments[i]["mean_ms"] / usual[i]) for i in rounds)
            for p in processes}


def t_95(freedom):
    return T_95[max(k for k in T_95 if k <= max(freedom, 1))]


def welch(new, old):
    """Ratio of the geometric means of two groups of logarithms, with its 95 % interval."""
    parts = [statistics.variance(g) / len(g) for g in (new, old)]
    mean = statistics.fmean(new) - statistics.fmean(old)
    error = math.sqrt(sum(parts))
    under = sum(v * v / (len(g) - 1) for v, g in zip(parts, (new, old)))
    off = t_95(sum(parts) ** 2 / under) * error
    return {"ratio": math.exp(mean), "low": math.exp(mean - off), "high": math.exp(mean + off)}


def row_of(name, group, untraced, logs, told):
    steps = [statistics.median(s["mean_ms"] for s in p.segments) for p in group]
    mine = [logs[p] for p in group]
    row = {"config": name, "processes": len(group), "rounds": len(group[0].segments),
           "ms": statistics.median(steps), "logs": mine,
           "spread": statistics.stdev(mine),
           "segments_ms": [[s["mean_ms"] for s in p.segments] for p in group]}
    if group is not untraced:
        row.update(welch(mine, [logs[p] for p in untraced]))
    if told and told[0]:
        row.update({key: sum(t[key] for t in told) for key in told[0]})
    return row


def measure(args, folder):
    load = next(x for x in gpu_overhead.LOADS if x.name == args.load)
    chosen = [c for name, c in configs().items() if name in (args.only or configs())]
    common.say("%s: starting" % load.name)
    processes = started(args, load, chosen, folder)
    try:
        make_rounds(args, processes)
        logs = log_ratios(processes)
        with some_at_once() as pool:
            told = dict(zip(processes, pool.map(lambda p: p.told(args), processes)))
    finally:
        for process in processes:
            process.job.end()
        common.said()
    groups = {}
    for p in processes:
        groups.setdefault((p.config, p.eacgm), []).append(p)
    return [row_of(name_of(args, *kind), group, groups[None, args.eacgm], logs,
                   [told[p] for p in group]) for kind, group in groups.items()]


def name_of(args, config, eacgm):
    name = config.name if config else UNTRACED
    return name + ", by the other" if eacgm == args.beside else name


def cells(row):
    percent = gpu_overhead.percent
    calls = row.get("calls")
    return [row["config"], row["processes"], "%.2f" % row["ms"],
            "%.1f %%" % (100 * row["spread"]),
            percent(row["ratio"]) if "ratio" in row else "-",
            "%s .. %s" % (percent(row["low"]), percent(row["high"])) if "ratio" in row else "-",
            calls if calls is not None else "-",
            "%.1f %%" % (100 * (1 - row["inside"] / calls)) if calls else "-",
            row.get("lost", "-")]


def main():
    args = arguments()
    results = common.Results("processes", args.eacgm, {
        "load": args.load, "processes": args.processes, "steps": args.steps,
        "seconds": args.seconds})
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        rows = measure(args, args.keep or folder)
    results["configs"] = rows
    results.write(args.json)
    table = [cells(r) for r in rows]
    common.print_table("%s, %d rounds" % (args.load, rows[0]["rounds"]), HEADS, table)
    print("\nAs Markdown:\n")
    to_markdown.table(HEADS, table)
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
