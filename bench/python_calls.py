#!/usr/bin/env python3
"""python_calls.py - what a recorded call of a Python function costs the job (record --python calls),
beside cProfile's.

A loop that calls an empty function, as it is, under cProfile, recorded, and recorded with its file
skipped, taking turns; in bursts with pauses that the rings keep up with, so that no call is lost.
A run's time is that of its fastest burst, since others may have the CPU in some. The cost is the
time per call minus the plain one of the same round; figures are medians over rounds. Interpreters: --python, which may be repeated; else the system's and those of pyenv."""

import argparse
import glob
import os
import re
import sys
import tempfile

import common
from common import Failed

JOB = """
import sys, time
def called():
    pass
def burst():
    for i in range(1000):
        called(); called(); called(); called(); called()
        called(); called(); called(); called(); called()
def main(calls, under):
    if under:
        import cProfile
        profile = cProfile.Profile()
        profile.enable()
    spent = []
    for i in range(calls // 10000):
        began = time.perf_counter_ns()
        burst()
        spent.append(time.perf_counter_ns() - began)
        time.sleep(0.02)
    if under:
        profile.disable()
    print("ns_per_call", min(spent) / 10000)
main(int(sys.argv[1]), len(sys.argv) > 2)
"""
ALONE = ("--python", "calls", "--profile", "off", "--waits", "off")
WAYS = ("plain", "cprofile", "recorded", "skipped")


class Lost(Failed):
    pass


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("--python", action="append", metavar="FILE", help="an interpreter")
    p.add_argument("--rounds", type=int, default=15, help="default: %(default)s")
    p.add_argument("--calls", type=int, default=300_000,
                   help="in one round (default: %(default)s)")
    p.add_argument("--limit", type=int, default=120, help="seconds that one run may take")
    args = p.parse_args()
    args.eacgm = os.path.join(args.build, "eacgm")
    if args.rounds < 1 or args.calls < 10_000:
        p.error("--rounds is at least 1, --calls 10000")
    if not args.python:
        found = ["/usr/bin/python3", *sorted(glob.glob(os.path.expanduser(
            "~/.pyenv/versions/3.*/bin/python3")))]
        args.python = [exe for exe in found if version_of(args, exe) >= (3, 8)]
    return args


def version_of(args, python):
    if not os.access(python, os.X_OK):
        return (0, 0)
    ran = common.run([python, "-c", "import sys; print(*sys.version_info[:3])"], args.limit)
    return tuple(map(int, ran.out.split()))


def run_once(args, python, job, way, folder):
    cmd = [python, job, args.calls]
    out = os.path.join(folder, "calls.eacgm")
    if way == "cprofile":
        cmd.append("profiled")
    if way in ("recorded", "skipped"):
        skip = ("--python-skip", os.path.basename(job)) if way == "skipped" else ()
        cmd = [args.eacgm, "record", "-o", out, *ALONE, *skip, "--", *cmd]
    ran = common.run(cmd, args.limit)
    if way == "recorded":
        rec = common.summary_of(args.eacgm, out)
        if rec["lost"] or rec["events"] < args.calls // 10000 * 10000:
            raise Lost("of %d calls %d are in the recording, %d were lost" % (
                args.calls, rec["events"], rec["lost"]))
    return float(re.search(r"ns_per_call ([0-9.]+)", ran.out).group(1))


def run_whole(args, *what):
    """On a host that has other work too, a ring may be full now and then: that is another thing."""
    for _again in range(3):
        try:
            return run_once(args, *what)
        except Lost as e:
            lost = e
    raise lost


def measure(args, python, job, folder):
    rounds = []
    for i in range(args.rounds):
        turn = i % len(WAYS)
        common.say("%s: round %d of %d" % (python, i + 1, args.rounds))
        rounds.append({way: run_whole(args, python, job, way, folder)
                       for way in WAYS[turn:] + WAYS[:turn]})
    common.said()
    row = {"python": python, "version": ".".join(map(str, version_of(args, python))),
           "rounds": rounds, "plain_ns": common.interval(r["plain"] for r in rounds)}
    for way in WAYS[1:]:
        row[way + "_ns"] = common.interval(r[way] - r["plain"] for r in rounds)
    row["to_cprofile"] = common.interval(
        (r["recorded"] - r["plain"]) / (r["cprofile"] - r["plain"]) for r in rounds)
    return row


def text(q, form="%.0f"):
    return (form + " (" + form + " .. " + form + ")") % (q["median"], q["low"], q["high"])


def main():
    args = arguments()
    results = common.Results("python_calls", args.eacgm, {
        "rounds": args.rounds, "calls": args.calls, "pythons": args.python})
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        job = os.path.join(folder, "bench_job.py")
        with open(job, "w") as f:
            f.write(JOB)
        rows = [measure(args, python, job, folder) for python in args.python]
    common.print_table(
        "a call of an empty Python function, ns: plain, and what is added",
        ["Python", "plain", "cProfile", "recorded", "skipped file", "recorded / cProfile"],
        [[r["version"], text(r["plain_ns"]), text(r["cprofile_ns"]), text(r["recorded_ns"]),
          text(r["skipped_ns"]), text(r["to_cprofile"], "%.2f")] for r in rows])
    results["rows"] = rows
    results.write(args.json)
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
