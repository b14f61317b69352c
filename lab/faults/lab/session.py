"""session.py - one run: starts the workload, records it, switches faults on and off as the schedule
says, writes the labels, and ends all that it started."""

import copy
import json
import os
import random
import signal
import subprocess
import sys
import time

from faults import FAULTS
from faults.base import CULPRIT

from . import schedule
from .host import LAB
from .labels import Labels
from .processes import Failed, Processes, Stress, cpu_seconds
from .target import Target

ATTACH_S, SAVED_S, RELEASE_S, RECORD_ENDS_S = 90, 30, 10, 120
CLOSING_S = 4  # of a run's time, for ending it
RECORDING = "run.eacgm"
OWN_FILES = ("imported", "ready", "steps", "calls", "seen", "labels", "saved", "packages")


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Run:
    """settings: eacgm (None: nothing is recorded), workload, plan, split, seed, seconds, out,
    faults (names), benign, pace, levels (of schedule.items), items (None: as many as there is time for), record_options, gpu,
    recorded (whether `seconds` begin when the recorder is attached, not before the job starts),
    say (a function for progress), held (a function that returns the seconds when the run may begin,
    or None), imported and freed (functions: the job could begin, the job has ended)."""

    def __init__(self, host, settings):
        self.host, self.s = host, settings
        self.world = settings.workload.world
        self.other_cpus = host.other_cpus(settings.workload) or host.cpus
        self.processes = self.target = self.labels = self.recorder = None
        self.culprit = None  # the rank that the fault at hand is of
        self.cpu_used = 1.0  # seconds of CPU time a second, before the fault at hand
        self.pids, self.start_ns, self.end_ns, self.warm_ns = [], None, None, None
        self.complete = False
        self.episodes = 0
        self.in_progress = None

    # ---- what faults use, beside cpu_used, culprit, world and other_cpus ----

    @property
    def cpus(self):
        return self.target.cpus

    @property
    def gpus(self):
        return self.target.gpus

    @property
    def group(self):
        return self.target.group

    @property
    def link(self):
        return self.target.link

    @staticmethod
    def cpu_words(cpus):
        return ",".join(str(c) for c in cpus)

    def stress(self, arguments, space=None):
        # only what runs on the GPU needs PyTorch; the runner's Python starts sooner
        python = self.host.python if arguments[0] in ("copy", "matmul") else sys.executable
        with open(self.file("stress.log"), "a") as log:
            return Stress(self.processes.start(
                [python, os.path.join(LAB, "stress.py"), *arguments], space=space,
                cpus=self.host.cpus, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                text=True))

    def end_process(self, process):
        self.processes.end(process)

    # ---- the recorder ----

    def file(self, name):
        return os.path.join(self.s.out, name)

    def start_recorder(self):
        if not self.s.eacgm:
            return
        pids = ",".join(str(p.pid) for p in self.target.ranks)
        own = [c for c in self.host.cpus if c not in self.cpus] or self.host.cpus
        with open(self.file("record.log"), "w") as log:
            self.recorder = self.processes.start(
                [self.s.eacgm, "record", "-o", self.file(RECORDING), *self.s.record_options, "-p",
                 pids], cpus=own, kind="recorder", death=signal.SIGINT, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)
        self.target.wait_for(self.attached, ATTACH_S, "to be attached to")

    def attached(self):
        with open(self.file("record.log"), errors="replace") as f:
            text = f.read()
        if self.recorder.poll() is not None:
            raise Failed("eacgm ended with %d: %s" % (self.recorder.returncode,
                                                      text.strip()[-300:]))
        return "eacgm: attached to " in text

    # ---- time goes by ----

    def wait(self, seconds):
        """Sleeps, and notices when the job or the recorder ends."""
        end = time.monotonic() + seconds
        while True:
            self.target.check()
            if self.recorder and self.recorder.poll() is not None:
                raise Failed("eacgm ended in the middle of the run: see record.log")
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(0.1, left))

    def wait_until(self, deadline):
        self.wait(max(0, deadline - time.monotonic()))

    def warm_up(self):
        self.wait(self.s.pace.warmup)
        self.target.control.set(warming=None)
        self.warm_ns = now_ns()
        self.add_benign("warmup", self.start_ns, self.warm_ns)

    def follow_schedule(self, deadline):
        """Each item is prepared while the one before goes on."""
        items = schedule.items(self.s.seed, self.s.workload.name, self.s.split, self.s.faults,
                               self.s.benign, self.s.pace, self.s.levels)
        item, done = next(items), 0
        fault = self.prepared(item)
        while time.monotonic() + item.gap_s + item.length_s <= deadline and done != self.s.items:
            self.gap(item.gap_s)
            following = next(items)
            following_fault = self.happen(item, fault, following)
            item, fault, done = following, following_fault, done + 1
        if fault:
            fault.drop(self)
        self.wait_until(min(deadline, time.monotonic() + self.s.pace.gap[0]) if done == self.s.items
                        else deadline)

    def gap(self, seconds):
        """Nothing happens; how much CPU time the job takes then is remembered."""
        began, before = time.monotonic(), cpu_seconds(self.target.pids())
        self.wait(seconds)
        used = cpu_seconds(self.target.pids()) - before
        self.cpu_used = max(0.05, used / (time.monotonic() - began))

    def prepared(self, item):
        """The fault of an item, ready to begin; None where it is benign."""
        if item.kind != "fault":
            return None
        fault = copy.copy(FAULTS[item.name])
        fault.prepare(self, fault.value_of(item.intensity))
        return fault

    def happen(self, item, fault, following):
        """The item, from its beginning to its end; returns the following one's fault."""
        if not fault:
            self.change(item)
            return self.prepared(following)
        try:
            self.begin_episode(item, fault)
        except (Failed, OSError) as e:
            self.give_up(str(e))
            return self.prepared(following)
        began = time.monotonic()  # to take a GPU, or memory, takes a second or two
        self.say("%s %s" % (fault.name, item.intensity))
        following_fault = self.prepared(following)
        self.wait_until(began + item.length_s)
        self.end_episode()
        return following_fault

    def begin_episode(self, item, fault):
        self.episodes += 1
        value = fault.value_of(item.intensity)
        self.culprit = rank = fault.rank(self, random.Random("%s/%d" % (self.s.seed,
                                                                        self.episodes)))
        target = {"pids": self.target.pids(), "rank": rank, "gpu": None, "cgroup": None,
                  "cpus": None}
        if rank is not None:
            target["culprit_pid"] = self.target.ranks[rank].pid
        target.update(fault.target(self))
        share = fault.share(value)
        e = {"type": "episode", "id": self.episodes, "fault": fault.name, "cause": fault.cause,
             "onset_ns": now_ns(), "intensity": item.intensity, "value": round(value, 6),
             "unit": fault.unit, "layers": list(fault.layers_in(self.s.workload)),
             "confusable": list(fault.confusable), "target": target, "injector_pids": [],
             "seed": self.s.seed, "split": self.s.split,
             "calls": "calls.jsonl" if fault.exact_calls else None,
             "expected_share": share if share is None else round(share, 4), "culprit": None}
        self.in_progress = fault, e
        if fault.inside:
            e["sequence"] = self.target.control.set(faults={fault.name: {
                "value": value, "rank": rank, "episode": e["id"]}})
            e["applied_ns"] = e["onset_ns"]  # until it is known when the job saw it
        else:
            fault.begin(self, value)
            e["applied_ns"] = now_ns()
            e["injector_pids"] = fault.injectors()
        found = fault.culprit(self)
        e["culprit"] = found and {key: found.get(key) for key in CULPRIT}

    def give_up(self, why):
        """A fault that cannot begin; the run goes on."""
        fault, e = self.in_progress
        self.in_progress = None
        try:
            fault.end(self)
        except OSError:
            pass  # there was nothing to end
        self.say("%s failed: %s" % (fault.name, why))
        self.labels.add(dict(e, type="failed", why=why, end_ns=now_ns()))

    def end_episode(self):
        fault, e = self.in_progress
        self.in_progress = None
        e["end_ns"] = now_ns()
        if fault.inside:
            e["release_sequence"] = self.target.control.set(faults={})
            self.await_release(e["release_sequence"])
        else:
            fault.end(self)
        e["released_ns"] = now_ns()
        self.labels.add(e)

    def await_release(self, sequence):
        """A step may take long, and what comes next is to come after it."""
        end = time.monotonic() + RELEASE_S
        while not self.target.told_release(sequence) and time.monotonic() < end and \
                all(p.poll() is None for p in self.target.ranks):
            time.sleep(0.05)

    def change(self, item):
        """Benign."""
        began = now_ns()
        self.say("benign: %s" % item.name)
        control = self.target.control
        if item.name == "checkpoint":
            saves = control.state.get("saves", 0) + 1
            control.set(saves=saves)
            self.target.wait_for(lambda: os.path.exists(self.file("saved.%d" % saves)), SAVED_S,
                                 "to save its model")
            self.wait(0.5)
        else:
            key, value = {"evaluation": ("phase", "eval"), "batch_size": ("half", True)}[item.name]
            control.set(**{key: value})
            self.wait(item.length_s)
            control.set(**{key: None})
        self.add_benign(item.name, began, now_ns())

    def add_benign(self, kind, onset_ns, end_ns):
        self.labels.add({"type": "benign", "kind": kind, "onset_ns": onset_ns, "end_ns": end_ns,
                         "seed": self.s.seed, "split": self.s.split})

    def say(self, text):
        self.s.say("%6.1f s  %s" % ((now_ns() - self.start_ns) / 1e9, text))

    # ---- the whole ----

    def run(self):
        """Returns the labels' rows. All that was started has ended then."""
        self.empty_folder()
        self.labels = Labels(self.s.out, self.world)
        self.processes = Processes()
        rows = []
        try:
            self.target = Target(self.host, self.s.workload, self.processes, self.s.out,
                                 self.s.seed, self.s.gpu)
            deadline = self.start_job()
            self.start_recorder()
            if self.s.recorded:
                deadline = time.monotonic() + self.s.seconds
            self.pids, self.start_ns = self.target.pids(), now_ns()
            self.labels.add(self.run_row())
            self.target.control.set(go=True)
            self.warm_up()
            if self.s.faults or self.s.benign:
                self.follow_schedule(deadline)
            else:
                self.wait_until(deadline)
            self.complete = True
        finally:
            self.close()
            if self.start_ns:
                rows = self.labels.complete(self.run_row(), self.warm_ns or self.start_ns)
        return rows

    def start_job(self):
        """When the run is to end."""
        began = time.monotonic()
        seconds = self.s.seconds
        if self.s.held:
            self.target.launch([c for c in self.host.cpus if c not in self.cpus] or self.cpus)
            self.s.imported()
            seconds, began = self.s.held(), time.monotonic()
        else:
            self.target.launch(self.cpus)
        self.target.build()
        return began + seconds - CLOSING_S

    def empty_folder(self):
        """Of what an earlier run left there."""
        os.makedirs(self.s.out, exist_ok=True)
        for name in os.listdir(self.s.out):
            if name.split(".")[0] in OWN_FILES:
                os.unlink(self.file(name))

    def close(self):
        """The fault first, then the recording, then the job; what is left the guard ends."""
        try:
            if self.in_progress:
                self.end_episode()
        except (OSError, Failed):
            pass  # its processes are ended below, the cgroup and the link go
        self.end_ns = now_ns()
        if self.recorder:
            self.processes.end(self.recorder, signal.SIGINT, RECORD_ENDS_S)
        if self.target:
            self.target.stop()
        self.processes.end_all()
        self.s.freed()
        if self.target:
            self.target.close()

    def run_row(self):
        group = self.target.group
        return {"type": "run", "version": 1, "workload": self.s.workload.name, "plan": self.s.plan,
                "split": self.s.split, "seed": self.s.seed,
                "recording": RECORDING if self.s.eacgm else None,
                "record_options": list(self.s.record_options), "start_ns": self.start_ns,
                "end_ns": self.end_ns, "pids": self.pids,
                "ranks": {str(r): p.pid for r, p in enumerate(self.target.ranks)},
                "gpus": self.gpus, "cpus": self.cpus, "cgroup": group.path if group else None,
                "packages": self.packages(), "complete": self.complete}

    def packages(self):
        """{module: version} of other people's, as the job told them."""
        try:
            with open(self.file("packages.json")) as f:
                return json.load(f)
        except OSError:
            return {}
