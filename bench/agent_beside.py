#!/usr/bin/env python3
"""agent_beside.py - what several builds of `eacgm agent --detect --freeze` take at the same moment beside
the same jobs, without a GPU: a small training of PyTorch, and launches of 300 kernels by three threads
through the tests' libcuda.so.1 (bench/launch_load).

usage: agent_beside.py BUILD EACGM... [--rate CALLS_PER_S] [--seconds S] [--python PYTHON]

Told are memory of all of an agent's processes together, what they share counted once: the median of the
time before a file is asked for (SIGUSR1), the most then, and the most in the last 15 s, when that is put
together, and processor time from the tenth second on, in all and by thread. All are there at once, so that whatever
else the host does is felt by all of them; load is told. Needs root and PyTorch.
"""
import argparse
import glob
import os
import signal
import statistics
import subprocess
import tempfile
import time

import agent_self
import common

LOOK_S, SETTLE_S, FREEZE_S = 0.5, 10, 15


class Agent:
    def __init__(self, eacgm, jobs, folder):
        self.eacgm, self.folder, self.taken = eacgm, folder, []
        self.log = tempfile.TemporaryFile("w+")
        self.p = subprocess.Popen([eacgm, "agent", "--listen", "127.0.0.1:0", "--detect", "--freeze", folder,
                                   *jobs], stdout=self.log, stderr=self.log)
        self.began, self.before, self.frozen = None, None, None

    def look(self):
        self.taken.append(common.together_of(self.p.pid) / 1e6)

    def settle(self):
        self.began, self.before = time.monotonic(), agent_self.used_ns(self.p.pid)

    def freeze(self):
        self.frozen = len(self.taken)
        self.p.send_signal(signal.SIGUSR1)

    def say(self):
        took_s, used = time.monotonic() - self.began, agent_self.used_ns(self.p.pid) - self.before
        cores = {name: ns / 1e9 / took_s for name, ns in used.items()}
        calm, after = self.taken[:self.frozen], self.taken[self.frozen:]
        print("%s: %.1f MB, %.1f at most; %.1f after a file was asked for (%d are there); %.2f %% of a core" % (
            self.eacgm, statistics.median(calm), max(calm), max(after),
            len(glob.glob(self.folder + "/*.eacgm")), 100 * sum(cores.values())))
        print("    " + ", ".join("%s %.2f %%" % (name, 100 * part) for name, part in sorted(
            cores.items(), key=lambda t: -t[1]) if part > 5e-4))
        self.log.seek(0)
        print("".join("    " + line for line in self.log if "faster" in line or "ncident" in line), end="")

    def end(self):
        self.p.terminate()
        self.p.wait()


def measure(agents, seconds):
    began = time.monotonic()
    steps = [(SETTLE_S, Agent.settle), (seconds - FREEZE_S, Agent.freeze)]
    while time.monotonic() < began + seconds:
        time.sleep(LOOK_S)
        for agent in agents:
            agent.look()
        if steps and time.monotonic() > began + steps[0][0]:
            for agent in agents:
                steps[0][1](agent)
            steps.pop(0)
    print("load %.1f on %d CPUs" % (os.getloadavg()[0], os.cpu_count()))
    for agent in agents:
        agent.say()


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    a.add_argument("build")
    a.add_argument("eacgm", nargs="+")
    a.add_argument("--rate", type=int, default=80000)
    a.add_argument("--seconds", type=float, default=75)
    a.add_argument("--python", default="/usr/bin/python3")
    o = a.parse_args()
    jobs, agents = [], []
    with tempfile.TemporaryDirectory() as folder:
        try:
            jobs.append(subprocess.Popen([o.python, "-c", agent_self.TRAINING], stdout=subprocess.PIPE))
            jobs[0].stdout.readline()
            jobs.append(subprocess.Popen([o.build + "/bench/launch_load", str(3 * o.seconds + 60), str(o.rate),
                                          "3", "300"], stdout=subprocess.DEVNULL))
            traced = [word for job in jobs for word in ("-p", str(job.pid))]
            for i, eacgm in enumerate(o.eacgm):
                agents.append(Agent(eacgm, traced, "%s/%d" % (folder, i)))
            measure(agents, o.seconds)
        finally:
            for p in agents:
                p.end()
            for job in jobs:
                job.kill()
                job.wait()


if __name__ == "__main__":
    main()
