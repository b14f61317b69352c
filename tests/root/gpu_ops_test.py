"""gpu_ops_test.py - the driver's calls and PyTorch's operators as the shim tells them: each GPU
span has the call that started it, over the fake CUPTI and the fake driver (tests/fake/cupti)."""

import collections
import os

from cupti_fakes import CUDA, FAKES, FIRST, JOB, cupti, expect_spans
from harness import PYTHON, TARGETS, expect, main, needs_torch, test

OPS_JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "ops_job.py")
FAKE_CUDA = os.path.join(TARGETS, "gpu", "libcuda.so.1")


def called_in(text):
    return sorted(line for line in text.splitlines() if line.startswith("called "))


def called_of(t, rec):
    r = t.run([os.path.join(FAKES, "list_spans"), rec.path])
    expect(r.status == 0, "list_spans: %s" % r)
    return called_in(r.out)


def expect_calls(t, rec, n):
    expect_spans(t, rec)
    made, seen = called_in(rec.ran.out), called_of(t, rec)
    expect(len(made) == n, "%d calls made" % len(made))
    expect(seen == made, "%d made, %d seen; not seen: %r; not made: %r" % (
        len(made), len(seen), sorted(set(made) - set(seen))[:3], sorted(set(seen) - set(made))[:3]))


@test("spans have the driver's calls that started them")
def _(t):
    expect_calls(t, t.record([JOB, "init", "kernel", FIRST, "300", "1500", "sleep", "150",
                              "kernel", "other", "20", "90"], *CUDA, env=cupti(t)), 320)


@test("also when CUPTI tells the calls after the work")
def _(t):
    expect_calls(t, t.record([JOB, "init", "late", "kernel", FIRST, "300", "1500", "sleep", "150",
                              "kernel", "other", "20", "90"], *CUDA, env=cupti(t)), 320)


@test("all nodes of a graph have its launch")
def _(t):
    expect_calls(t, t.record([JOB, "init", "graph", "5", "40", "late", "graph", "3", "7", "kernel",
                              FIRST, "4", "100"], *CUDA, env=cupti(t)), 5 * 40 + 3 * 7 + 4)


@test("a span whose call never comes goes on without it, and keeps no other from its own")
def _(t):
    rec = t.record([JOB, "init", "kernel", FIRST, "10", "100", "calls", "0", "kernel", FIRST, "50",
                    "100", "calls", "1", "kernel", FIRST, "10", "100", "sleep", "1500", "copy",
                    "1", "4096"], *CUDA, env=cupti(t))
    expect_calls(t, rec, 20)


@test("where CUPTI cannot be asked for single calls, spans have none")
def _(t):
    path = os.path.join(FAKES, "old", "libcupti.so.12")
    rec = t.record([JOB, "load", path, "init", "kernel", FIRST, "50", "1000"], *CUDA)
    expect(not called_of(t, rec) and not called_in(rec.ran.out), "calls: %r" % called_of(t, rec))


@test("processes of the same correlation numbers keep theirs apart")
def _(t):
    expect_calls(t, t.record([JOB, "fork", "init", "late", "kernel", FIRST, "70", "300"], *CUDA,
                             env=cupti(t)), 140)


# ---- operators and launches with the real PyTorch, without a GPU ----

def record_ops(t, how, *words, options=("--layers", "torch,cuda", "--profile", "off")):
    needs_torch()
    return t.record([PYTHON, OPS_JOB, *words], "--gpu-timeline", "--operators", how, *options,
                    env=dict(cupti(t) if how != "none" else {}, FAKE_CUDA=FAKE_CUDA))


kept = []  # a recording of callbacks, read: it is the same for all tests that look at one
STEPS = 200


def by_callbacks(t):
    if not kept:
        rec = record_ops(t, "callbacks", str(STEPS))
        expect(rec.calls and rec.report, "nothing was recorded")
        kept.append(rec)
    expect_callbacks(kept[0])
    return kept[0]


def between(rec):
    """The torch layer's calls between the job's "begin" and "end"."""
    at = {line.split()[0]: int(line.split()[1]) for line in rec.ran.out.splitlines()
          if line.split()[0] in ("begin", "end")}
    return [c for c in rec.calls if at["begin"] <= c["start_ns"] <= at["end"]]


def names(calls, layer="torch"):
    return collections.Counter(c["name"] for c in calls if c["layer"] == layer)


def notes(rec, subject):
    return [n["reason"] for n in rec.report["notes"] if n["subject"] == subject]


def expect_callbacks(rec):
    expect(notes(rec, "operators"), "operators came from probes: %r" % rec.report["notes"])
    expect(rec.lost() == 0, "lost: %r" % rec.report["recording"])


def nesting(calls, outer, inner):
    """How many calls lie in one of another name, in its thread and time."""
    spans = [(c["tid"], c["start_ns"], c["start_ns"] + c["duration_ns"]) for c in calls
             if c["name"] == outer]
    return sum(any(c["tid"] == t and s <= c["start_ns"] and
                   c["start_ns"] + c["duration_ns"] <= e for t, s, e in spans)
               for c in calls if c["name"] == inner)


@test("operators by PyTorch's callbacks are those that probes see, name by name", 180)
def _(t):
    by_probes = record_ops(t, "probes", str(STEPS))
    expect(not notes(by_probes, "operators"), "%r" % by_probes.report["notes"])
    a, b = between(by_probes), between(by_callbacks(t))
    expect(names(a)["aten::linear"] == names(a)["AddmmBackward0"] == 2 * STEPS, "%r" % names(a))
    expect(names(a) == names(b), "by probes %r, by callbacks %r" % (names(a) - names(b),
                                                                    names(b) - names(a)))
    for outer, inner in (("aten::linear", "aten::addmm"), ("backward", "AddmmBackward0"),
                         ("AddmmBackward0", "aten::mm"), ("aten::zeros", "aten::zero_")):
        expect(nesting(a, outer, inner) == nesting(b, outer, inner) > 0,
               "%s in %s: %d by probes, %d by callbacks" % (
                   inner, outer, nesting(a, outer, inner), nesting(b, outer, inner)))
    deep = sum(c["depth"] >= 2 for c in b if c["name"] == "aten::mm")
    expect(deep >= 0.9 * names(b)["aten::mm"], "of %d aten::mm %d know that they are in a node of "
           "a backward pass" % (names(b)["aten::mm"], deep))
    outermost = [names([c for c in x if "nested" not in c["flags"]]) for x in (a, b)]
    expect(outermost[0] == outermost[1], "in no other of the layer: by probes %r, by callbacks %r" %
           tuple(outermost))
    sequences = [c["args"]["sequence"] for c in b if c["name"] == "AddmmBackward0"]
    expect(sequences == [c["args"]["sequence"] for c in a if c["name"] == "AddmmBackward0"] and
           len(set(sequences)) == 2 * STEPS, "sequence numbers: %r" % sequences[:5])


@test("the change from probes to callbacks in the midst loses nothing and doubles nothing", 120)
def _(t):
    n = 1500
    rec = record_ops(t, "callbacks", str(n), "busy", options=("--layers", "torch", "--profile", "off"))
    expect_callbacks(rec)
    seen = names(between(rec))
    a_step = {"backward": 1, "aten::linear": 2, "aten::addmm": 2, "aten::mm": 3,
              "AddmmBackward0": 2, "AccumulateGrad": 4, "aten::relu": 1, "aten::randn": 1}
    wrong = {k: seen[k] for k, v in a_step.items() if abs(seen[k] - v * n) > 1}
    expect(not wrong, "of %d steps: %r" % (n, wrong))
    expect(not [c for c in between(rec) if "unwound" in c["flags"]], "calls without their end")


@test("time in callees is taken from callers, whoever told which", 120)
def _(t):
    rec = by_callbacks(t)
    f = {f["name"]: f for f in rec.report["functions"]}
    for name in ("backward", "AddmmBackward0", "aten::linear"):
        self_ns, total_ns = f[name]["self_ns"], f[name]["total_ns"]
        expect(0 < self_ns < 0.8 * total_ns, "%s: %d of %d ns are its own" % (
            name, self_ns, total_ns))


@test("launches by CUPTI's callbacks have their kernels, arguments and operators", 120)
def _(t):
    rec = by_callbacks(t)
    made = [line.split()[1:] for line in rec.ran.out.splitlines() if line.startswith("launch ")]
    seen = [c for c in between(rec) if "grid" in c["args"]]
    expect(len(made) == len(seen) == STEPS, "%d made, %d seen" % (len(made), len(seen)))
    for m, c in zip(made, seen):
        a = c["args"]
        expect(m[1] == ("_Z9small_addPfi" if "small_add" in c["name"] else c["name"]),
               "kernel %r is %r" % (m, c))
        expect(list(a["grid"]) == [int(m[2]), 2, 3] and a["shared_bytes"] == 48,
               "arguments %r of %r" % (a, m))
        expect(int(m[4]) <= c["start_ns"] <= c["start_ns"] + c["duration_ns"] <= int(m[5]),
               "time %r of %r" % (c, m))


@test("with stacks of launches their probes stay", 120)
def _(t):
    rec = record_ops(t, "callbacks", "30", options=("--layers", "torch,cuda", "--profile", "gpu"))
    expect_callbacks(rec)
    seen = [c for c in between(rec) if "grid" in c["args"]]
    expect(len(seen) == 30, "%d launches" % len(seen))


@test("threads that come and go tell all that they ran", 120)
def _(t):
    a, b = record_ops(t, "probes", "50", "threads"), record_ops(t, "callbacks", "50", "threads")
    expect_callbacks(b)
    expect(names(between(a)) == names(between(b)), "%r, %r" % (
        names(between(a)) - names(between(b)), names(between(b)) - names(between(a))))


@test("PyTorch that comes after the shim, and a child that was forked", 120)
def _(t):
    rec = record_ops(t, "callbacks", "30", "late", "fork")
    expect_callbacks(rec)
    expect(any(n.startswith("1 process with PyTorch told none") for n in notes(rec, "operators")),
           "notes: %r" % rec.report["notes"])
    expect(names(between(rec))["aten::linear"] == 60, "%r" % names(between(rec)))


@test("operators of more names than fit, and those too deep in others, are counted", 120)
def _(t):
    rec = record_ops(t, "callbacks", "30", "many")
    lost = rec.lost("operator_full")
    expect(2200 - 2048 + 150 - 128 < lost < 400, "lost: %r" % rec.report["recording"])
    expect(names(between(rec))["aten::linear"] == 60, "%r" % names(between(rec)))


@test("when recording ends before the job, PyTorch calls us no more and the job goes on", 120)
def _(t):
    # PyTorch takes its time to be loaded where the machine is busy
    rec = record_ops(t, "callbacks", "30", "wait", "12", options=(
        "--layers", "torch,cuda", "--profile", "off", "-d", "12"))
    expect_callbacks(rec)
    expect(names(between(rec))["aten::linear"] == 60, "%r" % names(between(rec)))


@test("a PyTorch of another interface: probes go on, and it is said", 60)
def _(t):
    library = os.path.join(FAKES, "libtorch_cpu.so")
    rec = t.record([JOB, "load", library, "init", "sleep", "400", "kernel", FIRST, "5", "100",
                    "subscribe"],
                   "--gpu-timeline", "--operators", "callbacks", "--layers", "cuda,torch",
                   "--profile", "off", env=cupti(t))
    expect_calls(t, rec, 5)
    expect(any("tells no operators" in n for n in notes(rec, "gpu timeline")),
           "notes: %r" % rec.report["notes"])
    expect(not notes(rec, "operators"), "probes were taken off")
    expect(len([c for c in rec.calls if "grid" in c["args"]]) == 5, "launches are missing")
    expect("subscribed 0" in rec.ran.out, "CUPTI's one subscriber is still the shim: %s" % rec.ran)


if __name__ == "__main__":
    main()
