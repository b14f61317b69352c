#!/usr/bin/env python3
"""llama_generate.py - transformers' generate() answers requests with a small Llama of random
weights. They come in bursts of 1 to 8, whether the ones before are answered or not, with up to 0.8 s between
bursts: 1 to 4 texts of 4 to 48 words, which 4 to 24 words are added to. The log has a row for each
request, from when it came to an idle program, or the end of the one before, to its answer, with the
words that were made. The script is ours and is what the package's users write."""

import os
import random
import time

import outside

SIZES = {"hidden_size": 384, "intermediate_size": 1032, "num_hidden_layers": 4,
         "num_attention_heads": 6, "num_key_value_heads": 6, "vocab_size": 4096}
CPU = dict(SIZES, hidden_size=96, intermediate_size=256, num_hidden_layers=2)


def requests(chance):
    """(seconds after the beginning, texts, words, words to make), without end."""
    at = 0.2
    while True:
        for _ in range(chance.randint(1, 8)):
            yield at, chance.randint(1, 4), chance.randint(4, 48), chance.randint(4, 24)
        at += min(0.8, 0.1 + chance.expovariate(1 / 0.3))


def model_of(transformers, torch, program):
    # cuDNN's attention makes a plan for each length.
    if hasattr(torch.backends.cuda, "enable_cudnn_sdp"):
        torch.backends.cuda.enable_cudnn_sdp(False)
    cuda = program.device == "cuda"
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        max_position_embeddings=256, pad_token_id=0, **(SIZES if cuda else CPU)))
    return model.to(program.device, torch.bfloat16 if cuda else torch.float32).eval()


def answer(torch, model, texts, words, new):
    ids = torch.randint(3, SIZES["vocab_size"], (texts, words)).to(model.device)
    made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new,
                          min_new_tokens=new, do_sample=True, pad_token_id=0)
    return made[:, words:].tolist()


def main():
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    program = outside.Program(__doc__, packages=("transformers",))
    import torch
    import transformers
    job, chance = program.job, random.Random(program.seed)
    model = model_of(transformers, torch, program)
    with program.running():
        for _ in range(5):
            answer(torch, model, 2, 16, 16)
        job.begin(model, program.device)
        began = time.monotonic()
        for at, texts, words, new in requests(chance):
            idle = began + at - time.monotonic()
            if idle > 0:
                time.sleep(idle)
                job.waited()
            if not job.goes_on():
                break
            answer(torch, model, max(1, texts // 2) if job.half else texts, words, new)
            job.ended("request", work=new)


if __name__ == "__main__":
    main()
