#!/usr/bin/env python3
"""llama_trainer.py - Hugging Face's Trainer teaches a small Llama of random weights on texts of all
lengths, padded to the longest of a batch: gradients of two batches are added up, every 100 steps
there are an evaluation of 6 batches and a checkpoint. On the GPU two workers make the batches.
With --lora only adapters of PEFT are trained. With --wide the GPU has more to do than the host: the
same layers 16 times as wide, larger batches of longer texts. The log has each step's tokens, padding
included. The script is ours and is what the package's users write."""

import dataclasses
import os

import outside

EVERY, ADDED_UP, TEXTS, HELD_OUT = 100, 2, 200_000, 48
CPU = {"hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 2,
       "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 512}
GPU = {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4,
       "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 4096}
WIDE = dict(GPU, hidden_size=4096, intermediate_size=11008, num_attention_heads=32,
            num_key_value_heads=32)
# sizes of the model, lengths of texts, texts of a batch
KINDS = {"cpu": (CPU, (8, 48), 4), "cuda": (GPU, (16, 128), 8), "wide": (WIDE, (64, 256), 32)}


def texts_of(torch, count, words, lengths, seed):
    """Texts by number: the same each time."""
    class Texts(torch.utils.data.Dataset):
        def __len__(self):
            return count

        def __getitem__(self, i):
            g = torch.Generator().manual_seed(seed * 1_000_003 + i)
            n = int(torch.randint(lengths[0], lengths[1] + 1, (), generator=g))
            return {"input_ids": torch.randint(3, words, (n,), generator=g)}
    return Texts


def padded(texts):
    import torch
    longest = max(len(t["input_ids"]) for t in texts)
    ids = torch.zeros(len(texts), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, text in enumerate(texts):
        n = len(text["input_ids"])
        ids[row, :n] = text["input_ids"]
        mask[row, :n] = 1
    return {"input_ids": ids, "attention_mask": mask,
            "labels": ids.masked_fill(mask == 0, -100)}


def arguments(transformers, program, batch, workers):
    """Of the Trainer, by the names that its version has for them."""
    known = {f.name for f in dataclasses.fields(transformers.TrainingArguments)}
    cpu = program.device == "cpu"
    wanted = {
        "output_dir": program.scratch + "/out", "per_device_train_batch_size": batch,
        "per_device_eval_batch_size": batch, "gradient_accumulation_steps": ADDED_UP,
        "max_steps": 10**7, "learning_rate": 1e-4, "eval_steps": EVERY, "save_steps": EVERY,
        "save_strategy": "steps", "save_total_limit": 2, "logging_steps": 50, "report_to": "none",
        "disable_tqdm": True, "prediction_loss_only": True, "remove_unused_columns": False,
        "dataloader_num_workers": workers, "dataloader_persistent_workers": workers > 0,
        "label_names": ["labels"], "seed": program.seed, "bf16": not cpu,
        "eval_strategy" if "eval_strategy" in known else "evaluation_strategy": "steps",
        "use_cpu" if "use_cpu" in known else "no_cuda": cpu}
    for name in sorted(set(wanted) - known):
        print("this version has no %s" % name, flush=True)
    return transformers.TrainingArguments(**{k: v for k, v in wanted.items() if k in known})


def model_of(transformers, sizes, lora):
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        max_position_embeddings=256, use_cache=False, pad_token_id=0, **sizes))
    if lora:
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    return model


def told(transformers, program, tokens):
    """The Trainer's own hooks, by which it tells what it has done."""
    class Told(transformers.TrainerCallback):
        def on_step_end(self, *_, **__):
            program.ended("train", tokens())

        def on_prediction_step(self, *_, **__):
            if program.begun:
                program.ended("eval", tokens())

        def on_save(self, *_, **__):
            if program.begun:
                program.ended("save")
    return Told()


def count_tokens(program, trainer):
    """A function that says how many there were since the last time."""
    count = [0]

    def add(_trainer, _model, inputs, *_, **__):
        count[0] += inputs["input_ids"].numel()
    program.after(trainer, "training_step", add)  # ends no step: add returns nothing
    program.after(trainer, "prediction_step", add)

    def taken():
        done, count[0] = count[0], 0
        return done
    return taken


def main():
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    lora = "--lora" in outside.sys.argv
    program = outside.Program(__doc__, packages=("transformers", "accelerate") +
                              (("peft",) if lora else ()))
    import torch
    import transformers
    workers = 2 if program.device == "cuda" else 0
    transformers.set_seed(program.seed)
    sizes, lengths, batch = KINDS["wide" if "--wide" in outside.sys.argv else program.device]
    program.model = model_of(transformers, sizes, lora)
    kinds = [texts_of(torch, count, sizes["vocab_size"], lengths, program.seed + i)
             for i, count in enumerate((TEXTS, HELD_OUT))]
    if workers:
        program.slow_reads(kinds[0], batch * ADDED_UP, workers)
    tokens = count_tokens(program, transformers.Trainer)
    with program.running():
        transformers.Trainer(
            model=program.model, args=arguments(transformers, program, batch, workers),
            train_dataset=kinds[0](), eval_dataset=kinds[1](), data_collator=padded,
            callbacks=[told(transformers, program, tokens)]).train()


if __name__ == "__main__":
    main()
