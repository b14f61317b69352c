#!/usr/bin/env python3
"""facts_cache_test.py - what files were found to hold is kept: the next recording of the same files
reads none of them, and records the same. One that was rewritten in place is read anew, and what is
damaged or somebody else's in the cache is not believed."""

import json
import os
import shutil
import subprocess
import time

from harness import EACGM, Recording, expect, main, skip, test
from readers import readers

LIBRARY = """
__asm__(".text; .skip BEFORE, 0x90");
static volatile int sum;
__attribute__((noinline)) int first_place(int n)
{
	return sum += n;
}
__asm__(".text; .skip 4096 - BEFORE, 0x90");
int run(int n)
{
	for (int i = 0; i < n; i++)
		first_place(i);
	return sum;
}
"""
PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*run)(int) = library ? (int (*)(int))dlsym(library, "run") : NULL;
	if (!run)
		return 1;
	run(7);
	puts("half");
	fflush(stdout);
	getchar();
	run(5);
	return 0;
}
"""
PROBE = "liba.so:first_place(i32 n) -> i32"
CALLS = 12


def compile_library(t, before):
    with open(t.path("liba.c"), "w", encoding="ascii") as f:
        f.write(LIBRARY.replace("BEFORE", str(before)))
    r = t.run(["gcc", "-O1", "-shared", "-fPIC", "-o", "made.so", "liba.c"], cwd=t.dir)
    expect(r.status == 0, r.err)
    with open(t.path("made.so"), "rb") as f:
        return f.read()


def settle(t, *paths):
    """Files are kept that have been as they are for 2 s."""
    t.wait_for(lambda: all(time.time() - os.stat(p).st_ctime > 2.1 for p in paths), "old files")


def prepare(t):
    if not shutil.which("gcc"):
        skip("gcc is not installed")
    kind = t.run(["stat", "-f", "-c", "%T", t.dir]).out.strip()
    if kind not in ("ext2/ext3", "xfs", "btrfs") or \
            os.statvfs(t.dir).f_flag & os.ST_NOSUID:
        skip("nothing is kept of files on %s" % kind)
    with open(t.path("program.c"), "w", encoding="ascii") as f:
        f.write(PROGRAM)
    r = t.run(["gcc", "-O1", "-o", "program", "program.c", "-ldl"], cwd=t.dir)
    expect(r.status == 0, r.err)
    with open(t.path("liba.so"), "wb") as f:
        f.write(compile_library(t, 1024))
    os.chmod(t.path("liba.so"), 0o755)
    settle(t, t.path("liba.so"), t.path("program"))


def kept_now(t):
    if not os.path.isdir(t.path("cache/facts")):
        return set()
    with os.scandir(t.path("cache/facts")) as entries:
        return {(e.inode(), e.stat().st_ctime_ns) for e in entries if e.name.endswith(".facts")}


def mapped_files(recorder):
    """How many files the program has mapped to execute."""
    with open("/proc/%d/task/%d/children" % (recorder, recorder)) as f:
        pids = f.read().split()
    program, = (p for p in pids if os.readlink("/proc/%s/exe" % p).endswith("/program"))
    with open("/proc/%s/maps" % program) as f:
        rows = [line.split() for line in f]
    return len({row[4] for row in rows if "x" in row[1] and row[4] != "0"})


ALL = -1


class Run:
    """One recording of the program; the calls, what was read for it, and by whom."""

    def __init__(self, t, *options, probe=PROBE, new=0):
        """new: the program waits until so many files are kept that were not there before; ALL: of
        each file that it has mapped, one for its probes and one for its stacks."""
        out = t.path("run.eacgm")
        before = kept_now(t)
        p = t.start([EACGM, "record", "--probe", probe, *options, "-o", out, "--",
                     t.path("program"), t.path("liba.so")],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    text=True, env=dict(os.environ, EACGM_CACHE=t.path("cache")))
        expect(p.stdout.readline() == "half\n", "the program did not run")
        self.readers = readers(p.pid)
        files = mapped_files(p.pid) if new == ALL else 0
        t.wait_for(lambda: len(kept_now(t) - before) >= (2 * files or new), "what is kept")
        p.stdin.write("\n")
        p.stdin.flush()
        self.result = t.finish(p)
        expect(self.result.status == 0, self.result.err)
        rec = Recording(t, out, self.result)
        self.calls = rec.count("first_place")
        self.functions = {f["name"]: f["calls"] for f in rec.report["functions"]}
        exported = t.run([EACGM, "export", out, "-f", "jsonl", "-o", "-"])
        meta = json.loads(exported.out.splitlines()[0])
        self.read, self.cached = int(meta["files_read"]), int(meta["files_cached"])
        self.sites = int(meta["attach_sites"])

    def __str__(self):
        return "calls %d, read %d, cached %d, sites %d, readers %s\n%s" % (
            self.calls, self.read, self.cached, self.sites, self.readers, self.result.err)


def kept(t):
    folder = t.path("cache/facts")
    return sorted(os.path.join(folder, name) for name in os.listdir(folder))


def expect_read(run):
    expect(run.calls == CALLS and run.read and not run.cached and run.readers, str(run))


def expect_cached(run, first):
    expect(run.calls == CALLS and run.sites == first.sites and run.functions == first.functions,
           "%s\n%s" % (run, first))
    expect(not run.read and run.cached == first.read + first.cached, str(run))
    if " 0 samples in" in run.result.err:  # else their names were read, of which nothing is kept
        expect(not run.readers, str(run))


@test("a second recording of the same files reads none of them", 120)
def _(t):
    prepare(t)
    first = Run(t, new=ALL)
    expect_read(first)
    expect(len(kept(t)) == first.read, "%s %s" % (kept(t), first))
    for path in kept(t):
        expect(os.stat(path).st_mode & 0o777 == 0o600, path)
    expect_cached(Run(t), first)
    expect_cached(Run(t, "-u", "nobody"), first)


@test("the heads of unwind tables are kept as well", 120)
def _(t):
    prepare(t)
    first = Run(t, "--profile", "cpu", new=ALL)
    expect(first.read and not first.cached, str(first))
    second = Run(t, "--profile", "cpu")
    expect(not second.read and second.cached == first.read, "%s\n%s" % (first, second))


@test("a library that was rewritten in place is read anew", 120)
def _(t):
    prepare(t)
    path = t.path("liba.so")
    first = Run(t, new=ALL)
    expect_read(first)
    before = os.stat(path)
    other = compile_library(t, 2048)
    expect(len(other) == before.st_size, "the library's size has changed: %d" % len(other))
    with open(path, "r+b") as f:
        f.write(other)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.stat(path)
    expect((after.st_ino, after.st_size, after.st_mtime_ns) ==
           (before.st_ino, before.st_size, before.st_mtime_ns), "another file: %s" % (after,))
    settle(t, path)
    second = Run(t, new=2)
    # for probes, and for stacks
    expect(second.calls == CALLS and second.read == 2 and second.cached == first.read - 2,
           str(second))
    expect_cached(Run(t), second)


@test("another question about the same files is asked", 120)
def _(t):
    prepare(t)
    first = Run(t, new=ALL)
    expect_read(first)
    second = Run(t, probe="liba.so:run(i32 n) -> i32", new=1)
    expect(second.functions.get("run") == 2 and not second.calls, second.functions)
    expect(second.read == 1 and second.cached == first.read - 1, str(second))


@test("damaged files in the cache, and those of others, are not believed", 120)
def _(t):
    prepare(t)
    first = Run(t, new=ALL)
    expect_read(first)
    for i, path in enumerate(kept(t)):
        with open(path, "r+b") as f:
            if i % 2:
                f.truncate(os.stat(path).st_size // 2)
            else:
                f.seek(-1, os.SEEK_END)
                byte = f.read(1)
                f.seek(-1, os.SEEK_END)
                f.write(bytes([byte[0] ^ 1]))
    expect_read(Run(t, new=ALL))
    for path in kept(t):
        os.chown(path, 65534, 65534)
    expect_read(Run(t, new=ALL))
    expect_cached(Run(t), first)
    os.chmod(t.path("cache/facts"), 0o777)
    expect_read(Run(t))


main()
