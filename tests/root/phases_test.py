#!/usr/bin/env python3
"""phases_test.py - what the phases of a loop's steps took, against the loop's own log of the same
run. Loaders with two to eight processes, none, and a thread between; accumulated gradients;
evaluations; tokens. Steps that are not told: steps_test.py has where they begin and end."""

import bisect
import collections
import json
import os

from harness import EACGM, PYTHON, expect, main, needs_torch, test

JOBS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs")
JOB, FORKED = os.path.join(JOBS, "phases_job.py"), os.path.join(JOBS, "forked.py")
KINDS = {"train": "training", "eval": "evaluation", "token": "inference"}
PHASES = ("load", "forward", "backward", "optimizer", "other")


STEPS = {"workers": "60", "eight": "60", "main": "60", "pinned": "60", "accumulate": "40",
         "evaluate": "60", "generate": "120"}


def record(t, command, *options):
    """The loop goes before other work of the machine: when it is kept from its CPU between the log
    and an operation, nobody knows in which phase."""
    needs_torch()
    return t.record(["nice", "-n", "-19", PYTHON, *command], "--layers", "torch", "--profile",
                    "off", *options)


def rows_of(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def recorded(t, kind, steps, *options):
    """The recording of one kind, and the loop's log."""
    log = t.path("log.jsonl")
    return record(t, [JOB, kind, "--steps", steps, "--tell", log], *options), rows_of(log)


class Together:
    """What is known of the recording of all kinds, a process each."""

    def __init__(self, t):
        words = []
        for kind, steps in STEPS.items():
            words += ["--", kind, "--steps", steps, "--tell", t.path(kind)]
        rec = record(t, [FORKED, JOB, *words[1:]])
        self.logs = {kind: rows_of(t.path(kind)) for kind in STEPS}
        self.report = rec.report
        self.parents = {}
        # by process, of its first thread: when its outermost operations began and ended, and when
        # it was kept from its CPU, and for how long
        self.operations, self.kept = collections.defaultdict(list), collections.defaultdict(list)
        out = t.path("calls.jsonl")
        r = t.run([EACGM, "export", rec.path, "-f", "jsonl", "-o", out])
        expect(r.status == 0, "export failed: %s" % r)
        with open(out) as f:
            for row in map(json.loads, f):
                if row["type"] == "process":
                    self.parents[row["pid"]] = row["parent_pid"]
                elif row.get("tid") != row.get("pid"):
                    continue
                elif row["type"] == "call" and row["layer"] == "torch" and not row["depth"]:
                    self.operations[row["pid"]].append(
                        (row["start_ns"], row["start_ns"] + (row.get("duration_ns") or 0)))
                elif row["type"] == "wait" and row["reason"] == "preempted":
                    self.kept[row["pid"]].append((row["start_ns"], row["duration_ns"]))
        for operations in self.operations.values():
            operations.sort()

    def pid(self, kind):
        return self.logs[kind][0]["pid"]

    def loops(self, pids):
        return [loop for p in self.report["steps"]["processes"] if p["pid"] in pids
                for loop in p["loops"]]


kept = []  # for all tests


def together(t):
    if not kept:
        kept.append(Together(t))
    return kept[0]


def mean(values):
    return sum(values) / len(values)


def unknown(rec, made):
    """How long a step was kept from its CPU between two operations, on average: the log's clock
    was read before that or behind it, so that it may be of either phase. 0 where nothing else
    runs on the machine."""
    pid, begin, end = made[0]["pid"], made[0]["start_ns"], made[-1]["end_ns"]
    ops, sum_ns = rec.operations[pid], 0
    for start_ns, duration_ns in rec.kept[pid]:
        if begin <= start_ns < end:
            at = bisect.bisect(ops, (start_ns,)) - 1
            sum_ns += duration_ns if at < 0 or ops[at][1] <= start_ns else 0
    return sum_ns / len(made)


def edges(rec, made):
    """Phase -> how long it was at its edges, on average, between the log's clock and the operation
    next to that: Python's own time, of which no operation tells whose it is. On a quiet host that
    is 0.1 ms a phase; where the kernel's probes are slow it is several times as long, however
    short the phase. What lies within "load" is none of it: it is waited there."""
    ops = rec.operations[made[0]["pid"]]
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
    loops = [loop for loop in rec.loops([made[0]["pid"]]) if loop["kind"] == KINDS[kind]]
    expect(len(loops) == 1, "loops of %s: %r" % (kind, [loop["count"] for loop in loops]))
    expect(loops[0]["count"] == len(made), "%s: %d steps found, %d made" % (
        kind, loops[0]["count"], len(made)))
    return loops[0]


def check_sums(loop):
    means, ratios = loop["phases_mean_ns"], loop["phases_ratio"]
    expect(abs(sum(means.values()) - loop["mean_ms"] * 1e6) <= 0.01 * loop["mean_ms"] * 1e6,
           "phases %r make no step of %r ms" % (means, loop["mean_ms"]))
    expect(abs(sum(ratios.values()) - 1) <= 0.01, "shares: %r" % ratios)


def check(rec, name, kind="train", phases=PHASES):
    """Where the first step began its wait is not known: it is left out of the comparison."""
    made = [row for row in rec.logs[name] if row["kind"] == kind]
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


def phases_of(kind, what, *also):
    @test("%s: %s" % (kind, what), 180)
    def _(t):
        for each in ("train", *also):
            check(together(t), kind, each)


phases_of("workers", "two loader processes")
phases_of("eight", "eight loader processes, and a log behind each step")
phases_of("main", "batches are made by the loop itself")
phases_of("pinned", "four loader processes, and a thread that copies between")
phases_of("accumulate", "four batches for an update")
phases_of("evaluate", "evaluations between epochs", "eval")


@test("generate: a token is a step, from the choice of one to that of the next", 180)
def _(t):
    check(together(t), "generate", "token", ("load", "backward", "optimizer"))


@test("loader processes have no forward pass, and wait for work", 180)
def _(t):
    rec = together(t)
    loaders = [pid for pid, parent in rec.parents.items() if parent == rec.pid("eight")]
    loops = [loop for loop in rec.loops(loaders) if loop["kind"] == "loading"]
    expect(len(loops) == 8, "%d loaders" % len(loops))
    for loop in loops:
        check_sums(loop)
        others = {k for k, v in loop["phases_mean_ns"].items() if v} - {"load", "other"}
        expect(not others, "a loader's phases: %r" % others)


@test("--burst: time without probes is no slow step", 180)
def _(t):
    rec = together(t)
    step_ms = loop_of(rec, "train", rec.logs["workers"])["median_ms"]
    on_ms = max(400, round(20 * step_ms))  # a loop is known by some steps in a row
    rec, log = recorded(t, "workers", "150", "--burst", "1/3:%d" % on_ms)
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
    for mode, steps in (("tail", "120"), ("stats", "60")):
        rec, _ = recorded(t, "workers", steps, "--mode", mode)
        steps = rec.report["steps"]
        expect(steps["count"] == 0 and "counted" in steps["reason"], "%s: %r" % (mode, steps))
        text = t.run([EACGM, "report", rec.path]).out
        expect(text.count("steps: none found: calls were counted") == 1, text[:3000])


if __name__ == "__main__":
    main()
