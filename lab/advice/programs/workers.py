"""workers.py - each sample takes 2 ms to come, and two workers are too few."""
import time

import torch
from common import NUMBER, REPAIRED, Trainer, scaled
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return scaled(4800)

    def __getitem__(self, i):
        time.sleep(0.002)  # as a read from slow storage
        return torch.randn(64), i % 10


trainer = Trainer()
for x, y in DataLoader(Samples(), batch_size=16, num_workers=NUMBER if REPAIRED else 2):
    trainer.step(x, y)
