#!/usr/bin/env python3
"""counts_test.py - every call of every traced function is seen, once, with what it was
given and what it returned: threads, nesting, modes, arguments, ways of attaching (single links:
single_links_test.py)."""

import json
import os

from harness import EACGM, PUSH, expect, main, probes, skip, target, test

VARIANTS = ["target_push", "target_nop", "target_endbr", "target_sub", "target_lea",
            "target_mov", "target_ret"]
ALL = probes("libtarget.so:target_*", "calls:own_function(u64 a) -> u64")
ONE_RING = (16 << 20) // 128  # records: each has at most 128 bytes
SUMMARY_KEYS = ("calls", "errors", "total_ns", "mean_ns", "p50_ns", "p99_ns", "max_ns")


def record_variants(t, *options, env=None, n=2000, threads=4):
    rec = t.record([target("calls"), "threads", n, threads], *ALL, *options, env=env)
    expect(rec.made["target_push"] == n * threads, "the target itself: %s" % rec.ran)
    return rec


@test("every call of every kind of function, from four threads")
def _(t):
    rec = record_variants(t)
    rec.expect_counts(rec.made)
    expect(rec.lost() == 0, "lost: %r" % rec.report["recording"])
    for f in rec.report["functions"]:
        for key in SUMMARY_KEYS:
            expect(key in f, "report has no %s" % key)
        expect(f["total_ns"] >= f["max_ns"] >= f["p99_ns"] * 0.7, "times: %r" % f)


for method in ("session", "multi"):
    @test("the same, attached by %s links" % method)
    def _(t, method=method):
        r = t.run([EACGM, "record", "-o", t.path("try.eacgm"), *probes(PUSH), "--",
                   target("family"), "calls", "1"],
                  env=dict(os.environ, EACGM_ATTACH=method))
        if r.status != 0:
            skip("not on this kernel: " + r.err.strip()[:150])
        rec = record_variants(t, env={"EACGM_ATTACH": method})
        rec.expect_counts(rec.made)


@test("mode stats counts the same without a single call record")
def _(t):
    rec = record_variants(t, "--mode", "stats")
    rec.expect_counts(rec.made)
    expect(not rec.calls, "%d call records" % len(rec.calls))
    f = rec.function("target_push")
    expect(0 < f["max_ns"] <= f["total_ns"], "times: %r" % f)


@test("mode tail counts the same and keeps the slow calls")
def _(t):
    rec = t.record([target("calls"), "slow", 3000, 300], *ALL, "--mode", "user=tail")
    rec.expect_counts(rec.made)
    slow = [c for c in rec.calls if c["name"] == "target_sleep" and c["duration_ns"] >= 300e6]
    expect(len(slow) == 2, "%d slow calls kept" % len(slow))


@test("mode tail from many threads counts the same")
def _(t):
    rec = record_variants(t, "--mode", "tail")
    rec.expect_counts(rec.made)


@test("nested calls are known as nested and lie inside their callers")
def _(t):
    rec = t.record([target("calls"), "nested", 300, 7], *ALL)
    rec.expect_counts(rec.made)
    expect(rec.function("target_outer")["nested_calls"] == 0, "outer calls are not nested")
    expect(rec.function("target_push")["nested_calls"] == 2100, "inner calls are nested: %r" %
           rec.function("target_push"))
    outer = sorted((c["start_ns"], c["start_ns"] + c["duration_ns"]) for c in rec.calls
                   if c["name"] == "target_outer")
    inner = sorted((c["start_ns"], c["start_ns"] + c["duration_ns"]) for c in rec.calls
                   if c["name"] == "target_push")
    for i, (start, end) in enumerate(inner):
        around = outer[i // 7]
        expect(around[0] <= start <= end <= around[1], "call %d is not inside its caller" % i)
    expect({c["depth"] for c in rec.calls if c["name"] == "target_push"} == {1}, "depth of 1")


@test("arguments, the stack's too, strings, results and errors")
def _(t):
    rec = t.record([target("calls"), "args", 120], *probes(
        "libtarget.so:target_args(i8 a, u16 b, i32 c, _, ptr e, size f) -> i64",
        "libtarget.so:target_string(str s) -> size",
        "libtarget.so:target_out(i64 value, out i64* got) -> int!negative",
        "libtarget.so:target_pointer(size n) -> ptr!null"))
    rec.expect_counts(rec.made)
    calls = {}
    for c in rec.calls:
        calls.setdefault(c["name"], []).append(c["args"])
    total = -5 + 65535 - 70000 + (1 << 20) + 0x1000 + 4096 - 1 + 4000000000
    for a in calls["target_args"]:
        e = a["e"] if isinstance(a["e"], int) else int(a["e"], 0)
        got = (a["a"], a["b"], a["c"], e, a["f"], a["return"])
        expect(got == (-5, 65535, -70000, 0x1000, 4096, total), "target_args: %r" % a)
    strings = [a["s"] for a in calls["target_string"]]
    expect(strings.count("even") == 60 and strings.count("odd") == 60, "strings: %r" % strings[:9])
    cut = [s for s in strings if s and s.startswith("xxx")]
    expect(len(cut) == 1 and 100 <= len(cut[0]) <= 129, "the long string is cut: %r" % cut)
    expect(rec.lost("arg_cut") == 1, "the cut is counted: %r" % rec.report["recording"])
    good = [a for a in calls["target_out"] if a["return"] == 0]
    expect([a["got"] for a in good] == [a["value"] for a in good] and len(good) == 80,
           "what target_out stored")
    expect(rec.function("target_out")["errors"] == 40, "errors: %r" % rec.function("target_out"))
    expect(rec.function("target_pointer")["errors"] == 30, "NULLs are errors")


@test("a string in a page of a file that nobody has read yet")
def _(t):
    path, end = t.path("unread.eacgm"), t.path("end")
    p = t.start([EACGM, "record", "-o", path, *probes("libtarget.so:target_string(str s) -> size"),
                 "--", target("calls"), "unread", "20", end])

    def calls():
        r = t.run([EACGM, "export", path, "-f", "jsonl", "-o", "-"])
        rows = [json.loads(line) for line in r.out.splitlines()] if r.status == 0 else []
        return [row for row in rows if row["type"] == "call"]
    t.wait_for(lambda: len(calls()) == 21, "calls in the recording")
    open(end, "w").close()
    expect(p.wait(60) == 0, "record failed")
    seen = calls()
    expect([c["args"]["s"] for c in seen[:20]] == ["name %d" % i for i in range(20)],
           "names: %r" % seen[:20])
    expect([c["flags"] for c in seen[:20]] == [[]] * 20, "flags: %r" % seen[:20])
    expect(seen[20]["args"]["s"] == "" and seen[20]["flags"] == ["arg_fault"],
           "what is of no file may have changed meanwhile: %r" % seen[20])
    report = json.loads(t.run([EACGM, "report", path, "--json"]).out)["recording"]
    expect(report["lost_by_cause"] == {"name_unresolved": 1}, "lost: %r" % report)


@test("arguments that lie on the stack")
def _(t):
    rec = t.record([target("calls"), "args", 50], *probes(
        "libtarget.so:target_args(i64 g@arg6, u32 h@stack1)"))
    expect({(c["args"]["g"], c["args"]["h"]) for c in rec.calls
            if c["name"] == "target_args"} == {(-1, 4000000000)}, "stack arguments")


@test("a function that ends in a jump to another: both are seen")
def _(t):
    rec = t.record([target("calls"), "tail", 500], *ALL)
    rec.expect_counts(rec.made)


@test("recursion beyond what the kernel follows is counted as lost, no more and no less")
def _(t):
    rec = t.record([target("calls"), "recurse", 20, 200], *ALL)
    seen = rec.count("target_recurse")
    expect(seen >= 20 * 60, "%d calls seen of 4000" % seen)
    expect(seen + rec.lost() == rec.made["target_recurse"], "seen %d, lost %r" % (
        seen, rec.report["recording"]))


@test("recursion of 60 calls is seen whole")
def _(t):
    rec = t.record([target("calls"), "recurse", 20, 60], *ALL)
    rec.expect_counts(rec.made)


@test("a million calls from four threads: seen, or counted as lost", seconds=120)
def _(t):
    rec = t.record([target("calls"), "threads", 31250, 4], *ALL)
    seen = sum(rec.count(name) for name in rec.made)
    expect(seen + rec.lost() == 1000000, "seen %d, lost %r" % (seen, rec.report["recording"]))
    # how many is a matter of the machine's speed (bench/); one CPU's ring holds so many
    expect(seen >= ONE_RING, "only %d seen" % seen)
    expect(rec.lost() == rec.lost("ring_full"), "lost: %r" % rec.report["recording"])


@test("the report counts what the export lists")
def _(t):
    rec = record_variants(t, n=500)
    for name in VARIANTS:
        listed = sum(1 for c in rec.calls if c["name"] == name)
        expect(listed == rec.count(name) == 2000, "%s: %d listed" % (name, listed))
    threads = {c["tid"] for c in rec.calls}
    expect(len(threads) == 4, "%d threads" % len(threads))
    for c in rec.calls:
        expect(c["layer"] == "user" and c["duration_ns"] >= 0 and c["pid"] != 0, "call %r" % c)


if __name__ == "__main__":
    raise SystemExit(main())
