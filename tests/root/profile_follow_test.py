#!/usr/bin/env python3
"""profile_follow_test.py - stacks of processes that come about in unusual ways: forked from one
that nobody named and that ends, running a library that was rewritten, waiting without an end."""

import os
import shutil
import signal
import subprocess

from harness import EACGM, PUSH, expect, main, skip, target, test

PYTHON = "/usr/bin/python3"

FORK = """
import os, time
def child_work():
    end = time.time() + 2.5
    while time.time() < end:
        pass
if os.fork() == 0:
    child_work()
    os._exit(0)
"""

HANG = """
import os, sys, threading
lock = threading.Lock()
def hang_here():
    lock.acquire()
    lock.acquire()
print(os.getpid(), flush=True)
hang_here()
"""


def folded(t, recording, *options):
    r = t.run([EACGM, "flame", recording, "-f", "folded", "-o", "-", *options])
    expect(r.status == 0, r.err)
    rows = (line.rsplit(" ", 1) for line in r.out.splitlines())
    return {tuple(stack.split(";")): int(weight) for stack, weight in rows}


def through(stacks, text):
    return sum(w for stack, w in stacks.items() if any(text in frame for frame in stack))


def script(t, name, text):
    with open(t.path(name), "w", encoding="ascii") as f:
        f.write(text)
    return t.path(name)


@test("--all: a forked child has its names and stacks, also when its parent has ended")
def _(t):
    if not os.path.exists(PYTHON):
        skip(PYTHON + " is not there")
    rec = t.start_record("--all", "--profile", "cpu")
    t.run([PYTHON, script(t, "fork.py", FORK)])
    t.run(["sleep", "2.8"])
    t.stop_record(rec)
    stacks = folded(t, rec.recording.path)
    seen = through(stacks, "child_work (")
    cut = {s: w for s, w in stacks.items() if "[cut: maps_changed]" in s}
    expect(seen > 1e9 and not cut, "child_work %.2f s, cut %r" % (seen / 1e9, cut))


@test("a wait that does not end is shown, with its stack")
def _(t):
    if not os.path.exists(PYTHON):
        skip(PYTHON + " is not there")
    path = t.path("hang.eacgm")
    # the job outlives eacgm, and would keep a pipe open
    t.run([EACGM, "record", "--profile", "offcpu", "-d", "3", "-o", path, "--", "sh", "-c",
           'exec "$@" >"$0" 2>&1', t.path("pid"), PYTHON, script(t, "hang.py", HANG)])
    with open(t.path("pid"), encoding="ascii") as f:
        os.kill(int(f.read().split()[0]), signal.SIGKILL)
    waited = through(folded(t, path, "--kind", "offcpu"), "hang_here (")
    expect(2e9 < waited < 3.5e9, "waited %.2f s" % (waited / 1e9))


SPIN = """
static volatile unsigned long sum;
__attribute__((noinline)) void %s(void)
{
	for (unsigned long i = 0; i < 900000000; i++)
		sum += i;
}
%s
void run(void)
{
	%s();
	sum++;
}
"""


def library(t, name, function, padding):
    """A library whose run() spins in a function of that name, at another place in each."""
    source = script(t, name + ".c", SPIN % (function, padding, function))
    out = t.path(name + ".so")
    expect(t.run(["gcc", "-O1", "-shared", "-fPIC", "-o", out, source]).status == 0, "gcc")
    return out


@test("a library that was rewritten in place has the names and rules of what it is now")
def _(t):
    if not shutil.which("gcc"):
        skip("gcc is not installed")
    first = library(t, "first", "spin_first", "")
    second = library(t, "second", "spin_second", "__attribute__((used)) static int pad(int a)"
                     "{ for (int i = 0; i < 9; i++) a = a * 31 + i; return a; }")
    runner = script(t, "run.py", "import ctypes, sys; ctypes.CDLL(sys.argv[1]).run()")
    used = t.path("used.so")
    command = "cp %s %s; %s %s %s; cat %s > %s; %s %s %s" % (
        first, used, PYTHON, runner, used, second, used, PYTHON, runner, used)
    path = t.path("rewritten.eacgm")
    r = subprocess.run([EACGM, "record", "--profile", "cpu", "-o", path, "--", "sh", "-c", command],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                       check=False)
    expect(r.returncode == 0, r.stderr)
    stacks = folded(t, path)
    for name in ("spin_first", "spin_second"):
        expect(through(stacks, name) > 2e8, "%s: %r" % (name, sorted(stacks)[:6]))


@test("stacks of processes that live for milliseconds are whole, and name what they run", seconds=120)
def _(t):
    r = t.record([target("short_lives"), "300"], "--profile", "cpu", "-F", "499")
    stacks = folded(t, r.path)
    total = sum(stacks.values())
    whole = sum(w for s, w in stacks.items()
                if not any(f.startswith(("[cut", "[stack not", "[unknown")) for f in s))
    lives = through(stacks, "live_shortly")
    odd = sorted((w, s) for s, w in stacks.items() if "[unknown]" in s or "[cut" in str(s))
    expect(whole > 0.98 * total, "whole %.1f %%: %r" % (100 * whole / total, odd[-8:]))
    expect(lives > 0.3 * total, "live_shortly %.1f %%: %r" % (100 * lives / total, stacks))
    uncut = [s for s in stacks if "live_shortly" in s and not s[0].startswith("[cut")]
    expect(uncut and all("main" in s[:s.index("live_shortly")] for s in uncut),
           "live_shortly is called by main: %r" % uncut)


@test("assembly without unwind rules is walked through, by its instructions; the report says so")
def _(t):
    r = t.record([target("no_rules"), "600"], "--profile", "cpu", "-F", "299")
    stacks = folded(t, r.path)
    for shape in ("asm_leaf", "asm_saves", "asm_aligned"):
        mine = {s: w for s, w in stacks.items()
                if shape in s and s[0] != "[cut: no_table]"}  # not compiled yet
        bad = {s: w for s, w in mine.items() if s[:s.index(shape)][-2:] != ("main", "run_shape")
               or "[cut: no_rules]" in s}
        total = sum(mine.values())
        expect(total > 3e8, "%s: %.2f s: %r" % (shape, total / 1e9, stacks))
        expect(sum(bad.values()) <= 0.01 * total, "%s: %r" % (shape, bad))
    back = [s for s in stacks if "called_back" in s]
    expect(back and all(s[s.index("called_back") - 1] == "asm_aligned" for s in back),
           "called_back: %r" % back)
    profile = r.report["profile"]
    cut = {k: n for k, n in profile["end_reasons"].items() if k != "no_table"}  # not compiled yet
    expect(sum(cut.values()) <= 0.01 * profile["samples"], "%r" % cut)
    # all that was walked through one of them, and nothing else
    through_one = sum(w for s, w in stacks.items() if not s[0].startswith("[cut") and
                      any(shape in s for shape in ("asm_leaf", "asm_saves", "asm_aligned")))
    expect(abs(profile["guessed_ratio"] - through_one / sum(stacks.values())) < 0.03,
           "guessed %r, %d ns of %d" % (profile["guessed_ratio"], through_one,
                                        sum(stacks.values())))


def expect_own_frame(t, probes):
    r = t.record([target("calls"), "threads", "100000", "2"], "--profile", "cpu", "-F", "499",
                 "--probe", PUSH, "--probes", probes)
    stacks = folded(t, r.path)
    ours = ("uprobe", "bpf_prog", "asm_exc_int3", "handle_swbp", "sys_uretprobe", "irqentry_exit")
    # A timer's or another device's interrupt leaves by the same functions as a breakpoint, a page
    # fault by one of them. On the page [uprobes] the kernel has a probed instruction run, which is
    # the job's own.
    shown = {s: w for s, w in stacks.items() if not any("sysvec" in f for f in s)
             for f in s if f != "[[uprobes]]" and any(o in f for o in ours)
             and not ("irqentry_exit" in f and "asm_exc_page_fault" in s)}
    expect(not shown, "%r" % shown)
    own = through(stacks, "[eacgm]")
    expect(own > 0 and all("[eacgm]" in s[-1] for s in stacks if "[eacgm]" in s), "%r" % stacks)
    profile = r.report["profile"]
    expect(abs(profile["own_ns"] - own) <= 1e6 and "eacgm" not in str(profile["functions"]),
           "own %r, in stacks %r" % (profile["own_ns"], own))
    expect(abs(profile["own_ns"] + profile["total_ns"] - sum(stacks.values())) <= 1e6,
           "%r" % profile["total_ns"])


@test("what probes cost stands in one frame, [eacgm], in no table's row and in a line of its own")
def _(t):
    for probes in ("kernel", "inprocess"):  # where our library is in the process, too
        expect_own_frame(t, probes)


main()
