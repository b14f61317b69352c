#!/usr/bin/env python3
"""quiet.py - how steadily the cores of this host work: one of them counts, alone and with all
others busy. usage: quiet.py [--seconds S]

Where a virtual machine's cores are threads that its host moves between hyperthreads, a core that is
alone here is slow as long as someone else's thread is beside it, and no list of siblings says so.
Prints two lines; looks at nothing else and changes nothing."""

import argparse
import multiprocessing
import os
import statistics
import time

PIECE_S = 0.1
SLOW = 0.8  # of the median


def count(core, seconds, out=None):
    """Puts how much was done a second, piece by piece."""
    os.sched_setaffinity(0, {core})
    speeds, done, x = [], 0, 0
    begin = now = time.monotonic()
    end = begin + seconds
    while now < end:
        for i in range(20000):
            x += i * i
        done += 1
        now = time.monotonic()
        if now - begin >= PIECE_S:
            speeds.append(done / (now - begin))
            begin, done = now, 0
    if out:
        out.put(speeds)


def measure(core, others, seconds):
    """The speeds of the core while the others are busy."""
    beside = [multiprocessing.Process(target=count, args=(c, 2 * seconds + 5), daemon=True)
              for c in others]
    out = multiprocessing.Queue()
    mine = multiprocessing.Process(target=count, args=(core, seconds, out), daemon=True)
    for p in [*beside, mine]:
        p.start()
    speeds = out.get()
    for p in beside:
        p.terminate()
    for p in [*beside, mine]:
        p.join()
    return speeds


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--seconds", type=float, default=4, help="of each (default: %(default)s)")
    args = p.parse_args()
    if args.seconds < 10 * PIECE_S:
        p.error("--seconds: at least %g" % (10 * PIECE_S))
    cores = sorted(os.sched_getaffinity(0))
    core = cores[len(cores) // 3]
    alone = measure(core, [], args.seconds)
    busy = measure(core, [c for c in cores if c != core], args.seconds)
    usual = statistics.median(alone)
    for name, speeds in (("alone", alone), ("with %d others busy" % (len(cores) - 1), busy)):
        slow = sum(v < SLOW * usual for v in speeds) / len(speeds)
        print("core %d %s: %.2f of its usual speed, at worst %.2f; below %.1f for %.0f %% of the "
              "time" % (core, name, statistics.median(speeds) / usual, min(speeds) / usual, SLOW,
                        100 * slow))


if __name__ == "__main__":
    main()
