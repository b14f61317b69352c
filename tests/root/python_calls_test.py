#!/usr/bin/env python3
"""python_calls_test.py - every call of a Python function (record --python calls): as many as
cProfile counts, in each version of Python that is here; the job does what it does untraced."""

import collections
import json
import os
import signal

import pythons
from harness import EACGM, expect, main, skip, test

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "python_calls_job.py")
VERSIONS = pythons.VERSIONS
SYSTEM = os.environ.get("EACGM_TEST_PYTHON", "/usr/bin/python3")
CALLS = ("--python", "calls", "--profile", "off", "--waits", "off")


PYTHONS = pythons.found()
BY_PROFILE = next((PYTHONS[v] for v in VERSIONS[:4] if v in PYTHONS), None)
BY_MONITORING = next((PYTHONS[v] for v in VERSIONS[:3:-1] if v in PYTHONS), None)


def python_of(version):
    exe = SYSTEM if version == "system" else PYTHONS.get(version)
    if not exe or not os.access(exe, os.X_OK):
        skip("there is no Python %s" % version)
    return exe


def counts_of(rec):
    """'name (file:line)' -> calls."""
    counts = collections.Counter()
    for f in rec.report["functions"]:
        if f["layer"] == "python" and f.get("file"):
            counts[f["name"]] += f["calls"]
    return counts


def of(rec, name):
    return sum(n for key, n in counts_of(rec).items() if key.startswith(name + " ("))


def notes_of(t, rec):
    out = t.path("notes.jsonl")
    r = t.run([EACGM, "export", rec.path, "-f", "jsonl", "-o", out])
    expect(r.status == 0, "export failed: %s" % r)
    with open(out) as f:
        rows = [json.loads(line) for line in f]
    return " ".join(row["reason"] for row in rows
                    if row.get("type") == "note" and row["subject"] == "python calls")


def profiled(t, python, case):
    out = t.path("profile.json")
    r = t.run([python, JOB, case, out])
    expect(r.status == 0, "profiled: %s" % r)
    with open(out) as f:
        return json.load(f)


def compare(wanted, seen, rec):
    wrong = {k: (n, seen[k]) for k, n in wanted.items() if seen[k] != n}
    expect(not wrong, "cProfile's count and ours: %r" % wrong)
    expect(rec.lost() == 0, "lost: %r" % rec.report["recording"])


for version in (*VERSIONS, *sorted(v for v in PYTHONS if v.endswith("t"))):
    @test("calls of each function: as many as cProfile counts, Python %s" % version)
    def _(t, version=version):
        python = python_of(version)
        known = profiled(t, python, "all_kinds")
        wanted = {k: n for k, n in known.items() if JOB in k or "(made" in k}
        expect(len(wanted) > 35 and sum(wanted.values()) > 9000, "cProfile's: %r" % wanted)
        rec = t.record([python, JOB, "all_kinds"], *CALLS)
        compare(wanted, counts_of(rec), rec)


@test("also of the standard library's functions, in a Python without a library of its own")
def _(t):
    python = python_of("system")
    known = profiled(t, python, "all_kinds")
    before = counts_of(t.record([python, JOB, "nothing"], *CALLS))
    rec = t.record([python, JOB, "all_kinds"], *CALLS)
    during = counts_of(rec)
    during.subtract(before)
    compare(known, during, rec)


def same_as_untraced(t, cmd, *options):
    alone = t.run(cmd)
    rec = t.record(cmd, *CALLS, *options, status=None)
    status = alone.status if alone.status >= 0 else 128 - alone.status
    expect(rec.ran.status == status and rec.ran.out == alone.out,
           "untraced %s\ntraced %s" % (alone, rec.ran))
    return rec


for how, python in (("a profile function", BY_PROFILE), ("sys.monitoring", BY_MONITORING),
                    *(("sys.monitoring, " + v, PYTHONS[v]) for v in PYTHONS if v.endswith("t"))):
    @test("threads, threads of threads, and forked children: by %s" % how)
    def _(t, python=python):
        if not python:
            skip("no Python that has it is here")
        rec = same_as_untraced(t, [python, JOB, "threads"])
        expect(of(rec, "fib") == 22 * 177 + 3 * 67, "fib: %d, lost %r" % (
            of(rec, "fib"), rec.report["recording"].get("lost_by_cause")))

    @test("functions that threads meet at a time have one number: by %s" % how)
    def _(t, python=python):
        if not python:
            skip("no Python that has it is here")
        rec = same_as_untraced(t, [python, JOB, "at_once"])
        made = [n for key, n in counts_of(rec).items() if key.startswith("made_")]
        lost = rec.report["recording"].get("lost_by_cause", {})
        expect(made == 1500 * [12] and "inside_unmatched" not in lost, "calls %r, %r" % (
            collections.Counter(made), lost))

    @test("a profiler of the job's own: by %s" % how)
    def _(t, python=python):
        if not python:
            skip("no Python that has it is here")
        rec = same_as_untraced(t, [python, JOB, "own_profiler"])
        yields = python == BY_PROFILE
        expect(of(rec, "fib") == (15 + 41 if yields else 15 + 25 + 41), "fib: %d" % of(rec, "fib"))
        expect(yields == ("a profiler of the job's own" in notes_of(t, rec)), notes_of(t, rec))

    @test("the interpreter's end amid threads, with an allocator that checks; a killed one: by %s"
          % how)
    def _(t, python=python):
        if not python:
            skip("no Python that has it is here")
        rec = same_as_untraced(t, [python, "-X", "dev", JOB, "end"])
        expect(of(rec, "fib") > 9, "fib: %d" % of(rec, "fib"))
        rec = same_as_untraced(t, [python, JOB, "killed"])
        expect(of(rec, "fib") == 15 and of(rec, "killed") == 1, "calls: %r" % counts_of(rec))


@test("several stacks in a thread (greenlet): each call has its own end, and none stays open", 120)
def _(t):
    found = pythons.with_greenlet(SYSTEM)
    if not found:
        skip("no Python here has greenlet")
    for python in found:
        rec = same_as_untraced(t, [python, JOB, "greenlets"])
        expect(rec.ran.status == 0, "%s: %s" % (python, rec.ran))
        expect(of(rec, "held") == of(rec, "in_stack") == 2 * 201 and rec.lost() == 0,
               "%s: %r" % (python, counts_of(rec)))
        by_thread = collections.defaultdict(list)
        for call in rec.calls:
            if call["name"] == "held":
                by_thread[call["tid"]].append((call["start_ns"],
                                               call["start_ns"] + call["duration_ns"]))
        expect(len(by_thread) == 2, "threads: %r" % by_thread.keys())
        for calls in by_thread.values():
            calls.sort()
            ends = [end for _start, end in calls]
            expect(ends == sorted(ends), "%s: ends are not in the order of calls" % python)
        lost = rec.report["recording"].get("lost_by_cause", {})
        expect(not any("inside" in cause for cause in lost), "%s: %r" % (python, lost))


@test("files are chosen by globs, of names and of paths; what is skipped is skipped")
def _(t):
    python = python_of("system")
    rec = t.record([python, JOB, "all_kinds"], *CALLS, "--python-only",
                   "*/asyncio/*,python_calls_*.py", "--python-skip", "made*,*/asyncio/events.py")
    files = {key.rsplit("(", 1)[1].rsplit(":", 1)[0] for key in counts_of(rec)}
    expect(JOB in files and any("/asyncio/base_events.py" in f for f in files), "%r" % files)
    expect(all(f == JOB or "/asyncio/" in f for f in files), "%r" % files)
    expect(not any(f.endswith("/asyncio/events.py") for f in files), "%r" % files)


@test("eacgm is killed: the job goes on")
def _(t):
    python = python_of("system")
    job = t.path("job.out")
    cmd = ["sh", "-c", 'exec "$0" "$1" long_run > "$2"', python, JOB, job]
    p = t.start_record(*CALLS, "--", *cmd)

    def said(word):
        with open(job) as f:
            return word in f.read()
    t.wait_for(lambda: said("begun"), "the job to begin")
    os.kill(p.pid, signal.SIGKILL)
    t.wait_for(lambda: said("done"), "the job to end", 30)


@test("it is for commands, and says so")
def _(t):
    python = python_of("system")
    r = t.run([EACGM, "record", "--python", "calls", "-p", str(os.getpid()), "-d", "1"])
    expect(r.status != 0 and "--python calls" in r.err, "%s" % r)
    r = t.run([EACGM, "record", "--python-only", "x", "--", python, "-c", "1"])
    expect(r.status != 0 and "need --python calls" in r.err, "%s" % r)


@test("a command without a Python: a note says that none came")
def _(t):
    rec = t.record(["true"], *CALLS)
    expect("none came" in notes_of(t, rec), notes_of(t, rec))


if __name__ == "__main__":
    raise SystemExit(main())
