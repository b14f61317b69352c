#!/usr/bin/env python3
"""stalls_test.py - what the kernel takes of a traced thread's time on the CPU, and what processes
have disks do: softirqs of packets that the thread or another CPU sends, memory that a cgroup's limit
makes it free, writes to a disk by a traced process and by one that is not. Read through
`eacgm export -f jsonl`."""

import collections
import json
import os
import re
import subprocess

from harness import EACGM, expect, main, skip, test

PACKETS = 20000
MIB = 1 << 20

# sends itself packets, each of which is received in a softirq while it sends
SELF = """
import socket
r = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
r.bind(("127.0.0.1", 0))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(%d):
    s.sendto(b"x" * 64, r.getsockname())
""" % PACKETS

# in a network namespace of its own: packets that this CPU sends are received on the other one
REMOTE = """
import os, socket, subprocess, sys, time
rx, tx = map(int, sys.argv[1:3])
subprocess.run(["mount", "-t", "sysfs", "none", "/sys"], check=True)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
with open("/sys/class/net/lo/queues/rx-0/rps_cpus", "w") as f:
    f.write("%x" % (1 << rx))
os.sched_setaffinity(0, {tx})
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
there = []
for _ in range(64):  # each gets every packet: who receives has more to do than who sends
    there.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    there[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    there[-1].bind(("", 9000))
there[0].settimeout(1)
print("ready", flush=True)
while not os.path.exists(sys.argv[3]):
    began = time.monotonic()
    for _ in range(8):
        s.sendto(b"x" * 64, ("127.255.255.255", 9000))
    try:
        for _ in range(8):
            there[0].recv(64)
    except TimeoutError:
        pass
    # however slow the other CPU is, it has as much time for the rest
    time.sleep(max(0.001, time.monotonic() - began))
    if not os.path.exists("/proc/%d" % os.getppid()):
        break
"""

SPIN = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
end = time.monotonic() + 2
while time.monotonic() < end:
    pass
print(os.getpid(), time.process_time_ns())
"""

# reads a file that is larger than its cgroup may have in memory
READER = """
import os, sys
with open(sys.argv[1], "w") as f:
    f.write(str(os.getpid()))
with open(sys.argv[2], "rb", buffering=0) as f:
    while f.read(1 << 20):
        pass
print(os.getpid())
"""

# Where a second path is given it waits until that file has become longer by some writes.
WRITER = """
import os, sys, time
f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
times = lambda: os.stat(sys.argv[2]).st_size if sys.argv[2:] else 0
for _ in range(%d):
    os.write(f, b"x" * (1 << 20))
    os.fsync(f)
before, end = times(), time.monotonic() + 30
while sys.argv[2:] and times() < before + 64 and time.monotonic() < end:
    time.sleep(0.01)
os.unlink(sys.argv[1])
print(os.getpid(), flush=True)
"""

# Where a kernel does not tell of an end, that is known when the request's place is used again: so
# the other goes on for a while, on each CPU in turn, for each begins with the place that was freed
# on it last.
#
# The same blocks over and over: of files that grow side by side the disk may get what is next to
# each other as one request, which is of who began it. Each time is a byte of the second file.
REWRITER = """
import os, sys
f, n = (os.open(path, os.O_RDWR | os.O_CREAT) for path in sys.argv[1:3])
cpus, i = sorted(os.sched_getaffinity(0)), 0
while True:
    os.sched_setaffinity(0, {cpus[i % len(cpus)]})
    i += 1
    os.pwrite(f, b"x" * (1 << 20), 0)
    os.fsync(f)
    os.write(n, b".")
"""


def rows_of(t, path):
    out = os.path.join(t.dir, "rows.jsonl")
    r = t.run([EACGM, "export", path, "-f", "jsonl", "-o", out])
    expect(r.status == 0, "export: %s" % r)
    with open(out) as f:
        return [json.loads(line) for line in f]


def record(t, command, status=0):
    rec = t.record(command, "--profile", "off", "--layers", "user", status=status)
    return rec, rows_of(t, rec.path)


def totals_of(rows, kind, name, **of):
    return [row for row in rows if row["type"] == "stall_total" and row["kind"] == kind and
            row["name"] == name and all(row[k] == v for k, v in of.items())]


@test("packets that a thread sends itself are received in its time", 60)
def _(t):
    _, rows = record(t, ["/usr/bin/python3", "-c", SELF])
    received = totals_of(rows, "softirq", "NET_RX")
    expect(len(received) == 1, "%r" % received)
    seen = received[0]
    print("# %d packets: %d softirqs, %.0f ns each" % (PACKETS, seen["count"],
                                                       seen["total_ns"] / seen["count"]))
    expect(seen["number"] == 3 and seen["count"] >= PACKETS / 2, "%r" % seen)
    expect(0 < seen["longest_ns"] <= seen["total_ns"] <= seen["until_ns"] - seen["since_ns"],
           "%r" % seen)


@test("rows are long, and no more than the totals", 60)
def _(t):
    rec, rows = record(t, ["/usr/bin/python3", "-c", SELF])
    in_rows, count = collections.Counter(), collections.Counter()
    totals = {}
    for row in rows:
        if row["type"] == "stall_total":
            key = row["tid"], row["kind"], row["number"]
            expect(key not in totals, "two totals of %r" % row)
            totals[key] = row
    expect(totals, "no totals")
    for row in rows:
        if row["type"] == "stall":
            key = row["tid"], row["kind"], row["number"]
            expect(50000 <= row["own_ns"] <= row["duration_ns"], "%r" % row)
            # A thread is interrupted amid its end, too, when its totals were told; and before it
            # executed its program, with which they began anew.
            if key in totals and (row["start_ns"] < totals[key]["since_ns"] or
                                  row["start_ns"] + row["duration_ns"] > totals[key]["until_ns"]):
                continue
            in_rows[key] += row["own_ns"]
            count[key] += 1
    for key, own_ns in in_rows.items():
        expect(key in totals and own_ns <= totals[key]["total_ns"] and
               count[key] <= totals[key]["count"], "%r: %d in %r" % (key, own_ns, totals.get(key)))
    summed = collections.Counter()
    for row in totals.values():
        summed[row["kind"], row["name"]] += row["total_ns"]
    got = {(s["kind"], s["name"]): s["total_ns"] for s in rec.report["stalls"]}
    expect(got == {key: ns for key, ns in summed.items() if key in got} and
           sum(got.values()) == sum(summed.values()), "%r, in rows %r" % (got, summed))
    text = t.run([EACGM, "report", rec.path, "--section", "stalls"]).out
    expect("softirq NET_RX, all from thread python3 (" in text, text)
    span = max(row["until_ns"] - row["since_ns"] for row in totals.values())
    expect(sum(row["total_ns"] for row in totals.values()) <= span, "%r" % totals)


@test("a thread that sends nothing receives for others", 60)
def _(t):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        skip("one CPU")
    stop = os.path.join(t.dir, "stop")
    sender = t.start(["unshare", "--net", "--mount", "/usr/bin/python3", "-c", REMOTE, cpus[1],
                      cpus[0], stop], stdout=subprocess.PIPE, text=True)
    if sender.stdout.readline().strip() != "ready":
        skip("no network namespace with a queue of its own can be made here")
    rec, rows = record(t, ["/usr/bin/python3", "-c", SPIN, str(cpus[1])])
    open(stop, "w").close()
    pid, cpu_ns = map(int, rec.ran.out.split())
    received = totals_of(rows, "softirq", "NET_RX", pid=pid, tid=pid)
    calls = totals_of(rows, "interrupt", "call_function_single", pid=pid, tid=pid)
    expect(len(received) == 1, "%r" % received)
    seen = received[0]
    print("# %d softirqs took %.1f ms of %.1f ms" % (seen["count"], seen["total_ns"] / 1e6,
                                                     cpu_ns / 1e6))
    expect(seen["count"] >= 100 and seen["total_ns"] <= cpu_ns, "%r of %d" % (seen, cpu_ns))
    expect(len(calls) == 1 and calls[0]["number"] == -0xfb, "%r" % calls)
    long = [row for row in rows if row["type"] == "stall" and row["name"] == "NET_RX" and
            row["pid"] == pid]
    told = [row for row in long if row["sender_pid"] == sender.pid and row["sender"] == "python3"]
    expect(len(long) >= 10 and len(told) > 0.8 * len(long), "%d of %d have %d: %r" % (
        len(told), len(long), sender.pid, long[:5]))


def memory_cgroup(t):
    """(file to join by, folder), of a cgroup that may have 32 MiB"""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                        ("/sys/fs/cgroup", "memory.max")):
        folder = os.path.join(root, os.path.basename(t.dir))
        try:
            os.mkdir(folder)
        except OSError:
            continue
        try:
            with open(os.path.join(folder, limit), "w") as f:
                f.write(str(32 * MIB))
            return os.path.join(folder, "cgroup.procs"), folder
        except OSError:
            os.rmdir(folder)
    return skip("no cgroup with a memory limit can be made here")


@test("memory that a cgroup's limit makes a thread free", 60)
def _(t):
    join, folder = memory_cgroup(t)
    try:
        path = os.path.join(t.dir, "large")
        with open(path, "wb") as f:
            for _ in range(100):
                f.write(bytes(MIB))
            f.flush()
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        rec, rows = record(t, ["/usr/bin/python3", "-c", READER, join, path], None)
    finally:
        t.wait_for(lambda: not open(join).read(), "the cgroup to be empty")
        os.rmdir(folder)
    if rec.ran.status:
        skip("the cgroup cannot be entered: %s" % rec.ran)
    pid = int(rec.ran.out)
    freed = totals_of(rows, "reclaim", "cgroup", pid=pid)
    if not freed and not [row for row in rows if row["type"] == "disk_io"]:
        skip("files of %s are in memory alone" % t.dir)
    expect(len(freed) == 1 and freed[0]["count"] >= 3, "%r" % freed)
    print("# %d times, %.2f ms in all" % (freed[0]["count"], freed[0]["total_ns"] / 1e6))
    expect(0 < freed[0]["total_ns"] <= freed[0]["until_ns"] - freed[0]["since_ns"], "%r" % freed)


def disk_of(path):
    """The disk that a file lies on."""
    device = os.stat(path).st_dev
    link = "/sys/dev/block/%d:%d" % (os.major(device), os.minor(device))
    if not os.path.exists(link):
        skip("%s is on no disk" % path)
    real = os.path.realpath(link)
    if os.path.exists(os.path.join(real, "partition")):
        real = os.path.dirname(real)
    if not os.path.exists(os.path.join(real, "mq")):
        skip("%s is on %s, which has no requests of its own" % (path, os.path.basename(real)))
    return os.path.basename(real)


@test("what a disk writes, for the traced process and for another", 90)
def _(t):
    disk = disk_of(t.dir)
    path = os.path.join(t.dir, "other")
    other = t.start(["/usr/bin/python3", "-c", REWRITER, path + ".data", path])
    t.wait_for(lambda: os.path.exists(path) and os.path.getsize(path), "another that writes")
    rec, rows = record(t, ["/usr/bin/python3", "-c", WRITER % 20, os.path.join(t.dir, "own"), path])
    other.kill()
    pid = int(rec.ran.out)
    written, writes = collections.Counter(), collections.Counter()
    for row in rows:
        if row["type"] == "disk_io" and row["disk"] == disk:
            written[row["pid"]] += row["written_bytes"]
            writes[row["pid"]] += row["writes"]
            expect(row["since_ns"] < row["until_ns"] and
                   row["longest_ns"] <= row["read_ns"] + row["write_ns"] + row["flush_ns"],
                   "%r" % row)
    lost = rec.lost("disk_io")
    print("# %s: %d bytes by %d, %d by %d, %d ends not told" % (
        disk, written[pid], pid, written[other.pid], other.pid, lost))
    expect(written[pid] >= (20 - lost) * MIB, "%r, lost %d" % (written, lost))
    expect(written[other.pid] > 0, "%r, not %d" % (written, other.pid))
    names = {row["pid"]: row["comm"] for row in rows if row["type"] == "disk_io"}
    expect(names[pid] == names[other.pid] == "python3", "%r" % names)
    of_report = {(d["disk"], d["pid"]): d for d in rec.report["disks"]}
    for who, is_job in ((pid, True), (other.pid, False)):
        got = of_report[disk, who]
        expect((got["written_bytes"], got["writes"], got["of_the_job"]) ==
               (written[who], writes[who], is_job), "%r, in rows %r" % (got, written))
    text = t.run([EACGM, "report", rec.path, "--section", "disks"]).out
    expect(re.search(r"%s  python3 \(%d\)\n" % (disk, pid), text) and
           "(%d), not of the job" % other.pid in text, text)


@test("--waits=off looks at none of it", 60)
def _(t):
    rec = t.record(["/usr/bin/python3", "-c", SELF], "--layers", "user", "--waits", "off")
    rows = rows_of(t, rec.path)
    expect(not [row for row in rows if row["type"] in ("stall", "stall_total", "disk_io")],
           "%r" % rows)


if __name__ == "__main__":
    main()
