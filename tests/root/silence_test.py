#!/usr/bin/env python3
"""silence_test.py - what was asked for by name and comes to nothing is said in a line, and is a
note in the recording; where nothing else was asked for, the exit status tells it too."""

from harness import PUSH, expect, log_of, main, probes, target, test

NO_PROBE = "no probe was attached"


def said(r, *words):
    """One line of standard error has all the words."""
    lines = [line for line in r.err.splitlines() if all(word in line for word in words)]
    expect(len(lines) == 1, "expected one line with %r: %s" % (words, r))


def noted(rec, *words):
    """As said, of the recording's notes; the report's text has it too."""
    notes = ["%s: %s" % (n["subject"], n["reason"]) for n in rec.report["notes"]]
    expect(sum(all(word in n for word in words) for n in notes) == 1,
           "expected one note with %r: %r" % (words, notes))


@test("a --probe that matches nothing is told, and 1 is the exit status")
def _(t):
    rec = t.record(["true"], *probes("libnothing.so:foo_*"), status=1)
    said(rec.ran, "--probe libnothing.so:foo_* matched nothing", "no traced process loaded")
    said(rec.ran, NO_PROBE)
    noted(rec, "libnothing.so", "not loaded by any traced process")
    rec = t.record(["true"], *probes("libc.so.6:no_such_function"), status=1)
    said(rec.ran, "--probe libc.so.6:no_such_function match", "libc.so.6: no ")


@test("a --probe that matches nothing beside one that does")
def _(t):
    rec = t.record([target("calls"), "threads", "10", "1"], *probes(PUSH, "libtarget.so:target_nothing"),
                   status=None)
    expect(rec.ran.status == 0, "something was done: %s" % rec.ran)
    said(rec.ran, "--probe libtarget.so:target_nothing match")
    expect(NO_PROBE not in rec.ran.err, "there was a probe: %s" % rec.ran)


@test("a --probe that matches nothing in what runs is told while it is recorded")
def _(t):
    job = t.start(["sleep", "60"])
    p = t.start_record("-p", str(job.pid), *probes("libc.so.6:no_such_function"))
    said_now = log_of(p)
    expect("--probe libc.so.6:no_such_function matches nothing" in said_now, said_now)
    expect("no probe is attached so far" in said_now, said_now)
    t.stop_record(p)
    expect(p.returncode == 1, "nothing was done, and the exit status is %r" % p.returncode)
    noted(p.recording, NO_PROBE)
    expect(p.recording.report["recording"]["target"] == "1 process", "its target")


@test("layers that no program has: a line, a note, and 1 is the exit status")
def _(t):
    rec = t.record(["true"], "--layers", "cuda", status=1)
    said(rec.ran, NO_PROBE, "the layers asked for (cuda)")
    noted(rec, NO_PROBE, "the layers asked for (cuda)")


@test("the command's own failure is the exit status, and so is its success where more was asked")
def _(t):
    t.record(["sh", "-c", "exit 3"], "--layers", "cuda", status=3)
    t.record(["true"], "--layers", "cuda", "--profile", "cpu", status=0)
    t.record(["true"], "--layers", "cuda,host", status=0)
    said(t.record(["true"], status=0).ran, NO_PROBE)


@test("a function that the program has a copy of: never called, and where the copy is")
def _(t):
    rec = t.record([target("own_copy")], *probes(PUSH))
    said(rec.ran, "--probe libtarget.so:target_push", "no call was seen", target("own_copy"))
    noted(rec, "--probe libtarget.so:target_push", "no call was seen", target("own_copy"))


@test("a function that is not called, of which there is no copy; one that is called is not told of")
def _(t):
    rec = t.record([target("calls"), "threads", "10", "1"],
                   *probes(PUSH, "libtarget.so:target_string"))
    said(rec.ran, "--probe libtarget.so:target_string: attached at 1 place, no call was seen")
    expect("target_push" not in rec.ran.err, "it was called: %s" % rec.ran)
    rec = t.record([target("calls"), "threads", "10", "1"], *probes(PUSH), "--mode", "stats")
    expect("no call was seen" not in rec.ran.err, "calls were counted: %s" % rec.ran)


if __name__ == "__main__":
    raise SystemExit(main())
