#!/usr/bin/env python3
"""steps_test.py - the steps of real PyTorch loops on the CPU, found without knowing them: as many as
the loop made, and each ends where the loop says, with at most one operation between."""

import bisect
import collections
import json
import os

from harness import PYTHON, ROOT, expect, main, needs_torch, test

LOOPS = os.path.join(ROOT, "tests", "gpu", "jobs", "loops.py")
JOBS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs")
JOB, FORKED = os.path.join(JOBS, "steps_job.py"), os.path.join(JOBS, "forked.py")
KINDS = {"train": "training", "eval": "evaluation", "token": "inference", "infer": "inference"}


def rows_of(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def recorded(t, *command):
    # inside: the loops are quicker so, and what is recorded is the same (inside_test.py)
    return t.record([PYTHON, *command], "--layers", "torch", "--profile", "off", "--probes",
                    "inprocess")


def recorded_alone(t, *command):
    """The recording of a loop, and what it says of its steps."""
    needs_torch()
    truth = t.path("truth.jsonl")
    return recorded(t, *command, "--tell", truth), rows_of(truth)


kept = {}  # by script: the recording of all its kinds that share one, and each kind's steps


def recorded_together(t, script, kinds, kind):
    """The recording of some kinds of a script, a process each, and what one says of its steps."""
    needs_torch()
    if script not in kept:
        words = []
        for each, options in kinds.items():
            words += ["--", each, *options, "--tell", t.path(each)]
        rec = recorded(t, FORKED, script, *words[1:])
        expect(rec.calls and rec.report, "nothing is recorded")  # read while there is the file
        kept[script] = rec, {each: rows_of(t.path(each)) for each in kinds}
    rec, truths = kept[script]
    return rec, truths[kind]


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


def loops_of(rec, pid):
    return [loop for p in rec.report["steps"]["processes"] if p["pid"] == pid
            for loop in p["loops"]]


def check(rec, truth, phases):
    """Each phase of the truth is a loop of the process that tells it; returns these."""
    loops = []
    for phase in phases:
        made = [row for row in truth if row["phase"] == phase]
        # Of ranks one tells its steps; those of another end at other times.
        found = [loop for loop in loops_of(rec, made[0]["pid"]) if loop["kind"] == KINDS[phase]]
        expect(found, "no loop of %s: %r" % (KINDS[phase], rec.report["steps"].get("count")))
        near = min(found, key=lambda loop: abs(loop["steps"][0]["end_ns"] - made[0]["end_ns"]))
        check_ends(rec, made[0]["pid"], near["steps"], made)
        loops.append(near)
    return loops


LOOP = ("--device", "cpu", "--steps", "25")
SHARED = {"accumulate": LOOP, "loader": LOOP, "generate": LOOP,
          "evaluate": ("--device", "cpu", "--steps", "45")}


def loop_test(kind, what, phase="train"):
    @test("%s: %s" % (kind, what), 180)
    def _(t):
        if kind in SHARED:
            check(*recorded_together(t, LOOPS, SHARED, kind), [phase])
        else:
            check(*recorded_alone(t, LOOPS, kind, *LOOP), [phase])


loop_test("train", "every step of training is found")
loop_test("accumulate", "four batches make a step")
loop_test("loader", "steps whose batches come from other processes")
loop_test("ddp", "steps of two ranks")
loop_test("generate", "every token is a step", "token")


@test("evaluate: evaluations between steps are no steps", 180)
def _(t):
    rec, truth = recorded_together(t, LOOPS, SHARED, "evaluate")
    check(rec, truth, ["train"])
    batches = [loop for loop in loops_of(rec, truth[0]["pid"]) if loop["kind"] == "evaluation"]
    expect([(b["count"], b["stretches"]) for b in batches] == [(10, 2)], "evaluations: %r" % batches)


job_kinds = {"slow": ()}


def job_test(kind, what, phases):
    job_kinds[kind] = ()

    @test("%s: %s" % (kind, what), 120)
    def _(t):
        check(*recorded_together(t, JOB, job_kinds, kind), phases)


job_test("logged", "gradients are cut, the rate scheduled, the loss read now and then", ["train"])
job_test("gan", "a turn of two optimizers is a step", ["train"])
job_test("alternate", "two kinds of batches take turns", ["train"])
job_test("tested", "a test behind the training", ["train", "eval"])
job_test("infer", "batches of changing size", ["infer"])
job_test("requests", "tokens of requests of changing length", ["infer"])
job_test("single", "one operation is a step", ["infer"])


@test("slow steps are named, with what in them was longer", 120)
def _(t):
    loop, = check(*recorded_together(t, JOB, job_kinds, "slow"), ["train"])
    slow = {s["index"]: s for s in loop["slow"]}
    expect(20 in slow and 30 in slow, "slow: %r" % sorted(slow))
    waits = [c["name"] for c in slow[20]["longer"] if c["before"] and c["more_ns"] > 90e6]
    expect(waits == ["aten::cross_entropy_loss"] and slow[20]["phase"] == "forward",
           "step 20: %r" % slow[20])
    expect(slow[30]["longer"][0]["name"] in ("aten::mm", "aten::ones"), "step 30: %r" % slow[30])


@test("programs without a loop have no steps", 120)
def _(t):
    needs_torch()
    rec = recorded(t, FORKED, JOB, "none", "--", "setup")
    expect(rec.report["steps"]["count"] == 0, "%r" % rec.report["steps"])
    calls = collections.Counter(c["pid"] for c in rec.calls if c["layer"] == "torch")
    expect(len(calls) == 2 and min(calls.values()) >= 40, "calls: %r" % calls)


@test("a job that runs already: whole steps only", 120)
def _(t):
    needs_torch()
    truth, enough = t.path("truth.jsonl"), t.path("enough")
    job = t.start([PYTHON, LOOPS, "train", "--device", "cpu", "--steps", "100000", "--until",
                   enough, "--tell", truth])
    t.wait_for(lambda: os.path.exists(truth), "the job to begin its steps")
    # Where in a step a recording begins and ends is chance: so more than one.
    recordings = []
    while len(recordings) < 3:
        r = t.start_record("-p", str(job.pid), "-d", "0.7", "--layers", "torch", "--profile",
                           "off", out=t.path("%d.eacgm" % len(recordings)), ready=False)
        expect(r.wait(timeout=60) == 0, "eacgm record failed")
        recordings.append(r.recording)
        expect(job.poll() is None, "the job ended")
    open(enough, "w").close()
    expect(job.wait(timeout=40) == 0, "the job failed")
    made = rows_of(truth)
    for rec in recordings:
        check_joined(rec, job.pid, made)


if __name__ == "__main__":
    main()
