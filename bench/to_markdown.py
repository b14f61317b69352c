#!/usr/bin/env python3
"""to_markdown.py - the tables of docs/results/benchmarks.md from the JSON files that the benchmarks
wrote. usage: to_markdown.py [FOLDER] (default build/bench). Prints what is there; a benchmark
without a file is named at the end. Needs no root and measures nothing."""

import json
import os
import sys


def table(heads, rows):
    print("| " + " | ".join(heads) + " |")
    print("| --- |" + " ---: |" * (len(heads) - 1))
    for row in rows:
        print("| " + " | ".join(str(c) for c in row) + " |")
    print()


def percent(ratio):
    return "%+.1f %%" % ((ratio - 1) * 100)


def optional(fmt, value):
    return "–" if value is None else fmt % value


def spread(interval, fmt):
    return "%s … %s" % (fmt(interval["low"]), fmt(interval["high"]))


def ratio(interval):
    return "%.2f (%s)" % (interval["median"], spread(interval, lambda x: "%.2f" % x))


def losses(row):
    by = row.get("lost_by_cause") or {}
    return ", ".join("%s %d" % item for item in sorted(by.items()) if item[1])


def head(data):
    m = data["machine"]
    print("*eacgm %s, Linux %s, %s, %d CPUs, %s; load at start %.1f*\n" % (
        data["eacgm_version"], m["kernel"], m["cpu"], m["cpus"], data["when"],
        m["load_at_start"]))


def probe_cost(data):
    for part, show in (("floor", floor), ("beside", beside), ("attach", attach),
                       ("inside", inside)):
        if part in data:
            show(data[part])


def floor(data):
    if "rows" not in data:
        print("The floor was not measured: %s\n" % data["skipped"])
        return
    print("### A call beside the floor\n")
    table(["first instruction", "untraced ns", "empty program ns", "recorded ns",
           "cost / floor", "cost / that of `push`"], [[
               "`%s`" % r["first_insn"], "%.1f" % r["untraced_ns"], "%.0f" % r["empty_ns"],
               "%.0f" % r["recorded_ns"], ratio(r["to_floor"]), ratio(r["to_push"])]
               for r in data["rows"]])
    print("%d calls, %d recorded, %d lost.\n" % (data["calls"], data["recorded"], data["lost"]))


def beside(data):
    print("### A call beside bpftrace\n")
    ways(data["rows"])
    if data["skipped"]:
        print("bpftrace was skipped: %s\n" % data["skipped"])


def ways(data):
    rows = []
    for r in data:
        cost = r.get("cost_ns")
        rows.append([r["way"], "%.1f" % r["ns_per_call"],
                     "%.0f" % cost["median"] if cost else "–",
                     spread(cost, lambda x: "%.0f" % x) if cost else "–",
                     r.get("events", "–"), r.get("lost", "–")])
    table(["", "ns a call", "cost ns", "95 %", "records", "lost"], rows)


def attach(data):
    print("### Attaching\n")
    table(["layers", "sites", "single-stepped", "method", "attach ms", "longest ms", "plan ms"], [[
        r["layers"], r["sites"] if r["sites"] == r["sites_max"] else "%d … %d" % (
            r["sites"], r["sites_max"]), r["sites_stepped"], r["method"],
        "%.1f" % r["attach_ms"], "%.1f" % r["attach_max_ms"], "%.1f" % r["plan_ms"]]
        for r in data])


def rate(r):
    kept = r["recorded_per_s"]
    return ["%.0f" % kept["median"], spread(kept, lambda x: "%.0f" % x),
            "%.0f" % r["cost_ns"]["median"], r["made"], r["events"], r["lost"], r["unaccounted"],
            "%.0f" % r["collector_ns_per_event"]]


def inside(data):
    print("### A call told inside of the process\n")
    ways(data["rows"])
    print("### Two threads without a pause\n")
    table(["", "calls/s", "recorded/s", "95 %", "cost ns", "made", "recorded", "lost",
           "unaccounted", "eacgm's ns/record"], [[
               r["way"], "%.0f" % r["calls_per_s"]["median"],
               *(rate(r) if "made" in r else ["–"] * 8)] for r in data["rate"]])
    lost = [(r["way"], losses(r)) for r in data["rows"] + data["rate"] if losses(r)]
    if lost:
        print("Lost or incomplete, by cause: %s.\n" % "; ".join("%s: %s" % x for x in lost))


def pipeline(data):
    print("### Ring to disk\n")
    table(["job", "calls", "calls/s", "lost", "bytes/event", "eacgm CPU s", "CPU ns/event"], [[
        r["job"], r["calls"], "%.0f" % r["calls_per_s"], r["lost"], "%.2f" % r["bytes_per_event"],
        "%.2f" % r["collector_cpu_s"], "%.0f" % r["collector_ns_per_event"]]
        for r in data["ring_to_disk"]])
    print("### Disk to report\n")
    table(["recording", "events", "bytes/event", "seconds", "CPU seconds", "events/s"], [[
        r["recording"], r["events"], "%.2f" % r["bytes_per_event"], "%.3f" % r["report_median_s"],
        "%.3f" % r["report_cpu_s"], "%.0f" % r["events_per_s"]] for r in data["disk_to_report"]])


def overhead(data):
    s = data["settings"]
    print("### A training script, %d interleaved pairs (`%s`)\n" % (s["pairs"], s["script"]))
    table(["configuration", "untraced ms", "traced ms", "overhead", "95 %", "p99",
           "events/step", "ns/event", "lost", "collector CPU"], [[
               r["config"] + (" (mean)" if r["by"] == "step_mean_ms" else ""),
               "%.3f" % r["untraced_ms"], "%.3f" % r["traced_ms"],
               percent(r["ratio"]["median"]), spread(r["ratio"], percent),
               percent(r["p99_ratio"]["median"]) if "p99_ratio" in r else "–",
               optional("%.0f", r.get("events_per_step")),
               optional("%.0f", r.get("ns_per_event")), optional("%d", r.get("lost")),
               optional("%.1f %%", None if "collector_cpu_ratio" not in r
                        else r["collector_cpu_ratio"] * 100)] for r in data["configs"]])
    lost = [(r["config"], losses(r)) for r in data["configs"] if losses(r)]
    if lost:
        print("Lost or incomplete, by cause: %s.\n" % "; ".join("%s: %s" % x for x in lost))
    if "before_after" in data:
        before_after(data["before_after"])


def before_after(data):
    print("### Before, during and after\n")
    before, n, rows = data["windows"][0]["step_ms"], 0, []
    for w in data["windows"]:
        n += w["window"] == "during"
        rows.append([w["window"] + ("" if w["window"] == "before" else " %d" % n),
                     "%.3f" % w["step_ms"], w["steps"], "%.3f" % (w["step_ms"] / before)])
    table(["", "step ms", "steps", "to before"], rows)
    q = data["after_to_before"]
    print("After to before: %.3f (%s).\n" % (q["median"], spread(q, lambda x: "%.3f" % x)))


def profile_cost(data):
    s = data["settings"]
    if "cost" in data:
        print("### Stacks at %d Hz, all cores busy with PyTorch\n" % s["hz"])
        table(["", "step ms", "step to untraced (95 %)", "of the machine", "second half",
               "own CPU s", "BPF s", "peak MB", "kB/s"], [[
                   r["way"], "%.2f" % r["step_ms"],
                   "%.3f (%s)" % (r["slowdown"]["median"],
                                  spread(r["slowdown"], lambda x: "%.3f" % x))
                   if "slowdown" in r else "–",
                   scaled("%.2f %%", r, "machine_share", 100),
                   scaled("%.2f %%", r, "steady_share", 100), scaled("%.2f", r, "own_cpu_s"),
                   scaled("%.2f", r, "bpf_s"), scaled("%.0f", r, "peak_mb"),
                   scaled("%.1f", r, "bytes_per_s", 1e-3)] for r in data["cost"]])
    if "cold_start" in data:
        print("### From the start of `eacgm record -p` to the first whole stack\n")
        table(["cache", "median s of %d" % s["starts"], "longest s", "tables read in ms", "files",
               "from the cache", "tables MB"], [[
                   r["cache"], "%.2f" % r["first_whole_s"], "%.2f" % r["longest_s"],
                   "%.0f" % r["unwind_ms"], r["files"], "%.0f" % r["cached"],
                   "%.1f" % r["rules_mb"]] for r in data["cold_start"]])
    if "shares" in data:
        shares(data["shares"], s["shares_seconds"])


def shares(rows, seconds):
    names = list(rows[0]["shares"])
    print("### Shares of CPU time over %g s: known, seen, %%\n" % seconds)
    table(["CPython", "samples", "whole stacks", *("`%s`" % n for n in names), "most off, points"],
          [[r["python"], r["samples"], "%.1f %%" % (100 * r["whole"]),
            *("%.1f, %.1f" % (100 * r["shares"][n]["known"], 100 * r["shares"][n]["seen"])
              for n in names), "%.2f" % (100 * r["worst_points"])] for r in rows])


def scaled(fmt, row, key, scale=1):
    return optional(fmt, row[key] * scale if key in row else None)


PARTS = (("overhead", overhead), ("probe_cost", probe_cost), ("pipeline", pipeline),
         ("profile_cost", profile_cost))


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "build/bench"
    absent = []
    for name, show in PARTS:
        path = os.path.join(folder, name + ".json")
        try:
            with open(path) as f:
                data = json.load(f)
        except FileNotFoundError:
            absent.append(path)
            continue
        print("## %s\n" % name)
        head(data)
        show(data)
    if absent:
        print("to_markdown.py: not there: %s" % ", ".join(absent), file=sys.stderr)
    return 1 if len(absent) == len(PARTS) else 0


if __name__ == "__main__":
    sys.exit(main())
