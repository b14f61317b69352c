#!/usr/bin/env python3
"""gpu_profile_test.py - GPU memory and launches by stack, over the fake driver and a fake of
PyTorch's caching allocator (targets/gpu): bytes are exact, and every call has its stack."""

import json

from gpu import lines, program
from harness import EACGM, expect, is_known, main, test


def folded(t, recording, kind, *options):
    """{stack as a tuple of frames, root first: weight}"""
    r = t.run([EACGM, "flame", recording, "--kind", kind, "-f", "folded", "-o", "-", *options])
    expect(r.status == 0, r.err)
    rows = (line.rsplit(" ", 1) for line in r.out.splitlines())
    return {tuple(stack.split(";")): int(weight) for stack, weight in rows}


def recorded(t, name, *options):
    path = t.path("run.eacgm")
    r = t.run([EACGM, "record", *options, "-o", path, "--", program(name)])
    expect(r.status == 0, r.err)
    return path, r.out


def recorded_whole(t, name, kind, *options):
    """The same when the process and its files' unwind rules are there: the first recordings with a
    new file on a busy host may have stacks without."""
    last = []

    def whole():
        last[:] = recorded(t, name, *options)
        text = t.run([EACGM, "flame", last[0], "--kind", kind, "-f", "folded", "-o", "-"]).out
        return is_known(text)
    t.wait_for(whole, "the unwind rules of its files", 40)
    return last


def through(stacks, function):
    return sum(weight for stack, weight in stacks.items() if function in stack)


@test("what tensors hold, by the function that made them")
def _(t):
    path, out = recorded_whole(t, "tensors", "gpu-inuse", "--profile", "gpu-inuse")
    made = {name: int(held) for name, held in lines(out, "held")}
    end = folded(t, path, "gpu-inuse", "--level", "torch")
    for name, held in made.items():
        expect(through(end, name) == held, "%s holds %d, seen %d: %r" % (
            name, held, through(end, name), end))
    expect(sum(end.values()) == sum(made.values()), "in use: %r" % end)
    expect(all(stack[0] == "_start" for stack in end), "stacks from the root: %r" % end)


@test("what tensors held when they held most")
def _(t):
    path, out = recorded_whole(t, "tensors", "gpu-inuse", "--profile", "gpu-inuse")
    at_peak = folded(t, path, "gpu-inuse", "--level", "torch", "--at", "peak")
    expect(sum(at_peak.values()) == int(lines(out, "peak")[0][0]), "peak: %r" % at_peak)
    expect(through(at_peak, "drop_all") and not through(at_peak, "keep_large"),
           "by whom: %r" % at_peak)


@test("without --profile gpu-inuse the allocator is not traced")
def _(t):
    path, _ = recorded(t, "tensors")
    r = t.run([EACGM, "flame", path, "--kind", "gpu-inuse", "-f", "folded", "-o", "-"])
    expect(r.status == 1 and "no GPU memory" in r.err and not r.out, "said: %s" % r.err)


@test("device memory by the function that asked the driver for it")
def _(t):
    path, _ = recorded_whole(t, "memory", "gpu-alloc", "--layers", "cuda")
    report = json.loads(t.run([EACGM, "report", path, "--json"]).out)
    live = sum(m["live_bytes"] + m["leaked_bytes"] for m in report["memory"])
    in_use = folded(t, path, "gpu-inuse", "--at", "end")
    expect(live and sum(in_use.values()) == live, "in use %r, the report says %d" % (in_use, live))
    expect(all("main" in stack for stack in in_use), "from main: %r" % in_use)
    allocated = folded(t, path, "gpu-alloc")
    expect(sum(allocated.values()) >= live, "allocated: %r" % allocated)
    expect(sum(folded(t, path, "pinned").values()) > 0, "pinned memory has its stacks")


@test("launches by stack, all of them")
def _(t):
    path, _ = recorded(t, "launches", "--layers", "cuda")
    report = json.loads(t.run([EACGM, "report", path, "--json", "--top", "0"]).out)
    launches = report["cuda"]["launches"]
    stacks = folded(t, path, "gpu")
    expect(launches and sum(stacks.values()) == launches, "%d launches, %r" % (launches, stacks))


main()
