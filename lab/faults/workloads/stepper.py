"""stepper.py - what the workloads share: where they are told what to do, the faults that happen
within them, and the log of their steps.

A workload is an ordinary loop:

    job = stepper.Job(parser)
    ...
    job.begin(model, device)            # says that it is ready, waits to be let go
    while job.goes_on():
        if job.evaluating: ...; job.ended("eval")
        else: ...; job.ended()

The job knows nothing of eacgm, and eacgm never reads what the job writes. Without --dir it runs
--steps steps with nobody to tell it anything."""

import argparse
import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = os.path.dirname(HERE)
ROOT = os.path.dirname(os.path.dirname(LAB))
KEPT = 64  # steps that the usual step is the median of
FLUSH = 100  # steps

sys.path.insert(0, LAB)
from faults import FAULTS  # noqa: E402
from lab.control import Reader  # noqa: E402
from lab.effect import WORKING  # noqa: E402


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def gpu_job(name):
    """A module of tests/gpu/jobs, whose names are also names of workloads."""
    jobs = os.path.join(ROOT, "tests", "gpu", "jobs")
    sys.path[:] = [jobs] + [p for p in sys.path if os.path.abspath(p or ".") != HERE]
    return __import__(name)


def parser(doc):
    p = argparse.ArgumentParser(description=doc.splitlines()[0])
    p.add_argument("--dir", help="where the runner's control page is")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--rank", type=int, default=0)
    p.add_argument("--steps", type=int, default=20, help="without --dir")
    p.add_argument("--threads", type=int, default=1, help="of PyTorch on the CPU")
    return p


def need_gpu(n=1):
    """Ends the workload with one line where there are fewer GPUs."""
    import torch
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if there < n:
        print("%s: no GPU" % os.path.basename(sys.argv[0]) if not there else
              "%s: %d GPUs are needed, there are %d" % (os.path.basename(sys.argv[0]), n, there),
              file=sys.stderr)
        sys.exit(3)


class Log:
    """JSON lines, written in batches."""

    def __init__(self, path):
        self.path, self.rows = path, []

    def add(self, row):
        self.rows.append(row)

    def flush(self):
        if self.path and self.rows:
            with open(self.path, "a") as f:
                f.writelines(json.dumps(row) + "\n" for row in self.rows)
        self.rows = []


class Job:
    def __init__(self, args, world=1):
        self.args, self.rank, self.world = args, args.rank, world
        self.dir = args.dir
        self.reader = Reader(args.dir) if args.dir else None
        # Where a job has ranks: gets (stop, evaluating, half, save) of this one and returns what
        # all go by, so that none is in an evaluation while another trains.
        self.agree = lambda flags: flags
        self.model = self.device = self.source = None
        self.evaluating = self.half = False
        self.hooks, self.count, self.began = {}, 0, None
        self.saved = 0
        self.usual = []
        self.steps, self.calls, self.seen = (Log(self.path("%s.%d.jsonl" % (name, self.rank)))
                                             for name in ("steps", "calls", "seen"))
        if self.reader:
            self.tell("imported")
        while self.reader and (not self.state or self.state.get("held")):
            time.sleep(0.01)  # the GPU may be another's yet
            self.reader.changed()

    def path(self, name):
        return os.path.join(self.dir, name) if self.dir else None

    @property
    def state(self):
        return self.reader.state if self.reader else {}

    @property
    def usual_ns(self):
        """The median step of training while no fault was on."""
        return statistics.median(self.usual) if self.usual else 10_000_000

    def tell(self, what):
        """The runner, by a file that is there as a whole or not."""
        path = self.path("%s.%d" % (what, self.rank))
        with open(path + ".part", "w") as f:
            json.dump({"pid": os.getpid(), "rank": self.rank}, f)
        os.replace(path + ".part", path)

    def tell_packages(self, versions):
        """The runner, in which versions it runs other people's packages."""
        if self.reader and self.rank == 0:
            with open(self.path("packages.json"), "w") as f:
                json.dump(versions, f)

    def begin(self, model, device):
        """All is built: tells so, and waits to be let go."""
        self.model, self.device = model, device
        if self.reader:
            self.tell("ready")
            while not self.state.get("go"):
                time.sleep(0.01)
                self.reader.changed()
            self.follow()
        self.began = now_ns()

    def goes_on(self):
        """At the beginning of every step."""
        if self.reader is None:
            return self.count < self.args.steps
        if self.reader.changed():
            self.follow()
        for hook in list(self.hooks.values()):
            hook.before_step()
        saves = self.state.get("saves", 0)
        stop, self.evaluating, self.half, save = self.agree((
            bool(self.state.get("stop")), self.state.get("phase") == "eval",
            bool(self.state.get("half")), saves > self.saved))
        if save and self.model is not None:
            self.saved = max(saves, self.saved + 1)
            self.save("scheduled")
            if self.rank == 0:
                with open(self.path("saved.%d" % self.saved), "w"):
                    pass
        if stop:
            self.end()
        return not stop

    def save(self, name):
        """The model to the disk, and waits until it is there."""
        if self.rank:
            return
        path = self.path(name + ".pt")
        with open(path, "wb") as f:
            self.write(f)
            f.flush()
            os.fsync(f.fileno())

    def write(self, file):
        """The model; a job without PyTorch puts a function of its own in this one's place."""
        import torch
        torch.save(self.model.state_dict(), file)

    def waited(self):
        """What passed up to here was the world's time, not the job's: it had nothing to do."""
        self.began = now_ns()

    def ended(self, phase="train", work=None):
        """At the end of every step. work: how much it did, where steps differ in that."""
        for hook in list(self.hooks.values()):
            hook.after_step()
        now = now_ns()
        if phase in WORKING and not self.hooks and not self.half:
            self.usual = self.usual[1 - KEPT:] + [now - self.began]
        if phase in WORKING and self.state.get("warming"):
            phase = "warmup"
        row = {"step": self.count, "phase": phase, "half": self.half, "start_ns": self.began,
               "end_ns": now}
        self.steps.add(row if work is None else dict(row, work=work))
        self.began = now
        self.count += 1
        if self.count % FLUSH == 0:
            self.steps.flush()

    def follow(self):
        """Switches faults on and off as the page says."""
        wanted = {name: f for name, f in self.state.get("faults", {}).items()
                  if f.get("rank") in (None, self.rank)}
        for name in [n for n in self.hooks if n not in wanted]:
            self.hooks.pop(name).remove()
        seen = {"sequence": self.reader.sequence}
        for name, f in wanted.items():
            if name not in self.hooks:
                try:
                    self.hooks[name] = FAULTS[name].hook(self, f["value"], f.get("episode"))
                except (RuntimeError, OSError, AttributeError) as e:
                    seen["failed"] = "%s: %s" % (name, e)
        self.seen.add(dict(seen, ns=now_ns()))
        self.seen.flush()

    def call(self, episode, function, tid, start_ns, end_ns, delay_ns):
        """Takes down a call that was delayed."""
        self.calls.add({"episode": episode, "function": function, "pid": os.getpid(), "tid": tid,
                        "start_ns": start_ns, "end_ns": end_ns, "delay_ns": int(delay_ns)})

    def end(self):
        for hook in self.hooks.values():
            hook.remove()
        self.hooks = {}
        self.steps.flush()
        self.calls.flush()
