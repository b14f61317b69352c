"""slow_code.py - a function of the job takes a slower path: what was counted by the interpreter's own
code is counted in a loop of Python. Shows as that function's lines on the CPU."""

import time

from .base import Hook, Inside

WORDS = tuple(i % 7 for i in range(500))


def count_in_a_loop(words):
    """What words.count() says of each of them."""
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return counts


class Slower(Hook):
    def before_step(self):
        if self.job.device != "cpu" and self.job.model is not None:
            self.wait_for_device()
        end = time.monotonic_ns() + self.budget_ns()
        while time.monotonic_ns() < end:
            count_in_a_loop(WORDS)

    @staticmethod
    def wait_for_device():
        """Else what it has to do hides the slower code."""
        try:
            import torch
        except ImportError:
            return
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()


class SlowCode(Inside):
    name = "slow_code"
    what = "a function of the job that does its work in Python"
    layers = ("python", "host")
    values, unit = (0.2, 0.5, 1.0), "share of the usual step"
    confusable = ("python_gil", "python_gc")
    hooked = Slower

    def code(self):
        made = count_in_a_loop.__code__
        return {"file": made.co_filename, "function": made.co_name, "line": made.co_firstlineno}


FAULT = SlowCode()
