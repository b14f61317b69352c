"""A small real training that is slower than it should be: reading a sample takes 1 ms, and two
loader workers are too few for that. Prints its loss; takes some seconds."""
import time

import torch
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
torch.set_num_threads(1)


class Samples(Dataset):
    def __len__(self):
        return 16000

    def __getitem__(self, i):
        time.sleep(0.001)  # as a read from slow storage
        x = torch.randn(64)
        return x, (x[:10].sum() > 0).long()


model = torch.nn.Sequential(
    torch.nn.Linear(64, 128), torch.nn.ReLU(),
    torch.nn.Linear(128, 128), torch.nn.ReLU(),
    torch.nn.Linear(128, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = torch.nn.CrossEntropyLoss()

for step, (batch, target) in enumerate(DataLoader(Samples(), batch_size=32, num_workers=2)):
    optimizer.zero_grad()
    loss = criterion(model(batch), target)
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step}: loss {loss.item():.3f}", flush=True)
