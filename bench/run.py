#!/usr/bin/env python3
"""run.py - all benchmarks, one after the other: prints their tables and writes their JSON
into BUILD/bench/. Short settings unless --full, which takes the defaults of each; figures to
be quoted are made with --full on a machine that does nothing else. usage: run.py [--full] BUILD"""

import argparse
import os
import subprocess
import sys

BENCH = os.path.dirname(os.path.abspath(__file__))

# name: options that make it short
SHORT = {
    "probe_cost": ["--rounds", "5", "--calls", "100000", "--attach", "3",
                   "--rate-calls", "2000000"],
    "python_calls": ["--rounds", "3", "--calls", "100000", "--python", "/usr/bin/python3"],
    "pipeline": ["--calls", "2000000", "--rounds", "3"],
    "overhead": ["--pairs", "3", "--steps", "200", "--burst-steps", "1000", "--cycles", "2",
                 "--seconds", "2"],
    "gmm": ["--rounds", "2", "--rows", "200000", "--sklearn-iterations", "2"],
    "startup": ["--rounds", "3"],
    "report_cost": ["--spans", "1000000", "--rounds", "2"],
    "export_cost": ["--calls", "200000", "--rounds", "2"],
    "profile_cost": ["--pairs", "2", "--steps", "500", "--starts", "2", "--shares-seconds", "10"],
}
PROGRAMS = ("eacgm", "bench/gmm_bench", "bench/probe_cost", "bench/recording_bench",
            "bench/spans_recording", "bench/spin", "bench/spin_inside")


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build", nargs="?", default="build", help="build folder (default: build)")
    p.add_argument("--full", action="store_true", help="for figures that are to be quoted")
    p.add_argument("--only", action="append", choices=sorted(SHORT), help="may be repeated")
    return p.parse_args()


def main():
    args = arguments()
    build = os.path.abspath(args.build)
    missing = [x for x in PROGRAMS if not os.access(os.path.join(build, x), os.X_OK)]
    if missing:
        print("run.py: %s: not built; run 'ninja -C %s' first" % (
            ", ".join(missing), args.build), file=sys.stderr)
        return 1
    if os.geteuid() != 0:
        print("run.py: needs root", file=sys.stderr)
        return 1
    failed = []
    for name, short in SHORT.items():
        if args.only and name not in args.only:
            continue
        print("\n== %s" % name, flush=True)
        rc = subprocess.call([sys.executable, os.path.join(BENCH, name + ".py"), "--build", build,
                              "--json", os.path.join(build, "bench", name + ".json"),
                              *([] if args.full else short)])
        if rc == 130:
            return rc
        if rc:
            failed.append(name)
    if failed:
        print("run.py: failed: " + ", ".join(failed), file=sys.stderr)
        return 1
    print("\nresults: %s/*.json%s" % (os.path.join(args.build, "bench"), "" if args.full else
                                      " (short settings: the figures are rough)"))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
