#!/usr/bin/env python3
"""profile_hostile_test.py - programs that make stacks hard to walk while they are sampled: they do
what they do untraced, what is cut says why, eacgm stays within its memory and leaves nothing."""

import collections
import json
import os
import random
import shutil
import signal
import struct
import time

from harness import (EACGM, LIBTARGET, SLOW, TARGETS, Recording, expect, main, skip, target, test,
                     usual_patience)

usual_patience()

PYTHON = os.environ.get("EACGM_TEST_PYTHON", "/usr/bin/python3")
MEMORY_KB = 250 * 1024  # of eacgm, at most
OF_THE_HOST = {"disk_io", "stall"}  # some kernels do not tell of each end, of others' requests too
PROFILE = ("--profile", "cpu,offcpu", "-F", "499", "--layers", "user")


def peak_kb(pid, before=0):
    """The most memory that a process has had."""
    try:
        with open("/proc/%d/status" % pid) as f:
            for line in f:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return before


def profiled(t, cmd, status=0, seconds=60, during=None, **env):
    """Records a command and watches eacgm's memory; returns the Recording. during(pid of eacgm)."""
    out = t.path("run%d.eacgm" % len(t.started))
    with open(out + ".out", "w") as o, open(out + ".err", "w") as e:
        p = t.start([EACGM, "record", "-o", out, *PROFILE, "--", *cmd], stdout=o, stderr=e,
                    env=dict(os.environ, **env))
    if during:
        during(p.pid)
    peak, end = 0, time.monotonic() + seconds * SLOW
    while p.poll() is None:
        expect(time.monotonic() < end, "%r does not end" % cmd)
        peak = peak_kb(p.pid, peak)
        time.sleep(0.02)
    with open(out + ".out") as o, open(out + ".err") as e:
        said = o.read(), e.read()
    expect(p.returncode == status, "%r ended with %s: %r" % (cmd, p.returncode, said))
    expect(0 < peak < MEMORY_KB, "eacgm had %d kB" % peak)
    rec = Recording(t, out, said)
    rec.peak_kb = peak
    return rec


def ends(t, rec, kind="cpu", options=()):
    """Share of each way in which stacks end, 'whole' among them, and the rows."""
    r = t.run([EACGM, "flame", rec.path, "-k", kind, "-f", "folded", "--native", "-o", "-",
               *options])
    expect(r.status == 0, "flame: %s" % r)
    weights, rows = collections.Counter(), []
    for line in r.out.splitlines():
        stack, weight = line.rsplit(" ", 1)
        frames = stack.split(";")
        rows.append((frames, int(weight)))
        cut = [f for f in frames[:2] if f.startswith("[cut: ")]
        weights[cut[0][6:-1] if cut else "whole"] += int(weight)
    total = sum(weights.values())
    expect(total > 0, "nothing was sampled")
    return {k: v / total for k, v in weights.items()}, rows


def show(what, rec, shares):
    print("# %s: peak %d MB; %s" % (what, rec.peak_kb // 1024, ", ".join(
        "%s %.1f %%" % (k, 100 * v) for k, v in sorted(shares.items(), key=lambda x: -x[1]))))


def hostile(*args):
    return [target("hostile_stacks"), *[str(a) for a in args]]


@test("executable pages and libraries that come and go all the time", 60)
def _(t):
    rec = profiled(t, hostile("maps", 1500, LIBTARGET))
    shares, _rows = ends(t, rec)
    show("maps", rec, shares)
    expect(rec.ran[0] == "done\n", "it says %r" % (rec.ran,))


@test("two programs on one CPU whose code is the same and whose rules are not", 60)
def _(t):
    both = [target("same_places40"), target("same_places104")]
    with open(both[0], "rb") as a, open(both[1], "rb") as b:
        expect(len(a.read()) == len(b.read()), "they are not linked alike")
    rec = profiled(t, ["sh", "-c", "%s 1500 & %s 1500 & wait" % tuple(both)])
    _shares, rows = ends(t, rec)
    mine = [(frames, w) for frames, w in rows if any("same_places" in f for f in frames)]
    whole = sum(w for frames, w in mine if "outer" in frames and "main" in frames)
    total = sum(w for frames, w in mine if "inner" in frames)
    print("# %d of %d ns are in stacks that reach main" % (whole, total))
    expect(total > 2e9 and whole > 0.97 * total, "%r" % mine[:6])


@test("2,000 short children", 90)
def _(t):
    rec = profiled(t, hostile("storm", 2000))
    shares, _rows = ends(t, rec)
    show("storm", rec, shares)
    expect(shares.get("whole", 0) > 0.9, "of children: %r" % shares)


@test("10,000 threads", 90)
def _(t):
    rec = profiled(t, hostile("threads", 10000))
    made = int(rec.ran[0].split()[1])
    if made < 10000:
        skip("only %d threads can be made here" % made)
    shares, _rows = ends(t, rec)
    show("threads", rec, shares)
    expect(shares.get("whole", 0) > 0.8, "of threads: %r" % shares)


@test("native recursion 100,000 deep is cut, and counted as too deep", 60)
def _(t):
    rec = profiled(t, hostile("deep", 100000, 700))
    shares, rows = ends(t, rec)
    show("deep", rec, shares)
    expect(shares.get("too_deep", 0) > 0.8, "ends: %r" % shares)
    expect(max(len(frames) for frames, _ in rows) < 600, "a stack is longer than what is kept")


@test("Python recursion 5,000 deep likewise", 60)
def _(t):
    script = ("import sys, threading, time\n"
              "sys.setrecursionlimit(6000)\n"
              "threading.stack_size(1 << 28)\n"
              "def down(n):\n"
              "    if n: return down(n - 1)\n"
              "    end = time.thread_time() + 1\n"
              "    while time.thread_time() < end: pass\n"
              "t = threading.Thread(target=down, args=(5000,)); t.start(); t.join()\n")
    rec = profiled(t, [PYTHON, "-c", script])
    shares, rows = ends(t, rec)
    show("Python", rec, shares)
    expect(shares.get("too_deep", 0) > 0.7, "ends: %r" % shares)
    deepest = max(rows, key=lambda row: len(row[0]))[0]
    expect(sum(f.startswith("down (") for f in deepest) > 400, "frames: %r" % deepest[:20])


@test("code without rules: through it by the frame pointer; without one the stack is cut", 60)
def _(t):
    rec = profiled(t, hostile("code", 2000))
    # where nobody can be held for them pages are looked for now and then, and on a busy machine
    # not at once: what holds is asked of the second half
    half = "%.3f" % (rec.report["recording"]["duration_s"] / 2)
    shares, rows = ends(t, rec, options=["--from", half])
    show("code", rec, shares)
    whole = collections.Counter()
    for frames, weight in rows:
        for name in ("callee_with", "callee_without"):
            if name in frames:
                whole[name, "main" in frames and "_start" in frames] += weight
    print("# %r" % {k: v // 1000000 for k, v in whole.items()})
    expect(whole["callee_with", True] > 9 * whole["callee_with", False],
           "by frame pointer: %r" % whole)
    expect(whole["callee_without", True] + whole["callee_without", False] > 0, "seen: %r" % whole)


@test("stack pointers that are garbage", 60)
def _(t):
    if t.run(hostile("wild", 50)).status:
        skip("this machine ends processes with such stack pointers, untraced too")
    rec = profiled(t, hostile("wild", 800))
    shares, _rows = ends(t, rec)
    show("wild", rec, shares)
    expect(rec.ran[0] == "done\n", "it says %r" % (rec.ran,))
    expect(sum(v for k, v in shares.items() if k != "whole") > 0.3, "ends: %r" % shares)


def section(data, wanted):
    """Offset and size of a section of a 64-bit ELF file."""
    shoff, = struct.unpack_from("<Q", data, 0x28)
    entsize, num, names = struct.unpack_from("<HHH", data, 0x3a)
    strings, = struct.unpack_from("<Q", data, shoff + names * entsize + 0x18)
    for i in range(num):
        name, _type, _flags, _addr, offset, size = struct.unpack_from("<IIQQQQ", data,
                                                                      shoff + i * entsize)
        begin = strings + name
        if data[begin:data.index(b"\0", begin)] == wanted:
            return offset, size
    raise AssertionError("no section %r" % wanted)


def loaded_bytes(data):
    """How much of the file its loadable segments need."""
    phoff, = struct.unpack_from("<Q", data, 0x20)
    entsize, num = struct.unpack_from("<HH", data, 0x36)
    end = 0
    for i in range(num):
        kind, _flags, offset, _v, _p, filesz = struct.unpack_from("<IIQQQQ", data,
                                                                  phoff + i * entsize)
        if kind == 1:
            end = max(end, offset + filesz)
    return end


def damaged_copies():
    with open(target("unwind_shapes"), "rb") as f:
        good = f.read()
    offset, size = section(good, b".eh_frame")
    rng = random.Random(3)
    for seed in (0, 3):
        bad = bytearray(good)
        for _ in range(10 ** seed):
            bad[offset + rng.randrange(size)] = rng.randrange(256)
        yield "corrupt%d" % seed, bytes(bad)
    bad = bytearray(good)
    bad[offset:offset + size] = bytes([0xff]) * size
    yield "all-ones", bytes(bad)
    yield "cut-off", good[:loaded_bytes(good)]


@test("rules that are corrupt, cut off, or not there", 90)
def _(t):
    # caches of their own: rules are kept by build id, which the copies share
    for name, data in damaged_copies():
        path = t.path(name)
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, 0o755)
        rec = profiled(t, ["timeout", "0.4", path, "recurse"], status=124,
                       LD_LIBRARY_PATH=TARGETS, EACGM_CACHE=t.path("cache-" + name))
        shares, _rows = ends(t, rec)
        show(name, rec, shares)
    if not shutil.which("objcopy"):
        skip("no objcopy: sections cannot be taken away")
    name = "without"
    path = t.path(name)
    r = t.run(["objcopy", "-R", ".eh_frame", "-R", ".eh_frame_hdr", target("unwind_shapes"), path])
    expect(r.status == 0, "objcopy: %s" % r)
    rec = profiled(t, ["timeout", "0.4", path, "recurse"], status=124, LD_LIBRARY_PATH=TARGETS, EACGM_CACHE=t.path("cache-" + name))
    shares, _rows = ends(t, rec)
    show(name, rec, shares)
    expect(shares.get("whole", 0) < 0.5, "whole without rules: %r" % shares)


@test("files that are the same share their rules", 60)
def _(t):
    copies = [t.path("copy-%d" % i) for i in range(3)]
    for path in copies:
        shutil.copy(target("unwind_shapes"), path)
    script = " & ".join("timeout 0.6 %s recurse" % path for path in copies) + " & wait"
    env = {"LD_LIBRARY_PATH": TARGETS, "EACGM_CACHE": t.path("cache")}
    rec = profiled(t, ["sh", "-c", script], **env)
    one = profiled(t, ["timeout", "0.6", copies[0], "recurse"], status=124, **env)
    shares, rows = ends(t, rec)
    show("copies", rec, shares)
    for path in copies:  # some samples are taken before there are rules
        name, whole = os.path.basename(path), collections.Counter()
        for frames, weight in rows:
            if any(name in frame for frame in frames):
                whole[not any(f.startswith("[cut: ") for f in frames[:2])] += weight
        expect(whole[True] > whole[False], "%s: %r" % (name, whole))
    expect(int(rec.metas["unwind_files_shared"]) == 2, "%r" % rec.metas)
    expect(int(one.metas["unwind_files_shared"]) == 0, "%r" % one.metas)


@test("the target executes another program again and again", 60)
def _(t):
    script = ("import os, sys, time\n"
              "n = int(sys.argv[1])\n"
              "def last():\n"
              "    end = time.thread_time() + 1\n"
              "    while time.thread_time() < end: pass\n"
              "if n: os.execv(sys.executable, [sys.executable, sys.argv[0], str(n - 1)])\n"
              "last()\n")
    path = t.path("again.py")
    with open(path, "w") as f:
        f.write(script)
    rec = profiled(t, [PYTHON, path, "15"])
    shares, rows = ends(t, rec)
    show("exec", rec, shares)
    in_last = sum(w for frames, w in rows if any(f.startswith("last (") for f in frames))
    expect(in_last > 0.8e9, "the last program: %d ns" % in_last)


@test("the target is killed amid sampling", 60)
def _(t):
    rec = profiled(t, [PYTHON, "-c", "import os, signal, time\n"
                       "end = time.thread_time() + 0.5\n"
                       "while time.thread_time() < end: pass\n"
                       "os.kill(os.getpid(), signal.SIGKILL)\n"], status=137)
    shares, _rows = ends(t, rec)
    show("killed", rec, shares)
    lost = set(rec.report["recording"]["lost_by_cause"]) - OF_THE_HOST
    expect(not lost, "the recording is not whole: %r" % lost)


def held_by(pid):
    """Numbers of the BPF programs and links that a process has open, and of its perf events."""
    programs, links, clocks = set(), set(), 0
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            clocks += "perf_event" in os.readlink("/proc/%d/fd/%s" % (pid, fd))
            with open("/proc/%d/fdinfo/%s" % (pid, fd)) as f:
                for line in f:
                    if line.startswith("prog_id:"):
                        programs.add(int(line.split()[1]))
                    elif line.startswith("link_id:"):
                        links.add(int(line.split()[1]))
        except OSError:
            pass
    return programs, links, clocks


def waits_are_whole(t, during=None):
    """Of 3,000 threads that wait, on two CPUs at most, so that these have no time for all stacks, nor
    their rings room; the main thread waits too, and those that are about to end."""
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    rec = profiled(t, ["taskset", "-c", cpus, *hostile("waits", 3000, 60)], during=during)
    said = dict(line.split() for line in rec.ran[0].splitlines() if " " in line)
    seen = sum(weight for _stack, weight in ends(t, rec, "offcpu")[1]) / 1e6
    waited = int(said["waited_ms"])
    lost = rec.report["recording"]["lost_by_cause"]
    print("# waited %d ms, seen %d ms, %r" % (waited, seen, lost))
    expect(lost.get("wait_joined", 0) > 0, "nothing was put together: %r" % lost)
    expect(0.97 * waited < seen < 1.2 * waited + 10000, "waited %d ms, seen %d" % (waited, seen))
    return lost


@test("more waits than a CPU can take stacks of: none is lost, and their time is whole", 120)
def _(t):
    waits_are_whole(t)


def job_of(pid):
    """The process id of the command that eacgm runs, once its threads are there."""
    for tid in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/children" % (pid, tid)) as f:
                children = f.read().split()
            for child in children:
                if len(os.listdir("/proc/%s/task" % child)) > 1000:
                    return int(child)
        except OSError:  # a thread, or a child, that has ended
            pass


def has_ended(pid):
    with open("/proc/%d/stat" % pid) as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "Z"


@test("eacgm gets no CPU until threads have ended: the time that they waited is whole", 120)
def _(t):
    def stop(eacgm):
        job = t.wait_for(lambda: job_of(eacgm), "threads", 30)
        os.kill(eacgm, signal.SIGSTOP)
        try:
            t.wait_for(lambda: has_ended(job), "the job's end", 60)
        finally:
            os.kill(eacgm, signal.SIGCONT)
    lost = waits_are_whole(t, stop)
    expect(lost.get("stack", 0) > 0, "the buffers were not full: %r" % lost)


FLOOD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "code_flood.py")


@test("Python code that is ever new, with large tables of lines, and ever new stacks", 120)
def _(t):
    for times, kind in ((1500, "lines"), (1200, "code"), (900, "deep")):
        rec = profiled(t, [PYTHON, FLOOD, times, kind])
        causes = set(rec.report["recording"]["lost_by_cause"]) - OF_THE_HOST
        expect(causes <= {"python_line", "sample_stack", "wait_stack", "wait_joined"}, "%s lost: %r" % (kind, causes))
        print("# %s: eacgm had %d MB" % (kind, rec.peak_kb / 1024))


def present(t, kind):
    r = t.run([shutil.which("bpftool") or "/usr/sbin/bpftool", "-j", kind, "list"])
    expect(r.status == 0, "bpftool: %s" % r)
    return {x["id"] for x in json.loads(r.out)}


@test("eacgm is killed amid sampling: no program, no clock stays, the job goes on", 60)
def _(t):
    if not shutil.which("bpftool") and not os.path.exists("/usr/sbin/bpftool"):
        skip("no bpftool")
    job = t.start(hostile("deep", 100, 30000))
    p = t.start_record("-p", job.pid, "--profile", "cpu,offcpu", "--layers", "user")
    programs, links, clocks = held_by(p.pid)
    expect(programs <= present(t, "prog") and links <= present(t, "link"), "bpftool sees others")
    expect(len(programs) >= 3 and len(links) >= 3 and clocks >= 1,
           "programs %r, links %r, clocks %d" % (programs, links, clocks))
    time.sleep(0.5)
    os.kill(p.pid, signal.SIGKILL)
    p.wait()
    # the exception guard stays for some seconds
    t.wait_for(lambda: not programs & present(t, "prog") and not links & present(t, "link"),
               "its programs to go", 30)
    expect(job.poll() is None, "the job ended with %s" % job.returncode)
    expect(p.recording.report["recording"]["incomplete"] is not None, "it can be read")
    expect(p.recording.report["recording"]["duration_s"] > 0.1, "it lasts until its last sample")


if __name__ == "__main__":
    raise SystemExit(main())
