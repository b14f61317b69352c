#!/usr/bin/env python3
"""lstm_lm.py - word_language_model of PyTorch's examples: an LSTM on a part of its own copy of
WikiText-2; an evaluation after each epoch, and a save where it was the best. The log has each
batch's words: the last of an epoch is shorter."""

import os

import outside

PARTS = {"train": ("valid", 1000), "valid": ("test", 120), "test": ("test", 10)}  # file, lines
OPTIONS = {"emsize": 64, "nhid": 64, "nlayers": 2, "batch_size": 8, "bptt": 20, "lr": 1,
           "epochs": 10**9}


def make_data(program):
    folder = os.path.join(program.folder, "word_language_model", "data", "wikitext-2")
    for name, (whole, lines) in PARTS.items():
        with open(os.path.join(folder, whole + ".txt"), encoding="utf-8") as f, \
                open(os.path.join(program.scratch, name + ".txt"), "w", encoding="utf-8") as out:
            out.writelines(line for line, _ in zip(f, range(lines)))


def main():
    program = outside.Program(__doc__, "examples")
    make_data(program)
    program.enter("word_language_model")
    import torch
    from model import RNNModel
    words = [0]

    def phase(model, x, *_):
        program.model, words[0] = model, x.numel()
        return None if model.training else "eval"
    program.after(RNNModel, "forward", phase, work=lambda *_: words[0])
    program.after(torch.nn.utils, "clip_grad_norm_", "train", work=lambda *_: words[0])
    program.after_saves()
    options = [w for name, value in OPTIONS.items() for w in ("--" + name, value)]
    program.run("main.py", "--data", program.scratch, "--seed", program.seed,
                "--save", os.path.join(program.scratch, "model.pt"), *options)


if __name__ == "__main__":
    main()
