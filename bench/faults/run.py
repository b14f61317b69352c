#!/usr/bin/env python3
"""run.py - the fault laboratory: runs a job, records it with eacgm, makes it slow in known ways at
times that the seed decides, and writes labels.jsonl, the truth. docs/faults.md explains.

    run.py --list                           workloads and faults, with what this host permits
    run.py --eacgm build/eacgm --workload cpu_gpt --plan dev --seed 1 --minutes 3 --out DIR
    run.py --eacgm ./eacgm --plan gpu-1 --seed 1 --minutes 8 --out DIR     several workloads

The detector never reads what this writes but the recording."""

import argparse
import os
import signal
import subprocess
import sys
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from faults import FAULTS  # noqa: E402
from lab import plans, schedule  # noqa: E402
from lab.guard import die_with_parent  # noqa: E402
from lab.host import Host  # noqa: E402
from lab.processes import Failed  # noqa: E402
from lab.session import Run  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

START_S = 25  # what a dry run takes for starting and attaching
LEAST_S = 40  # a run needs that to start and end with something between


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--list", action="store_true", help="what there is, and what this host permits")
    p.add_argument("--eacgm", metavar="PATH")
    p.add_argument("--no-record", action="store_true", help="inject only")
    p.add_argument("--dry-run", action="store_true",
                   help="say which episodes there would be, also on a host without GPUs")
    p.add_argument("--workload", choices=list(WORKLOADS))
    p.add_argument("--plan", default="dev", choices=list(plans.SINGLE) + list(plans.SEVERAL))
    p.add_argument("--faults", metavar="NAME,...", help="of the plan's faults, only these")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--minutes", type=float, default=3, help="in all, starting and ending included")
    p.add_argument("--pace", choices=list(schedule.PACES),
                   help="how long gaps and episodes are (default: usual; dense where "
                        "several workloads share the time)")
    p.add_argument("--items", type=int, metavar="N",
                   help="end after so many episodes and benign changes")
    p.add_argument("--out", metavar="DIR")
    p.add_argument("--lanes", type=int, default=1, metavar="N",
                   help="a plan of several workloads N times side by side, each with its share of "
                        "the cores and GPUs and a seed of its own")
    p.add_argument("--gpu", type=int, default=0, help="the first that may be used")
    p.add_argument("--cpus", metavar="FIRST-LAST", help="that may be used (default: all)")
    p.add_argument("--lane", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--python", metavar="PATH", help="that has PyTorch")
    p.add_argument("--helpers", metavar="DIR", help="where libfault_cuda.so is")
    p.add_argument("--record-options", metavar="WORDS", help="in place of the workload's own")
    args = p.parse_args()
    if args.list:
        return args
    if not args.dry_run and not args.out:
        p.error("--out is needed")
    if not args.dry_run and bool(args.eacgm) == args.no_record:
        p.error("either --eacgm or --no-record")
    if args.eacgm and not os.access(args.eacgm, os.X_OK):
        p.error("%s cannot be run" % args.eacgm)
    if (args.plan in plans.SEVERAL) == bool(args.workload):
        p.error("--workload goes with %s" % ", ".join(plans.SINGLE))
    if args.lanes < 1 or args.lanes > 1 and args.plan not in plans.SEVERAL:
        p.error("--lanes goes with %s" % ", ".join(plans.SEVERAL))
    return args


# ---- what there is ----

def list_all(host):
    print("workloads")
    for w in WORKLOADS.values():
        why = host.why_not(w)
        print("  %-14s %s%s%s" % (w.name, w.what, "; test split alone" if w.test_only else "",
                                  "\n%17snot here: %s" % ("", why) if why else ""))
    print("faults: what they do, whose events they touch, and in which workloads of this host")
    runnable = [w for w in WORKLOADS.values() if not host.why_not(w)]
    for f in FAULTS.values():
        reasons = {w.name: f.why_not(host, w) for w in runnable}
        there = [name for name, why in reasons.items() if not why]
        print("  %-14s %s (%s)" % (f.name, f.what, ", ".join(f.layers)))
        print("%17s%s, %s %s" % ("", "in " + ", ".join(there) if there else
                                 "not here: " + not_here(f, reasons),
                                 "/".join("%g" % v for v in f.values), f.unit))
    print("plans")
    for name, what in plans.SINGLE.items():
        print("  %-14s %s" % (name, what))
    for name, parts in plans.SEVERAL.items():
        print("  %-14s %s" % (name, ", ".join("%s %s" % part[:2] for part in parts)))


def not_here(fault, reasons):
    """What the host lacks comes before what a workload lacks."""
    whys = sorted(reasons.values(), key=lambda why: " has no " in why) if reasons else []
    if whys and " has no " not in whys[0]:
        return whys[0]
    if any(t in ("cuda", "copies") for t in fault.traits):
        return "no GPU workload runs here"
    return "no workload that runs here has %s" % ", ".join(fault.traits)


def planned(args, seed, workload, plan, faults, seconds):
    """The episodes that a part of a plan has time for."""
    split, at = plans.split_of(plan, workload, seed), pace_of(args).warmup
    found = []
    if not faults:
        return found
    for item in schedule.items(seed, workload.name, split, faults,
                               plans.benign_of(workload, plan), pace_of(args)):
        at += item.gap_s + item.length_s
        if at > seconds - START_S:
            return found
        found += [item] if item.kind == "fault" else []
    return found


def dry_run(host, args):
    """As if the host had GPUs enough: what a plan would make."""
    host.gpus = 64
    parts = plans.parts(args.plan, host)[0] if args.plan in plans.SEVERAL else [
        (WORKLOADS[args.workload], args.plan, 1)]
    total = 0
    for lane in range(args.lanes):
        for workload, plan, share in parts:
            seed, faults = plan_of(host, args, workload, plan, args.seed + lane)
            items = planned(args, seed, workload, plan, faults, args.minutes * 60 * share)
            total += len(items)
            print("%s%s %s, %.0f s: %d episodes%s" % (
                "lane %d, " % lane if args.lanes > 1 else "", workload.name, plan,
                args.minutes * 60 * share, len(items), "".join(
                    "\n    %-14s %s" % (i.name, i.intensity) for i in items)))
    print("%d episodes" % total)


# ---- running ----

def pace_of(args):
    return schedule.PACES[args.pace or ("dense" if args.plan in plans.SEVERAL else "usual")]


def plan_of(host, args, workload, plan, seed):
    """(seed, names of faults)"""
    only = args.faults.split(",") if args.faults else None
    return plans.seed_of(plan, seed), plans.faults_of(host, workload, plan, only,
                                                      args.plan in plans.SEVERAL)


def run_one(host, args, workload, plan, seconds, out):
    seed, faults = plan_of(host, args, workload, plan, args.seed)
    if plan in ("dev", "test") and not faults:
        raise Failed("no fault of the plan can be injected in %s here; see --list" % workload.name)
    options = args.record_options.split() if args.record_options else list(workload.record)
    print("%s, %s, seed %d, %.0f s: %s" % (workload.name, plan, seed, seconds,
                                           ", ".join(faults) or "no faults"), flush=True)
    run = Run(host, types.SimpleNamespace(
        eacgm=os.path.abspath(args.eacgm) if args.eacgm else None, workload=workload, plan=plan,
        split=plans.split_of(plan, workload, seed), seed=seed, seconds=seconds,
        out=os.path.abspath(out), faults=faults, benign=plans.benign_of(workload, plan),
        pace=pace_of(args), items=args.items,
        record_options=options, gpu=args.gpu,
        say=lambda text: print("  " + text, flush=True)))
    tell(run.run())


def tell(rows):
    episodes = [r for r in rows if r["type"] == "episode"]
    for r in rows:
        if r["type"] == "failed":
            print("  failed: %s" % r["why"])
    for e in episodes:
        ratio = e["slowdown_ratio"]
        print("  %3d %-14s %-8s %5.1f s  %s  %s" % (
            e["id"], e["fault"], e["intensity"], (e["end_ns"] - e["onset_ns"]) / 1e9,
            "%5.2f x" % ratio if ratio else "      ?",
            "effective" if e["effective"] else "not effective"))
    clean_s = sum(r["end_ns"] - r["onset_ns"] for r in rows if r["type"] == "clean") / 1e9
    print("  %d episodes, %d effective; %.0f s clean" % (
        len(episodes), sum(e["effective"] for e in episodes), clean_s), flush=True)


def run_several(host, args):
    """Each part gets its share of what is left, so that the whole ends in time."""
    end = time.monotonic() + args.minutes * 60
    kept, out = plans.parts(args.plan, host)
    for name, why in out:
        print("%s is left out: %s" % (name, why), flush=True)
    done = 0
    for i, (workload, plan, share) in enumerate(kept):
        later = sum(s for _, _, s in kept[i:])
        seconds = (end - time.monotonic()) * share / later
        if seconds < LEAST_S:
            print("%s %s is left out: %.0f s are too short" % (workload.name, plan, seconds))
            continue
        try:
            run_one(host, args, workload, plan, seconds,
                    os.path.join(args.out, "%s-%s-%d" % (workload.name, plan, args.seed)))
            done += 1
        except (Failed, OSError) as e:
            print("  failed: %s" % e, flush=True)
    if not done:
        raise Failed("nothing of plan %s could run here" % args.plan)


def lane_words(host, args, i):
    """The command line of one lane."""
    cores = len(host.cpus) // args.lanes
    mine = host.cpus[i * cores:(i + 1) * cores]
    words = [sys.executable, os.path.join(HERE, "run.py"), "--plan", args.plan, "--lane",
             "--seed", str(args.seed + i), "--minutes", str(args.minutes),
             "--gpu", str(args.gpu + i * plans.gpus_of(args.plan)),
             "--cpus", "%d-%d" % (mine[0], mine[-1]), "--helpers", host.helpers,
             "--out", os.path.join(args.out, "lane-%d" % i)]
    words += ["--eacgm", args.eacgm] if args.eacgm else ["--no-record"]
    for name in ("python", "faults", "pace", "record_options"):
        if getattr(args, name):
            words += ["--" + name.replace("_", "-"), getattr(args, name)]
    return words


def run_lanes(host, args):
    """Each lane is a runner of its own, which ends what it started when it is told to end."""
    gpus = args.gpu + args.lanes * plans.gpus_of(args.plan)
    if len(host.cpus) < args.lanes or gpus > max(host.gpus, args.gpu):
        raise Failed("%d lanes need %d cores and %d GPUs; there are %d and %d" % (
            args.lanes, args.lanes, gpus, len(host.cpus), host.gpus))
    lanes = []
    try:
        for i in range(args.lanes):
            os.makedirs(os.path.join(args.out, "lane-%d" % i), exist_ok=True)
            with open(os.path.join(args.out, "lane-%d" % i, "run.log"), "w") as log:
                lanes.append(subprocess.Popen(lane_words(host, args, i), stdout=log, stderr=log,
                                              stdin=subprocess.DEVNULL, start_new_session=True,
                                              preexec_fn=lambda: die_with_parent(
                                                  signal.SIGTERM)))
        codes = [p.wait() for p in lanes]
    except BaseException:
        for p in lanes:
            p.terminate()
        for p in lanes:
            p.wait()
        raise
    for i in range(args.lanes):
        with open(os.path.join(args.out, "lane-%d" % i, "run.log")) as f:
            print("lane %d\n%s" % (i, f.read()), end="", flush=True)
    if any(codes):
        raise Failed("lanes ended with %s" % codes)


def cpus_of(text):
    if not text:
        return None
    first, last = (int(word) for word in text.split("-"))
    return [c for c in os.sched_getaffinity(0) if first <= c <= last]


def on_term(_sig, _frame):
    raise KeyboardInterrupt


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, on_term)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    host = Host(args.python, args.helpers, cpus_of(args.cpus), alone=not args.lane)
    if args.list:
        list_all(host)
        return 0
    try:
        if args.dry_run:
            host.alone = args.lanes == 1
            dry_run(host, args)
            return 0
        if not host.root:
            raise Failed("needs root")
        if args.plan in plans.SEVERAL:
            (run_lanes if args.lanes > 1 else run_several)(host, args)
            return 0
        why = host.why_not(WORKLOADS[args.workload])
        if why:
            raise Failed("%s cannot run here: %s" % (args.workload, why))
        run_one(host, args, WORKLOADS[args.workload], args.plan, args.minutes * 60, args.out)
        return 0
    except (Failed, plans.Unknown, OSError) as e:
        print("run.py: %s" % e, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("run.py: ended early", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
