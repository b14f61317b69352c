#!/usr/bin/env python3
"""session_hosts_test.py - sessions as a library: a program of its own hosts several at a time, and
each recording has what its own process did, exactly, and nothing of the others."""

import glob
import os
import subprocess

from harness import LIBTARGET, PUSH, Recording, expect, main, target, test

STOPPED, JOB_ENDED = 1, 3  # enum session_end


def read(path):
    try:
        with open(path) as f:
            return f.read()
    except FileNotFoundError:
        return ""


class Host:
    """tests/root/targets/session_hosts."""

    def __init__(self, t):
        self.t = t
        self.p = t.start([target("session_hosts"), PUSH], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)

    def tell(self, *words):
        self.p.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.p.stdin.flush()

    def await_line(self, *words):
        line = self.p.stdout.readline().split()
        expect(line[:len(words)] == [str(w) for w in words], "%r came, not %r" % (line, words))
        return line

    def start(self, how, number, path, *what):
        self.tell(how, number, path, *what)
        self.await_line("prepared" if how == "prepare" else "started", number)

    def stop(self, number, calls):
        self.tell("stop", number)
        self.await_end(number, STOPPED, calls)

    def children(self):
        """Also the dead that nobody has waited for."""
        tasks = glob.glob("/proc/%d/task/*/children" % self.p.pid)
        return [child for path in tasks for child in read(path).split()]

    def await_end(self, number, why, calls):
        """What a command prints comes before."""
        line = []
        while line[:1] != ["ended"]:
            line = self.p.stdout.readline().split()
        expect(line == [str(w) for w in ("ended", number, why, calls, 0, calls, calls)], "%r" % line)

    def end(self):
        self.p.stdin.close()
        expect(self.p.wait(timeout=30) == 0, "status %r" % self.p.returncode)


class Job:
    """A process that makes calls when it is told to, and stays. It has its library before anybody
    attaches: what is loaded later may run before its probes are there, on a busy machine."""

    CODE = ("import ctypes, sys\n"
            "push = ctypes.CDLL(sys.argv[1]).target_push\n"
            "print('ready', flush=True)\n"
            "for n in iter(sys.stdin.readline, ''):\n"
            "    for _ in range(int(n)): push(1)\n"
            "    print('target_push', int(n), flush=True)\n")

    def __init__(self, t):
        self.p = t.start(["/usr/bin/python3", "-c", self.CODE, LIBTARGET],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.p.pid
        expect(self.p.stdout.readline() == "ready\n", "the job does not begin")

    def call(self, n):
        self.p.stdin.write("%d\n" % n)
        self.p.stdin.flush()
        expect(self.p.stdout.readline() == "target_push %d\n" % n, "the job failed")

    def end(self):
        self.p.stdin.close()
        self.p.wait()


def expect_calls(t, path, calls):
    rec = Recording(t, path)
    expect(rec.count("target_push") == calls and rec.lost() == 0, "%s has %r calls, lost %r" % (
        path, rec.count("target_push"), rec.lost()))
    return rec


@test("two sessions at once, of two processes, that end at different times")
def _(t):
    host, one, two = Host(t), Job(t), Job(t)
    paths = t.path("one.eacgm"), t.path("two.eacgm")
    host.start("attach", 0, paths[0], one.pid)
    host.start("attach", 1, paths[1], two.pid)
    one.call(300)
    two.call(500)
    host.stop(0, 300)
    one.call(40)  # nobody sees
    two.call(200)
    host.stop(1, 700)
    two.call(40)
    host.end()
    one.end()
    two.end()
    pids = [{c["pid"] for c in expect_calls(t, path, calls).calls}
            for path, calls in zip(paths, (300, 700))]
    expect(pids[0].isdisjoint(pids[1]), "processes of both: %r" % (pids,))


@test("one after the other, on the same process", seconds=120)
def _(t):
    host, job = Host(t), Job(t)
    for i, calls in enumerate((300, 500)):
        path = t.path("%d.eacgm" % i)
        host.start("attach", 0, path, job.pid)
        job.call(calls)
        host.stop(0, calls)
        job.call(40)
        expect_calls(t, path, calls)
    # guards stay for ten seconds, for calls that are under way
    t.wait_for(lambda: not host.children(), "the host to have no children left", seconds=40)
    host.end()
    job.end()


@test("a command beside a process: each session ends for its own reason")
def _(t):
    host, job = Host(t), Job(t)
    host.start("attach", 0, t.path("job.eacgm"), job.pid)
    host.start("run", 1, t.path("command.eacgm"), target("family"), "fork", 3, 200)
    job.call(300)
    host.await_end(1, JOB_ENDED, 600)
    host.stop(0, 300)
    host.end()
    job.end()
    expect_calls(t, t.path("job.eacgm"), 300)
    expect_calls(t, t.path("command.eacgm"), 600)


@test("a session closes while the command of another waits to be let go")
def _(t):
    host, job = Host(t), Job(t)
    host.start("attach", 0, t.path("job.eacgm"), job.pid)
    host.start("prepare", 1, t.path("command.eacgm"), target("family"), "calls", 200)
    job.call(300)
    host.stop(0, 300)
    host.start("go", 1, "")
    host.await_end(1, JOB_ENDED, 200)
    host.end()
    job.end()
    expect_calls(t, t.path("command.eacgm"), 200)


@test("segments: each is readable alone, and all calls are in one of them, also after a kill")
def _(t):
    host, job = Host(t), Job(t)
    base = t.path("segments")
    host.start("attach", 0, base + ".eacgm", job.pid)
    made = 0
    while len(glob.glob(base + ".*.eacgm")) < 4:
        job.call(20000)
        made += 20000
    host.stop(0, made)
    files = sorted(glob.glob(base + ".*.eacgm"))
    expect(files[0].endswith(".000001.eacgm"), "%r" % files)
    recordings = [Recording(t, path) for path in files]
    expect(sum(r.count("target_push") for r in recordings) == made, "calls are missing")
    expect(all(r.report["processes"] for r in recordings), "processes are missing")
    host.start("attach", 0, base + ".eacgm", job.pid)
    job.call(300)
    later = "%s.%06d.eacgm" % (base, len(files) + 1)
    t.wait_for(lambda: os.path.exists(later) and Recording(t, later).count("target_push") == 300,
               "what was flushed")
    t.kill(host.p)
    job.end()
    expect(Recording(t, later).count("target_push") == 300, "the kill took it away")


if __name__ == "__main__":
    raise SystemExit(main())
