#!/usr/bin/env python3
"""cupti_cycles.py - switches CUPTI's records of kernels and copies on, works, and ends CUPTI
(cuptiFinalize), again and again, as any client would: what CUPTI itself leaves in the process. With
--cycles 0 the same work without CUPTI. Prints memory (kB) after each cycle, as one line of JSON."""

import argparse
import ctypes
import glob
import json
import os
import time

import torch

import job

KINDS = (10, 1, 2)  # CONCURRENT_KERNEL, MEMCPY, MEMSET (cupti_activity.h)
FORCED = 1
BUFFER_BYTES, BUFFERS = 1 << 20, 32
REQUESTED = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(
    ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t))
COMPLETED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p,
                             ctypes.c_size_t, ctypes.c_size_t)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--cycles", type=int, default=20)
    p.add_argument("--seconds", type=float, default=1, help="of a cycle")
    p.add_argument("--for", type=float, default=20, dest="quiet", metavar="SECONDS",
                   help="to work for, with --cycles 0")
    return p.parse_args()


def cupti():
    where = os.path.dirname(job.mapped("libcudart.so") or "")
    beside = glob.glob(os.path.join(where, "..", "..", "*", "lib", "libcupti.so.1[23]"))
    return job.Library(ctypes.CDLL((beside + ["libcupti.so.13"])[0]))


class Buffers:
    """The same ones again and again, so that they are no growth."""

    def __init__(self):
        self.memory = [ctypes.create_string_buffer(BUFFER_BYTES) for _ in range(BUFFERS)]
        for m in self.memory:
            ctypes.memset(m, 1, BUFFER_BYTES)
        self.free = [ctypes.addressof(m) for m in self.memory]
        self.requested, self.completed = REQUESTED(self.give), COMPLETED(self.take)

    def give(self, buffer, size, most):
        buffer[0], size[0], most[0] = self.free.pop(), BUFFER_BYTES, 0

    def take(self, _context, _stream, buffer, _size, _valid):
        self.free.append(buffer)


def resident_kb():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def work(x, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(50):
            x.add_(1)
        torch.cuda.synchronize()


def main():
    args = arguments()
    x = torch.zeros(32, dtype=torch.int64, device="cuda")
    work(x, 2)
    print("warm", flush=True)
    seen = [resident_kb()]
    if not args.cycles:
        work(x, args.quiet)
        seen.append(resident_kb())
    buffers, client = Buffers(), cupti() if args.cycles else None
    for _ in range(args.cycles):
        client.cuptiActivityRegisterCallbacks(buffers.requested, buffers.completed)
        for kind in KINDS:
            client.cuptiActivityEnable(kind)
        work(x, args.seconds)
        client.cuptiActivityFlushAll(FORCED)
        client.cuptiFinalize()
        seen.append(resident_kb())
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()
