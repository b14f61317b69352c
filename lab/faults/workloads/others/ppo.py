#!/usr/bin/env python3
"""ppo.py - CleanRL's ppo.py: CartPole of OpenAI's Gym. A step is an update: so many steps in four
environments, and the batches that are learned from them. TensorBoard, where it would write, is
not needed."""

import importlib.util
import os
import sys
import types

import outside

OPTIONS = {"num-envs": 4, "num-steps": 32, "num-minibatches": 2, "update-epochs": 2,
           "total-timesteps": 10**9, "cuda": "False", "anneal-lr": "False"}
BATCHES = OPTIONS["num-minibatches"] * OPTIONS["update-epochs"]


class Writer:
    """In the place of torch.utils.tensorboard's: a text file."""

    def __init__(self, folder):
        os.makedirs(folder)
        self.file = open(os.path.join(folder, "scalars.txt"), "w", encoding="utf-8")

    def add_text(self, *words):
        print(*words, file=self.file)

    add_scalar = add_text

    def close(self):
        self.file.close()


def without_pygame():
    """Gym imports it with its environments, to draw them, which nobody asks for."""
    if importlib.util.find_spec("pygame"):
        return
    for name in ("pygame", "pygame.gfxdraw"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["pygame"].gfxdraw = sys.modules["pygame.gfxdraw"]


def main():
    program = outside.Program(__doc__, "cleanrl", "gym")
    without_pygame()
    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer
    sys.modules[module.__name__] = module
    program.enter("cleanrl")
    learned = [0]

    def phase(optimizer, *_):
        program.model = program.model or outside.parameters(optimizer)
        learned[0] += 1
        return None if learned[0] % BATCHES else "train"
    program.after_optimizers(phase)
    script = os.path.join(os.getcwd(), "ppo.py")
    os.chdir(program.scratch)  # its log goes to the working folder
    program.run(script, "--seed", program.seed,
                *[w for name, value in OPTIONS.items() for w in ("--" + name, value)])


if __name__ == "__main__":
    main()
