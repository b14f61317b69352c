#!/usr/bin/env python3
"""detect_budget.py - `eacgm agent --detect` of a training on the CPU within budgets: what it costs, when it
judges, and whether a line that takes longer, and others on the job's CPU, are told.

usage: detect_budget.py EACGM [--budgets PCT,...] [--python PYTHON]

For each budget ("none": what it takes) a job begins, and an agent four seconds later. When it has said
that it judges, and after ten seconds in which nothing happens, each step sleeps for a fifth of its time
in a function of the job's own, for 20 s; 20 s later two others run on the job's CPU, for 20 s. Told is
an incident's first line that comes while that lasts; those before the first fault are false. The cost
is the agent's own figure, of the seconds before the faults. Needs root and PyTorch.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

JOB = """
import os, sys, time, torch
import torch.nn as nn
torch.set_num_threads(1)
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.attend = nn.MultiheadAttention(d, 4, batch_first=True)
        self.first, self.second = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
    def forward(self, x):
        y = self.first(x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.second(x))
model = nn.Sequential(*[Block(64) for _ in range(4)], nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
took = 0.05
def read_batch():
    if os.path.exists(sys.argv[1]):
        time.sleep(took / 5)
    return torch.randn(8, 32, 64), torch.randint(0, 10, (8, 32))
while True:
    began = time.monotonic()
    x, y = read_batch()
    optimizer.zero_grad(set_to_none=True)
    nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
    optimizer.step()
    if not os.path.exists(sys.argv[1]):
        took += 0.05 * (time.monotonic() - began - took)
"""
HOG = "import os\nos.sched_setaffinity(0, {max(os.sched_getaffinity(0))})\nwhile True: pass"
FAULT_S, QUIET_S, REST_S = 20, 10, 20
JUDGES_MOST_S = 300


class Agent:
    """Its lines with the times at which they came."""

    def __init__(self, eacgm, pid, budget):
        more = [] if budget == "none" else ["--budget", budget]
        self.p = subprocess.Popen([eacgm, "agent", "-p", str(pid), "--detect", "--listen", "127.0.0.1:0",
                                   *more], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.began = time.monotonic()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.p.stderr:
            self.lines.append((time.monotonic(), line.rstrip()))

    def wait(self, words, seconds):
        limit = time.monotonic() + seconds
        while not (found := [(at, line) for at, line in self.lines if words in line]):
            if self.p.poll() is not None or time.monotonic() > limit:
                sys.exit("detect_budget: waited for '%s': %s" % (words, self.lines))
            time.sleep(0.1)
        return found[-1]

    def itself(self):
        address = re.search(r"http://(\S+)/metrics", self.wait("serves", 30)[1]).group(1)
        with urllib.request.urlopen("http://%s/api/v1/self" % address, timeout=10) as r:
            return json.load(r)

    def incidents(self, since, until=float("inf")):
        return [(at, line.split("incident: ")[1]) for at, line in self.lines
                if "incident: " in line and since <= at < until]

    def end(self):
        self.p.terminate()
        self.p.wait(60)


def watched(agent, seconds):
    """The cost ratio, meanwhile."""
    costs, limit = [], time.monotonic() + seconds
    while time.monotonic() < limit:
        time.sleep(1)
        costs.append(agent.itself()["cost_ratio"])
    return statistics.median(costs)


def fault(agent, begin):
    since, undo = time.monotonic(), begin()
    time.sleep(FAULT_S)
    undo()
    told = agent.incidents(since, since + FAULT_S)
    time.sleep(REST_S)
    return "after %.1f s: %s" % (told[0][0] - since, told[-1][1].split(",")[0]) if told else "no"


def slow_line(path):
    open(path, "w", encoding="ascii").close()
    return lambda: os.unlink(path)


def hogs():
    started = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(2)]

    def undo():
        for p in started:
            p.kill()
            p.wait()
    return undo


def run(o, folder, budget):
    slow = os.path.join(folder, "slow")
    with subprocess.Popen([o.python, "-c", JOB, slow]) as job:
        try:
            time.sleep(4)
            agent = Agent(o.eacgm, job.pid, budget)
            judges_at, _ = agent.wait("judges from now on", JUDGES_MOST_S)
            cost = watched(agent, QUIET_S)
            left_out = len(agent.itself()["turned_down"])
            false = agent.incidents(0)
            line, others = fault(agent, lambda: slow_line(slow)), fault(agent, hogs)
            again = sum("learns anew" in text for at, text in agent.lines if at > judges_at)
            agent.end()
        finally:
            job.kill()
    print("| %s | %.1f %% | %d | %.0f s | %d | %s | %s | %d |" % (
        budget, 100 * cost, left_out, judges_at - agent.began, len(false), line, others, again), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("eacgm")
    p.add_argument("--budgets", default="none,5%,2%,1%")
    p.add_argument("--python", default="/usr/bin/python3")
    o = p.parse_args()
    print("| budget | cost | functions in bursts | judges after | false | slow line | others on its CPU | "
          "learned anew |\n| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for budget in o.budgets.split(","):
            run(o, folder, budget)


if __name__ == "__main__":
    main()
