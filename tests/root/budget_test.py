#!/usr/bin/env python3
"""budget_test.py - `record --budget`: what costs too much is turned down, that is noted, it comes
back when the load has fallen, and no count that is not complete looks as if it were."""

import json
import os
import re
import subprocess
import time

from harness import EACGM, LIBTARGET, Recording, expect, main, test

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "budget_job.py")
PROBES = ("--probe", "libtarget.so:target_push(u64 a) -> u64",
          "--probe", "libtarget.so:target_endbr(u64 a) -> u64")
DOWN, UP = "on in bursts from now on", "on all the time again"


def said(path, what):
    with open(path, errors="replace") as f:
        return f.read().count(what)


def run(t):
    """A job whose calls become a hundredth as many; its recording, and the calls it made."""
    out, log = t.path("run.eacgm"), t.path("log")
    with open(log, "w") as err:
        p = t.start([EACGM, "record", "-o", out, "--budget", "10%", "--profile", "off", "--layers",
                     "user", *PROBES, "--", "/usr/bin/python3", JOB, LIBTARGET],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True)
    def tell(word):
        p.stdin.write(word + "\n")
        p.stdin.flush()
    t.wait_for(lambda: said(log, DOWN), "the budget to turn target_push down")
    tell("slow")
    t.wait_for(lambda: said(log, UP), "it to come back", seconds=40)
    tell("fast")
    t.wait_for(lambda: said(log, DOWN) > 1, "it to go again")
    text, _ = p.communicate("end\n", timeout=30)
    expect(p.returncode == 0, "record ended with %r" % p.returncode)
    return Recording(t, out), dict((n, int(c)) for n, c in map(str.split, text.splitlines()))


@test("a load that changes a hundredfold is turned down, comes back, and goes again", seconds=120)
def _(t):
    rec, made = run(t)
    notes = [n["reason"] for n in rec.report["notes"] if n["subject"] == "budget"]
    expect(sum(DOWN in n for n in notes) >= 2 and any(UP in n for n in notes), "notes: %r" % notes)
    expect(all(re.match(r"[0-9.]+ s: .* cost [0-9.]+ % \(budget: 10 %\): target_push \(\d+/s, [0-9.]+ us each\)", n)
               for n in notes), "a note says when, what, why: %r" % notes)
    of = {f["name"]: f for f in rec.report["functions"]}
    push, rare = of["target_push"], of["target_endbr"]
    expect(push["complete"] is False and 0 < push["on_ratio"] < 1, "it looks complete: %r" % push)
    expect(0 < push["calls"] < made["target_push"], "%r of %r" % (push, made))
    expect("complete" not in rare, "it does not: %r" % rare)
    expect(rare["calls"] == made["target_endbr"], "%r of %r" % (rare, made))
    budget = rec.report["recording"]["budget"]
    expect(budget["ratio"] == 0.1 and budget["functions_in_bursts"] == 1, "budget: %r" % budget)
    head = t.run([EACGM, "report", rec.path]).out
    expect(re.search(r"^  budget +10 %, used ", head, re.M), "no budget: %s" % head[:1500])
    expect(re.search(r"^ *>[0-9,]+ .*target_push$", head, re.M), "no mark: %s" % head[-1500:])
    lines = t.path("run.jsonl")
    t.run([EACGM, "export", rec.path, "-f", "jsonl", "-o", lines])
    with open(lines) as f:
        rows = [row for row in map(json.loads, f) if row["type"] == "coverage"]
    expect(len(rows) == 1 and rows[0]["name"] == "target_push" and rows[0]["changes"] >= 3,
           "coverage: %r" % rows)


@test("a job that costs less than its budget keeps every call")
def _(t):
    rec = t.record(["/usr/bin/python3", "-c", "import ctypes\n"
                    "f = ctypes.CDLL('%s').target_endbr\n"
                    "for i in range(100): f(i); sum(range(20000))" % LIBTARGET],
                   "--budget", "50", "--layers", "user", "--profile", "off", *PROBES)
    of = {f["name"]: f for f in rec.report["functions"]}
    expect("complete" not in of["target_endbr"] and of["target_endbr"]["calls"] == 100, "%r" % of)


SLEEPER = """
import ctypes, select, time
f = ctypes.CDLL(%r).target_sleep
longest = 0
def call(ms):
    global longest
    began = time.monotonic_ns()
    f(ms)
    longest = max(longest, time.monotonic_ns() - began)
while not select.select([0], [], [], 0)[0]:
    for _ in range(400):
        call(0)
    call(150)
print(longest)
""" % LIBTARGET


def calls_in(t, recording):
    lines = t.path("run.jsonl")
    t.run([EACGM, "export", recording, "-f", "jsonl", "-o", lines])
    with open(lines) as f:
        return [row for row in map(json.loads, f) if row["type"] == "call"]


def is_cut(call):
    return "unwound" in call.get("flags", ())


def long_calls(t, log, out):
    with open(log, "w") as err:
        p = t.start([EACGM, "record", "-o", out, "--budget", "2%", "--profile", "off", "--waits", "off",
                     "--layers", "user", "--probe", "libtarget.so:target_sleep(u32 ms)", "--",
                     "/usr/bin/python3", "-c", SLEEPER],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True)
    t.wait_for(lambda: said(log, DOWN), "the budget to turn target_sleep down")
    t.wait_for(lambda: time.sleep(0.5) or any(map(is_cut, calls_in(t, out))),
               "a burst to end within a call", 60)
    longest, _ = p.communicate("end\n", timeout=30)
    expect(p.returncode == 0, "record ended with %r" % p.returncode)
    return int(longest)


@test("a call that is open when its place is taken off takes no longer than it did", seconds=120)
def _(t):
    out = t.path("run.eacgm")
    longest = long_calls(t, t.path("log"), out)
    calls = calls_in(t, out)
    expect(any(map(is_cut, calls)), "no burst ended within a call: %d calls" % len(calls))
    most = max(c["duration_ns"] for c in calls)
    expect(most <= longest + 5e6, "%.1f ms, the longest took %.1f" % (most / 1e6, longest / 1e6))


@test("what is no budget is refused in one line")
def _(t):
    for wrong in ("", "x", "0", "-1", "101", "2%%", "nan", "2 parts"):
        r = t.run([EACGM, "record", "--budget", wrong, "--", "/bin/true"])
        expect(r.status == 2 and "--budget" in r.err.splitlines()[0], "%r: %s" % (wrong, r))
    r = t.run([EACGM, "record", "--budget", "2", "--burst", "1/2", "--", "/bin/true"])
    expect(r.status == 2 and "--burst" in r.err, "both: %s" % r)
    r = t.run([EACGM, "record", "--detect=x.model", "--budget", "2", "--", "/bin/true"])
    expect(r.status == 2 and "--detect=MODEL" in r.err, "a model: %s" % r)


main()
