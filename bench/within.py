#!/usr/bin/env python3
"""within.py - what recording costs the steps of a job, told within one process: `record --burst`
puts probes on and off each half second, and steps that lie in a burst are compared with those of
the quiet around it. The probes are the kernel's; for those inside gpu_overhead.py has "calls inside",
which switches them itself.

Two processes of one host, and one process from one ten seconds to the next, differ by more than
what is to be measured; one process hardly changes from half a second to the next. A figure is the
median over bursts of (median step in the burst) / (mean of the medians of the quiet before and
behind it), with its bootstrap interval. In the quiet the probes are out. What is there all the time, stacks of samples and counters, is in
both and so not in the figure. "told" is what the recording's report says that it took of the job's
CPU time, stacks and counters with it, "measured" the same by the figure and the share of time that
bursts had.

Loads are those of gpu_overhead.py; `--device cpu` runs them without a GPU. Needs root, and a Python
with PyTorch."""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import common
import gpu_overhead
from common import Failed

HEADS = ["configuration", "quiet ms", "in bursts", "95 %", "bursts", "calls/s in bursts",
         "measured", "told", "lost"]
CONFIGS = {
    "default layers": [],
    "default layers, no stacks": ["--profile", "off"],
    "all layers": ["--layers", "all"],
}
AROUND_NS = 60e6  # of a burst: links come and go there
EDGE_NS = 10e6    # as exactly as it is known when a step of a Trainer was
LOADS = ["launch-bound", "gpu-bound", "trainer"]  # whose steps follow each other
LEAST_STEPS = 3   # of a burst, and of a quiet


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", default=os.path.join(common.ROOT, "build"), metavar="DIR")
    p.add_argument("--eacgm", metavar="PATH", help="default: BUILD/eacgm")
    p.add_argument("--python", default=sys.executable, help="default: %(default)s")
    p.add_argument("--load", choices=LOADS, default="launch-bound")
    p.add_argument("--only", action="append", choices=list(CONFIGS), metavar="CONFIG",
                   help="may be repeated; of: " + "; ".join(CONFIGS))
    p.add_argument("--seconds", type=float, default=60, help="of a configuration")
    p.add_argument("--burst", default="1/2:500", help="default: %(default)s")
    p.add_argument("--warmup", type=int, default=20)
    p.add_argument("--device", default="cuda")
    p.add_argument("--json", metavar="FILE")
    args = p.parse_args()
    args.eacgm = args.eacgm or os.path.join(args.build, "eacgm")
    return args


def steps_of(job, steps, seconds):
    """(begin, end) of each step, ns, for some seconds."""
    ret, limit = [], time.monotonic() + seconds
    while time.monotonic() < limit:
        made = job.run(steps)
        at = made["window"][1] - sum(made["lengths_ns"])  # a Trainer has more to do before them
        for length in made["lengths_ns"]:
            ret.append((at, at + length))
            at += length
    return ret


def windows_of(eacgm, recording):
    rows = json.loads(common.run([eacgm, "query", recording, "--json",
                                  "SELECT start_ns, end_ns FROM windows ORDER BY start_ns"], 60).out)
    return [(row["start_ns"], row["end_ns"]) for row in rows]


def median_within(steps, begin, end):
    inside = [b - a for a, b in steps if a >= begin and b <= end]
    return statistics.median(inside) if len(inside) >= LEAST_STEPS else None


def ratios_of(steps, windows):
    """Of every second burst, so that no two share a quiet, and the medians of the quiets."""
    ratios, quiets = [], []
    for before, burst, behind in zip(windows[::2], windows[1::2], windows[2::2]):
        on = median_within(steps, burst[0] + EDGE_NS, burst[1] - EDGE_NS)
        off = [median_within(steps, a + AROUND_NS, b - AROUND_NS)
               for a, b in ((before[1], burst[0]), (burst[1], behind[0]))]
        if on and all(off):
            quiets.append(statistics.mean(off))
            ratios.append(on / quiets[-1])
    return ratios, quiets


def measure(args, name, job, folder):
    recording = os.path.join(folder, "within.eacgm")
    load = next(x for x in gpu_overhead.LOADS if x.name == args.load)
    with gpu_overhead.Attached(args, job.p.pid, recording,
                               [*CONFIGS[name], "--burst", args.burst]) as eacgm:
        steps = steps_of(job, 4 * load.steps, args.seconds)
    windows = windows_of(args.eacgm, recording)
    rec = common.report_of(args.eacgm, recording)["recording"]
    os.unlink(recording)
    ratios, quiets = ratios_of(steps, windows)
    if len(ratios) < 2:
        raise Failed("%s: %d bursts, with steps in %d" % (name, len(windows), len(ratios)))
    share = sum(b - a for a, b in windows) / (windows[-1][1] - windows[0][0])
    in_bursts_s = sum(b - a for a, b in windows) / 1e9
    return {"config": name, "quiet_ms": statistics.median(quiets) / 1e6,
            "ratio": common.interval(ratios), "ratios": ratios, "share": share,
            "calls_s": eacgm.said["calls"] / in_bursts_s, "lost": rec["lost"],
            "measured": share * (1 - 1 / statistics.median(ratios)),
            "told": rec["overhead"]["cpu_ratio"]}


def cells(row):
    r = row["ratio"]
    return [row["config"], "%.3f" % row["quiet_ms"], gpu_overhead.percent(r["median"]),
            "%s .. %s" % (gpu_overhead.percent(r["low"]), gpu_overhead.percent(r["high"])), r["n"],
            "%.0f" % row["calls_s"], "%.1f %%" % (100 * row["measured"]),
            "%.1f %%" % (100 * row["told"]), row["lost"]]


def main():
    args = arguments()
    load = next(x for x in gpu_overhead.LOADS if x.name == args.load)
    results = common.Results("within", args.eacgm, {
        "load": args.load, "seconds": args.seconds, "burst": args.burst})
    results["configs"], failed = [], []
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        job = gpu_overhead.Job(args, load, os.path.join(folder, "job.log"))
        try:
            for name in args.only or list(CONFIGS):
                common.say("%s: %s" % (load.name, name))
                try:
                    results.data["configs"].append(measure(args, name, job, folder))
                except Failed as e:
                    failed.append("%s failed: %s" % (name, e))
                results.write(args.json)  # what is measured is kept, whatever comes next
        finally:
            job.end()
            common.said()
    common.print_table(args.load, HEADS, [cells(r) for r in results.data["configs"]])
    print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
