#!/usr/bin/env python3
"""stress.py - the foreign processes of faults: spinners, streaming writers, copies and matrix
products on a GPU, connections that send, packets that cost a core its time, writes and reads of a
disk, signals that stop a job.

Prepares what takes long (imports), prints `ready`, and begins with the first line on the standard
input; prints `begun` when it has. Ends with the standard input, or when it is killed. A GPU is
first touched after that line: until then there is no foreign process on it."""

import argparse
import collections
import ctypes
import functools
import mmap
import os
import random
import select
import signal
import socket
import sys
import threading
import time

from lab import disks, netns
from lab.guard import die_with_parent, take_name

STOP_PERIOD_S = 0.2
STREAM_BYTES = 256 << 20
DISK_BYTES, DISK_BLOCK = 16 << 20, 128 << 10
COPY_BYTES = 256 << 20
PORT = 5201


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("kind", choices=sorted(KINDS))
    p.add_argument("--count", type=int, default=1, help="processes, or connections")
    p.add_argument("--cpus", default="", help="numbers, comma-separated: one after the other")
    p.add_argument("--gpu", type=int, default=0)
    p.add_argument("--duty", type=float, default=1.0, help="share of the time")
    p.add_argument("--size", type=int, default=4096, help="of the matrices")
    p.add_argument("--address", default="127.0.0.1")
    p.add_argument("--steer", default="", help="the cores that are to have the packets' interrupts")
    p.add_argument("--pids", default="", help="of processes to stop")
    p.add_argument("--folder", help="on the disk")
    p.add_argument("--times", type=float, default=2.0, help="as long as usual a read is to take")
    args = p.parse_args()
    for name in ("cpus", "steer", "pids"):
        setattr(args, name, [int(n) for n in getattr(args, name).split(",") if n])
    return args


def goes_on():
    return not select.select([sys.stdin], [], [], 0)[0]


def begun():
    print("begun %d" % time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True)


def children(args, work):
    """One process for each count, or each of a list, pinned in turn; their parent waits for the
    end."""
    works = work if isinstance(work, list) else [work] * args.count
    for i, work in enumerate(works):
        if os.fork() == 0:
            die_with_parent(signal.SIGKILL)
            if args.cpus:
                os.sched_setaffinity(0, {args.cpus[i % len(args.cpus)]})
            work()
            os._exit(0)
    begun()
    sys.stdin.read()


# ---- each kind: prepares, and returns what to do after the line ----

def spin(args):
    """For `duty` of each twentieth of a second."""
    def work():
        period = 0.05
        while True:
            begin = time.monotonic()
            while time.monotonic() - begin < args.duty * period:
                pass
            if args.duty < 1:
                time.sleep(max(0, begin + period - time.monotonic()))
    return lambda: children(args, work)


def stream(args):
    def work():
        memory = ctypes.create_string_buffer(STREAM_BYTES)
        while True:
            ctypes.memset(memory, 1, STREAM_BYTES)
    return lambda: children(args, work)


def copy(args):
    """Both directions at once, on a stream each; `count` pairs of streams."""
    import torch

    def run():
        device = torch.device("cuda")
        pairs = []
        for _ in range(args.count):
            for _ in range(2):
                pairs.append((torch.cuda.Stream(device),
                              torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=True),
                              torch.empty(COPY_BYTES, dtype=torch.uint8, device=device)))
        begun()
        while goes_on():
            for i, (stream_, host, there) in enumerate(pairs):
                with torch.cuda.stream(stream_):
                    if i % 2:
                        host.copy_(there, non_blocking=True)
                    else:
                        there.copy_(host, non_blocking=True)
            torch.cuda.synchronize(device)
    return run


def matmul(args):
    """Products for a share of every 50 ms."""
    import torch

    def run():
        device = torch.device("cuda")
        a = torch.randn(args.size, args.size, device=device, dtype=torch.bfloat16)
        out = torch.empty_like(a)
        begun()
        while goes_on():
            began = time.monotonic()
            while time.monotonic() - began < 0.05 * args.duty:
                for _ in range(4):
                    torch.mm(a, a, out=out)
                torch.cuda.synchronize(device)
            if args.duty < 1:
                time.sleep(0.05 * (1 - args.duty))
    return run


def receive(args):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((args.address, PORT))
    server.listen(64)

    def serve(s):
        while s.recv(1 << 20):
            pass

    def run():
        begun()
        while True:
            readable, _, _ = select.select([server, sys.stdin], [], [])
            if sys.stdin in readable:
                return
            threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
    return run


def send(args):
    def feed(s):
        data = bytes(1 << 18)
        while True:
            s.sendall(data)

    def run():
        for _ in range(args.count):
            s = socket.create_connection((args.address, PORT), timeout=10)
            s.settimeout(None)
            threading.Thread(target=feed, args=(s,), daemon=True).start()
        begun()
        sys.stdin.read()
    return run


class Flood:
    """Packets over the loopback of a network namespace of its own, whose interrupts are steered to
    one core (RPS). Each is broadcast to many sockets, so that who receives has far more to do than
    who sends; it costs that core's time, and nobody reads it but one socket, the last that gets it:
    by which is known how long the core was busy."""

    SOCKETS, BURST, TO = 128, 12, ("127.255.255.255", 9000)
    TIMED, BEHIND_S = 8, 0.01  # one of so many bursts is timed; what is later than that is dropped
    LOST_S = 0.02  # a packet that was not received by then

    def __init__(self, cpu):
        os.nice(-10)  # as quick as the job's core serves them
        netns.own_space("/class/net/lo/queues/rx-0/rps_cpus", netns.cpu_mask(cpu))
        netns.set_up("lo")
        self.there = [self.receiver(i == self.SOCKETS - 1) for i in range(self.SOCKETS)]
        self.here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.here.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)

    def receiver(self, is_read):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if not is_read:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        s.bind(("", self.TO[1]))
        s.setblocking(False)
        return s

    def send(self):
        for _ in range(self.BURST):
            self.here.sendto(b"x", self.TO)

    def timed(self):
        """Seconds from the first that is sent to the last that is received."""
        self.drain()
        began, got = time.monotonic(), 0
        self.send()
        while got < self.BURST and time.monotonic() < began + self.LOST_S:
            got += self.drain()
        return time.monotonic() - began

    def drain(self):
        got = 0
        try:
            while self.there[-1].recv(16):
                got += 1
        except BlockingIOError:
            return got

    def go_on(self, share):
        """So many bursts a second as take that share of it, by the quicker quarter of those that
        were timed: in others this process was waiting for its core."""
        times, bursts, due = collections.deque(maxlen=64), 0, time.monotonic()
        while True:
            if bursts % self.TIMED == 0 or len(times) < 8:
                times.append(self.timed())
                takes = sorted(times)[len(times) // 4]
            else:
                self.send()
            bursts += 1
            due = max(due, time.monotonic() - self.BEHIND_S) + takes / share
            time.sleep(max(0, due - time.monotonic()))


def flood(args):
    """A process for each core of `steer`, whose time is taken for the share `duty`."""
    works = [functools.partial(lambda cpu: Flood(cpu).go_on(args.duty), c) for c in args.steer]
    return lambda: children(args, works)


def stop(args):
    """The processes `pids` stand still for a share of the time: what they stood longer, since this
    one waited for its core, they stand less the next time."""
    def signal_all(what):
        for pid in args.pids:
            try:
                os.kill(pid, what)
            except ProcessLookupError:
                pass

    def run():
        os.nice(-10)
        begun()
        start, stood = time.monotonic(), 0.0
        while goes_on():
            began = time.monotonic()
            owed = args.duty * (began + STOP_PERIOD_S - start) - stood
            if owed > 0:
                signal_all(signal.SIGSTOP)
                time.sleep(owed)
                signal_all(signal.SIGCONT)
                stood += time.monotonic() - began
            time.sleep(max(0.01, began + STOP_PERIOD_S - time.monotonic()))
    return run


class Disk:
    """Writes past the page cache that are synced now and then, by as many threads as make the reads
    of others on that device take `times` as long as they did before, by the kernel's own figures:
    what is measured here would be how long this process waits for a core, too. The file has no
    name: it is gone with the process."""

    THREADS, LOOK_S, BEFORE_S, SYNC = 32, 0.1, 0.4, 8

    def __init__(self, folder, times):
        self.device = disks.device_of(folder)
        if not self.device:
            sys.exit("nobody knows on which device %s lies" % folder)
        path = os.path.join(folder, "disk.%d" % os.getpid())
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
        os.unlink(path)
        self.block = mmap.mmap(-1, DISK_BLOCK)
        for at in range(0, DISK_BYTES, DISK_BLOCK):
            os.pwrite(self.fd, self.block, at)
        os.fsync(self.fd)
        self.seen = disks.reads_of(self.device)
        time.sleep(self.BEFORE_S)
        self.aim = times * (self.takes() or 1e-4)
        self.load = 1.0  # threads at work; a fraction is one for a share of the time

    def takes(self):
        """Mean seconds of a read since the last call; None where there was none."""
        n, s = disks.reads_of(self.device)
        n, s, self.seen = n - self.seen[0], s - self.seen[1], (n, s)
        return s / n if n and s else None

    def disturb(self, number):
        turn = 0
        while True:
            share = min(1.0, self.load - number)
            if share <= 0:
                time.sleep(self.LOOK_S)
                continue
            began = time.monotonic()
            os.pwrite(self.fd, self.block,
                      random.randrange(DISK_BYTES // DISK_BLOCK) * DISK_BLOCK)
            turn += 1
            if turn % self.SYNC == 0:
                os.fsync(self.fd)
            time.sleep((time.monotonic() - began) * (1 - share) / share)

    def go_on(self):
        for number in range(self.THREADS):
            threading.Thread(target=self.disturb, args=(number,), daemon=True).start()
        begun()
        usual = None
        while goes_on():
            time.sleep(self.LOOK_S)
            takes = self.takes()
            if takes:
                usual = takes if usual is None else (usual + takes) / 2
                self.load *= min(1.6, max(0.6, (self.aim / usual) ** 0.5))
                self.load = min(float(self.THREADS), max(0.02, self.load))


def disk(args):
    """What it writes and measures first would disturb, too."""
    return lambda: Disk(args.folder, args.times).go_on()


KINDS = {f.__name__: f for f in (spin, stream, copy, matmul, receive, send, flood, stop,
                                 disk)}


def main():
    args = arguments()
    take_name()
    if args.cpus:
        os.sched_setaffinity(0, set(args.cpus))
    # The only one that it sees: pinned memory would take a context on the first one too.
    os.environ.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=str(args.gpu))
    run = KINDS[args.kind](args)
    print("ready", flush=True)
    if sys.stdin.readline():
        run()


if __name__ == "__main__":
    main()
