#!/usr/bin/env python3
"""methods.py - what others would have said: the paper's mixture, the same mixture on our features,
clustering, forests, boosting, support vectors, three sigma. usage: methods.py DATASET -o VERDICTS

All get what eacgm gets, and more: those without labels are fitted on the same calibration runs,
workload by workload, and have their settings and threshold chosen on the labels of the development
split; those with labels are trained on them. The test split is only judged. score.py --verdicts
scores what is written. Needs numpy, scikit-learn 1.2 and xgboost 1.7, in this folder only.

Features:
  raw   of an event its duration and the number of its function (the paper's mixture: the duration
        alone, of NCCL also bytes per second); of a window rate, mean, median, p99 and longest, of
        a GPU utilisation, memory, power, temperature, multiprocessors at work
  ours  of an event its z and that of the gap before it, and its window's features; of a window its
        features (src/detect/features.c)"""

import argparse
import json
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, os.pardir, "bench"))

import common

# Threads that wait without spinning: on a busy machine they are many times faster.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

try:
    import numpy as np
    import xgboost
    from sklearn.cluster import DBSCAN, KMeans
    from sklearn.ensemble import IsolationForest, RandomForestClassifier
    from sklearn.mixture import GaussianMixture
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC
except ImportError as missing:
    sys.exit("methods.py: %s; install Debian's python3-sklearn and python3-xgboost" % missing)
import data
import measures
import sources
import truth
from score import unit_counts

TRAIN_MOST = 20000
COMPONENTS = (1, 2, 3, 4, 6, 8)
Z_MOST = 12.0  # src/detect/baseline.h
ALARMS_PER_HOUR = 1.0


# ---- features ----

def events_bytes(run, mine):
    """Bytes of collectives, by the bucket in their key; NaN where it has none."""
    found = [re.search(r" 2\^(\d+) ", k) for k in run.meta["keys"]]
    of_key = np.array([2.0 ** int(m.group(1)) if m else np.nan for m in found] or [np.nan])
    return of_key[run.event_key[mine]]


def number_functions(runs):
    """Gives each run function_of_key: the same number for a function in every run."""
    function = lambda key: re.sub(r"( 2\^\d+.*| \[.*)$", "", key)
    names = sorted({function(k) for r in runs for k in r.meta["keys"]})
    place = {n: i for i, n in enumerate(names)}
    for r in runs:
        r.function_of_key = np.array([place[function(k)] for k in r.meta["keys"]] or [0])


def finite(x):
    return np.nan_to_num(np.asarray(x, np.float64), nan=0.0, posinf=1e30, neginf=-1e30)


def event_features(run, layer, mine, kind):
    dur = run.event_dur[mine].astype(np.float64)
    if kind == "paper":
        return finite(np.column_stack([dur, events_bytes(run, mine) / np.maximum(dur, 1) * 1e9])
                      if layer == "nccl" else dur[:, None])
    if kind == "raw":
        return finite(np.column_stack([dur, run.function_of_key[run.event_key[mine]]]))
    window = run.event_row[mine]
    n = len(run.meta["features"].get(layer, []))
    x = np.where(window[:, None] >= 0, run.row_x[np.maximum(window, 0), :n], 0) \
        if len(run.row_x) else np.zeros((len(window), n))
    own = np.column_stack([run.event_z[mine], run.event_gap_z[mine]])
    return np.clip(finite(np.column_stack([own, x])), -Z_MOST, Z_MOST)


def window_features(run, layer, mine, kind):
    if kind == "ours":
        n = len(run.meta["features"].get(layer, []))
        return np.clip(finite(run.row_x[mine][:, :n]), -Z_MOST, Z_MOST)
    return finite(run.row_raw[mine])


class Part:
    """The samples of one layer of one run at one level."""

    def __init__(self, run, layer, level, kind):
        self.run, self.name = run, run.name
        self.split, self.workload = run.split, run.workload
        number = truth.LAYERS.index(layer)
        if level == "event":
            self.at = np.flatnonzero(run.event_layer == number)
            self.x = event_features(run, layer, self.at, kind)
            self.what, self.weight = run.event_truth[self.at], run.event_weight[self.at]
            self.unit = run.event_unit[self.at]
        else:
            self.at = np.flatnonzero(run.row_layer == number)
            self.x = window_features(run, layer, self.at, kind)
            self.what, self.weight = run.row_truth[self.at], np.ones(len(self.at))
            self.unit = run.row_unit[self.at]


def parts_of(runs, layer, level, kind):
    """Of the runs that have the layer: without ranks there is no nccl."""
    return [Part(r, layer, level, kind) for r in runs if layer in r.meta["features"]]


def joined(parts):
    """x, what, weight, number of the part."""
    if not parts:
        return (np.empty((0, 1)), np.empty(0, np.int8), np.empty(0), np.empty(0, int))
    return (np.concatenate([p.x for p in parts]), np.concatenate([p.what for p in parts]),
            np.concatenate([p.weight for p in parts]).astype(np.float64),
            np.concatenate([np.full(len(p.at), i) for i, p in enumerate(parts)]))


def drawn(x, weight, most, seed):
    """As if so many had been drawn from all that the samples stand for."""
    if not len(x):
        return x
    rng = np.random.default_rng(seed)
    if len(x) <= most and np.ptp(weight) == 0:
        return x
    return x[rng.choice(len(x), size=min(most, len(x)), p=weight / weight.sum())]


def at_rate(what, weight, rate):
    """Weights at a rate; 0 of what is left out."""
    weight = np.where(what >= 0, weight, 0.0)
    normal = sources.RATES[rate]
    if normal:
        a, n = (weight[what == k].sum() for k in (truth.ANOMALOUS, truth.NORMAL))
        weight = np.where(what == truth.ANOMALOUS, weight / max(a, 1e-300),
                          weight * normal / max(n, 1e-300))
    return weight


def best_threshold(score, what, weight, rate):
    """(F1, threshold) where F1 is highest; alarmed is what scores at least the threshold. None
    where a class is missing."""
    good = (what >= 0) & np.isfinite(score)
    score, what = score[good], what[good]
    w = at_rate(what, weight[good], rate)
    if not (what == truth.ANOMALOUS).any() or not (what == truth.NORMAL).any():
        return None
    order = np.argsort(-score, kind="stable")
    score, w, hit = score[order], w[order], what[order] == truth.ANOMALOUS
    tp, alarmed = np.cumsum(w * hit), np.cumsum(w)
    f1 = 2 * tp / (alarmed + (w * hit).sum())
    f1[:-1][score[:-1] == score[1:]] = -1  # equal scores are alarmed together
    best = int(np.argmax(f1))
    return float(f1[best]), float(score[best])


# ---- methods: fit(x), score(x): the higher the less normal ----

class Mixture:
    """max_k of the components' densities, as in Algorithm 2 of the paper: delta is exp(-score)."""
    settings = COMPONENTS

    def fit(self, x, components):
        distinct = len(np.unique(x[:2000], axis=0))
        self.gmm = GaussianMixture(min(components, distinct), reg_covar=1e-6, n_init=1,
                                   max_iter=100, random_state=1)
        # Columns differ by ten decades, which rounding would not survive. Densities change by one
        # constant factor, so that a threshold on them stays a threshold on the raw density.
        self.scale = StandardScaler().fit(x)
        self.gmm.fit(self.scale.transform(x))

    def score(self, x):
        z = self.scale.transform(x)
        precisions = self.gmm.precisions_cholesky_
        best = np.full(len(z), -np.inf)
        for mean, chol in zip(self.gmm.means_, precisions):
            y = z @ chol - mean @ chol
            log_peak = np.log(np.diag(chol)).sum() - 0.5 * z.shape[1] * np.log(2 * np.pi)
            best = np.maximum(best, log_peak - 0.5 * (y * y).sum(axis=1))
        return -best


class Means:
    """Distance to the nearest mean."""
    settings = (1, 2, 4, 8, 16)

    def fit(self, x, clusters):
        self.scale = StandardScaler().fit(x)
        z = self.scale.transform(x)
        clusters = min(clusters, len(np.unique(z[:2000], axis=0)))
        self.means = KMeans(clusters, n_init=2, random_state=1).fit(z).cluster_centers_

    def score(self, x):
        z = self.scale.transform(x)
        best = np.full(len(z), np.inf)
        for m in self.means:
            best = np.minimum(best, ((z - m) ** 2).sum(axis=1))
        return np.sqrt(best)


class Forest:
    settings = (100,)

    def fit(self, x, trees):
        self.forest = IsolationForest(n_estimators=trees, random_state=1).fit(x)

    def score(self, x):
        return -self.forest.score_samples(x)


class Neighbourhoods:
    """DBSCAN: distance to the nearest core point. settings: eps as a quantile of the distances to
    the tenth neighbour."""
    settings = (0.5, 0.9, 0.99)
    most = 4000

    def fit(self, x, q):
        self.scale = StandardScaler().fit(x)
        z = self.scale.transform(x[:self.most])
        tenth = NearestNeighbors(n_neighbors=min(10, len(z))).fit(z).kneighbors(z)[0][:, -1]
        eps = max(float(np.quantile(tenth, q)), 1e-9)
        core = DBSCAN(eps=eps, min_samples=10).fit(z).core_sample_indices_
        self.near = NearestNeighbors(n_neighbors=1).fit(np.unique(z[core] if len(core) else z,
                                                                  axis=0))

    def score(self, x):
        return self.near.kneighbors(self.scale.transform(x))[0][:, 0]


class Sigmas:
    """Standard deviations from the mean, of the column where they are most. The threshold is 3."""
    settings = (3.0,)

    def fit(self, x, _):
        self.mean, self.sd = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-12)

    def score(self, x):
        return np.abs((x - self.mean) / self.sd).max(axis=1)


class Trees:
    def fit(self, x, y, weight):
        self.model = RandomForestClassifier(n_estimators=100, min_samples_leaf=3, n_jobs=2,
                                            random_state=1)
        self.model.fit(x, y, sample_weight=weight)

    def score(self, x):
        return self.model.predict_proba(x)[:, 1]


class Boosting(Trees):
    def fit(self, x, y, weight):
        self.model = xgboost.XGBClassifier(n_estimators=150, max_depth=6, tree_method="hist",
                                           n_jobs=2, random_state=1)
        self.model.fit(x, y, sample_weight=weight * len(weight) / weight.sum())


class Vectors:
    """A support vector machine with a radial kernel, of as many samples as can be afforded."""
    most = 3000

    def fit(self, x, y, weight):
        rng = np.random.default_rng(1)
        at = rng.choice(len(x), size=min(self.most, len(x)), replace=False)
        at = np.concatenate([at, np.flatnonzero(y == 0)[:1], np.flatnonzero(y == 1)[:1]])
        self.scale = StandardScaler().fit(x)
        weight = weight[at] * len(at) / weight[at].sum()
        self.model = SVC(kernel="rbf", cache_size=500).fit(self.scale.transform(x[at]), y[at],
                                                           sample_weight=weight)

    def score(self, x):
        z = self.scale.transform(x)
        return np.concatenate([self.model.decision_function(z[i:i + 100000])
                               for i in range(0, len(z), 100000)] or [np.empty(0)])


# ---- how they are fitted ----

class Unsupervised:
    """One model for each workload, of its calibration runs; or, as the paper does, of the very data
    that is judged ("recent"), at 5:1."""

    def __init__(self, kind, recent=False):
        self.kind, self.recent = kind, recent
        self.chosen = None

    def training(self, parts, of):
        if self.recent:
            mine = [p for p in parts if p.split == of.split and p.workload == of.workload]
            x, what, weight, _ = joined(mine)
            weight = at_rate(what, weight, "5:1")
        else:
            mine = [p for p in parts if p.split == "calibration" and p.workload == of.workload]
            x, what, weight, _ = joined(mine)
            weight = np.where(what == truth.NORMAL, weight, 0.0)
        good = weight > 0
        return drawn(x[good], weight[good], TRAIN_MOST, 1)

    def scores(self, parts, setting, judged):
        """[score] of each part; NaN where there was nothing to learn from."""
        models, ret = {}, []
        for p in judged:
            key = (p.split if self.recent else "", p.workload)
            if key not in models:
                x = self.training(parts, p)
                models[key] = self.kind() if len(x) >= 10 else None
                if models[key]:
                    models[key].fit(x, setting)
            ret.append(models[key].score(p.x) if models[key] and len(p.x)
                       else np.full(len(p.x), np.nan))
        return ret

    def run(self, parts):
        """(scores of dev parts, scores of test parts, the setting)."""
        dev, test = ([p for p in parts if p.split == s] for s in ("dev", "test"))
        best = None
        for setting in self.kind.settings:
            scores = self.scores(parts, setting, dev)
            _, what, weight, _ = joined(dev)
            got = best_threshold(np.concatenate(scores or [np.empty(0)]), what, weight, "5:1")
            if best is None or (got and got[0] > best[0]):
                best = (got[0] if got else -1.0, setting, scores)
        return best[2], self.scores(parts, best[1], test), best[1]


class Supervised:
    """Trained on the development split; dev scores are out of fold, by episodes and pieces of
    normal time, so that the threshold is not chosen on what was learned by heart."""
    folds = 4

    def __init__(self, kind):
        self.kind = kind

    def trained(self, x, what, weight):
        weight = at_rate(what, weight, "5:1")
        good = weight > 0
        x, what, weight = x[good], what[good], weight[good]
        if len(np.unique(what)) < 2:
            return None
        if len(x) > 4 * TRAIN_MOST:
            at = np.random.default_rng(1).choice(len(x), size=4 * TRAIN_MOST, replace=False)
            x, what, weight = x[at], what[at], weight[at]
        model = self.kind()
        model.fit(x, what, weight)
        return model

    def run(self, parts):
        dev, test = ([p for p in parts if p.split == s] for s in ("dev", "test"))
        x, what, weight, of = joined(dev)
        fold = (np.concatenate([p.unit for p in dev] or [np.empty(0, int)]) + of) % self.folds
        out = np.full(len(x), np.nan)
        for f in range(self.folds):
            mine = fold == f
            model = self.trained(x[~mine], what[~mine], weight[~mine])
            if model and mine.any():
                out[mine] = model.score(x[mine])
        model = self.trained(x, what, weight)
        of_test = [model.score(p.x) if model and len(p.x) else np.full(len(p.x), np.nan)
                   for p in test]
        return [out[of == i] for i in range(len(dev))], of_test, None


METHODS = [
    ("paper GMM", "pooled raw features, recent data, K and delta on dev", "paper",
     Unsupervised(Mixture, recent=True)),
    ("paper GMM, clean", "the same, fitted on calibration runs", "paper", Unsupervised(Mixture)),
    ("GMM, our features", "the paper's mixture on our features", "ours", Unsupervised(Mixture)),
]
for _kind in ("raw", "ours"):
    _of = "raw" if _kind == "raw" else "our features"
    METHODS += [("%s, %s" % (_name, _of), _about, _kind, _how) for _name, _about, _how in (
        ("3 sigma", "pooled, threshold 3", Unsupervised(Sigmas)),
        ("KMeans", "distance to the nearest mean", Unsupervised(Means)),
        ("Isolation Forest", "100 trees", Unsupervised(Forest)),
        ("DBSCAN", "distance to the nearest core point", Unsupervised(Neighbourhoods)),
        ("XGBoost", "trained on dev labels", Supervised(Boosting)),
        ("SVM", "radial kernel, trained on dev labels", Supervised(Vectors)),
        ("Random Forest", "trained on dev labels", Supervised(Trees)))]


# ---- judging ----

def strict_threshold(parts, scores, layers):
    """Where dev has no more false windows than its share of ALARMS_PER_HOUR."""
    normal = np.concatenate([s[p.what == truth.NORMAL] for p, s in zip(parts, scores)]
                            or [np.empty(0)])
    normal = np.sort(normal[np.isfinite(normal)])[::-1]
    hours = sum(measures.covered(p.run.clean) for p in parts) / 3.6e12
    allowed = int(ALARMS_PER_HOUR * hours / layers)
    if len(normal) <= allowed:
        return -np.inf
    return float(np.nextafter(normal[allowed], np.inf))


def judge(method, parts, level, layers, bits):
    """Sets the bits of the dev and test parts; returns what was chosen."""
    dev, test = ([p for p in parts if p.split == s] for s in ("dev", "test"))
    of_dev, of_test, setting = method.run(parts)
    _, what, weight, _ = joined(dev)
    pooled = np.concatenate(of_dev or [np.empty(0)])
    chosen = {"setting": setting}
    fixed = 3.0 if getattr(method, "kind", None) is Sigmas else None
    for bit, rate in enumerate(("natural", "5:1")):
        got = best_threshold(pooled, what, weight, rate)
        threshold = fixed or (got[1] if got else np.inf)
        chosen[rate] = threshold
        for p, s in zip(dev + test, of_dev + of_test):
            bits[p.name][p.at] |= ((s >= threshold) << bit).astype(np.uint8)
    if level == "window":
        chosen["strict"] = fixed or strict_threshold(dev, of_dev, layers)
        for p, s in zip(dev + test, of_dev + of_test):
            bits[p.name][p.at] |= ((s >= chosen["strict"]) << 2).astype(np.uint8)
    return chosen


def verdicts_of(runs, layers, kind, method):
    """({run: (event bits, row bits)}, what was chosen)."""
    events = {r.name: np.zeros(len(r.event_start), np.uint8) for r in runs}
    rows = {r.name: np.zeros(len(r.row_start), np.uint8) for r in runs}
    chosen = {}
    for layer in layers:
        for level, bits in (("event", events), ("window", rows)):
            if level == "event" and layer not in truth.CALLS:
                continue
            parts = parts_of(runs, layer, level, kind)
            chosen[layer + "/" + level] = judge(method, parts, level, len(layers), bits)
    return {r.name: (events[r.name], rows[r.name]) for r in runs}, chosen


# ---- sensitivity ----

def sensitivity(runs, layer):
    """Accuracy, recall and F1 on the test split at 5:1 by the number of components, with delta from
    dev, and by delta with K from dev: of the paper's features and of ours."""
    ret = []
    for name, kind, recent in (("paper", "paper", True), ("our features", "ours", False)):
        parts = parts_of(runs, layer, "event", kind)
        dev, test = ([p for p in parts if p.split == s] for s in ("dev", "test"))
        if not dev or not test:
            continue
        _, dev_what, dev_weight, _ = joined(dev)
        method = Unsupervised(Mixture, recent)
        of = lambda score, threshold: measures_at(test, score, threshold)
        by_k, best = [], None
        for k in range(1, 13):
            d = np.concatenate(method.scores(parts, k, dev))
            t = method.scores(parts, k, test)
            got = best_threshold(d, dev_what, dev_weight, "5:1")
            if got is None:
                raise data.Bad("no anomalous sample of %s on the dev split" % layer)
            by_k.append(dict(of(t, got[1]), components=k))
            if best is None or got[0] > best[0]:
                best = (got[0], k, got[1], t)
        spread = np.concatenate(best[3])
        spread = spread[np.isfinite(spread)]
        # From where nearly everything is alarmed to where next to nothing is, at least three times
        # as far beyond what was chosen.
        low, high = np.quantile(spread, (0.05, 0.98))
        low = min(low, best[2])
        high = max(best[2] + 3 * (best[2] - low), high, low + 1e-6)
        by_delta = [dict(of(best[3], t), log10_delta=float(-t / np.log(10)))
                    for t in np.linspace(low, high, 40)]
        ret.append({"features": name, "components": best[1], "by_components": by_k,
                    "log10_delta": float(-best[2] / np.log(10)), "by_delta": by_delta})
    return {"layer": layer, "of": ret}


def measures_at(parts, scores, threshold):
    """At 5:1, with the interval of F1 by episodes and pieces of normal time."""
    units = []
    for p, s in zip(parts, scores):
        units += unit_counts(p.what, p.unit, p.weight.astype(np.float64), s >= threshold)
    got = measures.with_intervals(units, 5, 200)
    return {"accuracy": got["accuracy"][0], "recall": got["recall"][0], "f1": got["f1"][0],
            "f1_interval": got["f1"]}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset", help="folder of dataset.py")
    p.add_argument("-o", "--output", required=True, help="folder of verdicts")
    p.add_argument("--only", help="methods whose name contains it")
    p.add_argument("--less-slow", action="store_true", help="as score.py; in what is learned from, "
                   "too")
    p.add_argument("--sensitivity", default="nccl", metavar="LAYER",
                   help="of which K and delta are tried (default %(default)s; none: '')")
    args = p.parse_args()
    runs = data.read_folder(args.dataset, args.less_slow)
    number_functions(runs)
    for split in ("calibration", "dev", "test"):
        if not any(r.split == split for r in runs):
            raise data.Bad("%s: no run of split %s" % (args.dataset, split))
    layers = [x for x in truth.SCORED
              if any((r.row_layer == truth.LAYERS.index(x)).any() for r in runs)]
    os.makedirs(args.output, exist_ok=True)
    for order, (name, about, kind, method) in enumerate(METHODS):
        if args.only and args.only not in name:
            continue
        common.say(name)
        began = time.monotonic()
        by_run, chosen = verdicts_of(runs, layers, kind, method)
        path = os.path.join(args.output, re.sub(r"[^a-z0-9]+", "-", name.lower()) + ".npz")
        sources.write_verdicts(path, {"name": name, "about": about, "order": order,
                                      "digest": data.digest(runs), "chosen": chosen}, by_run)
        common.said()
        print("%-32s %6.1f s  %s" % (name, time.monotonic() - began, path), flush=True)
    if args.sensitivity in layers and not args.only:
        with open(os.path.join(args.output, "sensitivity.json"), "w", encoding="utf-8") as f:
            json.dump(dict(sensitivity(runs, args.sensitivity), digest=data.digest(runs)), f,
                      indent=1)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except data.Bad as e:
        sys.exit("methods.py: %s" % e)
