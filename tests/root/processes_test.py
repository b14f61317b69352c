#!/usr/bin/env python3
"""processes_test.py - which processes are traced, from their first call on: children,
programs that replace themselves, libraries loaded late, other mount namespaces, running
processes, control groups, everything."""

import collections
import json
import os
import shutil
import signal
import subprocess
import time

from cgroups import make_cgroup
from harness import (EACGM, LIBTARGET, PUSH, TARGETS, expect, has_begun, log_of, main, made_counts,
                     probes, size_of, skip, target, test)


def expect_pids(rec, n):
    pids = {c["pid"] for c in rec.calls}
    expect(len(pids) == n, "calls of %d processes, expected %d" % (len(pids), n))


@test("children: five forked at once")
def _(t):
    rec = t.record([target("family"), "fork", 5, 400], *probes(PUSH))
    rec.expect_counts(rec.made)
    expect_pids(rec, 5)


@test("children of children, six generations")
def _(t):
    rec = t.record([target("family"), "deep", 6, 300], *probes(PUSH))
    rec.expect_counts(rec.made)
    expect_pids(rec, 6)


@test("vfork and exec")
def _(t):
    rec = t.record([target("family"), "vfork", 4, 250], *probes(PUSH))
    rec.expect_counts(rec.made)
    expect(rec.made["target_push"] == 1000, "the target itself: %s" % rec.ran)
    expect_pids(rec, 4)


@test("a program that replaces itself, five times")
def _(t):
    rec = t.record([target("family"), "exec", 5, 200], *probes(PUSH))
    rec.expect_counts(rec.made)
    expect(rec.made["target_push"] == 1200, "the target itself: %s" % rec.ran)
    expect_pids(rec, 1)


@test("a program that becomes another, which loads the library late")
def _(t):
    rec = t.record([target("family"), "into", target("late"), LIBTARGET, 10], *probes(PUSH))
    rec.expect_counts(rec.made)
    expect(rec.made["target_push"] == 11, "the target itself: %s" % rec.ran)


@test("a shell script that starts programs which are not the first")
def _(t):
    script = "%s calls 3 & %s calls 4; wait; exec %s calls 5" % ((target("family"),) * 3)
    rec = t.record(["sh", "-c", script], *probes(PUSH))
    rec.expect_counts(rec.made)
    expect(rec.made["target_push"] == 12, "the target itself: %s" % rec.ran)


@test("a launcher without dynamic linker: what it starts is traced from the first call")
def _(t):
    busybox = shutil.which("busybox")
    if not busybox or t.run(["ldd", busybox]).status == 0:
        skip("no static busybox")
    script = "for i in 1 2 3 4 5; do %s calls 100; done; %s %s 50" % (
        target("family"), target("late"), LIBTARGET)
    rec = t.record([busybox, "sh", "-c", script], *probes(PUSH))
    rec.expect_counts(rec.made)
    expect(rec.made["target_push"] == 550, "the target itself: %s" % rec.ran)


@test("a library loaded late: its first call is there, ten times over")
def _(t):
    for _i in range(10):
        rec = t.record([target("late"), LIBTARGET, 1], *probes(PUSH))
        rec.expect_counts({"target_push": 1})


@test("a library loaded, closed and loaded again")
def _(t):
    rec = t.record([target("late"), LIBTARGET, -50], *probes(PUSH))
    rec.expect_counts({"target_push": 100})


@test("another mount namespace, with a library that exists only there")
def _(t):
    at = t.path("mnt")
    os.mkdir(at)
    script = "mount -t tmpfs none %s && cp %s %s/ && exec %s %s/libtarget.so 77" % (
        at, LIBTARGET, at, target("late"), at)
    rec = t.record(["unshare", "--mount", "sh", "-c", script], *probes(PUSH))
    expect(not os.path.exists(at + "/libtarget.so"), "the mount is private")
    rec.expect_counts({"target_push": 77})


@test("attached to a running process of another mount namespace")
def _(t):
    at = t.path("mnt")
    fifo = t.path("go")
    os.mkdir(at)
    os.mkfifo(fifo)
    script = ("mount -t tmpfs none %s && cp %s %s %s/ && exec %s/family wait 40 %s" % (
        at, LIBTARGET, target("family"), at, at, fifo))
    p = t.start(["unshare", "--mount", "sh", "-c", script], stdout=subprocess.PIPE, text=True)
    expect(p.stdout.readline() == "ready\n", "the target is ready")
    rec = t.start_record("-p", str(p.pid), *probes(PUSH))
    with open(fifo, "w") as f:
        f.write("go\n")
    r = t.finish(p)
    rec.wait(timeout=30)  # the target has ended, so the recording has
    rec.recording.expect_counts(made_counts(r.out))
    expect(made_counts(r.out)["target_push"] == 120, "the target itself: %s" % r)


def start_waiting(t, n, name="go"):
    fifo = t.path(name)
    os.mkfifo(fifo)
    p = t.start([target("family"), "wait", n, fifo], stdout=subprocess.PIPE, text=True)
    expect(p.stdout.readline() == "ready\n", "the target is ready")

    def go():
        with open(fifo, "w") as f:
            f.write("go\n")
        r = t.finish(p)
        expect(r.status == 0, "the target: %s" % r)
        return made_counts(r.out)
    return p, go


@test("attached to a running process: it, and children it forks later")
def _(t):
    p, go = start_waiting(t, 150)
    rec = t.start_record("-p", str(p.pid), *probes(PUSH))
    made = go()
    expect(made["target_push"] == 450, "the target itself")
    rec.wait(timeout=30)
    rec.recording.expect_counts(made)
    expect_pids(rec.recording, 3)


@test("attached to a parent: children that already run are traced too")
def _(t):
    fifo = t.path("go")
    os.mkfifo(fifo)
    p = t.start(["sh", "-c", "%s wait 60 %s; true" % (target("family"), fifo)],
                stdout=subprocess.PIPE, text=True)
    expect(p.stdout.readline() == "ready\n", "the target is ready")
    rec = t.start_record("-p", str(p.pid), *probes(PUSH))
    with open(fifo, "w") as f:
        f.write("go\n")
    made = made_counts(t.finish(p).out)
    rec.wait(timeout=30)
    rec.recording.expect_counts(made)


@test("attached to a parent that forks while the recording begins: the child is traced")
def _(t):
    for ms in (100, 200, 300, 400, 600):
        fifo, stop = t.path("go%d" % ms), t.path("stop%d" % ms)
        os.mkfifo(fifo)
        script = 'read go <"$1"; "$0" until "$2" 1; true'
        parent = t.start(["sh", "-c", script, target("calls"), fifo, stop],
                         stdout=subprocess.DEVNULL)
        p = t.start_record("-p", str(parent.pid), *probes(PUSH), "--profile", "off", ready=False,
                           out=t.path("%d.eacgm" % ms))  # and no stacks, which tell of it too
        time.sleep(ms / 1000)
        with open(fifo, "w") as go:
            go.write("go\n")
        t.wait_for(lambda: has_begun(p), "eacgm record to attach")
        t.wait_for(lambda: size_of(p.recording.path) > 50000, "calls in the recording")
        with open(stop, "w"):
            pass
        p.wait(timeout=30)
        expect(p.recording.count("target_push") > 0, "%d ms later: %s" % (ms, log_of(p)))


@test("attached to two processes, not to a third")
def _(t):
    (p1, go1), (p2, go2), (_p3, go3) = [start_waiting(t, 30, "go%d" % i) for i in range(3)]
    rec = t.start_record("-p", "%d,%d" % (p1.pid, p2.pid), *probes(PUSH))
    made = go1() + go2()
    go3()
    if rec.poll() is None:
        rec.wait(timeout=30)
    rec.recording.expect_counts(made)


@test("a control group: its processes, those that join later, groups below, no others")
def _(t):
    group = make_cgroup(t, "a")
    inside, go_inside = start_waiting(t, 25, "inside")
    with open(group + "/cgroup.procs", "w") as f:
        f.write(str(inside.pid))
    rec = t.start_record("--cgroup", group, *probes(PUSH))
    made = go_inside()
    sub = os.path.join(group, "sub")
    os.mkdir(sub)
    try:
        join = "echo $$ > %s/cgroup.procs; exec %s calls %d"
        r = t.run(["sh", "-c", join % (group, target("family"), 31)])
        made += made_counts(r.out)
        r = t.run(["sh", "-c", join % (sub, target("family"), 32)])
        made += made_counts(r.out)
        t.run([target("family"), "calls", 1000])  # outside
        r = t.run(["sh", "-c", join % (group, target("late") + " " + LIBTARGET + " 33 #", 0)])
        made += made_counts(r.out)
        recording = t.stop_record(rec)
    finally:
        os.rmdir(sub)
    expect(made["target_push"] == 75 + 31 + 32 + 33, "the targets themselves: %r" % made)
    recording.expect_counts(made)


@test("everything: processes that nobody named")
def _(t):
    rec = t.start_record("--all", "--layers", "user", *probes(PUSH))
    runs = [t.start(args, stdout=subprocess.PIPE, text=True) for args in (
        [target("family"), "fork", 2, 20], [target("late"), LIBTARGET, 5])]
    made = sum((made_counts(t.finish(p).out) for p in runs), collections.Counter())
    recording = t.stop_record(rec)
    expect(made["target_push"] == 45, "the targets themselves")
    # others may run the same program at this moment: theirs are seen as well
    family = {p.pid for p in runs}
    for row in recording.report["processes"]:
        if row["parent_pid"] in family:
            family.add(row["pid"])
    seen = collections.Counter(c["name"] for c in recording.calls if c["pid"] in family)
    expect(seen == made, "calls seen: %r, made: %r; %r" % (
        seen, made, recording.report["recording"]["lost_by_cause"]))
    own = [row["pid"] for row in recording.report["processes"] if row.get("own")]
    expect(own and recording.report["own_processes"]["processes"] == len(own),
           "eacgm's own processes: %r, %r" % (own, recording.report.get("own_processes")))
    ours = [row["comm"] for row in recording.report["processes"]
            if row["command"] == os.path.realpath(EACGM) and not row.get("own")]
    names = {row["name"] for row in recording.report["programs"]}
    expect(not ours and "[eacgm]" not in names, "programs of the job: %r, %r" % (ours, names))


WORKERS = """
import multiprocessing as mp, sys
def work(told):
    told.send_bytes(b"done")
if __name__ == "__main__":
    for how in ("spawn", "forkserver"):
        ctx = mp.get_context(how)
        ours, theirs = ctx.Pipe()
        p = ctx.Process(target=work, args=(theirs,))
        p.start()
        assert ours.recv_bytes() == b"done"
        p.join()
        print(how, p.pid)
"""


@test("workers of Python's multiprocessing are called by their parent's script")
def _(t):
    with open(t.path("job.py"), "w") as f:
        f.write(WORKERS)
    rec = t.record(["/usr/bin/python3", t.path("job.py"), "SECRET"])
    pids = dict(line.split() for line in rec.ran.out.splitlines())
    r = t.run([EACGM, "export", rec.path, "-f", "jsonl", "-o", "-"])
    rows = [json.loads(line) for line in r.out.splitlines() if '"type":"process"' in line]
    names = {how: {row["script"] for row in rows if row["pid"] == int(pid)}
             for how, pid in pids.items()}
    expect("job.py, spawn worker" in names["spawn"] and
           "job.py, forkserver worker" in names["forkserver"], "workers: %r" % names)
    expect("SECRET" not in r.out, "an argument was kept")


def sleeper_of(pid):
    """The child that sleeps in clock_nanosleep(2), 230 on x86-64, or None."""
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        for child in f.read().split():
            try:
                with open("/proc/%s/comm" % child) as c, open("/proc/%s/syscall" % child) as s:
                    if c.read() == "calls\n" and s.read().startswith("230 "):
                        return int(child)
            except OSError:  # it has just ended
                pass
    return None


@test("a call that has not returned is visible")
def _(t):
    p = t.start([target("calls"), "sleep", 60000])
    rec = t.start_record("-p", str(p.pid), *probes("libtarget.so:target_sleep(u32 ms)"))
    t.stop_record(rec)
    # It began before tracing did: not to be invented.
    expect(rec.recording.count("target_sleep") == 0, "a call from before was counted")
    t.kill(p)
    p = t.start_record(*probes("libtarget.so:target_sleep(u32 ms)"), "--", target("calls"), "sleep",
                       "60000", out=t.path("open.eacgm"))
    t.wait_for(lambda: sleeper_of(p.pid), "the target to sleep")
    sleeper = sleeper_of(p.pid)
    rec = t.stop_record(p, signal.SIGTERM)  # which leaves the command alone
    os.kill(sleeper, signal.SIGKILL)
    calls = [c for c in rec.calls if c["name"] == "target_sleep"]
    expect(len(calls) == 1, "open calls: %r" % calls)
    flags = calls[0].get("flags")
    expect("open" in str(flags).lower() or calls[0].get("open"), "marked as open: %r" % calls[0])
    expect(0 < calls[0]["duration_ns"] < 60e9, "its time so far: %r" % calls[0])


@test("a library that is expected and not there is said by name")
def _(t):
    rec = t.record([target("family"), "calls", 3], *probes(PUSH, "libnowhere.so:nothing_*"))
    rec.expect_counts({"target_push": 3})
    text = rec.ran.err + t.run([EACGM, "report", rec.path, "--full"]).out
    expect("libnowhere.so" in text, "libnowhere.so is not mentioned: %s" % text[-800:])


@test("a symbol that the library lacks is said by name")
def _(t):
    rec = t.record([target("family"), "calls", 3], *probes(PUSH, "libtarget.so:no_such_thing"))
    rec.expect_counts({"target_push": 3})
    text = rec.ran.err + t.run([EACGM, "report", rec.path, "--full"]).out
    expect("no_such_thing" in text, "no_such_thing is not mentioned: %s" % text[-800:])


@test("a stripped library: exported functions are traced")
def _(t):
    path = t.path("libtarget.so")
    if t.run(["sh", "-c", "command -v strip"]).status:
        skip("no strip")
    t.run(["strip", "-o", path, LIBTARGET])
    rec = t.record([target("late"), path, 9], *probes(PUSH))
    rec.expect_counts({"target_push": 9})


@test("what /proc says of the target's folder does not matter: relative path, moved file")
def _(t):
    path = t.path("family")
    t.run(["cp", target("family"), LIBTARGET, t.dir])
    out = t.path("moved.eacgm")
    r = t.run([EACGM, "record", "-o", out, *probes(PUSH), "--", "./family", "exec", "2", "10"],
              cwd=t.dir)
    from harness import Recording
    Recording(t, out, r).expect_counts({"target_push": 30})
    expect(os.path.exists(path) and os.path.isdir(TARGETS), "files are left alone")


if __name__ == "__main__":
    raise SystemExit(main())
