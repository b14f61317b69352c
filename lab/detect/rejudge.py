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
# src/incident/episode_edges.c, told_events.c
EDGE_SLACK, EVENT_Z, EVENT_LOST_NS = 1.0, 8.0, 1e6


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

class Edges:
    """Where an anomaly begins in its first window, and ends in its last, by the events that were
    kept. It has those of one layer and process, in order of time."""

    def __init__(self, run, layer, pid):
        a = run.arrays
        self.mine = np.flatnonzero((a["event_layer"] == layer) & (a["event_pid"] == pid))
        self.start = a["event_start"][self.mine]
        self.end = self.start + a["event_dur"][self.mine].astype(np.int64)
        z = np.stack([a["event_z"][self.mine], a["event_gap_z"][self.mine]]).astype(np.float64)
        self.evidence = a["event_weight"][self.mine] * (np.nan_to_num(z).max(axis=0) - EDGE_SLACK)
        self.rows = np.flatnonzero((a["row_layer"] == layer) & (a["row_pid"] == pid))
        self.windows = a["row_start"][self.rows], a["row_end"][self.rows]

    def quiet(self, anomaly, alarmed):
        """Those that lie in windows of the anomaly that are as usual."""
        ret = np.zeros(len(self.mine), bool)
        for start, end, told in zip(*self.windows, alarmed[self.rows]):
            if not told and start >= anomaly["start_ns"] and end <= anomaly["end_ns"]:
                ret |= (self.start >= start) & (self.end <= end)
        return ret

    def first_end(self, anomaly):
        start, end = self.windows
        at = anomaly["start_ns"]
        return end[(start <= at) & (at < end)].max(initial=at)

    def last_start(self, anomaly):
        start, end = self.windows
        at = anomaly["end_ns"]
        return start[(start < at) & (at <= end)].min(initial=at)

    def of(self, anomaly):
        """(from, to), by the events' evidence, each for as many as it stands for. Not by their rate,
        as episode_edges.c does first: of that a sample says little."""
        from_ns, to_ns = anomaly["start_ns"], anomaly["end_ns"]
        at = np.flatnonzero((self.start >= from_ns) & (self.start < self.first_end(anomaly)))
        sums = np.cumsum(self.evidence[at])
        before = np.concatenate([[0.0], sums])[:len(at)]
        if len(at) and (rise := sums - np.minimum.accumulate(before)).max() > 0:
            before = before[:rise.argmax() + 1]
            from_ns = self.start[at[np.flatnonzero(before == before.min())[-1]]]
        at = np.flatnonzero((self.start >= self.last_start(anomaly)) &
                            (self.start < anomaly["end_ns"]))
        sums = np.cumsum(self.evidence[at])
        if len(at) and sums.max() > 0:
            to_ns = self.end[at[sums.argmax()]]
        return from_ns, to_ns


def place_of(anomaly):
    return truth.LAYERS.index(anomaly["layer"]), anomaly["pid"] or 0


def event_marks(run, anomalies, alarmed):
    """alarmed: of the rows. Events in an anomaly of their layer and process, but not in its quiet
    rows, and those that are anomalous by themselves: these do not depend on mixtures, and are those
    that the data set's own detector marked far from its anomalies, or that are as far out and as
    long. Windows that its anomalies begin or end in as well have its marks, which were made of all
    events."""
    a, theirs = run.arrays, run.detectors["full"]["anomalies"]
    marked = a["event_alarmed_full"] == 1
    by_itself = marked & (a["event_z"] > EVENT_Z) & (a["event_dur"] > EVENT_LOST_NS)
    ret, near = np.zeros(len(marked), bool), np.zeros(len(marked), bool)
    for place in {place_of(x) for x in [*anomalies, *theirs]}:
        edges = Edges(run, *place)
        mine = edges.mine
        over = lambda begin, end: mine[(edges.end > begin) & (edges.start < end)]
        old = [x for x in theirs if place_of(x) == place]
        new = [x for x in anomalies if place_of(x) == place]
        for x in old:
            near[over(x["start_ns"], x["end_ns"])] = True
        for x in new:
            ret[over(*edges.of(x))] = True
            ret[mine[edges.quiet(x, alarmed)]] = False
        for x in new:
            same = []
            if any(x["start_ns"] == o["start_ns"] for o in old):
                same += over(x["start_ns"], edges.first_end(x)).tolist()
            if any(x["end_ns"] == o["end_ns"] for o in old):
                same += over(edges.last_start(x), x["end_ns"]).tolist()
            ret[same] = marked[same]
    return (ret | by_itself | (marked & ~near)).astype(np.uint8)


# ---- all of it ----

def add(run, key, folder, rate):
    """What eacgm wrote of a run, into its arrays and meta."""
    told = runs.rows_of(os.path.join(folder, run.name))
    by_place = {join.place_of(r): i for i, r in enumerate(rows_of(run))}
    p, alarmed = join.verdict_arrays(told, by_place, len(by_place))
    found, _ = runs.anomalies_of(os.path.join(folder, run.name + ".json"))
    anomalies = [join.shifted(x, origin_of(run)) for x in found]
    run.arrays["row_p_" + key], run.arrays["row_alarmed_" + key] = p, alarmed
    run.arrays["event_alarmed_" + key] = event_marks(run, anomalies, alarmed)
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
