"""numa_remote.py - the job's memory moves to another NUMA node than its cores are on
(migrate_pages(2)). Shows where the job moves memory; nobody waits for anything. Only on hosts with
more than one node."""

import ctypes
import os

from .base import Fault

SYS_MIGRATE_PAGES = 256  # x86-64
MOST_NODES = 64
LIBC = ctypes.CDLL(None, use_errno=True)


def migrate(pids, here, there):
    """Pages that are on node `here` go to `there`; what cannot move stays."""
    masks = [(ctypes.c_ulong * 1)(1 << node) for node in (here, there)]
    for pid in pids:
        left = LIBC.syscall(SYS_MIGRATE_PAGES, pid, MOST_NODES + 1, *masks)
        if left < 0 and ctypes.get_errno() != 3:  # ESRCH: it has ended
            raise OSError(ctypes.get_errno(), "migrate_pages: " + os.strerror(ctypes.get_errno()))


def node_of(cpu):
    for name in os.listdir("/sys/devices/system/cpu/cpu%d" % cpu):
        if name.startswith("node"):
            return int(name[4:])
    return 0


class NumaRemote(Fault):
    name = "numa_remote"
    what = "the job's memory lies on another NUMA node than its cores"
    layers = ("host", "torch", "cuda")
    values, unit = (1, 1, 1), "node"
    confusable = ("mem_bandwidth",)

    def __init__(self):
        self.nodes = None

    def host_lacks(self, host, workload):
        return None if len(host.nodes) > 1 else "there is only one NUMA node"

    def begin(self, run, value):
        here = node_of(run.cpus[0])
        self.nodes = here, next(n for n in run.host.nodes if n != here)
        migrate(run.target.pids(), *self.nodes)

    def end(self, run):
        if self.nodes:
            migrate(run.target.pids(), *reversed(self.nodes))

    def culprit(self, run):
        return {"kind": "device", "device": "node%d" % self.nodes[1]}


FAULT = NumaRemote()
