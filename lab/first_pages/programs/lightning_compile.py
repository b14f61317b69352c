"""A training by Lightning of a model that torch.compile made."""
try:
    import lightning as L
except ImportError:
    import pytorch_lightning as L
import torch
from torch import nn


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.compile(nn.Sequential(
            nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 4096), nn.GELU(),
            nn.Linear(4096, 1000)))

    def training_step(self, batch, _):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-4)


data = torch.utils.data.TensorDataset(torch.randn(40_000, 1024), torch.randint(0, 1000, (40_000,)))
L.Trainer(max_steps=300, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
          enable_progress_bar=False).fit(
              Net(), torch.utils.data.DataLoader(data, batch_size=128, num_workers=2))
