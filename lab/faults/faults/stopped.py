"""stopped.py - another process stops the job by SIGSTOP for a share of each fifth of a second, and
lets it go on. Shows as stretches in which all threads are off their cores and nobody else is on
them."""

import os
import signal

from .base import Foreign


class Stopped(Foreign):
    name = "stopped"
    what = "another process stops the job, again and again, by signals"
    layers = ("host", "python", "torch", "cuda")
    values, unit = (0.2, 0.4, 0.6), "share of the time"
    confusable = ("cpu_throttle", "hang")

    def value_for(self, slowdown):
        return 1 - 1 / slowdown

    def share(self, value):
        return value

    def arguments(self, run, value):
        return ["stop", "--duty", "%.3f" % value, "--pids", run.cpu_words(run.target.pids()),
                "--cpus", run.cpu_words(run.other_cpus)]

    def end(self, run):
        super().end(run)
        for pid in run.target.pids():  # whoever stopped it may have been ended in between
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass


FAULT = Stopped()
