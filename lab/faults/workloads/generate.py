#!/usr/bin/env python3
"""generate.py - GPT-2 124M with random weights generates without end on one GPU: the loop of
tests/gpu/jobs/generate.py, 4 texts at once, a new cache of keys and values every 512 tokens. A token
is a step."""

import stepper

BATCH, PROMPT, TOKENS = 4, 16, 512


class Ended(Exception):
    """The job is to end, or the batch to change."""


def main():
    args = stepper.parser(__doc__).parse_args()
    stepper.need_gpu()
    import torch
    generation = stepper.gpu_job("generate")
    gpt2 = stepper.gpu_job("gpt2")
    job = stepper.Job(args)
    torch.manual_seed(args.seed)
    # cuDNN's attention makes a plan for each of 512 lengths: half a minute in which a token takes
    # eight times as long.
    if hasattr(torch.backends.cuda, "enable_cudnn_sdp"):
        torch.backends.cuda.enable_cudnn_sdp(False)
    model = gpt2.GPT2(dropout=0.0).to("cuda", torch.bfloat16).eval()
    prompt = torch.randint(0, gpt2.VOCABULARY, (BATCH, PROMPT), device="cuda")
    going, half = True, False

    def each():
        nonlocal going
        job.ended("token")
        going = job.goes_on()
        if not going or job.half != half:
            raise Ended

    with torch.no_grad():
        job.begin(model, "cuda")
        going = job.goes_on()
        while going:
            half = job.half
            try:
                generation.generate(model, prompt[:BATCH // 2] if half else prompt, TOKENS,
                                    torch.bfloat16, each)
            except Ended:
                pass


if __name__ == "__main__":
    main()
