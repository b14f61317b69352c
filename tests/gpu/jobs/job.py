"""job.py - what the jobs of this folder share: a measured part under torch.profiler, the
CUDA libraries through ctypes, NVML's used memory, and how a job writes what it did.

The jobs are ordinary programs: they know nothing of eacgm. A job that is asked for it
(`--profile FILE`) runs its measured part under torch.profiler, which takes its device events
from CUPTI, and writes what CUPTI saw together with the part's window on CLOCK_MONOTONIC. The
events are read from the trace that torch.profiler exports, because its categories tell a
kernel from a copy and its `graph node id` a replayed kernel from a launched one."""

import contextlib
import ctypes
import glob
import importlib.util
import json
import os
import re
import sys
import tempfile
import time

SIZE = ctypes.c_size_t
POINTER = ctypes.c_void_p


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def write_json(path, data):
    """To a file, or to the standard output where path is None."""
    if not path:
        print(json.dumps(data), flush=True)
        return
    temporary = path + ".part"
    with open(temporary, "w") as f:
        json.dump(data, f)
        f.write("\n")
    os.replace(temporary, path)


# ---- the measured part ----

class Measured:
    """What measured() hands out: the window, and what CUPTI saw in it."""

    def __init__(self):
        self.start_ns = self.end_ns = 0
        self.profile = {}

    def json(self, **more):
        return dict({"pid": os.getpid(), "window": [self.start_ns, self.end_ns]},
                    **self.profile, **more)


@contextlib.contextmanager
def measured(profile):
    """Runs the body between two synchronisations; under torch.profiler if profile is true."""
    import torch
    m = Measured()
    if not profile:
        torch.cuda.synchronize()
        m.start_ns = now_ns()
        yield m
        torch.cuda.synchronize()
        m.end_ns = now_ns()
        return
    os.environ.setdefault("KINETO_LOG_LEVEL", "3")
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
        torch.cuda.synchronize()
        m.start_ns = now_ns()
        yield m
        torch.cuda.synchronize()
        m.end_ns = now_ns()
    fd, path = tempfile.mkstemp(suffix=".json")
    os.close(fd)
    try:
        p.export_chrome_trace(path)
        with open(path, errors="replace") as f:
            m.profile = device_events(json.load(f)["traceEvents"])
    finally:
        os.unlink(path)


GRAPH_LAUNCH = re.compile(r"^c(u|uda)GraphLaunch(_ptsz)?$")
COPY = re.compile(r"^Memcpy (\w+)")


def device_events(events):
    """Counts a trace's device events: kernels by name, apart by how they were started; copies
    by direction; calls of cudaGraphLaunch; and adds up how long they took."""
    launched = [e for e in events if e.get("ph") == "X" and GRAPH_LAUNCH.match(e["name"])]
    runtime_calls = [e for e in launched if e["name"].startswith("cuda")]
    launches = {e.get("args", {}).get("correlation") for e in launched} - {None}
    kernels, direct, replayed, copies = {}, {}, {}, {}
    busy_us = {"kernel": 0.0, "gpu_memcpy": 0.0, "gpu_memset": 0.0}
    us_of = {}
    for e in events:
        kind, args = e.get("cat"), e.get("args", {})
        if e.get("ph") != "X" or kind not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        busy_us[kind] += e.get("dur", 0)
        in_graph = bool(args.get("graph node id")) or args.get("correlation") in launches
        name = e["name"]
        if kind == "kernel":
            own = replayed if in_graph else direct
            own[name] = own.get(name, 0) + 1
            kernels[name] = kernels.get(name, 0) + 1
            us_of[name] = us_of.get(name, 0.0) + e.get("dur", 0)
            continue
        direction = COPY.match(name)
        key = ("set" if kind == "gpu_memset" else "copy",
               direction.group(1) if direction else None, in_graph)
        calls, size = copies.get(key, (0, 0))
        copies[key] = calls + 1, size + int(args.get("bytes", 0))
    return {"kernels": kernels, "direct_kernels": direct, "graph_kernels": replayed,
            "kernel_ns": round(1000 * busy_us["kernel"]),
            "kernel_ns_of": {name: round(1000 * us) for name, us in us_of.items()},
            "copy_ns": round(1000 * (busy_us["gpu_memcpy"] + busy_us["gpu_memset"])),
            # the driver's call below the runtime's may be in the trace as well
            "graph_launches": len(runtime_calls) or len(launched),
            "cupti_copies": [{"kind": k[0], "direction": k[1], "in_graph": k[2],
                              "calls": v[0], "bytes": v[1]} for k, v in sorted(
                                  copies.items(), key=lambda item: str(item[0]))]}


# ---- the CUDA libraries ----

class CudaError(Exception):
    """A call that should not have failed."""


class Library:
    """Calls by name; every result other than 0 is an error unless expected()."""

    def __init__(self, handle):
        self.handle = handle

    def code(self, name, *args):
        function = getattr(self.handle, name)
        function.restype = ctypes.c_int
        return function(*args)

    def __getattr__(self, name):
        def call(*args):
            rc = self.code(name, *args)
            if rc:
                raise CudaError("%s returned %d" % (name, rc))
        return call


def mapped(part):
    """The path of a library that this process has mapped."""
    with open("/proc/self/maps") as f:
        for line in f:
            fields = line.split(None, 5)
            if len(fields) == 6 and part in os.path.basename(fields[5].strip()):
                return fields[5].strip()
    return None


def _wheel_libraries(pattern):
    """Libraries that come with PyTorch, without importing it."""
    spec = importlib.util.find_spec("torch")
    if not spec or not spec.origin:
        return []
    site = os.path.dirname(os.path.dirname(spec.origin))
    return sorted(glob.glob(os.path.join(site, "nvidia", "*", "lib", pattern)), reverse=True)


def runtime():
    """libcudart: the one that is mapped already, else PyTorch's, else the system's."""
    found = mapped("libcudart.so")
    candidates = [found] if found else []
    candidates += _wheel_libraries("libcudart.so.*")
    candidates += ["libcudart.so.13", "libcudart.so.12", "/usr/local/cuda/lib64/libcudart.so"]
    for path in candidates:
        try:
            return Library(ctypes.CDLL(path))
        except OSError:
            continue
    raise CudaError("there is no libcudart")


def driver():
    return Library(ctypes.CDLL("libcuda.so.1"))


def pointer():
    return POINTER()


# ---- NVML ----

class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


class Nvml:
    """Used memory of a GPU by nvmlDeviceGetMemoryInfo (nvml.h); None where NVML is absent."""

    def __init__(self, index=0):
        self.device = None
        try:
            self.lib = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        device = pointer()
        if not self.lib.nvmlInit_v2() and not self.lib.nvmlDeviceGetHandleByIndex_v2(
                ctypes.c_uint(index), ctypes.byref(device)):
            self.device = device

    def used_bytes(self):
        m = _Memory()
        if self.device is None or self.lib.nvmlDeviceGetMemoryInfo(self.device, ctypes.byref(m)):
            return None
        return m.used


# ---- arguments ----

def add_common(parser):
    parser.add_argument("--profile", metavar="FILE",
                        help="run the measured part under torch.profiler and write what it saw")
    parser.add_argument("--json", metavar="FILE", help="write what the job did")


def finish(args, m, **more):
    """Writes the results of a job that has a measured part."""
    path = args.profile or args.json
    if path:
        write_json(path, m.json(**more))


def fail(text):
    print("%s: %s" % (os.path.basename(sys.argv[0]), text), file=sys.stderr)
    sys.exit(1)
