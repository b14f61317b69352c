"""What `eacgm agent` itself takes: processor time of all its threads and memory, of one or several
builds by turns, beside a process that does nothing, beside a small training on the CPU, and beside
that with --detect.

usage: agent_self.py EACGM [EACGM...] [--rounds N] [--settle S] [--seconds S] [--python PYTHON]

A line for each round, then the median of each build, and how much of it each thread has. It needs
root, and PyTorch for the training.
"""
import argparse
import collections
import glob
import re
import statistics
import subprocess
import time

IDLE = "import torch, time\ntorch.randn(4) @ torch.randn(4)\nprint(flush=True)\ntime.sleep(600)"
TRAINING = """
import time, torch
torch.set_num_threads(1)
m = torch.nn.Linear(64, 64)
o = torch.optim.SGD(m.parameters(), 0.01)
print(flush=True)
while True:
    o.zero_grad()
    m(torch.randn(8, 64)).sum().backward()
    o.step()
    time.sleep(0.01)
"""
CASES = {"no calls": (IDLE, []), "training": (TRAINING, []), "training, --detect": (TRAINING, ["--detect"])}


def used_ns(pid):
    """By threads' names, of the kernel's scheduler (Documentation/scheduler/sched-stats.rst): the
    first field."""
    total = collections.Counter()
    for task in glob.glob("/proc/%d/task/*" % pid):
        with open(task + "/comm") as name, open(task + "/schedstat") as f:
            total[name.read().strip()] += int(f.read().split()[0])
    return total


def memory(pid):
    with open("/proc/%d/smaps_rollup" % pid) as f:
        text = f.read()
    return [int(re.search(r"^%s:\s+(\d+)" % key, text, re.M).group(1)) / 1e3 for key in ("Rss", "Pss")]


def measure(o, eacgm, script, options):
    job = subprocess.Popen([o.python, "-c", script], stdout=subprocess.PIPE)
    job.stdout.readline()
    agent = subprocess.Popen([eacgm, "agent", "--listen", "127.0.0.1:0", "-p", str(job.pid), *options],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(o.settle)
        began, before = time.monotonic(), used_ns(agent.pid)
        time.sleep(o.seconds)
        used, took_s = used_ns(agent.pid), time.monotonic() - began
        cores = {name: (ns - before[name]) / 1e9 / took_s for name, ns in used.items()}
        return sum(cores.values()), *memory(agent.pid), cores
    finally:
        for p in (agent, job):
            p.terminate()
            p.wait()


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    a.add_argument("eacgm", nargs="+")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--settle", type=float, default=20)
    a.add_argument("--seconds", type=float, default=25)
    a.add_argument("--python", default="/usr/bin/python3")
    o = a.parse_args()
    got = collections.defaultdict(list)
    for _ in range(o.rounds):
        for case, (script, options) in CASES.items():
            for eacgm in o.eacgm:
                row = measure(o, eacgm, script, options)
                got[case, eacgm].append(row)
                print("%s, %s: %.2f %% of a core, %.0f MB resident, %.0f MB proportional" % (
                    eacgm, case, 100 * row[0], *row[1:3]), flush=True)
    for (case, eacgm), rows in got.items():
        print("%s, %s, median of %d: %.2f %% of a core, %.0f MB resident, %.0f MB proportional" % (
            eacgm, case, len(rows), *[(100 if i == 0 else 1) * statistics.median(column)
                                      for i, column in enumerate(list(zip(*rows))[:3])]))
        threads = {name: statistics.median(row[3].get(name, 0) for row in rows) for name in rows[0][3]}
        print("    " + ", ".join("%s %.2f %%" % (name, 100 * cores) for name, cores in sorted(
            threads.items(), key=lambda t: -t[1]) if cores > 5e-5))


if __name__ == "__main__":
    main()
