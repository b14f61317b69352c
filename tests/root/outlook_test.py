#!/usr/bin/env python3
"""outlook_test.py - early warnings of real programs: one that leaks memory and one that does not,
in the report, and while they run."""

import json
import os
import subprocess

from harness import EACGM, expect, log_of, main, skip, test

PYTHON = os.environ.get("EACGM_TEST_PYTHON", "/usr/bin/python3")
JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "leak_job.py")
# not of Python: the probes of whoever traces it slow down every Python of the host
OPTIONS = ["--layers", "cuda", "--profile", "off"]


def job(total_mb, mb_per_s, seconds):
    return [PYTHON, JOB, str(total_mb * 1e6), str(mb_per_s * 1e6), str(seconds)]


def leaks_of(report):
    return [w for w in report.get("outlook", []) if w["kind"] == "leak"]


def pid_of(recording):
    return next(p["pid"] for p in recording.report["processes"])


@test("a program that takes more and more memory is told with its rate", 120)
def _(t):
    rec = t.record(job(500, 25, 20), *OPTIONS)
    told = leaks_of(rec.report)
    expect(len(told) == 1, "told: %r" % rec.report.get("outlook"))
    leak = told[0]
    expect(leak["pid"] == pid_of(rec) and leak["entity"] == "pid %d" % leak["pid"], leak)
    expect(abs(leak["per_s"] - 25e6) < 0.25 * 25e6, leak)
    expect(leak["value"] > 400e6 and not leak["ended"], leak)
    r = t.run([EACGM, "report", rec.path, "--section", "outlook"])
    expect(r.status == 0 and "its memory grows steadily by 2" in r.out, r)


@test("a program that has what it needs is not told", 120)
def _(t):
    rec = t.record(job(500, 0, 20), *OPTIONS)
    mine = [w for w in rec.report.get("outlook", []) if w["pid"] == pid_of(rec)]
    expect(not mine, mine)


@test("a leak is told while it goes on, and that it is over", 180)
def _(t):
    p = t.start(job(400, 5, 120))
    w = t.start([EACGM, "watch", "-p", p.pid, "--json", *OPTIONS[:2]], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True)
    s = t.start_record("-p", p.pid, "--detect", *OPTIONS)
    t.wait_for(lambda: "its memory grows steadily" in log_of(s), "a warning: %s" % log_of(s), 90)
    t.wait_for(lambda: "is over (leak)" in log_of(s), "its end", 60)
    p.wait()
    s.wait(timeout=60)
    lines, said = w.communicate(timeout=30)
    told = [row["outlook"] for row in map(json.loads, lines.splitlines()) if "outlook" in row]
    told = [row for row in told if row["pid"] == p.pid]
    expect([row["ended"] for row in told] == [False, True], (told, said))
    expect(abs(told[0]["per_s"] - 5e6) < 0.25 * 5e6, told)
    events = [e for e in s.recording.report["events"] if e["entity"] == "pid %d" % p.pid]
    names = [e["name"] for e in events if e["name"].startswith("early_warning")]
    expect(names == ["early_warning", "early_warning_ended"], events)


def limited_cgroup(t, limit):
    """The folder of a group with a limit of memory, of either version."""
    for folder, file in (("/sys/fs/cgroup", "memory.max"),
                         ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
        path = "%s/eacgm-outlook-%d" % (folder, os.getpid())
        try:
            os.mkdir(path)
        except OSError:
            continue
        t.at_end.append(lambda path=path: os.rmdir(path))
        if not os.path.exists(os.path.join(path, file)):
            continue
        try:
            with open(os.path.join(path, file), "w") as f:
                f.write(str(int(limit)))
            return path
        except OSError:
            continue
    skip("no cgroup with a limit of memory can be made")
    return None


@test("memory of a cgroup that runs out is told with the time that is left", 120)
def _(t):
    limit, rate = 400e6, 15e6
    path = limited_cgroup(t, limit)
    rec = t.record(["/bin/sh", "-c", "echo $$ > %s/cgroup.procs; exec %s" % (
        path, " ".join(job(330, 15, 22)))], "--detect", *OPTIONS)
    expect("cgroup /%s: memory runs out in" % os.path.basename(path) in rec.ran.err, rec.ran)
    told = [w for w in rec.report["outlook"] if w["kind"] == "runs-out"]
    expect(len(told) == 1 and abs(told[0]["limit"] - limit) < 65536, told)
    left = (limit - told[0]["value"]) / rate
    expect(abs(told[0]["left_s"] - left) < 0.25 * left + 0.5, told)


if __name__ == "__main__":
    raise SystemExit(main())
