"""inside_calls.py - what tests of calls that are told inside share: the job, its calls as a
recording has them, and what the kernel's probes see beside it."""

import collections
import functools
import json
import os
import re

import pythons
from harness import EACGM, PYTHON, Recording, expect, log_of, skip, target

JOB = target("inside_job")
LIBRARY = target("libinside_torture.so")
KERNEL, INSIDE = ("--probes", "kernel"), ("--probes", "inprocess")

CATALOG = """catalog: 1
layer: torch
libraries: ["libinside_torture.so*"]
probes:
  - id: torture.any
    symbols: ["_Z*t_p_*", "t_p_*", "_ZN7torture*"]
  - id: torture.numbers
    symbols: ["_Z*t_v2_*"]
    signature: "(u64 a, u64 b) -> u64"
"""

# Around a call that takes longer than 0.1 s readers tell by times what lies in it
# (docs/developers/inside.md): so do these tests, a good while before.
TOLD_BY_TIMES_NS = 60_000_000

# Calls that were made and are in no recording, by what the recording says.
UNTOLD = ("ring_full", "signal_stack", "stack_full", "inside_full", "inside_deep",
          "inside_elsewhere", "inside_thread", "inside_record")


def options(t, *more):
    if not os.path.exists(JOB):
        skip("%s is not built" % JOB)
    path = t.path("torture.yaml")
    with open(path, "w") as f:
        f.write(CATALOG)
    return ("--catalog", path, "--layers", "torch", "--profile", "off", "--waits", "off", *more)


class Calls:
    """What a recording holds. Only of libinside_torture.so unless layer is given."""

    def __init__(self, t, rec, layer="torch"):
        self.rec = rec
        out = t.path("calls%d.jsonl" % len(t.started))
        r = t.run([EACGM, "export", rec.path, "-f", "jsonl", "-o", out])
        expect(r.status == 0, "export failed: %s" % r)
        with open(out) as f:
            rows = [json.loads(line) for line in f]
        self.meta = rows[0]
        self.lost = self.meta.get("lost_by_cause", {})
        self.rows = sorted((row for row in rows if row.get("type") == "call" and
                            row["layer"] == layer),
                           key=lambda row: (row["start_ns"], row["depth"]))
        if self.number("inside_calls"):
            deepen(self.rows)
        self.hists = [row for row in rows if row.get("type") == "histogram" and
                      row["layer"] == layer]
        self.names = collections.Counter(row["name"] for row in self.rows)
        self.notes = str([row for row in rows if row.get("type") == "note"]) + rec.ran.err

    @functools.cached_property
    def exact(self):
        return collections.Counter(map(told, self.rows))

    def number(self, key):
        return int(self.meta.get(key, 0))

    def untold(self, *causes):
        return sum(self.lost.get(c, 0) for c in causes or UNTOLD)

    def expect_inside(self, least=1):
        # inside_calls has a test of its own
        expect(self.number("inside_places") >= least, "not told inside: %d places, %d calls; %s" % (
                   self.number("inside_places"), self.number("inside_calls"), self.notes[-800:]))


def end_of(row):
    """Of a call that was still open: never."""
    return row["start_ns"] + row["duration_ns"] if "duration_ns" in row else float("inf")


def deepen(rows):
    """Within calls that take long, calls are as deep as their times say."""
    around = collections.defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["start_ns"], -end_of(row))):
        stack = around[row["tid"]]
        while stack and end_of(stack[-1]) < end_of(row):
            stack.pop()
        if any(end_of(outer) - outer["start_ns"] > TOLD_BY_TIMES_NS for outer in stack):
            row["depth"] = max(row["depth"], len(stack))
            row["flags"] = sorted({*(row.get("flags") or []), "nested"})
        stack.append(row)


def told(row):
    return (row["name"], row["depth"], ",".join(sorted(row.get("flags") or [])),
            json.dumps(row.get("args"), sort_keys=True))


def differ(a, b):
    """The first differences of two counters."""
    more, less = a - b, b - a
    return "only by the kernel %d: %r; only inside %d: %r" % (
        sum(more.values()), list(more.items())[:6], sum(less.values()), list(less.items())[:6])


def sums(out):
    return [line for line in out.splitlines() if line.startswith("sum ")]


def traced(t, cmd, where, alone, *more):
    """Under eacgm it prints and ends as it does alone."""
    rec = t.record(cmd, *options(t, *where, *more), status=None)
    how = where[-1]
    expect(rec.ran.status == 0 and alone.status == 0,
           "untraced it ends with %d, %s with %d: %s" % (
               alone.status, how, rec.ran.status, rec.ran))
    expect(sums(alone.out) and sums(rec.ran.out) == sums(alone.out),
           "untraced %s%s %s%s" % (alone.out, alone.err, how, rec.ran))
    return Calls(t, rec)


def by_both(t, *case, least=1):
    """The same job untraced, by the kernel and inside."""
    options(t)
    cmd = [JOB, *map(str, case)]
    alone = t.run(cmd)
    # inside first: where the job is harmed, that is what is told
    inside = traced(t, cmd, INSIDE, alone)
    kernel = traced(t, cmd, KERNEL, alone)
    inside.expect_inside(least)
    expect(kernel.number("inside_places") == 0, "the kernel's: %r" % kernel.meta)
    expect(kernel.rows, "nothing was recorded: %s" % kernel.rec.ran)
    return kernel, inside


def same(t, *case, least=1, compare=lambda c: c.exact):
    kernel, inside = by_both(t, *case, least=least)
    by_kernel, told_inside = compare(kernel), compare(inside)
    expect(by_kernel == told_inside, "%s; lost %r, inside %r" % (
        differ(by_kernel, told_inside), kernel.lost, inside.lost))
    expect(not kernel.untold() and not inside.untold(), "lost by the kernel %r, inside %r" % (
        kernel.lost, inside.lost))
    return kernel, inside


def plainly(calls):
    """Where flags of a call depend on when it was interrupted: names and arguments."""
    return calls.names


def valued(calls):
    """Without the depth: where calls are the kernel's and others are not, that has its own test."""
    return collections.Counter((row["name"], json.dumps(row.get("args"))) for row in calls.rows)


def by_process(calls):
    """How many calls each process made, whatever its number."""
    counts = collections.Counter(row["pid"] for row in calls.rows)
    return collections.Counter(counts.values())


class Said:
    """What eacgm said, in the place of harness.Result."""

    def __init__(self, err):
        self.err = err


class Until:
    """A job that goes on until it is told to end, and tells how many calls it has made."""

    def __init__(self, t, name="until", where=None, wrap=(), calls=300, pause_ms=2):
        self.t, self.path = t, t.path(name)
        cmd = [*wrap, JOB, "until", str(calls), self.path, str(pause_ms)]
        self.out = open(self.path + ".out", "w+")
        if where is None:
            self.p = t.start(cmd, stdout=self.out, stderr=self.out)
        else:
            self.recording = t.path(name + ".eacgm")
            self.p = t.start([EACGM, "record", "-o", self.recording, *options(t, *where), "--",
                              *cmd], stdout=self.out, stderr=self.out)
        self.more(5)

    def read(self):
        try:
            with open(self.path) as f:
                return [tuple(map(int, line.split())) for line in f if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def more(self, rows=10):
        """Waits until it has called so much more; returns the rows since."""
        n = len(self.read())
        self.t.wait_for(lambda: len(self.read()) >= n + rows, "the job to go on", 40)
        return self.read()[n:]

    def end(self):
        """It ends right, whoever is its parent by now: its checksum is of all that it called."""
        with open(self.path + ".end", "w"):
            pass
        self.t.wait_for(lambda: "sum " in self.said() or "wrong" in self.said(), "its end", 40)
        expect(sums(self.said()) == ["sum %016x" % 1], "the job: %s" % self.said())

    def finish(self):
        """Of one that eacgm started: what eacgm recorded of it, when both have ended."""
        self.end()
        self.t.wait_for(lambda: self.p.poll() is not None, "eacgm's end", 40)
        expect(self.p.returncode == 0, "eacgm: %s" % self.said())
        return Recording(self.t, self.recording, Said(self.said()))

    def said(self):
        self.out.flush()
        with open(self.out.name) as f:
            return f.read()


def stops(rings):
    """Whether a process's file says that nothing is to be recorded any more."""
    with open(rings, "rb") as f:
        return f.read(68)[64] == 1  # stop, of struct call_header


def folder_of(t, job):
    """By the environment of a process."""
    def look():
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid) as f:
                    words = f.read().split("\0")
                with open("/proc/%s/environ" % pid) as f:
                    env = dict(x.split("=", 1) for x in f.read().split("\0") if "=" in x)
            except OSError:
                continue
            if words[0] == JOB and job.path in words and "EACGM_CALL_RINGS" in env:
                return env["EACGM_CALL_RINGS"]
        return None
    return t.wait_for(look, "the job's environment")


TELLS = re.compile(r"tells (\d+) functions inside; its threads stood (\d+) times, ([\d.]+) ms")


def attach(t, job, *more, out=None):
    """Attached, until the job tells its calls itself."""
    p = t.start_record("-p", str(job.p.pid), *options(t, *INSIDE, *more), out=out)
    t.wait_for(lambda: TELLS.search(log_of(p)) or "kernel's probes go on" in log_of(p),
               "probes inside: %s" % log_of(p))
    expect(TELLS.search(log_of(p)), "no probes inside: %s" % log_of(p))
    return p


TRAINING = """
import sys, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
F = torch.nn.functional
mlp = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16),
                          torch.nn.Linear(16, 4))
conv = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
                           torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(),
                           torch.nn.Linear(16, 3))
told = []
for net, shape, classes in ((mlp, (5, 8), 4), (conv, (3, 1, 10, 10), 3)):
    o = torch.optim.Adam(net.parameters(), lr=0.01)
    for i in range(6):
        o.zero_grad()
        loss = F.cross_entropy(net(torch.randn(*shape)), torch.arange(shape[0]) % classes)
        loss.backward()
        o.step()
        told.append(loss.item().hex())
a, b = torch.ones(2, 3), torch.ones(2, 3)
caught = 0
for i in range(200):
    try:
        a @ b
    except RuntimeError:
        caught += 1
data = TensorDataset(torch.randn(40, 8), torch.arange(40) % 4)
total = 0.0
for x, y in DataLoader(data, batch_size=5, num_workers=2):
    total += F.cross_entropy(mlp(x), y).item()
print("sum", caught, total.hex(), " ".join(told))
"""


PYTHONS = """
import _thread, ctypes, os, re, sys

class Adder:
    def __call__(self, x):
        return x + 1

api, said = ctypes.pythonapi, []
call, text, import_ = api.PyObject_CallFunction, api.PyObject_Str, api.PyImport_ImportModuleLevelObject
call.restype = import_.restype = ctypes.py_object
for f, args in ((call, (None, None)), (import_, (None, None, None, None, 0))):
    try:
        f(*args)
    except Exception as e:
        said.append(type(e).__name__)
for name in (5, "no_module_\u00e4\U0001f600", "no_" + "x" * 300):
    try:
        __import__(name)
    except Exception as e:
        said.append(type(e).__name__)
many = call(ctypes.py_object(lambda *a: sum(i * x for i, x in enumerate(a))), b"i" * 90,
            *map(ctypes.c_int, range(90)))
def work(n):
    for i in range(n):
        import os.path
    return sum(map(Adder(), range(n))) + len(re.sub("a", lambda m: "bb", "a" * n))
sums = [work(200)]
over = _thread.allocate_lock() # how often Thread.start() waits in Python depends on who is faster
over.acquire()
_thread.start_new_thread(lambda: (sums.append(work(100)), over.release()), ())
over.acquire()
for i in range(300): # code that is made and thrown away, at the same places again
    sums.append(eval(compile("sum(map(lambda x: x * %d, range(3)))" % i, "f%d" % i, "eval")))
    exec(compile("def f%d(x): return x\\nsums.append(sum(map(f%d, [1, 2])))" % (i, i), "g", "exec"))
sys.stdout.flush()
pid = os.fork()
if not pid:
    os._exit(sum(map(Adder(), range(9))))
sums.append(os.waitpid(pid, 0)[1])
print("sum", sum(sums), many, said)
"""


def every_python():
    return ([PYTHON] if os.path.exists(PYTHON) else []) + list(pythons.found().values())


def sound(names):
    """Without what is no name: where one was asked for that is no text, the kernel says what lies
    there, or nothing."""
    return {name: n for name, n in names.items() if re.match(r"import .*[a-z]|(?!import)", name)}
