#!/usr/bin/env python3
"""stacks_of_jobs_test.py - an agent's unwinder has what jobs map, and nothing of other processes: who
is published, whose stacks are whole, and what forks cost (tests/tools/stacks_of_jobs.c)."""

import json
import os
import re
import subprocess
import time

from agents import start_in
from cgroups import cgroup2, make_cgroup
from harness import BUILD, LIBTARGET, expect, main, skip, target, test

TOOL = os.path.abspath(os.path.join(BUILD, "tests", "stacks_of_jobs"))
INSIDE = os.path.abspath(os.path.join(BUILD, "libeacgm_calls.so"))
PYTHON = "/usr/bin/python3"  # not a job: nothing of it is in the catalog
CATALOG = """catalog: 1
layer: torch
libraries: ["libtarget.so*", "libinside_torture.so*"]
probes:
  - id: target.push
    symbols: ["target_push", "_Z*t_v2_around_leaf*"]
"""
SPIN = "while True: pass"
ENOUGH = 20  # samples
FORKS = 60
# They live long enough to be looked at, and run no other program.
FAMILY = """
import os, sys, time
sys.stdin.readline()
for _ in range(%d):
    if not os.fork():
        time.sleep(0.3)
        os._exit(0)
while True: pass
""" % FORKS
PARENT = """
import os, sys
if not os.fork():
    os.execv(sys.argv[1], sys.argv[1:])
while True: pass
"""
BECOMES = """
import os, sys
sys.stdin.readline()
os.execv(%r, [%r, "-c", %r])
""" % (PYTHON, PYTHON, SPIN)
# The library's code without its linker: nobody tells of that.
SECRETLY = """
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_size_t
libc.mmap.argtypes = [ctypes.c_size_t] * 2 + [ctypes.c_int] * 3 + [ctypes.c_size_t]
fd = os.open(sys.argv[1], os.O_RDONLY)
at = libc.mmap(0, os.fstat(fd).st_size, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, fd, 0)
push = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)(at + int(sys.argv[2]))
sys.stdin.readline()
while True: push(1)
"""


class Tracer:
    """The tool, on a control group of its own."""

    def __init__(self, t, *options, everyone=False):
        self.t, self.group = t, make_cgroup(t, "stacks-%d" % everyone)
        level = os.path.relpath(self.group, cgroup2()).count("/") + 1
        catalog = t.path("catalog.yaml")
        with open(catalog, "w") as f:
            f.write(CATALOG)
        self.p = t.start([TOOL, self.group, level, int(everyone), catalog, *options], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
        expect(self.p.stdout.readline() == "traces\n", "it traces")

    def status(self):
        self.p.stdin.write("\n")
        self.p.stdin.flush()
        return json.loads(self.p.stdout.readline())

    def run(self, *args):
        return start_in(self.t, self.group, *args)

    def run_waiting(self, script, *args):
        """A Python that goes on once it is told to (go)."""
        return self.t.start(["sh", "-c", "echo $$ > %s/cgroup.procs; exec \"$@\"" % self.group, "sh",
                             PYTHON, "-c", script, *args], stdin=subprocess.PIPE, text=True)

    def job(self, threads=1):
        return self.run(target("calls"), "until", self.t.path("never"), threads)

    def sampled(self, pid, n=ENOUGH):
        """What is told once a process has so many samples from now on: [whole, others]."""
        whole = others = 0

        def enough():
            nonlocal whole, others, told
            told = self.status()
            more = told["samples"].get(str(pid), [0, 0])
            whole, others = whole + more[0], others + more[1]
            return whole + others >= n
        told = self.status()
        self.t.wait_for(enough, lambda: "samples of process %d: %r" % (pid, told))
        return whole, others, told

    def settled(self):
        """What is told once nothing is looked at any more."""
        before = None

        def quiet():
            nonlocal before
            was, before = before, self.status()
            time.sleep(0.5)
            return was and was["scans"] == before["scans"]
        self.t.wait_for(quiet, "nothing to be looked at any more")
        return before

    def wait_whole(self, pid):
        """Until stacks of a process are whole, but for few: those are cut amid calls of the kernel."""
        def good():
            whole, others, _ = self.sampled(pid)
            return whole > 4 * others
        self.t.wait_for(good, "whole stacks of process %d" % pid)

    def end(self):
        self.p.stdin.close()
        expect(self.p.wait(30) == 0, "it ends")


def go(p):
    p.stdin.write("\n")
    p.stdin.flush()


def place_of_push():
    """Its function's place in the file."""
    def read(*args):
        return subprocess.run(["readelf", "-W", *args, LIBTARGET], capture_output=True, text=True,
                              check=True).stdout
    address = next(int(line.split()[1], 16) for line in read("--dyn-syms").splitlines()
                   if line.endswith(" target_push"))
    for offset, start, size in re.findall(r"LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+)", read("-l")):
        if 0 <= address - int(start, 16) < int(size, 16):
            return address - int(start, 16) + int(offset, 16)
    raise AssertionError("no code at %#x" % address)


def children_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(word) for word in f.read().split()]


@test("a process without anything to probe is not published, a job that starts afterwards is")
def _(t):
    a = Tracer(t)
    other = a.run(PYTHON, "-c", SPIN)
    _, _, told = a.sampled(other.pid, 3 * ENOUGH)
    expect(told["scans"] > 0, "it was looked at: %r" % told)
    expect((told["published"], told["files"]) == (0, 0), told)
    job = a.job()
    a.wait_whole(job.pid)
    told = a.status()
    expect(told["published"] == 1 and told["calls"] > 0, told)
    t.kill(job)
    job.wait()
    t.wait_for(lambda: a.status()["published"] == 0, "nobody to be published")
    a.end()


@test("where everyone is wanted, everyone is published")
def _(t):
    a = Tracer(t, everyone=True)
    other = a.run(PYTHON, "-c", SPIN)
    a.wait_whole(other.pid)
    told = a.status()
    expect(told["published"] >= 1 and told["files"] > 0, told)
    a.end()


@test("a job that a process forks and executes which is none has whole stacks")
def _(t):
    a = Tracer(t)
    parent = a.run(PYTHON, "-c", PARENT, target("calls"), "until", t.path("never"), "1")
    a.sampled(parent.pid)
    child = t.wait_for(lambda: children_of(parent.pid), "a child")[0]
    a.wait_whole(child)
    expect(a.status()["published"] == 1, "the child alone")
    a.end()


@test("children of a process that is no job cost no look at what they map")
def _(t):
    a = Tracer(t)
    parent = a.run_waiting(FAMILY)
    t.wait_for(lambda: a.status()["scans"] > 0, "the parent to be looked at")
    told = a.settled()
    go(parent)
    t.wait_for(lambda: len(children_of(parent.pid)) == FORKS, "its children")
    _, _, later = a.sampled(parent.pid, 500)  # a second of its CPU
    expect(later["scans"] == told["scans"], "%d children: %r, then %r" % (FORKS, told, later))
    expect(later["published"] == 0, later)
    a.end()


@test("a job's child is published with it; one that executes another program is no more")
def _(t):
    a = Tracer(t)
    # the job is a Python that has the library
    script = ("import ctypes, os\nlib = ctypes.CDLL(%r)\nlib.target_push(1)\nos.fork()\n"
              "while True: lib.target_push(1)" % LIBTARGET)
    job = a.run(PYTHON, "-c", script)
    child = t.wait_for(lambda: children_of(job.pid), "a child")[0]
    for pid in (job.pid, child):
        a.wait_whole(pid)
    expect(a.status()["published"] == 2, "both")
    becomes = a.run_waiting("import ctypes\nctypes.CDLL(%r).target_push(1)" % LIBTARGET + BECOMES)
    t.wait_for(lambda: a.status()["published"] == 3, "the third")
    go(becomes)
    t.wait_for(lambda: a.status()["published"] == 2, "the third to be no job any more")
    a.sampled(becomes.pid, 3 * ENOUGH)
    expect(a.status()["published"] == 2, "it stays none, though its thread made calls before")
    a.end()


@test("a process of which nobody told that it is a job is asked for once it makes a traced call")
def _(t):
    a = Tracer(t)
    a.wait_whole(a.job().pid)  # so that the library has probes
    secret = a.run_waiting(SECRETLY, LIBTARGET, str(place_of_push()))
    expect(a.settled()["published"] == 1, "the job alone")
    go(secret)
    t.wait_for(lambda: a.status()["published"] == 2, "the one that calls")
    a.wait_whole(secret.pid)
    a.end()


@test("jobs whose probes are inside of them, and none the kernel's, have whole stacks")
def _(t):
    if not os.access(INSIDE, os.R_OK) or not os.access(target("inside_job"), os.X_OK):
        skip("%s, or its job, is not built" % INSIDE)
    a = Tracer(t, INSIDE)
    for n in 1, 2:  # the second finds files that are probed already
        job = a.run("env", "LD_PRELOAD=" + INSIDE, target("inside_job"), "until", "1000000",
                    t.path("job-%d" % n))
        a.wait_whole(job.pid)
        told = a.status()
        expect((told["published"], told["calls"]) == (n, 0) and told["inside"] > 0, told)
    a.end()


@test("of an agent's large tables the pages are loaded that stacks need, and stacks are as whole")
def _(t):
    script = "import ctypes\nctypes.CDLL(%r).target_push(1)\n" % LIBTARGET + SPIN
    told = {}
    for everyone in True, False:  # the first keeps the tables in the cache
        a = Tracer(t, everyone=everyone)
        job = a.run(PYTHON, "-c", script)
        a.wait_whole(job.pid)
        told[everyone] = a.status()
        if not everyone:
            before = told[everyone]["pages"]
            whole, others, told[everyone] = a.sampled(job.pid, 500)
            expect(whole > 20 * others, "%d whole, %d not: %r" % (whole, others, told))
            expect(0 < before <= told[everyone]["pages"] < before + 20, told)
        a.end()
        t.kill(job)
        job.wait()
    expect(told[True]["pages"] == 0, "a recording has all of them: %r" % told)
    expect(told[False]["bytes"] < told[True]["bytes"] / 2, told)


@test("rules of files that nobody maps any more are given back, and come again", 150, beside=True)
def _(t):
    a = Tracer(t)
    job = a.job()
    a.wait_whole(job.pid)
    files = a.status()["files"]
    t.kill(job)
    job.wait()
    t.wait_for(lambda: a.status()["given_back"] > 0, "rules to be given back", 90)
    told = a.status()
    again = a.job()
    a.wait_whole(again.pid)
    expect(a.status()["files"] > files and told["given_back"] <= files, told)
    a.end()


main()
