#!/usr/bin/env python3
"""steps_test.py - the steps of real PyTorch loops on the CPU, found without knowing them: as many as
the loop made, and each ends where the loop says, with at most one operation between."""

import bisect
import json
import os

from harness import PYTHON, ROOT, expect, main, needs_torch, test

LOOPS = os.path.join(ROOT, "tests", "gpu", "jobs", "loops.py")
JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "steps_job.py")
KINDS = {"train": "training", "eval": "evaluation", "token": "inference", "infer": "inference"}


def recorded(t, script, *args):
    """The recording and what the loop says of its steps."""
    needs_torch()
    truth = t.path("truth.jsonl")
    # inside: the loops are quicker so, and what is recorded is the same (inside_test.py)
    rec = t.record([PYTHON, script, *args, "--tell", truth], "--layers", "torch", "--profile",
                   "off", "--probes", "inprocess")
    with open(truth) as f:
        return rec, [json.loads(line) for line in f]


def operations(rec, pid):
    """Starts of the outermost operations of a process's first thread."""
    return sorted(c["start_ns"] for c in rec.calls
                  if c["pid"] == pid and c["tid"] == pid and c["layer"] == "torch"
                  and not c["depth"])


def check_ends(rec, pid, found, made):
    expect(len(found) == len(made), "%d steps found, %d made" % (len(found), len(made)))
    starts = operations(rec, pid)
    for i, (f, m) in enumerate(zip(found, made)):
        between = bisect.bisect(starts, m["end_ns"]) - bisect.bisect_left(starts, f["end_ns"])
        expect(abs(between) <= 1, "step %d of %d: %d operations between its end as found and as "
               "made" % (i, len(made), between))
        sums = sum(f["phases_ns"].values())
        expect(sums == f["end_ns"] - f["start_ns"], "step %d: phases make %d" % (i, sums))
    first = bisect.bisect(starts, found[0]["start_ns"]) - bisect.bisect(starts,
                                                                       made[0]["start_ns"])
    expect(abs(first - 1) <= 1, "the first step begins %d operations off" % first)


def check_joined(rec, pid, made):
    """Steps of a recording that began and ended within some."""
    loops = rec.report["steps"]["processes"][0]["loops"]
    found = max(loops, key=lambda loop: len(loop["steps"]))["steps"]
    first = min(range(len(made)), key=lambda i: abs(made[i]["end_ns"] - found[0]["end_ns"]))
    check_ends(rec, pid, found, made[first:first + len(found)])
    starts = operations(rec, pid)
    # What is left out is less than a step at each end.
    left = sum(1 for row in made if row["start_ns"] > starts[0] and row["end_ns"] < starts[-1])
    expect(abs(left - len(found)) <= 1, "%d whole steps, %d found" % (left, len(found)))


def check(rec, truth, phases):
    """Each phase of the truth is a loop of the process that tells it."""
    steps = rec.report["steps"]
    for phase in phases:
        made = [row for row in truth if row["phase"] == phase]
        # Of ranks one tells its steps; those of another end at other times.
        found = [loop for p in steps["processes"] for loop in p["loops"]
                 if loop["kind"] == KINDS[phase] and p["pid"] == made[0]["pid"]]
        expect(found, "no loop of %s: %r" % (KINDS[phase], rec.report["steps"].get("count")))
        near = min(found, key=lambda loop: abs(loop["steps"][0]["end_ns"] - made[0]["end_ns"]))
        check_ends(rec, made[0]["pid"], near["steps"], made)
    return steps


def loop_test(kind, what, phase="train", steps="25"):
    @test("%s: %s" % (kind, what), 180)
    def _(t):
        rec, truth = recorded(t, LOOPS, kind, "--device", "cpu", "--steps", steps)
        check(rec, truth, [phase])


loop_test("train", "every step of training is found")
loop_test("accumulate", "four batches make a step")
loop_test("loader", "steps whose batches come from other processes")
loop_test("ddp", "steps of two ranks")
loop_test("generate", "every token is a step", "token")


@test("evaluate: evaluations between steps are no steps", 180)
def _(t):
    rec, truth = recorded(t, LOOPS, "evaluate", "--device", "cpu", "--steps", "45")
    check(rec, truth, ["train"])
    loops, = (p["loops"] for p in rec.report["steps"]["processes"])
    batches = [loop for loop in loops if loop["kind"] == "evaluation"]
    expect([(b["count"], b["stretches"]) for b in batches] == [(10, 2)], "evaluations: %r" % batches)


def job_test(kind, what, phases):
    @test("%s: %s" % (kind, what), 120)
    def _(t):
        rec, truth = recorded(t, JOB, kind)
        check(rec, truth, phases)


job_test("logged", "gradients are cut, the rate scheduled, the loss read now and then", ["train"])
job_test("gan", "a turn of two optimizers is a step", ["train"])
job_test("alternate", "two kinds of batches take turns", ["train"])
job_test("tested", "a test behind the training", ["train", "eval"])
job_test("infer", "batches of changing size", ["infer"])
job_test("requests", "tokens of requests of changing length", ["infer"])
job_test("single", "one operation is a step", ["infer"])


@test("slow steps are named, with what in them was longer", 120)
def _(t):
    rec, truth = recorded(t, JOB, "slow")
    steps = check(rec, truth, ["train"])
    slow = {s["index"]: s for s in steps["slow"]}
    expect(20 in slow and 30 in slow, "slow: %r" % sorted(slow))
    waits = [c["name"] for c in slow[20]["longer"] if c["before"] and c["more_ns"] > 90e6]
    expect(waits == ["aten::cross_entropy_loss"] and slow[20]["phase"] == "forward",
           "step 20: %r" % slow[20])
    expect(slow[30]["longer"][0]["name"] in ("aten::mm", "aten::ones"), "step 30: %r" % slow[30])


@test("programs without a loop have no steps", 120)
def _(t):
    for kind in ("none", "setup"):
        rec, _ = recorded(t, JOB, kind)
        expect(rec.report["steps"]["count"] == 0, "%s: %r" % (kind, rec.report["steps"]))


@test("a job that runs already: whole steps only", 120)
def _(t):
    needs_torch()
    truth = t.path("truth.jsonl")
    job = t.start([PYTHON, LOOPS, "train", "--device", "cpu", "--steps", "1500", "--tell", truth])
    t.wait_for(lambda: os.path.exists(truth), "the job to begin its steps")
    # Where in a step a recording begins and ends is chance: so more than one.
    recordings = []
    while len(recordings) < 3:
        r = t.start_record("-p", str(job.pid), "-d", "0.7", "--layers", "torch", "--profile",
                           "off", out=t.path("%d.eacgm" % len(recordings)), ready=False)
        expect(r.wait(timeout=60) == 0, "eacgm record failed")
        recordings.append(r.recording)
    job.wait(timeout=100)
    with open(truth) as f:
        made = [json.loads(line) for line in f]
    for rec in recordings:
        check_joined(rec, job.pid, made)


if __name__ == "__main__":
    main()
