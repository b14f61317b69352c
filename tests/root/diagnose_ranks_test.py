#!/usr/bin/env python3
"""diagnose_ranks_test.py - `eacgm diagnose` of two ranks of PyTorch's data parallel training over gloo,
of which one is slowed: by others on its CPU, or by a line that sleeps. That rank is named, with why
it was late, in one incident for both, with parts that add up."""

import json
import os
import subprocess
import time

from harness import EACGM, expect, main, skip, test

PYTHON = os.environ.get("EACGM_TEST_PYTHON", "/usr/bin/python3")
OPTIONS = ["--layers", "torch", "--profile", "cpu,offcpu"]
HOGS = 6
SECONDS, SLOW_FROM_S, SLOW_S = 12, 4, 5

# A rank on a CPU of its own; its line is slow while there is a file. The ranks agree on the end.
RANK = """
import os, sys, time, torch
import torch.distributed as dist
rank, folder, seconds = int(os.environ["RANK"]), sys.argv[1], float(sys.argv[2])
os.sched_setaffinity(0, [sorted(os.sched_getaffinity(0))[rank]])
torch.set_num_threads(1)
dist.init_process_group("gloo", store=dist.FileStore(folder + "/store", 2), rank=rank, world_size=2)
def read_batch():
    if rank == 1 and os.path.exists(folder + "/slow"):
        time.sleep(0.15)
    return torch.randn(64, 256)
m = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
m = torch.nn.parallel.DistributedDataParallel(m)
o = torch.optim.SGD(m.parameters(), lr=1e-3)
end = time.monotonic() + seconds
print("began", flush=True)
over = torch.zeros(1)
while not over.item():
    for _ in range(4):
        x = read_batch()
        o.zero_grad()
        m(x).sum().backward()
        o.step()
    over += time.monotonic() >= end
    dist.all_reduce(over, dist.ReduceOp.MAX)
"""
JOB = """
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-c", %r] + sys.argv[1:],
                          env=dict(os.environ, RANK=str(r), GLOO_SOCKET_IFNAME="lo"))
         for r in range(2)]
sys.exit(max(r.wait() for r in ranks))
""" % RANK
HOG = "import os\nos.sched_setaffinity(0, [sorted(os.sched_getaffinity(0))[1]])\nwhile True: pass"


def needs(t):
    if len(os.sched_getaffinity(0)) < 2:
        skip("two ranks need two CPUs")
    r = t.run([PYTHON, "-c", "import torch.distributed as d; assert d.is_gloo_available()"],
              seconds=60)
    if r.status:
        skip("%s has no torch with gloo" % PYTHON)


def recorded(t, name, disturb=None):
    """A run that is disturbed for a while; when, on CLOCK_MONOTONIC."""
    folder, out = t.path(name), t.path(name + ".eacgm")
    os.mkdir(folder)
    p = t.start([EACGM, "record", "-o", out, *OPTIONS, "--", PYTHON, "-c", JOB, folder,
                 str(SECONDS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(2):
        expect(p.stdout.readline() == "began\n", "a rank said nothing")
    time.sleep(SLOW_FROM_S)
    began = time.monotonic_ns()
    undo = disturb(t, folder) if disturb else None
    time.sleep(SLOW_S)
    if undo:
        undo()
    ended = time.monotonic_ns()
    _, said = p.communicate(timeout=60)
    expect(p.returncode == 0, said)
    return out, (began, ended)


kept = []  # the model, as bytes: it is the same for all


def learned(t):
    model = t.path("job.model")
    if not kept:
        path, _ = recorded(t, "clean")
        # what other tests take of the machine meanwhile is no fault
        r = t.run([EACGM, "learn", path, "--window", "0.25", "--warm-up", "2", "--without",
                   "cleaning", "-o", model])
        expect(r.status == 0, r)
        with open(model, "rb") as f:
            kept.append(f.read())
    with open(model, "wb") as f:
        f.write(kept[0])
    return model


def hogs(t, _folder):
    started = [t.start([PYTHON, "-c", HOG]) for _ in range(HOGS)]
    t.hogs = [p.pid for p in started]

    def undo():
        for p in started:
            p.kill()
            p.wait()
    return undo


def slow_line(_t, folder):
    open(folder + "/slow", "w").close()
    return lambda: os.unlink(folder + "/slow")


def ranks_of(t, path):
    r = t.run([EACGM, "export", path, "-f", "jsonl", "-o", "-"])
    expect(r.status == 0, r)
    rows = [json.loads(line) for line in r.out.splitlines() if '"type":"process"' in line]
    return {p["rank"]: p["pid"] for p in rows if p["rank"] is not None}


def straggler(t, path, model, was):
    """The incident of that time, of the rank that waited."""
    r = t.run([EACGM, "diagnose", path, "-m", model, "--json"])
    expect(r.status == 0, r)
    said = json.loads(r.out)
    for i in said["incidents"] + said["steps"]:
        excess = i.get("excess_ns", i.get("cost_ns"))
        if excess > 0 and i["blame"]:
            parts = sum(p["ns"] for p in i["blame"]) + i["unexplained_ns"]
            expect(abs(parts - excess) <= 0.01 * excess + 1000, (parts, excess, i))

    def overlap(i):
        return min(i["end_ns"], was[1]) - max(i["onset_ns"], was[0])
    found = [i for i in said["incidents"] if overlap(i) > 0.5 * (was[1] - was[0])]
    expect(len(found) == 1, "%d incidents at %r: %s" % (len(found), was, r.out[:4000]))
    i, ranks = found[0], ranks_of(t, path)
    expect(i["cause"] == "straggler" and i["culprit"]["kind"] == "rank" and
           (i["culprit"]["rank"], i["culprit"]["pid"]) == (1, ranks[1]) and
           (i["victim"]["rank"], i["victim"]["pid"]) == (0, ranks[0]), json.dumps(i)[:4000])
    return i


def blamed(i, words):
    """What of the incident's time rank 1 has by parts with a word."""
    return sum(p["ns"] for p in i["blame"] if p["rank_pid"] == i["culprit"]["pid"] and
               any(w in p["owner"] for w in words))


@test("the rank whose CPU others take is the straggler, and they are why", 120)
def others_on_its_cpu(t):
    needs(t)
    model = learned(t)
    path, was = recorded(t, "hogs", hogs)
    i = straggler(t, path, model, was)
    expect(i["why"]["cause"] == "cpu_contention" and i["why"]["culprit"]["kind"] == "process",
           json.dumps(i)[:4000])
    # on a busy machine others take a part of it as well
    mine = blamed(i, ["(%d) had" % pid for pid in t.hogs])
    expect(mine > 0.4 * i["cost_ns"], "hogs %r: %s" % (t.hogs, json.dumps(i)[:4000]))
    text = t.run([EACGM, "diagnose", path, "-m", model])
    expect("Straggler: rank 1 (%d), CPU contention by " % i["culprit"]["pid"] in text.out, text)


@test("the rank whose line is slow is the straggler, and the line is why", 120)
def a_line_of_its_own(t):
    needs(t)
    model = learned(t)
    path, was = recorded(t, "line", slow_line)
    i = straggler(t, path, model, was)
    expect(i["why"]["cause"] == "slow_code" and
           i["why"]["culprit"]["code"]["function"] == "read_batch", json.dumps(i)[:4000])
    expect(blamed(i, ["read_batch"]) > 0.4 * i["cost_ns"], json.dumps(i)[:4000])


if __name__ == "__main__":
    main()
