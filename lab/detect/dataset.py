#!/usr/bin/env python3
"""dataset.py - recorded runs to a compact data set: learns on the calibration runs, detects on all,
joins the labels, samples the events. usage: dataset.py RUN... -o FOLDER

A RUN is a folder of lab/faults (docs/results/faults.md). One model is learned for each workload, of its
calibration runs alone. With --ablate every ingredient of the detector is left out once; this and
the other variants judge the test split, for no other is scored (--everywhere: all). What `eacgm
detect` wrote is kept in RUN/detect.NAME/ with --keep, and used instead of running it with
--reuse (the only way that needs no eacgm). The files are described in data.py. Needs numpy.

Runs and detectors are judged side by side, each in a process of its own (--jobs): of each event
some 40 bytes of memory and, meanwhile, 40 in the folder for temporary files ($TMPDIR). A run's file
is there once eacgm itself has judged it, and again with all detectors. What is damaged
or missing is told and left out; the exit status is then 1. So it is where the program is told to
end early, by SIGTERM or Ctrl-C: what was judged by then is written."""

import argparse
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, os.pardir, "bench"))

import common

# Processes are many here, and none of them multiplies matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

try:
    import data
    import detectors
    import jobs
    import join
    import runs
except ImportError as missing:
    sys.exit("dataset.py: %s; install Debian's python3-numpy" % missing)

def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("runs", nargs="+", metavar="RUN", help="folders of lab/faults")
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
    p.add_argument("--everywhere", action="store_true",
                   help="variants also judge calibration and dev runs, as for misses.py --detector")
    p.add_argument("--window", help="given to learn, such as 1s")
    p.add_argument("--jobs", type=int, metavar="N", help="processes at a time; by default as many "
                   "as there are processors, and memory for")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--keep", action="store_true", help="keep what detect wrote, in the runs")
    p.add_argument("--reuse", action="store_true", help="take what is there from --keep")
    args = p.parse_args()
    if args.events < 8:  # an eighth of them is kept of what is left out of scores
        p.error("--events: at least 8")
    if args.jobs is not None and args.jobs < 1:
        p.error("--jobs: at least 1")
    return args


def kept(run, name):
    return os.path.join(run.path, "detect." + name)


def counters_path(args, run, scratch):
    return os.path.join(kept(run, "full") if args.keep or args.reuse else scratch,
                        "counters.csv" if args.keep or args.reuse else run.name + ".counters")


# ---- jobs, each in a process of its own ----

def counters_job(args, run, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    detectors.export_counters(args, run, path)


def judged(args, run, way, scratch, read):
    """What read(folder) makes of what a detector wrote of a run. That is large: it is taken away
    again at once, unless it is to be kept."""
    with tempfile.TemporaryDirectory(prefix="eacgm-dataset-") as temporary:
        out = kept(run, way.name) if args.keep or args.reuse else temporary
        if not args.reuse:
            way.detect(args, run, way.model_of(run.workload, scratch), out)
        return read(out)


def full_job(args, run, way, scratch):
    path, counters = counters_path(args, run, scratch), {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            counters = runs.counters_of(f)
    return judged(args, run, way, scratch,
                  lambda out: join.Joined(run, out, counters, args.events, args.seed))


def other_job(args, run, way, scratch, joined):
    return judged(args, run, way, scratch, joined.verdicts)


# ---- all of them ----

def bytes_each(folders):
    """Of memory that a job needs: a recording has four bytes an event or more."""
    sizes = [os.path.getsize(f.recording) for f in folders if os.path.exists(f.recording)]
    return (256 << 20) + 12 * max(sizes, default=0)



class Making:
    """The data set as it grows. Names of jobs: what is done, of what."""

    def __init__(self, args, folders, scratch):
        self.args, self.folders, self.scratch = args, folders, scratch
        self.runs = {f.name: f for f in folders}
        self.ways = {way.name: way for way in detectors.detectors_of(args)}
        self.joined, self.wanted, self.left, self.sizes = {}, {}, {}, {}
        self.shares, self.learned = {}, set()
        self.failures = 0
        self.jobs = jobs.Jobs(args.jobs or jobs.default_count(bytes_each(folders)), self.done,
                              self.failed)
        for run in folders:
            self.add(run, "full", full_job)

    def failed(self, name, why):
        self.failures += 1
        common.said()
        print("dataset.py: %s: %s" % (" ".join(name), why), file=sys.stderr, flush=True)

    def add(self, run, way_name, function, *more):
        """A run's judging by a detector, after what has to be made before."""
        args, way = self.args, self.ways[way_name]
        rank = list(self.ways).index(way_name)
        after = []
        if not args.reuse:
            model = way.model_of(run.workload, self.scratch)
            after.append(("learn", os.path.basename(model)))
            if model not in self.learned:
                self.learned.add(model)
                self.jobs.add(after[-1], (rank, 0), way.learn,
                              (args, self.folders, run.workload, self.scratch))
            if way_name == "full" and run.gpus:
                after.append(("counters", run.name))
                self.jobs.add(after[-1], (rank, 1), counters_job,
                              (args, run, counters_path(args, run, self.scratch)))
        self.jobs.add((way_name, run.name), (rank, 2), function,
                      (args, run, way, self.scratch, *more), after)

    def add_others(self, run):
        names = [n for n in self.ways if n != "full" and
                 (run.split == "test" or self.args.everywhere) and
                 (not self.args.reuse or os.path.isdir(kept(run, n)))]
        self.left[run.name] = self.wanted[run.name] = len(names)
        for name in names:
            self.add(run, name, other_job, self.joined[run.name])

    def done(self, name, result):
        what, of = name
        common.say("%s: %s" % (of, what))
        if what == "learn":
            self.shares[of] = result
        elif what == "full":
            self.joined[of] = result
            self.tell(what, of)
            self.write(of)
            self.add_others(self.runs[of])
        elif what != "counters":
            self.joined[of].add(what, result)
            self.tell(what, of)
            self.left[of] -= 1
            self.sizes.pop(of, None)
            if not self.left[of]:
                self.write(of)

    def tell(self, way_name, of):
        """What is known of a detector besides what it said."""
        way = self.ways[way_name]
        told = self.joined[of].meta["detectors"][way_name]
        told["asked_per_hour"] = way.rate or self.args.alarms_per_hour
        share = self.shares.get(os.path.basename(way.model_of(self.runs[of].workload, "")))
        if share is not None:
            told["faulty_share"] = share
        if told["events_late"]:
            self.failed((way_name, of), "%d events are not in it" % told["events_late"])

    def write(self, of):
        path = os.path.join(self.args.output, of + ".npz")
        data.write_run(path, self.joined[of].meta, self.joined[of].arrays)
        self.sizes[of] = os.path.getsize(path)

    def write_rest(self):
        for of in self.joined:
            if of not in self.sizes:
                self.write(of)

    def table(self):
        ret = []
        for of, joined in sorted(self.joined.items()):
            meta, arrays = joined.meta, joined.arrays
            population = [sum(x[i] for x in meta["population"].values()) for i in range(3)]
            ret.append([of, meta["split"], meta["workload"], "%.0f" % (meta["end_ns"] / 1e9),
                        len([e for e in meta["episodes"] if e["effective"]]),
                        len(meta["episodes"]), *population, len(arrays["event_start"]),
                        len(arrays["row_start"]), "%d of %d" % (
                            len(meta["detectors"]), 1 + self.wanted.get(of, 0)),
                        "%.2f" % (self.sizes[of] / 1e6)])
        return ret


def folders_of(args):
    """Of the runs that can be read, and how many cannot."""
    ret, bad = [], 0
    for path in args.runs:
        try:
            folder = runs.Folder(path)
            if not args.reuse:
                runs.check_recording(folder)
            ret.append(folder)
        except data.Bad as e:
            print("dataset.py: %s" % e, file=sys.stderr)
            bad += 1
    if len({f.name for f in ret}) != len(ret):
        raise data.Bad("two runs have the same name")
    runs.set_calibration(ret)
    return ret, bad


def main():
    args = arguments()
    folders, bad = folders_of(args)
    if not folders:
        return 1
    os.makedirs(args.output, exist_ok=True)
    jobs.stop_on_signals()
    stopped = False
    with tempfile.TemporaryDirectory(prefix="eacgm-models-") as scratch:
        making = Making(args, folders, scratch)
        try:
            making.jobs.run()
        except (jobs.Stopped, KeyboardInterrupt):
            stopped = True
            print("dataset.py: told to end: what was judged by now is written", file=sys.stderr)
        making.write_rest()
    common.said()
    common.print_table("data set in " + args.output,
                       ["run", "split", "workload", "s", "effective", "labels", "normal events",
                        "anomalous", "left out", "kept", "rows", "detectors", "MB"],
                       making.table())
    return 1 if bad or making.failures or stopped else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (data.Bad, common.Failed) as e:
        sys.exit("dataset.py: %s" % e)
