#!/usr/bin/env python3
"""score.py - the table of how well faults were found, with intervals: per layer at event and window
level, at the natural rate and at 5:1; episodes, delays, false alarms per clean hour; what was
injected without effect, and what was benign, apart. usage: score.py DATASET [--verdicts FOLDER]

Scores the split that is asked for (test) and tunes nothing. The arithmetic is measures.py's, what
is true is truth.py's. Needs numpy, not scikit-learn; nothing is point-adjusted."""

import argparse
import json
import math
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
    sys.exit("score.py: %s; install Debian's python3-numpy" % missing)
import measures as ms

LEVELS = ("event", "window")
HOUR_NS = 3600 * 10**9


# ---- counting ----

def unit_counts(what, unit, weight, alarmed):
    """[Counts] of one run's samples, unit by unit; what is left out of scores is not in it."""
    scored = what >= 0
    what, weight = what[scored], weight[scored]
    hit = alarmed[scored] == 1
    numbers, place = np.unique(unit[scored], return_inverse=True)
    cell = np.where(what == truth.ANOMALOUS, np.where(hit, 0, 2), np.where(hit, 1, 3))
    table = np.bincount(place * 4 + cell, weights=weight, minlength=4 * len(numbers))
    return [ms.Counts(*row) for row in table.reshape(-1, 4).tolist()]


def samples_of(run, layer, level, source, rate):
    """What, unit, weight and verdict of a run's samples of one layer. A sample of the hardware
    layer is a window at both levels."""
    if level == "event" and layer != "hardware":
        mine = run.event_layer == truth.LAYERS.index(layer)
        return (run.event_truth[mine], run.event_unit[mine],
                run.event_weight[mine].astype(np.float64), source.events(run, rate)[mine])
    mine = run.row_layer == truth.LAYERS.index(layer)
    return (run.row_truth[mine], run.row_unit[mine], np.ones(int(mine.sum())),
            source.rows(run, rate)[mine])


def cell_of(runs, layer, level, source, rate, resamples):
    """One cell of the table: measures with intervals, and what they are made of."""
    units = []
    for run in runs:
        units += unit_counts(*samples_of(run, layer, level, source, rate))
    whole = ms.add_up(units)
    ret = {name: list(value) for name, value in ms.with_intervals(
        units, sources.RATES[rate], resamples).items()}
    ret.update(anomalous=whole.tp + whole.fn, normal=whole.fp + whole.tn,
               units=len(units))
    return ret


def variant_of(runs, layer, level, source, ours, rate, resamples):
    """How much higher the F1 of a variant is than eacgm's, with the interval of the difference:
    both are drawn together, unit by unit."""
    pairs = []
    for run in runs:
        pairs += zip(*(unit_counts(*samples_of(run, layer, level, s, rate))
                       for s in (source, ours)))
    pairs = [p for p in pairs if sum(p[0])]

    def f1(counts):
        c = ms.add_up(counts)
        c = ms.at_ratio(c, sources.RATES[rate]) if sources.RATES[rate] else c
        return math.nan if c is None else ms.f1(c)

    def difference(chosen):
        return {"f1": f1([a for a, _ in chosen]) - f1([b for _, b in chosen])} if chosen else \
            {"f1": math.nan}

    faulty = [p for p in pairs if p[0].tp + p[0].fn]
    spread = ms.bootstrap([faulty, [p for p in pairs if not p[0].tp + p[0].fn]], difference,
                          resamples)
    return [difference(pairs)["f1"], *spread["f1"]]


# ---- episodes ----

def of_layer(episode, layer):
    return layer is None or truth.touches(episode, layer)


def episodes_of(runs, source, layer=None):
    """Recall, delays and false alarms; of one layer by its own alerts alone, or of all."""
    delays, effective, found_ineffective, ineffective = [], 0, 0, 0
    false, clean_ns, benign, benign_alerts, late, elsewhere = 0, 0, 0, 0, 0, 0
    benign_alarmed = 0
    by_cause = {}
    for run in runs:
        alerts = [a for of, a in source.alerts(run) if layer in (None, of)]
        episodes = [ms.Episode(e["start_ns"], e["released_ns"], e["effective"])
                    for e in run.episodes]
        mild = [(b["start_ns"], b["end_ns"]) for b in run.benign]
        clean = run.clean_of_alerts
        got = ms.match(episodes, mild, clean, alerts, truth.GRACE_NS, truth.LATE_NS)
        for i, e in enumerate(run.episodes):
            if not of_layer(e, layer):
                continue
            key = "found" if e["effective"] else "ineffective"
            seen = by_cause.setdefault(e["cause"], [0, 0, 0, 0])
            seen[0 if e["effective"] else 2] += 1
            if i in got[key]:
                seen[1 if e["effective"] else 3] += 1
            if e["effective"]:
                effective += 1
                delays += [got[key][i] / 1e9] if i in got[key] else []
            else:
                ineffective += 1
                found_ineffective += i in got[key]
        false += len(got["false"])
        late += len(got["late"])
        elsewhere += len(got["elsewhere"])
        benign += len(mild)
        benign_alerts += sum(got["benign"].values())
        benign_alarmed += len(got["benign"])
        clean_ns += ms.covered([*map(tuple, clean), *mild]) - ms.covered(mild)
    hours = clean_ns / HOUR_NS
    recall = ms.ratio(len(delays), effective)
    benign_share = ms.ratio(benign_alarmed, benign)
    median = lambda chosen: {"s": ms.quantile(chosen, 0.5)}
    return {"effective": effective, "found": len(delays),
            "recall": [recall, *ms.wilson(recall, effective)],
            "false_alarms": false, "clean_hours": hours,
            "false_alarms_per_hour": [ms.ratio(false, hours), *ms.poisson_interval(false, hours)],
            "delay_median_s": [ms.quantile(delays, 0.5),
                               *ms.bootstrap([delays], median, 400)["s"]],
            "delay_p95_s": ms.quantile(delays, 0.95), "benign": benign,
            "benign_alarmed": [benign_share, *ms.wilson(benign_share, benign)],
            "alarms_on_benign": benign_alerts, "ineffective": ineffective,
            "ineffective_told": found_ineffective, "alarms_late": late,
            "alarms_elsewhere": elsewhere,
            "by_cause": by_cause}


def rates_of(runs):
    """Was the false-alarm rate that was asked for the one that came? [(asked, got, hours)]"""
    ret = []
    for key in sorted({d for r in runs for d in r.detectors
                       if d == "full" or d.startswith("rate-")}):
        mine = [r for r in runs if key in r.detectors]
        asked = mine[0].detectors[key]["asked_per_hour"]
        got = episodes_of(mine, sources.Detector(key, key, ""))
        ret.append({"asked_per_hour": asked, "clean_hours": got["clean_hours"],
                    "got_per_hour": got["false_alarms_per_hour"]})
    return sorted(ret, key=lambda r: r["asked_per_hour"])


def score(runs, everyone, resamples):
    """Everything, as plain data."""
    layers = [x for x in truth.SCORED
              if any((r.row_layer == truth.LAYERS.index(x)).any() for r in runs)]
    ret = {"split": runs[0].split, "runs": len(runs), "layers": layers, "methods": [], "variants": [],
           "events": sum(sum(sum(p) for p in r.meta["population"].values()) for r in runs),
           "events_kept": sum(len(r.event_start) for r in runs), "asked": rates_of(runs)}
    for source in everyone:
        common.say(source.name)
        mine = [r for r in runs if source.judged(r)]
        cells = {level: {rate: {layer: cell_of(mine, layer, level, source, rate, resamples)
                                for layer in layers} for rate in sources.RATES}
                 for level in LEVELS}
        episodes = {"all": episodes_of(mine, source)}
        episodes.update({layer: episodes_of(mine, source, layer) for layer in layers})
        name = source.name + (" (%d of %d runs)" % (len(mine), len(runs))
                              if len(mine) < len(runs) else "")
        ret["methods"].append({"name": name, "about": source.about, "cells": cells,
                               "episodes": episodes})
        if source.variant:
            ret["variants"].append({"name": name, "about": source.about, "f1_more": {
                level: {layer: variant_of(mine, layer, level, source, everyone[0], "5:1",
                                          resamples) for layer in layers} for level in LEVELS}})
    common.said()
    return ret


# ---- printing ----

def percent(value):
    return "–" if value is None or math.isnan(value) else "%.1f" % (100 * value)


def number(value, form="%.3f"):
    return "–" if value is None or math.isnan(value) else form % value


def spread(three, form):
    return "%s (%s..%s)" % tuple(form(x) for x in three)


def table_of_layers(method, level, rate):
    heads = ["layer", "normal", "anomalous", "accuracy %", "precision %", "recall %", "F1", "MCC"]
    rows = []
    for layer, c in method["cells"][level][rate].items():
        rows.append([layer, "%.0f" % c["normal"], "%.0f" % c["anomalous"],
                     *[spread(c[m], percent) for m in ("accuracy", "precision", "recall")],
                     *[spread(c[m], number) for m in ("f1", "mcc")]])
    return heads, rows


def table_of_methods(scores, level, rate):
    """As the paper's Table I: accuracy / recall / F1, in percent."""
    rows = []
    for m in scores["methods"]:
        rows.append([m["name"]] + [" / ".join(percent(m["cells"][level][rate][x][of][0])
                                              for of in ("accuracy", "recall", "f1"))
                                   for x in scores["layers"]])
    return ["method"] + scores["layers"], rows


def table_of_f1(scores, level, rate):
    rows = [[m["name"]] + [spread(m["cells"][level][rate][x]["f1"], number)
                           for x in scores["layers"]] for m in scores["methods"]]
    return ["method"] + scores["layers"], rows


def table_of_variants(scores, level):
    signed = lambda x: number(x, "%+.3f")
    rows = [[v["name"]] + [spread(v["f1_more"][level][x], signed) for x in scores["layers"]]
            for v in scores["variants"]]
    return ["variant"] + scores["layers"], rows


def tables_of_sensitivity(told):
    """By the number of components, and by delta at a few of the places that were tried."""
    for of in told["of"]:
        for key, column, head, form, chosen in (
                ("by_components", "components", "K", "%d", of["components"]),
                ("by_delta", "log10_delta", "log10 delta", "%.2f", of["log10_delta"])):
            points = of[key][::4] if key == "by_delta" else of[key]
            rows = [[form % p[column], percent(p["accuracy"]), percent(p["recall"]),
                     spread(p["f1_interval"], number)] for p in points]
            yield ("sensitivity of the mixture to %s: %s events, %s, 5:1; chosen on dev: %s" % (
                head, told["layer"], "the paper's features" if of["features"] == "paper"
                else of["features"], form % chosen),
                [head, "accuracy %", "recall %", "F1 (95 %)"], rows)


def episode_row(name, e):
    return [name, e["effective"], spread(e["recall"], percent),
            spread(e["false_alarms_per_hour"], lambda x: number(x, "%.2f")),
            number(e["clean_hours"], "%.2f"), e["alarms_late"],
            spread(e["delay_median_s"], lambda x: number(x, "%.1f")),
            number(e["delay_p95_s"], "%.1f"), "%d in %d" % (e["alarms_on_benign"], e["benign"]),
            spread(e["benign_alarmed"], lambda x: number(100 * x, "%.0f")),
            "%d of %d" % (e["ineffective_told"], e["ineffective"])]


EPISODE_HEADS = ["", "effective", "recall %", "false alarms/h", "clean h", "late", "delay s",
                 "p95 s", "alarms on benign", "benign alarmed %", "ineffective told"]


def tables_of(scores):
    """[(title, heads, rows)]."""
    ours = scores["methods"][0]
    ret = []
    for level in LEVELS:
        for rate in sources.RATES:
            ret.append(("%s, %s level, %s rate (95 %%)" % (ours["name"], level, rate),
                        *table_of_layers(ours, level, rate)))
    ret.append(("episodes, %s by layer (95 %%)" % ours["name"], EPISODE_HEADS,
                [episode_row(k, v) for k, v in ours["episodes"].items()]))
    ret.append(("episodes by cause, %s" % ours["name"], ["cause", "effective", "found",
                                                        "ineffective", "told"],
                [[k, *v] for k, v in sorted(ours["episodes"]["all"]["by_cause"].items())]))
    ret.append(("false alarms asked for and had, per clean hour",
                ["asked", "had (95 %)", "clean h"],
                [["%g" % r["asked_per_hour"], spread(r["got_per_hour"],
                                                     lambda x: number(x, "%.2f")),
                  number(r["clean_hours"], "%.2f")] for r in scores["asked"]]))
    if len(scores["methods"]) > 1:
        ret.append(("episodes by method, all layers (95 %)", EPISODE_HEADS,
                    [episode_row(m["name"], m["episodes"]["all"]) for m in scores["methods"]]))
        for rate in ("5:1", "natural"):
            ret.append(("accuracy / recall / F1 in %%, event level, %s rate" % rate,
                        *table_of_methods(scores, "event", rate)))
        for level in LEVELS:
            for rate in ("5:1", "natural"):
                ret.append(("F1, %s level, %s rate (95 %%)" % (level, rate),
                            *table_of_f1(scores, level, rate)))
    for level in LEVELS if scores["variants"] else ():
        ret.append(("F1 of variants less eacgm's, %s level, 5:1 (95 %%, of the difference)" % level,
                    *table_of_variants(scores, level)))
    for told in scores.get("sensitivity", []):
        ret += tables_of_sensitivity(told)
    return ret


def print_markdown(title, heads, rows):
    print("\n**%s**\n" % title)
    print("| " + " | ".join(str(h) for h in heads) + " |")
    print("| --- |" + " ---: |" * (len(heads) - 1))
    for row in rows:
        print("| " + " | ".join(str(c) for c in row) + " |")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset", help="folder of dataset.py")
    p.add_argument("--verdicts", help="folder of methods.py")
    p.add_argument("--split", default="test", choices=("test", "dev"))
    p.add_argument("--less-slow", action="store_true", help="leave out clean time in which the "
                   "job's own steps took 10 %% longer: it was slow, and nobody did that")
    p.add_argument("--resamples", type=int, default=400, help="of the bootstrap")
    p.add_argument("--json", metavar="FILE", help="all figures")
    p.add_argument("--markdown", action="store_true", help="tables for docs/")
    args = p.parse_args()
    everything = data.read_folder(args.dataset, args.less_slow)
    runs = [r for r in everything if r.split == args.split]
    if not runs:
        raise data.Bad("%s: no run of split %s" % (args.dataset, args.split))
    scores = score(runs, sources.sources_of(everything, args.verdicts, args.split), args.resamples)
    path = os.path.join(args.verdicts or "", "sensitivity.json")
    if args.verdicts and args.split == "test" and os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            told = json.load(f)
        sources.check_digest(path, told, everything)
        scores["sensitivity"] = [told]
    print("%d runs of split %s: %d events (%d kept, weighted), %d effective episodes" % (
        scores["runs"], args.split, scores["events"], scores["events_kept"],
        scores["methods"][0]["episodes"]["all"]["effective"]))
    if args.less_slow:
        slow = sum(ms.covered(r.slow) for r in runs) / 1e9
        clean = slow + sum(ms.covered(r.clean) for r in runs) / 1e9
        print("%.0f of %.0f s without a fault are left out: the job was slow" % (slow, clean))
    for table in tables_of(scores):
        (print_markdown if args.markdown else common.print_table)(*table)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(scores, f, indent=1)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except data.Bad as e:
        sys.exit("score.py: %s" % e)
