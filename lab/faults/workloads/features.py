#!/usr/bin/env python3
"""features.py - trains a perceptron on one GPU on batches that are large and come from the host:
most of each lies in pinned memory, a quarter in pageable memory, which the driver copies through
buffers of its own. So a step is as fast as the way to the GPU."""

import stepper

ROWS, PINNED, PAGEABLE, WIDTH, BATCHES = 16384, 3072, 1024, 1024, 2


def main():
    args = stepper.parser(__doc__).parse_args()
    stepper.need_gpu()
    import torch
    import torch.nn.functional as F
    from torch import nn
    job = stepper.Job(args)
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(PINNED + PAGEABLE, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH),
                          nn.ReLU(), nn.Linear(WIDTH, 10)).to("cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    pinned = [torch.randn(ROWS, PINNED).pin_memory() for _ in range(BATCHES)]
    pageable = [torch.randn(ROWS, PAGEABLE) for _ in range(BATCHES)]
    y = torch.randint(0, 10, (ROWS,), device="cuda")

    def loss_of(n):
        i = job.count % BATCHES
        a, b = pinned[i][:n].to("cuda", non_blocking=True), pageable[i][:n].to("cuda")
        with torch.autocast("cuda", torch.bfloat16):
            return F.cross_entropy(model(torch.cat([a, b], 1)), y[:n])

    job.begin(model, "cuda")
    while job.goes_on():
        n = ROWS // 2 if job.half else ROWS
        if job.evaluating:
            with torch.no_grad():
                loss_of(n).item()
            job.ended("eval")
            continue
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(n)
        loss.backward()
        optimizer.step()
        loss.item()
        job.ended()


if __name__ == "__main__":
    main()
