#!/usr/bin/env python3
"""live_detect.py - live detection at a rate: what it costs, how soon it tells, whether it keeps up
and whether its memory stays flat.

A job calls sixteen functions at a steady rate (live_job), and three times slower for some seconds
now and then; a catalog of its own puts them into PyTorch's layer, since detection judges no other
functions. `eacgm watch --json` follows it. Measured: events seen, lost, and not looked at; the CPU
time of eacgm's threads, among them the one that detects; the time from the end of the window that
showed an anomaly to the line that tells it; the process's anonymous memory over time, with the
slope of the last two thirds (least squares).

  --hours H     for that long, with --churn threads and processes a second beginning and ending
Needs root. One core must be free for the job, one for eacgm."""

import argparse
import json
import os
import select
import signal
import statistics
import subprocess
import tempfile
import time

import common
from common import Failed

CATALOG = """catalog: 1
layer: torch
libraries: ["live_job"]
probes:
  - id: bench.live_job
    about: the functions of bench/live_job.c
    symbols: ["work_*"]
"""
LEARN_S = 60  # warm-up, what is usual, and the first mixture: src/detect/learn_live.c


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("--rate", type=float, default=200e3, help="calls a second (%(default)g)")
    p.add_argument("--seconds", type=float, default=180, help="default: %(default)g")
    p.add_argument("--hours", type=float, help="in place of --seconds")
    p.add_argument("--churn", type=float, default=0,
                   help="threads and processes a second that begin and end (default: 0)")
    p.add_argument("--most-slope", type=float, metavar="MB", help="fail where memory grows by more "
                   "megabytes an hour in the last two thirds (2 with --hours, else not judged)")
    p.add_argument("--slow-every", type=float, default=30, help="seconds (default: %(default)g)")
    p.add_argument("--slow-for", type=float, default=4, help="seconds (default: %(default)g)")
    args = p.parse_args()
    args.eacgm = os.path.join(args.build, "eacgm")
    args.job = os.path.join(args.build, "bench", "live_job")
    if args.hours:
        args.seconds = args.hours * 3600
        args.most_slope = 2.0 if args.most_slope is None else args.most_slope
    return args


def thread_times(pid):
    """CPU seconds by name of thread."""
    times = {}
    for tid in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/stat" % (pid, tid)) as f:
                text = f.read()
        except OSError:
            continue
        name = text[text.index("(") + 1:text.rindex(")")]
        fields = text[text.rindex(")") + 2:].split()
        ticks = int(fields[11]) + int(fields[12])
        times[name] = times.get(name, 0) + ticks / os.sysconf("SC_CLK_TCK")
    return times


def rss_mb(pid):
    """Anonymous memory: the kernel's rings, of a fixed size, become resident as they are used."""
    with open("/proc/%d/status" % pid) as f:
        rows = dict(line.split(":", 1) for line in f)
    return int(rows.get("RssAnon", "0 kB").split()[0]) * 1024 / 1e6


class Watch:
    """eacgm watch --json, read as it comes."""

    def __init__(self, args, pid, folder):
        catalog = os.path.join(folder, "live.yaml")
        with open(catalog, "w") as f:
            f.write(CATALOG)
        self.err = open(os.path.join(folder, "watch.err"), "w+")
        self.p = subprocess.Popen(
            [args.eacgm, "watch", "-p", str(pid), "--json", "--layers", "torch", "--catalog",
             catalog], stdout=subprocess.PIPE, stderr=self.err, start_new_session=True)
        self.rest = b""
        self.anomalies = []  # (seconds after the window's end, anomaly) of those newly found

    def read(self, seconds):
        """Takes what comes within that time."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            ready, _, _ = select.select([self.p.stdout], [], [], max(left, 0))
            if not ready:
                return
            data = os.read(self.p.stdout.fileno(), 1 << 16)
            now_ns = time.monotonic_ns()
            if not data:
                time.sleep(max(left, 0))
                return
            *lines, self.rest = (self.rest + data).split(b"\n")
            for line in lines:
                a = json.loads(line)
                if not a["ended"]:
                    self.anomalies.append(((now_ns - a["end_ns"]) / 1e9, a))

    def said(self):
        self.err.flush()
        with open(self.err.name) as f:
            return f.read()


def slope_per_hour(samples):
    """MB an hour, least squares over (seconds, MB)."""
    if len(samples) < 3:
        return None
    xs, ys = [s for s, _ in samples], [m for _, m in samples]
    mx, my = statistics.mean(xs), statistics.mean(ys)
    sxx = sum((x - mx) ** 2 for x in xs)
    return sum((x - mx) * (y - my) for x, y in samples) / sxx * 3600 if sxx else None


def follow(args, watch, job):
    """Samples until the job ends."""
    samples, times, begin = [], {}, time.monotonic()
    every = min(10.0, max(1.0, args.seconds / 400))
    while job.poll() is None and watch.p.poll() is None:
        watch.read(every)
        try:
            rss, now = rss_mb(watch.p.pid), thread_times(watch.p.pid)
            if rss:  # it is a zombie otherwise
                samples.append((time.monotonic() - begin, rss))
                times = now
        except (OSError, IndexError):
            break
    return samples, times, time.monotonic() - begin


def measure(args, folder):
    job = subprocess.Popen(
        [args.job, str(args.seconds), str(args.rate), str(LEARN_S + 15), str(args.slow_every),
         str(args.slow_for), str(args.churn)], stdout=subprocess.PIPE, text=True,
        start_new_session=True)
    watch = Watch(args, job.pid, folder)
    try:
        samples, times, wall = follow(args, watch, job)
        out, _ = job.communicate(timeout=60)
        if watch.p.poll() is None:
            watch.p.send_signal(signal.SIGINT)
        watch.p.wait(timeout=60)
    finally:
        for p in (job, watch.p):
            if p.poll() is None:
                common.end_group(p)
    said = watch.said()
    if "watched" not in said:
        raise Failed("eacgm watch failed: %s" % said[-400:])
    return rows_of(args, out, said, watch, samples, times, wall)


def number_before(text, word):
    """'12,345 calls' -> 12345"""
    words = text.replace(",", "").split()
    return next((int(a) for a, b in zip(words, words[1:]) if b.startswith(word) and a.isdigit()),
                0)


def rows_of(args, out, said, watch, samples, times, wall):
    slow = [tuple(int(n) for n in line.split()[1:]) for line in out.splitlines()
            if line.startswith("slow")]
    made = int(out.rsplit("calls ", 1)[1])
    result = next(line for line in said.splitlines() if "watched" in line)
    # of operators and steps: counters of the host show what else runs on it
    work = [(late, a) for late, a in watch.anomalies if a["layer"] in ("torch", "step")]
    hits = [s for s in slow if any(a["start_ns"] < s[1] + 2e9 and a["end_ns"] > s[0] - 2e9
                                   for _, a in work)]
    late = [s for s, _ in watch.anomalies]
    kept = samples[len(samples) // 3:]
    return {
        "rate_per_s": args.rate, "churn_per_s": args.churn, "seconds": wall, "calls_made": made,
        "calls_seen": number_before(result, "calls"),
        "lost": int(result.split("lost ")[1].split()[0].rstrip(",").replace(",", "")),
        "not_looked_at": number_before(said, "events came faster"),
        "cpu_ratio": {name: t / wall for name, t in sorted(times.items())},
        "episodes": len(slow), "episodes_told": len(hits),
        "anomalies": len(watch.anomalies), "latency_s": sorted(late),
        "told": [[a["layer"], a["name"], a["start_ns"] / 1e9, a["why"]] for _, a in
                 watch.anomalies],
        "slow": [[s / 1e9 for s in row] for row in slow],
        "rss_mb": [round(m, 2) for _, m in samples], "rss_slope_mb_per_h": slope_per_hour(kept),
    }


def show(row):
    late = row["latency_s"]
    cpu = row["cpu_ratio"]
    rss = row["rss_mb"]
    common.print_table("live detection, %.0f s at %.0f calls a second" % (
        row["seconds"], row["rate_per_s"]), ["what", "value"], [
            ["calls made, seen", "%d, %d" % (row["calls_made"], row["calls_seen"])],
            ["lost", row["lost"]],
            ["not looked at", row["not_looked_at"]],
            ["CPU of the thread that detects", "%.1f %% of a core" % (
                100 * cpu.get("eacgm-live", 0))],
            ["CPU of all of eacgm", "%.1f %% of a core" % (100 * sum(cpu.values()))],
            ["slow times, told", "%d, %d" % (row["episodes"], row["episodes_told"])],
            ["window's end to told, median, longest", "%s" % (
                "%.2f s, %.2f s (n %d)" % (statistics.median(late), late[-1], len(late))
                if late else "-")],
            ["memory, first, last, most", "%.1f, %.1f, %.1f MB" % (rss[0], rss[-1], max(rss))],
            ["memory, slope of the last two thirds", "%s MB/h" % (
                "%.2f" % row["rss_slope_mb_per_h"]
                if row["rss_slope_mb_per_h"] is not None else "-")],
        ])


def main():
    args = arguments()
    results = common.Results("live_detect", args.eacgm, {
        "rate": args.rate, "seconds": args.seconds, "churn": args.churn,
        "slow_every_s": args.slow_every, "slow_for_s": args.slow_for})
    with tempfile.TemporaryDirectory(prefix="eacgm-live-") as folder:
        row = measure(args, folder)
    show(row)
    results["live"] = row
    results.write(args.json)
    slope = row["rss_slope_mb_per_h"]
    if args.most_slope is not None and (slope is None or slope > args.most_slope):
        raise Failed("memory is not flat: %s MB/h, %g are allowed" % (slope, args.most_slope))
    return 0


if __name__ == "__main__":
    raise SystemExit(common.main_of(main))
