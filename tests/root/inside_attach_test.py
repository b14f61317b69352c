#!/usr/bin/env python3
"""inside_attach_test.py - processes that run already tell their calls inside (record -p --probes
inprocess): each call once, their code as it was when eacgm goes; in bursts; and where that cannot
be, which is said."""

import collections
import os
import signal
import subprocess

from harness import EACGM, PYTHON, expect, log_of, main, needs_torch, test
from inside_calls import INSIDE, JOB, LIBRARY, TELLS, Calls, Said, Until, attach, options, told


# ---- processes that run already ----


def text_of(pid):
    """The library's code as the process has it."""
    with open("/proc/%d/maps" % pid) as f:
        maps = [line.split() for line in f
                if os.path.basename(LIBRARY) in line and " r-xp " in line]
    low, high = (int(x, 16) for x in maps[0][0].split("-"))
    with open("/proc/%d/mem" % pid, "rb") as f:
        f.seek(low)
        return f.read(high - low), int(maps[0][2], 16)


def is_as_its_file(pid):
    text, offset = text_of(pid)
    with open(LIBRARY, "rb") as f:
        f.seek(offset)
        return f.read(len(text)) == text


def shims_of(pid):
    with open("/proc/%d/maps" % pid) as f:
        return len({line.split()[4] for line in f if "libeacgm_calls.so" in line})


def expect_every_call(c):
    """The job calls with 3, 4, ... 102 again and again: none is missed, none is there twice."""
    made = [int(row["args"]["a"]) for row in c.rows if row["name"] == "t_v2_around_leaf"]
    wrong = [(i, a, b) for i, (a, b) in enumerate(zip(made, made[1:]))
             if b != (a + 1 if a < 102 else 3)]
    expect(made and not wrong, "after %r of %d, lost %r" % (wrong[:5], len(made), c.lost))


def ended(t, p):
    rec = t.stop_record(p)
    rec.ran = Said(log_of(p))
    return Calls(t, rec)


@test("attached to a process: the kernel tells, then the process itself, each call once", 90)
def _(t):
    options(t)
    job = Until(t, calls=100, pause_ms=15)
    before = text_of(job.p.pid)
    p = attach(t, job)
    job.more(5)
    c = ended(t, p)
    job.more(2)
    expect(text_of(job.p.pid) == before, "its code is not as it was")
    job.end()
    c.expect_inside(20)
    expect(c.number("inside_calls") > 100 and len(c.rows) > c.number("inside_calls"),
           "both tell: %r" % c.meta)
    expect(not c.untold(), "lost %r" % c.lost)
    expect_every_call(c)


@test("attached again and again: one library stays, the job is right, its memory does not grow", 120)
def _(t):
    options(t)
    job = Until(t, calls=100, pause_ms=15)
    before, shmem = text_of(job.p.pid), []
    for i in range(5):
        p = attach(t, job, out=t.path("again%d.eacgm" % i))
        job.more(2)
        c = ended(t, p)
        expect(c.number("inside_calls") > 0 and not c.untold(), "turn %d: %r" % (i, c.meta))
        expect_every_call(c)
        expect(text_of(job.p.pid) == before, "turn %d: its code is not as it was" % i)
        with open("/proc/%d/status" % job.p.pid) as f:
            shmem += [int(line.split()[1]) for line in f if line.startswith("RssShmem")]
    expect(shims_of(job.p.pid) == 1, "%d libraries" % shims_of(job.p.pid))
    expect(shmem[-1] <= shmem[1] + 256, "shared memory, KiB: %r" % shmem)
    job.end()


@test("attached, and killed: the job goes on, and a later eacgm comes in all the same", 90)
def _(t):
    options(t)
    job = Until(t, calls=100, pause_ms=15)
    before = text_of(job.p.pid)
    p = attach(t, job)
    job.more(2)
    p.kill()
    p.wait()
    job.more(3)
    p = attach(t, job, out=t.path("later.eacgm"))
    job.more(3)
    c = ended(t, p)
    expect(c.number("inside_calls") > 0 and not c.untold(), "later: %r" % c.meta)
    expect_every_call(c)
    expect(text_of(job.p.pid) == before, "its code is not as it was")
    job.end()


@test("attached, and a child goes on in its place: it tells its calls to the end", 60)
def _(t):
    options(t)
    job = Until(t, calls=100, pause_ms=15)
    p = attach(t, job)
    job.more(3)
    with open(job.path + ".fork", "w"):
        pass
    job.p.wait(timeout=20)
    made = job.more(30)
    c = ended(t, p)
    job.end()
    rows = collections.Counter(row["pid"] for row in c.rows if row["name"] == "t_v2_around_leaf")
    child = [n for pid, n in rows.items() if pid != job.p.pid]
    expect(len(child) == 1 and child[0] >= made[-2][1] - made[0][1], "%r of %r, lost %r" % (
        rows, made[-1], c.lost))
    expect_every_call(c)


@test("a second eacgm at a process that tells: it has the kernel's probes, both have every call", 60)
def _(t):
    options(t)
    job = Until(t, calls=100, pause_ms=15)
    first = attach(t, job)
    second = t.start_record("-p", str(job.p.pid), *options(t, *INSIDE), out=t.path("b.eacgm"))
    t.wait_for(lambda: "another eacgm has its probes inside" in log_of(second), "that it is said")
    job.more(5)
    a = ended(t, first)
    job.more(5)
    b = ended(t, second)
    job.end()
    for c in (a, b):
        expect(not c.untold(), "lost %r" % c.lost)
        expect_every_call(c)
    expect(a.number("inside_calls") > 0 and b.number("inside_calls") == 0, "who tells: %r %r" % (
        a.meta, b.meta))


@test("attached to a process of another user, in a PID namespace of its own", 60)
def _(t):
    options(t)
    os.chmod(t.dir, 0o777)
    job = Until(t, calls=100, pause_ms=15, wrap=(
        "unshare", "--pid", "--fork", "--kill-child", "setpriv", "--reuid", "65534", "--regid",
        "65534", "--clear-groups"))
    with open("/proc/%d/task/%d/children" % (job.p.pid, job.p.pid)) as f:
        job.pid = int(f.read().split()[0])
    p = t.start_record("-p", str(job.pid), *options(t, *INSIDE))
    t.wait_for(lambda: TELLS.search(log_of(p)), "probes inside")
    job.more(3)
    c = ended(t, p)
    expect(c.number("inside_calls") > 0 and not c.untold(), "%r" % c.meta)
    expect_every_call(c)
    job.end()


@test("a command that goes on when the recording ends has its code back", 60)
def _(t):
    options(t)
    said = t.path("goes")
    cmd = [JOB, "until", "300", said]
    r = t.run_alone([EACGM, "record", "-o", t.path("goes.eacgm"), "-d", "2",
                     *options(t, *INSIDE), "--", "sh", "-c", "%s & echo $! > %s.pid; wait" % (
                         " ".join(cmd), said)])
    with open(said + ".pid") as f:
        pid = int(f.read())
    try:
        expect(is_as_its_file(pid), "its code is not its file's: %s" % r)
    finally:  # a file that it looks for would be gone, with the folder, before it looks
        os.kill(pid, signal.SIGKILL)


@test("attached to a process that calls nothing: the kernel has its probes, and that is said")
def _(t):
    options(t)
    job = t.start([JOB, "idle", "60"], stdout=-1, text=True)
    t.wait_for(lambda: job.stdout.readline(), "the job")
    p = t.start_record("-p", str(job.pid), "-d", "1", *options(t, *INSIDE))
    p.wait(timeout=30)
    expect("the recording ended before the library was in" in str(p.recording.report["notes"]),
           "notes: %r" % p.recording.report["notes"])
    expect(shims_of(job.pid) == 0, "something came in")


# ---- bursts ----


@test("bursts: calls that begin between them are not recorded, and those in them are", 90)
def _(t):
    job = Until(t, "bursts", (*INSIDE, "--burst", "1/4:100"))
    job.more(1200)
    c = Calls(t, job.finish())
    c.expect_inside()
    made, told = job.read()[-1][1], [row for row in c.rows if row["name"] != "t_v2_leaf"]
    rests = [b for a, b in zip(told, told[1:]) if b["start_ns"] - a["start_ns"] > 150e6]
    expect(len(rests) > 2, "%d rests, %r of %d calls" % (len(rests), c.names, made))
    expect(1000 < c.names["t_v2_plain"] < 0.8 * made, "%r of %d calls" % (c.names, made))
    # one of each in turns: a burst has all that are in it
    expect(abs(c.names["t_v2_plain"] - c.names["t_v2_around_leaf"]) <= len(rests) + 1,
           "%r in %d bursts" % (c.names, len(rests) + 1))
    # the kernel's probes are on a little longer; a burst may end, now and then, while the job has no
    # CPU, between the call and the one within it
    expect(c.names["t_v2_leaf"] >= c.names["t_v2_around_leaf"] - 2, "calls: %r" % c.names)
    expect(not c.untold(), "lost: %r" % c.lost)


# ---- where it cannot be ----


def expect_refused(c, err):
    lines = [line for line in err.splitlines() if "the kernel has all probes" in line]
    expect(len(lines) == 1, "one line says so: %s" % err)
    expect("probes inside" in c.notes or "kernel has all probes" in c.notes.replace(err, ""),
           "no note: %s" % c.notes)
    expect(c.number("inside_places") == 0 and c.names["t_v2_plain"] > 0, "calls: %r" % c.names)


FEW = """
import time, torch
print(flush=True)
while True:
    torch.randn(8, 8) @ torch.randn(8, 8)
    time.sleep(0.02)
"""


@test("attached to a process that calls a few of three thousand functions: it is met where it calls", 90)
def _(t):
    needs_torch()
    job = t.start([PYTHON, "-c", FEW], stdout=subprocess.PIPE)
    job.stdout.readline()
    p = t.start([EACGM, "record", "--probes", "inprocess", "-p", str(job.pid), "-d", "30",
                 "-o", t.path("few.eacgm")],
                stderr=subprocess.PIPE, text=True)
    said = ""
    while "inside" not in said:
        line = p.stderr.readline()
        expect(line, said)
        said += line
    expect(TELLS.search(said), said)
    os.kill(p.pid, signal.SIGINT)
    p.communicate(timeout=30)
    t.kill(job)


@test("attached in bursts it is the kernel that probes, and that is said")
def _(t):
    options(t)
    job = Until(t)
    p = t.start_record("-p", str(job.p.pid), *options(t, *INSIDE, "--burst", "1/2"))
    job.more(3)
    rec = t.stop_record(p)
    job.end()
    rec.ran = Said("")
    expect_refused(Calls(t, rec), log_of(p))


main()
