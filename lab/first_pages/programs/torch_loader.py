"""A training whose data set takes 2 ms a sample, with two loader workers."""
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 4800

    def __getitem__(self, i):
        time.sleep(0.002)  # as a read from slow storage
        return torch.randn(64), torch.tensor(i % 10)


model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for x, y in DataLoader(Samples(), batch_size=16, num_workers=2):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
