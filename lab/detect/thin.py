#!/usr/bin/env python3
"""thin.py - a smaller data set: fewer events of each run, layer and truth, and only some of the
detectors. usage: thin.py DATA -o OUT [--events N] [--detectors NAME...]

For keeping: rows, episodes and labels stay as they are. Events are drawn by the run's name, so that
it is the same each time; each that stays stands for more. Figures of events are a little coarser
than those of the whole data set, those of windows and episodes the same. Needs numpy."""

import argparse
import hashlib
import os
import sys

try:
    import numpy as np
    import data
except ImportError as missing:
    sys.exit("thin.py: %s; install Debian's python3-numpy" % missing)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("data", help="folder of dataset.py")
    p.add_argument("-o", "--output", required=True)
    p.add_argument("--events", type=int, default=300, help="of a run, layer and truth "
                   "(default: %(default)s)")
    p.add_argument("--detectors", nargs="*", default=["full"], help="default: full")
    return p.parse_args()


def kept_events(run, most):
    """(which stay, by how much each then stands for more)"""
    seed = int.from_bytes(hashlib.sha256(run.name.encode()).digest()[:8], "little")
    chance = np.random.default_rng(seed)
    keep, factor = [], np.ones(len(run.event_start))
    for layer in np.unique(run.event_layer):
        for truth in np.unique(run.event_truth):
            of = np.flatnonzero((run.event_layer == layer) & (run.event_truth == truth))
            some = of if len(of) <= most else np.sort(chance.choice(of, most, replace=False))
            if len(some):
                factor[some] = run.event_weight[of].sum() / run.event_weight[some].sum()
            keep.append(some)
    return np.sort(np.concatenate(keep)) if keep else np.zeros(0, int), factor


def kept_calls(run, keep):
    """Of the calls that were delayed one by one those that an event that stays may be one of."""
    a, ret = run.arrays, np.zeros(len(run.arrays["call_start"]), bool)
    start, tid = a["event_start"][keep], a["event_tid"][keep]
    end = start + a["event_dur"][keep].astype(np.int64)
    for one in np.unique(tid):
        calls = np.flatnonzero(a["call_tid"] == one)
        for s, e in zip(start[tid == one], end[tid == one]):
            ret[calls[(a["call_start"][calls] < e) & (a["call_end"][calls] > s)]] = True
    return ret


def thin(run, args):
    keep, factor = kept_events(run, args.events)
    calls = kept_calls(run, keep)
    wanted = [n for n in args.detectors if n in run.detectors]
    arrays = {}
    for name, values in run.arrays.items():
        detector = next((name[len(p):] for p in ("row_p_", "row_alarmed_", "event_alarmed_")
                         if name.startswith(p)), None)
        if detector is not None and detector not in wanted:
            continue
        if name == "event_weight":
            values = (values * factor).astype(values.dtype)
        arrays[name] = values[keep] if name.startswith("event_") else \
            values[calls] if name.startswith("call_") else values
    meta = dict(run.meta, detectors={n: run.detectors[n] for n in wanted})
    data.write_run(os.path.join(args.output, run.name + ".npz"), meta, arrays)


def main():
    args = arguments()
    try:
        runs = data.read_folder(args.data)
        os.makedirs(args.output, exist_ok=True)
        for run in runs:
            thin(run, args)
    except (data.Bad, OSError) as e:
        sys.exit("thin.py: %s" % e)
    print("%d runs in %s" % (len(runs), args.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
