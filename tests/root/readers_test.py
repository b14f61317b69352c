#!/usr/bin/env python3
"""readers_test.py - the processes that read files for eacgm: what they may do, and what it costs
when they are killed, or fall silent, in the middle of a recording."""

import os
import re
import shutil
import signal
import subprocess

from harness import EACGM, expect, main, skip, test
from readers import readers

SOURCE = """
#include <stdio.h>
static volatile unsigned long sum;
const char padding[6 << 20] = {1}; /* small files are not mapped, but copied */
static __attribute__((noinline)) void spin(void)
{
	for (int i = 0; i < 1000000; i++)
		sum += (unsigned long)i;
}
void named_outer(void)
{
	for (int i = 0; i < 400; i++)
		spin();
	sum++;
}
int main(void)
{
	named_outer();
	puts("half");
	fflush(stdout);
	getchar();
	named_outer();
	return 0;
}
"""


def program(t):
    if not shutil.which("gcc"):
        skip("gcc is not installed")
    with open(t.path("job.c"), "w", encoding="ascii") as f:
        f.write(SOURCE)
    r = t.run(["gcc", "-O1", "-Wl,--build-id", "-o", "job", "job.c"], cwd=t.dir)
    expect(r.status == 0, r.err)
    return t.path("job")


def namers(pid):
    """Those that have read the job, to name its functions: they keep it mapped."""
    found = []
    for reader in readers(pid):
        with open("/proc/%d/maps" % reader, encoding="ascii") as f:
            if "/job" in f.read():
                found.append(reader)
    return found


def has_rules(t, path):
    """Its unwind rules are kept under its build id once they are made."""
    notes = t.run(["readelf", "-n", path]).out
    build_id = re.search("Build ID: ([0-9a-f]+)", notes).group(1)
    kept = t.path("cache/unwind")
    return os.path.isdir(kept) and any(name.startswith(build_id) for name in os.listdir(kept))


def status(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def record(t, at_half):
    """Folded stacks of the job, and the report; at_half is called in the middle of it."""
    out, job = t.path("job.eacgm"), program(t)
    p = t.start([EACGM, "record", "--profile", "cpu", "-o", out, "--", job],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=dict(os.environ, EACGM_CACHE=t.path("cache")))
    expect(p.stdout.readline() == "half\n", "the job did not run")
    t.wait_for(lambda: has_rules(t, job), "rules for its stacks")
    t.wait_for(lambda: namers(p.pid), "who names the job's functions")
    at_half(p.pid)
    p.stdin.write("\n")
    p.stdin.flush()
    r = t.finish(p)
    expect(r.status == 0, r.err)
    flame = t.run([EACGM, "flame", out, "-k", "cpu", "-f", "folded", "-o", "-"])
    report = t.run([EACGM, "report", out])
    expect(flame.status == 0 and report.status == 0, "%s%s" % (flame, report))
    expect("cut short" not in report.out, report.out)
    return flame.out, report.out


@test("readers have no capabilities, no user and few system calls", 120)
def _(t):
    seen = []
    folded, _ = record(t, lambda pid: seen.extend(status(r) for r in readers(pid)))
    expect(seen, "no reader was seen")
    for s in seen:
        for key in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            expect(int(s[key], 16) == 0, "%s: %s" % (key, s[key]))
        expect(s["Seccomp"] == "2" and s["NoNewPrivs"] == "1", s)
        expect(s["Uid"].split() == ["65534"] * 4 and s["Gid"].split() == ["65534"] * 4, s)
        expect(not s["Groups"].strip(), s["Groups"])
    expect("main;named_outer;spin" in folded, folded)


@test("readers that are killed cost nothing but their time", 120)
def _(t):
    def kill(pid):
        for reader in readers(pid):
            os.kill(reader, signal.SIGKILL)

    folded, _ = record(t, kill)
    expect("main;named_outer;spin" in folded, folded)


# It costs the one that is asked about next.
@test("a reader that falls silent costs the names of a file, and a note says so", 120)
def _(t):
    stopped = []

    def stop(pid):
        for reader in namers(pid):
            os.kill(reader, signal.SIGSTOP)
            stopped.append(reader)

    folded, report = record(t, stop)
    expect(stopped, "no reader was seen")
    t.wait_for(lambda: not any(os.path.exists("/proc/%d" % r) for r in stopped),
               "stopped readers to end with eacgm")
    notes = [line for line in report.splitlines() if line.startswith("  names of ")]
    expect(len(notes) == 1 and "took too long" in notes[0], report)
    expect("named_outer" in folded or "__libc_start_main" in folded, folded)


main()
