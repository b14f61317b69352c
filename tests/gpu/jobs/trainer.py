#!/usr/bin/env python3
"""trainer.py - Hugging Face's Trainer teaches a small Llama of random weights, one short text at a
time: a job that is bound by launches, of a program that many use. Obeys the lines of gpt2.py
--serve on the standard input; a step's length is the time from its callback to the next one's."""

import argparse
import json
import os
import sys
import tempfile
import time

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1")

import torch  # noqa: E402
import transformers  # noqa: E402

import gpt2  # noqa: E402

WORDS, LENGTH = 4096, 64


class Texts(torch.utils.data.Dataset):
    def __init__(self, n):
        self.words = torch.randint(3, WORDS, (n, LENGTH))

    def __len__(self):
        return len(self.words)

    def __getitem__(self, i):
        return {"input_ids": self.words[i], "labels": self.words[i]}


class Clock(transformers.TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **_):
        self.ends.append(time.monotonic_ns())


class Training:
    def __init__(self, seed, device):
        torch.manual_seed(seed)
        self.device = device
        self.folder = tempfile.TemporaryDirectory()
        self.model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            hidden_size=256, intermediate_size=688, num_hidden_layers=8, num_attention_heads=8,
            num_key_value_heads=8, vocab_size=WORDS, max_position_embeddings=256,
            use_cache=False))

    def steps(self, n):
        """Lengths in ns, of n steps of a training of n + 1."""
        clock = Clock()
        transformers.Trainer(
            model=self.model, train_dataset=Texts(n + 1), callbacks=[clock],
            args=transformers.TrainingArguments(
                output_dir=self.folder.name, per_device_train_batch_size=1, max_steps=n + 1,
                logging_steps=100000, save_strategy="no", report_to="none", disable_tqdm=True,
                use_cpu=self.device == "cpu", remove_unused_columns=False)).train()
        return [b - a for a, b in zip(clock.ends, clock.ends[1:])]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--serve", action="store_true")
    p.add_argument("--warmup", type=int, default=20)
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    p.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    p.add_argument("--seq", type=int, help=argparse.SUPPRESS)
    args = p.parse_args()
    out = sys.stdout
    sys.stdout = sys.stderr  # the Trainer prints
    training = Training(0, args.device)
    training.steps(args.warmup)
    sys.stdout = out
    print("warm", flush=True)
    gpt2.serve(Quiet(training))


class Quiet:
    """What the Trainer prints does not come between the answers."""

    def __init__(self, training):
        self.training = training

    def steps(self, n):
        out, sys.stdout = sys.stdout, sys.stderr
        try:
            return self.training.steps(n)
        finally:
            sys.stdout = out


if __name__ == "__main__":
    main()
