#!/usr/bin/env python3
"""report_spans.py - memory and time that eacgm report takes for each span of a GPU.

On a made recording (spans_recording.c), whose spans tell the call that started them, as CUDA 12.8
and later do, and on one whose spans do not. --other puts another eacgm beside it, in turns; both
must print the same. The memory is the most that the process had, less what it has for a recording
of no spans. Needs no root."""

import argparse
import os
import statistics
import sys
import tempfile

import common
from common import Failed


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("--spans", type=int, default=6_000_000, help="default: %(default)s")
    p.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    p.add_argument("--other", metavar="EACGM", help="another eacgm to run in turns with it")
    p.add_argument("--limit", type=int, default=600, help="seconds that one run may take")
    args = p.parse_args()
    args.eacgms = [os.path.join(args.build, "eacgm")] + ([args.other] if args.other else [])
    args.generator = os.path.join(args.build, "bench", "spans_recording")
    return args


def report(args, eacgm, path):
    """What it printed, CPU seconds, wall seconds, bytes."""
    with tempfile.NamedTemporaryFile("r") as told:
        ran = common.run(["/usr/bin/time", "-o", told.name, "-f", "%M", eacgm, "report", "--json",
                          path], args.limit)
        return ran.out, ran.cpu_s, ran.wall_s, int(told.read()) * 1024


def measure(args, folder, name, options):
    path, empty = os.path.join(folder, "spans.eacgm"), os.path.join(folder, "empty.eacgm")
    common.run([args.generator, path, args.spans, *options], args.limit)
    common.run([args.generator, empty, 0, *options], args.limit)
    runs = {eacgm: [] for eacgm in args.eacgms}
    for i in range(args.rounds):
        for eacgm in args.eacgms:
            common.say("%s: %d of %d" % (name, i + 1, args.rounds))
            runs[eacgm].append(report(args, eacgm, path))
    if len({out for of in runs.values() for out, *_ in of}) != 1:
        raise Failed("reports of the same recording differ")
    for eacgm, of in runs.items():
        base = report(args, eacgm, empty)[3]
        cpu, wall, most = (statistics.median(x) for x in list(zip(*of))[1:])
        yield {"recording": name, "eacgm": eacgm, "spans": args.spans, "cpu_s": cpu,
               "wall_s": wall, "bytes": most, "bytes_per_span": (most - base) / args.spans}


def main():
    args = arguments()
    results = common.Results("report_spans", args.eacgms[0], {
        "spans": args.spans, "rounds": args.rounds, "other": args.other})
    rows = []
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        for name, options in (("spans that tell their call", []),
                              ("spans that do not", ["--uncalled"])):
            rows += measure(args, folder, name, options)
    common.said()
    common.print_table("eacgm report --json (medians of %d runs)" % args.rounds, [
        "recording", "eacgm", "spans", "MB", "bytes/span", "CPU s", "seconds"], [[
            r["recording"], r["eacgm"], "%d" % r["spans"], "%.0f" % (r["bytes"] / 1e6),
            "%.1f" % r["bytes_per_span"], "%.2f" % r["cpu_s"], "%.2f" % r["wall_s"]]
            for r in rows])
    results["reports"] = rows
    results.write(args.json)
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
