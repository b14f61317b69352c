#!/usr/bin/env python3
"""diagnose_test.py - `eacgm diagnose` of a PyTorch training on the CPU whose CPU others take, that
is interrupted by packets, or stopped by a signal: the cause, who did it, and parts that add up. Those
who do it are the test's own; they do far more than a busy machine does."""

import json
import os
import re
import signal
import subprocess
import threading
import time

import models
from cgroups import cgroup2, make_cgroup, within
from harness import EACGM, PYTHON, ROOT, expect, main, needs_torch, skip, test

OPTIONS = ["--layers", "torch"]
HOGS = 4
SECONDS, SLOW_FROM_LEAST_S, SLOW_LEAST_S = 14, 6, 5
STOPPED_S = 8

# Steps of some milliseconds on one CPU, until a time has passed or a file is there; says when its
# loop began.
JOB = """
import os, sys, time, torch
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
torch.set_num_threads(1)
x = torch.randn(64, 256)
m = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
o = torch.optim.SGD(m.parameters(), lr=1e-3)
end = time.monotonic() + float(sys.argv[1])
print("began", flush=True)
while time.monotonic() < end and not os.path.exists(sys.argv[-1]):
    for _ in range(4):
        o.zero_grad()
        m(x).sum().backward()
        o.step()
"""
# Likewise, but what a step is of comes from another thread, which waits for it: the one that makes the
# steps waits for that on a condition most of the time.
WAITING_JOB = """
import os, sys, threading, time, torch
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
torch.set_num_threads(1)
x = torch.randn(64, 256)
m = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
o = torch.optim.SGD(m.parameters(), lr=1e-3)
wanted, made = threading.Semaphore(0), threading.Semaphore(0)
def makes():
    while wanted.acquire():
        time.sleep(0.06)
        made.release()
threading.Thread(target=makes, daemon=True).start()
end = time.monotonic() + float(sys.argv[1])
print("began", flush=True)
while time.monotonic() < end and not os.path.exists(sys.argv[-1]):
    wanted.release()
    made.acquire()
    o.zero_grad()
    m(x).sum().backward()
    o.step()
"""
HOG = "import os\nos.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\nwhile True: pass"


kept = {}  # of a job: its model, as bytes, from when on and for how long runs are slow


def learned(t, job=JOB):
    """Sets t.slow_from_s and t.slow_s; returns the model's path."""
    if job not in kept:
        # what other tests take of the machine meanwhile is no fault
        model, from_s, slow_s = models.learned(
            t, lambda: t.record([PYTHON, "-c", job, str(SECONDS)], *OPTIONS, expected_out="began\n"),
            "--without", "cleaning")
        with open(model, "rb") as f:
            kept[job] = [f.read(), max(from_s, SLOW_FROM_LEAST_S), max(slow_s, SLOW_LEAST_S)]
    model = t.path("job.model")
    with open(model, "wb") as f:
        f.write(kept[job][0])
    _, t.slow_from_s, t.slow_s = kept[job]
    return model


def recorded(t, disturb, job=JOB):
    """A run that is disturbed for a while; when, on CLOCK_MONOTONIC."""
    out = t.path("run.eacgm")
    p = t.start([EACGM, "record", "-o", out, *OPTIONS, "--", PYTHON, "-c", job,
                 str(t.slow_from_s + t.slow_s + 3)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    expect(p.stdout.readline() == "began\n", "the job said nothing")
    time.sleep(t.slow_from_s)
    began = time.monotonic_ns()
    undo = disturb(t, p)
    time.sleep(t.slow_s)
    undo()
    ended = time.monotonic_ns()
    _, said = p.communicate(timeout=60)
    expect(p.returncode == 0, said)
    return out, (began, ended)


def hogs(t, _job):
    started = [t.start([PYTHON, "-c", HOG]) for _ in range(HOGS)]
    t.hogs = [p.pid for p in started]

    def undo():
        for p in started:
            p.kill()
            p.wait()
    return undo


# Programs of many names, four at a time, each for some milliseconds, as of a compilation.
CROWD = """
import os, time
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
running = 0
while True:
    if running == 4:
        os.wait()
        running -= 1
    if not os.fork():
        with open("/proc/self/comm", "w") as f:
            f.write("tool%d" % (os.getpid() % 97))
        end = time.monotonic() + 0.02
        while time.monotonic() < end:
            pass
        os._exit(0)
    running += 1
"""


def crowd(t, _job):
    group = make_cgroup(t, "crowd")
    weight = os.path.join(group, "cpu.weight")
    if os.path.exists(weight):  # else it has as much as all the session of the job
        with open(weight, "w") as f:
            f.write("10000")
    p = t.start(within(group, PYTHON, "-c", CROWD))
    t.leader, t.group = p.pid, group[len(cgroup2()):]

    def undo():
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()
    return undo


FLOOD = os.path.join(ROOT, "lab", "faults", "stress.py")


def packets(t, _job):
    """Packets of a process on another CPU, whose softirqs take the job's."""
    cpu, other = sorted(os.sched_getaffinity(0))[:2]
    p = t.start([PYTHON, FLOOD, "flood", "--duty", "0.6", "--steer", str(cpu), "--cpus",
                 str(other)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    expect(p.stdout.readline() == "ready\n", "the flood said nothing")
    p.stdin.write("\n")
    p.stdin.flush()
    if not p.stdout.readline().startswith("begun"):
        skip("no network namespace with a queue of its own can be made here")
    with open("/proc/%d/task/%d/children" % (p.pid, p.pid), encoding="ascii") as f:
        t.sender = int(f.read().split()[0])

    def undo():
        p.stdin.close()
        p.wait()
    return undo


def job_of(recorder):
    """The recorder's child that runs Python."""
    with open("/proc/%d/task/%d/children" % (recorder.pid, recorder.pid), encoding="ascii") as f:
        children = [int(word) for word in f.read().split()]
    for pid in children:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            if b"sched_setaffinity" in f.read():
                return pid
    raise AssertionError("the recorder has no child that is the job")


def stops(_t, recorder):
    pid = job_of(recorder)
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def stops_and_goes(_t, recorder):
    """For most of the time, several times a second."""
    pid, over = job_of(recorder), threading.Event()

    def act():
        while not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.25)
            os.kill(pid, signal.SIGCONT)
            over.wait(0.15)
    acts = threading.Thread(target=act)
    acts.start()

    def undo():
        over.set()
        acts.join()
    return undo


def diagnosed(t, path, model):
    r = t.run([EACGM, "diagnose", path, "-m", model, "--json"])
    expect(r.status == 0, r)
    return json.loads(r.out)


def check_sums(said):
    for i in said["incidents"] + said["steps"]:
        excess = i.get("excess_ns", i.get("cost_ns"))
        if excess > 0 and i["blame"]:
            parts = sum(p["ns"] for p in i["blame"]) + i["unexplained_ns"]
            expect(abs(parts - excess) <= 0.05 * excess + 1000, "%d of %d in %r" % (
                parts, excess, i))


def incident_in(said, was):
    """The one that has most of the time."""
    def overlap(i):
        return min(i["end_ns"], was[1]) - max(i["onset_ns"], was[0])
    found = [i for i in said["incidents"] if overlap(i) > 0]
    expect(found, "nothing was told of %r: %s" % (was, json.dumps(said)[:2000]))
    return max(found, key=overlap)


@test("who takes the job's CPU is named, with what it cost", 240)
def rivals(t):
    needs_torch()
    model = learned(t)
    path, was = recorded(t, hogs)
    said = diagnosed(t, path, model)
    i = incident_in(said, was)
    expect(i["cause"] == "cpu_contention" and i["culprit"]["kind"] == "process",
           json.dumps(i)[:3000])
    # on a busy machine others take a part of it as well
    mine = sum(p["ns"] for p in i["blame"] if any("(%d) had" % pid in p["owner"] for pid in t.hogs))
    expect(mine > 0.4 * i["cost_ns"], "hogs %r: %s" % (t.hogs, json.dumps(i)[:3000]))
    expect(0.3 * (was[1] - was[0]) < i["cost_ns"] < 1.2 * (was[1] - was[0]), i["cost_ns"])
    check_sums(said)
    text = t.run([EACGM, "diagnose", path, "-m", model])
    expect(re.search(r"^\d+\. CPU contention by .* \(\d+\)$", text.out, re.M), text)


@test("programs that take the job's CPU for a moment each are told by who leads them, with their "
      "cgroup", 240)
def many(t):
    needs_torch()
    cgroup2()  # or skip
    model = learned(t)
    path, was = recorded(t, crowd)
    i = incident_in(diagnosed(t, path, model), was)
    who = i["culprit"]
    expect(i["cause"] == "cpu_contention" and who["kind"] == "process" and
           who["pid"] == t.leader and who["cgroup"] == t.group,
           "%d, %s: %s" % (t.leader, t.group, json.dumps(i)[:3000]))
    text = t.run([EACGM, "diagnose", path, "-m", model])
    expect(re.search(r"^\d+\. CPU contention by processes of .* \(%d\)$" % t.leader, text.out,
                     re.M), text)


@test("who takes the job's CPU is told while it is taken, then that it is stopped; the report opens "
      "with it", 240)
def live(t):
    needs_torch()
    model = learned(t)
    out, done = t.path("run.eacgm"), t.path("done")
    with open(t.path("said"), "w+") as err:
        def said():
            return open(err.name).read()
        p = t.start([EACGM, "record", "-o", out, *OPTIONS, "--detect=" + model, "--", PYTHON, "-c",
                     JOB, "230", done], stdout=subprocess.PIPE, stderr=err, text=True)
        expect(p.stdout.readline() == "began\n", "the job said nothing")
        time.sleep(t.slow_from_s)
        began = time.monotonic_ns()
        undo = hogs(t, p)
        # another process of the machine may have been told of before
        hog = r"cause: CPU contention.* \((%s)\)" % "|".join(map(str, t.hogs))
        t.wait_for(lambda: re.search(hog, said()), "the cause", 100)
        t.wait_for(lambda: "do: Give the job CPUs of its own" in said(), said)
        # a fast machine tells within the first window: what is short beside the stop is no piece
        time.sleep(max(0, t.slow_s - (time.monotonic_ns() - began) / 1e9))
        undo()
        ended = time.monotonic_ns()
        go_on = stops(t, p)  # at once: what begins beside an incident has a row of its own
        time.sleep(STOPPED_S)
        go_on()
        t.wait_for(lambda: ": the job was stopped by" in said(), "the cause of a stop", 100)
        open(done, "w").close()
        expect(p.wait(timeout=60) == 0, said())
    r = t.run([EACGM, "report", out, "--json"])
    expect(r.status == 0, r)
    incidents = json.loads(r.out)["incidents"]
    stop = [i for i in incidents if i["cause"] == "stopped"]
    expect(stop and stop[0]["end_ns"] > ended and stop[0]["culprit"]["pid"] == os.getpid(),
           json.dumps(incidents)[:3000])
    told = [i for i in incidents
            if i["onset_ns"] < ended and i["end_ns"] > began and i["cause"] != "stopped"]
    expect(told, "%d to %d: %s; %s" % (
        began, ended, [(i["cause"], i["onset_ns"], i["end_ns"], i["cost_ns"]) for i in incidents],
        said()))
    i = max(told, key=lambda i: i["cost_ns"])
    expect(i["cause"] == "cpu_contention" and i["culprit"]["command"] == "python3" and
           i["culprit"]["kind"] == "process" and i["victim"]["pid"] == i["pid"] and i["ended"] and
           i["told_ns"] <= i["caused_ns"], "%d to %d: %s; %s" % (
               began, ended, [(i["cause"], i["onset_ns"], i["end_ns"], i["cost_ns"], i["told_ns"])
                              for i in incidents], json.dumps(i)))
    expect(len({i["told_ns"] for i in incidents}) == len(incidents) and
           all(i["onset_ns"] <= i["told_ns"] and i["onset_ns"] < i["end_ns"] for i in incidents),
           json.dumps(incidents)[:3000])
    text = t.run([EACGM, "report", out])
    opening = r"\nwhen it was slow, and why.*\n(?: .*\n)*? +[\d.]+ m?s +CPU contention"
    expect(text.status == 0 and re.match(opening, text.out), text.out[:1000])


@test("whose packets take the job's CPU is named")
def packets_of_others(t):
    needs_torch()
    if len(os.sched_getaffinity(0)) < 2:
        skip("one CPU")
    if os.geteuid():
        skip("needs root")
    model = learned(t)
    path, was = recorded(t, packets)
    said = diagnosed(t, path, model)
    i = incident_in(said, was)
    expect(i["cause"] == "interrupts" and i["culprit"]["kind"] == "interrupt" and
           i["culprit"]["device"] == "NET_RX" and i["culprit"]["pid"] == t.sender,
           "%d: %s" % (t.sender, json.dumps(i)[:3000]))
    text = t.run([EACGM, "diagnose", path, "-m", model])
    expect(re.search(r"^\d+\. .*: NET_RX, packets of .* \(%d\)$" % t.sender, text.out, re.M), text)


@test("a job that is stopped by a signal was stopped")
def stopped(t):
    needs_torch()
    model = learned(t)
    path, was = recorded(t, stops)
    said = diagnosed(t, path, model)
    i = incident_in(said, was)
    expect(i["cause"] == "stopped", json.dumps(i)[:3000])
    expect(i["culprit"]["kind"] == "process" and i["culprit"]["pid"] == os.getpid(),
           json.dumps(i["culprit"]))
    expect(i["cost_ns"] > 0.7 * (was[1] - was[0]), i["cost_ns"])
    check_sums(said)


@test("a job that is stopped again and again while it waits for a thread of its own did not wait for "
      "a lock", 240)
def stopped_while_it_waits(t):
    needs_torch()
    model = learned(t, WAITING_JOB)
    path, was = recorded(t, stops_and_goes, WAITING_JOB)
    said = diagnosed(t, path, model)
    i = incident_in(said, was)
    expect(i["cause"] == "stopped" and i["culprit"]["pid"] == os.getpid(), json.dumps(i)[:3000])
    check_sums(said)
    steps = [s for s in said["steps"] if s["start_ns"] >= was[0] and s["end_ns"] <= was[1]]
    expect(len(steps) >= 5, "%d slow steps" % len(steps))

    def of(words):  # whoever had it
        return sum(p["ns"] for s in steps for p in s["blame"] if words in p["owner"])
    stop, lock = of("stopped by"), of("waited for a lock")
    expect(stop > 0.2 * (was[1] - was[0]), "stopped for %d of %r" % (stop, was))
    expect(lock < 0.02 * stop, "%d for locks, stopped for %d: %s" % (
        lock, stop, json.dumps(steps[:3])[:3000]))


if __name__ == "__main__":
    main()
