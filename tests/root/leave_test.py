#!/usr/bin/env python3
"""leave_test.py - traced functions that are left by other ways than a return: C++
exceptions, longjmp, ended threads, signals, other stacks. The program must do exactly
what it does untraced, and its calls are all seen."""

import os
import shutil

from harness import EACGM, Recording, expect, main, needs_sessions, probes, skip, target, test

EXCEPTIONS = probes("exceptions*:trace_*")
LEAVE = probes("libtarget.so:target_*")


def same_as_untraced(t, cmd, options, env=None):
    """Runs the command without and with eacgm; both must print and end alike."""
    alone = t.run(cmd)
    rec = t.record(cmd, *options, env=env, status=None)
    wanted = alone.status if alone.status >= 0 else 128 - alone.status
    expect(rec.ran.status == wanted, "untraced it ends with %d, traced with %d: %s" % (
        wanted, rec.ran.status, rec.ran))
    expect(rec.ran.out == alone.out, "untraced it prints\n%s\ntraced\n%s" % (
        alone.out, rec.ran))
    return rec


@test("signal handlers on an alternate stack above the ordinary one")
def _(t):
    needs_sessions(t)
    rec = same_as_untraced(t, [target("altstack")], probes("altstack:trace_*"))
    expect(rec.ran.out == "done 100 100\n", "its own result: %s" % rec.ran)
    expect(rec.count("trace_under_way") == 100, "calls: %d" % rec.count("trace_under_way"))
    lost = rec.report["recording"]["lost_by_cause"].get("signal_stack", 0)
    expect(rec.count("trace_in_handler") + lost == 100, "lost %d of 100 silently" % lost)
    expect("lost %d " % rec.lost() in rec.ran.err, "the report says %d: %s" % (rec.lost(), rec.ran))


@test("a program that loads a library which switches stacks is left alone, and that is said")
def _(t):
    needs_sessions(t)
    lib = t.path("_greenlet_like.so")
    shutil.copy(target("libtarget.so"), lib)
    rec = t.record([target("late"), lib, "5", "target_push"], *probes("_greenlet_like.so:target_*"))
    expect("switches stacks" in str(rec.report["notes"]), "notes: %r" % rec.report["notes"])
    expect(rec.count("target_push") == 0, "calls: %d" % rec.count("target_push"))


@test("C++ exceptions, more than ten thousand: nested, rethrown, in destructors, threads", 120)
def _(t):
    rec = same_as_untraced(t, [target("exceptions"), "1000"], EXCEPTIONS)
    expect(rec.made["trace_throw"] > 10000, "the target throws %r" % rec.made)
    rec.expect_counts(rec.made)
    unwound = sum(f.get("unwound_calls", 0) for f in rec.report["functions"])
    expect(unwound > 10000, "%d calls known as left by an exception" % unwound)


for method in ("multi", "single"):
    @test("C++ exceptions, attached by %s links" % method, 120)
    def _(t, method=method):
        r = t.run([EACGM, "record", "-o", t.path("try.eacgm"), *EXCEPTIONS, "--",
                   target("exceptions"), "1"],
                  env=dict(os.environ, EACGM_ATTACH=method))
        if r.status != 0 and method == "multi":
            skip("not on this kernel: " + r.err.strip()[:150])
        rec = same_as_untraced(t, [target("exceptions"), "200"], EXCEPTIONS,
                               env={"EACGM_ATTACH": method})
        rec.expect_counts(rec.made)


@test("C++ exceptions where the unwinder is linked into the program", 120)
def _(t):
    rec = same_as_untraced(t, [target("exceptions-static"), "200"], EXCEPTIONS)
    rec.expect_counts(rec.made)


@test("C++ exceptions where the unwinder is linked in and its symbols are stripped", 120)
def _(t):
    stripped = t.path("exceptions-stripped")
    if not shutil.which("strip"):
        skip("no strip")
    t.run(["strip", "-o", stripped, target("exceptions-static")])
    rec = same_as_untraced(t, [stripped, "200"], EXCEPTIONS)
    seen = sum(rec.count(name) for name in rec.made)
    notes = str(rec.report.get("notes")) + rec.ran.err
    # Exported trace_* are still there to be probed; refusing them is right when it is said.
    expect(seen == sum(v for k, v in rec.made.items() if k.startswith("trace_")) or
           "exceptions-stripped" in notes, "%d calls seen and nothing said: %s" % (seen, notes))


@test("an exception that nobody catches ends the program as it does untraced")
def _(t):
    rec = same_as_untraced(t, [target("exceptions"), "uncaught"], EXCEPTIONS)
    expect("terminate" in rec.ran.out, "its handler runs: %s" % rec.ran)


@test("an exception that meets noexcept ends the program as it does untraced")
def _(t):
    same_as_untraced(t, [target("exceptions"), "noexcept"], EXCEPTIONS)


@test("exceptions in a program that is attached to while it throws", 300)
def _(t):
    alone = t.run([target("exceptions"), "25000"])
    p = t.start([target("exceptions"), "25000"], stdout=-1, stderr=-1, text=True)
    for i in range(3):
        if p.poll() is not None:
            break
        rec = t.start_record("-p", str(p.pid), *EXCEPTIONS, out=t.path("a%d.eacgm" % i))
        # a program that has ended meanwhile leaves no recording; one that was attached to just now
        # may have no file of its name yet
        t.wait_for(lambda: rec.poll() is not None or (os.path.exists(rec.recording.path) and
                                                      os.path.getsize(rec.recording.path) > 1000),
                   "something is recorded")
        t.stop_record(rec)
    r = t.finish(p)
    expect(r.status == 0 and r.out == alone.out, "untraced\n%s\ntraced %s" % (alone.out, r))


for way, what in (("longjmp", "longjmp over three traced frames"),
                  ("exit", "threads that end by pthread_exit inside a call"),
                  ("cancel", "threads that are cancelled inside a call"),
                  ("signal", "signal handlers that call traced functions"),
                  ("siglongjmp", "signal handlers that leave by siglongjmp")):
    @test(what)
    def _(t, way=way):
        rec = same_as_untraced(t, [target("leave"), way, "200"], LEAVE)
        rec.expect_counts(rec.made)


@test("two stacks that take turns inside traced calls")
def _(t):
    rec = same_as_untraced(t, [target("leave"), "context", "100"], LEAVE)
    rec.expect_counts(rec.made)


@test("a process that ends itself inside a call: its status, its calls")
def _(t):
    rec = same_as_untraced(t, [target("leave"), "process", "1"], LEAVE)
    expect(rec.ran.status == 7, "status %d" % rec.ran.status)
    rec.expect_counts(rec.made)


@test("a process that is killed inside a call: its status, its calls")
def _(t):
    rec = same_as_untraced(t, [target("leave"), "killed", "1"], LEAVE)
    expect(rec.ran.status == 137, "status %d" % rec.ran.status)
    rec.expect_counts(rec.made)
    expect(isinstance(rec, Recording) and rec.report["recording"].get("complete") is True,
           "the recording is complete")


if __name__ == "__main__":
    raise SystemExit(main())
