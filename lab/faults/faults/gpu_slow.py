"""gpu_slow.py - one rank's GPU spins for a share of each step. Shows as a GPU that takes longer for
the job's own kernels, without a foreign process.

It spins behind the step's work: at its beginning the device has nothing to do in a job that is
bound by launches, and nobody would notice."""

from .base import Hook, Inside


class Spins(Hook):
    """torch.cuda._sleep spins for a number of clock ticks, told once what a tick is."""

    def begin(self):
        import torch
        self.spin = torch.cuda._sleep  # pylint: disable=protected-access
        self.spin(1000)  # loads the kernel
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.spin(1_000_000)
        end.record()
        end.synchronize()
        self.ticks_per_ns = 1_000_000 / (begin.elapsed_time(end) * 1e6)
        self.calls, self.share_ns = 0, 0  # until it is known how many calls a step makes
        self.handle = self.behind_work()

    def behind_work(self):
        """Behind the optimizer's step, or the forward pass of a model that is not trained."""
        if not self.job.model.training:
            return self.job.model.register_forward_hook(self.work)
        try:
            from torch.optim.optimizer import register_optimizer_step_post_hook
        except ImportError:
            raise RuntimeError("it needs PyTorch 2.0") from None
        return register_optimizer_step_post_hook(self.work)

    def work(self, *_):
        self.calls += 1
        if self.share_ns:
            self.spin(int(self.share_ns * self.ticks_per_ns))

    def after_step(self):
        if self.calls and not self.share_ns:
            self.share_ns = self.budget_ns() // self.calls

    def remove(self):
        self.handle.remove()


class GpuSlow(Inside):
    name = "gpu_slow"
    what = "a kernel that spins in each step of one rank"
    layers = ("cuda", "hardware")
    traits = ("cuda", "torch")
    of_whole_gpu = True
    values, unit = (0.2, 0.5, 1.0), "share of the usual step"
    confusable = ("gpu_contention", "straggler")
    of_one_rank = True
    hooked = Spins

    def rank(self, run, chance):
        return chance.randrange(run.world) if run.world > 1 else None

    def target(self, run):
        return {"gpu": run.gpus[run.culprit or 0]}


FAULT = GpuSlow()
