"""lanes.py - runs of a campaign, each a process of run.py, one after the other on each lane and
lanes side by side. The job of a run imports what it needs before its time begins, and after the run
before has ended: importing PyTorch beside a job slows that by a third.

A run has until the lane's end, less what the runs behind it want, and a limit beyond which it is
told to end, then killed; what a killed run.py had started its guard ends."""

import os
import re
import signal
import subprocess
import sys
import time

from .guard import die_with_parent
from .host import LAB
from .layout import START_S

OVER_S = 45  # a run may take longer than it was given: ending a recording takes time
ENDS_S = 15  # after SIGTERM, before SIGKILL
AFTER_FAILURE_S = 5
IMPORT_S = 60  # longer is not waited for
LEAST_S = 25  # less is not worth a start
IMPORTED = "the job has imported what it needs"
FREED = "the job has ended"
SAID = re.compile(r"^eacgm: (\d+) calls, \d+ samples(?:, \d+ GPU spans)? in ([\d.]+) s, "
                  r"lost (\d+)", re.M)


def spans(cpus):
    """[0, 1, 2, 8] as 0-2,8: in that order."""
    words, i = [], 0
    while i < len(cpus):
        j = i
        while j + 1 < len(cpus) and cpus[j + 1] == cpus[j] + 1:
            j += 1
        words.append("%d-%d" % (cpus[i], cpus[j]) if j > i else str(cpus[i]))
        i = j + 1
    return ",".join(words)


def lost_of(folder):
    """(calls, seconds, lost calls) as eacgm said of a recording, None where it did not."""
    try:
        with open(os.path.join(folder, "record.log"), errors="replace") as f:
            found = SAID.search(f.read())
    except OSError:
        return None
    return (int(found[1]), float(found[2]), int(found[3])) if found else None


class Making:
    """A run that is being made."""

    def __init__(self, run, lane, settings):
        self.run, self.out = run, os.path.join(settings.runs, run.name)
        os.makedirs(self.out, exist_ok=True)
        self.log = os.path.join(self.out, "run.log")
        self.made = time.monotonic()
        self.began = self.limit = self.told = self.left_out = None
        words = [sys.executable, os.path.join(LAB, "run.py"), "--held", "--workload",
                 run.workload.name, "--plan", run.plan, "--seed", run.seed, "--eacgm",
                 settings.eacgm, "--pace", settings.pace, "--cpus", spans(lane.cpus),
                 "--helpers", settings.helpers, "--python", settings.python, "--out", self.out]
        if lane.gpus:
            words += ["--gpu", lane.gpus[0]]
        if run.faults:
            words += ["--faults", ",".join(run.faults)]
        if settings.beside_others:
            words += ["--beside-others"]
        if settings.record_options:
            words += ["--record-options", settings.record_options]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [str(w) for w in words], stdin=subprocess.PIPE, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=lambda: die_with_parent(signal.SIGTERM))

    def go(self, seconds):
        self.began = time.monotonic()
        self.limit = self.began + seconds + OVER_S
        try:
            self.process.stdin.write(b"go %.1f\n" % seconds)
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended; its log says why

    def said(self):
        try:
            with open(self.log, errors="replace") as f:
                return f.read()
        except OSError:
            return ""

    def imported(self):
        """It could begin at once; or it is of no use to wait for it."""
        return IMPORTED in self.said() or self.process.poll() is not None or \
            time.monotonic() > self.made + IMPORT_S

    def freed(self):
        """The GPU and the cores are free for the next."""
        return self.process.poll() is not None or FREED in self.said()

    def end_where_late(self):
        now = time.monotonic()
        if self.process.poll() is not None or not self.limit or now < self.limit:
            return
        if not self.told:
            self.told = now
            self.process.terminate()
        elif now > self.told + ENDS_S:
            self.process.kill()  # its guard ends what it started

    def end(self, at):
        """To be over by then, whatever it does."""
        self.limit = min(self.limit or at, at)

    def why(self):
        """Of a failure, one line."""
        lines = [x for x in self.said().strip().splitlines()
                 if x.strip() and x not in (FREED, IMPORTED)]
        code = self.process.returncode
        return "ended with %d%s: %s" % (code, ", beyond its limit" if self.told else "",
                                        lines[-1].strip()[:300] if lines else "it said nothing")


class Lane:
    """The runs of one lane of a row. tell: is called with each run that is over."""

    def __init__(self, lane, settings, tell):
        self.lane, self.settings, self.tell = lane, settings, tell
        self.end_at = None
        self.left = list(lane.runs)
        self.name = lane.runs[0].workload.name
        self.now = self.next = None
        self.ending = []  # whose job has ended, and who write their labels
        self.not_before = 0

    def prepare(self):
        """Starts the next one's job, which waits."""
        if not self.next and self.left:
            self.next = Making(self.left.pop(0), self.lane, self.settings)

    def seconds(self):
        """Of the run that begins now: its share of what is left."""
        later = sum(r.share for r in self.left)
        share = self.next.run.share
        return (self.end_at - time.monotonic()) * share / (share + later)

    def step(self):
        """To be called often. False: there is nothing left to do."""
        for m in [m for m in self.ending if m.process.poll() is not None]:
            self.ending.remove(m)
            self.tell(m)
            if m.process.returncode:  # its guard may still be ending what it had started
                self.not_before = time.monotonic() + AFTER_FAILURE_S
        for m in self.ending + [m for m in (self.now, self.next) if m]:
            m.end_where_late()
        if self.now and self.now.freed():
            self.ending.append(self.now)
            self.now = None
        if not self.now and not self.failing() and time.monotonic() >= self.not_before:
            self.begin()
        return bool(self.now or self.next or self.ending or self.left)

    def failing(self):
        return any(m.process.poll() for m in self.ending)

    def begin(self):
        self.prepare()
        if not self.next or not self.next.imported():
            return
        seconds = self.seconds()
        if seconds < max(LEAST_S, START_S):
            self.next.left_out = "%.0f s are too short" % seconds
            self.next.process.stdin.close()  # it ends by itself
            self.ending.append(self.next)
            self.next = None
            return
        self.now, self.next = self.next, None
        self.now.go(seconds)

    def busy(self):
        """Its GPUs are in use, or will be."""
        return bool(self.now or self.next or self.left)

    def stop(self):
        """All that runs is told to end."""
        self.left = []
        for m in self.ending + [m for m in (self.now, self.next) if m]:
            m.end(time.monotonic())
