"""cuda_delay.py - calls of the CUDA driver take longer: CUPTI's callback on the entry of a launch or
a copy waits within the call (helpers/cuda_delay.c), and every delayed call is written down."""

import ctypes
import os

from .base import Hook, Inside

HELPER = "libfault_cuda.so"


class Row(ctypes.Structure):
    _fields_ = [("start_ns", ctypes.c_uint64), ("end_ns", ctypes.c_uint64),
                ("tid", ctypes.c_uint32), ("cbid", ctypes.c_uint32)]


class Delays(Hook):
    def begin(self):
        helper = self.job.state["helpers"] + "/" + HELPER
        self.lib = ctypes.CDLL(helper)
        self.lib.fault_cuda_name.restype = ctypes.c_char_p
        self.lib.fault_cuda_take.argtypes = [ctypes.POINTER(Row), ctypes.c_size_t]
        self.lib.fault_cuda_take.restype = ctypes.c_size_t
        self.lib.fault_cuda_begin.restype = ctypes.c_char_p
        self.lib.fault_cuda_set.argtypes = [ctypes.c_uint64]
        self.delay_ns = 0
        self.rows = (Row * 8192)()
        why = self.lib.fault_cuda_begin()
        if why:
            raise RuntimeError("cuda_delay: %s" % why.decode())

    def after_step(self):
        n = self.lib.fault_cuda_take(self.rows, len(self.rows))
        if not self.delay_ns:
            if n:
                self.delay_ns = max(1000, self.budget_ns() // n)
                self.lib.fault_cuda_set(self.delay_ns)
            return
        for row in self.rows[:n]:
            self.job.call(self.episode, self.lib.fault_cuda_name(row.cbid).decode(), row.tid,
                          row.start_ns, row.end_ns, self.delay_ns)

    def remove(self):
        self.lib.fault_cuda_end()


class CudaDelay(Inside):
    name = "cuda_delay"
    what = "delays within launches and copies of the CUDA driver"
    layers = ("cuda",)
    traits = ("cuda",)
    values, unit = (0.3, 0.7, 1.5), "share of the usual step"
    confusable = ("cpu_contention", "launch_bound")
    hooked = Delays
    exact_calls = True

    def host_lacks(self, host, workload):
        if not os.path.exists(os.path.join(host.helpers, HELPER)):
            return "%s is not in %s: build it, or say --helpers" % (HELPER, host.helpers)
        return None


FAULT = CudaDelay()
