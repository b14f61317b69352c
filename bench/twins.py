#!/usr/bin/env python3
"""twins.py - what eacgm costs a job that it is attached to, told by the job's twin: two equal
processes make a few steps each, in turns or at once, before eacgm is attached to the second, while
it is, and when it has gone.

Two processes of one host differ by some percent themselves, for good, and the host's speed changes
from second to second. So a figure is (second / first, attached) / (second / first, calm): pairs of
short segments one right after the other, the order changing from pair to pair, or at the same
moment with --together, with eacgm there all the while (gpu_overhead.py attaches for each segment).
Of a segment its mean step counts, or, where the host is disturbed, its fastest one: that has what
each call costs, but not what comes now and then. Intervals: bootstrap over both kinds of pairs.

--together is for hosts with two GPUs: each twin has one, and half of the CPUs; eacgm has the second
half, as its job does. What slows the host then slows both.

A breakpoint of the kernel's probes is in the code of every process that maps the file, also of one
that nobody asked about: the twin would feel it. So the first maps copies of the files that the
second maps (a mount namespace). "twin" says how much slower the first one is while eacgm is at the
second: where that is more than noise, the figure is too small by it.

Loads are those of gpu_overhead.py; `--device cpu` runs them without a GPU. Needs root, a Python
with PyTorch, and some gigabytes for the copies."""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time

import common
import gpu_overhead
from common import Failed

HEADS = ["configuration", "calm ms", "mean step", "95 %", "fastest step", "95 %", "twin",
         "twins differ", "pairs", "calm", "lost", "eacgm, of a core", "it told"]


class Config:
    """options: of record, or of an agent. settle: seconds of steps before it counts. inside: it comes
    into the process. leaves: when it has gone, the job is as before."""

    def __init__(self, name, options, settle=1.0, inside=False, leaves=True, agent=False):
        self.name, self.options, self.settle = name, options, settle
        self.inside, self.leaves, self.agent = inside, leaves, agent


INSIDE = gpu_overhead.INSIDE
CONFIGS = [
    Config("kernel", []),
    Config("budget 2%", ["--budget", "2%"], settle=8),
    Config("agent", [], settle=8, agent=True),
    Config("inside", INSIDE, inside=True),
    Config("inside, all layers", [*INSIDE, "--layers", "all"], inside=True),
    # a process that CUPTI was used in goes on paying for it: last, in this order
    Config("timeline", ["--gpu-timeline", "--layers", "gpu", "--profile", "off"], settle=3,
           leaves=False),
    Config("inside + timeline", [*INSIDE, "--gpu-timeline"], inside=True, settle=3, leaves=False),
    Config("inside, all layers + timeline", [*INSIDE, "--layers", "all", "--gpu-timeline"],
           inside=True, settle=3, leaves=False),
]


def arguments():
    names = [c.name for c in CONFIGS]
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", default=os.path.join(common.ROOT, "build"), metavar="DIR")
    p.add_argument("--eacgm", metavar="PATH", help="default: BUILD/eacgm")
    p.add_argument("--python", default=sys.executable, help="default: %(default)s")
    p.add_argument("--load", choices=[x.name for x in gpu_overhead.LOADS], default="launch-bound")
    p.add_argument("--only", action="append", choices=names, metavar="CONFIG",
                   help="may be repeated; of: " + "; ".join(names))
    p.add_argument("--pairs", type=int, default=80, help="with eacgm, and as many calm")
    p.add_argument("--steps", type=int, default=6, help="of a segment (default: %(default)s)")
    p.add_argument("--seconds", type=float, default=30, metavar="SEC",
                   help="of pairs of one kind, at most (default: %(default)s)")
    p.add_argument("--together", action="store_true", help="both at once, each on a GPU of its own")
    p.add_argument("--warmup", type=int, default=20)
    p.add_argument("--device", default="cuda")
    p.add_argument("--json", metavar="FILE")
    args = p.parse_args()
    args.eacgm = args.eacgm or os.path.join(args.build, "eacgm")
    if min(args.pairs, args.steps) < 1 or args.seconds <= 0:
        p.error("--pairs, --steps and --seconds are positive")
    return args


def pairs_of(args, first, second):
    """Ratios second / first, by mean and by fastest step, and the first's mean steps."""
    by_mean, by_fastest, first_ms = [], [], []
    limit = time.monotonic() + args.seconds
    while len(by_mean) < args.pairs and (time.monotonic() < limit or not by_mean):
        order = [first, second] if len(by_mean) % 2 else [second, first]
        if args.together:
            for job in order:
                job.begin(args.steps)
            a, b = first.made(), second.made()
        else:
            made = {job: job.run(args.steps) for job in order}
            a, b = made[first], made[second]
        by_mean.append(b["mean_ms"] / a["mean_ms"])
        by_fastest.append(b["fastest_ms"] / a["fastest_ms"])
        first_ms.append(a["mean_ms"])
    return {"mean": by_mean, "fastest": by_fastest, "first_ms": first_ms}


def ratio_of(attached, calm, seed=1):
    """Ratio of the medians, and its 95 % interval: percentile bootstrap (Efron 1979) of both."""
    rng = random.Random(seed)
    def drawn(values):
        return statistics.median(rng.choices(values, k=len(values)))
    ratios = sorted(drawn(attached) / drawn(calm) for _ in range(common.RESAMPLES))
    return {"median": statistics.median(attached) / statistics.median(calm),
            "low": ratios[int(common.RESAMPLES * 0.025)],
            "high": ratios[int(common.RESAMPLES * 0.975) - 1],
            "pairs": len(attached), "calm": len(calm)}


def attached(args, config, first, second, folder):
    """Pairs while eacgm is attached to the second, and what it told."""
    recording = os.path.join(folder, "run.eacgm")
    there = gpu_overhead.Agent if config.agent else gpu_overhead.Attached
    with there(args, second.p.pid, recording, config.options) as eacgm:
        if args.together:
            for task in os.listdir("/proc/%d/task" % eacgm.p.pid):
                os.sched_setaffinity(int(task), halves()[1])
        settled = time.monotonic() + config.settle
        while time.monotonic() < settled:
            second.run(args.steps)
        if config.inside:
            gpu_overhead.run_until_inside(second, eacgm)
        began, cpu_s = time.monotonic(), eacgm.cpu_s()
        pairs = pairs_of(args, first, second)
        cores = (eacgm.cpu_s() - cpu_s) / (time.monotonic() - began)
    if config.agent:
        return pairs, {"cores": cores}
    rec = common.report_of(args.eacgm, recording)["recording"]
    os.unlink(recording)
    return pairs, {"cores": cores, "lost": rec["lost"], "cost": rec["overhead"]["cpu_ratio"]}


def joined(kinds):
    return {key: [x for kind in kinds for x in kind[key]] for key in kinds[0]}


def halves():
    """Of the CPUs: two threads of a core are neighbours, or half of them apart."""
    cpus = sorted(os.sched_getaffinity(0))
    with open("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list" % cpus[0]) as f:
        apart = f.read().strip() == "%d,%d" % (cpus[0], cpus[len(cpus) // 2])
    n = len(cpus) // 4 if apart else len(cpus) // 2
    first = set(cpus[:n] + cpus[len(cpus) // 2:len(cpus) // 2 + n] if apart else cpus[:n])
    return first, set(cpus) - first


def twins_of(args, load, folder):
    """The second begins, for the first gets copies of what it maps; each has ended what it did."""
    twins = []
    try:
        for i in (1, 0):
            wrap, env = [], {}
            if args.together:
                wrap = ["taskset", "-c", ",".join(map(str, sorted(halves()[i])))]
                env = {"CUDA_VISIBLE_DEVICES": str(i)}
            if i == 0:
                wrap += common.apart(common.copies_of(twins[0].p.pid, folder))
            twins.insert(0, gpu_overhead.Job(args, load, os.path.join(folder, "job%d.log" % i),
                                             env, wrap))
    except BaseException:
        for job in twins:
            job.end()
        raise
    return twins


def measure(args, chosen, folder):
    load = next(x for x in gpu_overhead.LOADS if x.name == args.load)
    twins = twins_of(args, load, folder)
    try:
        calm = [pairs_of(args, *twins)]
        for config in chosen:
            common.say("%s: %s" % (load.name, config.name))
            row = {"config": config.name, "options": config.options}
            try:
                pairs, told = attached(args, config, *twins, folder)
            except Failed as e:
                if any(job.p.poll() is not None for job in twins):
                    raise
                yield dict(row, failed=str(e))
                continue
            around = calm[-1:]
            if config.leaves:
                calm.append(pairs_of(args, *twins))
                around = calm[-2:]
            around = joined(around)
            row.update(told, attached_pairs=pairs, calm_pairs=calm, calm_ms=statistics.median(around["first_ms"]),
                       twins=statistics.median(around["mean"]),
                       twin=statistics.median(pairs["first_ms"]) /
                       statistics.median(around["first_ms"]),
                       mean=ratio_of(pairs["mean"], around["mean"]),
                       fastest=ratio_of(pairs["fastest"], around["fastest"]))
            yield row
    finally:
        for job in twins:
            job.end()
        common.said()


def cells(row):
    if "mean" not in row:
        return [row["config"]] + ["-"] * (len(HEADS) - 1)
    def change(key):
        q = row[key]
        return [gpu_overhead.percent(q["median"]), "%s .. %s" % (
            gpu_overhead.percent(q["low"]), gpu_overhead.percent(q["high"]))]
    def share(key):
        return "%.2f %%" % (100 * row[key])
    return [row["config"], "%.3f" % row["calm_ms"], *change("mean"), *change("fastest"),
            gpu_overhead.percent(row["twin"]), gpu_overhead.percent(row["twins"]),
            row["mean"]["pairs"], row["mean"]["calm"], row.get("lost", "-"), share("cores"),
            share("cost") if "cost" in row else "-"]


def main():
    args = arguments()
    chosen = [c for c in CONFIGS if not args.only or c.name in args.only]
    results = common.Results("twins", args.eacgm, {
        "load": args.load, "pairs": args.pairs, "steps": args.steps, "seconds": args.seconds})
    results["configs"] = []
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        for row in measure(args, chosen, folder):
            results.data["configs"].append(row)
            results.write(args.json)  # what is measured is kept, whatever comes next
    rows = results.data["configs"]
    common.print_table(args.load, HEADS, [cells(r) for r in rows])
    for r in rows:
        if "failed" in r:
            print("%s failed: %s" % (r["config"], r["failed"]))
    return 1 if any("failed" in r for r in rows) else 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
