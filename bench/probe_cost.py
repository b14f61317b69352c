#!/usr/bin/env python3
"""probe_cost.py - what one traced call costs the caller, beside the floor, beside bpftrace and told
inside of the process, and how long attaching to all operators of PyTorch takes.

Four parts. (1) The program probe_cost: recorded calls against an empty program at the same
place, in one process. (2) `spin` untraced, under `eacgm record` and under bpftrace doing the
same (one line to a file for every call, with its duration), taking turns; the cost is the time
per call minus the untraced one of the same round. (3) attach_ms and plan_ms as recordings of a
PyTorch job tell them. (4) `spin_inside`, whose function has two arguments that are read: untraced,
with --probes inprocess, with --probes kernel, both in the modes tail and stats too, and in the same
process after eacgm has left it, taking turns, in bursts with pauses that the rings keep up with; then two threads without a pause,
where the calls made are to be those recorded and those lost, to the call. Figures are medians over
rounds. Another C program that prints `ns_per_call` is put under (2) with --cmd and --function.
Needs root; (2) goes without bpftrace where it is missing."""

import argparse
import json
import os
import re
import shlex
import shutil
import statistics
import sys
import tempfile

import common
from common import Failed

PARTS = ("floor", "beside", "attach", "inside")

# of `spin_inside`; in a layer that is told inside
CATALOG = """catalog: 1
layer: torch
libraries: ["libspin_two.so*"]
probes:
  - id: spin.two
    symbols: ["_Z8spin_twoll"]
    signature: "(i64 a, i64 b)"
"""
ALONE = ("--layers", "torch", "--profile", "off", "--waits", "off")
TAIL, STATS = ("--mode", "tail"), ("--mode", "stats")
KERNEL_CALLS = 10  # without a pause the kernel's probes get one call in so many: they are slow


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("--only", default=",".join(PARTS), metavar="PART,...",
                   help="parts to measure (default: %(default)s)")
    p.add_argument("--rounds", type=int, default=15,
                   help="of parts 1, 2 and 4 (default: %(default)s)")
    p.add_argument("--calls", type=int, default=200_000,
                   help="of spin, and of spin_inside, in one round (default: %(default)s)")
    p.add_argument("--pace", type=int, default=500_000,
                   help="calls of spin_inside a second, in bursts (default: %(default)s)")
    p.add_argument("--rate-calls", type=int, default=10_000_000,
                   help="of spin_inside without a pause (default: %(default)s)")
    p.add_argument("--cmd", help="command that prints `ns_per_call NUMBER`, instead of spin")
    p.add_argument("--function", default="spin_push",
                   help="that it calls, in its own executable (default: %(default)s)")
    p.add_argument("--attach", type=int, default=5,
                   help="recordings that attach to PyTorch (default: %(default)s)")
    p.add_argument("--attach-cmd", default="/usr/bin/python3 -c 'import torch; torch.ones(1) + 1'",
                   help="default: %(default)s")
    p.add_argument("--limit", type=int, default=180, help="seconds that one run may take")
    args = p.parse_args()
    args.eacgm = os.path.join(args.build, "eacgm")
    args.cmd = shlex.split(args.cmd or "%s %d" % (
        shlex.quote(os.path.abspath(os.path.join(args.build, "bench", "spin"))), args.calls))
    args.spin_inside = [os.path.abspath(os.path.join(args.build, "bench", "spin_inside")),
                        args.calls, 1]
    args.only = args.only.split(",")
    for part in args.only:
        if part not in PARTS:
            p.error("--only: there is no part '%s'" % part)
    if args.rounds < 1 or args.attach < 0:
        p.error("--rounds is at least 1")
    if args.pace < 1 or args.rate_calls < KERNEL_CALLS:
        p.error("--pace is at least 1, --rate-calls %d" % KERNEL_CALLS)
    return args


# ---- (1) beside the floor ----

def beside_floor(args, folder):
    path = os.path.join(folder, "floor.json")
    common.say("probe_cost: %d rounds" % args.rounds)
    ran = common.run([os.path.join(args.build, "bench", "probe_cost"), "--json", path,
                      "--rounds", args.rounds], args.limit)
    common.said()
    if not os.path.exists(path):
        return {"skipped": ran.out.strip()}
    with open(path) as f:
        floor = json.load(f)
    push = floor["rows"][0]["rounds"]
    for row in floor["rows"]:
        r = row["rounds"]
        row["to_floor"] = common.interval(map(
            lambda u, e, c: (c - u) / (e - u), r["untraced_ns"], r["empty_ns"], r["recorded_ns"]))
        row["to_push"] = common.interval(map(
            lambda u, c, pu, pc: (c - u) / (pc - pu), r["untraced_ns"], r["recorded_ns"],
            push["untraced_ns"], push["recorded_ns"]))
    return floor


def ratio_text(q):
    return "%.2f (%.2f .. %.2f)" % (q["median"], q["low"], q["high"])


def show_floor(floor):
    if "skipped" in floor:
        print("\nA call beside the floor: skipped: " + floor["skipped"])
        return
    common.print_table("A call, against an empty program at the same place", [
        "first instruction", "untraced ns", "empty ns", "recorded ns", "recorded/floor",
        "recorded/push's"], [[
            r["first_insn"], "%.1f" % r["untraced_ns"], "%.0f" % r["empty_ns"],
            "%.0f" % r["recorded_ns"], ratio_text(r["to_floor"]), ratio_text(r["to_push"])]
            for r in floor["rows"]])
    print("calls %d, recorded %d, lost %d" % (floor["calls"], floor["recorded"], floor["lost"]))


# ---- (2) beside bpftrace ----

def ns_per_call(ran, what):
    found = re.search(r"\bns_per_call\s+([0-9.]+)", ran.out)
    if not found:
        raise Failed("%s printed no `ns_per_call NUMBER`: %s" % (what, ran.out[-300:]))
    return float(found.group(1))


def run_untraced(args, _folder):
    return {"ns": ns_per_call(common.run(args.cmd, args.limit), args.cmd[0])}


def run_eacgm(args, folder):
    out = os.path.join(folder, "cost.eacgm")
    spec = "%s:%s()" % (os.path.basename(args.cmd[0]), args.function)
    ran = common.run([args.eacgm, "record", "-o", out, "--layers", "user", "--probe", spec, "--",
                      *args.cmd], args.limit)
    rec = common.summary_of(args.eacgm, out)
    return {"ns": ns_per_call(ran, "spin"), "events": rec["events"], "lost": rec["lost"]}


def run_bpftrace(args, folder):
    script, out = os.path.join(folder, "cost.bt"), os.path.join(folder, "cost.txt")
    place = "%s:%s" % (args.cmd[0], args.function)
    with open(script, "w") as f:
        f.write("uprobe:%s { @start[tid] = nsecs; }\n"
                "uretprobe:%s { printf(\"%%d %%lu\\n\", tid, nsecs - @start[tid]); "
                "delete(@start[tid]); }\n" % (place, place))
    ran = common.run(["bpftrace", "-q", "-o", out, script, "-c", shlex.join(args.cmd)],
                     args.limit)
    with open(out) as f:
        text = f.read()
    lost = sum(int(n) for n in re.findall(r"Lost (\d+) events", ran.err + ran.out + text))
    return {"ns": ns_per_call(ran, "spin"), "lost": lost,
            "events": len(re.findall(r"^\d+ \d+$", text, re.M))}


def turned(ways, i):
    turn = i % len(ways)
    return ways[turn:] + ways[:turn]


def beside_bpftrace(args, folder):
    ways = [("untraced", run_untraced), ("eacgm", run_eacgm)]
    skipped = None
    if shutil.which("bpftrace"):
        ways.append(("bpftrace", run_bpftrace))
    else:
        skipped = "bpftrace is not installed"
    rounds = []
    for i in range(args.rounds):
        row = {}
        for name, fn in turned(ways, i):
            common.say("round %d of %d: %s" % (i + 1, args.rounds, name))
            try:
                row[name] = fn(args, folder)
            except Failed as e:
                if name != "bpftrace":
                    raise
                skipped = str(e).splitlines()[0][:300]
        if skipped:
            ways = ways[:2]
        rounds.append(row)
    common.said()
    return {"rows": [way_row(name, rounds) for name, _ in ways], "skipped": skipped}


def way_row(name, rounds):
    runs = [r[name] for r in rounds]
    row = {"way": name, "ns_per_call": statistics.median(r["ns"] for r in runs)}
    if name != "untraced":
        costs = common.interval(r[name]["ns"] - r["untraced"]["ns"] for r in rounds)
        row.update({"cost_ns": costs, "events": sum(r["events"] for r in runs),
                    "lost": sum(r["lost"] for r in runs)})
    return row


def show_bpftrace(result):
    show_ways("A call of spin, each call written to a file with its duration", result["rows"])
    if result["skipped"]:
        print("bpftrace: skipped: " + result["skipped"])


def show_ways(title, ways):
    rows = []
    for r in ways:
        cost = r.get("cost_ns")
        rows.append([r["way"], "%.1f" % r["ns_per_call"], "%.0f" % cost["median"] if cost else "-",
                     "%.0f .. %.0f" % (cost["low"], cost["high"]) if cost else "-",
                     str(r.get("events", "-")), str(r.get("lost", "-"))])
    common.print_table(title, ["", "ns a call", "cost ns", "95 %", "records", "lost"], rows)


# ---- (3) attaching ----

def attach_times(args, folder):
    rows = []
    path = os.path.join(folder, "attach.eacgm")
    for layers in ("torch", None):
        runs = []
        for i in range(args.attach):
            common.say("attaching %d of %d" % (i + 1, args.attach))
            common.run([args.eacgm, "record", "-o", path,
                        *(["--layers", layers] if layers else []),
                        "--", *shlex.split(args.attach_cmd)], args.limit)
            runs.append(common.summary_of(args.eacgm, path))
        if runs:
            rows.append({"layers": layers or "default", "sites": min(r["sites"] for r in runs),
                         "sites_max": max(r["sites"] for r in runs),
                         "sites_stepped": max(r["sites_stepped"] for r in runs),
                         "method": runs[-1]["method"],
                         "attach_ms": statistics.median(r["attach_ms"] for r in runs),
                         "attach_max_ms": max(r["attach_ms"] for r in runs),
                         "plan_ms": statistics.median(r["plan_ms"] for r in runs), "n": len(runs)})
    common.said()
    return rows


def sites_text(row):
    if row["sites"] == row["sites_max"]:
        return str(row["sites"])
    return "%d .. %d" % (row["sites"], row["sites_max"])  # some runs did not find all


def show_attach(rows):
    common.print_table("Attaching (a site is one function: its entry and its return)", [
        "layers", "sites", "stepped", "method", "attach ms", "longest", "plan ms"], [[
            r["layers"], sites_text(r), str(r["sites_stepped"]), r["method"],
            "%.1f" % r["attach_ms"], "%.1f" % r["attach_max_ms"], "%.1f" % r["plan_ms"]]
            for r in rows])


# ---- (4) told inside ----

def told_by_spin(ran, name):
    """What `spin_inside` told under this name, each time that it made its calls."""
    return [float(v) for v in re.findall(r"\b%s\s+([0-9.]+)" % name, ran.out)]


def record_inside(args, folder, where, options, cmd, wrapper=()):
    """Runs cmd under eacgm; what the recording holds beside what was called."""
    catalog, out = os.path.join(folder, "spin_two.yaml"), os.path.join(folder, "inside.eacgm")
    with open(catalog, "w") as f:
        f.write(CATALOG)
    ran = common.run([*wrapper, args.eacgm, "record", "-o", out, "--catalog", catalog, *ALONE,
                      "--probes", where, *options, "--", *cmd], args.limit)
    rec = common.summary_of(args.eacgm, out)
    meta = common.metas_of(args.eacgm, out)
    places = int(meta.get("inside_places", 0))
    if places != (where == "inprocess"):
        raise Failed("--probes %s: %d functions were told inside: %s" % (
            where, places, ran.err.strip()[:300]))
    made = int(told_by_spin(ran, "calls")[0])
    if "--mode" in options:  # calls are in histograms, not in records
        rec["events"] = sum(f["calls"] for f in common.report_of(args.eacgm, out)["functions"])
    return ran, {"made": made, "events": rec["events"], "lost": rec["lost"],
                 "lost_by_cause": rec["lost_by_cause"],
                 "unaccounted": made - rec["events"] - rec["lost"],
                 "collecting_s": rec["collector_cpu_s"] - int(meta["start_cpu_ns"]) / 1e9}


def paced(where, *options):
    def run(args, folder):
        ran, figures = record_inside(args, folder, where, options, args.spin_inside + [args.pace])
        return {"ns": told_by_spin(ran, "ns_per_call")[0], **figures}
    return run


def paced_alone(args, _folder):
    ran = common.run(args.spin_inside + [args.pace], args.limit)
    return {"ns": told_by_spin(ran, "ns_per_call")[0]}


def paced_afterwards(args, folder):
    """The calls are made a second time, in the same threads, when eacgm has ended."""
    ended = os.path.join(folder, "ended")
    leaves = ("-d", "%.1f" % (1.5 + args.calls / args.pace))
    ran, figures = record_inside(args, folder, "inprocess", leaves,
                                 args.spin_inside + [args.pace, ended],
                                 ("sh", "-c", '"$@"; rc=$?; : >"$0"; exit $rc', ended))
    os.unlink(ended)
    if figures["unaccounted"] > 0:
        raise Failed("eacgm left before %d calls were made, or they are neither recorded nor lost"
                     % figures["unaccounted"])
    return {"ns": told_by_spin(ran, "ns_per_call")[1], **figures}


def fastest(where, *options):
    def run(args, folder):
        calls = args.rate_calls // (KERNEL_CALLS if where == "kernel" else 1)
        cmd = [args.spin_inside[0], calls, 2]
        if not where:
            ran, figures = common.run(cmd, args.limit), {}
        else:
            ran, figures = record_inside(args, folder, where, options, cmd)
        rate = told_by_spin(ran, "calls_per_s")[0]
        if where:
            figures["recorded_per_s"] = rate * figures["events"] / figures["made"]
        return {"ns": told_by_spin(ran, "ns_per_call")[0], "calls_per_s": rate, **figures}
    return run


def take_turns(args, folder, ways, what):
    rounds = []
    for i in range(args.rounds):
        row = {}
        for name, fn in turned(ways, i):
            common.say("%s: round %d of %d: %s" % (what, i + 1, args.rounds, name))
            row[name] = fn(args, folder)
        rounds.append(row)
    common.said()
    rows = [way_row(name, rounds) for name, _ in ways]
    for row in rows:
        runs = [r[row["way"]] for r in rounds]
        row["rounds_ns"] = [r["ns"] for r in runs]
        if "made" in runs[0]:
            for key in ("made", "unaccounted"):
                row[key] = sum(r[key] for r in runs)
            row["lost_by_cause"] = common.add_up(r["lost_by_cause"] for r in runs)
            row["collector_ns_per_event"] = statistics.median(
                r["collecting_s"] * 1e9 / r["events"] for r in runs)
        if "recorded_per_s" in runs[0]:
            row["recorded_per_s"] = common.interval(r["recorded_per_s"] for r in runs)
        if "calls_per_s" in runs[0]:
            row["calls_per_s"] = common.interval(r["calls_per_s"] for r in runs)
    return rows


def told_inside(args, folder):
    cost = take_turns(args, folder, [
        ("untraced", paced_alone), ("inside", paced("inprocess")),
        ("inside, tail", paced("inprocess", *TAIL)), ("inside, stats", paced("inprocess", *STATS)),
        ("kernel", paced("kernel")), ("kernel, tail", paced("kernel", *TAIL)),
        ("kernel, stats", paced("kernel", *STATS)), ("afterwards", paced_afterwards)],
        "told inside")
    rate = take_turns(args, folder, [
        ("untraced", fastest(None)), ("inside", fastest("inprocess")),
        ("inside, stats", fastest("inprocess", *STATS)), ("kernel", fastest("kernel"))],
        "highest rate")
    return {"rows": cost, "rate": rate,
            "unaccounted": sum(abs(r.get("unaccounted", 0)) for r in cost + rate)}


def show_causes(rows):
    for r in rows:
        if r.get("lost_by_cause"):
            print("%s: lost or incomplete, by cause: %s" % (r["way"], ", ".join(
                "%s %d" % item for item in sorted(r["lost_by_cause"].items()))))


def rate_row(r):
    calls_per_s = "%.0f" % r["calls_per_s"]["median"]
    if "made" not in r:
        return [r["way"], calls_per_s] + ["-"] * 8
    kept = r["recorded_per_s"]
    return [r["way"], calls_per_s, "%.0f" % kept["median"],
            "%.0f .. %.0f" % (kept["low"], kept["high"]), "%.0f" % r["cost_ns"]["median"],
            *(str(r[key]) for key in ("made", "events", "lost", "unaccounted")),
            "%.0f" % r["collector_ns_per_event"]]


def show_inside(result):
    show_ways("A call with two arguments, told inside of the process and by the kernel; "
              "and after eacgm has left", result["rows"])
    show_causes(result["rows"])
    common.print_table("Two threads without a pause", [
        "", "calls/s", "recorded/s", "95 %", "cost ns", "made", "recorded", "lost",
        "unaccounted", "eacgm's ns/record"], [rate_row(r) for r in result["rate"]])
    show_causes(result["rate"])


def main():
    args = arguments()
    results = common.Results("probe_cost", args.eacgm, {
        "rounds": args.rounds, "calls": args.calls, "pace": args.pace,
        "rate_calls": args.rate_calls, "only": args.only,
        "cmd": [os.path.basename(args.cmd[0])] + args.cmd[1:], "attach": args.attach})
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        if "floor" in args.only:
            results["floor"] = beside_floor(args, folder)
            show_floor(results.data["floor"])
        if "beside" in args.only:
            results["beside"] = beside_bpftrace(args, folder)
            show_bpftrace(results.data["beside"])
        if "attach" in args.only:
            results["attach"] = attach_times(args, folder)
            if args.attach:
                show_attach(results.data["attach"])
        if "inside" in args.only:
            results["inside"] = told_inside(args, folder)
            show_inside(results.data["inside"])
    results.write(args.json)
    if results.data.get("inside", {}).get("unaccounted"):
        raise Failed("calls made are not those recorded and those lost")
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
