#!/usr/bin/env python3
"""startup.py - what eacgm record adds to programs that end soon: true, and Python that imports torch.

Runs each command alone and under each eacgm in turns, so that a busy machine disturbs all alike. The
first round fills caches and does not count; each eacgm has caches of its own, since what a call
costs is kept for one build. Wall-clock time is told as the least and the median, CPU time (of the
command, of eacgm and of its helpers) likewise: on a busy machine the least is the nearest to what
an idle one takes. The ratios are that of the least, and the median of those of the rounds. Needs
root."""

import argparse
import os
import statistics
import sys
import tempfile

import common
from common import Failed

COMMANDS = {"true": ["true"], "import torch": ["/usr/bin/python3", "-c", "import torch"]}
ALONE = "alone"


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("--rounds", type=int, default=15, help="default: %(default)s")
    p.add_argument("--other", metavar="EACGM", action="append", default=[],
                   help="another eacgm to run in turns with it; may be repeated")
    p.add_argument("--only", choices=sorted(COMMANDS), help="one of the commands")
    p.add_argument("--limit", type=int, default=120, help="seconds that one run may take")
    args = p.parse_args()
    args.eacgms = [os.path.join(args.build, "eacgm")] + args.other
    return args


def is_there(command):
    try:
        return bool(common.run(command, 120))
    except Failed:
        return False


def one_round(args, command, folder, runs):
    runs.setdefault(ALONE, []).append(common.run(command, args.limit))
    for i, eacgm in enumerate(args.eacgms):
        path = os.path.join(folder, "startup.eacgm")
        runs.setdefault(eacgm, []).append(
            common.run([eacgm, "record", "-o", path, "--", *command], args.limit,
                       {"EACGM_CACHE": os.path.join(folder, "cache%d" % i)}))


def figures(name, who, runs, alone):
    wall, cpu = [r.wall_s for r in runs], [r.cpu_s for r in runs]
    return {"command": name, "by": who, "wall_s": {"min": min(wall), "median": statistics.median(wall)},
            "cpu_s": {"min": min(cpu), "median": statistics.median(cpu)},
            "wall_ratio": min(wall) / min(r.wall_s for r in alone),
            "wall_ratio_of_rounds": statistics.median(
                r.wall_s / a.wall_s for r, a in zip(runs, alone)),
            "added_s": min(wall) - min(r.wall_s for r in alone)}


def measure(args, name, folder):
    runs = {}
    for i in range(args.rounds + 1):
        common.say("%s: %d of %d" % (name, i, args.rounds))
        one_round(args, COMMANDS[name], folder, runs if i else {})
    return [figures(name, who, of, runs[ALONE]) for who, of in runs.items()]


def main():
    args = arguments()
    if os.geteuid() != 0:
        raise Failed("needs root")
    results = common.Results("startup", args.eacgms[0], {"rounds": args.rounds, "other": args.other})
    rows = []
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        for name, command in COMMANDS.items():
            if args.only in (None, name) and is_there(command):
                rows += measure(args, name, folder)
    common.said()
    common.print_table("eacgm record -- COMMAND (%d rounds)" % args.rounds, [
        "command", "by", "wall s: least", "median", "CPU s: least", "median", "added s", "ratio",
        "of rounds"], [[
            r["command"], r["by"], "%.3f" % r["wall_s"]["min"], "%.3f" % r["wall_s"]["median"],
            "%.3f" % r["cpu_s"]["min"], "%.3f" % r["cpu_s"]["median"], "%.3f" % r["added_s"],
            "%.2f" % r["wall_ratio"], "%.2f" % r["wall_ratio_of_rounds"]] for r in rows])
    results["startup"] = rows
    results.write(args.json)
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
