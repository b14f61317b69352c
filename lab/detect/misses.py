#!/usr/bin/env python3
"""misses.py - one by one, what eacgm found, missed and alarmed falsely: where to look next. usage:
misses.py DATASET [--split dev] [--detector full]

Of each episode: by which layers it was told and how soon, and of the layers that it names the share
of windows and of events that were judged anomalous, and how much longer the layer's calls took.
Then every alert in clean time and in benign stretches.
For the development split; what is learned from the test split cannot be
scored on it any more. Needs numpy."""

import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, os.pardir, "bench"))

import common

try:
    import numpy as np
    import data
    import sources
    import truth
except ImportError as missing:
    sys.exit("misses.py: %s; install Debian's python3-numpy" % missing)
import measures as ms


def share(what, unit, verdict, weight, number, chosen):
    mine = chosen & (unit == number) & (what == truth.ANOMALOUS)
    whole = weight[mine].sum()
    return "%3.0f" % (100 * weight[mine & (verdict == 1)].sum() / whole) if whole else "-"


def episode_rows(run, source):
    """[episode, what it was, slowdown, [layer: seconds until told], shares of its layers]."""
    alerts = source.alerts(run)
    ones = np.ones(len(run.row_start))
    ret = []
    for number, e in enumerate(run.episodes):
        delays = {}
        for layer, a in sorted(alerts, key=lambda x: x[1].told):
            if e["start_ns"] <= a.told <= e["released_ns"] + truth.GRACE_NS:
                delays.setdefault(layer, (a.told - e["start_ns"]) / 1e9)
        shares = []
        for layer in e["layers"]:
            at = truth.LAYERS.index(layer)
            by = e["layer_ratio"].get(layer)
            shares.append("%s%s %s/%s" % (layer, "" if by is None else " x%.2f" % by, share(
                run.row_truth, run.row_unit, source.rows(run, "natural"), ones, number,
                run.row_layer == at), share(
                    run.event_truth, run.event_unit, source.events(run, "natural"),
                    run.event_weight, number, run.event_layer == at)))
        slower = e["slowdown_ratio"]
        ret.append([e["name"], e["fault"], e["intensity"],
                    "-" if slower is None else "%.2f" % slower, "" if e["effective"] else "no",
                    "%.1f" % (e["start_ns"] / 1e9),
                    ", ".join("%s %.1f" % d for d in delays.items()) or "MISSED",
                    ", ".join(shares)])
    return ret


def alert_rows(run, source):
    """Alerts in clean time and in benign stretches."""
    ret = []
    of = {(a["told_ns"], a["start_ns"], a["layer"]): a
          for a in run.detectors[source.key]["anomalies"]}
    mild = [(b["start_ns"], b["end_ns"]) for b in run.benign]
    for layer, alert in source.alerts(run):
        got = ms.match([ms.Episode(e["start_ns"], e["released_ns"], True) for e in run.episodes],
                       mild, run.clean_of_alerts, [alert], truth.GRACE_NS, truth.LATE_NS)
        kind = "false" if got["false"] else "late" if got["late"] else \
            run.benign[next(iter(got["benign"]))]["kind"] if got["benign"] else None
        if kind:
            a = of[alert.told, alert.start, layer]
            ret.append([run.name, kind, "%.1f" % (alert.told / 1e9), layer,
                        "%.1f" % (a["score"] or 0), str(a.get("why") or a["name"])[:100]])
    return ret


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset", help="folder of dataset.py")
    p.add_argument("--split", default="dev", choices=("dev", "test"))
    p.add_argument("--less-slow", action="store_true", help="as score.py")
    p.add_argument("--detector", default="full", help="or an ablation: without-gaps, ...")
    args = p.parse_args()
    source = sources.Detector(args.detector, args.detector, "")
    runs = [r for r in data.read_folder(args.dataset, args.less_slow)
            if r.split == args.split and args.detector in r.detectors]
    if not runs:
        raise data.Bad("%s: no run of split %s with detector '%s'" % (
            args.dataset, args.split, args.detector))
    common.print_table(
        "episodes; of their layers: % of windows / % of events judged anomalous",
        ["episode", "fault", "intensity", "slower", "effective", "at s", "told by, after s",
         "layers"], [row for r in runs for row in episode_rows(r, source)])
    common.print_table("alerts in clean time and in benign stretches",
                       ["run", "in", "told at s", "layer", "score", "why"],
                       [row for r in runs for row in alert_rows(r, source)])
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except data.Bad as e:
        sys.exit("misses.py: %s" % e)
