"""python_gc.py - cyclic garbage, and collections of it within the steps. Shows in gc's probes."""

import gc
import time

from .base import Hook, Inside


class Garbage(Hook):
    def before_step(self):
        end = time.monotonic_ns() + self.budget_ns()
        while time.monotonic_ns() < end:
            for _ in range(2000):
                a, b = [], []
                a.append(b)
                b.append(a)
            gc.collect()


class PythonGc(Inside):
    name = "python_gc"
    what = "cyclic garbage and its collection"
    layers = ("python",)
    values, unit = (0.2, 0.5, 1.0), "share of the usual step"
    confusable = ("python_gil",)
    hooked = Garbage


FAULT = PythonGc()
