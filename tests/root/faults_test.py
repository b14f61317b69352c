#!/usr/bin/env python3
"""faults_test.py - the fault laboratory (bench/faults): its labels say what was done when, the job's
own steps and the recording show it, and nothing is left, however the runner ends."""

import bisect
import collections
import itertools
import json
import os
import signal
import socket
import statistics
import sys

from harness import EACGM, ROOT, expect, main, skip, test

FAULTS = os.path.join(ROOT, "bench", "faults")
RUN = os.path.join(FAULTS, "run.py")
SO_RCVBUFFORCE = 33  # asm-generic/socket.h: beyond net.core.rmem_max, as root
PYTHON = os.environ.get("EACGM_TEST_PYTHON", "/usr/bin/python3")

sys.path.insert(0, FAULTS)
from lab import host, netns, schedule  # noqa: E402
from lab.processes import descendants  # noqa: E402


def needs_torch():
    if not os.path.exists(PYTHON) or not host.has_torch(PYTHON):
        skip("%s has no torch" % PYTHON)


def seed_with(workload, faults, intensity):
    """A seed whose first episodes are these faults, each at that intensity."""
    for seed in itertools.count():
        items = schedule.items(seed, workload, "dev", faults, [], schedule.PACES["brief"])
        first = list(itertools.islice(items, len(faults)))
        if all(i.intensity == intensity for i in first):
            return seed
    return None


def rows_of(folder, name):
    with open(os.path.join(folder, name)) as f:
        return [json.loads(line) for line in f]


def is_running(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def check_times(run, episodes, others):
    at = run["start_ns"]
    for e in sorted(episodes, key=lambda e: e["onset_ns"]):
        times = [at, e["onset_ns"], e["applied_ns"], e["end_ns"], e["released_ns"]]
        expect(times == sorted(times), "episode %d: times are not in order: %r" % (e["id"], times))
        at = e["released_ns"]
        for o in others:
            expect(o["end_ns"] <= e["onset_ns"] or o["onset_ns"] >= e["released_ns"],
                   "%s overlaps episode %d" % (o["type"], e["id"]))
    expect(at <= run["end_ns"], "an episode ends behind the run")


def slowed(steps, e):
    """From the job's own log: steps of the episode against those of 3 s before."""
    during = [s["end_ns"] - s["start_ns"] for s in steps
              if s["end_ns"] > e["applied_ns"] and s["start_ns"] < e["released_ns"]]
    before = [s["end_ns"] - s["start_ns"] for s in steps
              if e["onset_ns"] - 3e9 < s["start_ns"] and s["end_ns"] < e["onset_ns"]]
    expect(len(during) > 1 and len(before) > 5, "%d steps in episode %d, %d before" % (
        len(during), e["id"], len(before)))
    return statistics.fmean(during) / statistics.fmean(before)


def recorded(t, path, names):
    """(tid, name) -> (start, end) of the recording's calls of these functions, in order of start.
    There are a million others: those are not parsed."""
    out = t.path("calls.jsonl")
    r = t.run([EACGM, "export", path, "-f", "jsonl", "-o", out])
    expect(r.status == 0, "export: %s" % r)
    seen = collections.defaultdict(list)
    with open(out) as f:
        for line in f:
            if line.partition('"name":"')[2].partition('"')[0] in names:
                c = json.loads(line)
                seen[c["tid"], c["name"]].append((c["start_ns"],
                                                  c["start_ns"] + c["duration_ns"]))
    for spans in seen.values():
        spans.sort()
    return seen


def lies_within(spans, start, end):
    """In one of the last that began before it: an operator may call itself."""
    at = bisect.bisect_right(spans, (start, float("inf")))
    return any(s[1] >= end for s in spans[max(0, at - 8):at])


def check_delayed(t, out, e):
    """Each delayed call is in the episode, and eacgm saw the delay within the operator."""
    calls = [c for c in rows_of(out, "calls.jsonl") if c["episode"] == e["id"]]
    expect(calls, "no delayed calls are written down")
    for c in calls:
        expect(e["applied_ns"] <= c["start_ns"] and c["end_ns"] <= e["released_ns"] and
               c["end_ns"] - c["start_ns"] >= c["delay_ns"] > 0, "delayed call %r" % c)
    seen = recorded(t, os.path.join(out, "run.eacgm"), {c["function"] for c in calls})
    around = [c for c in calls if lies_within(seen[c["tid"], c["function"]], c["start_ns"],
                                              c["start_ns"] + c["delay_ns"])]
    expect(len(around) >= 0.98 * len(calls), "%d of %d delays lie within a recorded call" % (
        len(around), len(calls)))


@test("labels say when, steps and recording show it", 150)
def _(t):
    needs_torch()
    names = ["cpu_throttle", "op_delay"]
    seed = seed_with("cpu_gpt", names, "high")
    out = t.path("out")
    r = t.run([sys.executable, RUN, "--eacgm", EACGM, "--workload", "cpu_gpt", "--faults",
               ",".join(names), "--pace", "brief", "--seed", seed, "--minutes", "2", "--items", "2",
               "--python", PYTHON, "--record-options", "--layers torch --profile off", "--out",
               out])
    expect(r.status == 0, "run.py: %s" % r)
    rows = rows_of(out, "labels.jsonl")
    run, episodes = rows[0], [x for x in rows if x["type"] == "episode"]
    expect(run["type"] == "run" and run["complete"], "first row: %r" % run)
    expect({e["fault"] for e in episodes} == set(names), "episodes: %s" % r)
    check_times(run, episodes, [x for x in rows if x["type"] in ("benign", "clean")])
    steps = [s for s in rows_of(out, "steps.0.jsonl") if s["phase"] == "train"]
    for e in episodes[:2]:
        expect(e["effective"] and slowed(steps, e) >= 1.1, "no effect of %r" % e)
    check_delayed(t, out, next(e for e in episodes if e["fault"] == "op_delay"))
    expect(not any(is_running(p) for p in run["pids"]), "the job runs on")
    expect(not run["cgroup"] or not os.path.exists(run["cgroup"]), "the cgroup is left")


@test("a killed runner leaves nothing", 120)
def _(t):
    needs_torch()
    out = t.path("out")
    said = t.path("said")
    with open(said, "w") as f:
        p = t.start([sys.executable, "-u", RUN, "--eacgm", EACGM, "--workload", "cpu_gpt",
                     "--faults", "cpu_contention", "--pace", "brief", "--python", PYTHON,
                     "--minutes", "2", "--record-options", "--layers torch --profile off",
                     "--out", out], stdout=f, stderr=f)

    def has_begun():
        with open(said) as g:
            text = g.read()
        expect(p.poll() is None, "run.py ended: %s" % text)
        return " s  cpu_contention" in text

    t.wait_for(has_begun, "an episode", 90)
    run, = rows_of(out, "labels.jsonl")[:1]
    started = descendants([p.pid])[1:]
    expect(set(run["pids"]) <= set(started) and len(started) >= 4, "started: %r" % started)
    os.kill(p.pid, signal.SIGKILL)
    p.wait()
    t.wait_for(lambda: not any(is_running(x) for x in started), "what was started to end", 30)
    t.wait_for(lambda: not run["cgroup"] or not os.path.exists(run["cgroup"]), "the cgroup to go")
    r = t.run([EACGM, "report", "--json", os.path.join(out, "run.eacgm")])
    expect(r.status == 0 and json.loads(r.out)["recording"]["events"] > 0, "recording: %s" % r)


@test("a link drops the share of packets that it is told", 30)
def _(t):
    why = [w for w in netns.why_not() if w]
    if why:
        skip(why[0])
    link = netns.Link(10**9)
    t.at_end.append(link.close)

    def received(n):
        """Datagrams that arrive of n."""
        with netns.Inside(link.spaces[1]):
            there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        there.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 22)
        there.bind((link.addresses[1], 9000))
        with netns.Inside(link.spaces[0]):
            here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for _ in range(n):
            here.sendto(b"x" * 100, (link.addresses[1], 9000))
        got = 0
        there.setblocking(False)
        try:
            while there.recv(200):
                got += 1
        except BlockingIOError:
            return got
        finally:
            there.close()
            here.close()

    expect(received(1000) == 1000, "packets are lost without loss")
    link.drop(0.5)
    got = received(1000)
    expect(400 <= got <= 600, "%d of 1000 packets arrive at a loss of 50 %%" % got)
    link.drop(0)
    expect(received(1000) == 1000, "packets are lost after the loss")


@test("the list tells what this host lacks", 30)
def _(t):
    r = t.run([sys.executable, RUN, "--list", "--python", PYTHON])
    expect(r.status == 0 and "cpu_gpt" in r.out and "net_loss" in r.out, "list: %s" % r)
    if not os.path.exists("/dev/nvidia0"):
        r = t.run([sys.executable, RUN, "--workload", "gpt2", "--no-record", "--out", t.path("gpu"),
                   "--python", PYTHON])
        expect(r.status == 1 and "no GPU" in r.out + r.err, "gpt2 without a GPU: %s" % r)


if __name__ == "__main__":
    sys.exit(main())
