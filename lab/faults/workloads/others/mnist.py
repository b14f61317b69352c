#!/usr/bin/env python3
"""mnist.py - mnist of PyTorch's examples: its CNN on pictures made here, in files as MNIST has them.
After each epoch of 200 batches it evaluates 20."""

import os
import random
import struct

import outside

BATCH, SIDE = 16, 28
PARTS = {"train": 200 * BATCH, "t10k": 20 * BATCH}


def make_data(folder, chance):
    os.makedirs(folder)
    for part, count in PARTS.items():
        with open(os.path.join(folder, part + "-images-idx3-ubyte"), "wb") as f:
            f.write(struct.pack(">IIII", 0x803, count, SIDE, SIDE))
            f.write(chance.randbytes(count * SIDE * SIDE))
        with open(os.path.join(folder, part + "-labels-idx1-ubyte"), "wb") as f:
            f.write(struct.pack(">II", 0x801, count))
            f.write(bytes(chance.randrange(10) for _ in range(count)))


def main():
    program = outside.Program(__doc__, "examples")
    make_data(os.path.join(program.scratch, "data", "MNIST", "raw"), random.Random(program.seed))
    program.enter("mnist")
    import torch.nn.functional as F

    def phase(*_, reduction="mean", **__):
        return "eval" if reduction == "sum" else None  # of its evaluation alone

    def trained(optimizer, *_):
        program.model = program.model or outside.parameters(optimizer)
        return "train"
    program.after(F, "nll_loss", phase)
    program.after_optimizers(trained)
    script, work = os.path.join(os.getcwd(), "main.py"), os.path.join(program.scratch, "work")
    os.mkdir(work)
    os.chdir(work)  # it looks for ../data
    program.run(script, "--batch-size", BATCH, "--test-batch-size", BATCH, "--epochs", 10**6,
                "--gamma", 1, "--lr", 0.01, "--log-interval", 50, "--seed", program.seed)


if __name__ == "__main__":
    main()
