#!/usr/bin/env python3
"""diagnose_ranks_test.py - `eacgm diagnose` of two ranks over gloo of which one is slowed: by others on
its CPU, or by a line that sleeps. That rank is named, with why it was late, in one incident for
both, with parts that add up."""

import json
import os

from gloo_ranks import PYTHON, disturbed, incident, needs
from harness import expect, main, test

HOGS = 6
HOG = "import os\nos.sched_setaffinity(0, [sorted(os.sched_getaffinity(0))[1]])\nwhile True: pass"


def others(t, pids):
    """Others on the CPU of rank 1."""
    def disturb(_folder):
        started = [t.start([PYTHON, "-c", HOG]) for _ in range(HOGS)]
        pids.extend(p.pid for p in started)

        def undo():
            for p in started:
                p.kill()
                p.wait()
        return undo
    return disturb


def slow_line(folder):
    open(folder + "/slow", "w").close()
    return lambda: os.unlink(folder + "/slow")


def straggler(said):
    """The incident, of the rank that waited."""
    i, ranks = incident(said), said.ranks
    expect(i["cause"] == "straggler" and i["culprit"]["kind"] == "rank" and
           (i["culprit"]["rank"], i["culprit"]["pid"]) == (1, ranks[1]) and
           (i["victim"]["rank"], i["victim"]["pid"]) == (0, ranks[0]), json.dumps(i)[:4000])
    return i


def blamed(i, words):
    """What of the incident's time rank 1 has by parts with a word."""
    return sum(p["ns"] for p in i["blame"] if p["rank_pid"] == i["culprit"]["pid"] and
               any(w in p["owner"] for w in words))


@test("the rank whose CPU others take is the straggler, and they are why", 240)
def others_on_its_cpu(t):
    needs()
    pids = []
    said = disturbed(t, "hogs", others(t, pids))
    i = straggler(said)
    expect(i["why"]["cause"] == "cpu_contention" and i["why"]["culprit"]["kind"] == "process",
           json.dumps(i)[:4000])
    # on a busy machine others take a part of it as well
    mine = blamed(i, ["(%d) had" % pid for pid in pids])
    expect(mine > 0.4 * i["cost_ns"], "hogs %r: %s" % (pids, json.dumps(i)[:4000]))
    expect("Straggler: rank 1 (%d), CPU contention by " % i["culprit"]["pid"] in said.text,
           said.text)


@test("the rank whose line is slow is the straggler, and the line is why", 240)
def a_line_of_its_own(t):
    needs()
    i = straggler(disturbed(t, "line", slow_line))
    expect(i["why"]["cause"] == "slow_code" and
           i["why"]["culprit"]["code"]["function"] == "read_batch", json.dumps(i)[:4000])
    expect(blamed(i, ["read_batch"]) > 0.4 * i["cost_ns"], json.dumps(i)[:4000])


if __name__ == "__main__":
    main()
