#!/usr/bin/env python3
"""campaign.py - a campaign of the fault laboratory in a bounded time: runs of all workloads that
the host permits, side by side on its GPUs and cores, and data sets of them, packed into few files.
docs/results/faults.md explains.

    campaign.py --dry-run --gpus 4 --minutes 9
    campaign.py --eacgm ./eacgm --minutes 9 --work WORK --out OUT
    campaign.py --eacgm ./eacgm --minutes 9 --work WORK --out OUT --part 2
    campaign.py --eacgm ./eacgm --minutes 4 --work WORK --out OUT --data-only

A run that fails costs a line, and the others go on. At the end of the minutes nothing is left
running, and what is whole is in OUT."""

import argparse
import collections
import json
import os
import shutil
import signal
import sys
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from faults import FAULTS  # noqa: E402
from lab import layout, lanes, packs, plans, schedule  # noqa: E402
from lab.datasets import Datasets  # noqa: E402
from lab.guard import Guard  # noqa: E402
from lab.host import Group, Host  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

GPU = ("ddp_nvlink", "ddp_sockets", "gpt2", "cnn", "features", "generate")
CPU = ("cpu_gpt", "cpu_loader", "cpu_ddp")
POLL_S = 0.1
PACK_S = 15  # of the time, for packing
LATE_S = 50  # runs that are not over so long after their time are ended
MIB = 1 << 20


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--eacgm", metavar="PATH")
    p.add_argument("--out", metavar="DIR", help="for the log and the packed results")
    p.add_argument("--work", metavar="DIR",
                   help="for recordings and data sets; a later part goes on with what is there "
                        "(default: OUT/work)")
    p.add_argument("--minutes", type=float, default=9, help="in all (default: %(default)s)")
    p.add_argument("--data-share", type=float, default=0.15, metavar="SHARE",
                   help="of the minutes, for data sets alone (default: %(default)s)")
    p.add_argument("--part", type=int, default=1, metavar="N",
                   help="the N-th: other seeds, and faults that the parts before had least")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--gpus", type=int, metavar="N", help="to use (default: all; 0: CPU workloads)")
    p.add_argument("--workloads", metavar="NAME,...", help="only these")
    p.add_argument("--beside", metavar="NAME,...", default="",
                   help="workloads without GPUs that run all the time on cores to spare")
    p.add_argument("--runs", metavar="PLAN:SHARE,...",
                   help="of each workload, clean first, in place of clean, dev, test, benign")
    p.add_argument("--least", type=float, default=150, metavar="SECONDS",
                   help="of a workload's time; with less some workloads are left to the next part "
                        "(default: %(default)s)")
    p.add_argument("--pace", choices=list(schedule.PACES), default="dense")
    p.add_argument("--dry-run", action="store_true", help="print the schedule")
    p.add_argument("--data-only", action="store_true", help="finish what an earlier part left")
    p.add_argument("--no-data", action="store_true", help="keep the recordings, make no data sets")
    p.add_argument("--keep", action="store_true", help="keep recordings of which there is data")
    p.add_argument("--files", type=int, default=7, help="archives at most (default: %(default)s)")
    p.add_argument("--file-mib", type=float, default=15.5, help="an archive at most")
    p.add_argument("--total-mib", type=float, default=60, help="all archives together")
    p.add_argument("--python", metavar="PATH", help="that has PyTorch")
    p.add_argument("--helpers", metavar="DIR", help="where libfault_cuda.so is")
    p.add_argument("--record-options", metavar="WORDS", help="in place of the workloads' own")
    args = p.parse_args()
    if not args.dry_run and not (args.eacgm and args.out):
        p.error("--eacgm and --out are needed")
    if args.eacgm and not os.access(args.eacgm, os.X_OK):
        p.error("%s cannot be run" % args.eacgm)
    args.beside = [n for n in args.beside.split(",") if n]
    named = [n for n in (args.workloads or "").split(",") if n]
    unknown = [n for n in named + args.beside if n not in WORKLOADS]
    if unknown:
        p.error("there is no workload '%s'" % unknown[0])
    if any(WORKLOADS[n].gpus or n in named for n in args.beside):
        p.error("--beside takes workloads that need no GPU and are not in --workloads")
    if len(set(args.beside)) < len(args.beside):
        p.error("--beside takes each workload once")
    args.templates = templates_of(args.runs, p)
    if args.part < 1 or not 0 <= args.data_share < 1:
        p.error("--part is at least 1, --data-share at least 0 and below 1")
    return args


def templates_of(text, p):
    """What --runs says, as layout.py wants it."""
    if not text:
        return layout.FIRST, layout.LATER
    found = []
    for word in text.split(","):
        plan, _, share = word.partition(":")
        if plan not in plans.PLANS:
            p.error("there is no plan '%s'" % plan)
        if plan == "apart":
            p.error("--runs: a campaign has one pace; lab/detect/host.py --lane makes runs of apart")
        try:
            number = float(share)
        except ValueError:
            number = 0
        if not 0 < number < float("inf"):
            p.error("--runs: '%s' is no plan with its share" % word)
        found.append((plan, "dev" if plan in ("clean", "dev") else "test", number))
    if found[0][0] != "clean" or len({plan for plan, _, _ in found}) < len(found):
        p.error("--runs: clean comes first, and each plan once")
    return found, found


# ---- the schedule ----

def laid_out(args, host):
    """The layout."""
    if args.dry_run and args.gpus is not None:  # as if they were there, with 16 cores each
        host.gpus, host.cpus = args.gpus, list(range(16 * max(1, args.gpus)))
    gpus = host.gpus if args.gpus is None else min(args.gpus, host.gpus)
    host.alone = gpus <= 1
    names = args.workloads.split(",") if args.workloads else GPU if gpus else CPU
    twice = [n for n in args.beside if n in names]
    if twice:
        sys.exit("campaign.py: '%s' of --beside is one of the workloads without it" % twice[0])
    seconds = args.minutes * 60 * (1 - args.data_share) - PACK_S
    try:
        return layout.layout(host, names, gpus, seconds, args.least, args.part,
                             args.seed, schedule.PACES[args.pace], args.templates, args.beside)
    except ValueError as e:
        sys.exit("campaign.py: %s" % e)


def tell_schedule(args, found, say):
    """Runs with their times, and how many episodes there will be of what."""
    tables = collections.OrderedDict((k, collections.Counter()) for k in (
        "split", "workload", "layer", "fault"))
    for name, why in found.left_out:
        say("%s is left out: %s" % (name, why))
    for number, row in enumerate(found.rows):
        for lane in row:
            at = number * found.block_s
            for run in lane.runs:
                items = plans.planned(run.workload, run.plan, run.seed, run.faults,
                                      schedule.PACES[args.pace], run.seconds - layout.START_S)
                split = plans.split_of(run.plan, run.workload, run.seed)
                say("%4.0f .. %3.0f s  GPU %-4s cores %-14s %-24s %s" % (
                    at, at + run.seconds, ",".join(map(str, lane.gpus)) or "-",
                    lanes.spans(lane.cpus), run.name,
                    "%d: %s" % (len(items), " ".join(i.name for i in items)) if items else
                    "no faults"))
                at += run.seconds
                if run.plan == "clean" and run.seconds < layout.LEAST_CLEAN_S * 0.8:
                    say("  too short for a model: 30 windows are the least")
                for item in items:
                    tables["split"][split] += 1
                    tables["workload"][run.workload.name] += 1
                    tables["fault"][item.name] += 1
                    tables["layer"].update(layout.judged(
                        FAULTS[item.name].layers_in(run.workload), run.workload))
    tell_tables(tables, say)
    say("%d episodes foreseen; runs end after %.0f s, all after %.0f s" % (
        sum(tables["split"].values()), len(found.rows) * found.block_s, args.minutes * 60))


def tell_tables(tables, say):
    for what, counts in tables.items():
        say("by %s: %s" % (what, ", ".join("%s %s" % kv for kv in sorted(counts.items()))))


# ---- running ----

class Log:
    """Lines with the time since the beginning, printed and kept. A full disk does not end a
    campaign, nor does a reader who went away."""

    def __init__(self, folder):
        self.began, self.path = time.monotonic(), os.path.join(folder, "campaign.log")

    def __call__(self, text):
        line = "%6.1f s  %s" % (time.monotonic() - self.began, text)
        try:
            print(line, flush=True)
            with open(self.path, "a") as f:
                f.write(line + "\n")
        except OSError:
            pass


def labels_of(folder):
    try:
        with open(os.path.join(folder, "labels.jsonl")) as f:
            return [json.loads(line) for line in f if line.endswith("\n")]
    except (OSError, ValueError):
        return []


def of_type(rows, kind):
    return [r for r in rows if r.get("type") == kind]


class Campaign:
    def __init__(self, args, host, found, say):
        self.args, self.host, self.found, self.say = args, host, found, say
        self.began = time.monotonic()
        self.deadline = self.began + args.minutes * 60
        work = os.path.abspath(args.work or os.path.join(args.out, "work"))
        self.settings = types.SimpleNamespace(
            work=work, runs=os.path.join(work, "runs"), eacgm=os.path.abspath(args.eacgm),
            pace=args.pace, helpers=host.helpers, python=host.python, keep=args.keep,
            beside_others=not host.alone, record_options=args.record_options)
        os.makedirs(self.settings.runs, exist_ok=True)
        self.data = Datasets(self.settings, host.cpus, say)
        self.rows = [[lanes.Lane(lane, self.settings, self.tell) for lane in row]
                     for row in found.rows]
        self.begun, self.whole = [], True

    # ---- runs ----

    def tell(self, m):
        """A run has ended."""
        rows = labels_of(m.out)
        if m.left_out:
            self.say("%s is left out: %s" % (m.run.name, m.left_out))
            shutil.rmtree(m.out, ignore_errors=True)
            return
        if m.process.returncode:
            self.say("%s failed: %s" % (m.run.name, m.why()))
        if not rows or not of_type(rows, "run"):
            return
        episodes, lost = of_type(rows, "episode"), lanes.lost_of(m.out)
        clean_s = sum(r["end_ns"] - r["onset_ns"] for r in of_type(rows, "clean")) / 1e9
        self.say("%s: %d of %d episodes effective, %.0f s clean, %s; %.0f s%s" % (
            m.run.name, sum(bool(e.get("effective")) for e in episodes), len(episodes), clean_s,
            "%.2f M calls in %.0f s, %d lost" % (lost[0] / 1e6, lost[1], lost[2]) if lost else
            "no recording", time.monotonic() - m.began, "".join(
                "; failed: %s" % r["why"] for r in of_type(rows, "failed"))))

    def run_rows(self):
        """Each row until its time is over."""
        seconds = self.found.block_s * len(self.rows)
        for number, row in enumerate(self.rows):
            now = time.monotonic()
            end = now + (self.began + seconds - now) / (len(self.rows) - number)
            for lane in row:
                lane.end_at = end
            self.begun += row
            while any(lane.busy() for lane in row):
                self.tick()
                if time.monotonic() > end + LATE_S:
                    for lane in row:
                        lane.stop()
                time.sleep(POLL_S)
        while self.tick():  # the last ones write their labels
            time.sleep(POLL_S)

    def tick(self):
        """False: all runs that have begun are over."""
        return any([lane.step() for lane in self.begun])

    def end_runs(self):
        """Whatever is still running is told to end, and then killed."""
        every = [lane for row in self.rows for lane in row]
        end = time.monotonic() + lanes.ENDS_S + 3
        for lane in every:
            lane.stop()
        while any([lane.step() for lane in every]) and time.monotonic() < end:
            time.sleep(POLL_S)

    # ---- data ----

    def make_data(self):
        """Of workloads that have recordings without a full data set, those of earlier parts too: on
        all cores, while there is time. Not beside the lanes: that slows them."""
        for workload in WORKLOADS:
            if any(not os.path.exists(self.data.done(n))
                   for n in self.data.runs_of(workload)):
                self.data.add(workload)
        while self.data.step() and time.monotonic() < self.deadline - PACK_S:
            time.sleep(POLL_S)

    def results(self):
        """(file, name in the archive), what matters most first."""
        runs, work = self.settings.runs, self.settings.work
        names = sorted(n for n in os.listdir(runs) if labels_of(os.path.join(runs, n)))
        for wanted in (("labels.jsonl", "run.log", "record.log"), None, ("steps.", "calls.jsonl"),
                       ("job.", "stress.")):
            for name in names:
                best = self.data.best(name)
                if not wanted and best:
                    yield best[1], "data/%s.npz" % name
                for file in sorted(os.listdir(os.path.join(runs, name))) if wanted else ():
                    if file.startswith(wanted):
                        yield os.path.join(runs, name, file), "runs/%s/%s" % (name, file)
        for folder in ("models", "data"):
            for file in sorted(os.listdir(os.path.join(work, folder))):
                if file.endswith((".model", ".log")):
                    yield os.path.join(work, folder, file), "%s/%s" % (folder, file)

    def pack(self):
        a = self.args
        packed = packs.Packs(a.out, a.files, int(a.file_mib * MIB), int(a.total_mib * MIB))
        try:
            for path, name in self.results():
                packed.add(path, name)
            packed.close()
        except OSError as e:
            self.whole = False
            self.say("not all is packed: %s; the rest is in %s" % (e, self.settings.work))
        if packed.out:
            self.say("there is no room for %d files: %s" % (len(packed.out), ", ".join(
                packed.out[:3])))
        self.say("packed: %s" % (", ".join("%s %.1f MiB" % (os.path.basename(p), os.path.getsize(
            p) / MIB) for p in packed.done) or "nothing"))

    # ---- what came out ----

    def summary(self):
        """Of all parts that are in WORK."""
        tables = collections.OrderedDict((k, collections.Counter()) for k in (
            "split", "workload", "layer", "fault", "not effective, fault"))
        calls = lost = clean_s = 0
        for name in sorted(os.listdir(self.settings.runs)):
            rows = labels_of(os.path.join(self.settings.runs, name))
            for run in of_type(rows, "run"):
                there = self.data.best(name)
                self.say("  %-24s %-5s %s" % (name, run["split"], "data set: " + there[0] if there
                                              else "no data set"))
                clean_s += sum(r["end_ns"] - r["onset_ns"] for r in of_type(rows, "clean")) / 1e9
                said = lanes.lost_of(os.path.join(self.settings.runs, name))
                calls, lost = calls + (said[0] if said else 0), lost + (said[2] if said else 0)
                for e in of_type(rows, "episode"):
                    if not e.get("effective"):
                        tables["not effective, fault"][e["fault"]] += 1
                        continue
                    tables["split"][e["split"]] += 1
                    tables["workload"][run["workload"]] += 1
                    tables["fault"][e["fault"]] += 1
                    tables["layer"].update(layout.judged(e["layers"],
                                                         WORKLOADS[run["workload"]]))
        tell_tables(tables, self.say)
        self.say("%d effective episodes, %.1f M calls, %d lost, %.0f s clean" % (
            sum(tables["split"].values()), calls / 1e6, lost, clean_s))

    def run(self):
        early = False
        self.say("free: %s" % ", ".join("%.1f GB in %s" % (shutil.disk_usage(p).free / 1e9, p)
                                        for p in (self.settings.work, self.args.out)))
        try:
            if not self.args.data_only:
                self.run_rows()
            if not self.args.no_data:
                self.make_data()
        except KeyboardInterrupt:
            early = True
            self.say("ended early")
        for sig in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sig, signal.SIG_IGN)
        self.end_runs()
        self.data.stop()
        self.pack()
        self.summary()
        return 130 if early else 0 if self.whole and self.any_run() else 1

    def any_run(self):
        runs = self.settings.runs
        return any(labels_of(os.path.join(runs, name)) for name in os.listdir(runs))


def keep_cpu_controller(host, guard):
    """Runs would switch it off for each other, each when it ends, where nobody had it on before."""
    if not host.no_cpu_cgroup:
        Group(guard)


def on_term(_sig, _frame):
    raise KeyboardInterrupt


def main():
    args = arguments()
    host = Host(args.python, args.helpers)
    found = laid_out(args, host)
    if args.dry_run:
        tell_schedule(args, found, print)
        return 0
    os.makedirs(args.out, exist_ok=True)
    say = Log(args.out)
    if not host.root or not host.python:
        say("needs root" if not host.root else "there is no Python with PyTorch: say --python")
        return 1
    for why in (host.no_net, host.no_drop, host.no_cpu_cgroup):
        if why:
            say("faults are left out: %s" % why)
    if not args.data_only:
        tell_schedule(args, found, say)
    if not found.rows and not args.data_only:
        return 1
    signal.signal(signal.SIGTERM, on_term)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    guard = Guard()
    try:
        keep_cpu_controller(host, guard)
        return Campaign(args, host, found, say).run()
    finally:
        guard.end()


if __name__ == "__main__":
    sys.exit(main())
