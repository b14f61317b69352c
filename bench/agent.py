"""What `eacgm agent` costs a job that is launch-bound, and itself: pairs of runs, with and without.

usage: agent.py EACGM [--pairs N] [--seconds S] [--cuda] [--budget PCT] [--out FILE.json]

The job makes steps of a small model for S seconds, as fast as it can; a pair is one run beside an
agent and one without, in an order that alternates. Printed: the median of the pairs' slowdowns, by
time a step and by the job's CPU time a step, with its interval at 95 %, the agent's own CPU time,
and its memory. The agent is on a control group of its own, in which the job is.
"""
import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from common import interval

JOB = """
import sys, time, torch
torch.set_num_threads(1)
device, seconds = sys.argv[1], float(sys.argv[2])
m = torch.nn.Sequential(*[torch.nn.Linear(128, 128) for _ in range(8)]).to(device)
o = torch.optim.SGD(m.parameters(), lr=1e-3)
x = torch.randn(16, 128, device=device)
def step():
    o.zero_grad()
    m(x).sum().backward()
    o.step()
for _ in range(50):
    step()
if device == "cuda":
    torch.cuda.synchronize()
began, cpu, steps = time.monotonic(), time.process_time(), 0
while time.monotonic() - began < seconds:
    step()
    steps += 1
if device == "cuda":
    torch.cuda.synchronize()
print((time.monotonic() - began) / steps, (time.process_time() - cpu) / steps)
"""


def run_job(group, device, seconds, python):
    out = subprocess.run(
        ["sh", "-c", "echo $$ > %s/cgroup.procs; exec \"$@\"" % group, "sh", python, "-c", JOB,
         device, str(seconds)], check=True, capture_output=True, text=True).stdout
    return [float(word) for word in out.split()]


def cgroup2():
    with open("/proc/mounts") as f:
        for line in f:
            if line.split()[2] == "cgroup2":
                return line.split()[1]
    sys.exit("no cgroup v2 tree is mounted")


def own_cpu_s(pid):
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
            total += int(f.read().split()[0])
    return total / 1e9


def rss_bytes(pid):
    with open("/proc/%d/status" % pid) as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) * 1024


class Agent:
    def __init__(self, eacgm, group, budget):
        self.log = tempfile.TemporaryFile("w+")
        self.p = subprocess.Popen([eacgm, "agent", "--cgroup", group, "--listen", "127.0.0.1:0",
                                   "--budget", budget], stderr=self.log, stdout=self.log)
        while "attached to" not in self.said():
            if self.p.poll() is not None:
                sys.exit(self.said())
            time.sleep(0.05)
        self.port = int(re.search(r"127\.0\.0\.1:(\d+)", self.said()).group(1))
        self.began, self.cpu_s = time.monotonic(), own_cpu_s(self.p.pid)

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def metrics(self):
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.port, timeout=10) as r:
            return r.read().decode()

    def end(self):
        """(share of a core that it took, its memory)"""
        took = (own_cpu_s(self.p.pid) - self.cpu_s) / (time.monotonic() - self.began)
        rss = rss_bytes(self.p.pid)
        self.metrics()
        self.p.send_signal(signal.SIGTERM)
        if self.p.wait(60):
            sys.exit(self.said())
        return took, rss


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("eacgm")
    a.add_argument("--pairs", type=int, default=10)
    a.add_argument("--seconds", type=float, default=20)
    a.add_argument("--cuda", action="store_true")
    a.add_argument("--budget", default="1%")
    a.add_argument("--python", default="/usr/bin/python3")
    a.add_argument("--out")
    o = a.parse_args()
    group = os.path.join(cgroup2(), "eacgm-bench-%d" % os.getpid())
    os.mkdir(group)
    device = "cuda" if o.cuda else "cpu"
    slower, own, memory = {"time": [], "CPU time": []}, [], []
    try:
        for pair in range(o.pairs):
            took = {}
            for watched in ((False, True) if pair % 2 else (True, False)):
                agent = Agent(o.eacgm, group, o.budget) if watched else None
                took[watched] = run_job(group, device, o.seconds, o.python)
                if agent:
                    share, rss = agent.end()
                    own.append(share)
                    memory.append(rss)
            for i, what in enumerate(slower):
                slower[what].append(took[True][i] / took[False][i] - 1)
            print("pair %d: %s, the agent %.2f %% of a core, %.1f MB" % (
                pair + 1, ", ".join("%+.2f %% by %s" % (100 * v[-1], what)
                                    for what, v in slower.items()),
                100 * own[-1], memory[-1] / 1e6), flush=True)
    finally:
        os.rmdir(group)
    for what, values in slower.items():
        i = interval(values)
        print("%s, budget %s, by %s a step: %+.2f %% (%+.2f to %+.2f, %d pairs)" % (
            device, o.budget, what, 100 * i["median"], 100 * i["low"], 100 * i["high"], i["n"]))
    print("the agent: %.2f %% of a core, %.1f MB" % (100 * statistics.median(own),
                                                     max(memory) / 1e6))
    if o.out:
        with open(o.out, "w") as f:
            json.dump({"slower": slower, "own_cores": own, "rss_bytes": memory}, f)


if __name__ == "__main__":
    main()
