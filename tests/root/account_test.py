#!/usr/bin/env python3
"""account_test.py - the head of the report on programs of which it is known where their time goes:
the shares add up, the largest one is the right one, and the sentence says so."""

import os
import subprocess
import time

from harness import EACGM, PYTHON, expect, main, needs_torch, skip, test

JOBS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs")


def account(t, name, *args):
    rec = t.record([PYTHON, os.path.join(JOBS, "account_job.py"), name, *args])
    truth = dict(part.split("=") for part in rec.ran.out.split())
    found = rec.report["account"]
    for thread in found["threads"]:
        expect(sum(thread["owners"].values()) == thread["wall_ns"], "%r" % thread)
    expect(found["main"]["program"] == "account_job.py", "%r" % found["main"])
    return rec, found, {key: float(value) for key, value in truth.items()}


def said(found):
    return {finding["name"]: finding["text"] for finding in found["stands_out"]}


def expect_seconds(found, owner, seconds):
    """Being woken and not running is not the wait's."""
    owners = found["main"]["owners"]
    slack_ns = 0.05 * seconds * 1e9 + 20e6 + owners.get("runnable", 0)
    expect(abs(owners.get(owner, 0) - seconds * 1e9) <= slack_ns,
           "%s: %.3f s was made; %r" % (owner, seconds, owners))


@test("a thread that is blocked on a lock, and who has it", 60)
def _(t):
    _rec, found, truth = account(t, "lock")
    expect_seconds(found, "lock", truth["waited"])
    expect("lock" in said(found) and "its thread" in said(found)["lock"], "%r" % said(found))


@test("a program that sleeps", 60)
def _(t):
    _rec, found, truth = account(t, "sleep")
    expect_seconds(found, "sleep", truth["waited"])
    expect("sleep" in said(found), "%r" % said(found))


@test("a process that waits for what its children make", 60)
def _(t):
    _rec, found, truth = account(t, "data")
    expect_seconds(found, "data", truth["waited"])
    expect("data" in said(found), "%r" % said(found))


@test("another process on the same CPU", 60)
def _(t):
    rec, found, truth = account(t, "hog")
    lead = found["main"]
    off = truth["waited"] * 1e9
    runnable = lead["owners"].get("runnable", 0)
    expect(off > 0.2e9 and abs(runnable - off) <= 0.1 * off + 50e6 +
           lead["owners"].get("held", 0), "%.0f ms: %r" % (off / 1e6, lead))
    expect("no_cpu" in said(found), "%r" % said(found))
    text = t.run([EACGM, "report", rec.path])
    expect(text.status == 0 and text.out.startswith("account_job.py ran for"), "%s" % text)


def lines_with(text):
    with open(os.path.join(JOBS, "account_job.py")) as f:
        return [i for i, line in enumerate(f, 1) if text in line]


def finding(found, name):
    expect(name in said(found), "%r" % said(found))
    return next(f for f in found["stands_out"] if f["name"] == name)


@test("a child that burns the CPU of its parent is named as who has it", 60)
def _(t):
    _rec, found, truth = account(t, "hog")
    no_cpu = finding(found, "no_cpu")
    hog = [peer for peer in no_cpu["by"] if peer["pid"] == truth["hog"]]
    expect(hog and hog[0]["is"] == "child" and hog[0]["name"] == "account_job.py", "%r" % no_cpu)
    expect("its child process account_job.py (%d)" % truth["hog"] in no_cpu["text"], "%r" % no_cpu)
    expect(found["main"]["pid"] != truth["hog"] and found["main"]["cpus"] == 1, "%r" % found)
    if len(os.sched_getaffinity(0)) > 1:
        expect("it may use 1 of %d CPUs" % os.cpu_count() in no_cpu["text"], "%r" % no_cpu)


@test("what a script does beside a program that burns its CPU is the main thread", 60)
def _(t):
    cpu = min(os.sched_getaffinity(0))
    rec = t.record(["taskset", "-c", cpu, "/bin/sh", "-c",
                    "yes > /dev/null & h=$!; %s %s/account_job.py burn; kill $h" % (PYTHON, JOBS)])
    found = rec.report["account"]
    expect(found["main"]["program"] == "account_job.py", "%r" % found["main"])
    no_cpu = finding(found, "no_cpu")
    expect(any(peer["name"] == "yes" and peer["is"] == "job" for peer in no_cpu["by"]),
           "%r" % no_cpu)


@test("a stranger on the same CPU is named as one", 60)
def _(t):
    cpu = str(min(os.sched_getaffinity(0)))
    hog = t.start(["taskset", "-c", cpu, PYTHON, "-c", "while True: pass"])
    rec = t.record(["taskset", "-c", cpu, PYTHON, os.path.join(JOBS, "account_job.py"), "burn"])
    no_cpu = finding(rec.report["account"], "no_cpu")
    expect(any(peer["pid"] == hog.pid and peer["is"] == "stranger" for peer in no_cpu["by"]),
           "%d: %r" % (hog.pid, no_cpu))


@test("the quota of a cgroup is why there was no CPU", 60)
def _(t):
    for folder, file, quota in (("/sys/fs/cgroup", "cpu.max", "30000 100000"),
                                ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "30000")):
        group = os.path.join(folder, "eacgm-account-%d" % os.getpid())
        try:
            os.mkdir(group)
        except OSError:
            continue
        t.at_end.append(lambda group=group: os.rmdir(group))
        if os.path.exists(os.path.join(group, file)):
            break
    else:
        skip("no cgroup with a quota of CPU time can be made")
    with open(os.path.join(group, file), "w") as f:
        f.write(quota)
    rec = t.record(["/bin/sh", "-c", "echo $$ > %s/cgroup.procs; exec %s %s/account_job.py burn" % (
        group, PYTHON, JOBS)])
    found = rec.report["account"]
    expect(found["main"]["cpu_limit"] == 0.3, "%r" % found["main"])
    expect("its cgroup may use 0.3 CPU at once" in finding(found, "no_cpu")["text"], "%r" % found)


@test("the line that waits for a lock, and the line of who holds it", 120)
def _(t):
    _rec, found, _truth = account(t, "locks")
    lock = finding(found, "lock")
    expect("record --profile cpu,offcpu" in lock["text"] and "waits_at" not in lock, "%r" % lock)
    job = [PYTHON, os.path.join(JOBS, "account_job.py"), "locks"]
    rec = t.record(job, "--profile", "cpu,offcpu")
    lock = finding(rec.report["account"], "lock")
    waiter, holder = lines_with("# line of the waiter"), lines_with("# line of the holder")
    expect(lock["waits_at"]["line"] in waiter and lock["waits_at"]["file"] == "account_job.py",
           "%r" % lock)
    expect(holder[0] - 1 <= lock["holder_at"]["line"] <= holder[0], "%r" % lock)
    expect("account_job.py:%d" % lock["waits_at"]["line"] in lock["text"], "%r" % lock)
    expect("compute_with" in lock["text"] and str(lock["by"][0]["tid"]) in lock["text"],
           "%r" % lock)


@test("what a command leaves running is told", 60)
def _(t):
    rec, found, _truth = account(t, "begin")
    left = found["left_over"]
    expect(left and left["programs"] == [{"program": "account_job.py", "processes": 1,
                                          "pid": left["programs"][0]["pid"]}], "%r" % left)
    expect(left["more_ns"] >= 0.7e9 and not left["open"], "%r" % left)
    text = t.run([EACGM, "report", rec.path]).out
    expect("account_job.py (%d), which it had started" % left["programs"][0]["pid"] in text, text)


@test("off-cpu tells of each thread without stacks of waits, and which option takes them", 60)
def _(t):
    rec, found, _truth = account(t, "sleep")
    text = t.run([EACGM, "report", "--section", "off-cpu", rec.path])
    row = [line for line in text.out.splitlines() if
           "account_job.py (%d):" % found["main"]["pid"] in line]
    expect(text.status == 0 and row and "sleeping" in row[0], "%s" % text)
    expect("record --profile cpu,offcpu" in text.out, "%s" % text)
    rec = t.record([PYTHON, os.path.join(JOBS, "account_job.py"), "sleep"], "--waits=off")
    text = t.run([EACGM, "report", "--section", "off-cpu", rec.path])
    expect(text.status == 0 and "not recorded" in text.out, "%s" % text)


@test("a child that nobody has waited for runs no longer than it did", 60)
def _(t):
    code = """
import os, sys, time
sys.stdin.readline()
child = os.fork()
if not child:
    while time.process_time() < 0.2:
        pass
    os._exit(0)
print(child, flush=True)
sys.stdin.readline()
"""
    job = t.start([PYTHON, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    recording = t.start_record("-p", job.pid)
    job.stdin.write("\n")
    job.stdin.flush()
    child = int(job.stdout.readline())

    def stat():
        with open("/proc/%d/stat" % child) as f:
            return f.read().rsplit(")", 1)[1].split()
    t.wait_for(lambda: stat()[0] == "Z", "the child to end")
    ended = time.monotonic()
    t.wait_for(lambda: time.monotonic() > ended + 0.5, "a time in which it runs no more")
    ran_s = sum(int(ticks) for ticks in stat()[11:13]) / os.sysconf("SC_CLK_TCK")
    found = t.stop_record(recording).report["account"]
    running = [thread["running_ns"] for thread in found["threads"] if thread["pid"] == child]
    expect(running and running[0] <= (ran_s + 0.15) * 1e9, "%.2f s: %r" % (ran_s, running))
    job.stdin.close()
    programs = found["cpu_users"]["programs"]
    expect(sum(user["running_ns"] for user in programs) ==
           sum(thread["running_ns"] for thread in found["threads"]), "%r" % programs)


@test("threads beside the main one are told with their CPU time", 60)
def _(t):
    rec, found, _truth = account(t, "locks")
    others = found["cpu_users"]["other_threads"]
    expect(others and sum(user["running_ns"] for user in others) > 0.8e9,  # CPU time of a second
           "%r" % others)
    text = t.run([EACGM, "report", rec.path]).out
    expect("its other threads: " in text, text)


@test("a slow data loader of PyTorch", 180)
def _(t):
    needs_torch()
    _rec, found, truth = account(t, "loader")
    owners = found["main"]["owners"]
    expect(owners.get("data", 0) >= 0.5e9 * truth["waited"] - owners.get("runnable", 0),
           "%.2f s: %r" % (truth["waited"], owners))
    expect("data" in said(found), "%r" % said(found))


@test("a training that sleeps in front of each step is not told to wait for its batch", 180)
def _(t):
    needs_torch()
    _rec, found, truth = account(t, "sleepy")
    expect_seconds(found, "sleep", truth["waited"])
    phases = found["phases"]
    for phase in ("before", "loop", "after"):
        part = phases[phase]
        expect(sum(part["owners"].values()) == part["wall_ns"], "%s: %r" % (phase, part))
    expect(sum(phases[phase]["wall_ns"] for phase in ("before", "loop", "after")) ==
           found["main"]["wall_ns"], "%r" % phases)
    # the imports and what eacgm does then are before the loop, which sleeps
    expect(phases["before"]["owners"].get("import", 0) > 0.9 * found["main"]["owners"]["import"],
           "%r" % phases)
    loop = phases["loop"]["owners"]
    expect(max(loop, key=loop.get) == "sleep", "%r" % loop)
    expect(found["stands_out"][0]["name"] in ("sleep", "start_up"), "%r" % said(found))
    expect("load" not in said(found) and "training steps begins with" in finding(
        found, "sleep")["text"], "%r" % said(found))


if __name__ == "__main__":
    main()
