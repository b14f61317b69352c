#!/usr/bin/env python3
"""agent_collectives_test.py - what `eacgm agent` tells of collectives and keeps of them, over a
fake libnccl (targets/gpu): calls, bytes and bus bytes of every rank, communicator and operation; how
long before the other rank each one entered."""

import collections
import json

from agents import Agent
from gpu import expect_same, lines, program, unique_id_hash
from harness import EACGM, expect, main, test

OPERATIONS = {"AllReduce": "all_reduce", "Broadcast": "broadcast", "Reduce": "reduce",
              "AllGather": "all_gather", "ReduceScatter": "reduce_scatter",
              "AlltoAll": "all_to_all", "Gather": "gather", "Scatter": "scatter", "Send": "send",
              "Recv": "recv"}
# of these, calls give one rank's share
OF_ONE = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
KEEP_MS = 600000  # ranks live until the test ends


def bus_factor(operation, ranks):
    """doc/PERFORMANCE.md of nccl-tests."""
    part = (ranks - 1) / ranks
    return 2 * part if operation == "all_reduce" else part if operation in OF_ONE else 1


class Ranks:
    """Processes of the program `collectives`, which keep their communicators until the end."""

    def __init__(self, t, a, ranks, n):
        self.out = t.path("ranks.out")
        with open(self.out, "w") as out:
            self.job = t.start(["sh", "-c", "echo $$ > %s/cgroup.procs; exec \"$@\"" % a.group,
                                "sh", program("collectives"), ranks, n, KEEP_MS], stdout=out)
        t.wait_for(lambda: len([row for row in lines(self.said(), "call")
                                if row[1] == "scalable"]) == ranks, self.said, 60)
        ids = {what: "0x%x" % unique_id_hash(h) for what, h in lines(self.said(), "id")}
        self.comms = {(int(pid), what): (ids.get(what), int(rank), int(size)) for
                      _handle, rank, size, what, _device, pid in lines(self.said(), "comm")}

    def said(self):
        with open(self.out) as f:
            return f.read()

    def made(self):
        """{(pid, communicator, rank, ranks, operation, what): how much}. What name one has that
        came of a split, is not known here."""
        ret = collections.Counter()
        for function, what, calls, size, pid in lines(self.said(), "call"):
            operation = OPERATIONS[function[len("nccl"):]]
            name, rank, ranks = self.comms[(int(pid), what)]
            key = (int(pid), name or "split", rank, ranks, operation)
            size = int(size) * (ranks if operation in OF_ONE else 1)
            ret[(*key, "calls")] += int(calls)
            ret[(*key, "bytes")] += size
            ret[(*key, "bus_bytes")] += round(size * bus_factor(operation, ranks))
        return ret


def key_of(names, pid, communicator, rank, ranks, operation, what):
    name = communicator if communicator in names else "split"
    return int(pid), name, int(rank), int(ranks), operation, what


def served(a, ranks, *families):
    names = {name for name, _rank, _ranks in ranks.comms.values()}
    ret = collections.Counter()
    for what in families:
        for labels, v in a.samples().get("eacgm_collective_%s_total" % what, []):
            expect(labels["communicator"].startswith("0x"), labels)
            ret[key_of(names, labels["pid"], labels["communicator"],
                       labels.get("communicator_rank", -1), labels.get("communicator_ranks", 0),
                       labels["operation"], what)] += round(v)
    return ret


@test("calls, bytes, bus bytes of every rank, communicator and operation; and in the store", 180)
def _(t):
    path = t.path("agent.db")
    a = Agent(t, "--budget", "100%", "--layers", "nccl,gpu", "--store", path)
    ranks = Ranks(t, a, 3, 2)
    made = ranks.made()
    of_calls = {k: v for k, v in made.items() if k[-1] == "calls"}
    t.wait_for(lambda: sum(served(a, ranks, "calls").values()) >= sum(of_calls.values()),
               "all calls", 60)
    expect_same(+served(a, ranks, "calls", "bytes", "bus_bytes"), +made, "collectives")
    seconds = a.samples()["eacgm_collective_call_seconds_total"]
    expect(len(seconds) == len(of_calls) and all(v > 0 for _labels, v in seconds), seconds)
    names = {name for name, _rank, _ranks in ranks.comms.values()}

    def kept():
        r = t.run([EACGM, "query", path, "--json", "SELECT pid, communicator, rank, ranks,"
                   " operation, sum(calls) AS calls, sum(bytes) AS bytes, sum(bus_bytes) AS"
                   " bus_bytes FROM v_collectives GROUP BY 1, 2, 3, 4, 5"])
        expect(r.status == 0, r)
        ret = collections.Counter()
        for row in json.loads(r.out):
            for what in ("calls", "bytes", "bus_bytes"):
                ret[key_of(names, row["pid"], row["communicator"], row["rank"], row["ranks"],
                           row["operation"], what)] += round(row[what])
        return +ret

    t.wait_for(lambda: kept() == +made, lambda: "what is kept: %r, made: %r" % (kept(), made), 60)
    t.kill(ranks.job)
    a.end()


@test("two ranks: each collective of both is compared, and who came before the other is told", 180)
def _(t):
    a = Agent(t, "--budget", "100%", "--layers", "nccl,gpu")
    ranks = Ranks(t, a, 2, 3)
    compared = collections.Counter({(*k[:-1], "compared"): v for k, v in ranks.made().items()
                                    if k[-1] == "calls" and k[3] > 1 and
                                    k[4] not in ("send", "recv")})
    t.wait_for(lambda: sum(served(a, ranks, "compared").values()) >= sum(compared.values()),
               "all to be compared", 60)
    expect_same(served(a, ranks, "compared"), compared, "what was compared")
    ahead = a.samples()["eacgm_collective_ahead_seconds_total"]
    expect(len(ahead) == len(compared) and all(v >= 0 for _labels, v in ahead) and
           sum(v for _labels, v in ahead) > 0, ahead)
    t.kill(ranks.job)
    a.end()


if __name__ == "__main__":
    raise SystemExit(main())
