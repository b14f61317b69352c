"""excess_sync.py - modules read a value of their output, which waits for the GPU. Shows in
synchronising calls a step."""

from .base import Hook, Inside


class Reads(Hook):
    def begin(self):
        leaves = [m for m in self.job.model.modules() if not list(m.children())]
        every = max(1, round(1 / self.value))
        self.handles = [m.register_forward_hook(self.read) for m in leaves[::every]]

    @staticmethod
    def read(_module, _inputs, output):
        output.detach().reshape(-1)[0].item()

    def remove(self):
        for h in self.handles:
            h.remove()


class ExcessSync(Inside):
    name = "excess_sync"
    what = ".item() behind the model's layers"
    layers = ("cuda", "torch")
    traits = ("cuda", "model")
    values, unit = (0.25, 0.5, 1.0), "share of the layers"
    confusable = ("launch_bound",)
    hooked = Reads


FAULT = ExcessSync()
