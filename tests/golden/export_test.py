"""Exports and reports of the sample recording: against goldens, and field by field.

The samples are tests/golden/recordings/v1.eacgm and v1_gpu.eacgm; sample.h and gpu_sample.h
say what is in them. With
EACGM_UPDATE_GOLDENS=1 the files in tests/golden/export/ are written anew: look at the
difference before committing it. Needs no root. Prints TAP.
"""
import csv
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
import perfetto_check  # noqa: E402

GOLDENS = HERE / "export"
SAMPLE = HERE / "recordings" / "v1.eacgm"
GPU_SAMPLE = HERE / "recordings" / "v1_gpu.eacgm"
PROTO = ROOT / "src/export/perfetto.proto"
EACGM = os.path.abspath(os.environ.get("EACGM", ROOT / "build/eacgm"))
UPDATE = os.environ.get("EACGM_UPDATE_GOLDENS") == "1"
MS, US, T0 = 1_000_000, 1000, 1_000_000_000_000
TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


def eacgm(*args, cwd=None, status=0, columns=140, **kw):
    done = subprocess.run([EACGM, *map(str, args)], cwd=cwd, capture_output=True, check=False,
                          timeout=60, env=dict(os.environ, COLUMNS=str(columns)), **kw)
    assert done.returncode == status, \
        f"eacgm {args} ended with {done.returncode}: {done.stderr.decode()}"
    return done


def compare(name, got):
    path = GOLDENS / name
    if UPDATE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(got, newline="")
        return
    want = path.open(newline="").read()
    if got == want:
        return
    for number, (a, b) in enumerate(zip(want.splitlines(), got.splitlines()), 1):
        assert a == b, f"{name}:{number}: expected {a!r}, got {b!r}"
    assert False, f"{name}: {len(want.splitlines())} lines expected, got {len(got.splitlines())}"


def exported(folder, form, sample=SAMPLE):
    out = folder / f"sample.{form}"
    eacgm("export", sample, "-f", form, "-o", out)
    return out


@test
def every_format_equals_its_golden(folder):
    for form in ("chrome", "csv", "jsonl"):
        compare(f"sample.{form}", exported(folder, form).open(newline="").read())
        compare(f"gpu.{form}", exported(folder, form, GPU_SAMPLE).open(newline="").read())


@test
def perfetto_equals_its_golden(folder):
    for name, sample in {"sample": SAMPLE, "gpu": GPU_SAMPLE}.items():
        compare(f"{name}.perfetto.txt",
                perfetto_check.decode(exported(folder, "perfetto", sample), PROTO))


@test
def reports_equal_their_goldens(folder):
    shutil.copy(SAMPLE, folder / "sample.eacgm")
    compare("report.txt", eacgm("report", "sample.eacgm", cwd=folder).stdout.decode())
    compare("report.json", eacgm("report", "sample.eacgm", "--json", cwd=folder).stdout.decode())
    shutil.copy(GPU_SAMPLE, folder / "gpu.eacgm")
    compare("gpu_report.txt", eacgm("report", "gpu.eacgm", cwd=folder).stdout.decode())
    compare("gpu_report.json", eacgm("report", "gpu.eacgm", "--json", cwd=folder).stdout.decode())
    one, all_of = (json.loads(eacgm("report", "gpu.eacgm", "--json", *more, cwd=folder).stdout)
                   ["steps"]["processes"][0]["loops"][0] for more in ([], ["--steps"]))
    assert one.pop("steps") is None and len(all_of.pop("steps")) == one["count"] > 1
    assert one == all_of
    compare("report_options.txt",
            eacgm("report", "sample.eacgm", "--layer", "torch", "-l", "cuda", "--sort", "calls",
                  "--top", "2", "--process", "4242", cwd=folder).stdout.decode())


@test
def perfetto_holds_what_the_sample_holds(folder):
    t = perfetto_check.Trace(perfetto_check.parse(
        perfetto_check.decode(exported(folder, "perfetto"), PROTO)))
    processes = {r["pid"]: r["process_name"] for r in t.tracks.values() if r["kind"] == "process"}
    assert processes == {4242: "python3", 4300: "python3"}, processes
    threads = {r["tid"]: (r["pid"], r["thread_name"]) for r in t.tracks.values()
               if r["kind"] == "thread"}
    assert threads == {4242: (4242, "python3"), 4250: (4242, "autograd"),
                       4300: (4300, "python3"), 4301: (4300, "pin_memory")}, threads
    for row in t.tracks.values():
        if row["kind"] == "thread":
            assert t.tracks[row["parent"]]["pid"] == row["pid"]
    places = sorted((r["rank"], r["pid"], r["tid"]) for r in t.tracks.values()
                    if r["kind"] == "thread")
    assert places == [(1, 4242, 4242), (2, 4242, 4250), (3, 4300, 4300), (4, 4300, 4301)], places
    calls = [s for s in t.slices if s["track"]["kind"] == "thread"]
    assert len(calls) == 79 and len(t.instants) == 9 + 1
    check_slices(t)
    check_steps(t)
    check_arguments(t)
    counters = {t.tracks[k]["name"]: v for k, v in t.counters.items()}
    assert counters["cpu_ratio"] == [(T0 + 10 * MS * i, 0.5 + i / 100) for i in range(10)]
    assert counters["rss_bytes"] == [(T0 + 10 * MS * i, 1e9 + i * 1e6) for i in range(10)]
    about = [i for i in t.instants if i["name"] == "recording"][0]
    assert about["args"]["host"] == ("string", "node-1")
    assert about["args"]["lost_ring_full"] == ("string", "7")
    verdict = [s for s in t.slices if s["track"]["name"] == "eACGM verdict"]
    said = [s["name"].split(":")[0] for s in sorted(verdict, key=lambda s: s["depth"])]
    assert said[:2] == ["lost", "incomplete"], said
    assert all((s["start"], s["end"]) == (T0, T0 + 90 * MS) for s in verdict), verdict
    assert "lost: 7 (ring_full 7)" in [s["name"] for s in verdict], verdict


def named(t, name):
    return sorted((s for s in t.slices if s["name"] == name), key=lambda s: s["start"])


def check_steps(t):
    """What repeats: each aten::linear; a step lasts from the end of the one before it."""
    for i in range(10):
        step, = named(t, f"inference {i}")
        end = T0 + 2 * MS + 5 * MS * i + 100 * US + 2 * MS
        assert (step["start"], step["end"]) == (end - (5 if i else 2) * MS, end), (i, step)
        assert step["track"]["name"] == "steps: inference", step
        assert step["args"]["operations"] == ("uint", 1), step


def check_slices(t):
    train, = named(t, "train.py(10): train")
    assert (train["start"], train["end"], train["depth"]) == (T0 + MS, T0 + 61 * MS, 0)
    assert train["categories"] == ["python_function"]
    assert train["place"] == ("/job/train.py", 10, "train"), train["place"]
    shape = {"train.py(20): train.<locals>.step": (0, 4 * MS, 1, "python_function"),
             "aten::linear": (100 * US, 2 * MS, 2, "cpu_op"),
             "aten::addmm": (200 * US, 1500 * US, 3, "cpu_op"),
             "aten::empty": (250 * US, 50 * US, 4, "cpu_op"),
             "cudaLaunchKernel": (500 * US, 10 * US, 4, "cuda_runtime"),
             "cudaStreamSynchronize": (2500 * US, MS, 2, "cuda_runtime")}
    for name, (offset, duration, depth, category) in shape.items():
        rows = named(t, name)
        assert len(rows) == 10, f"{name}: {len(rows)}"
        for i, row in enumerate(rows):
            start = T0 + 2 * MS + 5 * MS * i + offset
            assert (row["start"], row["end"]) == (start, start + duration), (name, i, row)
            assert row["depth"] == depth and row["categories"] == [category], (name, row)
            assert row["track"]["tid"] == 4242
    assert len(named(t, "AddmmBackward0")) == len(named(t, "MmBackward0")) == 5
    marks = sorted(i["start"] for i in t.instants if i["name"] == "foo_mark")
    assert marks == [T0 + 10 * MS * i for i in range(1, 10)]


def check_arguments(t):
    sizes = [s["args"] for s in named(t, "aten::empty")]
    assert sizes == [{"size": ("uint", 4096 * (i + 1))} for i in range(10)], sizes
    failed = named(t, "cudaMalloc")[1]
    assert failed["args"] == {"ptr": ("pointer", 0), "size": ("uint", 1 << 30),
                              "return": ("int", 2), "error": ("bool", True)}, failed["args"]
    assert named(t, "cudaMalloc")[0]["args"]["ptr"] == ("pointer", 0x7F1000000000)
    assert named(t, "cudaMalloc")[2]["args"]["arg_fault"] == ("bool", True)
    assert named(t, "gc.collect")[0]["args"] == {"generation": ("int", 2), "return": ("int", -1)}
    assert named(t, "foo_flag")[0]["args"] == {"on": ("bool", True), "return": ("bool", False)}
    assert [s for s in t.slices if s["name"].endswith(": worker")][0]["args"] == {"open": ("bool", True)}
    assert named(t, "MmBackward0")[4]["args"] == {"unwound": ("bool", True)}
    assert named(t, "cudaLaunchKernel")[0]["args"] == {
        "kernel": ("string", "ampere_sgemm_128x64_tn"), "return": ("int", 0)}


@test
def launches_stand_on_their_streams(folder):
    t = perfetto_check.Trace(perfetto_check.parse(
        perfetto_check.decode(exported(folder, "perfetto", GPU_SAMPLE), PROTO)))
    lanes = [r for r in t.tracks.values() if r["name"] == "stream 0x7000 launches"]
    assert sorted(t.tracks[r["parent"]]["pid"] for r in lanes) == [100, 100, 101], lanes
    ends = [(a["name"], a["track"]["kind"], b["name"][:10], b["track"]["name"])
            for a, b in t.flows.values()]
    stream = "stream 0x7000 launches"
    # two launches in each of the 20 operators; alone: two captured, one of another thread, and
    # ten of a graph
    assert ends.count(("aten::mm", "thread", "sm90_xmma_", stream)) == 20, ends
    assert ends.count(("aten::mm", "thread", "vectorized", stream)) == 20, ends
    assert ends.count(("cuLaunchKernel", "thread", "kernel 0x7", stream)) == 1, ends
    assert ends.count(("cuGraphLaunch", "thread", "cuGraphLau", stream)) == 10, ends
    assert len(ends) == 53, ends
    for a, b in t.flows.values():
        assert a["start"] <= b["start"] and b["end"] <= a["end"], (a, b)
    gemm = [s for s in t.slices if s["track"]["kind"] == "thread"
            and str(s["args"].get("kernel", ("", ""))[1]).startswith("sm90")]
    kernel = gemm[0]["args"].pop("kernel")
    assert gemm[0]["name"] == "cuLaunchKernel" and kernel[0] == "string", (gemm[0], kernel)
    assert gemm[0]["categories"] == ["cuda_driver"], gemm[0]
    assert gemm[0]["args"] == {"grid": ("string", "128,2,1"), "block": ("string", "256,1,1"),
                               "stream": ("pointer", 0x7000),
                               "return": ("string", "CUDA_SUCCESS")}, gemm[0]["args"]
    gpu = [r for r in t.tracks.values() if r["name"] == "GPU 1 NVIDIA H200"]
    assert len(gpu) == 1
    power = [(k, r) for k, r in t.tracks.items() if r["name"] == "power_w"]
    assert len(power) == 2 and all(r["unit_name"] == "W" for _, r in power), power
    assert [t.tracks[r["parent"]]["name"] for _, r in power] == ["GPU 0 NVIDIA H200",
                                                                  "GPU 1 NVIDIA H200"]
    xid, = [i for i in t.instants if i["name"] == "xid"]
    assert xid["track"] is gpu[0] and xid["args"]["text"][1].startswith("31: "), xid


@test
def chrome_arrows_have_two_ends(folder):
    trace = json.loads(exported(folder, "chrome", GPU_SAMPLE).read_text())["traceEvents"]
    starts = {e["id"]: e for e in trace if e["ph"] == "s"}
    ends = {e["id"]: e for e in trace if e["ph"] == "f"}
    assert len(starts) == 53 and starts.keys() == ends.keys()
    for number, start in starts.items():
        assert start["ts"] <= ends[number]["ts"] and start["pid"] == ends[number]["pid"]
        assert start["tid"] < 1 << 22 < ends[number]["tid"]


@test
def reports_of_a_span_of_time(folder):
    def report(*args):
        return json.loads(eacgm("report", GPU_SAMPLE, "--json", *args).stdout)

    cut = report("--from", "3ms", "--to", "0.004")  # the second step of both ranks
    assert cut["cuda"]["launches"] == 4 and cut["cuda"]["captured"] == 0
    assert [s["calls"] for s in cut["syncs"]] == [2]
    assert sum(c["bytes"] for c in cut["collectives"]) == 2 * (4 << 20)
    assert not cut["copies"] and not cut["errors"] and not cut["events"]
    assert {m["live_bytes"] for m in cut["memory"]} == {(1 << 30) + (512 << 20)}
    graph = report("--from", "41ms", "--process", 100)
    assert graph["cuda"]["graph_kernels"] == 20 and graph["cuda"]["launches"] == 0
    bad = eacgm("report", GPU_SAMPLE, "--from", 5, "--to", 5, status=2).stderr.decode()
    assert "'--to' must be later than '--from'" in bad
    bad = eacgm("report", GPU_SAMPLE, "--from", "3m", status=1).stderr.decode()
    assert bad.startswith("eacgm report: --from 180 s is after the end: the recording is "), bad
    bad = eacgm("report", GPU_SAMPLE, "--from", "soon", status=2).stderr.decode()
    assert "'--from' takes a time of" in bad


@test
def chrome_events_nest(folder):
    trace = json.loads(exported(folder, "chrome").read_text())
    open_calls, pairs, last = {}, 0, {}
    for e in trace["traceEvents"]:
        if e["ph"] not in "BE":
            continue
        key = (e["pid"], e["tid"])
        assert e["ts"] >= last.get(key, 0), e
        last[key] = e["ts"]
        if e["ph"] == "B":
            open_calls.setdefault(key, []).append(e)
        else:
            open_calls[key].pop()
            pairs += 1
    assert pairs == 79 and not any(open_calls.values())
    assert sum(e["ph"] == "i" for e in trace["traceEvents"]) == 9
    assert sum(e["ph"] == "C" for e in trace["traceEvents"]) == 20
    assert trace["otherData"]["lost_by_cause"] == {"ring_full": 7, "arg_cut": 1}


@test
def csv_and_jsonl_hold_the_same_calls(folder):
    with exported(folder, "csv").open(newline="") as f:
        rows = list(csv.DictReader(f, strict=True))
    lines = [json.loads(x) for x in exported(folder, "jsonl").read_text().splitlines()]
    calls = [x for x in lines if x["type"] == "call"]
    assert len(calls) == 88 and len(rows) == 88 + 20
    for row, call in zip(rows, calls):
        assert row["type"] == "call"
        assert (int(row["time_ns"]), int(row["duration_ns"]), int(row["pid"]), int(row["tid"])) == \
            (call["start_ns"], call["duration_ns"], call["pid"], call["tid"])
        assert (row["layer"], row["name"], int(row["depth"])) == \
            (call["layer"], call["name"], call["depth"])
        assert row["flags"] == ";".join(call["flags"])
        assert row["file"] == call.get("file", "")
        assert len(list(filter(None, row["args"].split(";")))) == len(call["args"])


@test
def counters_alone(folder):
    with exported(folder, "csv").open(newline="") as f:
        rows = list(csv.DictReader(f, strict=True))
    eacgm("export", SAMPLE, "-f", "csv", "--counters", "-o", folder / "some")
    with (folder / "some").open(newline="") as f:
        assert list(csv.DictReader(f, strict=True)) == [r for r in rows if r["type"] == "counter"]
    said = eacgm("export", SAMPLE, "-f", "jsonl", "--counters", "-o", "-").stdout.splitlines()
    kinds = [json.loads(x)["type"] for x in said]
    assert kinds.count("counter") == 20 and "call" not in kinds
    assert b"--counters is for csv and jsonl" in eacgm(
        "export", SAMPLE, "--counters", "-o", folder / "none", status=2).stderr


@test
def failures_leave_nothing(folder):
    def fails(*args, says):
        done = eacgm("export", *args, status=1, cwd=folder)
        text = done.stderr.decode()
        assert says in text and text.count("\n") == 1, text
        assert not done.stdout

    fails(SAMPLE, "-o", "none/out", says="cannot write 'none/out': No such file or directory")
    fails(SAMPLE, "-f", "csv", "-o", "/dev/full", says="No space left on device")
    fails("absent.eacgm", says="absent.eacgm")
    (folder / "text").write_text("hello, this is no recording at all" * 10)
    fails("text", says="text")
    assert sorted(os.listdir(folder)) == ["text"], os.listdir(folder)
    done = eacgm("export", SAMPLE, "-f", "html", status=2)
    assert done.stderr.decode().startswith("eacgm export: option '-f' takes one of perfetto|")


@test
def the_default_name_lies_beside_the_recording(folder):
    shutil.copy(SAMPLE, folder / "run.eacgm")
    for form, name in {"perfetto": "run.perfetto-trace", "chrome": "run.json", "csv": "run.csv",
                       "jsonl": "run.jsonl"}.items():
        eacgm("export", folder / "run.eacgm", "-f", form)
        assert (folder / name).stat().st_size > 1000
        assert (folder / name).stat().st_mode & 0o777 == 0o666 & ~UMASK
    piped = eacgm("export", folder / "run.eacgm", "-f", "csv", "-o", "-").stdout
    assert piped == (folder / "run.csv").read_bytes()
    assert len(os.listdir(folder)) == 5, os.listdir(folder)


@test
def lines_fit_the_page(folder):
    for sample in sorted(SAMPLE.parent.glob("*.eacgm")):
        for columns, args in itertools.product((60, 80, 100, 120, 200), ([], ["--full"])):
            lines = eacgm("report", sample, *args, columns=columns).stdout.decode()
            wide = [line for line in lines.splitlines() if len(line) > columns]
            assert not wide, f"{sample.name}: beyond {columns} columns: {wide}"
    narrow, wide = (eacgm("report", GPU_SAMPLE, columns=n).stdout for n in (100, 140))
    assert narrow != wide, "COLUMNS makes no difference"


@test
def reports_say_what_is_not_there(folder):
    for args, says in {("--layer", "nope"): "layer 'nope' is not in the recording",
                       ("--process", "1"): "process 1 is not in the recording"}.items():
        done = eacgm("report", SAMPLE, *args, status=1)
        assert done.stderr.decode() == f"eacgm report: {says}\n" and not done.stdout
    done = eacgm("report", SAMPLE, "--top", "many", status=2)
    assert "'--top' takes a number" in done.stderr.decode()


@test
def damage_is_told_and_the_rest_is_read(folder):
    whole = SAMPLE.read_bytes()
    (folder / "torn.eacgm").write_bytes(whole[:len(whole) - 40])
    text = eacgm("report", folder / "torn.eacgm").stdout.decode()
    assert "damaged at byte" in text or "cut short" in text, text
    damage = json.loads(eacgm("report", folder / "torn.eacgm", "--json").stdout)["recording"]
    assert damage["complete"] is False


UMASK = os.umask(0)
os.umask(UMASK)


def main():
    if not shutil.which("protoc"):
        print("1..0 # skip protoc is not installed")
        return 0
    print(f"1..{len(TESTS)}")
    bad = 0
    for number, fn in enumerate(TESTS, 1):
        name = fn.__name__.replace("_", " ")
        with tempfile.TemporaryDirectory(prefix="eacgm-export-") as folder:
            try:
                fn(pathlib.Path(folder))
                print(f"ok {number} - {name}")
            except (AssertionError, perfetto_check.Bad, OSError, ValueError, KeyError,
                    subprocess.TimeoutExpired) as e:
                bad += 1
                print(f"not ok {number} - {name}\n# {type(e).__name__}: {e}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
