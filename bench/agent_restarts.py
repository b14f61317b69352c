"""Whether `eacgm agent` lets go of a job that has ended, and counts the same calls of the next: the same
training is started again and again, each time after the agent has given back the files of the last.

usage: agent_restarts.py EACGM [--turns N] [--wait S] [--device cuda|cpu] [--python PYTHON]

A line for each turn: functions and calls that were counted of it, descriptors of the agent and all that
it forks, and how many of them are files of PyTorch or CUDA; while its job has just ended, and S seconds
later. Fails (exit status 1) where a turn has other counts than the first, or more than one such file
stays open. It needs root, and PyTorch.
"""
import argparse
import collections
import glob
import os
import re
import subprocess
import sys
import time
import urllib.request

PORT = 9471
STAY = 1  # the driver's own is read for NVML
JOB = """
import time, torch
torch.manual_seed(0)
m = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)]).to("%s")
o = torch.optim.SGD(m.parameters(), 0.01)
x = torch.randn(64, 256, device="%s")
began = time.time()
for i in range(400):
    o.zero_grad()
    m(x).square().mean().backward()
    o.step()
while time.time() - began < 12:
    time.sleep(0.1)
"""


def family(pid):
    ret = [pid]
    for path in sorted(glob.glob("/proc/[0-9]*/stat"), key=lambda p: int(p.split("/")[2])):
        try:
            with open(path) as f:
                stat = f.read()
        except OSError:
            continue
        if int(stat.rsplit(")", 1)[1].split()[1]) in ret:
            ret.append(int(stat.split()[0]))
    return ret


def descriptors(pid):
    """All, and those of files of the job."""
    n = collections.Counter()
    for of in family(pid):
        for fd in glob.glob("/proc/%d/fd/*" % of):
            try:
                to = os.readlink(fd)
            except OSError:
                continue
            n["all"] += 1
            n["job's"] += "torch" in to or "cuda" in to
    return n


def calls(pid):
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % PORT, timeout=20) as r:
        text = r.read().decode()
    ret = collections.Counter()
    for line in text.splitlines():
        if line.startswith("eacgm_calls_total{") and 'pid="%d"' % pid in line:
            ret[re.search(r'function="([^"]*)"', line).group(1)] += float(line.rsplit(" ", 1)[1])
    return ret


def run(o, agent):
    first, failed = None, False
    for turn in range(o.turns):
        job = subprocess.Popen([o.python, "-c", JOB % (o.device, o.device)])
        if job.wait(120):
            sys.exit("the job failed")
        time.sleep(2.5)
        counts, had = calls(job.pid), descriptors(agent.pid)
        time.sleep(o.wait)
        has = descriptors(agent.pid)
        first = first or counts
        same = counts == first and sum(counts.values()) > 0
        failed |= not same or has["job's"] > STAY
        print("turn %d: %d functions, %d calls%s; descriptors %d, of the job's files %d; after %d s "
              "%d, %d" % (turn + 1, len(counts), sum(counts.values()), "" if same else " (OTHERS)",
                          had["all"], had["job's"], o.wait, has["all"], has["job's"]), flush=True)
    return failed


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("eacgm")
    p.add_argument("--turns", type=int, default=2)
    p.add_argument("--wait", type=int, default=88)
    p.add_argument("--device", default="cuda")
    p.add_argument("--python", default="/usr/bin/python3")
    o = p.parse_args()
    agent = subprocess.Popen([o.eacgm, "agent", "--listen", "127.0.0.1:%d" % PORT, "--budget", "100%"],
                             stderr=subprocess.DEVNULL)
    try:
        time.sleep(4)
        failed = run(o, agent)
    finally:
        agent.terminate()
        agent.wait(30)
    sys.exit(failed)


main()
