"""transformers' generate() of 480 tokens by a small Llama of random weights."""
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

model = LlamaForCausalLM(LlamaConfig(
    vocab_size=8000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12,
    num_attention_heads=12, num_key_value_heads=12)).cuda().bfloat16().eval()
prompt = torch.randint(0, 8000, (1, 64)).cuda()
model.generate(prompt, max_new_tokens=8, min_new_tokens=8, do_sample=False)
torch.cuda.synchronize()
began = time.perf_counter()
model.generate(prompt, max_new_tokens=480, min_new_tokens=480, do_sample=True)
torch.cuda.synchronize()
print("a token took %.2f ms" % ((time.perf_counter() - began) / 480 * 1e3))
