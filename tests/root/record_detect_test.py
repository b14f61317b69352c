#!/usr/bin/env python3
"""record_detect_test.py - `eacgm record --detect` of a PyTorch job on the CPU that slows down for a
while: it is told when it happens, and is in the recording and its exports, and `watch` prints it.
How rarely a job that does not slow down alarms is detector_test's: here the machine may be busy."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/golden"))
import perfetto_check  # noqa: E402

import models
from harness import (EACGM, PYTHON, Recording, expect, expect_one_line, log_of, main, needs_torch,
                     skip, test)

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "rhythm_job.py")
OPTIONS = ["--layers", "torch", "--profile", "off"]
# Of the host's counters (preemptions) a busy machine tells as well: they are not asked for here.
WORK = r"eacgm: anomaly: (torch|step), pid %d: (.*)"


SLOW_FROM_S = 8


kept = []  # the model, as bytes, from when on and until when jobs are slow: it is the same for all


def learned(t):
    """(a model of the job, the arguments of one that is slow for long enough)"""
    if not kept:
        path, from_s, slow_s = models.learned(t, lambda: t.record([PYTHON, JOB, "13"], *OPTIONS))
        from_s = max(SLOW_FROM_S, from_s)
        with open(path, "rb") as f:
            kept.extend([f.read(), from_s, from_s + slow_s])
    model, (content, slow_from, slow_to) = t.path("job.model"), kept
    with open(model, "wb") as f:
        f.write(content)
    return model, [str(slow_to + 2), str(slow_from), str(slow_to)]


def start(t, name, model, *job):
    out = t.path(name)
    log = open(out + ".log", "w+")
    p = t.start([EACGM, "record", "-o", out, "--detect=" + model, *OPTIONS, "--", PYTHON, JOB,
                 *job], stdout=subprocess.PIPE, stderr=log, text=True)
    p.log, p.recording = log, Recording(t, out)
    return p


def slow_times(out):
    return [int(word) for word in re.search(r"slow (\d+) (\d+)", out).groups()]


def has_torch(p):
    with open("/proc/%d/maps" % p.pid, encoding="ascii", errors="replace") as f:
        return "libtorch_cpu" in f.read()


def start_watched(t, model, *job):
    """A job by itself, whose loop begins when it is watched, and who watches it."""
    go = t.path("go")
    p = t.start([PYTHON, JOB, *job], stdout=subprocess.PIPE, text=True,
                env=dict(os.environ, RHYTHM_AFTER=go))
    t.wait_for(lambda: has_torch(p), "PyTorch in the job", 60)
    said = open(t.path("watch.err"), "w+", encoding="utf-8")
    w = t.start([EACGM, "watch", "-p", p.pid, "-m", model, "--json", "--layers", "torch"],
                stdout=subprocess.PIPE, stderr=said, text=True)
    w.log = said
    t.wait_for(lambda: "attached to" in log_of(w), "watch to attach", 60)
    with open(go, "w", encoding="ascii"):
        pass
    return p, w


def anomalies_in(lines):
    """Of what `watch --json` printed: beside them are misfits, changes and causes."""
    return [row for row in map(json.loads, lines.splitlines()) if "layer" in row]


def check_watched(job, watcher):
    out, _ = job.communicate(timeout=60)
    lines, _ = watcher.communicate(timeout=60)
    said = log_of(watcher)
    expect(job.returncode == 0 and watcher.returncode == 0, said)
    was = slow_times(out)
    rows = [row for row in anomalies_in(lines)
            if row["layer"] in ("torch", "step") and row["pid"] == job.pid]
    found = [row["id"] for row in rows if not row["ended"]]
    ended = {row["id"]: row for row in rows if row["ended"]}
    expect(any(row["start_ns"] < was[1] and was[0] < row["end_ns"] for row in ended.values()),
           "slow at %r, printed: %s%s" % (was, lines, said))
    expect(len(found) == len(ended) and set(found) == set(ended), "found, and ended: %s" % lines)


def check_told(t, recording, why, events):
    """Anomalies are rows of the recording, which detect and report show."""
    r = t.run([EACGM, "detect", recording, "--told", "--json"])
    expect(r.status == 0, r)
    told = json.loads(r.out)["anomalies"]
    mine = [a for a in told if a["layer"] in ("torch", "step")]
    # those of the command line were told at once: what they say of their end came later
    expect(len(mine) >= len(set(events)) > 0 and all(a["ended"] for a in told), (told, why))
    expect(all(a["features"] and a["p_value"] < 0.1 for a in mine), mine)
    r = t.run([EACGM, "report", recording, "--json"])
    expect(r.status == 0, r)
    shown = json.loads(r.out)["anomalies"]
    what = lambda anomalies: [(a["id"], a["start_ns"], a["end_ns"], a["why"]) for a in anomalies]
    expect(what(shown) == what(told), "report: %r, detect: %r" % (what(shown), what(told)))


def check_timeline(t, recording):
    """What was told is on the Perfetto trace's tracks, without --detect."""
    if not shutil.which("protoc"):
        return
    r = t.run([EACGM, "detect", recording, "--told", "--json"])
    told = sorted((a["start_ns"], a["end_ns"]) for a in json.loads(r.out)["anomalies"])
    out = t.path("told.trace")
    r = t.run([EACGM, "export", recording, "-o", out])
    expect(r.status == 0, r)
    trace = perfetto_check.Trace(perfetto_check.parse(perfetto_check.decode(
        out, ROOT / "src/export/perfetto.proto")))
    shown = sorted((s["start"], s["end"]) for s in trace.slices
                   if s["track"]["parent"] and
                   trace.tracks[s["track"]["parent"]]["name"] == "anomalies")
    expect(shown == told, "told %r, on the tracks %r" % (told, shown))


@test("a job that slows down is told while it does", 180)
def _(t):
    needs_torch()
    model, job = learned(t)
    watched = start_watched(t, model, *job)  # at the same time: both sleep nearly all of it
    slow = start(t, "slow", model, *job)
    out, _ = slow.communicate(timeout=60)
    expect(slow.returncode == 0, log_of(slow))
    was = slow_times(out)

    said = log_of(slow)
    pid = max(slow.recording.report["processes"], key=lambda p: p.get("calls", 0))["pid"]
    told = re.findall(WORK % pid, said)
    expect(told, "nothing was told: %s" % said)
    expect("lost 0" in said, said)

    # the same is in the recording, with times
    path = t.path("events.jsonl")
    r = t.run([EACGM, "export", slow.recording.path, "-f", "jsonl", "-o", path])
    expect(r.status == 0, r)
    with open(path) as f:
        rows = [json.loads(line) for line in f]
    why = [line.rsplit(" (so far", 1)[0] for _layer, line in told]
    events = [row for row in rows
              if row.get("type") == "event" and row["name"] == "anomaly" and row["text"] in why]
    expect(events, "told, and not in the recording: %r" % told)
    ended = [row["time_ns"] for row in rows
             if row.get("type") == "event" and row["name"] == "anomaly_ended" and
             row["entity"] == "pid %d" % pid]
    # it may have begun sooner, on a busy machine, and gone on
    began = [row["time_ns"] for row in events]
    expect(min(began) < was[1] and any(ns > was[0] for ns in ended),
           "slow at %r, anomalies began at %r and ended at %r" % (was, began, ended))
    expect(all(row["entity"] == "pid %d" % pid for row in events), events)

    check_told(t, slow.recording.path, why, [row["text"] for row in events])
    check_timeline(t, slow.recording.path)

    check_watched(*watched)


@test("a line of the job's own that takes longer is told while it does, and not the call after it",
      180)
def _(t):
    needs_torch()
    model, args = learned(t)
    job, watcher = start_watched(t, model, *args, "prepare")
    out, _ = job.communicate(timeout=60)
    lines, _ = watcher.communicate(timeout=60)
    said = log_of(watcher)
    expect(job.returncode == 0 and watcher.returncode == 0, said)
    was = slow_times(out)
    rows = [row for row in anomalies_in(lines)
            if row["ended"] and row["start_ns"] < was[1] and was[0] < row["end_ns"]]
    # windows of a quarter of a second are of one anomaly; a busy machine may add others
    expect(len(rows) <= 8, "%d anomalies: %s" % (len(rows), lines))
    mine = [row for row in rows if row["layer"] == "python" and row["name"] == "prepare"]
    expect(mine, "slow at %r, printed: %s%s" % (was, lines, said))
    where = mine[0]["lines"][0]
    expect(where["file"].endswith("rhythm_job.py") and where["ns"] > 4 * where["usual_ns"], mine)


@test("without a model and within seconds: the rank that all others wait for, by rule", 120)
def _(t):
    if not shutil.which("mpicc") or not shutil.which("mpirun"):
        skip("no MPI (mpicc, mpirun)")
    job, out = t.path("mpi"), t.path("mpi.eacgm")
    built = t.run(["mpicc", "-o", job, os.path.join(os.path.dirname(JOB), "mpi_late_rank.c")])
    expect(built.status == 0, built)
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    ran = t.run([EACGM, "record", "-u", "root", "--detect", "-o", out, "--probe",
                 "libmpi.so*:MPI_*", "--", "mpirun", "--oversubscribe", "-n", "3", job], env=env)
    expect(ran.status == 0, ran)
    why = "rank 1 came last into MPI_Allreduce: all others waited for it, for "
    expect(ran.err.count(why) == 1 and "by rule)" in ran.err, ran)
    for options in ([], ["--told"]):
        said = t.run([EACGM, "detect", out, "--json", *options])
        found = [a for a in json.loads(said.out)["anomalies"] if a["why"].startswith(why)]
        expect(said.status == 0 and len(found) == 1 and found[0]["p_value"] == 0, said)
        expect(found[0]["lost_ns"] > 2e9, "waited %r" % found[0]["lost_ns"])


@test("a model that is none, or of a table: one line, and no recording")
def _(t):
    out, bad = t.path("x.eacgm"), t.path("bad.model")
    with open(bad, "w") as f:
        f.write("{}")
    for path, word in ((bad, "model"), (t.path("nowhere"), "nowhere")):
        r = t.run([EACGM, "record", "-o", out, "--detect=" + path, "--", "/bin/true"])
        expect_one_line(r, word)
        expect(not os.path.exists(out), "a recording was left")


if __name__ == "__main__":
    raise SystemExit(main())
