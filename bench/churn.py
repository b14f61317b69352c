#!/usr/bin/env python3
"""churn.py - a host on which everything comes and goes, under `eacgm watch --all`: does what eacgm
holds stay the same?

usage: churn.py [--seconds N] [--rate N] [--eacgm PATH] [--every N] [--alone]

Each of RATE processes a second is a copy of a small program with an inode of its own. In turns it
loads a copy of a library, starts threads, or is a Python that makes functions and throws them away.
Prints eacgm's anonymous memory and descriptors each EVERY seconds, and at the end a verdict: flat
when the last third has at most a tenth and 8 MB more memory, and at most a tenth and 16 descriptors
more, than the second third. Ends with status 1 when it is not. --alone watches these processes
alone, in a control group of their own, where a host has other work. As root."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = """
import ctypes, sys, threading
if sys.argv[1] == "library":
    ctypes.CDLL(sys.argv[2])
threads = [threading.Thread(target=sum, args=(range(1000),)) for _i in range(20)]
for t in threads:
    t.start()
for i in range(200):
    env = {}
    exec(compile("def made_%s_%d(): return sum(range(99))" % (sys.argv[3], i), sys.argv[3], "exec"), env)
    env["made_%s_%d" % (sys.argv[3], i)]()
"""


def options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--seconds", type=float, default=180)
    p.add_argument("--rate", type=float, default=50)
    p.add_argument("--every", type=float, default=10)
    p.add_argument("--alone", action="store_true")
    p.add_argument("--eacgm", default=os.path.join(ROOT, "build", "eacgm"))
    return p.parse_args()


class Churn:
    def __init__(self, folder):
        self.folder, self.n, self.running = folder, 0, []
        self.library = next(p for p in ("/lib/x86_64-linux-gnu/libz.so.1", "/lib64/libz.so.1",
                                        "/usr/lib/x86_64-linux-gnu/libm.so.6") if os.path.exists(p))

    def one(self):
        """Starts the next process; its files go when it has ended."""
        self.n += 1
        files = [os.path.join(self.folder, "%s%d" % (k, self.n)) for k in ("program", "lib")]
        if self.n % 5:
            shutil.copy("/bin/true", files[0])
            command = files[:1]
        else:
            shutil.copy(self.library, files[1])
            command = [sys.executable, "-S", "-c", PYTHON, "library", files[1], str(self.n)]
        self.running.append((subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                              stderr=subprocess.DEVNULL), files))

    def reap(self, wait=False):
        kept = []
        for p, files in self.running:
            if wait:
                p.wait()
            if p.poll() is None:
                kept.append((p, files))
                continue
            for path in files:
                if os.path.exists(path):
                    os.unlink(path)
        self.running = kept


def look(pid):
    with open("/proc/%d/status" % pid) as f:
        kb = [int(line.split()[1]) for line in f if line.startswith("RssAnon:")][0]
    return kb / 1024, len(os.listdir("/proc/%d/fd" % pid))


def make_group():
    with open("/proc/self/mounts") as f:
        mounted = [words[1] for words in map(str.split, f) if words[2] == "cgroup2"]
    path = os.path.join(mounted[0], "eacgm-churn-%d" % os.getpid())
    os.mkdir(path)
    return path


def enter_group(path):
    with open(os.path.join(path, "cgroup.procs"), "w") as f:
        f.write(str(os.getpid()))


def run(o, folder):
    rows = []
    group = make_group() if o.alone else None
    whom = ["--cgroup", group] if group else ["--all"]
    with open(os.path.join(folder, "watch.log"), "w") as log:
        watch = subprocess.Popen([o.eacgm, "watch", "--json"] + whom, stdout=subprocess.DEVNULL,
                                 stderr=log)
    if group:
        enter_group(group)
    churn, began = Churn(folder), time.monotonic()
    told = began
    try:
        while time.monotonic() - began < o.seconds and watch.poll() is None:
            due = (time.monotonic() - began) * o.rate
            while churn.n < due and len(churn.running) < 4 * o.rate:
                churn.one()
            churn.reap()
            if time.monotonic() - told >= o.every:
                told += o.every
                rows.append(look(watch.pid))
                print("%6.0f s  %6d processes  %7.1f MB  %5d descriptors" % (
                    told - began, churn.n, *rows[-1]), flush=True)
            time.sleep(0.005)
        alive = watch.poll() is None
    finally:
        churn.reap(wait=True)
        if watch.poll() is None:
            watch.send_signal(signal.SIGINT)
        watch.wait()
        if group:
            enter_group(os.path.dirname(group))
            os.rmdir(group)
    if not alive:
        with open(os.path.join(folder, "watch.log")) as log:
            print("watch ended with %s: %s" % (watch.returncode, log.read()[-2000:]))
        return None
    return rows


def mean(values):
    return sum(values) / max(1, len(values))


def main():
    o = options()
    with tempfile.TemporaryDirectory(prefix="eacgm-churn-") as folder:
        rows = run(o, folder)
    if not rows or len(rows) < 3:
        print("verdict: too short, or watch ended")
        return 1
    third = len(rows) // 3
    memory = [mean([r[0] for r in part]) for part in (rows[third:2 * third], rows[-third:])]
    files = [mean([r[1] for r in part]) for part in (rows[third:2 * third], rows[-third:])]
    flat = memory[1] <= 1.1 * memory[0] + 8 and files[1] <= 1.1 * files[0] + 16
    print("verdict: %s; memory %.1f to %.1f MB, descriptors %.0f to %.0f" % (
        "flat" if flat else "it grows", *memory, *files))
    return 0 if flat else 1


if __name__ == "__main__":
    raise SystemExit(main())
