#!/usr/bin/env python3
"""seconds.py - what eacgm says of each second of a run, against what the job's own log says of it.

    seconds.py --eacgm build/eacgm CLEAN RUN [CLEAN RUN ...]

CLEAN and RUN are folders of lab/faults/run.py: of the first a model is learned, the second is judged
by it. One reckoning for all seconds, symmetric: a second is slow where the job did its work at less
than 0.9 of its usual speed, whoever made it slow, and usual else. How fast it was is the usual time of
the steps that ended in it over the time that they took, by the job's log: of steps that tell their
work a straight line through work and time of those of their phase, of others their median, all over
the most usual second of CLEAN or, where that is quicker, of RUN outside of episodes. It is told where any window of the job's layers, GPUs or counters that lies in it is of an anomaly; what was
not judged was not told. Nothing is left out but warm-up and seconds in which no step ended."""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "faults"))
from lab import effect  # noqa: E402

SECOND = 10**9
SLOW = 0.9


def lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f if line.endswith("\n")]


def rows_of(folder):
    return [r for r in lines(os.path.join(folder, "steps.0.jsonl")) if r["phase"] != "warmup"]


def kind_of(row):
    return row["phase"], row["half"], "work" in row


class Usual:
    """How long steps usually take, by the logs of some runs: of steps that tell their work a straight
    line through work and time of those of their phase, of others their median."""

    def __init__(self, folders):
        points = {}
        for r in (r for folder in folders for r in rows_of(folder)):
            points.setdefault(kind_of(r), []).append(
                (r.get("work", 0), r["end_ns"] - r["start_ns"]))
        self.of = {kind: effect._line(v) if kind[2] else (statistics.median(ns for _, ns in v), 0)
                   for kind, v in points.items()}
        self.scale = 1
        self.scale = most_usual([v for folder in folders
                                 for v in seconds_of(folder, self, without_episodes=True)])

    def time_of(self, row, own):
        """own: of the run itself, where its kind was not met."""
        if kind_of(row) in self.of:
            a, b = self.of[kind_of(row)]
            return max(1, (a + b * row.get("work", 0)) / self.scale)
        a, b = own.of[kind_of(row)]
        return max(1, a + b * row.get("work", 0))


def most_usual(values):
    """The middle of the shortest interval that holds 40 % of them: a host that was slow for half of
    the time does not move it, as it would a median."""
    values = sorted(values)
    held = max(1, round(0.4 * len(values)))
    at = min(range(len(values) - held + 1), key=lambda i: values[i + held - 1] - values[i])
    return (values[at] + values[at + held - 1]) / 2


def seconds_of(folder, usual, own=None, without_episodes=False):
    """Speeds of the run's seconds, in order of time; as {second: speed}, or a list."""
    took, needed = {}, {}
    for r in rows_of(folder):
        length, ns = r["end_ns"] - r["start_ns"], usual.time_of(r, own)
        for second in range(r["start_ns"] // SECOND, r["end_ns"] // SECOND + 1):
            part = (min(r["end_ns"], (second + 1) * SECOND) - max(r["start_ns"], second * SECOND))
            took[second] = took.get(second, 0) + part
            needed[second] = needed.get(second, 0) + ns * part / max(length, 1)
    speeds = {s: needed[s] / took[s] for s in sorted(took) if took[s] > 0}
    if not without_episodes:
        return speeds
    episodes = [(r["onset_ns"], r["released_ns"]) for r in
                lines(os.path.join(folder, "labels.jsonl")) if r.get("type") == "episode"]
    return [v for s, v in speeds.items() if not any(
        a < (s + 2) * SECOND and b > (s - 1) * SECOND for a, b in episodes)]


def speeds_of(folder, clean=()):
    """{second: speed}, by the first rank's log, over the most usual second of the clean runs or, where
    that is quicker, of its own outside of episodes."""
    own = Usual([folder])
    usual = Usual(clean) if clean else own
    usually = max(1, most_usual(seconds_of(folder, usual, own, without_episodes=True)))
    return {s: v / usually for s, v in sorted(seconds_of(folder, usual, own).items())[1:-1]}


def judged(eacgm, clean, run, options):
    """Seconds that were told, paces by second, and the incidents."""
    with tempfile.TemporaryDirectory() as folder:
        model, rows = os.path.join(folder, "m.model"), os.path.join(folder, "rows.jsonl")
        subprocess.run([eacgm, "learn", os.path.join(clean, "run.eacgm"), "-o", model], check=True,
                       stdout=subprocess.DEVNULL)
        said = subprocess.run([eacgm, "detect", os.path.join(run, "run.eacgm"), "-m", model,
                               "--json", "--rows", rows, *options], check=True,
                              stdout=subprocess.PIPE).stdout
        kept = [r for r in lines(rows) if r["layer"] != "step"]
    told = {r["start_ns"] // SECOND for r in kept if r["alarmed"]}
    paces = {r["start_ns"] // SECOND: r["pace"] for r in kept if r["layer"] == "torch" and r["pace"]}
    return told, paces, json.loads(said)["anomalies"]


def spans_of(anomalies):
    """(start, end, when it was told) of each incident."""
    spans = {}
    for a in anomalies:
        start, end, told = spans.get(a.get("incident", a["id"]), (math.inf, 0, math.inf))
        spans[a.get("incident", a["id"])] = (min(start, a["start_ns"]), max(end, a["end_ns"]),
                                             min(told, a["told_ns"]))
    return list(spans.values())


def score(eacgm, clean, run, options):
    told, paces, anomalies = judged(eacgm, clean, run, options)
    speeds = speeds_of(run, [clean])
    counts = {(slow, said): 0 for slow in (False, True) for said in (False, True)}
    for second, speed in speeds.items():
        counts[speed < SLOW, second in told] += 1
    tp, fn, fp = counts[True, True], counts[True, False], counts[False, True]
    tn = counts[False, False]
    spans = spans_of(anomalies)
    episodes = [e for e in lines(os.path.join(run, "labels.jsonl"))
                if e.get("type") == "episode" and e.get("effective")]
    found = [e for e in episodes if any(s[2] >= e["onset_ns"] and s[0] < e["released_ns"] or
                                        s[0] <= e["onset_ns"] < s[1] for s in spans)]
    errors = sorted(math.log(paces[s] / v) for s, v in speeds.items() if s in paces and v > 0)
    return {"slow": tp + fn, "usual": fp + tn, "precision": tp / max(1, tp + fp),
            "recall": tp / max(1, tp + fn), "f1": 2 * tp / max(1, 2 * tp + fp + fn),
            "accuracy": (tp + tn) / max(1, len(speeds)), "incidents": len(spans),
            "episodes": len(episodes), "episodes_found": len(found),
            "pace_known": len(errors) / max(1, len(speeds)),
            "pace_off_median": math.exp(errors[len(errors) // 2]) if errors else None,
            "pace_off_5_95": [round(math.exp(errors[int(q * (len(errors) - 1))]), 3)
                              for q in (0.05, 0.95)] if errors else None}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--eacgm", default="build/eacgm")
    p.add_argument("--options", default="", help="of eacgm detect")
    p.add_argument("folders", nargs="+", metavar="CLEAN RUN")
    args = p.parse_args()
    if len(args.folders) % 2:
        p.error("folders come in pairs: CLEAN RUN")
    for clean, run in zip(args.folders[::2], args.folders[1::2]):
        row = score(args.eacgm, clean, run, args.options.split())
        print(json.dumps({"run": os.path.basename(os.path.normpath(run)),
                          **{k: round(v, 3) if isinstance(v, float) else v
                             for k, v in row.items()}}))


if __name__ == "__main__":
    main()
