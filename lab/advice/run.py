#!/usr/bin/env python3
"""run.py - what `eacgm report` advises, held against what it brings: each program of programs/ is
recorded with its problem, and the problem and what the advice recommends run after it without
tracing, several times over. Prints what was predicted and what was saved, whether the line is
right, and whether the repaired program is silent.

    sudo python3 lab/advice/run.py [--only NAME...] [--rounds N] [--json FILE]

Predictions are medians; a saving is the difference of the medians of whole runs. On a machine that
others use too the recorded run and the others may meet different loads: "of the run" compares
shares. The files that programs write go to the
folder that ADVICE_DISK names."""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"

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


def named_line(name):
    lines = (PROGRAMS / f"{name}.py").read_text().splitlines()
    return next((i for i, line in enumerate(lines, 1) if line.endswith("# named")), None)


def number(remedy):
    found = re.search(r"num_workers=(\d+)|every ([\d,]+) steps", remedy)
    return next(g for g in found.groups() if g).replace(",", "") if found else "0"


class Runner:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder

    def command(self, name, *words):
        return [self.args.python, str(PROGRAMS / f"{name}.py"), *words]

    def advice(self, name, *words):
        """All advice on a program that is recorded, by kind; and how long it ran, without the time
        for which it was stopped to be traced."""
        file = pathlib.Path(self.folder, f"{name}.eacgm")
        subprocess.run([self.args.eacgm, "record", "-o", file, "--", *self.command(name, *words)],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        report = subprocess.run([self.args.eacgm, "report", "--json", file], capture_output=True,
                                check=True)
        account = json.loads(report.stdout)["account"]
        ran_ns = account["main"]["wall_ns"] - account["main"]["owners"].get("held", 0)
        return {a["kind"]: a for a in account["advice"]}, ran_ns / 1e9

    def seconds(self, name, *words):
        began = time.monotonic()
        subprocess.run(self.command(name, *words), stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - began

    def measure(self, name):
        kind, done = KINDS[name]
        runs = []
        for _ in range(self.args.rounds):
            advice, ran = self.advice(name, "problem")
            told = advice.get(kind)
            if not told:
                return {"name": name, "kind": kind, "fires": False}
            repaired = ["repaired", number(told["remedy"])]
            runs.append((told["saving_ns"] / 1e9, ran, self.seconds(name, "problem"),
                         self.seconds(name, *repaired)))
        predicted, ran, was, then = (statistics.median(column) for column in zip(*runs))
        line, place = named_line(name), told["place"]
        return {"name": name, "kind": kind, "fires": True, "done": done, "remedy": told["remedy"],
                "predicted_s": predicted, "recorded_s": ran, "saved_s": was - then,
                "was_s": was, "then_s": then, "runs": runs,
                "line_is_right": None if line is None else bool(place and place["line"] == line),
                "silent": kind not in self.advice(name, *repaired)[0]}


def say(r):
    if not r["fires"]:
        print(f"{r['name']:12} {r['kind']:14} does not fire", flush=True)
        return
    saved = max(r["saved_s"], 1e-9)
    ratio = r["predicted_s"] / saved
    of_run = r["predicted_s"] / r["recorded_s"] / (saved / r["was_s"])
    line = {None: "-", True: "right", False: "WRONG"}[r["line_is_right"]]
    print(f"{r['name']:12} {r['kind']:14} predicted {r['predicted_s']:5.2f} s of "
          f"{r['recorded_s']:5.2f}, saved {r['saved_s']:5.2f} s of {r['was_s']:5.2f} (x {ratio:.2f}, "
          f"of the run x {of_run:.2f}), line {line}, repaired "
          f"{'silent' if r['silent'] else 'NOT SILENT'}: {r['remedy']}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--eacgm", default=HERE.parents[1] / "build/eacgm")
    p.add_argument("--python", default="/usr/bin/python3")
    p.add_argument("--only", nargs="*", default=list(KINDS))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--json")
    args = p.parse_args()
    os.environ.setdefault("ADVICE_DISK", "/var/tmp")
    results = []
    with tempfile.TemporaryDirectory(prefix="eacgm-advice-") as folder:
        os.chmod(folder, 0o755)
        for name in args.only:
            results.append(Runner(args, folder).measure(name))
            say(results[-1])
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
