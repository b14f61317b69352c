"""gpu_ops_test.py - the driver's calls and PyTorch's operators as the shim tells them: each GPU
span has the call that started it, over the fake CUPTI and the fake driver (tests/fake/cupti)."""

import os

from cupti_fakes import CUDA, FAKES, FIRST, JOB, cupti, expect_spans
from harness import expect, main, test


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


if __name__ == "__main__":
    main()
