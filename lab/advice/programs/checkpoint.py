"""checkpoint.py - a model is saved every few steps, and training waits for it."""
import os
import tempfile

import torch
from common import NUMBER, REPAIRED, Trainer, batches

EVERY = NUMBER if REPAIRED else 4


embeddings = torch.randn(4_000_000)


def save(trainer, folder):
    state = {"model": trainer.model.state_dict(), "embeddings": embeddings}
    torch.save(state, os.path.join(folder, "model.pt"))  # named


with tempfile.TemporaryDirectory(dir=os.environ.get("ADVICE_DISK", "/var/tmp")) as folder:
    trainer = Trainer(width=128)
    for i, (x, y) in enumerate(batches(400)):
        trainer.step(x, y)
        if i % EVERY == EVERY - 1:
            save(trainer, folder)
