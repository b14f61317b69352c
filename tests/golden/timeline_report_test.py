"""What the devices did, in the report and in Perfetto traces: of the recording that
timeline_sample.h describes, against goldens and against what it was made of.

With EACGM_UPDATE_GOLDENS=1 the files in tests/golden/export/ are written anew: look at the
difference before committing it. Needs no root. Prints TAP.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import perfetto_check

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests/golden/export"
PROTO = ROOT / "src/export/perfetto.proto"
EACGM = os.path.abspath(os.environ.get("EACGM", ROOT / "build/eacgm"))
BUILD = pathlib.Path(os.environ.get("EACGM_BUILD", ROOT / "build"))
UPDATE = os.environ.get("EACGM_UPDATE_GOLDENS") == "1"
US, T0 = 1000, 2_000_000_000_000
TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


def eacgm(*args, cwd):
    env = dict(os.environ, COLUMNS="100")
    return subprocess.run([EACGM, *map(str, args)], cwd=cwd, capture_output=True, check=True,
                          timeout=60, env=env).stdout.decode()


def compare(name, got):
    path = GOLDENS / name
    if UPDATE:
        path.write_text(got, newline="")
    want = path.open(newline="").read()
    for number, (a, b) in enumerate(zip(want.splitlines(), got.splitlines()), 1):
        assert a == b, f"{name}:{number}: expected {a!r}, got {b!r}"
    assert want == got, f"{name}: {len(want)} bytes expected, got {len(got)}"


def sections(text, first, last):
    """The sections of a report from the one that begins with first to before last."""
    lines = text.splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.startswith(first))
    to = next((i for i, line in enumerate(lines) if i > at and line.startswith(last)), len(lines))
    return "".join(lines[at:to])


@test
def text_equals_its_golden(folder):
    text = eacgm("report", "t.eacgm", "--full", cwd=folder)
    wide = [line for line in text.splitlines() if len(line) > 100]
    assert not wide, f"beyond 100 columns: {wide}"
    compare("timeline_report.txt", "".join(
        sections(text, first, "\n") for first in ("kernels:", "time on the GPU",
                                                  "copies on the GPU")))
    assert all(len(line) <= 100 for line in sections(text, "time on", "\n").splitlines()), text


@test
def json_says_what_was_made(folder):
    report = json.loads(eacgm("report", "t.eacgm", "--json", cwd=folder))
    got = report["gpu_timeline"]
    assert (got["matched_spans"], got["unmatched_spans"]) == (12, 1), got
    assert (got["unmatched_launches"], got["early_spans"]) == (0, 0), got
    first, second = got["devices"]
    assert (first["pid"], first["device"], first["span_ns"]) == (300, 0, 1725 * US), first
    assert first["busy_ns"] + first["idle_ns"] == first["span_ns"]
    assert first["idle_ns"] == (2 + 26 + 56 + 50 + 1016 + 3) * US, first
    reasons = {g["reason"]: (g["count"], g["total_ns"]) for g in first["gaps"]}
    assert reasons == {"dispatch": (1, 2 * US), "sync": (1, 26 * US), "launch": (1, 56 * US),
                       "dependency": (1, 50 * US), "data": (1, 1016 * US)}, reasons
    assert first["short_gaps"] == 3 and first["short_gaps_ns"] == 3 * US, first
    assert second["collectives_ns"] == second["collectives_alone_ns"] == 500 * US, second
    assert [g["reason"] for g in second["gaps"]] == ["unknown"], second
    copies = {(c["kind"], c["source"]): c for c in got["copies"]}
    pinned = copies["copy", "pinned"]
    assert pinned["overlapped_ns"] == pinned["total_ns"] == 50 * US, pinned
    assert pinned["async"] and abs(pinned["mean_bytes_per_s"] - (1 << 20) / 50e-6) < 1e6, pinned
    assert not copies["copy", "pageable"]["async"] and copies["set", None]["bytes"] == 4096
    kernels = {k["short_name"].split("<")[0]: k["device_ns"] for k in report["kernels"]}
    assert kernels["ncclDevKernel_AllReduce_Sum_f32_RING_LL"] == 500 * US, kernels
    assert kernels["vectorized_elementwise_kernel"] == (95 + 98 + 74 + 44 + 84 + 27) * US, kernels


@test
def a_span_of_time_is_cut_out(folder):
    got = json.loads(eacgm("report", "t.eacgm", "--json", "--from", "2ms",
                           cwd=folder))["gpu_timeline"]
    assert [d["device"] for d in got["devices"]] == [1] and got["matched_spans"] == 2, got


@test
def arrows_lead_from_calls_to_work(folder):
    if not shutil.which("protoc"):
        return
    eacgm("export", "t.eacgm", "-o", "t.trace", cwd=folder)
    text = perfetto_check.decode(folder / "t.trace", PROTO)
    compare("timeline.perfetto.txt", text)
    t = perfetto_check.Trace(perfetto_check.parse(text))
    assert t.work_flows == 12, t.work_flows
    work = t.gpu_slices()
    assert len(work) == 13
    ends = [(rows[0], rows[1]) for n, rows in t.flows.items() if n >= perfetto_check.WORK_FLOW]
    graph = [call for call, _ in ends if call["name"] == "cuGraphLaunch"]
    assert len(graph) == 3 and len({c["start"] for c in graph}) == 1, graph
    starts = {(c["start"] - T0) // US: (w["start"] - T0) // US for c, w in ends}
    assert starts[110] == 202 and starts[2005] == 2012 and starts[460] == 550, starts
    kernel = next(w for c, w in ends if c["start"] == T0 + 100 * US)
    assert kernel["args"]["grid"] == ("string", "128,2,1"), kernel
    assert kernel["args"]["registers"] == ("uint", 32), kernel
    assert kernel["categories"] == ["kernel"] and kernel["args"]["stream"] == ("uint", 7), kernel
    assert kernel["name"].startswith("vectorized_elementwise_kernel<4, CUDAFunctor_add"), kernel
    assert kernel["args"]["kernel"][1].startswith("void at::native::vectorized_elem"), kernel
    others = {(s["categories"][0], s["name"]) for s in work if s["categories"] != ["kernel"]}
    assert others == {("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"),
                      ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)"),
                      ("gpu_memcpy", "Memcpy DtoH (Device -> Unknown)"),
                      ("gpu_memset", "Memset (Device)")}, others
    streams = sorted((t.device(s)["name"], s["track"]["rank"], s["track"]["name"]) for s in work)
    assert sorted(set(streams)) == [("GPU 0", 7, "stream 7"), ("GPU 0", 13, "stream 13"),
                                    ("GPU 1", 7, "stream 7"), ("GPU 1", 20, "stream 20")], streams


def main():
    print(f"1..{len(TESTS)}")
    bad = 0
    for number, fn in enumerate(TESTS, 1):
        name = fn.__name__.replace("_", " ")
        with tempfile.TemporaryDirectory(prefix="eacgm-timeline-") as folder:
            try:
                subprocess.run([BUILD / "tests/make_timeline", f"{folder}/t.eacgm"], check=True)
                fn(pathlib.Path(folder))
                print(f"ok {number} - {name}")
            except (AssertionError, perfetto_check.Bad, OSError, ValueError, KeyError,
                    StopIteration, subprocess.SubprocessError) as e:
                bad += 1
                print(f"not ok {number} - {name}\n# {type(e).__name__}: {e}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
