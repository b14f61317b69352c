#!/usr/bin/env python3
"""probe_cost.py - what one traced call costs the caller, beside the floor and beside bpftrace,
and how long attaching to all operators of PyTorch takes.

Three parts. (1) The program probe_cost: recorded calls against an empty program at the same
place, in one process. (2) `spin` untraced, under `eacgm record` and under bpftrace doing the
same (one line to a file for every call, with its duration), taking turns; the cost is the time
per call minus the untraced one of the same round. (3) attach_ms and plan_ms as recordings of a
PyTorch job tell them. Figures are medians over rounds. Another C program that prints
`ns_per_call` is put under (2) with --cmd and --function. Needs root; (2) goes without bpftrace
where it is missing."""

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


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("--rounds", type=int, default=15, help="of parts 1 and 2 (default: %(default)s)")
    p.add_argument("--calls", type=int, default=200_000,
                   help="of spin in one round (default: %(default)s)")
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
    if args.rounds < 1 or args.attach < 0:
        p.error("--rounds is at least 1")
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
        turn = i % len(ways)
        for name, fn in ways[turn:] + ways[:turn]:
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
    rows = []
    for r in result["rows"]:
        cost = r.get("cost_ns")
        rows.append([r["way"], "%.1f" % r["ns_per_call"], "%.0f" % cost["median"] if cost else "-",
                     "%.0f .. %.0f" % (cost["low"], cost["high"]) if cost else "-",
                     str(r.get("events", "-")), str(r.get("lost", "-"))])
    common.print_table("A call of spin, each call written to a file with its duration",
                       ["", "ns a call", "cost ns", "95 %", "records", "lost"], rows)
    if result["skipped"]:
        print("bpftrace: skipped: " + result["skipped"])


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


def main():
    args = arguments()
    results = common.Results("probe_cost", args.eacgm, {
        "rounds": args.rounds, "calls": args.calls,
        "cmd": [os.path.basename(args.cmd[0])] + args.cmd[1:], "attach": args.attach})
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        results["floor"] = beside_floor(args, folder)
        show_floor(results.data["floor"])
        results["beside"] = beside_bpftrace(args, folder)
        show_bpftrace(results.data["beside"])
        results["attach"] = attach_times(args, folder)
        if args.attach:
            show_attach(results.data["attach"])
    results.write(args.json)
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
