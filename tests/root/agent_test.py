#!/usr/bin/env python3
"""agent_test.py - `eacgm agent`: what it serves of jobs that it was not told of, by Prometheus's rules
and dcgm-exporter's names, what it refuses, and that nothing of it stays."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import prometheus
from agents import Agent, rows_of, start_in
from cgroups import make_cgroup
from gpu import fake_nvml
from harness import EACGM, LIBTARGET, PUSH, TimedOut, expect, main, needs_torch, probes, skip, target, test, PYTHON
from otlp import Receiver

# A GPU of which each of dcgm-exporter's 25 default series has another value, and these.
GPU = """gpu 1 sm_clock 1755
gpu 1 memory_clock 2600
gpu 1 memory_temperature 71
gpu 1 temperature 60
gpu 1 power_mw 512345
gpu 1 energy_mj 123456
gpu 1 replays 9
gpu 1 sm 87
gpu 1 memory 41
gpu 1 encoder 12
gpu 1 decoder 7
gpu 1 total 85899345920
gpu 1 used 3221225472
gpu 1 reserved 536870912
gpu 1 rows_corrected 2
gpu 1 rows_uncorrected 3
gpu 1 failed 1
gpu 1 license 2
gpu 1 gpm_graphics 75
gpu 1 gpm_tensor 25
gpu 1 gpm_dram 50
gpu 1 gpm_pcie_tx_mib 5
gpu 1 gpm_pcie_rx_mib 6
gpu 1 gpm_nvlink_tx_mib 1000
gpu 1 gpm_nvlink_rx_mib 500
"""
MIB = 1 << 20
DCGM = {
    "DEV_SM_CLOCK": 1755, "DEV_MEM_CLOCK": 2600, "DEV_MEMORY_TEMP": 71, "DEV_GPU_TEMP": 60,
    "DEV_POWER_USAGE": 512.345, "DEV_TOTAL_ENERGY_CONSUMPTION": 123456,
    "DEV_PCIE_REPLAY_COUNTER": 9, "DEV_GPU_UTIL": 87, "DEV_MEM_COPY_UTIL": 41, "DEV_ENC_UTIL": 12,
    "DEV_DEC_UTIL": 7, "DEV_XID_ERRORS": 79, "DEV_FB_FREE": 78336, "DEV_FB_USED": 3072,
    "DEV_FB_RESERVED": 512, "DEV_NVLINK_BANDWIDTH_TOTAL": 1500 * MIB / 1e6,
    "DEV_VGPU_LICENSE_STATUS": 1, "DEV_UNCORRECTABLE_REMAPPED_ROWS": 3,
    "DEV_CORRECTABLE_REMAPPED_ROWS": 2, "DEV_ROW_REMAP_FAILURE": 1,
    "PROF_GR_ENGINE_ACTIVE": 0.75, "PROF_PIPE_TENSOR_ACTIVE": 0.25, "PROF_DRAM_ACTIVE": 0.5,
    "PROF_PCIE_TX_BYTES": 5 * MIB, "PROF_PCIE_RX_BYTES": 6 * MIB}
DCGM_LABELS = {"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "hostname",
               "DCGM_FI_DRIVER_VERSION"}


@test("a job that starts under its eyes: who it is, its calls, exactly, and its counters")
def _(t):
    a = Agent(t, "--budget", "100%", "--layers", "user", *probes(PUSH))
    end = t.path("end")
    job = start_in(t, a.group, target("calls"), "unread", "0", end)
    t.wait_for(lambda: "target_push" not in a.get()[0], "no calls so far", 5)
    open(end, "w").close()
    job.wait(20)
    job = start_in(t, a.group, target("calls"), "threads", "300", "2")
    job.wait(20)

    def calls():
        rows = a.samples().get("eacgm_calls_total", [])
        return [v for labels, v in rows if labels["function"] == "target_push" and
                labels["pid"] == str(job.pid) and labels["layer"] == "user"]
    t.wait_for(lambda: calls() == [600], "600 calls: %r" % calls())
    lives = start_in(t, a.group, target("calls"), "until", t.path("never"), "1", "100", RANK="3",
                     LOCAL_RANK="1", WORLD_SIZE="8", SLURM_JOB_ID="4711", SECRET="s3cr3t",
                     POD_NAME='train"0')

    def info():
        return [labels for labels, v in a.samples().get("eacgm_process_info", [])
                if labels["pid"] == str(lives.pid) and v == 1]
    t.wait_for(info, "a job that lives")
    labels = info()[0]
    expect({k: labels.get(k) for k in ("comm", "rank", "local_rank", "world_size", "job", "launcher",
                                       "pod")} == {
        "comm": "calls", "rank": "3", "local_rank": "1", "world_size": "8", "job": "4711",
        "launcher": "slurm", "pod": 'train\\"0'}, labels)
    expect("s3cr3t" not in a.get()[0], "a value that nobody asked for")
    t.wait_for(lambda: [v for labels, v in a.samples().get("eacgm_process_rss_bytes", [])
                        if labels["pid"] == str(lives.pid) and v > 0], "its memory")
    t.kill(lives)
    lives.wait()
    t.wait_for(lambda: not info(), "its end")
    a.end()


UNWINDERS = ["/lib/x86_64-linux-gnu/libgcc_s.so.1", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"]


def unmounts(t, at):
    return t.run(["umount", at]).status == 0


@test("a program that has ended holds neither its disk nor its file system", seconds=150, beside=True)
def _(t):
    at = t.path("image")
    os.mkdir(at)
    if t.run(["mount", "-t", "tmpfs", "none", at]).status:
        skip("cannot mount")
    t.at_end.append(lambda: t.run(["umount", "-l", at]))
    shutil.copy("/bin/sleep", at)
    a = Agent(t, "--budget", "100%", "--layers", "user", *probes(PUSH))
    job = start_in(t, a.group, os.path.join(at, "sleep"), "4")
    expect(job.wait(30) == 0, "the job")
    expect(not unmounts(t, at), "nothing is open: this shows nothing")
    t.wait_for(lambda: unmounts(t, at), "something is open still", 120)
    a.end()


@test("libraries with probes that nobody has mapped any more are let go, and traced again", seconds=200,
      beside=True)
def _(t):
    at = t.path("image")
    os.mkdir(at)
    a = Agent(t, "--budget", "100%", "--layers", "user", *probes(PUSH, "exceptions*:trace_*"))

    def calls_of(job):
        return sum(v for labels, v in a.samples().get("eacgm_calls_total", [])
                   if labels["pid"] == str(job.pid))

    def run(*args):
        job = start_in(t, a.group, os.path.join(at, args[0]), *args[1:], LD_LIBRARY_PATH=at)
        expect(job.wait(60) == 0, "%s ended with %d" % (args[0], job.returncode))
        return job
    told = t.run([target("exceptions"), "20"]).out.splitlines()
    thrown = sum(int(line.split()[1]) for line in told if line.startswith("trace_"))
    for turn in range(2):
        if t.run(["mount", "-t", "tmpfs", "none", at]).status:
            skip("cannot mount")
        t.at_end.append(lambda: t.run(["umount", "-l", at]))
        for path in (target("calls"), target("exceptions"), LIBTARGET, *UNWINDERS):
            shutil.copy(path, at)
        job = run("calls", "threads", "300", "2")
        t.wait_for(lambda: calls_of(job) == 600, "600 calls, turn %d" % turn)
        job = run("exceptions", "20")
        t.wait_for(lambda: calls_of(job) == thrown, "%d calls that throw, turn %d" % (thrown, turn))
        expect(not unmounts(t, at), "nothing is open: this shows nothing")
        if not turn:
            t.wait_for(lambda: unmounts(t, at), "something is open still", 120)
    a.end()


@test("calls that come all at once while nobody looks into the rings are counted, or told as lost")
def _(t):
    a = Agent(t, "--budget", "100%", "--layers", "user", *probes(PUSH))
    for turn in range(3):
        time.sleep(1)  # rests become long
        job = start_in(t, a.group, target("calls"), "threads", "150000", "2")
        job.wait(30)

    # Some are lost where the host keeps the reader from its CPU for 40 ms; ring_rests_test.py has
    # the reader's waking.
    def calls_and_lost():
        found = a.samples()
        return (sum(v for labels, v in found.get("eacgm_calls_total", [])
                    if labels["function"] == "target_push"),
                sum(v for labels, v in found.get("eacgm_lost_events_total", [])))
    try:
        t.wait_for(lambda: sum(calls_and_lost()) == 900000, "900000 calls")
    except TimedOut as e:
        raise AssertionError("%s, not %r" % (e, calls_and_lost())) from None
    calls, lost = calls_and_lost()
    expect(calls > 450000, "most are counted: %r" % ((calls, lost),))
    a.end()


@test("jobs in PID namespaces of their own, of before and after its start, are found and counted", 90)
def _(t):
    if not shutil.which("unshare"):
        skip("unshare (util-linux) is not installed")
    group, end, told = make_cgroup(t, "agent"), t.path("end"), t.path("told")
    apart = ("unshare", "-p", "-f", "--mount-proc", "--kill-child")

    def inner(job):
        """The job's number on the host; it is 1 where it lives."""
        def children():
            with open("/proc/%d/task/%d/children" % (job.pid, job.pid)) as f:
                return f.read().split()
        pid = int(t.wait_for(children, "the job")[0])

        def numbers():
            with open("/proc/%d/status" % pid) as f:
                return re.search(r"^NSpid:\t(.*)$", f.read(), re.M).group(1).split()
        t.wait_for(lambda: numbers()[1:] == ["1"], "its namespace: %r" % numbers())
        return pid
    ran = t.start(["sh", "-c", "echo $$ > %s/cgroup.procs; exec \"$@\"" % group, "sh", *apart,
                   target("calls"), "asked"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pid = inner(ran)

    def ask(n):
        ran.stdin.write("%d\n" % n)
        ran.stdin.flush()
        expect(ran.stdout.readline() == "done\n", "the job")
    ask(50)  # nobody looks yet
    a = Agent(t, "--budget", "100%", "--layers", "user", *probes(PUSH), group=group)

    def calls(of):
        return [v for labels, v in a.samples().get("eacgm_calls_total", [])
                if labels["function"] == "target_push" and labels["pid"] == str(of)]
    ask(700)
    t.wait_for(lambda: calls(pid) == [700], lambda: "700 calls: %r" % calls(pid))
    later = start_in(t, group, *apart, "sh", "-c", "exec \"$@\" >" + told, "sh", target("calls"),
                     "until", end, "2", "20")
    later_pid = inner(later)
    t.wait_for(lambda: calls(later_pid), "calls of the later one")
    open(end, "w").close()
    expect(later.wait(30) == 0, "the job")
    made = [float(line.split()[1]) for line in open(told) if line.startswith("target_push ")]
    t.wait_for(lambda: calls(later_pid) == made, lambda: "%r calls: %r" % (made, calls(later_pid)))
    pids = {labels["pid"] for labels, _v in a.samples()["eacgm_calls_total"]}
    expect(pids == {str(pid), str(later_pid)}, "whose they are: %r" % pids)
    ran.stdin.close()
    expect(ran.wait(20) == 0, "the job")
    a.end()


@test("PyTorch in a control group, with what is not normal looked for", 90)
def _(t):
    needs_torch()
    a = Agent(t, "--detect")
    job = start_in(t, a.group, PYTHON, "-c", "import torch\nx = torch.randn(8, 8)\n"
                   "while True: x = (x @ x).tanh()")

    def calls():
        rows = a.samples().get("eacgm_calls_total", [])
        return {labels["function"]: v for labels, v in rows if labels["layer"] == "torch" and
                labels["pid"] == str(job.pid)}
    t.wait_for(lambda: calls().get("aten::tanh", 0) > 100, "calls of aten::tanh", 60)
    expect(a.samples()["eacgm_learning"] == [({}, 1)], "it learns first")
    t.kill(job)
    job.wait()
    # the rings of two CPUs are read one after the other: meanwhile one may be ahead
    t.wait_for(lambda: abs(calls()["aten::mm"] - calls()["aten::tanh"]) <= 1,
               "one product to each tanh: %r" % calls())

    def operations():
        return {labels["format"]: v for labels, v in a.samples().get("eacgm_flops_total", [])}
    t.wait_for(lambda: operations() == {"float32": calls()["aten::mm"] * 2 * 8 ** 3},
               "the work of each product: %r of %r" % (operations(), calls()))
    expect("eacgm_mfu_ratio" not in a.samples(), "there is no GPU")
    a.end()


@test("GPUs by dcgm-exporter's names and labels: all 25, with their values")
def _(t):
    # the first has no GPM: its NVLinks and PCIe are counts, and the other PROF_ have no source
    a = Agent(t, env=fake_nvml(t, "count 2\ngpu 0 temperature 55\ngpu 0 gpm 0\nxid 1 79\n" + GPU))

    def of(gpu):
        found = a.samples()
        return {name[len("DCGM_FI_"):]: v for name in found if name.startswith("DCGM_FI_")
                for labels, v in found[name] if labels["gpu"] == gpu}
    expect(len(DCGM) == 25, len(DCGM))
    t.wait_for(lambda: of("1") == DCGM, lambda: set(DCGM.items()) ^ set(of("1").items()))
    t.wait_for(lambda: set(DCGM) - set(of("0")) == {
        "PROF_GR_ENGINE_ACTIVE", "PROF_PIPE_TENSOR_ACTIVE", "PROF_DRAM_ACTIVE"},
               lambda: set(DCGM) - set(of("0")))
    expect((of("0")["DEV_GPU_TEMP"], of("0")["DEV_XID_ERRORS"]) == (55, 0), of("0"))
    found = a.samples()
    for name in DCGM:
        for labels, _ in found["DCGM_FI_" + name]:
            expect(set(labels) == DCGM_LABELS and all(labels.values()), (name, labels))
            expect(labels["device"] == "nvidia" + labels["gpu"] and labels["UUID"].startswith("GPU-") and
                   labels["Hostname"] == labels["hostname"] == socket.gethostname(), (name, labels))
    ours = {labels["gpu"]: v for labels, v in found["eacgm_gpu_sm_clock_hertz"]}
    theirs = {labels["gpu"]: v * 1e6 for labels, v in found["DCGM_FI_DEV_SM_CLOCK"]}
    expect(ours == theirs, (ours, theirs))
    a.end()


@test("by Prometheus's rules, and by OpenMetrics's where they are asked for")
def _(t):
    a = Agent(t, "--budget", "100%", "--layers", "user", *probes(PUSH))
    start_in(t, a.group, target("calls"), "threads", "10", "1").wait(20)
    t.wait_for(lambda: "eacgm_calls_total" in a.samples(), "calls")
    t.wait_for(lambda: "eacgm_host_cpu_ratio" in a.samples(), "the host's counters")
    text, headers = a.get()
    expect(headers["Content-Type"].startswith("text/plain; version=0.0.4"), headers)
    families = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)
    expect(len(families) == len({name for name, _ in families}), "a family is there twice")
    for name, kind in families:
        expect((kind == "counter") == name.endswith("_total"), (name, kind))
    open_text, open_headers = a.get(Accept="application/openmetrics-text; version=1.0.0")
    expect(open_headers["Content-Type"].startswith("application/openmetrics-text"), open_headers)
    expect(open_text.endswith("# EOF\n") and "# TYPE eacgm_calls counter" in open_text, open_text)
    a.end()


@test("promtool has nothing to say against it")
def _(t):
    promtool = prometheus.find("promtool")
    if not promtool:
        skip("there is no promtool (Debian's package prometheus)")
    a = Agent(t, "--budget", "100%", "--layers", "user,gpu", *probes(PUSH),
              env=fake_nvml(t, "count 1\n"))
    start_in(t, a.group, target("calls"), "threads", "10", "1").wait(20)
    t.wait_for(lambda: "eacgm_calls_total" in a.samples() and
               "DCGM_FI_DEV_GPU_TEMP" in a.samples(), "calls and GPUs")
    ours = re.sub(r"^(# \w+ )?DCGM_.*\n", "", a.get()[0], flags=re.M)  # NVIDIA's names are its own
    r = subprocess.run([promtool, "check", "metrics"], input=ours, capture_output=True, text=True)
    expect(r.returncode == 0 and not r.stdout + r.stderr, r.stdout + r.stderr)
    a.end()


def frozen(a, folder, n):
    """The n-th file that is there, when the agent has said so."""
    a.t.wait_for(lambda: a.said().count("froze ") >= n, "file %d: %s" % (n, a.said()))
    return os.path.join(folder, sorted(os.listdir(folder))[n - 1])


@test("what was before: asked for, by a signal, by an error of a GPU", 90)
def _(t):
    folder = t.path("freezes")
    a = Agent(t, "--budget", "100%", "--layers", "user,gpu", *probes(PUSH), "--freeze", folder,
              "--freeze-before", "2s", "--freeze-after", "500ms",
              env=fake_nvml(t, "count 1\nxid 0 79\n"))
    first = frozen(a, folder, 1)  # the error is there from the beginning
    events = [row for row in rows_of(t, first) if row["type"] == "event"]
    expect([e for e in events if e["name"] == "freeze" and "xid of gpu 0: 79" in e["text"]], events)
    job = start_in(t, a.group, target("calls"), "until", t.path("never"), "1", "100")
    t.wait_for(lambda: "eacgm_calls_total" in a.samples(), "calls")
    a.samples()
    q = urllib.request.Request("http://127.0.0.1:%d/freeze" % a.port, method="POST", data=b"")
    expect(urllib.request.urlopen(q, timeout=20).status == 202, "asked")
    os.kill(a.p.pid, signal.SIGUSR1)
    t.wait_for(lambda: a.p.poll() is None and a.samples()["eacgm_freezes_total"][0][1] >= 1, "it")
    a.end()  # what was asked for belongs to the first file, or is written at the end
    t.kill(job)
    said = a.said()
    expect("froze " in said and "cannot freeze" not in said, said)


@test("the file has each call of its time, and one agent after another finds the folder", 90)
def _(t):
    folder = t.path("freezes")
    until_end = []  # calls end early where the machine stands still, which it does not twice
    for turn in (1, 2):
        a = Agent(t, "--detect", "--layers", "user", *probes(PUSH), "--freeze", folder,
                  "--freeze-before", "300ms", "--freeze-after", "200ms", "--freeze-files", "2",
                  group=None if turn == 1 else a.group)
        never = t.path("never%d" % turn)
        job = start_in(t, a.group, target("calls"), "until", never, "1", "100")
        t.wait_for(lambda: "eacgm_calls_total" in a.samples(), "calls")
        os.kill(a.p.pid, signal.SIGUSR1)
        path = frozen(a, folder, 1) if turn == 1 else None
        t.wait_for(lambda: a.said().count("froze ") == 1, "a file")
        path = path or os.path.join(folder, sorted(os.listdir(folder))[-1])
        open(never, "w").close()
        job.wait(20)
        rows = rows_of(t, path)
        at = next(row["time_ns"] for row in rows if row["type"] == "event" and
                  row["name"] == "freeze" and "SIGUSR1" in row["text"])
        # a file has them in the order in which the rings of the CPUs were read
        calls = sorted((c for c in rows if c["type"] == "call" and c["name"] == "target_push"),
                       key=lambda c: c["start_ns"])
        expect(calls and {c["pid"] for c in calls} == {job.pid}, "calls: %d" % len(calls))
        until_end.append(calls[-1]["start_ns"] > at + 1e8)
        expect(calls[-1]["start_ns"] > at and int(rows[0]["end_monotonic_ns"]) == at + 2e8 and
               all(at - 3e8 <= c["start_ns"] + c["duration_ns"] and c["start_ns"] <= at + 2e8
                   for c in calls), "from %r to %r around %r: %r" % (
                       calls[0]["start_ns"], calls[-1]["start_ns"], at, rows[0]))
        given = [c["args"]["a"] for c in calls]  # from 0 to 999, and again
        gaps = [(x, y) for x, y in zip(given, given[1:]) if y != (x + 1) % 1000]
        expect(not gaps, "calls of its time are missing: %r, lost %r" % (
            gaps, a.samples().get("eacgm_lost_events_total")))
        a.end()
    expect(len(os.listdir(folder)) == 2 and any(until_end), "%r, %r" % (
        os.listdir(folder), until_end))


COUNTED = """
import ctypes, sys, time
push, n = ctypes.CDLL(sys.argv[1]).target_push, 0
push.argtypes = [ctypes.c_uint64]
while True:
    end = time.thread_time() + 0.012
    while time.thread_time() < end:
        pass
    for n in range(n, n + 800):
        push(n)
    n += 1
    time.sleep(0.03)
"""


@test("within a budget a frozen file has all calls after what happened, and bursts before it", 120)
def _(t):
    folder = t.path("freezes")
    a = Agent(t, "--budget", "3%", "--layers", "user", *probes(PUSH), "--freeze", folder,
              "--freeze-after", "2s")  # thirty seconds of that are enough for two
    job = start_in(t, a.group, PYTHON, "-c", COUNTED, LIBTARGET)
    t.wait_for(lambda: re.search("on in bursts from now on .*target_push", a.said()), a.said)

    def seen():
        return [v for _labels, v in a.samples().get("eacgm_function_seen_ratio", [])]
    t.wait_for(lambda: seen() and seen()[0] < 0.5, lambda: "%r: %s" % (seen(), a.said()), 40)
    os.kill(a.p.pid, signal.SIGUSR1)
    path = frozen(a, folder, 1)
    t.kill(job)
    rows = rows_of(t, path)
    at, ends = (int(rows[0][key]) for key in ("frozen_at_ns", "end_monotonic_ns"))
    calls = sorted((c["start_ns"], c["args"]["a"]) for c in rows
                   if c["type"] == "call" and c["name"] == "target_push")
    gaps = [i + 1 for i, (c, d) in enumerate(zip(calls, calls[1:])) if d[1] != c[1] + 1]
    expect(gaps, "there are bursts before: %d calls, %s" % (len(calls), a.said()))
    whole = calls[gaps[-1]:]
    expect(at < whole[-1][0] and whole[-1][0] - whole[0][0] > 8e8,  # no burst
           "all calls from %.2f to %.2f s after it, of %.2f: %s" % (
               (whole[0][0] - at) / 1e9, (whole[-1][0] - at) / 1e9, (ends - at) / 1e9, a.said()))
    print("# all calls from %.2f to %.2f s after it" % (
        (whole[0][0] - at) / 1e9, (whole[-1][0] - at) / 1e9))
    begins = "all functions are traced for some seconds: a file is being frozen"
    expect(begins in a.said() and [n for n in rows if n["type"] == "note" and
                                   begins in n["reason"]], a.said())
    t.wait_for(lambda: "in bursts again after" in a.said(), a.said)
    a.end()


PACED = """
import ctypes, os, sys, time
lib, slow = ctypes.CDLL(sys.argv[1]), sys.argv[2]
while True:
    end = time.thread_time() + (0.06 if os.path.exists(slow) else 0.012)
    while time.thread_time() < end:
        pass
    for _ in range(800):
        lib.target_push(1)
    lib.target_sleep(30)
"""


@test("--detect within a budget: what is turned down is passed over, what is slower is told", 240)
def _(t):
    slow = t.path("slow")
    a = Agent(t, "--detect", "--budget", "10%", "--layers", "user",
              *probes(PUSH, "libtarget.so:target_sleep(u32 ms)"), "--freeze", t.path("freezes"),
              "--freeze-after", "2s")
    job = start_in(t, a.group, PYTHON, "-c", PACED, LIBTARGET, slow)
    t.wait_for(lambda: re.search("on in bursts from now on .*target_push", a.said()), a.said())
    t.wait_for(lambda: "judges from now on" in a.said(), a.said(), 120)
    down = {labels["function"] for labels, v in a.samples()["eacgm_function_seen_ratio"] if v < 1}
    expect(down == {"target_push"}, "%r: %s" % (down, a.said()))
    at = len(a.said())
    os.kill(a.p.pid, signal.SIGUSR1)  # all is on for two seconds, which it passes over as well
    t.wait_for(lambda: "in bursts again after" in a.said()[at:], a.said, 30)
    t.wait_for(lambda: "froze " in a.said()[at:], a.said, 30)
    open(slow, "w").close()
    t.wait_for(lambda: incidents(a, at), a.said(), 60)
    expect("learns anew" not in a.said()[at:] and "target_push" not in incidents(a, at), a.said())
    t.kill(job)
    a.end()


def freezes_of(a):
    return json.loads(a.get("/api/v1/freezes")[0])


@test("incidents of a job shortly after each other: the later one is held off, and all say so", 300)
def _(t):
    slow, store = t.path("slow"), t.path("agent.db")
    a = Agent(t, "--detect", "--layers", "user",
              *probes(PUSH, "libtarget.so:target_sleep(u32 ms)"), "--freeze", t.path("freezes"),
              "--freeze-before", "300ms", "--freeze-after", "200ms", "--store", store)
    start_in(t, a.group, PYTHON, "-c", PACED, LIBTARGET, slow)
    t.wait_for(lambda: "judges from now on" in a.said(), a.said, 120)

    def rows():
        return json.loads(a.get("/api/v1/incidents")[0])["incidents"]

    def held_off():
        return [row for row in freezes_of(a)["told"] if row["name"] == "freeze_held_off"]
    for _turn in range(5):  # half a minute may be between two
        before = len(rows())
        open(slow, "w").close()
        t.wait_for(lambda: len(rows()) > before, a.said, 60)
        os.unlink(slow)
        t.wait_for(lambda: all(r["ended"] for r in rows()), a.said, 60)
        if held_off():
            break
    got = freezes_of(a)
    told = held_off()
    print("# %d incidents, %d files, %d held off" % (len(rows()), len(got["files"]), len(told)))
    expect(told, a.said())
    for row in told:
        name, apart = re.search(r"^not frozen: incident: .*: held off: (freeze-\S+) is of the same, "
                                r"([\d.]+) s (?:before|after) it; what begins at \S+ \S+ UTC or "
                                r"later can be$", row["text"]).groups()
        near = next(f for f in got["files"] if f["name"] == name)
        expect(float(apart) < 30 and not near["from_ns"] <= row["time_ns"] <= near["until_ns"], row)
        expect("eacgm: " + row["text"] in a.said(), a.said())
    expect(a.samples()["eacgm_freezes_held_off_total"] == [({}, len(told))], told)
    expect(json.loads(a.get("/api/v1/self")[0])["held_off"] == len(told), told)
    a.end()
    r = t.run([EACGM, "query", store, "--json",
               "SELECT text FROM v_events WHERE name = 'freeze_held_off'"])
    expect(r.status == 0 and {row["text"] for row in json.loads(r.out)} ==
           {row["text"] for row in told}, r)


@test("what is asked for twice is held off, and says until when; a signal is not held off by it", 120)
def _(t):
    folder = t.path("freezes")
    a = Agent(t, "--budget", "100%", "--layers", "user", *probes(PUSH), "--freeze", folder,
              "--freeze-before", "2s", "--freeze-after", "100ms")

    def asked():
        try:
            with a.open(urllib.request.Request(a.url("/freeze"), method="POST", data=b"")) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
    expect(asked() == (202, "will be written\n"), a.said())
    expect(asked()[0] == 202, "it belongs to it")  # or is the next, where half a minute went by

    def refused():  # once there is the file; not where half a minute went by
        status, text = asked()
        return status == 429 and "freeze-" in text and text
    text = t.wait_for(refused, a.said)
    expect(re.fullmatch(r"held off: freeze-\S+ is of the same, [\d.]+ s before it; what begins at "
                        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC or later can be\n", text), text)
    expect("not frozen" not in a.said() and "also has asked by HTTP" in a.said(), a.said())

    def frozen_by_signal():
        os.kill(a.p.pid, signal.SIGUSR1)
        return re.search("eacgm: froze .*: SIGUSR1", a.said())
    t.wait_for(frozen_by_signal, a.said)

    def not_frozen():
        os.kill(a.p.pid, signal.SIGUSR1)
        return "eacgm: not frozen: SIGUSR1: held off: freeze-" in a.said()
    t.wait_for(not_frozen, a.said)
    expect(a.samples()["eacgm_freezes_held_off_total"][0][1] >= 2, a.said())
    got = freezes_of(a)
    expect(all(f["until_ns"] - f["from_ns"] <= 2.1e9 for f in got["files"]), got)
    a.end()


def incidents(a, at):
    return "\n".join(line for line in a.said()[at:].splitlines() if "incident:" in line)


@test("an early warning of --detect is told, and the agent goes on", 180)
def _(t):
    a = Agent(t, "--detect", "--layers", "python")
    leaks = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "leak_job.py")
    job = start_in(t, a.group, "/usr/bin/python3", leaks, "400e6", "5e6", "150")
    t.wait_for(lambda: "its memory grows steadily" in a.said(), a.said(), 120)
    expect(a.samples()["eacgm_learning"], "answers")

    def told():
        return [e["text"] for e in json.loads(a.get("/api/v1/incidents")[0])["events"]
                if e["name"] == "early_warning" and e["entity"] == "pid %d" % job.pid]
    t.wait_for(told, "the event")
    time.sleep(1)
    expect(len(told()) == 1 and "its memory grows steadily" in told()[0], told())
    t.kill(job)
    a.end()


@test("a folder for files that cannot be had: a line each, and the agent goes on")
def _(t):
    in_the_way = t.path("file")
    open(in_the_way, "w").close()
    a = Agent(t, "--freeze", in_the_way, "--freeze-after", "100ms")
    expect("nothing can be frozen: the folder '%s': Not a directory" % in_the_way in a.said(),
           a.said())
    os.kill(a.p.pid, signal.SIGUSR1)
    t.wait_for(lambda: "cannot freeze (SIGUSR1)" in a.said(), a.said())
    t.wait_for(lambda: a.samples()["eacgm_freeze_failures_total"] == [({}, 1)], "counted")
    a.end()


@test("a folder for files on what is mounted read-only, and one below it")
def _(t):
    mounted = t.path("mounted")
    os.mkdir(mounted)
    if t.run(["mount", "-t", "tmpfs", "-o", "ro", "none", mounted]).status != 0:
        skip("nothing may be mounted here")
    group = None
    try:
        for folder in (mounted, os.path.join(mounted, "below")):
            a = Agent(t, "--freeze", folder, group=group)
            group = a.group
            expect("nothing can be frozen: the folder '%s': Read-only file system" % folder in
                   a.said(), a.said())
            a.end()
    finally:
        t.run(["umount", mounted])


@test("other paths, other methods, pages of others, questions without end: no more than an answer")
def _(t):
    a = Agent(t)

    def status(path, **how):
        q = urllib.request.Request("http://127.0.0.1:%d%s" % (a.port, path), **how)
        try:
            return urllib.request.urlopen(q, timeout=20).status
        except urllib.error.HTTPError as e:
            return e.code
    expect(status("/healthz") == 200 and status("/") == 200, "answers")
    for path in ("/no", "/../etc/passwd", "/metrics/..%2f..%2fetc/passwd", "/metrics%00x"):
        expect(status(path) in (400, 404), path)
    expect(status("/metrics", method="POST", data=b"x") == 405, "POST")
    expect(status("/metrics", method="DELETE") in (405, 501), "DELETE")
    # as many as it has room for and some that wait; none of them asks to the end
    held = [socket.create_connection(("127.0.0.1", a.port), 20) for _ in range(160)]
    for s in held:
        s.send(b"GET /metrics HT")
    for s in held[:100]:
        s.close()
    t.wait_for(lambda: status("/healthz") == 200, "an answer beside them", 30)
    for s in held[100:]:
        s.close()
    for junk in (b"\0" * 4000, b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"a" * 20000 + b" HTTP/1.1\r\n",
                 b"GET /metrics HTTP/1.1\r\n" + b"x: y\r\n" * 20000 + b"\r\n",
                 b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", a.port), 5) as s:
            s.settimeout(20)
            try:
                s.sendall(junk)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except OSError:
                pass
    expect(status("/metrics") == 200, "it goes on")
    a.end()


def write(path, text):
    with open(path, "w") as f:
        f.write(text)
    return path


@test("options of a file: the command line wins; SIGHUP takes them over, or ends it for others")
def _(t):
    group = make_cgroup(t, "agent")
    catalog = write(t.path("c.yaml"), "catalog: 1\nlayer: mine\nlibraries: [\"libtarget.so*\"]\n"
                    "probes:\n  - id: x.push\n    symbols: target_push\n")
    whole = ("listen: 127.0.0.1:1\nbudget: 100%%\ncatalogs: [%s]\nlayers: [mine, gpu]\n"
             "freeze:\n  folder: %s\ndcgm: false\n" % (catalog, t.path("freezes")))
    path = write(t.path("agent.yaml"), whole)
    a = Agent(t, "-c", path, group=group, env=fake_nvml(t, "count 1\n"))  # --listen is told there
    start_in(t, group, target("calls"), "threads", "10", "1").wait(20)
    t.wait_for(lambda: [v for labels, v in a.samples().get("eacgm_calls_total", [])
                        if labels["layer"] == "mine" and v == 10], "calls by the file's catalog")
    expect("eacgm_freezes_total" in a.samples() and "DCGM" not in a.get()[0], "the file's options")
    for n, (text, why) in enumerate((
            ("budget: 1%\nlayers: [mine\n", "agent.yaml:3:1: not YAML"),
            ("layers: [none]\n", "agent.yaml:1:10: layers: there is no layer 'none'"),
            ("freeze:\n  files: x\n", "agent.yaml:2:10: freeze.files: takes a number"))):
        write(path, text)
        os.kill(a.p.pid, signal.SIGHUP)
        t.wait_for(lambda: a.said().count("goes on as before") == n + 1 and why in a.said(), why)
        expect(a.get("/healthz")[0] == "ok\n", "it goes on")
    hang_up(t, a, path, whole, "nothing has changed")
    hang_up(t, a, path, whole.replace("dcgm: false", "dcgm: true"), "takes over --no-dcgm")
    t.wait_for(lambda: "DCGM_FI_DEV_GPU_TEMP" in a.samples(), "GPUs, as the file says now")
    write(path, whole.replace("dcgm: false", "dcgm: true").replace("[mine, gpu]", "[gpu]"))
    os.kill(a.p.pid, signal.SIGHUP)
    expect(a.p.wait(30) == 0 and "SIGHUP: ends, to be started again with another --layers" in
           a.said(), a.said())
    a = Agent(t, "-c", path, group=group, env=fake_nvml(t, "count 1\n"))
    hang_up(t, a, path, "layers: [gpu]\nbudget: 7%%\ncatalogs: [%s]\n" % catalog,
            "ends, to be started again with another --freeze")
    expect(a.p.wait(30) == 0, a.said())


def hang_up(t, a, path, text, says):
    write(path, text)
    before = a.said().count("SIGHUP")
    os.kill(a.p.pid, signal.SIGHUP)
    t.wait_for(lambda: a.said().count("SIGHUP") > before, "SIGHUP")
    expect(says in a.said().split("SIGHUP")[-1], a.said())


@test("labels of the operator's choice, of the file and of a job's variables: metrics, JSON, OTLP")
def _(t):
    receiver = Receiver()
    whole = ("budget: 100%\nlabels: {team: vision, site: 'lab \"2\"'}\n"
             "label_env: [WANDB_PROJECT, q=QUEUE, NOT_SET]\n")
    path = write(t.path("agent.yaml"), whole)
    a = Agent(t, "-c", path, "--layers", "user", *probes(PUSH), "--otlp", receiver.url(),
              "--otlp-interval", "1s", env={"OTEL_SDK_DISABLED": "false"})
    job = start_in(t, a.group, target("calls"), "until", t.path("never"), "1", "100",
                   WANDB_PROJECT="gpt-2", QUEUE="night", SECRET="s3cr3t")
    t.wait_for(lambda: "eacgm_process_info" in a.samples() and
               a.samples()["eacgm_process_info"], "the job")
    labels = a.samples()["eacgm_process_info"][0][0]
    expect({k: v for k, v in labels.items() if k not in ("parent", "container", "pod_uid")} == {
        "pid": str(job.pid), "comm": "calls", "team": "vision", "site": 'lab \\"2\\"',
        "wandb_project": "gpt-2", "q": "night"}, labels)
    rows = json.loads(a.get("/api/v1/jobs")[0])["jobs"]
    expect(rows[0]["labels"] == {"team": "vision", "site": 'lab "2"', "wandb_project": "gpt-2",
                                 "q": "night"}, rows)

    def pushed():
        questions = receiver.of("/v1/metrics")
        return questions[-1].points().get("eacgm.process.info") if questions else None
    t.wait_for(pushed, "a push of it")
    attributes = pushed()[0][0]
    expect((attributes["team"], attributes["wandb_project"], attributes["q"]) ==
           ("vision", "gpt-2", "night") and "not_set" not in attributes, attributes)
    expect("s3cr3t" not in a.get()[0] + a.get("/api/v1/jobs")[0], "what nobody named")
    hang_up(t, a, path, whole.replace("vision", "language"),
            "ends, to be started again with another --label")
    expect(a.p.wait(30) == 0, a.said())
    receiver.close()
    write(path, "label_env: [RANK]\n")
    r = t.run([EACGM, "agent", "-c", path])
    expect(r.status == 2 and r.err.endswith(
        "agent.yaml:1:13: label_env: 'RANK': the label 'rank' has a meaning already\n"), r)


@test("SIGHUP: another token, receiver, budget and limits without an end, and no scrape is refused")
def _(t):
    group = make_cgroup(t, "agent")
    first, second = write(t.path("first"), "1" * 32), write(t.path("second"), "2" * 32)
    receivers = [Receiver(), Receiver()]
    whole = ("token_file: %s\nlayers: [user]\nprobes: [\"%s\"]\nbudget: 50%%\nfreeze:\n  folder: %s\n"
             "  files: 5\n  after: 3s\notlp:\n  url: http://127.0.0.1:%d\n  interval: 1s\nstore:\n  file: %s\n"
             % (first, PUSH, t.path("freezes"), receivers[0].port, t.path("a.db")))
    path = write(t.path("agent.yaml"), whole)
    a = Agent(t, "-c", path, group=group, token="1" * 32)
    start_in(t, group, target("calls"), "threads", "10", "1").wait(20)
    t.wait_for(lambda: [v for _, v in a.samples().get("eacgm_calls_total", []) if v == 10], "calls")
    t.wait_for(lambda: receivers[0].rows("/v1/metrics"), "the first receiver")
    refused, asked, ends = [], [], threading.Event()

    def ask():
        while not ends.is_set():
            try:
                asked.append(socket.create_connection(("127.0.0.1", a.port), 20).close())
                time.sleep(0.01)
            except OSError as e:
                refused.append(e)
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        hang_up(t, a, path, whole.replace(first, second).replace("files: 5\n  after: 3s", "files: 1\n  after: 0")
                .replace("%d\n  int" % receivers[0].port, "%d\n  int" % receivers[1].port)
                .replace("budget: 50%", "budget: 100%") + "  keep_days: 1\n",
                "takes over --token-file, --budget, --freeze-after, --freeze-files, --otlp, --store-keep\n")
        expect(a.status("/metrics") == 401, "the token before")
        a.token = "2" * 32
        write(second, "3" * 32)
        hang_up(t, a, path, open(path).read(), "takes over the files of TLS and the token")
        expect(a.status("/metrics") == 401, "the file's content before")
        a.token = "3" * 32
    finally:
        ends.set()
        asking.join()
    expect(asked and not refused, refused)
    expect([v for _, v in a.samples()["eacgm_calls_total"] if v == 10], "calls were not forgotten")
    t.wait_for(lambda: receivers[1].rows("/v1/metrics"), "the second receiver")
    os.makedirs(t.path("freezes"), 0o700, exist_ok=True)
    for n in "12":  # of five files they stay
        write(t.path("freezes/freeze-20200101T000000Z-%s.eacgm" % n), "")
    expect(a.status("/freeze", method="POST") == 202, "a freeze")
    t.wait_for(lambda: "froze " in a.said(), "a file", 60)
    expect(len(os.listdir(t.path("freezes"))) == 1, os.listdir(t.path("freezes")))
    hang_up(t, a, path, open(path).read().replace("after: 0", "after: x"), "goes on as before: ")
    a.end()


@test("files that are wrong: one line with the place, and nothing is started")
def _(t):
    for text, why in (("colour: x\n", "1:1: colour: unknown key"),
                      ("freeze:\n  befor: 1s\n", "2:3: freeze.befor: unknown key, did you mean"),
                      ("detect: [a]\n", "1:9: detect: expected a value, found a list"),
                      ("freeze: {memory_mb: 99999}\n", "1:21: freeze.memory_mb: takes a number"),
                      ("layers: [no]\n", "1:10: layers: there is no layer 'no'"),
                      ("listen: 0.0.0.0:1\n", "1:9: listen: '0.0.0.0' is no loopback"),
                      ("#" * 70000, "larger than 65536 bytes")):
        path = write(t.path("agent.yaml"), text)
        r = t.run([EACGM, "agent", "-c", path])
        expect(r.status == 2 and not r.out and path + ":" in r.err and why in r.err and
               len(r.err.splitlines()) == 1, r)
    r = t.run([EACGM, "agent", "-c", t.path("none")])
    expect(r.status == 2 and "No such file" in r.err and len(r.err.splitlines()) == 1, r)


@test("systemd is told: ready, alive while batches come, stopping", 90)
def _(t):
    group = make_cgroup(t, "agent")
    for name in (t.path("notify"), "@eacgm-test-%d" % os.getpid()):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(name.replace("@", "\0"))
            s.settimeout(30)
            a = Agent(t, group=group, env={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1000000"})
            seen = []

            def until(line, n=1):
                while sum(line in text.split("\n") for text in seen) < n:
                    seen.append(s.recv(4096).decode())
            until("READY=1")
            expect(any("STATUS=attached to " in text for text in seen), seen)
            until("WATCHDOG=1", 3)
            os.kill(a.p.pid, signal.SIGSTOP)  # no batches, no sign of life
            s.settimeout(1.5)
            try:
                while True:
                    s.recv(4096)  # what was under way
            except socket.timeout:
                pass
            os.kill(a.p.pid, signal.SIGCONT)
            s.settimeout(30)
            until("WATCHDOG=1", 4)
            a.end()
            until("STOPPING=1")
    for name in ("", "relative", "@", "/no/such/socket", "/" + "x" * 200, "vsock:2:1"):
        a = Agent(t, group=group, env={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "x"})
        a.end()
    a = Agent(t, group=group, env={"NOTIFY_SOCKET": t.path("notify")})  # nobody reads
    a.end()


@test("systemd keeps its socket: who asks while it is started again waits, and is answered", 90)
def _(t):
    group = make_cgroup(t, "agent")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(t.path("notify"))
        s.settimeout(30)
        a = Agent(t, group=group, env={"NOTIFY_SOCKET": t.path("notify")})
        text, kept = b"", []
        while not text.startswith(b"FDSTORE=1\nFDNAME=http"):
            text, kept, _, _ = socket.recv_fds(s, 4096, 1)
    os.kill(a.p.pid, signal.SIGKILL)
    a.p.wait()
    answers = []
    asking = threading.Thread(target=lambda: answers.append(a.get("/metrics")[0]))
    asking.start()
    log = open(t.path("again.log"), "w")
    again = t.start(["sh", "-c", "exec 3<&%d; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"" % kept[0], "sh",
                     EACGM, "agent", "--cgroup", group, "--listen", "127.0.0.1:%d" % a.port],
                    pass_fds=kept, stderr=log)
    asking.join(60)
    expect(answers, open(log.name).read())
    os.kill(again.pid, signal.SIGTERM)
    expect(again.wait(30) == 0, open(log.name).read())
    # of another address it is of no use
    again = t.start(["sh", "-c", "exec 3<&%d; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"" % kept[0], "sh",
                     EACGM, "agent", "--cgroup", group, "--listen", "127.0.0.2:0"],
                    pass_fds=kept, stderr=log)
    t.wait_for(lambda: "serves http://127.0.0.2:" in open(log.name).read(), "its address")
    t.wait_for(lambda: "attached to" in open(log.name).read().split("127.0.0.2")[1], "it to run")
    os.kill(again.pid, signal.SIGTERM)
    expect(again.wait(30) == 0, open(log.name).read())
    os.close(kept[0])


@test("addresses that it does not listen on")
def _(t):
    for where, why in (("0.0.0.0:9477", "no loopback"), ("127.0.0.1", "no ADDRESS:PORT"),
                       ("127.0.0.1:99999", "no ADDRESS:PORT"), ("localhost:1", "is no address")):
        r = t.run([EACGM, "agent", "--listen", where])
        expect(r.status == 2 and why in r.err and len(r.err.splitlines()) == 1, r)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        r = t.run([EACGM, "agent", "--listen", "127.0.0.1:%d" % taken.getsockname()[1]])
        expect(r.status == 1 and "in use" in r.err and len(r.err.splitlines()) == 1, r)


TRAP = 0xcc


def byte_at(pid, address):
    with open("/proc/%d/mem" % pid, "rb", 0) as f:
        f.seek(address)
        return f.read(1)[0]


def place_of(pid):
    """An address of libtarget.so's code that differs from the file by a trap, or None."""
    with open("/proc/%d/maps" % pid) as f:
        line = next(m for m in f if m.rstrip().endswith("libtarget.so") and " r-xp " in m)
    words = line.split()
    start, end = (int(x, 16) for x in words[0].split("-"))
    with open(words[5], "rb") as f:
        f.seek(int(words[2], 16))
        was = f.read(end - start)
    with open("/proc/%d/mem" % pid, "rb", 0) as f:
        f.seek(start)
        now = f.read(end - start)
    return next((start + i for i, (a, b) in enumerate(zip(was, now)) if a != b and b == TRAP), None)


@test("kill -9: the job goes on, no probe stays")
def _(t):
    a = Agent(t, "--budget", "100%", "--layers", "user", *probes(PUSH))
    end = t.path("end")
    with open(t.path("out"), "w") as out:
        job = t.start(["sh", "-c", "echo $$ > %s/cgroup.procs; exec %s until %s 1" % (
            a.group, target("calls"), end)], stdout=out)
    t.wait_for(lambda: "eacgm_calls_total" in a.samples() and
               a.samples()["eacgm_calls_total"], "calls")
    at = place_of(job.pid)
    expect(at is not None, "there is a probe")
    os.kill(a.p.pid, signal.SIGKILL)
    a.p.wait()
    t.wait_for(lambda: byte_at(job.pid, at) != TRAP, "the probe to go")
    open(end, "w").close()
    expect(job.wait(20) == 0, "the job failed")


if __name__ == "__main__":
    main()
