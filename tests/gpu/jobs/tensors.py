#!/usr/bin/env python3
"""tensors.py - keeps tensors that named functions made, and frees others: what PyTorch's
caching allocator holds is known by construction.

Writes what each function's tensors hold, the most that all held at once, and what
torch.cuda.memory_stats() and NVML say, at a moment that it tells."""

import argparse
import gc
import time

import torch

import job

SIZES = (1, 100, 511, 512, 513, 4096, 70_001, 1 << 20, (1 << 20) + 7, 21_000_003)


def tensor(nbytes):
    return torch.empty(nbytes, dtype=torch.uint8, device="cuda")


def keep_small(kept):
    for nbytes in SIZES[:7]:
        for _ in range(30):
            kept.append(tensor(nbytes))


def keep_large(kept):
    for nbytes in SIZES[7:]:
        for _ in range(4):
            kept.append(tensor(nbytes))


def warm_up():
    """The first product makes cuBLAS's workspace, which PyTorch's allocator gives too."""
    a = torch.ones(8, 8, device="cuda")
    torch.cuda.synchronize()
    return float((a @ a).norm())


def keep_products(kept):
    a = torch.randn(512, 512, device="cuda")
    for _ in range(10):
        a = a @ a
        a = a / a.norm()
        kept.append(a)


def peak_and_free():
    held = [tensor(64 << 20) for _ in range(12)]
    total = sum(t.numel() for t in held)
    del held
    return total


def churn():
    for i in range(2000):
        del_me = tensor(1000 + 37 * i)
        del del_me


def held(tensors):
    return sum(t.untyped_storage().nbytes() for t in tensors)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--json", metavar="FILE")
    args = p.parse_args()
    nvml = job.Nvml()
    before = nvml.used_bytes()
    warm_up()
    kept = {f.__name__: [] for f in (keep_small, keep_large, keep_products)}
    for f in (keep_small, keep_large):
        f(kept[f.__name__])
    churn()
    peak = peak_and_free()
    keep_products(kept["keep_products"])
    gc.collect()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    at_ns = job.now_ns()
    time.sleep(0.1)
    job.write_json(args.json, {
        "at_ns": at_ns, "held_bytes": {name: held(tensors) for name, tensors in kept.items()},
        "freed_at_peak_bytes": peak,
        "requested_bytes": stats["requested_bytes.all.current"],
        "peak_requested_bytes": stats["requested_bytes.all.peak"],
        "reserved_bytes": stats["reserved_bytes.all.current"],
        "nvml_bytes": nvml.used_bytes(), "nvml_before_bytes": before})


if __name__ == "__main__":
    main()
