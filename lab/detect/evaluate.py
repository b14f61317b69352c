#!/usr/bin/env python3
"""evaluate.py - how good the alarms are, by one reckoning that leaves nothing out.

    evaluate.py --eacgm build/eacgm --json OUT [--options "..."] RUNS

RUNS is a folder of folders of lab/faults/run.py. Each workload's model is learned from all its runs of
the plan `clean` but the one of the highest seed, which is judged, as are those of all other plans.

A second is slow where a fault that slowed the job by 10 % or more was on from its beginning to its end,
or where the job went on at less than 0.9 of the most usual speed of the runs that were learned from,
or of its own outside of episodes where that is quicker, by its own log (seconds.py), whoever made it
slow. It is told where a window of the job that lies in it is of an anomaly. What was not
judged was not told. At 5:1 usual seconds count so much that there are five to a slow one.

An episode is found where an incident is told from its onset to a second after its release, or stood
already and a second of the episode is told. An incident is false where none of its seconds is slow,
of a benign change where it was told in one, which is told as a change where one is. Incidents of an episode are those that began in it.

Hashes of what was judged, of eacgm and of this reckoning are in OUT."""

import argparse
import collections
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

import seconds

SECOND = seconds.SECOND
LAYERS = ("cuda", "python", "torch", "nccl", "hardware", "host")
EFFECTS = ((1.1, 1.3), (1.3, 2), (2, math.inf))
WITH_LINES = ("alloc_churn", "checkpoint", "data_loader", "excess_sync", "launch_bound", "op_delay",
              "python_gc", "python_gil", "straggler")  # faults that are lines of Python
HELPERS = ("base.py",)  # of lab/faults/faults: where faults wait


def sha256(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            h.update(block)
    return h.hexdigest()


class Run:
    def __init__(self, folder):
        self.folder, self.name = folder, os.path.basename(os.path.normpath(folder))
        self.labels = seconds.lines(self.path("labels.jsonl"))
        head = next(r for r in self.labels if r["type"] == "run")
        self.workload, self.plan, self.seed = head["workload"], head["plan"], head["seed"]
        self.episodes = [r for r in self.labels if r["type"] == "episode"]
        self.effective = [r for r in self.episodes if r.get("effective")]
        self.benign = [r for r in self.labels if r["type"] == "benign" and r["kind"] != "warmup"]

    def path(self, name):
        return os.path.join(self.folder, name)

    def truth(self, clean=()):
        """{second: whether it was slow}, {second: its speed}, of all seconds of the log."""
        speeds = seconds.speeds_of(self.folder, [r.folder for r in clean])
        slow = {s: v < seconds.SLOW for s, v in speeds.items()}
        for e in self.effective:
            for s in range(-(-e["onset_ns"] // SECOND), e["released_ns"] // SECOND):
                slow[s] = True
        return slow, speeds

    def hashes(self):
        return {name: sha256(self.path(name)) for name in sorted(os.listdir(self.folder))
                if name in ("labels.jsonl", "run.eacgm") or name.startswith(("steps.", "calls."))}


def learn(eacgm, runs, model):
    subprocess.run([eacgm, "learn", *[r.path("run.eacgm") for r in runs], "-o", model], check=True,
                   stdout=subprocess.DEVNULL)


def model_before(folder, workload):
    """The path of the model of most clean runs that host.py learned, WORKLOAD-LAUNCHES.model; or None."""
    def launches(name):
        number = name[len(workload) + 1:-len(".model")]
        return int(number) if name.startswith(workload + "-") and number.isdigit() else 0
    there = os.listdir(folder) if folder and os.path.isdir(folder) else []
    best = max(there, key=launches, default=None)
    return os.path.join(folder, best) if best and launches(best) else None


def judge(eacgm, run, model, options):
    with tempfile.TemporaryDirectory() as folder:
        rows = os.path.join(folder, "rows.jsonl")
        said = subprocess.run([eacgm, "detect", run.path("run.eacgm"), "-m", model, "--json",
                               "--rows", rows, *options], check=True,
                              stdout=subprocess.PIPE).stdout
        said = json.loads(said)
        return seconds.lines(rows), said["anomalies"], said.get("changes", [])


# ---- what was told ----

class Incident:
    def __init__(self, anomalies):
        self.first = anomalies[0]
        self.start = min(a["start_ns"] for a in anomalies)
        self.end = max(a["end_ns"] for a in anomalies)
        self.told = min(a["told_ns"] for a in anomalies)
        self.anomalies = anomalies

    def seconds(self):
        return range(self.start // SECOND, -(-self.end // SECOND))

    def overlaps(self, start, end):
        return self.start < end and self.end > start


def incidents_of(anomalies):
    by = collections.defaultdict(list)
    for a in anomalies:
        by[a["incident"]].append(a)
    return [Incident(v) for v in by.values()]


def told_seconds(rows):
    """{layer: {second: told}}; under None that of any layer."""
    told = collections.defaultdict(dict)
    for r in rows:
        if r["layer"] == "step":
            continue
        s = r["start_ns"] // SECOND
        for layer in (r["layer"], None):
            told[layer][s] = told[layer].get(s, False) or r["alarmed"]
    return told


# ---- scores ----

def counts(slow, told):
    c = collections.Counter((truth, bool(told.get(s))) for s, truth in slow.items())
    return {"tp": c[True, True], "fn": c[True, False], "fp": c[False, True], "tn": c[False, False]}


def add(into, what):
    for k, v in what.items():
        into[k] = into.get(k, 0) + v


def scores(c, ratio=None):
    """Of counts, usual seconds weighed so that there are `ratio` to a slow one."""
    tp, fn, fp, tn = c["tp"], c["fn"], c["fp"], c["tn"]
    w = ratio * (tp + fn) / (fp + tn) if ratio and fp + tn else 1
    fp, tn = w * fp, w * tn
    return {"f1": 2 * tp / max(1e-9, 2 * tp + fp + fn), "precision": tp / max(1e-9, tp + fp),
            "recall": tp / max(1e-9, tp + fn), "accuracy": (tp + tn) / max(1e-9, tp + fn + fp + tn)}


def wilson(k, n):
    if not n:
        return [None, None]
    z, p = 1.96, k / n
    middle, reach = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return [round((middle - reach) / (1 + z * z / n), 3), round((middle + reach) / (1 + z * z / n), 3)]


def line_is_right(incident, fault):
    for a in incident.anomalies:
        for line in [x for x in a.get("lines", []) if os.path.basename(x["file"]) not in HELPERS][:1]:
            if os.path.basename(line["file"]) == fault + ".py":
                return True
    return False


def score_episode(e, incidents, told):
    inside = [i for i in incidents if e["onset_ns"] <= i.told <= e["released_ns"] + SECOND]
    stood = [i for i in incidents if i.told < e["onset_ns"] and i.overlaps(e["onset_ns"], e["released_ns"])]
    shown = any(told.get(s) for s in range(e["onset_ns"] // SECOND, e["released_ns"] // SECOND + 1))
    by = (inside or (stood if shown else []))[:1]
    began = [i for i in incidents if e["onset_ns"] - SECOND <= i.start < e["released_ns"]]
    return {"fault": e["fault"], "slowdown": e["slowdown_ratio"], "found": bool(by),
            "stood": bool(by) and not inside,
            "delay_s": (inside[0].told - e["onset_ns"]) / SECOND if inside else None,
            "incidents": len(began),
            "layer_right": bool(by) and by[0].first["layer"] in e["layers"],
            "line_right": bool(by) and line_is_right(by[0], e["fault"])
            if e["fault"] in WITH_LINES else None}


def score_run(run, learned, rows, anomalies, changes):
    slow, speeds = run.truth(learned)
    told, incidents = told_seconds(rows), incidents_of(anomalies)
    here = [layer for layer in LAYERS if len(told[layer]) > len(slow) / 2]
    false = [i for i in incidents if not any(slow.get(s) for s in i.seconds())]
    ret = {"run": run.name, "workload": run.workload, "plan": run.plan, "hashes": run.hashes(),
           "seconds": counts(slow, told[None]),
           "layers": {layer: counts(slow, told[layer]) for layer in here},
           "incidents": len(incidents), "false_incidents": len(false),
           "usual_s": sum(not v for v in slow.values()), "slow_s": sum(slow.values()),
           "episodes": [score_episode(e, incidents, told[None]) for e in run.effective],
           "ineffective": len(run.episodes) - len(run.effective),
           "benign": [{"kind": b["kind"], "told": any(
               b["onset_ns"] <= i.told <= b["end_ns"] + SECOND and i in false for i in incidents),
               "as_change": any(x < b["end_ns"] + SECOND and y > b["onset_ns"]
                                for c in changes for x, y in c["spans"])}
               for b in run.benign],
           "changes": [(c["kind"], c["times"], c["windows"]) for c in changes]}
    paces = {r["start_ns"] // SECOND: r["pace"] for r in rows
             if r["layer"] in ("torch", "cuda") and r["pace"]}
    mixture = {r["start_ns"] // SECOND: r["score"] for r in rows
               if r["layer"] == "torch" and r["score"] is not None}
    ret["raw"] = [(truth, speeds.get(s), paces.get(s), mixture.get(s)) for s, truth in slow.items()]
    return ret


# ---- baselines, at as many false seconds ----

def at_equal_false(raw, place, higher_is_slow, false):
    """The counts of a threshold on raw[place] that tells as many usual seconds as eacgm does."""
    values = sorted(((r[place] if higher_is_slow else -r[place]), r[0]) for r in raw
                    if r[place] is not None)
    usual = [v for v, truth in values if not truth]
    least = usual[-false - 1] if false < len(usual) else -math.inf
    c = {"tp": 0, "fn": 0, "fp": 0, "tn": 0}
    for r in raw:
        v = None if r[place] is None else r[place] if higher_is_slow else -r[place]
        told = v is not None and v > least
        c[("tp" if told else "fn") if r[0] else ("fp" if told else "tn")] += 1
    return c


def plain_rule(raw):
    c = {"tp": 0, "fn": 0, "fp": 0, "tn": 0}
    for truth, _, pace, _ in raw:
        told = pace is not None and pace < seconds.SLOW
        c[("tp" if told else "fn") if truth else ("fp" if told else "tn")] += 1
    return c


def rounded(d):
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in d.items()}


def share(k, n):
    return {"of": n, "yes": k, "share": round(k / n, 3) if n else None, "interval_95": wilson(k, n)}


def summary(results):
    total, layers, episodes, benign = {}, collections.defaultdict(dict), [], []
    raw = [r for result in results for r in result["raw"]]
    for r in results:
        add(total, r["seconds"])
        episodes += r["episodes"]
        benign += r["benign"]
        for layer, c in r["layers"].items():
            add(layers[layer], c)
    found = [e for e in episodes if e["found"]]
    delays = sorted(e["delay_s"] for e in found if e["delay_s"] is not None)
    lines = [e for e in found if e["line_right"] is not None]
    hours = sum(r["usual_s"] for r in results) / 3600
    false = sum(r["false_incidents"] for r in results)
    return {
        "runs": len(results), "seconds": total, "usual_hours": round(hours, 3),
        "seconds_natural": rounded(scores(total)), "seconds_5_to_1": rounded(scores(total, 5)),
        "layers_5_to_1": {k: dict(rounded(scores(c, 5)), **c) for k, c in layers.items()},
        "episodes": share(len(found), len(episodes)),
        "episodes_by_effect": {"%g-%g" % b: share(
            sum(e["found"] for e in episodes if b[0] <= e["slowdown"] < b[1]),
            sum(b[0] <= e["slowdown"] < b[1] for e in episodes)) for b in EFFECTS},
        "episodes_by_fault": {f: "%d/%d" % (sum(e["found"] for e in episodes if e["fault"] == f),
                                            sum(e["fault"] == f for e in episodes))
                              for f in sorted({e["fault"] for e in episodes})},
        "found_by_an_incident_that_stood": sum(e["stood"] for e in found),
        "delay_s_median": round(statistics.median(delays), 2) if delays else None,
        "delay_s_p95": round(delays[int(0.95 * (len(delays) - 1))], 2) if delays else None,
        "incidents_an_episode": round(sum(e["incidents"] for e in episodes) /
                                      max(1, sum(e["incidents"] > 0 for e in episodes)), 3),
        "layer_right": share(sum(e["layer_right"] for e in found), len(found)),
        "line_right": share(sum(e["line_right"] for e in lines), len(lines)),
        "false_incidents": false, "false_incidents_an_hour": round(false / hours, 2) if hours else None,
        "benign_told": share(sum(b["told"] for b in benign), len(benign)),
        "benign_told_as_change": {kind: share(
            sum(b["as_change"] for b in benign if b["kind"] == kind),
            sum(b["kind"] == kind for b in benign)) for kind in sorted({b["kind"] for b in benign})},
        "baselines": {
            "plain rule: pace < 0.9": rounded(scores(plain_rule(raw), 5)),
            "pace alone, as many false seconds": rounded(scores(
                at_equal_false(raw, 2, False, total["fp"]), 5)),
            "mixture of torch, as many false seconds": rounded(scores(
                at_equal_false(raw, 3, True, total["fp"]), 5))},
    }


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--eacgm", default="build/eacgm")
    p.add_argument("--options", default="", help="of eacgm detect")
    p.add_argument("--json", metavar="OUT")
    p.add_argument("--all-clean", action="store_true", help="learn from all clean runs, judge none")
    p.add_argument("--workloads", help="only these, comma-separated")
    p.add_argument("runs", metavar="RUNS")
    args = p.parse_args()
    runs = [Run(os.path.join(args.runs, d)) for d in sorted(os.listdir(args.runs))
            if os.path.exists(os.path.join(args.runs, d, "labels.jsonl"))]
    by = collections.defaultdict(list)
    for r in runs:
        if not args.workloads or r.workload in args.workloads.split(","):
            by[r.workload].append(r)
    results, models = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for workload, of in sorted(by.items()):
            clean = sorted((r for r in of if r.plan == "clean"), key=lambda r: r.seed)
            learned = clean if args.all_clean else clean[:-1] or clean
            models[workload] = [r.name for r in learned]
            model = os.path.join(folder, workload + ".model")
            learn(args.eacgm, learned, model)
            for run in [r for r in of if r not in learned]:
                results.append(score_run(run, learned, *judge(args.eacgm, run, model, args.options.split())))
                r = results[-1]
                print(run.name, r["seconds"], "found %d of %d" % (sum(
                    e["found"] for e in r["episodes"]), len(r["episodes"])), "incidents",
                    r["incidents"], "false", r["false_incidents"], file=sys.stderr, flush=True)
    out = {"eacgm_sha256": sha256(args.eacgm), "options": args.options, "learned_from": models,
           "reckoning_sha256": {f: sha256(os.path.join(seconds.HERE, f))
                                for f in ("evaluate.py", "seconds.py")},
           "summary": summary(results), "runs": results}
    if args.json:
        with open(args.json, "w") as f:
            json.dump(out, f)
    print(json.dumps(out["summary"], indent=1))


if __name__ == "__main__":
    main()
