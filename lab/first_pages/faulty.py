#!/usr/bin/env python3
"""faulty.py - makes public programs slow in a known way and keeps the first 25 lines of what
`eacgm report`, `eacgm diagnose` and `eacgm watch` say: what a new user reads. Says beside them what
was done. On a host without a GPU, with the programs that lab/others/fetch.py fetches and
python3-pyte.

    sudo -E python3 lab/first_pages/faulty.py --out FOLDER [--only NAME...]
    python3 lab/first_pages/faulty.py --page docs/first-pages-faults.md FOLDER

Of each program there are three runs: one that nothing slows, of which `eacgm learn` makes a model,
one that is recorded, and one that is watched, both with the same fault. Runs that FOLDER has are not
made again. A program that is not here is left out, and a line says so."""
import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LINES, WIDTH = 25, 100
MISFIT = "this run is not the job that was learned"
MINUTES = {"clean": "2", "apart": "1.2"}

# of: a workload of lab/faults; seed: of its schedule, whose first episode is the one
Program = collections.namedtuple("Program", "title of fault seed done")
PROGRAMS = {
    "contention": Program("nanoGPT, and others on its CPUs", "nanogpt", "cpu_contention", 646,
                          "processes that compute all the time share the job's CPU"),
    "loader": Program("timm's train.py, and a slow loader", "timm_train", "data_loader", 643,
                      "each sample takes its two loader processes longer"),
    "code": Program("PyTorch's word_language_model, and code that got slower", "lstm_lm",
                    "slow_code", 642, "a function of the job goes another way, which is slower"),
    "reclaim": Program("Hugging Face's Trainer, and a limit of memory", "hf_trainer",
                       "memory_reclaim", 645, "the job reads files in a control group that is full"),
    "gc": Program("PyTorch's mnist, and Python's collector", "mnist", "python_gc", 643,
                  "whole collections of Python's garbage collector, over many objects"),
    "gil": Program("CleanRL's ppo.py, and a thread that holds the interpreter", "ppo", "python_gil",
                   645, "a thread of the job computes in Python, and so holds the interpreter's lock"),
}


def lab(eacgm, out, program, plan, environment=None):
    """A run of the fault laboratory; None, or why there is none."""
    faults = ["--faults", program.fault, "--items", "1"] if plan == "apart" else []
    done = subprocess.run(
        [sys.executable, ROOT / "lab/faults/run.py", "--eacgm", eacgm, "--workload", program.of,
         "--plan", plan, *faults, "--seed", str(program.seed), "--minutes", MINUTES[plan],
         "--recorded", "--out", out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=dict(os.environ, **(environment or {})), check=False)
    if done.returncode:
        shutil.rmtree(out, ignore_errors=True)
    return None if done.returncode == 0 else done.stdout[-600:]


def learn(eacgm, clean, model):
    """None, or why there is no model."""
    done = subprocess.run([eacgm, "learn", clean / "run.eacgm", "-o", model], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return None if done.returncode == 0 else done.stdout[-600:]


def episode(out):
    """The label of the fault that there was."""
    rows = map(json.loads, (out / "labels.jsonl").read_text().splitlines())
    return next((r for r in rows if r["type"] == "episode"), None)


def first(lines):
    return [line.rstrip() for line in lines[:LINES]]


def printed(folder, *words):
    return first(subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, check=False).stdout.splitlines())


def shown(out):
    """What the screen showed when the fault ended; and that the model did not fit, if it said so."""
    end_ns = episode(out)["end_ns"]
    rows = [json.loads(line) for line in (out / "run.eacgm").read_text().splitlines()]
    rows = [row for row in rows if row["time_ns"] <= end_ns]
    misfit = [line for row in rows for line in row["lines"] if line.startswith(MISFIT)]
    return first(rows[-1]["lines"]), misfit[0] if misfit else None


def keep(eacgm, out, name, program):
    """The files of a program, without runs that are there already; why not, or None."""
    clean, recorded, watched = (out / name / part for part in ("clean", "recorded", "watched"))
    model = out / name / "job.model"
    wanted = [(clean, lambda: lab(eacgm, clean, program, "clean")),
              (model, lambda: learn(eacgm, clean, model)),
              (recorded, lambda: lab(eacgm, recorded, program, "apart")),
              (watched, lambda: lab(HERE / "screen.py", watched, program, "apart",
                                    {"EACGM": str(eacgm), "EACGM_MODEL": str(model)}))]
    for path, make in wanted:
        why_not = None if path.exists() else make()
        if why_not:
            return why_not
    if not (episode(recorded) and episode(watched)):
        return "there was no fault"
    fault = episode(recorded)
    screen, misfit = shown(watched)
    (out / f"{name}.json").write_text(json.dumps({
        "name": name, "title": program.title, "done": program.done, "fault": fault,
        "seconds": (fault["end_ns"] - fault["onset_ns"]) / 1e9,
        "report": printed(out / name, eacgm, "report", "recorded/run.eacgm"),
        "diagnose": printed(out / name, eacgm, "diagnose", "recorded/run.eacgm", "-m", "job.model"),
        "watch": screen, "misfit": misfit}))
    return None


def page(path, folder):
    parts = ["# First pages of jobs that were made slow\n\n" + textwrap.fill(
        f"The first {LINES} lines that `report`, `diagnose` and `watch` have for public programs that "
        "were made slow in a known way, and what was done. `watch` shows the end of that time. "
        "`lab/first_pages/faulty.py` makes them, without a GPU.", WIDTH) + "\n"]
    for name in PROGRAMS:
        file = pathlib.Path(folder) / f"{name}.json"
        if not file.exists():
            continue
        r = json.loads(file.read_text())
        slower = r["fault"].get("slowdown_ratio")
        done = f"Done for {r['seconds']:.0f} s: {r['done']}" + \
            (f"; steps took {slower:.1f} times as long" if slower else "") + "."
        parts.append(f"## {r['title']}\n\n" + textwrap.fill(done, WIDTH) + "\n")
        parts += [f"`eacgm {command}`:\n\n```\n" + "\n".join(r[command]).rstrip() + "\n```\n"
                  for command in ("report", "diagnose", "watch")]
        if r["misfit"]:
            parts.append(textwrap.fill(f"It had said before: \"{r['misfit']}\".", WIDTH) + "\n")
    pathlib.Path(path).write_text("\n".join(parts))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--eacgm", default=ROOT / "build/eacgm", type=pathlib.Path)
    p.add_argument("--out", type=pathlib.Path)
    p.add_argument("--only", nargs="*", default=[], choices=list(PROGRAMS))
    p.add_argument("--page")
    p.add_argument("folder", nargs="?")
    args = p.parse_args()
    if args.page and args.folder:
        page(args.page, args.folder)
    elif args.out:
        for name, program in PROGRAMS.items():
            if not args.only or name in args.only:
                why_not = keep(args.eacgm.resolve(), args.out.resolve(), name, program)
                print(f"{name}: {why_not or 'kept'}", flush=True)
    else:
        p.error("--out FOLDER or --page FILE FOLDER")


if __name__ == "__main__":
    main()
