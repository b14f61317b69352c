#!/usr/bin/env python3
"""late_graph.py - makes a CUDA graph by the runtime's own calls, of which PyTorch knows nothing,
and works without it until SIGUSR2; from then on it launches it too. SIGTERM ends it: what ran, as
one line of JSON, and whether the GPU computed what it should."""

import argparse
import ctypes
import json
import signal
import time

import torch

import job

RELAXED = 2  # enum cudaStreamCaptureMode, driver_types.h
asked = {"launch": False, "end": False}


def captured(side, x, nodes):
    """cudaGraphExec_t of nodes kernels that add one."""
    runtime, stream = job.runtime(), ctypes.c_void_p(side.cuda_stream)
    graph, executable = job.pointer(), job.pointer()
    runtime.cudaStreamBeginCapture(stream, ctypes.c_int(RELAXED))
    with torch.cuda.stream(side):
        for _ in range(nodes):
            x.add_(1)
    runtime.cudaStreamEndCapture(stream, ctypes.byref(graph))
    runtime.cudaGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
    return lambda: runtime.cudaGraphLaunch(executable, stream)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--nodes", type=int, default=100, help="kernels of the graph")
    args = p.parse_args()
    signal.signal(signal.SIGUSR2, lambda *_: asked.update(launch=True))
    signal.signal(signal.SIGTERM, lambda *_: asked.update(end=True))
    x = torch.zeros(32, dtype=torch.int64, device="cuda")
    y = torch.zeros(32, dtype=torch.int64, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x.add_(1)
    torch.cuda.synchronize()
    launch = captured(side, x, args.nodes)
    torch.cuda.synchronize()
    print("warm", flush=True)
    eager = launches = 0
    while not asked["end"]:
        y.add_(1)
        eager += 1
        if asked["launch"]:
            launch()
            launches += 1
        torch.cuda.synchronize()
        time.sleep(0.001)
    wrong = int(x[0].item()) != 1 + launches * args.nodes or int(y[0].item()) != eager
    print(json.dumps({"eager": eager, "launches": launches, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    main()
