"""join.py - what detectors wrote of a run, and what was injected into it, as the arrays of data.py.
Runs nothing."""

import os

import numpy as np

import data
import events
import runs
import truth

RAW_HARDWARE = ("sm_ratio", "memory_used_bytes", "power_w", "temperature_celsius", "gpm_sm_ratio")
X_MOST = 16  # src/detect/features.h


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
        "row_parent": column(lambda r: r.get("parent_pid") or 0, np.int32),
        "row_gpu_pid": column(lambda r: r.get("gpu_pid") or 0, np.int32),
        "row_pace": column(lambda r: r.get("pace") or np.nan, np.float32),
        "row_parents_pace": column(lambda r: bool(r.get("parents_pace")), np.uint8),
        "row_other_work": column(lambda r: bool(r.get("other_work")), np.uint8),
        "row_events": column(lambda r: r.get("events") or 0, np.uint32),
        "row_x": x,
    }
    return arrays, names


def verdict_arrays(rows, by_place, n):
    """p and alarmed of a detector's rows, in the order of ours; NaN and 2 where it has none."""
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


class Joined:
    """meta and arrays of one run, growing detector by detector."""

    def __init__(self, run, folder, counters, most, seed):
        """folder: what the detector "full" wrote."""
        rows = runs.rows_of(os.path.join(folder, "rows.jsonl"))
        self.origin = origin = run.start_ns
        self.arrays, names = row_arrays(rows, origin)
        self.arrays.update(call_arrays(run, origin))
        self.by_place = {place_of(r): i for i, r in enumerate(rows)}
        self.meta = {
            "run": run.name, "split": run.split, "workload": run.workload, "plan": run.plan,
            "seed": run.seed, "origin_ns": origin, "start_ns": 0, "end_ns": run.end_ns - origin,
            "features": names,
            "raw": dict({layer: list(events.RAW_CALLS) for layer in truth.CALLS},
                        hardware=list(RAW_HARDWARE)),
            "episodes": [shifted(e, origin) for e in run.episodes],
            "benign": [shifted(b, origin) for b in run.benign],
            "clean": [(a - origin, b - origin) for a, b in run.clean],
            "slow": [(a - origin, b - origin) for a, b in run.slow], "detectors": {}}
        self._sample(os.path.join(folder, "events.npy"), most, seed)
        raw_hardware(self.arrays, counters, origin)
        self.add("full", self._rows(rows, folder) + (self.columns["alarmed"],))

    def _sample(self, path, most, seed):
        a = self.arrays
        calls = truth.Calls(*(a["call_" + k] for k in ("episode", "tid", "start", "end")))
        rows = [a["row_" + k] for k in ("start", "end", "layer", "pid")]
        c, keys, raw, population, ratios = events.sample(path, self.origin, self.meta, calls, rows,
                                                         most, seed)
        for episode, of in zip(self.meta["episodes"], ratios):
            episode["layer_ratio"] = of
        self.columns = c
        self.meta.update(keys=keys, population=population)
        a["row_raw"] = raw
        kinds = {"start": np.int64, "dur": np.float32, "layer": np.int8, "pid": np.int32,
                 "tid": np.int32, "key": np.uint32, "z": np.float16, "gap_z": np.float16,
                 "row": np.int32, "weight": np.float32}
        a.update({"event_" + k: c[k].astype(kind) for k, kind in kinds.items()})

    def _rows(self, rows, folder):
        p, alarmed = verdict_arrays(rows, self.by_place, len(self.by_place))
        found, late = runs.anomalies_of(os.path.join(folder, "detect.json"))
        told = [shifted(x, self.origin) for x in told_of(found, rows)]
        return {"anomalies": told, "events_late": late}, p, alarmed

    def verdicts(self, folder):
        """What another detector wrote of the same windows and events, for add(). Changes nothing:
        it is made in another process."""
        rows = runs.rows_of(os.path.join(folder, "rows.jsonl"))
        return self._rows(rows, folder) + (events.alarms_of(
            os.path.join(folder, "events.npy"), self.origin, self.columns),)

    def add(self, name, verdicts):
        self.meta["detectors"][name], self.arrays["row_p_" + name], \
            self.arrays["row_alarmed_" + name], self.arrays["event_alarmed_" + name] = verdicts
