"""DistributedDataParallel on two GPUs, by torchrun. Rank 1 has 8 ms more to do in each step."""
import os
import time

import torch
import torch.distributed as dist
from torch import nn

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
model = nn.parallel.DistributedDataParallel(nn.Sequential(
    *[m for _ in range(8) for m in (nn.Linear(2048, 2048), nn.GELU())]).cuda(), [rank])
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
x = torch.randn(512, 2048, device="cuda")
for _ in range(200):
    optimizer.zero_grad()
    if rank:
        time.sleep(0.008)
    model(x).square().mean().backward()
    optimizer.step()
torch.cuda.synchronize()
dist.destroy_process_group()
