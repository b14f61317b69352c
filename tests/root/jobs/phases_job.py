#!/usr/bin/env python3
"""phases_job.py - loops that log what each of their phases took: the truth that `eacgm report` is
compared with. Six of training, whose data comes from two or eight worker processes (`workers`,
`eight`), from the loop's own process (`main`), through a thread that copies batches, as pinning
does (`pinned`), four batches for an update (`accumulate`), and with evaluations between
(`evaluate`); and one that generates tokens (`generate`).

A sample takes 2 ms, where a thread is between 16. --tell FILE gets one line of JSON for each step:
pid, kind ("train", "eval", "token"), start_ns and end_ns of CLOCK_MONOTONIC, phases_ns of load,
forward, backward, optimizer and other, and ends: each phase's name and when it ended, in order.
Steps follow each other without a gap."""

import argparse
import json
import os
import queue
import threading
import time

import torch
import torch.nn.functional as F
from torch import nn

KINDS = {}
WIDTH, BATCH, SAMPLE_S = 384, 16, 0.002


def kind(fn):
    KINDS[fn.__name__] = fn
    return fn


class Log:
    """Times of phases: each lasts from the end of the one before it."""

    def __init__(self):
        self.rows, self.at = [], time.perf_counter_ns()
        self.begin()

    def begin(self):
        self.start, self.phases, self.ends = time.perf_counter_ns(), {}, []
        self.at = self.start

    def phase(self, name):
        now = time.perf_counter_ns()
        self.phases[name] = self.phases.get(name, 0) + now - self.at
        self.ends.append((name, now))
        self.at = now

    def end(self, what="train"):
        self.rows.append({"pid": os.getpid(), "kind": what, "start_ns": self.start,
                          "end_ns": self.at, "phases_ns": self.phases, "ends": self.ends})
        self.start, self.phases, self.ends = self.at, {}, []


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Samples(torch.utils.data.Dataset):
    """How long a sample takes depends on its number: 1 to 3 ms, so waits alternate."""

    def __init__(self, n, wait, times):
        self.n, self.wait, self.times = n, wait, times

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        self.wait(self.times * SAMPLE_S * (0.5 + i // BATCH % 5 / 4))
        return torch.full((WIDTH,), i / self.n), i % 10


def loader(n, workers, wait=time.sleep, times=1):
    return torch.utils.data.DataLoader(Samples(n * BATCH, wait, times), batch_size=BATCH,
                                       num_workers=workers)


class Training:
    def __init__(self, optimizer=torch.optim.AdamW):
        layers = []
        for _ in range(3):
            layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
        self.model = nn.Sequential(*layers, nn.Linear(WIDTH, 10))
        self.optimizer = optimizer(self.model.parameters(), lr=1e-4)

    def forward(self, x, y):
        return F.cross_entropy(self.model(x), y)


def train(t, batches, log, after=lambda loss: None):
    """An epoch, with gradients reset behind the update."""
    for x, y in batches:
        log.phase("load")
        loss = t.forward(x, y)
        log.phase("forward")
        loss.backward()
        log.phase("backward")
        t.optimizer.step()
        t.optimizer.zero_grad()
        log.phase("optimizer")
        after(loss)
        log.phase("other")
        log.end()


@kind
def workers(n, log):
    """Two loader processes."""
    t = Training()
    data = loader(n, 2)
    log.begin()
    train(t, data, log)


@kind
def eight(n, log):
    """Eight loader processes keep up but for some batches; a log takes 3 ms behind each step."""
    t = Training()
    data = loader(n, 8)
    log.begin()
    train(t, data, log, lambda loss: spin(0.003) if loss.item() else None)


@kind
def main(n, log):
    """Samples are computed in the loop's own process; gradients are reset in front of forward."""
    t = Training(torch.optim.SGD)
    data = loader(n, 0, spin)
    log.begin()
    for x, y in data:
        log.phase("load")
        t.optimizer.zero_grad()
        log.phase("optimizer")
        loss = t.forward(x, y)
        log.phase("forward")
        loss.backward()
        log.phase("backward")
        t.optimizer.step()
        log.phase("optimizer")
        log.end()


def copied(batches):
    """Another thread takes batches from the workers and copies them."""
    ready = queue.Queue(2)

    def carry():
        for x, y in batches:
            ready.put((x.clone(), y.clone()))
        ready.put(None)

    threading.Thread(target=carry, daemon=True).start()
    while (batch := ready.get()) is not None:
        yield batch


@kind
def pinned(n, log):
    """Four loader processes, and a thread between."""
    t = Training()
    data = loader(n, 4, times=8)
    log.begin()
    train(t, copied(data), log)


@kind
def accumulate(n, log):
    """Four batches make an update, each from two loader processes."""
    t = Training()
    data = loader(4 * n, 2)
    log.begin()
    for i, (x, y) in enumerate(data):
        log.phase("load")
        loss = t.forward(x, y) / 4
        log.phase("forward")
        loss.backward()
        log.phase("backward")
        if i % 4 == 3:
            t.optimizer.step()
            t.optimizer.zero_grad()
            log.phase("optimizer")
            log.end()


@kind
def evaluate(n, log):
    """Epochs of ten steps, and an evaluation of five batches behind each."""
    t = Training()
    data, test = loader(10, 2), loader(5, 2)
    log.begin()
    for _ in range(n // 10):
        train(t, data, log)
        t.model.eval()
        with torch.no_grad():
            for x, y in test:
                log.phase("load")
                (t.model(x).argmax(1) == y).sum().item()
                log.phase("forward")
                log.end("eval")
        t.model.train()


class Projection(nn.Module):
    """As Conv1D of transformers."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x):
        flat = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return flat.view(*x.shape[:-1], -1)


class Block(nn.Module):
    def __init__(self, width, heads=4, longest=1024):
        super().__init__()
        self.heads = heads
        self.register_buffer("mask", torch.tril(torch.ones(longest, longest, dtype=torch.bool)))
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = Projection(width, 3 * width), Projection(width, width)
        self.up, self.down = Projection(width, 4 * width), Projection(4 * width, width)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).permute(0, 2, 1, 3)

    def attention(self, x, cache):
        q, k, v = (self.split(part) for part in self.qkv(x).split(x.size(-1), 2))
        if cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        scores = q @ k.transpose(-1, -2)
        scores = scores / torch.full([], v.size(-1) ** 0.5)
        mask = self.mask[k.size(2) - q.size(2):k.size(2), :k.size(2)]
        scores = torch.where(mask, scores, torch.full([], torch.finfo(scores.dtype).min))
        mixed = (F.softmax(scores, -1) @ v).permute(0, 2, 1, 3).contiguous()
        return self.out(mixed.view(*x.shape)), (k, v)

    def forward(self, h, cache):
        mixed, kept = self.attention(self.norm(h), cache)
        h = h + mixed
        x = self.up(self.norm2(h))
        x = 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.044715 * torch.pow(x, 3))))
        return h + self.down(x), kept


class Language(nn.Module):
    def __init__(self, words=2000, width=64, depth=12):
        super().__init__()
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(1024, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens, cache):
        past = cache[0][0].size(2) if cache else 0
        place = torch.arange(past, past + tokens.size(1)).unsqueeze(0)
        h, kept = self.embed(tokens) + self.place(place), []
        for block, old in zip(self.blocks, cache or [None] * len(self.blocks)):
            h, new = block(h, old)
            kept.append(new)
        return self.head(self.norm(h))[:, -1], kept


def choose(logits, seen):
    """As generate() of transformers: processors of logits, then a choice."""
    score = torch.gather(logits, 1, seen)
    logits = logits.scatter(1, seen, torch.where(score < 0, score * 1.1, score / 1.1))
    logits = logits / 0.8
    low = torch.topk(logits, 50)[0][:, -1:]
    logits = logits.masked_fill(logits < low, -float("inf"))
    values, order = torch.sort(logits)
    remove = values.softmax(-1).cumsum(-1) <= 0.05
    logits = logits.masked_fill(remove.scatter(1, order, remove), -float("inf"))
    return torch.multinomial(F.softmax(logits, -1), 1)


@kind
def generate(n, log):
    """A prompt of 64 tokens, then n more, each by a forward pass and a choice of its own."""
    model = Language().eval()
    tokens, cache = torch.randint(0, 2000, (1, 64)), None
    log.begin()
    with torch.no_grad():
        for i in range(n):
            logits, cache = model(tokens[:, -1:] if cache else tokens, cache)
            log.phase("forward")
            tokens = torch.cat([tokens, choose(logits, tokens)], 1)
            if tokens[:, -1].eq(2001).min():
                break
            log.phase("other")
            log.end("token")


def run():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("kind", choices=sorted(KINDS))
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--tell", metavar="FILE")
    args = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    log = Log()
    KINDS[args.kind](args.steps, log)
    if args.tell:
        with open(args.tell, "w") as f:
            f.writelines(json.dumps(row) + "\n" for row in log.rows)


if __name__ == "__main__":
    run()
