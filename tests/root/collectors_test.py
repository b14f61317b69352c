#!/usr/bin/env python3
"""collectors_test.py - collectors of the host's counters beside loads that the tests make: quotas,
busy CPUs, disks, interfaces, page faults. That a load is told of, not how large it is: unit tests
have that, on files of their making."""

import json
import os
import subprocess
import sys

from cgroups import limited_cgroup, within
from harness import EACGM, expect, main, skip, test
from namespaces import make_namespaces

LOADS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "loads.py")
LENGTHS = (3, 6, 12, 24)  # seconds: what a busy host does not show in one is shown in another
GROUP_BYTES = 32 << 20
FILE_BYTES = 128 << 20


def load(name, seconds, *where):
    return [sys.executable, LOADS, name, str(seconds), *where]


def counters_of(t, rec):
    """(entity, name) -> values"""
    out = t.path("counters.jsonl")
    r = t.run([EACGM, "export", rec.path, "-f", "jsonl", "-o", out])
    expect(r.status == 0, "export: %s" % r)
    found = {}
    with open(out) as f:
        for row in map(json.loads, f):
            if row["type"] == "counter":
                found.setdefault((row["entity"], row["name"]), []).append(row["value"])
    return found


def expect_told(t, command, wanted):
    """command: of a length in seconds. wanted: of the pid that it prints, (entity, name, what a
    value must be more than). Goes on until each was told."""
    for seconds in LENGTHS:
        rec = t.record(command(seconds), "--profile", "off", "--layers", "user")
        found = counters_of(t, rec)
        missing = [(entity, name) for entity, name, more in wanted(rec.ran.out.split()[0])
                   if not any(value > more for value in found.get((entity, name), []))]
        if not missing:
            return
    expect(False, "not told: %r of %r" % (missing, sorted(found)))


def expect_file(path):
    if not os.path.exists(path):
        skip("this kernel has no %s" % path)


def disk_of(path):
    """The whole disk, as /proc/diskstats calls it."""
    number = os.stat(path).st_dev
    device = os.path.realpath("/sys/dev/block/%d:%d" % (os.major(number), os.minor(number)))
    if not os.path.exists(device):
        skip("%s is on no disk" % path)
    if os.path.exists(os.path.join(device, "partition")):
        device = os.path.dirname(device)
    return os.path.basename(device)


@test("a quota of CPU time that holds a busy loop back", 180)
def _(t):
    group = limited_cgroup(t, "quota", "cpu", ("cpu.max", "20000 100000"),
                           ("cpu.cfs_quota_us", "20000"))
    entity = "cgroup /" + os.path.basename(group)
    expect_told(t, lambda seconds: within(group, *load("burn", seconds)), lambda _pid: [
        (entity, "throttled_ratio", 0), (entity, "throttled_periods_per_s", 0)])


@test("two hogs of one CPU wait for it, and both can run", 180)
def _(t):
    expect_file("/proc/pressure/cpu")
    cpu = max(os.sched_getaffinity(0))
    expect_told(t, lambda seconds: load("hogs", seconds, str(cpu)), lambda pid: [
        ("host", "cpu_pressure_ratio", 0), ("host", "runnable_threads", 1),
        ("pid " + pid, "cpu_ratio", 0), ("pid " + pid, "preemptions_per_s", 0)])


@test("what is written and synced, of the process and of the disk", 180)
def _(t):
    disk = disk_of(t.dir)
    file = t.path("written")
    expect_file("/proc/self/io")
    expect_told(t, lambda seconds: load("sync", seconds, file), lambda pid: [
        ("pid " + pid, "io_written_bytes_per_s", 0), ("disk " + disk, "written_bytes_per_s", 0),
        ("disk " + disk, "write_wait_ns", 0)])


@test("datagrams between two network namespaces, of the interface there", 180)
def _(t):
    here, there = make_namespaces(t)
    t.start(["ip", "netns", "exec", there, *load("send", 180, "10.231.7.1")],
            stdout=subprocess.DEVNULL)

    def received(seconds):
        return ["ip", "netns", "exec", here, *load("echo", seconds, "10.231.7.1")]
    expect_told(t, received, lambda pid: [
        ("interface eth0 of pid " + pid, name, 0)
        for name in ("received_bytes_per_s", "sent_bytes_per_s")])


@test("faults that read from a disk, in a cgroup with less memory than the file has", 180)
def _(t):
    disk_of(t.dir)
    group = limited_cgroup(t, "memory", "memory", ("memory.max", str(GROUP_BYTES)),
                           ("memory.limit_in_bytes", str(GROUP_BYTES)))
    file = t.path("mapped")
    with open(file, "wb") as f:
        for _i in range(FILE_BYTES >> 20):
            f.write(os.urandom(1 << 20))
        f.flush()
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    entity = "cgroup /" + os.path.basename(group)
    expect_told(t, lambda seconds: within(group, *load("faults", seconds, file)), lambda pid: [
        ("pid " + pid, "major_faults_per_s", 0), ("pid " + pid, "io_read_bytes_per_s", 0),
        ("host", "major_faults_per_s", 0), (entity, "memory_used_bytes", 0),
        (entity, "memory_limit_bytes", GROUP_BYTES - 1)])


if __name__ == "__main__":
    raise SystemExit(main())
