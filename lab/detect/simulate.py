#!/usr/bin/env python3
"""simulate.py - which ingredient of detection helps how much, on made-up latencies whose truth is
known: twelve functions over three decades, four sizes each, 17 % of the events slowed. Each
variant is a table that `eacgm learn` fits and `eacgm detect` scores. usage: simulate.py

A direction, not evidence: real faults are in docs/results/detection-evaluation.md. The threshold of each
variant is the one of the highest F1 on a simulation of its own; the figures are medians over the
simulations with other seeds, with their range. Standard library alone."""

import argparse
import json
import math
import os
import random
import statistics
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, os.pardir, "bench"))

import common
import measures

FUNCTIONS = 12
SIZES = (1, 4, 16, 64)
ANOMALOUS = 0.17
SLOWDOWN = (1.5, 3.5)
SIGMA = 0.15  # of the logarithm; one event in fifty is three times as uneven
WINDOW = 50
SECONDS = 300


def job(rng):
    """Each function's median in ns at the smallest size, and how it grows with the size."""
    medians = [10 ** (4 + 3 * i / (FUNCTIONS - 1)) for i in range(FUNCTIONS)]
    return [(m, rng.uniform(0.2, 0.8)) for m in medians]


def events(rng, functions, n, share, slowdown):
    """[(function, size, ns, anomalous)]; anomalous ones come in stretches of a window."""
    ret = []
    while len(ret) < n:
        bad = rng.random() < share
        for _ in range(WINDOW):
            f, size = rng.randrange(FUNCTIONS), rng.choice(SIZES)
            median, power = functions[f]
            sigma = SIGMA * (3 if rng.random() < 0.02 else 1)
            t = median * size ** power * math.exp(rng.gauss(0, sigma))
            ret.append((f, size, t * rng.uniform(*slowdown) if bad else t, bad))
    return ret[:n]


def keyed(key, learned, judged):
    """z of the logarithm against median and MAD of events of the same key (src/detect/baseline.h),
    of both lists."""
    of = {}
    for e in learned:
        of.setdefault(key(e), []).append(math.log(e[2]))
    usual = {}
    for k, values in of.items():
        m = statistics.median(values)
        usual[k] = (m, max(1.4826 * statistics.median(abs(v - m) for v in values), 0.02))
    z = lambda e: max(-12.0, min(12.0, (math.log(e[2]) - usual[key(e)][0]) / usual[key(e)][1]))
    return [[z(e)] for e in learned], [[z(e)] for e in judged]


def windows(rows):
    """Mean z of each stretch of WINDOW events."""
    return [[statistics.fmean(r[0] for r in rows[i:i + WINDOW])]
            for i in range(0, len(rows), WINDOW)]


FUNCTION = lambda e: e[0]
SIZED = lambda e: e[:2]

# name: (key or None for raw, learned from faulty data, trimmed share, of windows, slowdown)
VARIANTS = {
    "raw, pooled (the paper)": (None, False, 0, False, SLOWDOWN),
    "z by function": (FUNCTION, False, 0, False, SLOWDOWN),
    "z by function and size": (SIZED, False, 0, False, SLOWDOWN),
    "the same, learned from faulty data": (SIZED, True, 0, False, SLOWDOWN),
    "the same, trimmed": (SIZED, True, 0.25, False, SLOWDOWN),
    "slowed by 1.3 alone, events": (SIZED, False, 0, False, (1.3, 1.3)),
    "slowed by 1.3 alone, windows of %d" % WINDOW: (SIZED, False, 0, True, (1.3, 1.3)),
}


def write_table(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        f.write("x\n")
        f.writelines("%.9g\n" % r[0] for r in rows)


def scores_of(args, folder, learned, judged, trim):
    """What eacgm makes of the tables: a score for each judged row."""
    path = lambda name: os.path.join(folder, name)
    write_table(path("learn.csv"), learned)
    write_table(path("judge.csv"), judged)
    more = ["--trim", trim] if trim else []
    common.run([args.eacgm, "learn", path("learn.csv"), "-o", path("m.model"), "--seed", 1, *more],
               SECONDS)
    common.run([args.eacgm, "detect", path("judge.csv"), "-m", path("m.model"), "--rows",
                path("rows.jsonl"), "--json"], SECONDS)
    with open(path("rows.jsonl"), encoding="utf-8") as f:
        scores = [json.loads(line)["score"] for line in f]
    if len(scores) != len(judged):
        raise common.Failed("eacgm detect judged %d of %d rows" % (len(scores), len(judged)))
    return [-math.inf if s is None else s for s in scores]


def counts_at(scores, truth, threshold):
    cells = [0, 0, 0, 0]
    for s, bad in zip(scores, truth):
        cells[(0 if bad else 1) if s >= threshold else (2 if bad else 3)] += 1
    return measures.Counts(*cells)


def best_threshold(scores, truth):
    """Where F1 is highest, of two hundred quantiles of the scores."""
    ordered = sorted(scores)
    tried = {ordered[int(q / 200 * (len(ordered) - 1))] for q in range(201)}
    return max(tried, key=lambda t: measures.f1(counts_at(scores, truth, t)))


def one(args, folder, variant, seed):
    """(scores, truth) of one simulation."""
    key, faulty, trim, of_windows, slowdown = variant
    rng = random.Random(seed)
    functions = job(rng)
    learned = events(rng, functions, args.events, ANOMALOUS if faulty else 0, slowdown)
    judged = events(rng, functions, args.events, ANOMALOUS, slowdown)
    truth = [e[3] for e in judged]
    if key is None:
        rows = [[[e[2]] for e in learned], [[e[2]] for e in judged]]
    else:
        rows = keyed(key, learned, judged)
    if of_windows:
        rows = [windows(r) for r in rows]
        truth = truth[::WINDOW]
    return scores_of(args, folder, *rows, trim), truth


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--eacgm", default=os.path.join(common.ROOT, "build", "eacgm"))
    p.add_argument("--events", type=int, default=20000, help="learned, and judged, each time")
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--json", metavar="FILE")
    args = p.parse_args()
    told = []
    with tempfile.TemporaryDirectory(prefix="eacgm-simulate-") as folder:
        for name, variant in VARIANTS.items():
            common.say(name)
            threshold = best_threshold(*one(args, folder, variant, 1))
            f1s = [measures.f1(counts_at(*one(args, folder, variant, seed), threshold))
                   for seed in range(2, 2 + args.seeds)]
            told.append({"variant": name, "f1_median": statistics.median(f1s), "f1_low": min(f1s),
                         "f1_high": max(f1s)})
    common.said()
    common.print_table("F1 of %d simulations, %d events each, %.0f %% anomalous" % (
        args.seeds, args.events, 100 * ANOMALOUS), ["variant", "F1", "range"],
        [[t["variant"], "%.3f" % t["f1_median"], "%.3f..%.3f" % (t["f1_low"], t["f1_high"])]
         for t in told])
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(told, f, indent=1)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except common.Failed as e:
        sys.exit("simulate.py: %s" % e)
