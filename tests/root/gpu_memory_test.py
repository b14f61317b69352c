#!/usr/bin/env python3
"""gpu_memory_test.py - allocations, copies, fills and errors of the CUDA layer, over a fake
driver (targets/gpu): bytes, directions, what was kept, and codes are exact."""

import collections

from gpu import CUDA, calls_of, expect_same, lines, number, program, succeeded
from harness import expect, main, test


@test("every call that gives or takes memory is seen")
def _(t):
    rec = t.record([program("memory")])
    rec.expect_counts(rec.made)
    expect(rec.lost() == 0, "lost: %r" % rec.report["recording"])


@test("memory: peak, what is kept, allocations and frees of each device")
def _(t):
    rec = t.record([program("memory")], *CUDA)
    made = {row[0]: tuple(map(int, row[1:])) for row in lines(rec.ran.out, "memory")}

    def sums(rows):
        return [(m["peak_bytes"], m["leaked_bytes"], m["leaked_count"], m["allocs"], m["frees"])
                for m in rows]

    devices = {m["device"]: m for m in rec.report["memory"]}
    expect(sorted(devices) == [0, 1], "devices: %r" % rec.report["memory"])
    for device in (0, 1):
        seen = sums([devices[device]])[0]
        expect(seen == made[str(device)], "device %d: seen %r, made %r" % (
            device, seen, made[str(device)]))
    expect(sums(rec.report["pinned"]) == [made["host"]], "pinned: seen %r, made %r" % (
        rec.report["pinned"], made["host"]))


@test("without the frequent changes of contexts, memory of two devices is that of none")
def _(t):
    rec = t.record([program("memory")])
    made = [tuple(map(int, row[2:])) for row in lines(rec.ran.out, "memory") if row[0] != "host"]
    seen = [(m["device"], m["leaked_bytes"], m["leaked_count"], m["allocs"], m["frees"])
            for m in rec.report["memory"]]
    expect(sum(m[1] for m in seen) == sum(m[0] for m in made) and
           sum(m[3] for m in seen) == sum(m[2] for m in made), "seen %r, made %r" % (seen, made))


@test("what allocations give and are asked for")
def _(t):
    rec = t.record([program("memory")])
    by = {}
    for c in rec.calls:
        by.setdefault(c["name"], []).append(c)
    good = [c["args"] for c in by["cuMemAlloc_v2"] if "error" not in c["flags"]]
    expect([a["bytes"] for a in good] == [1000000, 1 << 30], "bytes: %r" % good)
    expect(number(good[1]["pointer"]) > number(good[0]["pointer"]) > 0, "addresses: %r" % good)
    pitch = by["cuMemAllocPitch_v2"][0]["args"]
    expect((pitch["pitch"], pitch["height"], pitch["bytes"]) == (1024, 64, 65536),
           "pitch: %r" % pitch)
    freed = [number(c["args"]["pointer"]) for c in by["cuMemFree_v2"]]
    expect(number(good[0]["pointer"]) in freed, "freed: %r" % freed)
    create = by["cuMemCreate"][0]["args"]
    expect(create["device"] == 0 and create["bytes"] == 4 << 20, "cuMemCreate: %r" % create)
    mapped = by["cuMemMap"][0]["args"]
    expect(mapped["handle"] == create["handle"], "cuMemMap: %r" % mapped)


@test("copies and fills: calls and bytes by direction")
def _(t):
    rec = t.record([program("copies"), 9])
    made = collections.Counter()
    for kind, direction, calls, bytes_ in lines(rec.ran.out, "copy"):
        made[(kind, direction, "calls")] += int(calls)
        made[(kind, direction, "bytes")] += int(bytes_)
    seen = collections.Counter()
    for c in rec.report["copies"]:
        key = (c["kind"], c["direction"] or "-")
        seen[(*key, "calls")] += c["calls"]
        seen[(*key, "bytes")] += c["bytes"]
    expect_same(seen, made, "copies")
    expect(rec.count("cuMemcpyBatchAsync") == 1, "a batch is a call")


@test("errors: calls by function and code; not ready is none")
def _(t):
    rec = t.record([program("errors"), 5], "--everything")
    made = collections.Counter()
    for function, code, calls in lines(rec.ran.out, "error"):
        made[(function, int(code))] += int(calls)
    seen = collections.Counter()
    for e in rec.report["errors"]:
        seen[(e["function"], e["code"])] += e["calls"]
    expect_same(seen, made, "errors")
    names = {(e["function"], e["code"]): e["name"] for e in rec.report["errors"]}
    expect(names[("cuMemAlloc_v2", 2)] == "CUDA_ERROR_OUT_OF_MEMORY", "names: %r" % names)
    expect(names[("cudaMemcpy", 21)] == "cudaErrorInvalidMemcpyDirection", "names: %r" % names)
    for name in ("cuStreamQuery", "cudaStreamQuery"):
        f = rec.function(name)
        expect(f["calls"] == rec.made[name] and f["errors"] == 0, "%s: %r" % (name, f))


@test("the flag of an error is that of the call")
def _(t):
    rec = t.record([program("errors"), 4])
    for c in calls_of(rec, "cuMemAlloc_v2", "cuMemAllocAsync", "cuModuleGetFunction"):
        expect(("error" in c["flags"]) == (not succeeded(c)), "flags: %r" % c)
    launches = [c for c in rec.calls if "grid" in c["args"]]
    expect(launches and all("error" in c["flags"] for c in launches), "launches that failed")
    expect({c["name"] for c in launches} == {"plain_kernel"}, "they have names too")


@test("questions are asked often: traced when their layer is named, or everything")
def _(t):
    rec = t.record([program("errors"), 1])
    expect(not calls_of(rec, "cuStreamQuery", "cudaStreamQuery"), "not by default")
    rec = t.record([program("errors"), 1], *CUDA)
    expect(len(calls_of(rec, "cuStreamQuery")) == 4, "with --layers cuda")
    expect(not [c for c in calls_of(rec, "cuStreamQuery") if "error" in c["flags"]], "no errors")


if __name__ == "__main__":
    raise SystemExit(main())
