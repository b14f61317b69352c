"""eacgm detect, from the command line: tables of numbers, and recordings that the tests keep.

Needs no root. Prints TAP.
"""
import csv
import json
import math
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SAMPLE = HERE / "recordings" / "v1_gpu.eacgm"
EACGM = os.path.abspath(os.environ.get("EACGM", ROOT / "build/eacgm"))
TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


def eacgm(*args, status=0, **kw):
    done = subprocess.run([EACGM, *map(str, args)], capture_output=True, text=True, check=False,
                          timeout=120, **kw)
    assert done.returncode == status, \
        f"eacgm {args} ended with {done.returncode}: {done.stderr}"
    return done


def found(*args, **kw):
    return json.loads(eacgm("detect", *args, "--json", **kw).stdout)


def draw(count, seed):
    """y follows x; a second group has another mean."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        x = rng.gauss(0, 1)
        rows.append((x, 10 * x + rng.gauss(0, 1)) if rng.random() < 0.8
                    else (9 + x, rng.gauss(0, 1)))
    return rows


def write(path, rows, names=("x", "y")):
    with open(path, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(names)
        writer.writerows(rows)
    return path


def learn(folder, count=5000):
    path = write(folder / "normal.csv", draw(count, 1))
    said = eacgm("learn", path, "-o", folder / "m.model", "--json", "-k", 2).stdout
    return json.loads(said)


def densities(said, row):
    """By component, of two columns."""
    ret = []
    for mean, ((a, b), (_, d)) in zip(said["means"], said["covariances"]):
        det = a * d - b * b
        x, y = row[0] - mean[0], row[1] - mean[1]
        distance = (d * x * x - 2 * b * x * y + a * y * y) / det
        ret.append(-0.5 * distance - math.log(2 * math.pi * math.sqrt(det)))
    return ret


# Of these two the columns are usual each by itself, not together.
ODD = [(2.0, -20.0), (-1.5, 15.0)]


@test
def rows_that_are_not_normal_are_found_and_explained(folder):
    learn(folder)
    rows = draw(300, 2)
    rows[100:100] = ODD
    rows.append((0.0, 12.0))
    path = write(folder / "x.csv", [*rows, ("nan", 1.0)])
    said = found(path, "-m", folder / "m.model", "--p", "1e-5")
    assert said["kind"] == "table" and said["rows"] == 304 and said["rows_not_finite"] == 1
    assert [a["row"] for a in said["anomalies"]] == [101, 102, 303], said["anomalies"]
    for a in said["anomalies"]:
        assert a["p_value"] < 1e-5 and 0 < sum(c["share_ratio"] for c in a["columns"]) <= 1 + 1e-9
    last = said["anomalies"][2]
    assert last["why"].startswith("y is 12 where ") and last["columns"][1]["value"] == 12
    text = eacgm("detect", path, "-m", folder / "m.model", "--p", "1e-5").stdout.splitlines()
    assert text[0] == f"{path}: 3 of 304 rows are not normal (p below 1e-05)", text[0]
    assert text[1] == "  1 row is not judged: not finite", text[1]
    assert [line.split()[0] for line in text[4:]] == ["101", "102", "303"], text
    few = eacgm("detect", path, "-m", folder / "m.model", "--p", "1e-5", "-n", 1).stdout
    assert "... and 2 more" in few and " 101 " in few and " 102 " not in few


@test
def p_values_are_calibrated(folder):
    learn(folder, 20000)
    path = write(folder / "other.csv", draw(20000, 3))
    for p in (0.1, 0.01, 0.001):
        count = len(found(path, "-m", folder / "m.model", "--p", p)["anomalies"])
        # within five standard deviations of the count, and a tenth for the model's own error
        assert abs(count - 20000 * p) <= 5 * math.sqrt(20000 * p) + 2000 * p, (p, count)
    usual = found(path, "-m", folder / "m.model")
    assert usual["p"] == 0.001 and usual["delta"] is None


@test
def delta_is_the_density_under_the_likeliest_component(folder):
    model = learn(folder)
    rows = draw(500, 4) + ODD
    path = write(folder / "x.csv", rows)
    for delta in (1e-2, 1e-4, 1e-9):
        said = found(path, "-m", folder / "m.model", "--delta", delta)
        want = [i + 1 for i, row in enumerate(rows)
                if max(densities(model, row)) < math.log(delta)]
        assert [a["row"] for a in said["anomalies"]] == want, (delta, want)
        assert said["p"] is None and math.isclose(said["delta"], delta)


@test
def columns_go_by_name(folder):
    learn(folder)
    rows = draw(50, 5) + ODD
    path = write(folder / "x.csv", rows)
    mixed = write(folder / "mixed.csv", [(y, 7, x) for x, y in rows], ("y", "other", "x"))
    one, other = (found(p, "-m", folder / "m.model")["anomalies"] for p in (path, mixed))
    assert one == other and len(one) >= 2


@test
def every_row_is_written(folder):
    model = learn(folder)
    rows = draw(2500, 6) + ODD
    path = write(folder / "x.csv", [*rows, ("", 1.0)])
    said = found(path, "-m", folder / "m.model", "--rows", folder / "rows.jsonl")
    told = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert [t["row"] for t in told] == list(range(1, 2504))
    assert [t["row"] for t in told if t["alarmed"]] == [a["row"] for a in said["anomalies"]]
    for row, t in zip(rows, told):
        each = densities(model, row)
        mixed = math.log(sum(w * math.exp(v) for w, v in zip(model["weights"], each)))
        assert math.isclose(-mixed, t["score"], rel_tol=1e-9, abs_tol=1e-9)
        assert math.isclose(max(each), t["likeliest_log_density"], rel_tol=1e-9, abs_tol=1e-9)
        assert t["component"] == 1 + each.index(max(each))
    last = told[-1]
    assert last["score"] is None and last["p_value"] is None and not last["alarmed"]
    ranks = sorted(told[:-1], key=lambda t: t["score"])
    assert all(a["p_value"] >= b["p_value"] for a, b in zip(ranks, ranks[1:]))


@test
def the_exit_status_tells_only_where_asked(folder):
    learn(folder)
    odd, good = write(folder / "odd.csv", ODD), write(folder / "good.csv", [(0.0, 0.0)])
    eacgm("detect", odd, "-m", folder / "m.model")
    eacgm("detect", odd, "-m", folder / "m.model", "--exit-code", status=3)
    done = eacgm("detect", good, "-m", folder / "m.model", "--exit-code")
    assert "0 of 1 rows are not normal" in done.stdout, done.stdout


@test
def a_full_disk_leaves_nothing(folder):
    learn(folder)
    path = write(folder / "x.csv", draw(500, 7))
    (folder / "rows.jsonl").write_text("before")
    done = eacgm("detect", path, "-m", folder / "m.model", "--rows", folder / "rows.jsonl",
                 status=1,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
    assert "cannot write" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert set(os.listdir(folder)) == {"normal.csv", "m.model", "x.csv", "rows.jsonl"}
    assert (folder / "rows.jsonl").read_text() == "before"
    done = eacgm("detect", path, "-m", folder / "m.model", "--rows", "/dev/full", status=1)
    assert "cannot write '/dev/full'" in done.stderr, done.stderr


@test
def interruption_leaves_nothing(folder):
    learn(folder)
    rng = random.Random(10)
    write(folder / "x.csv", [(rng.random(), rng.random()) for _ in range(200000)])
    (folder / "rows.jsonl").write_text("before")
    names = set(os.listdir(folder))
    with subprocess.Popen([EACGM, "detect", "x.csv", "-m", "m.model", "--rows", "rows.jsonl"],
                          cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as detect:
        deadline = time.monotonic() + 60
        while set(os.listdir(folder)) == names:  # until it writes
            assert detect.poll() is None and time.monotonic() < deadline
            time.sleep(0.002)
        detect.send_signal(signal.SIGINT)
        detect.communicate(timeout=60)
        assert detect.returncode == -signal.SIGINT, detect.returncode
    assert set(os.listdir(folder)) == names
    assert (folder / "rows.jsonl").read_text() == "before"


@test
def failures_say_what_is_wrong(folder):
    def fails(*args, says, status=1):
        done = eacgm("detect", *args, status=status, cwd=folder)
        assert says in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert not done.stdout, done.stdout

    learn(folder)
    write(folder / "x.csv", draw(10, 8))
    write(folder / "z.csv", [(1.0, 2.0)], ("x", "z"))
    write(folder / "few.csv", draw(15, 9))
    eacgm("learn", "few.csv", "-o", "few.model", "-k", 1, cwd=folder)
    text = (folder / "m.model").read_text()
    (folder / "cut.model").write_text(text[:len(text) // 2])
    (folder / "newer.model").write_text(text.replace('"eacgm_model":1', '"eacgm_model":2'))
    said = json.loads(text)
    said["layers"]["table"]["weights"][0] = 0.9
    (folder / "damaged.model").write_text(json.dumps(said))
    fails("x.csv", says="a table (.csv) needs a model", status=2)
    fails("x.csv", "-m", "m.model", "--p", "1", "--delta", "1", says="exclude each other",
          status=2)
    fails("x.csv", "-m", "m.model", "--delta", "nan", says="'--delta' takes a number", status=2)
    fails("x.csv", "-m", "m.model", "--events", "e.csv", says="--events is for recordings",
          status=2)
    fails("absent.csv", "-m", "m.model", says="cannot read 'absent.csv': No such file")
    fails("x.csv", "-m", "absent", says="cannot read 'absent': No such file")
    fails("x.csv", "-m", "x.csv", says="'x.csv' is not a model of 'eacgm learn'")
    fails("x.csv", "-m", "cut.model", says="'cut.model' is not a model of 'eacgm learn'")
    fails("x.csv", "-m", "newer.model", says="'newer.model' is of version 2")
    fails("x.csv", "-m", "damaged.model", says="'damaged.model' is a damaged model: 'table': ")
    fails("x.csv", "-m", "few.model", says="from too few rows to know p-values: use --delta")
    eacgm("detect", "x.csv", "-m", "few.model", "--delta", "1e-3", cwd=folder)
    fails("z.csv", "-m", "m.model", says="'z.csv' has no column 'y'")
    fails("x.csv", "-m", "m.model", "--rows", "/nonexistent/r", says="cannot write")


def main():
    print(f"1..{len(TESTS)}")
    bad = 0
    for number, fn in enumerate(TESTS, 1):
        name = fn.__name__.replace("_", " ")
        with tempfile.TemporaryDirectory(prefix="eacgm-detect-") as folder:
            try:
                fn(pathlib.Path(folder))
                print(f"ok {number} - {name}")
            except (AssertionError, OSError, ValueError, KeyError, IndexError, StopIteration,
                    subprocess.TimeoutExpired) as e:
                bad += 1
                print(f"not ok {number} - {name}\n# {type(e).__name__}: {e}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
