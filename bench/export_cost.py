#!/usr/bin/env python3
"""export_cost.py - time, memory and bytes of a recording in every format, and of queries of it.

On a made recording of a training (recording_bench.c: operators and Python frames). The formats are
written in turns, the order changing; then the same queries are asked of the recording and of its
database."""

import argparse
import os
import statistics
import sys
import tempfile

import common

FORMATS = ("csv", "jsonl", "sqlite", "perfetto", "chrome")
QUERIES = {
    "functions": "SELECT * FROM functions ORDER BY total_ns DESC LIMIT 10",
    "calls by thread": "SELECT tid, count(*), sum(duration_ns) FROM calls GROUP BY tid",
    "calls by name": "SELECT layer, name, sum(duration_ns) FROM calls GROUP BY layer, name",
    "all arguments": "SELECT sum(length(args)) FROM calls",
}


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_common(p)
    p.add_argument("--calls", type=int, default=1_000_000, help="default: %(default)s")
    p.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    p.add_argument("--limit", type=int, default=300, help="seconds that one run may take")
    return p.parse_args()


def measured(args, words):
    """CPU seconds, wall seconds, the most bytes of memory."""
    with tempfile.NamedTemporaryFile("r") as told:
        ran = common.run(["/usr/bin/time", "-o", told.name, "-f", "%M", *words], args.limit)
        return ran.cpu_s, ran.wall_s, int(told.read()) * 1024


def medians(runs):
    return dict(zip(("cpu_s", "wall_s", "bytes"), map(statistics.median, zip(*runs))))


def formats(args, eacgm, path, folder):
    runs, sizes = {form: [] for form in FORMATS}, {}
    for i in range(args.rounds):
        for form in FORMATS[i % len(FORMATS):] + FORMATS[:i % len(FORMATS)]:
            common.say("%s: %d of %d" % (form, i + 1, args.rounds))
            out = os.path.join(folder, "run." + form)
            runs[form].append(measured(args, [eacgm, "export", path, "-f", form, "-o", out]))
            sizes[form] = os.path.getsize(out)
    return [{"format": form, "file_bytes": sizes[form], **medians(runs[form])} for form in FORMATS]


def queries(args, eacgm, files):
    for name, sql in QUERIES.items():
        runs = {of: [] for of in files}
        for i in range(args.rounds):
            for of, path in files.items():
                common.say("%s of the %s: %d of %d" % (name, of, i + 1, args.rounds))
                runs[of].append(measured(args, [eacgm, "query", path, sql]))
        for of in files:
            yield {"query": name, "of": of, **medians(runs[of])}


def main():
    args = arguments()
    eacgm = os.path.join(args.build, "eacgm")
    results = common.Results("export_cost", eacgm, {"calls": args.calls, "rounds": args.rounds})
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        path = os.path.join(folder, "run.eacgm")
        common.run([os.path.join(args.build, "bench", "recording_bench"), "--write", path,
                    args.calls], args.limit)
        size = os.path.getsize(path)
        exports = formats(args, eacgm, path, folder)
        asked = list(queries(args, eacgm, {
            "recording": path, "database": os.path.join(folder, "run.sqlite")}))
    common.said()
    common.print_table("eacgm export of %d calls, %.1f MB (medians of %d runs)" % (
        args.calls, size / 1e6, args.rounds), ["format", "file MB", "memory MB", "CPU s", "s"], [[
            r["format"], "%.1f" % (r["file_bytes"] / 1e6), "%.0f" % (r["bytes"] / 1e6),
            "%.2f" % r["cpu_s"], "%.2f" % r["wall_s"]] for r in exports])
    common.print_table("eacgm query", ["query", "of the", "memory MB", "CPU s", "s"], [[
        r["query"], r["of"], "%.0f" % (r["bytes"] / 1e6), "%.2f" % r["cpu_s"],
        "%.2f" % r["wall_s"]] for r in asked])
    results["recording_bytes"] = size
    results["exports"], results["queries"] = exports, asked
    results.write(args.json)
    return 0


if __name__ == "__main__":
    sys.exit(common.main_of(main))
