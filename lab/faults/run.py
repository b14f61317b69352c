#!/usr/bin/env python3
"""run.py - the fault laboratory: runs a job, records it with eacgm, makes it slow in known ways at
times that the seed decides, and writes labels.jsonl, the truth. docs/results/faults.md explains.

    run.py --list                           workloads and faults, with what this host permits
    run.py --eacgm build/eacgm --workload cpu_gpt --plan dev --seed 1 --minutes 3 --out DIR

campaign.py makes many runs side by side. The detector never reads what this writes but the
recording."""

import argparse
import os
import signal
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from faults import FAULTS  # noqa: E402
from lab import plans, schedule  # noqa: E402
from lab.host import Host  # noqa: E402
from lab.processes import Failed  # noqa: E402
from lab.session import Run  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

IMPORTED = "the job has imported what it needs"
FREED = "the job has ended"


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--list", action="store_true", help="what there is, and what this host permits")
    p.add_argument("--eacgm", metavar="PATH")
    p.add_argument("--no-record", action="store_true", help="inject only")
    p.add_argument("--dry-run", action="store_true",
                   help="say which episodes there would be, also on a host without GPUs")
    p.add_argument("--workload", choices=list(WORKLOADS))
    p.add_argument("--plan", default="dev", choices=list(plans.PLANS))
    p.add_argument("--faults", metavar="NAME,...", help="of the plan's faults, only these")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--minutes", type=float, default=3, help="in all, starting and ending included")
    p.add_argument("--recorded", action="store_true",
                   help="--minutes are those that are recorded: starting is not in them")
    p.add_argument("--pace", choices=list(schedule.PACES),
                   help="how long gaps and episodes are (default: usual; of the plan apart: apart)")
    p.add_argument("--items", type=int, metavar="N",
                   help="end after so many episodes and benign changes")
    p.add_argument("--out", metavar="DIR")
    p.add_argument("--gpu", type=int, default=0, help="the first that may be used")
    p.add_argument("--cpus", metavar="N-N,...",
                   help="that may be used, the job's first (default: all)")
    p.add_argument("--beside-others", action="store_true",
                   help="without faults that would slow other jobs of the host")
    p.add_argument("--gpu-shared", action="store_true",
                   help="without faults that would slow other jobs of the GPU")
    p.add_argument("--set-clocks", action="store_true",
                   help="with the fault that locks a GPU's clocks low: of a host that is yours")
    p.add_argument("--held", action="store_true",
                   help="the job starts and waits; a line `go SECONDS` on the standard input lets "
                        "it go, for that long in place of --minutes")
    p.add_argument("--python", metavar="PATH", help="that has PyTorch")
    p.add_argument("--helpers", metavar="DIR", help="where libfault_cuda.so is")
    p.add_argument("--record-options", metavar="WORDS", help="in place of the workload's own")
    args = p.parse_args()
    args.pace = plans.pace_of(args.plan, args.pace)
    if args.list:
        return args
    if not args.dry_run and not args.out:
        p.error("--out is needed")
    if not args.dry_run and bool(args.eacgm) == args.no_record:
        p.error("either --eacgm or --no-record")
    if args.eacgm and not os.access(args.eacgm, os.X_OK):
        p.error("%s cannot be run" % args.eacgm)
    if not args.workload:
        p.error("--workload is needed")
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
    for name, what in plans.PLANS.items():
        print("  %-14s %s" % (name, what))


def not_here(fault, reasons):
    """What the host lacks comes before what a workload lacks."""
    whys = sorted(reasons.values(), key=lambda why: " has no " in why) if reasons else []
    if whys and " has no " not in whys[0]:
        return whys[0]
    if any(t in ("cuda", "copies") for t in fault.traits):
        return "no GPU workload runs here"
    return "no workload that runs here has %s" % ", ".join(fault.traits)


def plan_of(host, args):
    """(seed, names of faults)"""
    workload = WORKLOADS[args.workload]
    only = args.faults.split(",") if args.faults else None
    return plans.seed_of(args.plan, args.seed), plans.faults_of(host, workload, args.plan, only)


def dry_run(host, args):
    """As if the host had GPUs enough: what a plan would make."""
    host.gpus = 64
    workload = WORKLOADS[args.workload]
    seed, faults = plan_of(host, args)
    items = plans.planned(workload, args.plan, seed, faults, schedule.PACES[args.pace],
                          args.minutes * 60 - plans.START_S)
    for item in items:
        print("%-14s %s" % (item.name, item.intensity))
    print("%d episodes" % len(items))


# ---- running ----

def let_go():
    """Waits for the line that lets the job go; for how many seconds."""
    words = sys.stdin.readline().split()
    if len(words) != 2 or words[0] != "go":
        raise Failed("was not let go")
    return float(words[1])


def run_one(host, args):
    workload = WORKLOADS[args.workload]
    seed, faults = plan_of(host, args)
    if args.plan in ("dev", "test", "apart") and not faults:
        raise Failed("no fault of the plan can be injected in %s here; see --list" % workload.name)
    others = [c for c in host.cpus if c not in host.job_cpus(workload)]
    os.sched_setaffinity(0, others or host.cpus)  # the runner is not to disturb, either
    options = args.record_options.split() if args.record_options else list(workload.record)
    print("%s, %s, seed %d: %s" % (workload.name, args.plan, seed,
                                   ", ".join(faults) or "no faults"), flush=True)
    run = Run(host, types.SimpleNamespace(
        eacgm=os.path.abspath(args.eacgm) if args.eacgm else None, workload=workload,
        plan=args.plan, split=plans.split_of(args.plan, workload, seed), seed=seed,
        seconds=args.minutes * 60, out=os.path.abspath(args.out), faults=faults,
        benign=plans.benign_of(workload, args.plan), pace=schedule.PACES[args.pace],
        levels=plans.levels_of(args.plan),
        items=args.items, recorded=args.recorded, record_options=options, gpu=args.gpu,
        held=let_go if args.held else None, imported=lambda: print(IMPORTED, flush=True),
        freed=lambda: print(FREED, flush=True),
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


def cpus_of(text):
    """Cores of "0-3,8": in that order."""
    if not text:
        return None
    there, found = os.sched_getaffinity(0), []
    for word in text.split(","):
        first, _, last = word.partition("-")
        found += [c for c in range(int(first), int(last or first) + 1) if c in there]
    return found


def on_term(_sig, _frame):
    raise KeyboardInterrupt


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, on_term)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    host = Host(args.python, args.helpers, cpus_of(args.cpus), alone=not args.beside_others,
                gpu_alone=not args.gpu_shared, clocks=args.set_clocks)
    if args.list:
        list_all(host)
        return 0
    try:
        if args.dry_run:
            dry_run(host, args)
            return 0
        why = "it needs root" if not host.root else host.why_not(WORKLOADS[args.workload])
        if why:
            raise Failed("%s cannot run here: %s" % (args.workload, why))
        run_one(host, args)
        return 0
    except (Failed, plans.Unknown, OSError) as e:
        print("run.py: %s" % e, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("run.py: ended early", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
