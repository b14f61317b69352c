#!/usr/bin/env python3
"""stress.py - the foreign processes of faults: spinners, streaming writers, copies and matrix
products on a GPU, connections that send.

Prepares what takes long (imports), prints `ready`, and begins with the first line on the standard
input; prints `begun` when it has. Ends with the standard input, or when it is killed. A GPU is
first touched after that line: until then there is no foreign process on it."""

import argparse
import ctypes
import os
import select
import signal
import socket
import sys
import threading
import time

from lab.guard import die_with_parent

STREAM_BYTES = 256 << 20
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
    args = p.parse_args()
    args.cpus = [int(c) for c in args.cpus.split(",") if c]
    return args


def goes_on():
    return not select.select([sys.stdin], [], [], 0)[0]


def begun():
    print("begun %d" % time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True)


def children(args, work):
    """One process for each count, pinned in turn; their parent waits for the end."""
    for i in range(args.count):
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


KINDS = {f.__name__: f for f in (spin, stream, copy, matmul, receive, send)}


def main():
    args = arguments()
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
