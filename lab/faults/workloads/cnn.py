#!/usr/bin/env python3
"""cnn.py - trains the residual network of tests/gpu/jobs/cnn.py on one GPU, on pictures that four
worker processes read from files, through pinned memory, and that the GPU makes larger: so loader,
host and device are busy alike."""

import shutil
import tempfile

import pictures
import stepper

SIDE, GROWN, BATCH, FILES, WORKERS = 128, 256, 64, 512, 4


def train(job, folder):
    import torch
    import torch.nn.functional as F
    torch.manual_seed(job.args.seed)
    model = stepper.gpu_job("cnn").network().to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batches = pictures.batches(job, folder, SIDE, BATCH, FILES, WORKERS, pin=True)
    next(batches)

    def loss_of(x, y):
        with torch.autocast("cuda", torch.bfloat16):
            return F.cross_entropy(model(F.interpolate(x, size=GROWN, mode="bilinear")), y)

    job.begin(model, "cuda")
    while job.goes_on():
        x, y = (t.to("cuda", non_blocking=True) for t in next(batches))
        if job.half:
            x, y = x[:BATCH // 2], y[:BATCH // 2]
        if job.evaluating:
            model.eval()
            with torch.no_grad():
                loss_of(x, y).item()
            model.train()
            job.ended("eval")
            continue
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        job.ended()


def main():
    args = stepper.parser(__doc__).parse_args()
    stepper.need_gpu()
    folder = tempfile.mkdtemp(prefix="pictures-", dir=args.dir)
    try:
        train(stepper.Job(args), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
