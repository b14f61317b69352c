#!/usr/bin/env python3
"""run.py - proves eacgm's CUDA and NCCL layers on a GPU host: runs the jobs of jobs/ under
eacgm and compares its report with what the jobs did and with what CUPTI and NVML say.

Prints TAP (https://testanything.org) and a last line "N passed, N failed, N skipped"; writes
the figures, and every difference, into DIR/figures.json. What cannot run here (no GPU, no
root, no PyTorch) is skipped with the reason. Knows eacgm by its command line only, and ends only
processes that it started."""

import argparse
import contextlib
import ctypes
import importlib.util
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import compare
import profiles
import timelines

HERE = os.path.dirname(os.path.abspath(__file__))
JOBS = os.path.join(HERE, "jobs")
WARM_S = 120  # until a job has imported PyTorch and warmed up
LINE = re.compile(r"^(not )?ok\b\s*\d*\s*-?\s*(.*)$")

# commands run as root all the same, in folders of root
for _name in ("SUDO_UID", "SUDO_GID", "SUDO_USER", "DOAS_USER", "PKEXEC_UID"):
    os.environ.pop(_name, None)

checks = []


class Skip(Exception):
    """Why a check cannot run here."""


class Broken(Exception):
    """A command that did not do what the check needs."""


def check(name, *needs):
    """needs: gpu, root, torch."""
    def add(fn):
        checks.append((name, needs, fn))
        return fn
    return add


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--eacgm", required=True, metavar="PATH")
    p.add_argument("--out", metavar="DIR", help="where figures.json goes (default: a new folder)")
    p.add_argument("--only", action="append", metavar="NAME",
                   help="only the checks whose names hold this, may be repeated")
    p.add_argument("--quick", action="store_true", help="shorter attachments")
    p.add_argument("--python", default=sys.executable, help="that has PyTorch")
    p.add_argument("--list", action="store_true", help="names of the checks")
    args = p.parse_args()
    args.eacgm = os.path.abspath(args.eacgm)
    if not os.access(args.eacgm, os.X_OK) and not args.list:
        p.error("%s cannot be run" % args.eacgm)
    args.out = args.out or tempfile.mkdtemp(prefix="eacgm-gpu-")
    return args


# ---- results ----

class Results:
    def __init__(self, folder):
        self.passed = self.failed = self.skipped = 0
        self.folder, self.figures, self.check = folder, {}, None

    def _line(self, good, text):
        n = self.passed + self.failed + self.skipped
        print("%sok %d - %s" % ("" if good else "not ", n, text), flush=True)

    def holds(self, what, problems):
        """One result: no problem is a pass."""
        problems = [problems] if isinstance(problems, str) else list(problems)
        self.passed, self.failed = self.passed + (not problems), self.failed + bool(problems)
        self._line(not problems, "%s: %s" % (self.check, what))
        for text in problems[:compare.SHOWN]:
            print("# " + text.replace("\n", "\n# ")[:1500], flush=True)
        if problems:
            self.figures.setdefault(self.check, {}).setdefault("problems", {})[what] = problems

    def skip(self, what, reason):
        self.skipped += 1
        self._line(True, "%s%s # SKIP %s" % (self.check, what and ": " + what, reason))

    def note(self, **figures):
        self.figures.setdefault(self.check, {}).update(figures)

    def write(self, host):
        path = os.path.join(self.folder, "figures.json")
        with open(path + ".part", "w") as f:
            json.dump({"host": host, "passed": self.passed, "failed": self.failed,
                       "skipped": self.skipped, "seconds": sum(
                           c.get("seconds_taken", 0) for c in self.figures.values()),
                       "checks": self.figures}, f, indent=1)
            f.write("\n")
        os.replace(path + ".part", path)
        return path


# ---- processes ----

def end_group(p):
    """Ends a process group that was started here."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(p.pid, signal.SIGKILL)
    p.wait()


def run(args, seconds, env=None, good=(0,)):
    args = [str(a) for a in args]
    p = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, errors="replace",
                         start_new_session=True, env=dict(os.environ, **(env or {})))
    try:
        out, err = p.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        end_group(p)
        out, err = p.communicate()
        raise Broken("%s did not end in %d s\n%s" % (" ".join(args), seconds, err[-1000:])) \
            from None
    except BaseException:
        end_group(p)
        raise
    if p.returncode not in good:
        raise Broken("%s ended with %d\n%s%s" % (" ".join(args), p.returncode, out[-500:],
                                                 err[-1500:]))
    return out, err


class Host:
    """The machine, eacgm, and a folder for recordings."""

    def __init__(self, args, folder):
        self.args, self.folder, self.quick, self.results = args, folder, args.quick, None
        self.gpus = self._gpus()
        self.n = 0

    @staticmethod
    def _gpus():
        count = ctypes.c_int(0)
        try:
            cu = ctypes.CDLL("libcuda.so.1")
        except OSError:
            return 0
        if cu.cuInit(0) or cu.cuDeviceGetCount(ctypes.byref(count)):
            return 0
        return count.value

    def lacks(self, need):
        if need == "gpu" and not self.gpus:
            return "no NVIDIA GPU here"
        if need == "root" and os.geteuid() != 0:
            return "needs root"
        if need == "torch" and not self.has_torch():
            return "%s has no PyTorch" % self.args.python
        return None

    def has_torch(self):
        if os.path.realpath(self.args.python) == os.path.realpath(sys.executable):
            return importlib.util.find_spec("torch") is not None
        code = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
        return subprocess.call([self.args.python, "-c", code]) == 0

    def describe(self):
        text = {"kernel": platform.release(), "gpus": self.gpus, "quick": self.quick}
        with contextlib.suppress(Broken, OSError):
            text["gpu"] = run(["nvidia-smi", "--query-gpu=name,driver_version",
                               "--format=csv,noheader"], 30)[0].splitlines()
        with contextlib.suppress(Broken, OSError):
            text["eacgm"] = run([self.args.eacgm, "--version"], 20)[0].strip()
        return text

    def path(self, name):
        self.n += 1
        return os.path.join(self.folder, "%d-%s" % (self.n, name))

    def job(self, name, *more):
        return [self.args.python, os.path.join(JOBS, name + ".py"), *map(str, more)]

    def record(self, options, command, seconds, env=None):
        """Records a command; the recording's path."""
        out = self.path("run.eacgm")
        run([self.args.eacgm, "record", "-o", out, *options, "--", *command], seconds, env)
        return out

    def report(self, recording, window=None):
        """window: nanoseconds of CLOCK_MONOTONIC, as jobs tell them."""
        more = []
        if window:
            start_ns = self.report(recording)["recording"]["start_monotonic_ns"]
            more = ["--from", "%dns" % (window[0] - start_ns), "--to", "%dns" % (window[1] - start_ns)]
        out, _ = run([self.args.eacgm, "report", recording, "--json", "--steps", "--top", 0,
                      *more], 120)
        return json.loads(out)

    def recorded_job(self, options, name, *more, seconds=120, env=None):
        """(what the job wrote, the report of its window, the report of all of it)"""
        made_path = self.path("made.json")
        flag = "--profile" if name in PROFILED else "--json"
        recording = self.record(options, self.job(name, *more, flag, made_path), seconds, env)
        with open(made_path) as f:
            made = json.load(f)
        whole, window = self.report(recording), None
        if "window" in made:
            window = self.report(recording, made["window"])
        return made, window, whole


PROFILED = ("gpt2", "cnn", "generate", "graph")


def no_loss(report):
    r = report["recording"]
    return ["lost %d: %s" % (r["lost"], r.get("lost_by_cause"))] if r["lost"] else []


# ---- kernels ----

def kernels(t, options, name, *more):
    """The checks that every job with kernels shares."""
    made, window, whole = t.recorded_job(options, name, *more)
    r = t.results
    r.holds("launches equal CUPTI's kernels", compare.kernel_counts(made, window))
    r.holds("every launch has a name", compare.named(whole, 1.0))
    r.holds("names equal CUPTI's", compare.kernel_names(made, window))
    r.holds("nothing is lost", no_loss(whole))
    r.note(cuda_in_window=window["cuda"], cuda=whole["cuda"], cupti={
        "kernels": sum(made["kernels"].values()), "names": len(made["kernels"]),
        "graph_kernels": sum(made["graph_kernels"].values()),
        "graph_launches": made["graph_launches"], "copies": made["cupti_copies"]},
        copies_in_window=window["copies"], recording=whole["recording"],
        steps=made.get("steps"), name_differences=[
            {"name": d[0], "seen": d[1], "cupti": d[2]}
            for d in compare.name_differences(made, window)])
    return made, window


@check("compare")
def _(t):
    """Needs nothing: the comparisons themselves, on input made by hand."""
    tap(t, run([sys.executable, os.path.join(HERE, "compare_test.py")], 60, good=(0, 1))[0])


@check("gpt2", "gpu", "root", "torch")
def _(t):
    made, _ = kernels(t, [], "gpt2", "--steps", 10)
    t.results.note(kernels_per_step=sum(made["kernels"].values()) / made["steps"])


@check("cnn", "gpu", "root", "torch")
def _(t):
    kernels(t, ["--layers", "cuda"], "cnn")


@check("generate", "gpu", "root", "torch")
def _(t):
    kernels(t, ["--layers", "cuda"], "generate")


@check("graph", "gpu", "root", "torch")
def _(t):
    made, window = kernels(t, ["--layers", "cuda"], "graph")
    if made["graph_kernels_made"] is None:
        t.results.skip("nodes of the graphs", "this PyTorch does not hand out its graphs")
    t.results.holds("launches of graphs and their nodes as made", compare.graphs(made, window))
    t.results.note(graphs=made["graphs"])


# ---- copies, errors, memory ----

@check("copies", "gpu", "root")
def _(t):
    made, window, whole = t.recorded_job(["--layers", "cuda"], "copies")
    t.results.holds("calls and bytes by direction", compare.copies(made["copies"], window))
    t.results.holds("nothing is lost", no_loss(whole))
    t.results.note(made=made["copies"], seen=window["copies"])


@check("errors", "gpu", "root")
def _(t):
    made, _, whole = t.recorded_job(["--layers", "cuda"], "errors")
    t.results.holds("failed calls by function and code", compare.errors(made["errors"], whole))
    t.results.note(made=made["errors"], seen=whole["errors"])


for part in ("raw", "caching", "expandable", "async"):
    @check("memory-" + part, "gpu", "root", *(["torch"] if part != "raw" else []))
    def _(t, part=part):
        made, _, whole = t.recorded_job(["--layers", "cuda"], "memory", "--part", part)
        t.results.holds("live, peak and leaked memory", compare.memory(made, whole))
        if compare.nvml_used(made) is None:
            t.results.skip("against NVML", "no NVML here")
        else:
            t.results.holds("live memory against NVML", compare.memory_nvml(made, whole))
        t.results.holds("nothing is lost", no_loss(whole))
        t.results.note(made=made, seen=whole["memory"], nvml_used_bytes=compare.nvml_used(made))


@check("memory-live", "gpu", "root")
def _(t):
    """The recording ends while the job holds its memory."""
    made_path, out = t.path("made.json"), t.path("held.eacgm")
    made = None
    try:
        # the job outlives eacgm, and would keep a pipe open
        run(["sh", "-c", 'exec "$@" >/dev/null 2>&1', "sh", t.args.eacgm, "record", "-o", out,
             "--layers", "cuda", "-d", 8, "--",
             *t.job("memory", "--hold", 60, "--json", made_path)], 60)
    finally:
        if os.path.exists(made_path):
            with open(made_path) as f:
                made = json.load(f)
            end_job(made["pid"], "memory.py")
    if made is None:
        raise Broken("the job had not allocated its memory after 8 s")
    whole = t.report(out)
    t.results.holds("what a running job holds is live", compare.memory(made, whole, running=True))
    t.results.note(made=made, seen=whole["memory"])


def end_job(pid, script):
    """Ends a job that eacgm started and left running."""
    with contextlib.suppress(OSError):
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            if script.encode() in f.read():
                os.kill(pid, signal.SIGKILL)


# ---- stacks ----

@check("profile-cpu", "gpu", "root", "torch")
def _(t):
    profiles.whole_stacks(t, run)


@check("profile-memory", "gpu", "root", "torch")
def _(t):
    profiles.memory(t, run)


@check("profile-gpu", "gpu", "root", "torch")
def _(t):
    profiles.gpu_time(t, run)


# ---- what devices did ----

@check("timeline-equal", "gpu", "root", "torch")
def _(t):
    timelines.equal(t, run)


@check("timeline-steps", "gpu", "root", "torch")
def _(t):
    timelines.steps(t, run)


@check("timeline-running", "gpu", "root", "torch")
def _(t):
    timelines.running(t, run, training, attached, medians_of, rest)


@check("timeline-late-graph", "gpu", "root", "torch")
def _(t):
    timelines.late_graph(t, attached)


@check("timeline-storm", "gpu", "root", "torch")
def _(t):
    timelines.storm(t, run)


for part in ("collectives", "straggler", "hang", "merge"):
    @check("ranks-" + part, "gpu", "root", "torch")
    def _(t, part=part):
        if t.gpus < 2:
            raise Skip("one GPU here")
        getattr(timelines, part)(t, run)


# ---- NCCL ----

@check("nccl", "gpu", "root", "torch")
def _(t):
    for world in [n for n in (2, 4, 8) if n <= t.gpus] or [1]:
        made, _, whole = t.recorded_job(["--layers", "nccl"], "nccl", "--world", world,
                                        seconds=180)
        where = "%d rank%s: " % (world, "" if world == 1 else "s")
        t.results.holds(where + "calls, bytes, ranks and ids", compare.nccl_calls(made, whole))
        t.results.holds(where + "communicators", compare.nccl_communicators(made, whole))
        t.results.holds(where + "nothing is lost", no_loss(whole))
        t.results.note(**{"ranks_%d" % world: {
            "made": made, "collectives": whole["collectives"],
            "communicators": whole["communicators"]}})
    if t.gpus < 2:
        t.results.skip("several ranks", "one GPU here")


# ---- a running job ----

class Training:
    """A GPT-2 that trains until it is told to end."""

    def __init__(self, t):
        self.tell, self.log = t.path("tell"), t.path("log")
        with open(self.log, "w") as log:
            self.p = subprocess.Popen(
                t.job("gpt2", "--until-eof", "--tell", self.tell), stdin=subprocess.PIPE,
                stdout=log, stderr=log, start_new_session=True)

    def said(self):
        with open(self.log, errors="replace") as f:
            return f.read()

    def wait_until_warm(self):
        until = time.monotonic() + WARM_S
        while not re.search(r"^warm$", self.said(), re.M):
            if self.p.poll() is not None or time.monotonic() > until:
                raise Broken("the job did not get warm: " + self.said()[-1500:])
            time.sleep(0.02)

    def finish(self):
        """Its steps: [(end, length)] in ns."""
        self.p.stdin.close()
        try:
            self.p.wait(timeout=60)
        except subprocess.TimeoutExpired:
            raise Broken("the job did not end") from None
        if self.p.returncode:
            raise Broken("the job ended with %d: %s" % (self.p.returncode, self.said()[-1500:]))
        with open(self.tell) as f:
            return [tuple(map(int, line.split())) for line in f]

    def end(self):
        end_group(self.p)
        self.p.stdin.close()


@contextlib.contextmanager
def training(t):
    job = Training(t)
    try:
        job.wait_until_warm()
        yield job
    finally:
        job.end()


@contextlib.contextmanager
def attached(t, pid, seconds, *options):
    """Records a running process for some seconds; the body runs once eacgm has attached. Yields
    the recording's path, which is complete after the body."""
    out, err = t.path("attached.eacgm"), t.path("stderr")
    with open(err, "w") as f:
        p = subprocess.Popen([t.args.eacgm, "record", "-p", str(pid), "-d", str(seconds),
                              "-o", out, *options], stdin=subprocess.DEVNULL, stderr=f,
                             stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        until = time.monotonic() + 10
        while time.monotonic() < until and p.poll() is None:
            with open(err, errors="replace") as f:
                if "attached" in f.read():
                    break
            time.sleep(0.02)
        yield out
        try:
            p.wait(timeout=seconds + 60)
        except subprocess.TimeoutExpired:
            raise Broken("eacgm record did not end") from None
        if p.returncode:
            with open(err, errors="replace") as f:
                raise Broken("eacgm record ended with %d: %s" % (p.returncode, f.read()[-1500:]))
    finally:
        if p.poll() is None:
            end_group(p)


@check("attach", "gpu", "root", "torch")
def _(t):
    with training(t) as job:
        time.sleep(1)
        began = time.monotonic_ns()
        with attached(t, job.p.pid, 5, "--layers", "cuda") as recording:
            inside = time.monotonic_ns()
        ended = time.monotonic_ns()
        steps = job.finish()
    whole = t.report(recording)
    t.results.holds("95 % of the launches have a name", compare.named(whole, 0.95))
    t.results.holds("nothing is lost", no_loss(whole))
    # whole steps that lie well inside: the same number of launches in each
    within = [(end - length, end) for end, length in steps
              if end - length > inside + 300e6 and end < inside + 4e9]
    per_step = t.results.figures.get("gpt2", {}).get("kernels_per_step")
    t.results.note(cuda=whole["cuda"], steps=len(steps), steps_inside=len(within),
                   seconds=(ended - began) / 1e9)
    if len(within) < 2:
        t.results.holds("steps lie inside", "%d steps do" % len(within))
        return
    if per_step is None:
        per_step = t.report(recording, within[0])["cuda"]["launches"]
    seen = t.report(recording, (within[0][0], within[-1][1]))["cuda"]
    made = per_step * len(within)
    t.results.note(launches_inside=seen["launches"], launches_expected=made)
    t.results.holds("every launch between two steps is seen", [] if seen["launches"] == made else
                    "%d launches seen in %d steps, %g made" % (seen["launches"], len(within),
                                                              made))


DRIVER = re.compile(r"^libcuda\.so")
PROBED = re.compile(r"^(libcuda\.so|libcudart|libnccl|libtorch_cpu|libtorch_python|libc10|"
                    r"python3|libpython3)")


def changed_text(pid, only=PROBED):
    """{library: bytes of its code that differ from the file}: a breakpoint is one such byte."""
    changed = {}
    with open("/proc/%d/maps" % pid) as f:
        rows = [line.split(None, 5) for line in f]
    with open("/proc/%d/mem" % pid, "rb", 0) as memory:
        for row in rows:
            name = os.path.basename(row[5].strip()) if len(row) == 6 else ""
            if "x" not in row[1] or not only.match(name):
                continue
            start, end = (int(x, 16) for x in row[0].split("-"))
            with open("/proc/%d/root%s" % (pid, row[5].strip()), "rb") as f:
                f.seek(int(row[2], 16))
                changed[name] = changed.get(name, 0) + _differing(memory, f, start, end)
    return changed


def _differing(memory, f, start, end, size=1 << 20):
    count = 0
    for at in range(start, end, size):
        want = f.read(min(size, end - at))
        memory.seek(at)
        have = memory.read(len(want))
        if have != want:
            for i in range(0, len(want), 4096):
                a, b = have[i:i + 4096], want[i:i + 4096]
                if a != b:
                    count += sum(x != y for x, y in zip(a, b))
    return count


def medians_of(steps, windows):
    """The median step in ms of each [start, end]."""
    medians = []
    for start, end in windows:
        lengths = [length for at, length in steps if start <= at - length and at <= end]
        if not lengths:
            raise Broken("no step lies in a window of %.1f s" % ((end - start) / 1e9))
        medians.append(statistics.median(lengths) / 1e6)
    return medians


@check("after", "gpu", "root", "torch")
def _(t):
    """Five attachments: the job's code is restored, and its steps are as long as before."""
    rounds, seconds, quiet = 5, 2 if t.quick else 10, 1.5 if t.quick else 3
    windows, during_windows, text = [], [], []
    with training(t) as job:
        before_text = changed_text(job.p.pid)
        for _ in range(rounds):
            windows.append(rest(quiet))
            began = time.monotonic_ns()
            with attached(t, job.p.pid, seconds) as recording:
                text.append(changed_text(job.p.pid, DRIVER))
            during_windows.append((began, time.monotonic_ns()))
            os.unlink(recording)
        windows.append(rest(quiet))
        after_text = changed_text(job.p.pid)
        steps = job.finish()
    quiet_ms, during_ms = medians_of(steps, windows), medians_of(steps, during_windows)
    ratios = [b / a for a, b in zip(quiet_ms, quiet_ms[1:])]
    t.results.note(step_ms_untraced=quiet_ms, step_ms_attached=during_ms, after_to_before=ratios,
                   after_to_before_median=statistics.median(ratios),
                   attached_to_before_median=statistics.median(
                       d / b for d, b in zip(during_ms, quiet_ms)),
                   changed_bytes={"before": before_text, "attached": text, "after": after_text})
    own = sum(n for name, n in before_text.items() if DRIVER.match(name))
    t.results.holds("the driver's code is probed while attached",
                    [] if all(sum(x.values()) > own for x in text) else
                    "bytes that differ before: %d, attached: %s" % (own, text))
    t.results.holds("the code is restored", [] if after_text == before_text else
                    "bytes that differ before: %s, after: %s" % (before_text, after_text))
    # machines drift by tens of percent: slower every time is what a left probe looks like
    t.results.holds("steps are not slower after every attachment",
                    [] if min(ratios) < 1.02 else "after to before: %s" % ratios)


def rest(seconds):
    start = time.monotonic_ns()
    time.sleep(seconds)
    return start, time.monotonic_ns()


# ---- others' checks ----

def tap(t, text):
    """Takes over the results of a program that prints TAP."""
    seen, problems = 0, []
    lines = text.splitlines()
    for i, line in enumerate(lines):
        m = LINE.match(line)
        if not m:
            continue
        seen += 1
        skipped = re.search(r"#\s*skip\s*(.*)", m.group(2), re.I)
        if skipped and not m.group(1):
            t.results.skip(m.group(2)[:skipped.start()].strip(), skipped.group(1))
            continue
        if m.group(1):
            problems = [x[2:] for x in lines[i + 1:i + 6] if x.startswith("# ")] or ["failed"]
        t.results.holds(m.group(2), problems if m.group(1) else [])
    plan = re.search(r"^1\.\.(\d+)(?:\s*#\s*skip\s*(.*))?$", text, re.M | re.I)
    if plan and plan.group(1) == "0":
        t.results.skip("", plan.group(2) or "no reason given")
    elif not seen or (plan and seen < int(plan.group(1))):
        t.results.holds("all results came", "%d did: %s" % (seen, text[-800:]))


@check("telemetry", "gpu", "root")
def _(t):
    path = os.path.join(HERE, "telemetry_check.py")
    if not os.path.exists(path):
        raise Skip("telemetry_check.py is not here")
    figures = os.path.join(t.args.out, "telemetry.json")
    tap(t, run([t.args.python, path, t.args.eacgm, figures], 150, good=(0, 1))[0])
    t.results.note(file=figures)


@check("owners", "gpu", "root")
def _(t):
    path = os.path.join(HERE, "owners_check.py")
    tap(t, run([t.args.python, path, t.args.eacgm], 240)[0])


# ---- main ----

def run_check(host, name, needs, fn):
    results = host.results
    results.check = name
    began = time.monotonic()
    try:
        for need in needs:
            reason = host.lacks(need)
            if reason:
                raise Skip(reason)
        fn(host)
    except Skip as e:
        results.skip("", str(e))
    except Broken as e:
        results.holds("runs", str(e))
    except Exception:
        results.holds("runs", traceback.format_exc())
    results.note(seconds_taken=round(time.monotonic() - began, 1))


def main():
    args = arguments()
    if args.list:
        print("\n".join(name for name, _, _ in checks))
        return 0
    os.makedirs(args.out, exist_ok=True)
    results = Results(args.out)
    with tempfile.TemporaryDirectory(prefix="eacgm-gpu-") as folder:
        host = Host(args, folder)
        host.results = results
        chosen = [c for c in checks if not args.only or any(o in c[0] for o in args.only)]
        for c in chosen:
            run_check(host, *c)
        total = results.passed + results.failed + results.skipped
        print("1..%d" % total)
        print("# figures: %s" % results.write(host.describe()))
    print("%d passed, %d failed, %d skipped" % (results.passed, results.failed, results.skipped))
    return 1 if results.failed or not total else 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
