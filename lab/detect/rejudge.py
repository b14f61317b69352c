#!/usr/bin/env python3
"""rejudge.py - learns and judges a data set's rows again, with the detector of today and without
the recordings. usage: rejudge.py DATA -o COPY [--name NAME] [--without INGREDIENT]

For tuning what comes after the features: mixture, tail, sums, judge, anomalies. Change it, build,
run this, and `score.py COPY --split dev` prints "eacgm rejudged" beside what dataset.py had: p and
alarms of each row, anomalies, and marks of events. COPY may be DATA, and another --name adds
another. Of each workload the models are learned from its calibration runs, all that is judged is
of the splits asked for. docs/detect.md says what rows alone cannot tell.

Features have half precision here, and what blurs them is drawn by time: where a data set does not
say when its runs began (meta.origin_ns), it is drawn anew. Needs numpy and build/eacgm."""

import argparse
import collections
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, os.pardir, "bench"))

import common

try:
    import numpy as np
    import data
    import join
    import runs
    import truth
except ImportError as missing:
    sys.exit("rejudge.py: %s; install Debian's python3-numpy" % missing)

SECONDS = 3600
INGREDIENTS = ("cleaning", "mixture", "cusum", "tail")  # the others are in the features
ORIGIN_NS = 10**12  # where it is not known: times before a run's beginning stay positive
X_MOST = float(np.finfo(np.float16).max)
WINDOW_NS = 10**9
ALONE_Z, ALONE_LOST_NS = 8.0, 1e8  # src/incident/slow_calls.c, at the usual least effect


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("data", help="folder of dataset.py")
    p.add_argument("-o", "--output", required=True, help="folder of the copy")
    p.add_argument("--eacgm", default=os.path.join(common.ROOT, "build", "eacgm"))
    p.add_argument("--name", help="of the detector in the copy: rejudged-NAME")
    p.add_argument("--without", nargs="*", default=[], choices=INGREDIENTS)
    p.add_argument("--split", nargs="*", default=["dev", "test"],
                   choices=("calibration", "dev", "test"), help="what is judged")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--components", type=int, help="of each mixture; by default by BIC")
    p.add_argument("--alarms-per-hour", type=float, help="by default what dataset.py asked for")
    return p.parse_args()


# ---- rows, there and back ----

def origin_of(run):
    return run.meta.get("origin_ns", ORIGIN_NS)


def paces_of(run, x):
    """{(pid, start): pace}; of pid 0, for GPUs: that of the process with the most events. For data
    sets of before pace, parents and other work were in them."""
    a, ret, most = run.arrays, {}, {}
    for i, row in enumerate(x):
        known = dict(zip(run.meta["features"][truth.LAYERS[a["row_layer"][i]]], row))
        loss, start = known.get("pace_loss", np.nan), int(a["row_start"][i])
        if loss == loss:
            ret[int(a["row_pid"][i]), start] = pace = float(np.exp(-loss))
            if a["row_events"][i] >= most.get(start, 0):
                most[start], ret[0, start] = a["row_events"][i], pace
    return ret


def gpu_pids_of(a):
    """{(start, events): pid}. A GPU's row has the events of its process, all layers together."""
    sums = collections.Counter()
    for start, pid, layer, events in zip(a["row_start"], a["row_pid"], a["row_layer"],
                                         a["row_events"]):
        if truth.LAYERS[layer] in truth.CALLS:
            sums[int(start), int(pid)] += int(events)
    return {(start, events): pid for (start, pid), events in sums.items()}


def job_of(a, i):
    if "row_pace" not in a:
        return {}
    pace = float(a["row_pace"][i])
    return {"pace": pace if pace == pace else None, "parent_pid": int(a["row_parent"][i]) or None,
            "parents_pace": bool(a["row_parents_pace"][i]),
            "other_work": bool(a["row_other_work"][i])}


def rows_of(run):
    """As `eacgm detect --rows` wrote them, as far as they were kept."""
    a, origin, ret = run.arrays, origin_of(run), []
    x = np.where(np.isinf(a["row_x"]), np.copysign(X_MOST, a["row_x"]), a["row_x"]).tolist()
    gpu_pids = {} if "row_gpu_pid" in a else gpu_pids_of(a)
    p, paces = a["row_p_full"].tolist(), {} if "row_pace" in a else paces_of(run, x)
    for i in range(len(p)):
        layer = truth.LAYERS[a["row_layer"][i]]
        known = {n: v for n, v in zip(run.meta["features"][layer], x[i]) if v == v}
        pid, gpu = int(a["row_pid"][i]), int(a["row_gpu"][i])
        gpu_pid = int(a["row_gpu_pid"][i]) if "row_gpu_pid" in a else \
            gpu_pids.get((int(a["row_start"][i]), int(a["row_events"][i])))
        ret.append({"start_ns": int(a["row_start"][i]) + origin,
                    "end_ns": int(a["row_end"][i]) + origin, "layer": layer, "pid": pid or None,
                    "gpu": gpu if gpu >= 0 else None,
                    "gpu_pid": gpu_pid if gpu >= 0 and gpu_pid else None,
                    "regime": int(a["row_regime"][i]),
                    "events": int(a["row_events"][i]),
                    "pace": paces.get((pid, int(a["row_start"][i]))),
                    **job_of(a, i), "p_value": p[i] if p[i] == p[i] else None, "features": known})
    return ret


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)


# ---- events ----

def event_marks(run, anomalies):
    """Which calls were slow is known of all events alone (src/incident/slow_calls.c): in an
    anomaly of their process, a window before it and after it too, events have the marks of the
    data set's own detector; elsewhere those that are slow by themselves."""
    a = run.arrays
    marked = a["event_alarmed_full"] == 1
    ret = marked & (a["event_z"] > ALONE_Z) & (a["event_dur"] > ALONE_LOST_NS)
    start, end = a["event_start"], a["event_start"] + a["event_dur"].astype(np.int64)
    for x in anomalies:
        ret |= marked & (a["event_pid"] == (x["pid"] or 0)) & \
            (start < x["end_ns"] + WINDOW_NS) & (end > x["start_ns"] - WINDOW_NS)
    return ret.astype(np.uint8)


# ---- all of it ----

def add(run, key, folder, rate):
    """What eacgm wrote of a run, into its arrays and meta."""
    told = runs.rows_of(os.path.join(folder, run.name))
    by_place = {join.place_of(r): i for i, r in enumerate(rows_of(run))}
    p, alarmed = join.verdict_arrays(told, by_place, len(by_place))
    found, _ = runs.anomalies_of(os.path.join(folder, run.name + ".json"))
    anomalies = [join.shifted(x, origin_of(run)) for x in found]
    run.arrays["row_p_" + key], run.arrays["row_alarmed_" + key] = p, alarmed
    run.arrays["event_alarmed_" + key] = event_marks(run, anomalies)
    run.meta["detectors"][key] = {"anomalies": anomalies, "events_late": 0, "asked_per_hour": rate}


def eacgm(args, *words):
    return common.run([args.eacgm, *words], SECONDS).out


def learn(args, learned, path, model):
    """Returns [what was learned of each layer], from the model's file and what eacgm said."""
    command = ["learn", *[path(r) for r in learned], "-o", model, "--seed", args.seed, "--json"]
    if args.components:
        command += ["-k", args.components]
    for what in args.without:
        command += ["--without", what]
    said = json.loads(eacgm(args, *command))["layers"]
    with open(model, encoding="utf-8") as f:
        kept = json.load(f)["layers"]
    return [{**kept.get(o["layer"], {}), **o} for o in said]


def rejudge(args, workload, everything, key, scratch):
    """Learns and judges one workload. Returns [what was learned of each layer]."""
    mine = [r for r in everything if r.workload == workload]
    learned = [r for r in mine if r.split == "calibration"]
    judged = [r for r in mine if r.split in args.split]
    if not learned:
        raise data.Bad("workload '%s' has no calibration run to learn from" % workload)
    path = lambda run: os.path.join(scratch, run.name + ".jsonl")
    for run in {r.name: r for r in learned + judged}.values():
        write_rows(path(run), rows_of(run))
    rate = args.alarms_per_hour or learned[0].detectors["full"].get("asked_per_hour", 1.0)
    out, model = os.path.join(scratch, "out"), os.path.join(scratch, "rows.model")
    os.makedirs(out, exist_ok=True)
    layers = learn(args, learned, path, model)
    for run in judged:
        said = eacgm(args, "detect", path(run), "-m", model, "--alarms-per-hour", rate, "--json",
                     "--rows", os.path.join(out, run.name))
        with open(os.path.join(out, run.name + ".json"), "w", encoding="utf-8") as f:
            f.write(said)
        add(run, key, out, rate)
    return layers


def same_share(run, key):
    """Of rows that both judged: how many are alarmed by both or neither; and the median of how many
    times p is another."""
    old, new = run.arrays["row_p_full"], run.arrays["row_p_" + key]
    both = np.isfinite(old) & np.isfinite(new)
    if not both.any():
        return int(both.sum()), float("nan"), float("nan")
    same = run.arrays["row_alarmed_full"][both] == run.arrays["row_alarmed_" + key][both]
    least = np.finfo(np.float32).tiny
    ratio = np.abs(np.log(np.maximum(old[both], least) / np.maximum(new[both], least)))
    return int(both.sum()), float(same.mean()), float(np.exp(np.median(ratio)))


def main():
    args = arguments()
    key = "rejudged" + ("-" + args.name if args.name else "")
    everything = data.read_folder(args.data)
    os.makedirs(args.output, exist_ok=True)
    layers = []
    with tempfile.TemporaryDirectory(prefix="eacgm-rejudge-") as scratch:
        for workload in sorted({r.workload for r in everything}):
            for o in rejudge(args, workload, everything, key, scratch):
                layers.append([workload, o["layer"], o.get("rows", "-"), o.get("components", "-"),
                               "%.3f" % o["cusum_ratio"] if "cusum_ratio" in o else "-",
                               "%.3f" % o["tail"]["shape"] if o.get("tail") else "-",
                               o["why_not"] or ""])
    for run in everything:
        data.write_run(os.path.join(args.output, run.name + ".npz"), run.meta, run.arrays)
    common.print_table("learned again", ["workload", "layer", "rows kept", "components", "sums x",
                                         "tail shape", ""], layers)
    rows = []
    for run in everything:
        if key in run.detectors:
            both, same, ratio = same_share(run, key)
            rows.append([run.name, run.split, both, "%.1f" % (100 * same), "%.3g" % ratio,
                         len(run.detectors["full"]["anomalies"]),
                         len(run.detectors[key]["anomalies"])])
    common.print_table("against detector 'full'", [
        "run", "split", "rows of both", "same alarm %", "p differs x (median)", "anomalies",
        "now"], rows)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (data.Bad, common.Failed) as e:
        sys.exit("rejudge.py: %s" % e)
