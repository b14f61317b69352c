#!/usr/bin/env python3
"""profile_cost.py - what full-stack profiles cost, how soon they begin, and whether they are right.

Three parts. (1) Cost with all cores busy: as many training processes as there are cores, untraced
and under `eacgm record --profile` at 99 Hz, `perf record --call-graph dwarf` at 99 Hz and cProfile,
taking turns. A way's share of the machine is the CPU time of the collector and of the BPF programs
(kernel.bpf_stats_enabled) over all cores' time, of the whole run, its start included, and of its
second half; the job's slowdown is the ratio of its step times,
pair by pair. (2) Cold start: from the start of `eacgm record -p` on a training process to the first
stack that is whole, with an empty and a filled cache of unwind rules. (3) Shares: a script that
spends known shares of its time in known functions, a minute each on every CPython that is found.
Needs root."""

import argparse
import collections
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import common
from common import Failed

TRAIN = os.path.join(common.BENCH, "train.py")
SHARES = os.path.join(common.ROOT, "tests", "root", "jobs", "profile_shares.py")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
BPF_STATS = "/proc/sys/kernel/bpf_stats_enabled"
POINTS = 0.02  # a share may be off by so much


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("--pairs", type=int, default=8, help="of part 1 (default: %(default)s)")
    p.add_argument("--steps", type=int, default=1500, help="of train.py (default: %(default)s)")
    p.add_argument("--starts", type=int, default=5, help="of part 2 (default: %(default)s)")
    p.add_argument("--shares-seconds", type=float, default=60,
                   help="of part 3, 0 = without it (default: %(default)s)")
    p.add_argument("--python", default="/usr/bin/python3", help="default: %(default)s")
    p.add_argument("--limit", type=int, default=600, help="seconds that one run may take")
    args = p.parse_args()
    args.eacgm = os.path.join(args.build, "eacgm")
    args.bpftool = shutil.which("bpftool") or "/usr/sbin/bpftool"
    args.cpus = len(os.sched_getaffinity(0))
    return args


# ---- watching a collector ----

class Watch(threading.Thread):
    """Peak memory of a process, its CPU time, and the run time of the BPF programs it holds."""

    def __init__(self, args, pid):
        super().__init__(daemon=True)
        self.args, self.pid, self.peak_kb, self.run_ns = args, pid, 0, {}
        self.looks = []  # time, CPU seconds, BPF seconds
        self.end = threading.Event()

    def run(self):
        while not self.end.wait(0.25):
            self.look()

    def programs(self):
        held = set()
        for fd in os.listdir("/proc/%d/fdinfo" % self.pid):
            try:
                with open("/proc/%d/fdinfo/%s" % (self.pid, fd)) as f:
                    held.update(re.findall(r"^prog_id:\s*(\d+)", f.read(), re.M))
            except OSError:
                pass
        return {int(n) for n in held}

    def look(self):
        try:
            with open("/proc/%d/status" % self.pid) as f:
                peak = re.search(r"^VmHWM:\s*(\d+)", f.read(), re.M)
            with open("/proc/%d/stat" % self.pid) as f:
                words = f.read().rsplit(")", 1)[1].split()
            held = self.programs()
        except OSError:
            return
        self.peak_kb = max(self.peak_kb, int(peak.group(1)) if peak else 0)
        out = subprocess.run([self.args.bpftool, "-j", "prog", "list"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, check=False).stdout
        for p in json.loads(out or b"[]"):
            if p["id"] in held and "run_time_ns" in p:
                self.run_ns[p["id"]] = p["run_time_ns"]
        cpu_s = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        self.looks.append((time.monotonic(), cpu_s, sum(self.run_ns.values()) / 1e9))

    def steady_share(self):
        """Of one core's time, in the second half."""
        half = len(self.looks) // 2
        if half < 2:
            return None
        (t0, cpu0, bpf0), (t1, cpu1, bpf1) = self.looks[half], self.looks[-2]
        return (cpu1 - cpu0 + bpf1 - bpf0) / (t1 - t0)


def set_bpf_stats(on):
    try:
        with open(BPF_STATS, "r+") as f:
            before = f.read().strip()
            f.seek(0)
            f.write(on)
        return before
    except OSError:
        return "0"


# ---- (1) cost ----

def job(args, wrap=()):
    """As many training processes as cores, in one command."""
    one = " ".join([args.python, *wrap, TRAIN, "--steps", str(args.steps)])
    return ["sh", "-c", " & ".join([one] * args.cpus) + " & wait"]


def steps_of(out):
    found = [float(x) for x in re.findall(r"\bstep_ms ([0-9.]+)", out)]
    if not found:
        raise Failed("the script printed no step_ms: %s" % out[-300:])
    return statistics.mean(found)


def run_plain(args, _folder, wrap=()):
    ran = common.run(job(args, wrap), args.limit, ONE_THREAD)
    return {"step_ms": steps_of(ran.out), "cpu_s": ran.cpu_s, "wall_s": ran.wall_s}


def run_profile(args, folder):
    return run_plain(args, folder, ("-m", "cProfile", "-o", "/dev/null"))


def run_perf(args, folder):
    data = os.path.join(folder, "perf.data")
    ran = common.run(["perf", "record", "-q", "-o", data, "-e", "cpu-clock", "--call-graph", "dwarf",
                      "-F", "99", "--", *job(args)], args.limit, ONE_THREAD)
    return {"step_ms": steps_of(ran.out), "cpu_s": ran.cpu_s, "wall_s": ran.wall_s,
            "bytes": os.path.getsize(data)}


def run_eacgm(args, folder, kinds):
    out = os.path.join(folder, "cost.eacgm")
    log = os.path.join(folder, "job.out")
    began = time.monotonic()
    with open(log, "w") as f:
        p = subprocess.Popen([args.eacgm, "record", "-o", out, "--layers", "user", "--profile", kinds,
                              "--", *job(args)], stdin=subprocess.DEVNULL, stdout=f,
                             stderr=subprocess.STDOUT, start_new_session=True,
                             env=dict(os.environ, **ONE_THREAD))
    watch = Watch(args, p.pid)
    watch.start()
    try:
        p.wait(timeout=args.limit)
    except subprocess.TimeoutExpired:
        common.end_group(p)
        raise Failed("eacgm record did not end in %d s" % args.limit) from None
    finally:
        watch.end.set()
        watch.join()
    wall_s = time.monotonic() - began
    with open(log) as f:
        text = f.read()
    if p.returncode:
        raise Failed("eacgm record: " + text[-300:])
    meta = common.metas_of(args.eacgm, out)
    bpf_s = sum(watch.run_ns.values()) / 1e9
    own_s = int(meta["collector_cpu_ns"]) / 1e9
    steady = watch.steady_share()
    if steady is None:
        raise Failed("the runs are too short: more --steps")
    return {"step_ms": steps_of(text), "wall_s": wall_s, "steady_share": steady / args.cpus,
            "bytes": os.path.getsize(out),
            "own_cpu_s": own_s, "bpf_s": bpf_s, "peak_mb": watch.peak_kb / 1024,
            "machine_share": (own_s + bpf_s) / (wall_s * args.cpus)}


def ways(args):
    found = [("untraced", run_plain),
             ("eacgm cpu", lambda a, f: run_eacgm(a, f, "cpu")),
             ("eacgm cpu,offcpu", lambda a, f: run_eacgm(a, f, "cpu,offcpu")),
             ("cProfile", run_profile)]
    if shutil.which("perf"):
        found.insert(3, ("perf dwarf", run_perf))
    return found


def cost(args, folder):
    all_ways, rounds = ways(args), []
    before = set_bpf_stats("1")
    try:
        for i in range(args.pairs):
            turn, row = i % len(all_ways), {}
            for name, fn in all_ways[turn:] + all_ways[:turn]:
                common.say("cost: %d of %d: %s" % (i + 1, args.pairs, name))
                row[name] = fn(args, folder)
            rounds.append(row)
    finally:
        set_bpf_stats(before)
    common.said()
    rows = []
    for name, _fn in all_ways:
        runs = [r[name] for r in rounds]
        row = {"way": name, "step_ms": statistics.median(r["step_ms"] for r in runs)}
        if name != "untraced":
            row["slowdown"] = common.interval(r[name]["step_ms"] / r["untraced"]["step_ms"]
                                              for r in rounds)
        for key in ("machine_share", "steady_share", "own_cpu_s", "bpf_s", "wall_s"):
            if key in runs[0]:
                row[key] = statistics.median(r[key] for r in runs)
        if "cpu_s" in runs[0] and name != "untraced":
            # what the machine does more than for the job alone, the job's own part included
            row["more_cpu"] = statistics.median(r[name]["cpu_s"] / r["untraced"]["cpu_s"] - 1
                                                for r in rounds)
        if "peak_mb" in runs[0]:
            row["peak_mb"] = max(r["peak_mb"] for r in runs)
        if "bytes" in runs[0]:
            row["bytes_per_s"] = statistics.median(r["bytes"] / r["wall_s"] for r in runs)
        rows.append(row)
    return rows


def show_cost(rows, args):
    def text(row, key, form, scale=1):
        return form % (row[key] * scale) if key in row else "-"
    table = []
    for r in rows:
        s = r.get("slowdown")
        table.append([r["way"], "%.2f" % r["step_ms"],
                      "%.3f (%.3f .. %.3f)" % (s["median"], s["low"], s["high"]) if s else "-",
                      text(r, "machine_share", "%.2f %%", 100),
                      text(r, "steady_share", "%.2f %%", 100), text(r, "own_cpu_s", "%.2f"),
                      text(r, "bpf_s", "%.2f"), text(r, "peak_mb", "%.0f"),
                      text(r, "bytes_per_s", "%.1f", 1e-3)])
    common.print_table("Profiles at 99 Hz, %d cores busy with PyTorch" % args.cpus, [
        "", "step ms", "slowdown (95 %)", "of the machine", "2nd half", "own CPU s", "BPF s", "peak MB", "kB/s"],
        table)


# ---- (2) cold start ----

def first_whole_s(args, path):
    """Seconds from the recording's start to its first whole stack."""
    def has_whole(until_s):
        r = subprocess.run([args.eacgm, "flame", path, "-k", "cpu", "-f", "folded", "-o", "-",
                            "--to", "%.3f" % until_s], stdout=subprocess.PIPE, text=True,
                           stderr=subprocess.DEVNULL, check=False)
        return any("Training.step" in line and not line.startswith("[cut")
                   for line in r.stdout.splitlines())
    low, high = 0.0, 30.0
    if not has_whole(high):
        raise Failed("no whole stack of the training in %s" % path)
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if has_whole(middle) else (middle, high)
    return high


def one_start(args, folder, pid, cache):
    out = os.path.join(folder, "start.eacgm")
    began_ns = time.monotonic_ns()
    common.run([args.eacgm, "record", "-o", out, "-p", pid, "-d", 3, "--layers", "user",
                "--profile", "cpu"], args.limit, {"EACGM_CACHE": cache})
    meta = common.metas_of(args.eacgm, out)
    before_s = (int(meta["start_monotonic_ns"]) - began_ns) / 1e9
    return {"first_whole_s": before_s + first_whole_s(args, out),
            "unwind_ms": float(meta["unwind_ms"]), "files": int(meta["unwind_files"]),
            "cached": int(meta["unwind_files_cached"]), "bytes": int(meta["unwind_bytes"])}


def cold_start(args, folder):
    p = subprocess.Popen([args.python, TRAIN, "--until-eof"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True, start_new_session=True,
                         env=dict(os.environ, **ONE_THREAD))
    rows = []
    try:
        if "warm" not in p.stdout.readline():
            raise Failed("the training did not begin")
        for i in range(args.starts):
            common.say("start %d of %d" % (i + 1, args.starts))
            cache = os.path.join(folder, "cache%d" % i)
            os.mkdir(cache)
            rows.append({"empty": one_start(args, folder, p.pid, cache),
                         "filled": one_start(args, folder, p.pid, cache)})
    finally:
        common.end_group(p)
        common.said()
    result = []
    for which in ("empty", "filled"):
        runs = [r[which] for r in rows]
        result.append({"cache": which, "n": len(runs), "files": runs[0]["files"],
                       "first_whole_s": statistics.median(r["first_whole_s"] for r in runs),
                       "longest_s": max(r["first_whole_s"] for r in runs),
                       "unwind_ms": statistics.median(r["unwind_ms"] for r in runs),
                       "rules_mb": runs[0]["bytes"] / 1e6,
                       "cached": statistics.median(r["cached"] for r in runs)})
    return result


def show_start(rows):
    common.print_table("From the start of `eacgm record -p` to the first whole stack of PyTorch", [
        "cache", "median s", "longest s", "rules read ms", "files", "from cache", "rules MB"], [[
            r["cache"], "%.2f" % r["first_whole_s"], "%.2f" % r["longest_s"],
            "%.0f" % r["unwind_ms"], str(r["files"]), "%.0f" % r["cached"],
            "%.1f" % r["rules_mb"]] for r in rows])


# ---- (3) shares ----

def interpreters(args):
    found = {"system": args.python}
    place = os.path.expanduser("~/.pyenv/versions")
    for version in sorted(os.listdir(place)) if os.path.isdir(place) else []:
        exe = os.path.join(place, version, "bin", "python3")
        numbers = version.split(".")
        if numbers[0] == "3" and int(numbers[1]) >= 8 and os.access(exe, os.X_OK):
            found[version] = exe
    return found


def shares_of(args, folder, python):
    out = os.path.join(folder, "shares.eacgm")
    # the script spends 1.4 times its argument
    ran = common.run([args.eacgm, "record", "-o", out, "--layers", "user", "--profile", "cpu", "--",
                      python, SHARES, args.shares_seconds / 1.4], 4 * args.shares_seconds + 60)
    took = json.loads(ran.out)
    folded = common.run([args.eacgm, "flame", out, "-k", "cpu", "-f", "folded", "-o", "-"],
                        args.limit).out
    seen = collections.Counter()
    cut = total = 0
    for line in folded.splitlines():
        stack, weight = line.rsplit(" ", 1)
        frames = stack.split(";")
        total += int(weight)
        cut += int(weight) * frames[0].startswith("[cut: ")
        inside = {f.split(" (")[0].split(".")[0] for f in frames if "(profile_shares.py)" in f}
        for name in inside & set(took):
            seen[name] += int(weight)
    known, measured = sum(took.values()), sum(seen.values())
    return {"samples": round(measured * 99 / 1e9), "whole": 1 - cut / total,
            "shares": {n: {"known": v / known, "seen": seen[n] / measured}
                       for n, v in took.items()}}


def shares(args, folder):
    rows = []
    for version, python in interpreters(args).items():
        common.say("shares: %s" % version)
        row = dict(shares_of(args, folder, python), python=version)
        row["worst_points"] = max(abs(s["seen"] - s["known"]) for s in row["shares"].values())
        rows.append(row)
    common.said()
    return rows


def show_shares(rows):
    names = list(rows[0]["shares"])
    common.print_table("Shares of CPU time, known and seen, %", ["python", "samples", *names, "worst"],
                       [[r["python"], str(r["samples"]), *[
                           "%.1f %.1f" % (100 * r["shares"][n]["known"],
                                          100 * r["shares"][n]["seen"]) for n in names],
                         "%.2f" % (100 * r["worst_points"])] for r in rows])
    wrong = [r["python"] for r in rows if r["worst_points"] > POINTS]
    if wrong:
        print("more than 2 points off: " + ", ".join(wrong))


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results = common.Results("profile_cost", args.eacgm, {
        "pairs": args.pairs, "steps": args.steps, "starts": args.starts,
        "shares_seconds": args.shares_seconds, "hz": 99})
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        if args.pairs:
            results["cost"] = cost(args, folder)
            show_cost(results.data["cost"], args)
        if args.starts:
            results["cold_start"] = cold_start(args, folder)
            show_start(results.data["cold_start"])
        if args.shares_seconds:
            results["shares"] = shares(args, folder)
            show_shares(results.data["shares"])
    results.write(args.json)
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
