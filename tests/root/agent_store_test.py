#!/usr/bin/env python3
"""agent_store_test.py - `eacgm agent --store`: what it keeps of a job, asked by `eacgm query` while
it is written, after kill -9, where the disk is full, and files that it refuses."""

import json
import os
import re
import signal
import sqlite3
import stat
import time

from agents import Agent, start_in
from gpu import fake_nvml
from harness import EACGM, PUSH, ROOT, expect, main, probes, skip, target, test


def ask(t, path, sql):
    r = t.run([EACGM, "query", path, "--json", sql])
    expect(r.status == 0, r)
    return json.loads(r.out)


def runs(a):
    job = start_in(a.t, a.group, target("calls"), "until", a.t.path("never"), "1", "200",
                   SLURM_JOB_ID="4711")
    return job


def calls_of(t, path, job):
    rows = ask(t, path, "SELECT sum(calls) AS n FROM v_calls WHERE name = 'target_push' AND "
               "layer = 'user' AND pid = %d" % job.pid)
    return rows[0]["n"] or 0


def newest(t, path):
    """The time of the newest row of counters, or None."""
    return ask(t, path, "SELECT max(time) AS newest FROM v_counters_1s")[0]["newest"]


def documented():
    """The views that the table of docs/agent.md, "The store", has."""
    with open(os.path.join(ROOT, "docs/agent.md"), encoding="utf-8") as f:
        section = f.read().split("\n## The store\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `v_")]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


@test("the views of a store are those that docs/agent.md has, and each can be asked")
def _(t):
    path = t.path("agent.db")
    a = Agent(t, "--budget", "100%", "--layers", "user", *probes(PUSH), "--store", path)
    views = documented()
    there = [row["name"] for row in ask(t, path, "SELECT name FROM sqlite_schema WHERE type = 'view'")]
    expect(sorted(views) == sorted(there) and len(set(views)) == len(views), (views, there))
    for view in views:
        expect(isinstance(ask(t, path, "SELECT * FROM %s LIMIT 1" % view), list), view)
    a.end()


@test("a job's rows come, queries are answered meanwhile; kill -9 leaves a whole database", 150)
def _(t):
    path = t.path("agent.db")
    a = Agent(t, "--budget", "100%", "--layers", "user,gpu", *probes(PUSH), "--store", path,
              env=fake_nvml(t, "count 1\nxid 0 79\n"))
    job = runs(a)
    t.wait_for(lambda: calls_of(t, path, job), "calls in the store", 60)
    t.wait_for(lambda: newest(t, path), "counters", 60)
    # a row of a second is there when the second has begun, unless others have the disk and the CPUs
    t.wait_for(lambda: time.time() - newest(t, path) < 2, "the newest second", 60)
    expect(stat.S_IMODE(os.stat(path).st_mode) == 0o600, oct(os.stat(path).st_mode))
    expect(ask(t, path, "SELECT pid FROM v_processes WHERE job = '4711' AND comm = 'calls'") ==
           [{"pid": job.pid}], "the process")
    t.wait_for(lambda: ask(t, path, "SELECT 1 AS x FROM v_counters WHERE entity = 'host' AND "
                           "name = 'cpu_ratio' AND n > 0 AND mean BETWEEN min - 1e-9 AND "
                           "max + 1e-9"),
               "the host's counter", 60)
    t.wait_for(lambda: ask(t, path, "SELECT 1 AS x FROM v_counters WHERE pid = %d AND "
                           "name = 'rss_bytes' AND min > 0" % job.pid), "its memory", 60)
    t.wait_for(lambda: ask(t, path, "SELECT 1 AS x FROM v_events WHERE name = 'xid'"), "Xid", 60)
    # what is served is kept a second later
    served = sum(v for labels, v in a.samples()["eacgm_calls_total"]
                 if labels["function"] == "target_push")
    t.wait_for(lambda: calls_of(t, path, job) >= served, "what was served", 60)
    r = t.run([EACGM, "agent", "--listen", "127.0.0.1:0", "--store", path])
    expect(r.status == 1 and "another agent writes to it" in r.err, r)
    # it goes on writing all the same, and what it has written outlives it
    t.wait_for(lambda: time.time() - newest(t, path) < 2, "the newest second again", 60)
    written = newest(t, path)
    os.kill(a.p.pid, signal.SIGKILL)
    a.p.wait()
    kept = calls_of(t, path, job)
    expect(kept >= served, (kept, served))
    expect(newest(t, path) >= written, (newest(t, path), written))
    seconds = ask(t, path, "SELECT count(*) AS n FROM v_counters_1s WHERE name = 'cpu_ratio'")[0]["n"]
    with sqlite3.connect(path) as db:
        expect(db.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "integrity")
        expect(db.execute("PRAGMA user_version").fetchone()[0] >= 1, "a version")
    # another goes on with it: the same process, another run
    a = Agent(t, "--budget", "100%", "--layers", "user", *probes(PUSH), "--store", path,
              group=a.group)
    t.wait_for(lambda: calls_of(t, path, job) > kept, "more calls", 60)
    t.wait_for(lambda: ask(t, path, "SELECT sum(n) AS n FROM v_counters WHERE name = 'cpu_ratio'")
               [0]["n"] >= seconds, "what the other had not added up", 60)
    expect(ask(t, path, "SELECT count(*) AS n FROM processes WHERE pid = %d" % job.pid) ==
           [{"n": 1}], "one process")
    a.end()
    expect(ask(t, path, "SELECT count(*) AS n FROM runs") == [{"n": 2}], "two runs")
    expect("store" not in a.said(), a.said())
    t.kill(job)


@test("what is known at its end is kept", 60)
def _(t):
    path = t.path("agent.db")
    a = Agent(t, "--budget", "100%", "--layers", "user", *probes(PUSH), "--store", path)
    job = start_in(t, a.group, target("calls"), "threads", "300", "2")
    job.wait(20)
    t.wait_for(lambda: [1 for labels, v in a.samples().get("eacgm_calls_total", []) if v == 600],
               "600 calls")
    a.end()
    expect(not os.path.exists(path + "-wal"), "a file is left beside it")
    expect(calls_of(t, path, job) == 600, calls_of(t, path, job))


@test("a full disk: said once, the agent goes on, and writes again when there is room", 180)
def _(t):
    at = t.path("small")
    os.mkdir(at)
    if t.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", at]).status:
        skip("cannot mount")
    t.at_end.append(lambda: t.run(["umount", "-l", at]))
    path = os.path.join(at, "agent.db")
    a = Agent(t, "--budget", "100%", "--layers", "user", *probes(PUSH), "--store", path)
    job = runs(a)
    t.wait_for(lambda: calls_of(t, path, job), "calls in the store", 60)
    filler = os.path.join(at, "filler")
    with open(filler, "wb", 0) as f:
        try:
            while f.write(b"x" * 4096):
                pass
        except OSError:
            pass
    t.wait_for(lambda: "cannot be written" in a.said(), "it to be said", 120)
    served = sum(v for _, v in a.samples()["eacgm_calls_total"])
    t.wait_for(lambda: sum(v for _, v in a.samples()["eacgm_calls_total"]) > served, "it goes on",
               60)
    os.unlink(filler)
    t.wait_for(lambda: "is written again" in a.said(), "it to be written again", 60)
    expect(a.said().count("cannot be written") == 1, a.said())
    # what waited in memory is there too
    t.wait_for(lambda: calls_of(t, path, job) >= served, "calls of meanwhile", 60)
    t.kill(job)
    a.end()
    with sqlite3.connect(path) as db:
        expect(db.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "integrity")


@test("what is no store, and a newer one: one line, and nothing is started")
def _(t):
    junk, newer, theirs = t.path("junk.db"), t.path("newer.db"), t.path("theirs.db")
    with open(junk, "w") as f:
        f.write("no database\n" * 1000)
    for path, sql in ((theirs, "CREATE TABLE x(a)"),
                      (newer, "CREATE TABLE x(a); PRAGMA application_id=%d; PRAGMA user_version=99"
                       % 0x65615354)):
        with sqlite3.connect(path) as db:
            db.executescript(sql)
    for path, why in ((junk, "no database of SQLite"), (theirs, "of something else"),
                      (newer, "newer eacgm"), (t.path("no/such/one.db"), "no such folder")):
        r = t.run([EACGM, "agent", "--listen", "127.0.0.1:0", "--store", path])
        expect(r.status == 1 and why in r.err, r)
        expect(len([line for line in r.err.splitlines() if "serves" not in line]) == 1, r.err)
    for option, value in (("--store-keep", "0"), ("--store-bytes", "1")):
        r = t.run([EACGM, "agent", "--store", t.path("x.db"), option, value])
        expect(r.status == 2, r)
    expect(not os.path.exists(t.path("x.db")), "nothing is made")


if __name__ == "__main__":
    main()
