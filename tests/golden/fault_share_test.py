#!/usr/bin/env python3
"""fault_share_test.py - a fault within the job takes the share of its time that its intensity says,
by a clock of the test's own. Prints TAP."""

import pathlib
import sys
import types
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lab/faults")]
from faults import FAULTS

MS = 1_000_000


class Clock:
    def __init__(self):
        self.ns = 0

    def read(self):
        return self.ns

    def collect(self):
        self.ns += 50 * MS


def gc_share(value, step_ms, steps):
    """Milliseconds that collections took in so many steps, each 50 ms long."""
    clock, job = Clock(), types.SimpleNamespace(usual_ns=step_ms * MS)
    with mock.patch("time.monotonic_ns", clock.read), mock.patch("gc.collect", clock.collect):
        hook = FAULTS["python_gc"].hook(job, value, 1)
        for _ in range(steps):
            hook.before_step()
    return clock.ns // MS


def main():
    print("1..1")
    took = [gc_share(0.2, 10, 500), gc_share(1.0, 10, 500), gc_share(1.0, 200, 50)]
    fine = took == [1000, 5000, 10000]
    print(f"{'ok' if fine else 'not ok'} 1 - collections longer than a step keep to their share")
    if not fine:
        print(f"# took {took} ms of 1000, 5000, 10000")
    return not fine


if __name__ == "__main__":
    sys.exit(main())
