"""flops_job.py - small models whose floating-point operations are worked out beside them.

usage: flops_job.py block|cnn|operators

Prints one JSON object: "flop", the operations of all matrix products and convolutions, from the
models' sizes, and "shapes", for operators, how each call has to be shown.
"""
import json
import sys

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
torch.set_num_threads(1)


class Block(nn.Module):
    """A transformer block as GPT-2 has it, attention written out."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for y in self.qkv(self.norm(x)).split(c, dim=2))
        scores = q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5
        mask = torch.ones(t, t, dtype=torch.bool).tril()
        scores = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        x = x + self.project((scores @ v).transpose(1, 2).reshape(b, t, c))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


def block(batch=2, length=24, width=32, heads=4, layers=3, words=57, steps=2):
    embed, head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
    model = nn.Sequential(embed, *(Block(width, heads) for _ in range(layers)), head)
    tokens = torch.randint(words, (batch, length))
    for _ in range(steps):
        functional.cross_entropy(model(tokens).view(-1, words), tokens.view(-1)).backward()
    linear = 2 * batch * length * width * (3 * width + width + 4 * width + 4 * width)
    attention = 2 * (2 * batch * length * length * width)
    forward = layers * (linear + attention) + 2 * batch * length * width * words
    return {"flop": steps * 3 * forward}


def cnn(batch=3, side=16):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(),                        # 16 x 16
        nn.Conv2d(8, 16, 5, stride=2, padding=2, groups=2), nn.ReLU(),   # 8 x 8
        nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.ReLU(),           # 8 x 8
        nn.Conv2d(16, 24, 3, padding=2, dilation=2), nn.ReLU(),          # 8 x 8
        nn.ConvTranspose2d(24, 6, 2, stride=2), nn.Flatten(),            # 16 x 16
        nn.Linear(6 * 16 * 16, 10))
    model(torch.randn(batch, 3, side, side)).sum().backward()
    first = 2 * batch * (16 * 16 * 8) * (3 * 3 * 3)
    rest = 2 * batch * (8 * 8 * 16) * (4 * 5 * 5)
    rest += 2 * batch * (8 * 8 * 16) * (1 * 3 * 3)
    rest += 2 * batch * (8 * 8 * 24) * (16 * 3 * 3)
    rest += 2 * batch * (8 * 8 * 24) * (6 * 2 * 2)  # transposed: each input meets all of this
    rest += 2 * batch * (6 * 16 * 16) * 10
    return {"flop": 2 * first + 3 * rest}  # nobody asks for the image's gradient


def operators():
    r = torch.randn
    with torch.no_grad():
        torch.mm(r(3, 5), r(5, 7))
        torch.bmm(r(2, 3, 5), r(2, 5, 7))
        torch.addmm(r(7), r(3, 5), r(5, 7))
        torch.baddbmm(r(2, 3, 7), r(2, 3, 5), r(2, 5, 7))
        torch.mm(r(3, 5), r(5, 7), out=torch.empty(3, 7))
        r(3, 7).addmm_(r(3, 5), r(5, 7))
        torch.mv(r(3, 5), r(5))
        torch.dot(r(5), r(5))
        torch.mm(r(3, 5).double(), r(5, 7).double())
        torch.mm(r(3, 5).to(torch.complex64), r(5, 7).to(torch.complex64))
        torch.mm(r(0, 5), r(5, 7))
        torch.mm(r(5, 3).t(), r(7, 5).t())
        functional.conv1d(r(2, 4, 50), r(6, 4, 3))
        functional.conv3d(r(1, 2, 5, 6, 7), r(3, 2, 2, 3, 4))
    one = 2 * 3 * 5 * 7
    flop = one * (1 + 2 + 1 + 2 + 1 + 1 + 1 + 4 + 0 + 1) + 2 * 3 * 5 + 2 * 5
    flop += 2 * (2 * 6 * 48) * (4 * 3) + 2 * (3 * 4 * 4 * 4) * (2 * 2 * 3 * 4)
    a, b = [3, 5], [5, 7]
    shapes = {
        "aten::mm": [[a, b, "float32"]] * 3 + [[a, b, "float64"], [a, b, "complex64"],
                                               [[0, 5], b, "float32"]],
        "aten::bmm": [[[2, 3, 5], [2, 5, 7], "float32"]],
        "aten::addmm": [[a, b, "float32"]],
        "aten::baddbmm": [[[2, 3, 5], [2, 5, 7], "float32"]],
        "aten::addmm_": [[a, b, "float32"]],
        "aten::mv": [[a, [5], "float32"]],
        "aten::dot": [[[5], [5], "float32"]],
    }
    return {"flop": flop, "shapes": shapes}


print(json.dumps({"block": block, "cnn": cnn, "operators": operators}[sys.argv[1]]()))
