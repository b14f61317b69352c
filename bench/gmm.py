#!/usr/bin/env python3
"""gmm.py - mixtures beside scikit-learn: time of an iteration, rows scored a second on one core,
peak memory over the size of the data, and how far the results are apart.

Both are given the same file of rows and the same means to begin with, and take turns. The time of
an iteration is the difference between a fit of many iterations and one of a single iteration, over
the iterations between, so that reading, starting and judging are not in it. Both may use all cores;
scoring is in CPU time of one thread. Needs python3-sklearn, no root."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

import common
from common import Failed

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
KINDS = ("full", "diagonal", "tied")
MAKE = """
import sys, numpy as np
path, n, d, k = sys.argv[1], *map(int, sys.argv[2:])
rng = np.random.default_rng(n + d)
means = rng.normal(size=(k, d)) * 1.5
rows = np.empty((n, d))
of = rng.integers(0, k, size=n)
for i in range(k):
    a = rng.normal(size=(d, d)) * 0.4 + np.eye(d)
    rows[of == i] = means[i] + rng.normal(size=((of == i).sum(), d)) @ a
rows.tofile(path)
(means + 0.3).tofile(path + ".means")
"""


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("--rows", type=int, default=1000000, help="default: %(default)s")
    p.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    p.add_argument("--iterations", type=int, default=20, help="of eacgm (default: %(default)s)")
    p.add_argument("--sklearn-iterations", type=int, default=3, help="default: %(default)s")
    p.add_argument("--blas", metavar="FOLDER", help="libblas.so.3 and liblapack.so.3 for "
                   "scikit-learn, e.g. those of OpenBLAS (default: the system's)")
    p.add_argument("--limit", type=int, default=600, help="seconds that one run may take")
    args = p.parse_args()
    args.eacgm = os.path.join(args.build, "eacgm")
    args.gmm_bench = os.path.join(args.build, "bench", "gmm_bench")
    return args


class Data:
    """Rows in a file, and the two programs on them."""

    def __init__(self, args, folder, d, k):
        self.args, self.n, self.d, self.k = args, args.rows, d, k
        self.path = os.path.join(folder, "rows_%d_%d" % (d, k))
        common.run([PYTHON, "-c", MAKE, self.path, self.n, d, k], args.limit)
        self.bytes = self.n * d * 8

    def _shape(self, what, kind):
        return [what, self.path, self.n, self.d, self.k, kind]

    def eacgm(self, what, kind, iterations, *more, means=True):
        start = ["means=" + self.path + ".means"] if means else ["seed=1"]
        return common.json.loads(common.run(
            [self.args.gmm_bench, *self._shape(what, kind), *start, "tolerance=1e-300",
             "iterations=%d" % iterations, *more], self.args.limit).out)

    def sklearn(self, what, kind, iterations):
        env = {"LD_LIBRARY_PATH": self.args.blas} if self.args.blas else {}
        return common.json.loads(common.run(
            [PYTHON, os.path.join(HERE, "gmm_sklearn.py"), *self._shape(what, kind),
             self.path + ".means", iterations], self.args.limit, env).out)


def per_iteration_ms(fit, more):
    one, many = fit(1), fit(1 + more)
    if many["iterations"] != 1 + more:
        raise Failed("a fit ended after %d iterations" % many["iterations"])
    return (many["seconds"] - one["seconds"]) / more * 1e3, many


def apart(a, b, d):
    """The largest relative differences; covariances in units of the two deviations."""
    deviation = [b["covariances"][i * d * d + j * (d + 1)] ** 0.5
                 for i in range(len(b["weights"])) for j in range(d)]
    means = max(abs(x - y) / max(abs(y), s)
                for x, y, s in zip(a["means"], b["means"], deviation))
    covariances = max(abs(x - y) / (deviation[i // (d * d) * d + i // d % d] *
                                    deviation[i // (d * d) * d + i % d])
                      for i, (x, y) in enumerate(zip(a["covariances"], b["covariances"])))
    return {"log_density": abs(a["log_density"] / b["log_density"] - 1),
            "weights": max(abs(x / y - 1) for x, y in zip(a["weights"], b["weights"])),
            "means": means, "covariances": covariances}


def fits(args, data):
    rows = []
    for kind in KINDS:
        ours, theirs, ratios = [], [], []
        for i in range(args.rounds):
            common.say("%s, round %d of %d" % (kind, i + 1, args.rounds))
            sides = [lambda: per_iteration_ms(lambda n: data.eacgm("fit", kind, n),
                                              args.iterations),
                     lambda: per_iteration_ms(lambda n: data.sklearn("fit", kind, n),
                                              args.sklearn_iterations)]
            made = [None, None]
            for side in ((0, 1), (1, 0))[i % 2]:
                made[side] = sides[side]()
            ours.append(made[0][0])
            theirs.append(made[1][0])
            ratios.append(theirs[-1] / ours[-1])
        fit = made[1][1]
        same = data.eacgm("fit", kind, 1 + args.sklearn_iterations)
        seeded = data.eacgm("fit", kind, 2, means=False)
        rows.append({"covariance": kind, "ms": common.interval(ours),
                     "sklearn_ms": common.interval(theirs), "ratio": common.interval(ratios),
                     "memory_ratio": same["peak_bytes"] / data.bytes,
                     "memory_ratio_seeded": seeded["peak_bytes"] / data.bytes,
                     "sklearn_memory_ratio": fit["peak_bytes"] / data.bytes,
                     "apart": apart(same, fit, data.d)})
    return rows, {"sklearn": fit["sklearn"], "numpy": fit["numpy"],
                  "blas": [p.get("internal_api") for p in fit["pools"]
                           if p.get("user_api") == "blas"] or ["reference"],
                  "threads": [p.get("num_threads") for p in fit["pools"]]}


def scores(args, data):
    made = {"eacgm": [], "sklearn": []}
    for i in range(args.rounds):
        common.say("scoring, round %d of %d" % (i + 1, args.rounds))
        made["eacgm"].append(data.eacgm("score", "full", 3, "repeats=20"))
        made["sklearn"].append(data.sklearn("score", "full", 3))
    rows = []
    for key, name in (("likeliest_per_s", "likeliest component (Algorithm 2)"),
                      ("log_density_per_s", "log density of the mixture")):
        ours, theirs = ([r[key] for r in made[side]] for side in ("eacgm", "sklearn"))
        rows.append({"what": name, "per_s": common.interval(ours),
                     "sklearn_per_s": common.interval(theirs),
                     "ratio": common.interval([a / b for a, b in zip(ours, theirs)])})
    return rows


def show(args, rows, scored, library):
    common.print_table(
        "%d rows of 8 columns, 8 components; scikit-learn %s, BLAS: %s" % (
            args.rows, library["sklearn"], ", ".join(library["blas"])),
        ["covariance", "ms an iteration", "scikit-learn", "times faster (95 %)", "memory / data",
         "from k-means++", "scikit-learn", "apart: density", "weights", "means", "covariances"],
        [[r["covariance"], "%.1f" % r["ms"]["median"], "%.0f" % r["sklearn_ms"]["median"],
          "%.1f (%.1f .. %.1f)" % tuple(r["ratio"][x] for x in ("median", "low", "high")),
          "%.2f" % r["memory_ratio"], "%.2f" % r["memory_ratio_seeded"],
          "%.1f" % r["sklearn_memory_ratio"],
          *("%.0e" % r["apart"][x] for x in ("log_density", "weights", "means", "covariances"))]
         for r in rows])
    common.print_table(
        "%d rows of 4 columns, 4 components, full: millions a second on one core" % args.rows,
        ["score", "eacgm", "scikit-learn", "times faster (95 %)"],
        [[r["what"], "%.1f" % (r["per_s"]["median"] / 1e6),
          "%.1f" % (r["sklearn_per_s"]["median"] / 1e6),
          "%.1f (%.1f .. %.1f)" % tuple(r["ratio"][x] for x in ("median", "low", "high"))]
         for r in scored])


def main():
    args = arguments()
    if subprocess.call([PYTHON, "-c", "import sklearn.mixture, threadpoolctl"],
                       stderr=subprocess.DEVNULL):
        print("gmm.py: skipped: needs python3-sklearn, which %s has not" % PYTHON)
        return 0
    results = common.Results("gmm", args.eacgm, {
        x: getattr(args, x) for x in ("rows", "rounds", "iterations", "sklearn_iterations")})
    folder = tempfile.mkdtemp(prefix="gmm_bench.")
    try:
        rows, library = fits(args, Data(args, folder, 8, 8))
        scored = scores(args, Data(args, folder, 4, 4))
    except Failed as e:
        common.said()
        print("gmm.py: %s" % e, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder)
    common.said()
    show(args, rows, scored, library)
    results["library"], results["fits"], results["scores"] = library, rows, scored
    results.write(args.json)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
