"""mem_bandwidth.py - processes that write through memory far larger than the caches, on cores that
are not the job's. Shows where the job moves memory; the run queue stays normal."""

from .base import Foreign

LEFT = 2  # cores for whoever records


class MemBandwidth(Foreign):
    name = "mem_bandwidth"
    what = "streaming writers on other cores"
    layers = ("host", "torch", "cuda")
    values, unit = (0.25, 0.5, 1.0), "share of the other cores"
    beyond = True
    confusable = ("cpu_contention", "pcie")

    def host_lacks(self, host, workload):
        if len(host.other_cpus(workload)) < 2:
            return "fewer than two cores are not the job's"
        return None

    def arguments(self, run, value):
        cpus = run.other_cpus[:-LEFT] or run.other_cpus
        n = min(len(cpus), max(1, round(value * len(cpus))))
        return ["stream", "--count", str(n), "--cpus", run.cpu_words(cpus)]


FAULT = MemBandwidth()
