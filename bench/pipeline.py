#!/usr/bin/env python3
"""pipeline.py - how many events a second eacgm takes from the rings to disk, and from disk
to a report.

Ring to disk: `spin` calls one traced function as fast as it can; that costs the caller about
a microsecond a call, so one thread is the highest rate that one core can generate. Every call
made is either in the recording or counted as lost, else this fails. Disk to report: the time
of `eacgm report --json`, whole process, file in the page cache, on a recording of that run and
on a made one that looks like a training job. --cmd puts another command under ring to disk,
with its own --probe. Needs root."""

import argparse
import os
import re
import shlex
import statistics
import sys
import tempfile

import common
from common import Failed

PROBE = "spin:spin_push()"


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("--calls", type=int, default=10_000_000,
                   help="events of each run and recording (default: %(default)s)")
    p.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    p.add_argument("--threads", default="1,2", metavar="N[,N...]",
                   help="threads of the job that calls (default: %(default)s)")
    p.add_argument("--cmd", help="record this command instead of spin")
    p.add_argument("--probe", default=PROBE, help="what to trace (default: %(default)s)")
    p.add_argument("--limit", type=int, default=600, help="seconds that one run may take")
    args = p.parse_args()
    args.eacgm = os.path.join(args.build, "eacgm")
    args.spin = os.path.join(args.build, "bench", "spin")
    args.generator = os.path.join(args.build, "bench", "recording_bench")
    args.threads = [int(n) for n in args.threads.split(",")]
    if args.calls < 1 or args.rounds < 1:
        p.error("--calls and --rounds are at least 1")
    return args


def told_by_spin(out):
    return {name: float(value) for name, value in re.findall(r"(\w+) ([0-9.]+)", out)}


def record_once(args, cmd, path):
    ran = common.run([args.eacgm, "record", "-o", path, "--layers", "user", "--probe",
                      args.probe, "--", *cmd], args.limit)
    row = common.summary_of(args.eacgm, path)
    told = told_by_spin(ran.out)
    calls = int(told.get("calls", row["events"] + row["lost"]))
    seconds = told.get("seconds", row["duration_s"])
    row.update({"calls": calls, "seconds": seconds, "events_per_s": row["events"] / seconds,
                "calls_per_s": calls / seconds, "wall_s": ran.wall_s,
                "collector_ns_per_event": row["collector_cpu_s"] * 1e9 / max(row["events"], 1),
                "lost_calls": common.lost_calls(row["lost_by_cause"])})
    if calls != row["events"] + row["lost_calls"] and not args.cmd:
        raise Failed("%d calls were made, %d recorded; counted as lost: %s" % (
            calls, row["events"], row["lost_by_cause"]))
    return row


MEDIANS = ("events", "calls_per_s", "events_per_s", "bytes_per_event", "collector_cpu_s",
           "collector_ns_per_event", "duration_s")


def ring_to_disk(args, folder):
    rows = []
    jobs = [("spin, %d thread%s" % (n, "" if n == 1 else "s"), [args.spin, args.calls, n])
            for n in args.threads]
    if args.cmd:
        jobs = [(args.cmd, shlex.split(args.cmd))]
    for name, cmd in jobs:
        runs = []
        for i in range(args.rounds):
            common.say("ring to disk: %s, %d of %d" % (name, i + 1, args.rounds))
            runs.append(record_once(args, cmd, os.path.join(folder, "ring.eacgm")))
        row = {key: statistics.median(r[key] or 0 for r in runs) for key in MEDIANS}
        row.update({"job": name, "calls": sum(r["calls"] for r in runs), "rounds": args.rounds,
                    "lost": sum(r["lost"] for r in runs),
                    "lost_by_cause": common.add_up(r["lost_by_cause"] for r in runs)})
        rows.append(row)
    common.said()
    return rows


def show_ring(rows):
    title = "Ring to disk (medians of %d runs; calls and lost are sums)" % rows[0]["rounds"]
    common.print_table(title, [
        "job", "calls", "calls/s", "lost", "bytes/event", "eacgm CPU s", "CPU ns/event"], [[
            r["job"], "%d" % r["calls"], "%.0f" % r["calls_per_s"],
            "%d" % r["lost"], "%.2f" % r["bytes_per_event"], "%.2f" % r["collector_cpu_s"],
            "%.0f" % r["collector_ns_per_event"]] for r in rows])


# ---- disk to report ----

def spin_recording(args, path):
    common.run([args.eacgm, "record", "-o", path, "--layers", "user", "--probe", PROBE, "--",
                args.spin, args.calls], args.limit)


def made_recording(args, path):
    common.run([args.generator, "--write", path, args.calls], args.limit)


def disk_to_report(args, folder):
    rows = []
    for name, make in (("spin: one function", spin_recording),
                       ("made: operators and Python frames", made_recording)):
        path = os.path.join(folder, "read.eacgm")
        common.say("disk to report: " + name)
        make(args, path)
        rec = common.report_of(args.eacgm, path, args.limit)["recording"]  # and warms the cache
        walls, cpus = [], []
        for i in range(args.rounds):
            common.say("disk to report: %s, %d of %d" % (name, i + 1, args.rounds))
            ran = common.run([args.eacgm, "report", "--json", path], args.limit)
            walls.append(ran.wall_s)
            cpus.append(ran.cpu_s)
        rows.append({"recording": name, "events": rec["events"], "bytes": rec["bytes"],
                     "bytes_per_event": rec["bytes_per_event"], "report_s": walls,
                     "report_median_s": statistics.median(walls),
                     "report_cpu_s": statistics.median(cpus),
                     "events_per_s": rec["events"] / statistics.median(walls)})
        os.unlink(path)
    common.said()
    return rows


def show_report(rows):
    common.print_table("Disk to report (eacgm report --json, median)", [
        "recording", "events", "bytes/event", "seconds", "CPU seconds", "events/s"], [[
            r["recording"], "%d" % r["events"], "%.2f" % r["bytes_per_event"],
            "%.3f" % r["report_median_s"], "%.3f" % r["report_cpu_s"],
            "%.0f" % r["events_per_s"]] for r in rows])


def main():
    args = arguments()
    results = common.Results("pipeline", args.eacgm, {
        "calls": args.calls, "rounds": args.rounds, "threads": args.threads, "cmd": args.cmd,
        "probe": args.probe})
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        ring = ring_to_disk(args, folder)
        show_ring(ring)
        read = disk_to_report(args, folder)
        show_report(read)
    results["ring_to_disk"] = ring
    results["disk_to_report"] = read
    results.write(args.json)
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
