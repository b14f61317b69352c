"""slow_reads.py - the loader's workers read their files from the disk itself, not from the page
cache: each is dropped from the cache and read, again and again until its share of the time is over.
Shows as workers that wait for the disk, a gap before the batch, and bytes that the job itself
reads. Nothing sleeps and no timer is waited for, unlike in `data_loader`."""

from lab import disks

from .base import Hook, Inside


class Uncached(Hook):
    def begin(self):
        if disks.is_in_memory(self.job.dir):
            raise RuntimeError("the job's files lie in memory")
        source = self.job.source
        per_batch = (1 + self.value) * self.job.usual_ns * source.workers
        source.uncached_ns.value = int(per_batch / source.batch)

    def remove(self):
        self.job.source.uncached_ns.value = 0


class SlowReads(Inside):
    name = "slow_reads"
    what = "the loader's workers read past the page cache"
    layers = ("host", "python", "torch")
    traits = ("loader", "files")
    values, unit = (0.3, 0.8, 2.0), "share of the usual step that batches come later"
    confusable = ("data_loader", "disk_contention", "checkpoint")
    hooked = Uncached

    def culprit(self, run):
        return dict(super().culprit(run), device=disks.device_of(run.s.out))


FAULT = SlowReads()
