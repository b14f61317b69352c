#!/usr/bin/env python3
"""vit_compile.py - a small vision transformer of timm, compiled by torch.compile, is trained on
random pictures; every 300 steps an evaluation of 10 batches and a checkpoint. Compiling for both is
done before the job says that it is ready. The script is ours and is what its users write."""

import os

import outside

SIDE, BATCH, CLASSES, EVERY, HELD_OUT = 96, 32, 10, 300, 10
MODEL = "vit_tiny_patch16_224"
WARM = 8


class Training:
    def __init__(self, program, timm, torch):
        self.torch, self.device = torch, program.device
        self.model = timm.create_model(MODEL, img_size=SIDE, num_classes=CLASSES, depth=6).to(
            self.device)
        self.compiled = torch.compile(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.x = torch.randn(BATCH * 4, 3, SIDE, SIDE)
        self.y = torch.randint(0, CLASSES, (BATCH * 4,))

    def loss(self, number):
        at = number % 4 * BATCH
        x = self.x[at:at + BATCH].to(self.device)
        y = self.y[at:at + BATCH].to(self.device)
        with self.torch.autocast(self.device, self.torch.bfloat16):
            return self.torch.nn.functional.cross_entropy(self.compiled(x), y)

    def step(self, number):
        loss = self.loss(number)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def evaluate(self, number):
        self.model.eval()
        with self.torch.no_grad():
            loss = self.loss(number).item()
        self.model.train()
        return loss

    def save(self, path):
        self.torch.save({"model": self.model.state_dict(),
                         "optimizer": self.optimizer.state_dict()}, path)


def work(program, training):
    """As long as it is told to."""
    job, number = program.job, 0
    path = os.path.join(program.scratch, "last.pt")
    while job.goes_on():
        if job.evaluating:
            training.evaluate(number)
            job.ended("eval")
            continue
        training.step(number)
        number += 1
        job.ended()
        if number % EVERY == 0:
            for i in range(HELD_OUT):
                training.evaluate(i)
                job.ended("eval")
            training.save(path)
            job.ended("save")


def main():
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no processes beside the job
    program = outside.Program(__doc__, packages=("timm", "torchvision"))
    import timm
    import torch
    if not hasattr(torch, "compile"):
        program.cannot("this PyTorch has no torch.compile")
    with program.running():
        training = Training(program, timm, torch)
        for i in range(WARM):
            training.step(i)
            training.evaluate(i)
        training.save(os.path.join(program.scratch, "last.pt"))
        program.job.begin(training.model, program.device)
        work(program, training)


if __name__ == "__main__":
    main()
