#!/usr/bin/env python3
"""by_second.py - what was true, what the pace was and what was told, second by second of one run: for
looking at what was missed.

    by_second.py FOLDER RUN [--anomalies N]                  of what host.py packed, unpacked in FOLDER
    by_second.py --eacgm build/eacgm --model M CLEAN RUN     of folders of lab/faults/run.py

A line a second: the job's speed by its own log, whether it was slow (evaluate.py), the fault that was
on, the pace of each process (! where it was told), and the layers that were told. Last, how near the
first process's pace comes to the log, but for a constant of the run."""

import argparse
import collections
import glob
import gzip
import json
import os
import statistics

import evaluate

SECOND = evaluate.SECOND


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--eacgm", metavar="PATH", help="judges RUN by --model")
    p.add_argument("--model", metavar="MODEL")
    p.add_argument("--anomalies", type=int, default=0, metavar="N", help="lists the first N")
    p.add_argument("folder", metavar="FOLDER|CLEAN")
    p.add_argument("run", metavar="RUN")
    return p.parse_args()


def packed(args):
    """(run, clean runs, rows, anomalies) of what host.py kept."""
    with gzip.open(os.path.join(args.folder, "judged", args.run + ".json.gz")) as f:
        said = json.load(f)
    run = evaluate.Run(os.path.join(args.folder, "runs", args.run))
    clean = [evaluate.Run(path) for path in sorted(glob.glob(
        os.path.join(args.folder, "runs", run.workload + "-clean-*")))]
    return run, [r for r in clean if r.name != run.name], said["rows"], said["anomalies"]


def judged(args):
    run = evaluate.Run(args.run)
    rows, anomalies, _ = evaluate.judge(args.eacgm, run, args.model, [])
    return run, [evaluate.Run(args.folder)], rows, anomalies


def faults_of(run):
    ret = {}
    for e in run.episodes:
        for s in range(e["onset_ns"] // SECOND, e["released_ns"] // SECOND + 1):
            ret[s] = "%s %.2f" % (e["fault"], e.get("slowdown_ratio") or 0)
    return ret


def near(paces, speeds):
    ratios = [paces[s] / v for s, v in speeds.items() if s in paces and v > 0.02]
    if not ratios:
        return "no pace"
    middle = statistics.median(ratios)
    off = sorted(abs(r / middle - 1) for r in ratios)
    return "pace over speed: half of %d seconds within %.1f %%, nine of ten within %.0f %%" % (
        len(off), 100 * off[len(off) // 2], 100 * off[len(off) * 9 // 10])


def main():
    args = arguments()
    run, clean, rows, anomalies = (judged if args.eacgm else packed)(args)
    slow, speeds = run.truth(clean)
    faults, first = faults_of(run), min(speeds)
    paces, told = collections.defaultdict(dict), collections.defaultdict(set)
    for r in rows:
        second = r["start_ns"] // SECOND
        if r["layer"] in ("torch", "cuda") and r["pace"]:
            paces[second][r["pid"], r["layer"]] = "%5.2f%s" % (r["pace"], "!" if r["alarmed"] else " ")
        if r["alarmed"]:
            told[second].add(r["layer"])
    columns = sorted({key for of in paces.values() for key in of})
    print("%46s%s" % ("", "  ".join("%d %s" % key for key in columns)))
    for s in sorted(speeds):
        print("%4d  %5.2f  %-4s  %-24s  %s  %s" % (
            s - first, speeds[s], "slow" if slow[s] else "", faults.get(s, ""),
            "  ".join(paces[s].get(key, "     -") for key in columns), ",".join(sorted(told[s]))))
    print(near({s: float(of[columns[0]].rstrip("! ")) for s, of in paces.items()
                if columns and columns[0] in of}, speeds))
    for a in anomalies[:args.anomalies]:
        print("incident %d, %s, pid %s, %.1f to %.1f: %s" % (
            a["incident"], a["layer"], a["pid"], a["start_ns"] / SECOND - first,
            a["end_ns"] / SECOND - first, a["why"]))


if __name__ == "__main__":
    main()
