"""memory_reclaim.py - the job's cgroup gets a memory limit just above what it cannot give back, while
its steps read on through a file larger than the room: each read takes pages, and to have them the
job's own thread reclaims others first. Shows as direct reclaim within the job, and as a cgroup at
its limit. The file is one hole: no disk is read, so reclaim is what takes the time."""

import os
import time

from lab import memory_limit

from .base import Hook, Inside

ROOM, FILE_BYTES, BLOCK = 32 << 20, 256 << 20, 1 << 20


class Reads(Hook):
    """One read may take longer than a step has for it: steps without make up for it."""

    def begin(self):
        self.group = self.job.state.get("memory_group")
        if not self.group:
            raise RuntimeError("the job has no cgroup with a memory limit")
        path = self.job.path("hole.%d" % self.job.rank)
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.unlink(path)
        os.ftruncate(self.fd, FILE_BYTES)
        self.to, self.at, self.owed_ns = bytearray(BLOCK), 0, 0
        memory_limit.limit(self.group, ROOM)

    def before_step(self):
        self.owed_ns += self.budget_ns()
        while self.owed_ns > 0:
            start = time.monotonic_ns()
            os.preadv(self.fd, [memoryview(self.to)[:BLOCK // 8]], self.at)
            self.at = (self.at + BLOCK // 8) % FILE_BYTES
            self.owed_ns -= time.monotonic_ns() - start

    def remove(self):
        memory_limit.limit(self.group, None)
        os.close(self.fd)


class MemoryReclaim(Inside):
    name = "memory_reclaim"
    what = "a memory limit of the job's cgroup while it reads files"
    layers = ("host", "python")
    values, unit = (0.2, 0.5, 1.0), "share of the usual step"
    confusable = ("cpu_throttle", "slow_reads", "disk_contention")
    hooked = Reads

    def host_lacks(self, host, workload):
        return host.no_memory_cgroup

    def target(self, run):
        return {"cgroup": run.group.memory}

    def culprit(self, run):
        return {"kind": "cgroup", "cgroup": run.group.memory}


FAULT = MemoryReclaim()
