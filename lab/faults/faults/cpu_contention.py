"""cpu_contention.py - spinners pinned on the job's cores. Shows in run-queue delay and involuntary
switches of the job's threads."""

from .base import Foreign


class CpuContention(Foreign):
    name = "cpu_contention"
    what = "spinners on the job's cores"
    layers = ("host", "python", "torch", "cuda")
    values, unit = (1, 2, 4), "spinners a core"
    confusable = ("cpu_throttle",)

    def arguments(self, run, value):
        n = max(1, round(value * len(run.cpus)))
        return ["spin", "--count", str(n), "--cpus", run.cpu_words(run.cpus)]

    def target(self, run):
        return {"cpus": sorted(run.cpus)}


FAULT = CpuContention()
