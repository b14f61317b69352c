#!/usr/bin/env python3
"""inside_modes_test.py - calls that are counted inside of a process (record --mode stats, tail
--probes inprocess): the histograms are those of the kernel's probes."""

import collections
import itertools
import os
import re
import signal

from harness import (PYTHON, Recording, expect, log_of, main, needs_torch, size_of, skip, target,
                     test)
from inside_calls import (CATALOG, INSIDE, JOB, KERNEL, PYTHONS, TRAINING, UNTOLD, Calls,
                          Said, Until, attach, by_process, differ, every_python, folder_of, options,
                          sound, stops, sums)


# ---- modes: histograms, and what is recorded beside them ----


COUNTED = CATALOG.replace("-> u64", "-> i32!negative")  # with errors


class Counted(Calls):
    """The histograms of a recording beside its calls."""

    def __init__(self, t, rec, layer="torch"):
        super().__init__(t, rec, layer)
        self.counts = collections.Counter()
        for row in self.hists:
            # whether calls of the other kind of probe are around a call is not known of either
            nested = None if row["name"] == "t_v2_leaf" else row["nested_calls"]
            self.counts[(row["name"], "calls")] += row["calls"]
            self.counts[(row["name"], "errors")] += row["errors"]
            self.counts[(row["name"], "nested")] += nested or 0
            expect(0 < row["calls"] and row["max_ns"] <= row["total_ns"] <=
                   row["calls"] * row["max_ns"] and row["errors"] <= row["calls"],
                   "figures: %r" % row)

    def calls(self):
        return {name: n for (name, what), n in self.counts.items() if what == "calls" and n}

    def by_process(self):
        """The processes' counts, whatever their numbers."""
        counts = collections.defaultdict(list)
        for row in self.hists:
            counts[row["pid"]].append((row["name"], row["calls"], row["errors"]))
        return collections.Counter(str(sorted(c)) for c in counts.values())


def counted_by_both(t, mode, cmd, *more, catalog=COUNTED, layer="torch", layers="torch"):
    options(t)
    with open(t.path("torture.yaml"), "w") as f:
        f.write(catalog)
    alone, found = t.run(cmd), []
    for where in (INSIDE, KERNEL):
        rec = t.record(cmd, "--catalog", t.path("torture.yaml"), "--layers", layers, "--profile",
                       "off", "--waits", "off", *where, "--mode", mode, *more, status=None)
        expect(rec.ran.status == alone.status == 0 and sums(rec.ran.out) == sums(alone.out),
               "untraced %s, %s %s" % (alone, where[-1], rec.ran))
        found.append(Counted(t, rec, layer))
    inside, kernel = found
    inside.expect_inside()
    expect(inside.number("inside_calls") > 0 and not kernel.number("inside_places"),
           "inside %r" % inside.meta)
    return kernel, inside


def expect_same_counts(kernel, inside, by_process=True):
    expect(kernel.counts and kernel.counts == inside.counts, "%s; lost %r, inside %r" % (
        differ(kernel.counts, inside.counts), kernel.lost, inside.lost))
    expect(not kernel.untold("hist_full", *UNTOLD) and not inside.untold("inside_hist", *UNTOLD),
           "lost by the kernel %r, inside %r" % (kernel.lost, inside.lost))
    if by_process:
        expect(kernel.by_process() == inside.by_process(), "by process: %s" % differ(
            kernel.by_process(), inside.by_process()))


COUNTED_CASES = (
    ("arguments", 50), ("local", 20), ("flags", 50), ("throw", 150), ("throw-threads", 100),
    ("jump", 500), ("ends", 20), ("turns", 20, 200), ("processes", 2), ("exec", 2),
    ("raw-fork", 200), ("killed", 20), ("cancelled", 2))

for mode in ("stats", "tail"):
    for case in COUNTED_CASES:
        @test("mode %s counts calls, errors and nesting as the kernel does: %s" % (mode, case[0]),
              90)
        def _(t, mode=mode, case=case):
            kernel, inside = counted_by_both(t, mode, [JOB, *map(str, case)])
            expect_same_counts(kernel, inside)
            if mode == "stats":
                expect(not kernel.rows and not inside.rows, "calls are recorded: %r, %r" % (
                    kernel.rows[:3], inside.rows[:3]))
            if case[0] == "arguments":
                expect(any(n for (_, what), n in inside.counts.items() if what == "errors"),
                       "no errors: %r" % inside.counts)


@test("mode tail records what is slower than its function usually is", 90)
def _(t):
    for c in counted_by_both(t, "tail", [JOB, "slow", "250"]):
        slow = [row for row in c.rows if row["duration_ns"] >= 200e6]
        expect([row["name"] for row in slow] == ["t_p_call"] * 3, "slow calls: %r" % slow)
        expect(c.calls()["t_p_call"] == 25003 and c.calls()["t_v2_around_leaf"] == 25000 and
               c.calls()["t_v2_leaf"] == 25000, "calls: %r" % c.counts)
        kept = collections.Counter(row["name"] for row in c.rows)
        # until the first second is over all are kept
        expect(all(0 < kept[name] < 20000 for name in ("t_p_call", "t_v2_around_leaf")),
               "records: %r" % kept)


@test("a mode for each layer: one is counted, the other is recorded")
def _(t):
    head, numbers = COUNTED.split("probes:")[0], COUNTED.index("  - id: torture.numbers")
    with open(t.path("cuda.yaml"), "w") as f:
        f.write(COUNTED[:numbers].replace("torch", "cuda"))
    kernel, inside = counted_by_both(
        t, "torch=stats,cuda=trace", [JOB, "arguments", "50"], "--catalog", t.path("cuda.yaml"),
        catalog=head + "probes:\n" + COUNTED[numbers:], layers="torch,cuda")
    expect_same_counts(kernel, inside)
    expect(not kernel.rows and not inside.rows, "torch is recorded: %r" % inside.rows[:3])
    kernel, inside = (Counted(t, c.rec, "cuda") for c in (kernel, inside))
    expect(not kernel.hists and not inside.hists, "cuda is counted: %r" % inside.hists[:3])
    expect(kernel.rows and kernel.names == inside.names, differ(kernel.names, inside.names))


@test("mode stats: eighty threads at once: what has no slot is told")
def _(t):
    kernel, inside = counted_by_both(t, "stats", [JOB, "at-once", "200", "80"])
    lost = inside.lost.get("inside_thread", 0)
    expect(0 < lost <= 16 * 420 and sum(kernel.calls().values()) == 80 * 630 and
           sum(inside.calls().values()) + lost == 80 * 630, "kernel %r, inside %r, lost %r" % (
               kernel.calls(), inside.calls(), inside.lost))


@test("mode stats: kill -9 of eacgm amid the run: the job goes on, what was counted can be read")
def _(t):
    job = Until(t, "killed", (*INSIDE, "--mode", "stats"))
    t.wait_for(lambda: size_of(job.recording) > 1000, "something is recorded", 30)
    job.more(100)
    folder = folder_of(t, job)
    (rings,) = (os.path.join(folder, name) for name in os.listdir(folder) if name.isdigit())
    os.kill(job.p.pid, signal.SIGKILL)
    job.p.wait()
    t.wait_for(lambda: stops(rings), "the job to see that nobody asks for its calls", 40)
    job.end()
    expect(Recording(t, job.recording, "").count("t_v2_plain") > 0, "it can be read")


@test("mode stats: every call of a job that goes on is counted, while it does", 90)
def _(t):
    job = Until(t, "counted", (*INSIDE, "--mode", "stats"))
    job.more(300)
    c = Counted(t, job.finish())
    c.expect_inside()
    expect(sum(c.calls().values()) + c.untold("inside_hist", *UNTOLD) == job.read()[-1][1] * 3,
           "%r of %d, lost %r" % (c.calls(), job.read()[-1][1] * 3, c.lost))


@test("mode stats, attached: the kernel counts, then the process itself, each call once", 90)
def _(t):
    options(t)
    job = Until(t, calls=100, pause_ms=15)
    p = attach(t, job, "--mode", "stats")
    job.more(20)
    job.end()
    t.wait_for(lambda: p.poll() is not None, "eacgm's end", 30)
    rec = p.recording
    rec.ran = Said(log_of(p))
    c = Counted(t, rec)
    c.expect_inside(20)
    n = c.calls()
    expect(all("open" in row["flags"] for row in c.rows) and
           not c.untold("inside_hist", *UNTOLD), "lost %r: %r" % (c.lost, c.rows[:3]))
    # the job makes one of each in turns, 300 before it sleeps; the kernel's probes come one after
    # another
    expect(n["t_v2_plain"] > 1000 and c.number("inside_calls") > 1000 and
           abs(n["t_v2_plain"] - n["t_v2_around_leaf"]) <= 2 and
           abs(n["t_v2_plain"] - n["t_v2_leaf"]) <= 300, "calls: %r, %r" % (n, c.meta))


CUDA_CASES = (("launches", 11, 4), ("launches", 300))

for mode in ("stats", "tail"):
    for case in CUDA_CASES:
        @test("mode %s over the fakes of CUDA: kernels by name: %s" % (
            mode, " ".join(map(str, case))))
        def _(t, mode=mode, case=case):
            cmd = [target(os.path.join("gpu", case[0])), *map(str, case[1:])]
            if not os.path.exists(cmd[0]):
                skip("%s is not built" % cmd[0])
            both = []
            for where in (KERNEL, INSIDE):
                rec = t.record(cmd, "--layers", "cuda", "--profile", "off", "--waits", "off",
                               *where, "--mode", mode)
                both.append(Counted(t, rec, "cuda"))
            kernel, inside = both
            inside.expect_inside()
            bare = [collections.Counter({re.sub("0x[0-9a-f]+", "0x", name): 0
                                         for name, _ in c.counts}) for c in both]
            for c, sum_ in zip(both, bare):
                for (name, what), n in c.counts.items():
                    if what != "nested":
                        sum_[re.sub("0x[0-9a-f]+", "0x", name), what] += n
            expect(bare[0] == bare[1], differ(*bare))
            expect(not inside.untold("inside_hist", *UNTOLD), "lost: %r" % inside.lost)
            if mode == "stats": # names of kernels are recorded, and nothing else is
                kept = [collections.Counter((row["name"], row.get("role")) for row in c.rows)
                        for c in both]
                expect(kept[0] and kept[0] == kept[1], differ(*kept))


@test("modes over CPython: what is called, and imported, in every interpreter here", 240)
def _(t):
    found = every_python()
    if not found:
        skip("there is no Python")
    # the first has both; of the others, which differ in what is probed, each has one
    for mode, python in [("tail", found[0]), *zip(itertools.cycle(("stats", "tail")), found)]:
        cmd = [python, "-S", "-c", PYTHONS]
        alone = t.run(cmd)
        kernel, inside = (
            Counted(t, t.record(cmd, "--layers", "python", "--profile", "off", "--waits", "off",
                                *where, "--mode", mode), "python")
            for where in (KERNEL, INSIDE))
        for c in (kernel, inside):
            expect(alone.status == 0 and sums(c.rec.ran.out) == sums(alone.out),
                   "%s: untraced %s, traced %s" % (python, alone, c.rec.ran))
        inside.expect_inside(2)
        calls = [collections.Counter(sound(c.calls())) for c in (kernel, inside)]
        expect(sum(calls[0].values()) > 1000 and calls[0] == calls[1],
               "%s: %s; lost %r, inside %r" % (python, differ(*calls), kernel.lost, inside.lost))


@test("modes over PyTorch: training, errors of operators, and a data loader's processes", 240)
def _(t):
    needs_torch()
    kernel, inside = counted_by_both(t, "torch=tail,python=stats", [PYTHON, "-c", TRAINING],
                                     layers="torch,python")
    calls = [collections.Counter(c.calls()) for c in (kernel, inside)]
    expect(sum(calls[0].values()) > 1000 and calls[0] == calls[1],
           "%d calls; %s; lost %r, inside %r" % (sum(calls[0].values()), differ(*calls),
                                                 kernel.lost, inside.lost))


main()
