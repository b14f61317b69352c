#!/usr/bin/env python3
"""loops.py - six loops whose steps are known, to find them without knowing: GPT-2 training
(`train`), with gradients accumulated over 4 batches (`accumulate`), a CNN with a data loader of 4
workers (`loader`), data-parallel training (`ddp`, one process a GPU), generation with a KV cache
(`generate`), and training with an evaluation every 20 steps (`evaluate`).

A step ends with the optimizer's, of generation with a token. --tell FILE gets one line of JSON for
each: its process, start and end in ns of CLOCK_MONOTONIC, its number, its phase ("train", "eval",
"token"). The steps are not synchronised with the GPU but where the loop itself would."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

KINDS = ("train", "accumulate", "loader", "ddp", "generate", "evaluate")


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("kind", choices=KINDS)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--until", metavar="FILE", help="train: no further step once it is there")
    p.add_argument("--world", type=int, default=2, help="ranks of ddp")
    p.add_argument("--tell", metavar="FILE", help="of ddp: of rank 0")
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    p.add_argument("--straggle", metavar="RANK:MS", help="ddp: this rank sleeps in every step")
    p.add_argument("--skip", metavar="RANK:STEP", help="ddp: this rank leaves out a collective")
    p.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    p.add_argument("--store", help=argparse.SUPPRESS)
    return p.parse_args()


class Steps:
    """Takes down when each step was."""

    def __init__(self, path):
        self.path, self.rows, self.began = path, [], None

    def begin(self):
        if self.path and self.began is None:
            open(self.path, "w").close()  # for those who wait until there are steps
        self.began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    def end(self, phase="train"):
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self.rows.append({"pid": os.getpid(), "step": len(self.rows), "phase": phase,
                          "start_ns": self.began, "end_ns": now})
        self.began = now

    def write(self):
        if not self.path:
            return
        with open(self.path, "w") as f:
            f.writelines(json.dumps(row) + "\n" for row in self.rows)


def language(device, world=1):
    """A small language model, its optimizer and data."""
    import gpt2
    torch.manual_seed(0)
    if device == "cuda":
        t = gpt2.Training(2, 128, 0)
        return t.model, t.optimizer, t.x, t.y, gpt2.VOCABULARY
    words, width = 512, 64
    body = [nn.Embedding(words, width)]
    for _ in range(3):
        body += [nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width)]
    model = nn.Sequential(*body, nn.Linear(width, words)).to(device)
    x = torch.randint(0, words, (2, 32), device=device)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4), x, x.clone(), words


def loss_of(model, x, y, words, device):
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        return F.cross_entropy(model(x).view(-1, words), y.view(-1))


def train(args, steps, accumulate=1, evaluate_every=0):
    model, optimizer, x, y, words = language(args.device)
    steps.begin()
    for i in range(args.steps):
        if args.until and os.path.exists(args.until):
            break
        for _ in range(accumulate):
            (loss_of(model, x, y, words, args.device) / accumulate).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        steps.end()
        if evaluate_every and i % evaluate_every == evaluate_every - 1:
            model.eval()
            with torch.no_grad():
                for _ in range(5):
                    float(loss_of(model, x, y, words, args.device))
            model.train()
            steps.end("eval")


class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.rand(3, 32, 32, generator=g), i % 10


def loader(args, steps):
    torch.manual_seed(0)
    body, width = [], 3
    for out in (32, 64, 64):
        body += [nn.Conv2d(width, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(),
                 nn.MaxPool2d(2)]
        width = out
    model = nn.Sequential(*body, nn.Flatten(), nn.Linear(64 * 16, 10)).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data = torch.utils.data.DataLoader(Pictures(), batch_size=64, num_workers=4, shuffle=True,
                                       pin_memory=args.device == "cuda")
    pictures = iter(data)
    steps.begin()
    for _ in range(args.steps):
        x, y = (t.to(args.device, non_blocking=True) for t in next(pictures))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        steps.end()


def generate(args, steps):
    if args.device == "cuda":
        import generate as generation
        import gpt2
        torch.manual_seed(0)
        model = gpt2.GPT2(dropout=0.0).to("cuda", torch.bfloat16).eval()
        prompt = torch.randint(0, gpt2.VOCABULARY, (1, 16), device="cuda")
        steps.begin()
        with torch.no_grad():
            generation.generate(model, prompt, args.steps, torch.bfloat16,
                                lambda: steps.end("token"))
        return
    torch.manual_seed(0)
    width = 64
    embed, qkv, out = nn.Embedding(512, width), nn.Linear(width, 3 * width), nn.Linear(width, 512)
    token, keys, values = torch.zeros(1, 1, dtype=torch.long), None, None
    steps.begin()
    with torch.no_grad():
        for _ in range(args.steps):
            q, k, v = qkv(embed(token)).split(width, 2)
            keys = k if keys is None else torch.cat([keys, k], 1)
            values = v if values is None else torch.cat([values, v], 1)
            h = F.softmax(q @ keys.transpose(1, 2) / 8, -1) @ values
            token = out(h[:, -1:]).argmax(-1)
            int(token)
            steps.end("token")


def rank_of_ddp(args, steps):
    import torch.distributed as dist
    cuda = args.device == "cuda"
    if cuda:
        torch.cuda.set_device(args.rank)
    dist.init_process_group("nccl" if cuda else "gloo", rank=args.rank, world_size=args.world,
                            store=dist.FileStore(args.store, args.world))
    model, _, x, y, words = language(args.device)
    model = nn.parallel.DistributedDataParallel(model,
                                                device_ids=[args.rank] if cuda else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    late = [int(v) for v in args.straggle.split(":")] if args.straggle else None
    skip = [int(v) for v in args.skip.split(":")] if args.skip else None
    mean = torch.zeros(1, device=args.device)
    steps.begin()
    for i in range(args.steps):
        if late and cuda:
            torch.cuda.synchronize()  # else what the devices have to do hides the sleep
        if late and late[0] == args.rank:
            time.sleep(late[1] / 1000)
        loss = loss_of(model, x, y, words, args.device)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        mean.copy_(loss.detach())
        if skip != [args.rank, i]:
            dist.all_reduce(mean)
        steps.end()
    if cuda:
        torch.cuda.synchronize()


def ddp(args, steps):
    if args.rank is not None:
        rank_of_ddp(args, steps)
        return
    with tempfile.TemporaryDirectory() as folder:
        common = [sys.executable, __file__, *sys.argv[1:], "--store",
                  os.path.join(folder, "store"), "--rank"]
        ranks = [subprocess.Popen(common + [str(r)]) for r in range(args.world)]
        codes = [p.wait() for p in ranks]
    if any(codes):
        sys.exit("ranks ended with %s" % codes)


def main():
    args = arguments()
    steps = Steps(args.tell if not args.rank else None)
    {"train": train, "accumulate": lambda a, s: train(a, s, accumulate=4), "loader": loader,
     "ddp": ddp, "generate": generate,
     "evaluate": lambda a, s: train(a, s, evaluate_every=20)}[args.kind](args, steps)
    if args.kind != "ddp" or args.rank == 0:
        steps.write()


if __name__ == "__main__":
    main()
