"""gpu_timeline_attach_test.py - the CUPTI shim comes into a running process and goes out again,
over the fake CUPTI and the fake driver (tests/fake/cupti): what was launched meanwhile is
recorded, and the process is as it was before."""

import glob
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

from gpu_folders import folders, folders_of
from harness import BUILD, EACGM, Recording, TimedOut, expect, log_of, main, skip, test

FAKES = os.path.join(BUILD, "tests", "fake", "cupti")
JOB = os.path.join(FAKES, "attach_job")
TIMELINE = ["--gpu-timeline", "--layers", "cuda", "--profile", "off"]
KERNEL = "attached_kernel"
TIMES = int(os.environ.get("EACGM_TEST_TIMES", "6"))  # sessions into one process


class Job:
    """A running attach_job with a CUPTI of the test's own."""

    def __init__(self, t, *words, env=None, wrap=(), **kw):
        self.t = t
        folder = t.path("cupti")
        os.makedirs(folder, exist_ok=True)
        shutil.copy(os.path.join(FAKES, "libcupti.so.13"), folder)
        self.ends = t.path("finalized")
        with open(self.ends, "w"):
            pass
        os.chmod(self.ends, 0o666)
        self.said = t.path("said")
        with open(self.said, "w") as out:
            self.p = t.start([*wrap, JOB, *words], stdout=out, stderr=subprocess.STDOUT,
                             env=dict(os.environ, LD_LIBRARY_PATH=folder,
                                      FAKE_CUPTI_LOG=self.ends, **(env or {})), **kw)
        t.wait_for(lambda: "ready" in self.text(), "the job to run")
        self.pid = self.p.pid

    def text(self):
        with open(self.said) as f:
            return f.read()

    def count(self, end=False):
        """launches, made, wrong so far."""
        n = self.text().count("launches ")
        os.kill(self.pid, signal.SIGTERM if end else signal.SIGUSR1)
        self.t.wait_for(lambda: self.text().count("launches ") > n, "the job to count")
        line = [x for x in self.text().splitlines() if x.startswith("launches ")][-1]
        return [int(x) for x in line.split()[1::2]]

    def status(self, key):
        with open("/proc/%d/status" % self.pid) as f:
            return int(re.search(r"^%s:\s+(\d+)" % key, f.read(), re.M).group(1))

    def maps(self):
        with open("/proc/%d/maps" % self.pid) as f:
            return f.read().splitlines()

    def guests(self):
        """What came in and is to go. CUPTI's library stays: see docs/developers/gpu-timeline.md."""
        return [m for m in self.maps() if "libeacgm" in m]

    def code(self):
        """Places where mapped code is not what its file has. Breakpoints of whoever traces the
        same files do not count."""
        places = []
        with open("/proc/%d/mem" % self.pid, "rb") as mem:
            for line in self.maps():
                words = line.split()
                if words[1] != "r-xp" or len(words) < 6 or not os.path.isfile(words[5]):
                    continue
                start, end = (int(x, 16) for x in words[0].split("-"))
                mem.seek(start)
                there = mem.read(end - start)
                with open(words[5], "rb") as f:
                    f.seek(int(words[2], 16))
                    wanted = f.read(end - start).ljust(end - start, b"\0")
                if there != wanted:
                    places += [(words[5], i) for i, (a, b) in enumerate(zip(there, wanted))
                               if a not in (b, 0xcc)]
        return places

    def shape(self):
        """As it is while it does nothing in passing: the same twice."""
        last, now = None, self._shape()
        end = time.monotonic() + 5
        while now != last and time.monotonic() < end:
            time.sleep(0.05)
            last, now = now, self._shape()
        return now

    def _shape(self):
        return {"threads": len(os.listdir("/proc/%d/task" % self.pid)),
                "descriptors": len(os.listdir("/proc/%d/fd" % self.pid)),
                "guests": self.guests(), "tracer": self.status("TracerPid"),
                "code": self.code()}

    def expect_as(self, before, what="afterwards"):
        after = {}

        def same():
            try:
                after.update(self._shape())
            except OSError:  # what was mapped when the list was read has gone meanwhile
                return False
            return after == before
        try:
            self.t.wait_for(same, what, 10)
        except Exception:
            raise AssertionError("%s it is not as before: %r" % (what, {
                k: (before[k], after.get(k)) for k in before if before[k] != after.get(k)})
                ) from None

    def expect_works(self):
        first = self.count()[0]
        time.sleep(0.2)
        launches, _made, wrong = self.count()
        expect(launches > first and wrong == 0, "it goes on with %d, %d wrong" % (
            launches - first, wrong))


def attach(t, job, *options, seconds="1", out="attached.eacgm"):
    path = t.path(out)
    if os.path.exists(path):
        os.remove(path)
    r = t.run([EACGM, "record", "-o", path, *(options or TIMELINE), "-d", seconds, "-p",
               str(job.pid)])
    expect(r.status == 0, "record: %s" % r)
    return Recording(t, path, r)


def until_in(t, p, turn=1):
    """Waits until the recording p has brought the shim in for the turn-th time."""
    try:
        t.wait_for(lambda: log_of(p).count("stopped for") == turn, "the shim to come in")
    except TimedOut as e:
        raise AssertionError("%s; %s" % (e, log_of(p))) from None


def attach_until_seen(t, job):
    """Joins the job, and leaves it when some of its kernels were seen. Returns the recording, and
    how many kernels there were."""
    before = job.count()[1]
    p = t.start_record(*TIMELINE, "-p", str(job.pid))
    t.wait_for(lambda: job.count()[1] > before, "kernels to be seen")
    rec = t.stop_record(p)
    expect(p.returncode == 0, "record: %s" % log_of(p))
    return rec, job.count()[1] - before


def listed(t, rec, what):
    r = t.run([os.path.join(FAKES, "list_spans"), rec.path])
    expect(r.status == 0, "list_spans: %s" % r)
    return [line for line in r.out.splitlines() if line.startswith(what + " ")]


def spans_of(t, rec):
    return listed(t, rec, "span")


def notes_of(rec):
    return [n["reason"] for n in rec.report["notes"] if n["subject"] == "gpu timeline"]


def expect_note(rec, words):
    expect(any(words in n for n in notes_of(rec)), "no note %r in %r" % (words, notes_of(rec)))
    expect(words in rec.ran.err, "not said: %s" % rec.ran)


def stop_ms(rec):
    found = re.search(r"process \d+ stopped for ([0-9.]+) ms", rec.ran.err)
    expect(found, "no stop was told: %s" % rec.ran)
    return float(found.group(1))


def expect_spans(t, rec, made):
    spans = spans_of(t, rec)
    expect(len(spans) == made > 0, "%d made, %d seen; notes %r" % (
        made, len(spans), notes_of(rec)))
    expect(all(s.endswith(" " + KERNEL) for s in spans), "names: %r" % spans[0])
    expect(rec.lost() == 0, "lost: %r" % rec.report["recording"])


@test("a running job: each kernel in the window is there, and afterwards nothing is left")
def _(t):
    job = Job(t, "4")
    before = job.shape()
    rec = attach(t, job)
    job.expect_as(before)
    copies = [m for m in job.maps() if t.path("cupti") in m and " r-xp " in m]
    expect(len(copies) == 1, "CUPTI is there %d times" % len(copies))
    launches, made, wrong = job.count()
    expect_spans(t, rec, made)
    expect(launches > made and wrong == 0, "%d launches, %d wrong" % (launches, wrong))
    expect(stop_ms(rec) < 100, "stopped for %g ms" % stop_ms(rec))
    expect(not notes_of(rec), "notes: %r" % notes_of(rec))
    with open(job.ends) as f:
        expect(f.read() == "in a call\n", "how CUPTI ended: %r" % f.read())
    expect(not folders_of(job.pid), "left behind: %r" % folders_of(job.pid))
    job.expect_works()


@test("host and GPU are recorded together")
def _(t):
    job = Job(t, "2")
    rec = attach(t, job)
    calls = rec.count(KERNEL, "cuda")
    expect(0 < len(spans_of(t, rec)) and calls > 0, "%d calls" % calls)


@test("where CUPTI has seen CUDA graphs it stays, switched off, and the next one comes in")
def _(t):
    job = Job(t, "2", "graphs")
    seen = 0
    for turn in range(3):
        rec = attach(t, job)
        spans = spans_of(t, rec)
        expect(spans and all(s.split()[2] == "graph" for s in spans), "turn %d: %r, %r" % (
            turn, spans[:3], notes_of(rec)))
        expect(any("CUDA graphs, which would fail without it" in n for n in notes_of(rec)),
               "notes: %r" % notes_of(rec))
        seen += len(spans)
        expect(job.count()[1] == seen, "%d made, %d seen by turn %d" % (
            job.count()[1], seen, turn))
    with open(job.ends) as f:
        expect(f.read() == "", "CUPTI was ended")
    expect(job.guests(), "the shim is gone, CUPTI still has its functions")
    job.expect_works()


@test("a process that launches CUDA graphs is left alone")
def _(t):
    job = Job(t, "2", "replay")
    rec = attach(t, job)
    expect_note(rec, "it uses CUDA graphs")
    expect(not job.guests() and not spans_of(t, rec), "something came in")
    job.expect_works()


@test("in bursts the timeline rests while the probes do")
def _(t):
    job = Job(t, "2")
    p = t.start_record("--burst", "1/4:400", *TIMELINE, "-p", str(job.pid))
    # How long the shim takes to come in is the host's business; bursts are 1.6 s apart.
    until_in(t, p)
    time.sleep(12)
    rec = t.stop_record(p)
    starts = [int(s.split()[-3]) for s in spans_of(t, rec)]
    windows = [[int(ns) for ns in w.split()[1:]] for w in listed(t, rec, "window")]
    def spans_in(begin, end):
        return sum(1 for s in starts if begin <= s <= end)

    every = list(windows)
    while windows and not spans_in(*windows[0]):
        windows.pop(0)  # the timeline was on its way
    rests = [(a[1], b[0]) for a, b in zip(windows, windows[1:])]
    expect(rests and all(end - begin > 1.1e9 for begin, end in rests),
           "windows %r, of them with spans %r; %d spans, from %s on; %s" % (
               every, windows, len(starts), min(starts, default=None), log_of(p)))
    # The process is told of a window and of a rest within a tenth of a second. The end of the
    # recording may cut the last window.
    expect(all(spans_in(*w) for w in windows[:-1]), "a window without spans of %r" % windows)
    expect(not any(spans_in((begin + end) / 2, end) for begin, end in rests), "spans in a rest")
    job.expect_works()


@test("again and again into the same process: it does not grow", 240)
def _(t):
    job = Job(t, "3")
    attach_until_seen(t, job)
    t.wait_for(lambda: not job.guests(), "the shim to leave")
    shape, maps, rss = job.shape(), job.maps(), job.status("VmRSS")
    for i in range(TIMES - 1):
        rec, made = attach_until_seen(t, job)
        job.expect_as(shape, "after %d times" % (i + 2))
        expect_spans(t, rec, made)
    now = job.maps()
    expect(len(now) <= len(maps) + 2, "%d mappings, %d before: %r" % (
        len(now), len(maps), [m for m in now if m not in maps]))
    expect(job.status("VmRSS") < rss + 1024, "%d kB, %d before" % (job.status("VmRSS"), rss))
    with open(job.ends) as f:
        expect(len(f.readlines()) == TIMES, "CUPTI was not ended each time")
    job.expect_works()


@test("eacgm is killed at any moment: the job lives, and the next one comes in", 300)
def _(t):
    job = Job(t, "4")
    chance = random.Random(int(os.environ.get("EACGM_TEST_SEED", "5")))
    loaded = 0
    left = set()
    for i in range(TIMES + 3):
        p = t.start_record(*TIMELINE, "-p", str(job.pid), out=t.path("killed%d" % i))
        if i % 3 == 0:
            until_in(t, p)
        time.sleep(chance.uniform(0, 0.08))
        loaded += bool(job.guests())
        os.kill(p.pid, signal.SIGKILL)
        p.wait(timeout=30)
        left |= folders_of(job.pid)  # a later session takes those of ten seconds ago away
        expect(job.p.poll() is None, "the job ended with %s after %d times" % (job.p.poll(), i))
    t.wait_for(lambda: not job.guests(), "the last shim to leave", 20)
    t.wait_for(lambda: len(os.listdir("/proc/%d/task" % job.pid)) == 5, "its thread to end")
    expect(job.status("TracerPid") == 0, "somebody traces it")
    job.expect_works()
    made = job.count()[1]
    rec = attach(t, job)
    t.wait_for(lambda: not job.guests(), "the shim to leave")
    expect_spans(t, rec, job.count()[1] - made)
    expect(loaded, "it was never killed with the shim loaded")
    expect(left, "the sessions had no folders")
    for d in folders_of(job.pid):
        os.utime(d, (0, 0))  # long ago
    attach(t, job, seconds="0.2")
    expect(not left & folders(), "left behind: %r" % (left & folders()))


@test("a process that never calls the driver: said while it is watched, and it is left alone", 120)
def _(t):
    job = Job(t, "1", "idle")
    before = job.shape()
    p = t.start_record(*TIMELINE, "-p", str(job.pid))
    t.wait_for(lambda: "not recorded so far" in log_of(p), "the note", 20)
    expect(p.poll() is None, "the recording has ended: %s" % log_of(p))
    expect(not job.guests(), "it was loaded: %r" % job.guests())
    t.stop_record(p)
    expect(any("no thread of it called" in n for n in notes_of(p.recording)),
           "notes: %r" % notes_of(p.recording))
    job.expect_as(before)


@test("a process that begins to call the driver later is recorded from then on")
def _(t):
    shell = t.start(["sh", "-c", "sleep 1.5; exec %s 2" % JOB], stdout=subprocess.DEVNULL,
                    env=dict(os.environ, LD_LIBRARY_PATH=cupti_folder(t)))
    p = t.start_record(*TIMELINE, "-p", str(shell.pid))
    until_in(t, p)
    time.sleep(0.5)
    rec = t.stop_record(p)
    expect(spans_of(t, rec), "no spans: %s" % log_of(p))


def cupti_folder(t):
    folder = t.path("cupti")
    os.makedirs(folder, exist_ok=True)
    shutil.copy(os.path.join(FAKES, "libcupti.so.13"), folder)
    return folder


PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17


@test("a process that a debugger holds gets a note; once it is free it is recorded")
def _(t):
    job = Job(t, "2")
    seize = ("import ctypes,sys,time; c=ctypes.CDLL(None,use_errno=True);"
             "r=c.ptrace(%d,%d,None,None); print('seized',r,flush=True); time.sleep(60)" % (
                 PTRACE_SEIZE, job.pid))
    debugger = t.start([sys.executable, "-c", seize], stdout=subprocess.PIPE, text=True)
    expect(debugger.stdout.readline() == "seized 0\n", "no debugger")
    rec = attach(t, job)
    expect_note(rec, "process %d traces it" % debugger.pid)
    expect(not spans_of(t, rec) and rec.count(KERNEL) > 0, "spans, or no calls")
    t.kill(debugger)
    debugger.wait(timeout=10)
    rec = attach(t, job, out="second.eacgm")
    expect_spans(t, rec, job.count()[1])


@test("a job of another user")
def _(t):
    job = Job(t, "2", user=65534, group=65534)
    before = job.shape()
    rec = attach(t, job)
    job.expect_as(before)
    expect_spans(t, rec, job.count()[1])


@test("a job in another mount namespace, whose /dev/shm admits no code")
def _(t):
    if not shutil.which("unshare"):
        skip("unshare (util-linux) is not installed")
    inside = ("mount -t tmpfs -o noexec shm /dev/shm && mount -t tmpfs tmp /var/tmp && "
              'exec "$0" "$@"')
    job = Job(t, "2", wrap=["unshare", "-m", "sh", "-c", inside])
    before = job.shape()
    rec = attach(t, job)
    job.expect_as(before)
    expect_spans(t, rec, job.count()[1])
    for place in ("dev/shm", "tmp", "var/tmp"):
        left = glob.glob("/proc/%d/root/%s/eacgm-gpu-*" % (job.pid, place))
        expect(not left, "left behind: %r" % left)


@test("a job whose /dev/shm has no room for the ring")
def _(t):
    if not shutil.which("unshare"):
        skip("unshare (util-linux) is not installed")
    shim = os.path.getsize(os.path.join(BUILD, "libeacgm_gpu.so"))
    inside = "mount -t tmpfs -o size=%d shm /dev/shm && exec \"$0\" \"$@\"" % (shim + 100000)
    job = Job(t, "2", wrap=["unshare", "-m", "sh", "-c", inside])
    before = job.shape()
    rec = attach(t, job)
    job.expect_as(before)
    expect_spans(t, rec, job.count()[1])


@test("a job in another pid namespace: its calls are of threads as the host numbers them")
def _(t):
    if not shutil.which("unshare"):
        skip("unshare (util-linux) is not installed")
    job = Job(t, "2", wrap=["unshare", "-m", "-p", "-f", "--mount-proc", "--kill-child"])
    with open("/proc/%d/task/%d/children" % (job.pid, job.pid)) as f:
        job.pid = int(f.read())
    rec = attach(t, job)
    r = t.run([os.path.join(FAKES, "list_spans"), rec.path])
    called = [line.split() for line in r.out.splitlines() if line.startswith("called ")]
    expect(called and {int(c[3]) for c in called} <= {
        int(tid) for tid in os.listdir("/proc/%d/task" % job.pid)}, "calls: %r" % called[:3])


@test("another tool that uses CUPTI is left alone")
def _(t):
    job = Job(t, "2", "subscribe")
    rec = attach(t, job)
    expect(any("another tool has subscribed" in n for n in notes_of(rec)),
           "notes: %r" % notes_of(rec))
    expect(not spans_of(t, rec) and rec.count(KERNEL) > 0, "spans, or no calls")
    t.wait_for(lambda: not job.guests(), "the shim to leave")
    with open(job.ends) as f:
        expect(not f.read(), "it was ended")
    job.expect_works()


@test("another tool's buffer stays its own, and a note says that there was one")
def _(t):
    job = Job(t, "2", "profile")
    rec = attach(t, job)
    expect(any("another tool recorded through CUPTI" in n for n in notes_of(rec)),
           "notes: %r" % notes_of(rec))
    t.wait_for(lambda: not job.guests(), "the shim to leave")
    job.expect_works()
    job.count(end=True)
    expect(job.p.wait(timeout=10) == 0, "how it ended: %s" % job.p.returncode)


@test("a job with a tool's CUDA_INJECTION64_PATH is left alone")
def _(t):
    job = Job(t, "2", env={"CUDA_INJECTION64_PATH": "/none.so"})
    before = job.shape()
    rec = attach(t, job)
    expect_note(rec, "CUDA_INJECTION64_PATH")
    expect(not spans_of(t, rec) and rec.count(KERNEL) > 0, "spans, or no calls")
    job.expect_as(before)


@test("where CUPTI refuses, the recording says why, and the shim is gone")
def _(t):
    job = Job(t, "2", env={"FAKE_CUPTI_REFUSES": "1"})
    before = job.shape()
    rec = attach(t, job)
    expect(any("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" in n for n in notes_of(rec)),
           "notes: %r" % notes_of(rec))
    job.expect_as(before)
    job.expect_works()


@test("two recordings at once: the second says that there is a first")
def _(t):
    job = Job(t, "2")
    p = t.start_record(*TIMELINE, "-p", str(job.pid))
    until_in(t, p)
    rec = attach(t, job, seconds="3.5", out="second.eacgm")
    expect_note(rec, "another eacgm")
    t.stop_record(p)
    t.wait_for(lambda: not job.guests(), "the shim to leave")
    expect_spans(t, p.recording, job.count()[1])


@test("two that wait for the same process leave it as it was")
def _(t):
    job = Job(t, "1", "idle")
    before = job.shape()
    p = t.start_record(*TIMELINE, "-p", str(job.pid))
    t.wait_for(lambda: "not recorded so far" in log_of(p), "the first to wait", 10)
    rec = attach(t, job, seconds="4", out="second.eacgm")
    expect_note(rec, "not recorded")
    t.stop_record(p)
    job.expect_as(before)
    expect(not any("another eacgm" in n for n in notes_of(p.recording)),
           "the first one's notes: %r" % notes_of(p.recording))


@test("a job that ends meanwhile hands over all that it did")
def _(t):
    job = Job(t, "3")
    p = t.start_record(*TIMELINE, "-p", str(job.pid))
    until_in(t, p)
    time.sleep(0.3)
    _launches, made, wrong = job.count(end=True)
    expect(job.p.wait(timeout=10) == 0 and wrong == 0, "how it ended: %s" % job.p.returncode)
    p.wait(timeout=20)
    rec = p.recording
    expect(len(spans_of(t, rec)) == made > 0, "%d made, %d seen; notes %r" % (
        made, len(spans_of(t, rec)), notes_of(rec)))


@test("processes that come and go leave nothing while the recording goes on", 120)
def _(t):
    folder = t.path("cupti")
    os.makedirs(folder)
    shutil.copy(os.path.join(FAKES, "libcupti.so.13"), folder)
    turns = 3
    launcher = t.start(["sh", "-c", "for turn in $(seq %d); do \"$0\" 2; done; sleep 60" % turns,
                        JOB], stdout=subprocess.DEVNULL,
                       env=dict(os.environ, LD_LIBRARY_PATH=folder))
    p = t.start_record(*TIMELINE, "-p", str(launcher.pid))
    pids = []

    def job():
        with open("/proc/%d/task/%d/children" % (launcher.pid, launcher.pid)) as f:
            return [int(pid) for pid in f.read().split() if int(pid) not in pids]
    for turn in range(1, turns + 1):
        t.wait_for(job, "a job")
        pids += job()
        until_in(t, p, turn)
        t.wait_for(lambda: folders_of(pids[-1]), "its ring")
        if turn < turns:
            os.kill(pids[-1], signal.SIGTERM)
    left = {pid: folders_of(pid) for pid in pids[:-1]}
    rec = t.stop_record(p)
    expect(not any(left.values()), "left behind: %r" % left)
    expect(spans_of(t, rec) and not folders_of(pids[-1]), "at the end: %r" % folders())


@test("of a process that ended while another was looked at nothing is said at the end")
def _(t):
    job = Job(t, "1", "idle")  # it does not call the driver: looked at for seconds
    other = t.start([JOB, "1", "idle"], stdout=subprocess.DEVNULL,
                    env=dict(os.environ, LD_LIBRARY_PATH=cupti_folder(t)))
    t.wait_for(lambda: "libcuda" in maps_of(other.pid), "the other to load the driver")
    p = t.start_record(*TIMELINE, "-p", "%d,%d" % (job.pid, other.pid))
    time.sleep(0.3)
    other.kill()
    other.wait()
    time.sleep(0.3)
    rec = t.stop_record(p)
    notes = [n for n in notes_of(rec) if "process %d:" % other.pid in n]
    expect(not notes, "notes: %r" % notes)


def maps_of(pid):
    with open("/proc/%d/maps" % pid) as f:
        return f.read()


@test("a process without CUDA gets a note")
def _(t):
    p = t.start(["sleep", "20"])
    r = t.run([EACGM, "record", "-o", t.path("none.eacgm"), *TIMELINE, "-d", "0.5", "-p",
               str(p.pid)])
    rec = Recording(t, t.path("none.eacgm"), r)
    expect(r.status == 0, "record: %s" % r)
    expect(any("no traced process has loaded" in n for n in notes_of(rec)),
           "notes: %r" % notes_of(rec))


if __name__ == "__main__":
    main()
