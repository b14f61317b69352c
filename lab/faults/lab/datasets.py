"""datasets.py - recordings of a campaign to data sets (lab/detect/dataset.py): of each workload
first what eacgm says, then also what it says without each of its ingredients, which takes ten times
as long. What is whole is kept, however it ends.

    WORK/runs/RUN       a run's folder        WORK/data/plain, WORK/data/full      data sets
    WORK/models         a model of each workload
Recordings go when their full data set is there; those that are learned from stay for later
parts."""

import json
import os
import shutil
import signal
import subprocess
import time

from .guard import die_with_parent
from .host import ROOT, find_python

DATASET = os.path.join(ROOT, "lab", "detect", "dataset.py")
KINDS = ("plain", "model", "full")
CORES = 8  # of a task, at the most useful
NICE = 10
ENDS_S = 6


def run_of(folder):
    """The row about a run that is whole, else None."""
    try:
        with open(os.path.join(folder, "labels.jsonl")) as f:
            row = json.loads(f.readline())
    except (OSError, ValueError):
        return None
    there = row.get("recording") and os.path.exists(os.path.join(folder, row["recording"]))
    return row if row.get("complete") and there else None


def started_with(mark):
    """Processes that have this in their environment, whoever started them and is gone."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open("/proc/%s/environ" % name, "rb") as f:
                    if mark in f.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                pass
    return found


def kill_all(mark):
    """dataset.py starts processes that start others, in sessions of their own."""
    end = time.monotonic() + ENDS_S
    while time.monotonic() < end:
        left = started_with(mark)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.02)


class Task:
    def __init__(self, kind, workload, names):
        self.kind, self.workload, self.names = kind, workload, names
        self.process = self.began = self.out = None

    def what(self):
        return "%s, %s" % (self.workload, {
            "plain": "data set", "model": "model", "full": "data set with ablations"}[self.kind])


    def why(self):
        """Of a failure, one line."""
        with open(self.out, errors="replace") as f:
            said = [x for x in f.read().replace("\r", "\n").splitlines() if x.strip()]
        named = [x for x in said if x.startswith(("dataset.py:", "eacgm"))]
        return (named or said or ["it said nothing"])[-1].strip()[-300:]


class Datasets:
    """settings: work, runs, eacgm, keep. cores: those to use."""

    def __init__(self, settings, cores, say):
        self.s, self.cores, self.say = settings, list(cores), say
        self.waiting, self.running = [], []
        self.name = "EACGM_CAMPAIGN"
        self.number = "%d-%d" % (os.getpid(), time.monotonic_ns())
        self.mark = ("%s=%s" % (self.name, self.number)).encode()
        self.python = find_python("numpy")
        self.many = "--jobs" in self._help()
        self.temporary = os.path.join(settings.work, "tmp")
        for name in ("tmp", "data/plain", "data/full", "models"):
            os.makedirs(os.path.join(settings.work, name), exist_ok=True)

    def _help(self):
        if not self.python:
            return ""
        done = subprocess.run([self.python, DATASET, "--help"], capture_output=True, text=True,
                              check=False)
        return done.stdout

    def model(self, workload):
        return os.path.join(self.s.work, "models", workload + ".model")

    def data(self, kind, name):
        return os.path.join(self.s.work, "data", kind, name + ".npz")

    def runs_of(self, workload):
        """Names of the workload's runs with a recording, those of earlier parts too."""
        found = {}
        for name in sorted(os.listdir(self.s.runs)):
            row = run_of(os.path.join(self.s.runs, name))
            if row and row["workload"] == workload:
                found[name] = row
        return found

    def add(self, workload):
        """All of its runs that there will be are there."""
        runs = self.runs_of(workload)
        if not any(r["plan"] == "clean" for r in runs.values()):
            self.say("%s: no data set, there is no clean run to learn from" % workload)
            return
        if not self.python:
            self.say("%s: no data set, there is no Python with numpy" % workload)
            return
        whole = all(os.path.exists(self.data("plain", n)) for n in runs)  # by an earlier part
        there = {"plain": whole, "model": whole and os.path.exists(self.model(workload))}
        self.waiting += [Task(kind, workload, list(runs)) for kind in KINDS
                         if not there.get(kind)]
        self.waiting.sort(key=lambda t: KINDS.index(t.kind))

    def step(self):
        """To be called often. False: all is done."""
        for task in [t for t in self.running if t.process.poll() is not None]:
            self.running.remove(task)
            self.ended(task)
        while self.waiting:
            slots = max(1, len(self.cores) // CORES)
            if len(self.running) >= slots:
                break
            self.start(self.waiting.pop(0), max(1, len(self.cores) // slots))
        return bool(self.running or self.waiting)

    def words(self, task, jobs):
        folders = [os.path.join(self.s.runs, n) for n in task.names]
        rows = [run_of(f) for f in folders]
        if task.kind == "model":
            clean = [os.path.join(f, r["recording"]) for f, r in zip(folders, rows)
                     if r["plan"] == "clean"]
            return [self.s.eacgm, "learn", *clean, "-o",
                    self.model(task.workload)]
        words = [self.python, DATASET, *folders, "--eacgm", self.s.eacgm, "-o",
                 os.path.join(self.s.work, "data", task.kind)]
        if self.many:
            words += ["--jobs", str(jobs)]
        if task.kind == "full":
            words += ["--ablate"]
            if any(r["plan"] == "dev" and r["split"] == "dev" for r in rows):
                words += ["--contaminate"]
        return words

    def start(self, task, jobs):
        cores = set(self.cores)

        def before():
            die_with_parent(signal.SIGKILL)
            os.nice(NICE)
            os.sched_setaffinity(0, cores)

        task.began = time.monotonic()
        with open(os.path.join(self.s.work, "data", "%s-%s.log" % (task.workload, task.kind)),
                  "w") as log:
            task.out = log.name
            task.process = subprocess.Popen(
                self.words(task, jobs), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=before,
                env=dict(os.environ, TMPDIR=self.temporary, **{self.name: self.number}))
        self.running.append(task)

    def ended(self, task):
        seconds = time.monotonic() - task.began
        if task.process.returncode:
            self.say("%s: failed after %.0f s: %s" % (task.what(), seconds, task.why()))
            return
        self.say("%s: %d runs in %.0f s" % (task.what(), len(task.names), seconds))
        if task.kind == "full":
            for name in task.names:
                with open(self.done(name), "w"):
                    pass
                if not self.s.keep:
                    self.drop_recording(name)

    def drop_recording(self, name):
        """Not those that are learned from."""
        folder = os.path.join(self.s.runs, name)
        row = run_of(folder)
        if row and row["plan"] != "clean":
            os.unlink(os.path.join(folder, row["recording"]))

    def stop(self):
        """What is not whole is given up."""
        for task in self.running:
            task.process.terminate()  # dataset.py writes what was judged by then
        end = time.monotonic() + ENDS_S
        while any(t.process.poll() is None for t in self.running) and time.monotonic() < end:
            time.sleep(0.05)
        kill_all(self.mark)
        for task in self.running:
            task.process.wait()
            self.say("%s: ended after %.0f s, before it was whole" % (
                task.what(), time.monotonic() - task.began))
        for task in self.waiting:
            self.say("%s: no time was left for it" % task.what())
        self.running, self.waiting = [], []
        shutil.rmtree(self.temporary, ignore_errors=True)

    def done(self, name):
        """A file that says that the run's full data set is whole."""
        return os.path.join(self.s.work, "data", "full", name + ".done")

    def best(self, name):
        """(what it is, path) of the run's data set, None. One that is not whole has some of the
        ablations; a plain one that is newer learned from more."""
        full, plain = self.data("full", name), self.data("plain", name)
        if os.path.exists(self.done(name)):
            return "full", full
        there = [p for p in (full, plain) if os.path.exists(p)]
        if not there:
            return None
        newest = max(there, key=os.path.getmtime)
        return "some ablations" if newest == full else "plain", newest
