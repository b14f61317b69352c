#!/usr/bin/env python3
"""nccl.py - one process a GPU does known numbers of NCCL calls, through torch.distributed and
through libnccl directly, and writes what it did: for each communicator its size, this rank
and, by NCCL function, calls and bytes.

Bytes are the count that the function is given times the size of the data type: of what a rank
sends for AllGather, of what it receives for ReduceScatter. A barrier of torch.distributed is
an all-reduce of one float. Communicators: the world; torch.distributed's groups, split off
the world's communicator (a second world-sized one, and halves); one made by ncclCommInitRank
and one split off that by ncclCommSplit. NCCL's own log tells the id of each communicator that
was not split off another: `comm 0x... rank R nranks N ... commId 0x... - Init COMPLETE`.

Needs no launcher: the ranks meet over a file. One GPU makes a world of one rank, which does
everything but send and receive."""

import argparse
import ctypes
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import job

LIMIT_S = 150
SUM = 0  # ncclSum
TYPES = {"int8": (0, 1), "int32": (2, 4), "float16": (6, 2), "float32": (7, 4),
         "float64": (8, 8), "bfloat16": (9, 2)}  # ncclDataType_t (nccl.h) and size
COMPLETE = re.compile(r"comm (0x[0-9a-f]+) rank (\d+) nranks (\d+) .*?"
                      r"(?:commId (0x[0-9a-f]+))?\s*- Init COMPLETE")


class UniqueId(ctypes.Structure):  # ncclUniqueId, nccl.h
    _fields_ = [("internal", ctypes.c_char * 128)]


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--world", type=int, default=0, help="ranks; a GPU each, all when not given")
    p.add_argument("--json", metavar="FILE", help="write what was done there")
    p.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    p.add_argument("--dir", help=argparse.SUPPRESS)
    return p.parse_args()


# ---- accounts ----

class Communicator:
    """What one rank did on one communicator."""

    def __init__(self, name, rank, size):
        self.name, self.rank, self.size, self.pointer = name, rank, size, None
        self.functions = {}

    def add(self, function, dtype, count, calls=1):
        row = self.functions.setdefault(function, {"calls": 0, "bytes": 0})
        row["calls"] += calls
        row["bytes"] += calls * count * TYPES[dtype][1]

    def json(self):
        return {"name": self.name, "rank": self.rank, "size": self.size,
                "pointer": self.pointer, "functions": self.functions}


# ---- torch.distributed ----

class Torch:
    def __init__(self, rank, world, folder):
        import torch
        import torch.distributed as dist
        self.torch, self.dist, self.rank, self.world = torch, dist, rank, world
        self.device = torch.device("cuda", rank)
        torch.cuda.set_device(self.device)
        self.store = dist.FileStore(os.path.join(folder, "store"), world)
        dist.init_process_group("nccl", store=self.store, rank=rank, world_size=world,
                                device_id=self.device)
        self.comms = []

    def tensor(self, dtype, count):
        return self.torch.ones(count, dtype=getattr(self.torch, dtype), device=self.device)

    def collectives(self, comm, group, unit):
        """unit: a number of elements that no other communicator uses."""
        dist, n = self.dist, comm.size
        for dtype, count, calls in (("float32", unit, 5), ("bfloat16", 64 * unit, 3),
                                    ("int32", 3 * unit, 2), ("float64", unit, 1)):
            t = self.tensor(dtype, count)
            for _ in range(calls):
                dist.all_reduce(t, group=group)
            comm.add("ncclAllReduce", dtype, count, calls)
        root = dist.get_global_rank(group, 0) if group else 0
        t = self.tensor("float16", 7 * unit)
        for _ in range(4):
            dist.broadcast(t, src=root, group=group)
        comm.add("ncclBroadcast", "float16", 7 * unit, 4)
        for _ in range(3):
            dist.all_gather_into_tensor(self.tensor("float32", n * 2 * unit),
                                        self.tensor("float32", 2 * unit), group=group)
        comm.add("ncclAllGather", "float32", 2 * unit, 3)
        for _ in range(2):
            dist.reduce_scatter_tensor(self.tensor("bfloat16", 5 * unit),
                                       self.tensor("bfloat16", n * 5 * unit), group=group)
        if n > 1:  # in a group of one PyTorch copies, without NCCL
            comm.add("ncclReduceScatter", "bfloat16", 5 * unit, 2)
        dist.reduce(self.tensor("float32", 11 * unit), dst=root, group=group)
        comm.add("ncclReduce", "float32", 11 * unit)
        dist.barrier(group=group)
        comm.add("ncclAllReduce", "float32", 1)

    def coalesced(self, comm, group, unit):
        """Several collectives in one group call."""
        tensors = [self.tensor("float32", unit + i) for i in range(6)]
        with self.dist._coalescing_manager(group=group, device=self.device):
            for t in tensors:
                self.dist.all_reduce(t, group=group)
        for t in tensors:
            comm.add("ncclAllReduce", "float32", t.numel())

    def ring(self, comm, group, unit):
        """Sends to the next rank and receives from the one before, in one group call."""
        dist = self.dist
        if comm.size < 2:
            return
        ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
        after = ranks[(comm.rank + 1) % comm.size]
        before = ranks[(comm.rank - 1) % comm.size]
        for _ in range(3):
            works = dist.batch_isend_irecv([
                dist.P2POp(dist.isend, self.tensor("float16", 9 * unit), after, group),
                dist.P2POp(dist.irecv, self.tensor("float16", 9 * unit), before, group)])
            for w in works:
                w.wait()
        comm.add("ncclSend", "float16", 9 * unit, 3)
        comm.add("ncclRecv", "float16", 9 * unit, 3)

    def run_on(self, name, group, unit):
        dist = self.dist
        comm = Communicator(name, dist.get_rank(group), dist.get_world_size(group))
        self.collectives(comm, group, unit)
        self.coalesced(comm, group, unit)
        self.ring(comm, group, unit)
        self.torch.cuda.synchronize()
        backend = (group or dist.group.WORLD)._get_backend(self.device)
        try:
            comm.pointer = "0x%x" % backend._comm_ptr()
        except (AttributeError, RuntimeError):
            pass  # older PyTorch keeps it to itself
        self.comms.append(comm)

    def run(self):
        dist = self.dist
        everyone = list(range(self.world))
        self.run_on("world", None, 1000)
        self.run_on("again", dist.new_group(everyone), 1700)
        half = self.world // 2
        if half:
            for i, ranks in enumerate((everyone[:half], everyone[half:])):
                group = dist.new_group(ranks)
                if self.rank in ranks:
                    self.run_on("half%d" % i, group, 2300 + 100 * i)


# ---- libnccl ----

class Raw:
    """The same through libnccl's own functions."""

    def __init__(self, t):
        self.torch, self.rank, self.world = t.torch, t.rank, t.world
        self.nccl = job.Library(ctypes.CDLL(job.mapped("libnccl.so")))
        self.stream = job.POINTER(t.torch.cuda.current_stream().cuda_stream)
        unique = UniqueId()
        if t.rank == 0:
            self.nccl.ncclGetUniqueId(ctypes.byref(unique))
            t.store.set("raw", bytes(bytearray(unique)).hex())
        else:
            ctypes.memmove(ctypes.byref(unique), bytes.fromhex(t.store.get("raw").decode()), 128)
        self.handle = job.pointer()
        self.nccl.handle.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId,
                                                      ctypes.c_int]
        self.nccl.ncclCommInitRank(ctypes.byref(self.handle), t.world, unique, t.rank)
        self.comms, self.make = [], t.tensor

    def named(self, name, handle, rank, size):
        comm = Communicator(name, rank, size)
        comm.pointer = "0x%x" % handle.value
        self.comms.append(comm)
        return comm

    def buffers(self, dtype, count):
        """Kept until the stream is done with them."""
        pair = self.make(dtype, count), self.make(dtype, count)
        self.held.append(pair)
        return (*(job.POINTER(t.data_ptr()) for t in pair), job.SIZE(count), TYPES[dtype][0])

    def use(self, comm, handle, unit):
        nccl, n, self.held = self.nccl, comm.size, []
        for dtype in ("int8", "float16", "float64"):
            a, b, count, kind = self.buffers(dtype, unit)
            for _ in range(2):
                nccl.ncclAllReduce(a, b, count, kind, SUM, handle, self.stream)
            comm.add("ncclAllReduce", dtype, unit, 2)
        nccl.ncclGroupStart()
        for i in range(4):
            a, b, count, kind = self.buffers("float32", unit + i)
            nccl.ncclAllReduce(a, b, count, kind, SUM, handle, self.stream)
            comm.add("ncclAllReduce", "float32", unit + i)
        nccl.ncclGroupEnd()
        a, b, count, kind = self.buffers("int32", 3 * unit)
        nccl.ncclReduce(a, b, count, kind, SUM, 0, handle, self.stream)
        comm.add("ncclReduce", "int32", 3 * unit)
        nccl.ncclBroadcast(a, b, count, kind, n - 1, handle, self.stream)
        comm.add("ncclBroadcast", "int32", 3 * unit)
        if n > 1:
            a, b, count, kind = self.buffers("float32", 5 * unit)
            nccl.ncclGroupStart()
            nccl.ncclSend(a, count, kind, (comm.rank + 1) % n, handle, self.stream)
            nccl.ncclRecv(b, count, kind, (comm.rank - 1) % n, handle, self.stream)
            nccl.ncclGroupEnd()
            comm.add("ncclSend", "float32", 5 * unit)
            comm.add("ncclRecv", "float32", 5 * unit)
        self.torch.cuda.synchronize()

    def run(self):
        self.use(self.named("raw", self.handle, self.rank, self.world), self.handle, 3100)
        part = job.pointer()
        colour, members = self.rank % 2, len(range(self.rank % 2, self.world, 2))
        self.nccl.ncclCommSplit(self.handle, colour, self.rank, ctypes.byref(part), None)
        self.use(self.named("split%d" % colour, part, self.rank // 2, members), part,
                 3700 + 100 * colour)
        self.nccl.ncclCommDestroy(part)
        self.nccl.ncclCommDestroy(self.handle)


# ---- processes ----

def logged(text):
    """{pointer: [(rank, size, id or None), ...]} of NCCL's log, in its order."""
    comms = {}
    for line in text.splitlines():
        m = COMPLETE.search(line)
        if m:
            comms.setdefault(m.group(1), []).append(
                (int(m.group(2)), int(m.group(3)), m.group(4)))
    return comms


def rank_main(args):
    start = job.now_ns()
    t = Torch(args.rank, args.world, args.dir)
    t.run()
    raw = Raw(t)
    raw.run()
    t.torch.cuda.synchronize()
    t.dist.destroy_process_group()
    job.write_json(os.path.join(args.dir, "rank%d.json" % args.rank), {
        "pid": os.getpid(), "rank": args.rank, "window": [start, job.now_ns()],
        "communicators": [c.json() for c in t.comms + raw.comms]})


def gpus():
    count = ctypes.c_int(0)
    cu = job.driver()
    cu.cuInit(0)
    cu.cuDeviceGetCount(ctypes.byref(count))
    return count.value


def wait_for(ranks):
    deadline = time.monotonic() + LIMIT_S
    try:
        while any(p.poll() is None for p in ranks):
            if any(p.returncode for p in ranks) or time.monotonic() > deadline:
                time.sleep(1)  # let the others say what is wrong
                break
            time.sleep(0.05)
    finally:
        for p in ranks:
            if p.poll() is None:
                p.kill()
                p.wait()
    return [p.returncode for p in ranks]


def with_ids(made, folder):
    """Adds the id that NCCL logged for each communicator; None for those split off."""
    for path in glob.glob(os.path.join(folder, "nccl.%d.*" % made["pid"])):
        with open(path, errors="replace") as f:
            log = logged(f.read())
        made["logged_ids"] = sorted({i for rows in log.values() for _, _, i in rows if i})
        for comm in made["communicators"]:
            rows = [r for r in log.get(comm["pointer"], ())
                    if r[:2] == (comm["rank"], comm["size"])]
            comm["comm_hash"] = rows[0][2] if len(rows) == 1 else None
    return made


def main():
    args = arguments()
    if args.rank is not None:
        rank_main(args)
        return
    args.world = args.world or gpus()
    with tempfile.TemporaryDirectory(prefix="nccl-job-") as folder:
        env = dict(os.environ, NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT",
                   NCCL_DEBUG_FILE=os.path.join(folder, "nccl.%p.%h"))
        env.setdefault("NCCL_NVLS_ENABLE", "0")  # multicast does not work in every VM
        ranks = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--rank", str(r),
                                   "--world", str(args.world), "--dir", folder], env=env)
                 for r in range(args.world)]
        codes = wait_for(ranks)
        if any(codes):
            job.fail("the ranks ended with %s" % codes)
        made = []
        for r in range(args.world):
            with open(os.path.join(folder, "rank%d.json" % r)) as f:
                made.append(with_ids(json.load(f), folder))
    job.write_json(args.json, {"world": args.world, "ranks": made})


if __name__ == "__main__":
    main()
