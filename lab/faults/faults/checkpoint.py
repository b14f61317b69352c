"""checkpoint.py - the model is saved, and the step waits for the disk, every few steps. Shows as a
burst of copies from the device and of written blocks. A scheduled checkpoint now and then is
benign, and the runner makes those too."""

from .base import Hook, Inside


class Saves(Hook):
    def begin(self):
        self.steps = 0

    def after_step(self):
        self.steps += 1
        if self.steps % max(1, round(self.value)) == 0:
            self.job.save("fault")


class Checkpoint(Inside):
    name = "checkpoint"
    what = "the model is saved and synced every N steps"
    layers = ("host", "python", "torch", "cuda")
    traits = ("model",)
    values, unit = (16, 8, 3), "steps between two"
    confusable = ("data_loader",)
    hooked = Saves


FAULT = Checkpoint()
