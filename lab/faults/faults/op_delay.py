"""op_delay.py - matrix products and activations take longer: the paper's delays of operators, but
within the operator, where a real slow operator is slow, and with every delayed call written down.

PyTorch's kernel of the operator is replaced by one that waits and calls the operator's variant with
`out`. Other operators are as before."""

import time
import warnings

from .base import Hook, Inside, thread_id, wait_ns

LEAST_NS = 20_000  # below that a delay is the replacement's own cost


def products():
    import torch

    def addmm(bias, a, b, *, beta=1, alpha=1):
        return torch.addmm(bias, a, b, beta=beta, alpha=alpha, out=a.new_empty(0))

    def mm(a, b):
        return torch.mm(a, b, out=a.new_empty(0))

    def bmm(a, b):
        return torch.bmm(a, b, out=a.new_empty(0))

    def relu(x):
        return torch.clamp(x, min=0, out=x.new_empty(0))

    def silu(x):
        return torch.ops.aten.silu.out(x, out=x.new_empty(0))

    def gelu(x, *, approximate="none"):
        return torch.ops.aten.gelu.out(x, approximate=approximate, out=x.new_empty(0))

    return {"addmm": addmm, "mm": mm, "bmm": bmm, "relu": relu, "silu": silu, "gelu": gelu}


class Delays(Hook):
    def begin(self):
        import torch
        self.calls = 0
        self.delay_ns = 0  # until it is known how many calls a step makes
        key = "CPU" if self.job.device == "cpu" else "CUDA"
        self.library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that kernels are replaced
            for name, fn in products().items():
                self.library.impl(name, self.delayed(name, fn), key)

    def delayed(self, name, fn):
        def call(*args, **kwargs):
            self.calls += 1
            if not self.delay_ns:
                return fn(*args, **kwargs)
            start = time.monotonic_ns()
            wait_ns(self.delay_ns)
            result = fn(*args, **kwargs)
            self.job.call(self.episode, "aten::" + name, thread_id(), start,
                          time.monotonic_ns(), self.delay_ns)
            return result
        return call

    def after_step(self):
        if self.calls and not self.delay_ns:
            self.delay_ns = max(LEAST_NS, self.budget_ns() // self.calls)

    def remove(self):
        destroy = getattr(self.library, "_destroy", None)
        if destroy:
            destroy()
        self.library = None  # before PyTorch 2 its end takes the kernels out


class OpDelay(Inside):
    name = "op_delay"
    what = "delays within matrix products and activations"
    layers = ("torch",)
    traits = ("torch",)
    values, unit = (0.2, 0.5, 1.0), "share of the usual step"
    confusable = ("cpu_contention",)
    hooked = Delays
    exact_calls = True


FAULT = OpDelay()
