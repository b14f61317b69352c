"""cpu_contention.py - spinners pinned on the job's cores. Shows in run-queue delay and involuntary
switches of the job's threads."""

from .base import Foreign


class CpuContention(Foreign):
    name = "cpu_contention"
    what = "spinners on the job's cores"
    layers = ("host", "python", "torch", "cuda")
    values, unit = (1, 2, 4), "spinners a core"
    confusable = ("cpu_throttle",)

    def value_for(self, slowdown):
        """One that spins for a share of the time takes as much from who else would run."""
        return 1 - 1 / slowdown if slowdown < 2 else float(round(slowdown - 1))

    def share(self, value):
        return value if value < 1 else value / (1 + value)

    def arguments(self, run, value):
        n = max(1, round(value * len(run.cpus)))
        return ["spin", "--count", str(n), "--duty", "%.3f" % min(value, 1),
                "--cpus", run.cpu_words(run.cpus)]

    def target(self, run):
        return {"cpus": sorted(run.cpus)}


FAULT = CpuContention()
