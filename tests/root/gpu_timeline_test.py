"""gpu_timeline_test.py - what the GPU did, through the CUPTI shim, over the fake CUPTI and the
fake driver (tests/fake/cupti): each span that CUPTI made is in the recording, or counted."""

import glob
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from cupti_fakes import (CUDA, FAKES, FIRST, JOB, LONG, cupti, expect_note, expect_spans,
                         folder_with, notes_of, spans_in, spans_of)
from harness import BUILD, EACGM, ROOT, TARGETS, Recording, expect, main, skip, test

sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))
import perfetto_check  # noqa: E402


def folders():
    return glob.glob("/dev/shm/eacgm-gpu-*")


@test("kernels, copies and sets arrive with names, times and all else")
def _(t):
    before = folders()
    rec = t.record([JOB, "init", "kernel", FIRST, "3", "1500", "copy", "1", "4096", "kernel",
                    LONG, "2", "900", "peer", "88", "node", "0x500000001", "kernel", "plain", "1",
                    "1", "set", "77", "copy", "2", "5000000000"], *CUDA, env=cupti(t))
    expect_spans(t, rec)
    expect(rec.lost() == 0, "lost: %r" % rec.report["recording"])
    expect(not notes_of(rec), "notes: %r" % notes_of(rec))
    expect(set(folders()) <= set(before), "left behind: %r" % folders())
    made = len(spans_in(rec.ran.out))
    expect(", %d GPU spans in " % made in rec.ran.err, "what eacgm says: %s" % rec.ran)


@test("a job that may write no large files has a smaller ring, and lives")
def _(t):
    rec = t.record(["sh", "-c", 'ulimit -f 600; exec "$0" "$@"', JOB, "init", "kernel", FIRST,
                    "300", "1500"], *CUDA, env=cupti(t))
    expect_spans(t, rec)
    expect(not notes_of(rec), "notes: %r" % notes_of(rec))


@test("in a Perfetto trace they stand on their streams")
def _(t):
    if not shutil.which("protoc"):
        skip("no protoc")
    rec = t.record([JOB, "init", "kernel", FIRST, "30", "1500", "copy", "1", "4096", "kernel",
                    LONG, "2", "900", "kernel", "plain", "1", "1", "set", "77"], *CUDA,
                   env=cupti(t))
    made = len(spans_in(rec.ran.out))
    r = t.run([EACGM, "export", rec.path, "-o", t.path("trace")])
    expect(r.status == 0, "export: %s" % r)
    schema = pathlib.Path(ROOT, "src/export/perfetto.proto")
    trace = perfetto_check.Trace(perfetto_check.parse(perfetto_check.decode(
        t.path("trace"), schema)))
    work = trace.gpu_slices()
    expect(len(work) == made, "%d made, %d in the trace" % (made, len(work)))
    expect({"small_add", "plain", "Memset (Device)"} <= {s["name"] for s in work},
           "names: %r" % {s["name"] for s in work})


@test("a flame graph weighs launches by the time of their kernels")
def _(t):
    rec = t.record([JOB, "init", "kernel", FIRST, "70", "2000", "kernel", "plain_kernel", "10",
                    "90000"], "--gpu-timeline", "--profile", "gpu", env=cupti(t))
    expect_spans(t, rec)
    r = t.run([EACGM, "flame", "-k", "gpu", "-f", "folded", "-o", "-", rec.path])
    expect(r.status == 0, "flame: %s" % r)
    weights = {}
    for line in r.out.splitlines():
        stack, weight = line.rsplit(" ", 1)
        leaf = stack.split(";")[-1]
        weights[leaf] = weights.get(leaf, 0) + int(weight)
    expect(sum(weights.values()) == 70 * 2000 + 10 * 90000, "weights: %r" % weights)
    expect(sorted(weights.values()) == [140000, 900000], "weights: %r" % weights)


@test("no kernel runs before its launch")
def _(t):
    rec = t.record([JOB, "init", "kernel", FIRST, "500", "1000"], *CUDA, env=cupti(t))
    starts = sorted(int(s.split()[10]) for s in spans_of(t, rec))
    calls = sorted(c["start_ns"] for c in rec.calls if "grid" in c["args"])
    expect(len(starts) == len(calls) == 500, "%d spans, %d calls" % (len(starts), len(calls)))
    expect(all(s >= c for s, c in zip(starts, calls)), "a span is before its launch")


@test("more than buffers and the ring hold: each span arrives or is counted", 120)
def _(t):
    n = 160000  # a ring holds 131,072
    rec = t.record([JOB, "init", "quiet", "kernel", LONG, str(n), "700"], "--gpu-timeline",
                   "--mode", "stats", "--layers", "cuda", "--profile", "off", env=cupti(t))
    seen = len(spans_of(t, rec))
    lost = rec.lost("gpu_ring_full")
    expect(seen + lost == n, "%d seen, %d counted as lost, %d made" % (seen, lost, n))
    expect(seen > 0, "nothing arrived")


@test("a ring that nobody empties counts what it has no room for", 120)
def _(t):
    n = 180000
    p = t.start_record("--gpu-timeline", "--mode", "stats", "--layers", "cuda", "--profile", "off",
                       "--", JOB, "sleep", "1500", "init", "quiet", "kernel", FIRST, str(n), "700",
                       "sleep", "2500", env=dict(os.environ, **cupti(t)))
    # the whole of eacgm sleeps while the ring fills; its guard too would hold up the job
    os.kill(p.pid, signal.SIGSTOP)
    try:
        t.wait_for(lambda: ring_full_of(p) > 0, "the ring to be full", 60)
    finally:
        os.kill(p.pid, signal.SIGCONT)
    p.wait(timeout=60)
    rec = p.recording
    seen, lost = len(spans_of(t, rec)), rec.lost("gpu_ring_full")
    expect(lost > 0 and seen >= 100000, "%d seen, %d lost" % (seen, lost))
    expect(seen + lost == n, "%d seen, %d counted as lost, %d made" % (seen, lost, n))
    expect(rec.lost() >= lost, "the sum of losses lacks them")


def ring_full_of(_p):
    """The header's count of what found no room: offset 72 of wire/gpu_ring.h."""
    for path in glob.glob("/dev/shm/eacgm-gpu-*/[0-9]*"):
        try:
            with open(path, "rb") as f:
                head = f.read(80)
        except OSError:
            continue
        if len(head) == 80 and int.from_bytes(head[72:80], "little"):
            return int.from_bytes(head[72:80], "little")
    return 0


@test("what CUPTI drops and what it has no times of is counted")
def _(t):
    rec = t.record([JOB, "init", "kernel", FIRST, "5", "100", "drop", "41", "untimed", "untimed",
                    "kernel", FIRST, "5", "100", "sleep", "300", "drop", "2", "set", "9"], *CUDA,
                   env=cupti(t))
    expect_spans(t, rec)
    expect(rec.lost("gpu_span_dropped") == 43, "dropped: %d" % rec.lost("gpu_span_dropped"))
    expect(rec.lost("gpu_span_untimed") == 2, "untimed: %d" % rec.lost("gpu_span_untimed"))


@test("of a process that is killed all but the last moments is there, and it is said")
def _(t):
    rec = t.record([JOB, "init", "kernel", FIRST, "20", "100", "sleep", "600", "kernel", "late",
                    "4", "100", "kill"], *CUDA, env=cupti(t), status=128 + signal.SIGKILL)
    made = spans_in(rec.ran.out)
    early = [s for s in made if s.endswith(FIRST)]
    expect(len(early) == 20 and len(made) == 24, "made: %d" % len(made))
    seen = spans_of(t, rec)
    expect(set(early) <= set(seen) <= set(made), "seen: %r" % seen)
    expect_note(rec, "ended without handing over")


@test("two processes, each with its ring")
def _(t):
    rec = t.record([JOB, "fork", "init", "kernel", FIRST, "7", "300", "sleep", "150", "kernel",
                    "other", "9", "500"], *CUDA, env=cupti(t))
    expect_spans(t, rec)
    pids = {s.split()[1] for s in spans_of(t, rec)}
    expect(len(pids) == 2, "processes: %r" % pids)


@test("a child of a process with a ring leaves it alone")
def _(t):
    rec = t.record([JOB, "init", "kernel", FIRST, "7", "300", "fork", "sleep", "50", "quiet"],
                   *CUDA, env=cupti(t))
    expect_spans(t, rec)
    expect(not notes_of(rec), "notes: %r" % notes_of(rec))


@test("a CUPTI of CUDA 12 without the client's clock: times within 50 us")
def _(t):
    path = os.path.join(FAKES, "old", "libcupti.so.12")
    rec = t.record([JOB, "load", path, "init", "kernel", FIRST, "50", "1000", "copy", "1", "4096"],
                   *CUDA)
    made, seen = spans_in(rec.ran.out), spans_of(t, rec)
    expect(len(seen) == len(made) == 51, "%d made, %d seen" % (len(made), len(seen)))
    for m, s in zip(sorted(made, key=lambda x: int(x.split()[6])),
                    sorted(seen, key=lambda x: int(x.split()[6]))):
        m, s = m.split(), s.split()
        expect(m[:10] == s[:10] and m[12:] == s[12:], "%r is not %r" % (s, m))
        expect(int(s[11]) - int(s[10]) == int(m[11]) - int(m[10]), "length of %r" % s)
        expect(abs(int(s[10]) - int(m[10])) < 50000, "off by %d ns" % (int(s[10]) - int(m[10])))


@test("CUPTI is found beside the CUDA runtime that the process has loaded")
def _(t):
    folder_with(t, "wheel/nvidia/cuda_cupti/lib", "old/libcupti.so.12")
    runtime = t.path("wheel/nvidia/cuda_runtime/lib")
    os.makedirs(runtime)
    shutil.copy(os.path.join(TARGETS, "gpu", "libcudart.so.12"), runtime)
    rec = t.record([JOB, "load", os.path.join(runtime, "libcudart.so.12"), "init", "kernel", FIRST,
                    "5", "100"], *CUDA)
    expect(len(spans_of(t, rec)) == len(spans_in(rec.ran.out)) == 5, "spans: %r" % spans_of(t, rec))


def cupti_of_host():
    r = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=True)
    known = [line.split()[-1] for line in r.stdout.splitlines() if "libcupti.so" in line]
    return known + glob.glob("/usr/local/cuda/**/libcupti.so*", recursive=True)


@test("where there is no CUPTI the job runs, and the recording says so")
def _(t):
    if not shutil.which("unshare"):
        skip("unshare (util-linux) is not installed")
    out = t.path("none.eacgm")
    hide = "".join("mount --bind /dev/null %s && " % os.path.realpath(f) for f in cupti_of_host())
    r = t.run(["unshare", "-m", "sh", "-c", hide + 'exec "$0" "$@"', EACGM, "record", "-o", out,
               *CUDA, "--", JOB, "init", "kernel", FIRST, "5", "100"])
    expect(r.status == 0, "record: %s" % r)
    rec = Recording(t, out, r)
    expect(rec.report["recording"]["lost"] == 0 and not spans_of(t, rec), "spans or losses")
    expect_note(rec, "comes with the CUDA toolkit")
    expect(len([c for c in rec.calls if "grid" in c["args"]]) == 5, "launches are missing")


@test("where CUPTI refuses, the recording says why")
def _(t):
    rec = t.record([JOB, "init", "kernel", FIRST, "5", "100"], *CUDA,
                   env=dict(cupti(t), FAKE_CUPTI_REFUSES="1"))
    expect(not spans_of(t, rec), "spans")
    expect_note(rec, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")


@test("another tool's injection is left alone")
def _(t):
    other = os.path.join(BUILD, "libeacgm_gpu.so")
    rec = t.record([JOB, "init", "kernel", FIRST, "5", "100"], *CUDA,
                   env=dict(cupti(t), CUDA_INJECTION64_PATH=other))
    expect(not spans_of(t, rec), "spans")
    expect_note(rec, "CUDA_INJECTION64_PATH is set")
    expect("CUDA_INJECTION64_PATH is set" in rec.ran.err, "said: %r" % rec.ran.err)


@test("a command without CUDA gets a note")
def _(t):
    rec = t.record(["true"], *CUDA)
    expect_note(rec, "no process used CUDA")


@test("waits, and graphs as wholes, where they are asked for")
def _(t):
    work = [JOB, "init", "kernel", FIRST, "3", "500", "whole", "9000", "wait", "3", "4000", "wait",
            "1", "100"]
    env = cupti(t)
    nodes = t.record(work, *CUDA, env=env)
    kinds = [line.split()[2] for line in spans_of(t, nodes)]
    expect(sorted(kinds) == ["kernel"] * 3, "kinds: %r" % kinds)
    waits = t.record(work, "--gpu-timeline=waits", *CUDA[1:], env=env)
    kinds = [line.split()[2] for line in spans_of(t, waits)]
    expect(sorted(kinds) == ["kernel"] * 3 + ["sync"] * 2, "kinds: %r" % kinds)
    wholes = t.record(work, "--gpu-timeline=graphs", *CUDA[1:], env=env)
    kinds = [line.split()[2] for line in spans_of(t, wholes)]
    expect(sorted(kinds) == ["graph"] + ["kernel"] * 3, "kinds: %r" % kinds)


@test("--gpu-timeline=off gives nothing to the command, and another word is refused")
def _(t):
    rec = t.record(["env"], "--gpu-timeline=off", "--layers", "cuda")
    expect("CUDA_INJECTION64_PATH" not in rec.ran.out, rec.ran.out)
    r = t.run([EACGM, "record", "--gpu-timeline=some", "--", "true"])
    expect(r.status == 2 and "graphs" in r.err, "said: %s" % r)


@test("without --gpu-timeline nothing is given to the command")
def _(t):
    rec = t.record(["env"], "--layers", "cuda,gpu", env=cupti(t))
    expect("CUDA_INJECTION64_PATH" not in rec.ran.out and "EACGM_GPU" not in rec.ran.out,
           rec.ran.out)


@test("when the recording ends before the job, CUPTI is switched off and the job goes on", 60)
def _(t):
    said = t.path("said")
    with open(said, "w") as f:
        p = t.start([EACGM, "record", "-o", t.path("short.eacgm"), *CUDA, "-d", "1", "--", JOB,
                     "init", "kernel", FIRST, "5", "100", "sleep", "4000", "kernel", "after", "5",
                     "100"], stdout=f, stderr=subprocess.PIPE, text=True,
                    env=dict(os.environ, FAKE_CUPTI_LOG=t.path("finalized"), **cupti(t)))
        p.wait(timeout=30)
    t.wait_for(lambda: no_job_left(t), "the job to end", 20)
    with open(said) as f:
        made = spans_in(f.read())
    expect(len(made) == 5 and all(s.endswith(FIRST) for s in made),
           "CUPTI still made records: %r" % made)
    with open(t.path("finalized")) as f:
        expect(f.read() == "outside\n", "CUPTI was not ended once")
    r = t.run([os.path.join(FAKES, "list_spans"), t.path("short.eacgm")])
    expect(spans_in(r.out) == made, "seen: %r" % r.out)


def no_job_left(t):
    """Nobody has the test's own copy of CUPTI mapped."""
    mine = t.path("cupti")
    for maps in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(maps) as f:
                if mine in f.read():
                    return False
        except OSError:
            continue
    return True


@test("when eacgm is killed, CUPTI is switched off, and the next session cleans up", 60)
def _(t):
    said = t.path("said")
    with open(said, "w") as f:
        p = t.start([EACGM, "record", "-o", t.path("killed.eacgm"), *CUDA, "--", JOB, "init",
                     "kernel", FIRST, "5", "100", "sleep", "3000", "kernel", "after", "5", "100"],
                    stdout=f, stderr=subprocess.DEVNULL, env=dict(os.environ, **cupti(t)))
        t.wait_for(lambda: os.path.getsize(said) > 100, "the job to begin")
        left = [d for d in folders() if glob.glob(d + "/[0-9]*")]
        os.kill(p.pid, signal.SIGKILL)
        p.wait(timeout=10)
    t.wait_for(lambda: no_job_left(t), "the job to end", 20)
    with open(said) as f:
        made = spans_in(f.read())
    expect(len(made) == 5, "CUPTI still made records: %r" % made)
    expect(left, "the session had no folder")
    for d in left:
        os.utime(d, (0, 0))  # long ago
    t.record(["true"], *CUDA)
    expect(not set(left) & set(folders()), "left behind: %r" % folders())


if __name__ == "__main__":
    main()
