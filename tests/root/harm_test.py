#!/usr/bin/env python3
"""harm_test.py - the job is never harmed, and what was recorded stays readable: Ctrl-C,
kill -9, a stopped eacgm, a full disk, limits, repeated attaching, two eacgm at once."""

import json
import os
import signal
import statistics
import time

from harness import (EACGM, LIBTARGET, PUSH, Recording, expect, log_of, main, made_counts, probes,
                     skip, target, test, usual_patience)

usual_patience()


class Spinner:
    """A job that tells how many calls it has made, ten times a second."""

    def __init__(self, t, seconds, wrap=()):
        self.tells = t.path("tells")
        self.p = t.start([*wrap, target("family"), "spin", seconds, self.tells],
                         stdout=-1, stderr=-1, text=True)
        t.wait_for(lambda: len(self.read()) > 2, "the job runs")

    def read(self):
        try:
            with open(self.tells) as f:
                return [tuple(map(int, line.split())) for line in f if line.count(" ") == 1 and
                        line.endswith("\n")]
        except OSError:
            return []

    def rate(self, start_ns, end_ns):
        """Calls a second, median of the tenths of a second that lie inside."""
        rows = [r for r in self.read() if start_ns <= r[0] <= end_ns]
        rates = [(b[1] - a[1]) * 1e9 / (b[0] - a[0]) for a, b in zip(rows, rows[1:])]
        expect(len(rates) >= 4, "too few figures of the job: %d" % len(rates))
        return statistics.median(rates)


def comm(pid):
    with open("/proc/%d/comm" % pid) as f:
        return f.read().strip()


def now():
    return time.monotonic_ns()


def expect_speed(before, during, after):
    """A probe that stayed costs a factor of hundreds here; the rest is the machine's noise."""
    expect(during < before * 0.1, "it was not traced: %.0f/s, traced %.0f/s" % (before, during))
    expect(after > before * 0.3, "calls/s before %.0f, traced %.0f, after %.0f" % (
        before, during, after))
    print("# calls/s before %.0f, traced %.0f, after %.0f" % (before, during, after))


def trace_then(t, end):
    """A job is traced for a second and a half, then end(eacgm) is done."""
    job = Spinner(t, 40)
    began = now()
    time.sleep(1.5)
    attached = now()
    rec = t.start_record("-p", str(job.p.pid), *probes(PUSH))
    traced = now()
    time.sleep(1.5)
    ended = now()
    end(rec)
    gone = now()
    t.wait_for(lambda: job.read()[-1][0] > gone + 1_700_000_000, "the job goes on")
    open(job.tells + ".enough", "w").close()
    r = t.finish(job.p)
    expect(r.status == 0, "the job: %s" % r)
    expect_speed(job.rate(began, attached), job.rate(traced, ended),
                 job.rate(gone + 200_000_000, now()))
    return rec.recording, ended


def last_call_ns(t, rec):
    out = t.path("last.jsonl")
    r = t.run([EACGM, "export", rec.path, "-f", "jsonl", "-o", out])
    expect(r.status == 0, "export: %s" % r)
    last = 0
    with open(out, "rb") as f:
        f.seek(max(0, os.path.getsize(out) - 200000))
        for line in f.read().splitlines()[1:]:
            row = json.loads(line)
            if row.get("type") == "call":
                last = max(last, row["start_ns"] + row["duration_ns"])
    return last


@test("Ctrl-C when attached: the recording is whole, the job goes on at full speed")
def _(t):
    rec, _ended = trace_then(t, t.stop_record)
    expect(rec.report["recording"]["complete"] is True, "complete")
    expect(rec.count("target_push") > 10000, "calls: %d" % rec.count("target_push"))


@test("SIGTERM when attached: the same")
def _(t):
    rec, _ended = trace_then(t, lambda p: t.stop_record(p, signal.SIGTERM))
    expect(rec.report["recording"]["complete"] is True, "complete")


@test("kill -9 when attached: the job goes on at full speed, all but the last second is there")
def _(t):
    def kill(p):
        os.kill(p.pid, signal.SIGKILL)
        p.wait()
    rec, ended = trace_then(t, kill)
    expect(rec.report["recording"]["complete"] is False, "not complete")
    missing = (ended - last_call_ns(t, rec)) / 1e9
    expect(missing < 1.0, "the last call is %.2f s before the end" % missing)
    expect(rec.count("target_push") > 10000, "calls: %d" % rec.count("target_push"))


@test("kill -9 of the eacgm that started the job: the job goes on to its end")
def _(t):
    out, tells = t.path("started.eacgm"), t.path("tells")
    p = t.start([EACGM, "record", "-o", out, *probes(PUSH), "--", target("family"), "spin", 6,
                 tells], stdout=-3, stderr=-3)
    t.wait_for(lambda: os.path.exists(tells) and os.path.getsize(tells) > 200, "the job runs")
    killed = now()
    os.kill(p.pid, signal.SIGKILL)
    job = Spinner.__new__(Spinner)
    job.tells = tells
    t.wait_for(lambda: job.read()[-1][0] > killed + 3_000_000_000, "the job goes on")
    expect_speed(job.rate(killed + 1_000_000_000, now()), job.rate(0, killed),
                 job.rate(killed + 1_000_000_000, now()))
    expect(Recording(t, out).count("target_push") > 1000, "the recording is readable")


@test("an eacgm that is stopped (SIGSTOP) holds nobody who loads a library")
def _(t):
    fifo = t.path("go")
    os.mkfifo(fifo)
    p = t.start(["sh", "-c", "read x < %s; exec %s %s 20" % (fifo, target("late"), LIBTARGET)],
                stdout=-1, stderr=-1, text=True)
    rec = t.start_record("-p", str(p.pid), *probes(PUSH))
    os.kill(rec.pid, signal.SIGSTOP)
    began = time.monotonic()
    with open(fifo, "w") as f:
        f.write("go\n")
    r = t.finish(p, 20)
    took = time.monotonic() - began
    os.kill(rec.pid, signal.SIGCONT)
    expect(r.status == 0 and made_counts(r.out)["target_push"] == 20, "the job: %s" % r)
    expect(took < 10, "the job was held for %.1f s" % took)
    print("# the job took %.2f s" % took)
    rec.wait(timeout=30)
    seen = rec.recording.count("target_push")
    expect(seen == 20 or rec.recording.lost("late_attach") > 0,
           "%d calls seen and nothing said: %r" % (seen, rec.recording.report["recording"]))


@test("kill -9 while it holds somebody who loads a library: that one goes on at once")
def _(t):
    fifo = t.path("go")
    os.mkfifo(fifo)
    p = t.start(["sh", "-c", "read x < %s; exec %s %s 20" % (fifo, target("late"), LIBTARGET)],
                stdout=-1, stderr=-1, text=True)
    rec = t.start_record("-p", str(p.pid), *probes(PUSH))
    os.kill(rec.pid, signal.SIGSTOP)
    with open(fifo, "w") as f:
        f.write("go\n")
    time.sleep(0.1)
    os.kill(rec.pid, signal.SIGKILL)
    rec.wait()
    r = t.finish(p, 20)
    expect(r.status == 0 and made_counts(r.out)["target_push"] == 20, "the job: %s" % r)


def descendants(pid):
    ret, kin = [], [pid]
    while kin:
        with open("/proc/%d/task/%d/children" % (kin[0], kin.pop(0))) as f:
            kin += list(map(int, f.read().split()))
        ret += kin
    return sorted(set(ret))


@test("a command's library that takes three seconds to be read, as from a cold disk, loses no call")
def _(t):
    fifo = t.path("go")
    os.mkfifo(fifo)
    rec = t.start_record(*probes(PUSH), "--", "sh", "-c", "read x < %s; exec %s %s 20" % (
        fifo, target("late"), LIBTARGET), env=dict(os.environ, EACGM_CACHE=t.path("caches")))
    readers = [pid for pid in descendants(rec.pid) if comm(pid).startswith("eacgm")]
    expect(readers, "processes that read files: %r" % [comm(p) for p in descendants(rec.pid)])
    for pid in readers:
        os.kill(pid, signal.SIGSTOP)
    try:
        with open(fifo, "w") as f:
            f.write("go\n")
        time.sleep(3)
    finally:
        for pid in readers:
            os.kill(pid, signal.SIGCONT)
    rec.wait(timeout=60)
    seen, report = rec.recording.count("target_push"), rec.recording.report["recording"]
    expect(seen == 20 and rec.recording.lost("late_attach") == 0, "%d calls: %r" % (seen, report))
    expect(report["overhead"]["held_s"] > 2.1, "it was held: %r" % report["overhead"])


def small_disk(t, size):
    at = t.path("disk")
    os.mkdir(at)
    if t.run(["mount", "-t", "tmpfs", "-o", "size=" + size, "none", at]).status:
        skip("cannot mount a tmpfs")
    t.at_end.append(lambda: t.run(["umount", "-l", at]))
    return at


@test("a full disk: said once, what was written is readable, the job goes on")
def _(t):
    out, tells = os.path.join(small_disk(t, "512k"), "x.eacgm"), t.path("tells")
    r = t.run_alone([EACGM, "record", "-o", out, *probes("libtarget.so:target_push(u64 a) -> u64"),
               "--", target("family"), "spin", 8, tells])
    ended = now()
    expect(r.status != 0, "exit status: %s" % r)
    said = [line for line in r.err.splitlines() if "space" in line.lower() or "full" in
            line.lower()]
    expect(len(said) == 1, "said once: %s" % r)
    rec = Recording(t, out, r)
    expect(rec.count("target_push") > 1000, "readable: %d" % rec.count("target_push"))
    job = Spinner.__new__(Spinner)
    job.tells = tells
    started = job.read()[0][0]
    expect(ended - started < 7.5e9, "the disk filled too late for this test")
    t.wait_for(lambda: job.read()[-1][0] > started + 7_500_000_000, "the job goes on")
    after = job.rate(ended + 200_000_000, now())
    expect(after > 5 * job.rate(0, ended), "full speed: %.0f/s" % after)


@test("a disk that is full from the start: one line, the job is not started")
def _(t):
    at = small_disk(t, "64k")
    with open(at + "/fill", "wb") as f:
        try:
            f.write(b"x" * (1 << 20))
        except OSError:
            pass
    mark = t.path("mark")
    r = t.run([EACGM, "record", "-o", at + "/no.eacgm", *probes(PUSH), "--", "touch", mark])
    expect(r.status != 0 and r.err.strip(), "refused: %s" % r)


@test("--max-size: the recording ends there, readable; the job goes on")
def _(t):
    out, tells = t.path("small.eacgm"), t.path("tells")
    r = t.run_alone([EACGM, "record", "-o", out, "--max-size", "1", *probes(PUSH), "--",
               target("family"), "spin", 6, tells])
    size = os.path.getsize(out)
    expect(size < 1.5 * (1 << 20), "size %d: %s" % (size, r))
    expect(Recording(t, out, r).count("target_push") > 1000, "readable")


@test("-d ends the recording, not the job")
def _(t):
    out, tells = t.path("timed.eacgm"), t.path("tells")
    began = time.monotonic()
    r = t.run_alone([EACGM, "record", "-o", out, "-d", "1.5", *probes(PUSH), "--", target("family"),
               "spin", 5, tells])
    took = time.monotonic() - began
    expect(took < 4.5, "took %.1f s: %s" % (took, r))
    job = Spinner.__new__(Spinner)
    job.tells = tells
    before = len(job.read())
    t.wait_for(lambda: len(job.read()) > before + 8, "the job goes on")
    rec = Recording(t, out, r)
    expect(1.2 < rec.report["recording"]["duration_s"] < 2.5, "duration %r" %
           rec.report["recording"]["duration_s"])


@test("Ctrl-C of the terminal reaches the job; its status is passed on")
def _(t):
    out = t.path("ctrlc.eacgm")
    p = t.start([EACGM, "record", "-o", out, *probes(PUSH), "--", "sleep", "60"], stderr=-1,
                text=True)
    t.wait_for(lambda: os.path.exists(out) and b"sleep" in
               b"".join(open("/proc/%s/comm" % c, "rb").read() for c in children(p.pid)),
               "sleep runs")
    os.killpg(p.pid, signal.SIGINT)
    r = t.finish(p, 15)
    expect(r.status == 130, "status: %s" % r)
    expect(Recording(t, out, r).report["recording"]["complete"] is True, "complete")


def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return f.read().split()
    except OSError:
        return []


@test("attached and detached ten times while four threads call: the job's results are right", 120)
def _(t):
    stop = t.path("stop")
    p = t.start([target("calls"), "until", stop, 4], stdout=-1, stderr=-1, text=True)
    seen = 0
    for i in range(10):
        expect(p.poll() is None, "the job has ended early: %s" % (p.poll()))
        rec = t.start_record("-p", str(p.pid), *probes("libtarget.so:target_*"),
                             out=t.path("r%d.eacgm" % i))
        time.sleep(0.05)
        recording = t.stop_record(rec)
        seen += recording.count("target_push")
        lost = recording.lost("return_unmatched")
        # Single links come one by one: a return may be attached long before its entry.
        if recording.report["recording"]["attach"]["method"] != "single":
            expect(lost <= 4 * 8, "%d returns without entry" % lost)
    expect(seen > 100, "calls: %d" % seen)
    with open(stop, "w"):
        pass
    r = t.finish(p)
    expect(r.status == 0 and made_counts(r.out)["target_push"] > seen, "the job: %s" % r)


@test("two eacgm on one process: both see every call")
def _(t):
    fifo = t.path("go")
    os.mkfifo(fifo)
    p = t.start([target("family"), "wait", 500, fifo], stdout=-1, stderr=-1, text=True)
    expect(p.stdout.readline() == "ready\n", "the target is ready")
    first = t.start_record("-p", str(p.pid), *probes(PUSH), out=t.path("1.eacgm"))
    second = t.start_record("-p", str(p.pid), *probes(PUSH), out=t.path("2.eacgm"))
    with open(fifo, "w") as f:
        f.write("go\n")
    made = made_counts(t.finish(p).out)
    for rec in (first, second):
        rec.wait(timeout=30)
        rec.recording.ran = log_of(rec)
        rec.recording.expect_counts(made)


@test("bursts: probes are off in between, the job runs faster then")
def _(t):
    tells = t.path("tells")
    rec = t.record([target("family"), "spin", 5, tells], *probes(PUSH), "--burst", "1/4:250")
    job = Spinner.__new__(Spinner)
    job.tells = tells
    rows = job.read()
    rates = sorted((b[1] - a[1]) * 1e9 / (b[0] - a[0]) for a, b in zip(rows, rows[1:]))
    expect(rates[-3] > 5 * rates[2], "rates: %r" % rates)
    calls = rec.made["target_push"]
    seen = rec.count("target_push")
    expect(1000 < seen < calls / 2, "%d of %d calls" % (seen, calls))


if __name__ == "__main__":
    raise SystemExit(main())
