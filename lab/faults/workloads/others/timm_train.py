#!/usr/bin/env python3
"""timm_train.py - timm's own training script: a small MobileNet on pictures that two workers decode
and crop. After each epoch of 120 batches it evaluates 8 and saves. With --torchscript, an option of
its own, the model is compiled, and the first steps are slow."""

import random

import jpegs
import outside

BATCH, WORKERS, SIDE = 8, 2, 64
OPTIONS = {"model": "mobilenetv3_small_050", "num-classes": 4, "img-size": SIDE, "epochs": 10**6,
           "batch-size": BATCH, "workers": WORKERS, "opt": "adamw", "lr": 1e-4, "sched": "step",
           "checkpoint-hist": 2, "log-interval": 50, "experiment": "run",
           "device": "cpu"}


def main():
    program = outside.Program(__doc__, "timm")
    jpegs.folders(program.scratch, {"train": 120 * BATCH, "validation": 8 * BATCH}, 96,
                  random.Random(program.seed))
    program.enter()
    from torch.optim import optimizer
    if not hasattr(optimizer, "required"):  # which timm imports, and newer PyTorch has no use for
        optimizer.required = object()
    import timm
    from timm.models.mobilenetv3 import MobileNetV3
    program.slow_reads(timm.data.ImageDataset, BATCH, WORKERS)
    program.after(MobileNetV3, "__init__", lambda model, *_, **__: setattr(program, "model", model))
    program.after(timm.utils, "accuracy", "eval")  # of its evaluation alone
    program.after_optimizers()
    program.after_saves()
    program.run("train.py", program.scratch, "--seed", program.seed, "--output",
                program.scratch, *[w for name, v in OPTIONS.items() for w in ("--" + name, v)])


if __name__ == "__main__":
    main()
