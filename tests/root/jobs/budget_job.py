"""budget_job.py LIBRARY - calls target_push as fast as it can, or a hundredth as often and spends
the rest of its time by itself, and target_endbr now and then; does what the last line of the
standard input says: `fast`, `slow`, `end`. Prints how often it called what."""

import collections
import ctypes
import os
import select
import sys
import time

library = ctypes.CDLL(sys.argv[1])
push, rare = library.target_push, library.target_endbr
made, doing = collections.Counter(), "fast"
while doing != "end":
    until = time.monotonic() + 0.05
    while time.monotonic() < until:
        if doing == "fast":
            for i in range(200):
                push(i)
            made["target_push"] += 200
        elif made["slow"] % 2000 == 0:
            push(1)
            made["target_push"] += 1
        made["slow"] += doing == "slow"
    rare(1)
    made["target_endbr"] += 1
    if select.select([0], [], [], 0)[0]:
        doing = (os.read(0, 100).decode().split() or ["end"])[-1]
del made["slow"]
for name, n in made.items():
    print(name, n)
