#!/usr/bin/env python3
"""waits_test.py - where threads wait, as the kernel side counts it by itself: sums for each thread
and reason against the program's own log, long waits as rows, who woke whom. Read through
`eacgm export -f jsonl`."""

import collections
import json
import os
import signal
import sys

from cgroups import cgroup2, make_cgroup, within
from harness import EACGM, PUSH, expect, main, skip, stolen_ns, target, test

TURNS = 20
MOVES = 300
TURN_S = 0.03
# A switch takes so much, and is counted in part as the thread's CPU time: more where others trace.
SWITCH_NS = 20e3

# a process that reads from a pipe what its parent writes, and tells how long it waited
PIPE = """
import os, sys, time
r, w = os.pipe()
if not os.fork():
    os.close(w)
    began, cpu = time.monotonic_ns(), time.thread_time_ns()
    while os.read(r, 1):
        pass
    took = time.monotonic_ns() - began - (time.thread_time_ns() - cpu)
    print(os.getpid(), os.getppid(), took, flush=True)
    os._exit(0)
os.close(r)
for _ in range(%d):
    time.sleep(%g)
    os.write(w, b"x")
os.close(w)
os.wait()
""" % (TURNS, TURN_S)

# a process that begins on one CPU and moves to the other and back, so often; prints its pid
MOVER = """
import os
a, b = sorted(os.sched_getaffinity(0))[:2]
os.sched_setaffinity(0, {a})
mover = os.fork()
if not mover:
    for i in range(%d):
        os.sched_setaffinity(0, {(b, a)[i %% 2]})
    os._exit(0)
os.waitpid(mover, 0)
print(mover, flush=True)
""" % MOVES

# a process whose vfork takes as long as its child sleeps, and that sleeps as long; it prints the
# state that its child sees it in, how long it waited for that, and its pid. The child has memory of
# its own: CLONE_VFORK without CLONE_VM.
UNINTERRUPTIBLE = """
import ctypes, os, time
time.sleep(0.5)
began = time.monotonic_ns()
child = ctypes.CDLL(None).syscall(56, 0x4000 | 17, 0, 0, 0, 0)
if not child:
    time.sleep(0.5)
    with open("/proc/%d/stat" % os.getppid()) as f:
        os.write(1, f.read().rsplit(")", 1)[1].split()[0].encode() + b" ")
    os._exit(0)
took = time.monotonic_ns() - began
os.waitpid(child, 0)
os.write(1, b"%d %d" % (took, os.getpid()))
"""


def lines(t, path):
    out = os.path.join(t.dir, "rows.jsonl")
    r = t.run([EACGM, "export", path, "-f", "jsonl", "-o", out])
    expect(r.status == 0, "export: %s" % r)
    with open(out) as f:
        return [json.loads(line) for line in f]


def totals_of(rows, **of):
    """reason -> total of the only thread that is so"""
    found = {}
    for row in rows:
        if row["type"] == "wait_total" and all(row[k] == v for k, v in of.items()):
            expect(row["reason"] not in found, "two totals of %r" % row)
            found[row["reason"]] = row
    return found


def waited_ns(total):
    return total["waited_ns"] + total["runnable_ns"]


@test("each reason has the time that the program measured", 120)
def _(t):
    stolen = stolen_ns()
    rec = t.record([target("wait_reasons"), t.dir], "--profile", "off", "--layers", "user")
    stolen = stolen_ns() - stolen
    rows = lines(t, rec.path)
    for line in rec.ran.out.splitlines():
        name, ns, waits, tid = line.split()
        ns, waits, tid = int(ns), int(waits), int(tid)
        seen = totals_of(rows, tid=tid)  # where it waited before it had its name it has none
        expect(name in seen, "%s: only %r" % (name, sorted(seen)))
        preempted = waited_ns(seen["preempted"]) if "preempted" in seen else 0
        whole = sum(waited_ns(total) for total in seen.values())
        slack_ns = 0.03 * ns + 2e6 + SWITCH_NS * waits
        print("# %s: %.2f ms waited in %d waits, seen %.2f in %d" % (
            name, ns / 1e6, waits, waited_ns(seen[name]) / 1e6, seen[name]["count"]))
        expect(abs(whole - ns) <= slack_ns + preempted + stolen, "%s: %r of %d" % (name, seen, ns))
        # Before its first such wait it may have to wait for a lock: of memory, of the other thread;
        # and for a page of its program or stack.
        others = sum(waited_ns(seen[other]) for other in ("futex", "page_fault")
                     if other in seen and name != other)
        expect(waited_ns(seen[name]) >= ns - slack_ns - preempted - others - stolen,
               "%s: %r of %d" % (name, seen, ns))
        expect(waited_ns(seen[name]) <= ns + slack_ns, "%s: %r of %d" % (name, seen, ns))


@test("the sums of a thread are no more than its time, and rows are part of them", 60)
def _(t):
    rec = t.record([target("wait_reasons"), t.dir], "--profile", "off", "--layers", "user")
    rows = lines(t, rec.path)
    by_thread = collections.defaultdict(list)
    in_rows = collections.defaultdict(list)
    for row in rows:
        if row["type"] == "wait_total":
            by_thread[row["pid"], row["tid"]].append(row)
        elif row["type"] == "wait":
            in_rows[row["pid"], row["tid"], row["reason"]].append(row)
            expect(row["duration_ns"] >= 200000, "a short wait has a row: %r" % row)
            expect(row["runnable_ns"] <= row["duration_ns"], "%r" % row)
    for (pid, tid), totals in by_thread.items():
        span = max(total["until_ns"] for total in totals) - totals[0]["since_ns"]
        expect(sum(waited_ns(total) for total in totals) <= span, "%d ns: %r" % (span, totals))
        for total in totals:
            # Sums begin anew with the program that it executes; rows are of the thread. Where the
            # recording ends while a thread does, its sums are those of before.
            rows = [row for row in in_rows[pid, tid, total["reason"]]
                    if row["start_ns"] >= total["since_ns"] and
                    row["start_ns"] + row["duration_ns"] <= total["until_ns"]]
            long_ns = sum(row["duration_ns"] for row in rows)
            expect(long_ns <= waited_ns(total), "rows have %d: %r, %r" % (long_ns, total, rows))
            expect(not total["left_out"], "rows were left out: %r" % total)


@test("a read from another process's pipe says who wrote", 60)
def _(t):
    rec = t.record(["/usr/bin/python3", "-c", PIPE], "--profile", "off", "--layers", "user")
    pid, writer, took = map(int, rec.ran.out.split())
    rows = lines(t, rec.path)
    seen = totals_of(rows, pid=pid, tid=pid)
    preempted = waited_ns(seen["preempted"]) if "preempted" in seen else 0
    expect(abs(waited_ns(seen["pipe"]) - took) <= 0.05 * took + 3e6 + preempted,
           "%r of %d" % (seen, took))
    woken = [row for row in rows if row["type"] == "wait" and row["pid"] == pid and
             row["reason"] == "pipe"]
    right = sum(row["waker_pid"] == writer and row["waker_tid"] == writer for row in woken)
    expect(len(woken) >= TURNS and right >= len(woken) - 1,
           "%d of %d waits were ended by %d: %r" % (right, len(woken), writer, woken[:5]))


# Sleeps until it was late so often, and for so long, that some of it was for want of a CPU which the
# test's own rival had: beside builds it is mostly others who have it.
# Behind others of its group of processes, but not before it comes to its loop, nor at its end, and not
# by much: with 1 % of what a group gets on a busy host, a turn of the loop takes ten seconds.
LATE = """
import os, time
late, end = 0, time.monotonic() + 2.5
os.nice(10)
while late < 20 or time.monotonic() < end:
    began = time.monotonic()
    time.sleep(0.002)
    late += time.monotonic() - began > 0.0045
    sum(range(20000))
os.nice(-10)
"""


@test("who has the CPU of a thread that was woken is told", 60)
def _(t):
    cpu = str(min(os.sched_getaffinity(0)))
    hog = t.start(["taskset", "-c", cpu, "/usr/bin/python3", "-c", "while True: pass"])
    rec = t.record(["taskset", "-c", cpu, "/usr/bin/python3", "-c", LATE],
                   "--profile", "off", "--layers", "user")
    late = [row for row in lines(t, rec.path) if row["type"] == "wait" and
            row["reason"] == "sleep" and row["runnable_ns"] >= 1000000]
    told = [row for row in late if row["rival_pid"]]
    expect(len(late) >= 3 and len(told) * 2 >= len(late), "%d of %d: %r" % (
        len(told), len(late), late[:5]))
    expect(any(row["rival_pid"] == hog.pid and row["rival"] == "python3" for row in told),
           "%d: %r" % (hog.pid, told[:5]))


@test("of a program that had the CPU for a moment is told in which cgroup, and who leads it", 90)
def _(t):
    cpu = str(min(os.sched_getaffinity(0)))
    group = make_cgroup(t, "rivals")
    leader = t.start(within(group, "taskset", "-c", cpu, "/bin/sh", "-c",
                            "while :; do /bin/ls -lR /usr/share/doc > /dev/null; done"))
    rec = t.record(["taskset", "-c", cpu, "/usr/bin/python3", "-c", LATE],
                   "--profile", "off", "--layers", "user")
    told = [row for row in lines(t, rec.path) if row["type"] == "wait" and row.get("rival") == "ls"]
    path = group[len(cgroup2()):]
    expect(told and all(row["rival_leader_pid"] == leader.pid and row.get("rival_leader") == "sh"
                        for row in told), "%d: %r" % (leader.pid, told[:5]))
    expect(all(row.get("rival_cgroup") in (path, None) for row in told) and
           any(row.get("rival_cgroup") for row in told), "%s: %r" % (path, told[:5]))


# Who starts programs, below a shell each, and the thread that waits for a CPU: both in one group of
# processes, as a script's are. $0: the CPU, $1: LATE.
MAKER = """taskset -c $0 sh -c 'while :; do sh -c "ls -lR /usr/share/doc > /dev/null; :"; done'"""
ONE_GROUP = """%s &
maker=$!
echo $maker
taskset -c $0 /usr/bin/python3 -c "$1"
kill $maker
""" % MAKER
# the same, of a maker whose own parent has ended
ORPHAN = """maker=$( (exec %s) > /dev/null & echo $!)
echo $maker
taskset -c $0 /usr/bin/python3 -c "$1"
kill $maker
""" % MAKER


@test("in one group of processes who started them is told, not the shell of the moment nor PID 1",
      120)
def _(t):
    cpu = str(min(os.sched_getaffinity(0)))
    for script in (ONE_GROUP, ORPHAN):
        rec = t.record(["/bin/sh", "-c", script, cpu, LATE], "--profile", "off", "--layers", "user")
        maker = int(rec.ran.out)
        told = [row for row in lines(t, rec.path) if row["type"] == "wait" and
                row["comm"] == "python3" and row.get("rival") == "ls"]
        leaders = collections.Counter(row["rival_leader_pid"] for row in told)
        # of one that has ended before its row is read nobody is told
        expect(set(leaders) <= {maker, None} and leaders[maker],
               "%d: %r" % (maker, leaders))


# Is stopped by a child, which sends it on.
STOPPED = """
import os, signal, time
me = os.getpid()
def child(does):
    pid = os.fork()
    if not pid:
        does()
        os._exit(0)
    os.waitpid(pid, 0)
    return pid
def stops():
    with open("/proc/self/comm", "w") as f:
        f.write("stopper")
    os.kill(me, signal.SIGSTOP)
    time.sleep(0.2)
    os.kill(me, signal.SIGCONT)
print(me, child(stops), flush=True)
"""


@test("who stopped a process is told", 60)
def _(t):
    rec = t.record(["/usr/bin/python3", "-c", STOPPED], "--profile", "off", "--layers", "user")
    pid, stopper = map(int, rec.ran.out.split())
    told = [row for row in lines(t, rec.path) if row["type"] == "wait" and row["pid"] == pid and
            row["reason"] == "stopped"]
    expect(told and all(row["rival_pid"] == stopper and row["rival"] == "stopper"
                        for row in told), "%d: %r" % (stopper, told))
    expect(sum(row["duration_ns"] for row in told) > 0.15e9, told)


@test("waits of a process that runs another program are that program's", 60)
def _(t):
    rec = t.record(["/bin/sh", "-c", "/bin/sleep 0.3; exec /bin/sleep 0.4"], "--profile", "off",
                   "--layers", "user")
    rows = lines(t, rec.path)
    slept = {row["comm"]: waited_ns(row) for row in rows if row["type"] == "wait_total" and
             row["reason"] == "sleep" and waited_ns(row) >= 0.39e9}
    expect(list(slept) == ["sleep"], "%r" % slept)


@test("a wait that began before tracing and outlasts it is counted", 60)
def _(t):
    p = t.start(["/usr/bin/python3", "-c", "import os; os.read(os.pipe()[0], 1)"])

    def in_pipe():
        with open("/proc/%d/syscall" % p.pid) as f:
            return f.read().split()[0] == "0"
    t.wait_for(in_pipe, "the program to read")
    rec = os.path.join(t.dir, "p.eacgm")
    r = t.run([EACGM, "record", "-p", p.pid, "-d", "1", "-o", rec, "--probe", PUSH])
    expect(r.status == 0, "record: %s" % r)
    rows = lines(t, rec)
    seen = totals_of(rows, pid=p.pid, tid=p.pid)
    expect(list(seen) == ["pipe"] and seen["pipe"]["count"] == 1, "%r" % seen)
    expect(waited_ns(seen["pipe"]) >= 0.9e9, "%r" % seen)
    waits = [row for row in rows if row["type"] == "wait"]
    expect(len(waits) == 1 and waits[0]["waker_tid"] is None, "%r" % waits)
    os.kill(p.pid, signal.SIGKILL)


@test("--waits=off counts nothing", 60)
def _(t):
    rec = t.record(["/bin/sleep", "0.1"], "--layers", "user", "--waits", "off")
    rows = lines(t, rec.path)
    expect(not [row for row in rows if row["type"].startswith("wait")], "%r" % rows)


@test("how long a process is in uninterruptible sleep, and no other sleep")
def _(t):
    rec = t.record([sys.executable, "-c", UNINTERRUPTIBLE], "--profile", "off", "--layers", "user")
    state, took, pid = rec.ran.out.split()
    took, pid = int(took), int(pid)
    if state != "D":
        skip("this kernel has who waits in vfork in state %s" % state)
    rows = lines(t, rec.path)
    seen = {name: row["uninterruptible_ns"] for name, row in totals_of(rows, pid=pid).items()}
    # the child may begin before it waits for it
    expect(0.4e9 <= seen.get("child", 0) <= took, "%d: %r" % (took, seen))
    expect(not seen.get("sleep"), "%r" % seen)
    counted = [row["value"] for row in rows if row["type"] == "counter" and
               row["name"] == "uninterruptible_ns" and row["entity"] == "pid %d" % pid]
    whole = sum(seen.values())  # of its program; the count has what was before it too
    expect(counted == sorted(counted) and whole <= counted[-1] < 1.5 * whole,
           "%r, not %r" % (counted, seen))
    text = t.run([EACGM, "report", "--section", "off-cpu", rec.path]).out
    expect("In uninterruptible sleep (state D): " in text, text)


@test("a process that moves from CPU to CPU: as often as it did")
def _(t):
    if len(os.sched_getaffinity(0)) < 2:
        skip("needs two CPUs")
    rec = t.record([sys.executable, "-c", MOVER], "--profile", "off", "--layers", "user")
    mover = "pid %d" % int(rec.ran.out)
    seen = [row["value"] for row in lines(t, rec.path) if row["type"] == "counter" and
            row["name"] == "migrations" and row["entity"] == mover]
    expect(seen == sorted(seen) and seen[-1:] == [MOVES], "migrations: %r" % seen)


if __name__ == "__main__":
    main()
