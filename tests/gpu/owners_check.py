#!/usr/bin/env python3
"""owners_check.py - compares whose a process's GPU memory is, by `eacgm agent`, with what the owners
say of themselves: PyTorch's caching allocator, a script that calls cudaMalloc by ctypes, and JAX.

usage: owners_check.py EACGM_BINARY

The agent runs first, each program after it; programs hold what they have until they are told to go
on, so that bytes are equal or not. Prints TAP. Needs root and CUDA; without PyTorch or JAX its part
is skipped. Ends only what it started, also when it is told to end."""
import json
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

METRIC = "eacgm_gpu_process_memory_owned_bytes"
USED = "eacgm_gpu_process_memory_used_bytes"
STARTS_S, COMES_S, ENDS_S = 60, 20, 20
DEADLINE = time.monotonic() + 180  # of what programs print: run.py ends this one after 240 s
BY_CTYPES = 700 << 20

# Each prints what its owners have, and goes on when a line comes.
TORCH = """
import ctypes, json, sys, torch
def says(**more):
    torch.cuda.synchronize()
    print(json.dumps(dict({"libc10_cuda": torch.cuda.memory_reserved()}, **more)), flush=True)
    sys.stdin.readline()
x = torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
says()
y = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
path = [line.split()[-1] for line in open("/proc/self/maps") if "libcudart" in line][0]
p = ctypes.c_void_p()
if ctypes.CDLL(path).cudaMalloc(ctypes.byref(p), ctypes.c_size_t(%d)):
    sys.exit("cudaMalloc failed")
says(libffi=%d)
del x
torch.cuda.empty_cache()
(torch.randn(4096, 4096, device="cuda") @ torch.randn(4096, 4096, device="cuda")).sum().item()
says(libffi=%d)
""" % (BY_CTYPES, BY_CTYPES, BY_CTYPES)
JAX = """
import json, sys
import jax, jax.numpy as jnp
x = jnp.ones((16384, 16384))
(x @ x).block_until_ready()
print(json.dumps({"xla_cuda_plugin": jax.local_devices()[0].memory_stats()["pool_bytes"]}), flush=True)
sys.stdin.readline()
"""
said = 0


def tap(ok, name, detail):
    global said
    said += 1
    print("%s %d - %s: %s" % ("ok" if ok else "not ok", said, name, detail), flush=True)


def skip(name, reason):
    global said
    said += 1
    print("ok %d - %s # SKIP %s" % (said, name, reason), flush=True)


class Agent:
    def __init__(self, eacgm):
        self.log = tempfile.TemporaryFile("w+")
        self.p = subprocess.Popen([eacgm, "agent", "--listen", "127.0.0.1:0"], stdout=self.log,
                                  stderr=self.log)
        self.url = None

    def serve(self):
        end = time.monotonic() + STARTS_S
        while not (at := re.search(r"serves (http://\S+)", self.text())):
            if time.monotonic() > end or self.p.poll() is not None:
                sys.exit("the agent does not serve: " + self.text()[-500:])
            time.sleep(0.1)
        self.url = at.group(1)

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def memory(self, pid):
        """Bytes by owner, and what NVML says."""
        text = urllib.request.urlopen(self.url, timeout=10).read().decode()
        owned, used = {}, None
        for line in text.splitlines():
            if not re.search('[{,]pid="%d"' % pid, line):
                continue
            value = int(float(line.rsplit(" ", 1)[1]))
            if line.startswith(METRIC):
                owned[re.search('owner="([^"]*)"', line).group(1)] = value
            elif line.startswith(USED):
                used = value
        return owned, used

    def end(self):
        self.p.terminate()
        try:
            self.p.wait(timeout=ENDS_S)
        finally:
            self.p.kill()
            self.p.wait()


def compare(agent, p, name, want):
    """All that the program says comes, and the rows sum up to what NVML says."""
    end = time.monotonic() + COMES_S
    while True:
        owned, used = agent.memory(p.pid)
        good = all(owned.get(k) == v for k, v in want.items()) and sum(owned.values()) == used
        if good or time.monotonic() > end:
            return tap(good, name, "the program says %r, the agent %r, NVML %r" % (want, owned, used))
        time.sleep(0.5)


def lines_of(p):
    """What it prints until DEADLINE, by which it has to end."""
    lines = queue.Queue()

    def read():
        for line in p.stdout:
            lines.put(line)
        lines.put(None)
    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=max(DEADLINE - time.monotonic(), 0))
        except queue.Empty:
            sys.exit("a program does not come to its end")
        if line is None:
            return
        yield line


def run(agent, name, program, comparisons):
    p = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    times = 0
    try:
        for line in lines_of(p):
            times += 1
            compare(agent, p, "%s, %d" % (name, times), json.loads(line))
            p.stdin.write("\n")
            p.stdin.flush()
        p.wait(timeout=ENDS_S)
        tap(p.returncode == 0 and times == comparisons, "%s ends well" % name,
            "with %d after %d of %d comparisons" % (p.returncode, times, comparisons))
    finally:
        p.kill()
        p.wait()


def has(module):
    return subprocess.run([sys.executable, "-c", "import " + module], capture_output=True,
                          check=False, timeout=STARTS_S).returncode == 0


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    agent = Agent(sys.argv[1])
    try:
        agent.serve()
        for name, module, program, comparisons in (("PyTorch", "torch", TORCH, 3),
                                                   ("JAX", "jax", JAX, 1)):
            if has(module):
                run(agent, name, program, comparisons)
            else:
                skip(name, "it is not installed")
    finally:
        agent.end()
    print("1..%d" % said)


main()
