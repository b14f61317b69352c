#!/usr/bin/env python3
"""agent_peers_test.py - agents of several hosts, all of them here: what one freezes the other does
too, where it has a rank of the same communicator; others do not, and one that is dead or slow
delays nobody."""

import concurrent.futures
import functools
import json
import os
import re
import socket
import time
import urllib.request

from agents import Agent, certificate, rows_of, start_in
from cgroups import make_cgroup
from gpu import program
from harness import EACGM, expect, main, test

NAME = re.compile(r"freeze-\d{8}T\d{6}Z-\d+(?:-([0-9a-f]{16}))?\.eacgm$")
TOKEN = "0123456789abcdef-peers"
numbers = iter(range(1, 100))


class Node:
    """An agent with a folder, and a rank of a job that it alone looks at."""

    def __init__(self, t, *options, port=0, listen=(), **how):
        self.t, self.folder = t, t.path("freezes-%d" % next(numbers))
        self.never = t.path("never")
        self.group = make_cgroup(t, "peers-%d" % next(numbers))
        self.a = Agent(t, "--budget", "100%", "--layers", "nccl,gpu", "--freeze", self.folder, "--freeze-before",
                       "2s", "--freeze-after", "200ms", "--listen", "127.0.0.1:%d" % port, *listen,
                       *options, group=self.group, **how)

    def rank(self, number, rank, size=2):
        job = start_in(self.t, self.group, program("rank"), str(number), str(rank), str(size), self.never)
        self.t.wait_for(lambda: any(labels["function"] == "ncclAllReduce" for labels, _v in
                                    self.a.samples().get("eacgm_calls_total", [])), "calls of NCCL")
        return job

    def files(self):
        """(name, id) of those that are whole."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        return sorted((name, NAME.match(name).group(1)) for name in names if NAME.match(name))

    def one_file(self):
        self.t.wait_for(self.files, "a file: " + self.a.said())
        expect(len(self.files()) == 1, self.files())
        name, number = self.files()[0]
        return os.path.join(self.folder, name), number

    def freeze(self, body=b""):
        q = urllib.request.Request(self.a.url("/freeze"), method="POST", data=body)
        with self.a.open(q) as r:
            return r.status, r.read().decode()

    def notes(self):
        return {labels["result"]: int(v) for labels, v in self.a.samples()["eacgm_peer_notes_total"] if v}

    def told(self, what):
        """By the peer's address."""
        return {labels["peer"]: v for labels, v in self.a.samples().get("eacgm_peer_" + what, [])}

    def peers(self):
        return json.loads(self.a.get("/api/v1/self")[0])["peers"]


def at_once(*nodes):
    """Of functions that start one each."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return list(pool.map(lambda start: start(), nodes))


def free_ports(n):
    """At each of which nobody listens, and which nobody is given who asks for any."""
    found, port = [], 10000 + os.getpid() * 64 % 20000
    while len(found) < n:
        port += 1
        try:
            socket.create_server(("127.0.0.1", port)).close()
            found.append(port)
        except OSError:
            pass
    return found


def url(port):
    return "http://127.0.0.1:%d" % port


@test("a freeze of one is one of the other, with the same id; who has no such communicator stays out", 120)
def _(t):
    ports = free_ports(3)
    everybody = [o for port in ports for o in ("--peer", url(port))]  # itself as well
    one, two, other = at_once(*(functools.partial(Node, t, *everybody, port=port) for port in ports))
    one.rank(7, 0)
    two.rank(7, 1)
    other.rank(8, 0)
    expect(one.freeze() == (202, "will be written\n"), "by hand")
    t.wait_for(lambda: len(one.told("last_told_seconds")) == 3, "answers")
    (here, number), (there, same) = one.one_file(), two.one_file()
    expect(number and number == same, (here, there))
    expect(one.notes() == {"known": 1} and two.notes() == {"frozen": 1} and
           other.notes() == {"stranger": 1} and not other.files(), (one.notes(), two.notes(), other.notes()))
    expect(one.told("froze_total") == {url(p): float(p == ports[1]) for p in ports}, one.told("froze_total"))
    expect(set(two.told("told_total").values()) == {0}, "it is not told on")
    expect("froze %s: %s froze: asked by HTTP" % (there, socket.gethostname()) in two.a.said(), two.a.said())
    expect(not one.a.said().count("cannot"), one.a.said())
    row = one.peers()["told"][1]
    expect(row["url"] == url(ports[1]) and row["told"] == row["froze"] == 1 and
           row["failures"] == row["dropped"] == row["waiting"] == 0 and
           abs(row["last_told_realtime_ns"] - time.time_ns()) < 100e9 and 0 < row["answer_s"] < 2, row)
    print("# the peer's answer came after %.1f ms" % (row["answer_s"] * 1e3))
    rows = rows_of(t, there)
    mine, theirs = rows_of(t, here)[0], rows[0]
    expect(mine["frozen_id"] == theirs["frozen_id"] == number, (mine, theirs))
    apart = int(mine["frozen_at_ns"]) - int(theirs["frozen_at_ns"])  # of one clock here
    expect(abs(apart) < 500e6, "the moments are %.1f ms apart" % (apart / 1e6))
    expect([r for r in rows if r["type"] == "call" and r["name"] == "ncclAllReduce"], "its calls")
    merged = t.path("both.eacgm")
    r = t.run([EACGM, "merge", "-o", merged, here, there])
    expect(r.status == 0 and os.path.exists(merged), r)
    # what is told again, and what is no note, makes nothing
    expect(told_by_hand(two, int(number, 16), "%016x" % 1) == (200, "this freeze is known"), two.notes())
    expect(two.notes() == {"frozen": 1, "known": 1} and len(two.files()) == 1, two.notes())
    for bad in (b"{", b"[]", b"{}", b"x" * 60000):
        expect(two.a.status("/freeze", method="POST", data=bad) == 400, bad[:40])
    expect(two.notes()["bad"] == 4 and len(two.files()) == 1, two.notes())
    open(one.never, "w").close()
    for node in (one, two, other):
        node.a.end()


def told_by_hand(node, number, communicator):
    note = {"id": "%016x" % number, "host": "x", "why": "y", "time_realtime_ns": time.time_ns(),
            "age_ns": 0, "communicators": [communicator]}
    status, answer = node.freeze(json.dumps(note).encode())
    return status, json.loads(answer)["why"]


@test("collectives that do not fit are told; what no peer can have is not; a communicator ends with its process",
      120)
def _(t):
    ports = free_ports(2)
    one, two = at_once(lambda: Node(t, "--peer", url(ports[1]), port=ports[0]),
                       lambda: Node(t, port=ports[1]))
    job = two.rank(7, 2, 3)
    one.rank(7, 0, 3)
    start_in(t, one.group, program("rank"), "7", "1", "3", one.never, "1001")
    (here, number), (there, same) = one.one_file(), two.one_file()
    expect(number and number == same, (here, there))
    expect("%s froze: collective_mismatch of rank" % socket.gethostname() in two.a.said(), two.a.said())
    one.a.end()
    r = t.run([EACGM, "report", there, "--json"])
    communicator = "%016x" % int(json.loads(r.out)["communicators"][0]["hash"], 0)
    again = told_by_hand(two, 1, communicator)  # within half a minute, or after it
    expect(again in ((200, "a file of a moment that is near was written"), (202, "will be written")),
           again)
    expect(again[0] == 202 or (two.notes()["held_off"] == 1 and "not frozen: x froze: y: held off: " +
                               os.path.basename(there) in two.a.said()), two.a.said())
    t.kill(job)
    t.wait_for(lambda: told_by_hand(two, next(numbers), communicator) == (
        200, "no process here has one of these communicators"), "its end to be seen")
    three = Node(t, "--peer", url(ports[1]), port=ports[0])  # no job
    three.freeze()
    expect(three.one_file()[1] is None and set(three.told("told_total").values()) == {0}, three.files())
    three.a.end()
    two.a.end()


@test("a rank that skips a collective: its hang freezes what all ranks of the node did before", 120)
def _(t):
    folder, told = t.path("freezes"), t.path("told")
    a = Agent(t, "--budget", "100%", "--layers", "nccl,gpu", "--freeze", folder,
              "--freeze-before", "30s", "--freeze-after", "200ms")
    job = start_in(t, a.group, "sh", "-c", "exec \"$@\" >" + told, "sh", program("stuck"), "skips",
                   "2", "20", "90000")
    t.wait_for(lambda: "froze " in a.said(), a.said, 60)
    with open(told) as f:
        ranks = {int(rank): int(pid) for _comm, rank, pid in map(str.split, f)}
    found = re.search(r"froze (\S+): collective_hang of rank 1: .*ncclAllReduce #20 was entered by "
                      r"rank 0, not by rank 1\b", a.said())
    expect(found and len(ranks) == 2, a.said())
    rows = rows_of(t, found.group(1))
    at = int(rows[0]["frozen_at_ns"])
    calls = [r for r in rows if r["type"] == "call" and r["name"] == "ncclAllReduce"]
    made = {pid: sum(c["pid"] == pid for c in calls) for pid in ranks.values()}
    expect(made == {ranks[0]: 21, ranks[1]: 20}, "collectives of each rank: %r" % made)
    expect(all(at - 30e9 <= c["start_ns"] < at for c in calls), "they were before")
    expect([r for r in rows if r["type"] == "event" and r["name"] == "collective_hang"], "the event")
    t.kill(job)
    a.end()


@test("by TLS, with a token; a dead and a slow peer delay nothing, and are tried for ten seconds", 120, beside=True)
def _(t):
    cert, key = certificate(t, "localhost")
    token = t.path("token")
    with open(token, "w") as f:
        f.write(TOKEN + "\n")
    ports = free_ports(3)
    dead = socket.socket()
    dead.bind(("127.0.0.1", ports[0]))  # does not listen
    slow = socket.create_server(("127.0.0.1", ports[2]))  # takes connections, and says nothing
    peers = [url(ports[0]), "https://127.0.0.1:%d" % ports[1], url(ports[2])]
    one, two = at_once(
        lambda: Node(t, *(o for p in peers for o in ("--peer", p)), "--peer-ca", cert,
                     "--peer-token-file", token),
        lambda: Node(t, port=ports[1], ca=cert, token=TOKEN,
                     listen=("--tls-cert", cert, "--tls-key", key, "--token-file", token)))
    two.rank(7, 1)
    one.rank(7, 0)
    began = time.monotonic()
    expect(one.freeze()[0] == 202 and time.monotonic() - began < 1, "it waits for nobody")
    t.wait_for(lambda: one.told("told_total")[peers[1]], "the one that lives")
    began = time.monotonic()
    expect(one.a.samples() and time.monotonic() - began < 1, "nor does a scrape")
    number = one.one_file()[1]
    expect(number and number == two.one_file()[1], (one.files(), two.files()))
    t.wait_for(lambda: one.told("dropped_total")[peers[0]] == one.told("dropped_total")[peers[2]] == 1,
               "them to be given up", 40)
    expect(min(one.told("failures_total")[p] for p in (peers[0], peers[2])) >= 2 and
           one.told("failures_total")[peers[1]] == 0, one.told("failures_total"))
    expect(one.a.said().count("cannot push") == 2, one.a.said())
    slow.close()
    dead.close()
    began = time.monotonic()
    one.a.end()
    expect(time.monotonic() - began < 20, "the end waits")
    two.a.end()


@test("what is refused: one line, and nothing is started")
def _(t):
    token = t.path("token")
    with open(token, "w") as f:
        f.write(TOKEN + "\n")
    folder = ("--freeze", t.path("f"))
    for options, status, why in (
            (("--peer", url(1)), 2, "give --freeze"),
            ((*folder, "--peer", "ftp://x"), 2, "--peer: "),
            ((*folder, *("--peer", url(1)) * 65), 2, "--peer: more than 64"),
            ((*folder, "--peer", "http://10.0.0.1:9477", "--peer-token-file", token), 2, "in clear"),
            ((*folder, "--peer", url(1), "--peer-token-file", "/no"), 1, "/no: No such file"),
            ((*folder, "--peer", "https://10.0.0.1", "--peer-ca", "/no"), 1, "/no")):
        r = t.run([EACGM, "agent", "--listen", "127.0.0.1:0", *options])
        expect(r.status == status and why in r.err and r.err.splitlines()[-1].count(why), r)


if __name__ == "__main__":
    raise SystemExit(main())
