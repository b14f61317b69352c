#!/usr/bin/env python3
"""lightning_timm.py - Lightning's Trainer with a model of timm, on pictures that two workers decode:
its loop, its bar, and every 100 batches a validation of 10 and a checkpoint. Lightning has no script
of its own that runs without more packages; the module below is what its users write."""

import random

import jpegs
import outside

BATCH, WORKERS, SIDE = 4, 2, 48


def module_of(program, lightning, timm):
    import torch.nn.functional as F
    import torch

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = program.model = timm.create_model("lcnet_050", num_classes=4)

        def loss(self, batch):
            return F.cross_entropy(self.model(batch[0]), batch[1])

        def training_step(self, batch, _):
            loss = self.loss(batch)
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch, _):
            self.log("val_loss", self.loss(batch), prog_bar=True)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-4)
    return Classifier()


def loader(program, part, **options):
    from timm.data import ImageDataset, create_transform
    from torch.utils.data import DataLoader
    data = ImageDataset(program.scratch + "/" + part, transform=create_transform(
        SIDE, is_training=part == "train"))
    return DataLoader(data, BATCH, num_workers=WORKERS, persistent_workers=True, **options)


def main():
    program = outside.Program(__doc__, "lightning", "torchmetrics", "lightning-utilities", "timm")
    jpegs.folders(program.scratch, {"train": 400 * BATCH, "validation": 10 * BATCH}, 96,
                  random.Random(program.seed))
    program.enter()
    import timm
    import torch
    # Its sharded strategies, which PyTorch 1.13 cannot import in Python 3.11, are left out so.
    torch.distributed.is_available = lambda: False
    import pytorch_lightning as lightning
    from pytorch_lightning.callbacks import ModelCheckpoint
    lightning.seed_everything(program.seed)
    module = module_of(program, lightning, timm)
    program.slow_reads(timm.data.ImageDataset, BATCH, WORKERS)
    program.after_optimizers()
    program.after(type(module), "validation_step", "eval")
    program.after(lightning.Trainer, "save_checkpoint", "save")
    with program.running():
        lightning.Trainer(
            accelerator="cpu", max_epochs=-1, logger=False, val_check_interval=100,
            default_root_dir=program.scratch, num_sanity_val_steps=0,
            callbacks=[ModelCheckpoint(monitor="val_loss", save_last=True)],
        ).fit(module, loader(program, "train", shuffle=True), loader(program, "validation"))


if __name__ == "__main__":
    main()
