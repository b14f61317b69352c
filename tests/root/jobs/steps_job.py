#!/usr/bin/env python3
"""steps_job.py - loops that are less regular than those of tests/gpu/jobs/loops.py, and programs
without one. One line of JSON a step goes to --tell FILE: phase, start_ns, end_ns (CLOCK_MONOTONIC);
nothing for programs without steps."""

import argparse
import json
import os
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

KINDS = {}


def kind(fn):
    KINDS[fn.__name__] = fn
    return fn


class Steps:
    def __init__(self):
        self.rows, self.began = [], None

    def begin(self):
        self.began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    def end(self, phase="train"):
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self.rows.append({"pid": os.getpid(), "phase": phase, "start_ns": self.began,
                          "end_ns": now})
        self.began = now


def network(inputs=32, outputs=10, depth=3):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(inputs, 64), nn.ReLU()]
        inputs = 64
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def batch():
    return torch.randn(16, 32), torch.randint(0, 10, (16,))


@kind
def logged(n, steps):
    """Gradients are cut, the rate is scheduled, the loss is read every 10 steps."""
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    steps.begin()
    for i in range(n):
        x, y = batch()
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if i % 10 == 9:
            loss.item()
        steps.end()


@kind
def gan(n, steps):
    """Two networks with an optimizer each: a turn of both is a step."""
    g, d = network(32, 32, 2), network(32, 1, 3)
    g_opt, d_opt = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
    one, zero = torch.ones(16, 1), torch.zeros(16, 1)
    steps.begin()
    for _ in range(n):
        real, noise = torch.randn(16, 32), torch.randn(16, 32)
        d_opt.zero_grad()
        fake = g(noise)
        loss = (F.binary_cross_entropy_with_logits(d(real), one) +
                F.binary_cross_entropy_with_logits(d(fake.detach()), zero))
        loss.backward()
        d_opt.step()
        g_opt.zero_grad()
        F.binary_cross_entropy_with_logits(d(fake), one).backward()
        g_opt.step()
        steps.end()


@kind
def alternate(n, steps):
    """Two kinds of batches take turns, one optimizer: each is a step."""
    net, other = network(), nn.Sequential(nn.Linear(32, 8), nn.Tanh(), nn.LayerNorm(8))
    optimizer = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1)
    steps.begin()
    for i in range(n):
        x, y = batch()
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(net(x), y) if i % 2 else other(x).square().mean()
        loss.backward()
        optimizer.step()
        steps.end()


@kind
def slow(n, steps):
    """Step 20 waits 100 ms before its loss, step 30 has one much larger product."""
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    steps.begin()
    for i in range(n):
        x, y = batch()
        logits = net(x)
        if i == 20:
            time.sleep(0.1)
        loss = F.cross_entropy(logits, y)
        w = torch.ones(500 if i == 30 else 10, 1500)
        torch.mm(w, w.t())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        steps.end()


@kind
def tested(n, steps):
    """Training, then a test of more batches than there were steps."""
    net = network()
    optimizer = torch.optim.Adam(net.parameters())
    steps.begin()
    for _ in range(n):
        x, y = batch()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        steps.end()
    with torch.no_grad():
        for _ in range(2 * n):
            x, y = batch()
            (net(x).argmax(1) == y).sum().item()
            steps.end("eval")


@kind
def infer(n, steps):
    """Batches of changing size."""
    net = network(depth=6).eval()
    steps.begin()
    with torch.no_grad():
        for i in range(n):
            x = torch.randn(1 + i * 7 % 16, 32)
            F.softmax(net(x), -1).argmax(-1).tolist()
            steps.end("infer")


@kind
def requests(n, steps):
    """Requests of a prompt and a changing number of tokens each: the tokens are the steps."""
    chance = random.Random(1)
    embed, body, head = nn.Embedding(100, 32), network(32, 32, 4), nn.Linear(32, 100)
    with torch.no_grad():
        while len(steps.rows) < n:
            steps.begin()
            token = torch.randint(0, 100, (1, 8))
            for _ in range(chance.randint(5, 12)):
                token = head(body(embed(token))[:, -1:]).argmax(-1)
                token.item()
                steps.end("infer")


@kind
def single(n, steps):
    """One operation a step."""
    x, w = torch.randn(64, 64), torch.eye(64)
    steps.begin()
    for _ in range(n):
        x = torch.mm(x, w)
        steps.end("infer")


@kind
def none(n, steps):
    """Operations in no order."""
    chance = random.Random(7)
    x = torch.rand(8, 8)
    ops = [torch.sin, torch.exp, torch.relu, torch.tanh, torch.abs, torch.sigmoid, torch.neg,
           lambda v: torch.mm(v, v), lambda v: torch.softmax(v, 0), lambda v: v.sum(0, True) + v,
           torch.sqrt, torch.floor, torch.cos, lambda v: torch.cumsum(v, 0)]
    for _ in range(20 * n):
        chance.choice(ops)(x)


@kind
def setup(n, steps):
    """Makes a large model and does nothing with it."""
    nn.Sequential(*[nn.Linear(32, 32) for _ in range(n)])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("kind", choices=sorted(KINDS))
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--tell", metavar="FILE")
    args = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    steps = Steps()
    KINDS[args.kind](args.steps, steps)
    if args.tell:
        with open(args.tell, "w") as f:
            f.writelines(json.dumps(row) + "\n" for row in steps.rows)


if __name__ == "__main__":
    main()
