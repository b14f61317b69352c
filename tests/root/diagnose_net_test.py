#!/usr/bin/env python3
"""diagnose_net_test.py - `eacgm diagnose` of two ranks over gloo in network namespaces of their own, with
a link of 100 Mbit/s between them that is made slower, loses packets, or is used by others."""

import json
import os
import re
import subprocess
import sys

from gloo_ranks import PYTHON, disturbed, incident, needs
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


def others_use(t, link):
    """Others on the link, in the direction of rank 0 to rank 1."""
    sink = t.start([PYTHON, "-c", SINK], stdout=subprocess.PIPE, text=True,
                   preexec_fn=lambda: netns.enter(link.spaces[1]))
    expect(sink.stdout.readline() == "listens\n", "the sink said nothing")
    source = t.start([PYTHON, "-c", SOURCE], preexec_fn=lambda: netns.enter(link.spaces[0]))

    def undo():
        for p in (source, sink):
            p.kill()
            p.wait()
    return undo


def is_limited(_t, link):
    link.limit(RATE // 5)
    return lambda: link.limit(RATE)


def loses(_t, link):
    link.drop(0.15, both_ways=True)  # less slows this job but at times
    return lambda: link.drop(0)


def diagnosed(t, what, disturb):
    """The incident while the link is so."""
    needs()
    for why_not in netns.why_not():
        if why_not:
            skip(why_not)
    link = netns.Link(RATE)
    try:
        return incident(disturbed(t, what, lambda _folder: disturb(t, link), interface=link.NAME,
                                  spaces=tuple(link.spaces)))
    finally:
        link.close()


def is_network(i, cause):
    expect(i["cause"] == cause and i["culprit"]["kind"] == "interface" and
           i["culprit"]["device"] == netns.Link.NAME,
           "%s of %s: %s; %s" % (i["cause"], i["culprit"], i["evidence"], json.dumps(i)[:4000]))


@test("others on the link between ranks are told as such", 240)
def foreign(t):
    is_network(diagnosed(t, "foreign", others_use), "net_foreign")


def was_full(i):
    """Whether the ranks used the link up that was made a fifth, each in its direction. Segments of
    before that are in its queue may be lost; who waits for timers of retransmission, which grow,
    sends little, and has no queue."""
    sent = re.search(r"the job sent ([\d.]+) MB a second", str(i["evidence"]))
    idle = "timeouts of retransmission" in str(i["evidence"])
    return not (sent and idle and float(sent[1]) * 1e6 < 0.6 * 2 * RATE / 5 / 8)


@test("a link between ranks that is limited is told as such", 240)
def bandwidth(t):
    i = diagnosed(t, "bandwidth", is_limited)
    if i["cause"] != "net_bandwidth" and not was_full(i):
        expect(i["cause"] == "network", json.dumps(i)[:4000])
        skip("TCP waited for its timers, so that the link was not full: %s" % i["evidence"])
    is_network(i, "net_bandwidth")


@test("packets that are lost between ranks are told", 240)
def loss(t):
    i = diagnosed(t, "loss", loses)
    is_network(i, "net_loss")
    if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 7):  # which counts them
        expect("timeouts of retransmission" in str(i["evidence"]), i["evidence"])


if __name__ == "__main__":
    main()
