#!/usr/bin/env python3
"""evaluate.py - how right the causes are that eacgm tells, on runs of lab/faults/run.py.

    evaluate.py --eacgm build/eacgm --json OUT [--plan apart] RUNS

RUNS is a folder of folders of runs. Each workload's model is learned from its runs of the plan
`clean`; the other runs, or those of one plan, are diagnosed by it and scored by score.py. Beside it
stand simpler methods that name causes of the same incidents (baselines.py). --live scores what
`eacgm record --detect=MODEL` told while the runs were recorded. --without-diagnose has
the incidents of `eacgm detect` in place of those of `eacgm diagnose`, whose cause is unknown: what
the baselines alone would be worth. --models has models that were learned before, and --keep a folder
for what was told. Hashes of what was judged, of eacgm and of the scorer are in OUT."""

import argparse
import collections
import concurrent.futures
import gzip
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
DETECT = os.path.join(HERE, "..", "detect")
sys.path[:0] = [HERE, DETECT]
import baselines  # noqa: E402
import score  # noqa: E402
import seconds  # noqa: E402


def module_of(path, name):
    """One of lab/detect, which has the name of one that is here."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


detected = module_of(os.path.join(DETECT, "evaluate.py"), "detect_evaluate")

OWN = ("evaluate.py", "score.py", "baselines.py")


def run_json(words):
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)


def detect(eacgm, recording, model, options):
    """(what was told, the windows)"""
    with tempfile.TemporaryDirectory() as folder:
        rows = os.path.join(folder, "rows.jsonl")
        said = run_json([eacgm, "detect", recording, *model, "--json", "--rows", rows, *options])
        return said, seconds.lines(rows)


def told(eacgm, recording):
    """What `eacgm record --detect` said while it was recorded."""
    return {"incidents": run_json([eacgm, "report", recording, "--json"]).get("incidents", []),
            "steps": []}


def diagnose(eacgm, recording, model, options):
    return run_json([eacgm, "diagnose", recording, *model, "--json", *options])


def incidents_of(said):
    """Of what detect says, as diagnose has them, without a cause."""
    kept = []
    for i in detected.incidents_of(said["anomalies"]):
        kept.append({"id": i.first["incident"], "onset_ns": i.start, "end_ns": i.end,
                     "told_ns": i.told, "cause": None, "confidence": None, "runner_up": None,
                     "culprit": None, "victim": {"pid": i.first["pid"]}, "blame": [],
                     "unexplained_ns": 0})
    return {"incidents": kept, "steps": []}


def judged(args, run, model):
    """(what was said, the windows of detect)"""
    recording = run.path("run.eacgm")
    if args.live:
        return told(args.eacgm, recording), []
    found, rows = detect(args.eacgm, recording, model, args.options.split())
    if args.without_diagnose:
        return incidents_of(found), rows
    return diagnose(args.eacgm, recording, model, args.options.split()), rows


def without_walk(args, run, model):
    """The same incidents' causes where no wait is followed to who ended it."""
    return diagnose(args.eacgm, run.path("run.eacgm"), model,
                    [*args.options.split(), "--no-walk"])


def runs_of(folder, plan):
    """({workload: clean runs}, the runs to judge)"""
    runs = [detected.Run(os.path.join(folder, d)) for d in sorted(os.listdir(folder))
            if os.path.exists(os.path.join(folder, d, "labels.jsonl")) and
            os.path.exists(os.path.join(folder, d, "run.eacgm"))]
    clean = collections.defaultdict(list)
    for r in runs:
        if r.plan == "clean":
            clean[r.workload].append(r)
    return clean, [r for r in runs if r.plan != "clean" and plan in (None, r.plan)]


def model_of(args, workload, clean, folder):
    """(its path, or None; what it was learned from)"""
    path = detected.model_before(args.models, workload)
    if path:
        return path, [os.path.basename(path)]
    if not clean:
        return None, []
    path = os.path.join(folder, workload + ".model")
    detected.learn(args.eacgm, clean, path)
    return path, [r.name for r in clean]


def logs_of(run):
    """{pid: rows} of the ranks' own logs of their steps."""
    head = next(r for r in run.labels if r["type"] == "run")
    return {pid: seconds.lines(run.path("steps.%s.jsonl" % rank))
            for rank, pid in head["ranks"].items()
            if os.path.exists(run.path("steps.%s.jsonl" % rank))}


def judge_run(args, run, model):
    """(Run of score.py, windows, Run without the walk or None, hashes)"""
    words = ["-m", model] if model else []
    said, rows = judged(args, run, words)
    bare = None if args.live or args.without_diagnose else without_walk(args, run, words)
    if args.keep:
        with gzip.open(os.path.join(args.keep, run.name + (".live" if args.live else "") +
                                    ".told.json.gz"), "wt", encoding="utf-8") as f:
            json.dump(said, f)
    logs = logs_of(run)
    return (score.Run(run.name, run.labels, said, logs), rows,
            bare and score.Run(run.name, run.labels, bare, logs), run.hashes())


def judge_all(args):
    """([what judge_run returns], {workload: names of what was learned from})"""
    clean, runs = runs_of(args.runs, args.plan)
    workloads = sorted({r.workload for r in runs})
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        models = dict(zip(workloads, pool.map(
            lambda w: model_of(args, w, clean[w], folder), workloads)))
        found = list(pool.map(lambda r: judge_run(args, r, models[r.workload][0]), runs))
    return found, {w: names for w, (_, names) in models.items()}


# ---- tables ----

def percent(s):
    if not s["of"]:
        return "-"
    low, high = s["interval_95"]
    return "%.0f %% (%.0f to %.0f, %d of %d)" % (100 * s["share"], 100 * low, 100 * high, s["yes"],
                                               s["of"])


def number(x):
    return "-" if x is None else "%.3g" % x


def print_scores(name, s):
    c = s["causes"]
    print("%-14s top-1 %s; macro F1 %s, in episodes %s; unknown %d, missed %d; wrong and sure %s" % (
        name, percent(c["top_1"]), number(c["macro_f1"]), number(c["macro_f1_in_episodes"]),
        c["unknown"]["yes"], c["missed"]["yes"], percent(c["wrong_and_sure"])))


def print_matrix(matrix):
    told = sorted({t for row in matrix.values() for t in row})
    print("what was (down) and what was told:")
    for i, t in enumerate(told):
        print("  %2d = %s" % (i + 1, t))
    print("  %-16s%s" % ("", "".join("%4d" % (i + 1) for i in range(len(told)))))
    for truth, row in matrix.items():
        print("  %-16s%s" % (truth, "".join("%4s" % (row.get(t) or ".") for t in told)))


def print_after(a):
    """Whether the step time without what is blamed came when the fault ended."""
    print("step time without what is blamed, beside that after the fault (%d episodes, %d without):"
          % (len(a["episodes"]), a["unknown"]))
    for key, words in (("off", "mean"), ("off_median", "its median"),
                       ("before", "clean time before, mean")):
        print("  %-24s off by %s (p90 %s), within 0.05: %s" % (
            words, number(a[key]["median"]), number(a[key]["p90"]), percent(a[key]["within"])))


def print_all(s):
    print("%d runs, %d effective episodes (%d others: %d told, %d rightly)" % (
        s["runs"], s["episodes"], s["ineffective"]["episodes"], s["ineffective"]["told"],
        s["ineffective"]["right"]))
    print_scores("eacgm", s)
    print_matrix(s["causes"]["matrix"])
    for r in s["causes"]["calibration"]:
        print("confidence %s: right %s" % (r["tenth"], percent(r)))
    print("right by effect: %s" % "; ".join("%s: %s" % (k, percent(v))
                                            for k, v in s["causes"]["by_effect"].items()))
    print("culprit of contention: %s" % percent(s["culprits"]["contention"]))
    b = s["blame"]
    print("blame: %d slow steps; adds up %s; explained %s; off the injected share by %s" % (
        b["slow_steps"], percent(b["adds_up"]), percent(b["explained"]),
        number(b["excess_off_injected_median"])))
    print("what owners of the fault have is off the injected share by %s (p90 %s), within 0.1: %s" % (
        number(b["owned_off_injected_median"]), number(b["owned_off_injected_p90"]),
        percent(b["owned_within"])))
    print_after(s["after_release"])
    print("of the missed, in %d an incident stood from before" % s["missed_where_one_stood"])
    print("told after %s s (p95 %s); %s incidents an episode; %d late, %d false (%s an hour)" % (
        number(s["delay_s"]["median"]), number(s["delay_s"]["p95"]),
        number(s["incidents_an_episode"]), s["late"], s["false"],
        number(s["false_an_hour"][0])))
    if s["cause_delay_s"]["median"] is not None:
        print("its cause after %s s more (p95 %s)" % (number(s["cause_delay_s"]["median"]),
                                                     number(s["cause_delay_s"]["p95"])))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--eacgm", default="build/eacgm")
    p.add_argument("--options", default="", help="of eacgm detect and diagnose")
    p.add_argument("--plan", help="judge runs of this plan alone")
    p.add_argument("--without-diagnose", action="store_true",
                   help="incidents of eacgm detect, no cause but the baselines'")
    p.add_argument("--live", action="store_true",
                   help="what `eacgm record --detect` told of them; no baselines")
    p.add_argument("--models", metavar="DIR", help="learned before: WORKLOAD-LAUNCHES.model")
    p.add_argument("--keep", metavar="DIR", help="what was told of each run")
    p.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time")
    p.add_argument("--json", metavar="OUT")
    p.add_argument("runs", metavar="RUNS")
    args = p.parse_args()
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
    found, learned = judge_all(args)
    if not found:
        p.error("%s has no run to judge" % args.runs)
    scores = score.score([run for run, _, _, _ in found])
    others = {name: score.score([run._replace(said=baselines.renamed(run.said, rows, name))
                                 for run, rows, _, _ in found])
              for name in ([] if args.live else baselines.BASELINES)}
    if all(bare for _, _, bare, _ in found):
        others["no walk"] = score.score([bare for _, _, bare, _ in found])
    print_all(scores)
    for name, s in others.items():
        print_scores(name, s)
    if args.json:
        out = {"eacgm_sha256": detected.sha256(args.eacgm), "options": args.options,
               "learned_from": learned,
               "runs_sha256": {run.name: hashes for run, _, _, hashes in found},
               "scorer_sha256": {f: detected.sha256(os.path.join(HERE, f)) for f in OWN},
               "scores": scores, "baselines": others}
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(out, f)
    return 0


if __name__ == "__main__":
    sys.exit(main())
