"""jobs.py - runs functions in processes of their own, so many at a time, the first ones that are
ready first. A job may wait for others; one that fails or dies fails alone, and so does what waits
for it. Knows nothing of what they do."""

import heapq
import itertools
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys

import common


def default_count(bytes_each):
    """As many as there are processors, and memory for."""
    processors = len(os.sched_getaffinity(0))
    try:
        with open("/proc/meminfo", encoding="ascii") as f:
            free = next(int(line.split()[1]) << 10 for line in f if line.startswith("MemAvail"))
    except (OSError, StopIteration, ValueError):
        return processors
    return max(1, min(processors, free // bytes_each))


class Stopped(Exception):
    """The program was told to end."""


def stop_on_signals():
    """SIGTERM, as of `timeout`, becomes an exception, as Ctrl-C does."""
    def stop(number, frame):
        raise Stopped()
    signal.signal(signal.SIGTERM, stop)


def _child(pipe, function, args):
    """In the new process. What it returns, or the sentence of its failure, goes through the pipe.
    Where it is ended, common.run ends what it started."""
    def ended(number, frame):
        sys.exit(1)
    signal.signal(signal.SIGTERM, ended)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    try:
        pipe.send((True, function(*args)))
    except Exception as e:  # whatever it is, the others go on
        known = isinstance(e, (common.Failed, ValueError, OSError)) or type(e).__name__ == "Bad"
        pipe.send((False, str(e) if known and str(e) else repr(e)))
    pipe.close()


class Jobs:
    """add() jobs, then run(). done(name, result) and failed(name, sentence) are called in the
    parent as jobs end; both may add more."""

    def __init__(self, count, done, failed):
        self.count, self.done, self.failed = count, done, failed
        self.ready, self.waiting, self.succeeded, self.broken = [], {}, set(), set()
        self.numbers = itertools.count()

    def add(self, name, rank, function, args, after=()):
        """The lowest rank goes first. after: names of jobs that must have succeeded."""
        job = (rank, next(self.numbers), name, function, args, tuple(after))
        if any(a in self.broken for a in after):
            self.broken.add(name)
        elif self.succeeded.issuperset(after):
            heapq.heappush(self.ready, job)
        else:
            self.waiting[name] = job

    def _ended(self, name, ok, value):
        if ok:
            self.succeeded.add(name)
            self.done(name, value)
        else:
            self.broken.add(name)
            self.failed(name, value)
        for other, job in list(self.waiting.items()):
            if name in job[5]:
                del self.waiting[other]
                self.add(other, job[0], *job[3:])

    def _start(self, running):
        _, _, name, function, args, _ = heapq.heappop(self.ready)
        mine, theirs = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(
            target=_child, args=(theirs, function, args))
        process.start()
        theirs.close()
        running[mine] = (name, process)

    def _finish(self, pipe, running):
        name, process = running[pipe]
        try:
            ok, value = pipe.recv()
        except EOFError:
            ok, value = False, None
        process.join()
        pipe.close()
        del running[pipe]
        if value is None and not ok:
            value = "its process ended with %s" % process.exitcode
        self._ended(name, ok, value)

    def run(self):
        """Until nothing is left. Processes that run when it is interrupted are ended."""
        running = {}
        try:
            while self.ready or running:
                while self.ready and len(running) < self.count:
                    self._start(running)
                for pipe in multiprocessing.connection.wait(list(running)):
                    self._finish(pipe, running)
        finally:
            for _, process in running.values():
                process.terminate()
            for _, process in running.values():
                process.join()
