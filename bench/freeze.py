#!/usr/bin/env python3
"""freeze.py - how many seconds before its moment a frozen file has of a busy job, and what keeping them
takes of the agent: by turns of several builds of eacgm, of the same job.

usage: freeze.py EACGM... [--memory MB] [--rounds N] [--python PYTHON]

The job is a small GPT of PyTorch on one CPU, some 20,000 operators a second, all of which are seen
(--budget 100%). After 25 s the agent is asked for a file (SIGUSR1); told are the seconds between
frozen_from_ns and frozen_at_ns, what was asked for being ten, calls in the file, its size, and the
agent's processor time from 10 s on. Needs root and PyTorch.
"""
import argparse
import glob
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from detect_budget import JOB

CALM_S, AT_S, WAIT_S = 10, 25, 60


def cpu_s(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def frozen(eacgm, pid, memory, folder):
    """Seconds before, calls, MB of the file, cores, resident MB."""
    agent = subprocess.Popen([eacgm, "agent", "-p", str(pid), "--freeze", folder, "--freeze-after", "1s",
                              "--freeze-memory", str(memory), "--budget", "100%", "--listen",
                              "127.0.0.1:0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        while "attached to" not in (line := agent.stderr.readline()):
            if not line:
                sys.exit("freeze: the agent ended")
        time.sleep(CALM_S)
        before, began = cpu_s(agent.pid), time.monotonic()
        time.sleep(AT_S - CALM_S)
        cores = (cpu_s(agent.pid) - before) / (time.monotonic() - began)
        with open("/proc/%d/status" % agent.pid, encoding="ascii") as f:
            rss = [int(line.split()[1]) for line in f if line.startswith("VmRSS")][0] / 1024
        os.kill(agent.pid, signal.SIGUSR1)
        limit = time.monotonic() + WAIT_S
        while not (files := glob.glob(folder + "/*.eacgm")):
            if time.monotonic() > limit:
                sys.exit("freeze: no file came")
            time.sleep(0.1)
    finally:
        agent.terminate()
        agent.communicate()
    said = subprocess.run([eacgm, "query", files[0], "--json",
                           "SELECT (SELECT value FROM recording WHERE key = 'frozen_at_ns') -"
                           " (SELECT value FROM recording WHERE key = 'frozen_from_ns') AS ns,"
                           " (SELECT count(*) FROM calls) AS calls"], check=True, stdout=subprocess.PIPE)
    row = json.loads(said.stdout)[0]
    size = os.path.getsize(files[0]) / 1e6
    os.unlink(files[0])
    return row["ns"] / 1e9, row["calls"], size, cores, rss


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("eacgm", nargs="+")
    p.add_argument("--memory", type=int, default=16)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--python", default="/usr/bin/python3")
    args = p.parse_args()
    rows = {eacgm: [] for eacgm in args.eacgm}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            for eacgm in args.eacgm:
                job = subprocess.Popen([args.python, "-c", JOB, folder + "/slow"])
                time.sleep(4)
                try:
                    rows[eacgm].append(frozen(os.path.abspath(eacgm), job.pid, args.memory, folder + "/f"))
                finally:
                    job.kill()
                    job.wait()
                print("%s: %.1f s before, %d calls, %.1f MB, %.3f cores, %.0f MB resident" % (
                    eacgm, *rows[eacgm][-1]), flush=True)
    for eacgm, of in rows.items():
        print("%s, median of %d: %.1f s, %.0f calls, %.1f MB, %.3f cores, %.0f MB" % (
            eacgm, len(of), *(statistics.median(v) for v in zip(*of))))


if __name__ == "__main__":
    main()
