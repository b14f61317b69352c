"""Hugging Face's Trainer with a small Llama of random weights on random tokens."""
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, i):
        ids = torch.randint(0, 8000, (256,))
        return {"input_ids": ids, "labels": ids}


model = LlamaForCausalLM(LlamaConfig(
    vocab_size=8000, hidden_size=512, intermediate_size=1376, num_hidden_layers=8,
    num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=256))
with tempfile.TemporaryDirectory() as folder:
    Trainer(model=model, train_dataset=Tokens(), args=TrainingArguments(
        folder, per_device_train_batch_size=8, max_steps=120, bf16=True, report_to=[],
        logging_steps=50, save_strategy="no", dataloader_num_workers=2)).train()
