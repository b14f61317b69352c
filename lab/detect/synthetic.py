#!/usr/bin/env python3
"""synthetic.py - made-up runs in the formats of lab/faults and of `eacgm detect`, for the tests
of the scorer and to look at the figures. usage: synthetic.py FOLDER [--runs N] [--seed N]

Nothing that is computed from it is evidence of anything: the "detector" here is a few lines that
threshold the mean of made-up features. Writes FOLDER/RUN/{labels.jsonl, detect.NAME/...}, which
dataset.py --reuse takes. Needs numpy."""

import argparse
import csv
import json
import math
import os
import random

import numpy as np

import events
import truth

SECOND = 10**9
PID, GPU = 4242, 0
# key: layer, median ns, events a second
KEYS = {
    "cuLaunchKernel gemm": ("cuda", 5e3, 40), "cuMemcpyHtoDAsync_v2 2^20": ("cuda", 9e4, 10),
    "forward (model.py:20)": ("python", 8e6, 8), "step (train.py:40)": ("python", 3e7, 4),
    "aten::addmm [128,768][768,3072]": ("torch", 6e4, 30),
    "aten::gelu [128,768]": ("torch", 2e4, 20),
    "ncclAllReduce 2^22 of 4 on 3f2a": ("nccl", 4e5, 20), "ncclAllReduce 2^12 of 4 on 3f2a":
    ("nccl", 3e4, 10),
}
# cause: layers that differ, factor of durations
FAULTS = {"cpu_contention": (("python", "torch", "cuda", "host"), 1.7),
          "gpu_contention": (("hardware", "nccl"), 2.2),
          "net_bandwidth": (("nccl",), 2.8),
          "straggler": (("nccl", "python", "torch"), 1.9)}
HARDWARE = {"sm_ratio": (0.7, 0.05), "memory_used_bytes": (4e10, 3e8), "power_w": (420, 15),
            "temperature_celsius": (56, 1.0), "gpm_sm_ratio": (0.6, 0.05)}
CALL_FEATURES = ("slowdown", "gap", "shift", "gap_shift", "spread", "tail", "gap_tail", "errors")


def write_lines(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)


def plan_of(rng, split, seconds):
    """[(start_s, end_s, cause)] with free time between."""
    if split == "calibration":
        return []
    ret, at = [], 30.0
    while at + 30 < seconds:
        length = rng.uniform(8, 15)
        ret.append((at, at + length, rng.choice(sorted(FAULTS))))
        at += length + rng.uniform(25, 40)
    return ret


def labels_of(rng, name, split, seed, seconds, plan, begin):
    at = lambda s: begin + int(s * SECOND)
    rows = [{"type": "run", "version": 1, "workload": "made_up", "plan": "clean" if not plan else
             split, "split": "dev" if split == "calibration" else split, "seed": seed,
             "recording": "x.eacgm", "start_ns": begin, "end_ns": at(seconds), "pids": [PID],
             "ranks": {"0": PID}, "gpus": [GPU], "complete": True}]
    clean = 0.0
    for number, (start, end, cause) in enumerate(plan, 1):
        rows.append({"type": "clean", "onset_ns": at(clean), "end_ns": at(start)})
        effective = rng.random() < 0.9
        rows.append({"type": "episode", "id": number, "fault": cause, "cause": cause,
                     "onset_ns": at(start), "applied_ns": at(start + 0.2), "end_ns": at(end),
                     "released_ns": at(end + 0.1), "target": {"pids": [PID], "gpu": None},
                     "layers": FAULTS[cause][0], "intensity": "mid", "calls": None,
                     "slowdown_ratio": FAULTS[cause][1] if effective else 1.02,
                     "effective": effective, "split": split})
        clean = end + 2.1
    rows.append({"type": "clean", "onset_ns": at(clean), "end_ns": at(seconds)})
    rows.append({"type": "benign", "kind": "warmup", "onset_ns": begin, "end_ns": at(5)})
    return rows


def factor_at(labels, layer, t):
    for o in labels:
        if o["type"] == "episode" and layer in o["layers"] and \
                o["applied_ns"] <= t < o["released_ns"]:
            return FAULTS[o["cause"]][1] if o["effective"] else 1.02
    return 1.0


def windows_of(rng, labels, seconds, begin):
    """Rows as detect --rows writes them, and the events in each."""
    for second in range(seconds):
        start = begin + second * SECOND
        for layer in ("cuda", "python", "torch", "nccl"):
            events = []
            for key, (of, median, rate) in KEYS.items():
                for _ in range(rate if of == layer else 0):
                    t = start + rng.randrange(SECOND - int(1e8))
                    z = rng.gauss(0, 1) + math.log(factor_at(labels, layer, t)) / 0.2
                    events.append((t, int(median * math.exp(0.2 * z)), key, z, rng.gauss(0, 1)))
            mean = sum(e[3] for e in events) / len(events)
            x = [0.2 * mean + rng.gauss(0, 0.02)] + [rng.gauss(0, 0.1)] + [mean] + \
                [rng.gauss(0, 1) for _ in CALL_FEATURES[3:]]
            yield row_of(start, layer, PID, None, len(events), dict(zip(CALL_FEATURES, x)),
                         abs(mean)), events
        shift = 4.0 * (factor_at(labels, "hardware", start) - 1)
        x = {name: rng.gauss(0, 1) + shift for name in HARDWARE}
        yield row_of(start, "hardware", 0, GPU, 10, x, sum(x.values()) / 5), []


def row_of(start, layer, pid, gpu, events, x, badness):
    p = math.erfc(badness * 2.5) / 2 + 1e-12
    return {"start_ns": start, "end_ns": start + SECOND, "layer": layer, "pid": pid, "gpu": gpu,
            "regime": 1, "events": events, "score": -math.log10(p), "p_value": p,
            "alarmed": p < 1e-4, "features": x}


def anomalies_of(rows):
    """Alarmed rows of a layer that follow each other."""
    ret, last = [], {}
    for r in rows:
        if not r["alarmed"]:
            continue
        a = last.get(r["layer"])
        if a is None or r["start_ns"] > a["end_ns"] + SECOND:
            a = dict({k: r[k] for k in ("start_ns", "end_ns", "layer", "pid", "gpu", "score",
                                        "p_value")}, name="made up", why="made up")
            last[r["layer"]] = a
            ret.append(a)
        a["end_ns"] = r["end_ns"]
    return ret


def write_events(path, told):
    """As detect --events does. told: [(row, start, dur, key, z, gap_z)]."""
    keys = [""] + sorted(KEYS)
    rows = np.zeros(len(told), events.EVENT)
    for i, (row, start, dur, key, z, gap_z) in enumerate(told):
        rows[i] = (start, dur, PID, PID, keys.index(key), z, gap_z, np.nan,
                   truth.LAYERS.index(row["layer"]), row["alarmed"])
    with open(path, "wb") as f:
        np.save(f, rows)
        np.save(f, np.array([k.encode() for k in keys]))


def write_run(folder, name, split, seed, seconds):
    rng = random.Random(seed)
    begin = 10**12 + seed * 10**11
    labels = labels_of(rng, name, split, seed, seconds, plan_of(rng, split, seconds), begin)
    out = os.path.join(folder, name, "detect.full")
    os.makedirs(out)
    write_lines(os.path.join(folder, name, "labels.jsonl"), labels)
    pairs = list(windows_of(rng, labels, seconds, begin))
    rows = [r for r, _ in pairs]
    write_lines(os.path.join(out, "rows.jsonl"), rows)
    with open(os.path.join(out, "detect.json"), "w", encoding="utf-8") as f:
        json.dump({"anomalies": anomalies_of(rows)}, f)
    write_events(os.path.join(out, "events.npy"),
                 [(row, *event) for row, of in pairs for event in sorted(of)])
    with open(os.path.join(out, "counters.csv"), "w", encoding="utf-8", newline="") as f:
        w = csv.writer(f)
        w.writerow(("type", "time_ns", "name", "entity", "value"))
        for row in rows:
            if row["layer"] == "hardware":
                for counter, (mean, sigma) in HARDWARE.items():
                    w.writerow(("counter", row["start_ns"] + SECOND // 2, counter, "gpu 0",
                                mean + sigma * row["features"][counter]))


def write_runs(folder, runs=8, seed=1, seconds=300):
    """The names of the runs: one in four to calibrate, the others by turns to tune and to test."""
    names = []
    for n in range(runs):
        split = "calibration" if n % 4 == 0 else ("dev" if n % 2 else "test")
        names.append("made_up-%s-%d" % (split, n))
        write_run(folder, names[-1], split, seed * 1000 + n, seconds)
    return [os.path.join(folder, n) for n in names]


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("folder")
    p.add_argument("--runs", type=int, default=8)
    p.add_argument("--seconds", type=int, default=300)
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    for path in write_runs(options.folder, options.runs, options.seed, options.seconds):
        print(path)
