#!/usr/bin/env python3
"""ring_rests_test.py - who reads an agent's rings rests until one is half full, is woken then, every
time, and by nothing before (tests/tools/ring_rests.c)."""

import json
import os
import subprocess

from harness import BUILD, LIBTARGET, expect, main, test

TOOL = os.path.abspath(os.path.join(BUILD, "tests", "ring_rests"))
CATALOG = """catalog: 1
layer: user
libraries: ["libtarget.so*"]
probes:
  - id: target.push
    symbols: ["target_push"]
"""
RING = 2 << 20
CALL = 40  # bytes in a ring
HALF = RING // 2 // CALL


def rests(t, ms, *calls):
    with open(t.path("catalog.yaml"), "w") as f:
        f.write(CATALOG)
    r = subprocess.run([TOOL, LIBTARGET, t.path("catalog.yaml"), str(RING), str(ms),
                        *map(str, calls)], capture_output=True, text=True, timeout=100)
    expect(r.returncode == 0, r.stderr)
    rows = [json.loads(line) for line in r.stdout.splitlines()]
    expect([row["calls"] for row in rows] == list(calls), rows)
    expect(all(row["bytes"] == row["calls"] * CALL and row["ring"] == RING and row["lost"] == 0
               for row in rows), rows)
    return [row["woken"] for row in rows]


@test("who rests for long is woken when a ring is half full, each time anew", 110)
def _(t):
    expect(rests(t, 30000, *[HALF + 1000] * 3) == [True] * 3, "a rest that nothing ended")


@test("less than half of a ring wakes nobody")
def _(t):
    expect(rests(t, 300, HALF - 1000, 10) == [False] * 2, "a rest that was ended for nothing")


main()
