"""base.py - what a fault is: a row that says what it does, and how it is switched on and off.

A fault without the job (Fault) is switched by the runner: prepare() before, where that takes long,
begin(), end(). A fault within the job (Inside) is switched through the control page, and hook()
makes what the job's steps then call. Modules of faults are imported by runner and jobs alike, so
PyTorch is imported by hooks alone."""

import threading
import time

from lab.guard import COMMAND

LAYERS = ("cuda", "python", "torch", "nccl", "hardware", "host")
LEVELS = ("low", "mid", "high")
CULPRIT = ("kind", "pid", "command", "device", "cgroup", "rank", "file", "function", "line")


class Fault:
    name = None
    what = None  # one clause
    layers = ()  # whose events or counters differ by construction
    values = ()  # of low, mid, high
    unit = None
    confusable = ()
    traits = ()  # of the workload that it needs: cuda, ranks, loader, net, model, torch
    beyond = False  # also slows jobs on other cores and GPUs of the host
    of_whole_gpu = False  # also slows other jobs on the GPU
    inside = False
    of_one_rank = False  # of those that a job has
    exact_calls = False  # the delayed ones are written down

    @property
    def cause(self):
        return self.name

    def layers_in(self, workload):
        """Where one rank has the fault, the others wait for it in their collectives."""
        waits = self.of_one_rank and "ranks" in workload.traits and "nccl" not in self.layers
        return self.layers + ("nccl",) if waits else self.layers

    def value_of(self, intensity):
        """Of a level, or of how many times as long as usual a step is to take: x1.20."""
        if intensity.startswith("x"):
            return self.value_for(float(intensity[1:]))
        return dict(zip(LEVELS, self.values))[intensity]

    def value_for(self, slowdown):
        """What makes steps take so many times as long. Of units that say nothing of that, that of
        the level whose episodes were nearest to it."""
        if self.unit.startswith("share of the usual step"):
            return slowdown - 1
        return self.values[0 if slowdown < 1.3 else 1 if slowdown < 2 else 2]

    def share(self, value):
        """Of the time of a slowed step that it is to take; None where nobody knows."""
        if self.unit.startswith("share of the usual step"):
            return value / (1 + value)
        return None

    def why_not(self, host, workload):
        """None, or why it cannot be injected here."""
        missing = [t for t in self.traits if t not in workload.traits]
        if missing:
            return "%s has no %s" % (workload.name, ", ".join(missing))
        if self.name in workload.spared:
            return "%s would not be slowed by it" % workload.name
        if self.beyond and not host.alone:
            return "it would slow the other lanes"
        if self.of_whole_gpu and not host.gpu_alone:
            return "it would slow the GPU's other jobs"
        return self.host_lacks(host, workload)

    def host_lacks(self, host, workload):
        return None

    def rank(self, run, chance):
        """The rank that is the culprit, or None."""
        return None

    def prepare(self, run, value):
        pass

    def begin(self, run, value):
        raise NotImplementedError

    def end(self, run):
        raise NotImplementedError

    def drop(self, run):
        """It was prepared and does not begin."""

    def injectors(self):
        """Foreign processes that make it."""
        return []

    def target(self, run):
        """What of the target is special to it."""
        return {}

    def culprit(self, run):
        """Who a diagnosis should name, while it is on: keys of CULPRIT that it has, or None."""
        return None


class Inside(Fault):
    inside = True
    hooked = None  # the class of its hooks

    def begin(self, run, value):
        raise AssertionError("is switched through the control page")

    end = begin

    def hook(self, job, value, episode):
        return self.hooked(job, value, episode)

    def culprit(self, run):
        """The job itself, or the rank that it is of."""
        rank = run.culprit
        found = {"kind": "job" if rank is None else "rank", "rank": rank,
                 "pid": run.target.ranks[rank or 0].pid}
        return dict(found, **self.code())

    def code(self):
        """file, function and line, of a fault that is a function of the job."""
        return {}


class Hook:
    """Within the job, while the fault is on. All is undone by remove()."""

    def __init__(self, job, value, episode):
        self.job, self.value, self.episode = job, value, episode
        self.begin()

    def begin(self):
        pass

    def before_step(self):
        pass

    def after_step(self):
        pass

    def remove(self):
        pass

    def budget_ns(self):
        """Its value's share of the job's usual step."""
        return int(self.value * self.job.usual_ns)


class Foreign(Fault):
    """Made by a process of stress.py, which is started before and waits to be let go."""

    def __init__(self):
        self.started = None

    def arguments(self, run, value):
        raise NotImplementedError

    def prepare(self, run, value):
        self.started = run.stress(self.arguments(run, value))

    def begin(self, run, value):
        self.started.go()

    def end(self, run):
        if self.started:
            run.end_process(self.started.process)
        self.started = None

    def drop(self, run):
        self.end(run)

    def injectors(self):
        return self.started.pids() if self.started else []

    def culprit(self, run):
        """The first process that does the work: its children, or itself."""
        pids = self.injectors()
        return {"kind": "process", "pid": pids[1 if len(pids) > 1 else 0],
                "command": COMMAND} if pids else None


def wait_ns(ns):
    """As long as that, to some 10 us: sleeps where it can."""
    end = time.monotonic_ns() + ns
    if ns > 200_000:
        time.sleep((ns - 100_000) / 1e9)
    while time.monotonic_ns() < end:
        pass


def thread_id():
    return threading.get_native_id()
