#!/usr/bin/env python3
"""unwind_agreement_test.py - stacks walked in the kernel agree with libdw's, frame by frame, at
the same stop (tests/tools/unwind_agreement.c).

EACGM_AGREEMENT_STOPS sets the stops of each program (default 40); the figures that are quoted
come from thousands. Where both unwinders find no caller at the same frame they agree. What is
known to differ, and why libdw's answer is not ours, or is wrong:
  - clone3 of glibc has no rules for the child's first instructions; libdw then guesses by a
    frame pointer that the child has from its parent;
  - the last two instructions of __longjmp have the return address in a register, which our
    rules cannot say."""

import collections
import math
import os

from harness import BUILD, PYTHON, ROOT, expect, main, needs_torch, skip, target, test

TOOL = os.path.abspath(os.path.join(BUILD, "tests", "unwind_agreement"))
STOPS = int(os.environ.get("EACGM_AGREEMENT_STOPS", "40"))
SHAPES = ("alloca", "recurse", "signal", "altstack", "tick", "asm", "plt", "lazy", "align", "edge",
          "vdso", "longjmp", "callback", "thread")
SECONDS = max(20, STOPS // 10)
AGREE_RATIO = 0.995


def agreement(t, cmd, *options, stops=STOPS):
    """Counts by name; what differs is printed."""
    if not os.access(TOOL, os.X_OK):
        skip("%s is not built: libdw's headers are not there" % TOOL)
    r = t.run([TOOL, "--stops", stops, "--seconds", SECONDS, *options, "--", *cmd])
    words = r.out.splitlines()[-1].split() if r.out.strip() else []
    n = collections.Counter({words[i]: int(words[i + 1]) for i in range(0, len(words) - 1, 2)})
    expect(n["stacks"] >= stops / 2, "too few stops: %s" % r)
    for line in r.out.splitlines()[:-1]:
        print(line)
    return n


def expect_agreement(n, what):
    ratio = 1 - n["differ"] / n["stacks"]
    print("# %s: %d stacks of %d frames, deepest %d: %.2f %% agree (%d differ; %d end early in "
          "both)" % (what, n["stacks"], n["frames"], n["deepest"], 100 * ratio, n["differ"],
                     n["cut_both"]))
    # as many as chance brings, three deviations, were the ratio what it must be at least; thousands
    # of stops (see above) leave little room, the few of a short run more
    most = n["stacks"] * (1 - AGREE_RATIO)
    expect(n["differ"] <= most + 3 * math.sqrt(most), "%s: %r" % (what, dict(n)))
    expect(n["cut_both"] <= max(4, 0.02 * n["stacks"]), "%s: cut in both: %r" % (what, dict(n)))


@test("C: alloca, recursion, signals, assembly, PLT, aligned frames, a page's edge, vDSO, longjmp, "
      "threads", 300)
def _(t):
    total = collections.Counter()
    for shape in SHAPES:
        n = agreement(t, [target("unwind_shapes"), shape])
        print("# %s: %d stacks, %d differ" % (shape, n["stacks"], n["differ"]))
        expect(n["differ"] <= max(4, 0.02 * n["stacks"]), "%s: %r" % (shape, dict(n)))
        total.update(n)
        total["deepest"] = max(total["deepest"] - n["deepest"], n["deepest"])
    expect_agreement(total, "all shapes")


@test("C++: exceptions that are thrown and caught all the time", 120)
def _(t):
    expect_agreement(agreement(t, [target("unwind_throws")], stops=2 * STOPS), "exceptions")


@test("a frame deeper than what is kept: the same up to there", 120)
def _(t):
    n = agreement(t, [target("unwind_shapes"), "deep"])
    expect(n["too_deep"] > n["stacks"] / 2, "nothing was deep: %r" % dict(n))
    expect_agreement(n, "deep recursion")


@test("PyTorch training: its C++, BLAS and the interpreter", 120)
def _(t):
    needs_torch()
    n = agreement(t, [PYTHON, os.path.join(ROOT, "bench", "train.py"), "--steps", 10000000,
                      "--warmup", 5], "--until", "warm", stops=2 * STOPS)
    expect_agreement(n, "PyTorch")


if __name__ == "__main__":
    raise SystemExit(main())
