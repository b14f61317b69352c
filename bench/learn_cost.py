#!/usr/bin/env python3
"""learn_cost.py - time and memory that eacgm learn takes for recordings.

Each is learned by itself, and with --hour again and again until they make up an hour together. With
--other another eacgm takes turns with it, and models of what both read whole must be the same, byte
by byte; --events N is handed on. Needs no root. Recordings of real jobs say most; lab/faults/run.py
--plan clean makes some."""

import argparse
import json
import os
import statistics
import sys
import tempfile

import common
from common import Failed

HOUR_S = 3600


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("recordings", nargs="+")
    p.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    p.add_argument("--hour", action="store_true", help="also an hour of them all")
    p.add_argument("--events", type=int, help="as of eacgm learn; not handed to --other")
    p.add_argument("--other", metavar="EACGM", help="another eacgm to run in turns with it")
    p.add_argument("--limit", type=int, default=1200, help="seconds that one run may take")
    args = p.parse_args()
    args.eacgms = [os.path.join(args.build, "eacgm")] + ([args.other] if args.other else [])
    return args


def events_of(args, path):
    """Calls and spans of the GPU, seconds."""
    out = common.run([args.eacgms[0], "report", "--json", path], args.limit).out
    report = json.loads(out)
    return report["recording"]["events"], report["recording"]["duration_s"]


def learn(args, eacgm, paths):
    """The model without what may differ, CPU seconds, wall seconds, bytes."""
    with tempfile.NamedTemporaryFile("r") as told, tempfile.NamedTemporaryFile("rb") as model:
        own = eacgm == args.eacgms[0] and args.events
        ran = common.run(["/usr/bin/time", "-o", told.name, "-f", "%M", eacgm, "learn",
                          "-o", model.name, *(["--events", args.events] if own else []), *paths],
                         args.limit)
        with open(model.name, "rb") as f:
            return f.read(), ran.cpu_s, ran.wall_s, int(told.read()) * 1024


def measure(args, name, paths, calls, seconds):
    runs = {eacgm: [] for eacgm in args.eacgms}
    for i in range(args.rounds):
        for eacgm in args.eacgms:
            common.say("%s: %d of %d" % (name, i + 1, args.rounds))
            runs[eacgm].append(learn(args, eacgm, paths))
    models = {model for of in runs.values() for model, *_ in of}
    whole = all(b", spread over " not in model for model in models)
    if whole and len(models) > 1:
        raise Failed("models of the same recordings differ")
    for eacgm, of in runs.items():
        cpu, wall, most = (statistics.median(x) for x in list(zip(*of))[1:])
        learned = json.loads(of[0][0])["seconds"]
        yield {"recordings": name, "eacgm": eacgm, "calls": calls, "seconds": seconds,
               "learned_s": learned, "cpu_s": cpu, "wall_s": wall, "bytes": most}


def main():
    args = arguments()
    results = common.Results("learn_cost", args.eacgms[0], {
        "recordings": args.recordings, "rounds": args.rounds, "hour": args.hour,
        "events": args.events, "other": args.other})
    sizes = [events_of(args, path) for path in args.recordings]
    rows = []
    for path, (calls, seconds) in zip(args.recordings, sizes):
        name = os.path.join(os.path.basename(os.path.dirname(path)), os.path.basename(path))
        rows += measure(args, name, [path], calls, seconds)
    if args.hour:
        all_s = sum(seconds for _, seconds in sizes)
        times = max(1, round(HOUR_S / all_s))
        rows += measure(args, "%d times all" % times, args.recordings * times,
                        times * sum(calls for calls, _ in sizes), times * all_s)
    common.said()
    common.print_table("eacgm learn (medians of %d runs)" % args.rounds, [
        "recordings", "eacgm", "seconds", "calls", "learned s", "CPU s", "wall s", "MB"], [[
            r["recordings"], r["eacgm"], "%.0f" % r["seconds"], "%.1f M" % (r["calls"] / 1e6),
            "%.0f" % r["learned_s"], "%.2f" % r["cpu_s"], "%.2f" % r["wall_s"],
            "%.0f" % (r["bytes"] / 1e6)] for r in rows])
    results["learned"] = rows
    results.write(args.json)
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
