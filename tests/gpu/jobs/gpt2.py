#!/usr/bin/env python3
"""gpt2.py - trains a GPT-2 of 124 million parameters on random tokens: eager, bf16 autocast,
AdamW, gradient clipping. Batch 1 x 128 is bound by launches, 8 x 1024 by the GPU.

Every step ends with a synchronisation, so that a step's time is its own. Prints the line
`warm` after the warm-up and one line with `step_ms NUMBER` at the end. Without end:
  --until-eof   trains until the standard input is closed; --tell FILE then gets end and length
                in ns of every step
  --serve       obeys lines on the standard input: `run N [WAY]` trains N steps, under WAY if
                given (cProfile, torch.profiler, torch.profiler-stacks), and prints one line of
                JSON about them and the length of each; `quit` ends"""

import argparse
import contextlib
import json
import select
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import job

VOCABULARY, WIDTH, LAYERS, HEADS, CONTEXT = 50257, 768, 12, 12, 1024
SETTLE = 3  # steps of a served segment that are not counted


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def attend(self, x, cache=None):
        b, t, d = x.shape
        q, k, v = (part.view(b, t, self.heads, d // self.heads).transpose(1, 2)
                   for part in self.qkv(x).split(d, 2))
        if cache is not None:
            k, v = cache.append(k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.out(y.transpose(1, 2).contiguous().view(b, t, d))

    def forward(self, x, cache=None):
        x = x + self.drop(self.attend(self.norm1(x), cache))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT2(nn.Module):
    def __init__(self, dropout=0.1):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS, dropout) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x, at=0, caches=None):
        place = torch.arange(at, at + x.shape[1], device=x.device)
        h = self.tokens(x) + self.places(place)
        for i, block in enumerate(self.blocks):
            h = block(h, caches[i] if caches else None)
        return self.head(self.norm(h))


class Training:
    def __init__(self, batch, seq, seed, device="cuda"):
        torch.manual_seed(seed)
        self.device = device
        self.model = GPT2().to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.x = torch.randint(0, VOCABULARY, (batch, seq), device=device)
        self.y = torch.randint(0, VOCABULARY, (batch, seq), device=device)

    def step(self):
        with torch.autocast(self.device, torch.bfloat16):
            logits = self.model(self.x)
            loss = F.cross_entropy(logits.view(-1, VOCABULARY), self.y.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.device == "cuda":
            torch.cuda.synchronize()
        return loss

    def steps(self, n):
        """Lengths in ns."""
        lengths = []
        for _ in range(n):
            began = time.monotonic_ns()
            self.step()
            lengths.append(time.monotonic_ns() - began)
        return lengths


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--seq", type=int, default=128)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--warmup", type=int, default=5)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    p.add_argument("--until-eof", action="store_true")
    p.add_argument("--tell", metavar="FILE")
    p.add_argument("--serve", action="store_true")
    job.add_common(p)
    args = p.parse_args()
    if not 1 <= args.seq <= CONTEXT or args.batch < 1 or args.steps < 1:
        p.error("--seq is 1 to %d, --batch and --steps at least 1" % CONTEXT)
    return args


# ---- ways to run ----

@contextlib.contextmanager
def under(way):
    """The profilers that tracing is compared with. Each keeps what it saw in memory."""
    if way == "none":
        yield
    elif way == "cProfile":
        import cProfile
        profile = cProfile.Profile()
        profile.enable()
        try:
            yield
        finally:
            profile.disable()
    elif way in ("torch.profiler", "torch.profiler-stacks"):
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        with torch.profiler.profile(activities=kinds, with_stack=way.endswith("-stacks")):
            yield
    else:
        raise ValueError("no way '%s'" % way)


def summary(lengths):
    ranked = sorted(lengths)
    return {"steps": len(lengths), "median_ms": statistics.median(lengths) / 1e6,
            "mean_ms": statistics.fmean(lengths) / 1e6, "fastest_ms": ranked[0] / 1e6,
            "p99_ms": ranked[len(ranked) * 99 // 100] / 1e6}


def serve(training):
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if not words:
            continue
        if words[0] == "quit":
            return
        if words[0] != "run" or not words[1:] or not words[1].isdigit():
            job.fail("cannot obey '%s'" % line.strip())
        with under(words[2] if len(words) > 2 else "none"):
            training.steps(SETTLE)
            start = job.now_ns()
            lengths = training.steps(int(words[1]))
            end = job.now_ns()
        print(json.dumps(dict(summary(lengths), window=[start, end], lengths_ns=lengths)),
              flush=True)


def until_eof(training, tell):
    ends, lengths = [], []
    while not select.select([sys.stdin], [], [], 0)[0]:
        began = time.monotonic_ns()
        training.step()
        ends.append(time.monotonic_ns())
        lengths.append(ends[-1] - began)
    if tell:
        with open(tell, "w") as f:
            f.writelines("%d %d\n" % row for row in zip(ends, lengths))
    return lengths


def main():
    args = arguments()
    training = Training(args.batch, args.seq, args.seed, args.device)
    for _ in range(args.warmup):
        training.step()
    print("warm", flush=True)
    if args.serve:
        serve(training)
        return
    if args.until_eof:
        lengths = until_eof(training, args.tell)
    elif args.device == "cpu":
        lengths = training.steps(args.steps)
    else:
        with job.measured(args.profile) as m:
            lengths = training.steps(args.steps)
        job.finish(args, m, steps=args.steps)
    if lengths:
        print("step_ms %.4f steps %d" % (statistics.median(lengths) / 1e6, len(lengths)))


if __name__ == "__main__":
    main()
