"""disk_contention.py - another process writes and syncs on the disk that the job reads from.
Shows as the job's reads that take longer, and as bytes of others on the device."""

from lab import disks

from .base import Foreign


class DiskContention(Foreign):
    name = "disk_contention"
    what = "another process writes and syncs on the job's disk"
    layers = ("host", "python", "torch")
    traits = ("disk",)
    beyond = True
    values, unit = (1.6, 2.5, 4.5), "times as long as usual that reads take"
    confusable = ("slow_reads", "checkpoint", "data_loader")

    def value_for(self, slowdown):
        """Where steps read for half of their time."""
        return 1 + 2 * (slowdown - 1)

    def arguments(self, run, value):
        return ["disk", "--folder", run.s.out, "--times", "%.3f" % value, "--cpus",
                run.cpu_words(run.other_cpus)]

    def culprit(self, run):
        found = super().culprit(run)
        return found and dict(found, device=disks.device_of(run.s.out))


FAULT = DiskContention()
