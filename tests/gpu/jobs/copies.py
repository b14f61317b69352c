#!/usr/bin/env python3
"""copies.py - copies and sets memory a known number of times, by direction and bytes, through
the runtime and the driver: pageable and pinned host memory, with and without a stream, in
two dimensions. Writes what it did; works without PyTorch.

A copy whose direction is left to CUDA (cudaMemcpyDefault, cuMemcpy) is told by what its ends
are: here pinned memory to the device, and within the device. Bytes of
two-dimensional copies are width times height. With two GPUs, copies between them too."""

import argparse
import ctypes
import os

import job

H2D, D2H, D2D, DEFAULT = 1, 2, 3, 4  # enum cudaMemcpyKind, driver_types.h
DIRECTION = {H2D: "HtoD", D2H: "DtoH", D2D: "DtoD", DEFAULT: "HtoD"}
KB, MB = 1 << 10, 1 << 20


class Copies:
    def __init__(self):
        self.rt, self.cu, self.made = job.runtime(), job.driver(), {}
        self.rt.cudaSetDevice(0)
        self.rt.cudaFree(None)
        self.a, self.b, self.pinned = job.pointer(), job.pointer(), job.pointer()
        for p in (self.a, self.b):
            self.rt.cudaMalloc(ctypes.byref(p), job.SIZE(8 * MB))
        self.rt.cudaMallocHost(ctypes.byref(self.pinned), job.SIZE(8 * MB))
        self.buffer = ctypes.create_string_buffer(8 * MB)
        self.pageable = ctypes.cast(self.buffer, job.POINTER)
        self.stream = job.pointer()
        self.rt.cudaStreamCreate(ctypes.byref(self.stream))

    def note(self, direction, kind, calls, size):
        n, total = self.made.get((direction, kind), (0, 0))
        self.made[direction, kind] = n + calls, total + calls * size

    def ends(self, way, host):
        """Destination and source of one way."""
        return {H2D: (self.a, host), D2H: (host, self.b), D2D: (self.b, self.a),
                DEFAULT: (self.a, self.pinned)}[way]

    def runtime(self):
        rt, n = self.rt, job.SIZE
        for host in (self.pageable, self.pinned):
            for way, calls, size in ((H2D, 7, 3 * MB), (H2D, 3, 100), (D2H, 5, MB + 1),
                                     (D2H, 4, 8)):
                to, source = self.ends(way, host)
                for _ in range(calls):
                    rt.cudaMemcpy(to, source, n(size), way)
                    rt.cudaMemcpyAsync(to, source, n(size), way, self.stream)
                self.note(DIRECTION[way], "copy", 2 * calls, size)
        for way, calls, size in ((D2D, 11, 2 * MB), (DEFAULT, 2, 64 * KB)):
            to, source = self.ends(way, None)
            for _ in range(calls):
                rt.cudaMemcpy(to, source, n(size), way)
                rt.cudaMemcpyAsync(to, source, n(size), way, None)
            self.note(DIRECTION[way], "copy", 2 * calls, size)
        for way in (H2D, D2H, D2D):
            to, source = self.ends(way, self.pinned)
            for _ in range(6):
                rt.cudaMemcpy2D(to, n(1024), source, n(2048), n(1000), n(100), way)
                rt.cudaMemcpy2DAsync(to, n(1024), source, n(2048), n(1000), n(100), way,
                                     self.stream)
            self.note(DIRECTION[way], "copy", 12, 1000 * 100)
        for _ in range(9):
            rt.cudaMemset(self.a, 0, n(MB))
            rt.cudaMemsetAsync(self.b, 1, n(MB), self.stream)
        self.note(None, "set", 18, MB)
        for _ in range(2):
            rt.cudaMemset2D(self.a, n(1024), 0, n(1000), n(64))
        self.note(None, "set", 2, 64_000)

    def driver(self):
        cu, n = self.cu, job.SIZE
        a, b = (ctypes.c_ulonglong(p.value) for p in (self.a, self.b))
        for _ in range(3):
            cu.cuMemcpyHtoD_v2(a, self.pageable, n(5000))
            cu.cuMemcpyHtoDAsync_v2(a, self.pinned, n(5000), self.stream)
            cu.cuMemcpyDtoH_v2(self.pageable, b, n(6000))
            cu.cuMemcpyDtoHAsync_v2(self.pinned, b, n(6000), self.stream)
            cu.cuMemcpyDtoD_v2(b, a, n(7000))
            cu.cuMemcpyDtoDAsync_v2(b, a, n(7000), self.stream)
            cu.cuMemcpy(b, a, n(8000))
            cu.cuMemsetD8_v2(a, ctypes.c_ubyte(0), n(900))
            cu.cuMemsetD32_v2(a, ctypes.c_uint(1), n(900))
            cu.cuMemsetD32Async(a, ctypes.c_uint(1), n(900), self.stream)
        self.note("HtoD", "copy", 6, 5000)
        self.note("DtoH", "copy", 6, 6000)
        self.note("DtoD", "copy", 6, 7000)
        self.note("DtoD", "copy", 3, 8000)
        self.note(None, "set", 3, 900)
        self.note(None, "set", 6, 3600)

    def peers(self):
        count = ctypes.c_int(0)
        self.rt.cudaGetDeviceCount(ctypes.byref(count))
        if count.value < 2:
            return
        self.rt.cudaSetDevice(1)
        there = job.pointer()
        self.rt.cudaMalloc(ctypes.byref(there), job.SIZE(MB))
        self.rt.cudaSetDevice(0)
        for _ in range(5):
            self.rt.cudaMemcpyPeer(there, 1, self.a, 0, job.SIZE(MB))
            self.rt.cudaMemcpyPeerAsync(self.b, 0, there, 1, job.SIZE(MB), self.stream)
        self.note("PtoP", "copy", 10, MB)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--json", metavar="FILE", help="write what was done there")
    return p.parse_args()


def main():
    args = arguments()
    copies = Copies()
    copies.rt.cudaDeviceSynchronize()
    start = job.now_ns()
    copies.runtime()
    copies.driver()
    copies.peers()
    copies.rt.cudaDeviceSynchronize()
    end = job.now_ns()
    job.write_json(args.json, {
        "pid": os.getpid(), "window": [start, end],
        "copies": [{"direction": d, "kind": k, "calls": v[0], "bytes": v[1]}
                   for (d, k), v in copies.made.items()]})


if __name__ == "__main__":
    main()
