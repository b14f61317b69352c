"""data_loader.py - the loader's workers wait in read(2) for every picture. Shows as workers blocked
in read and a gap before the batch is copied."""

from .base import Hook, Inside


class SlowReads(Hook):
    def begin(self):
        source = self.job.source
        per_batch = (1 + self.value) * self.job.usual_ns * source.workers
        source.read_ns.value = int(per_batch / source.batch)

    def remove(self):
        self.job.source.read_ns.value = 0


class DataLoader(Inside):
    name = "data_loader"
    what = "slow reads in the loader's workers"
    layers = ("host", "python", "torch")
    traits = ("loader",)
    values, unit = (0.3, 0.8, 2.0), "share of the usual step that batches come later"
    confusable = ("checkpoint",)
    hooked = SlowReads


FAULT = DataLoader()
