#!/usr/bin/env python3
"""account_test.py - the head of the report on programs of which it is known where their time goes:
the shares add up, the largest one is the right one, and the sentence says so."""

import os

from harness import EACGM, expect, main, skip, test

PYTHON = os.environ.get("EACGM_TEST_PYTHON", "/usr/bin/python3")
JOBS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs")


def account(t, name, *args):
    rec = t.record([PYTHON, os.path.join(JOBS, "account_job.py"), name, *args])
    truth = dict(part.split("=") for part in rec.ran.out.split())
    found = rec.report["account"]
    for thread in found["threads"]:
        expect(sum(thread["owners"].values()) == thread["wall_ns"], "%r" % thread)
    expect(found["main"]["program"] == "account_job.py", "%r" % found["main"])
    return rec, found, {key: float(value) for key, value in truth.items()}


def said(found):
    return {finding["name"]: finding["text"] for finding in found["stands_out"]}


def expect_seconds(found, owner, seconds):
    """Being woken and not running is not the wait's."""
    owners = found["main"]["owners"]
    slack_ns = 0.05 * seconds * 1e9 + 20e6 + owners.get("runnable", 0)
    expect(abs(owners.get(owner, 0) - seconds * 1e9) <= slack_ns,
           "%s: %.3f s was made; %r" % (owner, seconds, owners))


@test("a thread that is blocked on a lock, and who has it", 60)
def _(t):
    _rec, found, truth = account(t, "lock")
    expect_seconds(found, "lock", truth["waited"])
    expect("lock" in said(found) and "its thread" in said(found)["lock"], "%r" % said(found))


@test("a program that sleeps", 60)
def _(t):
    _rec, found, truth = account(t, "sleep")
    expect_seconds(found, "sleep", truth["waited"])
    expect("sleep" in said(found), "%r" % said(found))


@test("a process that waits for what its children make", 60)
def _(t):
    _rec, found, truth = account(t, "data")
    expect_seconds(found, "data", truth["waited"])
    expect("data" in said(found), "%r" % said(found))


@test("another process on the same CPU", 60)
def _(t):
    rec, found, truth = account(t, "hog")
    lead = found["main"]
    off = truth["waited"] * 1e9
    runnable = lead["owners"].get("runnable", 0)
    expect(off > 0.2e9 and abs(runnable - off) <= 0.1 * off + 50e6 +
           lead["owners"].get("held", 0), "%.0f ms: %r" % (off / 1e6, lead))
    expect("no_cpu" in said(found), "%r" % said(found))
    text = t.run([EACGM, "report", rec.path])
    expect(text.status == 0 and text.out.startswith("account_job.py ran for"), "%s" % text)


@test("a slow data loader of PyTorch", 180)
def _(t):
    if t.run([PYTHON, "-c", "import torch"], seconds=60).status:
        skip("%s has no torch" % PYTHON)
    _rec, found, truth = account(t, "loader")
    owners = found["main"]["owners"]
    expect(owners.get("data", 0) >= 0.5e9 * truth["waited"] - owners.get("runnable", 0),
           "%.2f s: %r" % (truth["waited"], owners))
    expect("data" in said(found), "%r" % said(found))


if __name__ == "__main__":
    main()
