"""straggler.py - one rank sleeps in every step. Shows as arrival skew with a constant last rank."""

import time

from .base import Hook, Inside


class Sleeps(Hook):
    def before_step(self):
        if self.job.device != "cpu":
            import torch
            torch.cuda.synchronize()  # else what the device has to do hides the sleep
        time.sleep(self.budget_ns() / 1e9)


class Straggler(Inside):
    name = "straggler"
    what = "one rank sleeps in every step"
    layers = ("nccl", "host")
    traits = ("ranks",)
    values, unit = (0.2, 0.5, 1.0), "share of the usual step"
    confusable = ("gpu_slow", "hang")
    hooked = Sleeps

    def rank(self, run, chance):
        return chance.randrange(run.world)


FAULT = Straggler()
