#!/usr/bin/env python3
"""held_test.py - what bench/held.py counts of the kernel's BPF objects is what there is; and an
agent's maps have no entry of processes that have ended, nor are its links, programs and maps there
when it is."""

import contextlib
import ctypes
import os
import subprocess
import sys

from agents import Agent, start_in
from cgroups import make_cgroup
from gpu import program
from harness import ROOT, expect, main, skip, target, test

sys.path.insert(0, os.path.join(ROOT, "bench"))
import held  # noqa: E402 (it is in a folder of its own)
import soak  # noqa: E402

MAP_CREATE, MAP_UPDATE = 0, 2
JOBS = 40


@contextlib.contextmanager
def made_map(keys, kind=held.HASH):
    """A map of this process with these pids as keys."""
    fd, why = held.bpf(MAP_CREATE, held.packed("=IIIII", kind, 4, 8, 1 << 14, 0))
    if fd < 0:
        skip("no map can be made: " + os.strerror(why))
    value = ctypes.create_string_buffer(8)
    for key in keys:
        name = ctypes.create_string_buffer(key.to_bytes(4, "little"), 4)
        rc, why = held.bpf(MAP_UPDATE, held.packed("=IxxxxQQQ", fd, ctypes.addressof(name),
                                                   ctypes.addressof(value), 0))
        expect(rc == 0, os.strerror(why))
    try:
        yield fd
    finally:
        os.close(fd)


@test("entries of a map, those of processes that are gone among them, are counted exactly")
def _(t):
    ended = subprocess.Popen(["true"])
    ended.wait()
    numbers = range(1 << 22, (1 << 22) + 9000)  # pids that the kernel never gives
    before = held.held_by(os.getpid())
    with made_map([os.getpid(), ended.pid, *numbers]):
        now = held.held_by(os.getpid())
        objects = held.objects_of(os.getpid())
        expect(now["maps"] == before["maps"] + 1, now["maps"])
        expect(now["entries"] == {"": 9002}, now["entries"])
        expect(now["of_gone"] == {("", pid) for pid in (ended.pid, *numbers)}, "who is gone")
        expect(held.still_there(objects) == {"maps": 1}, held.still_there(objects))
    t.wait_for(lambda: not held.still_there(objects), "the map to be gone")
    expect(held.held_by(os.getpid()) == before, held.held_by(os.getpid()))


@test("an agent's maps have no entry of processes that ended; all of it is gone after it", 300)
def _(t):
    a = Agent(t, "--detect", "--budget", "100%")
    first = held.held_by(a.p.pid)
    expect(first["links"] and first["programs"] and first["entries"], first)
    seen = set()

    def all_seen(n):  # a minute after its end a job is told no more
        seen.update(labels["pid"] for labels, _v in a.samples().get("eacgm_calls_total", []))
        return len(seen) >= n

    for i in range(JOBS):
        start_in(t, a.group, "sh", "-c", "exec \"$0\" 3 > /dev/null", program("launches")).wait()
        t.wait_for(lambda n=i: all_seen(n), lambda: "%d jobs were seen" % len(seen), 60)
    t.wait_for(lambda: all_seen(JOBS), lambda: "%d jobs were seen" % len(seen), 60)
    expect(len(seen) == JOBS, seen)

    def stays():
        return held.held_by(a.p.pid)["of_gone"]

    t.wait_for(lambda: not stays(), stays, 60)
    objects = held.objects_of(a.p.pid)
    a.end()
    t.wait_for(lambda: not held.still_there(objects), lambda: held.still_there(objects), 60)


@test("processes that end while an agent starts leave no entry in its maps", 300)
def _(t):
    group = make_cgroup(t, "short")
    # as it lists the processes, before its programs are loaded, two of these live
    churn = start_in(t, group, target("short_lives"), "1000000")
    a = Agent(t, "--layers", "cuda", group=group)
    t.kill(churn)

    def stays():
        return held.held_by(a.p.pid)["of_gone"]

    t.wait_for(lambda: not stays(), stays, 60)
    a.end()


def summary(**more):
    ret = {"seconds": 300, "together": [50e6, 50e6], "most_together": 60e6, "fds": [500, 500],
           "links": [12, 12], "programs": [17, 17], "maps": [53, 53], "files": [100, 100],
           "entries": {"targets": [100, 110]}, "entries_of_gone": {}, "objects_left": {},
           "status": 0}
    ret.update(more)
    return ret


@test("a soak fails for each thing that grows or stays")
def _(t):
    expect(soak.wrong_with(summary(), 300) == [], soak.wrong_with(summary(), 300))
    for key in ("fds", "links", "programs", "maps", "files"):
        wrong = soak.wrong_with(summary(**{key: [10, 12]}), 300)
        expect(len(wrong) == 1 and "grew from 10" in wrong[0], wrong)
    for more, said in (({"entries": {"targets": [100, 200]}}, "entries of targets grew"),
                       ({"entries_of_gone": {"excluded": 3}}, "gone: 3 of excluded"),
                       ({"objects_left": {"links": 2}}, "still there after it: {'links': 2}")):
        wrong = soak.wrong_with(summary(**more), 300)
        expect(len(wrong) == 1 and said in wrong[0], wrong)


if __name__ == "__main__":
    raise SystemExit(main())
