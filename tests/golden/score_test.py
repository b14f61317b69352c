"""The scorer of lab/detect: its arithmetic against figures worked out by hand, what it takes for
true, and a made-up data set from its files to the table. The methods it is run on are not tested
here. Needs no root; what needs numpy is skipped without it. Prints TAP.
"""
import csv
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lab/detect"), str(ROOT / "bench"), str(ROOT / "lab/faults")]
import jobs
from lab import effect
import measures as ms

try:
    import numpy as np
    import data
    import events
    import slow_calls
    import synthetic
    import truth
except ImportError:
    np = None
try:
    import methods
except SystemExit:  # it says what is missing and ends
    methods = None

EACGM = os.path.abspath(os.environ.get("EACGM", ROOT / "build/eacgm"))
S = 10**9
TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


def with_numpy(fn):
    fn.needs_numpy = True
    return test(fn)


def with_sklearn(fn):
    fn.needs_sklearn = True
    return test(fn)


def near(got, want, tolerance=1e-9):
    assert abs(got - want) <= tolerance, f"{got} is not {want}"


# ---- arithmetic ----


@test
def measures_of_known_confusion_matrices(folder):
    got = ms.measures(ms.Counts(tp=6, fp=1, fn=2, tn=3))
    near(got["accuracy"], 9 / 12)
    near(got["precision"], 6 / 7)
    near(got["recall"], 6 / 8)
    near(got["f1"], 12 / 15)
    near(got["mcc"], (6 * 3 - 1 * 2) / math.sqrt(7 * 8 * 4 * 5))
    assert ms.mcc(ms.Counts(5, 0, 0, 5)) == 1 and ms.mcc(ms.Counts(0, 5, 5, 0)) == -1


@test
def empty_margins_have_defined_measures(folder):
    never = ms.measures(ms.Counts(0, 0, 3, 9))
    assert math.isnan(never["precision"]) and never["recall"] == never["f1"] == never["mcc"] == 0
    always = ms.measures(ms.Counts(3, 9, 0, 0))
    assert always["recall"] == 1 and always["mcc"] == 0
    assert all(math.isnan(v) for v in ms.measures(None).values())
    assert ms.at_ratio(ms.Counts(0, 3, 0, 9), 5) is None


@test
def a_ratio_scales_classes_and_keeps_rates(folder):
    c = ms.at_ratio(ms.Counts(tp=80, fp=10, fn=20, tn=990), 5)
    near(c.tp + c.fn, 1)
    near(c.fp + c.tn, 5)
    near(ms.recall(c), 0.8)
    near(c.fp / 5, 0.01)
    near(ms.accuracy(c), (0.8 + 5 * 0.99) / 6)


@test
def wilson_intervals_are_those_of_tables(folder):
    for share, n, low, high in ((0.95, 100, 0.8882, 0.9785), (0, 10, 0, 0.2775),
                                (1, 10, 0.7225, 1), (0.5, 20, 0.2993, 0.7007)):
        got = ms.wilson(share, n)
        near(got[0], low, 5e-5)
        near(got[1], high, 5e-5)
    assert all(math.isnan(x) for x in ms.wilson(math.nan, 5) + ms.wilson(0.5, 0))


@test
def poisson_intervals_are_those_of_tables(folder):
    for k, low, high in ((0, 0, 3.6889), (1, 0.0253, 5.5716), (10, 4.7954, 18.3904)):
        got = ms.poisson_interval(k, 1)
        near(got[0], low, 1e-4)
        near(got[1], high, 1e-4)
    near(ms.poisson_interval(10, 5)[1], 18.3904 / 5, 1e-4)
    assert 917 < ms.poisson_interval(1000, 1)[0] < 940  # by the normal distribution


@test
def quantiles_lie_between_neighbours(folder):
    assert ms.quantile([3, 1, 2], 0.5) == 2 and ms.quantile([7], 0.95) == 7
    near(ms.quantile([0, 10], 0.95), 9.5)
    assert math.isnan(ms.quantile([], 0.5))


@test
def intervals_have_the_episode_as_their_unit(folder):
    """A thousand times the samples in as many episodes is no more evidence."""
    few = [ms.Counts(8, 1, 2, 9), ms.Counts(5, 0, 5, 10), ms.Counts(0, 2, 0, 18)]
    many = [ms.Counts(*(1000 * x for x in u)) for u in few]
    a, b = ms.with_intervals(few, 5), ms.with_intervals(many, 5)
    for name in ms.MEASURES:
        for x, y in zip(a[name], b[name]):
            near(x, y)
    near(a["recall"][0], 13 / 20)
    near(a["recall"][1], ms.wilson(13 / 20, 2)[0])
    assert a["f1"][1] <= a["f1"][0] <= a["f1"][2]
    alike = ms.with_intervals([ms.Counts(9, 0, 1, 0)] * 30 + [ms.Counts(0, 1, 0, 9)] * 30)
    near(alike["f1"][1], alike["f1"][2])  # units that are all the same leave no doubt


# ---- episodes ----

EPISODES = [ms.Episode(100, 200, True), ms.Episode(210, 300, True), ms.Episode(400, 500, False)]
CLEAN = [(0, 100), (310, 400), (520, 1000)]


def told(*times, benign=((600, 700),)):
    return ms.match(EPISODES, list(benign), CLEAN, [ms.Alert(t, t - 5, t + 5) for t in times], 20)


@test
def an_alert_on_either_border_finds_the_episode(folder):
    assert told(100)["found"] == {0: 0} and told(200)["found"] == {0: 100}
    assert told(205)["found"] == {0: 105}, "in the grace"
    got = told(99)
    assert got["found"] == {} and len(got["false"]) == 1, "told before the onset"
    assert told(321)["false"], "after the grace"


@test
def the_first_alert_of_an_episode_counts(folder):
    assert told(150, 120, 190)["found"] == {0: 20}
    assert told(150, 120, 190)["false"] == []


@test
def in_the_grace_of_one_and_in_another_it_is_the_others(folder):
    assert told(210)["found"] == {1: 0} and told(215)["found"] == {1: 5}


@test
def an_alert_that_stands_from_before_finds_nothing(folder):
    got = ms.match(EPISODES, [], CLEAN, [ms.Alert(50, 45, 1000)], 20)
    assert got["found"] == {} and len(got["false"]) == 1


@test
def ineffective_and_benign_are_apart(folder):
    got = told(450, 600, 650, 701, 515)
    assert got["ineffective"] == {2: 50} and got["benign"] == {0: 2}
    assert [a.told for a in got["false"]] == [701] and got["found"] == {}
    assert [a.told for a in told(1500)["elsewhere"]] == [1500]


@test
def an_alert_of_an_episode_that_comes_late_is_neither(folder):
    late = lambda start, at: ms.match(EPISODES, [], CLEAN, [ms.Alert(at, start, at)], 20, 50)
    for start, at, kind in ((290, 321, "late"), (290, 350, "late"), (290, 351, "false"),
                            (301, 321, "false")):
        got = late(start, at)
        assert len(got[kind]) == 1 and not got["found"], (start, at, got)


@test
def windows_that_follow_each_other_are_one_alert(folder):
    got = ms.alerts_of_windows([(10, 20), (0, 10), (25, 35), (50, 60)], 5)
    assert got == [ms.Alert(10, 0, 35), ms.Alert(60, 50, 60)], got
    assert ms.covered([(0, 10), (5, 20), (30, 40), (32, 33)]) == 30


# ---- the job's own steps ----


def steps_log(folder, lengths, start=0, name="steps.0.jsonl"):
    """Steps one after the other, in tenths of a second."""
    at = start * S // 10
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        for tenths in lengths:
            end = at + tenths * S // 10
            f.write(json.dumps({"phase": "train", "half": False, "start_ns": at, "end_ns": end})
                    + "\n")
            at = end


def episode(onset, released):
    return {"onset_ns": onset * S, "applied_ns": onset * S, "released_ns": released * S}


@test
def a_job_has_recovered_when_its_step_has_ended(folder):
    steps_log(folder, [1] * 100 + [10] * 5 + [35] + [1] * 200)
    e = episode(10, 16)
    clean, slow = effect.fill_in([e], [], folder, 1, 0, 38 * S)
    assert e["recovered_ns"] == 18 * S + S // 2, e  # a step of 3.5 s from 15 s on
    assert clean == [(0, 10 * S), (20 * S + S // 2, 38 * S)], clean
    assert e["effective"] and not slow, slow


@test
def clean_time_in_which_the_job_was_slower_is_known(folder):
    steps_log(folder, [1] * 100 + [2] * 10 + [1] * 100)
    steps_log(folder, [1] * 320, name="steps.1.jsonl")  # the other rank was as ever
    clean, slow = effect.fill_in([], [], folder, 2, 0, 22 * S)
    assert clean == [(0, 22 * S)], clean
    (start, end, ratio), = slow
    assert (start, end) == (10 * S, 12 * S) and ratio == 2, slow
    # What a change that is benign takes is no slowness of clean time.
    change = {"onset_ns": 10 * S, "end_ns": 12 * S}
    assert not effect.fill_in([], [change], folder, 1, 0, 22 * S)[1]


@test
def what_is_often_slow_is_not_usual(folder):
    steps_log(folder, ([1] * 60 + [2] * 20) * 5)  # 6 s and 4 s in turn
    slow = effect.fill_in([], [], folder, 1, 0, 50 * S)[1]
    assert [(a // S, b // S) for a, b, _ in slow] == [(10 * i + 6, 10 * i + 10)
                                                      for i in range(5)], slow


@test
def a_stall_that_a_fault_comes_into_is_slow_before_it(folder):
    steps_log(folder, [1] * 200 + [70] + [1] * 200)
    slow = effect.fill_in([episode(25, 26)], [], folder, 1, 0, 47 * S)[1]
    assert [(a, b) for a, b, _ in slow] == [(20 * S, 25 * S)], slow


@test
def a_job_that_makes_no_more_steps_has_not_recovered(folder):
    steps_log(folder, [1] * 200)
    e = episode(21, 25)
    clean, slow = effect.fill_in([e], [], folder, 1, 0, 60 * S)
    assert e["recovered_ns"] == 60 * S and clean == [(0, 21 * S)], (e, clean)


@test
def steps_that_nobody_wrote_make_nothing_slow(folder):
    e = episode(3, 5)
    clean, slow = effect.fill_in([e], [], folder, 1, 0, 20 * S)
    assert clean == [(0, 3 * S), (7 * S, 20 * S)] and not slow, (clean, slow)
    assert e["recovered_ns"] == 5 * S and not e["effective"], e


# ---- truth ----


def meta(**changes):
    e = {"applied_ns": 10 * S, "released_ns": 20 * S, "effective": True, "layers": ["torch"],
         "pids": [7], "gpu": None}
    return {"episodes": [dict(e, **changes)], "clean": [(0, 10 * S), (22 * S, 60 * S)],
            "benign": [{"start_ns": 30 * S, "end_ns": 40 * S}]}


def truths(what, samples, layer="torch", pid=7, gpu=-1, **kw):
    """samples: (start, end) in seconds."""
    at = lambda i: np.array([int(s[i] * S) for s in samples], np.int64)
    n = len(samples)
    got, units = truth.truth_of(what, at(0), at(1), np.full(n, truth.LAYERS.index(layer)),
                                np.full(n, pid), np.full(n, gpu), **kw)
    return got.tolist(), units.tolist()


@with_numpy
def windows_on_the_border_count_by_their_half(folder):
    got, units = truths(meta(), [(9, 10), (9.4, 10.4), (9.5, 10.5), (15, 16), (19.5, 20.5),
                                 (19.6, 20.6), (21, 22), (22, 23), (30, 31), (59, 61)])
    assert got == [0, -1, 1, 1, 1, -1, -1, 0, 0, -1], got
    assert units == [2, 0, 0, 0, 0, 0, 2, 2, 1, 2], units


@with_numpy
def what_was_slow_all_the_same_can_be_left_out(folder):
    clean = [(0, 10), (20, 30)]
    assert truth.less(clean, []) == clean
    assert truth.less(clean, [(8, 22), (24, 26)]) == [(0, 8), (22, 24), (26, 30)]
    assert truth.less(clean, [(0, 40)]) == []


@with_numpy
def what_an_episode_does_not_name_is_left_out(folder):
    inside = [(15, 16)]
    assert truths(meta(), inside, layer="cuda")[0] == [-1]
    assert truths(meta(), inside, pid=8)[0] == [-1], "a victim"
    assert truths(meta(pids=[]), inside, pid=8)[0] == [1]
    assert truths(meta(effective=False), inside)[0] == [-1]
    assert truths(meta(layers=["hardware"], gpu=1), inside, "hardware", 0, 0)[0] == [-1]
    assert truths(meta(layers=["hardware"], gpu=1), inside, "hardware", 0, 1)[0] == [1]


@with_numpy
def listed_calls_are_anomalous_and_the_others_normal(folder):
    calls = truth.Calls(*(np.array(x) for x in ([0, 0], [7, 7], [12 * S, 12 * S + 5],
                                                [14 * S, 12 * S + 9])))
    tid = np.array([7, 7, 8, 7, 7])
    got, _ = truths(meta(), [(11, 12), (13, 13.1), (13, 13.1), (14.1, 15), (9.8, 9.9)], tid=tid,
                    calls=calls)
    assert got == [1, 1, 0, 0, 0], got


# ---- sampling ----

NONE = math.nan


def write_events(path, told, keys):
    """told: (start, dur, pid, tid, key, z, gap_z, layer, anomalous)."""
    with open(path, "wb") as f:
        np.save(f, np.array([(*e[:7], NONE, *e[7:]) for e in told], events.EVENT))
        np.save(f, np.array(keys, "S"))
    return str(path)


def no_calls():
    return truth.Calls(*(np.empty(0, np.int64) for _ in range(4)))


@with_numpy
def the_sample_stands_for_all_events(folder):
    path = write_events(folder / "events.npy", [
        (i * S // 100, 1000 + i % 10, 7, 7, 1, i % 7, NONE, 2, i % 2) for i in range(5000)],
        ["", "aten::mm [1,2]"])
    rows = [np.array([0, S]), np.array([S, 2 * S]), np.array([2, 2]), np.array([7, 7])]
    c, keys, raw, population, ratios = events.sample(path, 0, meta(), no_calls(), rows, 400, 1)
    assert keys == ["aten::mm [1,2]"] and (c["key"] == 0).all()
    near(ratios[0]["torch"], 1, 1e-3)
    assert population == {"torch": [3800, 1000, 200]}, population
    near(float(c["weight"].sum()), 5000, 0.01)
    assert len(c["start"]) == 400 + 400 + 50, len(c["start"])
    assert np.isnan(c["gap_z"]).all() and (np.diff(c["start"]) >= 0).all()
    near(float(raw[0][0]), 100)  # events in the first second, the one at 1 s is of the next
    near(float(raw[0][1]), 1004.5)
    near(float(raw[0][4]), 1009)
    assert (c["row"] == np.where(c["start"] + c["dur"] < S, 0, np.where(
        c["start"] + c["dur"] <= 2 * S, 1, -1))).all()
    assert (events.alarms_of(path, 0, c) == c["alarmed"]).all()


@with_numpy
def shares_of_the_sample_are_those_of_all_events(folder):
    """Of 60000 events a detector alarms 3 % of the normal and 60 % of the anomalous ones, but the
    classes are sampled alike: sums of weights have the whole's rates, natural and at 5:1."""
    rng = np.random.default_rng(2)
    start = np.sort(rng.integers(0, 60 * S, 60000))
    inside = (start < 20 * S) & (start + 50 > 10 * S)
    alarmed = rng.random(60000) < np.where(inside, 0.6, 0.03)
    path = write_events(folder / "events.npy", [
        (t, 50, 7, 7, 1, 0, 0, 2, a) for t, a in zip(start.tolist(), alarmed.tolist())],
        ["", "a"])
    c, _, _, population, _ = events.sample(
        path, 0, meta(), no_calls(), [np.empty(0, np.int64)] * 4, 2000, 1)
    what, _ = truth.truth_of(meta(), c["start"], c["start"] + 50, c["layer"], c["pid"],
                             np.full(len(c["start"]), -1))
    of = lambda kind, hit, w: float(w[(what == kind) & (c["alarmed"] == hit)].sum())
    table = ms.Counts(of(1, 1, c["weight"]), of(0, 1, c["weight"]), of(1, 0, c["weight"]),
                      of(0, 0, c["weight"]))
    normal = ~inside & ((start + 50 <= 10 * S) | (start >= 22 * S))
    whole = ms.Counts(*(int((m & a).sum()) for m, a in (
        (inside, alarmed), (normal, alarmed), (inside, ~alarmed), (normal, ~alarmed))))
    assert population["torch"][:2] == [whole.fp + whole.tn, whole.tp + whole.fn]
    for got, want in ((table, whole), (ms.at_ratio(table, 5), ms.at_ratio(whole, 5))):
        for name in ms.MEASURES:  # four standard deviations of 2000 drawn of each
            near(ms.measures(got)[name], ms.measures(want)[name], 0.045)
    # Not weighted it would be another rate.
    assert ms.precision(ms.Counts(of(1, 1, 1 + 0 * c["weight"]), of(0, 1, 1 + 0 * c["weight"]), 0,
                                  0)) > ms.precision(whole) + 0.1


@with_numpy
def verdicts_are_found_again_in_another_order(folder):
    told = [(i, 5, 7, 7 + i % 2, 1, 0, 0, 2, i % 3 == 0) for i in range(0, 1000, 5)]
    path = write_events(folder / "a.npy", told, ["", "a"])
    c, *_ = events.sample(path, 0, meta(), no_calls(), [np.empty(0, np.int64)] * 4, 100, 1)
    other = write_events(folder / "b.npy", told[:7] + told[9:] + [(1, 2, 7, 9, 1, 0, 0, 2, 1)],
                         ["", "a"])
    want = c["alarmed"].copy()
    want[np.isin(c["start"], [told[7][0], told[8][0]])] = 2
    assert (events.alarms_of(other, 0, c) == want).all()


@with_numpy
def a_layer_that_was_not_slowed_is_left_out(folder):
    inside = [(15, 16)]
    assert truths(meta(layer_ratio={"torch": 1.09}), inside)[0] == [-1]
    assert truths(meta(layer_ratio={"torch": 1.10}), inside)[0] == [1]
    assert truths(meta(layer_ratio={"cuda": 1.0}), inside)[0] == [1], "not known of this layer"


@with_numpy
def the_effect_on_a_layer_is_measured(folder):
    """Calls take 100 in clean time; in the episode half as long again, and one that is new."""
    told = [(i * S // 10, 100, 7, 7, 1, NONE, NONE, 2, 0) for i in range(20)] + \
        [(12 * S + i, 150, 7, 7, 1, NONE, NONE, 2, 0) for i in range(10)] + \
        [(12 * S + i, 100, 8, 8, 1, NONE, NONE, 2, 0) for i in range(50)] + \
        [(13 * S, 200, 7, 7, 2, NONE, NONE, 2, 0), (13 * S, 100, 7, 7, 3, NONE, NONE, 0, 0)]
    path = write_events(folder / "events.npy", told, ["", "a", "new", "b"])
    rows = [np.array([0]), np.array([S]), np.array([2]), np.array([7])]
    *_, ratios = events.sample(path, 0, meta(), no_calls(), rows, 400, 1)
    assert list(ratios[0]) == ["torch"], ratios
    near(ratios[0]["torch"], (10 * 150 + 200) / (10 * 100))


@with_numpy
def damaged_events_are_told(folder):
    path = folder / "events.npy"
    good = write_events(path, [(1, 2, 3, 4, 1, 0, 0, 2, 0)], ["", "a"]) and path.read_bytes()
    for text, says in ((good[:100], "not as docs/detect.md says"), (b"", "not as docs/detect.md"),
                       (good[:340], "not as docs/detect.md"), (good[:-1], "ends in the middle"),
                       (good.replace(b"'dur_ns'", b"'length'"), "other columns"),
                       (None, "No such file")):
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_bytes(text)
        try:
            events.Events(str(path))
        except data.Bad as e:
            assert says in str(e), e
        else:
            raise AssertionError("taken")
    for wrong in ((1, 2, 3, 4, 2, 0, 0, 2, 0), (1, 2, 3, 4, 1, 0, 0, 7, 0)):
        try:
            list(events.Events(write_events(path, [wrong], ["", "a"])).chunks())
        except data.Bad as e:
            assert "no layer or key" in str(e), e
        else:
            raise AssertionError("taken")


@with_numpy
def arrays_and_csv_say_the_same(folder):
    said = []
    for name in ("e.csv", "e.npy"):
        done = subprocess.run(
            [EACGM, "detect", ROOT / "tests/golden/recordings/v1_gpu.eacgm", "--json", "--events",
             folder / name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        assert done.returncode in (0, 1), done  # 1: its seconds are too few to be judged
        said.append(done.stdout)
    assert said[0] == said[1]
    with open(folder / "e.csv", newline="", encoding="utf-8") as f:
        lines = list(csv.DictReader(f))
    told = events.Events(str(folder / "e.npy"))
    assert len(told.rows) == len(lines) > 10
    for r, line in zip(told.rows, lines):
        for name in ("start_ns", "dur_ns", "pid", "tid", "anomalous"):
            assert int(r[name]) == int(line[name])
        assert told.keys[r["key"]].decode() == line["key"]
        assert truth.LAYERS[r["layer"]] == line["layer"]
        for name in ("z", "gap_z", "more_ns"):
            assert np.isnan(r[name]) == (line[name] == "")
            if line[name]:
                near(float(r[name]), float(line[name]), 1e-4 + 1e-4 * abs(float(line[name])))
    os.mkfifo(folder / "pipe.npy")
    done = subprocess.run([EACGM, "detect", ROOT / "tests/golden/recordings/v1_gpu.eacgm",
                           "--events", folder / "pipe.npy"], stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1 and b"is no regular file" in done.stderr, done.stderr
    assert sorted(os.listdir(folder)) == ["e.csv", "e.npy", "pipe.npy"]


@with_numpy
def slow_calls_are_scored_by_the_innermost_call(folder):
    """A linear around a delayed addmm, which calls itself with out=; a delay too small to matter; a
    delayed call that was not recorded; a call in clean time that was told wrongly."""
    us = 1000
    told, keys = [], ["", "aten::linear", "aten::addmm [8,8][8,8]"]
    event = lambda start, dur, key, slow: told.append((start, dur, 7, 7, key, 0, NONE, 2, slow))
    for i in range(20):
        event(2 * S + i * S // 100, 20 * us + i % 2, 2, i == 5)
    for i in range(10):
        at = 11 * S + i * S // 100
        event(at, 140 * us, 1, False)
        event(at + us, 130 * us, 2, i != 3)
        event(at + 105 * us, 20 * us, 2, False)
    event(12 * S, 22 * us, 2, False)
    call = lambda start, ns, end=None: {
        "episode": 1, "function": "aten::addmm", "pid": 7, "tid": 7, "start_ns": start,
        "end_ns": end or start + 125 * us, "delay_ns": ns}
    calls = [call(11 * S + i * S // 100 + 2 * us, 100 * us) for i in range(10)]
    calls += [call(12 * S, us, 12 * S + 22 * us), call(13 * S, 100 * us)]
    labels = [{"type": "run", "pids": [7]}, {"type": "clean", "onset_ns": S, "end_ns": 10 * S},
              {"type": "episode", "id": 1, "fault": "op_delay", "value": 1, "effective": True,
               "applied_ns": 11 * S, "released_ns": 14 * S}]
    for name, rows in (("labels", labels), ("calls", calls)):
        (folder / (name + ".jsonl")).write_text("".join(json.dumps(r) + "\n" for r in rows))
    path = write_events(folder / "events.npy", told, keys)
    got = slow_calls.score(path, str(folder), ["op_delay"])
    assert (got["delayed"], got["told"], got["small"], got["not_recorded"]) == (11, 10, 1, 1), got
    near(got["precision"], 9 / 10)
    near(got["recall"], 9 / 11)
    assert got["told_in_clean"] == 1 and got["events"] == 50, got


# ---- thresholds ----


@with_sklearn
def the_threshold_is_where_f1_is_highest(folder):
    score = np.array([9, 8, 8, 7, 6, np.nan, 99])
    what = np.array([1, 1, 0, 1, 0, 1, -1])
    weight = np.array([1, 1, 1, 1, 97, 1, 1.0])
    f1, threshold = methods.best_threshold(score, what, weight, "natural")
    assert threshold == 7, threshold
    near(f1, 6 / 7)  # of 3 anomalous, 1 of 98 normal: what is not known, or left out, is not there
    f1, threshold = methods.best_threshold(score, what, weight, "5:1")
    near(f1, 2 * 1 / (2 * 1 + 5 / 98))
    assert methods.best_threshold(score[:2], what[:2], weight[:2], "5:1") is None


@with_sklearn
def the_papers_density_is_of_the_likeliest_component(folder):
    """Two far apart, of weights 9:1: the density does not know the weights."""
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(0, 1, 9000), rng.normal(100, 1, 1000)])[:, None]
    mixture = methods.Mixture()
    mixture.fit(x, 2)
    at = lambda v: float(mixture.score(np.array([[v]]))[0])
    near(at(0), at(100), 0.2)
    near(at(3) - at(0), 4.5, 0.5)  # three sigma: half of nine


# ---- jobs ----


def jobs_that(*todo):
    """todo: (name, function, after). (results, failures) of them, two at a time."""
    results, failures = {}, {}
    j = jobs.Jobs(2, results.__setitem__, failures.__setitem__)
    for name, function, after in todo:
        j.add(name, 0, function, (), after)
    j.run()
    return results, failures


def refuse():
    raise ValueError("so it is")


@test
def jobs_that_fail_or_die_fail_alone(folder):
    results, failures = jobs_that(
        ("a", lambda: 1, ()), ("bad", refuse, ("a",)), ("dead", lambda: os._exit(7), ()),
        ("b", lambda: 2, ("a",)), ("never", lambda: 3, ("b", "bad")),
        ("never either", lambda: 4, ("never",)), ("big", lambda: "x" * 10**6, ("b",)))
    assert results == {"a": 1, "b": 2, "big": "x" * 10**6}, sorted(results)
    assert failures == {"bad": "so it is", "dead": "its process ended with 7"}, failures


@test
def the_first_that_are_ready_go_by_rank(folder):
    told = []
    j = jobs.Jobs(1, lambda name, _: told.append(name), None)
    for name, rank, after in (("c", 3, ()), ("b", 2, ("a",)), ("a", 1, ()), ("d", 0, ("b",))):
        j.add(name, rank, int, (), after)
    j.run()
    assert told == ["a", "b", "d", "c"], told


# ---- the whole way ----


def lab(script, *args, status=0):
    done = subprocess.run([sys.executable, str(ROOT / "lab/detect" / script), *map(str, args)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          timeout=300, text=True)
    assert done.returncode == status, done.stderr
    return done


@with_numpy
def made_up_runs_become_a_table(folder):
    paths = synthetic.write_runs(folder / "runs", 4, seed=3, seconds=150)
    lab("dataset.py", *paths, "-o", folder / "data", "--reuse")
    lab("score.py", folder / "data", "--json", folder / "scores.json", "--resamples", 50)
    scores = json.loads((folder / "scores.json").read_text())
    ours = scores["methods"][0]
    run = data.read_run(str(folder / "data/made_up-test-2.npz"))
    assert scores["runs"] == 1 and scores["events"] == 150 * 142
    effective = [e for e in run.episodes if e["effective"]]
    assert ours["episodes"]["all"]["effective"] == len(effective) > 0
    # By hand: windows of NCCL at the natural rate.
    mine = (run.row_layer == truth.LAYERS.index("nccl")) & (run.row_truth >= 0)
    right = run.row_truth[mine] == run.arrays["row_alarmed_full"][mine]
    near(ours["cells"]["window"]["natural"]["nccl"]["accuracy"][0], right.mean(), 1e-12)
    methods = {m["name"]: m for m in scores["methods"]}
    always = methods["always"]["cells"]["event"]["5:1"]["nccl"]
    near(always["accuracy"][0], 1 / 6)
    near(always["recall"][0], 1)
    assert methods["never"]["episodes"]["all"]["found"] == 0
    clean = methods["never"]["episodes"]["all"]["clean_hours"] * 3600
    want = (ms.covered(run.clean) - 5 * S) / 1e9  # five seconds are a warm-up
    near(clean, want, 1e-6)


@with_numpy
def clean_time_that_was_slow_is_scored_or_left_out(folder):
    paths = synthetic.write_runs(folder / "runs", 4, seed=3, seconds=150)
    lab("dataset.py", *paths, "-o", folder / "data", "--reuse")
    path = folder / "data/made_up-test-2.npz"
    run = data.read_run(str(path))
    data.write_run(str(path), dict(run.meta, slow=[[0, run.meta["end_ns"] // 2]]), run.arrays)
    again, less = data.read_run(str(path)), data.read_run(str(path), less_slow=True)
    np.testing.assert_array_equal(again.row_truth, run.row_truth)
    early = run.row_start < run.meta["end_ns"] // 2
    assert not (less.row_truth[early] == truth.NORMAL).any()
    for what in (run.row_truth[~early] == truth.NORMAL, run.row_truth == truth.ANOMALOUS):
        assert what.any()
    assert (less.row_truth == truth.ANOMALOUS).sum() == (run.row_truth == truth.ANOMALOUS).sum()
    scores = []
    for words in ((), ("--less-slow",)):
        lab("score.py", folder / "data", "--json", folder / "s.json", "--resamples", 20, *words)
        scores.append(json.loads((folder / "s.json").read_text())["methods"][0]["episodes"]["all"])
    assert 0 < scores[1]["clean_hours"] < 0.7 * scores[0]["clean_hours"], scores
    assert scores[1]["found"] == scores[0]["found"]
    # Verdicts that were made with the one are not taken for the other.
    assert data.digest([again]) == data.digest([data.read_run(str(path))]) != data.digest([less])
    told = dict(run.meta)
    told.pop("slow")
    data.write_run(str(path), told, run.arrays)
    said = lab("score.py", folder / "data", "--less-slow", status=1).stderr
    assert "nothing says when the job was slow" in said, said


@with_numpy
def a_data_set_is_judged_again_beside_what_was_said(folder):
    paths = synthetic.write_runs(folder / "runs", 4, seed=3, seconds=150)
    lab("dataset.py", *paths, "-o", folder / "data", "--reuse")
    lab("rejudge.py", folder / "data", "-o", folder / "copy", "--eacgm", EACGM)
    lab("rejudge.py", folder / "copy", "-o", folder / "copy", "--eacgm", EACGM, "--name",
          "again", "--without", "cusum")
    for path in sorted((folder / "data").glob("*.npz")):
        old, new = data.read_run(str(path)), data.read_run(str(folder / "copy" / path.name))
        for name, array in old.arrays.items():
            np.testing.assert_array_equal(array, new.arrays[name])
        assert new.detectors["full"] == old.detectors["full"]
        assert ("rejudged" in new.detectors) == (old.split != "calibration")
        if old.split == "calibration":
            continue
        at = new.arrays["row_alarmed_rejudged"] == 1
        for a in new.detectors["rejudged"]["anomalies"]:
            assert -10**9 <= a["start_ns"] < a["end_ns"] <= new.meta["end_ns"] + 10**9, a
        assert np.isfinite(new.arrays["row_p_rejudged"]).mean() > 0.9
        assert at.any() and (new.row_truth[at] != 0).mean() > 0.8
        # Outside of all anomalies of their layer events are as they were.
        end = new.event_start + new.event_dur
        outside = np.ones(len(end), bool)
        for a in [*new.detectors["rejudged"]["anomalies"], *old.detectors["full"]["anomalies"]]:
            outside &= (new.event_layer != truth.LAYERS.index(a["layer"])) | \
                (end <= a["start_ns"]) | (new.event_start >= a["end_ns"])
        marked = new.arrays["event_alarmed_rejudged"] == 1
        assert outside.any() and not marked[outside].any()
        assert marked[new.event_truth == truth.ANOMALOUS].mean() > 0.3
    said = lab("score.py", folder / "copy", "--resamples", 20).stdout
    assert "eacgm rejudged " in said and "eacgm rejudged-again" in said, said


@with_numpy
def a_thinner_data_set_says_the_same(folder):
    """Of windows and episodes to the last digit, of events as many; calls that matter stay."""
    paths = synthetic.write_runs(folder / "runs", 4, seed=3, seconds=150)
    lab("dataset.py", *paths, "-o", folder / "data", "--reuse")
    lab("thin.py", folder / "data", "-o", folder / "thin", "--events", 40)
    lab("thin.py", folder / "data", "-o", folder / "again", "--events", 40)
    cells = []
    for name in ("data", "thin"):
        lab("score.py", folder / name, "--json", folder / "scores.json", "--resamples", 20)
        cells.append(json.loads((folder / "scores.json").read_text())["methods"][0])
    assert cells[0]["episodes"] == cells[1]["episodes"]
    assert cells[0]["cells"]["window"] == cells[1]["cells"]["window"]
    for path in sorted((folder / "data").glob("*.npz")):
        whole, thin = (data.read_run(str(folder / f / path.name)) for f in ("data", "thin"))
        assert path.stat().st_size > (folder / "thin" / path.name).stat().st_size
        assert (folder / "thin" / path.name).read_bytes() == \
            (folder / "again" / path.name).read_bytes()
        for layer in np.unique(whole.event_layer):
            for kind in np.unique(whole.event_truth):
                of = [(r.event_layer == layer) & (r.event_truth == kind) for r in (whole, thin)]
                assert of[1].sum() == min(of[0].sum(), 40), (layer, kind, of[1].sum())
                near(thin.event_weight[of[1]].sum() / max(whole.event_weight[of[0]].sum(), 1),
                     float(of[0].any()), 1e-3)


@with_numpy
def the_campaign_that_is_kept_has_the_figures_of_the_docs(folder):
    layers = ("cuda", "python", "torch", "nccl", "hardware")
    for words, false, f1s in (((), 31, (0.89, 0.895, 0.88, 0.85, 0.905)),
                              (("--less-slow",), 4, (0.946, 0.963, 0.963, 0.948, 0.963))):
        lab("score.py", ROOT / "lab/detect/unseen", "--json", folder / "scores.json",
              "--resamples", 10, *words)
        ours = json.loads((folder / "scores.json").read_text())["methods"][0]
        every = ours["episodes"]["all"]
        got = every["effective"], every["found"], every["false_alarms"]
        assert got == (149, 144, false), every
        for layer, f1 in zip(layers, f1s):
            near(ours["cells"]["window"]["5:1"][layer]["f1"][0], f1, 0.006)


@with_numpy
def what_cannot_be_scored_is_said(folder):
    assert "no data set there" in lab("score.py", folder, status=1).stderr
    (folder / "x.npz").write_bytes(b"nothing")
    assert "not a data set" in lab("score.py", folder, status=1).stderr
    os.mkdir(folder / "run")
    (folder / "run/labels.jsonl").write_text('{"type":"clean"}\n')
    says = lab("dataset.py", folder / "run", "-o", folder / "out", "--reuse", status=1).stderr
    assert "no line of type 'run'" in says and says.count("\n") == 1, says


@with_numpy
def damaged_runs_do_not_stop_the_others(folder):
    paths = [pathlib.Path(p) for p in synthetic.write_runs(folder / "runs", 4, seed=3, seconds=60)]
    cut = paths[1] / "detect.full/events.npy"
    cut.write_bytes(cut.read_bytes()[:-50])
    (paths[3] / "labels.jsonl").unlink()
    shutil.copytree(paths[2] / "detect.full", paths[2] / "detect.contaminated")
    done = lab("dataset.py", *paths, folder / "absent", "-o", folder / "data", "--reuse",
                 "--contaminate", "--jobs", 2, status=1)
    says = done.stderr.splitlines()
    assert len(says) == 3 and "labels.jsonl: No such file" in says[0], says
    assert "absent" in says[1] and "ends in the middle" in says[2], says
    assert sorted(os.listdir(folder / "data")) == [p.name + ".npz" for p in (paths[0], paths[2])]
    run = data.read_run(str(folder / "data" / (paths[2].name + ".npz")))
    assert list(run.detectors) == ["contaminated", "full"]
    assert (run.row_alarmed_contaminated == run.row_alarmed_full).all()
    assert (run.event_alarmed_contaminated == run.event_alarmed_full).all()


@with_numpy
def recordings_that_are_none_are_told(folder):
    for name, text in (("a", b"nothing"), ("b", None)):
        synthetic.write_run(folder, name, "test", 1, 30)
        if text:
            (folder / name / "x.eacgm").write_bytes(text)
    says = lab("dataset.py", folder / "a", folder / "b", "-o", folder / "out", "--eacgm", EACGM,
                 status=1).stderr
    assert "a/x.eacgm: not a recording\n" in says and "b/x.eacgm: No such file" in says, says


@test
def the_simulation_goes_through_eacgm(folder):
    lab("simulate.py", "--eacgm", EACGM, "--events", 4000, "--seeds", 1, "--json",
          folder / "told.json")
    f1 = [t["f1_median"] for t in json.loads((folder / "told.json").read_text())]
    raw, by_function, by_size, faulty, trimmed, events_alone, windows = f1
    assert raw < by_function < by_size and faulty < trimmed and events_alone < windows, f1


def main():
    print(f"1..{len(TESTS)}")
    bad = 0
    for number, fn in enumerate(TESTS, 1):
        name = fn.__name__.replace("_", " ")
        if np is None and getattr(fn, "needs_numpy", False):
            print(f"ok {number} - {name} # skip numpy is not installed")
            continue
        if methods is None and getattr(fn, "needs_sklearn", False):
            print(f"ok {number} - {name} # skip scikit-learn or xgboost is not installed")
            continue
        with tempfile.TemporaryDirectory(prefix="eacgm-score-") as folder:
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
