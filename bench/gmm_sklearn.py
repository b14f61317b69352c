#!/usr/bin/env python3
"""gmm_sklearn.py - does with scikit-learn what gmm_bench does, on the same files, and prints the
same line of JSON. Run by gmm.py.

usage: gmm_sklearn.py fit|score ROWS N D K full|diagonal|tied MEANS ITERATIONS

The fit begins where eacgm's does: rows go to their nearest mean, weights and covariances are those
of the groups. score: one thread's CPU time, after ITERATIONS iterations."""

import json
import resource
import sys
import time
import warnings

import numpy as np
import sklearn
import threadpoolctl
from sklearn.mixture import GaussianMixture

KINDS = {"full": "full", "diagonal": "diag", "tied": "tied"}
CHUNK = 20000


def responsibilities(rows, means):
    near = np.concatenate([((rows[i:i + CHUNK, None] - means[None]) ** 2).sum(2).argmin(1)
                           for i in range(0, len(rows), CHUNK)])
    return np.eye(len(means))[near]


class FromMeans(GaussianMixture):
    """Starts with the groups around means_init instead of with k-means."""

    def _initialize_parameters(self, X, *rest, **named):
        self._initialize(X, responsibilities(X, self.means_init))


def matrices(g):
    c, k = g.covariances_, g.n_components
    if g.covariance_type == "tied":
        c = np.array([c] * k)
    elif g.covariance_type == "diag":
        c = np.array([np.diag(v) for v in c])
    return c.ravel().tolist()


def timed(fn, times):
    began = time.thread_time()
    for _ in range(times):
        fn()
    return (time.thread_time() - began) / times


def main():
    what, path, n, d, k, kind, means, iterations = sys.argv[1:]
    warnings.simplefilter("ignore")  # that so few iterations do not converge
    rows = np.fromfile(path).reshape(int(n), int(d))
    g = FromMeans(int(k), covariance_type=KINDS[kind], tol=0, max_iter=int(iterations),
                  means_init=np.fromfile(means).reshape(int(k), int(d)))
    began = time.monotonic()
    g.fit(rows)
    seconds = time.monotonic() - began
    if what == "score":
        with threadpoolctl.threadpool_limits(1):
            density = timed(lambda: g.score_samples(rows), 3)
            likeliest = timed(lambda: g._estimate_log_prob(rows).max(axis=1), 3)
        print(json.dumps({"likeliest_per_s": len(rows) / likeliest,
                          "log_density_per_s": len(rows) / density,
                          "mean_log_density": g.score(rows)}))
        return
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak_bytes": peak, "iterations": g.n_iter_,
                      "log_density": g.score(rows), "bic": g.bic(rows),
                      "weights": g.weights_.tolist(), "means": g.means_.ravel().tolist(),
                      "covariances": matrices(g), "sklearn": sklearn.__version__,
                      "numpy": np.__version__, "pools": threadpoolctl.threadpool_info()}))


if __name__ == "__main__":
    main()
