#!/usr/bin/env python3
"""seconds.py - what eacgm says of each second of a run, against what the job's own log says of it.

    seconds.py --eacgm build/eacgm CLEAN RUN [CLEAN RUN ...]

CLEAN and RUN are folders of lab/faults/run.py: of the first a model is learned, the second is judged
by it. One reckoning for all seconds, symmetric: a second is slow where the job did its work at less
than 0.9 of its usual speed, whoever made it slow, and usual else. How fast it was is the usual time of
the steps that ended in it over the time that they took, by the job's log: of steps that tell their
work a straight line through work and time, of others their median, all over the median second
outside of episodes. It is
told where any window of the job's layers, GPUs or counters that lies in it is of an anomaly; what was
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


def usual_times(rows):
    """Each row with the usual time of such a step."""
    known = [r for r in rows if "work" in r and not r["half"]]
    line = effect._line([(r["work"], r["end_ns"] - r["start_ns"]) for r in known]) if known else None
    kinds = {}
    for r in rows:
        if "work" not in r:
            kinds.setdefault((r["phase"], r["half"]), []).append(r["end_ns"] - r["start_ns"])
    usual = {kind: statistics.median(v) for kind, v in kinds.items()}
    for r in rows:
        ns = line[0] + line[1] * r["work"] if "work" in r else usual[r["phase"], r["half"]]
        yield r, max(ns, 1)


def speeds_of(folder):
    """{second: speed}, by the first rank's log."""
    rows = [r for r in lines(os.path.join(folder, "steps.0.jsonl")) if r["phase"] != "warmup"]
    usual, took = {}, {}
    for r, ns in usual_times(rows):
        length = r["end_ns"] - r["start_ns"]
        for second in range(r["start_ns"] // SECOND, r["end_ns"] // SECOND + 1):
            part = (min(r["end_ns"], (second + 1) * SECOND) - max(r["start_ns"], second * SECOND))
            took[second] = took.get(second, 0) + part
            usual[second] = usual.get(second, 0) + ns * part / max(length, 1)
    speeds = {s: usual[s] / took[s] for s in took if took[s] > 0}
    episodes = [(r["onset_ns"], r["released_ns"]) for r in
                lines(os.path.join(folder, "labels.jsonl")) if r.get("type") == "episode"]
    middle = statistics.median(v for s, v in speeds.items() if not any(
        a < (s + 2) * SECOND and b > (s - 1) * SECOND for a, b in episodes))
    return {s: v / middle for s, v in sorted(speeds.items())[1:-1]}


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
    speeds = speeds_of(run)
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
