#!/usr/bin/env python3
"""diagnose_net_test.py - `eacgm diagnose` of two ranks over gloo in network namespaces of their own, with
a link of 100 Mbit/s between them that is made slower, loses packets, or is used by others."""

import json
import os
import re
import subprocess
import sys

from gloo_ranks import PYTHON, incident, learned, needs, recorded
from harness import ROOT, expect, main, skip, test

sys.path.insert(0, os.path.join(ROOT, "lab", "faults", "lab"))
import netns  # noqa: E402

RATE = 100 * 10**6
SINK = """
import socket, threading
def read(c):
    while c.recv(1 << 20): pass
listens = socket.create_server(("10.77.0.2", 5999))
print("listens", flush=True)
while True: threading.Thread(target=read, args=listens.accept()[:1], daemon=True).start()
"""
SOURCE = """
import socket, threading, time
def send():
    c = socket.create_connection(("10.77.0.2", 5999))
    while True: c.sendall(bytes(65536))
for _ in range(8): threading.Thread(target=send, daemon=True).start()
time.sleep(1000)
"""


def link():
    needs()
    why_no_link, why_no_drop = netns.why_not()
    if why_no_link or why_no_drop:
        skip(why_no_link or why_no_drop)
    return netns.Link(RATE)


def diagnosed(t, name, disturb):
    """What is said while disturb(link) is on, which returns what ends it."""
    made = link()
    try:
        how = {"interface": made.NAME, "spaces": tuple(made.spaces)}
        model = learned(t, **how)
        path, was = recorded(t, name, lambda _folder: disturb(made), **how)
        return incident(t, path, model, was)
    finally:
        made.close()


def is_network(i, cause):
    expect(i["cause"] == cause and i["culprit"]["kind"] == "interface" and
           i["culprit"]["device"] == netns.Link.NAME,
           "%s of %s: %s; %s" % (i["cause"], i["culprit"], i["evidence"], json.dumps(i)[:4000]))


@test("others on the link between ranks are told as such", 240)
def foreign(t):
    def disturb(made):
        sink = t.start([PYTHON, "-c", SINK], stdout=subprocess.PIPE, text=True,
                       preexec_fn=lambda: netns.enter(made.spaces[1]))
        expect(sink.stdout.readline() == "listens\n", "the sink said nothing")
        source = t.start([PYTHON, "-c", SOURCE],
                         preexec_fn=lambda: netns.enter(made.spaces[0]))

        def undo():
            for p in (source, sink):
                p.kill()
                p.wait()
        return undo
    is_network(diagnosed(t, "foreign", disturb), "net_foreign")


def was_full(i):
    """Whether the ranks used the link up that was made a fifth, each in its direction. Segments of
    before that are in its queue may be lost; who waits for timers of retransmission, which grow,
    sends little, and has no queue."""
    sent = re.search(r"the job sent ([\d.]+) MB a second", str(i["evidence"]))
    idle = "timeouts of retransmission" in str(i["evidence"])
    return not (sent and idle and float(sent[1]) * 1e6 < 0.6 * 2 * RATE / 5 / 8)


@test("a link between ranks that is limited is told as such", 240)
def bandwidth(t):
    def disturb(made):
        made.limit(RATE // 5)
        return lambda: made.limit(RATE)
    i = diagnosed(t, "bandwidth", disturb)
    if i["cause"] != "net_bandwidth" and not was_full(i):
        expect(i["cause"] == "network", json.dumps(i)[:4000])
        skip("TCP waited for its timers, so that the link was not full: %s" % i["evidence"])
    is_network(i, "net_bandwidth")


@test("packets that are lost between ranks are told", 240)
def loss(t):
    def disturb(made):
        made.drop(0.15, both_ways=True)  # less slows this job but at times
        return lambda: made.drop(0)
    i = diagnosed(t, "loss", disturb)
    is_network(i, "net_loss")
    if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 7):  # which counts them
        expect("timeouts of retransmission" in str(i["evidence"]), i["evidence"])


if __name__ == "__main__":
    main()
