#!/usr/bin/env python3
"""single_links_test.py - attached by single links, a perf event for each place, as kernels before
6.6 need it, all calls are counted from the first one on. To close such an event takes the kernel a
tenth of a second and more, with a lock that opening one needs (event_mutex in its
kernel/trace/trace_event_perf.c): beside others who close some a job may be held in vain until its
ten seconds are over. So nothing else runs then (run.py: ALONE). The other ways of attaching are
counts_test.py's."""

from harness import expect, main, probes, target, test

THREADS, CALLS = 4, 2000


@test("every call of every kind of function, by single links")
def _(t):
    rec = t.record([target("calls"), "threads", CALLS, THREADS],
                   *probes("libtarget.so:target_*", "calls:own_function(u64 a) -> u64"),
                   env={"EACGM_ATTACH": "single"})
    expect(rec.made["target_push"] == CALLS * THREADS, "the target itself: %s" % rec.ran)
    rec.expect_counts(rec.made)


if __name__ == "__main__":
    raise SystemExit(main())
