"""python_gc.py - cyclic garbage, and collections of it within the steps. Shows in gc's probes."""

import gc
import time

from .base import Hook, Inside


class Garbage(Hook):
    """One collection may take longer than a step: steps without make up for it."""

    def begin(self):
        self.owed_ns = 0

    def before_step(self):
        self.owed_ns += self.budget_ns()
        while self.owed_ns > 0:
            start = time.monotonic_ns()
            for _ in range(2000):
                a, b = [], []
                a.append(b)
                b.append(a)
            gc.collect()
            self.owed_ns -= time.monotonic_ns() - start


class PythonGc(Inside):
    name = "python_gc"
    what = "cyclic garbage and its collection"
    layers = ("python",)
    values, unit = (0.2, 0.5, 1.0), "share of the usual step"
    confusable = ("python_gil",)
    hooked = Garbage


FAULT = PythonGc()
