"""pcie.py - another process copies pinned memory to the GPU and back, both ways at once. Shows in
the GPU's PCIe rate and the time per copied byte. Other GPUs have their own way to the host, or
share it: jobs that copy much should not run beside."""

from .base import Foreign


class Pcie(Foreign):
    name = "pcie"
    what = "another process copies pinned memory both ways"
    layers = ("cuda", "hardware")
    traits = ("cuda", "copies")
    of_whole_gpu = True
    values, unit = (1, 2, 4), "copying processes"
    confusable = ("mem_bandwidth", "gpu_contention")

    def arguments(self, run, value):
        return ["copy", "--gpu", str(run.gpus[0]), "--count", str(round(value)),
                "--cpus", run.cpu_words(run.other_cpus)]

    def target(self, run):
        return {"gpu": run.gpus[0]}


FAULT = Pcie()
