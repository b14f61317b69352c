#!/usr/bin/env python3
"""programs_test.py - what the report says of processes and ranks: CPU time of processes that have
ended, programs, and which rank the others wait for."""

import collections
import os
import shutil
import subprocess

from harness import EACGM, LIBTARGET, Recording, expect, main, skip, target, test

BUSY = "import time, threading\n" \
    "def burn(s):\n" \
    "    end = time.thread_time() + s\n" \
    "    while time.thread_time() < end: pass\n"


def processes_named(rec, comm):
    return [p for p in rec.report["processes"] if p["comm"] == comm]


@test("CPU time of processes that end, of all their threads")
def _(t):
    script = "%s -c '%sburn(0.2); ts = [threading.Thread(target=burn, args=(0.15,)) for _ in " \
        "range(3)]; [x.start() for x in ts]; [x.join() for x in ts]' & sleep 0.1; wait" % (
            "/usr/bin/python3", BUSY)
    rec = t.record(["sh", "-c", script])
    python, = processes_named(rec, "python3")
    expect(0.65e9 <= python["cpu_ns"] < 1.5e9, "four threads used 0.65 s: %r" % python)
    asleep, = processes_named(rec, "sleep")
    expect(0 < asleep["cpu_ns"] < 0.1e9, "it slept: %r" % asleep)
    program = rec.report["programs"][0]
    expect(program["name"] == "python3" and program["cpu_ns"] == python["cpu_ns"],
           "the busiest is first: %r" % rec.report["programs"])


@test("a program that was called by a link has that name, and so have its functions")
def _(t):
    link = os.path.join(os.path.dirname(t.path("x")), "called-so")
    file = t.path("real-name")
    shutil.copy(target("unwind_shapes"), file)
    os.symlink(os.path.basename(file), link)
    rec = t.record(["timeout", "0.7", link, "recurse"], status=124,
                   env={"LD_LIBRARY_PATH": os.path.dirname(LIBTARGET)})
    commands = {p["command"] for p in rec.report["processes"]}
    expect(link in commands and file not in commands, "%r" % commands)
    text = t.run([EACGM, "report", rec.path, "--section", "profile"]).out
    expect("(called-so)" in text and "real-name" not in text, text)


@test("of a process that was running, what it used before is not counted")
def _(t):
    go = t.path("go")
    p = t.start(["/usr/bin/python3", "-c", BUSY + "import os, sys\nburn(1)\nprint('on', flush=True)"
                 "\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\nburn(0.1)", go],
                stdout=subprocess.PIPE, text=True)
    expect(p.stdout.readline() == "on\n", "it did not run")
    out = t.path("attached.eacgm")
    recorder = t.start_record("-p", str(p.pid), out=out)
    open(go, "w", encoding="ascii").close()
    p.wait(timeout=30)
    recorder.wait(timeout=30)
    process, = [q for q in Recording(t, out).report["processes"] if q["pid"] == p.pid]
    expect(process["cpu_ns"] is None or 0.05e9 < process["cpu_ns"] < 0.8e9, "%r" % process)


@test("processes by program in the text, and each of them when asked")
def _(t):
    rec = t.record(["sh", "-c", "for i in 1 2 3 4 5; do sleep 0.02 & done; wait"])
    text = t.run([EACGM, "report", rec.path]).out
    expect("sleep × 5" in text, text)
    full = t.run([EACGM, "report", rec.path, "--section", "processes"]).out
    expect(sum(line.endswith("  sleep") for line in full.splitlines()) == 5, full)


def expect_slow(t, rec, function):
    f, = [f for f in rec.report["functions"] if f["name"] == function]
    waits = {r["rank"]: r["total_ns"] for r in f["ranks"]}
    expect(set(waits) == {0, 1} and waits[0] > 3 * waits[1], "waits by rank: %r" % waits)
    expect([r["rank"] for r in f["ranks"] if r["slow"]] == [1], "%r" % f["ranks"])
    text = t.run([EACGM, "report", rec.path]).out
    expect("rank 1 is the slow one" in text, text)


@test("the rank that waits least is the slow one: a program with MPI's library")
def _(t):
    folder = t.path("ranks")
    os.mkdir(folder)
    script = ("export OMPI_COMM_WORLD_SIZE=2 MPI_FILES=%s; for r in 0 1; do OMPI_COMM_WORLD_RANK=$r "
              "%s 1 & done; wait" % (folder, target("mpi_rank")))
    rec = t.record(["sh", "-c", script])
    expect_slow(t, rec, "MPI_Allreduce")
    f, = [f for f in rec.report["functions"] if f["name"] == "MPI_Allreduce"]
    expect((f["layer"], f["calls"], f["errors"]) == ("mpi", 22, 2), "%r" % f)
    counts = collections.Counter(c["args"]["count"] for c in rec.calls)
    expect(counts == {7: 20, -1: 2}, "%r" % counts)


@test("the same with Open MPI")
def _(t):
    if not shutil.which("mpicc") or not shutil.which("mpirun"):
        skip("no mpicc and mpirun (Debian: libopenmpi-dev, openmpi-bin)")
    source, program = t.path("ranks.c"), t.path("ranks")
    with open(source, "w", encoding="ascii") as f:
        f.write("""#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	double x = 1, sum;
	int rank;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < 10; i++) {
		usleep(rank ? 200000 : 1000);
		MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	MPI_Finalize();
}
""")
    built = t.run(["mpicc", "-O1", "-o", program, source])
    if built.status:
        skip("mpicc: %s" % built.err[-150:])
    rec = t.record(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", program],
                   "--layers", "mpi")
    expect_slow(t, rec, "MPI_Allreduce")
    calls = {f["name"]: f["calls"] for f in rec.report["functions"] if f["layer"] == "mpi"}
    expect(calls == {"MPI_Init": 2, "MPI_Allreduce": 20, "MPI_Finalize": 2}, "%r" % calls)


main()
