#!/usr/bin/env python3
"""gpu_attach_test.py - names of kernels and communicators however tracing and job begin:
attached in mid-run, after exec, a driver that is opened late, a job that is gone at once;
graphs; bursts. Over a fake driver and NCCL (targets/gpu)."""

import collections
import os
import subprocess

from gpu import expect_same, launches_made, launches_seen, lines, number, program
from harness import expect, main, target, test

LIBCUDA = "libcuda.so.1"


def run_midrun(t, options=(), env=None, seconds=0.5):
    """Attaches once kernels and communicators have their names; returns recording and output."""
    flag, out = t.path("flag"), t.path("midrun.out")
    with open(out, "w") as o:
        job = t.start([program("midrun"), flag], stdout=o,
                      env=dict(os.environ, **(env or {})))
    t.wait_for(lambda: "ready" in open(out).read(), "the job to be ready")
    recorder = t.start_record("-p", job.pid, *options)
    with open(flag, "w"):
        pass
    try:
        job.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        pass
    os.unlink(flag)
    expect(job.wait(timeout=20) == 0, "the job ended badly")
    rec = t.stop_record(recorder)
    with open(out) as f:
        return rec, f.read()


for place in ("8", "24"):
    @test("attached in mid-run: kernels have their names, %s bytes into the handle's object" %
          place)
    def _(t, place=place):
        rec, out = run_midrun(t, env={"FAKE_CUDA_NAME_AT": place})
        expect_same(launches_seen(rec), launches_made(out), "launches")
        cuda = rec.report["cuda"]
        expect(cuda["named_ratio"] == 1 and cuda["launches"] > 0, "named: %r" % cuda)


@test("attached in mid-run: communicators have their rank, size and device")
def _(t):
    rec, out = run_midrun(t)
    made = {int(h, 16): (int(rank), int(size), int(device))
            for h, rank, size, device in lines(out, "comm")}
    seen = {number(c["handle"]): (c["rank"], c["size"], c["device"])
            for c in rec.report["communicators"]}
    expect(seen == made, "seen %r, made %r" % (seen, made))
    calls = [c for c in rec.calls if c["name"] == "ncclAllReduce"]
    made_calls = [int(n) for n in (w[1] for w in map(str.split, out.splitlines())
                                   if w[0] == "ncclAllReduce")]
    expect(len(calls) == made_calls[0], "%d calls of %r" % (len(calls), made_calls))


@test("attached in mid-run in mode stats: kernels have their names")
def _(t):
    rec, out = run_midrun(t, ("--mode", "stats"))
    made = collections.Counter()
    for key, n in launches_made(out).items():
        made[key[0]] += n
    expect_same(collections.Counter({name: rec.count(name) for name in made}), made, "kernels")


@test("bursts: what is seen in them has names, and is not more than there was", 120)
def _(t):
    # links go between bursts, or stay where there is little time for it: session_bursts.c
    for burst, switches in ("1/4", 4), ("1/2:100", 8):
        rec, out = run_midrun(t, ("--burst", burst), seconds=6)
        made, seen = launches_made(out), launches_seen(rec)
        expect(sum(seen.values()) > 0, "%s: nothing was seen" % burst)
        expect(not seen - made, "%s: seen but not made: %r" % (burst, dict(seen - made)))
        expect(sum(seen.values()) < sum(made.values()), "%s: all was seen" % burst)
        expect(int(rec.metas["burst_switches"]) >= switches, "%s: %r" % (burst, rec.metas))


@test("after exec, handles that were used before mean other kernels")
def _(t):
    rec = t.record([program("short"), 4])
    expect_same(launches_seen(rec), launches_made(rec.ran.out), "launches")


@test("a job that is gone at once", seconds=120)
def _(t):
    for _i in range(20):
        rec = t.record([program("short")])
        expect_same(launches_seen(rec), launches_made(rec.ran.out), "launches")


@test("a driver that is opened late: its first launch is seen")
def _(t):
    rec = t.record([program("gpulate"), target(os.path.join("gpu", LIBCUDA)), 50])
    expect_same(launches_seen(rec), launches_made(rec.ran.out), "launches")


@test("graphs: captured launches do not run, launches of graphs run their kernels")
def _(t):
    rec = t.record([program("graphs"), 3])
    made, cuda = rec.made, rec.report["cuda"]
    seen = (cuda["captured"], cuda["launches"], cuda["graph_launches"], cuda["graph_kernels"],
            cuda["graph_launches_unknown"])
    expect(seen == (made["captured"], made["direct"], made["graphs"], made["graph_kernels"], 0),
           "seen %r, made %r" % (cuda, made))
    by_name = {k["name"]: k for k in rec.report["kernels"]}
    plain = by_name["plain_kernel"]
    expect((plain["captured"], plain["launches"]) == (2, 0), "plain_kernel: %r" % plain)
    # once in each run of a graph that was captured: 3 + 5 nested + 6 cloned + 1 of the second
    expect(plain["graph_kernels"] == 15, "plain_kernel in graphs: %r" % plain)


@test("two jobs under one tracer: each has its own handles")
def _(t):
    script = "for i in 1 2 3; do %s $i > %s/$i & done; wait" % (program("launches"), t.dir)
    rec = t.record(["sh", "-c", script])
    seen, made = collections.Counter(), collections.Counter()
    for key, n in launches_seen(rec).items():
        seen[key[:3]] += n
    for i in "123":
        with open(t.path(i)) as f:
            for key, n in launches_made(f.read()).items():
                made[key[:3]] += n
    expect_same(seen, made, "launches")


if __name__ == "__main__":
    raise SystemExit(main())
