"""session.py - one run: starts the workload, records it, switches faults on and off as the schedule
says, writes the labels, and ends all that it started.

Every process leads a session of its own and is known to the guard, which ends it also where the
runner cannot."""

import copy
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

from faults import FAULTS

from . import effect, netns, schedule
from .control import Writer
from .guard import Guard
from .host import LAB, Group

READY_S, ATTACH_S, SAVED_S, ENDS_S, RECORD_ENDS_S = 180, 90, 30, 10, 120
CLOSING_S = 4  # of a run's time, for ending it
RECORDING = "run.eacgm"
PORT = 29511
PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """A run that cannot go on, with the reason."""


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def descendants(pids):
    """These processes and all below them that there are."""
    found = list(pids)
    for pid in found:
        try:
            for tid in os.listdir("/proc/%d/task" % pid):
                with open("/proc/%d/task/%s/children" % (pid, tid)) as f:
                    found += [int(p) for p in f.read().split()]
        except OSError:
            pass
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


class Labels:
    """Appended as things happen; written anew at the end."""

    def __init__(self, folder):
        self.path, self.rows = os.path.join(folder, "labels.jsonl"), []
        with open(self.path, "w"):
            pass

    def add(self, row):
        self.rows.append(row)
        with open(self.path, "a") as f:
            f.write(json.dumps(row) + "\n")

    def rewrite(self, rows):
        with open(self.path + ".part", "w") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows)
        os.replace(self.path + ".part", self.path)


class Run:
    """settings: eacgm (None: nothing is recorded), workload, plan, split, seed, seconds, out, faults
    (names), benign, pace, record_options, gpu, say (a function for progress)."""

    def __init__(self, host, settings):
        self.host, self.s, self.workload = host, settings, settings.workload
        self.world = self.workload.world
        self.cpus = host.job_cpus(self.workload)
        self.other_cpus = host.other_cpus(self.workload) or host.cpus
        self.gpus = list(range(settings.gpu, settings.gpu + self.workload.gpus))
        self.guard = self.group = self.link = self.control = self.recorder = None
        self.ranks, self.processes = [], []
        self.culprit = None
        self.cpu_used = float(len(self.cpus))
        self.episodes, self.benign, self.failed = [], [], []
        self.pids, self.start_ns, self.end_ns = [], None, None
        self.warm_ns = None
        self.complete = False
        self.pending = None
        self.in_progress = None

    # ---- what faults use ----

    @staticmethod
    def cpu_words(cpus):
        return ",".join(str(c) for c in cpus)

    def stress(self, arguments, space=None):
        # only what runs on the GPU needs PyTorch; the runner's Python starts sooner
        python = self.host.python if arguments[0] in ("copy", "matmul") else sys.executable
        p = self.start([python, os.path.join(LAB, "stress.py"), *arguments], space=space,
                       cpus=self.host.cpus, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                       stderr=open(self.file("stress.log"), "a"), text=True)
        return Stress(p)

    def end_process(self, process, sig=signal.SIGKILL, seconds=ENDS_S):
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

    # ---- processes ----

    def file(self, name):
        return os.path.join(self.s.out, name)

    def start(self, args, space=None, cpus=None, grouped=False, kind="process",
              death=signal.SIGKILL, **kw):
        libc, group = ctypes.CDLL(None), self.group if grouped else None

        def before():
            libc.prctl(PR_SET_PDEATHSIG, death, 0, 0, 0)
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
        self.processes.append(p)
        return p

    def start_job(self):
        w = self.workload
        if w.rate_bits:
            self.link = netns.Link(w.rate_bits)
        if not self.host.no_cpu_cgroup:
            self.group = Group(self.guard)
        self.control = Writer(self.s.out)
        self.control.set(helpers=self.host.helpers, warming=True)
        for rank in range(self.world):
            env = dict(os.environ, PYTHONUNBUFFERED="1", OMP_NUM_THREADS="1", **(w.env or {}))
            args = [self.host.python, os.path.join(LAB, "workloads", w.script), "--dir",
                    self.s.out, "--seed", self.s.seed, "--rank", rank, *w.arguments]
            if self.world > 1:
                master = self.link.addresses[0] if self.link else "127.0.0.1"
                port = PORT + self.s.gpu
                args += ["--world", self.world, "--master", "%s:%d" % (master, port)]
                env.update(RANK=str(rank), WORLD_SIZE=str(self.world), LOCAL_RANK=str(rank))
                if self.link:
                    env.update(NCCL_SOCKET_IFNAME=netns.Link.NAME,
                               GLOO_SOCKET_IFNAME=netns.Link.NAME)
            if w.gpus:
                env["CUDA_VISIBLE_DEVICES"] = ",".join(str(g) for g in self.gpus)
            with open(self.file("job.%d.log" % rank), "w") as log:
                self.ranks.append(self.start(
                    args, space=self.link.spaces[rank] if self.link else None, cpus=self.cpus,
                    grouped=True, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        self.await_job(lambda: all(os.path.exists(self.file("ready.%d" % r))
                                   for r in range(self.world)), READY_S, "to be ready")

    def await_job(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while not condition():
            self.check_job()
            if time.monotonic() > end:
                raise Failed("waited for the job %s" % what)
            time.sleep(0.02)

    def check_job(self):
        for rank, p in enumerate(self.ranks):
            if p.poll() is not None:
                with open(self.file("job.%d.log" % rank), errors="replace") as f:
                    last = (f.read().strip().splitlines() or ["no output"])[-1]
                raise Failed("%s, rank %d, ended with %d: %s" % (
                    self.workload.name, rank, p.returncode, last[:300]))

    def job_pids(self):
        return descendants([p.pid for p in self.ranks])

    def start_recorder(self):
        if not self.s.eacgm:
            return
        pids = ",".join(str(p.pid) for p in self.ranks)
        own = [c for c in self.host.cpus if c not in self.cpus] or self.host.cpus
        with open(self.file("record.log"), "w") as log:
            self.recorder = self.start(
                [self.s.eacgm, "record", "-o", self.file(RECORDING), *self.s.record_options, "-p",
                 pids], cpus=own, kind="recorder", death=signal.SIGINT, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)
        self.await_job(self.attached, ATTACH_S, "to be attached to")

    def attached(self):
        with open(self.file("record.log"), errors="replace") as f:
            text = f.read()
        if self.recorder.poll() is not None:
            raise Failed("eacgm ended with %d: %s" % (self.recorder.returncode,
                                                      text.strip()[-300:]))
        return "eacgm: attached to " in text

    # ---- time goes by ----

    def wait(self, seconds):
        """Sleeps, and notices when the job or the recorder ends."""
        end = time.monotonic() + seconds
        while True:
            self.check_job()
            if self.recorder and self.recorder.poll() is not None:
                raise Failed("eacgm ended in the middle of the run: see record.log")
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(0.1, left))

    def run_schedule(self, deadline):
        pace = self.s.pace
        self.wait(pace.warmup)
        self.control.set(warming=None)
        self.warm_ns = now_ns()
        self.add_benign("warmup", self.start_ns, self.warm_ns)
        if not self.s.faults and not self.s.benign:
            self.wait(max(0, deadline - time.monotonic()))
            return
        items = schedule.items(self.s.seed, self.workload.name, self.s.split, self.s.faults,
                               self.s.benign, pace)
        item = next(items)
        fault = self.prepared(item)
        while True:
            if time.monotonic() + item.gap_s + item.length_s > deadline:
                self.drop(fault)
                self.wait(max(0, deadline - time.monotonic()))
                return
            mark = now_ns(), cpu_seconds(self.job_pids())
            self.wait(item.gap_s)
            now, used = now_ns(), cpu_seconds(self.job_pids())
            self.cpu_used = max(0.05, (used - mark[1]) / ((now - mark[0]) / 1e9))
            following = next(items)
            if fault:
                self.pending = fault, item
                follow = self.episode(item, fault, following)
            else:
                self.change(item)
                follow = self.prepared(following)
            item, fault = following, follow

    def prepared(self, item):
        """The fault of an item, ready to begin; None where it is benign."""
        if item.kind != "fault":
            return None
        fault = copy.copy(FAULTS[item.name])
        self.pending = fault, item
        fault.prepare(self, fault.value_of(item.intensity))
        return fault

    def drop(self, fault):
        if fault and not fault.inside:
            fault.end(self)
        self.pending = None

    def episode(self, item, fault, following):
        chance = random.Random("%s/%d" % (self.s.seed, len(self.episodes)))
        value = fault.value_of(item.intensity)
        self.culprit = rank = fault.rank(self, chance)
        target = {"pids": self.job_pids(), "rank": rank, "gpu": None, "cgroup": None, "cpus": None}
        if rank is not None:
            target["culprit_pid"] = self.ranks[rank].pid
        target.update(fault.target(self))
        e = {"type": "episode", "id": len(self.episodes) + 1, "fault": fault.name,
             "cause": fault.cause, "onset_ns": now_ns(), "intensity": item.intensity,
             "value": round(value, 6), "unit": fault.unit, "layers": list(fault.layers),
             "confusable": list(fault.confusable), "target": target, "injector_pids": [],
             "seed": self.s.seed, "split": self.s.split,
             "calls": "calls.jsonl" if fault.exact_calls else None}
        self.in_progress = fault, e
        if fault.inside:
            e["sequence"] = self.control.set(faults={fault.name: {
                "value": value, "rank": rank, "episode": e["id"]}})
        else:
            fault.begin(self, value)
            e["applied_ns"] = now_ns()
            e["injector_pids"] = fault.injectors()
        self.say("%s %s" % (fault.name, item.intensity))
        follow = self.prepared(following)
        self.wait(max(0, item.length_s - (now_ns() - e["onset_ns"]) / 1e9))
        self.end_episode()
        return follow

    def end_episode(self):
        fault, e = self.in_progress
        self.in_progress = None
        e["end_ns"] = now_ns()
        if fault.inside:
            e["release_sequence"] = self.control.set(faults={})
        else:
            fault.end(self)
        e["released_ns"] = now_ns()
        e.setdefault("applied_ns", e["onset_ns"])
        self.episodes.append(e)
        self.labels.add(e)

    def add_benign(self, kind, onset_ns, end_ns):
        row = {"type": "benign", "kind": kind, "onset_ns": onset_ns, "end_ns": end_ns,
               "seed": self.s.seed, "split": self.s.split}
        self.benign.append(row)
        self.labels.add(row)

    def change(self, item):
        began = now_ns()
        self.say("benign: %s" % item.name)
        if item.name == "checkpoint":
            saves = self.control.state.get("saves", 0) + 1
            self.control.set(saves=saves)
            self.await_job(lambda: os.path.exists(self.file("saved.%d" % saves)), SAVED_S,
                           "to save its model")
            self.wait(0.5)
        else:
            on, off = {"evaluation": ({"phase": "eval"}, {"phase": None}),
                       "batch_size": ({"half": True}, {"half": None})}[item.name]
            self.control.set(**on)
            self.wait(item.length_s)
            self.control.set(**off)
        self.add_benign(item.name, began, now_ns())

    def say(self, text):
        self.s.say("%6.1f s  %s" % ((now_ns() - self.start_ns) / 1e9, text))

    # ---- the whole ----

    def run(self):
        """Returns the labels' rows. All that was started has ended then."""
        os.makedirs(self.s.out, exist_ok=True)
        for name in os.listdir(self.s.out):
            if name.split(".")[0] in ("ready", "steps", "calls", "seen", "labels", "saved"):
                os.unlink(self.file(name))
        deadline = time.monotonic() + self.s.seconds - CLOSING_S
        self.labels = Labels(self.s.out)
        self.guard = Guard()
        try:
            self.start_job()
            self.start_recorder()
            self.pids, self.start_ns = self.job_pids(), now_ns()
            self.labels.add(self.run_row())
            self.control.set(go=True)
            self.run_schedule(deadline)
            self.complete = True
        finally:
            self.close()
            rows = self.finish() if self.start_ns else []
        return rows

    def close(self):
        """Ends in the order of dependence; what fails is left to the guard."""
        try:
            if self.in_progress:
                self.end_episode()
            elif self.pending:
                self.drop(self.pending[0])
        except (OSError, Failed, ValueError):
            pass
        self.end_ns = now_ns()
        if self.recorder:
            self.end_process(self.recorder, signal.SIGINT, RECORD_ENDS_S)
        if self.control:
            self.control.set(stop=True, go=True, faults={})
            end = time.monotonic() + ENDS_S
            while any(p.poll() is None for p in self.ranks) and time.monotonic() < end:
                time.sleep(0.02)
        for p in self.processes:
            self.end_process(p)
        self.guard.end()
        if self.link:
            self.link.close()
        if self.control:
            self.control.close()

    def run_row(self):
        return {"type": "run", "version": 1, "workload": self.workload.name, "plan": self.s.plan,
                "split": self.s.split, "seed": self.s.seed,
                "recording": RECORDING if self.s.eacgm else None,
                "record_options": list(self.s.record_options), "start_ns": self.start_ns,
                "end_ns": self.end_ns, "pids": self.pids,
                "ranks": {str(r): p.pid for r, p in enumerate(self.ranks)}, "gpus": self.gpus,
                "cpus": self.cpus, "cgroup": self.group.path if self.group else None,
                "complete": self.complete}

    def finish(self):
        """The labels as they are kept."""
        self.take_acknowledgements()
        ranks = self.world
        clean = effect.fill_in(self.episodes, self.benign, self.s.out, ranks, self.warm_ns or self.start_ns,
                               self.end_ns)
        self.merge_calls()
        rows = [self.run_row()] + self.benign + self.episodes + self.failed
        rows += [{"type": "clean", "onset_ns": a, "end_ns": b} for a, b in clean]
        rows[1:] = sorted(rows[1:], key=lambda r: r["onset_ns"])
        self.labels.rewrite(rows)
        return rows

    def take_acknowledgements(self):
        """When the job's steps saw the switches; a fault that could not be switched on is no
        episode."""
        told = effect.read_rows(self.s.out, "seen", self.world)
        kept = []
        for e in self.episodes:
            on, off = e.pop("sequence", None), e.pop("release_sequence", None)
            rank = e["target"]["rank"]
            rows = [told[rank]] if rank is not None else list(told.values())
            failed = [r["failed"] for rank_rows in rows for r in rank_rows
                      if r["sequence"] == on and r.get("failed")]
            if failed:
                self.failed.append(dict(e, type="failed", why=failed[0]))
                continue
            e["applied_ns"] = max([e["applied_ns"]] + self.first_seen(rows, on))
            e["released_ns"] = max([e["released_ns"]] + self.first_seen(rows, off))
            kept.append(e)
        self.episodes = kept

    @staticmethod
    def first_seen(rows, sequence):
        """When each rank saw that state of the page, or a later one."""
        if sequence is None:
            return []
        seen = [[r["ns"] for r in rank_rows if r["sequence"] >= sequence] for rank_rows in rows]
        return [min(ns) for ns in seen if ns]

    def merge_calls(self):
        rows = effect.read_rows(self.s.out, "calls", self.world)
        with open(self.file("calls.jsonl"), "w") as f:
            for r in sorted((r for rank in rows.values() for r in rank),
                            key=lambda r: r["start_ns"]):
                f.write(json.dumps(r) + "\n")
