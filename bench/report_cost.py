#!/usr/bin/env python3
"""report_cost.py - memory and time that eacgm report takes for each span of a GPU, and for each call of
a training.

On made recordings: of spans (spans_recording.c) that tell the call that started them, as CUDA 12.8
and later do, of spans that do not, and of a training in which every analysis finds something
(job_recording.c). --other puts another eacgm beside it, in turns; what both print must be the same,
but for keys that one of them does not have. The memory is the most that the process had, less what
it has for a recording of none. Needs no root."""

import argparse
import json
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
    p.add_argument("--calls", type=int, default=20_000_000, help="default: %(default)s")
    p.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    p.add_argument("--other", metavar="EACGM", help="another eacgm to run in turns with it")
    p.add_argument("--limit", type=int, default=600, help="seconds that one run may take")
    args = p.parse_args()
    args.eacgms = [os.path.join(args.build, "eacgm")] + ([args.other] if args.other else [])
    return args


def report(args, eacgm, path):
    """What it printed, CPU seconds, wall seconds, bytes."""
    with tempfile.NamedTemporaryFile("r") as told:
        ran = common.run(["/usr/bin/time", "-o", told.name, "-f", "%M", eacgm, "report", "--json",
                          path], args.limit)
        return ran.out, ran.cpu_s, ran.wall_s, int(told.read()) * 1024


def agree(outs):
    """Whether reports say the same, but for keys that one of them lacks."""
    reports = [json.loads(out) for out in set(outs)]
    keys = set.intersection(*(set(r) for r in reports))
    return all(r[key] == reports[0][key] for r in reports for key in keys)


def measure(args, folder, name, generator, rows, options):
    path, empty = os.path.join(folder, "rows.eacgm"), os.path.join(folder, "empty.eacgm")
    generator = os.path.join(args.build, "bench", generator)
    common.run([generator, path, rows, *options], args.limit)
    common.run([generator, empty, 0, *options], args.limit)
    runs = {eacgm: [] for eacgm in args.eacgms}
    for i in range(args.rounds):
        for eacgm in args.eacgms:
            common.say("%s: %d of %d" % (name, i + 1, args.rounds))
            runs[eacgm].append(report(args, eacgm, path))
    if not agree([out for of in runs.values() for out, *_ in of]):
        raise Failed("reports of the same recording differ")
    for eacgm, of in runs.items():
        base = report(args, eacgm, empty)[3]
        cpu, wall, most = (statistics.median(x) for x in list(zip(*of))[1:])
        yield {"recording": name, "eacgm": eacgm, "rows": rows, "cpu_s": cpu,
               "wall_s": wall, "bytes": most, "bytes_per_row": (most - base) / rows}


def main():
    args = arguments()
    results = common.Results("report_cost", args.eacgms[0], {
        "spans": args.spans, "calls": args.calls, "rounds": args.rounds, "other": args.other})
    rows = []
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        for recording in (
                ("spans that tell their call", "spans_recording", args.spans, []),
                ("spans that do not", "spans_recording", args.spans, ["--uncalled"]),
                ("a training, by call", "job_recording", args.calls, [])):
            rows += measure(args, folder, *recording)
    common.said()
    common.print_table("eacgm report --json (medians of %d runs)" % args.rounds, [
        "recording", "eacgm", "rows", "MB", "bytes/row", "CPU s", "seconds"], [[
            r["recording"], r["eacgm"], "%d" % r["rows"], "%.0f" % (r["bytes"] / 1e6),
            "%.1f" % r["bytes_per_row"], "%.2f" % r["cpu_s"], "%.2f" % r["wall_s"]]
            for r in rows])
    results["reports"] = rows
    results.write(args.json)
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
