"""gpu_trainer.py - Hugging Face's Trainer teaches a small Llama of random weights, one short text at
a time, so that the GPU waits for launches. Repaired, a batch has 16 texts: the same texts in fewer
steps. The loop's time is that of TEXTS texts."""
import os
import sys
import tempfile
import time

REPAIRED = sys.argv[1] == "repaired"
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1")

import torch  # noqa: E402
import transformers  # noqa: E402

TEXTS = int(256 * float(os.environ.get("ADVICE_SCALE", "1"))) // 16 * 16
BATCH = 16 if REPAIRED else 1
WARM = 8  # steps that are not counted
WORDS, LENGTH = 4096, 64


class Texts(torch.utils.data.Dataset):
    def __init__(self):
        self.words = torch.randint(3, WORDS, (TEXTS + WARM * BATCH, LENGTH))

    def __len__(self):
        return len(self.words)

    def __getitem__(self, i):
        return {"input_ids": self.words[i], "labels": self.words[i]}


class Clock(transformers.TrainerCallback):
    began = 0

    def on_step_end(self, args, state, control, **_):
        if state.global_step == WARM:
            wait()
            self.began = time.monotonic()

    def on_train_end(self, *_, **__):
        wait()
        print(f"loop {time.monotonic() - self.began:.3f} s", flush=True)


def wait():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
    hidden_size=256, intermediate_size=688, num_hidden_layers=8, num_attention_heads=8,
    num_key_value_heads=8, vocab_size=WORDS, max_position_embeddings=256, use_cache=False))
with tempfile.TemporaryDirectory() as folder:
    transformers.Trainer(
        model=model, train_dataset=Texts(), callbacks=[Clock()],
        args=transformers.TrainingArguments(
            output_dir=folder, per_device_train_batch_size=BATCH, num_train_epochs=1,
            logging_steps=100, save_strategy="no", report_to="none", disable_tqdm=True,
            remove_unused_columns=False)).train()
