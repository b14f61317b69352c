#!/usr/bin/env python3
"""cost_told.py - the cost that reports tell beside the cost that is there, in interleaved pairs.

A pair is a job untraced and the same job under `eacgm record`, one right after the other, the
order changing from pair to pair. What is compared is the job's processor time, of all its
processes (rusage of those that were waited for), so that other load on the machine matters little:
measured is how much more the traced run took, told is what its report says that it took, what
held tasks used up included. The jobs: a training, an import of PyTorch, a thousand short programs,
a server under load of one client, so that both switch for each request, calls of a traced function
as fast as they come, and a loop of Python that collects its garbage now and then. Needs root; a job
whose programs are not there is left out."""

import argparse
import os
import shutil
import statistics
import sys
import tempfile

import common
from common import Failed

PYTHON = "/usr/bin/python3"
HERE = os.path.dirname(os.path.abspath(__file__))

REDIS = """cd "$0"; redis-server --port 0 --unixsocket "$0/s" --save '' >/dev/null &
until redis-cli -s "$0/s" ping >/dev/null 2>&1; do sleep 0.05; done
redis-benchmark -s "$0/s" -n %d -c 1 -t set,get -q >/dev/null
redis-cli -s "$0/s" shutdown nosave; wait"""

LOOP = "import gc\nfor i in range(%d):\n    x = i * i\n    if i %% 50 == 0: gc.collect(0)\n"


def jobs(args, folder):
    """name: (program that it needs, command, options of record)."""
    n = args.scale
    spin = os.path.join(args.build, "bench", "spin")
    return {
        "training": (PYTHON, [PYTHON, os.path.join(HERE, "train.py"), "--steps", int(300 * n)], []),
        "import": (PYTHON, [PYTHON, "-c", "import torch"], []),
        "execs": ("/bin/sh", ["/bin/sh", "-c",
                              "for i in $(seq %d); do /bin/true; done" % int(1000 * n)], []),
        "redis": ("redis-benchmark", ["/bin/sh", "-c", REDIS % int(60000 * n), folder], []),
        "calls": (spin, [spin, int(500_000 * n)],
                  ["--layers", "user", "--probe", "spin:spin_push()"]),
        "loop": (PYTHON, [PYTHON, "-c", LOOP % int(10_000_000 * n)], []),
    }


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("--pairs", type=int, default=9)
    p.add_argument("--only", default="training,import,execs,redis,calls,loop")
    p.add_argument("--scale", type=float, default=1.0, help="how long the jobs are")
    p.add_argument("--limit", type=int, default=180, help="seconds that one run may take")
    args = p.parse_args()
    args.eacgm = os.path.join(args.build, "eacgm")
    return args


def untraced(args, command):
    return common.run(command, args.limit).cpu_s


def traced(args, command, options, folder):
    path = os.path.join(folder, "cost.eacgm")
    common.run([args.eacgm, "record", "-o", path, *options, "--", *command], args.limit)
    told = common.report_of(args.eacgm, path)["recording"]
    meta = common.metas_of(args.eacgm, path)
    return {"cpu_s": int(meta["job_cpu_ns"]) / 1e9, "lost": told["lost"], **told["overhead"]}


def measure(args, name, job, folder):
    _needs, command, options = job
    pairs = []
    untraced(args, command)
    traced(args, command, options, folder)  # what is kept of files, and of this host
    for i in range(args.pairs):
        common.say("cost_told: %s, pair %d of %d" % (name, i + 1, args.pairs))
        if i % 2:
            after = traced(args, command, options, folder)
            before = untraced(args, command)
        else:
            before = untraced(args, command)
            after = traced(args, command, options, folder)
        pairs.append({"untraced_s": before, **after})
    common.said()
    return summed_up(name, pairs)


def summed_up(name, pairs):
    told = [p["running_cpu_s"] + p["held_cpu_s"] for p in pairs]
    measured = [p["cpu_s"] - p["untraced_s"] for p in pairs]
    row = {"job": name, "pairs": pairs, "told_s": common.interval(told),
           "measured_s": common.interval(measured),
           "untraced_s": statistics.median(p["untraced_s"] for p in pairs),
           "held_cpu_s": statistics.median(p["held_cpu_s"] for p in pairs),
           "lost": max(p["lost"] for p in pairs)}
    least = row["measured_s"]["median"]
    row["told_to_measured"] = row["told_s"]["median"] / least if least > 0 else None
    return row


def milliseconds(i):
    return "%.0f (%.0f .. %.0f)" % tuple(1e3 * i[k] for k in ("median", "low", "high"))


def show(rows):
    common.print_table(
        "What recording costs: processor time of the job, ms, and its 95 % interval",
        ["job", "untraced", "more when traced", "told", "of it held", "told / measured", "lost"],
        [[r["job"], "%.0f" % (1e3 * r["untraced_s"]), milliseconds(r["measured_s"]),
          milliseconds(r["told_s"]), "%.0f" % (1e3 * r["held_cpu_s"]),
          "%.2f" % r["told_to_measured"] if r["told_to_measured"] else "-", str(r["lost"])]
         for r in rows])


def main():
    args = arguments()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        every = jobs(args, folder)
        for name in args.only.split(","):
            if name not in every:
                raise Failed("--only: there is no job '%s'" % name)
            if not shutil.which(every[name][0]):
                print("%s: left out, there is no %s" % (name, every[name][0]))
                continue
            rows.append(measure(args, name, every[name], folder))
    show(rows)
    results = common.Results("cost_told", args.eacgm, {"pairs": args.pairs, "scale": args.scale})
    results["jobs"] = rows
    results.write(args.json)
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
