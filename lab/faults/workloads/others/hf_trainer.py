#!/usr/bin/env python3
"""hf_trainer.py - run_language_modeling.py of Hugging Face's Transformers: its Trainer teaches a
small BERT to fill in words of lines of all lengths, its own source. A step adds up the gradients of
two batches; every 100th is followed by an evaluation of 12 batches and a checkpoint. The log has
each step's tokens, padding included."""

import collections
import glob
import json
import os
import re
import sys
import types

import outside

LINES, HELD_OUT, WORDS = 4000, 96, 1500
MODEL = {"model_type": "bert", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 256, "max_position_embeddings": 128}
OPTIONS = {"per_device_train_batch_size": 4, "per_device_eval_batch_size": 8, "block_size": 64,
           "gradient_accumulation_steps": 2, "evaluation_strategy": "steps", "eval_steps": 100,
           "save_steps": 100, "save_total_limit": 2, "logging_steps": 50, "max_steps": 10**8,
           "learning_rate": 1e-4, "prediction_loss_only": True}


def make_data(program):
    """Text, and the words of a tokenizer."""
    lines = []
    for path in sorted(glob.glob(os.path.join(program.sources[0], "transformers", "*.py"))):
        with open(path, encoding="utf-8") as f:
            lines += [line.strip() for line in f if len(line.split()) > 1]
    count = collections.Counter(re.findall("[a-z]+", " ".join(lines).lower()))
    letters = [prefix + chr(c) for prefix in ("", "##") for c in range(33, 127)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters] + [
        word for word, _ in count.most_common(WORDS) if len(word) > 1]
    lines = lines[::max(1, len(lines) // LINES)]
    for name, rows in (("vocab.txt", words), ("train.txt", lines[HELD_OUT:]),
                       ("held_out.txt", lines[:HELD_OUT])):
        with open(os.path.join(program.scratch, name), "w", encoding="utf-8") as f:
            f.writelines(row + "\n" for row in rows)
    with open(os.path.join(program.scratch, "config.json"), "w", encoding="utf-8") as f:
        json.dump(dict(MODEL, vocab_size=len(words)), f)


def as_of_before(tokenizers, trainer):
    """The script is older than the library, which has renamed two things since."""
    inner = trainer.__init__
    tokenizers.max_len = property(lambda tokenizer: tokenizer.model_max_length)
    trainer.__init__ = lambda self, prediction_loss_only=True, **more: inner(self, **more)


def main():
    program = outside.Program(__doc__, "transformers")
    make_data(program)
    program.enter("examples/NLU/examples/legacy")
    sys.path.append(program.folder)  # loralib, which its copy imports
    # It wants a package of another model's, and checks versions of what this script never uses.
    for name in ("sacremoses", "transformers.dependency_versions_check"):
        sys.modules[name] = types.ModuleType(name)
    from transformers import BertForMaskedLM, PreTrainedTokenizerBase, Trainer
    as_of_before(PreTrainedTokenizerBase, Trainer)
    tokens = [0]

    def work(*_, **__):
        done, tokens[0] = tokens[0], 0
        return done

    def phase(model, input_ids=None, **_):
        program.model = model
        tokens[0] += input_ids.numel()
        return None if model.training else "eval"
    program.after(BertForMaskedLM, "forward", phase, work)
    program.after_optimizers(work=work)
    program.after(Trainer, "_save_checkpoint", "save")
    folder = program.scratch
    program.run("run_language_modeling.py", "--config_name", folder, "--tokenizer_name", folder,
                "--output_dir", folder + "/out", "--train_data_file", folder + "/train.txt",
                "--eval_data_file", folder + "/held_out.txt", "--seed", program.seed, "--mlm",
                "--line_by_line", "--do_train", "--do_eval",
                *[w for name, value in OPTIONS.items() for w in ("--" + name, value)])


if __name__ == "__main__":
    main()
