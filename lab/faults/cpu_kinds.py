#!/usr/bin/env python3
"""cpu_kinds.py - which kind of work of a CPU goes with how fast a job is, second by second.

    lab/faults/run.py --no-record --plan clean --workload W --minutes 2 --out RUN &
    build/lab/cpu_kinds PID 120 > KINDS          the job's process, once it is there
    lab/faults/cpu_kinds.py RUN/steps.0.jsonl KINDS [SECONDS LEFT OUT]

Of each second with three steps and more: the median step, and of each kind of work the median of
what helpers/cpu_kinds.c measured. Prints, of their logarithms, how they go together (Pearson), by how
much steps are longer, and what is left of the steps' standard deviation. Standard library alone."""

import collections
import json
import math
import statistics
import sys


def seconds_of(steps, left_out_s):
    """{second: ln of the median step}"""
    with open(steps, encoding="utf-8") as f:
        rows = [r for r in map(json.loads, f) if r["phase"] == "train"]
    begin = rows[0]["start_ns"] + left_out_s * 1e9 if rows else 0
    found = collections.defaultdict(list)
    for r in rows:
        if r["start_ns"] >= begin:
            found[(r["start_ns"] + r["end_ns"]) // 2 // 10**9].append(r["end_ns"] - r["start_ns"])
    return {second: math.log(statistics.median(v)) for second, v in found.items() if len(v) >= 3}


def kinds_of(path):
    """The names, and {second: [ln of the median of each]}"""
    with open(path, encoding="ascii") as f:
        names = f.readline().split()[2:]
        found = collections.defaultdict(list)
        for line in f:
            values = line.split()
            if len(values) == len(names) + 2:
                found[int(values[0]) // 10**9].append([int(v) for v in values[2:]])
    return names, {second: [math.log(statistics.median(column)) for column in zip(*rows)]
                   for second, rows in found.items()}


def line_of(x, y):
    """Pearson's r, the slope, and the standard deviation of y without it."""
    mx, my = statistics.mean(x), statistics.mean(y)
    xx = sum((a - mx) ** 2 for a in x)
    yy = sum((b - my) ** 2 for b in y)
    xy = sum((a - mx) * (b - my) for a, b in zip(x, y))
    if not xx or not yy:
        return 0, 0, math.sqrt(yy / len(y))
    return xy / math.sqrt(xx * yy), xy / xx, math.sqrt(max(0, yy - xy * xy / xx) / len(y))


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    steps = seconds_of(sys.argv[1], float(sys.argv[3]) if len(sys.argv) == 4 else 5)
    names, kinds = kinds_of(sys.argv[2])
    both = sorted(set(steps) & set(kinds))
    if len(both) < 10:
        sys.exit("cpu_kinds.py: %d seconds have both, 10 are needed" % len(both))
    y = [steps[s] for s in both]
    print("%d seconds; ln of the median step: standard deviation %.3f" % (
        len(both), statistics.pstdev(y)))
    print("%-14s %6s %6s %6s" % ("", "r", "slope", "left"))
    for i, name in enumerate(names):
        print("%-14s %6.2f %6.2f %6.3f" % ((name,) + line_of([kinds[s][i] for s in both], y)))


if __name__ == "__main__":
    main()
