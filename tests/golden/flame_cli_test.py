"""Flame graphs and reports of the profile sample, from the command line.

The sample is tests/golden/recordings/v1_profile.eacgm; profile_sample.h says what is in it. With
EACGM_UPDATE_GOLDENS=1 the files in tests/golden/export/ are written anew: look at the
difference before committing it. Needs no root. Prints TAP.
"""
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GOLDENS = HERE / "export"
SAMPLE = HERE / "recordings" / "v1_profile.eacgm"
NO_SAMPLES = HERE / "recordings" / "v1.eacgm"
EACGM = os.path.abspath(os.environ.get("EACGM", ROOT / "build/eacgm"))
UPDATE = os.environ.get("EACGM_UPDATE_GOLDENS") == "1"
KINDS = ("cpu", "offcpu", "gpu", "gpu-alloc", "gpu-inuse", "pinned")
FORMATS = {"svg": "svg", "folded": "folded", "pprof": "pb.gz", "speedscope": "speedscope.json"}
TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


def eacgm(*args, status=0, **kw):
    kw.setdefault("stdout", subprocess.PIPE)
    done = subprocess.run([EACGM, *map(str, args)], stderr=subprocess.PIPE, check=False,
                          timeout=60, **kw)
    assert done.returncode == status, \
        f"eacgm {args} ended with {done.returncode}: {done.stderr.decode()}"
    return done


def folded(*args):
    """The stacks and their weights."""
    text = eacgm("flame", *args, "-f", "folded", "-o", "-").stdout.decode()
    rows = [line.rsplit(" ", 1) for line in text.splitlines()]
    return {stack: int(weight) for stack, weight in rows}


def compare(name, got):
    path = GOLDENS / name
    if UPDATE:
        path.write_text(got)
    assert path.read_text() == got, f"{name} is not what was expected:\n{got}"


@test
def every_kind_equals_its_golden(folder):
    text = ""
    for kind in KINDS:
        stacks = folded(SAMPLE, "-k", kind)
        text += f"{kind}\n" + "".join(f"  {k} {stacks[k]}\n" for k in sorted(stacks))
    compare("flame.txt", text)


@test
def reports_equal_their_goldens(folder):
    shutil.copy(SAMPLE, folder / "profile.eacgm")
    report = eacgm("report", "profile.eacgm", cwd=folder).stdout.decode()
    compare("profile_report.txt", report)
    report = eacgm("report", "profile.eacgm", "--json", cwd=folder).stdout.decode()
    compare("profile_report.json", report)
    profile = json.loads(report)["profile"]
    assert profile["samples"] == 1000 and profile["period_ns"] == 10_000_000
    assert round(profile["whole_ratio"], 6) == round(990 / 999, 6)  # of those that were taken
    assert profile["no_stack_ratio"] == 0.001
    assert profile["end_reasons"] == {"no_rules": 9, "not_taken": 1}
    top = profile["functions"][0]
    assert (top["name"], top["self_ratio"]) == ("[libblas.so.3]", 0.6), top
    assert profile["offcpu"]["reasons"]["gil"] == {"waits": 20, "total_ns": 10**9}


@test
def options_choose(folder):
    whole = sum(folded(SAMPLE).values())
    assert whole == 10 * 10**9, whole
    assert sum(folded(SAMPLE, "--thread", "701").values()) == 10**9
    assert sum(folded(SAMPLE, "--from", "6", "--to", "7.5").values()) == 1500 * 10**6
    assert sum(folded(SAMPLE, "--from", "6000ms", "--to", "0.125m").values()) == 1500 * 10**6
    threads = {stack.split(";")[0] for stack in folded(SAMPLE, "--threads")}
    assert threads == {"main", "pt_autograd_0"}, threads
    assert any("train (train.py:20)" in s for s in folded(SAMPLE, "--lines"))
    assert any("_PyEval_EvalFrameDefault" in s for s in folded(SAMPLE, "--native"))
    assert not any("_PyEval_EvalFrameDefault" in s for s in folded(SAMPLE))
    woken = [s for s in folded(SAMPLE, "-k", "offcpu", "--wakers") if "woken by" in s]
    assert len(woken) == 1 and woken[0].endswith("[gil];woken by pt_autograd_0"), woken
    for at, want in {"peak": 3 << 20, "end": 3 << 20, "0.15": 1 << 20}.items():
        assert sum(folded(SAMPLE, "-k", "gpu-inuse", "--at", at).values()) == want, at


@test
def the_default_name_lies_beside_the_recording(folder):
    shutil.copy(SAMPLE, folder / "run.eacgm")
    names = {"run.eacgm"}
    for form, ending in FORMATS.items():
        eacgm("flame", folder / "run.eacgm", "-f", form)
        names.add(f"run.cpu.{ending}")
    eacgm("flame", folder / "run.eacgm", "-k", "gpu")
    eacgm("flame", folder / "run.eacgm", "--diff", SAMPLE)
    assert set(os.listdir(folder)) == names | {"run.gpu.svg", "run.cpu.diff.svg"}
    assert all((folder / n).stat().st_size > 100 for n in os.listdir(folder))


@test
def a_recording_against_itself_has_no_difference(folder):
    text = eacgm("flame", SAMPLE, "--diff", SAMPLE, "-f", "folded", "-o", "-").stdout.decode()
    for line in text.splitlines():
        _, base, now = line.rsplit(" ", 2)
        assert base == now, line


@test
def standard_output_may_be_a_file(folder):
    """It is written to and not replaced, which as root would hit /dev/stdout itself."""
    shutil.copy(NO_SAMPLES, folder / "run.eacgm")
    for args in (("flame", SAMPLE, "-f", "folded"), ("export", folder / "run.eacgm", "-f", "csv")):
        want = eacgm(*args, "-o", "-").stdout
        with (folder / "out").open("wb") as out:
            eacgm(*args, "-o", "-", stdout=out)
        assert (folder / "out").read_bytes() == want and want
    assert os.path.islink("/dev/stdout")


@test
def a_signal_ends_the_wait_for_a_reader(folder):
    os.mkfifo(folder / "fifo")
    for sent in (signal.SIGTERM, signal.SIGINT):
        for opened in (False, True):  # nobody opens the pipe; nobody reads from it
            reader = os.open(folder / "fifo", os.O_RDONLY | os.O_NONBLOCK) if opened else None
            if opened:
                fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
            with subprocess.Popen([EACGM, "flame", str(SAMPLE), "-o", "fifo"], cwd=folder,
                                  stderr=subprocess.DEVNULL) as flame:
                time.sleep(0.5)
                assert flame.poll() is None
                flame.send_signal(sent)
                try:
                    assert flame.wait(timeout=10) == -sent
                finally:
                    flame.kill()
            if opened:
                os.close(reader)


@test
def a_reader_that_goes_away_is_an_error(folder):
    reader, writer = os.pipe()
    os.close(reader)
    done = eacgm("flame", SAMPLE, "-o", "-", status=1, stdout=writer)
    os.close(writer)
    text = done.stderr.decode()
    assert "Broken pipe" in text and text.count("\n") == 1, text


@test
def failures_say_what_is_wrong_and_leave_nothing(folder):
    def fails(*args, says, status=1):
        done = eacgm("flame", *args, status=status, cwd=folder)
        text = done.stderr.decode()
        assert says in text and text.count("\n") == 1 and not done.stdout, text

    fails(NO_SAMPLES, says="record with '--profile cpu'")
    fails(NO_SAMPLES, "-k", "offcpu", says="record with '--profile offcpu'")
    fails(SAMPLE, "-k", "disk", says="takes one of cpu|offcpu|gpu|gpu-alloc|gpu-inuse|pinned",
          status=2)
    fails(SAMPLE, "--at", "peak", says="'--at' is for '--kind gpu-inuse'", status=2)
    fails(SAMPLE, "-k", "gpu-inuse", "--at", "noon", says="'--at' takes a time of",
          status=2)
    fails(SAMPLE, "--from", "3m", says="--from 180 s is after the end: the recording is ")
    fails(SAMPLE, "--from", "5", "--to", "4", says="'--to' must be later", status=2)
    fails(SAMPLE, "--process", "1", says="nothing of that kind is in what was asked for")
    fails(SAMPLE, "-k", "gpu-inuse", "--level", "torch", says="use '--level driver'")
    fails(SAMPLE, "--diff", NO_SAMPLES, says="v1.eacgm: the recording has no CPU samples")
    fails(SAMPLE, "-o", "none/out", says="cannot write 'none/out': No such file or directory")
    fails(SAMPLE, "-o", "/dev/full", says="No space left on device")
    fails("absent.eacgm", says="absent.eacgm")
    assert not os.listdir(folder), os.listdir(folder)


@test
def speedscope_is_in_order_of_time(folder):
    """A profile for each thread, with nothing where it did not run; then all of it by stack."""
    for kind in ("cpu", "offcpu"):
        eacgm("flame", SAMPLE, "-k", kind, "-f", "speedscope", "-o", folder / "out")
        file = json.loads((folder / "out").read_text())
        threads = file["profiles"][:-1] or file["profiles"]  # of one thread it is the whole
        weights = {p["name"]: sum(w for s, w in zip(p["samples"], p["weights"]) if s)
                   for p in threads}
        total = sum(folded(SAMPLE, "-k", kind).values())
        assert sum(weights.values()) == total, (kind, weights, total)
        assert len(threads) == 1 or file["profiles"][-1]["endValue"] == total, kind
        assert list(weights.values()) == sorted(weights.values(), reverse=True), weights
        assert all(sum(p["weights"]) == p["endValue"] for p in threads)
    eacgm("flame", SAMPLE, "-f", "speedscope", "-o", folder / "out")
    file = json.loads((folder / "out").read_text())
    main, autograd, _ = file["profiles"]
    assert autograd["name"] == "pt_autograd_0 (pid 700, tid 701)", autograd["name"]
    leaf = [file["shared"]["frames"][s[-1]]["name"] if s else "" for s in autograd["samples"]]
    ran = list(zip(leaf, (w // 1_000_000 for w in autograd["weights"])))
    assert ran == [(leaf[0], 900), ("", 90), (leaf[2], 90), ("", 910), (leaf[4], 10)], ran
    # what is compared with another recording, and what has no time, is by stack
    for options in (("--diff", SAMPLE), ("-k", "gpu")):
        eacgm("flame", SAMPLE, *options, "-f", "speedscope", "-o", folder / "out")
        names = [p["name"] for p in json.loads((folder / "out").read_text())["profiles"]]
        assert len(names) == (2 if "--diff" in options else 1), names


def main():
    print(f"1..{len(TESTS)}")
    bad = 0
    for number, fn in enumerate(TESTS, 1):
        name = fn.__name__.replace("_", " ")
        with tempfile.TemporaryDirectory(prefix="eacgm-flame-") as folder:
            try:
                fn(pathlib.Path(folder))
                print(f"ok {number} - {name}")
            except (AssertionError, OSError, ValueError, KeyError,
                    subprocess.TimeoutExpired) as e:
                bad += 1
                print(f"not ok {number} - {name}\n# {type(e).__name__}: {e}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
