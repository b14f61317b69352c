#!/usr/bin/env python3
"""figures.py - the paper's figures, of our data: latency over time with anomalies marked, the GPU's
state with the mixture's components, NCCL's latency, sensitivity to K and delta; and F1 of all
methods. usage: figures.py DATASET -o FOLDER [--verdicts FOLDER] [--scores FILE] [--run NAME]

SVG on white ground, which reads in print and on dark pages alike; points are embedded as a picture,
so that files stay small. Draws what is in the files and computes no score. Needs numpy and
matplotlib, for the ellipses scikit-learn too."""

import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, os.pardir, "bench"))

try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.patches import Ellipse
    from sklearn.mixture import GaussianMixture
except ImportError as missing:
    sys.exit("figures.py: %s; install Debian's python3-matplotlib and python3-sklearn" % missing)
import data
import truth

# Told apart also without colour: by shape and lightness. Hues of Okabe and Ito's palette.
NORMAL, ALARM, FAULT, BENIGN, LINE = "#3b6ea5", "#c1121f", "#f5b83d", "#9aa5b1", "#30343b"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56606b")
MARKS = "osD^v"
CHI2_95 = 5.991  # two degrees of freedom
POINTS = 6000
TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))

plt.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "eacgm", "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "sans-serif"], "font.size": 9,
    "figure.facecolor": "white", "axes.facecolor": "white", "savefig.facecolor": "white",
    "axes.edgecolor": LINE, "axes.labelcolor": LINE, "xtick.color": LINE, "ytick.color": LINE,
    "text.color": LINE, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": "#e4e7ea", "grid.linewidth": 0.6, "axes.axisbelow": True,
    "legend.frameon": False, "axes.titlesize": 10, "axes.titleweight": "bold"})


def save(figure, folder, name):
    for ending, metadata in (("svg", {"Date": None}), ("png", {})):
        if ending == "svg" or PNG:
            figure.savefig(os.path.join(folder, name + "." + ending), bbox_inches="tight",
                           dpi=150, metadata=metadata)
    plt.close(figure)
    print(os.path.join(folder, name + ".svg"))


PNG = False


# ---- over time ----

def shade(axes, run, layer, top):
    """Episodes and benign stretches; those that do not name the layer are paler."""
    for b in run.benign:
        axes.axvspan(b["start_ns"] / 1e9, b["end_ns"] / 1e9, color=BENIGN, alpha=0.25, lw=0)
    for e in run.episodes:
        mine = truth.touches(e, layer) and e["effective"]
        axes.axvspan(e["applied_ns"] / 1e9, e["released_ns"] / 1e9, color=FAULT,
                     alpha=0.45 if mine else 0.15, lw=0)
        if top:
            axes.annotate(e["cause"].replace("_", " "),
                          ((e["applied_ns"] + e["released_ns"]) / 2e9, 1.02),
                          xycoords=("data", "axes fraction"), rotation=35, fontsize=7,
                          ha="left", va="bottom")


def latency_panel(axes, run, layer, top):
    mine = np.flatnonzero(run.event_layer == truth.LAYERS.index(layer))
    mine = mine[run.event_dur[mine] > 0]
    rng = np.random.default_rng(1)
    # Each point stands for as many events as any other.
    if len(mine) > POINTS:
        p = run.event_weight[mine] / run.event_weight[mine].sum()
        mine = np.sort(rng.choice(mine, POINTS, replace=False, p=p))
    t, d = run.event_start[mine] / 1e9, run.event_dur[mine]
    alarmed = run.arrays["event_alarmed_full"][mine] == 1
    shade(axes, run, layer, top)
    axes.scatter(t[~alarmed], d[~alarmed], s=3, c=NORMAL, alpha=0.45, lw=0, rasterized=True)
    axes.scatter(t[alarmed], d[alarmed], s=14, c=ALARM, marker="x", lw=0.8, rasterized=True)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda v, _: duration(v))
    axes.set_ylabel(layer)
    axes.margins(x=0.01)


def duration(ns):
    for unit, name in TIME_UNITS:
        if ns >= unit:
            return "%g %s" % (ns / unit, name)
    return "%g ns" % ns


def legend(figure, y):
    handles = [plt.Line2D([], [], marker="o", ls="", ms=4, color=NORMAL),
               plt.Line2D([], [], marker="x", ls="", ms=6, color=ALARM),
               plt.Rectangle((0, 0), 1, 1, color=FAULT, alpha=0.45),
               plt.Rectangle((0, 0), 1, 1, color=FAULT, alpha=0.15),
               plt.Rectangle((0, 0), 1, 1, color=BENIGN, alpha=0.25)]
    figure.legend(handles, ["judged normal", "judged anomalous", "fault that touches the layer",
                            "other fault, or without effect", "benign change"],
                  loc="upper center", bbox_to_anchor=(0.5, y), ncol=5, fontsize=8)


def latency(run, layers, folder, name):
    height = 1.2 + 1.9 * len(layers)
    figure, axes = plt.subplots(len(layers), 1, figsize=(9, height), sharex=True, squeeze=False)
    figure.subplots_adjust(top=1 - 0.5 / height, bottom=0.7 / height)
    for i, layer in enumerate(layers):
        latency_panel(axes[i][0], run, layer, i == 0)
    axes[-1][0].set_xlabel("seconds of run %s" % run.name)
    figure.supylabel("duration of calls", fontsize=9, x=0.01)
    legend(figure, 0.25 / height)
    save(figure, folder, name)


# ---- hardware ----

HARDWARE = {"sm_ratio": ("GPU in use, %", 100), "memory_used_bytes": ("memory, GB", 1e-9),
            "power_w": ("power, W", 1), "temperature_celsius": ("temperature, °C", 1),
            "gpm_sm_ratio": ("multiprocessors at work, %", 100)}
PAIRS = (("sm_ratio", "power_w"), ("memory_used_bytes", "temperature_celsius"))


def of_hardware(runs):
    """Raw windows of GPUs, with units, and what was said and true of them."""
    x, alarmed, what = [], [], []
    for r in runs:
        mine = (r.row_layer == truth.LAYERS.index("hardware")) & (r.row_gpu >= 0)
        x.append(r.row_raw[mine][:, :len(HARDWARE)])
        alarmed.append(r.arrays["row_alarmed_full"][mine] == 1)
        what.append(r.row_truth[mine])
    scale = np.array([s for _, s in HARDWARE.values()])
    return np.concatenate(x) * scale, np.concatenate(alarmed), np.concatenate(what)


def ellipses(axes, x):
    """The components of a mixture of clean windows, each as far as 95 % of it reaches."""
    x = x[np.isfinite(x).all(axis=1)]
    if len(x) < 20:
        return
    centre, spread = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)
    z = (x - centre) / spread
    fits = [GaussianMixture(k, reg_covar=1e-4, n_init=2, random_state=1).fit(z)
            for k in range(1, 6)]
    best = min(fits, key=lambda f: f.bic(z))
    for mean, cov in zip(best.means_, best.covariances_):
        cov = cov * np.outer(spread, spread)
        values, vectors = np.linalg.eigh(cov)
        width, height = 2 * np.sqrt(CHI2_95 * np.maximum(values, 0))
        axes.add_patch(Ellipse(mean * spread + centre, width, height, fill=False, lw=1.3,
                               angle=float(np.degrees(np.arctan2(*vectors[::-1, 0]))), ec=LINE))


def hardware(runs, workload, folder):
    names = list(HARDWARE)
    clean = [r for r in runs if r.workload == workload and r.split == "calibration"]
    test = [r for r in runs if r.workload == workload and r.split == "test"]
    if not clean or not test:
        return
    base, _, _ = of_hardware(clean)
    x, alarmed, what = of_hardware(test)
    if not len(x):
        return
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.8))
    for axes, pair in zip(panels, PAIRS):
        at = [names.index(p) for p in pair]
        for chosen, style in (
                (~alarmed, {"c": NORMAL, "s": 8, "alpha": 0.5, "lw": 0, "label": "judged normal"}),
                (alarmed, {"c": ALARM, "s": 22, "marker": "x", "lw": 0.9,
                           "label": "judged anomalous"}),
                (what == truth.ANOMALOUS, {"s": 48, "facecolors": "none", "edgecolors": "#b07d10",
                                           "lw": 0.7, "label": "in a fault of the GPU"})):
            axes.scatter(x[chosen][:, at[0]], x[chosen][:, at[1]], rasterized=True, **style)
        ellipses(axes, base[:, at])
        axes.plot([], [], color=LINE, lw=1.3, label="components, 95 % of each")
        axes.set_xlabel(HARDWARE[pair[0]][0])
        axes.set_ylabel(HARDWARE[pair[1]][0])
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=4, fontsize=8,
                  bbox_to_anchor=(0.5, 0.0))
    figure.suptitle("GPU windows of %s, test split" % workload, fontsize=10)
    figure.tight_layout()
    save(figure, folder, "hardware")


# ---- sensitivity and methods ----

def sensitivity(path, folder):
    with open(path, encoding="utf-8") as f:
        told = json.load(f)
    figure, panels = plt.subplots(2, 2, figsize=(9, 5.2), sharey=True)
    for line, of in zip(panels, told["of"]):
        for axes, key, column, chosen in (
                (line[0], "by_components", "components", of["components"]),
                (line[1], "by_delta", "log10_delta", of["log10_delta"])):
            for name, colour, mark in zip(("accuracy", "recall", "f1"), SERIES, MARKS):
                axes.plot([p[column] for p in of[key]], [100 * p[name] for p in of[key]],
                          color=colour, marker=mark, ms=3.5, lw=1.2,
                          label={"f1": "F1"}.get(name, name))
            interval = np.array([p["f1_interval"] for p in of[key]])
            axes.fill_between([p[column] for p in of[key]], 100 * interval[:, 1],
                              100 * interval[:, 2], color=SERIES[2], alpha=0.15, lw=0,
                              label="F1, 95 %")
            axes.axvline(chosen, color=LINE, lw=0.8, ls="--")
            axes.set_ylim(-3, 103)
        title = "the paper's features" if of["features"] == "paper" else of["features"]
        line[0].set_title(title, loc="left")
        line[0].set_ylabel("%")
    panels[1][0].set_xlabel("components K")
    panels[1][1].set_xlabel("log10 of the threshold δ")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="upper center", ncol=4, fontsize=8,
                  bbox_to_anchor=(0.5, 1.04))
    figure.text(0.5, -0.01, "%s events, test split, 5 normal : 1 anomalous; dashed: chosen on the "
                "development split" % told["layer"], ha="center", fontsize=8)
    figure.tight_layout()
    save(figure, folder, "sensitivity")


def methods(path, folder):
    """F1 at event level, 5:1, of all methods by layer, the best at the top."""
    with open(path, encoding="utf-8") as f:
        scores = json.load(f)
    layers = scores["layers"]
    f1 = lambda m, layer: m["cells"]["event"]["5:1"][layer]["f1"]
    table = [(m["name"], np.array([f1(m, x) for x in layers], float)) for m in scores["methods"]
             if not m["name"].endswith(" only")]
    table.sort(key=lambda r: np.nanmean(r[1][:, 0]) if np.isfinite(r[1][:, 0]).any() else -1)
    figure, axes = plt.subplots(figsize=(9, 0.3 * len(table) + 1.2))
    for i, (name, values) in enumerate(table):
        axes.plot([0, 1], [i, i], color="#eceff1", lw=0.8, zorder=0)
    # Side by side within a line, so that equal values do not hide each other.
    shift = np.linspace(0.24, -0.24, len(layers))
    for j, (layer, colour, mark) in enumerate(zip(layers, SERIES, MARKS)):
        at = np.arange(len(table)) + shift[j]
        middle, low, high = np.array([v[j] for _, v in table]).T
        axes.hlines(at, low, high, color=colour, lw=0.9, alpha=0.6)
        axes.scatter(middle, at, s=16, c=colour, marker=mark, label=layer, lw=0)
    axes.set_yticks(range(len(table)), [n for n, _ in table])
    axes.grid(axis="y", visible=False)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.7, len(table) - 0.3)
    axes.set_xlabel("F1 at event level, 5 normal : 1 anomalous, test split; lines: 95 % intervals")
    axes.legend(ncol=len(layers), loc="lower center", bbox_to_anchor=(0.4, 1.0), fontsize=8)
    figure.tight_layout()
    save(figure, folder, "methods")


def fullest(runs, layers):
    """The test run with the most effective episodes that name one of the layers."""
    count = lambda r: sum(e["effective"] and any(truth.touches(e, x) for x in layers)
                          for e in r.episodes)
    have = [r for r in runs if r.split == "test"
            and all((r.event_layer == truth.LAYERS.index(x)).any() for x in layers[:1])]
    return max(have, key=lambda r: (count(r), r.name), default=None)


def main():
    global PNG
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset", help="folder of dataset.py")
    p.add_argument("-o", "--output", required=True, help="folder of the figures")
    p.add_argument("--verdicts", help="folder of methods.py: for sensitivity")
    p.add_argument("--scores", help="score.py --json: for the figure of all methods")
    p.add_argument("--run", help="which run is shown over time; by default the fullest")
    p.add_argument("--png", action="store_true", help="also as PNG, to look at")
    args = p.parse_args()
    PNG = args.png
    runs = data.read_folder(args.dataset)
    os.makedirs(args.output, exist_ok=True)
    chosen = [r for r in runs if args.run in (None, r.name)]
    if not chosen:
        raise data.Bad("%s: no run '%s'" % (args.dataset, args.run))
    calls = fullest(chosen, ("torch", "python", "cuda"))
    if calls:
        layers = [x for x in ("cuda", "python", "torch")
                  if (calls.event_layer == truth.LAYERS.index(x)).any()]
        latency(calls, layers, args.output, "latency")
    nccl = fullest(chosen, ("nccl",))
    if nccl:
        latency(nccl, ["nccl"], args.output, "nccl")
    workloads = [r.workload for r in runs if (r.row_layer == truth.LAYERS.index("hardware")).any()]
    for workload in sorted(set(workloads), key=workloads.count)[-1:]:
        hardware(runs, workload, args.output)
    told = os.path.join(args.verdicts, "sensitivity.json") if args.verdicts else ""
    if os.path.exists(told):
        sensitivity(told, args.output)
    if args.scores:
        methods(args.scores, args.output)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except data.Bad as e:
        sys.exit("figures.py: %s" % e)
