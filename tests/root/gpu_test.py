#!/usr/bin/env python3
"""gpu_test.py - the CUDA layer on machines without a GPU: launches, their names, dimensions,
streams and results, over a fake driver and runtime (targets/gpu)."""

import collections

from gpu import CUDA, calls_of, expect_same, is_launch, launches_made, launches_seen, number
from gpu import program, succeeded
from harness import expect, main, test

RUNTIME_LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel")


def expect_launches(rec, unknown=0):
    made = launches_made(rec.ran.out)
    seen = launches_seen(rec)
    made_up = {key: n for key, n in seen.items() if key[0].startswith("kernel 0x")}
    expect(sum(made_up.values()) == unknown, "without a name: %r" % made_up)
    for key in made_up:
        del seen[key]
    expect(sum(made.values()) > 0, "nothing was launched: %s" % rec.ran)
    expect_same(seen, made, "launches")
    expect(rec.lost() == 0, "lost: %r" % rec.report["recording"])
    return seen


@test("every launch once, with its kernel, dimensions, shared memory and stream")
def _(t):
    rec = t.record([program("launches"), 7])
    seen = expect_launches(rec)
    names = {key[0] for key in seen}
    expect(max(len(n) for n in names) > 900, "a long name is whole")
    expect(len(names) == 5, "kernels: %r" % names)


@test("a launch through the runtime is one launch and, when asked for, a span around it")
def _(t):
    rec = t.record([program("launches"), 5], "--everything")
    expect_launches(rec)
    spans = calls_of(rec, *RUNTIME_LAUNCHES)
    expect(len(spans) == rec.made["runtime_launches"], "%d spans" % len(spans))
    launches = sum(1 for c in rec.calls if is_launch(c))
    expect(launches == rec.made["driver_launches"], "%d launches" % launches)
    expect(rec.report["cuda"]["launches"] == launches, "report: %r" % rec.report["cuda"])


@test("without --everything the spans around launches are left out")
def _(t):
    for options in ((), CUDA, ("--layers", "all")):
        rec = t.record([program("launches"), 5], *options)
        expect(not calls_of(rec, *RUNTIME_LAUNCHES), "runtime spans with %r" % (options,))
        expect(len(calls_of(rec, "cudaDeviceSynchronize")) == 1, "other spans are there")


@test("the report's kernels are the launches, with those it could name")
def _(t):
    rec = t.record([program("launches"), 6, 11])
    made = launches_made(rec.ran.out)
    by_name = collections.Counter()
    for key, n in made.items():
        by_name[key[0]] += n
    kernels = collections.Counter({k["name"]: k["launches"] for k in rec.report["kernels"]})
    seen = collections.Counter({n: v for n, v in kernels.items() if n in by_name})
    expect_same(seen, by_name, "kernels")
    cuda = rec.report["cuda"]
    total = sum(made.values())
    expect(cuda["launches"] == total + 11 and cuda["named"] == total, "totals: %r" % cuda)
    expect(abs(cuda["named_ratio"] - total / (total + 11)) < 1e-6, "ratio: %r" % cuda)
    expect(cuda["captured"] == 0 and cuda["graph_launches"] == 0, "graphs: %r" % cuda)


@test("what the runtime is given at a launch")
def _(t):
    rec = t.record([program("launches"), 3], "--everything")
    functions = {}
    for c in calls_of(rec, "cudaLaunchKernel"):
        a = c["args"]
        expect(succeeded(c) and not c["flags"], "a good launch: %r" % c)
        functions.setdefault(number(a["function"]), set()).add(a["shared_bytes"])
    expect(sorted(map(sorted, functions.values())) == [[0], [1024], [2048], [3072], [4096]],
           "shared memory by function: %r" % functions)


@test("handles without a name are counted as such")
def _(t):
    rec = t.record([program("launches"), 2, 9])
    expect_launches(rec, unknown=9)


@test("mode stats counts kernels by name")
def _(t):
    rec = t.record([program("launches"), 11, 4], "--mode", "stats")
    made = {}
    for (name, *_), n in launches_made(rec.ran.out).items():
        made[name] = made.get(name, 0) + n
    others = [c for c in rec.calls if not c.get("role", "").startswith(("kernel_", "context_"))]
    expect(not others, "records of calls that nothing needs: %r" % others[:3])
    seen = {name: rec.count(name) for name in made}
    expect(seen == made, "seen %r, made %r" % (seen, made))
    unknown = sum(f["calls"] for f in rec.report["functions"] if f["name"].startswith("kernel 0x"))
    expect(unknown == 4, "%d launches without a name" % unknown)


@test("mode tail counts kernels by name")
def _(t):
    rec = t.record([program("launches"), 300], "--mode", "tail")
    made = {}
    for (name, *_), n in launches_made(rec.ran.out).items():
        made[name] = made.get(name, 0) + n
    seen = {name: rec.count(name) for name in made}
    expect(seen == made, "seen %r, made %r" % (seen, made))


if __name__ == "__main__":
    raise SystemExit(main())
