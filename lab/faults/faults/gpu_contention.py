"""gpu_contention.py - another process runs matrix products on the job's GPU. Shows as a foreign
process on the GPU and longer kernels; the host is clean."""

from .base import Foreign


class GpuContention(Foreign):
    name = "gpu_contention"
    what = "another process runs matrix products"
    layers = ("cuda", "hardware")
    traits = ("cuda",)
    of_whole_gpu = True
    values, unit = (0.3, 0.6, 1.0), "share of the time"
    confusable = ("gpu_slow",)
    of_one_rank = True

    def arguments(self, run, value):
        return ["matmul", "--gpu", str(run.gpus[0]), "--duty", str(min(1.0, value)),
                "--cpus", run.cpu_words(run.other_cpus)]

    def target(self, run):
        return {"gpu": run.gpus[0]}


FAULT = GpuContention()
