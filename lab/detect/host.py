#!/usr/bin/env python3
"""host.py - a whole evaluation on one host within a time limit: records runs of the fault
laboratory side by side, judges them on all cores, and packs what came out into few files.

    host.py --eacgm ./eacgm --work WORK --out OUT --smoke
    host.py --eacgm ./eacgm --work WORK --out OUT --seconds 555 --call 1
    host.py --eacgm ./eacgm --work WORK --out OUT --seconds 555 --call 2
    host.py --eacgm ./eacgm --work WORK --out OUT --seconds 300 --judge-only
    host.py --eacgm ./eacgm --work WORK --out OUT --learned EARLIER --lane peft_gpu:test/41/3

A lane is a workload with its runs, one after the other, on cores of its own: as many as the job
wants, and one for whoever records. Lanes begin as cores become free, and no more than --gpu-at-once
of them are on a GPU; where it is more than one, faults that the others would feel are left out. A
run that would not end in time is made shorter, or not at all. What is whole is kept in WORK: a later
call goes on with it, with other seeds, and judges all that is there. Clean runs may also be those of
an earlier call on another machine, whose packed files lie unpacked in EARLIER: its models judge. With
--live what a call before learned, in WORK or EARLIER, judges meanwhile as well: `record --detect`.

Judged is by evaluate.py and slow_calls.py; beside it, how many alarms clean runs have at rates that
were asked for, by models of so many launches. A failure costs a line."""

import argparse
import collections
import contextlib
import gzip
import hashlib
import itertools
import json
import math
import multiprocessing.connection
import os
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = os.path.join(HERE, "..", "faults")
sys.path[:0] = [HERE, os.path.abspath(LAB)]
import evaluate  # noqa: E402
import seconds  # noqa: E402
from lab import packs, plans  # noqa: E402
from lab.guard import die_with_parent  # noqa: E402
from lab.host import Host, by_core, cpu_hierarchy  # noqa: E402
from lab.lanes import ENDS_S, lost_of  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

# Workloads of a call, and the runs of each: (plan, seed in the call, minutes recorded).
RUNS = (("clean", 1, 0.92), ("clean", 2, 0.92), ("test", 1, 1.25), ("test", 2, 1.25),
        ("benign", 3, 0.75))
CALLS = {1: ("trainer_gpu", "lightning_gpu", "jax_gpu", "trainer_cpu", "lstm_lm", "mnist"),
         2: ("compile_gpu", "generate_gpu", "peft_gpu", "lightning_cpu", "nanogpt", "ppo")}
SEEDS = 10  # of a call
RATES = (0.1, 1, 10)  # alarms an hour
LEASTS = (10, 0)  # percent of the time that must be lost
USUAL = (1, 10)  # unless asked otherwise
START_S = {"compile_gpu": 110, "jax_gpu": 110, "jax_cpu": 60}  # until the recorder is attached, where nothing is known yet
USUAL_START_S = 50
END_S = 10  # from the end of what is recorded to that of run.py
LEAST_S = {"clean": 45, "test": 60, "benign": 40, "dev": 60}
SMOKE_S, SMOKE_FAULTS_S = 40, 60
POLL_S, PACK_S = 0.1, 12
MIB = 1 << 20
EXACT = ("op_delay", "cuda_delay")  # faults whose delayed calls are listed

Planned = collections.namedtuple("Planned", "workload plan seed seconds pace")


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--eacgm", required=True, metavar="PATH")
    p.add_argument("--work", required=True, metavar="DIR", help="recordings, models, judgements")
    p.add_argument("--out", required=True, metavar="DIR", help="at most 8 files come here")
    p.add_argument("--seconds", type=float, default=555, help="in all (default: %(default)s)")
    p.add_argument("--judge-seconds", type=float, default=110, metavar="S",
                   help="of these, for judging (default: %(default)s)")
    p.add_argument("--smoke", action="store_true", help="each workload once, a line of each")
    p.add_argument("--with-faults", action="store_true",
                   help="smoke: another run of each with all its faults, briefly")
    p.add_argument("--learned", metavar="DIR", help="what an earlier call packed, unpacked: its "
                   "models judge the workloads that have no clean run here")
    p.add_argument("--live", action="store_true",
                   help="what is not clean is recorded with --detect, by the model of an earlier call")
    p.add_argument("--judge-only", action="store_true", help="record nothing")
    p.add_argument("--call", type=int, default=1, metavar="N",
                   help="its seeds, and its workloads if neither --workloads nor --lane is given")
    p.add_argument("--workloads", metavar="NAME,...")
    p.add_argument("--lane", action="append", metavar="NAME:PLAN/SEED/MINUTES,...",
                   help="in place of the usual lanes; may be repeated")
    p.add_argument("--gpu-at-once", type=int, default=3, metavar="N", help="lanes on each GPU "
                   "(default: %(default)s)")
    p.add_argument("--quiet", action="store_true",
                   help="each lane's job on whole cores of its own: fewer lanes, that do not slow "
                   "each other")
    p.add_argument("--pace", default="dense")
    p.add_argument("--python", metavar="PATH", help="that has PyTorch")
    p.add_argument("--helpers", metavar="DIR", help="where libfault_cuda.so is")
    p.add_argument("--record-options", metavar="WORDS", help="in place of the workloads' own")
    p.add_argument("--options", default="", help="of eacgm detect")
    args = p.parse_args()
    args.eacgm = os.path.abspath(args.eacgm)
    if not os.access(args.eacgm, os.X_OK):
        p.error("%s cannot be run" % args.eacgm)
    named = [n for n in (args.workloads or "").split(",") if n]
    named = named or list(CALLS.get(args.call, sum(CALLS.values(), ())))
    if args.smoke and not args.workloads:
        named = [n for names in CALLS.values() for n in names]
    args.lanes = lanes_of(args, named, p)
    return args


def lanes_of(args, named, p):
    """[[Planned]]"""
    if args.smoke:
        return [[Planned(n, "clean", 1, SMOKE_S, "dense")] + (
            [Planned(n, "test", 1, SMOKE_FAULTS_S, "brief")] if args.with_faults else [])
            for n in known(named, p)]
    if not args.lane:
        return [[Planned(n, plan, SEEDS * args.call + seed, 60 * minutes, args.pace)
                 for plan, seed, minutes in RUNS] for n in known(named, p)]
    found = []
    for text in args.lane:
        name, _, runs = text.partition(":")
        known([name], p)
        try:
            found.append([Planned(name, plan, int(seed), 60 * float(minutes),
                                  plans.pace_of(plan, usual=args.pace))
                          for plan, seed, minutes in (r.split("/") for r in runs.split(","))])
        except ValueError:
            p.error("--lane %s: runs are PLAN/SEED/MINUTES" % text)
    return found


def known(names, p):
    for n in names:
        if n not in WORKLOADS:
            p.error("there is no workload '%s'" % n)
    return names


class Log:
    def __init__(self, path):
        self.began, self.path = time.monotonic(), path

    def __call__(self, text):
        line = "%6.1f s  %s" % (time.monotonic() - self.began, text)
        print(line, flush=True)
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(line + "\n")


# ---- recording ----

def head_of(folder):
    """The row about a run that is whole, else None."""
    try:
        with open(os.path.join(folder, "labels.jsonl"), encoding="utf-8") as f:
            row = json.loads(f.readline())
    except (OSError, ValueError):
        return None
    return row if row.get("complete") and row.get("recording") and os.path.exists(
        os.path.join(folder, row["recording"])) else None


def failures_of(folder):
    try:
        return ["%s: %s" % (r["fault"], r["why"]) for r in
                seconds.lines(os.path.join(folder, "labels.jsonl")) if r["type"] == "failed"]
    except (OSError, ValueError, KeyError):
        return []


class Making:
    """A run that is being made."""

    def __init__(self, run, folder, cpus, gpu, seconds_, limit, args, shared, alone):
        self.run, self.folder, self.limit = run, folder, limit
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        self.log = os.path.join(folder, "run.log")
        self.began, self.told = time.monotonic(), None
        words = [sys.executable, os.path.join(LAB, "run.py"), "--workload", run.workload, "--plan",
                 run.plan, "--seed", str(run.seed), "--eacgm", args.eacgm, "--pace", run.pace,
                 "--minutes", "%.3f" % (seconds_ / 60), "--recorded", "--cpus",
                 ",".join(map(str, cpus)), "--gpu", str(gpu), "--out", folder]
        for name, value in (("python", args.python), ("helpers", args.helpers),
                            ("record-options", record_options(args, run))):
            if value:
                words += ["--%s=%s" % (name, value)]
        words += ["--gpu-shared"] * shared + ["--beside-others"] * (not alone)
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=lambda: die_with_parent(signal.SIGTERM))

    def over(self):
        """Tells it to end where it is late."""
        now = time.monotonic()
        if self.process.poll() is not None:
            return True
        if now > self.limit and not self.told:
            self.told = now
            self.process.terminate()
        elif self.told and now > self.told + ENDS_S:
            self.process.kill()  # its guard ends what it started
        return False

    def start_s(self):
        row = head_of(self.folder)
        return row["start_ns"] / 1e9 - self.began if row else None

    def why(self):
        with open(self.log, errors="replace", encoding="utf-8") as f:
            lines = [x.strip() for x in f.read().splitlines() if x.strip()]
        said = [x for x in lines if x.startswith("run.py:")] or lines or ["it said nothing"]
        return "ended with %d%s: %s" % (self.process.returncode, ", beyond its limit" if self.told
                                        else "", said[-1][:400])


def record_options(args, run):
    """In place of the workload's own, or None."""
    model = args.live and run.plan != "clean" and (
        evaluate.model_before(os.path.join(args.work, "models"), run.workload) or
        args.learned and evaluate.model_before(os.path.join(args.learned, "models"), run.workload))
    if not model:
        return args.record_options
    return " ".join((args.record_options or " ".join(WORKLOADS[run.workload].record),
                     "--detect=" + model))


class Lane:
    def __init__(self, runs):
        self.runs, self.now, self.cpus, self.gpu = list(runs), None, [], 0  # the first of its GPUs
        self.workload = WORKLOADS[runs[0].workload]


@contextlib.contextmanager
def quotas():
    """The controller of CPU quotas is on while runs are side by side: each switches off what it
    found off, and would take it from the others."""
    where = cpu_hierarchy()
    path = where[0] + "/cgroup.subtree_control" if where and where[1] == 2 else None
    off = False
    try:
        if path:
            with open(path, encoding="ascii") as f:
                off = "cpu" not in f.read().split()
        if off:
            write(path, "+cpu")
    except OSError:
        off = False
    try:
        yield
    finally:
        if off:
            with contextlib.suppress(OSError):
                write(path, "-cpu")


def write(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


class Cores:
    """Who has which CPUs: for a lane those of its job, and last that of whoever records. Quiet: a
    job's CPUs are of cores that nobody else is on, and recorders share cores of their own."""

    def __init__(self, cpus, quiet):
        self.quiet, self.free, self.recorders = quiet, list(cpus), []
        self.second = dict(zip(cpus[::2], cpus[1::2]))  # of a core

    def has(self, wanted):
        if not self.quiet:
            return len(self.free) > wanted
        return len(self.free) // 2 >= wanted + (not self.recorders)

    def take(self, wanted):
        """All that there are where they are too few."""
        if not self.quiet:
            taken, self.free = self.free[:wanted + 1], self.free[wanted + 1:]
            return taken
        if not self.recorders:
            self.recorders, self.free = self.free[-2:], self.free[:-2]
        taken, self.free = self.free[:2 * wanted:2], self.free[2 * wanted:]
        return taken + [self.recorders.pop(0)]

    def give(self, cpus):
        if not self.quiet:
            self.free = sorted(self.free + cpus)
            return
        self.recorders.append(cpus[-1])
        self.free = [c for cpu in cpus[:-1] for c in (cpu, self.second[cpu])] + self.free


class Recording:
    """All lanes, until `end`."""

    def __init__(self, args, host, say, end):
        self.args, self.host, self.say, self.end = args, host, say, end
        self.folder = os.path.join(args.work, "smoke" if args.smoke else "runs")
        os.makedirs(self.folder, exist_ok=True)
        self.cores = Cores(by_core(os.sched_getaffinity(0)), args.quiet)
        self.waiting, self.running, self.failed = [], [], []
        self.starts = self.known_starts()
        for runs in args.lanes:
            self.add(runs)
        on_gpu = sum(bool(lane.workload.gpus) for lane in self.waiting)
        self.shared = on_gpu > host.gpus and args.gpu_at_once > 1
        self.alone = len(self.waiting) == 1

    def add(self, runs):
        why = self.host.why_not(WORKLOADS[runs[0].workload])
        left = [r for r in runs if not head_of(self.path(r))]
        if why:
            self.fail(runs[0].workload, "cannot run here: %s" % why)
        elif left:
            self.waiting.append(Lane(left))

    def path(self, run):
        return os.path.join(self.folder, "%s-%s-%d" % (run.workload, run.plan, run.seed))

    def fail(self, name, why):
        self.failed.append({"run": name, "why": why})
        self.say("%s %s" % (name, why))

    def known_starts(self):
        try:
            with open(os.path.join(self.args.work, "starts.json"), encoding="utf-8") as f:
                return json.load(f)
        except (OSError, ValueError):
            return {}

    def start_s(self, name):
        if name in self.starts:
            return self.starts[name] * 1.25 + 3
        return START_S.get(name, USUAL_START_S)

    def run(self):
        with quotas():
            while self.waiting or self.running:
                for lane in list(self.waiting):
                    self.begin_lane(lane)
                for lane in list(self.running):
                    self.step(lane)
                time.sleep(POLL_S)
        with open(os.path.join(self.args.work, "starts.json"), "w", encoding="utf-8") as f:
            json.dump(self.starts, f)

    def begin_lane(self, lane):
        """Where there are cores for it, and room on the GPU."""
        wanted = lane.workload.cpus * max(1, lane.workload.world)
        gpu = self.free_gpu(lane.workload.gpus)
        if not self.cores.has(wanted) and self.running or gpu is None:
            if time.monotonic() > self.end:
                self.waiting.remove(lane)
                self.fail(lane.workload.name, "no time was left for it")
            return
        self.waiting.remove(lane)
        self.running.append(lane)
        lane.cpus, lane.gpu = self.cores.take(wanted), gpu

    def free_gpu(self, wanted):
        """The first of so many that follow each other, those with the fewest lanes; None: there is no
        room on them."""
        if not wanted:
            return 0
        lanes = [sum(x.gpu <= gpu < x.gpu + x.workload.gpus for x in self.running)
                 for gpu in range(self.host.gpus)]
        most, first = min((max(lanes[i:i + wanted]), i) for i in range(len(lanes) - wanted + 1))
        return first if most < self.args.gpu_at_once else None

    def step(self, lane):
        if lane.now and lane.now.over():
            self.ended(lane)
        if not lane.now and lane.runs:
            self.begin(lane)
        if not lane.now and not lane.runs:
            self.running.remove(lane)
            self.cores.give(lane.cpus)

    def begin(self, lane):
        run = lane.runs.pop(0)
        name = os.path.basename(self.path(run))
        left = self.end - time.monotonic() - self.start_s(run.workload) - END_S
        length = min(run.seconds, left)
        if length < min(run.seconds, LEAST_S.get(run.plan, 60)):
            self.fail(name, "no time was left for it")
            return
        lane.now = Making(run, self.path(run), lane.cpus, lane.gpu, length, self.end, self.args,
                          self.shared, self.alone)

    def ended(self, lane):
        m, lane.now = lane.now, None
        name = os.path.basename(m.folder)
        start = m.start_s()
        if m.process.returncode or start is None:
            self.fail(name, m.why())
            if start is None and m.run.plan == "clean":
                lane.runs = []  # without it nothing is judged
            return
        self.starts[m.run.workload] = start
        said = lost_of(m.folder)
        self.say("%s: attached after %.0f s, %s, %.0f s in all%s" % (
            name, start, "%.2f M calls in %.0f s, %d lost" % (said[0] / 1e6, said[1], said[2])
            if said else "nothing said", time.monotonic() - m.began,
            "".join("; " + why for why in failures_of(m.folder))))


# ---- judging: tasks in processes of their own ----

class Tasks:
    """functions with arguments, whose results are files; what is not over at the end is ended."""

    def __init__(self, say, count, end):
        self.say, self.count, self.end = say, count, end
        self.waiting, self.running, self.results, self.failed = [], {}, {}, []

    def add(self, rank, name, function, *args, after=None):
        self.waiting.append((rank, name, function, args, after))

    def child(self, pipe, function, args):
        os.setsid()
        try:
            pipe.send((True, function(*args)))
        except Exception as e:  # pylint: disable=broad-except
            told = getattr(e, "stderr", None) or b""
            pipe.send((False, "%s: %s %s" % (type(e).__name__, e, told.decode(errors="replace")
                                             if isinstance(told, bytes) else told)))
        pipe.close()

    def ready(self):
        broken = {f["task"] for f in self.failed}
        self.waiting = [w for w in self.waiting if w[4] not in broken]
        return sorted((w for w in self.waiting if w[4] is None or w[4] in self.results),
                      key=lambda w: w[0])

    def run(self):
        while (self.waiting or self.running) and time.monotonic() < self.end:
            for task in self.ready()[:self.count - len(self.running)]:
                self.waiting.remove(task)
                mine, theirs = multiprocessing.Pipe(duplex=False)
                process = multiprocessing.get_context("fork").Process(
                    target=self.child, args=(theirs, task[2], task[3]))
                process.start()
                theirs.close()
                self.running[mine] = (task[1], process, time.monotonic())
            if not self.running and not self.ready():
                break
            for pipe in multiprocessing.connection.wait(list(self.running), POLL_S):
                self.take(pipe)
        self.stop()

    def take(self, pipe):
        name, process, began = self.running.pop(pipe)
        try:
            ok, value = pipe.recv()
        except EOFError:
            ok, value = False, "its process ended"
        process.join()
        pipe.close()
        if ok:
            self.results[name] = value
        else:
            self.failed.append({"task": name, "why": str(value)[:600]})
            self.say("%s failed after %.0f s: %s" % (name, time.monotonic() - began,
                                                     str(value)[:300]))

    def stop(self):
        for name, process, _ in self.running.values():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except OSError:
                process.kill()
            process.join()
            self.failed.append({"task": name, "why": "the time was over"})
        self.failed += [{"task": w[1], "why": "no time was left for it"} for w in self.waiting]
        if self.running or self.waiting:
            self.say("not judged, the time was over: %s" % ", ".join(
                [n for n, _, _ in self.running.values()] + [w[1] for w in self.waiting]))
        self.running, self.waiting = {}, []


def learn(eacgm, runs, model):
    done = subprocess.run([eacgm, "learn", *[r.path("run.eacgm") for r in runs], "-o", model],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise ValueError("eacgm learn: %s" % done.stderr.decode(errors="replace").strip()[-300:])
    return {"learned_from": [r.name for r in runs], "bytes": os.path.getsize(model)}


def own_changes(run, slow, incidents, changes):
    """Of evaluations and checkpoints that the program makes of its own accord, away from faults:
    whether they were told, as a fault or as a change."""
    second = evaluate.SECOND
    false = [i for i in incidents if not any(slow.get(s) for s in i.seconds())]
    ret = []
    for c in (r for r in run.labels if r["type"] == "change"):
        a, b = c["onset_ns"], c["end_ns"]
        if any(e["onset_ns"] < b + 2 * second and e["released_ns"] > a - 2 * second
               for e in run.episodes):
            continue
        ret.append({"kind": c["kind"], "told": any(a <= i.told <= b + second for i in false),
                    "as_change": any(x < b + second and y > a for o in changes
                                     for x, y in o["spans"])})
    return ret


def keep(path, rows, anomalies, changes):
    with gzip.open(path, "wt", encoding="utf-8") as f:
        json.dump({"anomalies": anomalies, "changes": changes, "rows": rows}, f)


def judge_run(eacgm, run, learned, model, options, kept):
    """The row of evaluate.py; what was told goes into a file. Where nothing was judged nothing was
    told: a model that does not fit costs all episodes."""
    rows, anomalies, changes, why = [], [], [], None
    try:
        rows, anomalies, changes = evaluate.judge(eacgm, run, model, options)
    except subprocess.CalledProcessError as e:
        why = "eacgm detect ended with %d" % e.returncode
    keep(kept, rows, anomalies, changes)
    ret = evaluate.score_run(run, learned, rows, anomalies, changes)
    slow, _ = run.truth(learned)
    ret["own_changes"] = own_changes(run, slow, evaluate.incidents_of(anomalies), changes)
    ret["pace_known"] = pace_share(rows)
    ret["not_judged"] = why
    ret["learned_from"] = [r.name for r in learned]
    return ret


def pace_share(rows):
    """Of the seconds that were judged, those in which a process had a pace."""
    every = {r["start_ns"] // evaluate.SECOND for r in rows if r["layer"] != "step"}
    paced = {r["start_ns"] // evaluate.SECOND for r in rows if r.get("pace")}
    return round(len(paced) / len(every), 3) if every else None


def slow_calls_of(eacgm, run, model, options, folder):
    import slow_calls  # needs numpy
    os.makedirs(folder, exist_ok=True)
    try:
        path = slow_calls.judged(eacgm, model, run.folder, options, folder)
        ret = []
        for fault in EXACT:
            if any(e["fault"] == fault for e in run.episodes):
                ret.append(dict(slow_calls.score(path, run.folder, [fault]), fault=fault))
        return json.loads(json.dumps(ret, default=float))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def asked(rate, least):
    """The key of a row's alarms."""
    return "%g an hour, least effect %g %%" % (rate, least)


def alarms_of(eacgm, run, learned, model, options, kept):
    """How many incidents a clean run has, at each rate; and those with no slow second. What was told
    unless asked otherwise goes into a file."""
    slow, _ = run.truth(learned)
    ret = {"run": run.name, "launches": len(learned), "seconds": len(slow),
           "slow_seconds": sum(map(bool, slow.values())), "rates": {}}
    for rate, least in itertools.product(RATES, LEASTS):
        rows, anomalies, changes = evaluate.judge(eacgm, run, model, [
            *options, "--alarms-per-hour", str(rate), "--least-effect", str(least)])
        if (rate, least) == USUAL:
            keep(kept, rows, anomalies, changes)
        told = [(i, any(slow.get(s) for s in i.seconds())) for i in evaluate.incidents_of(anomalies)]
        ret["rates"][asked(rate, least)] = {
            "alarms": len(told), "not_slow": sum(not was_slow for _, was_slow in told),
            "incidents": [{"told_ns": i.told, "seconds": list(i.seconds()), "layer": i.first["layer"],
                           "slow": was_slow} for i, was_slow in told]}
    return ret


def poisson_interval(k, level=0.95):
    """Of the mean, exact, of k events."""
    def below(mean, n):  # P(X <= n)
        return sum(math.exp(-mean + i * math.log(mean) - math.lgamma(i + 1)) if mean > 0 else
                   float(i == 0) for i in range(n + 1))

    def root(f):
        low, high = 0.0, 10.0 * k + 20
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if f(middle) else (low, middle)
        return low
    tail = (1 - level) / 2
    return [round(root(lambda m: 1 - below(m, k - 1) < tail), 3) if k else 0.0,
            round(root(lambda m: below(m, k) > tail), 3)]


def alarms_table(rows):
    """Over all workloads: alarms an hour by launches that were learned from and rate."""
    ret = []
    for launches in sorted({r["launches"] for r in rows}):
        of = [r for r in rows if r["launches"] == launches]
        hours = sum(r["seconds"] for r in of) / 3600
        for rate, least in itertools.product(RATES, LEASTS):
            for kind in ("alarms", "not_slow"):
                k = sum(r["rates"][asked(rate, least)][kind] for r in of)
                ret.append({"launches": launches, "asked_per_hour": rate, "least_effect": least,
                            "counted": kind,
                            "hours": round(hours, 4), "alarms": k,
                            "per_hour": round(k / hours, 2) if hours else None,
                            "interval_95": [round(x / hours, 2) for x in poisson_interval(k)]
                            if hours else None})
    return ret


def faulty_share(runs):
    """Of their seconds, those in which a fault was on that slowed the job."""
    slow = seconds_ = 0
    for run in runs:
        _, speeds = run.truth()
        seconds_ += len(speeds)
        slow += sum((e["released_ns"] - e["onset_ns"]) / evaluate.SECOND for e in run.effective)
    return round(slow / seconds_, 3) if seconds_ else None


class Judging:
    def __init__(self, args, say, end):
        self.args, self.say = args, say
        self.tasks = Tasks(say, len(os.sched_getaffinity(0)), end)
        self.options = args.options.split()
        self.models = os.path.join(args.work, "models")
        self.kept = os.path.join(args.work, "judged")
        shutil.rmtree(self.kept, ignore_errors=True)
        for folder in (self.models, self.kept):
            os.makedirs(folder, exist_ok=True)
        for name in os.listdir(args.work):
            if name.startswith("events-"):  # of a task that was ended
                shutil.rmtree(os.path.join(args.work, name), ignore_errors=True)
        self.learned, self.faulty = {}, {}
        root = os.path.join(args.work, "runs")
        by = collections.defaultdict(list)
        for name in sorted(os.listdir(root)) if os.path.isdir(root) else ():
            if head_of(os.path.join(root, name)):
                run = evaluate.Run(os.path.join(root, name))
                by[run.workload].append(run)
        self.by = dict(by)

    def add_all(self):
        for workload, runs in self.by.items():
            clean = sorted((r for r in runs if r.plan == "clean"), key=lambda r: r.seed)
            if not clean and not self.add_learned(workload, runs):
                self.say("%s: there is no clean run to learn from" % workload)
            for n in range(1, len(clean) + 1):
                self.add_model(workload, runs, clean, n)
            if len(clean) > 1:
                self.add_without_one(workload, clean)

    def add_learned(self, workload, runs):
        """By an earlier call's model of all its clean runs. Returns whether there is one."""
        if not self.args.learned:
            return False
        root = os.path.join(self.args.learned, "runs")
        learned = [evaluate.Run(os.path.join(root, name)) for name in sorted(os.listdir(root))
                   if name.startswith(workload + "-clean-")]
        name = "%s-%d.model" % (workload, len(learned))
        model = os.path.join(self.args.learned, "models", name)
        if not learned or not os.path.exists(model):
            return False
        self.learned[name] = [r.name for r in learned]
        self.add_judged(runs, learned, model)
        return True

    def add_judged(self, runs, learned, model, after=None):
        for run in runs:
            self.tasks.add(1, "judge " + run.name, judge_run, self.args.eacgm, run, learned, model,
                           self.options, os.path.join(self.kept, run.name + ".json.gz"), after=after)
            if any(e["fault"] in EXACT for e in run.episodes):
                self.tasks.add(2, "calls " + run.name, slow_calls_of, self.args.eacgm, run, model,
                               self.options, os.path.join(self.args.work, "events-" + run.name),
                               after=after)

    def add_model(self, workload, runs, clean, n):
        """Of the first n launches. By that of all of them what is not clean is judged, by that of all
        but the last the last one, and by each of fewer how many alarms the others have."""
        eacgm, learned = self.args.eacgm, clean[:n]
        name = "%s-%d.model" % (workload, n)
        model = os.path.join(self.models, name)
        judged = [r for r in runs if r.plan != "clean"] if n == len(clean) else \
            clean[-1:] if n == len(clean) - 1 else []
        self.learned[name] = [r.name for r in learned]
        self.tasks.add(0 if judged else 3, name, learn, eacgm, learned, model)
        self.add_judged(judged, learned, model, after=name)
        if n == len(clean):
            self.add_contaminated(workload, [r for r in runs if r.plan == "test"], clean)
        if n < len(clean) - 1:
            self.add_alarms(clean[n:], learned, name)

    def add_without_one(self, workload, clean):
        """How many alarms each launch has by a model of all others."""
        for run in clean:
            learned = [r for r in clean if r is not run]
            name = "%s-but-%d.model" % (workload, run.seed)
            if run is clean[-1]:
                name = "%s-%d.model" % (workload, len(learned))  # add_model's
            else:
                self.tasks.add(3, name, learn, self.args.eacgm, learned,
                               os.path.join(self.models, name))
            self.learned[name] = [r.name for r in learned]
            self.add_alarms([run], learned, name)

    def add_alarms(self, runs, learned, name):
        for run in runs:
            self.tasks.add(4, "alarms %d %s" % (len(learned), run.name), alarms_of,
                           self.args.eacgm, run, learned, os.path.join(self.models, name),
                           self.options, os.path.join(self.kept, "%s.%s.json.gz" % (run.name, name)),
                           after=name)

    def add_contaminated(self, workload, tests, clean):
        """Each test run by a model that was learned from the clean runs and the other test runs."""
        for run in tests if len(tests) > 1 else ():
            others = [r for r in tests if r is not run]
            name = "%s-without-%d.model" % (workload, run.seed)
            model = os.path.join(self.models, name)
            self.learned[name] = [r.name for r in clean + others]
            self.faulty[name] = faulty_share(clean + others)
            self.tasks.add(3, name, learn, self.args.eacgm, clean + others, model)
            self.tasks.add(3, "contaminated " + run.name, judge_run, self.args.eacgm, run, clean,
                           model, self.options,
                           os.path.join(self.kept, run.name + ".contaminated.json.gz"), after=name)

    def run(self):
        self.add_all()
        self.say("%d runs of %d workloads, %d tasks" % (
            sum(map(len, self.by.values())), len(self.by), len(self.tasks.waiting)))
        self.tasks.run()
        return self.results()

    def of(self, prefix):
        return [v for k, v in sorted(self.tasks.results.items()) if k.startswith(prefix)]

    def results(self):
        judged = self.of("judge ")
        own = [c for r in judged for c in r["own_changes"]]
        alarms, contaminated = self.of("alarms "), self.of("contaminated ")
        return {
            "models": self.learned, "options": self.args.options,
            "summary": evaluate.summary(judged) if judged else None,
            "summary_by_workload": {w: evaluate.summary([r for r in judged if r["workload"] == w])
                                    for w in sorted({r["workload"] for r in judged})},
            "contaminated": {"faulty_share": self.faulty, "summary": evaluate.summary(
                contaminated) if contaminated else None,
                "summary_clean": evaluate.summary([r for r in judged if r["run"] in {
                    c["run"] for c in contaminated}]) if contaminated else None},
            "own_changes": {kind: {
                "told": evaluate.share(sum(c["told"] for c in own if c["kind"] == kind),
                                       sum(c["kind"] == kind for c in own)),
                "as_change": evaluate.share(sum(c["as_change"] for c in own if c["kind"] == kind),
                                            sum(c["kind"] == kind for c in own))}
                for kind in sorted({c["kind"] for c in own})},
            "pace_known": {r["run"]: r["pace_known"] for r in judged},
            "not_judged": {r["run"]: r["not_judged"] for r in judged if r["not_judged"]},
            "alarms": alarms_table(alarms), "alarms_of_runs": alarms,
            "slow_calls": [row for rows in self.of("calls ") for row in rows],
            "runs": judged, "failed": self.tasks.failed}


# ---- the smoke ----

def smoke_line(folder, eacgm, models):
    """What a clean run that learns from itself says."""
    run = evaluate.Run(folder)
    said, steps = lost_of(folder), seconds.rows_of(folder)
    span = (steps[-1]["end_ns"] - steps[0]["start_ns"]) / 1e9 if len(steps) > 1 else 0
    words = ["%.1f steps/s (%s)" % (len(steps) / span, " ".join(
        "%s %d" % kv for kv in sorted(collections.Counter(r["phase"] for r in steps).items())))
        if span else "no steps"]
    if said:
        words.append("%.0f events/s, %d lost" % (said[0] / max(1, said[1]), said[2]))
    words.append("%.1f MB" % (os.path.getsize(run.path("run.eacgm")) / 1e6))
    try:
        model = os.path.join(models, run.name + ".model")
        learn(eacgm, [run], model)
        rows, anomalies, _ = evaluate.judge(eacgm, run, model, [])
        words.append("pace in %.0f %% of its windows, %d incidents" % (
            100 * (pace_share(rows) or 0), len(evaluate.incidents_of(anomalies))))
    except (ValueError, subprocess.CalledProcessError, OSError) as e:
        words.append("no model: %s" % str(e)[:200])
    return ", ".join(words)


def smoke_faults(folder):
    """What came of each fault."""
    labels = seconds.lines(os.path.join(folder, "labels.jsonl"))
    return "; ".join(
        ["%s %s %s" % (e["fault"], e["intensity"], "%.2f x" % e["slowdown_ratio"]
                       if e.get("slowdown_ratio") else "?") for e in labels
         if e["type"] == "episode"] + ["%s FAILED: %s" % (e["fault"], e["why"][:150])
                                       for e in labels if e["type"] == "failed"])


def smoke(args, say, recording, end):
    tasks = Tasks(say, len(os.sched_getaffinity(0)), end)
    models = os.path.join(args.work, "models")
    os.makedirs(models, exist_ok=True)
    for name in sorted(os.listdir(recording.folder)):
        folder = os.path.join(recording.folder, name)
        if head_of(folder) and "-clean-" in name:
            tasks.add(0, name, smoke_line, folder, args.eacgm, models)
        elif head_of(folder):
            tasks.add(1, name, smoke_faults, folder)
    tasks.run()
    whys = {f["run"]: f["why"] for f in recording.failed}
    whys.update({f["task"]: f["why"] for f in tasks.failed})
    for name, text in sorted(tasks.results.items()):
        say("works   %-24s %s" % (name, text))
    for name, why in sorted(whys.items()):
        say("FAILED  %-24s %s" % (name, why))
    return {"works": tasks.results, "failed": whys}


# ---- the whole ----

def code_hash():
    h = hashlib.sha256()
    for top in (HERE, os.path.abspath(LAB)):
        for folder, names, files in sorted(os.walk(top)):
            names[:] = [n for n in names if n != "__pycache__"]
            for name in sorted(files):
                if name.endswith((".py", ".c")):
                    path = os.path.join(folder, name)
                    h.update(os.path.relpath(path, os.path.dirname(top)).encode() + b"\0")
                    h.update(bytes.fromhex(evaluate.sha256(path)))
    return h.hexdigest()


def packed_files(args, root):
    """(file, name in the archive), what matters most first."""
    runs = os.path.join(args.work, root)
    names = sorted(os.listdir(runs)) if os.path.isdir(runs) else []
    for wanted in (("labels.jsonl", "run.log", "record.log", "packages"), ("job.", "stress."),
                   None, ("steps.",), ("seen.", "calls.")):
        for name in names if wanted else ():
            for file in sorted(os.listdir(os.path.join(runs, name))):
                if file.startswith(wanted):
                    yield os.path.join(runs, name, file), "%s/%s/%s" % (root, name, file)
        for folder in ("judged", "models") if not wanted and root == "runs" else ():
            for file in sorted(os.listdir(os.path.join(args.work, folder))):
                yield os.path.join(args.work, folder, file), "%s/%s" % (folder, file)


def pack(args, say, result, end):
    root = "smoke" if args.smoke else "runs"
    path = os.path.join(args.work, root + ".json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(result, f)
    brief = {k: v for k, v in result.items() if k not in ("runs", "alarms_of_runs")}
    with open(os.path.join(args.out, root + ".json"), "w", encoding="utf-8") as f:
        json.dump(brief, f, indent=1)
    packed = packs.Packs(args.out, 6, int(15.5 * MIB), 58 * MIB, root)
    for file, name in [(path, root + "-all.json"), *packed_files(args, root)]:
        if time.monotonic() > end:
            say("not all is packed, the time was over: from %s on" % name)
            break
        packed.add(file, name)
    packed.close()
    if packed.out:
        say("there is no room for %d files: %s" % (len(packed.out), ", ".join(packed.out[:3])))
    say("packed: %s" % ", ".join("%s %.1f MiB" % (os.path.basename(p), os.path.getsize(p) / MIB)
                                 for p in packed.done))


def tell(say, result):
    s = result["summary"]
    if not s:
        say("nothing was judged")
        return
    say("episodes %s; by effect %s" % (s["episodes"], s["episodes_by_effect"]))
    say("seconds 5:1 %s" % s["seconds_5_to_1"])
    say("layers 5:1 %s" % {k: v["f1"] for k, v in s["layers_5_to_1"].items()})
    say("false incidents %s in %s usual hours; benign told %s" % (
        s["false_incidents"], s["usual_hours"], s["benign_told"]))
    for workload, w in result["summary_by_workload"].items():
        say("  %-14s found %s of %s, false incidents %s, F1 at 5:1 %s" % (
            workload, w["episodes"]["yes"], w["episodes"]["of"], w["false_incidents"],
            w["seconds_5_to_1"]["f1"]))
    for r in result["alarms"]:
        say("alarms in clean runs, %d launches, asked %g/h, least effect %g %%: %d in %.3f h, %s/h %s "
            "(%s)" % (r["launches"], r["asked_per_hour"], r["least_effect"], r["alarms"], r["hours"],
                      r["per_hour"], r["interval_95"], r["counted"]))
    for run, why in result["not_judged"].items():
        say("%s was not judged, all of it counts as not told: %s" % (run, why))
    for r in result["slow_calls"]:
        say("calls %s %s: precision %.3f recall %.3f of %d" % (
            r["run"], r["fault"], r["precision"], r["recall"], r["delayed"]))


def on_term(_number, _frame):
    raise KeyboardInterrupt


def main():
    args = arguments()
    began = time.monotonic()
    signal.signal(signal.SIGTERM, on_term)
    args.work, args.out = os.path.abspath(args.work), os.path.abspath(args.out)
    for folder in (args.work, args.out):
        os.makedirs(folder, exist_ok=True)
    end = began + args.seconds - PACK_S
    say = Log(os.path.join(args.out, "host.log"))
    host = Host(args.python, args.helpers)
    result = {"eacgm_sha256": evaluate.sha256(args.eacgm), "code_sha256": code_hash(),
              "command": sys.argv[1:], "cores": len(os.sched_getaffinity(0)), "gpus": host.gpus,
              "python": host.python, "kernel": os.uname().release}
    say("eacgm %s, code %s, %d cores, %d GPUs, %s" % (
        result["eacgm_sha256"][:16], result["code_sha256"][:16], result["cores"], host.gpus,
        host.python))
    recording = None
    if not args.judge_only:
        judge_s = min(args.judge_seconds, args.seconds / 2)
        recording = Recording(args, host, say, end - judge_s - ENDS_S)
        recording.run()
    if args.smoke:
        result["smoke"] = smoke(args, say, recording, end)
    else:
        result.update(Judging(args, say, end).run())
        result["failed_runs"] = recording.failed if recording else []
        tell(say, result)
    pack(args, say, result, began + args.seconds - 3)
    say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
