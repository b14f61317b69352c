"""excess_sync.py - modules read values of their output, which waits for the GPU. Shows in
synchronising calls a step."""

import time

from .base import Hook, Inside


class Reads(Hook):
    def begin(self):
        leaves = [m for m in self.job.model.modules() if not list(m.children())]
        self.handles = [m.register_forward_hook(self.read) for m in leaves]
        self.calls, self.share_ns = 0, 0  # until it is known how many calls a step makes

    def read(self, _module, _inputs, output):
        if isinstance(output, (tuple, list)) and output:
            output = output[0]
        if not hasattr(output, "detach") or not output.numel():
            return
        self.calls += 1
        values, i = output.detach().reshape(-1), 0
        end = time.monotonic_ns() + self.share_ns
        while not i or time.monotonic_ns() < end:
            values[i % len(values)].item()
            i += 1

    def after_step(self):
        if self.calls and not self.share_ns:
            self.share_ns = self.budget_ns() // self.calls

    def remove(self):
        for h in self.handles:
            h.remove()


class ExcessSync(Inside):
    name = "excess_sync"
    what = ".item() again and again behind each of the model's layers"
    layers = ("cuda", "torch")
    traits = ("cuda", "model", "torch")
    values, unit = (0.2, 0.5, 1.0), "share of the usual step"
    confusable = ("launch_bound",)
    hooked = Reads


FAULT = ExcessSync()
