#!/usr/bin/env python3
"""storms.py - what recording costs jobs that start many processes, in interleaved pairs.

A storm is a job of many short processes or of many that load large libraries at once. It times
itself, from its first process to its last, so that eacgm's own start is not in the figure. A pair is
the storm untraced and the storm under `eacgm record` with no options, one right after the other,
the order changing from pair to pair. Beside the ratio stands what the report itself says that
recording has cost, and what it says the job was held. Needs root."""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

import common
from common import Failed

HERE = os.path.abspath(__file__)
PYTHON = "/usr/bin/python3"


# ---- the storms: each runs in a process of its own and prints its seconds ----

def storm_imports(_folder):
    children = [subprocess.Popen([PYTHON, "-c", "import torch"]) for _ in range(8)]
    return [c.wait() for c in children]


def storm_execs(_folder):
    return [subprocess.run(["/bin/sh", "-c", "for i in $(seq 1000); do /bin/true; done"],
                           check=True).returncode]


def storm_make(folder):
    for i in range(40):
        with open(os.path.join(folder, f"unit{i}.c"), "w", encoding="utf-8") as f:
            f.write("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n" + "".join(
                f"int f{i}_{k}(int a) {{ char b[64]; snprintf(b, 64, \"%d\", a); "
                f"return strlen(b) + {k}; }}\n" for k in range(60)))
    with open(os.path.join(folder, "Makefile"), "w", encoding="utf-8") as f:
        f.write("O := $(patsubst %.c,%.o,$(wildcard unit*.c))\nall.a: $(O)\n\tar rcs $@ $^\n"
                "%.o: %.c\n\tgcc -O1 -c -o $@ $<\n")
    return [subprocess.run(["make", "-s", "-j2", "-C", folder], check=True).returncode]


def storm_pytest(folder):
    with open(os.path.join(folder, "test_short.py"), "w", encoding="utf-8") as f:
        f.write("import subprocess, pytest\n@pytest.mark.parametrize('i', range(500))\n"
                "def test_one(i):\n    out = subprocess.run(['/bin/echo', str(i)], "
                "stdout=subprocess.PIPE).stdout\n    assert int(out) == i\n")
    return [subprocess.run([PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder],
                           check=True, stdout=subprocess.DEVNULL).returncode]


STORMS = {"imports": storm_imports, "execs": storm_execs, "make": storm_make,
          "pytest": storm_pytest}


def run_storm(name):
    import time
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        status = STORMS[name](folder)
        print("storm_s %.4f" % (time.monotonic() - began))
    return max(status)


# ---- measuring ----

def storm_seconds(out):
    for line in out.splitlines():
        if line.startswith("storm_s "):
            return float(line.split()[1])
    raise Failed("the storm did not tell its time")


def once(args, name, traced, folder):
    job = [PYTHON, HERE, "--storm", name]
    if not traced:
        return storm_seconds(common.run(job, 300).out), None
    path = os.path.join(folder, "storm.eacgm")
    ran = common.run([args.eacgm, "record", "-o", path] + args.option + ["--"] + job, 600)
    report = json.loads(common.run([args.eacgm, "report", "--json", path], 300).out)
    return storm_seconds(ran.out), report["recording"]


def measure(args, name, folder):
    plain, traced, told, held, lost = [], [], [], [], 0
    once(args, name, True, folder)  # warm: the caches of files and plans
    for pair in range(args.pairs):
        order = [False, True] if pair % 2 == 0 else [True, False]
        for is_traced in order:
            seconds, recording = once(args, name, is_traced, folder)
            if not is_traced:
                plain.append(seconds)
                continue
            traced.append(seconds)
            overhead = recording["overhead"]
            if overhead["cpu_ratio"] is not None:  # a job too short to tell
                told.append(overhead["cpu_ratio"])
            held.append(overhead.get("held_s", 0.0))
            lost = max(lost, recording["lost"])
    ratios = [t / p for t, p in zip(traced, plain)]
    return {"storm": name, "pairs": args.pairs, "plain_s": statistics.median(plain),
            "traced_s": statistics.median(traced), "ratio": statistics.median(ratios),
            "ratio_least": min(ratios), "ratio_most": max(ratios),
            "told_cost": statistics.median(told) if told else None,
            "held_s": statistics.median(held),
            "lost": lost}


def told_text(cost):
    return "unknown" if cost is None else "%.1f %%" % (100 * cost)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build", nargs="?", default="build")
    p.add_argument("--storm", choices=list(STORMS), help=argparse.SUPPRESS)
    p.add_argument("--only", default=",".join(STORMS))
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--option", action="append", default=[], help="of record; may be repeated")
    p.add_argument("--json")
    args = p.parse_args()
    if args.storm:
        return run_storm(args.storm)
    args.eacgm = os.path.join(os.path.abspath(args.build), "eacgm")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only.split(","):
            rows.append(measure(args, name, folder))
            r = rows[-1]
            print("%-8s untraced %6.2f s, recorded %6.2f s: x %.2f (%.2f to %.2f); told %s, "
                  "held %.2f s, lost %d" % (r["storm"], r["plain_s"], r["traced_s"], r["ratio"],
                                            r["ratio_least"], r["ratio_most"],
                                            told_text(r["told_cost"]), r["held_s"], r["lost"]),
                  flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
