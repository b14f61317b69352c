"""A soak of `eacgm agent`: jobs that live, processes that are born and die every second, a scrape each
second, for as long as is asked; memory, descriptors and threads of the agent over time.

usage: soak.py EACGM [--minutes M] [--jobs N] [--births PER_S] [--out FILE.json] [-- AGENT OPTION...]

Ends with one line: the agent's memory in the last third of the time beside the middle third (the
first is its start), its descriptors and threads at both, the slowest scrape, and what was lost. A
process that is born is a Python that imports PyTorch every tenth time, else one that ends at once.
"""
import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

JOB = """
import sys, time, torch
torch.set_num_threads(1)
m = torch.nn.Linear(64, 64)
while True:
    m(torch.randn(8, 64)).sum().backward()
    time.sleep(0.01)
"""
SHORT = "import sys"
TORCH = "import torch; torch.randn(8, 8) @ torch.randn(8, 8)"


def state_of(pid):
    with open("/proc/%d/status" % pid) as f:
        text = f.read()
    return {"rss": int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) * 1024,
            "threads": int(re.search(r"Threads:\s+(\d+)", text).group(1)),
            "fds": len(os.listdir("/proc/%d/fd" % pid))}


def scrape(port):
    began = time.monotonic()
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=20) as r:
        text = r.read().decode()
    return time.monotonic() - began, text


def start(eacgm, options, log):
    p = subprocess.Popen([eacgm, "agent", "--listen", "127.0.0.1:0", *options], stderr=log,
                         stdout=log)
    while True:
        log.seek(0)
        said = log.read()
        if "attached to" in said:
            return p, int(re.search(r"127\.0\.0\.1:(\d+)", said).group(1))
        if p.poll() is not None:
            sys.exit(said)
        time.sleep(0.05)


def mean(rows, key):
    return statistics.mean(row[key] for row in rows)


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("eacgm")
    a.add_argument("--minutes", type=float, default=60)
    a.add_argument("--jobs", type=int, default=5)
    a.add_argument("--births", type=float, default=5)
    a.add_argument("--python", default="/usr/bin/python3")
    a.add_argument("--out")
    a.add_argument("options", nargs="*")
    o = a.parse_args()
    jobs, rows, young, slowest, births, text = [], [], [], 0, 0, ""
    with tempfile.TemporaryFile("w+") as log:
        p, port = start(o.eacgm, o.options, log)
        try:
            jobs = [subprocess.Popen([o.python, "-c", JOB]) for _ in range(o.jobs)]
            began = told = time.monotonic()
            while time.monotonic() - began < 60 * o.minutes:
                for _ in range(max(1, round(o.births))):
                    births += 1
                    young.append(subprocess.Popen([o.python, "-c",
                                                   SHORT if births % 10 else TORCH]))
                young = [child for child in young if child.poll() is None]
                took, text = scrape(port)
                slowest = max(slowest, took)
                rows.append(dict(state_of(p.pid), at_s=time.monotonic() - began,
                                 samples=text.count("\n")))
                if time.monotonic() - told > 60:
                    told = time.monotonic()
                    print("%.0f min: %r" % ((told - began) / 60, rows[-1]), flush=True)
                time.sleep(1)
        finally:
            for child in jobs + young:
                child.kill()
                child.wait()
            p.send_signal(signal.SIGTERM)
            status = p.wait(60)
    third = len(rows) // 3
    middle, last = rows[third:2 * third], rows[2 * third:]
    lost = re.search(r"^eacgm_lost_events_total (\S+)", text, re.M).group(1)
    print("%.0f minutes, %d processes born: memory %+.1f %% (%.1f to %.1f MB, %.1f at most), "
          "descriptors %.1f to %.1f, threads %.1f to %.1f, slowest scrape %.0f ms, lost %s, exit %d"
          % (o.minutes, births, 100 * (mean(last, "rss") / mean(middle, "rss") - 1),
             mean(middle, "rss") / 1e6, mean(last, "rss") / 1e6,
             max(row["rss"] for row in rows) / 1e6, mean(middle, "fds"), mean(last, "fds"),
             mean(middle, "threads"), mean(last, "threads"), 1e3 * slowest, lost, status))
    if o.out:
        with open(o.out, "w") as f:
            json.dump(rows, f)


if __name__ == "__main__":
    main()
