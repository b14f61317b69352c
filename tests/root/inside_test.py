#!/usr/bin/env python3
"""inside_test.py - calls that are told inside of the job's processes (record --probes inprocess):
the job does what it does untraced, whatever it does with its arguments, frames, signals, threads,
processes and libraries, and what is recorded is what the kernel's probes record."""

import collections
import os
import re
import shutil
import signal
import time

from harness import Recording, expect, main, size_of, skip, test
from inside_calls import (CATALOG, INSIDE, JOB, KERNEL, LIBRARY, Calls, Said, Until, by_both,
                          by_process, differ, folder_of, options, plainly, same, sums, told, traced,
                          valued)


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


def best_ns(rows):
    return min((b[0] - a[0]) / (b[1] - a[1]) for a, b in zip(rows, rows[1:]))


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


main()
