"""eacgm learn, from the command line: tables of numbers, and recordings that the tests keep.

What comes of a table is held against the mixture that its rows were drawn from, and against
densities that are computed here. Needs no root. Prints TAP.
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
import time

from cli import EACGM, RECORDINGS, eacgm, job, main, test

SAMPLE = RECORDINGS / "v1_gpu.eacgm"


def learned(*args, **kw):
    return json.loads(eacgm("learn", *args, "--json", **kw).stdout)


# Two groups whose columns depend on each other: weight, means, and how a row is made of two
# standard normal numbers.
GROUPS = [
    (0.7, (1.0, 50.0), lambda u, v: (u, 8 * u + 6 * v)),
    (0.3, (6.0, -20.0), lambda u, v: (0.5 * u, 3 * v)),
]


def draw(count, seed=1):
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        _, means, make = GROUPS[0] if rng.random() < GROUPS[0][0] else GROUPS[1]
        x, y = make(rng.gauss(0, 1), rng.gauss(0, 1))
        rows.append((means[0] + x, means[1] + y))
    return rows


def write(path, rows, names=("x", "y")):
    with open(path, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(names)
        writer.writerows([[repr(v) if isinstance(v, float) else v for v in row] for row in rows])
    return path


def log_density(said, row):
    """Of two columns."""
    total = 0.0
    for weight, mean, ((a, b), (_, d)) in zip(said["weights"], said["means"],
                                              said["covariances"]):
        det = a * d - b * b
        x, y = row[0] - mean[0], row[1] - mean[1]
        distance = (d * x * x - 2 * b * x * y + a * y * y) / det
        total += weight * math.exp(-0.5 * distance) / (2 * math.pi * math.sqrt(det))
    return math.log(total)


@test
def a_table_gives_the_mixture_that_it_was_drawn_from(folder):
    rows = draw(20000)
    said = learned(write(folder / "x.csv", rows))
    assert said["kind"] == "table" and said["columns"] == ["x", "y"], said
    assert said["rows"] == len(rows) and said["rows_left_out"] == 0 and said["converged"]
    assert said["components"] == 2 and said["bics"][1] == min(said["bics"]) == said["bic"]
    for k, (weight, means, _) in enumerate(sorted(GROUPS, key=lambda g: g[1])):
        at = sorted(range(2), key=lambda i: said["means"][i])[k]
        assert abs(said["weights"][at] - weight) < 0.02
        assert abs(said["means"][at][0] - means[0]) < 0.05
    big = max(range(2), key=lambda i: said["weights"][i])
    (a, b), (c, d) = said["covariances"][big]
    assert b == c and abs(a - 1) < 0.05 and abs(b - 8) < 0.4 and abs(d - 100) < 5
    # the likelihood and BIC are those of these numbers
    mean = sum(log_density(said, row) for row in rows) / len(rows)
    assert math.isclose(mean, said["log_likelihood_mean"], rel_tol=1e-9), mean
    assert math.isclose(mean * len(rows), said["log_likelihood"], rel_tol=1e-9)
    parameters = 1 + 2 * 2 + 2 * 3
    assert math.isclose(said["bic"], -2 * mean * len(rows) + parameters * math.log(len(rows)),
                        rel_tol=1e-9)


@test
def options_are_followed(folder):
    rows = draw(2000) + [("nan", 1.0), ("", 2.0), ("inf", 3.0)]
    path = write(folder / "x.csv", rows)
    for kind in ("full", "diagonal", "tied"):
        said = learned(path, "-k", 3, "--covariance", kind)
        assert said["components"] == 3 and said["covariance"] == kind and said["bics"] == []
        assert said["rows"] == 2000 and said["rows_left_out"] == 3
        assert (kind == "diagonal") == (said["covariances"][0][0][1] == 0)
        assert (kind == "tied") == (said["covariances"][0] == said["covariances"][2])
    assert learned(path, "--seed", 7) == learned(path, "--seed", 7)
    short = learned(path, "-k", 4, "--iterations", 1, "--starts", 1)
    assert short["iterations"] == 1 and not short["converged"]
    assert learned(path, "-k", 1, "--covariance-floor", 10)["covariances"][0][0][0] > 10


@test
def means_to_begin_with_come_from_a_file(folder):
    path = write(folder / "x.csv", draw(3000))
    # columns in another order, one more; each component stays near its mean
    init = write(folder / "init.csv", [(-20.0, 0, 6.0), (50.0, 0, 1.0)], ("y", "other", "x"))
    said = learned(path, "--init", init)
    assert said["components"] == 2
    assert abs(said["means"][0][1] + 20) < 1 and abs(said["means"][1][1] - 50) < 2, said["means"]
    swapped = write(folder / "swapped.csv", [(50.0, 1.0), (-20.0, 6.0)], ("y", "x"))
    other = learned(path, "--init", swapped)
    assert other["means"][0][1] > 0 > other["means"][1][1]
    done = eacgm("learn", path, "--json", "--init", init, "-k", 3, status=1)
    assert "has 2 rows, and there must be one for each of 3 components" in done.stderr
    bad = write(folder / "bad.csv", [(1.0,)], ("x",))
    assert "has no column 'y'" in eacgm("learn", path, "--json", "--init", bad, status=1).stderr


@test
def faults_in_the_table_are_trimmed(folder):
    rng = random.Random(5)
    rows = draw(1800) + [(rng.uniform(-300, 300), rng.uniform(-900, 900)) for _ in range(200)]
    rng.shuffle(rows)
    path = write(folder / "x.csv", rows)
    plain, trimmed = learned(path, "-k", 2), learned(path, "-k", 2, "--trim", 0.15)
    assert trimmed["rows_trimmed"] == 300 and trimmed["rows"] == 2000, trimmed

    def wide(said):
        return max(said["covariances"][k][0][0] for k in range(2))
    assert wide(trimmed) < 3 < wide(plain), (wide(trimmed), wide(plain))


@test
def the_model_is_written_and_told(folder):
    path = write(folder / "x.csv", draw(500))
    done = eacgm("learn", path, "-o", folder / "x.model")
    lines = done.stdout.splitlines()
    assert lines[0] == f"{folder}/x.model: learned from {path}: 500 rows of 2 columns", lines[0]
    assert any(line.startswith("  2 components, full covariance, the best by BIC of 1 to 8")
               for line in lines), done.stdout
    assert sum(" ± " in line for line in lines) == 2, done.stdout
    model = json.loads((folder / "x.model").read_text())
    assert model["eacgm_model"] == 1 and model["kind"] == "table"
    said = learned(path, "-o", folder / "again.model")
    assert said["model"] == str(folder / "again.model")
    assert model["layers"]["table"]["means"] == said["means"]
    assert (folder / "x.model").read_bytes() == (folder / "again.model").read_bytes()
    assert set(os.listdir(folder)) == {"x.csv", "x.model", "again.model"}
    # a pipe is written to as it is
    piped = eacgm("learn", path, "-o", "/dev/stdout", "--json").stdout
    assert piped.startswith((folder / "x.model").read_text())


@test
def recordings_give_a_mixture_of_each_layer(folder):
    paths = [job(folder / f"{i}.eacgm", i, 60) for i in range(2)]
    said = learned(*paths, "-o", folder / "m.model")
    assert said["kind"] == "job" and said["window_ns"] == 1_000_000_000 and said["regimes"] >= 1
    assert 105 <= said["seconds"] <= 115, said["seconds"]  # without their warm-ups
    layers = {layer["layer"]: layer for layer in said["layers"]}
    torch = layers["torch"]
    assert torch["learned"] and torch["keys"] >= 5 and torch["why_not"] is None
    assert 100 <= torch["rows"] <= 115 and len(torch["columns"]) == len(torch["means"][0])
    assert "slowdown" in torch["columns"] and layers["cuda"]["keys"] >= 1
    assert not layers["nccl"]["learned"] and "are needed" in layers["nccl"]["why_not"]
    text = eacgm("learn", *paths, "-o", folder / "again.model").stdout.splitlines()
    assert text[0].startswith(f"{folder}/again.model: learned from "), text[0]
    rows = {line.split()[0]: line for line in text[4:] if line.strip()}
    assert rows["torch"].split()[1] == str(torch["keys"]) and "slowdown" in rows["torch"]
    assert "not learned: 0 rows were recorded" in rows["nccl"], rows["nccl"]
    assert (folder / "m.model").read_bytes() == (folder / "again.model").read_bytes()
    half = learned(*paths, "--window", "0.5", "--warm-up", 20, "-k", 1)
    assert half["window_ns"] == 500_000_000 and 75 <= half["seconds"] <= 85
    torch = next(layer for layer in half["layers"] if layer["layer"] == "torch")
    assert torch["components"] == 1 and 140 <= torch["rows"] <= 165, torch["rows"]


@test
def counters_of_loaders_are_told_apart(folder):
    path = job(folder / "job.eacgm", 1, 60, "loads")
    host = next(layer for layer in learned(path)["layers"] if layer["layer"] == "host")
    helpers = host["helpers"]
    assert host["learned"] and host["columns"] == ["cpu_ratio", "calls_per_s"], host
    assert helpers["columns"] == ["cpu_ratio"], helpers  # it calls nothing
    assert 50 <= host["rows"] <= 60 and 50 <= helpers["rows"] <= 60, host
    lines = eacgm("learn", path, "-o", folder / "m.model").stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("  host "))
    told = [[name, "-", str(said["rows"]), "-", str(said["components"]), *said["columns"]]
            for name, said in (("host", host), ("helpers", helpers))]
    assert [line.replace(",", "").split() for line in lines[at:at + 2]] == told, lines
    # a part of host: set in, and in the same columns
    assert lines[at + 1].startswith("   helpers "), lines
    assert lines[at].index("cpu_ratio") == lines[at + 1].index("cpu_ratio"), lines
    assert lines[at + 2].startswith("  step "), lines
    assert "helpers" in json.loads((folder / "m.model").read_text())
    # neither of them where there are too few of one
    few = job(folder / "few.eacgm", 1, 30, "loads")
    layers = learned(few, "-o", folder / "few.model")["layers"]
    host = next(layer for layer in layers if layer["layer"] == "host")
    assert host["learned"] and "helpers" not in host and host["rows"] > 40, host
    text = eacgm("learn", few, "-o", folder / "few.model").stdout
    assert "  host " in text and "helpers" not in text, text


@test
def ingredients_can_be_left_out(folder):
    path = job(folder / "job.eacgm", 1, 60)
    every = learned(path)
    less = learned(path, "--without", "gaps", "--without", "mixture", "-o", folder / "m.model")
    columns, rest = (next(layer["columns"] for layer in said["layers"]
                          if layer["layer"] == "torch") for said in (every, less))
    assert "gap" in columns and not any(name.startswith("gap") for name in rest), rest
    assert all(layer["components"] == 1 for layer in less["layers"] if layer["learned"])
    assert json.loads((folder / "m.model").read_text())["without"] == 1 << 2 | 1 << 5


@test
def few_and_equal_rows_have_a_result(folder):
    one = learned(write(folder / "one.csv", [(1.0, 2.0)]), "-o", folder / "one.model")
    assert one["components"] == 1 and one["means"] == [[1, 2]] and one["scores"] == 0
    same = learned(write(folder / "same.csv", [(3.0, 4.0)] * 100), "-k", 5)
    assert same["components"] == 1 and same["covariances"][0][0][1] == 0
    done = eacgm("learn", write(folder / "none.csv", [("nan", 1.0)]), "--json", status=1)
    assert done.stderr.count("\n") == 1, done.stderr


@test
def interruption_leaves_nothing(folder):
    rng = random.Random(3)
    write(folder / "x.csv", [[rng.random() for _ in range(8)] for _ in range(60000)], "abcdefgh")
    (folder / "x.model").write_text("before")
    with subprocess.Popen([EACGM, "learn", "x.csv", "-o", "x.model", "-k", "32", "--starts", "1000",
                           "--tolerance", "1e-12"], cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as learn:
        deadline = time.monotonic() + 60
        while learn.poll() is None and time.monotonic() < deadline and \
                int(pathlib.Path(f"/proc/{learn.pid}/io").read_text().split()[1]) < 1000000:
            time.sleep(0.01)
        learn.send_signal(signal.SIGINT)
        learn.communicate(timeout=60)
        assert learn.returncode == -signal.SIGINT, learn.returncode
    assert set(os.listdir(folder)) == {"x.csv", "x.model"}
    assert (folder / "x.model").read_text() == "before"


@test
def a_full_disk_leaves_nothing(folder):
    path = write(folder / "x.csv", draw(500))
    (folder / "x.model").write_text("before")
    done = eacgm("learn", path, "-o", folder / "x.model", status=1,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)))
    assert "cannot write" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert set(os.listdir(folder)) == {"x.csv", "x.model"}
    assert (folder / "x.model").read_text() == "before"
    done = eacgm("learn", path, "-o", "/dev/full", status=1)
    assert "No space left on device" in done.stderr, done.stderr
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([EACGM, "learn", path, "--json"], stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert done.returncode == 1 and "cannot write to the standard output" in done.stderr


@test
def failures_say_what_is_wrong(folder):
    def fails(*args, says, status=1):
        done = eacgm("learn", *args, status=status, cwd=folder)
        assert says in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert not done.stdout, done.stdout

    write(folder / "x.csv", draw(50))
    (folder / "text.csv").write_text("a,b\n1,2\n3,four\n")
    (folder / "wide.csv").write_text(",".join("abcdefghijklmnopq") + "\n")
    (folder / "bare.csv").write_text("1,2\n3,4\n")
    fails("x.csv", says="say with -o where to write", status=2)
    fails("x.csv", "-o", "./x.csv", says="'./x.csv' is what is to be learned from", status=2)
    fails("x.csv", "text.csv", "--json", says="a table (.csv) is learned alone", status=2)
    fails("x.csv", SAMPLE, "--json", says="a table (.csv) is learned alone", status=2)
    fails("x.csv", "--json", "--window", 1, says="--window is for recordings", status=2)
    fails(SAMPLE, "--json", "--init", "x.csv", says="--init is for tables", status=2)
    fails("x.csv", "--json", "-k", 65, says="option '--components' takes a number of 1 to 64", status=2)
    fails("x.csv", "--json", "--trim", "0.6", says="option '--trim' takes a number of 0 to 0.5",
          status=2)
    fails("x.csv", "--json", "--covariance", "round", says="takes one of", status=2)
    fails("absent.csv", "--json", says="cannot read 'absent.csv': No such file")
    fails("text.csv", "--json", says="'text.csv', line 3, column 2 (b): not a number")
    fails("wide.csv", "--json", says="has more than 16 columns")
    fails("bare.csv", "--json", says="the first row must hold the columns' names")
    fails("absent.eacgm", "--json", says="cannot open 'absent.eacgm'")
    fails(".", "--json", says="is not a regular file")
    job(folder / "short.eacgm", 1, 3)
    fails("short.eacgm", "--json", says="too little to learn from")
    fails(__file__, "--json", says="is not")
    os.unlink(folder / "short.eacgm")
    fails("x.csv", "-o", "/nonexistent/m", says="cannot write '/nonexistent/m': No such file")
    assert set(os.listdir(folder)) == {"x.csv", "text.csv", "wide.csv", "bare.csv"}


@test
def a_model_says_how_soon_it_tells(folder):
    job(folder / "clean.eacgm", 1, 90)
    done = eacgm("learn", folder / "clean.eacgm", "-o", folder / "m.model")
    assert "at one alarm an hour, work is told that takes 1.2 x as long after " in done.stdout
    told = learned(folder / "clean.eacgm")["told"]
    assert [t["slowdown_ratio"] for t in told] == [1.2, 1.5, 2], told
    after = [t["after_s"] for t in told]
    assert after[0] >= after[1] >= after[2] >= 1, told


if __name__ == "__main__":
    main()
