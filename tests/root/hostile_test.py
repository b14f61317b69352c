#!/usr/bin/env python3
"""hostile_test.py - traced programs that attack: those beside them go on, and so does eacgm.

tests/root/jobs/attackers.py does the attacking, as user nobody. How much later others start beside it
is measured by bench/attackers.py; here they start at all, in the time of a test, which with any of
these attacks once took some seconds each."""

import json
import os
import signal
import subprocess
import sys
import time

import readers
from harness import (EACGM, expect, log_of, main, made_counts, nothing_kept, probes, target, test,
                     LIBTARGET, PUSH, usual_patience)

usual_patience()

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "attackers.py")
PYTHON = "/usr/bin/python3"
STARTS = 40  # of programs that each load a library; they were held for seconds


def attacked(t, kind, seconds, *command):
    """A recording of an attacker and of what starts beside it; how those did."""
    rec = t.record([PYTHON, JOB, kind, seconds] + list(command))
    told = json.loads(rec.ran.out.splitlines()[-1])
    expect(not told["attacker_ended"], "the attacker gave up: %s" % rec.ran.err[-500:])
    expect(len(told["starts_s"]) > seconds, "few programs started: %s" % told["starts_s"])
    return rec


@test("a library that is cut short while it is read, again and again", seconds=120)
def _(t):
    rec = attacked(t, "cut_short", 12)
    expect(rec.report["recording"]["events"] >= 0, "no report")


@test("files of 96 GB with nothing in them", seconds=120)
def _(t):
    attacked(t, "sparse", 6)


@test("the linker's hook in a loop", seconds=120)
def _(t):
    attacked(t, "debug_state", 6)


@test("60,000 mappings that change all the time", seconds=120)
def _(t):
    attacked(t, "mappings", 6)


@test("libraries and programs that nobody has run before, as fast as can be", seconds=180)
def _(t):
    attacked(t, "new_files", 6)
    attacked(t, "executables", 6)


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


@test("what has ended is given back: descriptors after 1,500 programs of their own", seconds=240)
def _(t):
    script = ("import os, shutil, subprocess, sys\n"
              "print('ready', flush=True)\n"
              "sys.stdin.readline()\n"
              "for i in range(1500):\n"
              "    p = sys.argv[1] + '/p%d' % i\n"
              "    shutil.copy('/bin/true', p)\n"
              "    subprocess.run([p], check=True)\n"
              "    os.unlink(p)\n"
              "print('done', flush=True)\n"
              "sys.stdin.readline()\n")
    job = t.start([PYTHON, "-c", script, t.dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                  text=True)
    expect(job.stdout.readline() == "ready\n", "the job began")
    rec = t.start_record("-p", job.pid)
    before = descriptors(rec.pid)
    job.stdin.write("go\n")
    job.stdin.flush()
    expect(job.stdout.readline() == "done\n", "the job did its work")
    # 512 files stay open that nobody uses, for the next who does; and as many for names
    t.wait_for(lambda: descriptors(rec.pid) < before + 1200,
               "descriptors: %d, %d before" % (descriptors(rec.pid), before))
    job.stdin.write("end\n")
    job.stdin.flush()
    t.stop_record(rec)


@test("eacgm is stopped while programs start: they wait for nothing", seconds=60)
def _(t):
    waiting = t.start(["sh", "-c", "read go; i=0; while [ $i -lt %d ]; do %s %s 1; i=$((i+1)); done"
                       % (STARTS, target("late"), LIBTARGET)],
                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    rec = t.start_record("-p", waiting.pid, *probes(PUSH))
    os.kill(rec.pid, signal.SIGSTOP)
    try:
        out, _err = waiting.communicate("go\n", timeout=40)
    finally:
        os.kill(rec.pid, signal.SIGCONT)
    expect(made_counts(out)["target_push"] == STARTS, out)
    recording = t.stop_record(rec)
    # what could not be probed in time is counted
    lost = recording.lost("late_attach")
    expect(recording.count("target_push") == STARTS or lost, "nothing was said: %s" %
           recording.report["recording"])


@test("Ctrl-C is heard beside every attacker", seconds=180)
def _(t):
    for kind in ("sparse", "mappings", "debug_state"):
        job = t.start([PYTHON, JOB, kind, 60], stdout=subprocess.DEVNULL)
        t.wait_for(lambda: children(job.pid), "the attacker to begin")
        rec = t.start_record("-p", job.pid, ready=False)
        time.sleep(3)
        rec.send_signal(signal.SIGINT)
        rec.wait(timeout=20)
        job.terminate()
        job.wait(timeout=20)


@test("Ctrl-C is heard while who reads files answers nothing", seconds=120)
def _(t):
    """As where the server of a file is away."""
    job = t.start([PYTHON, "-c", "import ctypes, sys; ctypes.CDLL(%r); sys.stdin.read()" % LIBTARGET],
                  stdin=subprocess.PIPE)
    rec = t.start_record("-p", job.pid, ready=False,
                         env=dict(os.environ, EACGM_CACHE=t.path("caches")))
    host, = t.wait_for(lambda: readers.children(rec.pid).get("eacgm-parsers"), "who makes readers")
    os.kill(host, signal.SIGSTOP)  # none was made yet: programs are to be loaded first
    time.sleep(3)
    expect("eacgm: attached to " not in log_of(rec), "it attaches without its files")
    rec.send_signal(signal.SIGINT)
    rec.wait(timeout=10)
    expect(not os.path.exists("/proc/%d" % host), "who makes readers ends with it")


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
        return f.read().split()


def status_of(pid):
    with open("/proc/%s/status" % pid, encoding="ascii") as f:
        return dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)


def family(pid):
    return [pid] + [d for c in children(pid) for d in family(int(c))]


@test("files of others are read by nobody, who may do nothing else")
def _(t):
    rec = t.start_record("-p", t.start(["sleep", "60"]).pid, env=nothing_kept(t))
    found = []

    def workers():
        found[:] = [s for s in map(status_of, family(rec.pid)) if s["Name"] == "eacgm-parser"]
        return found
    t.wait_for(workers, "a process that reads files")
    for s in found:
        expect(s["Uid"].split() == ["65534"] * 4, "user: %s" % s["Uid"])
        expect(int(s["CapEff"], 16) == 0 and int(s["CapPrm"], 16) == 0, "rights: %s" % s["CapEff"])
        expect(s["NoNewPrivs"] == "1" and s["Seccomp"] == "2", "filter: %s" % s["Seccomp"])
    t.stop_record(rec)


if __name__ == "__main__":
    raise SystemExit(main())
