#!/usr/bin/env python3
"""memory.py - allocates device memory by a script, keeps its own account of it, and ends with
a known set never freed.

Parts (one a run, because PyTorch's allocator is chosen at its start):
  raw         every entry point of the runtime and the driver, without PyTorch
  caching     PyTorch's own allocator: the account is its reserved bytes
  expandable  the same with expandable segments, whose memory is mapped piece by piece
  async       PyTorch over cudaMallocAsync: the account is the tensors' bytes
What counts as allocated: bytes asked for; pitch times height for pitched memory; the physical
memory of cuMemCreate once, however often it is mapped, until its handle is released and its
last mapping is gone. Host memory (cudaMallocHost and the like) is no device memory.
Checkpoints hold the account beside what NVML says is used of the GPU."""

import argparse
import ctypes
import os
import time

import job

MB = 1 << 20
ATTACH_GLOBAL = 1  # cudaMemAttachGlobal
ALLOCATOR = {"caching": None, "expandable": "expandable_segments:True",
             "async": "backend:cudaMallocAsync"}


class Account:
    """What is allocated, and the most that ever was."""

    def __init__(self, nvml):
        self.live, self.peak, self.allocs, self.frees = {}, 0, 0, 0
        self.entries, self.checkpoints, self.nvml = {}, [], nvml

    def live_bytes(self):
        return sum(size for size, _ in self.live.values())

    def add(self, key, size, entry, resident=True):
        assert key not in self.live
        self.live[key] = size, resident
        self.allocs += 1
        calls, total = self.entries.get(entry, (0, 0))
        self.entries[entry] = calls + 1, total + size
        self.peak = max(self.peak, self.live_bytes())

    def remove(self, key):
        del self.live[key]
        self.frees += 1

    def checkpoint(self, name):
        self.checkpoints.append({
            "name": name, "at_ns": job.now_ns(), "live_bytes": self.live_bytes(),
            "resident_bytes": sum(size for size, resident in self.live.values() if resident),
            "nvml_bytes": self.nvml.used_bytes()})

    def json(self):
        return {"pid": os.getpid(), "live_bytes": self.live_bytes(), "peak_bytes": self.peak,
                "allocs": self.allocs, "frees": self.frees,
                "leaked_bytes": self.live_bytes(), "leaked_count": len(self.live),
                "entries": {k: {"calls": v[0], "bytes": v[1]} for k, v in self.entries.items()},
                "checkpoints": self.checkpoints}


# ---- the entry points ----

class Location(ctypes.Structure):  # CUmemLocation, cuda.h
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Property(ctypes.Structure):  # CUmemAllocationProp, cuda.h
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", Location),
                ("win32", ctypes.c_void_p), ("compression", ctypes.c_ubyte),
                ("rdma", ctypes.c_ubyte), ("usage", ctypes.c_ushort),
                ("reserved", ctypes.c_ubyte * 4)]


class Access(ctypes.Structure):  # CUmemAccessDesc, cuda.h
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


PINNED, DEVICE, READ_WRITE = 1, 1, 3  # ALLOCATION_TYPE_PINNED, LOCATION_TYPE_DEVICE, PROT_READWRITE


class Raw:
    """Allocations through one entry point each; every method returns a key to free by."""

    def __init__(self, account):
        self.rt, self.cu, self.account = job.runtime(), job.driver(), account
        self.rt.cudaSetDevice(0)
        self.rt.cudaFree(None)  # the context is there from here on
        self.pool = job.pointer()
        self.rt.cudaDeviceGetDefaultMemPool(ctypes.byref(self.pool), 0)

    def _runtime(self, name, size, *more, resident=True):
        p = job.pointer()
        getattr(self.rt, name)(ctypes.byref(p), job.SIZE(size), *more)
        self.account.add(p.value, size, name, resident)
        return p.value

    def malloc(self, size):
        return self._runtime("cudaMalloc", size)

    def managed(self, size):
        return self._runtime("cudaMallocManaged", size, ctypes.c_uint(ATTACH_GLOBAL),
                             resident=False)

    def malloc_async(self, size):
        return self._runtime("cudaMallocAsync", size, None)

    def from_pool(self, size):
        return self._runtime("cudaMallocFromPoolAsync", size, self.pool, None)

    def pitched(self, width, height):
        p, pitch = job.pointer(), job.SIZE(0)
        self.rt.cudaMallocPitch(ctypes.byref(p), ctypes.byref(pitch), job.SIZE(width),
                                job.SIZE(height))
        self.account.add(p.value, pitch.value * height, "cudaMallocPitch")
        return p.value

    def driver(self, size):
        p = ctypes.c_ulonglong(0)
        self.cu.cuMemAlloc_v2(ctypes.byref(p), job.SIZE(size))
        self.account.add(p.value, size, "cuMemAlloc_v2")
        return p.value

    def free(self, key):
        self.rt.cudaFree(job.POINTER(key))
        self.account.remove(key)

    def free_async(self, key):
        self.rt.cudaFreeAsync(job.POINTER(key), None)
        self.account.remove(key)

    def free_driver(self, key):
        self.cu.cuMemFree_v2(ctypes.c_ulonglong(key))
        self.account.remove(key)

    # physical memory and its mappings

    def granularity(self):
        g, p = job.SIZE(0), self._property()
        self.cu.cuMemGetAllocationGranularity(ctypes.byref(g), ctypes.byref(p), 0)
        return g.value

    @staticmethod
    def _property():
        p = Property()
        p.type = PINNED
        p.location.type = DEVICE
        return p

    def create(self, size):
        handle, p = ctypes.c_ulonglong(0), self._property()
        self.cu.cuMemCreate(ctypes.byref(handle), job.SIZE(size), ctypes.byref(p),
                            ctypes.c_ulonglong(0))
        self.account.add(("handle", handle.value), size, "cuMemCreate")
        return handle.value

    def map(self, handle, size, times=1):
        """One address range with the memory in it as often as asked for."""
        at = ctypes.c_ulonglong(0)
        self.cu.cuMemAddressReserve(ctypes.byref(at), job.SIZE(size * times), job.SIZE(0),
                                    ctypes.c_ulonglong(0), ctypes.c_ulonglong(0))
        access = Access()
        access.location.type = DEVICE
        access.flags = READ_WRITE
        for i in range(times):
            self.cu.cuMemMap(ctypes.c_ulonglong(at.value + i * size), job.SIZE(size),
                             job.SIZE(0), ctypes.c_ulonglong(handle), ctypes.c_ulonglong(0))
        self.cu.cuMemSetAccess(at, job.SIZE(size * times), ctypes.byref(access), job.SIZE(1))
        return at.value

    def unmap(self, at, size, times=1):
        for i in range(times):
            self.cu.cuMemUnmap(ctypes.c_ulonglong(at + i * size), job.SIZE(size))
        self.cu.cuMemAddressFree(ctypes.c_ulonglong(at), job.SIZE(size * times))

    def release(self, handle):
        self.cu.cuMemRelease(ctypes.c_ulonglong(handle))
        self.account.remove(("handle", handle))

    def host(self):
        """Host memory, which is none of the device's."""
        p, q = job.pointer(), job.pointer()
        self.rt.cudaMallocHost(ctypes.byref(p), job.SIZE(3 * MB))
        self.rt.cudaHostAlloc(ctypes.byref(q), job.SIZE(5 * MB), ctypes.c_uint(0))
        self.rt.cudaFreeHost(p)
        self.rt.cudaFreeHost(q)


def part_raw(account):
    raw = Raw(account)
    account.checkpoint("context")
    held = [raw.malloc(size) for size in (512 * MB, 768 * MB, 100_000, 1)]
    account.checkpoint("cudaMalloc")
    drivers = [raw.driver(64 * MB), raw.driver(12_345)]
    pitched = raw.pitched(1000, 2000)
    managed = raw.managed(16 * MB)
    raw.host()
    later = [raw.malloc_async(32 * MB) for _ in range(4)]
    pooled = [raw.from_pool(10_000), raw.from_pool(8 * MB)]
    unit = raw.granularity()
    sizes = [unit, 5 * unit]
    handles = [raw.create(size) for size in sizes]
    places = [raw.map(handles[0], sizes[0], times=2), raw.map(handles[1], sizes[1])]
    raw.rt.cudaDeviceSynchronize()
    account.checkpoint("all")
    raw.unmap(places[0], sizes[0], times=2)
    raw.release(handles[0])
    for p in later[1:] + pooled[:1]:
        raw.free_async(p)
    raw.rt.cudaDeviceSynchronize()
    raw.free(managed)
    raw.free(pitched)
    raw.free_driver(drivers[1])
    raw.free(held[1])
    raw.free(held[3])
    again = [raw.malloc(20 * MB) for _ in range(50)]  # addresses are used again
    for p in again:
        raw.free(p)
    raw.rt.cudaDeviceSynchronize()
    account.checkpoint("end")
    # left: held[0], held[2], drivers[0], later[0], pooled[1], handles[1]


# ---- PyTorch's allocators ----

def churn(torch, sizes_mb):
    """Allocates and lets go; what is returned lives on."""
    kept = []
    for i, size in enumerate(sizes_mb):
        t = torch.empty(size * MB, dtype=torch.uint8, device="cuda")
        if i % 2 == 0:
            kept.append(t)
    return kept


def part_caching(account):
    import torch
    torch.cuda.init()
    torch.cuda.synchronize()
    account.checkpoint("context")
    kept = churn(torch, [200, 300, 50, 700, 1, 2, 64, 64])
    small = [torch.empty(1000, device="cuda") for _ in range(100)]
    account.checkpoint_torch(torch, "all")
    del small[10:]
    kept.pop(1)
    torch.cuda.empty_cache()
    account.checkpoint_torch(torch, "end")
    return kept, small


def part_async(account):
    import torch
    torch.cuda.init()
    # the driver's allocator takes memory of its own at its first use: part of the context
    first = torch.empty(MB, dtype=torch.uint8, device="cuda")
    account.add("first", MB, "cudaMallocAsync")
    del first
    account.remove("first")
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    account.checkpoint("context")
    account.checkpoints[-1]["pool_spare_bytes"] = pool_spare_bytes()
    kept = []
    for i, size in enumerate([200, 300, 50, 100, 1]):
        t = torch.empty(size * MB, dtype=torch.uint8, device="cuda")
        account.add(i, size * MB, "cudaMallocAsync")
        kept.append(t)
    account.checkpoint("all")
    for i in (3, 1):
        del kept[i]
        account.remove(i)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    account.checkpoint("end")
    account.checkpoints[-1]["pool_spare_bytes"] = pool_spare_bytes()
    return kept


def pool_spare_bytes():
    """What the device's default pool holds beyond what is allocated from it."""
    rt, pool, v = job.runtime(), job.pointer(), {}
    rt.cudaDeviceGetDefaultMemPool(ctypes.byref(pool), 0)
    for name, attribute in (("reserved", 5), ("used", 7)):  # cudaMemPoolAttr, driver_types.h
        v[name] = ctypes.c_ulonglong(0)
        rt.cudaMemPoolGetAttribute(pool, attribute, ctypes.byref(v[name]))
    return v["reserved"].value - v["used"].value


class TorchAccount(Account):
    """The account is PyTorch's own: bytes it holds from CUDA, in use or not."""

    def __init__(self, nvml, expandable):
        super().__init__(nvml)
        self.stats, self.expandable = {}, expandable

    def live_bytes(self):
        return self.stats.get("reserved_bytes.all.current", 0)

    def checkpoint_torch(self, torch, name):
        torch.cuda.synchronize()
        self.stats = torch.cuda.memory_stats()
        self.checkpoint(name)
        self.checkpoints[-1]["resident_bytes"] = self.live_bytes()

    def json(self):
        s = self.stats
        # PyTorch does not tell how many pieces an expandable segment consists of
        told = not self.expandable
        return dict(super().json(), peak_bytes=s["reserved_bytes.all.peak"],
                    allocs=s.get("num_device_alloc") if told else None,
                    frees=s.get("num_device_free") if told else None, leaked_count=None)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--part", choices=["raw", *ALLOCATOR], default="raw")
    p.add_argument("--json", metavar="FILE", help="write the account there")
    p.add_argument("--hold", type=float, default=0.2, metavar="SEC",
                   help="how long to live on with what is left")
    return p.parse_args()


def main():
    args = arguments()
    if ALLOCATOR.get(args.part):
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = ALLOCATOR[args.part]
    nvml = job.Nvml()
    account = Account(nvml)
    if args.part in ("caching", "expandable"):
        account = TorchAccount(nvml, args.part == "expandable")
    run = {"raw": part_raw, "async": part_async}.get(args.part, part_caching)
    kept = run(account)
    job.write_json(args.json, dict(account.json(), part=args.part))
    time.sleep(args.hold)
    os._exit(0 if kept is None or kept else 1)  # nothing is freed on the way out


if __name__ == "__main__":
    main()
