"""runs.py - reads what lies in a run's folder: the injector's labels and steps (docs/results/faults.md),
and what `eacgm detect` wrote (docs/detect.md). Bounds nothing and judges nothing; what is not as
expected is a data.Bad with the file's name."""

import csv
import json
import os

from data import Bad

MAGIC = b"\x89eACGM\r\n"  # src/recording/format.h


def json_lines(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            for number, line in enumerate(f, 1):
                if not line.strip():
                    continue
                try:
                    yield json.loads(line)
                except ValueError:
                    raise Bad("%s: line %d is not JSON" % (path, number)) from None
    except OSError as e:
        raise Bad("%s: %s" % (path, e.strerror)) from None


def read_json(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return json.load(f)
    except OSError as e:
        raise Bad("%s: %s" % (path, e.strerror)) from None
    except ValueError:
        raise Bad("%s: not JSON" % path) from None


class Folder:
    """A recorded run: what was run and what was injected when. Times are CLOCK_MONOTONIC."""

    def __init__(self, path):
        self.path = os.path.abspath(path)
        self.name = os.path.basename(self.path)
        labels = os.path.join(path, "labels.jsonl")
        rows = list(json_lines(labels))
        run = next((o for o in rows if o.get("type") == "run"), None)
        if run is None or run.get("version") != 1:
            raise Bad("%s: no line of type 'run', version 1" % labels)
        try:
            self.workload, self.seed, self.plan = str(run["workload"]), run["seed"], run["plan"]
            self.split = run["split"]
            self.gpus = run.get("gpus") or []
            self.start_ns, self.end_ns = int(run["start_ns"]), int(run["end_ns"])
            self.recording = os.path.join(path, os.path.basename(run["recording"]))
            of = lambda kind: [o for o in rows if o.get("type") == kind]
            self.episodes = [episode_of(o, self.name) for o in of("episode")]
            self.benign = [{"kind": str(o["kind"]), "start_ns": int(o["onset_ns"]),
                            "end_ns": int(o["end_ns"])} for o in of("benign")]
            self.clean = [(int(o["onset_ns"]), int(o["end_ns"])) for o in of("clean")]
            self.slow = [(int(o["onset_ns"]), int(o["end_ns"])) for o in of("slow")]
            self.calls = calls_of(path, of("episode"))
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise Bad("%s: not as docs/results/faults.md says: %r" % (labels, e)) from None


def check_recording(folder):
    """So that one that is missing or none at all does not stop the learning from others."""
    try:
        with open(folder.recording, "rb") as f:
            begin = f.read(len(MAGIC))
    except OSError as e:
        raise Bad("%s: %s" % (folder.recording, e.strerror)) from None
    if begin != MAGIC:
        raise Bad("%s: not a recording" % folder.recording)


def set_calibration(folders):
    """Which runs are learned from: of each workload the clean ones of the dev split; where there is
    none (workloads of the test split alone), the clean one of the lowest seed. Never scored."""
    for workload in {f.workload for f in folders}:
        clean = sorted((f for f in folders if f.workload == workload and f.plan == "clean"),
                       key=lambda f: (f.split == "test", f.seed, f.name))
        for i, f in enumerate(clean):
            if i == 0 or f.split != "test":
                f.split = "calibration"


def episode_of(o, run):
    """A line of labels.jsonl as data.py has it. A fault that was cut short has no release."""
    target = o.get("target") or {}
    onset, end = int(o["onset_ns"]), int(o["end_ns"])
    applied, released = o.get("applied_ns"), o.get("released_ns")
    ret = {"name": "%s/%s" % (run, o["id"]), "fault": str(o["fault"]), "cause": str(o["cause"]),
           "start_ns": onset, "end_ns": end,
           "applied_ns": onset if applied is None else int(applied),
           "released_ns": end if released is None else int(released),
           "layers": [str(x) for x in o.get("layers") or []],
           "pids": [int(x) for x in target.get("pids") or []], "gpu": target.get("gpu"),
           "intensity": o.get("intensity"), "slowdown_ratio": o.get("slowdown_ratio"),
           "noise_ratio": o.get("noise_ratio"), "effective": bool(o.get("effective")),
           "split": o.get("split")}
    if end < onset or ret["released_ns"] < ret["applied_ns"]:
        raise ValueError("episode %s ends before it begins" % o["id"])
    return ret


def calls_of(path, rows):
    """[(place of the episode, tid, start, end)] of calls that were delayed one by one."""
    place = {o["id"]: i for i, o in enumerate(rows)}
    ret = []
    for name in sorted({o["calls"] for o in rows if o.get("calls")}):
        ret += [(place[o["episode"]], int(o["tid"]), int(o["start_ns"]), int(o["end_ns"]))
                for o in json_lines(os.path.join(path, os.path.basename(name)))
                if o["episode"] in place]
    return ret


# ---- what eacgm detect wrote ----

def rows_of(path):
    """The lines of --rows, as they are."""
    ret = list(json_lines(path))
    for o in ret:
        if not {"start_ns", "end_ns", "layer", "features"} <= o.keys():
            raise Bad("%s: a row lacks what docs/detect.md lists" % path)
    return ret


def anomalies_of(path):
    """(anomalies, events that were left out) of detect --json: times, layer, pid, gpu, score and
    name of each. told_ns is when it could be told first; where the file does not say, the caller
    takes it from the rows."""
    o = read_json(path)
    keys = ("start_ns", "end_ns", "told_ns", "layer", "pid", "gpu", "name", "score", "p_value",
            "why")
    return [{k: a.get(k) for k in keys} for a in o.get("anomalies", [])], o.get("events_late", 0)


def counters_of(lines, entity_prefix="gpu "):
    """{entity: {name: [(time_ns, value)]}} of lines of `eacgm export -f csv`."""
    ret = {}
    heads = None
    for row in csv.reader(lines):
        if heads is None:
            heads = {name: i for i, name in enumerate(row)}
            continue
        if row[0] != "counter":
            continue
        entity = row[heads["entity"]]
        if entity.startswith(entity_prefix):
            ret.setdefault(entity, {}).setdefault(row[heads["name"]], []).append(
                (int(row[heads["time_ns"]]), float(row[heads["value"]])))
    return ret
