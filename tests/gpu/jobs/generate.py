#!/usr/bin/env python3
"""generate.py - generates text with a random GPT-2 and a cache of keys and values: a token at
a time, hence many small kernels and one small copy to the host for each token."""

import argparse
import statistics
import time

import torch

import gpt2
import job


class Cache:
    """Keys and values of one layer, with room for every token to come."""

    def __init__(self, batch, room, device, dtype):
        shape = batch, gpt2.HEADS, room, gpt2.WIDTH // gpt2.HEADS
        self.k = torch.zeros(shape, device=device, dtype=dtype)
        self.v = torch.zeros(shape, device=device, dtype=dtype)
        self.filled = 0

    def append(self, k, v):
        end = self.filled + k.shape[2]
        self.k[:, :, self.filled:end] = k
        self.v[:, :, self.filled:end] = v
        self.filled = end
        return self.k[:, :, :end], self.v[:, :, :end]


def generate(model, prompt, tokens, dtype, each=lambda: None):
    """The tokens and how long each took; calls each() after every one."""
    room = prompt.shape[1] + tokens
    caches = [Cache(prompt.shape[0], room, prompt.device, dtype) for _ in range(gpt2.LAYERS)]
    made, lengths = [], []
    x, at = prompt, 0
    for _ in range(tokens):
        began = time.monotonic_ns()
        logits = model(x, at, caches)[:, -1]
        at += x.shape[1]
        x = torch.multinomial(torch.softmax(logits.float() / 0.8, -1), 1)
        made.append(x[0, 0].item())
        lengths.append(time.monotonic_ns() - began)
        each()
    return made, lengths


class Generation:
    """Tokens by the number, for gpt2.serve()."""

    def __init__(self, model, prompt, dtype):
        self.model, self.prompt, self.dtype = model, prompt, dtype
        self.device = prompt.device.type

    def steps(self, n):
        """Lengths in ns."""
        lengths, most = [], gpt2.CONTEXT - self.prompt.shape[1]
        while n > len(lengths):
            tokens = min(n - len(lengths), most)
            lengths += generate(self.model, self.prompt, tokens, self.dtype)[1]
        return lengths


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--prompt", type=int, default=16, help="tokens of the prompt")
    p.add_argument("--tokens", type=int, default=64, help="tokens to generate")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    p.add_argument("--serve", action="store_true", help="as gpt2.py: `run N` makes N tokens")
    p.add_argument("--seq", type=int, dest="prompt", default=argparse.SUPPRESS,
                   help=argparse.SUPPRESS)
    p.add_argument("--warmup", type=int, default=4, help=argparse.SUPPRESS)
    job.add_common(p)
    args = p.parse_args()
    if args.prompt + args.tokens > gpt2.CONTEXT:
        p.error("prompt and tokens together are at most %d" % gpt2.CONTEXT)
    return args


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    dtype = torch.bfloat16
    model = gpt2.GPT2(dropout=0.0).to(args.device, dtype).eval()
    prompt = torch.randint(0, gpt2.VOCABULARY, (args.batch, args.prompt), device=args.device)
    with torch.no_grad():
        generate(model, prompt, args.warmup, dtype)
        if args.serve:
            print("warm", flush=True)
            gpt2.serve(Generation(model, prompt, dtype))
            return
        if args.device == "cpu":
            lengths = generate(model, prompt, args.tokens, dtype)[1]
        else:
            with job.measured(args.profile) as m:
                lengths = generate(model, prompt, args.tokens, dtype)[1]
            job.finish(args, m, steps=args.tokens)
    print("step_ms %.4f steps %d" % (statistics.median(lengths) / 1e6, len(lengths)))


if __name__ == "__main__":
    main()
