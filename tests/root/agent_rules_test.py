#!/usr/bin/env python3
"""agent_rules_test.py - `eacgm agent` with rules by job: who is left alone, of whom some layers
alone are traced, when the rule is looked for, and what is told of it."""

import json
import os
import shutil
import signal
import time

from agents import Agent, start_in
from bpf_maps import Map
from cgroups import make_cgroup
from harness import (EACGM, LIBTARGET, PYTHON, expect, expect_one_line, main, needs_sessions, skip,
                     target, test)

CATALOG = """catalog: 1
layer: mylib
libraries: ["libtarget.so", "_greenlet_like.so"]
probes:
  - id: mylib.push
    symbols: target_push
  - id: mylib.rest
    layer: other
    symbols: target_nop
"""
RULES = """
rules:
  - match: {command: "*calls threads 303 1*"}
    trace: true
  - match: {command: "*calls * 301 *", cgroup: "*-rules"}
    trace: false
  - match: {command: "* left-alone"}
    trace: false
  - match: {command: "*calls * 302 *", user: 0}
    layers: [mylib]
  - match: {command: "* some-layers"}
    layers: other
  - match: {command: "*calls threads 303 *", user: 4294967294}
    trace: false
"""
# A program that calls from a process that it forked.
FORKS = """import ctypes, os, sys
lib = ctypes.CDLL(sys.argv[1])
if not os.fork():
    for i in range(50):
        lib.target_push(i)
        lib.target_nop(i)
    os._exit(0)
os.wait()
"""
# One that calls, is a job, and becomes a program that waits.
BECOMES = """import ctypes, os, sys, time
lib = ctypes.CDLL(sys.argv[1])
while not os.path.exists(sys.argv[2]):
    lib.target_push(1)
    time.sleep(0.01)
os.execv("/bin/sh", ["sh", "-c", "while [ ! -e %s ]; do sleep 0.05; done" % sys.argv[3], "left-alone"])
"""
# One that loads libraries one after another, and calls the last.
LOADS = """import ctypes, sys
for path in sys.argv[1:]:
    lib = ctypes.CDLL(path)
lib.target_push(1)
"""


def agent(t, group=None, *options):
    with open(t.path("mylib.yaml"), "w") as f:
        f.write(CATALOG)
    with open(t.path("agent.yaml"), "w") as f:
        f.write(RULES)
    return Agent(t, "--budget", "100%", "--catalog", t.path("mylib.yaml"), "-c",
                 t.path("agent.yaml"), *options, group=group or make_cgroup(t, "rules"))


def calls(a, pid=None):
    """{(pid, layer): calls}, or {layer: calls} of one."""
    rows = {}
    for labels, v in a.samples().get("eacgm_calls_total", []):
        key = (int(labels["pid"]), labels["layer"])
        rows[key] = rows.get(key, 0) + v
    return rows if pid is None else {layer: v for (p, layer), v in rows.items() if p == pid}


def run(t, a, *args):
    job = start_in(t, a.group, *args)
    expect(job.wait(30) == 0, "the job ended with %d" % job.returncode)
    return job.pid


def expect_calls(t, a, pid, **layers):
    t.wait_for(lambda: calls(a, pid) == layers, lambda: "%r: %r" % (layers, calls(a)))


def expect_none_so_far(t, a, *pids):
    """What a job calls after them has come: so would theirs have."""
    later = run(t, a, target("calls"), "threads", "300", "2")
    expect_calls(t, a, later, mylib=600, other=600)
    theirs = {key: v for key, v in calls(a).items() if key[0] in pids}
    expect(not theirs, "calls of who is left alone: %r" % theirs)


@test("one job is traced, one is left alone, of one a layer alone is traced, each of its calls",
      seconds=90)
def _(t):
    a = agent(t)
    for _turn in range(3):  # in the first one files are new, and who maps them waits in any case
        whole = run(t, a, target("calls"), "threads", "300", "2")
        alone = run(t, a, target("calls"), "threads", "301", "2")
        some = run(t, a, target("calls"), "threads", "302", "2")
        expect_calls(t, a, whole, mylib=600, other=600)
        expect_calls(t, a, some, mylib=604)
        expect_none_so_far(t, a, alone)
    first = run(t, a, target("calls"), "threads", "303", "1")
    last = run(t, a, target("calls"), "threads", "303", "2")
    expect_calls(t, a, first, mylib=303, other=303)
    expect_calls(t, a, last, mylib=606, other=606)
    a.end()


@test("jobs that run before the agent are under its rules, and are told with the rule's number")
def _(t):
    group, end = make_cgroup(t, "rules"), t.path("end")
    start = [start_in(t, group, target("calls"), "until", end, "1", "20", *word)
             for word in ((), ("left-alone",), ("some-layers",))]
    whole, alone, some = (p.pid for p in start)

    def runs(pid):
        with open("/proc/%d/maps" % pid) as f:
            return "libtarget" in f.read()
    t.wait_for(lambda: runs(whole) and runs(alone) and runs(some), "three jobs")
    a = agent(t, group, "--detect")
    t.wait_for(lambda: {pid for pid, _layer in calls(a)} >= {whole, some}, "calls of both")
    expect_none_so_far(t, a, alone)
    expect(set(calls(a, whole)) == {"mylib", "other"}, calls(a))
    expect(set(calls(a, some)) == {"other"}, calls(a))

    def rules():
        return {job["pid"]: job["rule"] for job in json.loads(a.get("/api/v1/jobs")[0])["jobs"]}
    t.wait_for(lambda: rules() == {whole: None, some: 5}, lambda: "jobs: %r" % rules())

    def under():
        return {(labels["rule"], labels["trace"]): v
                for labels, v in a.samples()["eacgm_rule_processes"]}
    told = {(str(i), "false" if i in (2, 3, 6) else "true"): 0 for i in range(1, 7)}
    expect(under() == {**told, ("3", "false"): 1, ("5", "true"): 1}, under())
    expect(not [row for name, rows in a.samples().items() for row in rows
                if row[0].get("pid") == str(alone)], "a metric of who is left alone")
    open(end, "w").close()
    for p in start:
        p.wait(20)
    t.wait_for(lambda: under() == told, lambda: "their ends: %r" % under())
    a.end()


@test("the rule is looked for again when another program runs, and is a forked child's too")
def _(t):
    a = agent(t)
    run(t, a, target("calls"), "threads", "300", "2")
    # the shell is under a rule, what it becomes is not, and the other way round
    other = run(t, a, "sh", "-c", "exec %s threads 300 1" % target("calls"), "left-alone")
    alone = run(t, a, "sh", "-c", "exec %s threads $((300+1)) 1" % target("calls"), "sh")
    expect_calls(t, a, other, mylib=300, other=300)
    expect_none_so_far(t, a, alone)
    before = set(calls(a))
    run(t, a, PYTHON, "-c", FORKS, LIBTARGET, "left-alone")
    run(t, a, PYTHON, "-c", FORKS, LIBTARGET, "some-layers")
    t.wait_for(lambda: set(calls(a)) - before, "calls of a child")
    expect_none_so_far(t, a)
    new = {key: v for key, v in calls(a).items() if key not in before and v != 600}
    expect([(layer, v) for (_pid, layer), v in new.items()] == [("other", 50)], new)
    a.end()


@test("a job that becomes a program that is left alone is a job no more, and nothing is counted of it")
def _(t):
    a = agent(t)
    go, end = t.path("go"), t.path("end")
    p = start_in(t, a.group, PYTHON, "-c", BECOMES, LIBTARGET, go, end)

    def jobs():
        return [job["pid"] for job in json.loads(a.get("/api/v1/jobs")[0])["jobs"]]
    t.wait_for(lambda: p.pid in jobs(), lambda: "its calls: %r" % calls(a))
    open(go, "w").close()
    t.wait_for(lambda: p.pid not in jobs(), lambda: "no job: %r" % jobs())
    expect_none_so_far(t, a)
    expect(p.pid not in jobs(), "a job again")
    counted = {name for name, rows in a.samples().items() for labels, _v in rows
               if labels.get("pid") == str(p.pid)}
    expect(not [name for name in counted if name.startswith("eacgm_process_")], counted)
    open(end, "w").close()
    expect(p.wait(20) == 0, "its end")
    a.end()


@test("a job is held once for its rule, not for each library with probes that it loads")
def _(t):
    if tuple(int(n) for n in os.uname().release.split(".")[:2]) < (6, 7):
        skip("before Linux 6.7 programs cannot see what a process has mapped")
    a = agent(t)
    libs = []
    for i in range(6):
        os.mkdir(t.path("lib%d" % i))
        libs.append(t.path("lib%d/libtarget.so" % i))
        shutil.copy(LIBTARGET, libs[-1])

    def holds():
        return a.samples()["eacgm_holds_total"][0][1]

    def load():
        pid = run(t, a, PYTHON, "-c", LOADS, *libs)
        expect_calls(t, a, pid, mylib=1)

    def rested():
        before = holds()
        time.sleep(2)  # longer than the figure is old
        return holds() == before
    load()  # files are new: it is held for them
    t.wait_for(rested, "holds to be told")
    before = holds()
    for _turn in range(4):
        load()
    t.wait_for(lambda: holds() >= before + 4, lambda: "%d holds" % (holds() - before))
    t.wait_for(rested, "holds to be told")
    expect(holds() < before + 2 * 4, "%d holds of 4 jobs" % (holds() - before))
    a.end()


@test("a table of rules' processes that is full of ended ones has room for one that runs")
def _(t):
    a = agent(t)
    table = Map(a.p.pid, "excluded")
    last = int(open("/proc/sys/kernel/pid_max").read())
    table.fill(range(last + 1, last + 1 + table.room), 1)  # nobody has such a number
    expect(len(table.keys()) == table.room, "%d entries" % len(table.keys()))
    some = run(t, a, target("calls"), "threads", "300", "2", "some-layers")
    expect_calls(t, a, some, other=600)
    expect(len(table.keys()) < table.room, "%d entries" % len(table.keys()))
    expect(a.samples()["eacgm_rule_failures_total"] == [({}, 0)], a.said())
    table.close()
    a.end()


@test("a process whose rule finds no room is traced and told, counted once and said once")
def _(t):
    a = agent(t)
    table = Map(a.p.pid, "excluded")
    table.freeze()
    table.close()
    # each under a rule as a shell too, before it executes the program
    call = "exec %s threads %s 2 some-layers"
    some = run(t, a, "sh", "-c", call % (target("calls"), "300"), "sh", "some-layers")
    expect_calls(t, a, some, mylib=600, other=600)
    alone = run(t, a, "sh", "-c", call % (target("calls"), "301"), "sh", "left-alone")
    expect_calls(t, a, alone, mylib=602, other=602)
    later = run(t, a, target("calls"), "threads", "300", "2")
    expect_calls(t, a, later, mylib=600, other=600)
    expect(a.samples()["eacgm_rule_failures_total"] == [({}, 2)], a.samples())
    expect(a.said().count(" is traced against its rule") == 1, a.said())
    a.end()


@test("a job that return probes would harm, and that finds no room, has all probes taken off")
def _(t):
    needs_sessions(t)
    lib = t.path("_greenlet_like.so")
    shutil.copy(LIBTARGET, lib)
    a = agent(t)
    table = Map(a.p.pid, "excluded")
    table.freeze()
    table.close()
    end = t.path("end")
    other = start_in(t, a.group, target("calls"), "until", end, "1", "20")
    t.wait_for(lambda: calls(a, other.pid), "calls")
    run(t, a, target("late"), lib, "5", "target_nop")

    def rests():
        before = calls(a, other.pid)
        time.sleep(1)
        return calls(a, other.pid) == before
    t.wait_for(rests, "no call any more")
    open(end, "w").close()
    other.wait(20)
    a.end()


@test("a job of which a layer alone is traced is left alone for its safety as any other")
def _(t):
    needs_sessions(t)
    lib = t.path("_greenlet_like.so")
    shutil.copy(LIBTARGET, lib)
    a = agent(t)
    switches = run(t, a, target("late"), lib, "5", "target_nop", "some-layers")
    expect_none_so_far(t, a, switches)
    safe = t.path("libtarget.so")
    shutil.copy(LIBTARGET, safe)
    other = run(t, a, target("late"), safe, "5", "target_nop", "some-layers")
    expect_calls(t, a, other, other=5)
    a.end()


@test("a rule that is none, or of a layer that is not traced, is told in one line with its place")
def _(t):
    path = t.path("agent.yaml")

    def fails(text, *words):
        with open(path, "w") as f:
            f.write(text)
        expect_one_line(t.run([EACGM, "agent", "-c", path]), *words, status=2)
    fails("rules:\n  - match: {comand: x}\n    trace: false\n",
          path + ":2:13: rules.match.comand: unknown key, did you mean 'command'?")
    fails("rules:\n  - match: {command: x}\n    layers: [cuda, cudda]\n", path + ":2:5: rules: ",
          "there is no layer 'cudda'")
    fails("layers: [nccl]\nrules:\n  - match: {command: x}\n    layers: cuda\n",
          path + ":3:5: rules: ", "the layer 'cuda' is traced of no job")


@test("SIGHUP: another rule ends the agent, to be started again; the same one does not")
def _(t):
    a = agent(t)

    def hangup(says):
        os.kill(a.p.pid, signal.SIGHUP)
        t.wait_for(lambda: says in a.said(), a.said)
    hangup("SIGHUP: nothing has changed")
    with open(t.path("agent.yaml"), "w") as f:
        f.write(RULES.replace("301", "305"))
    hangup("SIGHUP: ends, to be started again with another --rule")
    expect(a.p.wait(30) == 0, a.said())


if __name__ == "__main__":
    main()
