#!/usr/bin/env python3
"""cpu_gpt.py - trains a small GPT on the CPU: 3 blocks of width 48, 16 random tokens of 4 texts a
step, AdamW with gradient clipping. For machines without a GPU; PyTorch 1.13 with a plain BLAS is
enough."""

import torch
import torch.nn.functional as F
from torch import nn

import stepper

WORDS, WIDTH, HEADS, BLOCKS, LENGTH, BATCH = 256, 48, 4, 3, 16, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.act, self.down = (nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                        nn.Linear(4 * WIDTH, WIDTH))

    def attend(self, x):
        b, t, d = x.shape
        q, k, v = (part.view(b, t, HEADS, d // HEADS).transpose(1, 2)
                   for part in self.qkv(x).split(d, 2))
        later = torch.ones(t, t, dtype=torch.bool).triu(1)
        weights = (q @ k.transpose(2, 3) / (d // HEADS) ** 0.5).masked_fill(later, float("-inf"))
        return self.out((weights.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(self.act(self.up(self.norm2(x))))


def language_model():
    return nn.Sequential(nn.Embedding(WORDS, WIDTH), *[Block() for _ in range(BLOCKS)],
                         nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS))


def loss_of(model, x, y):
    return F.cross_entropy(model(x).view(-1, WORDS), y.view(-1))


class Training:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.model = language_model()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    @staticmethod
    def batch(half):
        x = torch.randint(0, WORDS, (BATCH // 2 if half else BATCH, LENGTH + 1))
        return x[:, :-1].contiguous(), x[:, 1:].contiguous()

    def step(self, half=False):
        loss = loss_of(self.model, *self.batch(half))
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()

    def evaluate(self, half=False):
        self.model.eval()
        with torch.no_grad():
            loss = loss_of(self.model, *self.batch(half)).item()
        self.model.train()
        return loss


def main():
    args = stepper.parser(__doc__).parse_args()
    torch.set_num_threads(args.threads)
    job = stepper.Job(args)
    training = Training(args.seed)
    job.begin(training.model, "cpu")
    while job.goes_on():
        if job.evaluating:
            training.evaluate(job.half)
            job.ended("eval")
        else:
            training.step(job.half)
            job.ended()


if __name__ == "__main__":
    main()
