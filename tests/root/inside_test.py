#!/usr/bin/env python3
"""inside_test.py - calls that are told inside of the job's processes (record --probes inprocess):
the job does what it does untraced, whatever it does with its arguments, frames, signals, threads,
processes and libraries, and what is recorded is what the kernel's probes record."""

import collections
import itertools
import json
import os
import re
import shutil
import signal
import time

import pythons
from harness import (EACGM, LIBTARGET, Recording, expect, log_of, main, size_of, skip, target,
                     test)

JOB = target("inside_job")
LIBRARY = target("libinside_torture.so")
PYTHON = os.environ.get("EACGM_TEST_PYTHON", "/usr/bin/python3")
KERNEL, INSIDE = ("--probes", "kernel"), ("--probes", "inprocess")

CATALOG = """catalog: 1
layer: torch
libraries: ["libinside_torture.so*"]
probes:
  - id: torture.any
    symbols: ["_Z*t_p_*", "t_p_*", "_ZN7torture*"]
  - id: torture.numbers
    symbols: ["_Z*t_v2_*"]
    signature: "(u64 a, u64 b) -> u64"
"""

# Around a call that takes longer than 0.1 s readers tell by times what lies in it
# (docs/developers/inside.md): so do these tests, a good while before.
TOLD_BY_TIMES_NS = 60_000_000

# Calls that were made and are in no recording, by what the recording says.
UNTOLD = ("ring_full", "signal_stack", "stack_full", "inside_full", "inside_deep",
          "inside_elsewhere", "inside_thread", "inside_record")


def options(t, *more):
    if not os.path.exists(JOB):
        skip("%s is not built" % JOB)
    path = t.path("torture.yaml")
    with open(path, "w") as f:
        f.write(CATALOG)
    return ("--catalog", path, "--layers", "torch", "--profile", "off", "--waits", "off", *more)


class Calls:
    """What a recording holds. Only of libinside_torture.so unless layer is given."""

    def __init__(self, t, rec, layer="torch"):
        self.rec = rec
        out = t.path("calls%d.jsonl" % len(t.started))
        r = t.run([EACGM, "export", rec.path, "-f", "jsonl", "-o", out])
        expect(r.status == 0, "export failed: %s" % r)
        with open(out) as f:
            rows = [json.loads(line) for line in f]
        self.meta = rows[0]
        self.lost = self.meta.get("lost_by_cause", {})
        self.rows = sorted((row for row in rows if row.get("type") == "call" and
                            row["layer"] == layer),
                           key=lambda row: (row["start_ns"], row["depth"]))
        if self.number("inside_calls"):
            deepen(self.rows)
        self.hists = [row for row in rows if row.get("type") == "histogram" and
                      row["layer"] == layer]
        self.names = collections.Counter(row["name"] for row in self.rows)
        self.exact = collections.Counter(map(told, self.rows))
        self.notes = str([row for row in rows if row.get("type") == "note"]) + rec.ran.err

    def number(self, key):
        return int(self.meta.get(key, 0))

    def untold(self, *causes):
        return sum(self.lost.get(c, 0) for c in causes or UNTOLD)

    def expect_inside(self, least=1):
        # inside_calls has a test of its own
        expect(self.number("inside_places") >= least, "not told inside: %d places, %d calls; %s" % (
                   self.number("inside_places"), self.number("inside_calls"), self.notes[-800:]))


def end_of(row):
    """Of a call that was still open: never."""
    return row["start_ns"] + row["duration_ns"] if "duration_ns" in row else float("inf")


def deepen(rows):
    """Within calls that take long, calls are as deep as their times say."""
    around = collections.defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["start_ns"], -end_of(row))):
        stack = around[row["tid"]]
        while stack and end_of(stack[-1]) < end_of(row):
            stack.pop()
        if any(end_of(outer) - outer["start_ns"] > TOLD_BY_TIMES_NS for outer in stack):
            row["depth"] = max(row["depth"], len(stack))
            row["flags"] = sorted({*(row.get("flags") or []), "nested"})
        stack.append(row)


def told(row):
    return (row["name"], row["depth"], ",".join(sorted(row.get("flags") or [])),
            json.dumps(row.get("args"), sort_keys=True))


def differ(a, b):
    """The first differences of two counters."""
    more, less = a - b, b - a
    return "only by the kernel %d: %r; only inside %d: %r" % (
        sum(more.values()), list(more.items())[:6], sum(less.values()), list(less.items())[:6])


def sums(out):
    return [line for line in out.splitlines() if line.startswith("sum ")]


def traced(t, cmd, where, alone, *more):
    """Under eacgm it prints and ends as it does alone."""
    rec = t.record(cmd, *options(t, *where, *more), status=None)
    how = where[-1]
    expect(rec.ran.status == 0 and alone.status == 0,
           "untraced it ends with %d, %s with %d: %s" % (
               alone.status, how, rec.ran.status, rec.ran))
    expect(sums(alone.out) and sums(rec.ran.out) == sums(alone.out),
           "untraced %s%s %s%s" % (alone.out, alone.err, how, rec.ran))
    return Calls(t, rec)


def by_both(t, *case, least=1):
    """The same job untraced, by the kernel and inside."""
    options(t)
    cmd = [JOB, *map(str, case)]
    alone = t.run(cmd)
    # inside first: where the job is harmed, that is what is told
    inside = traced(t, cmd, INSIDE, alone)
    kernel = traced(t, cmd, KERNEL, alone)
    inside.expect_inside(least)
    expect(kernel.number("inside_places") == 0, "the kernel's: %r" % kernel.meta)
    expect(kernel.rows, "nothing was recorded: %s" % kernel.rec.ran)
    return kernel, inside


def same(t, *case, least=1, compare=lambda c: c.exact):
    kernel, inside = by_both(t, *case, least=least)
    expect(compare(kernel) == compare(inside), "%s; lost %r, inside %r" % (
        differ(compare(kernel), compare(inside)), kernel.lost, inside.lost))
    expect(not kernel.untold() and not inside.untold(), "lost by the kernel %r, inside %r" % (
        kernel.lost, inside.lost))
    return kernel, inside


def plainly(calls):
    """Where flags of a call depend on when it was interrupted: names and arguments."""
    return calls.names


def valued(calls):
    """Without the depth: where calls are the kernel's and others are not, that has its own test."""
    return collections.Counter((row["name"], json.dumps(row.get("args"))) for row in calls.rows)


def by_process(calls):
    """How many calls each process made, whatever its number."""
    counts = collections.Counter(row["pid"] for row in calls.rows)
    return collections.Counter(counts.values())


# ---- arguments ----


@test("unless told: inside where there are four CPUs, but with a budget the kernel")
def _(t):
    cmd = [JOB, "arguments", "20"]
    alone = t.run(cmd)
    spare = os.sysconf("SC_NPROCESSORS_ONLN") >= 4
    for where in ((), ("--probes", "auto")):
        calls = Calls(t, t.record(cmd, *options(t, *where)))
        expect((calls.number("inside_places") > 0) == spare, "%r: %r" % (where, calls.meta))
        expect(sums(calls.rec.ran.out) == sums(alone.out), calls.rec.ran)
    calls = Calls(t, t.record(cmd, *options(t, "--budget", "50%")))
    expect(calls.number("inside_places") == 0, "a budget: %r" % calls.meta)


@test("arguments of all kinds, on the stack and in registers, recursion, tail calls")
def _(t):
    kernel, inside = same(t, "arguments", 50, least=20)
    order = [[told(row) for row in c.rows] for c in (kernel, inside)]
    first = next((i for i, pair in enumerate(zip(*order)) if pair[0] != pair[1]), None)
    expect(order[0] == order[1], "in another order from call %r on: %r" % (
        first, first and [o[first:first + 4] for o in order]))


@test("the recording says how many calls were told inside")
def _(t):
    _kernel, inside = by_both(t, "jump", 20)
    by_kernel = inside.names["t_v2_leaf"]
    expect(by_kernel and inside.number("inside_calls") == len(inside.rows) - by_kernel,
           "inside_calls is %r of %d, of which %d are the kernel's" % (
               inside.meta.get("inside_calls"), len(inside.rows), by_kernel))


for what in ("c", "struct", "structs", "varargs"):
    @test("more on the stack than is known of a function: %s" % what)
    def _(t, what=what):
        same(t, "big", 20, what)


@test("a function that its callers know to leave registers alone (-fipa-ra)")
def _(t):
    kernel, _inside = same(t, "local", 50)
    expect(kernel.names["t_p_hidden"] == 50, "calls: %r" % kernel.names)


@test("arguments in ymm registers at the first call of a thread")
def _(t):
    with open("/proc/cpuinfo") as f:
        if " avx2 " not in f.read():
            skip("no AVX2")
    same(t, "vectors", 10)


@test("a function with a second entry where the jump would be")
def _(t):
    same(t, "doors", 50, least=0)


@test("functions whose moved instructions have operands relative to rip")
def _(t):
    kernel, inside = same(t, "flags", 50)
    expect(kernel.names["t_v2_flag"] == kernel.names["t_v2_count"] == 50,
           "calls: %r" % kernel.names)
    expect(inside.number("inside_calls") == 100, "inside: %r" % inside.meta.get("inside_calls"))


@test("more calls open than are kept: that is counted, and the rest is right")
def _(t):
    kernel, inside = by_both(t, "deep", 300)
    for c in (kernel, inside):
        expect(sum(c.names.values()) + c.untold() == 302, "%r and lost %r of 302" % (
            c.names, c.lost))
    expect(inside.lost.get("inside_deep") == 301 - 128, "inside: %r" % inside.lost)


# ---- ways out ----


@test("C++ exceptions, 10,000 times, caught by probed and unprobed callers, rethrown", 120)
def _(t):
    same(t, "throw", 270)  # a thrown call that the kernel probes is held twice
    options(t)
    cmd = [JOB, "throw", "2700"]
    inside = traced(t, cmd, INSIDE, t.run(cmd))
    inside.expect_inside()
    expect(inside.names["t_v2_throw"] > 10000, "calls: %r" % inside.names)


@test("C++ exceptions in four threads at once")
def _(t):
    same(t, "throw-threads", 150)


@test("longjmp over probed frames")
def _(t):
    same(t, "jump", 1000)


# ---- signals ----


class Counts:
    """Calls by name and losses, of long recordings."""

    def __init__(self, rec):
        self.rec = rec
        self.names = collections.Counter()
        for f in rec.report["functions"]:
            if f["layer"] == "torch":
                self.names[f["name"]] += f["calls"]
        self.unwound = sum(f.get("unwound_calls") or 0 for f in rec.report["functions"])
        self.lost = rec.report["recording"].get("lost_by_cause", {})

    untold = Calls.untold


def made_by(out):
    return sum(int(line.split()[1]) for line in out.splitlines()
               if line.startswith(("main ", "handler ")))


def signals(t, how):
    """Calls and losses add up to what the job says it has made; of recursions beyond that, none."""
    options(t)
    for where in (INSIDE, KERNEL):
        rec = t.record([JOB, "signals", "40", how], *options(t, *where), status=None)
        expect(rec.ran.status == 0, "the job: %s" % rec.ran)
        yield Counts(rec), made_by(rec.ran.out)


def add_up(c, made):
    seen, lost = sum(c.names.values()), c.untold()
    print("# %d calls and %d lost of %d: %r" % (seen, lost, made, {
        k: v for k, v in c.lost.items() if v}))
    return seen + lost, "%d calls and %d lost are not the %d made: %r" % (seen, lost, made, c.lost)


for how in ("ordinary", "alternate", "inside"):
    @test("signal handlers that call what is probed, amid calls: stack %s" % how)
    def _(t, how=how):
        for c, made in signals(t, how):
            both, message = add_up(c, made)
            expect(both == made, message)
            expect(not c.unwound, "%d calls are told as left: %r" % (c.unwound, c.lost))


@test("signal handlers that are left by siglongjmp")
def _(t):
    for c, made in signals(t, "jump"):
        # the job counts calls when they have returned: each of 40 jumps leaves up to six uncounted
        both, message = add_up(c, made)
        expect(0 <= both - made <= 6 * 40, message)


@test("the first call of a process, in a handler that interrupts malloc")
def _(t):
    options(t)
    rec = t.record([JOB, "first", "30"], *options(t, *INSIDE), status=None)
    expect(rec.ran.status == 0, "processes hang: %s" % rec.ran)


# ---- processes ----


@test("fork inside a probed function, vfork and exec, posix_spawn, daemons without descriptors")
def _(t):
    same(t, "processes", 2, compare=valued)


@test("calls of both kinds in one another have the same depth, also in a process that is young")
def _(t):
    same(t, "processes", 3)


@test("exec of itself from inside a probed function, twice")
def _(t):
    kernel, inside = by_both(t, "exec", 2)
    wanted = {"t_v2_around_leaf": 60, "t_v2_leaf": 60, "t_v2_plain": 60}
    for c in (kernel, inside):
        expect({n: c.names[n] for n in wanted} == wanted, "calls: %r, lost %r" % (c.names, c.lost))
    expect(kernel.names == inside.names, differ(kernel.names, inside.names))


@test("the system call fork: child and parent call at once")
def _(t):
    same(t, "raw-fork", 1000, compare=by_process)


@test("short programs one after another, of a library that is seen for the first time")
def _(t):
    options(t)
    cmd = ["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do %s jump 5; done" % JOB]
    alone, found = t.run(cmd), []
    for i, where in enumerate((KERNEL, INSIDE, INSIDE, INSIDE)):
        rec = t.record(cmd, *options(t, *where), env={"EACGM_CACHE": t.path("cache%d" % i)})
        expect(sums(rec.ran.out) == sums(alone.out), "the job: %s" % rec.ran)
        found.append(Calls(t, rec))
    for c in found[1:]:
        expect(c.names == found[0].names and "not recorded" not in c.notes, "%s; lost %r; %s" % (
            differ(found[0].names, c.names), c.lost, c.notes[:600]))


@test("a child that becomes another user")
def _(t):
    kernel, inside = by_both(t, "nobody", 30)
    expect(inside.names == kernel.names or inside.untold() or "not recorded" in inside.notes,
           "nothing is said of what is missing: %s; lost %r" % (
               differ(kernel.names, inside.names), inside.lost))


@test("a job that may write small files only")
def _(t):
    options(t)
    cmd = ["sh", "-c", "ulimit -f 2000; exec %s arguments 5" % JOB]
    alone = t.run(cmd)
    inside = traced(t, cmd, INSIDE, alone)
    kernel = traced(t, cmd, KERNEL, alone)
    expect(inside.names == kernel.names or inside.untold() or "told no call" in inside.notes,
           "nothing is said of what is missing: %s" % differ(kernel.names, inside.names))


OUTSIDE = "the kernel has the probes of calls that are told inside of others"


@test("a program that is started without the environment: the kernel tells its calls, and no other's")
def _(t):
    options(t)
    calls_of = {}  # of a job with that number
    for n in (2, 3, 300):
        cmd = [JOB, "arguments", str(n)]
        calls_of[n] = traced(t, cmd, KERNEL, t.run(cmd)).names
    for line in ("env -i {job} arguments 3",
                 "{job} arguments 2; env -i {job} arguments 3; {job} arguments 2",
                 # one that tells runs before, while and after the kernel has its probes
                 "{job} arguments 300 & env -i {job} arguments 3; {job} arguments 2; wait"):
        cmd = ["sh", "-c", line.format(job=JOB)]
        rec = t.record(cmd, *options(t, *INSIDE))
        expect(sorted(sums(rec.ran.out)) == sorted(sums(t.run(cmd).out)), rec.ran)
        inside = Calls(t, rec)
        made = collections.defaultdict(collections.Counter)
        for row in inside.rows:
            made[row["pid"]][row["name"]] += 1
        asked = [calls_of[int(n)] for n in re.findall(r"arguments (\d+)", line)]
        for calls in made.values():
            expect(calls in asked, "%s: of %r jobs %r" % (line, asked, made))
        expect(len(made) == len(asked) and not inside.untold(), "%s: %d jobs; lost %r; %s" % (
            line, len(made), inside.lost, inside.notes))
        expect(inside.notes.count(OUTSIDE) == 1, inside.notes)


@test("a program that is linked statically: the kernel tells its calls")
def _(t):
    if not shutil.which("g++"):
        skip("g++ is not installed")
    source, job, catalog = t.path("alone.cc"), t.path("alone"), t.path("alone.yaml")
    with open(source, "w", encoding="ascii") as f:
        f.write("int n; __attribute__((noipa)) void count() { n++; }\n"
                "__attribute__((noipa)) int t_p_called(int a, int b, int c, int d, int e) {\n"
                "    count(); return a + b + c + d + e; }\n"
                "int main() { while (n < 700) t_p_called(n, n, n, n, n); }\n")
    with open(catalog, "w", encoding="ascii") as f:
        f.write(CATALOG.replace("libinside_torture.so*", "alone").replace("torture.", "alone."))
    expect(t.run(["g++", "-O2", "-static", "-o", job, source]).status == 0, "g++")
    more = (*options(t, *INSIDE), "--catalog", catalog)
    cpus = os.sched_getaffinity(0)
    for on in (cpus, {min(cpus)}, {min(cpus)}):  # on one CPU it has run before eacgm gets its turn
        os.sched_setaffinity(0, on)
        try:
            calls = Calls(t, t.record([job], *more))
        finally:
            os.sched_setaffinity(0, cpus)
        expect(sum(calls.names.values()) == 700 and OUTSIDE in calls.notes, "%r; %s" % (
            calls.names, calls.notes))


# ---- threads ----


@test("a hundred threads in turns, of a thousand calls each")
def _(t):
    same(t, "turns", 333, 100, compare=valued)


@test("many short threads, never more than one at once, find a slot each")
def _(t):
    same(t, "turns", 5, 400, compare=valued)


@test("threads that end, or are cancelled, inside a probed function")
def _(t):
    same(t, "ends", 30)


for others in ((), ("called",)):
    @test("a thread to be cancelled calls what is no cancellation point, %s" % (
        "after others" if others else "the first of all"))
    def _(t, others=others):
        same(t, "cancelled", 3, *others, compare=plainly)


@test("eighty threads at once: those without a slot are told, the job is right")
def _(t):
    room = os.statvfs("/dev/shm")
    if room.f_bavail * room.f_frsize < 160 << 20:
        skip("/dev/shm has no room for the rings of 64 threads")
    kernel, inside = by_both(t, "at-once", 200, 80)
    lost = inside.lost.get("inside_thread", 0)
    expect(0 < lost <= 16 * 420, "inside: %r" % inside.lost)
    # t_v2_leaf is the kernel's either way
    expect(sum(kernel.names.values()) == 80 * 630, "kernel: %r" % kernel.names)
    expect(inside.names["t_v2_leaf"] == 80 * 210 and
           inside.names["t_v2_plain"] + inside.names["t_v2_around_leaf"] + lost == 80 * 420,
           "inside: %r, lost %r" % (
               inside.names, inside.lost))


@test("destructors of keys that call what is probed, again and again")
def _(t):
    kernel, inside = by_both(t, "keys", 100)
    expect(sum(kernel.names.values()) == sum(inside.names.values()) +
           inside.lost.get("inside_thread", 0), "kernel %r, inside %r, lost %r" % (
               kernel.names, inside.names, inside.lost))


# ---- libraries ----


def copies(t, *names):
    for name in names:
        shutil.copy(LIBRARY, t.path(name))
    return [t.path(name) for name in names]


@test("dlopen and dlclose again and again, at the same and at other addresses", 90)
def _(t):
    options(t)
    same(t, "loads", 40, *copies(t, "libinside_torture.so.1", "libinside_torture.so.2"))


@test("more dlopen and dlclose than there is room for: what is missing is said", 90)
def _(t):
    options(t)
    cmd = [JOB, "loads", "220", *copies(t, "libinside_torture.so.1", "libinside_torture.so.2")]
    inside = traced(t, cmd, INSIDE, t.run(cmd))
    made = 220 + sum(i % 7 == 3 for i in range(220)) + 220 * 4
    expect(inside.names["t_v2_around_leaf"] + inside.names["t_v2_deep"] >= 2000 or
           "not recorded" in inside.notes, "%r of about %d, and nothing is said: %s" % (
               inside.names, made, inside.notes[-600:]))


# ---- eacgm ends amid the job ----


class Said:
    """What eacgm said, in the place of harness.Result."""

    def __init__(self, err):
        self.err = err


class Until:
    """A job that goes on until it is told to end, and tells how many calls it has made."""

    def __init__(self, t, name="until", where=None, wrap=(), calls=300, pause_ms=2):
        self.t, self.path = t, t.path(name)
        cmd = [*wrap, JOB, "until", str(calls), self.path, str(pause_ms)]
        self.out = open(self.path + ".out", "w+")
        if where is None:
            self.p = t.start(cmd, stdout=self.out, stderr=self.out)
        else:
            self.recording = t.path(name + ".eacgm")
            self.p = t.start([EACGM, "record", "-o", self.recording, *options(t, *where), "--",
                              *cmd], stdout=self.out, stderr=self.out)
        self.more(5)

    def read(self):
        try:
            with open(self.path) as f:
                return [tuple(map(int, line.split())) for line in f if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def more(self, rows=10):
        """Waits until it has called so much more; returns the rows since."""
        n = len(self.read())
        self.t.wait_for(lambda: len(self.read()) >= n + rows, "the job to go on", 40)
        return self.read()[n:]

    def end(self):
        """It ends right, whoever is its parent by now: its checksum is of all that it called."""
        with open(self.path + ".end", "w"):
            pass
        self.t.wait_for(lambda: "sum " in self.said() or "wrong" in self.said(), "its end", 40)
        expect(sums(self.said()) == ["sum %016x" % 1], "the job: %s" % self.said())

    def said(self):
        self.out.flush()
        with open(self.out.name) as f:
            return f.read()


def stops(rings):
    """Whether a process's file says that nothing is to be recorded any more."""
    with open(rings, "rb") as f:
        return f.read(68)[64] == 1  # stop, of struct call_header


def best_ns(rows):
    return min((b[0] - a[0]) / (b[1] - a[1]) for a, b in zip(rows, rows[1:]))


def folder_of(t, job):
    """By the environment of a process."""
    def look():
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid) as f:
                    words = f.read().split("\0")
                with open("/proc/%s/environ" % pid) as f:
                    env = dict(x.split("=", 1) for x in f.read().split("\0") if "=" in x)
            except OSError:
                continue
            if words[0] == JOB and job.path in words and "EACGM_CALL_RINGS" in env:
                return env["EACGM_CALL_RINGS"]
        return None
    return t.wait_for(look, "the job's environment")


@test("kill -9 of eacgm amid the run: the job goes on, cheaply, and nothing is left", 90)
def _(t):
    options(t)
    alone = Until(t, "alone")
    untraced_ns = best_ns(alone.more(20))
    alone.end()
    job = Until(t, "killed", INSIDE)
    folder = folder_of(t, job)
    expect(os.path.isdir(folder), "no folder %s" % folder)
    t.wait_for(lambda: size_of(job.recording) > 50000, "something is recorded", 30)
    os.kill(job.p.pid, signal.SIGKILL)
    job.p.wait()
    # until its ring is full the job writes into it, and looks once a second who reads
    job.more(100)
    expect(Recording(t, job.recording, "").count("t_v2_plain") > 0, "it can be read")
    os.utime(folder, (1, 1))  # a new one may be being made: only old ones are taken for left
    t.record(["true"], *options(t, *INSIDE))
    expect(not os.path.exists(folder), "%s is left" % folder)
    killed_ns = min(best_ns(job.more(20)) for _ in range(3))
    job.end()
    print("# ns a call: untraced %.1f, after the kill %.1f" % (untraced_ns, killed_ns))
    expect(killed_ns < 20 * untraced_ns, "ns a call: untraced %.1f, after the kill %.1f" % (
        untraced_ns, killed_ns))


@test("an eacgm that is stopped for two seconds and goes on: what is lost is counted", 90)
def _(t):
    job = Until(t, "stopped", INSIDE)
    os.kill(job.p.pid, signal.SIGSTOP)
    time.sleep(2)
    job.more()
    os.kill(job.p.pid, signal.SIGCONT)
    job.more(5)
    job.end()
    t.wait_for(lambda: job.p.poll() is not None, "eacgm's end", 40)
    expect(job.p.returncode == 0, "eacgm ends with %r: %s" % (job.p.returncode, job.said()))
    made = job.read()[-1][1] * 3
    rec = Recording(t, job.recording, Said(job.said()))
    c = Calls(t, rec)
    c.expect_inside()
    expect(sum(c.names.values()) + c.untold() == made, "%r and %r lost of %d" % (
        c.names, c.lost, made))


@test("Ctrl-C twice ends eacgm, and the job goes on", 90)
def _(t):
    job = Until(t, "interrupted", INSIDE)
    folder = folder_of(t, job)
    # only eacgm gets it: with a terminal the command would as well
    os.kill(job.p.pid, signal.SIGINT)
    job.more(5)
    os.kill(job.p.pid, signal.SIGINT)
    t.wait_for(lambda: job.p.poll() is not None, "eacgm's end", 40)
    job.more(20)
    expect(not os.path.exists(folder), "%s is left" % folder)
    job.end()
    c = Calls(t, Recording(t, job.recording, Said(job.said())))
    c.expect_inside()
    expect(c.names["t_v2_plain"] > 0, "calls: %r" % c.names)


# ---- with others ----


TRAINING = """
import sys, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
F = torch.nn.functional
mlp = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16),
                          torch.nn.Linear(16, 4))
conv = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
                           torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(),
                           torch.nn.Linear(16, 3))
told = []
for net, shape, classes in ((mlp, (5, 8), 4), (conv, (3, 1, 10, 10), 3)):
    o = torch.optim.Adam(net.parameters(), lr=0.01)
    for i in range(6):
        o.zero_grad()
        loss = F.cross_entropy(net(torch.randn(*shape)), torch.arange(shape[0]) % classes)
        loss.backward()
        o.step()
        told.append(loss.item().hex())
a, b = torch.ones(2, 3), torch.ones(2, 3)
caught = 0
for i in range(200):
    try:
        a @ b
    except RuntimeError:
        caught += 1
data = TensorDataset(torch.randn(40, 8), torch.arange(40) % 4)
total = 0.0
for x, y in DataLoader(data, batch_size=5, num_workers=2):
    total += F.cross_entropy(mlp(x), y).item()
print("sum", caught, total.hex(), " ".join(told))
"""


@test("PyTorch: training, errors of operators, and a data loader's processes", 150)
def _(t):
    if not os.path.exists(PYTHON) or t.run([PYTHON, "-c", "import torch"]).status:
        skip("%s has no torch" % PYTHON)
    cmd = [PYTHON, "-c", TRAINING]
    alone = t.run(cmd)
    kernel, inside = (traced(t, cmd, where, alone) for where in (KERNEL, INSIDE))
    inside.expect_inside(1000)
    expect(inside.names == kernel.names, "%s; lost %r, inside %r" % (
        differ(kernel.names, inside.names), kernel.lost, inside.lost))
    # arguments are shapes and addresses of nodes' sequence numbers, which are the same
    expect(inside.exact == kernel.exact, differ(kernel.exact, inside.exact))
    expect(not kernel.untold() and not inside.untold(), "lost %r, inside %r" % (
        kernel.lost, inside.lost))


PYTHONS = """
import _thread, ctypes, os, re, sys

class Adder:
    def __call__(self, x):
        return x + 1

api, said = ctypes.pythonapi, []
call, text, import_ = api.PyObject_CallFunction, api.PyObject_Str, api.PyImport_ImportModuleLevelObject
call.restype = import_.restype = ctypes.py_object
for f, args in ((call, (None, None)), (import_, (None, None, None, None, 0))):
    try:
        f(*args)
    except Exception as e:
        said.append(type(e).__name__)
for name in (5, "no_module_\u00e4\U0001f600", "no_" + "x" * 300):
    try:
        __import__(name)
    except Exception as e:
        said.append(type(e).__name__)
many = call(ctypes.py_object(lambda *a: sum(i * x for i, x in enumerate(a))), b"i" * 90,
            *map(ctypes.c_int, range(90)))
def work(n):
    for i in range(n):
        import os.path
    return sum(map(Adder(), range(n))) + len(re.sub("a", lambda m: "bb", "a" * n))
sums = [work(200)]
over = _thread.allocate_lock() # how often Thread.start() waits in Python depends on who is faster
over.acquire()
_thread.start_new_thread(lambda: (sums.append(work(100)), over.release()), ())
over.acquire()
for i in range(300): # code that is made and thrown away, at the same places again
    sums.append(eval(compile("sum(map(lambda x: x * %d, range(3)))" % i, "f%d" % i, "eval")))
    exec(compile("def f%d(x): return x\\nsums.append(sum(map(f%d, [1, 2])))" % (i, i), "g", "exec"))
sys.stdout.flush()
pid = os.fork()
if not pid:
    os._exit(sum(map(Adder(), range(9))))
sums.append(os.waitpid(pid, 0)[1])
print("sum", sum(sums), many, said)
"""


def every_python():
    return ([PYTHON] if os.path.exists(PYTHON) else []) + list(pythons.found().values())


def with_greenlet():
    ret = pythons.with_greenlet(PYTHON)
    if not ret:
        skip("no Python here has greenlet")
    return ret


def sound(names):
    """Without what is no name: where one was asked for that is no text, the kernel says what lies
    there, or nothing."""
    return {name: n for name, n in names.items() if re.match(r"import .*[a-z]|(?!import)", name)}


@test("CPython's frames, types that are called and imports, in every interpreter here", 120)
def _(t):
    found = every_python()
    if not found:
        skip("there is no Python")
    for python in found:
        cmd = [python, "-S", "-c", PYTHONS]
        alone = t.run(cmd)
        kernel, inside = (
            Calls(t, t.record(cmd, "--layers", "python", "--profile", "off", "--waits", "off",
                              *where), layer="python") for where in (KERNEL, INSIDE))
        for c in (kernel, inside):
            expect(alone.status == 0 and sums(c.rec.ran.out) == sums(alone.out),
                   "%s: untraced %s, traced %s" % (python, alone, c.rec.ran))
        inside.expect_inside(2)
        expect(inside.number("inside_calls") > 1000, "%s: inside %r" % (python, inside.meta))
        more = collections.Counter(sound(inside.names)), collections.Counter(sound(kernel.names))
        expect(more[0] == more[1], "%s: %s; lost %r, inside %r" % (
            python, differ(more[1], more[0]), kernel.lost, inside.lost))


STACKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "python_calls_job.py")


def check_held(what, c):
    """Each of the overlapping calls of held() has its own end."""
    expect(not set(c.rec.report["recording"].get("lost_by_cause", {})) &
           {"inside_unmatched", "inside_no_return"}, "%s: lost %r" % (what, c.lost))
    by_thread = collections.defaultdict(list)
    for row in c.rows:
        if row["name"] == "held":
            by_thread[row["tid"]].append((row["start_ns"], row["start_ns"] + row["duration_ns"]))
    expect([len(calls) for calls in by_thread.values()] == [201, 201],
           "%s: %r, lost %r" % (what, {k: len(v) for k, v in by_thread.items()}, c.lost))
    for calls in by_thread.values():
        ends = [end for _start, end in sorted(calls)]
        expect(ends == sorted(ends), "%s: ends are not in the order of calls" % what)


@test("several stacks in a thread (greenlet): calls end with their own frames", 120)
def _(t):
    found = with_greenlet()
    for python in found:
        cmd = [python, STACKS, "greenlets"]
        alone = t.run(cmd)
        kernel, inside = (
            Calls(t, t.record(cmd, "--layers", "python", "--profile", "off", "--waits", "off",
                              *where), layer="python") for where in (KERNEL, INSIDE))
        for c in (kernel, inside):
            expect(alone.status == 0 and c.rec.ran.out == alone.out,
                   "%s: untraced %s, traced %s" % (python, alone, c.rec.ran))
            expect("switches stacks" in str(c.rec.report["notes"]), "%r" % c.rec.report["notes"])
        check_held(python, inside)


LATER = """import ctypes, greenlet, sys
function = ctypes.CDLL(sys.argv[1])._Z9t_v2_flagmm
for i in range(300):
    function(i, 1)
"""


@test("a library that comes after greenlet is told inside as well", 60)
def _(t):
    found = with_greenlet()
    c = Calls(t, t.record([found[0], "-c", LATER, LIBRARY], *options(t, *INSIDE)))
    c.expect_inside()
    expect(len(c.rows) == 300 and not c.untold(), "%d calls: %r" % (len(c.rows), c.lost))


CAUGHT = """import ctypes, sys
if sys.argv[2] == "greenlet":
    import greenlet
function = ctypes.CDLL(sys.argv[1])._Z10t_v2_catchmm
for i in range(900):
    function(2 * i, 1)
"""


@test("calls that exceptions end, where stacks may be switched, are told: as many, none for long", 60)
def _(t):
    found = with_greenlet()
    without, switches = (
        Calls(t, t.record([found[0], "-c", CAUGHT, LIBRARY, word], *options(t, *INSIDE)))
        for word in ("no", "greenlet"))
    for c in (without, switches):
        c.expect_inside()
        expect(not c.untold(), "%r" % c.lost)
    left, usual = (sorted(row["duration_ns"] for row in c.rows if "unwound" in row["flags"])
                   for c in (switches, without))
    expect(switches.names == without.names and len(left) == len(usual) > 512,
           "%r, without %r; %d left, %d" % (switches.names, without.names, len(left), len(usual)))
    # those that were told last, when the thread ended, too: the first throw takes long by itself
    expect(left[-10] < 20 * usual[-10] + 1e6, "%r ns, usually %r" % (left[-10:], usual[-10:]))


@test("greenlets switch while eacgm comes and goes: the job's results are right", 120)
def _(t):
    found = with_greenlet()
    for python in found:
        with open(t.path("out"), "w") as out:
            job = t.start([python, STACKS, "greenlets_until", t.path("stop")], stdout=out)
        for i, where in enumerate((KERNEL, INSIDE) * 3):
            rec = t.start_record("-p", str(job.pid), "--layers", "python", *where,
                                 out=t.path("%d.eacgm" % i))
            t.wait_for(lambda rec=rec: rec.poll() is not None or
                       os.path.exists(rec.recording.path), "something is recorded")
            t.stop_record(rec)
            expect(job.poll() is None, "the job has ended: %s" % job.poll())
        with open(t.path("stop"), "w"):
            pass
        t.wait_for(lambda: job.poll() is not None, "the job's end")
        os.unlink(t.path("stop"))
        with open(t.path("out")) as f:
            said = f.read()
        expect(job.returncode == 0 and said.endswith("all as expected\n"), "%s: %s" % (python, said))


@test("another eacgm puts its breakpoints into the same functions: before, and after", 90)
def _(t):
    options(t)
    other = Until(t, "other")
    before = t.start_record("-p", str(other.p.pid), *options(t), out=t.path("before.eacgm"))
    other.more(3)
    cmd = [JOB, "arguments", "50"]
    inside = traced(t, cmd, INSIDE, t.run(cmd))
    inside.expect_inside(20)
    job = Until(t, "inside", INSIDE)
    after = t.start_record("--all", *options(t), out=t.path("after.eacgm"))
    job.more(3)
    t.stop_record(after)
    job.more(3)
    t.stop_record(before)
    job.end()
    other.end()
    t.wait_for(lambda: job.p.poll() is not None, "eacgm's end", 40)
    expect(job.p.returncode == 0, "eacgm: %s" % job.said())
    for rec in (before.recording, after.recording):
        expect(rec.count("t_v2_plain") > 100, "the other's calls: %r" % rec.report["functions"])
    c = Calls(t, Recording(t, job.recording, Said(job.said())))
    c.expect_inside()
    expect(sum(c.names.values()) + c.untold() == job.read()[-1][1] * 3, "%r lost %r, made %d" % (
        c.names, c.lost, job.read()[-1][1] * 3))


@test("a job with a library preloaded already: both are")
def _(t):
    options(t)
    cmd = ["sh", "-c", "cat /proc/$$/maps; exec %s arguments 5" % JOB]
    rec = t.record(cmd, *options(t, *INSIDE), env={"LD_PRELOAD": LIBTARGET})
    for name in (LIBTARGET, "libeacgm_calls.so"):
        expect(name in rec.ran.out, "%s is not mapped: %s" % (name, rec.ran))
    alone = t.run([JOB, "arguments", "5"])
    expect(sums(rec.ran.out) == sums(alone.out), "the job: %s" % rec.ran)
    Calls(t, rec).expect_inside()


# ---- processes that run already ----


def text_of(pid):
    """The library's code as the process has it."""
    with open("/proc/%d/maps" % pid) as f:
        maps = [line.split() for line in f
                if os.path.basename(LIBRARY) in line and " r-xp " in line]
    low, high = (int(x, 16) for x in maps[0][0].split("-"))
    with open("/proc/%d/mem" % pid, "rb") as f:
        f.seek(low)
        return f.read(high - low), int(maps[0][2], 16)


def is_as_its_file(pid):
    text, offset = text_of(pid)
    with open(LIBRARY, "rb") as f:
        f.seek(offset)
        return f.read(len(text)) == text


def shims_of(pid):
    with open("/proc/%d/maps" % pid) as f:
        return len({line.split()[4] for line in f if "libeacgm_calls.so" in line})


TELLS = re.compile(r"tells (\d+) functions inside; its threads stood (\d+) times, ([\d.]+) ms")


def attach(t, job, *more, out=None):
    """Attached, until the job tells its calls itself."""
    p = t.start_record("-p", str(job.p.pid), *options(t, *INSIDE, *more), out=out)
    t.wait_for(lambda: TELLS.search(log_of(p)) or "kernel's probes go on" in log_of(p),
               "probes inside: %s" % log_of(p))
    expect(TELLS.search(log_of(p)), "no probes inside: %s" % log_of(p))
    return p


def expect_every_call(c):
    """The job calls with 3, 4, ... 102 again and again: none is missed, none is there twice."""
    made = [int(row["args"]["a"]) for row in c.rows if row["name"] == "t_v2_around_leaf"]
    wrong = [(i, a, b) for i, (a, b) in enumerate(zip(made, made[1:]))
             if b != (a + 1 if a < 102 else 3)]
    expect(made and not wrong, "after %r of %d, lost %r" % (wrong[:5], len(made), c.lost))


def ended(t, p):
    rec = t.stop_record(p)
    rec.ran = Said(log_of(p))
    return Calls(t, rec)


@test("attached to a process: the kernel tells, then the process itself, each call once", 90)
def _(t):
    options(t)
    job = Until(t, calls=100, pause_ms=15)
    before = text_of(job.p.pid)
    p = attach(t, job)
    job.more(5)
    c = ended(t, p)
    job.more(2)
    expect(text_of(job.p.pid) == before, "its code is not as it was")
    job.end()
    c.expect_inside(20)
    expect(c.number("inside_calls") > 100 and len(c.rows) > c.number("inside_calls"),
           "both tell: %r" % c.meta)
    expect(not c.untold(), "lost %r" % c.lost)
    expect_every_call(c)


@test("attached again and again: one library stays, the job is right, its memory does not grow", 120)
def _(t):
    options(t)
    job = Until(t, calls=100, pause_ms=15)
    before, shmem = text_of(job.p.pid), []
    for i in range(5):
        p = attach(t, job, out=t.path("again%d.eacgm" % i))
        job.more(2)
        c = ended(t, p)
        expect(c.number("inside_calls") > 0 and not c.untold(), "turn %d: %r" % (i, c.meta))
        expect_every_call(c)
        expect(text_of(job.p.pid) == before, "turn %d: its code is not as it was" % i)
        with open("/proc/%d/status" % job.p.pid) as f:
            shmem += [int(line.split()[1]) for line in f if line.startswith("RssShmem")]
    expect(shims_of(job.p.pid) == 1, "%d libraries" % shims_of(job.p.pid))
    expect(shmem[-1] <= shmem[1] + 256, "shared memory, KiB: %r" % shmem)
    job.end()


@test("attached, and killed: the job goes on, and a later eacgm comes in all the same", 90)
def _(t):
    options(t)
    job = Until(t, calls=100, pause_ms=15)
    before = text_of(job.p.pid)
    p = attach(t, job)
    job.more(2)
    p.kill()
    p.wait()
    job.more(3)
    p = attach(t, job, out=t.path("later.eacgm"))
    job.more(3)
    c = ended(t, p)
    expect(c.number("inside_calls") > 0 and not c.untold(), "later: %r" % c.meta)
    expect_every_call(c)
    expect(text_of(job.p.pid) == before, "its code is not as it was")
    job.end()


@test("attached, and a child goes on in its place: it tells its calls to the end", 60)
def _(t):
    options(t)
    job = Until(t, calls=100, pause_ms=15)
    p = attach(t, job)
    job.more(3)
    with open(job.path + ".fork", "w"):
        pass
    job.p.wait(timeout=20)
    made = job.more(30)
    c = ended(t, p)
    job.end()
    rows = collections.Counter(row["pid"] for row in c.rows if row["name"] == "t_v2_around_leaf")
    child = [n for pid, n in rows.items() if pid != job.p.pid]
    expect(len(child) == 1 and child[0] >= made[-2][1] - made[0][1], "%r of %r, lost %r" % (
        rows, made[-1], c.lost))
    expect_every_call(c)


@test("a second eacgm at a process that tells: it has the kernel's probes, both have every call", 60)
def _(t):
    options(t)
    job = Until(t, calls=100, pause_ms=15)
    first = attach(t, job)
    second = t.start_record("-p", str(job.p.pid), *options(t, *INSIDE), out=t.path("b.eacgm"))
    t.wait_for(lambda: "another eacgm has its probes inside" in log_of(second), "that it is said")
    job.more(5)
    a = ended(t, first)
    job.more(5)
    b = ended(t, second)
    job.end()
    for c in (a, b):
        expect(not c.untold(), "lost %r" % c.lost)
        expect_every_call(c)
    expect(a.number("inside_calls") > 0 and b.number("inside_calls") == 0, "who tells: %r %r" % (
        a.meta, b.meta))


@test("attached to a process of another user, in a PID namespace of its own", 60)
def _(t):
    options(t)
    os.chmod(t.dir, 0o777)
    job = Until(t, calls=100, pause_ms=15, wrap=(
        "unshare", "--pid", "--fork", "--kill-child", "setpriv", "--reuid", "65534", "--regid",
        "65534", "--clear-groups"))
    with open("/proc/%d/task/%d/children" % (job.p.pid, job.p.pid)) as f:
        job.pid = int(f.read().split()[0])
    p = t.start_record("-p", str(job.pid), *options(t, *INSIDE))
    t.wait_for(lambda: TELLS.search(log_of(p)), "probes inside")
    job.more(3)
    c = ended(t, p)
    expect(c.number("inside_calls") > 0 and not c.untold(), "%r" % c.meta)
    expect_every_call(c)
    job.end()


@test("a command that goes on when the recording ends has its code back", 60)
def _(t):
    options(t)
    said = t.path("goes")
    cmd = [JOB, "until", "300", said]
    r = t.run_alone([EACGM, "record", "-o", t.path("goes.eacgm"), "-d", "2",
                     *options(t, *INSIDE), "--", "sh", "-c", "%s & echo $! > %s.pid; wait" % (
                         " ".join(cmd), said)])
    with open(said + ".pid") as f:
        pid = int(f.read())
    try:
        expect(is_as_its_file(pid), "its code is not its file's: %s" % r)
    finally:  # a file that it looks for would be gone, with the folder, before it looks
        os.kill(pid, signal.SIGKILL)


@test("attached to a process that calls nothing: the kernel has its probes, and that is said")
def _(t):
    options(t)
    job = t.start([JOB, "idle", "60"], stdout=-1, text=True)
    t.wait_for(lambda: job.stdout.readline(), "the job")
    p = t.start_record("-p", str(job.pid), "-d", "1", *options(t, *INSIDE))
    p.wait(timeout=30)
    expect("the recording ended before the library was in" in str(p.recording.report["notes"]),
           "notes: %r" % p.recording.report["notes"])
    expect(shims_of(job.pid) == 0, "something came in")


# ---- modes: histograms, and what is recorded beside them ----


COUNTED = """catalog: 1
layer: torch
libraries: ["libinside_torture.so*"]
probes:
  - id: torture.any
    symbols: ["_Z*t_p_*", "t_p_*", "_ZN7torture*"]
  - id: torture.numbers
    symbols: ["_Z*t_v2_*"]
    signature: "(u64 a, u64 b) -> i32!negative"
"""


class Counted(Calls):
    """The histograms of a recording beside its calls."""

    def __init__(self, t, rec, layer="torch"):
        super().__init__(t, rec, layer)
        self.counts = collections.Counter()
        for row in self.hists:
            # whether calls of the other kind of probe are around a call is not known of either
            nested = None if row["name"] == "t_v2_leaf" else row["nested_calls"]
            self.counts[(row["name"], "calls")] += row["calls"]
            self.counts[(row["name"], "errors")] += row["errors"]
            self.counts[(row["name"], "nested")] += nested or 0
            expect(0 < row["calls"] and row["max_ns"] <= row["total_ns"] <=
                   row["calls"] * row["max_ns"] and row["errors"] <= row["calls"],
                   "figures: %r" % row)

    def calls(self):
        return {name: n for (name, what), n in self.counts.items() if what == "calls" and n}

    def by_process(self):
        """The processes' counts, whatever their numbers."""
        counts = collections.defaultdict(list)
        for row in self.hists:
            counts[row["pid"]].append((row["name"], row["calls"], row["errors"]))
        return collections.Counter(str(sorted(c)) for c in counts.values())


def counted_by_both(t, mode, cmd, *more, catalog=COUNTED, layer="torch", layers="torch"):
    options(t)
    with open(t.path("torture.yaml"), "w") as f:
        f.write(catalog)
    alone, found = t.run(cmd), []
    for where in (INSIDE, KERNEL):
        rec = t.record(cmd, "--catalog", t.path("torture.yaml"), "--layers", layers, "--profile",
                       "off", "--waits", "off", *where, "--mode", mode, *more, status=None)
        expect(rec.ran.status == alone.status == 0 and sums(rec.ran.out) == sums(alone.out),
               "untraced %s, %s %s" % (alone, where[-1], rec.ran))
        found.append(Counted(t, rec, layer))
    inside, kernel = found
    inside.expect_inside()
    expect(inside.number("inside_calls") > 0 and not kernel.number("inside_places"),
           "inside %r" % inside.meta)
    return kernel, inside


def expect_same_counts(kernel, inside, by_process=True):
    expect(kernel.counts and kernel.counts == inside.counts, "%s; lost %r, inside %r" % (
        differ(kernel.counts, inside.counts), kernel.lost, inside.lost))
    expect(not kernel.untold("hist_full", *UNTOLD) and not inside.untold("inside_hist", *UNTOLD),
           "lost by the kernel %r, inside %r" % (kernel.lost, inside.lost))
    if by_process:
        expect(kernel.by_process() == inside.by_process(), "by process: %s" % differ(
            kernel.by_process(), inside.by_process()))


COUNTED_CASES = (
    ("arguments", 50), ("local", 20), ("flags", 50), ("throw", 150), ("throw-threads", 100),
    ("jump", 500), ("ends", 20), ("turns", 20, 200), ("processes", 2), ("exec", 2),
    ("raw-fork", 200), ("killed", 20), ("cancelled", 2))

for mode in ("stats", "tail"):
    for case in COUNTED_CASES:
        @test("mode %s counts calls, errors and nesting as the kernel does: %s" % (mode, case[0]),
              90)
        def _(t, mode=mode, case=case):
            kernel, inside = counted_by_both(t, mode, [JOB, *map(str, case)])
            expect_same_counts(kernel, inside)
            if mode == "stats":
                expect(not kernel.rows and not inside.rows, "calls are recorded: %r, %r" % (
                    kernel.rows[:3], inside.rows[:3]))
            if case[0] == "arguments":
                expect(any(n for (_, what), n in inside.counts.items() if what == "errors"),
                       "no errors: %r" % inside.counts)


@test("mode tail records what is slower than its function usually is", 90)
def _(t):
    for c in counted_by_both(t, "tail", [JOB, "slow", "250"]):
        slow = [row for row in c.rows if row["duration_ns"] >= 200e6]
        expect([row["name"] for row in slow] == ["t_p_call"] * 3, "slow calls: %r" % slow)
        expect(c.calls()["t_p_call"] == 25003 and c.calls()["t_v2_around_leaf"] == 25000 and
               c.calls()["t_v2_leaf"] == 25000, "calls: %r" % c.counts)
        kept = collections.Counter(row["name"] for row in c.rows)
        # until the first second is over all are kept
        expect(all(0 < kept[name] < 20000 for name in ("t_p_call", "t_v2_around_leaf")),
               "records: %r" % kept)


@test("a mode for each layer: one is counted, the other is recorded")
def _(t):
    head, numbers = COUNTED.split("probes:")[0], COUNTED.index("  - id: torture.numbers")
    with open(t.path("cuda.yaml"), "w") as f:
        f.write(COUNTED[:numbers].replace("torch", "cuda"))
    kernel, inside = counted_by_both(
        t, "torch=stats,cuda=trace", [JOB, "arguments", "50"], "--catalog", t.path("cuda.yaml"),
        catalog=head + "probes:\n" + COUNTED[numbers:], layers="torch,cuda")
    expect_same_counts(kernel, inside)
    expect(not kernel.rows and not inside.rows, "torch is recorded: %r" % inside.rows[:3])
    kernel, inside = (Counted(t, c.rec, "cuda") for c in (kernel, inside))
    expect(not kernel.hists and not inside.hists, "cuda is counted: %r" % inside.hists[:3])
    expect(kernel.rows and kernel.names == inside.names, differ(kernel.names, inside.names))


@test("mode stats: eighty threads at once: what has no slot is told")
def _(t):
    kernel, inside = counted_by_both(t, "stats", [JOB, "at-once", "200", "80"])
    lost = inside.lost.get("inside_thread", 0)
    expect(0 < lost <= 16 * 420 and sum(kernel.calls().values()) == 80 * 630 and
           sum(inside.calls().values()) + lost == 80 * 630, "kernel %r, inside %r, lost %r" % (
               kernel.calls(), inside.calls(), inside.lost))


@test("mode stats: kill -9 of eacgm amid the run: the job goes on, what was counted can be read")
def _(t):
    job = Until(t, "killed", (*INSIDE, "--mode", "stats"))
    t.wait_for(lambda: size_of(job.recording) > 1000, "something is recorded", 30)
    job.more(100)
    folder = folder_of(t, job)
    (rings,) = (os.path.join(folder, name) for name in os.listdir(folder) if name.isdigit())
    os.kill(job.p.pid, signal.SIGKILL)
    job.p.wait()
    t.wait_for(lambda: stops(rings), "the job to see that nobody asks for its calls", 40)
    job.end()
    expect(Recording(t, job.recording, "").count("t_v2_plain") > 0, "it can be read")


@test("mode stats: every call of a job that goes on is counted, while it does", 90)
def _(t):
    job = Until(t, "counted", (*INSIDE, "--mode", "stats"))
    job.more(300)
    job.end()
    t.wait_for(lambda: job.p.poll() is not None, "eacgm's end", 40)
    expect(job.p.returncode == 0, "eacgm: %s" % job.said())
    c = Counted(t, Recording(t, job.recording, Said(job.said())))
    c.expect_inside()
    expect(sum(c.calls().values()) + c.untold("inside_hist", *UNTOLD) == job.read()[-1][1] * 3,
           "%r of %d, lost %r" % (c.calls(), job.read()[-1][1] * 3, c.lost))


@test("mode stats, attached: the kernel counts, then the process itself, each call once", 90)
def _(t):
    options(t)
    job = Until(t, calls=100, pause_ms=15)
    p = attach(t, job, "--mode", "stats")
    job.more(20)
    job.end()
    t.wait_for(lambda: p.poll() is not None, "eacgm's end", 30)
    rec = p.recording
    rec.ran = Said(log_of(p))
    c = Counted(t, rec)
    c.expect_inside(20)
    n = c.calls()
    expect(all("open" in row["flags"] for row in c.rows) and
           not c.untold("inside_hist", *UNTOLD), "lost %r: %r" % (c.lost, c.rows[:3]))
    # the job makes one of each in turns, 300 before it sleeps; the kernel's probes come one after
    # another
    expect(n["t_v2_plain"] > 1000 and c.number("inside_calls") > 1000 and
           abs(n["t_v2_plain"] - n["t_v2_around_leaf"]) <= 2 and
           abs(n["t_v2_plain"] - n["t_v2_leaf"]) <= 300, "calls: %r, %r" % (n, c.meta))


CUDA_CASES = (("launches", 11, 4), ("launches", 300))

for mode in ("stats", "tail"):
    for case in CUDA_CASES:
        @test("mode %s over the fakes of CUDA: kernels by name: %s" % (
            mode, " ".join(map(str, case))))
        def _(t, mode=mode, case=case):
            cmd = [target(os.path.join("gpu", case[0])), *map(str, case[1:])]
            if not os.path.exists(cmd[0]):
                skip("%s is not built" % cmd[0])
            both = []
            for where in (KERNEL, INSIDE):
                rec = t.record(cmd, "--layers", "cuda", "--profile", "off", "--waits", "off",
                               *where, "--mode", mode)
                both.append(Counted(t, rec, "cuda"))
            kernel, inside = both
            inside.expect_inside()
            bare = [collections.Counter({re.sub("0x[0-9a-f]+", "0x", name): 0
                                         for name, _ in c.counts}) for c in both]
            for c, sum_ in zip(both, bare):
                for (name, what), n in c.counts.items():
                    if what != "nested":
                        sum_[re.sub("0x[0-9a-f]+", "0x", name), what] += n
            expect(bare[0] == bare[1], differ(*bare))
            expect(not inside.untold("inside_hist", *UNTOLD), "lost: %r" % inside.lost)
            if mode == "stats": # names of kernels are recorded, and nothing else is
                kept = [collections.Counter((row["name"], row.get("role")) for row in c.rows)
                        for c in both]
                expect(kept[0] and kept[0] == kept[1], differ(*kept))


@test("modes over CPython: what is called, and imported, in every interpreter here", 240)
def _(t):
    found = every_python()
    if not found:
        skip("there is no Python")
    # the first has both; of the others, which differ in what is probed, each has one
    for mode, python in [("tail", found[0]), *zip(itertools.cycle(("stats", "tail")), found)]:
        cmd = [python, "-S", "-c", PYTHONS]
        alone = t.run(cmd)
        kernel, inside = (
            Counted(t, t.record(cmd, "--layers", "python", "--profile", "off", "--waits", "off",
                                *where, "--mode", mode), "python")
            for where in (KERNEL, INSIDE))
        for c in (kernel, inside):
            expect(alone.status == 0 and sums(c.rec.ran.out) == sums(alone.out),
                   "%s: untraced %s, traced %s" % (python, alone, c.rec.ran))
        inside.expect_inside(2)
        calls = [collections.Counter(sound(c.calls())) for c in (kernel, inside)]
        expect(sum(calls[0].values()) > 1000 and calls[0] == calls[1],
               "%s: %s; lost %r, inside %r" % (python, differ(*calls), kernel.lost, inside.lost))


@test("modes over PyTorch: training, errors of operators, and a data loader's processes", 240)
def _(t):
    if not os.path.exists(PYTHON) or t.run([PYTHON, "-c", "import torch"]).status:
        skip("%s has no torch" % PYTHON)
    kernel, inside = counted_by_both(t, "torch=tail,python=stats", [PYTHON, "-c", TRAINING],
                                     layers="torch,python")
    calls = [collections.Counter(c.calls()) for c in (kernel, inside)]
    expect(sum(calls[0].values()) > 1000 and calls[0] == calls[1],
           "%d calls; %s; lost %r, inside %r" % (sum(calls[0].values()), differ(*calls),
                                                 kernel.lost, inside.lost))


# ---- bursts ----


@test("bursts: calls that begin between them are not recorded, and those in them are", 90)
def _(t):
    job = Until(t, "bursts", (*INSIDE, "--burst", "1/4:100"))
    job.more(1200)
    job.end()
    t.wait_for(lambda: job.p.poll() is not None, "eacgm's end", 40)
    expect(job.p.returncode == 0, "eacgm: %s" % job.said())
    c = Calls(t, Recording(t, job.recording, Said(job.said())))
    c.expect_inside()
    made, told = job.read()[-1][1], [row for row in c.rows if row["name"] != "t_v2_leaf"]
    rests = [b for a, b in zip(told, told[1:]) if b["start_ns"] - a["start_ns"] > 150e6]
    expect(len(rests) > 2, "%d rests, %r of %d calls" % (len(rests), c.names, made))
    expect(1000 < c.names["t_v2_plain"] < 0.8 * made, "%r of %d calls" % (c.names, made))
    # one of each in turns: a burst has all that are in it
    expect(abs(c.names["t_v2_plain"] - c.names["t_v2_around_leaf"]) <= len(rests) + 1,
           "%r in %d bursts" % (c.names, len(rests) + 1))
    # the kernel's probes are on a little longer
    expect(c.names["t_v2_leaf"] >= c.names["t_v2_around_leaf"], "calls: %r" % c.names)
    expect(not c.untold(), "lost: %r" % c.lost)


# ---- where it cannot be ----


def expect_refused(c, err):
    lines = [line for line in err.splitlines() if "the kernel has all probes" in line]
    expect(len(lines) == 1, "one line says so: %s" % err)
    expect("probes inside" in c.notes or "kernel has all probes" in c.notes.replace(err, ""),
           "no note: %s" % c.notes)
    expect(c.number("inside_places") == 0 and c.names["t_v2_plain"] > 0, "calls: %r" % c.names)


@test("attached in bursts it is the kernel that probes, and that is said")
def _(t):
    options(t)
    job = Until(t)
    p = t.start_record("-p", str(job.p.pid), *options(t, *INSIDE, "--burst", "1/2"))
    job.more(3)
    rec = t.stop_record(p)
    job.end()
    rec.ran = Said("")
    expect_refused(Calls(t, rec), log_of(p))


main()
