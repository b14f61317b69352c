"""interrupts.py - packets whose interrupts the job's cores have to serve: a flood over the loopback
of another network namespace, steered to them. Shows as softirq time on the job's cores; its threads
neither wait for a core nor are switched out, and yet do less."""

from .base import Foreign


class Interrupts(Foreign):
    name = "interrupts"
    what = "packets of others whose interrupts are served by the job's cores"
    layers = ("host", "python", "torch", "cuda")
    values, unit = (0.2, 0.4, 0.6), "share of the cores' time"
    confusable = ("cpu_contention", "cpu_throttle", "stopped")

    def value_for(self, slowdown):
        return 1 - 1 / slowdown

    def share(self, value):
        return value

    def host_lacks(self, host, workload):
        if not host.other_cpus(workload):
            return "no core is left to send from"
        return host.no_net or host.no_steering

    def arguments(self, run, value):
        return ["flood", "--duty", "%.3f" % value, "--steer", run.cpu_words(run.cpus), "--cpus",
                run.cpu_words(run.other_cpus)]

    def target(self, run):
        return {"cpus": sorted(run.cpus)}


FAULT = Interrupts()
