#!/usr/bin/env python3
"""record_detect_test.py - `eacgm record --detect` of a PyTorch job on the CPU that slows down for a
while: it is told when it happens, and is in the recording and its exports. One that does not slow
down has nothing told of its operators."""

import json
import os
import re
import subprocess

from harness import EACGM, Recording, expect, expect_one_line, log_of, main, skip, test

PYTHON = os.environ.get("EACGM_TEST_PYTHON", "/usr/bin/python3")
JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "rhythm_job.py")
OPTIONS = ["--layers", "torch", "--profile", "off"]
# Of the host's counters (preemptions) a busy machine tells as well: they are not asked for here.
WORK = r"eacgm: anomaly: (torch|step), pid %d: (.*)"


def needs_torch(t):
    if t.run([PYTHON, "-c", "import torch"], seconds=60).status:
        skip("%s has no torch" % PYTHON)


def learned(t):
    rec = t.record([PYTHON, JOB, "13"], *OPTIONS)
    model = t.path("job.model")
    r = t.run([EACGM, "learn", rec.path, "--window", "0.25", "--warm-up", "2", "-o", model])
    expect(r.status == 0, r)
    return model


def start(t, name, model, *job):
    out = t.path(name)
    log = open(out + ".log", "w+")
    p = t.start([EACGM, "record", "-o", out, "--detect=" + model, *OPTIONS, "--", PYTHON, JOB,
                 *job], stdout=subprocess.PIPE, stderr=log, text=True)
    p.log, p.recording = log, Recording(t, out)
    return p


@test("a job that slows down is told while it does; one that does not is not", 120)
def _(t):
    needs_torch(t)
    model = learned(t)
    slow, steady = start(t, "slow", model, "13", "8", "11"), start(t, "steady", model, "13")
    out, _ = slow.communicate(timeout=60)
    steady.communicate(timeout=60)
    expect(slow.returncode == 0 and steady.returncode == 0, log_of(slow) + log_of(steady))
    was = [int(word) for word in re.search(r"slow (\d+) (\d+)", out).groups()]

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
    expect(any(was[0] - 2e9 < row["time_ns"] < was[1] + 2e9 for row in events),
           "slow at %r, anomalies at %r" % (was, [row["time_ns"] for row in events]))
    expect(all(row["entity"] == "pid %d" % pid for row in events), events)

    # the other one
    pid = max(steady.recording.report["processes"], key=lambda p: p.get("calls", 0))["pid"]
    expect(not re.findall(WORK % pid, log_of(steady)), log_of(steady))


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
