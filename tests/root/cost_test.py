#!/usr/bin/env python3
"""cost_test.py - what is said of the cost of recording can be true: no more than the job used, its
start once, a figure of this host that stays."""

import os
import re
import time

from harness import EACGM, PUSH, expect, main, probes, target, test

WHILE_IT_RAN = r"^  cost +while it ran (.*)$"


def overhead(rec):
    return rec.report["recording"]["overhead"]


def head(t, rec):
    r = t.run([EACGM, "report", rec.path])
    expect(r.status == 0, "report: %s" % r)
    return r.out


def expect_possible(told):
    share = told["cpu_ratio"]
    expect(share is None or 0 <= share <= 1, "a share above all there was: %r" % told)
    expect(told["ran_cpu_s"] is None or told["running_cpu_s"] <= told["ran_cpu_s"],
           "more than the job used: %r" % told)


@test("a job that uses next to no CPU time is told no share of it")
def _(t):
    rec = t.record(["/bin/sleep", "0.2"])
    expect_possible(overhead(rec))
    line = re.search(WHILE_IT_RAN, head(t, rec), re.M)
    expect(line, "no cost: %s" % head(t, rec))
    expect("%" not in line.group(1) and " ms of " in line.group(1), "it says: %s" % line.group(1))


@test("calls as fast as they come cost much, and no more than all")
def _(t):
    rec = t.record([target("calls"), "threads", "200000", "1"], *probes(PUSH))
    told = overhead(rec)
    expect_possible(told)
    expect(told["cpu_ratio"] > 0.2, "two hundred thousand probes cost nothing: %r" % told)
    line = re.search(WHILE_IT_RAN, head(t, rec), re.M)
    expect(line and 0 < float(line.group(1).split()[0]) <= 100, "it says: %s" % line)


@test("so in modes that record no calls")
def _(t):
    rec = t.record([target("calls"), "threads", "200000", "1"], *probes(PUSH), "--mode", "stats")
    expect_possible(overhead(rec))
    expect(overhead(rec)["cpu_ratio"] > 0.2, "it costs nothing: %r" % overhead(rec))


SPIN = "import time\nwhile time.process_time() < 0.5: pass\n"


def expect_sum(rec):
    """The job's CPU time is that of the processes in the table."""
    told, listed = overhead(rec), rec.report["processes"]
    sum_s = sum(p["cpu_ns"] for p in listed) / 1e9
    job_s = told["ran_cpu_s"] + told["held_cpu_s"]
    expect(abs(job_s - sum_s) < 1e-6, "%.6f s of the job, %.6f s of its processes: %r" %
           (job_s, sum_s, listed))
    return job_s


@test("what nobody waited for is the job's too")
def _(t):
    rec = t.record(["/bin/sh", "-c", '"$0" -c "$1" &', "/usr/bin/python3", SPIN])
    expect(expect_sum(rec) >= 0.5, "the child spun for half a second: %r" % overhead(rec))


def cpu_s(pid):
    return time.clock_gettime(~pid << 3 | 2)  # CLOCK_PROCESS_CPUTIME_ID of another


@test("what runs on when recording ends has told what it used")
def _(t):
    job = t.start(["/usr/bin/python3", "-c", "while True: pass"])
    t.wait_for(lambda: cpu_s(job.pid) > 0.2, "the job to use CPU time")
    before_s = cpu_s(job.pid)
    recorder = t.start_record("-p", job.pid)
    begun_s = cpu_s(job.pid)
    t.wait_for(lambda: cpu_s(job.pid) > begun_s + 0.3, "the job to use more")
    t.stop_record(recorder)
    used_s = expect_sum(recorder.recording)
    # it is looked at soon after the recorder says that it records
    expect(0.2 <= used_s <= cpu_s(job.pid) - before_s, "%.3f s" % used_s)


@test("what the start took is said once")
def _(t):
    rec = t.record([target("calls"), "threads", "20000", "1"], *probes(PUSH))
    told, text = overhead(rec), head(t, rec)
    expect(told["start_cpu_s"] > 0, "the start took nothing: %r" % told)
    expect(len(re.findall(r"^  start-up +once: ", text, re.M)) == 1, "it says: %s" % text)
    expect("its start" not in text, "and again: %s" % text)


@test("what is kept of the host costs a second recording nothing")
def _(t):
    env = dict(os.environ, EACGM_CACHE=t.path("caches"))
    kept = os.path.join(t.path("caches"), "costs", "calls.cost")
    t.record(["/bin/true"], env=env)
    with open(kept, "rb") as f:
        before = f.read(), os.stat(kept).st_ino
    t.record(["/bin/true"], env=env)
    with open(kept, "rb") as f:
        expect((f.read(), os.stat(kept).st_ino) == before, "it was measured again")


@test("doctor says the same twice")
def _(t):
    us = []
    for _i in range(2):
        out = t.run([EACGM, "doctor"]).out
        found = re.search(r"a traced call costs ([\d.]+) us here", out)
        expect(found, "doctor: %s" % out)
        us.append(float(found.group(1)))
    expect(max(us) <= 2 * min(us), "doctor says %r" % us)


if __name__ == "__main__":
    main()
