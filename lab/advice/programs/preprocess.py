"""preprocess.py - a worker takes most of its time in a loop of Python that one call does as well."""
import torch
from common import REPAIRED, Trainer, scaled
from torch.utils.data import DataLoader, Dataset


def normalised(values):
    mean = sum(values) / len(values)
    return [(v - mean) / 3 for v in values]  # named


class Samples(Dataset):
    def __init__(self):
        self.rows = torch.randn(scaled(4800), 64)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        if REPAIRED:
            return (row - row.mean()) / 3, i % 10
        values = row.tolist()
        for _ in range(200):
            values = normalised(values)
        return torch.tensor(values), i % 10


trainer = Trainer()
for x, y in DataLoader(Samples(), batch_size=16, num_workers=1):
    trainer.step(x, y)
