#!/usr/bin/env python3
"""torch_test.py - a scripted PyTorch run: operators equal what the script calls and what
torch.profiler counts, autograd nodes have their names, errors leave the job unharmed."""

import collections
import json
import os
import pathlib
import sys

from harness import EACGM, PYTHON, expect, main, needs_torch, test

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "torch_job.py")
ROOT = pathlib.Path(__file__).resolve().parents[2]
TORCH = ("--layers", "torch", "--everything")


def counts(rec):
    c = collections.Counter()
    for f in rec.report["functions"]:
        if f["layer"] == "torch":
            c[f["name"]] += f["calls"]
    return c


kept = {}  # what ran with which arguments, once for all tests; of a recording its report


def once(fn):
    def of(t, *words):
        if (fn, words) not in kept:
            kept[fn, words] = fn(t, *words)
        return kept[fn, words]
    return of


@once
def recorded(t, what, *options):
    rec = t.record([PYTHON, JOB, what], *(options or TORCH))
    rec.counts = counts(rec)
    return rec


@once
def alone(t, what):
    return t.run([PYTHON, JOB, what])


@once
def profiled(t, what):
    out = t.path("profile.json")
    r = t.run([PYTHON, JOB, what, out])
    expect(r.status == 0, "profiled run: %s" % r)
    with open(out) as f:
        return collections.Counter(json.load(f))


def expect_undisturbed(t, rec, what):
    by_itself = alone(t, what)
    expect(rec.ran.out == by_itself.out and by_itself.out, "alone %s traced %s" % (
        by_itself, rec.ran))


TRAINING = """
import sys, torch
torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16),
                        torch.nn.Linear(16, 4))
o = torch.optim.SGD(m.parameters(), lr=0.1)
for i in range(3):
    torch.nn.functional.cross_entropy(m(torch.randn(5, 8)), torch.zeros(5).long()).backward()
    o.step()
torch.save({"a": torch.ones(1000), "b": torch.ones(5)}, sys.argv[1])
"""
MADE = [("aten::addmm", "AddmmBackward0"), ("aten::gelu", "GeluBackward0"),
        ("aten::native_layer_norm", "NativeLayerNormBackward0"), ("aten::addmm", "AddmmBackward0"),
        ("aten::_log_softmax", "LogSoftmaxBackward0"),
        ("aten::nll_loss_forward", "NllLossBackward0")]


@once
def trained(t):
    """The calls of a training that is saved, and its arrows from operators to backward nodes."""
    sys.path.insert(0, str(ROOT / "tests" / "golden"))
    import perfetto_check
    rec = t.record([PYTHON, "-c", TRAINING, t.path("saved.pt")], "--layers", "torch")
    out = t.path("out.pftrace")
    r = t.run([EACGM, "export", rec.path, "-f", "perfetto", "-o", out])
    expect(r.status == 0, "export: %s" % r)
    return counts(rec), perfetto_check.Trace(perfetto_check.parse(
        perfetto_check.decode(out, ROOT / "src/export/perfetto.proto"))).backward


@test("a backward node has an arrow from the operator that made it", 120)
def _(t):
    needs_torch()
    _calls, arrows = trained(t)
    expect(sorted(arrows) == sorted(3 * MADE), "arrows: %r" % arrows)


@test("torch.save is traced without Python's frames", 120)
def _(t):
    needs_torch()
    calls, _arrows = trained(t)
    expect(calls["torch.save"] >= 3, "calls: %r" % calls)  # two tensors, and the end


@test("the first operator call of a program is in the recording", 120)
def _(t):
    needs_torch()
    before, rec = recorded(t, "none"), recorded(t, "first")
    made = rec.counts - before.counts
    expect(made["aten::tanh"] == 1 and made["aten::zeros"] == 1, "seen: %r" % made)
    expect(rec.lost("late_attach") == 0, "late: %r" % rec.report["recording"])


@test("operators: as many as the script calls, and as torch.profiler counts", 240)
def _(t):
    needs_torch()
    before, rec, known = recorded(t, "none"), recorded(t, "all"), profiled(t, "all")
    made = json.loads(rec.ran.out)
    seen = rec.counts - before.counts
    expect(rec.lost() == 0, "lost: %r" % rec.report["recording"])
    for name, n in made["operators"].items():
        expect(seen[name] >= n, "%s: script %d, seen %d" % (name, n, seen[name]))
    ops = {name: n for name, n in known.items() if name.startswith("aten::")}
    expect(len(ops) > 60, "the profiler names %d operators" % len(ops))
    wrong = {name: (n, seen[name]) for name, n in ops.items() if seen[name] != n}
    more = {name: n for name, n in seen.items() if name.startswith("aten::") and name not in ops}
    total = sum(ops.values())
    print("# %d operators, %d calls; differing %d, unknown to the profiler %d" % (
        len(ops), total, len(wrong), len(more)))
    expect(not wrong, "profiler's count and ours: %r" % wrong)
    expect(not more, "operators that the profiler does not know: %r" % more)


@test("autograd: each node by its name, as often as the model has it", 240)
def _(t):
    needs_torch()
    rec, known = recorded(t, "all"), profiled(t, "all")
    prefix = "autograd::engine::evaluate_function: "
    # The profiler gives an accumulation its full class name.
    nodes = {name[len(prefix):].split("::")[-1]: n for name, n in known.items()
             if name.startswith(prefix)}
    expect(nodes, "the profiler names nodes")
    seen = collections.Counter()
    for name, n in rec.counts.items():
        seen[name.split("::")[-1]] += n
    wrong = {name: (n, seen[name]) for name, n in nodes.items() if seen[name] != n}
    expect(not wrong, "profiler's count and ours: %r" % wrong)
    script = json.loads(rec.ran.out)["nodes"]
    less = {name: (n, seen[name]) for name, n in script.items() if seen[name] < n}
    expect(not less, "script's count and ours: %r" % less)


@test("a nested operator is known as nested", 120)
def _(t):
    needs_torch()
    rec = recorded(t, "all")
    outer = rec.function("aten::max_pool2d")
    inner = rec.function("aten::max_pool2d_with_indices")
    expect(outer["calls"] == 1 and outer["nested_calls"] == 0, "outer: %r" % outer)
    expect(inner["calls"] == 1 and inner["nested_calls"] == 1, "inner: %r" % inner)


@test("a thousand operators that raise: the job is unharmed, the calls are there", 240)
def _(t):
    needs_torch()
    rec = recorded(t, "errors")
    expect_undisturbed(t, rec, "errors")
    expect(rec.counts["aten::linear"] == 500, "aten::linear: %d" % rec.counts["aten::linear"])
    expect(rec.counts["aten::mm"] >= 501, "aten::mm: %d" % rec.counts["aten::mm"])


@test("all layers at once, errors included: the job prints what it prints untraced", 240)
def _(t):
    needs_torch()
    rec = recorded(t, "errors", "--layers", "torch,python")
    expect_undisturbed(t, rec, "errors")
    expect(rec.counts["aten::linear"] == 500, "aten::linear: %d" % rec.counts["aten::linear"])


@test("mode stats counts the operators alike", 240)
def _(t):
    needs_torch()
    trace, stats = recorded(t, "all"), recorded(t, "all", *TORCH, "--mode", "stats")
    expect(trace.counts == stats.counts, "differing: %r" % {
        n: (trace.counts[n], stats.counts[n]) for n in trace.counts | stats.counts
        if trace.counts[n] != stats.counts[n]})


@test("all operators are attached, and the report says how and how fast", 120)
def _(t):
    needs_torch()
    rec = recorded(t, "none")
    attach = rec.report["recording"]["attach"]
    print("# %s places in %s ms by %s" % (attach["sites"], attach["ms"], attach["method"]))
    expect(int(attach["sites"]) > 2900, "places: %r" % attach)


if __name__ == "__main__":
    raise SystemExit(main())
