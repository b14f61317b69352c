"""clock.py - the clocks of the job's GPUs are locked low by nvidia-smi. Shows in the clock's counter
and in kernels that take longer, without another process on the GPU. Only where run.py is told that
it may (--set-clocks); reset when the episode ends, by the guard where the runner is killed, and
where clocks were locked before they are not any more."""

import subprocess

from .base import Fault

SMI = "nvidia-smi"
WAIT_S = 20


def smi(*words):
    """What it says; OSError where it refuses."""
    try:
        done = subprocess.run([SMI, *words], capture_output=True, text=True, timeout=WAIT_S,
                              check=False)
    except subprocess.TimeoutExpired as e:
        raise OSError("%s did not end" % SMI) from e
    if done.returncode:
        raise OSError("%s %s: %s" % (SMI, " ".join(words),
                                     (done.stdout + done.stderr).strip()[-200:]))
    return done.stdout


def highest_mhz(gpu):
    return int(smi("-i", str(gpu), "--query-gpu=clocks.max.graphics",
                   "--format=csv,noheader,nounits").split()[0])


class Clock(Fault):
    name = "clock"
    what = "the GPU's clocks are locked low"
    layers = ("cuda", "hardware")
    traits = ("cuda",)
    of_whole_gpu = True
    values, unit = (0.8, 0.55, 0.35), "share of the highest clock"
    confusable = ("gpu_slow", "gpu_contention")

    def value_for(self, slowdown):
        """Of work that is bound by the clock, which not all of it is."""
        return 1 / slowdown

    def host_lacks(self, host, workload):
        return host.no_clocks

    def begin(self, run, value):
        for gpu in run.gpus:
            mhz = round(highest_mhz(gpu) * value)
            run.processes.guard.run_at_end(SMI, "-i", str(gpu), "-rgc")
            smi("-i", str(gpu), "-lgc", "%d,%d" % (mhz, mhz))

    def end(self, run):
        for gpu in run.gpus:
            smi("-i", str(gpu), "-rgc")

    def target(self, run):
        return {"gpu": run.gpus[0]}

    def culprit(self, run):
        return {"kind": "device", "device": "gpu%d" % run.gpus[0]}


FAULT = Clock()
