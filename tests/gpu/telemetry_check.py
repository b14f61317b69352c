#!/usr/bin/env python3
"""telemetry_check.py - compares the GPU counters of eacgm record with what nvidia-smi says at the
same moments, while a CUDA job runs.

usage: telemetry_check.py EACGM_BINARY OUT.json

Starts a steady matrix product on the first GPU, nvidia-smi ten times a second and eacgm record
on the job; then pairs the values by time (both clocks are the host's). Prints TAP and writes every
figure into OUT.json. Needs root, nvidia-smi and PyTorch with CUDA; says which is missing and skips
else. Ends only what it started. Takes about a minute."""
import bisect
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SECONDS = 20
WARM_S = 120
SETTLE_S = 5  # of the recording: first questions, and the cost of attaching
GPU = "gpu 0"

# What the driver calls it, what eacgm calls it, and how they are compared.
#   near_s: two values belong together when they lie so close
#   within: the difference that is still equal, given both
#   share:  of the pairs that must be equal; the rest may straddle a change
MIB = 1 << 20
COLUMNS = [
    ("memory.used", "memory_used_bytes", MIB, 0.15, lambda a, b: abs(a - b) <= 0.01 * a + MIB, 0.95),
    ("memory.total", "memory_total_bytes", MIB, 11, lambda a, b: abs(a - b) <= 0.01 * a, 1),
    ("temperature.gpu", "temperature_celsius", 1, 0.6, lambda a, b: abs(a - b) <= 2, 0.95),
    ("clocks.sm", "sm_clock_mhz", 1, 0.25, lambda a, b: abs(a - b) <= 0.1 * a, 0.8),
    ("clocks.mem", "memory_clock_mhz", 1, 2.5, lambda a, b: abs(a - b) <= 0.01 * a, 0.95),
    ("utilization.gpu", "sm_ratio", 0.01, 0.4, lambda a, b: abs(a - b) <= 0.1, 0.8),
    ("enforced.power.limit", "power_limit_w", 1, 11, lambda a, b: abs(a - b) <= 1, 1),
]
# power.draw is a mean of about a second from Ampere on, power_w the power of a moment: compared are
# medians over the run, which a steady load makes comparable.
POWER_TOLERANCE = 0.10
CPU_LIMIT = 0.005  # of a core, for each GPU

LOAD = """
import sys, time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
b = torch.empty_like(a)
end = None
while end is None or time.time() < end:
    for _ in range(20):
        torch.mm(a, a, out=b)
    torch.cuda.synchronize()
    if end is None:
        end = time.time() + float(sys.argv[1])
        print("ready", flush=True)
"""

results = []


def tap(ok, name, detail):
    results.append({"name": name, "ok": bool(ok), "detail": detail})
    print(f"{'ok' if ok else 'not ok'} {len(results)} - {name}: {detail}", flush=True)


def skip(name, reason):
    results.append({"name": name, "ok": True, "detail": "skipped: " + reason})
    print(f"ok {len(results)} - {name} # SKIP {reason}", flush=True)


def skip_all(reason):
    print(f"1..0 # SKIP {reason}")
    sys.exit(0)


def missing():
    if not shutil.which("nvidia-smi"):
        return "nvidia-smi is not on this host"
    if os.geteuid() != 0:
        return "needs root"
    if subprocess.run([sys.executable, "-c", "import torch; torch.zeros(1).cuda()"],
                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        return "no PyTorch with CUDA for " + sys.executable
    return None


def end(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def start_load():
    load = subprocess.Popen([sys.executable, "-c", LOAD, str(SECONDS + 30)],
                            stdout=subprocess.PIPE, text=True)
    late = time.monotonic() + WARM_S
    os.set_blocking(load.stdout.fileno(), False)
    while time.monotonic() < late and load.poll() is None:
        if "ready" in (load.stdout.readline() or ""):
            return load
        time.sleep(0.2)
    end(load)
    sys.exit("the CUDA job did not start")


def record(eacgm, pid, folder):
    """Runs eacgm and nvidia-smi beside each other; gives the counters and the driver's lines."""
    path, said = os.path.join(folder, "run.eacgm"), os.path.join(folder, "smi.csv")
    query = ["timestamp", "index", "power.draw"] + [c[0] for c in COLUMNS]
    with open(said, "w") as out:
        smi = subprocess.Popen(["nvidia-smi", "--query-gpu=" + ",".join(query),
                                "--format=csv,noheader,nounits", "-lms", "100"], stdout=out)
        try:
            done = subprocess.run([eacgm, "record", "-p", str(pid), "-d", str(SECONDS), "-o", path],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=SECONDS + 120)
            apps = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory",
                                   "--format=csv,noheader,nounits"], stdout=subprocess.PIPE,
                                  text=True).stdout
        finally:
            end(smi)
    if done.returncode:
        sys.exit("eacgm record failed: " + done.stdout.strip()[-500:])
    export = subprocess.run([eacgm, "export", path, "-f", "jsonl", "-o", path + ".jsonl"],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if export.returncode:
        sys.exit("eacgm export failed: " + export.stdout.strip()[-500:])
    return read_counters(path + ".jsonl"), read_smi(said, query), apps


def read_counters(path):
    """{(entity, name): ([time in s], [value])}, by time."""
    rows = {}
    with open(path) as lines:
        for line in lines:
            if '"counter"' not in line[:30]:
                continue
            o = json.loads(line)
            if o["type"] == "counter":
                rows.setdefault((o["entity"], o["name"]), []).append((o["time_ns"] / 1e9, o["value"]))
    return {k: tuple(zip(*sorted(v))) for k, v in rows.items()}


def read_smi(path, query):
    """One dict a line, with time on CLOCK_MONOTONIC."""
    offset = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
    lines = []
    with open(path) as text:
        for line in text:
            fields = [f.strip() for f in line.split(",")]
            if len(fields) != len(query):
                continue  # cut off at the end
            o = dict(zip(query, fields))
            if o["index"] != "0":
                continue
            when = datetime.datetime.strptime(o["timestamp"], "%Y/%m/%d %H:%M:%S.%f").timestamp()
            o["time"] = when - offset
            lines.append(o)
    return lines


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def nearest(series, when, near_s):
    times, values = series
    i = bisect.bisect_left(times, when)
    best = min((j for j in (i - 1, i) if 0 <= j < len(times)), key=lambda j: abs(times[j] - when))
    return values[best] if abs(times[best] - when) <= near_s else None


def compare(counters, smi, column):
    theirs, ours, unit, near_s, equal, share = column
    said = [(o["time"], number(o[theirs])) for o in smi]
    said = [(t, v * unit) for t, v in said if v is not None]
    if not said:
        return skip(f"{ours} as {theirs}", "nvidia-smi does not tell it")
    series = counters.get((GPU, ours))
    if not series:
        return tap(False, f"{ours} as {theirs}", "eacgm told none")
    pairs = [(v, nearest(series, t, near_s)) for t, v in said]
    pairs = [(a, b) for a, b in pairs if b is not None]
    if len(pairs) < 20:
        return tap(False, f"{ours} as {theirs}", f"only {len(pairs)} values at the same moments")
    good = sum(equal(a, b) for a, b in pairs)
    worst = max(pairs, key=lambda p: abs(p[0] - p[1]))
    return tap(good >= share * len(pairs), f"{ours} as {theirs}",
               f"{good} of {len(pairs)} equal, {share:.0%} must be; furthest apart: nvidia-smi "
               f"{worst[0]:g}, eacgm {worst[1]:g}")


def compare_power(counters, smi):
    ours = counters.get((GPU, "power_w"))
    theirs = [number(o["power.draw"]) for o in smi]
    theirs = [v for v in theirs if v is not None]
    if not theirs:
        return skip("power_w as power.draw", "nvidia-smi does not tell it")
    if not ours:
        return tap(False, "power_w as power.draw", "eacgm told none")
    a, b = statistics.median(theirs), statistics.median(ours[1])
    return tap(abs(a - b) <= POWER_TOLERANCE * a, "power_w as power.draw",
               f"medians: nvidia-smi {a:.1f} W, eacgm {b:.1f} W; {POWER_TOLERANCE:.0%} allowed")


def compare_process(counters, apps, pid):
    told = dict(line.split(",") for line in apps.splitlines() if "," in line)
    theirs = number(told.get(str(pid), ""))
    series = counters.get((f"{GPU} pid {pid}", "memory_used_bytes"))
    if theirs is None:
        return skip("memory of the process", "nvidia-smi does not list it")
    if not series:
        return tap(False, "memory of the process", "eacgm told none")
    return tap(abs(series[1][-1] - theirs * MIB) <= 0.01 * theirs * MIB + MIB,
               "memory of the process",
               f"nvidia-smi {theirs:g} MiB, eacgm {series[1][-1] / MIB:.0f} MiB")


def steady(counters, entity, name, start):
    times, values = counters.get((entity, name), ((), ()))
    return [v for t, v in zip(times, values) if t >= start]


def check_gpm(counters, start):
    for name, least in (("gpm_sm_ratio", 0.5), ("gpm_tensor_ratio", 0.3)):
        values = steady(counters, GPU, name, start)
        if not any(k[1].startswith("gpm_") for k in counters):
            skip(f"{name} of a matrix product", "this GPU has no GPM")
        else:
            middle = statistics.median(values) if values else 0
            tap(least <= middle <= 1, f"{name} of a matrix product",
                f"median {middle:.2f}, at least {least} expected")


def check_cost(counters, start):
    gpus = {k[0] for k in counters if k[1] == "power_w"}
    cost = steady(counters, "eacgm", "gpu_collector_cpu_ratio", start)
    mean = statistics.fmean(cost) if cost else float("nan")
    tap(cost and mean <= CPU_LIMIT * max(1, len(gpus)), "CPU time of the collector",
        f"{mean:.3%} of a core for {len(gpus)} GPUs, {CPU_LIMIT:.1%} each allowed")
    used = counters.get((GPU, "memory_used_bytes"))
    rate = (len(used[0]) - 1) / (used[0][-1] - used[0][0]) if used and len(used[0]) > 1 else 0
    tap(rate >= 9, "ten samples a second", f"{rate:.1f} a second")
    return mean


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1])
    eacgm, out = os.path.abspath(sys.argv[1]), sys.argv[2]
    reason = missing()
    if reason:
        skip_all(reason)
    with tempfile.TemporaryDirectory(prefix="eacgm-telemetry-") as folder:
        load = start_load()
        try:
            counters, smi, apps = record(eacgm, load.pid, folder)
        finally:
            end(load)
    start = min((v[0][0] for k, v in counters.items() if k[0] == GPU), default=0)
    for column in COLUMNS:
        compare(counters, smi, column)
    compare_power(counters, smi)
    compare_process(counters, apps, load.pid)
    check_gpm(counters, start + SETTLE_S)
    cost = check_cost(counters, start + SETTLE_S)
    print(f"1..{len(results)}")
    summary = {f"{e}: {n}": {"values": len(v), "min": min(v), "median": statistics.median(v),
                             "max": max(v)}
               for (e, n), (_, v) in sorted(counters.items()) if e.startswith("gpu") or e == "eacgm"}
    with open(out, "w") as f:
        json.dump({"gpu_collector_cpu_ratio": cost, "checks": results, "counters": summary,
                   "nvidia_smi": smi}, f, indent=1)
    return any(not r["ok"] for r in results)


if __name__ == "__main__":
    sys.exit(main())
