#!/usr/bin/env python3
"""errors.py - makes CUDA calls that fail, a known number of times each, and writes the codes
that they returned. A runtime call that fails inside the driver names its driver function, so
that either level may be compared. Works without PyTorch; no failure here harms the context."""

import argparse
import ctypes
import os

import job

FAR = 1 << 50  # bytes: more than any GPU has
NOWHERE = ctypes.c_ulonglong(0x10)  # no device address


class Errors:
    def __init__(self):
        self.rt, self.cu, self.made = job.runtime(), job.driver(), []
        self.rt.cudaSetDevice(0)
        self.rt.cudaFree(None)
        self.device = job.pointer()
        self.rt.cudaMalloc(ctypes.byref(self.device), job.SIZE(4096))

    def fails(self, library, name, calls, *args, below=None):
        """below: the driver function that a runtime function hands the failure on from."""
        codes = {library.code(name, *args) for _ in range(calls)}
        if len(codes) != 1 or codes == {0}:
            job.fail("%s returned %s" % (name, sorted(codes)))
        self.made.append({"function": name, "below": below, "code": codes.pop(),
                          "calls": calls})

    def run(self):
        n, p, text = job.SIZE, job.pointer(), ctypes.create_string_buffer(64)
        d = ctypes.c_ulonglong(0)
        # the runtime hands these to the driver
        self.fails(self.rt, "cudaMalloc", 4, ctypes.byref(p), n(FAR), below="cuMemAlloc_v2")
        # the runtime refuses these by itself
        self.fails(self.rt, "cudaMemcpy", 3, self.device, text, n(8), 77)
        self.fails(self.rt, "cudaSetDevice", 2, 9999)
        # the driver, called directly
        self.fails(self.cu, "cuMemAlloc_v2", 5, ctypes.byref(d), n(FAR))
        self.fails(self.cu, "cuMemFree_v2", 6, NOWHERE)
        self.fails(self.cu, "cuMemcpyHtoD_v2", 7, NOWHERE, text, n(8))
        self.fails(self.cu, "cuModuleLoadData", 3, ctypes.byref(p), b"no image at all")
        self.rt.code("cudaGetLastError")

    def good(self):
        """Calls that do not fail lie between."""
        self.rt.cudaMemset(self.device, 0, job.SIZE(4096))
        self.rt.cudaDeviceSynchronize()


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--json", metavar="FILE", help="write what was done there")
    return p.parse_args()


def main():
    args = arguments()
    errors = Errors()
    errors.good()
    start = job.now_ns()
    errors.run()
    end = job.now_ns()
    errors.good()
    job.write_json(args.json, {"pid": os.getpid(), "window": [start, end],
                               "errors": errors.made})


if __name__ == "__main__":
    main()
