#!/usr/bin/env python3
"""freeze_fault.py - what `eacgm agent --detect --freeze` writes when somebody else comes to the GPU of
two trainings: one keeps the GPU busy, one is bound by its launches (agent_self.py's).

usage: freeze_fault.py EACGM [--python PYTHON] [--seconds S]

When the agent knows what is usual, a loop of large matrix products runs on the GPU for S seconds (14
unless told). Told are the agent's processor time and memory before, all its processes together; how
long after the loop's first product the file's moment is, its seconds and calls before and after that
product, and the incidents in it. Needs root, a GPU and PyTorch; two minutes.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

import agent_self
import common

NEIGHBOUR = """
import sys, time, torch
x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
x @ x
torch.cuda.synchronize()
print(flush=True)
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    for _ in range(20):
        x @ x
    torch.cuda.synchronize()
"""
LEARN_S, LOOK_S, WAIT_S = 150, 15, 60


def wait_for(what, seconds, missing):
    limit = time.monotonic() + seconds
    while not what():
        if time.monotonic() > limit:
            sys.exit("freeze_fault: " + missing)
        time.sleep(0.2)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def told(eacgm, path, began_ns):
    rows = subprocess.run([eacgm, "query", path, "--json",
                           "SELECT (SELECT value FROM recording WHERE key = 'frozen_at_ns') AS at,"
                           " min(start_ns) AS first, max(start_ns) AS last, sum(start_ns < %d) AS"
                           " before, sum(start_ns >= %d) AS after FROM calls" % (began_ns, began_ns)],
                          capture_output=True, text=True, check=True).stdout
    row = json.loads(rows)[0]
    print("its moment is %.2f s after the neighbour's first product; %.2f s and %d calls before that, "
          "%.2f s and %d after" % ((int(row["at"]) - began_ns) / 1e9, (began_ns - row["first"]) / 1e9,
                                   row["before"], (row["last"] - began_ns) / 1e9, row["after"]))
    report = json.loads(subprocess.run([eacgm, "report", "--json", path], capture_output=True, text=True,
                                       check=True).stdout)
    for i in report.get("incidents", []):
        print("incident: %s, %.0f %%" % (i["what"], 100 * i["confidence"]))


def beside(o, jobs, folder):
    log = folder + "/agent.log"
    traced = [word for job in jobs for word in ("-p", str(job.pid))]
    with open(log, "w", encoding="utf-8") as f:
        agent = subprocess.Popen([o.eacgm, "agent", "--listen", "127.0.0.1:0", "--detect", "--freeze",
                                  folder, *traced], stdout=f, stderr=f)
    try:
        wait_for(lambda: "judges from now on" in read(log), LEARN_S, "it did not learn")
        time.sleep(5)
        began, before = time.monotonic(), agent_self.used_ns(agent.pid)
        time.sleep(LOOK_S)
        used = sum((agent_self.used_ns(agent.pid) - before).values())
        print("the agent: %.1f %% of a core, %.0f MB together" % (
            used / 1e7 / (time.monotonic() - began), common.together_of(agent.pid) / 1e6), flush=True)
        others = set(glob.glob(folder + "/*.eacgm"))
        neighbour = subprocess.Popen([o.python, "-c", NEIGHBOUR, str(o.seconds)],
                                     stdout=subprocess.PIPE)
        jobs.append(neighbour)
        neighbour.stdout.readline()
        began_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        wait_for(lambda: set(glob.glob(folder + "/*.eacgm")) - others, o.seconds + WAIT_S,
                 "no file came: " + read(log))
        neighbour.wait()
        time.sleep(5)
        print("%.0f MB together behind it" % (common.together_of(agent.pid) / 1e6))
    finally:
        agent.terminate()
        agent.wait()
    for path in sorted(set(glob.glob(folder + "/*.eacgm")) - others):
        told(o.eacgm, path, began_ns)
    print("".join("agent: " + line for line in read(log).splitlines(True) if "ncident" in line), end="")


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    a.add_argument("eacgm")
    a.add_argument("--python", default=sys.executable)
    a.add_argument("--seconds", type=float, default=14)
    o = a.parse_args()
    jobs = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for script in agent_self.CUDA_JOBS:
                jobs.append(subprocess.Popen([o.python, "-c", script], stdout=subprocess.PIPE))
                jobs[-1].stdout.readline()
            beside(o, jobs, folder)
        finally:
            for job in jobs:
                job.kill()
                job.wait()


if __name__ == "__main__":
    os.umask(0o077)
    main()
