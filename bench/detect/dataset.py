#!/usr/bin/env python3
"""dataset.py - recorded runs to a compact data set: learns on the calibration runs, detects on all,
joins the labels, samples the events. usage: dataset.py RUN... -o FOLDER

A RUN is a folder of bench/faults (docs/faults.md). One model is learned for each workload, of its
calibration runs alone. With --ablate every ingredient of the detector is left out once. What
`eacgm detect` wrote is kept in RUN/detect.NAME/ with --keep, and used instead of running it with
--reuse (the only way that needs no eacgm). The files are described in data.py. Needs numpy."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import common

try:
    import numpy as np
    import data
    import events
    import runs
    import truth
except ImportError as missing:
    sys.exit("dataset.py: %s; install Debian's python3-numpy" % missing)

# src/detect/learn.h, enum learn_without
INGREDIENTS = ("keys", "sizes", "gaps", "regimes", "cleaning", "mixture", "cusum", "tail")
RAW_HARDWARE = ("sm_ratio", "memory_used_bytes", "power_w", "temperature_celsius", "gpm_sm_ratio")
CONTAMINATED = 0.2  # share of the windows that are faulty
X_MOST = 16  # src/detect/features.h
SECONDS = 3600


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("runs", nargs="+", metavar="RUN", help="folders of bench/faults")
    p.add_argument("-o", "--output", required=True, help="folder of the data set")
    p.add_argument("--eacgm", default=os.path.join(common.ROOT, "build", "eacgm"))
    p.add_argument("--events", type=int, default=4000,
                   help="events kept of each run, layer and truth (default %(default)s)")
    p.add_argument("--alarms-per-hour", type=float, default=1.0, help="default %(default)s")
    p.add_argument("--rates", type=float, nargs="*", default=[],
                   help="more false-alarm rates to ask for: is what was asked for what comes?")
    p.add_argument("--ablate", action="store_true", help="also without each ingredient")
    p.add_argument("--contaminate", action="store_true",
                   help="also learned where 20 %% of the windows are faulty")
    p.add_argument("--window", help="given to learn, such as 1s")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--keep", action="store_true", help="keep what detect wrote, in the runs")
    p.add_argument("--reuse", action="store_true", help="take what is there from --keep")
    args = p.parse_args()
    if args.events < 8:
        p.error("--events: at least 8")
    return args


# ---- running eacgm ----

class Detector:
    """A way of learning and detecting; a model for each workload."""

    def __init__(self, name, without=None, rate=None, contaminated=False):
        self.name, self.without, self.rate = name, without, rate
        self.contaminated = contaminated
        self.models = {}
        self.shares = {}

    def learn(self, args, folders, workload, folder):
        """Learns the workload's model, once."""
        if workload in self.models:
            return self.models[workload]
        from_runs = [f for f in folders if f.workload == workload and f.split == "calibration"]
        if not from_runs:
            raise data.Bad("workload '%s' has no calibration run to learn from" % workload)
        if self.contaminated:
            from_runs, self.shares[workload] = contaminated_of(from_runs, [
                f for f in folders if f.workload == workload and f.split == "dev"])
        model = os.path.join(folder, "%s.%s.model" % (self.name, workload))
        command = [args.eacgm, "learn", *[f.recording for f in from_runs], "-o", model,
                   "--seed", args.seed]
        if self.without:
            command += ["--without", self.without]
        if args.window:
            command += ["--window", args.window]
        common.run(command, SECONDS)
        self.models[workload] = model
        return model

    def detect(self, args, run, model, out):
        """Writes detect.json, rows.jsonl and events.csv into out."""
        os.makedirs(out, exist_ok=True)
        path = lambda name: os.path.join(out, name)
        done = common.run([args.eacgm, "detect", run.recording, "-m", model,
                           "--alarms-per-hour", self.rate or args.alarms_per_hour,
                           "--rows", path("rows.jsonl"), "--events", path("events.csv"),
                           "--json"], SECONDS)
        with open(path("detect.json"), "w", encoding="utf-8") as f:
            f.write(done.out)


def faulty_ns(run):
    """How long something that is not benign was injected."""
    return sum(x["released_ns"] - x["applied_ns"] for x in run.episodes)


def length_ns(run):
    return run.end_ns - run.start_ns


def contaminated_of(calibration, faulty):
    """Calibration runs and faulty ones of which together CONTAMINATED is faulty, as nearly as whole
    runs allow. Returns them and the share."""
    best = None
    faulty = sorted(faulty, key=lambda f: -faulty_ns(f))
    for clean in range(len(calibration) + 1):
        for some in range(1, len(faulty) + 1):
            chosen = calibration[:clean] + faulty[:some]
            whole = sum(length_ns(f) for f in chosen)
            share = sum(faulty_ns(f) for f in chosen) / whole if whole else 0
            distance = (abs(share - CONTAMINATED), -whole)
            if best is None or distance < best[0]:
                best = (distance, chosen, share)
    if best is None:
        raise data.Bad("--contaminate: no development run with faults to learn from")
    return best[1], best[2]


def detectors_of(args):
    ret = [Detector("full")]
    ret += [Detector("rate-%g" % r, rate=r) for r in args.rates]
    if args.ablate:
        ret += [Detector("without-" + x, without=x) for x in INGREDIENTS]
    if args.contaminate:
        ret.append(Detector("contaminated", contaminated=True))
    return ret


def gpu_counters(args, run, out):
    """Raw counters of the GPUs, from the recording's CSV; kept beside what detect wrote."""
    kept = os.path.join(out, "counters.csv")
    if args.reuse:
        if not os.path.exists(kept):
            return {}
        with open(kept, encoding="utf-8") as f:
            return runs.counters_of(f)
    with subprocess.Popen([args.eacgm, "export", run.recording, "-f", "csv", "-o", "-"], text=True,
                          stdout=subprocess.PIPE, errors="replace") as p:
        lines = (line for n, line in enumerate(p.stdout)
                 if n == 0 or line.startswith("counter,"))
        with open(kept, "w", encoding="utf-8") as f:
            f.writelines(lines)
    if p.returncode:
        raise data.Bad("%s: eacgm export ended with %d" % (run.recording, p.returncode))
    with open(kept, encoding="utf-8") as f:
        return runs.counters_of(f)


# ---- joining ----

def place_of(row):
    return (row["start_ns"], row["end_ns"], row["layer"], row.get("pid") or 0,
            -1 if row.get("gpu") is None else row["gpu"])


def shifted(of, origin, keys=("start_ns", "end_ns", "applied_ns", "released_ns", "told_ns")):
    """A dict whose times are those after origin."""
    return {k: v - origin if k in keys and v is not None else v for k, v in of.items()}


def call_arrays(run, origin):
    calls = np.array(run.calls, np.int64).reshape(-1, 4)
    return {"call_episode": calls[:, 0].astype(np.int16), "call_tid": calls[:, 1].astype(np.int32),
            "call_start": calls[:, 2] - origin, "call_end": calls[:, 3] - origin}


def row_arrays(rows, origin):
    """Arrays of rows, and the names of the features of each layer."""
    names = {}
    for r in rows:
        names.setdefault(r["layer"], list(r["features"]))
    x = np.full((len(rows), X_MOST), np.nan, np.float32)
    for i, r in enumerate(rows):
        for j, name in enumerate(names[r["layer"]][:X_MOST]):
            value = r["features"].get(name)
            if value is not None:
                x[i, j] = value
    column = lambda get, kind: np.array([get(r) for r in rows], dtype=kind)
    arrays = {
        "row_start": column(lambda r: r["start_ns"] - origin, np.int64),
        "row_end": column(lambda r: r["end_ns"] - origin, np.int64),
        "row_layer": column(lambda r: truth.LAYERS.index(r["layer"]), np.int8),
        "row_pid": column(lambda r: r.get("pid") or 0, np.int32),
        "row_gpu": column(lambda r: place_of(r)[4], np.int16),
        "row_regime": column(lambda r: r.get("regime") or 0, np.uint16),
        "row_events": column(lambda r: r.get("events") or 0, np.uint32),
        "row_x": x.astype(np.float16),
    }
    return arrays, names


def verdict_arrays(rows, by_place, n):
    """p and alarmed of another detector's rows, in the order of ours; NaN and 2 where it has none."""
    p = np.full(n, np.nan, np.float32)
    alarmed = np.full(n, 2, np.uint8)
    for r in rows:
        i = by_place.get(place_of(r))
        if i is not None:
            value = r.get("p_value")
            p[i] = np.nan if value is None else value
            alarmed[i] = bool(r.get("alarmed"))
    return p, alarmed


def raw_hardware(arrays, counters, origin):
    """Means of raw counters in the windows of GPUs, into row_raw."""
    at = np.flatnonzero(arrays["row_gpu"] >= 0)
    for entity, of in counters.items():
        gpu = entity[len("gpu "):]
        if not gpu.isdigit():
            continue
        mine = at[arrays["row_gpu"][at] == int(gpu)]
        for column, name in enumerate(RAW_HARDWARE):
            points = sorted(of.get(name, []))
            if not points or not len(mine):
                continue
            times = np.array([t for t, _ in points], np.int64) - origin
            sums = np.concatenate([[0.0], np.cumsum([v for _, v in points])])
            low = np.searchsorted(times, arrays["row_start"][mine])
            high = np.searchsorted(times, arrays["row_end"][mine])
            count = high - low
            mean = (sums[high] - sums[low]) / np.maximum(count, 1)
            # Slow counters: the last value before the window's end holds.
            last = np.where(high > 0, np.array([v for _, v in points])[np.maximum(high - 1, 0)],
                            np.nan)
            arrays["row_raw"][mine, column] = np.where(count > 0, mean, last)


def told_of(anomalies, rows):
    """told_ns where detect does not say it: the end of the first alarmed row of its layer and
    process in it."""
    for a in anomalies:
        if a["told_ns"] is None:
            ends = [r["end_ns"] for r in rows if r.get("alarmed") and r["layer"] == a["layer"]
                    and (r.get("pid") or 0) == (a["pid"] or 0)
                    and place_of(r)[4] == (-1 if a["gpu"] is None else a["gpu"])
                    and a["start_ns"] <= r["start_ns"] and r["end_ns"] <= a["end_ns"]]
            a["told_ns"] = min(ends, default=a["end_ns"])
    return anomalies


def join(args, run, outputs, counters):
    """A run's meta and arrays. outputs: {detector: folder of what detect wrote}."""
    rows = runs.rows_of(os.path.join(outputs["full"], "rows.jsonl"))
    origin = run.start_ns
    arrays, names = row_arrays(rows, origin)
    arrays.update(call_arrays(run, origin))
    meta = {"run": run.name, "split": run.split, "workload": run.workload, "plan": run.plan,
            "seed": run.seed, "start_ns": 0, "end_ns": run.end_ns - origin, "features": names,
            "raw": dict({layer: list(events.RAW_CALLS) for layer in truth.CALLS},
                        hardware=list(RAW_HARDWARE)),
            "episodes": [shifted(e, origin) for e in run.episodes],
            "benign": [shifted(b, origin) for b in run.benign],
            "clean": [(a - origin, b - origin) for a, b in run.clean]}
    by_place = {place_of(r): i for i, r in enumerate(rows)}
    detectors = {}
    for name, folder in outputs.items():
        theirs = rows if name == "full" else runs.rows_of(os.path.join(folder, "rows.jsonl"))
        arrays["row_p_" + name], arrays["row_alarmed_" + name] = verdict_arrays(
            theirs, by_place, len(rows))
        found = told_of(runs.anomalies_of(os.path.join(folder, "detect.json")), theirs)
        detectors[name] = {"anomalies": [shifted(a, origin) for a in found]}
    calls = truth.Calls(*(arrays["call_" + k] for k in ("episode", "tid", "start", "end")))
    columns, keys, raw, population = events.sample(
        os.path.join(outputs["full"], "events.csv"), origin, meta, calls,
        [arrays["row_" + k] for k in ("start", "end", "layer", "pid")], args.events, args.seed)
    meta.update(keys=keys, population=population, detectors=detectors)
    arrays["row_raw"] = raw
    raw_hardware(arrays, counters, origin)
    for name, folder in outputs.items():
        arrays["event_alarmed_" + name] = columns["alarmed"] if name == "full" else \
            events.alarms_of(os.path.join(folder, "events.csv"), origin, columns)
    arrays.update({
        "event_start": columns["start"].astype(np.int64),
        "event_dur": columns["dur"].astype(np.float32),
        "event_layer": columns["layer"].astype(np.int8),
        "event_pid": columns["pid"].astype(np.int32),
        "event_tid": columns["tid"].astype(np.int32),
        "event_key": columns["key"].astype(np.uint32),
        "event_z": columns["z"].astype(np.float16),
        "event_gap_z": columns["gap_z"].astype(np.float16),
        "event_row": columns["row"].astype(np.int32),
        "event_weight": columns["weight"].astype(np.float32),
    })
    return meta, arrays


def one_run(args, run, folders, detectors, models):
    outputs, temporary = {}, None
    try:
        for d in detectors:
            out = os.path.join(run.path, "detect." + d.name)
            if args.reuse and os.path.isdir(out):
                outputs[d.name] = out
                continue
            if args.reuse and d.name != "full":
                continue
            if args.reuse:
                raise data.Bad("%s: no detect.full there; run once with --keep" % run.path)
            if not args.keep:
                temporary = temporary or tempfile.mkdtemp(prefix="eacgm-dataset-")
                out = os.path.join(temporary, d.name)
            common.say("%s: %s" % (run.name, d.name))
            d.detect(args, run, d.learn(args, folders, run.workload, models), out)
            outputs[d.name] = out
        counters = gpu_counters(args, run, outputs["full"])
        meta, arrays = join(args, run, outputs, counters)
        for d in detectors:
            if d.name in outputs:
                meta["detectors"][d.name]["asked_per_hour"] = d.rate or args.alarms_per_hour
                if run.workload in d.shares:
                    meta["detectors"][d.name]["faulty_share"] = d.shares[run.workload]
        return meta, arrays
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


def main():
    args = arguments()
    folders = [runs.Folder(p) for p in args.runs]
    runs.set_calibration(folders)
    if len({f.name for f in folders}) != len(folders):
        raise data.Bad("two runs have the same name")
    os.makedirs(args.output, exist_ok=True)
    detectors = detectors_of(args)
    table = []
    with tempfile.TemporaryDirectory(prefix="eacgm-models-") as models:
        for run in folders:
            meta, arrays = one_run(args, run, folders, detectors, models)
            path = os.path.join(args.output, run.name + ".npz")
            data.write_run(path, meta, arrays)
            population = [sum(x[i] for x in meta["population"].values()) for i in range(3)]
            table.append([run.name, run.split, run.workload, "%.0f" % (meta["end_ns"] / 1e9),
                          len([e for e in meta["episodes"] if e["effective"]]),
                          len(meta["episodes"]), "%d" % population[0], "%d" % population[1],
                          len(arrays["event_start"]), len(arrays["row_start"]),
                          "%.2f" % (os.path.getsize(path) / 1e6)])
    common.said()
    common.print_table("data set in " + args.output,
                       ["run", "split", "workload", "s", "effective", "labels", "normal events",
                        "anomalous", "kept", "rows", "MB"], table)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (data.Bad, common.Failed) as e:
        sys.exit("dataset.py: %s" % e)
