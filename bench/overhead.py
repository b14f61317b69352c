#!/usr/bin/env python3
"""overhead.py - what tracing costs a training script, in interleaved pairs.

A pair is the script untraced and the script traced, one right after the other, the order
changing from pair to pair; the figure of a pair is the ratio of the two step times. All
configurations take turns, so that a slow minute of the machine meets all of them. cProfile
and torch.profiler run beside in the same way. The script tells its step time by a line with
`step_ms NUMBER` (the last such line counts); other scripts than bench/train.py are put under
it with --script and their arguments after `--`.

Then a running job is attached to for some seconds, several times, and its steps before,
during and after are compared. Needs root."""

import argparse
import os
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time

import common
from common import Failed

TRAIN = os.path.join(common.BENCH, "train.py")
PROFILER = os.path.join(common.BENCH, "with_torch_profiler.py")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"
NUMBERS = re.compile(r"\b(step_(?:p99_|mean_)?ms|steps)\s+" + NUMBER)
WINDOW = re.compile(r"\bmeasured_ns\s+(\d+)\s+(\d+)")
WARM_SECONDS = 120  # until a job has imported and warmed up


class Config:
    """One way to run the script. by: what to compare; bursts are rare, so that the median of
    steps does not see them and the mean does."""

    def __init__(self, name, eacgm=None, wrap=None, long=False, by="step_ms"):
        self.name, self.eacgm, self.wrap, self.long, self.by = name, eacgm, wrap, long, by


def configs():
    return [
        Config("default layers", eacgm=[]),
        Config("torch", eacgm=["--layers", "torch"]),
        Config("python", eacgm=["--layers", "python"]),
        Config("stats", eacgm=["--mode", "stats"]),
        Config("tail", eacgm=["--mode", "tail"]),
        Config("burst 1/20:200", eacgm=["--burst", "1/20:200"], long=True, by="step_mean_ms"),
        Config("cProfile", wrap=["-m", "cProfile", "-o", "/dev/null"]),
        Config("torch.profiler", wrap=[PROFILER]),
    ]


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    names = [c.name for c in configs()]
    p.add_argument("--pairs", type=int, default=10)
    p.add_argument("--only", action="append", choices=names, metavar="CONFIG",
                   help="only this configuration, may be repeated: %s" % ", ".join(names))
    p.add_argument("--python", default="/usr/bin/python3", help="default: %(default)s")
    p.add_argument("--script", default=TRAIN, help="what to run (default: %(default)s)")
    p.add_argument("--steps", type=int, default=500, help="of train.py (default: %(default)s)")
    p.add_argument("--burst-steps", type=int, default=4000,
                   help="of train.py where bursts are measured (default: %(default)s)")
    p.add_argument("--cycles", type=int, default=5,
                   help="how often the running job is attached to (default: %(default)s)")
    p.add_argument("--seconds", type=int, default=3, help="and for how long (default: %(default)s)")
    p.add_argument("--limit", type=int, default=900, help="seconds that one run may take")
    p.add_argument("args", nargs="*", metavar="ARG", help="arguments of the script")
    args = p.parse_args()
    args.eacgm = os.path.join(args.build, "eacgm")
    if args.pairs < 1 or args.cycles < 0 or args.seconds < 1:
        p.error("--pairs and --seconds are at least 1")
    return args


# ---- one run ----

def step_times(out, what):
    """The values on the last line that has a step_ms."""
    lines = [line for line in out.splitlines() if re.search(r"\bstep_ms\s+[0-9]", line)]
    if not lines:
        raise Failed("%s printed no line with `step_ms NUMBER`: %s" % (what, out[-400:]))
    values = {name: float(number) for name, number in NUMBERS.findall(lines[-1])}
    window = WINDOW.search(lines[-1])
    if window:
        values["window"] = int(window.group(1)), int(window.group(2))
    return values


def script_args(args, config):
    own = list(args.args)
    if args.script == TRAIN:
        own = ["--steps", args.burst_steps if config.long else args.steps] + own
    return [args.script] + own


def untraced(args, config):
    cmd = [args.python] + script_args(args, config)
    return step_times(common.run(cmd, args.limit, ONE_THREAD).out, "the script")


def traced(args, config, recording):
    job = [args.python] + (config.wrap or []) + script_args(args, config)
    if config.eacgm is not None:
        job = [args.eacgm, "record", "-o", recording, *config.eacgm, "--", *job]
    ran = common.run(job, args.limit, ONE_THREAD)
    return dict(step_times(ran.out, config.name), wall_s=ran.wall_s)


def events_between(eacgm, path, window):
    """How many recorded calls began in that time."""
    p = subprocess.Popen([eacgm, "export", path, "-f", "csv", "-o", "-"], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         start_new_session=True)
    count = 0
    try:
        for line in p.stdout:
            if line.startswith("call,"):
                count += window[0] <= int(line[5:line.index(",", 5)]) < window[1]
    finally:
        p.stdout.close()
        common.end_group(p)
    return count


# ---- pairs ----

class Measured:
    """What is known of one configuration so far."""

    def __init__(self, config):
        self.config, self.pairs, self.recordings = config, [], []
        self.events_per_step = None

    def add(self, args, i, recording):
        def with_it():
            return traced(args, self.config, recording)

        def without():
            return untraced(args, self.config)

        if i % 2:
            new, old = with_it(), without()
        else:
            old, new = without(), with_it()
        self.pairs.append((old, new))
        if self.config.eacgm is not None:
            self.recordings.append(dict(common.summary_of(args.eacgm, recording),
                                        wall_s=new["wall_s"]))
            if i + 1 == args.pairs and "window" in new and new.get("steps"):
                self.events_per_step = events_between(
                    args.eacgm, recording, new["window"]) / new["steps"]
            os.unlink(recording)

    def ratios(self, key):
        return [new[key] / old[key] for old, new in self.pairs if old.get(key) and new.get(key)]

    def result(self):
        c = self.config
        by = c.by if self.ratios(c.by) else "step_ms"
        row = {"config": c.name, "by": by, "ratio": common.interval(self.ratios(by)),
               "untraced_ms": statistics.median(old[by] for old, _ in self.pairs),
               "traced_ms": statistics.median(new[by] for _, new in self.pairs),
               "pairs": [{"untraced_ms": o[by], "traced_ms": n[by]} for o, n in self.pairs]}
        if self.ratios("step_p99_ms"):
            row["p99_ratio"] = common.interval(self.ratios("step_p99_ms"))
        if self.recordings:
            self._add_recordings(row)
        return row

    def _add_recordings(self, row):
        r = self.recordings
        row.update({
            "events_per_step": self.events_per_step,
            "events": statistics.median(x["events"] for x in r),
            "lost": sum(x["lost"] for x in r), "incomplete": sum(x["incomplete"] for x in r),
            "lost_by_cause": common.add_up(x["lost_by_cause"] for x in r),
            "collector_cpu_s": statistics.median(x["collector_cpu_s"] for x in r),
            "collector_cpu_ratio": statistics.median(
                x["collector_cpu_s"] / x["wall_s"] for x in r),
            "bytes_per_event": statistics.median(
                [x["bytes_per_event"] for x in r if x["bytes_per_event"]] or [0]) or None})
        if self.events_per_step and row["by"] == "step_ms" and self.config.name != "tail":
            row["ns_per_event"] = ((row["traced_ms"] - row["untraced_ms"]) * 1e6 /
                                   self.events_per_step)


def run_pairs(args, folder):
    chosen = [Measured(c) for c in configs() if not args.only or c.name in args.only]
    recording = os.path.join(folder, "run.eacgm")
    for i in range(args.pairs):
        for m in chosen:
            common.say("pair %d of %d: %s" % (i + 1, args.pairs, m.config.name))
            m.add(args, i, recording)
    common.said()
    return [m.result() for m in chosen]


def percent(ratio):
    return "%+.1f %%" % ((ratio - 1) * 100)


def optional(fmt, value):
    return "-" if value is None else fmt % value


def show_pairs(rows, pairs):
    table = []
    for r in rows:
        q = r["ratio"]
        table.append([
            r["config"] + (" (mean)" if r["by"] == "step_mean_ms" else ""),
            "%.3f" % r["untraced_ms"], "%.3f" % r["traced_ms"], percent(q["median"]),
            "%s .. %s" % (percent(q["low"]), percent(q["high"])),
            percent(r["p99_ratio"]["median"]) if "p99_ratio" in r else "-",
            optional("%.0f", r.get("events_per_step")), optional("%.0f", r.get("ns_per_event")),
            optional("%d", r.get("lost")),
            optional("%.1f %%", 100 * r["collector_cpu_ratio"] if "collector_cpu_ratio" in r
                     else None)])
    common.print_table("Step time, %d interleaved pairs each" % pairs,
                       ["configuration", "untraced ms", "traced ms", "overhead", "95 %", "p99",
                        "events/step", "ns/event", "lost", "collector CPU"], table)


# ---- before and after ----

def wait_until_warm(p):
    if not select.select([p.stdout], [], [], WARM_SECONDS)[0]:
        raise Failed("the job did not get warm in %d s" % WARM_SECONDS)
    if p.stdout.readline().strip() != "warm":
        raise Failed("the job ended before it was warm")


def attach_cycles(args, folder):
    """The windows of one job: [(name, start_ns, end_ns)], and its steps."""
    tells = os.path.join(folder, "tells")
    recording = os.path.join(folder, "attached.eacgm")
    p = subprocess.Popen([args.python, TRAIN, "--until-eof", "--tell", tells], text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
                         env=dict(os.environ, **ONE_THREAD))
    windows, recordings = [], []
    try:
        wait_until_warm(p)
        for i in range(args.cycles):
            common.say("attached %d of %d" % (i + 1, args.cycles))
            quiet(windows, "before" if i == 0 else "after", args.seconds)
            began = time.monotonic_ns()
            common.run([args.eacgm, "record", "-p", p.pid, "-d", args.seconds, "-o", recording],
                       args.limit)
            windows.append(("during", began, time.monotonic_ns()))
            recordings.append(common.summary_of(args.eacgm, recording))
        quiet(windows, "after", args.seconds)
        p.stdin.close()
        p.stdout.read()
        if p.wait(timeout=60):
            raise Failed("the job ended with %d" % p.returncode)
    finally:
        common.end_group(p)
        common.said()
    with open(tells) as f:
        steps = [tuple(map(int, line.split())) for line in f]
    return windows, steps, recordings


def quiet(windows, name, seconds):
    began = time.monotonic_ns()
    time.sleep(seconds)
    windows.append((name, began, time.monotonic_ns()))


def run_before_after(args, folder):
    windows, steps, recordings = attach_cycles(args, folder)
    rows = []
    for name, start, end in windows:
        lengths = [length for at, length in steps if start <= at - length and at <= end]
        if not lengths:
            raise Failed("no step lies %s the attachment: more --seconds are needed" % name)
        rows.append({"window": name, "step_ms": statistics.median(lengths) / 1e6,
                     "steps": len(lengths)})
    before = rows[0]["step_ms"]
    after = [r["step_ms"] / before for r in rows if r["window"] == "after"]
    during = [r["step_ms"] / before for r in rows if r["window"] == "during"]
    return {"windows": rows, "after_to_before": common.interval(after), "after_ratios": after,
            "during_to_before": common.interval(during), "during_ratios": during,
            "events": [r["events"] for r in recordings], "lost": sum(r["lost"] for r in recordings)}


def show_before_after(result):
    rows, n = [], 0
    before = result["windows"][0]["step_ms"]
    for w in result["windows"]:
        n += w["window"] == "during"
        rows.append([w["window"] + ("" if w["window"] == "before" else " %d" % n),
                     "%.3f" % w["step_ms"], str(w["steps"]), "%.3f" % (w["step_ms"] / before)])
    common.print_table("A running job that eacgm is attached to and detached from",
                       ["", "step ms", "steps", "to before"], rows)


def main():
    args = arguments()
    results = common.Results("overhead", args.eacgm, {
        "pairs": args.pairs, "script": os.path.basename(args.script), "args": args.args,
        "steps": args.steps, "burst_steps": args.burst_steps, "cycles": args.cycles,
        "attached_s": args.seconds})
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        rows = run_pairs(args, folder)
        show_pairs(rows, args.pairs)
        results["configs"] = rows
        if args.cycles:
            results["before_after"] = run_before_after(args, folder)
            show_before_after(results.data["before_after"])
    results.write(args.json)
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
