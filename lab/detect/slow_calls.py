#!/usr/bin/env python3
"""slow_calls.py - which calls `eacgm detect --events` says were slow, against the exact list of those
that an injector delayed (calls.jsonl of op_delay and cuda_delay).

    slow_calls.py --eacgm build/eacgm MODEL RUN [MODEL RUN ...]

MODEL is of eacgm learn, or a folder of lab/faults/run.py whose recording is learned from. Judged are
the events of the delayed layer, of the run's processes, that lie within the episodes of such faults,
from when they took hold to their release, and within clean stretches, less those that were slow all
the same. An event is
  delayed   the innermost event of the listed function, on the listed thread, around a listed call;
  small     such a one whose delay is less than a tenth of what calls of its key take in clean time
            (median), or than a sigma of that (1.4826 x the median distance): not counted;
  other     all else: parents of delayed calls and calls within them too.
Delayed calls that no event was found for are misses."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import events
import truth

LAYER_OF = {"op_delay": "torch", "cuda_delay": "cuda"}
LEAST_SHARE = 0.1
LEAST_SIGMA = 1.0
LEAST_CALLS = 8  # of a key in clean time, to know what it takes


def lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f if line.endswith("\n")]


def judged(eacgm, model, run, options, folder):
    """The path of the run's events."""
    if os.path.isdir(model):
        learned = os.path.join(folder, "m.model")
        subprocess.run([eacgm, "learn", os.path.join(model, "run.eacgm"), "-o", learned],
                       check=True, stdout=subprocess.DEVNULL)
        model = learned
    out = os.path.join(folder, "events.npy")
    subprocess.run([eacgm, "detect", os.path.join(run, "run.eacgm"), "-m", model, "--events", out,
                    *options], check=True, stdout=subprocess.DEVNULL)
    return out


def of_layer(path, layer, pids):
    """Columns of a layer's events of these processes in order of their starts, and all keys."""
    told = events.Events(path)
    parts = []
    for first in range(0, len(told.rows), events.CHUNK):
        r = told.rows[first:first + events.CHUNK]
        parts.append(np.array(r[(r["layer"] == truth.LAYERS.index(layer)) &
                                np.isin(r["pid"], pids)]))
    r = np.concatenate(parts) if parts else np.empty(0, events.EVENT)
    r = r[np.lexsort((-r["dur_ns"].astype(np.int64), r["start_ns"]))]
    c = events.columns_of(r)
    c["end"] = c["start"] + c["dur"].astype(np.int64)
    return c, [k.decode("utf-8", "replace") for k in told.keys.tolist()]


def innermost(starts, ends, start, end):
    """Of events of a thread and function in order of starts: the last around a call; -1 none."""
    at = np.searchsorted(starts, start, side="right") - 1
    for i in range(at, max(at - 64, -1), -1):
        if ends[i] >= end:
            return i
    return -1


def delays_of(c, names, calls):
    """(delay_ns of each event, 0 where it was not delayed; calls that no event was found for)."""
    delay, missing = np.zeros(len(c["start"])), []
    groups = {}
    for call in calls:
        groups.setdefault((call["tid"], call["function"]), []).append(call)
    for (tid, function), of in groups.items():
        numbers = [i for i, name in enumerate(names) if name == function]
        mine = np.flatnonzero((c["tid"] == tid) & np.isin(c["key"], numbers))
        starts, ends = c["start"][mine], c["end"][mine]
        for call in of:
            i = innermost(starts, ends, call["start_ns"], call["end_ns"])
            if i < 0:
                missing.append(call)
            else:
                delay[mine[i]] = call["delay_ns"]
    return delay, missing


def usual_of(c, clean, keys):
    """(median, sigma) of each key's durations in clean time; NaN unknown."""
    ret = np.full((keys, 2), np.nan)
    order = np.flatnonzero(clean)
    order = order[np.argsort(c["key"][order], kind="stable")]
    numbers, first = np.unique(c["key"][order], return_index=True)
    for number, of in zip(numbers, np.split(c["dur"][order], first[1:])):
        if len(of) >= LEAST_CALLS:
            middle = np.median(of)
            ret[number] = middle, 1.4826 * np.median(np.abs(of - middle))
    return ret


def figures(delayed, told, missing):
    tp, fp = int((delayed & told).sum()), int((~delayed & told).sum())
    fn, tn = int((delayed & ~told).sum()) + missing, int((~delayed & ~told).sum())
    root = float(tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return {"events": len(told), "delayed": tp + fn, "told": tp + fp,
            "precision": tp / max(1, tp + fp), "recall": tp / max(1, tp + fn),
            "mcc": (float(tp) * tn - float(fp) * fn) / root ** 0.5 if root else None}


def score(path, run, faults):
    labels, calls = lines(os.path.join(run, "labels.jsonl")), lines(os.path.join(run, "calls.jsonl"))
    pids = next(r for r in labels if r["type"] == "run")["pids"]
    episodes = [e for e in labels if e["type"] == "episode" and e["fault"] in faults]
    layer = LAYER_OF[episodes[0]["fault"]]
    c, keys = of_layer(path, layer, pids)
    stretches = lambda kind: [(r["onset_ns"], r["end_ns"]) for r in labels if r["type"] == kind]
    clean = truth.inside_any(truth.less(stretches("clean"), stretches("slow")), c["start"], c["end"])
    of = {e["id"]: e for e in episodes}
    calls = [r for r in calls if r["episode"] in of and
             r["start_ns"] >= of[r["episode"]]["applied_ns"] and
             r["end_ns"] <= of[r["episode"]]["released_ns"]]
    delay, missing = delays_of(c, [k.split(" ")[0] for k in keys], calls)
    usual = usual_of(c, clean, len(keys))[c["key"]]
    small = (delay > 0) & ((delay < LEAST_SHARE * usual[:, 0]) | (delay < LEAST_SIGMA * usual[:, 1]))
    delayed, told = (delay > 0) & ~small, c["alarmed"] > 0
    within, rows = np.zeros(len(told), bool), []
    for e in episodes:
        inside = (c["start"] >= e["applied_ns"]) & (c["end"] <= e["released_ns"])
        within |= inside
        mine = inside & ~small
        rows.append({"episode": e["id"], "value": e["value"], "effective": e["effective"],
                     **figures(delayed[mine], told[mine],
                               sum(m["episode"] == e["id"] for m in missing))})
    judged = (within | clean) & ~small
    wrong = np.bincount(c["key"][judged & told & ~delayed], minlength=len(keys))
    missed = np.bincount(c["key"][judged & ~told & delayed], minlength=len(keys))
    return {"run": os.path.basename(os.path.normpath(run)),
            **figures(delayed[judged], told[judged], len(missing)),
            "small": int((small & within).sum()), "not_recorded": len(missing),
            "told_in_clean": int((told & clean & ~delayed).sum()), "clean": int(clean.sum()),
            "wrong": {keys[i]: int(wrong[i]) for i in np.argsort(-wrong)[:8] if wrong[i]},
            "missed": {keys[i]: int(missed[i]) for i in np.argsort(-missed)[:8] if missed[i]},
            "episodes": rows}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--eacgm", default="build/eacgm")
    p.add_argument("--options", default="", help="of eacgm detect")
    p.add_argument("--faults", default="op_delay", help="whose episodes, with commas between")
    p.add_argument("--keep", metavar="FOLDER", help="for events and models, instead of a temporary one")
    p.add_argument("pairs", nargs="+", metavar="MODEL RUN")
    args = p.parse_args()
    if len(args.pairs) % 2:
        p.error("come in pairs: MODEL RUN")
    for model, run in zip(args.pairs[::2], args.pairs[1::2]):
        with tempfile.TemporaryDirectory() as folder:
            if args.keep:
                folder = os.path.join(args.keep, os.path.basename(os.path.normpath(run)))
                os.makedirs(folder, exist_ok=True)
            path = judged(args.eacgm, model, run, args.options.split(), folder)
            row = score(path, run, args.faults.split(","))
        row = json.loads(json.dumps(row), parse_float=lambda s: round(float(s), 3))
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    sys.exit(main())
