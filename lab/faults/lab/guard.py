"""guard.py - ends what a run started, also where the runner is killed: a process of its own that is
told over a pipe what there is, and cleans up when the pipe is closed.

Processes are known by number and start time, so that a number that is used again is left alone."""

import ctypes
import os
import signal
import time

WAIT_S = 10
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
COMMAND = "neighbour"  # of all foreign processes: it does not tell what they do
LIBC = ctypes.CDLL(None)


def die_with_parent(sig):
    """The calling process gets that signal when the one that started it has ended."""
    LIBC.prctl(PR_SET_PDEATHSIG, sig, 0, 0, 0)


def take_name():
    """The calling thread, and those that it starts, are called COMMAND."""
    LIBC.prctl(PR_SET_NAME, COMMAND.encode(), 0, 0, 0)


def start_time(pid):
    """In ticks since boot; None where there is no such process (proc(5), stat, field 22)."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
            return None if fields[0] in "ZX" else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def end_group(pid, began, sig):
    if start_time(pid) == began:
        try:
            os.killpg(pid, sig)
        except OSError:
            pass


def in_session(session):
    """Processes of a session, whose leader may have ended."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.getsid(int(name)) == session:
                    found.append(int(name))
            except OSError:
                pass
    return found


def end_session(pid, began):
    """The leader may be gone and its session not: no other process has that number then."""
    if start_time(pid) not in (None, began):
        return
    for p in in_session(pid):
        try:
            os.kill(p, signal.SIGKILL)
        except OSError:
            pass


def remove_cgroup(path):
    """Its processes were ended; where one is left (it takes a moment to go), it is tried again."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        try:
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.05)


def restore(path, text):
    try:
        with open(path, "w") as f:
            f.write(text)
    except OSError:
        pass


def run(words):
    """A program that undoes what another did."""
    try:
        os.spawnvp(os.P_WAIT, words[0], words)
    except OSError:
        pass


def clean(things):
    """The recorder may finish its file; all else is killed."""
    recorders = [t for t in things if t[0] == "recorder"]
    for _, pid, began in recorders:
        end_group(int(pid), int(began), signal.SIGINT)
    end = time.monotonic() + WAIT_S
    while any(start_time(int(t[1])) == int(t[2]) for t in recorders) and time.monotonic() < end:
        time.sleep(0.05)
    for kind, *rest in things:
        if kind in ("recorder", "process"):
            end_session(*(int(word) for word in rest))
    for kind, *rest in things:
        if kind == "cgroup":
            remove_cgroup(rest[0])
    for kind, *rest in things:
        if kind == "restore":
            restore(rest[0], rest[1])
        if kind == "run":
            run(rest)


class Guard:
    """The runner's side."""

    def __init__(self):
        out, self.pipe = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(out)
            return
        try:
            os.setsid()
            for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(sig, signal.SIG_IGN)
            os.close(self.pipe)
            things = []
            with os.fdopen(out) as f:
                for line in f:
                    if line.endswith("\n"):
                        things.append(line.rstrip("\n").split("\t"))
            clean(things)
        finally:
            os._exit(0)

    def _say(self, *words):
        os.write(self.pipe, ("\t".join(str(w) for w in words) + "\n").encode())

    def process(self, pid, kind="process"):
        """A process that leads a session. kind: process, recorder."""
        self._say(kind, pid, start_time(pid) or 0)

    def cgroup(self, path):
        self._say("cgroup", path)

    def restore(self, path, text):
        """That text goes into that file at the end."""
        self._say("restore", path, text)

    def run_at_end(self, *words):
        """That program is run at the end."""
        self._say("run", *words)

    def end(self):
        """Cleans up, and waits until it is done."""
        if self.pid:
            os.close(self.pipe)
            os.waitpid(self.pid, 0)
            self.pid = 0
