"""threads.py - more threads compute than there are CPUs."""
import os

import torch
from common import NUMBER, REPAIRED, Trainer, batches

torch.set_num_threads(NUMBER if REPAIRED else 4 * len(os.sched_getaffinity(0)))
trainer = Trainer(width=256)
for x, y in batches(400, size=64):
    trainer.step(x, y)
