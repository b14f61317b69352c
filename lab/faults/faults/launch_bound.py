"""launch_bound.py - each step makes many tiny operations. Shows in launches (on the CPU: operators)
a step and in their length."""

import time

from .base import Hook, Inside


class Tiny(Hook):
    def begin(self):
        import torch
        self.x = torch.zeros(8, device=self.job.device)

    def before_step(self):
        end = time.monotonic_ns() + self.budget_ns()
        while time.monotonic_ns() < end:
            for _ in range(16):
                self.x.add_(1)


class LaunchBound(Inside):
    name = "launch_bound"
    what = "many tiny operations in each step"
    layers = ("cuda", "torch")
    traits = ("torch",)
    values, unit = (0.2, 0.5, 1.0), "share of the usual step"
    confusable = ("excess_sync",)
    hooked = Tiny


FAULT = LaunchBound()
