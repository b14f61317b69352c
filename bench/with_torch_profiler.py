"""with_torch_profiler.py - runs a script under torch.profiler, for comparison.

usage: with_torch_profiler.py SCRIPT [ARG...]. CPU operators only, no stacks, no shapes: the
cheapest that it has. The trace is kept in memory and not written."""

import runpy
import sys

import torch.profiler


def main():
    sys.argv = sys.argv[1:]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        runpy.run_path(sys.argv[0], run_name="__main__")


main()
