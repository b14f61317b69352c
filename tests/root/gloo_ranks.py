"""gloo_ranks.py - two ranks of PyTorch's data parallel training over gloo, each on a CPU of its own, which
tests record and disturb, in one way each; and the model that is learned from a run in which nothing
disturbs them. No test itself."""

import collections
import json
import os
import subprocess
import time

import models
from harness import EACGM, PYTHON, Recording, expect, needs_torch, skip

OPTIONS = ["--layers", "torch,nccl", "--profile", "cpu,offcpu"]
SLOW_FROM_S, SLOW_S, REST_S = 6, 5, 3  # the least

# The line of rank 1 is slow while there is a file, and all ends once there is another: the ranks
# agree on that.
RANK = """
import os, sys, time, torch
import torch.distributed as dist
rank, folder = int(os.environ["RANK"]), sys.argv[1]
os.sched_setaffinity(0, [sorted(os.sched_getaffinity(0))[rank]])
torch.set_num_threads(1)
dist.init_process_group("gloo", store=dist.FileStore(folder + "/store", 2), rank=rank, world_size=2)
def read_batch():
    if rank == 1 and os.path.exists(folder + "/slow"):
        time.sleep(0.15)
    return torch.randn(64, 256)
m = torch.nn.Sequential(torch.nn.Linear(256, 384), torch.nn.ReLU(), torch.nn.Linear(384, 1))
m = torch.nn.parallel.DistributedDataParallel(m)
o = torch.optim.SGD(m.parameters(), lr=1e-3)
sys.stdout.write("began\\n")
sys.stdout.flush()
over = torch.zeros(1)
while not over.item():
    for _ in range(4):
        x = read_batch()
        o.zero_grad()
        m(x).sum().backward()
        o.step()
    over += os.path.exists(folder + "/enough")
    dist.all_reduce(over, dist.ReduceOp.MAX)
"""
# Arguments: folder, interface, and a network namespace for each rank, or none.
JOB = """
import ctypes, os, subprocess, sys
folder, interface, spaces = sys.argv[1], sys.argv[2], sys.argv[3:]
enter = lambda space: ctypes.CDLL(None).setns(int(space), 0x40000000)
if spaces:
    enter(spaces[0])
def rank(r):
    return subprocess.Popen([sys.executable, "-c", %r, folder], close_fds=False,
                            preexec_fn=(lambda: enter(spaces[r])) if spaces else None,
                            env=dict(os.environ, RANK=str(r), GLOO_SOCKET_IFNAME=interface))
ranks = [rank(r) for r in range(2)]
sys.exit(max(r.wait() for r in ranks))
""" % RANK


def needs():
    if len(os.sched_getaffinity(0)) < 2:
        skip("two ranks need two CPUs")
    needs_torch("gloo")


def recorded(t, name, disturb=None, interface="lo", spaces=()):
    """A run that is disturbed for a while, or is not; when, on CLOCK_MONOTONIC."""
    folder, out = t.path(name), t.path(name + ".eacgm")
    slow_from_s, slow_s = kept[1:] if kept else (SLOW_FROM_S, SLOW_S)
    os.mkdir(folder)
    p = t.start([EACGM, "record", "-o", out, *OPTIONS, "--", PYTHON, "-c", JOB, folder, interface] +
                [str(s) for s in spaces], pass_fds=spaces, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True)
    for _ in range(2):
        expect(p.stdout.readline() == "began\n", "a rank said nothing")
    time.sleep(slow_from_s)
    began = time.monotonic_ns()
    undo = disturb(folder) if disturb else lambda: None
    time.sleep(slow_s)
    undo()
    ended = time.monotonic_ns()
    time.sleep(REST_S)
    open(folder + "/enough", "w").close()
    _, said = p.communicate(timeout=60)
    expect(p.returncode == 0, said)
    return out, (began, ended)


kept = []  # the model, as bytes, from when on and for how long jobs are slow: of all of a file's tests


def learned(t, **how):
    def record():
        made.append(t.path("clean%d.eacgm" % len(made)))
        recorded(t, os.path.basename(made[-1])[:-len(".eacgm")], **how)
        return Recording(t, made[-1])

    made, model = [], t.path("job.model")
    if not kept:
        # what other tests take of the machine meanwhile is no fault
        path, from_s, slow_s = models.learned(t, record, "--without", "cleaning")
        with open(path, "rb") as f:
            kept.extend([f.read(), max(SLOW_FROM_S, from_s), max(SLOW_S, slow_s)])
    with open(model, "wb") as f:
        f.write(kept[0])
    return model


# Of a run: what is said with --json and without, the ranks' processes, and when it was disturbed.
Said = collections.namedtuple("Said", "all text ranks time")


def disturbed(t, what, disturb, **how):
    """What `eacgm diagnose` says of a run that is disturbed in this way, and in no other: two after
    each other are one incident where others took of the machine between them."""
    model = learned(t, **how)
    path, time_ns = recorded(t, what, disturb, **how)
    return Said(*models.diagnosed(t, path, model), ranks_of(t, path), time_ns)


def incident(said):
    """The one that has most of the time in which the run was disturbed, if it has half of it,
    with others of its cause: where a slow job becomes far slower another begins. All parts add up."""
    for i in said.all["incidents"] + said.all["steps"]:
        excess = i.get("excess_ns", i.get("cost_ns"))
        if excess > 0 and i["blame"]:
            parts = sum(p["ns"] for p in i["blame"]) + i["unexplained_ns"]
            expect(abs(parts - excess) <= 0.01 * excess + 1000, (parts, excess, i))
    was = said.time

    def overlap(i):
        return max(0, min(i["end_ns"], was[1]) - max(i["onset_ns"], was[0]))
    expect(said.all["incidents"], "no incident at %r" % (was,))
    most = max(said.all["incidents"], key=overlap)
    alike = [i for i in said.all["incidents"] if i["cause"] == most["cause"]]
    expect(sum(map(overlap, alike)) > 0.5 * (was[1] - was[0]), "at %r: %s" % (
        was, [(i["cause"], i["onset_ns"], i["end_ns"]) for i in said.all["incidents"]]))
    return most


def ranks_of(t, path):
    r = t.run([EACGM, "export", path, "-f", "jsonl", "-o", "-"])
    expect(r.status == 0, r)
    rows = [json.loads(line) for line in r.out.splitlines() if '"type":"process"' in line]
    return {p["rank"]: p["pid"] for p in rows if p["rank"] is not None}
