#!/usr/bin/env python3
"""ddp.py - one rank of data-parallel training: GPT-2 on GPUs with NCCL, or a small GPT on the CPU
with gloo. The runner starts each rank, and says how they meet: over the host's own network, or over
a link between two network namespaces (NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 move NCCL's traffic to
sockets).

What all ranks do next is agreed on once a step, with the mean of the loss: one all-reduce of a few
numbers that every training loop has which logs."""

import datetime
import time

import stepper


def arguments():
    p = stepper.parser(__doc__)
    p.add_argument("--world", type=int, default=2)
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    p.add_argument("--blocks", type=int, default=12, help="of GPT-2")
    p.add_argument("--master", default="127.0.0.1:29511", metavar="ADDRESS:PORT")
    return p.parse_args()


def begin_group(dist, args):
    address, port = args.master.split(":")
    store = dist.TCPStore(address, int(port), args.world, args.rank == 0,
                          datetime.timedelta(seconds=120))
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo", store=store,
                            rank=args.rank, world_size=args.world)


def gpu_training(args):
    gpt2 = stepper.gpu_job("gpt2")
    gpt2.LAYERS = args.blocks
    t = gpt2.Training(8, 512, args.seed)
    return t.model, t.optimizer, lambda half: (t.x[:4], t.y[:4]) if half else (t.x, t.y), \
        gpt2.VOCABULARY


def cpu_training(args):
    import cpu_gpt
    t = cpu_gpt.Training(args.seed)
    return t.model, t.optimizer, t.batch, cpu_gpt.WORDS


def main():
    args = arguments()
    if args.device == "cuda":
        stepper.need_gpu(args.world)
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    torch.set_num_threads(args.threads)
    job = stepper.Job(args, args.world)
    cuda = args.device == "cuda"
    if cuda:
        torch.cuda.set_device(args.rank)
    begin_group(dist, args)
    model, optimizer, batch, words = (gpu_training if cuda else cpu_training)(args)
    ddp = torch.nn.parallel.DistributedDataParallel(model, device_ids=[args.rank] if cuda else None)
    loss = torch.zeros(())

    def agree(flags):
        """The largest of each, and the loss."""
        told = torch.tensor([float(f) for f in flags] + [float(loss.detach())], device=args.device)
        dist.all_reduce(told, dist.ReduceOp.MAX)
        return [bool(v) for v in told.tolist()[:len(flags)]]

    def loss_of(half):
        x, y = batch(half)
        with torch.autocast(args.device, torch.bfloat16, enabled=cuda):
            return F.cross_entropy(ddp(x).view(-1, words), y.view(-1))

    job.agree = agree
    job.begin(model, args.device)
    while job.goes_on():
        if job.evaluating:
            with torch.no_grad():
                loss_of(job.half)
            job.ended("eval")
            continue
        loss = loss_of(job.half)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        job.ended()
    time.sleep(0.2)  # the other ranks read the last agreement
    if cuda:
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
