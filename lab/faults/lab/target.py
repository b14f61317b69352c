"""target.py - the job of a run: its ranks, the cgroup, cores and namespaces they are in, and the
page by which they are told what to do."""

import os
import socket
import subprocess
import time

from . import effect, netns
from .control import Writer
from .host import LAB, Group
from .processes import ENDS_S, Failed, descendants

READY_S = 180
PORT = 29511  # where ranks have a namespace of their own


def free_port():
    """Of the host's own network: other jobs have theirs."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def move(pids, cpus):
    """All threads of these processes onto these cores."""
    for pid in pids:
        try:
            for tid in os.listdir("/proc/%d/task" % pid):
                os.sched_setaffinity(int(tid), set(cpus))
        except OSError:
            pass  # it has ended; who waits for it says so


class Target:
    def __init__(self, host, workload, processes, folder, seed, first_gpu):
        self.host, self.workload, self.processes, self.folder = host, workload, processes, folder
        self.seed, self.first_gpu = seed, first_gpu
        self.cpus = host.job_cpus(workload)
        self.gpus = list(range(first_gpu, first_gpu + workload.gpus))
        self.ranks = []
        self.control = Writer(folder)
        self.group = None if host.no_cpu_cgroup else Group(processes.guard)
        self.control.set(helpers=host.helpers, warming=True, held=True,
                         memory_group=self.group.memory if self.group else None)
        self.link = netns.Link(workload.rate_bits) if workload.rate_bits else None
        self.master = "%s:%d" % ((self.link.addresses[0], PORT) if self.link else
                                 ("127.0.0.1", free_port()))

    def file(self, name):
        return os.path.join(self.folder, name)

    def launch(self, cpus):
        """The ranks import what they need on these cores, and wait before they touch a GPU."""
        for rank in range(self.workload.world):
            with open(self.file("job.%d.log" % rank), "w") as log:
                self.ranks.append(self.processes.start(
                    self._words(rank), space=self.link.spaces[rank] if self.link else None,
                    cpus=cpus, group=self.group, env=self._environment(rank),
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        self.wait_for(lambda: self.told("imported"), READY_S, "to import what it needs")

    def told(self, what):
        """By all ranks (stepper.Job.tell)."""
        return all(os.path.exists(self.file("%s.%d" % (what, r)))
                   for r in range(self.workload.world))

    def told_release(self, sequence):
        """All ranks have seen that state of the page, or a later one."""
        seen = effect.read_rows(self.folder, "seen", self.workload.world)
        return all(any(r["sequence"] >= sequence for r in rows) for rows in seen.values())

    def build(self):
        """All ranks have built their model then, on their own cores, and wait to be let go."""
        move(self.pids(), self.cpus)
        self.control.set(held=None)
        self.wait_for(lambda: self.told("ready"), READY_S, "to be ready")

    def _words(self, rank):
        w = self.workload
        words = [self.host.python, os.path.join(LAB, "workloads", w.script), "--dir", self.folder,
                 "--seed", self.seed, "--rank", rank, *w.arguments]
        if w.world > 1:
            words += ["--world", w.world, "--master", self.master]
        return words

    def _environment(self, rank):
        w = self.workload
        env = dict(os.environ, PYTHONUNBUFFERED="1", OMP_NUM_THREADS="1", **(w.env or {}))
        if w.world > 1:
            env.update(RANK=str(rank), WORLD_SIZE=str(w.world), LOCAL_RANK=str(rank))
        if self.link:
            env.update(NCCL_SOCKET_IFNAME=netns.Link.NAME, GLOO_SOCKET_IFNAME=netns.Link.NAME)
        if w.gpus:
            env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # as NVML counts
            env["CUDA_VISIBLE_DEVICES"] = ",".join(str(g) for g in self.gpus)
        else:  # programs of others take one where they find one
            env["CUDA_VISIBLE_DEVICES"] = ""
        return env

    def pids(self):
        return descendants([p.pid for p in self.ranks])

    def check(self):
        """Raises where a rank has ended."""
        for rank, p in enumerate(self.ranks):
            if p.poll() is not None:
                with open(self.file("job.%d.log" % rank), errors="replace") as f:
                    last = (f.read().strip().splitlines() or ["no output"])[-1]
                raise Failed("%s, rank %d, ended with %d: %s" % (
                    self.workload.name, rank, p.returncode, last[:300]))

    def wait_for(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while not condition():
            self.check()
            if time.monotonic() > end:
                raise Failed("waited for the job %s" % what)
            time.sleep(0.02)

    def stop(self):
        """Asks the ranks to end, which completes their logs; does not wait for ever."""
        self.control.set(stop=True, go=True, faults={})
        end = time.monotonic() + ENDS_S
        while any(p.poll() is None for p in self.ranks) and time.monotonic() < end:
            time.sleep(0.02)

    def close(self):
        """The ranks have ended."""
        if self.link:
            self.link.close()
        self.control.close()
        for name in os.listdir(self.folder):
            if name.endswith(".pt") or name.split(".")[0] in ("imported", "ready", "saved"):
                os.unlink(self.file(name))  # models are large, and nobody wants them
