#!/usr/bin/env python3
"""same.py - do two builds of eacgm say the same? usage: same.py OLD NEW FOLDER

Each recording and table (.csv) of the folder is learned from and judged by both programs: by
itself, and by the model that the old one learned of the first that can be learned from. What they
print and write is compared byte by byte, and the differences are told one by one. Exit status 1
where there are any. For changes that are to change nothing; it says nothing of which is right.
Standard library alone; `--jobs MAKE_JOB` first fills the folder with simulated jobs
(build/tests/make_job) and tables."""

import argparse
import csv
import os
import pathlib
import random
import subprocess
import sys
import tempfile

SECONDS = 600
# seed, seconds, then what is slow: from, to, factor
JOBS = {"clean": (1, 100), "slow": (2, 100, 40, 55, 1.6), "other": (8, 200), "little": (9, 10),
        "strong": (9, 150, 110, 125, 3), "faint": (3, 240, 120, 200, 1.15)}


def make_jobs(folder, make_job):
    folder.mkdir(parents=True, exist_ok=True)
    for name, how in JOBS.items():
        subprocess.run([make_job, folder / f"{name}.eacgm", *map(str, how)], check=True,
                       timeout=SECONDS)
    torn = bytearray((folder / "slow.eacgm").read_bytes())
    torn[len(torn) // 2:len(torn) // 2 + 16] = bytes(16)
    (folder / "torn.eacgm").write_bytes(torn)
    rng = random.Random(1)
    with open(folder / "table.csv", "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(("x", "y"))
        for i in range(3000):
            x = rng.gauss(0, 1)
            writer.writerow((x, 10 * x + rng.gauss(0, 1 if i % 500 else 30)))


def commands(path, model):
    """(name, arguments, files that are written), with {} for the folder of these."""
    table = path.suffix == ".csv"
    yield "learn", ["learn", path, "-o", "{}/model", "--json", "--seed", "3"], ["model"]
    yield "learn, text", ["learn", path, "-o", "{}/model"], []
    if table:
        by = ["-m", model[True]] if model[True] else []
    else:
        by = ["-m", model[False]] if model[False] else []
        yield "detect", ["detect", path], []
        yield "detect --json", ["detect", path, "--json", "--rows", "{}/rows", "--events",
                                "{}/events"], ["rows", "events"]
        yield "detect, many alarms", ["detect", path, "--json", "--alarms-per-hour", "500",
                                      "--events", "{}/e.npy"], ["e.npy"]
    if not by:
        return
    yield "detect -m", ["detect", path, *by, "--top", "0"], []
    yield "detect -m --json", ["detect", path, *by, "--json", "--rows", "{}/rows"], ["rows"]
    if not table:
        yield "detect -m --follow", ["detect", path, *by, "--json", "--follow", "--events",
                                     "{}/events"], ["events"]
        yield "export --detect", ["export", path, "--detect", *by, "-o", "{}/trace"], ["trace"]


def said(program, arguments, files):
    """What it printed and wrote. Names of scratch folders are left out."""
    with tempfile.TemporaryDirectory(prefix="eacgm-same-") as folder:
        done = subprocess.run([program, *(str(a).replace("{}", folder) for a in arguments)],
                              capture_output=True, check=False, timeout=SECONDS)
        ret = {"status": str(done.returncode).encode()}
        for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
            ret[name] = text.replace(folder.encode(), b"FOLDER")
        for name in files:
            path = os.path.join(folder, name)
            ret[name] = pathlib.Path(path).read_bytes() if os.path.exists(path) else b"(none)"
    return ret


def first_difference(old, new):
    old, new = old.splitlines(), new.splitlines()
    for i, (a, b) in enumerate(zip(old, new), 1):
        if a != b:
            return f"line {i}: {a[:120]!r} was, {b[:120]!r} is"
    return f"{len(old)} lines were, {len(new)} are"


def learned(program, inputs, folder, table):
    """The path of the model of the first input of its kind that can be learned from."""
    for path in inputs:
        model = folder / ("table.model" if table else "job.model")
        if (path.suffix == ".csv") == table and not subprocess.run(
                [program, "learn", path, "-o", model], capture_output=True, check=False,
                timeout=SECONDS).returncode:
            return model
    return None


def compare(old, new, inputs, scratch):
    model = {table: learned(old, inputs, scratch, table) for table in (False, True)}
    bad = done = 0
    for path in inputs:
        for name, arguments, files in commands(path, model):
            was, now = said(old, arguments, files), said(new, arguments, files)
            done += 1
            for part in was:
                if was[part] != now[part]:
                    bad += 1
                    print(f"{path.name}, {name}, {part}: {first_difference(was[part], now[part])}")
    print(f"{done} commands on {len(inputs)} files, {bad} differences")
    return bad


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("old", help="a program, as build/eacgm")
    p.add_argument("new")
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--jobs", metavar="MAKE_JOB", help="fill the folder first")
    args = p.parse_args()
    if args.jobs:
        make_jobs(args.folder, args.jobs)
    inputs = sorted(q for q in args.folder.iterdir() if q.suffix in (".eacgm", ".csv"))
    if not inputs:
        sys.exit(f"same.py: '{args.folder}' has no recordings")
    with tempfile.TemporaryDirectory(prefix="eacgm-same-") as scratch:
        return bool(compare(os.path.abspath(args.old), os.path.abspath(args.new), inputs,
                            pathlib.Path(scratch)))


if __name__ == "__main__":
    sys.exit(main())
