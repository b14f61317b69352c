#!/usr/bin/env python3
"""dataset.py - recorded runs to a compact data set: learns on the calibration runs, detects on all,
joins the labels, samples the events. usage: dataset.py RUN... -o FOLDER

A RUN is a folder of bench/faults (docs/faults.md). One model is learned for each workload, of its
calibration runs alone. With --ablate every ingredient of the detector is left out once. What
`eacgm detect` wrote is kept in RUN/detect.NAME/ with --keep, and used instead of running it with
--reuse (the only way that needs no eacgm). The files are described in data.py. Needs numpy."""

import argparse
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import common

try:
    import data
    import detectors
    import join
    import runs
except ImportError as missing:
    sys.exit("dataset.py: %s; install Debian's python3-numpy" % missing)

def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("runs", nargs="+", metavar="RUN", help="folders of bench/faults")
    p.add_argument("-o", "--output", required=True, help="folder of the data set")
    p.add_argument("--eacgm", default=os.path.join(common.ROOT, "build", "eacgm"))
    p.add_argument("--events", type=int, default=4000,
                   help="events kept of each run, layer and truth (default %(default)s)")
    p.add_argument("--alarms-per-hour", type=float, default=1.0, help="default %(default)s")
    p.add_argument("--rates", type=float, nargs="*", default=[],
                   help="more false-alarm rates to ask for: is what was asked for what comes?")
    p.add_argument("--ablate", nargs="*", metavar="INGREDIENT", choices=detectors.INGREDIENTS,
                   help="also without each of these; without a name, of %s" %
                   ", ".join(detectors.INGREDIENTS))
    p.add_argument("--contaminate", action="store_true",
                   help="also learned where 20 %% of the windows are faulty")
    p.add_argument("--window", help="given to learn, such as 1s")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--keep", action="store_true", help="keep what detect wrote, in the runs")
    p.add_argument("--reuse", action="store_true", help="take what is there from --keep")
    args = p.parse_args()
    if args.events < 8:  # an eighth of them is kept of what is left out of scores
        p.error("--events: at least 8")
    return args


def detectors_of(args):
    ret = [detectors.Detector("full")]
    ret += [detectors.Detector("rate-%g" % r, rate=r) for r in args.rates]
    if args.ablate is not None:
        ret += [detectors.Detector("without-" + x, without=x)
                for x in args.ablate or detectors.INGREDIENTS]
    if args.contaminate:
        ret.append(detectors.Detector("contaminated", contaminated=True))
    return ret


def counters_of(args, run, out):
    """Raw counters of the GPUs; kept beside what detect wrote. Reading a recording for them takes
    as long as for all else in it: only where there is a GPU."""
    kept = os.path.join(out, "counters.csv")
    if run.gpus and not args.reuse:
        detectors.export_counters(args, run, kept)
    if not os.path.exists(kept):
        return {}
    with open(kept, encoding="utf-8") as f:
        return runs.counters_of(f)


def one_run(args, run, folders, ways, models):
    """What detect writes of a run is large: it is taken in and away detector by detector."""
    joined = None
    for d in ways:
        with tempfile.TemporaryDirectory(prefix="eacgm-dataset-") as temporary:
            kept = os.path.join(run.path, "detect." + d.name)
            out = kept if args.keep or args.reuse else temporary
            if args.reuse and not os.path.isdir(kept):
                if joined is None:
                    raise data.Bad("%s: no detect.full there; run once with --keep" % run.path)
                continue
            if not args.reuse:
                common.say("%s: %s" % (run.name, d.name))
                d.detect(args, run, d.learn(args, folders, run.workload, models), out)
            if joined is None:
                joined = join.Joined(run, out, counters_of(args, run, out), args.events, args.seed)
            else:
                joined.add(d.name, out)
        told = joined.meta["detectors"][d.name]
        told["asked_per_hour"] = d.rate or args.alarms_per_hour
        if run.workload in d.shares:
            told["faulty_share"] = d.shares[run.workload]
    return joined.meta, joined.arrays


def main():
    args = arguments()
    folders = [runs.Folder(p) for p in args.runs]
    runs.set_calibration(folders)
    if len({f.name for f in folders}) != len(folders):
        raise data.Bad("two runs have the same name")
    os.makedirs(args.output, exist_ok=True)
    ways = detectors_of(args)
    table = []
    with tempfile.TemporaryDirectory(prefix="eacgm-models-") as models:
        for run in folders:
            meta, arrays = one_run(args, run, folders, ways, models)
            path = os.path.join(args.output, run.name + ".npz")
            data.write_run(path, meta, arrays)
            population = [sum(x[i] for x in meta["population"].values()) for i in range(3)]
            table.append([run.name, run.split, run.workload, "%.0f" % (meta["end_ns"] / 1e9),
                          len([e for e in meta["episodes"] if e["effective"]]),
                          len(meta["episodes"]), "%d" % population[0], "%d" % population[1],
                          len(arrays["event_start"]), len(arrays["row_start"]),
                          "%.2f" % (os.path.getsize(path) / 1e6)])
    common.said()
    common.print_table("data set in " + args.output,
                       ["run", "split", "workload", "s", "effective", "labels", "normal events",
                        "anomalous", "kept", "rows", "MB"], table)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (data.Bad, common.Failed) as e:
        sys.exit("dataset.py: %s" % e)
