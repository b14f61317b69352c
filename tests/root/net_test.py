#!/usr/bin/env python3
"""net_test.py - TCP connections of traced processes: their bytes are those that the two ends sent and
received, their retransmits those of TCP_INFO, on loopback and between network namespaces."""

import json
import os
import subprocess
import sys
import time

from gpu import lines
from harness import EACGM, TARGETS, Recording, expect, main, skip, test
from namespaces import ip, make_namespaces

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "transfer.py")
NCCL = os.path.join(TARGETS, "libnccl.so.2")
PAUSE = "1.3"  # longer than the time between two looks at what is open

# one process listens and connects, its child accepts, and tells its pid
FORKED = """
import os, socket, time
listening = socket.create_server(("127.0.0.1", 0))
if not os.fork():
    accepted = listening.accept()[0]
    accepted.recv(5)
    time.sleep(4)  # a look a second
    print(os.getpid(), flush=True)
    os._exit(0)
c = socket.create_connection(listening.getsockname())
c.send(b"hello")
os.wait()
"""
# two processes listen at one port, each at an address of its own, and each has a child that has the
# listener too; a third process connects. Connections live shorter than the time between two looks.
LISTENERS = """
import os, socket, time
port, pids = 0, []
for address in ("127.0.0.1", "127.0.0.2"):
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        mine = socket.create_server((address, port))
        child = os.fork()
        if not child:
            time.sleep(8)
            os._exit(0)
        time.sleep(3)  # each is looked at
        os.write(w, b"%d" % mine.getsockname()[1])
        for i in range(3):
            c = mine.accept()[0]
            c.recv(5)
            c.close()
        os.waitpid(child, 0)
        os._exit(0)
    pids.append(pid)
    port = int(os.read(r, 9))
for i in range(3):
    for address in ("127.0.0.1", "127.0.0.2"):
        c = socket.create_connection((address, port))
        c.send(b"hello")
        c.close()
for pid in pids:
    os.waitpid(pid, 0)
print(*pids)
"""

# one that listens at any address and ends, and one that connects to who listens at its port later
ENDS = """
import os, socket, sys, time
if not os.fork():
    listening = socket.create_server(("", 0))
    with open(sys.argv[1] + ".new", "w") as f:
        f.write("%d" % listening.getsockname()[1])
    os._exit(0)
os.wait()
os.rename(sys.argv[1] + ".new", sys.argv[1])
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
with open(sys.argv[1]) as f:
    c = socket.create_connection(("127.0.0.1", int(f.read())))
c.send(b"hello")
c.recv(1)
"""
OTHER = """
import os, socket, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
with open(sys.argv[1]) as f:
    listening = socket.create_server(("127.0.0.1", int(f.read())))
open(sys.argv[2], "w").close()
c = listening.accept()[0]
c.recv(5)
"""
# one that listens at any address, and is connected to when another has listened at one of them and
# does no more; accepted connections live shorter than the time between two looks
ANY = """
import os, socket, sys, time
listening = socket.create_server(("", 0), reuse_port=True)
port = listening.getsockname()[1]
with open(sys.argv[1] + ".new", "w") as f:
    f.write("%d" % port)
os.rename(sys.argv[1] + ".new", sys.argv[1])
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
for i in range(5):
    c = socket.create_connection(("127.0.0.1", port))
    accepted = listening.accept()[0]
    c.send(b"hello")
    accepted.recv(5)
    accepted.close()
    c.close()
"""
ONCE = """
import os, socket, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
with open(sys.argv[1]) as f:
    listening = socket.create_server(("127.0.0.1", int(f.read())), reuse_port=True)
listening.close()
open(sys.argv[2], "w").close()
"""

# a socket that nobody accepts at, while ever more connect; and a connection of which one end writes
# and the other does not read. Says how many bytes wait at the two ends once they stay the same.
WAITS = """
import fcntl, socket, struct, sys, termios, time
SIOCOUTQ = 0x5411
def waiting(s, request):
    return struct.unpack("i", fcntl.ioctl(s, request, bytes(4)))[0]
def connect(to, made=[]):
    made.append(socket.socket())
    made[-1].setblocking(False)
    made[-1].connect_ex(to.getsockname())
full = socket.socket()
full.bind(("127.0.0.1", 0))
full.listen(2)
listening = socket.create_server(("127.0.0.1", 0), backlog=50)
writer = socket.create_connection(listening.getsockname())
reader = listening.accept()[0]
writer.setblocking(False)
sent = 0
try:
    while True:
        sent += writer.send(bytes(1 << 16))
except BlockingIOError:
    pass
seen, since = None, 0
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    connect(full)
    now = (waiting(writer, SIOCOUTQ), waiting(reader, termios.FIONREAD))
    if now != seen:
        seen, since = now, time.monotonic()
        until = max(until, since + float(sys.argv[1]))
    time.sleep(0.1)
print(sent, *seen)
"""


def ends(out):
    """(source, destination) -> (sent, received, retransmits, resent)"""
    return {(row[0], row[1]): tuple(int(n) for n in row[2:]) for row in lines(out, "socket")}


def script(t, *commands):
    """A shell script that runs commands at the same time, and waits for all."""
    path = t.path("both.sh")
    with open(path, "w") as f:
        f.write("".join(" ".join(str(w) for w in c) + " &\n" for c in commands) + "wait\n")
    return ["sh", path]


def job(*words, within=()):
    return [*within, sys.executable, JOB, *words]


def seen_of(rec):
    return {(c["source"], c["destination"]): c for c in rec.report["connections"]}


def expect_exact(rec, made, too_many=0):
    seen = seen_of(rec)
    expect(made, "nothing was sent: %s" % rec.ran)
    for key, (sent, received, retransmits, resent) in made.items():
        c = seen.get(key)
        expect(c is not None, "%s to %s is not there: %r" % (*key, list(seen)))
        got = tuple(c[k] for k in ("bytes_sent", "bytes_received", "retransmits",
                                   "bytes_retransmitted"))
        if sent < got[0] <= sent + too_many:
            got = (sent, *got[1:])
        expect(got == (sent, received, retransmits, resent), "%s to %s: %r, TCP says %r" % (
            *key, got, (sent, received, retransmits, resent)))


def record_both(t, *options, address="127.0.0.1", connect=()):
    file = t.path("address")
    return t.record(script(t, job("serve", file, "--address", address, *options),
                           job("connect", file, *connect, *options)))


def counters(t, rec, start="net_"):
    r = t.run([EACGM, "export", rec.path, "-f", "jsonl", "-o", t.path("all.jsonl")])
    expect(r.status == 0, "export: %s" % r)
    with open(t.path("all.jsonl")) as f:
        rows = [json.loads(line) for line in f]
    return [row for row in rows if row.get("type") == "counter" and row["name"].startswith(start)]


@test("bytes of a connection are exact at both of its ends")
def _(t):
    rec = record_both(t, "--pause", PAUSE, connect=("30000001", "--back", "7000003"))
    made = ends(rec.ran.out)
    expect(len(made) == 2, "ends: %s" % rec.ran)
    expect_exact(rec, made)
    for c in rec.report["connections"]:
        expect(c["closed"] and not c["bytes_sent_before"] and c["nccl"] == "no", "row: %r" % c)
    sent = {c["entity"]: 0 for c in counters(t, rec)}
    for c in counters(t, rec):
        if c["name"] == "net_sent_bytes":
            sent[c["entity"]] = max(sent[c["entity"]], c["value"])
    expect(sorted(sent.values()) == sorted(v[0] for v in made.values()), "counters: %r" % sent)


@test("of IPv6 too")
def _(t):
    try:
        with open("/proc/net/if_inet6") as f:
            expect(f.read(), "none")
    except (OSError, AssertionError):
        skip("no IPv6 here")
    rec = record_both(t, "--pause", PAUSE, address="::1", connect=("1000001",))
    made = ends(rec.ran.out)
    expect(all(key[0].startswith("[::1]:") for key in made), "addresses: %r" % made)
    expect_exact(rec, made)


@test("connections that live between two looks: both ends are there, exactly")
def _(t):
    rec = record_both(t, "--connections", "20", connect=("100003", "--back", "5"))
    made = ends(rec.ran.out)
    expect(len(made) == 40, "ends: %s" % rec.ran)
    expect_exact(rec, made)


@test("what a child accepts is the child's, though its parent listens")
def _(t):
    rec = t.record([sys.executable, "-c", FORKED])
    accepted = [c["pid"] for c in rec.report["connections"] if c["bytes_received"] == 5]
    expect(accepted == [int(rec.ran.out)], "%s: %r" % (rec.ran.out, rec.report["connections"]))


@test("of listeners at one port each has its own, also where children have them too", 60)
def _(t):
    rec = t.record([sys.executable, "-c", LISTENERS])
    first, second = (int(word) for word in rec.ran.out.split())
    accepted = sorted((c["source"].rsplit(":")[0], c["pid"]) for c in rec.report["connections"]
                      if c["bytes_received"] == 5)
    expect(accepted == [("127.0.0.1", first)] * 3 + [("127.0.0.2", second)] * 3,
           "%d, %d: %r" % (first, second, rec.report["connections"]))


@test("what is accepted by who is not traced is not of who listened at its port before")
def _(t):
    port, there = t.path("port"), t.path("there")
    other = t.start([sys.executable, "-c", OTHER, port, there])
    rec = t.record([sys.executable, "-c", ENDS, port, there])
    expect(other.wait(20) == 0, "the other ended with %d" % other.returncode)
    rows = [(c["bytes_sent"], c["bytes_received"]) for c in rec.report["connections"]]
    expect(rows == [(5, 0)], "%r" % rec.report["connections"])


@test("what waits in sockets: to be accepted, sent and read; and what finds no room is dropped", 90)
def _(t):
    rec = t.record([sys.executable, "-c", WAITS, "5"])
    sent, to_send, to_read = (int(word) for word in rec.ran.out.split())
    expect(to_send and to_read and to_send + to_read == sent, "the load: %s" % rec.ran)
    values = {}
    for c in counters(t, rec):
        values.setdefault(c["name"][len("net_"):], []).append(c["value"])
    # a queue of 2 holds 3 (sk_acceptq_is_full)
    for name, wanted in (("accept_queue", 3), ("accept_queue_limit", 2),
                         ("send_queue_bytes", to_send), ("receive_queue_bytes", to_read)):
        told = values.get(name, [])
        expect(told.count(wanted) >= 3, "%s: %r, not %d: %s" % (name, told, wanted, rec.ran))
    of_host = {c["name"]: c["value"] for c in counters(t, rec, "tcp_listen_") if c["value"] > 0}
    expect(set(of_host) == {"tcp_listen_overflows_per_s", "tcp_listen_drops_per_s"},
           "dropped: %r" % of_host)
@test("what is accepted at any address is the target's again when nobody else listens at that one")
def _(t):
    port, gone = t.path("port"), t.path("gone")
    other = t.start([sys.executable, "-c", ONCE, port, gone])
    rec = t.record([sys.executable, "-c", ANY, port, gone])
    expect(other.wait(20) == 0, "the other ended with %d" % other.returncode)
    rows = sorted((c["bytes_sent"], c["bytes_received"]) for c in rec.report["connections"])
    expect(rows == [(0, 5)] * 5 + [(5, 0)] * 5, "%r" % rec.report["connections"])


@test("what NCCL's threads connect is NCCL's, and so is the other end")
def _(t):
    file = t.path("address")
    rec = t.record(script(t, job("serve", file, "--connections", "2", "--pause", PAUSE),
                          job("connect", file, "1000", "--pause", PAUSE, "--thread",
                              "'NCCL Service 0'"),
                          job("connect", file, "2000", "--pause", PAUSE)))
    rows = rec.report["connections"]
    by_opener = {c["opener"]: c["nccl"] for c in rows if c["bytes_sent"]}
    expect(by_opener.get("NCCL Service 0") == "yes", "openers: %r" % rows)
    nccl = {(c["source"], c["destination"]) for c in rows if c["nccl"] == "yes"}
    expect(len(nccl) == 2 and all((b, a) in nccl for a, b in nccl), "NCCL's: %r" % rows)
    expect(len(rows) == 4, "all: %r" % rows)


def expect_nccl(rec, answered):
    """Those over which as many bytes were asked for are NCCL's, at both ends, and no others."""
    made, rows = ends(rec.ran.out), seen_of(rec)
    expect(len(rows) == len(made), "all: %r, ends: %r" % (rows, made))
    for key, (sent, received, retransmits, resent) in made.items():
        nccl = {sent, received} & {16 + n for n in answered}
        expect(rows[key]["nccl"] == ("yes" if nccl else "no"), "%r: %r" % (key, rows[key]))
    of_nccl = [v for key, v in made.items() if rows[key]["nccl"] == "yes"]
    expect(rec.report["nccl_connections"] == {
        "count": 2 * len(answered), "bytes_sent": sum(v[0] for v in of_nccl),
        "bytes_received": sum(v[1] for v in of_nccl), "retransmits": sum(v[2] for v in of_nccl)},
        "sum: %r" % rec.report["nccl_connections"])


@test("what NCCL's code connects is NCCL's, whatever its threads' names")
def _(t):
    file = t.path("address")
    rec = t.record(script(t, job("serve", file, "--connections", "3", "--pause", PAUSE),
                          job("connect", file, "1000", "--pause", PAUSE, "--nccl", NCCL),
                          job("connect", file, "2000", "--pause", PAUSE),
                          job("connect", file, "3000", "--nccl", NCCL)))
    expect_nccl(rec, (1000, 3000))
    connected = {c["bytes_sent"]: c for c in rec.report["connections"] if c["bytes_sent"]}
    expect(all(connected[n]["by_nccl"] for n in (1016, 3016)), "connected: %r" % connected)
    expect(not connected[2016]["by_nccl"], "the program's own: %r" % connected)
    text = t.run([EACGM, "report", rec.path]).out
    expect("NCCL's connections: 4, sent 4" in text, "report: %s" % text)


@test("what is accepted where NCCL's code listens is NCCL's")
def _(t):
    file, own = t.path("address"), t.path("own")
    rec = t.record(script(t, job("serve", file, "--pause", PAUSE, "--nccl", NCCL),
                          job("serve", own, "--pause", PAUSE),
                          job("connect", file, "1000", "--pause", PAUSE),
                          job("connect", own, "2000", "--pause", PAUSE)))
    expect_nccl(rec, (1000,))
    accepted = [c for c in rec.report["connections"] if c["bytes_received"] == 1016]
    expect([c["by_nccl"] for c in accepted] == [True], "accepted: %r" % accepted)


@test("attached to a running transfer: what went before is told apart")
def _(t):
    file, until = t.path("address"), t.path("until")
    server = t.start(job("serve", file), stdout=subprocess.PIPE, text=True)
    client = t.start(job("connect", file, "100000", "--until", until), stdout=subprocess.PIPE,
                     text=True)
    time.sleep(0.7)
    r = t.start_record("-p", "%d,%d" % (server.pid, client.pid))
    time.sleep(2.5)
    with open(until, "w"):
        pass
    made = ends(t.finish(client).out)
    made.update(ends(t.finish(server).out))
    r.wait(timeout=20)
    rec = r.recording
    expect_exact(rec, made)
    for c in rec.report["connections"]:
        before = c["bytes_sent_before"] + c["bytes_received_before"]
        all_bytes = c["bytes_sent"] + c["bytes_received"]
        expect(c["opener"] is None and 0 < before < all_bytes, "before: %r" % c)


# ---- network namespaces ----

@test("between two network namespaces: exact, and each end says where it is")
def _(t):
    a, b = make_namespaces(t)
    file = t.path("address")
    rec = t.record(script(
        t, job("serve", file, "--address", "10.231.7.1", "--pause", PAUSE,
               within=("ip", "netns", "exec", a)),
        job("connect", file, "20000001", "--back", "1000001", "--pause", PAUSE,
            within=("ip", "netns", "exec", b))))
    expect_exact(rec, ends(rec.ran.out))
    rows = rec.report["connections"]
    inodes = {name: os.stat("/run/netns/" + name).st_ino for name in (a, b)}
    where = {c["source"].split(":")[0]: c["netns"] for c in rows}
    expect(where == {"10.231.7.1": inodes[a], "10.231.7.2": inodes[b]}, "where: %r" % rows)


@test("segments that are lost are sent again, and counted as TCP counts them")
def _(t):
    a, b = make_namespaces(t)
    file, until = t.path("address"), t.path("until")
    both = script(t, job("serve", file, "--address", "10.231.7.1",
                         within=("ip", "netns", "exec", a)),
                  job("connect", file, "200000", "--until", until, "--pause", PAUSE,
                      within=("ip", "netns", "exec", b)))
    path = t.path("lost.eacgm")
    p = t.start([EACGM, "record", "-o", path, "--", *both], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True)
    t.wait_for(lambda: os.path.exists(file), "the server")
    time.sleep(1)
    # Without an address the host drops what comes. Of an interface that is down the other end would
    # soon know, and send nothing that could be lost.
    for _i in range(3):
        ip("-n", a, "addr", "del", "10.231.7.1/24", "dev", "eth0")
        time.sleep(0.4)
        ip("-n", a, "addr", "add", "10.231.7.1/24", "dev", "eth0")
        time.sleep(0.6)
    with open(until, "w"):
        pass
    ran = t.finish(p)
    rec = Recording(t, path, ran)
    made = ends(ran.out)
    lost = [v[2] for v in made.values() if v[2]]
    expect(lost, "nothing was lost: %s" % ran)
    expect_exact(rec, made, too_many=2)  # SYN and FIN, where the host itself dropped segments


if __name__ == "__main__":
    raise SystemExit(main())
