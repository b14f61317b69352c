"""torch_job.py - a PyTorch run whose operator calls are known: torch_job.py WHAT [PROFILE].

WHAT: "all", "first" (one operator call), "none" (imports only), "errors" (a thousand
operators that raise). With PROFILE, a file's path, torch.profiler watches and its counts
are written there as JSON. Prints what it made itself as JSON.
"""

import collections
import json
import sys

import torch

torch.set_num_threads(1)


def scripted():
    """Returns what was called directly: operators that the script names one by one."""
    made = collections.Counter()
    a, b = torch.ones(8, 8), torch.full((8, 8), 2.0)
    for _i in range(7):
        torch.add(a, b)
    for _i in range(5):
        torch.mm(a, b)
    for _i in range(11):
        torch.tanh(a)
    for _i in range(3):
        torch.cat([a, b])
    for _i in range(4):
        a.mul_(1.0)
    made.update({"aten::ones": 1, "aten::mm": 5, "aten::tanh": 11, "aten::cat": 3,
                 "aten::mul_": 4, "aten::full": 1})
    return made


def training():
    """Three steps of a small model; returns the autograd nodes that it must run."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(32, 8), torch.randint(0, 4, (32,))
    for _i in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return {"AddmmBackward0": 6, "ReluBackward0": 3, "TBackward0": 6, "NllLossBackward0": 3,
            "LogSoftmaxBackward0": 3, "AccumulateGrad": 12}


def wider():
    """More operators, so that the comparison with the profiler is a broad one."""
    x = torch.randn(4, 3, 16, 16, requires_grad=True)
    conv = torch.nn.Conv2d(3, 6, 3, padding=1)
    norm = torch.nn.BatchNorm2d(6)
    out = torch.nn.functional.max_pool2d(norm(conv(x)).relu(), 2)
    out.mean().backward()
    emb = torch.nn.Embedding(20, 12)
    layer = torch.nn.TransformerEncoderLayer(12, 3, 24, dropout=0.1)
    h = layer(emb(torch.arange(10).reshape(5, 2)))
    torch.nn.functional.layer_norm(h, (12,)).sum().backward()
    lstm = torch.nn.LSTM(12, 7)
    lstm(h.detach())[0].sum().backward()
    t = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    t[:, 1:, ::2].transpose(0, 1).contiguous().to(torch.float64).sort()
    torch.einsum("bij,bkj->bik", t, t).softmax(-1).topk(2)
    torch.linalg.svd(torch.eye(4) + 0.1)
    (t > 3).nonzero().tolist()


def errors():
    a, b = torch.ones(2, 3), torch.ones(4, 5)
    caught = 0
    for i in range(1000):
        try:
            if i % 2:
                torch.mm(a, b)
            else:
                torch.nn.functional.linear(a, b)
        except RuntimeError:
            caught += 1
    print(json.dumps({"caught": caught, "sum": float(torch.mm(a, a.t()).sum())}))


def run(what):
    if what == "first":
        torch.tanh(torch.zeros(3))
    if what == "errors":
        errors()
    if what == "all":
        made = {"operators": dict(scripted()), "nodes": training()}
        wider()
        print(json.dumps(made))


def main():
    what = sys.argv[1]
    if len(sys.argv) < 3:
        run(what)
        return
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        run(what)
    # prof.events() leaves out an operator that alone is called by one of the same name.
    raw = prof.profiler.kineto_results.events()
    counts = collections.Counter(e.name() for e in raw)
    with open(sys.argv[2], "w") as f:
        json.dump(counts, f)


main()
