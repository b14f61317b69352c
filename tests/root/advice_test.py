#!/usr/bin/env python3
"""advice_test.py - what the report advises on PyTorch jobs with one known problem each: that it is
found, at the right line, and no longer when it is repaired. How much it saves is measured by
lab/advice/run.py; here it is no more than there is."""

import os
import pathlib
import re

from harness import PYTHON, expect, main, needs_torch, skip, test

BUSY = 0.35  # of its time in which the job could run and got no CPU: what it waits for is that
UNEQUAL = 1.1  # times the time of another CPU for the same work
PROGRAMS = pathlib.Path(__file__).resolve().parents[2] / "lab" / "advice" / "programs"


def advice(t, name, *words, scale="0.12"):
    """Of a program that is recorded, by kind."""
    needs_torch()
    os.environ.update(ADVICE_DISK=t.dir, ADVICE_SCALE=scale)
    rec = t.record([PYTHON, str(PROGRAMS / (name + ".py")), *words])
    found = rec.report["account"]
    for a in found["advice"]:
        of_ns = found["main"]["wall_ns"]
        expect(0 < a["saving_ns"] <= of_ns and 0 < a["share"] <= 1 and a["remedy"], "%r" % a)
    if found["main"]["owners"].get("runnable", 0) > BUSY * found["main"]["wall_ns"]:
        skip("others on this machine have the job's CPUs")
    if words[0] == "repaired" and cpus_differ(rec.ran.out):
        skip("this machine's CPUs are not equally fast: " + rec.ran.out.replace("\n", " "))
    savings = [a["saving_ns"] for a in found["advice"]]
    expect(savings == sorted(savings, reverse=True), "%r" % found["advice"])
    return {a["kind"]: a for a in found["advice"]}


def cpus_differ(out):
    """Whether ranks that are given the same to do say that one needed more of its CPU for it: then
    they do wait for each other."""
    took = [float(s) for s in re.findall(r"^rank \d+: ([\d.]+) s of its CPU$", out, re.M)]
    return len(took) > 1 and max(took) > UNEQUAL * min(took)


def check(t, name, kind, number="0", **how):
    told = advice(t, name, "problem", **how)
    expect(kind in told, "%r" % told)
    lines = (PROGRAMS / (name + ".py")).read_text().splitlines()
    named = [i for i, line in enumerate(lines, 1) if line.endswith("# named")]
    if named:
        place = told[kind]["place"]
        expect(place and [place["line"]] == named and place["file"].endswith(name + ".py"),
               "%r" % told[kind])
    repaired = advice(t, name, "repaired", number, **how)
    expect(kind not in repaired, "%r" % repaired)
    return told[kind]


@test("too few loader workers: how many there should be", 90)
def _(t):
    told = check(t, "workers", "load", "16")
    expect("num_workers=" in told["remedy"], "%r" % told)


@test("a loader without workers", 90)
def _(t):
    # some samples have to see the loader, which mostly sleeps
    check(t, "no_workers", "load", "16", scale="0.5")


@test("a function that makes batches slowly", 90)
def _(t):
    check(t, "preprocess", "making")


@test("a function of the loop's own", 90)
def _(t):
    check(t, "loop", "code")


@test("checkpoints that training waits for", 90)
def _(t):
    told = check(t, "checkpoint", "checkpoint", "400")
    expect("instead of every 4" in told["remedy"], "%r" % told)


@test("Python's collector of garbage", 120)
def _(t):
    check(t, "garbage", "garbage")


@test("a rank with more to do than the other", 90)
def _(t):
    check(t, "ranks", "ranks")


@test("an import that nothing uses", 90)
def _(t):
    if t.run([PYTHON, "-c", "import sympy"], seconds=60).status:
        skip("%s has no sympy" % PYTHON)
    told = check(t, "imports", "unused_import", scale="0.25")
    expect("sympy" in told["remedy"] and told["of_run"], "%r" % told)


if __name__ == "__main__":
    main()
