"""cpu_throttle.py - the job's cgroup gets a CPU quota, below what the job was using. Shows in
throttled time and stalls every 100 ms, the quota's period."""

from .base import Fault


class CpuThrottle(Fault):
    name = "cpu_throttle"
    what = "a CPU quota of the job's cgroup"
    layers = ("host", "python", "torch", "cuda")
    # of the CPU time that the job took before
    values, unit = (0.7, 0.45, 0.25), "share of the CPU time used before"
    confusable = ("cpu_contention",)

    def value_for(self, slowdown):
        return 1 / slowdown

    def share(self, value):
        return 1 - value

    def host_lacks(self, host, workload):
        return host.no_cpu_cgroup

    def begin(self, run, value):
        run.group.limit(max(0.01, value * run.cpu_used))

    def end(self, run):
        run.group.limit(None)

    def target(self, run):
        return {"cgroup": run.group.path}

    def culprit(self, run):
        return {"kind": "cgroup", "cgroup": run.group.path}


FAULT = CpuThrottle()
