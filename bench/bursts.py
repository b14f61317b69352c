#!/usr/bin/env python3
"""bursts.py - how record --burst switches, on a loop of small operators of PyTorch.

For each setting: how long eacgm's own thread takes at an edge, how long putting the links
on takes (behind, before the edge), how long calls are seen in each burst and how far apart bursts
are, by the calls themselves; and what a round of the loop takes the job while calls are recorded
and while they are not (the least CPU time of each run: others may use the machine too), beside runs
that are not recorded. Needs root."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import common
from common import Failed

PYTHON = "/usr/bin/python3"
JOB = """
import sys, time, torch
torch.set_num_threads(1)
x = torch.randn(64, 64)
rows, end = [], time.time() + float(sys.argv[1])
while time.time() < end:
    began, cpu = time.monotonic_ns(), time.thread_time_ns()
    for _ in range(60):
        torch.relu(x @ x + x).sum()
    cpu = time.thread_time_ns() - cpu
    rows.append("%d %d %d" % (began, time.monotonic_ns(), cpu))
open(sys.argv[2], "w").write("\\n".join(rows))
"""
AROUND_NS = 60e6  # of a burst: links come and go there, unless they stay
KEPT_MS = 250     # session_bursts.c: where there is less between bursts


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("--seconds", type=float, default=10,
                   help="of a run, or five periods where that is more (default: %(default)s)")
    p.add_argument("--limit", type=int, default=120, help="seconds that one run may take")
    p.add_argument("settings", nargs="*", metavar="1/N:MS",
                   help="default: 1/20:50 1/4:250 1/4:500 1/2:100")
    args = p.parse_args()
    args.settings = args.settings or ["1/20:50", "1/4:250", "1/4:500", "1/2:100"]
    args.eacgm = os.path.join(args.build, "eacgm")
    return args


def job(seconds, folder):
    return [PYTHON, "-c", JOB, str(seconds), os.path.join(folder, "rows")]


def rounds_of(folder):
    with open(os.path.join(folder, "rows")) as f:
        return [tuple(map(int, line.split())) for line in f]


def calls_of(eacgm, path):
    """When calls of PyTorch began: one is never far from the next while they are recorded."""
    p = subprocess.Popen([eacgm, "export", path, "-f", "jsonl", "-o", "-"], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with p:
        return sorted(row["start_ns"] for row in map(json.loads, p.stdout)
                      if row["type"] == "call" and row["layer"] == "torch")


def bursts_of(calls, rounds, rest_ns):
    """Those that begin and end while the loop runs."""
    bursts = []
    for at in calls:
        if not bursts or at - bursts[-1][1] > rest_ns / 2:
            bursts.append([at, at])
        bursts[-1][1] = at
    return [b for b in bursts[1:-1] if b[0] > rounds[0][0] and b[1] < rounds[-1][1]]


def by_phase(rounds, bursts, rest_ms):
    on, off = [], []
    around_ns = AROUND_NS if rest_ms >= KEPT_MS else 0
    for began, ended, cpu in rounds:
        if any(b[0] <= began and ended <= b[1] for b in bursts):
            on.append(cpu)
        elif all(ended < b[0] - around_ns or began > b[1] + around_ns for b in bursts):
            off.append(cpu)
    return on, off


def measure(args, setting, folder):
    path = os.path.join(folder, "bursts.eacgm")
    n, on_ms = int(setting.split("/")[1].split(":")[0]), float(setting.split(":")[1])
    seconds = max(args.seconds, 5 * n * on_ms / 1e3)
    common.run([args.eacgm, "record", "--burst", setting, "-o", path, "--", *job(seconds, folder)],
               args.limit)
    meta, rounds = common.metas_of(args.eacgm, path), rounds_of(folder)
    bursts = bursts_of(calls_of(args.eacgm, path), rounds, on_ms * 1e6 * (n - 1))
    if len(bursts) < 2:
        raise Failed("%s: too few bursts in %g s" % (setting, seconds))
    on, off = by_phase(rounds, bursts, on_ms * (n - 1))
    return {"setting": setting, "switches": int(meta["burst_switches"]),
            "switch_us": int(meta["burst_switch_us"]),
            "switch_most_us": int(meta["burst_switch_most_us"]),
            "places_ms": float(meta["burst_places_ms"]),
            "on_ms": statistics.median((b[1] - b[0]) / 1e6 for b in bursts),
            "off_ms": statistics.median((b[0] - a[1]) / 1e6 for a, b in zip(bursts, bursts[1:])),
            "round_on_us": min(on, default=0) / 1e3, "round_off_us": min(off, default=0) / 1e3}


def alone(args, folder):
    common.run(job(args.seconds, folder), args.limit)
    return min(cpu for _, _, cpu in rounds_of(folder)) / 1e3


def main():
    args = arguments()
    if os.geteuid() != 0:
        raise Failed("needs root")
    results = common.Results("bursts", args.eacgm, {"seconds": args.seconds})
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        untraced_us = alone(args, folder)
        rows = [measure(args, setting, folder) for setting in args.settings]
    common.print_table(
        "record --burst (a round alone: %.0f us at least)" % untraced_us,
        ["setting", "switches", "mean us", "longest us", "links on ms", "calls seen for ms",
         "then not for ms", "round on us", "round off us"],
        [[r["setting"], r["switches"], r["switch_us"], r["switch_most_us"],
          "%.1f" % r["places_ms"], "%.1f" % r["on_ms"], "%.1f" % r["off_ms"],
          "%.0f" % r["round_on_us"], "%.0f" % r["round_off_us"]]
         for r in rows])
    results["alone_us"] = untraced_us
    results["bursts"] = rows
    results.write(args.json)
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
