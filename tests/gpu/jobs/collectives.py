#!/usr/bin/env python3
"""collectives.py - one process a GPU runs each collective of torch.distributed at several sizes and
times each call by two CUDA events around it. Calls are queued, so that no event waits for the host.

Rank 0 writes one line of JSON a measurement to --tell: function, bytes (of nccl-tests' size), calls,
the median and the mean of their times in us by events, and the window in ns of CLOCK_MONOTONIC.
Without a launcher: the ranks meet over a file."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

MB = 1 << 20
WARMUP = 5  # calls that are measured too: a tracer sees them as well


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--world", type=int, default=2)
    p.add_argument("--mb", default="4,32,256", help="sizes, comma-separated")
    p.add_argument("--calls", type=int, default=20)
    p.add_argument("--tell", metavar="FILE")
    p.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    p.add_argument("--store", help=argparse.SUPPRESS)
    return p.parse_args()


def operations(dist, torch, rank, world, size, device):
    """(NCCL's function, a call): size is what nccl-tests calls the size."""
    whole = torch.ones(size // 4, device=device)
    part = torch.ones(size // 4 // world, device=device)
    peer = (rank + 1) % world, (rank - 1) % world
    other = torch.empty_like(whole)

    def ring():
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, whole, peer[0]),
                                            dist.P2POp(dist.irecv, other, peer[1])]):
            work.wait()
    return (("ncclAllReduce", lambda: dist.all_reduce(whole)),
            ("ncclBroadcast", lambda: dist.broadcast(whole, 0)),
            ("ncclAllGather", lambda: dist.all_gather_into_tensor(whole, part)),
            ("ncclReduceScatter", lambda: dist.reduce_scatter_tensor(part, whole)),
            ("ncclReduce", lambda: dist.reduce(whole, 0)),
            ("alltoall", lambda: dist.all_to_all_single(other, whole)),
            ("ncclSend", ring))


def measure(torch, dist, call, calls):
    """Times of all calls in us, and between when they ran."""
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)]
              for _ in range(WARMUP + calls)]
    dist.barrier()
    torch.cuda.synchronize()
    window = [time.clock_gettime_ns(time.CLOCK_MONOTONIC)]
    for start, end in events:
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    window.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
    return [start.elapsed_time(end) * 1000 for start, end in events], window


def run_rank(args):
    import torch
    import torch.distributed as dist
    device = torch.device("cuda", args.rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", rank=args.rank, world_size=args.world, device_id=device,
                            store=dist.FileStore(args.store, args.world))
    rows = []
    for size in (int(float(mb) * MB) for mb in args.mb.split(",")):
        for name, call in operations(dist, torch, args.rank, args.world, size, device):
            times, window = measure(torch, dist, call, args.calls)
            rows.append({"function": name, "bytes": size, "calls": len(times),
                         "us": statistics.median(times), "mean_us": statistics.fmean(times),
                         "window": window})
    if args.rank == 0 and args.tell:
        with open(args.tell, "w") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows)
    dist.destroy_process_group()


def main():
    args = arguments()
    if args.rank is not None:
        run_rank(args)
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, *sys.argv[1:], "--store",
                   os.path.join(folder, "store"), "--rank"]
        ranks = [subprocess.Popen(command + [str(r)]) for r in range(args.world)]
        codes = [p.wait() for p in ranks]
    if any(codes):
        sys.exit("ranks ended with %s" % codes)


if __name__ == "__main__":
    main()
