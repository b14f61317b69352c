"""A small real training run: an MLP on synthetic data, with a data loader, an evaluation
phase and a few errors that the program catches. Prints its loss; takes some seconds."""
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)

features = torch.randn(4096, 64)
labels = (features[:, :10].sum(1) > 0).long()
loader = DataLoader(TensorDataset(features, labels), batch_size=64, shuffle=True)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 128), torch.nn.ReLU(),
    torch.nn.Linear(128, 128), torch.nn.ReLU(),
    torch.nn.Linear(128, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = torch.nn.CrossEntropyLoss()


def train_epoch():
    model.train()
    total = 0.0
    for batch, target in loader:
        optimizer.zero_grad()
        loss = criterion(model(batch), target)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def evaluate():
    model.eval()
    with torch.no_grad():
        return (model(features).argmax(1) == labels).float().mean().item()


for epoch in range(5):
    print(f"epoch {epoch}: loss {train_epoch():.3f}, accuracy {evaluate():.3f}")

mistakes = 0
for _ in range(20):
    try:
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    except RuntimeError:
        mistakes += 1
print(f"{mistakes} shape errors were raised and caught")
