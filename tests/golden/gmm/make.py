#!/usr/bin/env python3
"""make.py - writes the data sets of tests/unit/gmm_sklearn_test.c with what scikit-learn makes of
them: NAME.json beside this file. Needs python3-sklearn, only to write them anew. usage: make.py

Each set is fitted with full, diagonal and tied covariance from given means: rows go to their
nearest mean, weights and covariances of these groups are passed as weights_init and
precisions_init, the means themselves as means_init. For the full kind, BIC chooses the number of
components among 1..MOST. Data are rounded, so that files are small and every reader gets the same
numbers."""

import json
import os
import warnings

import numpy as np
import sklearn
from sklearn.mixture import GaussianMixture

FOLDER = os.path.dirname(os.path.abspath(__file__))
KINDS = {"full": "full", "diagonal": "diag", "tied": "tied"}
TOLERANCE, MOST = 1e-6, 5
FLOOR = {"duplicates": 0.1}  # rows are integers there; 1e-6 else
DIGITS = {"distant": 8, "wide": 4}  # significant ones of the rows; 6 else


def blobs(rng, n, means, spreads, shares=None):
    """n rows of Gaussians; a spread is a matrix by which standard normal rows are multiplied."""
    means = np.asarray(means, float)
    groups = rng.choice(len(means), size=n, p=shares)
    noise = rng.normal(size=(n, means.shape[1]))
    return np.stack([means[g] + noise[i] @ spreads[g] for i, g in enumerate(groups)])


def turned(rng, scales):
    """A spread with these standard deviations along random orthogonal directions."""
    q, _ = np.linalg.qr(rng.normal(size=(len(scales), len(scales))))
    return np.diag(scales) @ q


def sets(rng):
    """name: rows, means to begin with."""
    one = [np.eye(2)] * 3
    corners = [[0, 0], [6, 1], [2, 7]]
    yield "apart", blobs(rng, 240, corners, one), np.array(corners) + 0.5
    near = [[0, 0, 0], [1.5, 0, 0], [0, 2, 1]]
    yield "overlapping", blobs(rng, 300, near, [turned(rng, [1, 0.5, 0.8]) for _ in near]), near
    columns = 10.0 ** np.array([-2, 0, 3, 6])
    far = np.array([[0, 0, 0, 0], [5, 5, 0, 1], [0, 6, 6, 2]])
    yield "scales", blobs(rng, 240, far, [np.eye(4)] * 3) * columns, (far + 0.3) * columns
    yield "offset", blobs(rng, 240, near, [np.eye(3) / 3] * 3) + 300, np.array(near) + 300.1
    line = np.array([[1, 1, 1], [0, 1e-3, 1], [0, 0, 1e-3]])
    yield "collinear", blobs(rng, 200, [[0, 0, 0], [4, 4, 8]], [line, line]), [[0, 0, 0], [3, 3, 6]]
    needles = [turned(rng, [1e2, 1, 1e-1, 1e-2]) for _ in range(2)]
    yield ("needles", blobs(rng, 240, [[0, 0, 0, 0], [300, -200, 100, 50]], needles),
           [[1, 0, 1, 0], [250, -150, 80, 40]])
    steps = np.round(blobs(rng, 300, [[0, 0, 5], [4, 4, 5]], [np.diag([1, 1, 0])] * 2))
    yield "duplicates", steps, [[0, 0, 5], [4, 3, 5]]
    yield ("uneven", blobs(rng, 400, [[0, 0], [9, 0], [0, 9]], one, [0.9, 0.07, 0.03]),
           [[0, 0], [8, 0], [0, 8]])
    wide = rng.normal(size=(2, 16)) * 6
    yield ("wide", blobs(rng, 160, wide, [turned(rng, np.linspace(0.3, 2, 16))] * 2),
           np.round(wide, 1))
    yield ("line", blobs(rng, 400, [[0], [9], [14]], [np.eye(1) * s for s in (3, 1, 1)]),
           [[1.0], [5.0], [18.0]])
    distant = [[0, 0], [2e3, 0], [0, 2e3]]
    yield "distant", blobs(rng, 200, distant, one), np.array(distant) + 1.0


def fit(rows, means, kind, least):
    means = np.asarray(means, float)
    k, d = means.shape
    near = ((rows[:, None] - means[None]) ** 2).sum(2).argmin(1)
    groups = np.eye(k)[near]
    count = groups.sum(0)
    own = (groups.T @ rows) / count[:, None]
    apart = [(rows - own[i]) for i in range(k)]
    covariances = [(groups[:, i, None] * x).T @ x / count[i] for i, x in enumerate(apart)]
    floor = np.eye(d) * least
    if kind == "tied":
        together = sum(c * s for c, s in zip(count, covariances)) / len(rows)
        precisions = np.linalg.inv(together + floor)
    elif kind == "diagonal":
        precisions = np.array([1 / np.diag(c + floor) for c in covariances])
    else:
        precisions = np.array([np.linalg.inv(c + floor) for c in covariances])
    g = GaussianMixture(k, covariance_type=KINDS[kind], reg_covar=least, tol=TOLERANCE,
                        max_iter=300, weights_init=count / count.sum(), means_init=means,
                        precisions_init=precisions).fit(rows)
    full = {"full": lambda c: c, "tied": lambda c: np.array([c] * k),
            "diagonal": lambda c: np.array([np.diag(v) for v in c])}[kind](g.covariances_)
    return {"weights": g.weights_.tolist(), "means": g.means_.ravel().tolist(),
            "covariances": full.ravel().tolist(), "log_density": g.score(rows),
            "bic": g.bic(rows), "iterations": g.n_iter_, "converged": bool(g.converged_)}


def bics(rows, least):
    return [GaussianMixture(k, n_init=30, reg_covar=least, tol=TOLERANCE, max_iter=300,
                            random_state=0).fit(rows).bic(rows) for k in range(1, MOST + 1)]


def main():
    warnings.simplefilter("ignore")  # what does not converge in time says so in the file
    for name, rows, means in sets(np.random.default_rng(2025)):
        number = "%%.%dg" % DIGITS.get(name, 6)
        rows = np.array([[float(number % x) for x in row] for row in rows])
        means = np.asarray(means, float)
        least = FLOOR.get(name, 1e-6)
        data = {"sklearn": sklearn.__version__, "d": rows.shape[1], "components": len(means),
                "tolerance": TOLERANCE, "floor": least, "means": means.ravel().tolist(),
                "bics": bics(rows, least),
                "kinds": {kind: fit(rows, means, kind, least) for kind in KINDS}}
        text = json.dumps(data, indent=1)[:-2] + ',\n "rows": [\n'
        lines = ("[%s]" % ", ".join(number % x for x in row) for row in rows)
        text += ",\n".join(lines) + "\n ]\n}\n"
        with open(os.path.join(FOLDER, name + ".json"), "w") as f:
            f.write(text)
        chosen = min(range(MOST), key=lambda i: data["bics"][i]) + 1
        print("%-12s %d x %d, %d bytes; iterations %s; BIC chooses %d of %s" % (
            name, *rows.shape, len(text), [v["iterations"] for v in data["kinds"].values()],
            chosen, np.round(data["bics"], 1)))


if __name__ == "__main__":
    main()
