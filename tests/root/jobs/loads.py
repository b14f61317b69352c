"""loads.py - loads of one kind that go on for some seconds, each for a collector of counters to
tell of. Prints the pid of the process that makes the load. What they do is not measured here.

usage: loads.py burn|hogs|sync|echo|send|faults SECONDS [WHERE]"""

import mmap
import os
import random
import socket
import sys
import time

PORT = 20231
PAGE = mmap.PAGESIZE


def until_end():
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        yield


def burn():
    for _ in until_end():
        sum(range(10000))


def hogs():
    """Two processes on the one CPU WHERE."""
    os.sched_setaffinity(0, {int(sys.argv[3])})
    other = os.fork()
    burn()
    if not other:
        os._exit(0)
    os.waitpid(other, 0)


def sync():
    """Writes the file WHERE again and again, down to the disk."""
    with open(sys.argv[3], "wb", buffering=0) as f:
        for _ in until_end():
            f.seek(0)
            f.write(os.urandom(1 << 20))
            os.fsync(f.fileno())


def datagrams():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(0.1)
    return s


def echo():
    """Sends back what comes to the address WHERE."""
    s = datagrams()
    s.bind((sys.argv[3], PORT))
    for _ in until_end():
        try:
            s.sendto(*s.recvfrom(2048))
        except OSError:
            pass


def send():
    """To the address WHERE, until it is ended."""
    s = datagrams()
    for _ in until_end():
        try:
            s.sendto(bytes(1000), (sys.argv[3], PORT))
            s.recv(2048)
        except OSError:
            time.sleep(0.01)


def faults():
    """Reads the file WHERE by way of its mapping, each page at random, without reading ahead."""
    with open(sys.argv[3], "rb") as f:
        mapping = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
    mapping.madvise(mmap.MADV_RANDOM)
    for _ in until_end():
        for _i in range(100):
            mapping[random.randrange(len(mapping) // PAGE) * PAGE]


print(os.getpid(), flush=True)
{"burn": burn, "hogs": hogs, "sync": sync, "echo": echo, "send": send,
 "faults": faults}[sys.argv[1]]()
