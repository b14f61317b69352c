#!/usr/bin/env python3
"""own_budget.py - what `eacgm agent` takes of a core beside launches of kernels through the tests'
libcuda.so.1 (bench/launch_load), with and without a bound of its own (--own-budget), without and
with --detect. No GPU is needed.

usage: own_budget.py BUILD [--rate CALLS_PER_S] [--settle S] [--seconds S] [--rounds N]
                     [--limit PCT] [--only TEXT]

One after the other, by turns: each beside a job of its own. Told are processor time of all threads
of the agent and of what it forked, after it has settled, how many functions are in bursts then, for
which budget, and how many calls of the job were seen; the load of the host is told, for it makes
all of it longer. Needs root.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
import urllib.request

import common


def own_s(pid):
    """Of a process and those that it forked: utime, stime, and those of children that ended
    (proc(5)), threads that ended included. In ticks, of 10 ms."""
    ticks = 0
    for one in common.family_of(pid):
        try:
            with open("/proc/%d/stat" % one) as f:
                ticks += sum(map(int, f.read().rpartition(")")[2].split()[11:15]))
        except OSError:
            pass
    return ticks / os.sysconf("SC_CLK_TCK")


def ask(address, path):
    with urllib.request.urlopen("http://%s%s" % (address, path), timeout=20) as r:
        return json.load(r)


def address_of(log):
    for _ in range(600):
        log.seek(0)
        found = re.search(r"serves http://([0-9.:]+)/", log.read())
        if found:
            return found.group(1)
        time.sleep(0.1)
    raise SystemExit("the agent serves nothing")


def seen_calls(address):
    return sum(layer["calls"] for layer in ask(address, "/api/v1/self")["layers"])


def measure(o, options):
    total_s = str(o.settle + o.seconds + 60)
    job = subprocess.Popen([o.build + "/bench/launch_load", total_s, str(o.rate), "3", "300"],
                           stdout=subprocess.DEVNULL)
    with tempfile.TemporaryFile("w+") as log:
        agent = subprocess.Popen([o.build + "/eacgm", "agent", "--listen", "127.0.0.1:0", "-p",
                                  str(job.pid), *options], stdout=log, stderr=log)
        try:
            address = address_of(log)
            time.sleep(o.settle)
            began, before, calls = time.monotonic(), own_s(agent.pid), seen_calls(address)
            time.sleep(o.seconds)
            took_s = time.monotonic() - began
            told = ask(address, "/api/v1/self")
            return ((own_s(agent.pid) - before) / took_s, (seen_calls(address) - calls) / took_s,
                    told["turned_down"], told.get("own_budget"))
        finally:
            for p in (agent, job):
                p.terminate()
                p.wait()


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    a.add_argument("build")
    a.add_argument("--rate", type=int, default=80000)
    a.add_argument("--settle", type=float, default=60)
    a.add_argument("--seconds", type=float, default=40)
    a.add_argument("--rounds", type=int, default=1)
    a.add_argument("--limit", default="0.5%")
    a.add_argument("--only", default="", help="cases whose name has this in it")
    o = a.parse_args()
    cases = {"": [], ", --detect": ["--detect"]}
    bounds = {"no budget": ["--budget", "100%"],
              "own alone": ["--budget", "100%", "--own-budget", o.limit],
              "both": ["--budget", "1%", "--own-budget", o.limit],
              "the jobs' alone": ["--budget", "1%", "--own-budget", "100%"]}
    got = {}
    for _ in range(o.rounds):
        for case, options in cases.items():
            for bound, more in bounds.items():
                if o.only not in bound + case:
                    continue
                cores, calls_per_s, down, own = measure(o, options + more)
                got.setdefault((case, bound), []).append(cores)
                why = [row.get("budget") for row in down]
                print("%s%s: %.2f %% of a core, %.0f calls/s seen, in bursts: %d for the jobs, %d "
                      "for itself, %s; load %.1f" % (
                          bound, case, 100 * cores, calls_per_s, why.count("jobs"),
                          why.count("own"), own, os.getloadavg()[0]), flush=True)
    for (case, bound), cores in got.items():
        print("%s%s: median %.2f %% of %d" % (bound, case, 100 * statistics.median(cores),
                                              len(cores)))


if __name__ == "__main__":
    main()
