"""harness.py - runs tests that need root and prints TAP (https://testanything.org).

A test is a function with the decorator @test("what holds"). Tests are independent of
each other, each has a folder of its own (t.dir) and a time limit; a test that raises has
failed, skip(reason) skips it. Processes are ended by the id they were started under,
with the process group they were given; nothing is ended by name. Knows eacgm through
its command line only.

Environment: EACGM_BUILD (default build), EACGM (default BUILD/eacgm), EACGM_TARGETS (the
folder of the built targets, default BUILD/tests/root/targets), EACGM_TEST_SLOW (factor
for all time limits), and those of pytorch.py.
Arguments of a test file: parts of names; only tests whose names hold one are run.
"""

import collections
import glob
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import pytorch

# a shell that starts jobs in the background has them ignore it, and children would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what was started ends
# "sudo make test": commands run as root all the same, in folders of root
for _name in ("SUDO_UID", "SUDO_GID", "SUDO_USER", "DOAS_USER", "PKEXEC_UID"):
    os.environ.pop(_name, None)
# Exact counts need that eacgm got its turn, on a machine that is busy with other work too.
os.environ.setdefault("EACGM_PATIENCE", "5")

HERE = os.path.dirname(os.path.abspath(__file__))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (
    os.path.join(HERE, "site"), os.environ.get("PYTHONPATH"))))

ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("EACGM_BUILD", os.path.join(ROOT, "build"))
EACGM = os.path.abspath(os.environ.get("EACGM", os.path.join(BUILD, "eacgm")))
TARGETS = os.path.abspath(os.environ.get("EACGM_TARGETS",
                                         os.path.join(BUILD, "tests", "root", "targets")))
SLOW = float(os.environ.get("EACGM_TEST_SLOW", "1"))
LIBTARGET = os.path.join(TARGETS, "libtarget.so")
PYTHON = pytorch.PYTHON

PUSH = "libtarget.so:target_push(u64 a) -> u64"

_tests = []
_beside = set()


class Skip(Exception):
    pass


class TimedOut(Exception):
    pass


def usual_patience():
    """For tests of how long a process is held at most."""
    os.environ.pop("EACGM_PATIENCE", None)


def skip(reason):
    raise Skip(reason)


def needs_torch(part="torch"):
    if part not in pytorch.there():
        skip("%s has no %s" % (PYTHON, "torch" if part == "torch" else "torch with " + part))


def needs_sessions(t):
    """Only session links (6.13) can leave a call or a process out: docs/developers/probing.md."""
    if os.environ.get("EACGM_ATTACH", "session") != "session" or \
            "session links" not in t.run([EACGM, "doctor"]).out:
        skip("no session links")


def target(name):
    return os.path.join(TARGETS, name)


def test(name, seconds=60, beside=False):
    """beside: it waits most of its time, and runs in a process of its own beside the others."""
    def add(fn):
        _tests.append((name, seconds, fn))
        if beside:
            _beside.add(name)
        return fn
    return add


class Result:
    """A finished command."""

    def __init__(self, args, status, out, err):
        self.args, self.status, self.out, self.err = args, status, out, err

    def __str__(self):
        return "%s\nstatus %s\n--- out\n%s--- err\n%s" % (
            " ".join(self.args), self.status, self.out[-2000:], self.err[-2000:])


class Recording:
    """What `eacgm report --json` and `eacgm export -f jsonl` say of a file."""

    def __init__(self, t, path, ran=None):
        self.t, self.path, self.ran = t, path, ran
        self._report = self._calls = self._metas = None
        t.recordings.append(self)

    @property
    def report(self):
        if self._report is None:
            r = self.t.run([EACGM, "report", "--json", "--steps", self.path])
            expect(r.status == 0, "report failed: %s" % r)
            self._report = json.loads(r.out)
        return self._report

    @property
    def calls(self):
        if self._calls is None:
            out = os.path.join(self.t.dir, "calls.jsonl")
            r = self.t.run([EACGM, "export", self.path, "-f", "jsonl", "-o", out])
            expect(r.status == 0, "export failed: %s" % r)
            with open(out) as f:
                rows = [json.loads(line) for line in f]
            self._calls = [row for row in rows if row.get("type") == "call"]
            self._metas = rows[0]
        return self._calls

    @property
    def metas(self):
        """What eacgm wrote about the recording itself."""
        return self.calls is not None and self._metas

    def function(self, name, layer=None):
        """The sums over all rows of that name."""
        total = collections.Counter()
        for f in self.report["functions"]:
            if plain_name(f) == name and (layer is None or f["layer"] == layer):
                for key in ("calls", "errors", "nested_calls", "total_ns"):
                    total[key] += f.get(key) or 0
                total["max_ns"] = max(total["max_ns"], f.get("max_ns") or 0)
        return total

    def count(self, name, layer=None):
        return self.function(name, layer)["calls"]

    def lost(self, cause=None):
        r = self.report["recording"]
        if cause is None:
            return r["lost"]
        return r.get("lost_by_cause", {}).get(cause, 0)

    def expect_counts(self, counts, exactly=True):
        expect(sum(counts.values()) > 0, "nothing was called: %s" % (self.ran or ""))
        seen = {name: self.count(name) for name in counts}
        if exactly:
            expect(seen == dict(counts), "calls seen: %r, made: %r; lost: %r; eacgm said: %s" % (
                seen, dict(counts), self.report["recording"].get("lost_by_cause"),
                getattr(self.ran, "err", self.ran or "")[-600:]))
        return seen


class Test:
    """What a test is given."""

    def __init__(self, deadline):
        self.dir = tempfile.mkdtemp(prefix="eacgm-test-")
        os.chmod(self.dir, 0o755)
        self.deadline = deadline
        self.started = []
        self.recordings = []
        self.at_end = []

    def start(self, args, **kw):
        """Starts a command in a process group of its own."""
        args = [str(a) for a in args]
        kw.setdefault("stdin", subprocess.DEVNULL)
        p = subprocess.Popen(args, start_new_session=True, **kw)
        self.started.append(p)
        return p

    def finish(self, p, seconds=None):
        """Waits for a command started with pipes."""
        limit = self.deadline - time.monotonic()
        if seconds is not None:
            limit = min(limit, seconds * SLOW)
        try:
            out, err = p.communicate(timeout=max(limit, 0.1))
        except subprocess.TimeoutExpired:
            doing = doing_of(p.pid)
            self.kill(p)
            out, err = p.communicate()
            raise TimedOut("%s did not end in %.0f s\n%s\n%s%s" % (
                " ".join(map(str, p.args)), limit, doing, (out or "")[-1000:],
                (err or "")[-1000:])) from None
        return Result(p.args, p.returncode, out or "", err or "")

    def run(self, args, seconds=None, **kw):
        p = self.start(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       errors="replace", **kw)
        return self.finish(p, seconds)

    def run_alone(self, args, seconds=None, **kw):
        """As run, but does not wait for what the command leaves running."""
        out, err = self.path("stdout"), self.path("stderr")
        with open(out, "w") as o, open(err, "w") as e:
            p = self.start(args, stdout=o, stderr=e, **kw)
        limit = min((seconds or 1e9) * SLOW, max(0.1, self.deadline - time.monotonic()))
        try:
            p.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            self.kill(p)
            raise TimedOut("%s did not end in %.0f s" % (" ".join(p.args), limit)) from None
        with open(out) as o, open(err) as e:
            return Result(p.args, p.returncode, o.read(), e.read())

    def kill(self, p):
        """Ends a process group that this test started and has not waited for."""
        if p.poll() is None:
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def path(self, name):
        return os.path.join(self.dir, name)

    def record(self, cmd, *options, env=None, status=0, expected_out=None):
        """Records a command; returns the Recording."""
        out = self.path("run%d.eacgm" % len(self.started))
        full = [EACGM, "record", "-o", out, *options, "--", *cmd]
        r = self.run(full, env=dict(os.environ, **env) if env else None)
        if status is not None:
            expect(r.status == status, "expected exit status %r: %s" % (status, r))
        rec = Recording(self, out, r)
        rec.made = made_counts(r.out)
        return rec

    def start_record(self, *options, out=None, ready=True, **kw):
        """Starts `eacgm record` and waits until it has attached."""
        out = out or self.path("attached.eacgm")
        log = open(out + ".log", "w+")
        p = self.start([EACGM, "record", "-o", out, *options], stdout=log, stderr=log, **kw)
        p.log = log
        p.recording = Recording(self, out)
        if ready:
            self.wait_for(lambda: has_begun(p), "eacgm record to attach")
        return p

    def stop_record(self, p, sig=signal.SIGINT):
        os.kill(p.pid, sig)
        try:
            p.wait(timeout=max(1, min(30 * SLOW, self.deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            raise TimedOut("eacgm record does not end on signal %d: %s" % (
                sig, log_of(p))) from None
        return p.recording

    def wait_for(self, condition, what, seconds=20):
        """what: told where it does not come; where it is a function, what that returns then."""
        end = min(time.monotonic() + seconds * SLOW, self.deadline)
        while not (met := condition()):
            if time.monotonic() > end:
                raise TimedOut("waited for: %s" % (what() if callable(what) else what))
            time.sleep(0.02)
        return met

    def losses(self):
        """What the recording that was looked at last says that it lost, for who reads of a failure."""
        looked_at = [r for r in self.recordings if r._report is not None]
        lost = looked_at[-1].report["recording"].get("lost_by_cause") if looked_at else None
        return "\nlost in the recording that was read last: %r" % lost if lost else ""

    def clean(self):
        for p in self.started:
            self.kill(p)
            try:
                p.wait(timeout=10)
            except subprocess.TimeoutExpired:
                print("# process %d does not end" % p.pid)
        for fn in reversed(self.at_end):
            try:
                fn()
            except OSError as e:
                print("# cleaning up: %s" % e)
        shutil.rmtree(self.dir, ignore_errors=True)


def plain_name(f):
    """A function's name without the place that the report adds to Python's."""
    if f.get("file") and f["name"].endswith(")"):
        return f["name"].rsplit(" (", 1)[0]
    return f["name"]


def doing_of(pid):
    """What the threads of a process do: their state, CPU time, system call and kernel stack."""
    lines = []
    for task in glob.glob("/proc/%d/task/*" % pid):
        try:
            said = {}
            for name in ("stat", "syscall", "stack"):
                with open(os.path.join(task, name)) as f:
                    said[name] = f.read()
        except OSError:
            continue
        stat = said["stat"].rsplit(")", 1)[1].split()
        lines.append("thread %s: %s, %s + %s ticks, syscall %s, %s" % (
            os.path.basename(task), stat[0], stat[11], stat[12], said["syscall"].split()[0],
            " ".join(x.split()[-1] for x in said["stack"].splitlines()[:6])))
    return "\n".join(lines)


def log_of(p):
    p.log.flush()
    with open(p.log.name) as f:
        return f.read()


def is_known(folded):
    """Whether the program and its files' unwind rules were known when these stacks were taken. A
    program is held for that, for a bounded time, and not where eacgm gets no CPU."""
    return not any("[cut: %s]" % reason in folded
                   for reason in ("no_maps", "no_mapping", "no_table"))  # docs/profiling.md


def size_of(path):
    """0 where there is no file of that name yet."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


POLL = ("7 ", "271 ")  # poll(2) and ppoll(2) on x86-64


def nothing_kept(t):
    """An environment in which no earlier run has kept what files hold: they are read."""
    return dict(os.environ, EACGM_CACHE=t.path("cache"))


def has_begun(p):
    """It says so where it attaches to what runs. With a command, all is attached once the
    recording's file is there and the main thread follows processes, that is, sits in poll
    each time one looks."""
    if "--" not in p.args:
        if p.poll() is not None:
            raise AssertionError("eacgm record ended with %s: %s" % (p.returncode, log_of(p)))
        return "eacgm: attached to " in log_of(p)
    for _i in range(8):
        if p.poll() is not None:
            raise AssertionError("eacgm record ended with %s: %s" % (p.returncode, log_of(p)))
        try:
            with open("/proc/%d/syscall" % p.pid) as f:
                if not os.path.exists(p.recording.path) or not f.read().startswith(POLL):
                    return False
        except OSError:
            return False
        time.sleep(0.02)
    return True


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def stolen_ns():
    """Time that the machine's host ran something else in the place of its CPUs, all together since
    boot (/proc/stat). In it a thread runs for the kernel and stands still for the clock: who takes
    the clock minus CPU time for waiting has it in, a tracer of switches has not."""
    with open("/proc/stat") as f:
        ticks = int(f.readline().split()[8])
    return ticks * (1000000000 // os.sysconf("SC_CLK_TCK"))


def expect_one_line(r, *words, status=1):
    """A failure as the rules want it: one clear line, no output, that exit status."""
    expect(r.status == status, "expected exit status %d: %s" % (status, r))
    lines = [line for line in r.err.splitlines() if line.strip()]
    expect(len(lines) == 1, "expected one line on standard error: %s" % r)
    for word in words:
        expect(word.lower() in lines[0].lower(), "expected %r in: %s" % (word, lines[0]))


def made_counts(out):
    """The 'FUNCTION CALLS' lines that targets print, summed."""
    made = collections.Counter()
    for line in out.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].isdigit():
            made[words[0]] += int(words[1])
    return made


def probes(*specs):
    return [word for spec in specs for word in ("--probe", spec)]


def _run_one(name, seconds, fn):
    deadline = time.monotonic() + seconds * SLOW
    t = Test(deadline)

    def on_alarm(_sig, _frame):
        raise TimedOut("time limit of %.0f s" % (seconds * SLOW))

    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, seconds * SLOW + 5)
    try:
        fn(t)
        return "ok", ""
    except Skip as e:
        return "skip", str(e)
    except (AssertionError, TimedOut) as e:
        where = traceback.extract_tb(e.__traceback__)
        own = [f for f in where if not f.filename.endswith("harness.py")]
        return "not ok", "line %d: %s%s" % ((own or where)[-1].lineno, e, t.losses())
    except Exception:  # pylint: disable=broad-except
        return "not ok", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        t.clean()


def cpu_s():
    """CPU time of this process, and of the others that it has waited for."""
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (
        resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def _start_beside(chosen):
    """{name: process} of the tests that run beside others, where there are any."""
    if len(chosen) == 1:
        return {}
    return {name: subprocess.Popen([sys.executable, sys.argv[0], name], stdout=subprocess.PIPE,
                                   text=True)
            for name, _seconds, _fn in chosen if name in _beside}


def _result_of(p, name, i):
    """What it printed, as the i-th of all; whether it failed."""
    lines = p.communicate()[0].splitlines()[1:] or [
        "not ok 1 - %s: it said nothing: %d" % (name, p.returncode)]
    return [lines[0].replace("ok 1 ", "ok %d " % i, 1), *lines[1:]], lines[0].startswith("not ok")


def main():
    wanted = sys.argv[1:]
    chosen = [x for x in _tests if not wanted or any(w in x[0] for w in wanted)]
    reason = None
    if os.geteuid() != 0:
        reason = "needs root"
    elif not os.access(EACGM, os.X_OK):
        reason = "%s is not built" % EACGM
    elif not os.path.exists(LIBTARGET):
        reason = "%s is not built" % LIBTARGET
    if reason:
        print("1..0 # SKIP %s" % reason)
        return 0
    print("1..%d" % len(chosen), flush=True)
    failed = 0
    beside = _start_beside(chosen)
    chosen.sort(key=lambda x: x[0] in beside)  # what they say comes at the end
    for i, (name, seconds, fn) in enumerate(chosen, 1):
        if name in beside:
            lines, bad = _result_of(beside[name], name, i)
            failed += bad
            print("\n".join(lines), flush=True)
            continue
        began, used = time.monotonic(), cpu_s()
        outcome, why = _run_one(name, seconds, fn)
        took = time.monotonic() - began
        if outcome == "skip":
            print("ok %d - %s # SKIP %s" % (i, name, why))
        else:
            print("%s %d - %s (%.1f s, CPU %.1f s)" % (outcome, i, name, took, cpu_s() - used))
        if outcome == "not ok":
            failed += 1
            for line in why.splitlines():
                print("#   " + line)
        sys.stdout.flush()
    return 1 if failed else 0
