"""lab/detect/rejudge.c: rows that are learned from and judged without their recordings come to what eacgm
learn and detect come to with them. Needs no root. Prints TAP. lab/detect/rejudge.py is tested in
score_test.py.
"""
import json
import pathlib
import subprocess

from cli import EACGM, eacgm, job, main, test

REJUDGE = pathlib.Path(EACGM).parent / "lab/rejudge"


def rejudge(*args, status=0):
    done = subprocess.run([REJUDGE, *map(str, args)], capture_output=True, text=True, check=False,
                          timeout=120)
    assert done.returncode == status, done.stderr
    return done


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def spans(path):
    keys = ("start_ns", "end_ns", "told_ns", "layer", "pid", "gpu", "windows")
    return sorted([a[k] for k in keys] for a in json.loads(path.read_text())["anomalies"])


def judged_by_eacgm(folder, *learning):
    """A job and one with a fault, by a model of the first: rows as eacgm writes them."""
    job(folder / "clean.eacgm", 1, 90)
    job(folder / "bad.eacgm", 2, 90, 40, 55, 1.6)
    model = folder / "m.model"
    # The job begins with a whole second. Others do not, and of them rejudge knows no more than in
    # which second: the one that the warm-up ends in is left out.
    eacgm("learn", folder / "clean.eacgm", "-o", model, "--seed", 3, "--warm-up", 5.5, *learning)
    for name in ("clean", "bad"):
        said = eacgm("detect", folder / f"{name}.eacgm", "-m", model, "--json", "--rows",
                     folder / name).stdout
        (folder / f"{name}.json").write_text(said)
    return model


def same(folder, out):
    """What rejudge wrote of the job with the fault is what eacgm did. Returns the rows."""
    theirs, ours = rows_of(folder / "bad"), rows_of(out / "bad")
    place = lambda r: (r["start_ns"], r["layer"], r["pid"] or 0)
    by_place = {place(r): r for r in ours}
    assert len(by_place) == len(theirs) == len(ours)
    for r in theirs:
        o = by_place[place(r)]
        assert o["features"] == r["features"] and o["alarmed"] == r["alarmed"], (o, r)
        assert (o["p_value"] is None) == (r["p_value"] is None), (o, r)
        assert r["p_value"] is None or abs(o["p_value"] - r["p_value"]) <= 1e-6, (o, r)
    assert spans(out / "bad.json") == spans(folder / "bad.json")
    return ours


@test
def rows_alone_come_to_what_their_recording_does(folder):
    judged_by_eacgm(folder)
    out = folder / "out"
    out.mkdir()
    said = rejudge("-l", folder / "clean", "-s", 3, "-o", out, folder / "bad")
    ours = same(folder, out)
    layers = {json.loads(line)["layer"] for line in said.stdout.splitlines()}
    assert {"torch", "cuda", "step"} <= layers, layers
    assert sum(r["p_value"] is not None for r in ours) > 200
    alarmed = [r for r in ours if r["alarmed"] and r["layer"] == "torch"]
    assert alarmed and all(1039e9 <= r["start_ns"] <= 1057e9 for r in alarmed), alarmed


@test
def a_model_that_was_learned_judges_rows_as_well(folder):
    model = judged_by_eacgm(folder)
    out = folder / "out"
    out.mkdir()
    (folder / "none").write_text("")
    assert rejudge("-m", model, "-o", out, folder / "none", folder / "bad").stdout == ""
    same(folder, out)
    assert not rows_of(out / "none") and not spans(out / "none.json")


@test
def ingredients_are_left_out_alike(folder):
    judged_by_eacgm(folder, "--without", "cusum", "--without", "cleaning", "--without", "mixture")
    out = folder / "out"
    out.mkdir()
    rejudge("-l", folder / "clean", "-s", 3, "-w", "cusum", "-w", "cleaning", "-w", "mixture",
            "-o", out, folder / "bad")
    same(folder, out)


@test
def what_the_rows_own_judge_left_out_stays_so(folder):
    judged_by_eacgm(folder)
    rows = rows_of(folder / "bad")
    torch = [r for r in rows if r["layer"] == "torch"]
    for r in torch[20:23]:
        r["p_value"] = None
    (folder / "bad").write_text("".join(json.dumps(r) + "\n" for r in rows))
    out = folder / "out"
    out.mkdir()
    rejudge("-l", folder / "clean", "-s", 3, "-o", out, folder / "bad")
    same(folder, out)


@test
def what_is_no_row_is_told(folder):
    good = {"start_ns": 10**9, "end_ns": 2 * 10**9, "layer": "torch", "features": {}}
    for bad, why in (({"layer": "nothing"}, "layer"), ({"end_ns": 5}, "ends before"),
                     ({"pid": -1}, "pid"), ({"gpu": 2**40}, "gpu"), ({"start_ns": 1.5}, "start_ns")):
        (folder / "rows").write_text(json.dumps(good) + "\n" + json.dumps({**good, **bad}) + "\n")
        told = rejudge("-l", folder / "rows", "-o", folder, folder / "rows", status=1).stderr
        assert "line 2" in told and why in told, told
    (folder / "rows").write_text("{}}\n")
    assert "line 1" in rejudge("-l", folder / "rows", "-o", folder, status=1).stderr
    (folder / "rows").write_text(json.dumps(good) + "\n")
    assert "no layer" in rejudge("-l", folder / "rows", "-o", folder, status=1).stderr
    rejudge("-o", folder, folder / "rows", status=2)


main()
