#!/usr/bin/env python3
"""transfer.py - the two ends of TCP connections, with known bytes.

usage: transfer.py serve FILE | connect FILE BYTES [--back BYTES] [--connections N] [--pause S]
                   [--thread NAME] [--until FILE] [--address A] [--nccl LIBRARY]

`serve` listens on --address, writes "HOST PORT N" to FILE, and answers each connection: its first 16
bytes say how many come and how many are to go back. `connect` waits for FILE and sends. Each end
prints, as it closes, "socket SOURCE DESTINATION SENT RECEIVED RETRANSMITS RESENT": the bytes are
those of its own calls, the rest is TCP_INFO's (linux/tcp.h). --thread: the name of the thread that
connects. --until: it goes on sending BYTES, every 50 ms, until that file is there. --nccl: that library
(targets/nccl_sockets.c) listens and connects."""

import argparse
import ctypes
import os
import socket
import struct
import threading
import time

CHUNK = b"x" * 65536


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("role", choices=("serve", "connect"))
    p.add_argument("file")
    p.add_argument("bytes", type=int, nargs="?", default=0)
    p.add_argument("--back", type=int, default=0)
    p.add_argument("--connections", type=int, default=1)
    p.add_argument("--pause", type=float, default=0)
    p.add_argument("--thread")
    p.add_argument("--until")
    p.add_argument("--address", default="127.0.0.1")
    p.add_argument("--nccl")
    return p.parse_args()


def name_of(address):
    return ("[%s]:%d" if ":" in address[0] else "%s:%d") % address[:2]


def names_of(s):
    return name_of(s.getsockname()), name_of(s.getpeername())


def say(s, names, sent, received):
    info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 216)
    retransmits, resent = struct.unpack_from("I", info, 100)[0], struct.unpack_from("Q", info, 208)[0]
    line = "socket %s %s %d %d %d %d\n" % (*names, sent, received, retransmits, resent)
    os.write(1, line.encode())  # whole, others write too


def send(s, n):
    left = n
    while left:
        left -= s.send(CHUNK[:left])
    return n


def receive(s, n):
    got = 0
    while got < n:
        data = s.recv(min(1 << 20, n - got))
        if not data:
            return got
        got += len(data)
    return got


def serve_one(s, pause):
    head, names = b"", names_of(s)
    while len(head) < 16:
        head += s.recv(16 - len(head))
    come, back = struct.unpack("QQ", head)
    received = 16 + receive(s, come)
    sent = send(s, back)
    time.sleep(pause)
    s.recv(1)  # the other end closes first
    say(s, names, sent, received)
    s.close()


def serve(args):
    family = socket.AF_INET6 if ":" in args.address else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind((args.address, 0))
        if args.nccl:
            expect_none(ctypes.CDLL(args.nccl).nccl_listen(listener.fileno()))
        else:
            listener.listen(64)
        with open(args.file + ".part", "w") as f:
            f.write("%s %d\n" % listener.getsockname()[:2])
        os.rename(args.file + ".part", args.file)
        for _ in range(args.connections):
            serve_one(listener.accept()[0], args.pause)


def expect_none(error):
    if error:
        raise OSError(-error, os.strerror(-error))


def connected(args, address):
    if not args.nccl:
        return socket.create_connection(address)
    s = socket.socket()
    to = struct.pack("=H", socket.AF_INET) + struct.pack("!H", address[1])
    to += socket.inet_aton(address[0]) + bytes(8)  # struct sockaddr_in
    expect_none(ctypes.CDLL(args.nccl).nccl_connect(s.fileno(), to, len(to)))
    return s


def connect_one(args, address):
    if args.thread:
        ctypes.CDLL(None).prctl(15, args.thread.encode())  # PR_SET_NAME
    with connected(args, address) as s:
        names = names_of(s)
        if args.until:
            s.sendall(struct.pack("QQ", 1 << 62, 0))
            sent = 16
            while not os.path.exists(args.until):
                sent += send(s, args.bytes)
                time.sleep(0.05)
            s.shutdown(socket.SHUT_WR)
            received = 0
        else:
            s.sendall(struct.pack("QQ", args.bytes, args.back))
            sent, received = 16 + send(s, args.bytes), receive(s, args.back)
        time.sleep(args.pause)
        say(s, names, sent, received)


def connect(args):
    while not os.path.exists(args.file):
        time.sleep(0.01)
    with open(args.file) as f:
        host, port = f.read().split()
    for _ in range(args.connections):
        t = threading.Thread(target=connect_one, args=(args, (host, int(port))))
        t.start()
        t.join()


if __name__ == "__main__":
    ARGS = arguments()
    if ARGS.role == "serve":
        serve(ARGS)
    else:
        connect(ARGS)
