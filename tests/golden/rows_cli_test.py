"""Rows (.jsonl, of eacgm detect --rows) that are learned from and judged without their recordings
come to what eacgm learn and detect come to with them. Needs no root. Prints TAP. lab/detect/rejudge.py
is tested in score_test.py.
"""
import json

from cli import eacgm, job, main, test


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def spans(path):
    """Not the layer: samples, which rows have none of, put what was lost down to lines of Python."""
    keys = ("start_ns", "end_ns", "told_ns", "pid", "gpu", "windows")
    return sorted([a[k] for k in keys] for a in json.loads(path.read_text())["anomalies"])


def judged_by_eacgm(folder, *learning):
    """A job and one with a fault, by a model of the first: rows as eacgm writes them."""
    job(folder / "clean.eacgm", 1, 90)
    job(folder / "bad.eacgm", 2, 90, 40, 55, 1.6)
    model = folder / "m.model"
    # The job begins with a whole second. Others do not, and of them rows say no more than in
    # which second: the one that the warm-up ends in is left out.
    eacgm("learn", folder / "clean.eacgm", "-o", model, "--seed", 3, "--warm-up", 5.5, *learning)
    for name in ("clean", "bad"):
        said = eacgm("detect", folder / f"{name}.eacgm", "-m", model, "--json", "--rows",
                     folder / f"{name}.jsonl").stdout
        (folder / f"{name}.json").write_text(said)
    return model


def again(folder, *learning):
    """The job with the fault, judged by its rows, by a model of the other's rows."""
    model = folder / "rows.model"
    eacgm("learn", folder / "clean.jsonl", "-o", model, "--seed", 3, *learning)
    return judge(folder, model)


def judge(folder, model):
    out = folder / "out"
    out.mkdir()
    said = eacgm("detect", folder / "bad.jsonl", "-m", model, "--json", "--rows",
                 out / "bad.jsonl").stdout
    (out / "bad.json").write_text(said)
    return out


def same(folder, out):
    """What came of the rows of the job with the fault is what came of its recording. Returns the
    rows."""
    theirs, ours = rows_of(folder / "bad.jsonl"), rows_of(out / "bad.jsonl")
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
    ours = same(folder, again(folder))
    layers = json.loads((folder / "rows.model").read_text())["layers"]
    assert {"torch", "cuda", "step"} <= set(layers), layers
    assert sum(r["p_value"] is not None for r in ours) > 200
    alarmed = [r for r in ours if r["alarmed"] and r["layer"] == "torch"]
    assert alarmed and all(1039e9 <= r["start_ns"] <= 1057e9 for r in alarmed), alarmed


@test
def a_model_that_was_learned_judges_rows_as_well(folder):
    model = judged_by_eacgm(folder)
    same(folder, judge(folder, model))
    (folder / "none.jsonl").write_text("")
    done = eacgm("detect", folder / "none.jsonl", "-m", model, "--json", status=1)
    assert "nothing could be judged" in done.stderr, done.stderr


@test
def ingredients_are_left_out_alike(folder):
    without = ("--without", "cusum", "--without", "cleaning", "--without", "mixture")
    judged_by_eacgm(folder, *without)
    same(folder, again(folder, *without))


@test
def what_the_rows_own_judge_left_out_stays_so(folder):
    judged_by_eacgm(folder)
    rows = rows_of(folder / "bad.jsonl")
    torch = [r for r in rows if r["layer"] == "torch"]
    for r in torch[20:23]:
        r["p_value"] = None
    (folder / "bad.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    same(folder, again(folder))


@test
def what_is_no_row_is_told(folder):
    good = {"start_ns": 10**9, "end_ns": 2 * 10**9, "layer": "torch", "features": {}}
    rows, model = folder / "rows.jsonl", folder / "m.model"

    def told(status=1):
        return eacgm("learn", rows, "-o", model, status=status).stderr

    for bad, why in (({"layer": "no name"}, "layer"), ({"end_ns": 5}, "ends before"),
                     ({"pid": -1}, "pid"), ({"gpu": 2**40}, "gpu"), ({"start_ns": 1.5}, "start_ns")):
        rows.write_text(json.dumps(good) + "\n" + json.dumps({**good, **bad}) + "\n")
        assert "line 2" in told() and why in told(), told()
    rows.write_text("{}}\n")
    assert "line 1" in told()
    rows.write_text(json.dumps(good) + "\n")
    assert "no layer" in told()
    done = eacgm("detect", rows, status=2)
    assert "rows (.jsonl) need a model" in done.stderr, done.stderr
    done = eacgm("detect", rows, "-m", model, "--events", folder / "e.csv", status=2)
    assert "have no events" in done.stderr, done.stderr
    done = eacgm("learn", rows, job(folder / "x.eacgm", 1, 5), "-o", model, status=2)
    assert "learned by themselves" in done.stderr, done.stderr


main()
