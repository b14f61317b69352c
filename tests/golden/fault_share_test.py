#!/usr/bin/env python3
"""fault_share_test.py - a fault within the job takes the share of its time that its intensity says,
by a clock of the test's own; and what the labels expect is what was asked for. Prints TAP."""

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


def code_share(value, step_ms, steps):
    """Milliseconds that slower code took in so many steps, a third of a millisecond a count."""
    clock, job = Clock(), types.SimpleNamespace(usual_ns=step_ms * MS, device="cpu", model=None)

    def count(_words):
        clock.ns += MS // 3
    with mock.patch("time.monotonic_ns", clock.read), \
            mock.patch("faults.slow_code.count_in_a_loop", count):
        hook = FAULTS["slow_code"].hook(job, value, 1)
        for _ in range(steps):
            hook.before_step()
    return clock.ns / MS


# Of these nobody knows which share of a step they take.
UNKNOWN = {"checkpoint", "clock", "disk_contention", "gpu_contention", "hang", "mem_bandwidth",
           "net_bandwidth", "net_contention", "net_loss", "numa_remote", "pcie"}


def unlike():
    """Faults whose expected share is not that of the slowdown that was asked for."""
    found = []
    for name, fault in FAULTS.items():
        for slowdown in (1.1, 1.3, 1.9, 3.0):
            share = fault.share(fault.value_of("x%.2f" % slowdown))
            if (share is None) != (name in UNKNOWN) or \
                    share is not None and abs(share - (1 - 1 / slowdown)) > 0.01:
                found.append((name, slowdown, share))
    return found


def main():
    print("1..3")
    took = [gc_share(0.2, 10, 500), gc_share(1.0, 10, 500), gc_share(1.0, 200, 50)]
    fine = took == [1000, 5000, 10000]
    print(f"{'ok' if fine else 'not ok'} 1 - collections longer than a step keep to their share")
    if not fine:
        print(f"# took {took} ms of 1000, 5000, 10000")
    code = [code_share(0.1, 10, 100), code_share(1.0, 30, 20)]
    code_fine = 100 <= code[0] < 134 and 600 <= code[1] < 607
    print(f"{'ok' if code_fine else 'not ok'} 2 - slower code keeps to its share")
    if not code_fine:
        print(f"# took {code} ms of 100, 600")
    shares = unlike()
    print(f"{'not ok' if shares else 'ok'} 3 - what is expected of a step is what was asked for")
    if shares:
        print(f"# {shares}")
    return not (fine and code_fine and not shares)


if __name__ == "__main__":
    sys.exit(main())
