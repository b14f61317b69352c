#!/usr/bin/env python3
"""phases_test.py - what the phases of a loop's steps took, against the loop's own log of the same
run. Loaders with two to eight processes, none, and a thread between; accumulated gradients;
evaluations; tokens. Steps that are not told: steps_test.py has where they begin and end."""

import bisect
import collections
import json
import os

from harness import EACGM, PYTHON, expect, main, needs_torch, test

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "phases_job.py")
KINDS = {"train": "training", "eval": "evaluation", "token": "inference"}
PHASES = ("load", "forward", "backward", "optimizer", "other")


reports = {}  # of the loops that were recorded without further options


def recorded(t, kind, *options, steps="60"):
    """The recording and the loop's log. The loop goes before other work of the machine: when it
    is kept from its CPU between the log and an operation, nobody knows in which phase."""
    needs_torch()
    log = t.path("log.jsonl")
    rec = t.record(["nice", "-n", "-19", PYTHON, JOB, kind, "--steps", steps, "--tell", log],
                   "--layers", "torch", "--profile", "off", *options)
    if not options:
        reports[kind] = rec.report
    with open(log) as f:
        return rec, [json.loads(line) for line in f]


def mean(values):
    return sum(values) / len(values)


def unknown(rec, made):
    """How long a step was kept from its CPU between two operations, on average: the log's clock
    was read before that or behind it, so that it may be of either phase. 0 where nothing else
    runs on the machine."""
    pid, begin, end = made[0]["pid"], made[0]["start_ns"], made[-1]["end_ns"]
    ops = sorted((c["start_ns"], c["start_ns"] + (c.get("duration_ns") or 0)) for c in rec.calls
                 if c["pid"] == c["tid"] == pid and c["layer"] == "torch" and not c["depth"])
    kept = 0
    with open(os.path.join(rec.t.dir, "calls.jsonl")) as f:
        for row in map(json.loads, f):
            if (row.get("type") == "wait" and row["tid"] == pid and row["reason"] == "preempted"
                    and begin <= row["start_ns"] < end):
                at = bisect.bisect(ops, (row["start_ns"],)) - 1
                kept += row["duration_ns"] if at < 0 or ops[at][1] <= row["start_ns"] else 0
    return kept / len(made)


def edges(rec, made):
    """Phase -> how long it was at its edges, on average, between the log's clock and the operation
    next to that: Python's own time, of which no operation tells whose it is. On a quiet host that
    is 0.1 ms a phase; where the kernel's probes are slow it is several times as long, however
    short the phase. What lies within "load" is none of it: it is waited there."""
    pid = made[0]["pid"]
    ops = sorted((c["start_ns"], c["start_ns"] + (c.get("duration_ns") or 0)) for c in rec.calls
                 if c["pid"] == c["tid"] == pid and c["layer"] == "torch" and not c["depth"])
    starts, stops = [op[0] for op in ops], sorted(op[1] for op in ops)
    ends = [tuple(end) for row in made for end in row["ends"]]
    sums, loaded = collections.Counter(), made[0]["start_ns"]
    for i, (name, ns) in enumerate(ends[:-1]):
        loads = next((ends[k][1] for k in range(i, len(ends) - 1) if ends[k + 1][0] == "load"), ns)
        loaded = ns if name == "load" else loaded
        at, to = bisect.bisect(stops, ns) - 1, bisect.bisect(starts, ns)
        before = ns - max(loaded, stops[at]) if at >= 0 else 0
        after = min(max(loads, ns), starts[to]) - ns if to < len(starts) else 0
        for phase in {name, ends[i + 1][0]}:
            sums[phase] += before + after
    return {phase: ns / len(made) for phase, ns in sums.items()}


def compared(pairs):
    """The means of what was found and of what the log says, but for one step in twenty, those that
    differ most. Where the hypervisor takes the CPU for tens of ms just between an operation and the
    log's clock, the guest knows nothing of it."""
    kept = sorted(pairs, key=lambda pair: abs(pair[0] - pair[1]))[:len(pairs) - len(pairs) // 20]
    return [mean(column) for column in zip(*kept)]


def near(found, made, edge=0, more=0):
    """edge: the time of which no operation tells whose it is; the loop's own work in Python may lie
    there as well, so that no more than 0.4 ms of it counts."""
    return abs(found - made) <= max(0.05 * made, 200e3, min(edge, 400e3)) + more


def loop_of(rec, kind, made):
    loops = [loop for p in rec.report["steps"]["processes"] for loop in p["loops"]
             if p["pid"] == made[0]["pid"] and loop["kind"] == KINDS[kind]]
    expect(len(loops) == 1, "loops of %s: %r" % (kind, [loop["count"] for loop in loops]))
    expect(loops[0]["count"] == len(made), "%s: %d steps found, %d made" % (
        kind, loops[0]["count"], len(made)))
    return loops[0]


def check_sums(loop):
    means, ratios = loop["phases_mean_ns"], loop["phases_ratio"]
    expect(abs(sum(means.values()) - loop["mean_ms"] * 1e6) <= 0.01 * loop["mean_ms"] * 1e6,
           "phases %r make no step of %r ms" % (means, loop["mean_ms"]))
    expect(abs(sum(ratios.values()) - 1) <= 0.01, "shares: %r" % ratios)


def check(rec, log, kind="train", phases=PHASES):
    """Where the first step began its wait is not known: it is left out of the comparison."""
    made = [row for row in log if row["kind"] == kind]
    loop = loop_of(rec, kind, made)
    check_sums(loop)
    found, made = loop["steps"][1:], made[1:]
    took = [mean([s["end_ns"] - s["start_ns"] for s in rows]) for rows in (found, made)]
    expect(near(*took), "%s: a step took %.0f ns, by the log %.0f" % (kind, *took))
    more, edge = unknown(rec, made), edges(rec, made)
    for phase in phases:
        f, m = compared([tuple(s["phases_ns"].get(phase, 0) for s in pair)
                         for pair in zip(found, made)])
        expect(near(f, m, edge.get(phase, 0), more),
               "%s: %s took %.0f ns, by the log %.0f; %.0f at its edges and %.0f without a CPU are "
               "not known" % (kind, phase, f, m, edge.get(phase, 0), more))


def phases_of(kind, what, *also, steps="60"):
    @test("%s: %s" % (kind, what), 180)
    def _(t):
        rec, log = recorded(t, kind, steps=steps)
        for each in ("train", *also):
            check(rec, log, each)


phases_of("workers", "two loader processes")
phases_of("eight", "eight loader processes, and a log behind each step")
phases_of("main", "batches are made by the loop itself")
phases_of("pinned", "four loader processes, and a thread that copies between")
phases_of("accumulate", "four batches for an update", steps="40")
phases_of("evaluate", "evaluations between epochs", "eval")


@test("generate: a token is a step, from the choice of one to that of the next", 180)
def _(t):
    rec, log = recorded(t, "generate", steps="240")
    check(rec, log, "token", ("load", "backward", "optimizer"))


@test("loader processes have no forward pass, and wait for work", 180)
def _(t):
    if "eight" not in reports:
        recorded(t, "eight")
    loops = [loop for p in reports["eight"]["steps"]["processes"] for loop in p["loops"]
             if loop["kind"] == "loading"]
    expect(len(loops) == 8, "%d loaders" % len(loops))
    for loop in loops:
        check_sums(loop)
        others = {k for k, v in loop["phases_mean_ns"].items() if v} - {"load", "other"}
        expect(not others, "a loader's phases: %r" % others)


@test("--burst: time without probes is no slow step", 180)
def _(t):
    if "workers" not in reports:
        recorded(t, "workers")
    step_ms, = (loop["median_ms"] for p in reports["workers"]["steps"]["processes"]
                for loop in p["loops"] if loop["kind"] == "training")
    on_ms = max(400, round(20 * step_ms))  # a loop is known by some steps in a row
    rec, log = recorded(t, "workers", "--burst", "1/3:%d" % on_ms, steps="150")
    loop, = (loop for p in rec.report["steps"]["processes"] for loop in p["loops"]
             if loop["kind"] == "training")
    longest = max(row["end_ns"] - row["start_ns"] for row in log)
    expect(loop["max_ms"] * 1e6 <= 1.05 * longest, "a step of %r ms, by the log %d ns at most" % (
        loop["max_ms"], longest))
    expect(0 < loop["count"] < 150, "%d steps" % loop["count"])


@test("--mode tail, stats: there are no steps, and a line says why", 180)
def _(t):
    # in its first second, before it has learned what is slow, tail keeps every call: 40 steps were over
    # before that on a fast machine
    for mode in ("tail", "stats"):
        rec, _ = recorded(t, "workers", "--mode", mode, steps="200")
        steps = rec.report["steps"]
        expect(steps["count"] == 0 and "counted" in steps["reason"], "%s: %r" % (mode, steps))
        text = t.run([EACGM, "report", rec.path]).out
        expect(text.count("steps: none found: calls were counted") == 1, text[:3000])


if __name__ == "__main__":
    main()
