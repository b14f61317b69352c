#!/usr/bin/env python3
"""lightning_timm.py - Lightning's Trainer with a model of timm, on pictures that two workers
decode: its loop, its bar, and every 100 batches (200 on the GPU) a validation of 10 and a
checkpoint. Lightning has no script of its own that runs without more packages; the module below is
what its users write."""

import collections
import random

import jpegs
import outside

# Of a batch of pictures, and of the steps between two validations.
Sizes = collections.namedtuple("Sizes", "model batch side every")
CPU = Sizes("lcnet_050", 4, 48, 100)
GPU = Sizes("mobilenetv3_small_100", 8, 96, 200)
WORKERS, HELD_OUT = 2, 10


def module_of(program, lightning, timm, sizes):
    import torch.nn.functional as F
    import torch

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = program.model = timm.create_model(sizes.model, num_classes=4)

        def loss(self, batch):
            return F.cross_entropy(self.model(batch[0]), batch[1])

        def training_step(self, batch, _):
            loss = self.loss(batch)
            self.log("train_loss", loss, prog_bar=sizes is GPU)
            return loss

        def validation_step(self, batch, _):
            self.log("val_loss", self.loss(batch), prog_bar=True)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-4)
    return Classifier()


def loader(program, part, sizes, **options):
    from timm.data import ImageDataset, create_transform
    from torch.utils.data import DataLoader
    data = ImageDataset(program.scratch + "/" + part, transform=create_transform(
        sizes.side, is_training=part == "train"))
    return DataLoader(data, sizes.batch, num_workers=WORKERS, persistent_workers=True, **options)


def main():
    program = outside.Program(__doc__, "lightning", "torchmetrics", "lightning-utilities", "timm",
                              packages=("pytorch_lightning", "timm", "torchvision"))
    sizes = GPU if program.device == "cuda" else CPU
    jpegs.folders(program.scratch, {"train": 4 * sizes.every * sizes.batch,
                                    "validation": HELD_OUT * sizes.batch}, 96,
                  random.Random(program.seed))
    import torch
    if not program.installed:
        program.enter()
        # Its sharded strategies, which PyTorch 1.13 cannot import in Python 3.11, are left out so.
        torch.distributed.is_available = lambda: False
    import pytorch_lightning as lightning
    import timm
    from pytorch_lightning.callbacks import ModelCheckpoint
    lightning.seed_everything(program.seed)
    module = module_of(program, lightning, timm, sizes)
    program.slow_reads(timm.data.ImageDataset, sizes.batch, WORKERS)
    program.after_optimizers()
    program.after(type(module), "validation_step", "eval")
    program.after(lightning.Trainer, "save_checkpoint", "save")
    with program.running():
        lightning.Trainer(
            accelerator="gpu" if program.device == "cuda" else "cpu", devices=1, max_epochs=-1,
            logger=False, val_check_interval=sizes.every, default_root_dir=program.scratch,
            num_sanity_val_steps=0,
            callbacks=[ModelCheckpoint(monitor="val_loss", save_last=True)],
        ).fit(module, loader(program, "train", sizes, shuffle=True),
              loader(program, "validation", sizes))


if __name__ == "__main__":
    main()
