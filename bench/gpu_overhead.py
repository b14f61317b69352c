#!/usr/bin/env python3
"""gpu_overhead.py - what tracing costs GPT-2 training on a GPU, in interleaved pairs.

One training process per load goes on all the time and is told when to train how many steps;
eacgm attaches to it and leaves it again. A pair is a segment untraced and a segment traced,
one right after the other, the order changing from pair to pair; its figure is the ratio of
the median step times (of the mean ones for bursts, which a median does not see). All
configurations take turns and their order rotates, so that a slow minute of the machine meets
all of them. Segments are short for the same reason. Loads: launch-bound (batch 1 x 128) and
gpu-bound (8 x 1024).

torch.profiler and cProfile are switched on for a segment in the same way. torch.profiler runs
in a second process of the same load, because CUPTI goes on costing a little in a process that
it was used in; what it is compared with is the first process, as for all. "attached before" is
a segment right after eacgm attached to the job and left it.

Configurations with the timeline attach to a process of their own, because of CUPTI, and run half
a segment before the one that counts: the shim comes in where the job calls the driver, and the
probes of operators go after that. Where eacgm is to start the process itself (probes inside of it),
all pairs of a configuration are made with one such process, and the first process beside it. The
few probes of the kernel that are left then are felt by both. The bare client of CUPTI that
timelines are compared with (bench/cupti_client.c) is in a third process from its start; it has no
probes, which would be felt in all processes. "of the client's" is what tracing takes in relation to
what the bare client takes, from segments of the same round. "collector CPU" is eacgm's over the whole command, start-up
with it, "in the segment" while the segment ran, of one core each. `graph inference` replays one
CUDA graph a step, `trainer` is Hugging Face's with a small Llama, a step of `generation` is a
token. "agent" is `eacgm agent`, with its budget. "calls inside" compares a process
with itself: segments in which its probes record, and in which they do nothing.
Needs root, a GPU, and a Python with PyTorch."""

import argparse
import glob
import json
import os
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import common
import to_markdown
from common import Failed

JOBS = os.path.join(common.ROOT, "tests", "gpu", "jobs")
START_SECONDS = 180  # until a job has imported PyTorch and warmed up
SEGMENT_SECONDS = 120  # that a segment may take at most
BURST_MIN_MS = 50
BURST_OF = 20
INSIDE_SECONDS = 30  # until its probes have come inside
SETTLE_SECONDS = 5  # that an agent's budget takes to be kept
SAID = re.compile(r"eacgm: (\d+) calls, \d+ samples(?:, (\d+) GPU spans)? in ([0-9.]+) s, "
                  r"lost (\d+)")


class Load:
    def __init__(self, name, batch, seq, steps, job="gpt2.py"):
        self.name, self.batch, self.seq, self.steps = name, batch, seq, steps
        self.job = os.path.join(JOBS, job)


LOADS = [Load("launch-bound", 1, 128, 40), Load("gpu-bound", 8, 1024, 16),
         Load("graph inference", 1, 128, 200, "infer.py"),
         Load("trainer", 1, 64, 30, "trainer.py"),
         Load("generation", 1, 16, 150, "generate.py")]
CLIENT = "bare CUPTI client"
INSIDE = ["--probes", "inprocess"]
NO_CALLS = ["--layers", "gpu"]
CALLS_ALONE = ["--profile", "off", "--waits", "off"]
SETTINGS = re.compile(r"/dev/shm/eacgm-gpu-[^/]+/settings")
RESTS_AT = 16  # struct call_settings of wire/call_ring.h: rests


class Config:
    """eacgm: options of record, None if it does not run. way: how the job runs the segment
    (gpt2.py --serve). before: eacgm comes and goes before the segment. client: the bare client
    of CUPTI is in the process. started: a process that eacgm has started; switched: and it is compared with
    itself, while its probes record nothing. agent: options of an agent that comes beside the job and
    settles before the segment. resting: started, and its probes record nothing from first to last."""

    def __init__(self, name, eacgm=None, way="none", before=False, burst=False, client=False,
                 started=False, switched=False, agent=None, resting=False):
        self.agent, self.resting = agent, resting
        self.name, self.eacgm, self.way, self.before = name, eacgm, way, before
        self.client, self.started, self.switched = client, started or switched, switched
        self.timeline = any("--gpu-timeline" in word for word in eacgm or [])
        self.burst, self.by = burst, "mean_ms" if burst else "median_ms"
        self.comes_in = "inprocess" in (eacgm or []) and not self.started
        self.apart = way.startswith("torch.profiler")


def configs():
    return [
        Config("default layers", eacgm=[]),
        Config("default layers, no stacks", eacgm=["--profile", "off"]),
        Config("probes inside", eacgm=INSIDE, started=True),
        Config("probes inside, no stacks", eacgm=[*INSIDE, "--profile", "off"], started=True),
        Config("all layers, probes inside", eacgm=[*INSIDE, "--layers", "all"], started=True),
        Config("probes inside + timeline", eacgm=[*INSIDE, "--gpu-timeline"], started=True),
        Config("all layers, probes inside + timeline",
               eacgm=[*INSIDE, "--layers", "all", "--gpu-timeline"], started=True),
        Config("calls inside", eacgm=[*INSIDE, *CALLS_ALONE], switched=True),
        Config("calls inside, all layers", eacgm=[*INSIDE, *CALLS_ALONE, "--layers", "all"],
               switched=True),
        Config("started, nothing traced", eacgm=[*NO_CALLS, *CALLS_ALONE], started=True),
        Config("started, stacks and waits alone", eacgm=NO_CALLS, started=True),
        Config("started, timeline alone", eacgm=["--gpu-timeline", *NO_CALLS, *CALLS_ALONE],
               started=True),
        Config("probes inside, calls alone", eacgm=[*INSIDE, *CALLS_ALONE], started=True),
        Config("probes inside, passed on", eacgm=[*INSIDE, *CALLS_ALONE], started=True,
               resting=True),
        Config("stacks alone", eacgm=["--layers", "gpu", "--profile", "cpu,offcpu"]),
        Config("collectors alone", eacgm=["--layers", "gpu", "--profile", "off"]),
        Config("collectors and live detection", eacgm=["--layers", "gpu", "--profile", "offcpu",
                                                       "--detect"]),
        Config("all layers, trace", eacgm=["--layers", "all"]),
        Config("stats", eacgm=["--mode", "stats"]),
        Config("tail", eacgm=["--mode", "tail"]),
        Config("burst 1/%d" % BURST_OF, eacgm=[], burst=True),
        Config("attached before", eacgm=[], before=True),
        Config("agent", agent=[]),
        Config(CLIENT, client=True),
        Config(CLIENT + ", launches too", client=True),
        Config("probes inside, attached", eacgm=INSIDE),
        Config("timeline", eacgm=["--gpu-timeline", "--layers", "gpu", "--profile", "off"]),
        Config("timeline, graphs", eacgm=["--gpu-timeline=graphs", "--layers", "gpu",
                                          "--profile", "off"]),
        Config("default layers + timeline", eacgm=["--gpu-timeline", "--operators", "probes"]),
        Config("operators by callbacks + timeline", eacgm=["--gpu-timeline"]),
        Config("operators and launches by callbacks + timeline",
               eacgm=["--gpu-timeline", "--profile", "off"]),
        Config("the same by probes", eacgm=["--gpu-timeline", "--profile", "off", "--operators",
                                            "probes"]),
        Config("cProfile", way="cProfile"),
        Config("torch.profiler", way="torch.profiler"),
        Config("torch.profiler, stacks", way="torch.profiler-stacks"),
    ]


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    names = [c.name for c in configs()]
    p.add_argument("--eacgm", metavar="PATH", help="default: BUILD/eacgm")
    p.add_argument("--python", default=sys.executable,
                   help="that has PyTorch (default: %(default)s)")
    p.add_argument("--load", action="append", choices=[x.name for x in LOADS],
                   help="only this load, may be repeated")
    p.add_argument("--only", action="append", choices=names, metavar="CONFIG",
                   help="only this configuration, may be repeated: %s" % "; ".join(names))
    p.add_argument("--pairs", type=int, default=10)
    p.add_argument("--steps", type=int, help="of a segment (default: %s)" % ", ".join(
        "%d %s" % (x.steps, x.name) for x in LOADS))
    p.add_argument("--seconds", type=float, default=90, metavar="SEC",
                   help="that one configuration of one load may take; fewer pairs are made when "
                   "it is over (default: %(default)s)")
    p.add_argument("--warmup", type=int, default=20)
    p.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    args = p.parse_args()
    args.eacgm = os.path.abspath(args.eacgm or os.path.join(args.build, "eacgm"))
    if args.pairs < 1 or args.seconds <= 0 or (args.steps is not None and args.steps < 1):
        p.error("--pairs, --seconds and --steps are positive")
    return args


# ---- the job ----

class Job:
    """A training process that trains when it is told to."""

    def __init__(self, args, load, log, env=None, wrap=()):
        self.log = log
        with open(log, "w") as err:
            self.p = subprocess.Popen(
                [*wrap, args.python, load.job, "--serve", "--batch", str(load.batch), "--seq",
                 str(load.seq), "--warmup", str(args.warmup), "--device", args.device],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err,
                start_new_session=True, env=dict(os.environ, **(env or {})))
        self.rest = b""
        try:
            while self.line(START_SECONDS) != "ready":
                pass
        except BaseException:
            self.end()
            raise

    def line(self, seconds):
        until = time.monotonic() + seconds
        while b"\n" not in self.rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.p.stdout], [], [], left)[0]:
                raise Failed("the job said nothing for %d s" % seconds)
            more = os.read(self.p.stdout.fileno(), 65536)
            if not more:
                with open(self.log, errors="replace") as f:
                    raise Failed("the job ended: " + (f.read().strip() or "no output")[-600:])
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode(errors="replace").strip()

    def begin(self, steps, way="none"):
        self.p.stdin.write(("run %d %s\n" % (steps, way)).encode())
        self.p.stdin.flush()

    def made(self):
        return json.loads(self.line(SEGMENT_SECONDS))

    def run(self, steps, way="none"):
        self.begin(steps, way)
        return self.made()

    def quit(self):
        """Ends as it would by itself."""
        self.p.stdin.write(b"quit\n")
        self.p.stdin.flush()
        return self.p.wait(timeout=60)

    def end(self):
        common.end_group(self.p)
        self.p.stdin.close()
        self.p.stdout.close()


def cpu_s_of(pid):
    with open("/proc/%d/stat" % pid, "rb") as f:
        ticks = f.read().rpartition(b")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


class Attached:
    """eacgm, attached to a job from `with` on; what it said is there afterwards."""

    def __init__(self, args, pid, recording, options):
        self.err = recording + ".err"
        self.said = self.attach_s = None
        self.cmd = [args.eacgm, "record", "-p", str(pid), "-o", recording, *options]

    def text(self):
        with open(self.err, errors="replace") as f:
            return f.read()

    def __enter__(self):
        began = time.monotonic()
        with open(self.err, "w") as err:
            self.p = subprocess.Popen(self.cmd, stdin=subprocess.DEVNULL, stderr=err,
                                      stdout=subprocess.DEVNULL, start_new_session=True)
        while "attached" not in self.text():
            if self.p.poll() is not None:
                raise Failed("%s ended with %d: %s" % (" ".join(self.cmd), self.p.returncode,
                                                       self.text().strip()[-400:]))
            if time.monotonic() > began + 60:
                common.end_group(self.p)
                raise Failed("eacgm did not attach in 60 s")
            time.sleep(0.01)
        self.attach_s = time.monotonic() - began
        return self

    def cpu_s(self):
        """That eacgm has used up to now."""
        return cpu_s_of(self.p.pid)

    def __exit__(self, *error):
        if error[0] or self.p.poll() is not None:
            common.end_group(self.p)
            if not error[0]:
                raise Failed("eacgm ended by itself: %s" % self.text().strip()[-400:])
            return
        self.p.send_signal(signal.SIGINT)
        try:
            self.p.wait(timeout=60)
        except subprocess.TimeoutExpired:
            common.end_group(self.p)
            raise Failed("eacgm did not end in 60 s") from None
        m = SAID.search(self.text())
        if self.p.returncode or not m:
            raise Failed("eacgm ended with %d: %s" % (self.p.returncode,
                                                      self.text().strip()[-400:]))
        self.said = {"calls": int(m.group(1)), "spans": int(m.group(2) or 0),
                     "seconds": float(m.group(3)), "lost": int(m.group(4))}


class Agent(Attached):
    """eacgm agent beside a job."""

    def __init__(self, args, pid, recording, options):
        super().__init__(args, pid, recording, options)
        self.cmd = [args.eacgm, "agent", "-p", str(pid), "--listen", "127.0.0.1:0", *options]
        self.said = {}

    def __exit__(self, *error):
        if self.p.poll() is not None and not error[0]:
            raise Failed("the agent ended by itself: %s" % self.text().strip()[-400:])
        self.p.send_signal(signal.SIGTERM)
        try:
            self.p.wait(timeout=60)
        except subprocess.TimeoutExpired:
            common.end_group(self.p)
            raise Failed("the agent did not end in 60 s") from None
        if self.p.returncode and not error[0]:
            raise Failed("the agent ended with %d: %s" % (self.p.returncode,
                                                          self.text().strip()[-400:]))


def run_until_inside(job, eacgm):
    """A thread that calls is given the library: steps are run for that."""
    limit = time.monotonic() + INSIDE_SECONDS
    while time.monotonic() < limit:
        job.run(1)
        if "functions inside" in eacgm.text():
            return
    raise Failed("no probes came inside: %s" % eacgm.text().strip()[-400:])


# ---- pairs ----

class Measured:
    """What is known of one configuration under one load."""

    def __init__(self, config, load, steps):
        self.config, self.load, self.steps, self.options = config, load, steps, config.eacgm
        self.ratios_to_client = []
        self.pairs, self.said, self.summary, self.seconds = [], [], None, 0.0
        self.cores = []
        self.failed = None

    def beside_agent(self, args, job, recording):
        """The governor gets some seconds to settle."""
        with Agent(args, job.p.pid, recording, self.config.agent) as eacgm:
            settled = time.monotonic() + SETTLE_SECONDS
            while time.monotonic() < settled:
                job.run(self.steps)
            began, cpu_s = time.monotonic(), eacgm.cpu_s()
            made = job.run(self.steps)
            cores = (eacgm.cpu_s() - cpu_s) / (time.monotonic() - began)
        self.cores.append(cores)
        return made

    def segment(self, args, job, recording):
        """One traced segment."""
        if self.config.agent is not None:
            return self.beside_agent(args, job, recording)
        if self.options is None:
            return job.run(self.steps, self.config.way)
        if self.config.started:
            began, cpu_s = time.monotonic(), cpu_s_of(job.p.pid)
            made = job.run(self.steps)
            self.cores.append((cpu_s_of(job.p.pid) - cpu_s) / (time.monotonic() - began))
            return made
        with Attached(args, job.p.pid, recording, self.options) as eacgm:
            if self.config.timeline:
                job.run(max(1, self.steps // 2))
            if self.config.comes_in:
                run_until_inside(job, eacgm)
            began, cpu_s = time.monotonic(), eacgm.cpu_s()
            made = None if self.config.before else job.run(self.steps)
            cores = (eacgm.cpu_s() - cpu_s) / (time.monotonic() - began)
        if self.config.timeline and not eacgm.said["spans"]:
            raise Failed("there was no timeline: %s" % eacgm.text().strip()[-400:])
        self.said.append(dict(eacgm.said, attach_s=eacgm.attach_s, cores=cores))
        return made or job.run(self.steps)

    def pair(self, args, i, clean, job, recording):
        began = time.monotonic()
        if i % 2:
            new = self.segment(args, job, recording)
            old = clean.run(self.steps)
        else:
            old = clean.run(self.steps)
            new = self.segment(args, job, recording)
        self.pairs.append((old, new))
        if self.config.started:
            pass  # it is still being recorded
        elif self.options is not None and self.summary is None and not self.config.before:
            self.summary = common.summary_of(args.eacgm, recording)
        if os.path.exists(recording) and not self.config.started:
            os.unlink(recording)
        self.seconds += time.monotonic() - began

    def to_client(self, client):
        """What it takes in relation to what the client took in the same round."""
        if client and self.config.timeline:
            for (old, new), (c_old, c_new) in zip(self.pairs, client.pairs):
                taken = c_new["median_ms"] / c_old["median_ms"] - 1
                if taken > 0:
                    self.ratios_to_client.append((new["median_ms"] / old["median_ms"] - 1) / taken)

    def wants_more(self, args):
        if self.failed or len(self.pairs) >= args.pairs:
            return False
        return not self.pairs or self.seconds * (1 + 1 / len(self.pairs)) <= args.seconds

    def result(self):
        by = self.config.by
        row = {"config": self.config.name, "by": by, "steps": self.steps,
               "options": self.options, "seconds": self.seconds}
        if self.failed:
            row["failed"] = self.failed
        if not self.pairs:
            return row
        row.update({
            "ratio": common.interval([new[by] / old[by] for old, new in self.pairs]),
            "p99_ratio": common.interval([new["p99_ms"] / old["p99_ms"]
                                          for old, new in self.pairs]),
            "untraced_ms": statistics.median(old[by] for old, _ in self.pairs),
            "traced_ms": statistics.median(new[by] for _, new in self.pairs),
            "pairs": [{"untraced_ms": o[by], "traced_ms": n[by]} for o, n in self.pairs]})
        if self.ratios_to_client:
            row["of_client"] = common.interval(self.ratios_to_client)
        if self.said:
            row.update({"calls": statistics.median(s["calls"] for s in self.said),
                        "lost": sum(s["lost"] for s in self.said),
                        "spans": statistics.median(s["spans"] for s in self.said),
                        "attach_s": statistics.median(s["attach_s"] for s in self.said)})
        if self.config.agent is not None:
            row["segment_cores"] = common.interval(self.cores)
        if self.said and not self.config.before:
            row["segment_cores"] = common.interval([s["cores"] for s in self.said])
        if self.summary:
            row["summary"] = self.summary
            row["collector_cpu_ratio"] = (self.summary["collector_cpu_s"] /
                                          self.summary["duration_s"])
        return row


def run_started(args, m, clean, folder):
    """All pairs of a configuration whose process eacgm starts: one process, from first to last."""
    recording, log = os.path.join(folder, "started.eacgm"), os.path.join(folder, "started.err")
    began = time.monotonic()
    job = Job(args, m.load, log, wrap=[args.eacgm, "record", "-u", "root", "-o", recording,
                                       *m.options, "--"])
    attach_s = time.monotonic() - began
    try:
        job.run(m.steps)
        if m.config.switched:
            clean = Switched(job)
        for i in range(args.pairs):
            if m.wants_more(args):
                common.say("%s: %s, pair %d of %d" % (m.load.name, m.config.name, i + 1,
                                                      args.pairs))
                m.pair(args, i, clean, job, recording)
        status = job.quit()
        with open(log, errors="replace") as f:
            text = f.read()
        said = SAID.search(text)
        if status or not said:
            raise Failed("eacgm ended with %d: %s" % (status, text.strip()[-400:]))
        m.said.append({"calls": int(said.group(1)), "spans": int(said.group(2) or 0),
                       "seconds": float(said.group(3)), "lost": int(said.group(4)),
                       "attach_s": attach_s, "cores": statistics.median(m.cores)})
        m.summary = common.summary_of(args.eacgm, recording)
    except Failed as e:
        m.failed = str(e)
    finally:
        job.end()


def opened_by(pid):
    for fd in glob.glob("/proc/%d/fd/*" % pid):
        try:
            yield os.readlink(fd)
        except FileNotFoundError:  # closed meanwhile
            pass


class Switch:
    """Has the probes inside of a session record nothing for a while; pid is eacgm's."""

    def __init__(self, pid):
        self.path = next((path for path in opened_by(pid) if SETTINGS.fullmatch(path)), None)
        if not self.path:
            raise Failed("eacgm (%d) has no probes inside of processes" % pid)

    def run(self, job, steps):
        self.set(1)
        try:
            return job.run(steps)
        finally:
            self.set(0)

    def set(self, rests):
        with open(self.path, "r+b") as f:
            f.seek(RESTS_AT)
            f.write(struct.pack("I", rests))


class Switched:
    """A job's steps while nothing is recorded."""

    def __init__(self, job):
        self.job, self.switch = job, Switch(job.p.pid)

    def run(self, steps):
        return self.switch.run(self.job, steps)


def prepare_burst(args, m, job, step_ms, recording):
    """A period of one step, or the shortest that eacgm takes; a segment of four rounds."""
    for on_ms in (max(1, round(step_ms)), BURST_MIN_MS):
        m.options = ["--burst", "1/%d:%d" % (BURST_OF, on_ms)]
        try:
            with Attached(args, job.p.pid, recording, m.options):
                pass
            break
        except Failed:
            if on_ms == BURST_MIN_MS:
                raise
    m.steps = max(m.steps, round(4 * BURST_OF * on_ms / step_ms))


def jobs_of(args, load, chosen, folder, jobs):
    """The process that each configuration runs in; those that are started are put into jobs."""
    client = os.path.join(args.build, "bench", "libbench_cupti_client.so")
    where = {}
    has_client = {"CUDA_INJECTION64_PATH": client}
    for name, needs, env in (("apart", lambda c: c.apart, None),
                             ("timeline", lambda c: c.timeline, None),
                             ("client", lambda c: c.name == CLIENT, has_client),
                             ("launches", lambda c: c.client and c.name != CLIENT,
                              dict(has_client, CUPTI_CLIENT_LAUNCHES="1"))):
        if any(needs(c) for c in chosen):
            jobs.append(Job(args, load, os.path.join(folder, name + ".log"), env))
            where.update({c.name: jobs[-1] for c in chosen if needs(c)})
    return where


def run_load(args, load, folder):
    chosen = [c for c in configs() if not args.only or c.name in args.only]
    steps = args.steps or load.steps
    rows = [Measured(c, load, steps) for c in chosen]
    jobs, recording = [], os.path.join(folder, "run.eacgm")
    common.say("%s: starting" % load.name)
    try:
        jobs.append(Job(args, load, os.path.join(folder, "clean.log")))
        where = jobs_of(args, load, chosen, folder, jobs)
        step_ms = jobs[0].run(steps)["median_ms"]
        for m in rows:
            if m.config.burst:
                prepare_burst(args, m, jobs[0], step_ms, recording)
        for i in range(args.pairs):
            turn = i % len(rows)
            for m in rows[turn:] + rows[:turn]:
                if m.config.started or not m.wants_more(args):
                    continue
                common.say("%s: %s, pair %d of %d" % (load.name, m.config.name, i + 1,
                                                      args.pairs))
                try:
                    m.pair(args, i, jobs[0], where.get(m.config.name, jobs[0]), recording)
                except Failed as e:
                    if any(j.p.poll() is not None for j in jobs):
                        raise
                    m.failed = str(e)
        client = next((m for m in rows if m.config.name == CLIENT), None)
        for m in rows:
            m.to_client(client)
        for m in rows:
            if m.config.started:
                run_started(args, m, jobs[0], folder)
    finally:
        for j in jobs:
            j.end()
        common.said()
    return [m.result() for m in rows]


# ---- output ----

HEADS = ["configuration", "untraced ms", "traced ms", "overhead", "95 %", "p99", "pairs", "calls",
         "lost", "collector CPU", "in the segment", "of the client's"]


def percent(ratio):
    return "%+.1f %%" % ((ratio - 1) * 100)


def cells(rows):
    table = []
    for r in rows:
        name = r["config"] + (" (mean)" if r["by"] == "mean_ms" else "")
        if "ratio" not in r:
            table.append([name] + ["-"] * (len(HEADS) - 1))
            continue
        q = r["ratio"]
        table.append([
            name, "%.3f" % r["untraced_ms"], "%.3f" % r["traced_ms"], percent(q["median"]),
            "%s .. %s" % (percent(q["low"]), percent(q["high"])),
            percent(r["p99_ratio"]["median"]), q["n"],
            "%d" % r["calls"] if "calls" in r else "-", r.get("lost", "-"),
            "%.1f %%" % (100 * r["collector_cpu_ratio"]) if "collector_cpu_ratio" in r else "-",
            "%.2f %%" % (100 * r["segment_cores"]["median"]) if "segment_cores" in r else "-",
            "%.2f (%.2f .. %.2f)" % tuple(r["of_client"][k] for k in ("median", "low", "high"))
            if "of_client" in r else "-"])
    return table


def main():
    args = arguments()
    loads = [x for x in LOADS if not args.load or x.name in args.load]
    results = common.Results("gpu_overhead", args.eacgm, {
        "pairs": args.pairs, "seconds": args.seconds, "steps": args.steps,
        "warmup": args.warmup})
    results["loads"] = {}
    for load in loads:
        with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
            rows = run_load(args, load, folder)
        results.data["loads"][load.name] = {"batch": load.batch, "seq": load.seq, "configs": rows}
        results.write(args.json)  # what is measured is kept, whatever comes next
        common.print_table("GPT-2, %s: batch %d x %d" % (load.name, load.batch, load.seq),
                           HEADS, cells(rows))
        for r in rows:
            if "failed" in r:
                print("%s failed: %s" % (r["config"], r["failed"]))
    print("\nAs Markdown:\n")
    for name, load in results.data["loads"].items():
        print("#### GPT-2, %s (batch %d x %d)\n" % (name, load["batch"], load["seq"]))
        to_markdown.table(HEADS, cells(load["configs"]))
    return 1 if any("failed" in r for load in results.data["loads"].values()
                    for r in load["configs"]) else 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
