"""reads.py - every sample is read from a disk, though all of them would fit into memory."""
import os
import tempfile

import torch
from common import REPAIRED, Trainer, scaled
from torch.utils.data import DataLoader, Dataset

BYTES = 1 << 20


class Samples(Dataset):
    def __init__(self, folder):
        self.path = os.path.join(folder, "samples")
        with open(self.path, "wb") as f:
            for _ in range(64):
                f.write(os.urandom(BYTES))
            f.flush()
            os.fsync(f.fileno())
        self.file = os.open(self.path, os.O_RDONLY)

    def __len__(self):
        return scaled(3200)

    def __getitem__(self, i):
        at = i % 64 * BYTES
        if not REPAIRED:
            os.posix_fadvise(self.file, at, BYTES, os.POSIX_FADV_DONTNEED)
        data = os.pread(self.file, BYTES, at)
        return torch.frombuffer(bytearray(data[:64]), dtype=torch.uint8).float(), i % 10


with tempfile.TemporaryDirectory(dir=os.environ.get("ADVICE_DISK", "/var/tmp")) as folder:
    trainer = Trainer()
    for x, y in DataLoader(Samples(folder), batch_size=16):
        trainer.step(x, y)
