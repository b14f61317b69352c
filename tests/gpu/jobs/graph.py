#!/usr/bin/env python3
"""graph.py - captures CUDA graphs and replays them, with direct launches in between.

Graphs: `small` (element-wise kernels), `large` (matrix products, a copy and a set of memory
as nodes of their own), `forked` (two streams joined by events), and `late`, which is captured
inside the measured part: its captured launches must not count as kernels that ran. The nodes
are counted through cudaGraphGetNodes where PyTorch hands out the graph, so that the kernels
that ran are known without any profiler."""

import argparse
import ctypes

import torch

import job

KERNEL, MEMCPY, MEMSET = 0, 1, 2  # enum cudaGraphNodeType, driver_types.h


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--replays", type=int, default=30, help="of each graph")
    p.add_argument("--direct", type=int, default=5, help="direct launches between two replays")
    job.add_common(p)
    return p.parse_args()


class Graph:
    """One captured graph, its own tensors, and how often it was replayed."""

    def __init__(self, rt, name, work, warm=True):
        self.name, self.replays, self.kept = name, 0, None
        if warm:  # libraries set themselves up outside of the capture
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                work()
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
        try:
            self.graph = torch.cuda.CUDAGraph(keep_graph=True)
        except TypeError:
            self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.kept = work()
        self.nodes = self.count_nodes(rt)

    def count_nodes(self, rt):
        """{node type: count}, or None where PyTorch keeps the graph to itself."""
        try:
            raw = job.POINTER(self.graph.raw_cuda_graph())
        except (AttributeError, RuntimeError):
            return None
        n = job.SIZE(0)
        rt.cudaGraphGetNodes(raw, None, ctypes.byref(n))
        nodes = (job.POINTER * n.value)()
        rt.cudaGraphGetNodes(raw, nodes, ctypes.byref(n))
        counts = {}
        for node in nodes:
            kind = ctypes.c_int(-1)
            rt.cudaGraphNodeGetType(job.POINTER(node), ctypes.byref(kind))
            counts[kind.value] = counts.get(kind.value, 0) + 1
        return counts

    def replay(self):
        self.graph.replay()
        self.replays += 1

    def json(self):
        n = self.nodes
        return {"name": self.name, "replays": self.replays,
                "kernel_nodes": n and n.get(KERNEL, 0), "memcpy_nodes": n and n.get(MEMCPY, 0),
                "memset_nodes": n and n.get(MEMSET, 0)}


def works(rt):
    """The work of each graph, over tensors that live as long as the program."""
    a = torch.randn(512, 512, device="cuda")
    b = torch.empty_like(a)
    half = a.bfloat16()

    def small():
        return (a * 2 + 1).relu_().sum()

    def large():
        stream = job.POINTER(torch.cuda.current_stream().cuda_stream)
        x = half
        for _ in range(4):
            x = torch.nn.functional.gelu(x @ half)
        rt.cudaMemcpyAsync(job.POINTER(b.data_ptr()), job.POINTER(a.data_ptr()),
                           job.SIZE(a.numel() * 4), 3, stream)
        rt.cudaMemsetAsync(job.POINTER(b.data_ptr()), 0, job.SIZE(4096), stream)
        return torch.softmax(x.float(), -1)

    def forked():
        here, side = torch.cuda.current_stream(), streams[0]
        fork, join = torch.cuda.Event(), torch.cuda.Event()
        fork.record(here)
        side.wait_event(fork)
        with torch.cuda.stream(side):
            left = (a - 1).sin_()
            join.record(side)
        right = (a + 1).cos_()
        here.wait_event(join)
        return left + right

    streams = [torch.cuda.Stream()]
    return {"small": small, "large": large, "forked": forked, "late": small}


def main():
    args = arguments()
    torch.manual_seed(0)
    rt = None
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    rt = job.runtime()
    work = works(rt)
    graphs = {name: Graph(rt, name, work[name]) for name in ("small", "large", "forked")}
    for g in graphs.values():
        g.graph.replay()  # instantiates; not measured
    between = torch.zeros(1000, device="cuda")
    between.add_(1)
    torch.cuda.synchronize()
    with job.measured(args.profile) as m:
        for i in range(args.replays):
            for g in graphs.values():
                g.replay()
                for _ in range(args.direct):
                    between.add_(1)
            if i == args.replays // 2:
                graphs = dict(graphs, late=Graph(rt, "late", work["late"], warm=False))
    made = [g.json() for g in graphs.values()]
    known = all(g["kernel_nodes"] is not None for g in made)
    job.finish(args, m, graphs=made, graph_launches_made=sum(g["replays"] for g in made),
               graph_kernels_made=sum(g["replays"] * g["kernel_nodes"] for g in made)
               if known else None,
               kernel_nodes_captured_in_window=graphs["late"].json()["kernel_nodes"],
               between_made=between[0].item() - 1)
    print("replays %d" % sum(g["replays"] for g in made))


if __name__ == "__main__":
    main()
