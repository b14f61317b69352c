#!/usr/bin/env python3
"""faults_test.py - the fault laboratory (lab/faults): its labels say what was done when, the
job's own steps and the recording show it, and nothing is left, however the runner ends. A
campaign's lanes are apart, and what fails in it takes nothing else with it."""

import bisect
import collections
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tarfile
import types

from harness import EACGM, PYTHON, ROOT, expect, main, needs_torch, skip, test

FAULTS = os.path.join(ROOT, "lab", "faults")
RUN = os.path.join(FAULTS, "run.py")
CAMPAIGN = os.path.join(FAULTS, "campaign.py")
GPU_WORKLOADS = ("ddp_nvlink", "ddp_sockets", "gpt2", "cnn", "features", "generate")
SO_RCVBUFFORCE = 33  # asm-generic/socket.h: beyond net.core.rmem_max, as root

sys.path.insert(0, FAULTS)
from faults import FAULTS as ALL_FAULTS  # noqa: E402
from lab import host, lanes, layout, netns, packs, plans, schedule  # noqa: E402
from workloads import WORKLOADS  # noqa: E402
from lab.processes import descendants  # noqa: E402


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
        times = [at, e["onset_ns"], e["applied_ns"], e["end_ns"], e["released_ns"],
                 e["recovered_ns"]]
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
    of = {e["fault"]: e for e in episodes}
    check_delayed(t, out, of["op_delay"])
    expect(of["op_delay"]["culprit"]["kind"] == "job" and
           of["op_delay"]["culprit"]["pid"] == run["ranks"]["0"] and
           of["cpu_throttle"]["culprit"]["cgroup"] == run["cgroup"], "culprits: %r" % episodes)
    expect((of["op_delay"]["expected_share"], of["cpu_throttle"]["expected_share"]) == (0.5, 0.75),
           "expected shares: %r" % episodes)
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


def host_of(gpus):
    """One that permits everything, with 16 cores a GPU."""
    return types.SimpleNamespace(
        gpus=gpus, cpus=list(range(16 * gpus)), alone=gpus == 1, gpu_alone=True, no_net=None,
        no_drop=None, no_cpu_cgroup=None, no_memory_cgroup=None, no_steering=None,
        no_clocks="clocks are set with --set-clocks alone", nodes=[0], helpers=os.path.join(FAULTS, "helpers"),
        other_cpus=lambda w: list(range(8)),
        why_not=lambda w: "%d GPUs are needed" % w.gpus if w.gpus > gpus else None)


def laid_out(gpus, part):
    return layout.layout(host_of(gpus), GPU_WORKLOADS, gpus, 480, 150, part, 1,
                         schedule.PACES["dense"])


@test("lanes of a campaign are apart, and parts take turns", 30)
def _(t):
    for gpus in (1, 2, 4, 8):
        came = collections.Counter()
        names = []
        for part in (1, 2):
            found = laid_out(gpus, part)
            for row in found.rows:
                in_use = [g for lane in row for g in lane.gpus]
                cores = [c for lane in row for c in lane.cpus]
                expect(sorted(in_use) == list(range(gpus)), "%d GPUs: in use %r" % (gpus, in_use))
                expect(len(set(cores)) == len(cores), "%d GPUs: a core twice" % gpus)
                for lane in row:
                    runs = lane.runs
                    expect(abs(sum(r.seconds for r in runs) - found.block_s) < 1e-6 and
                           runs[0].plan == "clean", "runs: %r" % (runs,))
                    names += [r.name for r in runs]
                    came[runs[0].workload.name] += 1
                    for r in runs:
                        expect(len(set(r.faults)) == len(r.faults) and
                               (r.faults != []) == (r.plan in ("dev", "test")), "%r" % (r,))
                        expect(r.plan != "dev" or not r.workload.test_only, "%r" % (r,))
                        expect((r.seed >= plans.TEST_SEEDS) == (r.plan in ("test", "benign")),
                               "%r" % (r,))
        expect(len(set(names)) == len(names), "%d GPUs: a name twice" % gpus)
        possible = [n for n in GPU_WORKLOADS if "ddp" not in n or gpus > 1]
        expect(set(came) == set(possible), "%d GPUs: %r" % (gpus, came))


@test("workloads beside the others have cores of their own in every row, or are left out", 30)
def _(t):
    only = [("clean", "dev", 0.3), ("test", "test", 0.7)]
    beside = ["cpu_gpt", "cpu_loader"]
    for gpus, there in ((2, beside), (4, beside), (1, ["cpu_gpt"])):  # 4 left
        found = layout.layout(host_of(gpus), GPU_WORKLOADS, gpus, 480, 220, 2, 1,
                              schedule.PACES["dense"], (only, only), beside)
        names = [r.name for row in found.rows for lane in row for r in lane.runs]
        expect(len(set(names)) == len(names), "a name twice: %r" % names)
        for row in found.rows:
            cores = [c for lane in row for c in lane.cpus]
            expect(len(set(cores)) == len(cores), "%d GPUs: a core twice" % gpus)
            expect([lane.runs[0].workload.name for lane in row if not lane.gpus] == there,
                   "%d GPUs: %r" % (gpus, row))
            for lane in row:
                expect([r.plan for r in lane.runs] == ["clean", "test"] and
                       abs(sum(r.seconds for r in lane.runs) - found.block_s) < 1e-6,
                       "runs: %r" % (lane.runs,))
        expect([n for n, _ in found.left_out if n in beside] == [n for n in beside
                                                                if n not in there],
               "left out: %r" % found.left_out)


@test("no job has a part of a core that somebody else has a part of", 30)
def _(t):
    only = [("clean", "dev", 0.3), ("test", "test", 0.7)]
    for gpus in (1, 2, 4):
        found = layout.layout(host_of(gpus), GPU_WORKLOADS, gpus, 480, 150, 1, 1,
                              schedule.PACES["dense"], (only, only), ["cpu_gpt", "cpu_loader"])
        for row in found.rows:
            cores = {}
            for lane in row:
                w = lane.runs[0].workload
                job = w.cpus * max(1, w.world)
                for i, cpu in enumerate(lane.cpus):
                    cores.setdefault(cpu // 2, set()).add((w.name, i < job))
            shared = {c: who for c, who in cores.items() if len(who) > 1}
            expect(not shared, "%d GPUs: %r" % (gpus, shared))


@test("lanes of wide rows and of many parts have seeds of their own, or there is no layout", 30)
def _(t):
    def wide(gpus, part):
        return layout.layout(host_of(gpus), ["gpt2"], gpus, 480, 150, part, 1,
                             schedule.PACES["dense"])
    names = [r.name for part in (1, 2, 3) for row in wide(12, part).rows for lane in row
             for r in lane.runs]
    expect(len(set(names)) == len(names) and len(names) >= 3 * 12, "a name twice: %r" % names)
    expect({r.seed % plans.TEST_SEEDS for lane in wide(2, 2).rows[0] for r in lane.runs} ==
           {21, 22}, "seeds moved")
    try:
        wide(12, 90)
    except ValueError:
        return
    expect(False, "part 90 of 12 lanes has seeds of the test split")


@test("a campaign refuses workloads beside that are given twice or run anyway", 30)
def _(t):
    def says(*words):
        p = subprocess.run([sys.executable, CAMPAIGN, "--dry-run", "--minutes", "9", *words],
                           capture_output=True, text=True, timeout=20)
        return p.returncode, p.stderr
    for words, why in ((("--gpus", "2", "--beside", "cpu_gpt,cpu_gpt"), "each workload once"),
                       (("--gpus", "0", "--beside", "cpu_loader"), "one of the workloads"),
                       (("--gpus", "2", "--workloads", "gpt2,cpu_gpt", "--beside", "cpu_gpt"),
                        "not in --workloads")):
        rc, text = says(*words)
        expect(rc not in (0, None) and why in text and "Traceback" not in text,
               "%r: %d, %s" % (words, rc, text))
    rc, text = says("--gpus", "2", "--beside", "cpu_gpt,cpu_loader")
    expect(rc == 0, "refused: %s" % text)


@test("a campaign on four GPUs foresees faults of each layer and each confusable pair", 30)
def _(t):
    layers, faults = collections.Counter(), collections.Counter()
    for part in (1, 2):
        for run, items in layout.foreseen(laid_out(4, part), schedule.PACES["dense"]):
            for item in items:
                faults[item.name] += 1
                layers.update(layout.judged(ALL_FAULTS[item.name].layers_in(run.workload),
                                            run.workload))
    expect(min(layers[x] for x in layout.LAYERS) >= 25, "layers: %r" % layers)
    left_out = {n for n in ALL_FAULTS if not faults[n]}
    lacking = {n for n in ALL_FAULTS if ALL_FAULTS[n].beyond} | {"clock", "numa_remote"}
    left_out.discard("cuda_delay")  # there where its helper is built
    expect(left_out == lacking, "never injected: %r" % (left_out ^ lacking))


@test("results are packed by importance into archives of bounded size", 30)
def _(t):
    for i in range(6):
        with open(t.path("in-%d" % i), "wb") as f:
            f.write(os.urandom(400_000))
    with open(t.path("small"), "wb") as f:
        f.write(b"x" * 1000)
    packed = packs.Packs(t.dir, 2, 1_200_000, 10_000_000)
    added = [packed.add(t.path("in-%d" % i), "in-%d" % i) for i in range(6)]
    added.append(packed.add(t.path("nothing"), "nothing"))
    packed.close()
    sizes = [os.path.getsize(p) for p in packed.done]
    expect(len(sizes) == 2 and max(sizes) <= 1_200_000, "archives of %r bytes" % sizes)
    there = [n for p in packed.done for n in tarfile.open(p).getnames()]
    expect(there == ["in-%d" % i for i in range(len(there))] and added.count(True) == len(there) and
           packed.out[0] == "in-%d" % len(there), "packed %r, left out %r" % (there, packed.out))


@test("episodes of the plan apart lie apart, each of another fault, over all sizes of effects", 30)
def _(t):
    del t
    pace, names = schedule.PACES[plans.pace_of("apart")], ["stopped", "slow_code", "interrupts"]
    items = list(itertools.islice(schedule.items(
        1, "cpu_gpt", "dev", names, plans.benign_of(WORKLOADS["cpu_gpt"], "apart"), pace,
        plans.levels_of("apart")), 60))
    expect(all(i.gap_s >= 8 for i in items), "gaps: %r" % items)
    faults = [i for i in items if i.kind == "fault"]
    expect(all(6 <= i.length_s <= 8 for i in faults), "lengths: %r" % faults)
    expect(all(a.name != b.name for a, b in zip(faults, faults[1:])), "one twice: %r" % faults)
    expect(len(faults) < len(items), "no benign changes")
    sizes = [float(i.intensity[1:]) for i in faults]
    for low, high in schedule.APART:
        n = sum(low <= x <= high for x in sizes)
        expect(abs(n - len(faults) / 3) <= 3, "%d of %d in %g to %g" % (n, len(faults), low, high))
    expect(plans.pace_of("apart", "brief") == "brief" and plans.pace_of("dev") == "usual" and
           plans.levels_of("test") is None, "of other plans")


def smi_of(t):
    """A program in the place of nvidia-smi, that writes down what it is asked."""
    os.mkdir(t.path("bin"))
    with open(t.path("bin/nvidia-smi"), "w") as f:
        f.write("#!/bin/sh\necho \"$@\" >> %s\necho 1980\n" % t.path("asked"))
    os.chmod(t.path("bin/nvidia-smi"), 0o755)
    return t.path("bin") + ":" + os.environ["PATH"]


LOCKED = """
import sys, time, types
sys.path.insert(0, sys.argv[1])
from faults import FAULTS
from lab.processes import Processes
run = types.SimpleNamespace(processes=Processes(), gpus=[1])
FAULTS["clock"].begin(run, 0.5)
print("locked", flush=True)
time.sleep(60)
"""


@test("clocks that were locked are reset by the guard where the runner is killed", 30)
def _(t):
    env = dict(os.environ, PATH=smi_of(t))
    p = t.start([sys.executable, "-c", LOCKED, FAULTS], env=env, stdout=subprocess.PIPE, text=True)
    expect(p.stdout.readline() == "locked\n", "it did not begin")
    with open(t.path("asked")) as f:
        expect("-i 1 -lgc 990,990" in f.read(), "clocks were not locked")
    os.kill(p.pid, signal.SIGKILL)
    p.wait()

    def is_reset():
        with open(t.path("asked")) as f:
            return f.read().endswith("-i 1 -rgc\n")
    t.wait_for(is_reset, "the clocks to be reset", 15)


@test("clocks are left alone unless run.py is told that it may", 30)
def _(t):
    del t
    w = WORKLOADS["gpt2"]
    expect("--set-clocks" in ALL_FAULTS["clock"].why_not(host_of(1), w), "it would set them")
    permitted = host_of(1)
    permitted.no_clocks = None
    expect(ALL_FAULTS["clock"].why_not(permitted, w) is None, "it would not set them")
    expect("one NUMA node" in ALL_FAULTS["numa_remote"].why_not(permitted, w), "one node")
    permitted.nodes = [0, 1]
    expect(ALL_FAULTS["numa_remote"].why_not(permitted, w) is None, "two nodes")


@test("a cgroup's memory limit leaves room for files alone, and reads go on", 30)
def _(t):
    if host.Host(PYTHON).no_memory_cgroup:
        skip(host.Host(PYTHON).no_memory_cgroup)
    undo = host.Undo()
    t.at_end.append(undo.all)
    group = host.Group(undo)
    size, room = 64 << 20, 16 << 20
    p = t.start([sys.executable, "-c", READS, FAULTS, group.memory, t.path("hole"), str(size),
                 str(room)], stdout=subprocess.PIPE, text=True, preexec_fn=group.enter)
    cached, limited = (int(x) for x in p.stdout.readline().split())
    expect(p.wait() == 0 and cached >= size and limited <= cached - size + 2 * room,
           "%d bytes with the file, %d with the limit" % (cached, limited))


READS = """
import os, sys
sys.path.insert(0, sys.argv[1])
from lab import memory_limit
group, path, size, room = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
name = "memory.current" if os.path.exists(group + "/memory.high") else "memory.usage_in_bytes"
used = lambda: int(open(os.path.join(group, name)).read())
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, size)
def read():
    for at in range(0, size, 1 << 20):
        os.pread(fd, 1 << 20, at)
read()
before = used()
memory_limit.limit(group, room)
read()
print(before, used(), flush=True)
memory_limit.limit(group, None)
"""


@test("a campaign reads what was recorded and lost, with spans of GPUs and without", 30)
def _(t):
    lost_of = lanes.lost_of
    ended = "eacgm: the command goes on running, untraced\n"
    for spans in ("", ", 1221900 GPU spans"):
        with open(t.path("record.log"), "w") as f:
            f.write("eacgm: recording process 7\neacgm: 5901320 calls, 13767 samples%s in 56.4 s, "
                    "lost 3 -> /tmp/run.eacgm (30.5 MB)\n%s" % (spans, ended))
        expect(lost_of(t.dir) == (5901320, 56.4, 3), "'%s': %r" % (spans, lost_of(t.dir)))
    with open(t.path("record.log"), "w") as f:
        f.write(ended)
    expect(lost_of(t.dir) is None, "nothing was said: %r" % (lost_of(t.dir),))
    expect(lost_of(t.path("nowhere")) is None, "there is no record.log")


@test("a run of a campaign that is killed costs a line, and the others go on", 150)
def _(t):
    needs_torch()
    out, said = t.path("out"), t.path("said")
    with open(said, "w") as f:
        p = t.start([sys.executable, "-u", CAMPAIGN, "--eacgm", EACGM, "--gpus", "0", "--workloads",
                     "cpu_serve", "--pace", "brief", "--python", PYTHON, "--no-data", "--minutes",
                     "1.8", "--runs", "clean:1,dev:1,test:0.8", "--data-share", "0",
                     "--record-options", "--layers torch --profile off", "--out", out],
                    stdout=f, stderr=f)

    def text():
        with open(said) as g:
            return g.read()

    def runner():
        """The process that makes the second run, once its job is recorded."""
        expect(p.poll() is None, "campaign.py ended: %s" % text())
        log = os.path.join(out, "work", "runs", "cpu_serve-dev-11", "record.log")
        if not os.path.exists(log):
            return 0
        for pid in descendants([p.pid])[1:]:
            try:
                with open("/proc/%d/cmdline" % pid) as f:
                    words = f.read().split("\0")
                with open("/proc/%d/stat" % pid) as f:
                    parent = int(f.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if RUN in words and "dev" in words and parent == p.pid:
                return pid
        return 0

    t.wait_for(runner, "the second run", 100)
    started = descendants([p.pid])[1:]
    os.kill(runner(), signal.SIGKILL)
    p.wait()
    expect(p.returncode == 0, "campaign.py ended with %d: %s" % (p.returncode, text()))
    expect("cpu_serve-dev-11 failed: ended with -9" in text(), "what it said: %s" % text())
    names = tarfile.open(os.path.join(out, "campaign-1.tar.gz")).getnames()
    for run in ("clean-11", "test-1011"):
        rows = rows_of(os.path.join(out, "work", "runs", "cpu_serve-" + run), "labels.jsonl")
        expect(rows[0]["complete"] and "runs/cpu_serve-%s/labels.jsonl" % run in names,
               "%s: %r, packed: %r" % (run, rows[0], names))
    t.wait_for(lambda: not any(is_running(x) for x in started), "what was started to end", 30)


if __name__ == "__main__":
    sys.exit(main())
