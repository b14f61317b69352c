#!/usr/bin/env python3
"""standing_test.py - `eacgm agent --detect`: two ranks of PyTorch over gloo of which one stops within a
step are told to stand still while they do, with which rank that is, and what is known of it; once the
step has ended its cause takes that place. A process that runs its model alone may wait for requests
and is not told."""

import json
import os
import re
import signal
import time

from agents import Agent, start_in
from harness import PYTHON, expect, main, needs_torch, test

# Rank 1 sleeps within a step, once there is a file, until a signal comes; all ends once there is
# another file: the ranks agree on that.
RANK = """
import os, signal, sys, time, torch
import torch.distributed as dist
rank, folder = int(os.environ["RANK"]), sys.argv[1]
torch.set_num_threads(1)
class Wake(Exception):
    pass
def wake(*_):
    raise Wake
signal.signal(signal.SIGUSR1, wake)
def sleep():
    try:
        time.sleep(100000)
    except Wake:
        pass
dist.init_process_group("gloo", store=dist.FileStore(folder + "/store", 2), rank=rank, world_size=2)
m = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
m = torch.nn.parallel.DistributedDataParallel(m)
o = torch.optim.SGD(m.parameters(), lr=1e-3)
over, n, slept = torch.zeros(1), 0, False
while not over.item():
    o.zero_grad()
    if rank == 1 and not slept and os.path.exists(folder + "/hang"):
        slept = True
        sleep()
    m(torch.randn(16, 64)).sum().backward()
    o.step()
    over.fill_(float(os.path.exists(folder + "/enough")))
    dist.all_reduce(over, dist.ReduceOp.MAX)
    n += 1
    if n == 100:
        open(folder + "/steps-%d" % rank, "w").close()
"""
JOB = """
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-c", %r, sys.argv[1]],
                          env=dict(os.environ, RANK=str(r), GLOO_SOCKET_IFNAME="lo"))
         for r in range(2)]
with open(sys.argv[1] + "/pids.new", "w") as f:
    print(*(r.pid for r in ranks), file=f)
os.rename(sys.argv[1] + "/pids.new", sys.argv[1] + "/pids")
sys.exit(max(r.wait() for r in ranks))
""" % RANK

STILL = r"incident: the job stands still: rank 1 \(%d\) sleeps, 1 other waits, .* lost so far"


def incidents(a):
    return json.loads(a.get("/api/v1/incidents")[0])["incidents"]


def start_ranks(t, a):
    """(the job, its folder, the ranks' pids), once they have made steps."""
    folder = t.path("ranks")
    os.mkdir(folder)
    job = start_in(t, a.group, PYTHON, "-c", JOB, folder)
    t.wait_for(lambda: all(os.path.exists("%s/steps-%d" % (folder, r)) for r in range(2)),
               lambda: "steps: %s" % a.said(), 120)
    with open(folder + "/pids", encoding="ascii") as f:
        return job, folder, [int(word) for word in f.read().split()]


@test("ranks that stand still are told while they do, with who is waited for, and frozen", 300)
def _(t):
    needs_torch("gloo")
    frozen = t.path("frozen")
    a = Agent(t, "--detect", "--layers", "torch", "--freeze", frozen, "--freeze-after", "500ms")
    job, folder, pids = start_ranks(t, a)
    open(folder + "/hang", "w").close()
    # rank 1 is not woken before this is told
    t.wait_for(lambda: re.search(STILL % pids[1], a.said()), a.said, 120)
    rows = [i for i in incidents(a) if i["cause"] == "hang"]
    expect(len(rows) == 1 and not rows[0]["ended"], rows)
    still = rows[0]
    expect((still["pid"], still["culprit"]["kind"], still["culprit"]["pid"],
            still["culprit"]["rank"]) == (pids[0], "rank", pids[1], 1), still)
    expect(re.match(r"rank 1 \(%d\) sleeps: no call for " % pids[1], still["evidence"][0]) and
           re.match(r"rank 0 \(%d\) waits" % pids[0], still["evidence"][1]), still)
    expect(still["cost_ns"] >= 3e9, still)
    t.wait_for(lambda: "froze " in a.said(), a.said)

    def row():
        return next((i for i in incidents(a) if (i["id"], i["pid"], i["told_ns"]) ==
                     (still["id"], still["pid"], still["told_ns"])), None)
    t.wait_for(lambda: row() and row()["ended"] is False, lambda: json.dumps(incidents(a)))
    os.kill(pids[1], signal.SIGUSR1)
    t.wait_for(lambda: row()["ended"], lambda: "%s\n%s" % (json.dumps(incidents(a)), a.said()), 120)
    expect(row()["cost_ns"] >= 3e9, row())
    open(folder + "/enough", "w").close()
    expect(job.wait(60) == 0, "the job")
    a.end()


@test("a rank that is stopped by a signal is told as that", 300)
def _(t):
    needs_torch("gloo")
    a = Agent(t, "--detect", "--layers", "torch")
    job, folder, pids = start_ranks(t, a)
    os.kill(pids[1], signal.SIGSTOP)
    t.wait_for(lambda: re.search(r"incident: the job was stopped: rank 1 \(%d\), 1 other waits" %
                                 pids[1], a.said()), a.said, 120)
    os.kill(pids[1], signal.SIGCONT)
    t.wait_for(lambda: "incident ended: " in a.said(), a.said, 120)
    open(folder + "/enough", "w").close()
    expect(job.wait(60) == 0, "the job")
    a.end()


# It infers, and then waits for who does not come.
SERVER = """
import os, sys, time, torch
m = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).eval()
with torch.no_grad():
    for _ in range(400):
        m(torch.randn(16, 64))
open(sys.argv[1], "w").close()
time.sleep(100000)
"""


@test("what runs its model, and waits, is not told", 300)
def _(t):
    needs_torch("gloo")
    a = Agent(t, "--detect", "--layers", "torch")
    served = t.path("served")
    server = start_in(t, a.group, PYTHON, "-c", SERVER, served)
    t.wait_for(lambda: os.path.exists(served), "requests", 120)
    # ranks that begin later are told: there was time for both
    job, folder, pids = start_ranks(t, a)
    open(folder + "/hang", "w").close()
    t.wait_for(lambda: re.search(STILL % pids[1], a.said()), a.said, 120)
    expect(str(server.pid) not in "".join(re.findall("incident: .*", a.said())), a.said())
    os.kill(pids[1], signal.SIGUSR1)
    open(folder + "/enough", "w").close()
    expect(job.wait(60) == 0, "the job")
    t.wait_for(lambda: "incident ended: " in a.said(), a.said, 120)
    t.kill(server)
    server.wait()
    a.end()


if __name__ == "__main__":
    main()
