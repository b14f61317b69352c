"""What `eacgm agent` itself takes: processor time of all its threads and memory, of one or several
builds by turns, beside a process that does nothing, beside a small training on the CPU, and beside
that with --detect. --cuda: beside two trainings on a GPU, without and with a bound of its own, with
--detect, and with that on a budget.

usage: agent_self.py EACGM [EACGM...] [--rounds N] [--settle S] [--seconds S] [--python PYTHON] [--cuda]
       [--only CASE...]

Memory is that of the agent's process, what of it is proportional to those who share it, and that of
the agent and all that it forks together. A line for each round, then the median of each build, and
how much of it each thread has. It needs root, and PyTorch for the training.
"""
import argparse
import collections
import glob
import re
import statistics
import subprocess
import time

import common

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
# One keeps its GPU busy, one is bound by its launches.
CUDA_TRAINING = """
import torch
def layers(width, heads):
    layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 8).cuda().bfloat16()
m, x = layers(%d, %d), torch.randn(%d, %d, %d, device="cuda", dtype=torch.bfloat16)
o = torch.optim.AdamW(m.parameters())
first = True
while True:
    o.zero_grad()
    m(x).float().square().mean().backward()
    o.step()
    if first:
        torch.cuda.synchronize()
        print(flush=True)
        first = False
"""
CUDA_JOBS = [CUDA_TRAINING % (2048, 16, 16, 512, 2048), CUDA_TRAINING % (256, 4, 4, 64, 256)]
CASES = {"no calls": ([IDLE], []), "training": ([TRAINING], []),
         "training, --detect": ([TRAINING], ["--detect"])}
CUDA_CASES = {"trainings on a GPU": (CUDA_JOBS, []),
              "trainings on a GPU, no bound of its own": (CUDA_JOBS, ["--own-budget", "100%"]),
              "trainings on a GPU, --detect": (CUDA_JOBS, ["--detect"]),
              "trainings on a GPU, --detect --budget 1%": (CUDA_JOBS, ["--detect", "--budget", "1%"])}


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
    return [*(int(re.search(r"^%s:\s+(\d+)" % key, text, re.M).group(1)) / 1e3 for key in ("Rss", "Pss")),
            common.together_of(pid) / 1e6]


def measure(o, eacgm, scripts, options):
    jobs = [subprocess.Popen([o.python, "-c", script], stdout=subprocess.PIPE) for script in scripts]
    for job in jobs:
        job.stdout.readline()
    traced = [word for job in jobs for word in ("-p", str(job.pid))]
    agent = subprocess.Popen([eacgm, "agent", "--listen", "127.0.0.1:0", *traced, *options],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(o.settle)
        began, before = time.monotonic(), used_ns(agent.pid)
        time.sleep(o.seconds)
        used, took_s = used_ns(agent.pid), time.monotonic() - began
        cores = {name: (ns - before[name]) / 1e9 / took_s for name, ns in used.items()}
        return sum(cores.values()), *memory(agent.pid), cores
    finally:
        for p in (agent, *jobs):
            p.terminate()
            p.wait()


def said(row):
    return ("%.2f %% of a core, %.0f MB resident, %.0f MB proportional, %.0f MB together" %
            (100 * row[0], *row[1:4]))


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    a.add_argument("eacgm", nargs="+")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--settle", type=float, default=20)
    a.add_argument("--seconds", type=float, default=25)
    a.add_argument("--python", default="/usr/bin/python3")
    a.add_argument("--cuda", action="store_true")
    a.add_argument("--only", nargs="*", help="cases that end so")
    o = a.parse_args()
    got = collections.defaultdict(list)
    for _ in range(o.rounds):
        for case, (scripts, options) in (CUDA_CASES if o.cuda else CASES).items():
            if o.only and not any(case.endswith(name) for name in o.only):
                continue
            for eacgm in o.eacgm:
                row = measure(o, eacgm, scripts, options)
                got[case, eacgm].append(row)
                print("%s, %s: %s" % (eacgm, case, said(row)), flush=True)
    for (case, eacgm), rows in got.items():
        medians = [statistics.median(column) for column in list(zip(*rows))[:4]]
        print("%s, %s, median of %d: %s" % (eacgm, case, len(rows), said(medians)))
        threads = {name: statistics.median(row[4].get(name, 0) for row in rows) for name in rows[0][4]}
        print("    " + ", ".join("%s %.2f %%" % (name, 100 * cores) for name, cores in sorted(
            threads.items(), key=lambda t: -t[1]) if cores > 5e-5))


if __name__ == "__main__":
    main()
