#!/usr/bin/env python3
"""run.py - what `eacgm report` advises, held against what it brings: each program of programs/ is
recorded with its problem, and the problem and what the advice recommends run after it without
tracing, several times over. Prints what was predicted and what was saved, whether the line is
right, and whether the repaired program is silent.

    sudo python3 lab/advice/run.py [--gpu] [--only NAME...] [--rounds N] [--seconds N]
                                   [--python PATH] [--json FILE]

Predictions are medians; a saving is the difference of the medians of whole runs, with --gpu of the
loops' seconds that the programs print. On a machine that others use too the recorded run and the
others may meet different loads: "of the run" compares shares. With --seconds it ends in time, and
prints what it has. The files that programs write go to the folder that ADVICE_DISK names."""
import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
COMMAND_SECONDS = 120  # that one may take
ENDS_WITHIN = 10       # of SIGTERM

# program: (kind of advice, what is done about it)
KINDS = {
    "workers": ("load", "num_workers as told"),
    "no_workers": ("load", "num_workers as told"),
    "preprocess": ("making", "one call in place of a loop"),
    "reads": ("reads", "data that stay in memory"),
    "checkpoint": ("checkpoint", "saves as rarely as told"),
    "loop": ("code", "one call in place of a loop"),
    "garbage": ("garbage", "gc.disable()"),
    "ranks": ("ranks", "as much work as the other rank"),
    "imports": ("unused_import", "no such import"),
}
GPU_KINDS = {
    "gpu_trainer": ("launch", "16 texts a batch"),
    "gpu_launch": ("launch", "a CUDA graph"),
    "gpu_sync": ("sync", "values stay on the GPU"),
    "gpu_copies": ("copies", "pinned memory, non_blocking"),
    "gpu_churn": ("churn", "no empty_cache()"),
    "gpu_precision": ("precision", "TF32"),
}


class OutOfTime(Exception):
    """The time for all of it is over."""


class Failed(Exception):
    """A command that did not end well."""


def named_line(name):
    lines = (PROGRAMS / f"{name}.py").read_text().splitlines()
    return next((i for i, line in enumerate(lines, 1) if line.endswith("# named")), None)


def number(remedy):
    found = re.search(r"num_workers=(\d+)|every ([\d,]+) steps", remedy)
    return next(g for g in found.groups() if g).replace(",", "") if found else "0"


def end(p):
    """Ends a group of processes that was started here; the recorder lets go of the traced first."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, sig)
        with contextlib.suppress(subprocess.TimeoutExpired):
            p.communicate(timeout=ENDS_WITHIN)
            return


class Runner:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.kinds = GPU_KINDS if args.gpu else KINDS
        self.began = time.monotonic()
        self.ends = self.began + args.seconds - ENDS_WITHIN if args.seconds else None

    def run(self, command):
        """What it printed. Nothing is begun that has no time left."""
        left = COMMAND_SECONDS if self.ends is None else self.ends - time.monotonic()
        if left <= 0:
            raise OutOfTime
        p = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             start_new_session=True, errors="replace")
        try:
            out, err = p.communicate(timeout=min(left, COMMAND_SECONDS))
        except subprocess.TimeoutExpired:
            end(p)
            if left < COMMAND_SECONDS:
                raise OutOfTime from None
            raise Failed(f"{command} did not end in {COMMAND_SECONDS} s") from None
        except BaseException:
            end(p)
            raise
        if p.returncode:
            raise Failed(f"{command} ended with {p.returncode}: {err.strip()[-1000:]}")
        return out

    def command(self, name, *words):
        return [self.args.python, str(PROGRAMS / f"{name}.py"), *words]

    def loop(self, out):
        """The loop's seconds, by the program itself; None where it does not say."""
        found = re.search(r"^loop ([\d.]+) s$", out, re.M)
        if self.args.gpu and not found:
            raise Failed(f"no line about its loop in {out[-400:]!r}")
        return float(found.group(1)) if found else None

    def advice(self, name, *words):
        """All advice on a program that is recorded, by kind; and how long it ran, without the time
        for which it was stopped to be traced."""
        file = pathlib.Path(self.folder, f"{name}.eacgm")
        timeline = ["--gpu-timeline"] if self.args.gpu else []
        out = self.run([self.args.eacgm, "record", *timeline, "-o", file, "--",
                        *self.command(name, *words)])
        report = json.loads(self.run([self.args.eacgm, "report", "--json", file]))
        self.keep(file, name, words[0])
        account = report.get("account")
        if not account:
            raise Failed(f"the recording of {name} has no account: {report.get('notes')}")
        ran_ns = account["main"]["wall_ns"] - account["main"]["owners"].get("held", 0)
        return {a["kind"]: a for a in account["advice"]}, self.loop(out) or ran_ns / 1e9

    def keep(self, file, name, which):
        """The text of the report, as a user sees it."""
        if self.args.reports:
            folder = pathlib.Path(self.args.reports)
            folder.mkdir(parents=True, exist_ok=True)
            text = self.run([self.args.eacgm, "report", "--top", "10", file])
            (folder / f"{name}.{which}.txt").write_text(text)
        file.unlink()

    def seconds(self, name, *words):
        began = time.monotonic()
        out = self.run(self.command(name, *words))
        return self.loop(out) or time.monotonic() - began

    def round(self, r):
        """One more of a program; r is what is known of it."""
        name = r["name"]
        advice, ran = self.advice(name, "problem")
        told = advice.get(r["kind"])
        r["all"] = {kind: a["saving_ns"] / 1e9 for kind, a in advice.items()}
        r["fires"] = bool(told) and r.get("fires", True)
        if not told:
            return
        line, place = named_line(name), told["place"]
        r["remedy"] = told["remedy"]
        r["repaired"] = ["repaired", number(told["remedy"])]
        r["line_is_right"] = None if line is None else bool(place and place["line"] == line)
        was, then = (self.seconds(name, *words) for words in (["problem"], r["repaired"]))
        r["runs"].append((told["saving_ns"] / 1e9, ran, was, then))

    def silent(self, r):
        if r["runs"]:
            r["silent"] = r["kind"] not in self.advice(r["name"], *r["repaired"])[0]

    def measure(self, results):
        """Round by round, so that all programs have something when time is over."""
        todo = [self.round] * self.args.rounds
        todo.insert(1, self.silent)
        for step in todo:
            for r in results:
                try:
                    step(r)
                except Failed as e:
                    r["failed"] = str(e)
                print(f"{time.monotonic() - self.began:5.0f} s: {r['name']}, {step.__name__}",
                      file=sys.stderr, flush=True)


def sums(r):
    """Medians of what has been run."""
    if not r["runs"]:
        return
    predicted, ran, was, then = (statistics.median(column) for column in zip(*r["runs"]))
    r.update(predicted_s=predicted, recorded_s=ran, was_s=was, then_s=then, saved_s=was - then)


def say(r):
    if r.get("failed"):
        print(f"{r['name']:13} {r['kind']:13} FAILED: {r['failed']}", flush=True)
    if not r["runs"]:
        if not r.get("failed"):
            print(f"{r['name']:13} {r['kind']:13} "
                  f"{'not run' if 'fires' not in r else 'does not fire'}; {r['all']}", flush=True)
        return
    ratio = r["predicted_s"] / r["saved_s"] if r["saved_s"] > 0 else float("inf")
    of_run = ratio * r["was_s"] / r["recorded_s"]
    line = {None: "-", True: "right", False: "WRONG"}[r["line_is_right"]]
    silent = {None: "not run", True: "silent", False: "NOT SILENT"}[r["silent"]]
    print(f"{r['name']:13} {r['kind']:13} {'' if r['fires'] else 'NOT ALWAYS, '}"
          f"predicted {r['predicted_s']:5.2f} s of {r['recorded_s']:5.2f}, saved "
          f"{r['saved_s']:5.2f} s of {r['was_s']:5.2f} (x {ratio:.2f}, of the run x {of_run:.2f}), "
          f"{len(r['runs'])} rounds, line {line}, repaired {silent}: {r['done']}: {r['remedy']}",
          flush=True)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    built = [HERE.parents[1] / "eacgm", HERE.parents[1] / "build/eacgm"]  # of the tarball first
    p.add_argument("--eacgm", default=next((e for e in built if e.is_file()), built[1]))
    p.add_argument("--python", default="/usr/bin/python3", help="that has PyTorch")
    p.add_argument("--gpu", action="store_true", help="the programs for a GPU")
    p.add_argument("--only", nargs="*", metavar="NAME")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, help="for all of it")
    p.add_argument("--json", metavar="FILE")
    p.add_argument("--reports", metavar="FOLDER", help="keeps the reports of recorded runs")
    args = p.parse_args()
    known = GPU_KINDS if args.gpu else KINDS
    args.only = args.only or list(known)
    for name in args.only:
        if name not in known:
            p.error(f"there is no {name}; there are {', '.join(known)}")
    return args


def stop(_signal, _frame):
    raise OutOfTime


def main():
    args = arguments()
    os.environ.setdefault("ADVICE_DISK", "/var/tmp")
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with tempfile.TemporaryDirectory(prefix="eacgm-advice-") as folder:
        os.chmod(folder, 0o755)
        runner = Runner(args, folder)
        results = [{"name": name, "kind": runner.kinds[name][0], "done": runner.kinds[name][1],
                    "runs": [], "all": {}, "silent": None} for name in args.only]
        try:
            runner.measure(results)
        except OutOfTime:
            print("out of time: not all was run", flush=True)
    for r in results:
        sums(r)
        say(r)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
