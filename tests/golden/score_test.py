"""The scorer of bench/detect: its arithmetic against figures worked out by hand, what it takes for
true, and a made-up data set from its files to the table. The methods it is run on are not tested
here. Needs no root; what needs numpy is skipped without it. Prints TAP.
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/detect"), str(ROOT / "bench")]
import measures as ms
import synthetic

try:
    import numpy as np
    import data
    import events
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

HEAD = "start_ns,dur_ns,pid,tid,layer,key,z,gap_z,anomalous\n"


@with_numpy
def the_sample_stands_for_all_events(folder):
    lines = [HEAD] + ["%d,%d,7,7,torch,\"aten::mm [1,2]\",%.2f,,%d\n" % (
        i * S // 100, 1000 + i % 10, i % 7, i % 2) for i in range(5000)]
    (folder / "events.csv").write_text("".join(lines))
    rows = [np.array([0, S]), np.array([S, 2 * S]), np.array([2, 2]), np.array([7, 7])]
    none = truth.Calls(*(np.empty(0, np.int64) for _ in range(4)))
    c, keys, raw, population, ratios = events.sample(
        str(folder / "events.csv"), 0, meta(), none, rows, 400, 1)
    assert keys == ["aten::mm [1,2]"]
    near(ratios[0]["torch"], 1, 1e-3)
    assert population == {"torch": [3800, 1000, 200]}, population
    near(float(c["weight"].sum()), 5000, 0.01)
    assert len(c["start"]) == 400 + 400 + 50, len(c["start"])
    assert np.isnan(c["gap_z"]).all() and (np.diff(c["start"]) >= 0).all()
    near(float(raw[0][0]), 100)  # events in the first second, the one at 1 s is of the next
    near(float(raw[0][1]), 1004.5)
    near(float(raw[0][4]), 1009)
    again = events.alarms_of(str(folder / "events.csv"), 0, c)
    assert (again == c["alarmed"]).all()


@with_numpy
def a_layer_that_was_not_slowed_is_left_out(folder):
    inside = [(15, 16)]
    assert truths(meta(layer_ratio={"torch": 1.09}), inside)[0] == [-1]
    assert truths(meta(layer_ratio={"torch": 1.10}), inside)[0] == [1]
    assert truths(meta(layer_ratio={"cuda": 1.0}), inside)[0] == [1], "not known of this layer"


@with_numpy
def the_effect_on_a_layer_is_measured(folder):
    """Calls take 100 in clean time; in the episode half as long again, and one that is new."""
    lines = [HEAD] + ["%d,100,7,7,torch,a,,,0\n" % (i * S // 10) for i in range(20)] + \
        ["%d,150,7,7,torch,a,,,0\n" % (12 * S + i) for i in range(10)] + \
        ["%d,100,8,8,torch,a,,,0\n" % (12 * S + i) for i in range(50)] + \
        ["%d,200,7,7,torch,new,,,0\n" % (13 * S), "%d,100,7,7,cuda,b,,,0\n" % (13 * S)]
    (folder / "events.csv").write_text("".join(lines))
    rows = [np.array([0]), np.array([S]), np.array([2]), np.array([7])]
    none = truth.Calls(*(np.empty(0, np.int64) for _ in range(4)))
    *_, ratios = events.sample(str(folder / "events.csv"), 0, meta(), none, rows, 400, 1)
    assert list(ratios[0]) == ["torch"], ratios
    near(ratios[0]["torch"], (10 * 150 + 200) / (10 * 100))


@with_numpy
def damaged_events_are_told(folder):
    for text, says in ((HEAD + "1,2,3,4,torch,k,x,,0\n", "could not convert"),
                       (HEAD + "1,2,3,4,nowhere,k,1,,0\n", "nowhere"),
                       ("start_ns,pid\n", "lacks columns: dur_ns")):
        (folder / "events.csv").write_text(text)
        try:
            list(events.chunks_of(str(folder / "events.csv")))
        except data.Bad as e:
            assert says in str(e), e
        else:
            raise AssertionError("taken: " + text)


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


# ---- the whole way ----


def bench(script, *args, status=0):
    done = subprocess.run([sys.executable, str(ROOT / "bench/detect" / script), *map(str, args)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          timeout=300, text=True)
    assert done.returncode == status, done.stderr
    return done


@with_numpy
def made_up_runs_become_a_table(folder):
    paths = synthetic.write_runs(folder / "runs", 4, seed=3, seconds=150)
    bench("dataset.py", *paths, "-o", folder / "data", "--reuse")
    bench("score.py", folder / "data", "--json", folder / "scores.json", "--resamples", 50)
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
def what_cannot_be_scored_is_said(folder):
    assert "no data set there" in bench("score.py", folder, status=1).stderr
    (folder / "x.npz").write_bytes(b"nothing")
    assert "not a data set" in bench("score.py", folder, status=1).stderr
    os.mkdir(folder / "run")
    (folder / "run/labels.jsonl").write_text('{"type":"clean"}\n')
    says = bench("dataset.py", folder / "run", "-o", folder / "out", "--reuse", status=1).stderr
    assert "no line of type 'run'" in says and says.count("\n") == 1, says


@test
def the_simulation_goes_through_eacgm(folder):
    bench("simulate.py", "--eacgm", EACGM, "--events", 4000, "--seeds", 1, "--json",
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
