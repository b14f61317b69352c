"""ops_job.py - trains a small model with PyTorch on the CPU and launches kernels through the fake
driver, in a process with the CUPTI shim.

usage: ops_job.py STEPS [busy] [late] [threads] [fork] [many] [wait SECONDS]
busy: the steps begin at once, before operators come from callbacks.
late: the shim comes before PyTorch is imported. threads: each step runs in a thread of its own.
fork: a child trains too, another runs a program. many: then runs 2,200 operators of as many names,
and 150 in each other. wait: before it ends. Prints "begin NS", "end NS" around the steps, and
"launch CORRELATION NAME X STREAM START END" for each launch."""

import ctypes
import os
import sys
import threading
import time

steps, words = int(sys.argv[1]), sys.argv[2:]
FAKE_CUDA = os.environ.get("FAKE_CUDA")


def inject():
    path = os.environ.get("CUDA_INJECTION64_PATH")
    if path:
        assert ctypes.CDLL(path).InitializeInjection() == 1


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


if "late" in words:
    inject()
import torch  # noqa: E402

if "late" not in words:
    inject()


class Arguments(ctypes.Structure):
    """cuLaunchKernel_params"""
    _fields_ = [("kernel", ctypes.c_void_p), ("grid", ctypes.c_uint32 * 3),
                ("block", ctypes.c_uint32 * 3), ("shared_bytes", ctypes.c_uint32),
                ("stream", ctypes.c_void_p)]


class Driver:
    """The fake driver; what it does is told to the fake CUPTI as the real one is."""

    def __init__(self):
        self.cuda = ctypes.CDLL(FAKE_CUDA)
        self.correlation = 5000
        self.kernels = {}
        try:
            self.cupti = ctypes.CDLL("libcupti.so.13")
        except OSError:
            self.cupti = None
        module = ctypes.c_void_p()
        assert self.cuda.cuInit(0) == 0
        assert self.cuda.cuModuleLoadData(ctypes.byref(module), b"image") == 0
        for name in (b"_Z9small_addPfi", b"plain_kernel"):
            kernel = ctypes.c_void_p()
            assert self.cuda.cuModuleGetFunction(ctypes.byref(kernel), module, name) == 0
            self.kernels[name] = kernel
        self.streams = [ctypes.c_void_p(), ctypes.c_void_p()]
        for stream in self.streams:
            assert self.cuda.cuStreamCreate(ctypes.byref(stream), 0) == 0

    def launch(self, name, x, stream):
        kernel, own, stream = self.kernels[name], ctypes.c_uint64(0), self.streams[stream].value
        a = Arguments(kernel.value, (x, 2, 3), (32, 1, 1), 48, stream)
        self.correlation += 1
        start, result = now(), ctypes.c_int(0)
        if self.cupti:
            self.cupti.fake_cupti_at_launch(0, 307, ctypes.byref(a), self.correlation,
                                            ctypes.byref(own), None)
        result.value = self.cuda.cuLaunchKernel(kernel, x, 2, 3, 32, 1, 1, 48,
                                                ctypes.c_void_p(stream), None, None)
        if self.cupti:
            self.cupti.fake_cupti_at_launch(1, 307, ctypes.byref(a), self.correlation,
                                            ctypes.byref(own), ctypes.byref(result))
        print("launch", self.correlation, name.decode(), x, stream, start, now())


torch.manual_seed(1)
torch.set_num_threads(1)
if "busy" not in words:
    time.sleep(1)  # the shim finds PyTorch, eacgm takes the probes off
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
driver = Driver() if FAKE_CUDA else None


def step(i):
    loss = model(torch.randn(16, 32)).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if driver:
        driver.launch(b"plain_kernel" if i % 3 else b"_Z9small_addPfi", i + 1, i % 2)


def train():
    for i in range(steps):
        if "threads" in words:
            t = threading.Thread(target=step, args=(i,))
            t.start()
            t.join()
        else:
            step(i)


class Same(torch.autograd.Function):
    @staticmethod
    def forward(_ctx, x, depth=0):
        return Same.apply(x, depth - 1) if depth else x.clone()


def run_many():
    x = torch.ones(1)
    for i in range(2200):
        type("Named%d" % i, (Same,), {}).apply(x)
    Same.apply(x, 149)


if "fork" in words:
    os.system("true")  # a program without PyTorch
    child = os.fork()
    if not child:
        train()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print("begin", now(), flush=True)
train()
print("end", now(), flush=True)
if "many" in words:
    run_many()
if "wait" in words:
    time.sleep(float(words[words.index("wait") + 1]))
    began = time.perf_counter()
    train()
    print("after", time.perf_counter() - began, flush=True)
