#!/usr/bin/env python3
"""inside_programs_test.py - calls that are told inside of programs that nobody here wrote: PyTorch,
every CPython of this machine, greenlets; and beside another eacgm, or another preloaded library."""

import collections
import os

import pythons
from harness import LIBTARGET, PYTHON, Recording, expect, main, needs_torch, skip, test
from inside_calls import (INSIDE, JOB, KERNEL, LIBRARY, PYTHONS, TRAINING, Calls, Said,
                          Until, differ, every_python, options, sound, sums, traced)


# ---- with others ----


@test("PyTorch: training, errors of operators, and a data loader's processes", 150)
def _(t):
    needs_torch()
    cmd = [PYTHON, "-c", TRAINING]
    alone = t.run(cmd)
    kernel, inside = (traced(t, cmd, where, alone) for where in (KERNEL, INSIDE))
    inside.expect_inside(1000)
    expect(inside.names == kernel.names, "%s; lost %r, inside %r" % (
        differ(kernel.names, inside.names), kernel.lost, inside.lost))
    # arguments are shapes and addresses of nodes' sequence numbers, which are the same
    expect(inside.exact == kernel.exact, differ(kernel.exact, inside.exact))
    expect(not kernel.untold() and not inside.untold(), "lost %r, inside %r" % (
        kernel.lost, inside.lost))


def with_greenlet():
    ret = pythons.with_greenlet(PYTHON)
    if not ret:
        skip("no Python here has greenlet")
    return ret


@test("CPython's frames, types that are called and imports, in every interpreter here", 120)
def _(t):
    found = every_python()
    if not found:
        skip("there is no Python")
    for python in found:
        cmd = [python, "-S", "-c", PYTHONS]
        alone = t.run(cmd)
        kernel, inside = (
            Calls(t, t.record(cmd, "--layers", "python", "--profile", "off", "--waits", "off",
                              *where), layer="python") for where in (KERNEL, INSIDE))
        for c in (kernel, inside):
            expect(alone.status == 0 and sums(c.rec.ran.out) == sums(alone.out),
                   "%s: untraced %s, traced %s" % (python, alone, c.rec.ran))
        inside.expect_inside(2)
        expect(inside.number("inside_calls") > 1000, "%s: inside %r" % (python, inside.meta))
        more = collections.Counter(sound(inside.names)), collections.Counter(sound(kernel.names))
        expect(more[0] == more[1], "%s: %s; lost %r, inside %r" % (
            python, differ(more[1], more[0]), kernel.lost, inside.lost))


STACKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "python_calls_job.py")


def check_held(what, c):
    """Each of the overlapping calls of held() has its own end."""
    expect(not set(c.rec.report["recording"].get("lost_by_cause", {})) &
           {"inside_unmatched", "inside_no_return"}, "%s: lost %r" % (what, c.lost))
    by_thread = collections.defaultdict(list)
    for row in c.rows:
        if row["name"] == "held":
            by_thread[row["tid"]].append((row["start_ns"], row["start_ns"] + row["duration_ns"]))
    expect([len(calls) for calls in by_thread.values()] == [201, 201],
           "%s: %r, lost %r" % (what, {k: len(v) for k, v in by_thread.items()}, c.lost))
    for calls in by_thread.values():
        ends = [end for _start, end in sorted(calls)]
        expect(ends == sorted(ends), "%s: ends are not in the order of calls" % what)


@test("several stacks in a thread (greenlet): calls end with their own frames", 120)
def _(t):
    found = with_greenlet()
    for python in found:
        cmd = [python, STACKS, "greenlets"]
        alone = t.run(cmd)
        kernel, inside = (
            Calls(t, t.record(cmd, "--layers", "python", "--profile", "off", "--waits", "off",
                              *where), layer="python") for where in (KERNEL, INSIDE))
        for c in (kernel, inside):
            expect(alone.status == 0 and c.rec.ran.out == alone.out,
                   "%s: untraced %s, traced %s" % (python, alone, c.rec.ran))
            expect("switches stacks" in str(c.rec.report["notes"]), "%r" % c.rec.report["notes"])
        check_held(python, inside)


LATER = """import ctypes, greenlet, sys
function = ctypes.CDLL(sys.argv[1])._Z9t_v2_flagmm
for i in range(300):
    function(i, 1)
"""


@test("a library that comes after greenlet is told inside as well", 60)
def _(t):
    found = with_greenlet()
    c = Calls(t, t.record([found[0], "-c", LATER, LIBRARY], *options(t, *INSIDE)))
    c.expect_inside()
    expect(len(c.rows) == 300 and not c.untold(), "%d calls: %r" % (len(c.rows), c.lost))


CAUGHT = """import ctypes, sys
if sys.argv[2] == "greenlet":
    import greenlet
function = ctypes.CDLL(sys.argv[1])._Z10t_v2_catchmm
for i in range(900):
    function(2 * i, 1)
"""


@test("calls that exceptions end, where stacks may be switched, are told: as many, none for long", 60)
def _(t):
    found = with_greenlet()
    without, switches = (
        Calls(t, t.record([found[0], "-c", CAUGHT, LIBRARY, word], *options(t, *INSIDE)))
        for word in ("no", "greenlet"))
    for c in (without, switches):
        c.expect_inside()
        expect(not c.untold(), "%r" % c.lost)
    left, usual = (sorted(row["duration_ns"] for row in c.rows if "unwound" in row["flags"])
                   for c in (switches, without))
    expect(switches.names == without.names and len(left) == len(usual) > 512,
           "%r, without %r; %d left, %d" % (switches.names, without.names, len(left), len(usual)))
    # those that were told last, when the thread ended, too: the first throw takes long by itself
    expect(left[-10] < 20 * usual[-10] + 1e6, "%r ns, usually %r" % (left[-10:], usual[-10:]))


@test("greenlets switch while eacgm comes and goes: the job's results are right", 120)
def _(t):
    found = with_greenlet()
    for python in found:
        with open(t.path("out"), "w") as out:
            job = t.start([python, STACKS, "greenlets_until", t.path("stop")], stdout=out)
        for i, where in enumerate((KERNEL, INSIDE) * 3):
            rec = t.start_record("-p", str(job.pid), "--layers", "python", *where,
                                 out=t.path("%d.eacgm" % i))
            t.wait_for(lambda rec=rec: rec.poll() is not None or
                       os.path.exists(rec.recording.path), "something is recorded")
            t.stop_record(rec)
            expect(job.poll() is None, "the job has ended: %s" % job.poll())
        with open(t.path("stop"), "w"):
            pass
        t.wait_for(lambda: job.poll() is not None, "the job's end")
        os.unlink(t.path("stop"))
        with open(t.path("out")) as f:
            said = f.read()
        expect(job.returncode == 0 and said.endswith("all as expected\n"), "%s: %s" % (python, said))


@test("another eacgm puts its breakpoints into the same functions: before, and after", 90)
def _(t):
    options(t)
    other = Until(t, "other")
    before = t.start_record("-p", str(other.p.pid), *options(t), out=t.path("before.eacgm"))
    other.more(3)
    cmd = [JOB, "arguments", "50"]
    inside = traced(t, cmd, INSIDE, t.run(cmd))
    inside.expect_inside(20)
    job = Until(t, "inside", INSIDE)
    after = t.start_record("--all", *options(t), out=t.path("after.eacgm"))
    job.more(3)
    t.stop_record(after)
    job.more(3)
    t.stop_record(before)
    job.end()
    other.end()
    t.wait_for(lambda: job.p.poll() is not None, "eacgm's end", 40)
    expect(job.p.returncode == 0, "eacgm: %s" % job.said())
    for rec in (before.recording, after.recording):
        expect(rec.count("t_v2_plain") > 100, "the other's calls: %r" % rec.report["functions"])
    c = Calls(t, Recording(t, job.recording, Said(job.said())))
    c.expect_inside()
    expect(sum(c.names.values()) + c.untold() == job.read()[-1][1] * 3, "%r lost %r, made %d" % (
        c.names, c.lost, job.read()[-1][1] * 3))


@test("a job with a library preloaded already: both are")
def _(t):
    options(t)
    cmd = ["sh", "-c", "cat /proc/$$/maps; exec %s arguments 5" % JOB]
    rec = t.record(cmd, *options(t, *INSIDE), env={"LD_PRELOAD": LIBTARGET})
    for name in (LIBTARGET, "libeacgm_calls.so"):
        expect(name in rec.ran.out, "%s is not mapped: %s" % (name, rec.ran))
    alone = t.run([JOB, "arguments", "5"])
    expect(sums(rec.ran.out) == sums(alone.out), "the job: %s" % rec.ran)
    Calls(t, rec).expect_inside()


main()
