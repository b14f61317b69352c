#!/usr/bin/env python3
"""cpu_text.py - trains the GPT of cpu_gpt.py on texts of all lengths: a step adds up the gradients
of three batches, each as long as the longest of its texts, and every sixtieth step is followed by
an evaluation of twelve batches. No two steps are the same work; the log has each one's words."""

import random

import torch

import cpu_gpt
import stepper

BATCHES, TEXTS, SHORT, LONG = 3, 4, 4, 48
EVALUATE_EVERY, EVALUATED = 60, 12


class Training(cpu_gpt.Training):
    def __init__(self, seed):
        super().__init__(seed)
        self.chance = random.Random(seed)
        self.words = 0

    def batch(self, half=False):
        lengths = [min(LONG, SHORT + int(self.chance.expovariate(1 / 14))) for _ in range(TEXTS)]
        texts = TEXTS // 2 if half else TEXTS
        x = torch.randint(0, cpu_gpt.WORDS, (texts, max(lengths) + 1))
        self.words += texts * max(lengths)
        return x[:, :-1].contiguous(), x[:, 1:].contiguous()

    def step(self, half=False):
        self.words, total = 0, 0.0
        self.optimizer.zero_grad()
        for _ in range(BATCHES):
            loss = cpu_gpt.loss_of(self.model, *self.batch(half)) / BATCHES
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return total


def main():
    args = stepper.parser(__doc__).parse_args()
    torch.set_num_threads(args.threads)
    job = stepper.Job(args)
    training = Training(args.seed)
    job.begin(training.model, "cpu")
    steps = 0
    while job.goes_on():
        if job.evaluating:
            training.evaluate(job.half)
            job.ended("eval")
            continue
        training.step(job.half)
        job.ended(work=training.words)
        steps += 1
        if steps % EVALUATE_EVERY == 0:
            for _ in range(EVALUATED):
                training.evaluate()
                job.ended("eval")


if __name__ == "__main__":
    main()
