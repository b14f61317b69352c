#!/usr/bin/env python3
"""storm.py - replays a CUDA graph of many tiny kernels, as fast as the GPU runs them, and writes how
many kernels ran: the most records that a timeline may have to carry."""

import argparse
import time

import torch

import job


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--kernels", type=int, default=1_000_000)
    p.add_argument("--nodes", type=int, default=2000, help="kernels of the graph")
    job.add_common(p)
    return p.parse_args()


def main():
    args = arguments()
    x = torch.zeros(32, dtype=torch.int64, device="cuda")  # counts the kernels
    x.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(args.nodes):
            x.add_(1)
    replays = -(-args.kernels // args.nodes)
    with job.measured(args.profile) as m:
        began = time.monotonic()
        for i in range(replays):
            graph.replay()
            if i % 16 == 15:
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        seconds = time.monotonic() - began
    made = int(x[0].item()) - 1  # the first was before
    job.finish(args, m, kernels_made=made, seconds=seconds)
    print("%d kernels in %.2f s" % (made, seconds))


if __name__ == "__main__":
    main()
