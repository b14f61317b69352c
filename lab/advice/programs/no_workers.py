"""no_workers.py - the main process makes its batches itself."""
import time

import torch
from common import NUMBER, REPAIRED, Trainer, scaled
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return scaled(3200)

    def __getitem__(self, i):
        time.sleep(0.001)  # as a read from slow storage
        return torch.randn(64), i % 10


trainer = Trainer()
for x, y in DataLoader(Samples(), batch_size=16, num_workers=NUMBER if REPAIRED else 0):
    trainer.step(x, y)
