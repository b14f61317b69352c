#!/usr/bin/env python3
"""cpu_disk.py - trains the GPT of cpu_gpt.py on texts that lie scattered in a file on the disk and are
read past the page cache, as if the file were larger than memory: for about half of each step."""

import mmap
import os
import random

import torch

import cpu_gpt
import stepper

FILE_BYTES, BLOCK, READS = 32 << 20, 4096, 128  # reads a step


class Texts:
    def __init__(self, folder, seed):
        self.chance = random.Random(seed)
        path = os.path.join(folder, "texts.%d" % os.getpid())
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
        os.unlink(path)
        block = mmap.mmap(-1, 1 << 20)
        for at in range(0, FILE_BYTES, len(block)):
            block[:] = self.chance.randbytes(len(block))
            os.pwrite(self.fd, block, at)
        os.fsync(self.fd)
        self.block = mmap.mmap(-1, BLOCK)

    def batch(self, half):
        """The words of the last ones that are read; others were too short, as it were."""
        size = cpu_gpt.LENGTH + 1
        for _ in range(READS // 2 if half else READS):
            os.preadv(self.fd, [self.block], self.chance.randrange(FILE_BYTES // BLOCK) * BLOCK)
        texts = cpu_gpt.BATCH // 2 if half else cpu_gpt.BATCH
        x = torch.tensor(list(self.block[:texts * size])).view(texts, size)
        return x[:, :-1].contiguous(), x[:, 1:].contiguous()


def main():
    args = stepper.parser(__doc__).parse_args()
    torch.set_num_threads(args.threads)
    job = stepper.Job(args)
    training = cpu_gpt.Training(args.seed)
    training.batch = Texts(args.dir or ".", args.seed).batch
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
