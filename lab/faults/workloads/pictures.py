"""pictures.py - pictures in files, and the data loader whose workers read them.

The fault `data_loader` makes a worker wait in read(2) for each picture, as a slow disk would; how
long is in memory that the job shares with its workers."""

import ctypes
import multiprocessing
import os
import random
import struct
import time

import torch

CLOCK_MONOTONIC = 1


class SlowRead:
    """Waits in read(2): on a timer, which is exact where a slow disk is not at hand."""

    def __init__(self):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.timerfd_create(CLOCK_MONOTONIC, os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def wait(self, ns):
        when = struct.pack("=qqqq", 0, 0, ns // 10**9, max(1, ns % 10**9))
        self.libc.timerfd_settime(self.fd, 0, when, None)
        os.read(self.fd, 8)


class Uncached:
    """Reads from the disk, again and again until a picture has taken so long; what one took longer
    the next have less. What is not written there yet stays in the page cache, so it is written
    first."""

    def __init__(self):
        self.owed_ns, self.written = 0, set()

    def read(self, path, ns, began):
        self.owed_ns += ns
        with open(path, "rb", buffering=0) as f:
            if path not in self.written and self.owed_ns > 0:
                os.fdatasync(f.fileno())
                self.written.add(path)
            self.owed_ns -= time.monotonic_ns() - began
            while self.owed_ns > 0:
                start = time.monotonic_ns()
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                f.seek(0)
                f.read()
                self.owed_ns -= time.monotonic_ns() - start


class Pictures(torch.utils.data.Dataset):
    def __init__(self, folder, side, files, source):
        self.paths = [os.path.join(folder, "%05d.rgb" % i) for i in range(files)]
        self.side, self.source = side, source
        self.slow = self.uncached = None

    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        wait_ns, uncached_ns = self.source.read_ns.value, self.source.uncached_ns.value
        if wait_ns:
            self.slow = self.slow or SlowRead()
            self.slow.wait(wait_ns)
        began, path = time.monotonic_ns(), self.paths[i % len(self.paths)]
        with open(path, "rb", buffering=0) as f:
            data = bytearray(f.read())
        x = torch.frombuffer(data, dtype=torch.uint8).view(3, self.side, self.side)
        x = x.float() / 255
        if uncached_ns:
            self.uncached = self.uncached or Uncached()
            self.uncached.read(path, uncached_ns, began)
        return x, i % 10


def make(folder, side, files, seed):
    chance = random.Random(seed)
    for i in range(files):
        with open(os.path.join(folder, "%05d.rgb" % i), "wb") as f:
            f.write(chance.randbytes(3 * side * side))


class Source:
    """What the faults `data_loader` and `slow_reads` need to know: job.source."""

    def __init__(self, batch, workers):
        self.read_ns, self.uncached_ns = (multiprocessing.Value("q", 0, lock=False)
                                          for _ in range(2))
        self.batch, self.workers = batch, workers


def batches(job, folder, side, batch, files, workers, pin=False):
    """Batches without end, in an order that the seed decides."""
    make(folder, side, files, job.args.seed)
    job.source = Source(batch, workers)
    data = Pictures(folder, side, files, job.source)
    g = torch.Generator().manual_seed(job.args.seed)
    while True:
        yield from torch.utils.data.DataLoader(
            data, batch_size=batch, num_workers=workers, pin_memory=pin, drop_last=True,
            sampler=torch.utils.data.RandomSampler(data, generator=g))
