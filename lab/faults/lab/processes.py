"""processes.py - what a run starts: each process leads a session of its own and is known to the
guard, which ends it also where the runner cannot. Only what was started here is ever ended."""

import os
import signal
import subprocess
import threading

from . import netns
from .guard import Guard, die_with_parent

ENDS_S = 10


class Failed(Exception):
    """A run that cannot go on, with the reason."""


def parents():
    """{pid: its parent} of all processes (proc(5), stat, field 4). The files `children` of threads
    would be less to read; not every kernel has them."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name) as f:
                    found[int(name)] = int(f.read().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError, ValueError):
                pass
    return found


def descendants(pids):
    """These processes and all below them that there are."""
    below = {}
    for pid, parent in parents().items():
        below.setdefault(parent, []).append(pid)
    found = list(pids)
    for pid in found:
        found += below.get(pid, [])
    return found


def cpu_seconds(pids):
    """User and system time that they have taken (proc(5), stat, fields 14 and 15)."""
    total = 0
    for pid in pids:
        try:
            with open("/proc/%d/stat" % pid) as f:
                fields = f.read().rsplit(")", 1)[1].split()
                total += int(fields[11]) + int(fields[12])
        except (OSError, IndexError, ValueError):
            pass
    return total / os.sysconf("SC_CLK_TCK")


class Stress:
    """A process of stress.py: started, then let go."""

    def __init__(self, process):
        self.process, self.lines = process, []
        self.told = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            with self.told:
                self.lines.append(line.split()[0])
                self.told.notify_all()
        with self.told:
            self.lines.append("ended")
            self.told.notify_all()

    def _await(self, word, seconds=60):
        with self.told:
            self.told.wait_for(lambda: word in self.lines or "ended" in self.lines, seconds)
            if word not in self.lines:
                raise Failed("%s did not begin" % " ".join(self.process.args[2:]))

    def go(self):
        self._await("ready")
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self._await("begun")

    def pids(self):
        return descendants([self.process.pid])


class Processes:
    def __init__(self):
        self.guard, self.all = Guard(), []

    def start(self, args, space=None, cpus=None, group=None, kind="process",
              death=signal.SIGKILL, **kw):
        def before():
            die_with_parent(death)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            if group:
                group.enter()
            if space is not None:
                netns.enter(space)
            if cpus:
                os.sched_setaffinity(0, set(cpus))

        p = subprocess.Popen([str(a) for a in args], preexec_fn=before, start_new_session=True,
                             **kw)
        self.guard.process(p.pid, kind)
        self.all.append(p)
        return p

    @staticmethod
    def end(process, sig=signal.SIGKILL, seconds=ENDS_S):
        """A session that was started here: by signal, then by SIGKILL."""
        for each in (sig, signal.SIGKILL):
            if process.poll() is None:
                try:
                    os.killpg(process.pid, each)
                    process.wait(seconds)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    pass
        process.wait()
        if process.stdin:
            try:
                process.stdin.close()
            except OSError:
                pass

    def end_all(self):
        """Waits until nothing is left."""
        for p in self.all:
            self.end(p)
        self.guard.end()
