"""Exported traces in Perfetto's own trace processor, where `trace_processor_shell` (or
`trace_processor`) is in PATH: what SQL finds in them is what perfetto_check.py finds, and nothing
is an error. Where the folder PERFETTO_PROTOS has Perfetto's repository or its `protos`, its schema
decodes traces to the same text as ours, field by field. Needs no root. Prints TAP.
"""
import csv
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import perfetto_check

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTO = ROOT / "src/export/perfetto.proto"
RECORDINGS = sorted((ROOT / "tests/golden/recordings").glob("*.eacgm"))
EACGM = os.path.abspath(os.environ.get("EACGM", ROOT / "build/eacgm"))
SHELL = shutil.which("trace_processor_shell") or shutil.which("trace_processor")
PROTOS = os.environ.get("PERFETTO_PROTOS")
COUNTS = """select
  (select count(*) from slice) as slices,
  (select count(*) from counter) as counters,
  (select count(*) from perf_sample) as samples,
  (select count(distinct utid) from thread_track) as threads,
  (select count(*) from flow) as flows,
  (select count(*) from stats where severity = 'error' and value > 0) as errors"""
ORDER = """select tid from thread join thread_track using (utid) group by utid
  order by extract_arg(thread.arg_set_id, 'thread_sort_index_hint')"""


def exported(recording, folder):
    out = pathlib.Path(folder) / "trace"
    subprocess.run([EACGM, "export", recording, "-f", "perfetto", "-o", out], check=True,
                   timeout=60, capture_output=True)
    return out


def rows(trace, sql):
    query = trace.with_name("query.sql")
    query.write_text(sql)
    done = subprocess.run([SHELL, "-q", query, trace], check=True, timeout=120,
                          capture_output=True)
    return list(csv.DictReader(io.StringIO(done.stdout.decode())))


def in_the_trace_processor(recording, folder):
    trace = exported(recording, folder)
    t = perfetto_check.Trace(perfetto_check.parse(perfetto_check.decode(trace, PROTO)))
    tracks = {id(r): r for r in (s["track"] for s in t.slices + t.instants)}
    threads = [r for r in tracks.values() if r["kind"] == "thread"]
    want = {"slices": len(t.slices) + len(t.instants),
            "counters": sum(map(len, t.counters.values())), "samples": len(t.samples),
            "flows": len(t.flows), "errors": 0}
    got, = rows(trace, COUNTS)
    got = {k: int(v) for k, v in got.items()}
    assert {k: got[k] for k in want} == want, (got, want)
    order = [int(row["tid"]) for row in rows(trace, ORDER)]
    wanted = [r["tid"] for r in sorted(threads, key=lambda r: r["rank"])]
    assert [tid for tid in order if tid in wanted] == wanted, (order, wanted)


def by_perfettos_schema(recording, folder):
    trace = exported(recording, folder)
    root = pathlib.Path(PROTOS)
    root = root.parent if root.name == "protos" else root
    with trace.open("rb") as f:
        done = subprocess.run(
            ["protoc", f"--proto_path={root}", "--decode=perfetto.protos.Trace",
             "protos/perfetto/trace/trace.proto"], stdin=f, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    ours, theirs = perfetto_check.decode(trace, PROTO), done.stdout.decode()
    for number, (a, b) in enumerate(zip(ours.splitlines(), theirs.splitlines()), 1):
        assert a == b, f"line {number}: ours {a!r}, Perfetto's {b!r}"
    assert ours == theirs, f"{len(ours)} bytes, {len(theirs)} by Perfetto's schema"


def main():
    checks = [fn for fn, there in ((in_the_trace_processor, SHELL), (by_perfettos_schema, PROTOS))
              if there]
    if not checks or not shutil.which("protoc"):
        print("1..0 # skip neither trace_processor_shell nor PERFETTO_PROTOS is here, or no protoc")
        return 0
    cases = [(fn, recording) for fn in checks for recording in RECORDINGS]
    print(f"1..{len(cases)}")
    bad = 0
    for number, (fn, recording) in enumerate(cases, 1):
        name = f"{recording.name} {fn.__name__.replace('_', ' ')}"
        with tempfile.TemporaryDirectory(prefix="eacgm-perfetto-") as folder:
            try:
                fn(recording, folder)
                print(f"ok {number} - {name}")
            except (AssertionError, perfetto_check.Bad, OSError, ValueError, KeyError,
                    subprocess.SubprocessError) as e:
                bad += 1
                print(f"not ok {number} - {name}\n# {type(e).__name__}: {e}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
