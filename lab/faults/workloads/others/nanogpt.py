#!/usr/bin/env python3
"""nanogpt.py - nanoGPT's own training script on its own source as text: gradients of two batches a
step, an evaluation of 2 x 10 batches and a checkpoint every hundredth."""

import glob
import os
import pickle

import outside

OPTIONS = dict(device="cpu", dtype="float32", compile=False, eval_interval=100, eval_iters=10,
               log_interval=20, gradient_accumulation_steps=2, batch_size=4, block_size=48,
               n_layer=3, n_head=4, n_embd=64, learning_rate=1e-4, max_iters=10**9)


def make_data(program):
    """Bytes as tokens, as its data/*/prepare.py leave them."""
    import numpy
    files = sorted(glob.glob(os.path.join(program.folder, "*.py")) +
                   glob.glob(os.path.join(program.folder, "*.md")))
    data = numpy.concatenate([numpy.fromfile(path, dtype=numpy.uint8) for path in files])
    cut = len(data) * 9 // 10
    for name, part in (("train", data[:cut]), ("val", data[cut:])):
        part.astype(numpy.uint16).tofile(os.path.join(program.scratch, name + ".bin"))
    with open(os.path.join(program.scratch, "meta.pkl"), "wb") as f:
        pickle.dump({"vocab_size": 256}, f)


def main():
    program = outside.Program(__doc__, "nanoGPT")
    make_data(program)
    program.enter()
    from model import GPT

    def phase(model, *_):
        program.model = model
        return None if model.training else "eval"
    program.after(GPT, "forward", phase)
    program.after_optimizers()
    program.after_saves()
    program.run("train.py", "--dataset=" + program.scratch, "--out_dir=" + program.scratch,
                *["--%s=%s" % option for option in OPTIONS.items()])


if __name__ == "__main__":
    main()
