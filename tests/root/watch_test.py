#!/usr/bin/env python3
"""watch_test.py - `eacgm watch` under a terminal of its own (pty): the screen comes and shows what
the job does, keys and signals end it, the terminal is as before, and the job never notices."""

import fcntl
import json
import os
import pty
import re
import resource
import select
import signal
import struct
import subprocess
import termios
import time

from harness import (EACGM, LIBTARGET, PYTHON, TimedOut, expect, expect_one_line, main, needs_torch,
                     probes, skip, target, test)

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "rhythm_job.py")
ROWS, COLUMNS = 24, 100
CALLS = probes("libtarget.so:target_push(u64 a) -> u64")


class Terminal:
    """A pty with a command in it, and what its screen shows."""

    def __init__(self, t, args, rows=ROWS, columns=COLUMNS, locale="C.UTF-8"):
        self.rows, self.columns = rows, columns
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        env = dict(os.environ, TERM="xterm-256color", LC_ALL=locale, TZ="UTC")
        self.p = t.start(args, stdin=self.slave, stdout=self.slave, stderr=self.slave, env=env,
                         preexec_fn=self.in_terminal)
        self.bytes = b""
        self.t = t

    @staticmethod
    def in_terminal():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def await_frame_that_fits(self, seconds=25):
        """Frames of the size before may be on their way, one of which may fit by chance: what came
        before the first that fits of those after the third is left out."""
        end = time.monotonic() + seconds
        self.bytes = b""
        while True:
            frames = self.bytes.split(b"\x1b[H")
            lines = re.sub(r"\x1b\[\??[0-9;]*[A-Za-z]", "", frames[-2].decode(
                "utf-8", "replace")).split("\n") if len(frames) > 5 else []
            if lines and len(lines) <= self.rows and all(
                    len(line.rstrip("\r")) <= self.columns for line in lines):
                self.bytes = b"\x1b[H" + b"\x1b[H".join(frames[-2:])
                return
            expect(time.monotonic() < end, "no frame fits %d columns: %r" % (
                self.columns, self.bytes[-900:]))
            self.read()

    def read(self, seconds=0.1):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            self.bytes += os.read(self.master, 65536)

    def key(self, text):
        os.write(self.master, text)

    def grid(self):
        """What is shown, as lines; only what eacgm writes is understood."""
        text = self.bytes.decode("utf-8", "replace")
        text = text[max(text.rfind("\x1b[?1049h"), 0):]
        grid = [[" "] * self.columns for _ in range(self.rows)]
        row = column = 0
        whole = grid
        for m in re.finditer(r"\x1b\[(\??[0-9;]*)([A-Za-z])|(.)", text, re.S):
            if m.group(2) == "H":
                whole = [line[:] for line in grid]
                row = column = 0
            elif m.group(2) in ("K", "J"):
                grid[row][column:] = [" "] * (self.columns - column)
                if m.group(2) == "J":
                    grid[row + 1:] = [[" "] * self.columns for _ in range(row + 1, self.rows)]
            elif m.group(3) == "\r":
                column = 0
            elif m.group(3) == "\n":
                expect(row + 1 < self.rows, "the screen scrolls")
                row += 1
            elif m.group(3):
                expect(column < self.columns, "a line is wider than %d: %r" % (
                    self.columns, "".join(grid[row])))
                grid[row][column] = m.group(3)
                column += 1
        return ["".join(line).rstrip() for line in whole]

    def shows(self, pattern):
        """The first line that has the pattern."""
        for line in self.grid():
            if re.search(pattern, line):
                return line
        return None

    def wait_for(self, pattern, seconds=25):
        end = time.monotonic() + seconds
        while not self.shows(pattern):
            if time.monotonic() > end or self.p.poll() is not None:
                raise TimedOut("not on the screen: %r\n%s\n%r" % (
                    pattern, "\n".join(self.grid()), self.bytes[-300:]))
            self.read()
        return self.shows(pattern)

    def end(self, seconds=20):
        end = time.monotonic() + seconds
        while self.p.poll() is None:
            expect(time.monotonic() < end, "it does not end: %s" % "\n".join(self.grid()))
            self.read()
        while select.select([self.master], [], [], 0.2)[0]:
            self.bytes += os.read(self.master, 65536)
        return self.p.returncode

    def expect_restored(self):
        tail = self.bytes.rsplit(b"\x1b[?1049h", 1)[-1]
        expect(b"\x1b[?1049l" in tail and b"\x1b[?25h" in tail,
               "screen or cursor are not given back: %r" % tail[-200:])
        expect(termios.tcgetattr(self.slave) == self.before, "the terminal's settings differ")


CALLER = """
import ctypes, sys, time
push = ctypes.CDLL(sys.argv[1]).target_push
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    push(1)
    time.sleep(0.001)
"""


def start_calls(t, seconds=25):
    """A process that calls target_push some hundred times a second."""
    job = t.start([PYTHON, "-c", CALLER, LIBTARGET, seconds])
    t.wait_for(lambda: "libtarget" in open("/proc/%d/maps" % job.pid).read(), "its library")
    return job


@test("the screen shows calls, steps and cost of a training; q ends it, the job goes on", 60)
def _(t):
    needs_torch()
    job = t.start([PYTHON, JOB, "50"], stdout=subprocess.PIPE, text=True,
                  env=dict(os.environ, RHYTHM_UNTIL=t.path("enough")))
    time.sleep(3)
    w = Terminal(t, [EACGM, "watch", "-p", job.pid])
    # calls a second; there are fewer at first
    w.wait_for(r"^torch +(?:[5-9][0-9]|[1-9][0-9]{2}|[1-9][0-9,]+[0-9]{3}) ")
    steps = w.wait_for(r"^steps +\d+  last .* training")
    expect("pid %d" % job.pid in steps, steps)
    phases = w.wait_for(r"^phases +rhythm_job.py ")
    expect(re.match(r"phases +rhythm_job.py \(%d\): [1-9][0-9,]* of training, [0-9.]+ ms each on "
                    r"average" % job.pid, phases), phases)
    for phase in ("forward", "backward"):  # a line may be broken between the two
        line = w.wait_for(phase + r" [0-9]+ %")
        share = int(re.search(phase + r" ([0-9]+) %", line).group(1))
        expect(35 <= share <= 65, "eight sleeps each: %s" % line)
    median = re.search(r"median ([0-9.]+) ms", steps)
    expect(median and 15 < float(median.group(1)) < 200, "16 sleeps of 1 ms a step: %s" % steps)
    w.wait_for(r"^cost .*of the job's CPU time")
    w.wait_for(r"^lost    nothing")
    w.wait_for(r"^anomalies  learning")
    w.key(b"q")
    expect(w.end() == 0, "exit status %d" % w.p.returncode)
    w.expect_restored()
    expect(b"eacgm: watched " in w.bytes, "%r" % w.bytes[-200:])
    expect(job.poll() is None, "the job has ended")
    open(t.path("enough"), "w").close()
    out, _ = job.communicate(timeout=40)
    expect(job.returncode == 0 and out.startswith("steps "), "the job: %s %s" % (
        job.returncode, out))


@test("without a terminal the steps of each process have a line for each interval", 60)
def _(t):
    needs_torch()
    jobs = [t.start([PYTHON, JOB, "40"], stdout=subprocess.DEVNULL) for _i in range(2)]
    pids = ",".join(str(job.pid) for job in jobs)
    t.wait_for(lambda: all("libtorch_cpu" in open("/proc/%d/maps" % job.pid).read()
                           for job in jobs), "PyTorch")
    out = t.path("out")
    with open(out, "w") as f:
        w = t.start([EACGM, "watch", "-p", pids], stdout=f)

    def told():
        found = re.findall(r"^steps of rhythm_job.py \((\d+)\): [1-9][0-9,]* of training, .* each "
                           r"on average: .*forward \d+ %.*backward \d+ %", open(out).read(), re.M)
        return all(found.count(str(job.pid)) >= 2 for job in jobs)
    t.wait_for(told, "two intervals of both jobs", 40)
    w.send_signal(signal.SIGINT)
    w.wait()


@test("Ctrl-C and SIGTERM give the terminal back; a new size is drawn anew, ASCII where asked", 60)
def _(t):
    job = start_calls(t)
    for sig in (signal.SIGINT, signal.SIGTERM):
        w = Terminal(t, [EACGM, "watch", "-p", job.pid, "--layers", "user", *CALLS],
                     locale="C.UTF-8" if sig == signal.SIGINT else "C")
        w.wait_for(r"^user +[1-9]")
        if sig == signal.SIGINT:
            w.wait_for("▁|▂|▃|▄|▅|▆|▇|█")
            w.resize(12, 60)
            w.await_frame_that_fits()
            w.wait_for(r"^user +[1-9]")
            expect(max(len(line) for line in w.grid()) <= 60, "\n".join(w.grid()))
            w.key(b"\x03")
        else:
            w.wait_for(r"[_.:=+*#-]{3}")
            expect("".join(w.grid()).isascii(), "\n".join(w.grid()))
            w.p.send_signal(sig)
        expect(w.end() == 0, "exit status %d" % w.p.returncode)
        w.expect_restored()
        if sig == signal.SIGINT:
            expect(w.bytes.rstrip().split(b"\x1b[?1049l")[-1].strip().startswith(b"eacgm: watched"),
                   "%r" % w.bytes[-200:])
    expect(job.poll() is None, "the job has ended")


@test("what ends it at once gives the terminal back as well")
def _(t):
    job = start_calls(t)
    for sig, key in ((signal.SIGQUIT, b"\x1c"), (signal.SIGABRT, None)):
        w = Terminal(t, [EACGM, "watch", "-p", job.pid, "--layers", "user", *CALLS])
        w.wait_for(r"^user +[1-9]")
        if key:
            w.key(key)
        else:
            w.p.send_signal(sig)
        expect(w.end() == -sig, "exit status %d" % w.p.returncode)
        w.expect_restored()
    expect(job.poll() is None, "the job has ended")


@test("without a terminal a line a second; -d ends it; the job is untouched")
def _(t):
    job = start_calls(t)
    r = t.run([EACGM, "watch", "-p", job.pid, "-d", "4", "--layers", "user", *CALLS])
    expect(r.status == 0, r)
    lines = [line for line in r.out.splitlines() if re.match(r"\d:\d\d:\d\d ", line)]
    times = [line.split()[0] for line in lines]
    expect(2 <= len(lines) <= 5 and times == sorted(set(times)), r)
    expect(re.search(r"user [1-9][0-9,]*/s", lines[-1]) and "lost 0" in lines[-1], r)
    expect("\x1b" not in r.out, repr(r.out))
    expect(job.poll() is None, "the job has ended")


@test("what is lost is one figure, while it is watched and at the end")
def _(t):
    if "session links" not in t.run([EACGM, "doctor"]).out:
        skip("calls on an alternate stack are left out by session links alone")
    go = t.path("go")
    script = "while [ ! -e %s ]; do sleep 0.1; done; %s; sleep 3" % (go, target("altstack"))
    job = t.start(["sh", "-c", script], stdout=subprocess.DEVNULL)
    err = t.path("err")
    with open(err, "w") as said:
        w = t.start([EACGM, "watch", "-p", job.pid, *probes("altstack:trace_*")],
                    stdout=subprocess.PIPE, stderr=said, text=True)
    t.wait_for(lambda: "attached to" in open(err).read(), "watch to attach")
    open(go, "w").close()
    out, _none = w.communicate(timeout=40)
    shown = [re.search(r"lost ([0-9]+)", line) for line in out.splitlines()]
    end = re.search(r"calls, lost ([0-9]+)", open(err).read())
    expect(end and shown[-1] and int(end.group(1)) > 0 and shown[-1].group(1) == end.group(1),
           "%s\n%s" % (out, open(err).read()))


@test("--json prints nothing but anomalies")
def _(t):
    job = start_calls(t)
    r = t.run([EACGM, "watch", "-p", job.pid, "-d", "2", "--json", "--layers", "user", *CALLS])
    expect(r.status == 0, r)
    for line in r.out.splitlines():
        expect(set(json.loads(line)) >= {"start_ns", "end_ns", "layer", "name", "why"}, line)


@test("it ends when the job does")
def _(t):
    job = start_calls(t, 3)
    r = t.run([EACGM, "watch", "-p", job.pid, "--layers", "user", *CALLS])
    expect(r.status == 0 and "eacgm: watched " in r.err, r)
    expect(job.wait(timeout=5) == 0, "the job: %s" % job.returncode)


@test("a reader who stands still holds up neither Ctrl-C nor the end: pipe and screen", 60)
def _(t):
    job = start_calls(t, 50)
    watch = [EACGM, "watch", "-p", job.pid, "--layers", "user", *CALLS]
    unread, full = os.pipe()
    t.at_end.append(lambda: os.close(unread))
    fcntl.fcntl(full, fcntl.F_SETPIPE_SZ, 4096)
    os.write(full, b"x" * 4096)
    for kind in ("lines", "json"):
        err = open(t.path(kind), "w+")
        w = t.start([*watch, *(["--json"] if kind == "json" else [])], stdout=full, stderr=err)
        t.wait_for(lambda: "attached to" in open(err.name).read(), "tracing")
        time.sleep(3)  # lines come, and are not taken
        w.send_signal(signal.SIGTERM)
        expect(w.wait(timeout=20) == 0, open(err.name).read())
        said = open(err.name).read()
        expect("eacgm: watched" in said, said)
        expect(kind == "json" or re.search(r"[2-9] lines were not printed", said), said)
    os.close(full)
    s = Terminal(t, watch)
    s.wait_for(r"^user +[1-9]")
    termios.tcflow(s.slave, termios.TCOOFF)
    time.sleep(2)
    s.p.send_signal(signal.SIGTERM)
    s.p.wait(timeout=20)
    expect(s.p.returncode == 0, "exit status %d" % s.p.returncode)
    expect(termios.tcgetattr(s.slave) == s.before, "the terminal's settings differ")


@test("a full disk is a failure, a reader who goes is none")
def _(t):
    job = start_calls(t, 50)
    watch = [EACGM, "watch", "-p", job.pid, "--layers", "user", *CALLS]
    with open("/dev/full", "w") as full:
        w = t.finish(t.start(watch, stdout=full, stderr=subprocess.PIPE, text=True), 20)
    expect(w.status == 1 and "standard output: No space left" in w.err, w)
    unread, out = os.pipe()
    os.close(unread)
    w = t.finish(t.start(watch, stdout=out, stderr=subprocess.PIPE, text=True), 20)
    os.close(out)
    expect(w.status == 0 and "eacgm: watched" in w.err, w)
    expect(job.poll() is None, "the job ended")


THREADS = """
import ctypes, sys, threading, time
push = ctypes.CDLL(sys.argv[1]).target_push
sys.stdin.readline()
for part in (8000, 16000):
    for _ in range(part):
        t = threading.Thread(target=push, args=(1,))
        t.start()
        t.join()
    print(part, flush=True)
    sys.stdin.readline()
"""


def anonymous_kb(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("RssAnon"))


@test("threads that have ended leave nothing but their rows: 24,000 of them take no more than 8,000")
def _(t):
    job = t.start([PYTHON, "-c", THREADS, LIBTARGET], stdin=subprocess.PIPE,
                  stdout=subprocess.PIPE, text=True)
    t.wait_for(lambda: "libtarget" in open("/proc/%d/maps" % job.pid).read(), "its library")
    with open(t.path("err"), "w+") as err:
        w = t.start([EACGM, "watch", "-p", job.pid, "--json", "--layers", "user", *CALLS],
                    stdout=subprocess.DEVNULL, stderr=err)
        t.wait_for(lambda: "attached to" in open(err.name).read(), "tracing")
        memory = []
        for part in ("8000", "16000"):
            print(file=job.stdin, flush=True)
            expect(job.stdout.readline().strip() == part, "the job ended")
            memory.append(anonymous_kb(w.pid))
        print(file=job.stdin, flush=True)
        expect(w.wait(timeout=20) == 0, open(err.name).read())
        calls = re.search(r"([0-9,]+) calls, lost 0", open(err.name).read())
        expect(calls and calls.group(1) == "24,000", open(err.name).read())
    # the last rows are kept, for causes: of each call with its thread some 300 bytes
    expect(memory[1] < memory[0] + 2048 + 16000 * 300 // 1024,
           "kB after 8,000 and 24,000: %r" % memory)


# A shell takes a third of the time for it that Python does.
FORKS = """
while read go; do
    i=0
    while [ $i -lt 3000 ]; do (:); i=$((i + 1)); done
    echo done
done
"""


SLOW_ROUNDS, SLOW_S = 4, 15
# Stacks that are sampled meanwhile are kept, and new ones come for long. What a process leaves would
# be more: its row alone is.
BYTES_OF_EACH = 64


def sampled_kb(rounds):
    return rounds * 3000 * BYTES_OF_EACH // 1024


@test("processes that have ended leave nothing: after some thousands, more take no more memory", 240)
def _(t):
    job = t.start(["sh", "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with open(t.path("err"), "w+") as err:
        # The parent's waits for each would be rows, the last of which are kept, for causes.
        w = t.start([EACGM, "watch", "-p", job.pid, "--json", "--waits=off"],
                    stdout=subprocess.DEVNULL, stderr=err)
        t.wait_for(lambda: "attached to" in open(err.name).read(), "tracing")
        memory = [anonymous_kb(w.pid)]
        rounds = [time.monotonic()]

        def grows_no_more():
            print(file=job.stdin, flush=True)
            expect(job.stdout.readline() == "done\n", "the job ended")
            memory.append(anonymous_kb(w.pid))
            rounds.append(time.monotonic())
            if len(rounds) == SLOW_ROUNDS and rounds[-1] - rounds[0] > SLOW_S:
                skip("%d processes take %.0f s here: what is sampled meanwhile is kept, and is more" % (
                    3000 * (SLOW_ROUNDS - 1), rounds[-1] - rounds[0]))
            return len(memory) > 6 and memory[-1] < memory[-6] + sampled_kb(5)

        # They are known for 10 s after their end: how many that are is the machine's speed.
        t.wait_for(grows_no_more, "memory that stays", 200)
        known = 3000 * max(sum(began <= end <= began + 11 for end in rounds) for began in rounds)
        bound = memory[0] + 4096 + known * 3 // 4 + sampled_kb(len(memory))
        expect(max(memory) < bound, "%d are known, kB after each 3,000: %r" % (
            known, memory))
        job.stdin.close()
        expect(w.wait(timeout=20) == 0, open(err.name).read())


@test("wrong use: one line, and no terminal is touched")
def _(t):
    expect_one_line(t.run([EACGM, "watch", "-p", "4194304"]), "no process")
    expect_one_line(t.run([EACGM, "watch"]), "target", status=2)
    expect_one_line(t.run([EACGM, "watch", "-p", os.getpid(), "-m", "/nowhere"]), "/nowhere")
    w = Terminal(t, [EACGM, "watch", "-p", "4194304"])
    expect(w.end() == 1, "exit status %d" % w.p.returncode)
    expect(b"\x1b" not in w.bytes and b"no process" in w.bytes, repr(w.bytes))


if __name__ == "__main__":
    raise SystemExit(main())
