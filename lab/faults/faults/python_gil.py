"""python_gil.py - another thread of the job computes in Python and takes the GIL from the steps.
Shows as one thread on the CPU and the others in futex."""

import sys
import threading
import time

from .base import Hook, Inside

TURN_S = 0.02


class Thread(Hook):
    def begin(self):
        self.goes_on = True
        self.interval = sys.getswitchinterval()
        sys.setswitchinterval(0.01)
        self.thread = threading.Thread(target=self.compute, daemon=True)
        self.thread.start()

    def compute(self):
        busy = min(1.0, self.value)
        while self.goes_on:
            end = time.monotonic() + TURN_S * busy
            n = 0
            while time.monotonic() < end:
                n += sum(range(50))
            if busy < 1:
                time.sleep(TURN_S * (1 - busy))

    def remove(self):
        self.goes_on = False
        self.thread.join()
        sys.setswitchinterval(self.interval)


class PythonGil(Inside):
    name = "python_gil"
    what = "a thread of the job that holds the GIL"
    layers = ("python", "host", "torch", "cuda")
    values, unit = (0.4, 0.7, 1.0), "share of the time"
    confusable = ("python_gc", "cpu_contention")
    hooked = Thread

    def value_for(self, slowdown):
        return 1 - 1 / slowdown

    def share(self, value):
        return min(1.0, value)


FAULT = PythonGil()
