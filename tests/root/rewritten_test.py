#!/usr/bin/env python3
"""rewritten_test.py - files that change while they are traced: cut short, replaced, written
over, and different ones under one path. Recordings go on, and no function has a name of another
file."""

import shutil

from harness import EACGM, Recording, expect, main, skip, test

LIBRARY = """
static volatile unsigned long sum;
const char padding[PADDING] = {1};
static __attribute__((noinline)) void NAME(void)
{
	for (int i = 0; i < 1000000; i++)
		sum += (unsigned long)i;
}
void run(int times)
{
	for (int i = 0; i < times; i++)
		NAME();
	sum++;
}
"""
PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double cpu_ms(void)
{
	struct timespec cpu;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	return (double)cpu.tv_sec * 1e3 + (double)cpu.tv_nsec / 1e6;
}
int main(int argc, char **argv)
{
	void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void (*run)(int) = library ? (void (*)(int))dlsym(library, "run") : NULL;
	if (!run)
		return 1;
	double before_ms = cpu_ms(); /* without what it was held for while it began */
	run(atoi(argv[2]));
	printf("%g\\n", cpu_ms() - before_ms);
	return 0;
}
"""
SMALL, LARGE = 16, 6 << 20  # the pipeline copies files up to 4 MiB


def compile_all(t, padding):
    """The program, and two libraries that are alike but for a function's name."""
    if not shutil.which("gcc"):
        skip("gcc is not installed")
    with open(t.path("program.c"), "w", encoding="ascii") as f:
        f.write(PROGRAM)
    r = t.run(["gcc", "-O1", "-o", "program", "program.c", "-ldl"], cwd=t.dir)
    expect(r.status == 0, r.err)
    for name in ("first", "second"):
        with open(t.path(name + ".c"), "w", encoding="ascii") as f:
            f.write(LIBRARY.replace("NAME", name + "_spin").replace("PADDING", str(padding)))
        r = t.run(["gcc", "-O1", "-shared", "-fPIC", "-Wl,--build-id", "-o", name + ".so",
                   name + ".c"], cwd=t.dir)
        expect(r.status == 0, r.err)
    shutil.copy(t.path("first.so"), t.path("lib.so"))


def record(t, script):
    """Folded CPU stacks of a shell script, and the CPU time that each of its programs ran for, ms."""
    r = t.run([EACGM, "record", "--profile", "cpu", "-o", t.path("x.eacgm"), "--", "/bin/sh",
               "-ec", script], cwd=t.dir, seconds=60)
    expect(r.status == 0, "record: %s" % r)
    flame = t.run([EACGM, "flame", t.path("x.eacgm"), "-k", "cpu", "-f", "folded", "-o", "-"])
    expect(flame.status == 0, flame.err)
    return flame.out, [float(line) for line in r.out.splitlines() if line[0].isdigit()]


def weight_ms(folded, name):
    """CPU time in that function, and in what interrupts it."""
    return sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()
               if name in line.rsplit(" ", 1)[0].split(";")) / 1e6


# A library's page that is cut kills the program that runs on it: not the recording.
@test("a library cut short while it is mapped does not end the recording", 120)
def _(t):
    for padding in (SMALL, LARGE):
        for left in (0, 4096):
            compile_all(t, padding)
            folded, cpu_ms = record(t, "./program ./lib.so 400; ./program ./lib.so 100000 & sleep 0.7;"
                                    "truncate -s %d lib.so; wait $! || true" % left)
            expect("program" in folded or "main" in folded, folded)
            if padding == SMALL:
                expect(weight_ms(folded, "first_spin") > 0.8 * cpu_ms[0] - 40, folded)


# How fast a CPU is can change from one second to the next: samples are compared with CPU time.
def expect_each_named(t, script):
    folded, cpu_ms = record(t, script)
    for name, ms in zip(("first_spin", "second_spin"), cpu_ms, strict=True):
        seen = weight_ms(folded, name)
        expect(abs(seen - ms) < 40 + ms / 5, "%s has %d ms of %d: %s" % (name, seen, ms, folded))


@test("a library that was replaced: each run has its own names", 120)
def _(t):
    for padding in (SMALL, LARGE):
        compile_all(t, padding)
        expect_each_named(t, "./program ./lib.so 600; rm lib.so; cp second.so lib.so;"
                          "./program ./lib.so 900")


@test("a library that was written over: each run has its own names", 120)
def _(t):
    compile_all(t, SMALL)
    expect_each_named(t, "./program ./lib.so 600; cat second.so > lib.so; ./program ./lib.so 900")


@test("a large library that was written over: no names rather than wrong ones", 120)
def _(t):
    compile_all(t, LARGE)
    folded, (first_ms, second_ms) = record(
        t, "./program ./lib.so 600; cat second.so > lib.so; ./program ./lib.so 300")
    second, unnamed = weight_ms(folded, "second_spin"), weight_ms(folded, "[lib.so]")
    expect(abs(second - second_ms) < 40 + second_ms / 5, "%d ms: %s" % (second_ms, folded))
    expect(abs(unnamed - first_ms) < 40 + first_ms / 5, "%d ms: %s" % (first_ms, folded))
    expect(weight_ms(folded, "first_spin") == 0, folded)


@test("one path in two mount namespaces: each has its own names", 120)
def _(t):
    if t.run(["unshare", "-m", "true"]).status:
        skip("no mount namespaces here")
    compile_all(t, SMALL)
    expect_each_named(t, "./program ./lib.so 600; unshare -m sh -ec '"
                    "mount --bind second.so lib.so; exec ./program ./lib.so 900'")


SWAPPER = """
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#define PAIRS 8
static int fds[PAIRS][2];
static char *at[PAIRS];
static void *swap(void *arg)
{
	for (unsigned n = 0;; n++)
		for (int i = 0; i < PAIRS; i++)
			mmap(at[i], 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fds[i][n & 1], 0);
	return arg;
}
int main(void)
{
	char name[32];
	pthread_t thread;
	for (int i = 0; i < PAIRS; i++) {
		snprintf(name, sizeof(name), "./root%d.so", i);
		fds[i][0] = open(name, O_RDONLY);
		snprintf(name, sizeof(name), "./own%d.so", i);
		fds[i][1] = open(name, O_RDONLY);
		at[i] = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	pthread_create(&thread, NULL, swap, NULL);
	for (;;) {
		void *library = dlopen("./tells.so", RTLD_NOW);
		usleep(2000);
		dlclose(library);
	}
}
"""
VICTIM = """
#include <dlfcn.h>
#include <stdio.h>
int main(void)
{
	char name[32];
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "./root%d.so", i);
		void *library = dlopen(name, RTLD_NOW);
		snprintf(name, sizeof(name), "work_of_root%d", i);
		void (*work)(void) = library ? (void (*)(void))dlsym(library, name) : NULL;
		for (int n = 0; work && n < 100; n++)
			work();
	}
	return 0;
}
"""


# The numbers of a mapping are read, then its file is opened: another may be there by then.
@test("a process that swaps files while they are looked at: others' are traced all the same", 120)
def _(t):
    if not shutil.which("gcc"):
        skip("gcc is not installed")
    for name, text in (("swapper", SWAPPER), ("victim", VICTIM)):
        with open(t.path(name + ".c"), "w", encoding="ascii") as f:
            f.write(text)
        r = t.run(["gcc", "-O1", "-o", name, name + ".c", "-ldl", "-lpthread"], cwd=t.dir)
        expect(r.status == 0, r.err)
    names = ["%s%d" % (kind, i) for kind in ("root", "own") for i in range(8)] + ["tells"]
    for name in names:
        with open(t.path(name + ".c"), "w", encoding="ascii") as f:
            f.write("volatile int n; void work_of_%s(void) { n++; }" % name)
        r = t.run(["gcc", "-shared", "-fPIC", "-o", name + ".so", name + ".c"], cwd=t.dir)
        expect(r.status == 0, r.err)
    out = t.path("swap.eacgm")
    probes = [w for i in range(8) for w in ("--probe", "root%d.so:work_of_root%d()" % (i, i))]
    r = t.run([EACGM, "record", *probes, "--profile", "cpu", "-o", out, "--", "/bin/sh", "-c", "timeout 3 ./swapper & sleep 1.5; ./victim; wait"], cwd=t.dir,
              seconds=60)
    expect(r.status == 0, "record: %s" % r)
    report = Recording(t, out, r).report
    calls = {f["name"]: f["calls"] for f in report["functions"] if f["name"].startswith("work_of")}
    expect(calls == {"work_of_root%d" % i: 100 for i in range(8)}, repr(calls))


main()
