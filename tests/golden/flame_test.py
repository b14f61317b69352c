"""Reads the files of flame graphs with readers that are not eacgm's: an XML parser, a JSON
parser against the keys that speedscope's schema requires, protoc, and pprof where Go is there.
"""
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter

import perfetto_check

ROOT = pathlib.Path(__file__).resolve().parents[2]
EACGM = os.path.abspath(os.environ.get("EACGM", ROOT / "build/eacgm"))
# profile_sample.h says what is in it
RECORDING = ROOT / "tests/golden/recordings/v1_profile.eacgm"
BUILD = pathlib.Path(os.environ.get("EACGM_BUILD", ROOT / "build"))
# Of Debian's golang-github-google-pprof-dev (make setup-traced): the schema as google/pprof has it
GOOGLE = BUILD / "protos/usr/share/gocode/src/github.com/google/pprof/proto"
SVG = "{http://www.w3.org/2000/svg}"
TREES = ["training", "differential", "hostile", "deep", "wide", "one", "empty", "bytes", "large",
         "threads"]
TESTS = []


class Skip(Exception):
    pass


def test(fn):
    TESTS.append(fn)
    return fn


# ---- SVG ----

def data(tree, name):
    found = [json.loads(e.text) for e in tree.iter(SVG + "metadata") if e.get("class") == name]
    return [v for part in found for v in part]


@test
def svg_is_xml_and_holds_its_weights(folder):
    for name in TREES:
        root = ET.parse(folder / f"{name}.svg").getroot()
        assert root.tag == SVG + "svg"
        about = next(json.loads(e.text) for e in root.iter(SVG + "metadata")
                     if e.get("class") == "about")
        strings, frames, rows = data(root, "strings"), data(root, "frames"), data(root, "rows")
        width = 7 if about["differential"] else 4
        assert len(rows) % width == 0 and rows
        rows = [rows[i:i + width] for i in range(0, len(rows), width)]
        assert rows[0][0] == 0 and all(r[0] > 0 for r in rows[1:])
        below = [0] * (max(r[0] for r in rows) + 2)
        for depth, frame, total, self_, *_ in reversed(rows):
            assert frame < len(frames)
            assert self_ + below[depth + 1] <= total, (name, depth, total)
            below[depth + 1] = 0
            below[depth] += total
        for kind, string, file, _, library, shade in frames:
            assert max(string, file, library) < len(strings)
            assert kind < len(about["kinds"]) and shade < 3


@test
def svg_keeps_hostile_names(folder):
    root = ET.parse(folder / "hostile.svg").getroot()
    strings = data(root, "strings")
    for text in ("<script>alert(1)</script>", "\"quotes\" and 'quotes' & &amp; &#60;",
                 "]]><![CDATA[ --> <!-- </metadata></style></svg>", "\\u0000\\\"};alert(3);//",
                 "\u2401\u2402\u2409\u240d\u240a\u241b[31m control \u2421"):
        assert text in strings, (text, strings)
    assert len(list(root.iter(SVG + "script"))) == 1
    assert not any(k.startswith("on") or "href" in k for e in root.iter() for k in e.keys())


# ---- speedscope ----

@test
def speedscope_has_what_its_schema_requires(folder):
    for name in TREES:
        file = json.loads((folder / f"{name}.speedscope.json").read_text())
        assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
        frames = file["shared"]["frames"]
        assert all(isinstance(f["name"], str) and f["name"] for f in frames)
        assert all(set(f) <= {"name", "file", "line", "col"} for f in frames)
        assert len(file["profiles"]) == (2 if name == "differential" else 1)
        for p in file["profiles"]:
            assert set(p) == {"type", "name", "unit", "startValue", "endValue", "samples",
                              "weights"}
            assert p["type"] == "sampled" and p["unit"] in ("nanoseconds", "bytes", "none")
            assert len(p["samples"]) == len(p["weights"])
            assert p["startValue"] == 0 and p["endValue"] == sum(p["weights"])
            assert all(0 <= f < len(frames) for s in p["samples"] for f in s)


@test
def speedscope_weights_by_frame(folder):
    file = json.loads((folder / "training.speedscope.json").read_text())
    frames, p = file["shared"]["frames"], file["profiles"][0]
    totals = Counter()
    for stack, weight in zip(p["samples"], p["weights"]):
        for frame in stack:
            totals[frames[frame]["name"]] += weight
    assert totals["train_step"] == 49 * 10**9 and totals["GPT.forward"] == 25500 * 10**6
    step = next(f for f in frames if f["name"] == "train_step")
    assert step == {"name": "train_step", "file": "/home/user/gpt/train.py", "line": 41}


# ---- pprof ----

class Profile:
    """A profile that protoc decoded, with all numbers resolved."""

    def __init__(self, root):
        self.strings = root["string_table"]
        assert self.strings[0] == ""
        one, text = perfetto_check.one, self.text
        functions = {one(f, "id"): (text(f, "name"), text(f, "filename"))
                     for f in root["function"]}
        mappings = {one(m, "id"): text(m, "filename") for m in root["mapping"]}
        self.builds = {text(m, "filename"): text(m, "build_id") for m in root["mapping"]}
        places = {}
        for row in root["location"]:
            line = one(row, "line")
            mapping = one(row, "mapping_id", 0)
            places[one(row, "id")] = functions[one(line, "function_id")] + (
                one(line, "line", 0), mappings[mapping] if mapping else "")
        assert 0 not in places and 0 not in functions and 0 not in mappings
        self.types = [(text(t, "type"), text(t, "unit")) for t in root["sample_type"]]
        assert text(root, "default_sample_type") == self.types[0][0]
        self.samples = []
        for s in root["sample"]:
            labels = {text(row, "key"): text(row, "str") for row in s["label"]}
            self.samples.append(([places[i] for i in s["location_id"]], one(s, "value"), labels))
        self.duration = one(root, "duration_nanos", 0)
        self.period = one(root, "period", 0)

    def text(self, message, field):
        return self.strings[perfetto_check.one(message, field, 0)]


def decode(path, schema, message):
    done = subprocess.run(["protoc", f"--decode={message}", f"--proto_path={schema.parent}",
                           schema.name], input=gzip.decompress(path.read_bytes()),
                          capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return Profile(perfetto_check.parse(done.stdout.decode()))


def check_profiles(folder, schema, message):
    p = decode(folder / "training.pb.gz", schema, message)
    assert p.types == [("cpu", "nanoseconds")] and p.period == 10101010
    assert p.duration == 60 * 10**9
    assert sum(value for _, value, _ in p.samples) == 60 * 10**9
    leaf = next(s for s in p.samples if s[0][0][0].startswith("mkl_"))
    assert leaf[1] == 15 * 10**9 and leaf[2] == {"kind": "native"}
    assert leaf[0][0][3].endswith("libtorch_cpu.so") and leaf[0][-1][0] == "_start"
    assert ("train_step", "/home/user/gpt/train.py", 41, "") in leaf[0]
    assert p.builds["/usr/bin/python3.11"] == "0123456789abcdef0123456789abcdef01234567"
    assert p.builds["/usr/lib/libcudart.so.12"] == ""
    p = decode(folder / "differential.pb.gz", schema, message)
    base = [s for s in p.samples if s[2].get("pprof::base") == "true"]
    assert sum(s[1] for s in base) == -58 * 10**9
    assert sum(s[1] for s in p.samples) == 3 * 10**9
    p = decode(folder / "hostile.pb.gz", schema, message)
    assert p.types == [("cpu", "count")] and len(p.samples) == 12
    assert {"<script>alert(1)</script>", "[unknown]"} <= {s[0][0][0] for s in p.samples}
    p = decode(folder / "bytes.pb.gz", schema, message)
    assert p.types == [("gpu_inuse", "bytes")] and not p.period
    assert len(decode(folder / "deep.pb.gz", schema, message).samples[0][0]) == 5000
    assert not decode(folder / "empty.pb.gz", schema, message).samples
    assert decode(folder / "one.pb.gz", schema, message).samples == \
        [([("main", "", 0, "/bin/one")], 5, {"kind": "native"})]


@test
def pprof_holds_together(folder):
    check_profiles(folder, ROOT / "src/export/profile.proto", "eacgm_pprof.Profile")


@test
def pprof_is_what_google_describes(folder):
    if not (GOOGLE / "profile.proto").exists():
        raise Skip("google's definition could not be had (make setup-traced)")
    check_profiles(folder, GOOGLE / "profile.proto", "perftools.profiles.Profile")


@test
def pprof_opens_in_pprof(folder):
    if not shutil.which("go"):
        raise Skip("golang-go is not installed")

    def top(tree, *args):
        done = subprocess.run(["go", "tool", "pprof", "-top", "-nodecount=0", "-nodefraction=0",
                               *args, folder / f"{tree}.pb.gz"], capture_output=True,
                              check=False, timeout=120, env=dict(os.environ, HOME=str(folder)))
        assert done.returncode == 0, done.stderr
        return [line.split(None, 5) for line in done.stdout.decode().splitlines()]

    rows = {row[5]: row for row in top("training") if len(row) == 6}
    assert rows["train_step"][3] == "49s" and rows["AdamW.step"][0] == "5.50s"
    assert {"<module>", "<import>"} <= set(rows)
    rows = {row[5]: row for row in top("differential") if len(row) == 6}
    assert rows["only_in_base"][0] == "-3s" and rows["train_step"][3] == "5s"
    for name in TREES:
        if name != "empty":
            assert len(top(name)) > 3


# ---- Perfetto ----

@test
def perfetto_has_samples_with_stacks(folder):
    if not RECORDING.exists():
        raise Skip(f"{RECORDING.name} is not there")
    out = folder / "profile.perfetto-trace"
    subprocess.run([EACGM, "export", RECORDING, "-f", "perfetto", "-o", out], check=True,
                   timeout=60, capture_output=True)
    text = perfetto_check.decode(out, ROOT / "src/export/perfetto.proto")
    t = perfetto_check.Trace(perfetto_check.parse(text))
    assert "counter: SW_CPU_CLOCK" in text
    names = Counter("none" if s is None else ">".join(f["name"] for f in s)
                    for _, _, _, s in t.samples)
    loader = "_start>Py_RunMain>main>_PyEval_EvalFrameDefault>Loader.load>cfunction_call>read>" \
        "do_syscall_64"
    assert len(t.samples) == 1000 and names[loader] == 300 and names["none"] == 1, names
    assert names["no_rules>at::_ops::mm::call(at::Tensor const&)"] == 9
    assert Counter(s[:2] for s in t.samples) == {(700, 700): 900, (700, 701): 100}
    frames = {f["name"]: f for s in t.samples for f in s[3] or []}
    assert frames["main"] == {"name": "main", "mapping": "/job/train.py", "address": 2,
                              "line": 50, "source": "/job/train.py", "kind": "KIND_INTERPRETED"}
    assert frames["read"]["mapping"] == "/usr/lib/libc.so.6" and frames["read"]["address"] == 0x7000
    assert frames["do_syscall_64"]["kind"] == "KIND_KERNEL"
    waits = [s for s in t.slices if s["track"]["name"] == "off CPU"]
    assert Counter(w["name"] for w in waits) == {"gil": 20, "disk": 5}
    assert all(t.tracks[w["track"]["parent"]]["tid"] == 700 for w in waits)
    gil = next(w for w in waits if w["name"] == "gil")
    assert gil["args"] == {"waker": ("string", "pt_autograd_0"), "waker_tid": ("uint", 701)}
    assert gil["stack"][-1]["mapping"] == "/usr/lib/libblas.so.3"
    launches = [s for s in t.slices if s["name"] == "cuLaunchKernel"]
    assert sum(s["stack"] is not None for s in launches) == 10
    assert all(s["stack"][-1]["name"] == "cuLaunchKernel" for s in launches if s["stack"])


@test
def perfetto_has_what_gpus_did(folder):
    if not RECORDING.exists():
        raise Skip(f"{RECORDING.name} is not there")
    out = folder / "gpu.perfetto-trace"
    subprocess.run([EACGM, "export", RECORDING, "-f", "perfetto", "-o", out], check=True,
                   timeout=60, capture_output=True)
    t = perfetto_check.Trace(perfetto_check.parse(
        perfetto_check.decode(out, ROOT / "src/export/perfetto.proto")))
    work = sorted(t.gpu_slices(), key=lambda s: s["start"])
    assert all(s["track"] is work[0]["track"] for s in work), work
    device = t.device(work[0])
    assert (work[0]["track"]["name"], device["name"]) == ("stream 0", "GPU 0"), work[0]
    assert t.tracks[device["parent"]]["pid"] == 700
    assert Counter((s["name"], s["end"] - s["start"]) for s in work) == {
        ("sgemm_128x128", 10**6): 640, ("Memcpy HtoD (Unknown -> Device)", 3 * 10**6): 1}
    assert work[0]["start"] == 10**12 + 10**9 + 10**6 and work[0]["args"] == {
        "correlation": ("uint", 100), "device": ("uint", 0), "context": ("uint", 0),
        "stream": ("uint", 0), "kernel": ("string", "sgemm_128x128")}, work[0]
    assert work[-1]["args"]["bytes"] == ("uint", 1 << 20), work[-1]


def main():
    maker = BUILD / "tests/make_flames"
    if not shutil.which("protoc") or not maker.exists():
        print("1..0 # skip protoc is not installed, or make_flames not built")
        return 0
    print(f"1..{len(TESTS)}")
    bad = 0
    with tempfile.TemporaryDirectory(prefix="eacgm-flame-") as folder:
        subprocess.run([maker, folder], check=True, timeout=300)
        for number, fn in enumerate(TESTS, 1):
            name = fn.__name__.replace("_", " ")
            try:
                fn(pathlib.Path(folder))
                print(f"ok {number} - {name}")
            except Skip as why:
                print(f"ok {number} - {name} # skip {why}")
            except (AssertionError, perfetto_check.Bad, OSError, ValueError, KeyError,
                    StopIteration, ET.ParseError, subprocess.SubprocessError) as e:
                bad += 1
                print(f"not ok {number} - {name}\n# {type(e).__name__}: {e}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
