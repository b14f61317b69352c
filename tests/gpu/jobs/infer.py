#!/usr/bin/env python3
"""infer.py - a forward pass of GPT-2 over and over, as an inference server does with inputs of
one shape: as one CUDA graph that is replayed, or launched kernel by kernel.

usage: infer.py [--no-graph] --serve
Served as gpt2.py is: `run N` makes N passes and prints one line of JSON about them."""

import argparse
import time

import torch

import gpt2


class Inference:
    def __init__(self, args):
        torch.manual_seed(args.seed)
        self.device = args.device
        self.model = gpt2.GPT2(dropout=0.0).to(self.device, torch.bfloat16).eval()
        self.x = torch.randint(0, gpt2.VOCABULARY, (args.batch, args.seq), device=self.device)
        self.graph = self.out = None
        if args.graph and self.device == "cuda":
            self.capture()

    def capture(self):
        side = torch.cuda.Stream()  # libraries set themselves up outside of the capture
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.model(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.model(self.x)

    def step(self):
        if self.graph:
            self.graph.replay()
        else:
            self.out = self.model(self.x)
        if self.device == "cuda":
            torch.cuda.synchronize()

    def steps(self, n):
        """Lengths in ns."""
        lengths = []
        for _ in range(n):
            began = time.monotonic_ns()
            self.step()
            lengths.append(time.monotonic_ns() - began)
        return lengths


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--seq", type=int, default=128)
    p.add_argument("--warmup", type=int, default=5)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    p.add_argument("--no-graph", dest="graph", action="store_false")
    p.add_argument("--serve", action="store_true", required=True)
    args = p.parse_args()
    with torch.no_grad():
        inference = Inference(args)
        inference.steps(args.warmup)
        print("warm", flush=True)
        gpt2.serve(inference)


if __name__ == "__main__":
    main()
