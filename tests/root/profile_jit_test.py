#!/usr/bin/env python3
"""profile_jit_test.py - stacks through code that programs make while they run, with its names: of a
program that makes some, of node and of Java where those are installed."""

import os
import shutil

from harness import EACGM, expect, main, skip, target, test


def folded(t, recording):
    r = t.run([EACGM, "flame", recording, "-f", "folded", "-o", "-"])
    expect(r.status == 0, r.err)
    rows = (line.rsplit(" ", 1) for line in r.out.splitlines())
    return {tuple(stack.split(";")): int(weight) for stack, weight in rows}


def share(stacks, frames):
    """Of stacks that have these frames one after the other."""
    n = len(frames)
    found = sum(w for s, w in stacks.items()
                if any(s[i:i + n] == frames for i in range(len(s))))
    return found / max(1, sum(stacks.values()))


def made(t, how):
    """Stacks of jit_code; what it leaves is taken away."""
    out = t.path(how + ".eacgm")
    r = t.run([EACGM, "record", "--profile", "cpu", "-F", "299", "-o", out, "--",
               target("jit_code"), how, "700"], cwd=t.dir)
    expect(r.status == 0, r)
    left = "/tmp/perf-%s.map" % r.out.split()[0]
    if os.path.exists(left):
        os.unlink(left)
    return folded(t, out)


for mode, name in (("map", "hot_made (made.js:3)"), ("late", "hot_made (made.js:3)"),
                   ("dump", "Made.hot")):
    @test("made code has its name and its callers: %s" % mode)
    def _(t, how=mode, called=name):
        stacks = made(t, how)
        expect(share(stacks, ("main", "run_made", called)) > 0.8, "%r" % stacks)
        expect(share(stacks, (called, "called_by_made")) > 0.01, "%r" % stacks)


@test("a map that is a link is not read: the code is [JIT], and has its callers")
def _(t):
    stacks = made(t, "link")
    expect(share(stacks, ("main", "run_made", "[JIT]")) > 0.8, "%r" % stacks)


NODE = """
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
function outer_work() {
  const end = process.cpuUsage().user + 1500000;
  let sum = 0;
  while (process.cpuUsage().user < end) sum += fib(22);
  return sum;
}
outer_work();
"""

JAVA = """
public class Work {
  static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
  static long outerWork() {
    long sum = 0, end = System.nanoTime() + 2000000000L;
    while (System.nanoTime() < end) sum += fib(25);
    return sum;
  }
  public static void main(String[] a) { if (outerWork() == 42) System.out.println(); }
}
"""


def runtime(t, name, text, command):
    if not shutil.which(command[0]):
        skip(command[0] + " is not installed")
    with open(t.path(name), "w", encoding="ascii") as f:
        f.write(text)
    out = t.path("run.eacgm")
    # the shell tells the number that the file will have
    r = t.run([EACGM, "record", "--profile", "cpu", "-o", out, "--", "sh", "-c",
               'echo $$; exec "$@"', "sh", *command, t.path(name)], cwd=t.dir)
    left = "/tmp/perf-%s.map" % r.out.split()[0]
    if os.path.exists(left):
        os.unlink(left)
    expect(r.status == 0, r)
    return folded(t, out)


@test("node --perf-basic-prof: JavaScript's functions by name and file", seconds=120)
def _(t):
    stacks = runtime(t, "work.js", NODE, ["node", "--perf-basic-prof"])
    expect(share(stacks, ("outer_work (work.js:3)", "fib (work.js:2)")) > 0.3, "%r" % stacks)


@test("Java with frame pointers and a map at its end: methods by name", seconds=120)
def _(t):
    stacks = runtime(t, "Work.java", JAVA, [
        "java", "-XX:+PreserveFramePointer", "-XX:+UnlockDiagnosticVMOptions",
        "-XX:+DumpPerfMapAtExit"])
    expect(share(stacks, ("Work.fib", "Work.fib")) > 0.1, "%r" % stacks)


main()
