#!/usr/bin/env python3
"""attackers.py - how much later programs start beside a hostile job that is traced with them.

tests/root/jobs/attackers.py runs one kind of attacker and, beside it, a short program again and
again; it is run untraced and under `eacgm record` in turn. The figures are of the starts of the short
program: the median, the 99th percentile and the latest, untraced and recorded, and by how much the
latter are later. Beside them stand eacgm's largest memory and number of descriptors. --stop stops
eacgm (SIGSTOP) for some seconds in the middle, again and again. Needs root."""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import common
from common import Failed

JOB = os.path.join(common.ROOT, "tests", "root", "jobs", "attackers.py")
PYTHON = "/usr/bin/python3"
KINDS = ["nothing", "sparse", "debug_state", "new_files", "mappings", "cut_short", "executables"]


class Watch(threading.Thread):
    """Looks at eacgm while it runs; stops and continues it where that is asked for."""

    def __init__(self, pid, stop_s):
        super().__init__(daemon=True)
        self.pid, self.stop_s = pid, stop_s
        self.memory_kb = self.descriptors = 0
        self.stopped = []  # [begin, end)

    def look(self):
        with open("/proc/%d/status" % self.pid, encoding="utf-8") as f:
            for line in f:
                if line.startswith("VmRSS:"):
                    self.memory_kb = max(self.memory_kb, int(line.split()[1]))
        self.descriptors = max(self.descriptors, len(os.listdir("/proc/%d/fd" % self.pid)))

    def run(self):
        try:
            time.sleep(3)
            while True:
                self.look()
                if self.stop_s:
                    os.kill(self.pid, signal.SIGSTOP)
                    time.sleep(self.stop_s)
                    os.kill(self.pid, signal.SIGCONT)
                    time.sleep(2)
                time.sleep(0.1)
        except (OSError, ProcessLookupError):
            pass  # it has ended


def once(args, kind, traced, folder):
    job = [PYTHON, JOB, kind, str(args.seconds)] + args.command
    path = os.path.join(folder, "attack.eacgm")
    if traced:
        job = [args.eacgm, "record", "-o", path] + args.option + ["--"] + job
    p = subprocess.Popen(job, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, start_new_session=True)
    watch = Watch(p.pid, args.stop if traced else 0)
    if traced:
        watch.start()
    try:
        out, err = p.communicate(timeout=args.seconds * 4 + 60)
    except subprocess.TimeoutExpired:
        common.end_group(p)
        raise Failed("%s did not end: %s" % (kind, "deaf, or held for good")) from None
    if p.returncode:
        raise Failed("%s: status %s: %s" % (kind, p.returncode, err[-300:]))
    told = json.loads(out.splitlines()[-1])
    if told["attacker_ended"]:
        raise Failed("the attacker %s ended: %s" % (kind, err[-300:]))
    return told["starts_s"], watch


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def measure(args, kind, folder):
    plain, traced, memory_kb, descriptors = [], [], 0, 0
    for pair in range(args.pairs):
        for is_traced in ([False, True] if pair % 2 == 0 else [True, False]):
            took, watch = once(args, kind, is_traced, folder)
            (traced if is_traced else plain).extend(took)
            memory_kb = max(memory_kb, watch.memory_kb)
            descriptors = max(descriptors, watch.descriptors)
    row = {"kind": kind, "starts": len(traced), "memory_mb": memory_kb / 1024,
           "descriptors": descriptors}
    for name, values in (("plain", plain), ("traced", traced)):
        row[name + "_p50_ms"] = statistics.median(values) * 1e3
        row[name + "_p99_ms"] = quantile(values, 0.99) * 1e3
        row[name + "_max_ms"] = max(values) * 1e3
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build", nargs="?", default="build")
    p.add_argument("--only", default=",".join(KINDS))
    p.add_argument("--pairs", type=int, default=2)
    p.add_argument("--seconds", type=float, default=8)
    p.add_argument("--stop", type=float, default=0, help="stop eacgm for so many seconds at a time")
    p.add_argument("--eacgm", help="another binary")
    p.add_argument("--option", action="append", default=[], help="of record; may be repeated")
    p.add_argument("--command", nargs="+", default=[], help="what starts beside the attacker")
    p.add_argument("--json")
    args = p.parse_args()
    args.eacgm = args.eacgm or os.path.join(os.path.abspath(args.build), "eacgm")
    rows = []
    print("%-12s %6s   %-22s   %-22s  %s" % ("attacker", "starts", "untraced p50, p99, max",
                                             "recorded p50, p99, max", "eacgm"))
    with tempfile.TemporaryDirectory() as folder:
        for kind in args.only.split(","):
            try:
                r = measure(args, kind, folder)
            except Failed as e:
                print("%-12s %s" % (kind, e), flush=True)
                continue
            rows.append(r)
            print("%-12s %6d   %6.1f %6.1f %6.1f ms   %6.1f %6.1f %6.1f ms  %.0f MB, %d descriptors"
                  % (r["kind"], r["starts"], r["plain_p50_ms"], r["plain_p99_ms"],
                     r["plain_max_ms"], r["traced_p50_ms"], r["traced_p99_ms"], r["traced_max_ms"],
                     r["memory_mb"], r["descriptors"]), flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
