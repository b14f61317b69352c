#!/usr/bin/env python3
"""gpt2.py - trains GPT-2 124M from scratch on random tokens on one GPU: the loop of
tests/gpu/jobs/gpt2.py, 8 texts of 512 tokens a step: host and device are busy alike on an H200, so
that it feels what either of them lacks."""

import stepper

BATCH, LENGTH = 8, 512


def evaluate(torch, training, gpt2):
    training.model.eval()
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        logits = training.model(training.x)
        loss = torch.nn.functional.cross_entropy(logits.view(-1, gpt2.VOCABULARY),
                                                 training.y.view(-1))
    training.model.train()
    return loss.item()


def main():
    args = stepper.parser(__doc__).parse_args()
    stepper.need_gpu()
    import torch
    gpt2 = stepper.gpu_job("gpt2")
    job = stepper.Job(args)
    training = gpt2.Training(BATCH, LENGTH, args.seed)
    x, y = training.x, training.y
    job.begin(training.model, "cuda")
    while job.goes_on():
        n = BATCH // 2 if job.half else BATCH
        training.x, training.y = x[:n], y[:n]
        if job.evaluating:
            evaluate(torch, training, gpt2)
            job.ended("eval")
        else:
            training.step()
            job.ended()


if __name__ == "__main__":
    main()
