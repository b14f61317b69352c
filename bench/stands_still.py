#!/usr/bin/env python3
"""stands_still.py - how soon `eacgm agent --detect --freeze` tells that ranks stand still, and how far
the frozen file reaches back: two ranks of DistributedDataParallel over gloo, of which one sleeps for a
while within its loop, once the agent knows what is usual.

usage: stands_still.py EACGM [--device cpu|cuda] [--sleep S] [--python PYTHON]

Told is when each line of the agent came, in seconds since the rank went to sleep, and the time that
the file's calls are of. Needs root and PyTorch; both ranks share the GPU, where there is one."""
import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

STARTS_S, LEARNS_S, ENDS_S = 60, 240, 15
RANK = """
import os, sys, time, torch, torch.distributed as dist
device, sleep_s, go = sys.argv[1], float(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
dist.init_process_group("gloo")
layers = [torch.nn.Linear(512, 512) for _ in range(4)]
m = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).to(device))
o = torch.optim.SGD(m.parameters(), lr=1e-3)
x, slept, end = torch.randn(64, 512, device=device), False, None
while True:
    if dist.get_rank() == 1 and not slept and os.path.exists(go):
        slept = True
        print("sleeps", time.monotonic(), flush=True)
        time.sleep(sleep_s)
        print("goes on", time.monotonic(), flush=True)
        end = time.monotonic() + 8
    o.zero_grad()
    m(x).square().mean().backward()
    o.step()
    over = torch.tensor([float(end is not None and time.monotonic() > end)])
    dist.all_reduce(over)
    if over.item() > 0:
        break
"""


def start_ranks(o, go):
    port = str(20000 + os.getpid() % 10000)
    return [subprocess.Popen([o.python, "-c", RANK, o.device, str(o.sleep), go], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             env=dict(os.environ, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank),
                                      MASTER_ADDR="127.0.0.1", MASTER_PORT=port))
            for rank in range(2)]


def wait_for(what, condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit("waited %.0f s for %s" % (seconds, what))
        time.sleep(0.2)


def span_of(eacgm, path, zero_s):
    text = subprocess.run([eacgm, "query", path, "SELECT min(start_ns), max(start_ns), count(*) FROM calls"],
                          check=True, capture_output=True, text=True).stdout.splitlines()[1]
    first, last, calls = map(int, text.split())
    return "%s: %d calls, from %.2f to %.2f s" % (os.path.basename(path), calls, first / 1e9 - zero_s,
                                                  last / 1e9 - zero_s)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("eacgm")
    p.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    p.add_argument("--sleep", type=float, default=14)
    p.add_argument("--python", default="/usr/bin/python3")
    o = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="eacgm-still-") as folder:
        go, lines = os.path.join(folder, "go"), []
        ranks = start_ranks(o, go)
        agent = subprocess.Popen([o.eacgm, "agent", "--listen", "127.0.0.1:0", "--detect", "--freeze",
                                  folder, *[w for r in ranks for w in ("-p", str(r.pid))]],
                                 stderr=subprocess.PIPE, text=True)
        said = threading.Thread(target=lambda: lines.extend((time.monotonic(), line.rstrip())
                                                            for line in agent.stderr))
        said.start()
        try:
            wait_for("the agent to know what is usual",
                     lambda: any("judges from now on" in text for _, text in lines), LEARNS_S)
            time.sleep(ENDS_S)  # so that a file can have the ten seconds before
            open(go, "w").close()
            zero_s = float(re.search(r"sleeps (\S+)", ranks[1].stdout.readline()).group(1))
            for r in ranks:
                r.wait(timeout=o.sleep + STARTS_S)
            wait_for("a file", lambda: glob.glob(folder + "/*.eacgm"), ENDS_S)
        finally:
            agent.terminate()
            agent.wait()
            said.join()
            for r in ranks:
                r.kill()
                r.wait()
        for at, text in lines:
            if at > zero_s:
                print("%6.1f s  %s" % (at - zero_s, text))
        for path in sorted(glob.glob(folder + "/*.eacgm")):
            print(span_of(o.eacgm, path, zero_s))


main()
