"""diagnose_score_test.py - the scorer of causes (lab/diagnose) against incidents and labels made up
here, with figures worked out by hand; its baselines against windows made up here. Needs neither
root nor eacgm nor a recording. Prints TAP."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lab/diagnose"), str(ROOT / "lab/detect")]
import baselines
import score

S = 10**9
TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


def near(got, want, tolerance=1e-4):
    assert got is not None and abs(got - want) <= tolerance, f"{got} is not {want}"


def episode(number, cause, onset, released, slowdown=1.5, culprit=None, pids=(77, 78), **more):
    return {"type": "episode", "id": number, "fault": cause, "cause": cause,
            "onset_ns": onset * S, "applied_ns": onset * S, "released_ns": released * S,
            "recovered_ns": released * S, "effective": slowdown >= 1.1, "slowdown_ratio": slowdown,
            "confusable": ["cpu_throttle"], "target": {"pids": [5], "rank": None},
            "injector_pids": list(pids) if culprit else [], "culprit": culprit,
            "expected_share": None, **more}


def incident(cause, onset, told, confidence=0.9, **more):
    return {"onset_ns": int(onset * S), "end_ns": int((told + 1) * S), "told_ns": int(told * S),
            "cause": cause, "confidence": confidence, "runner_up": None, **more}


NEIGHBOUR = {"kind": "process", "pid": 77, "command": "neighbour"}
CLEAN = [{"type": "clean", "onset_ns": 0, "end_ns": 1800 * S}]


def scored(labels, incidents, steps=()):
    return score.score([score.Run("r", CLEAN + list(labels),
                                  {"incidents": incidents, "steps": list(steps)})])


# ---- which incident is of which episode ----


@test
def the_first_that_is_told_in_an_episode_is_its_answer():
    s = scored([episode(1, "cpu_contention", 10, 17)],
               [incident("cpu_throttle", 12, 15), incident("cpu_contention", 11, 14)])
    assert s["causes"]["top_1"]["yes"] == 1 and s["incidents_an_episode"] == 2
    s = scored([episode(1, "cpu_contention", 10, 17)],
               [incident("cpu_throttle", 11, 12), incident("cpu_contention", 11, 14)])
    assert s["causes"]["top_1"]["yes"] == 0 and s["rows"][0]["any_right"]
    assert s["causes"]["wrong_but_alike"]["yes"] == 1


@test
def one_that_stood_from_before_is_no_answer():
    s = scored([episode(1, "cpu_contention", 10, 17)], [incident("cpu_contention", 8, 11)])
    assert s["rows"][0]["answer"] == score.MISSED and s["false"] == 1
    assert s["causes"]["matrix"][score.NO_FAULT] == {"cpu_contention": 1}
    assert s["missed_where_one_stood"] == 1
    near_onset = scored([episode(1, "cpu_contention", 10, 17)],
                        [incident("cpu_contention", 9, 11)])  # a window before
    assert near_onset["rows"][0]["right"] and near_onset["false"] == 0
    assert near_onset["missed_where_one_stood"] == 0


@test
def one_that_is_told_when_all_is_over_is_late_and_missed():
    s = scored([episode(1, "stopped", 10, 17)], [incident("stopped", 12, 18.5)])
    assert s["late"] == 1 and s["false"] == 0 and s["causes"]["missed"]["yes"] == 1
    s = scored([episode(1, "stopped", 10, 17)], [incident("stopped", 12, 18)])
    assert s["late"] == 0 and s["rows"][0]["right"]


@test
def of_two_episodes_it_is_the_one_that_was_on():
    s = scored([episode(1, "stopped", 10, 17), episode(2, "python_gc", 17.5, 25)],
               [incident("python_gc", 17.8, 20)])
    assert [r["answer"] for r in s["rows"]] == [score.MISSED, "python_gc"]


@test
def delays_are_from_the_onset():
    s = scored([episode(1, "stopped", 10, 17), episode(2, "hang", 40, 47)],
               [incident("stopped", 11, 12), incident("hang", 40, 44)])
    near(s["delay_s"]["median"], 3)
    assert s["cause_delay_s"]["median"] is None  # nothing was told live
    near(s["onset_off_s"]["median"], 0.5)


@test
def what_was_told_live_says_when_its_cause_was_known():
    s = scored([episode(1, "stopped", 10, 17), episode(2, "hang", 40, 47)],
               [incident("stopped", 11, 12, caused_ns=13 * S), incident("hang", 40, 44)])
    near(s["cause_delay_s"]["median"], 1)


# ---- causes ----


def mixed():
    labels = [episode(1, "a", 10, 17), episode(2, "a", 30, 37), episode(3, "b", 50, 57),
              episode(4, "b", 70, 77), episode(5, "c", 90, 97, slowdown=1.02),
              {"type": "slow", "onset_ns": 200 * S, "end_ns": 210 * S, "slowdown_ratio": 1.4}]
    told = [incident("a", 11, 13, 0.95), incident("b", 31, 33, 0.85), incident("b", 51, 53, 0.55),
            incident("c", 91, 93, 0.9),  # of an episode without effect
            incident("a", 150, 152, 0.3), incident(None, 203, 205, 0.1)]
    return scored(labels, told)


@test
def causes_have_a_matrix_and_f1():
    s = mixed()
    c = s["causes"]
    assert s["episodes"] == 4 and c["top_1"] == dict(c["top_1"], yes=2, of=4)
    near(c["top_1"]["interval_95"][0], 0.15)
    near(c["top_1"]["interval_95"][1], 0.85)
    assert c["matrix"] == {"a": {"a": 1, "b": 1}, "b": {"b": 1, "missed": 1},
                           "no fault": {"a": 1}, "slow by itself": {"unknown": 1}}
    # a: one of two found, and told once where nothing was; b: one of two, told once too often.
    near(c["f1"]["a"], 2 / 4)
    near(c["f1"]["b"], 2 / 4)
    near(c["macro_f1"], 0.5)
    near(c["macro_f1_in_episodes"], (2 / 3 + 2 / 4) / 2)
    assert s["false"] == 1
    near(s["false_an_hour"][0], 2)


@test
def what_had_no_effect_is_apart():
    s = mixed()
    assert s["ineffective"] == {"episodes": 1, "told": 1, "right": 1, "by_fault": {"c": 1}}
    assert "c" not in s["causes"]["matrix"]


@test
def unknown_is_neither_right_nor_sure():
    s = scored([episode(1, "a", 10, 17)], [incident("unknown", 11, 13, 0.99)])
    c = s["causes"]
    assert c["unknown"]["yes"] == 1 and c["top_1"]["yes"] == 0 and c["wrong_and_sure"]["of"] == 0
    assert c["calibration"] == [] and c["calibration_error"] is None


@test
def being_sure_and_wrong_is_counted():
    c = mixed()["causes"]  # named: 0.95 right, 0.85 wrong, 0.55 right, 0.3 where nothing was
    assert (c["wrong_and_sure"]["yes"], c["wrong_and_sure"]["of"]) == (1, 4)
    assert (c["wrong_of_sure"]["yes"], c["wrong_of_sure"]["of"]) == (1, 2)
    rows = {r["tenth"]: (r["yes"], r["of"]) for r in c["calibration"]}
    assert rows == {"0.9-1.0": (1, 1), "0.8-0.9": (0, 1), "0.5-0.6": (1, 1), "0.3-0.4": (0, 1)}
    near(c["calibration_error"], (0.05 + 0.85 + 0.45 + 0.3) / 4)
    assert score.tenths([score.Answer("a", "a", True, 1.0)])[0]["tenth"] == "0.9-1.0"


@test
def the_runner_up_is_told_apart():
    s = scored([episode(1, "a", 10, 17)], [incident("b", 11, 13, runner_up="a")])
    c = s["causes"]
    assert c["top_1"]["yes"] == 0 and c["top_1_or_runner_up"]["yes"] == 1


@test
def faults_and_causes_have_names_of_their_own():
    labels = [episode(1, "disk_contention", 10, 17), episode(2, "slow_reads", 30, 37),
              episode(3, "slow_reads", 50, 57), episode(4, "net_loss", 70, 77),
              episode(5, "clock", 90, 97), episode(6, "net_contention", 110, 117)]
    labels[4]["confusable"] = ["net_contention"]
    s = scored(labels, [incident("disk", 11, 13), incident("disk", 31, 33),
                        incident("data_loader", 51, 53), incident("net_bandwidth", 71, 73),
                        incident("net_foreign", 91, 93, runner_up="gpu_clock"),
                        incident("net_foreign", 111, 113)])
    assert [r["right"] for r in s["rows"]] == [True, True, True, False, False, True]
    assert s["rows"][4]["alike"] and s["rows"][4]["second"] and not s["rows"][0]["alike"]
    assert s["causes"]["matrix"] == {"data_loader": {"data_loader": 2}, "disk": {"disk": 1},
                                     "gpu_clock": {"net_foreign": 1},
                                     "net_foreign": {"net_foreign": 1},
                                     "net_loss": {"net_bandwidth": 1}}


# ---- culprits ----


def culprit_of(said, true=NEIGHBOUR, **more):
    s = scored([episode(1, "a", 10, 17, culprit=true)],
               [incident("a", 11, 13, culprit=said, **more)])
    return s["rows"][0]["culprit_right"], s["culprits"]


@test
def a_process_is_right_by_number_or_command():
    assert culprit_of({"pid": 78})[0] and culprit_of({"pid": 1, "command": "neighbour"})[0]
    assert not culprit_of({"pid": 5, "command": "python3"})[0] and not culprit_of(None)[0]
    stopper = scored([episode(1, "stopped", 10, 17, culprit=NEIGHBOUR)],
                     [incident("stopped", 11, 13, culprit={"pid": 78})])["culprits"]
    assert stopper["contention"]["of"] == 0 and stopper["by_kind"]["process"]["yes"] == 1
    right, all_ = culprit_of({"pid": 77})
    assert right and all_["contention"]["yes"] == all_["contention"]["of"] == 1
    assert culprit_of({}, None)[0] is None, "nobody is to be found"


@test
def a_missed_episode_has_no_right_culprit():
    s = scored([episode(1, "a", 10, 17, culprit=NEIGHBOUR)], [])
    c = s["culprits"]
    assert c["contention"]["yes"] == 0 and c["contention"]["of"] == 1
    assert c["contention_of_told"]["of"] == 0 and c["contention_of_told"]["share"] is None


@test
def other_culprits_are_right_by_what_they_are():
    group = {"kind": "cgroup", "cgroup": "/sys/fs/cgroup/cpu/eacgm-faults-9"}
    assert culprit_of({"cgroup": "/eacgm-faults-9"}, group)[0]
    assert not culprit_of({"cgroup": "/"}, group)[0] and not culprit_of({"cgroup": None}, group)[0]
    assert culprit_of({"rank": 1}, {"kind": "rank", "rank": 1, "pid": 9})[0]
    assert culprit_of({"device": "vda"}, {"kind": "device", "device": "vda"})[0]
    assert culprit_of({"gpu": 0}, {"kind": "device", "device": "gpu0"})[0]
    code = {"kind": "job", "pid": 5, "function": "count_in_a_loop"}
    assert culprit_of({}, code, victim={"pid": 5, "function": "count_in_a_loop"})[0]
    assert culprit_of({"kind": "line", "code": {"function": "count_in_a_loop"}}, code)[0]
    assert not culprit_of({"code": None}, code, victim={"pid": 5, "function": "step"})[0]
    assert culprit_of({}, {"kind": "job", "pid": 5})[0] is None
    _, all_ = culprit_of({"cgroup": "/eacgm-faults-9"}, group)
    assert all_["contention"]["of"] == 0 and all_["by_kind"]["cgroup"]["yes"] == 1


# ---- blame ----


def step(start, blame, excess, unexplained=0, usual=100, pid=5):
    return {"pid": pid, "start_ns": int(start * S), "end_ns": int(start * S) + usual + excess,
            "usual_ns": usual, "excess_ns": excess, "unexplained_ns": unexplained,
            "blame": [{"owner": o, "ns": ns} for o, ns in blame]}


@test
def parts_of_slow_steps_are_to_be_the_excess():
    steps = [step(11, [("a", 96)], 100), step(12, [("a", 60)], 100, 40),
             step(13, [("a", 130)], 100), step(14, [("a", 1)], 5),  # not slow
             step(15, [("a", 9)], 100, pid=6), step(60, [], 100)]  # another's; outside
    b = scored([episode(1, "a", 10, 17)], [], steps)["blame"]
    assert b["slow_steps"] == 3
    assert (b["adds_up"]["yes"], b["explained"]["yes"]) == (2, 1)
    near(b["explained_part_median"], 0.96)


def whole(count, blame, excess, **more):
    """Steps of a second from 10 s on: shares of it."""
    return [dict(step(10 + i, [(o, round(x * S)) for o, x in blame], round(excess * S),
                      usual=round((1 - excess) * S)), **more) for i in range(count)]


@test
def what_was_injected_is_compared_with_what_is_told():
    blame = [("was stopped in f", 0.4), ("slept", 0.05), ("ran stopped (a.py:2)", 0.05)]
    stopped = episode(1, "stopped", 10, 17, slowdown=2, expected_share=0.4)
    b = scored([stopped], [], whole(7, blame, 0.5))["blame"]
    row, = b["episodes_with_share"]
    near(row["injected"], 0.4)
    near(row["excess"], 0.5)
    near(row["log"], 0.5)
    near(row["owned"], 0.4)
    near(b["excess_off_injected_median"], 0.1)
    near(b["owned_off_injected_median"], 0)
    near(b["owned_off_injected_p90"], 0)
    assert (b["owned_within"]["yes"], b["owned_within"]["of"]) == (1, 1)
    assert not scored([episode(1, "a", 10, 17)], [], whole(7, blame, 0.5))["blame"][
        "episodes_with_share"]


@test
def what_was_injected_is_a_share_of_all_steps():
    stopped = episode(1, "stopped", 10, 17, slowdown=2, expected_share=0.4)
    blame = [("was stopped", 0.5)]
    row, = scored([stopped], [], whole(3, blame, 0.5))["blame"]["episodes_with_share"]
    near(row["owned"], 3 * 0.5 / 7)  # four others were not slow
    across = [dict(s, start_ns=s["start_ns"] - S // 2, end_ns=s["end_ns"] - S // 2)
              for s in whole(7, blame, 0.5)]
    row, = scored([stopped], [], across)["blame"]["episodes_with_share"]
    near(row["owned"], 6.5 * 0.5 / 7)  # half of the first one was in it
    told = incident("stopped", 11, 12, id=3,
                    blame=[{"owner": "was stopped", "ns": round(1.75 * S)}])
    beside = dict(told, beside=True)
    row, = scored([stopped], [told, beside], whole(7, blame, 0.5, incident=3))["blame"][
        "episodes_with_share"]
    near(row["owned"], 1.75 / 7)  # of 3.5 s, steps that were shorter than usual gave back half


@test
def owners_are_of_a_fault_by_the_end_of_the_walk_and_by_its_code():
    code = episode(1, "slow_code", 10, 17, culprit={"kind": "job", "function": "count"})
    assert score.is_of("ran count (a.py:15)", code)
    assert not score.is_of("ran counter (a.py:15)", code) and not score.is_of("slept", code)
    assert score.is_of("ran Slower.before_step (slow_code.py:24)", code)
    assert not score.is_of("ran x (other_slow_code.py:24)", code)
    quota = episode(1, "cpu_throttle", 10, 17)
    assert score.is_of("could run, but a (5), of the job itself, had the CPU", quota)
    assert score.is_of("waited for b (6), which could run, but got no CPU", quota)
    assert not score.is_of("waited for b (6), which slept", quota)
    stopped = episode(1, "stopped", 10, 17)
    assert not score.is_of("waited for a, which was stopped (6), which slept", stopped)
    lock = "waited for Python's lock: b (6), which could run, but got no CPU"
    assert score.is_of(lock, episode(1, "python_gil", 10, 17)) and score.is_of(lock, quota)
    late = episode(1, "straggler", 10, 17)
    for owner in ("rank 1 (8) ran count (a.py:15)", "waited for the GPU, which waited for other ranks",
                  "waited for b (6), which waited for the GPU, which waited for other ranks"):
        assert score.is_of(owner, late)
    assert not score.is_of("waited for the GPU, which worked", late)


# ---- what comes true when a fault ends ----

MS = 10**6


def logged(start, count, ms, phase="train", **more):
    return [{"phase": phase, "half": False, "start_ns": int(start * S) + i * ms * MS,
             "end_ns": int(start * S) + (i + 1) * ms * MS, **more} for i in range(count)]


def released(blamed_ms, log=None, labels=(), clean=((0, 10), (19, 30)), told=True, fault=11):
    """Steps of 100 ms, of 200 ms in an episode from 10 to 17 s, of 110 ms after it, of which so
    many ms are blamed and 5 ms are unexplained."""
    if log is None:
        log = logged(0, 100, 100) + logged(10, 35, 200) + logged(17, 118, 110)
    said = [{"pid": 5, "start_ns": (10 * 1000 + 200 * i) * MS,
             "end_ns": (10 * 1000 + 200 * i + 200) * MS, "usual_ns": 100 * MS,
             "excess_ns": 100 * MS, "unexplained_ns": 5 * MS,
             "blame": [{"owner": "was stopped", "ns": (blamed_ms - 10) * MS},
                       {"owner": "slept", "ns": 10 * MS}]} for i in range(35)]
    rows = [{"type": "clean", "onset_ns": a * S, "end_ns": b * S} for a, b in clean]
    incidents = [incident("stopped", fault, fault + 1, victim={"pid": 5})] if told else []
    return score.score([score.Run("r", rows + [episode(1, "stopped", 10, 17), *labels],
                                  {"incidents": incidents, "steps": said},
                                  {5: log})])["after_release"]


@test
def the_step_time_without_what_is_blamed_is_held_against_that_after_the_fault():
    a = released(95)  # 200 - 95 = 105, and 110 came
    row, = a["episodes"]
    near(row["off"], 105 / 110 - 1)
    near(row["off_median"], 105 / 110 - 1)
    near(row["before"], 100 / 110 - 1)
    assert row["mean_ns"] == 200 * MS and row["blamed_ns"] == 95 * MS and not a["unknown"]
    assert (a["off"]["within"]["yes"], a["off"]["within"]["of"]) == (1, 1)
    assert (a["before"]["within"]["yes"], a["before"]["within"]["of"]) == (0, 1)
    a = released(20)
    near(a["off"]["median"], 180 / 110 - 1)
    near(a["off"]["p90"], 180 / 110 - 1)
    assert a["off"]["within"]["yes"] == 0


@test
def what_lies_between_steps_is_as_long_as_elsewhere():
    """A step of an evaluation has 300 ms in clean time, and more in the fault."""
    log = logged(0, 90, 100) + logged(9, 1, 300, "eval") + logged(9.3, 7, 100)
    log += logged(10, 30, 200) + logged(16, 1, 600, "eval") + logged(16.6, 2, 200)
    row, = released(95, log + logged(17, 118, 110))["episodes"]
    assert row["mean_ns"] == round(7000 * MS / 32)
    near(row["off"], (7000 - 35 * 95) / (32 * 110 + 300) - 1)


@test
def a_step_in_which_a_fault_began_counts_as_far_as_it_went():
    log = logged(0, 98, 100) + logged(9.8, 1, 400) + logged(10.2, 34, 200) + logged(17, 118, 110)
    row, = released(95, log)["episodes"]
    assert row["mean_ns"] == round(7200 * MS / 35)
    near(row["off"], (7200 - 35 * 95) / (35 * 110) - 1)


@test
def only_clean_steps_that_follow_at_once_are_what_came():
    other = episode(2, "stopped", 25, 32, slowdown=1)
    odd = logged(0, 100, 100) + logged(10, 35, 200) + logged(19, 20, 110) + logged(22, 20, 400)
    near(released(95, odd, clean=((0, 10), (19, 22)))["episodes"][0]["off"], 105 / 110 - 1)
    change = {"type": "benign", "kind": "batch_size", "onset_ns": 22 * S, "end_ns": 30 * S}
    near(released(95, odd, [change])["episodes"][0]["off"], 105 / 110 - 1)
    beside = released(95, odd + logged(33, 60, 110), [other], clean=((0, 10), (33, 40)))
    assert not beside["episodes"] and beside["unknown"] == 1, "another fault came between"


@test
def where_work_differs_steps_are_of_as_much_of_it():
    log = [r for i, work in enumerate((1, 3) * 50)
           for r in logged(0.2 * (i // 2) + 0.05 * (i % 2), 1, 50 * work, work=work)]
    log += logged(10, 35, 200, work=2) + logged(17, 80, 150, work=3)
    row = released(100, log)["episodes"][0]  # of work 2: 100 ms
    near(row["off"], 0, 0.01)


@test
def what_was_not_told_or_has_no_log_predicts_nothing():
    missed = released(95, told=False)
    assert not missed["episodes"] and missed["unknown"] == 0 and missed["off"]["median"] is None
    assert released(95, [])["unknown"] == 1 and released(95, logged(0, 100, 100))["unknown"] == 1


@test
def faults_are_told_by_the_names_of_causes():
    for fault, cause in (("op_delay", "slow_call"), ("cuda_delay", "slow_call"),
                         ("numa_remote", "numa"), ("disk_contention", "disk")):
        s = scored([episode(1, fault, 10, 17)], [incident(cause, 11, 13)])
        assert s["causes"]["top_1"]["yes"] == 1 and s["rows"][0]["cause"] == cause, fault
        s = scored([episode(1, fault, 10, 17)], [incident("slow_code", 11, 13)])
        assert s["causes"]["top_1"]["yes"] == 0, fault


# ---- runs, and what is not there ----


@test
def nothing_told_and_nothing_injected_can_be_scored():
    s = scored([], [])
    assert s["episodes"] == 0 and s["causes"]["top_1"]["share"] is None
    assert s["causes"]["macro_f1"] is None and s["delay_s"]["median"] is None


@test
def episodes_of_several_runs_are_added_up():
    runs = [score.Run(n, [episode(1, "a", 10, 17)], {"incidents": [incident("a", 11, 13)]})
            for n in ("x", "y")]
    s = score.score(runs)
    assert s["episodes"] == 2 and s["causes"]["top_1"]["yes"] == 2 and not s["clean_s"]
    assert [r["run"] for r in s["rows"]] == ["x", "y"] and s["false_an_hour"][0] is None


# ---- baselines ----


def windows(change):
    """Forty seconds; from the thirtieth on counters are as `change` says and the pace is half."""
    rows = []
    for s in range(40):
        slow = s >= 30
        features = {"preempted_ratio": 0.01 * (s % 3), "wait_disk_ratio": 0.02 * (s % 2),
                    "wait_gil_ratio": 0.0, "cpu_ratio": 1.0}
        features.update(change if slow else {})
        times = {"start_ns": s * S, "end_ns": (s + 1) * S, "pid": 5}
        rows.append(dict(times, layer="host", pace=None, features=features))
        rows.append(dict(times, layer="torch", pace=0.5 if slow else 1.0, features={}))
    return rows


def named(name, change):
    said = {"incidents": [incident(None, 30, 35, victim={"pid": 5})]}
    return baselines.renamed(said, windows(change), name)["incidents"][0]["cause"]


@test
def baselines_name_what_stands_out():
    for name in ("correlation", "time and pid", "waits"):
        assert named(name, {"preempted_ratio": 0.5}) == "cpu_contention", name
        assert named(name, {"wait_gil_ratio": 0.6}) == "python_gil", name
    both = {"wait_gil_ratio": 0.6, "wait_disk_ratio": 0.3}
    assert named("time and pid", both) == "disk_contention", "the system's come first"
    assert named("waits", both) == "python_gil", "what stands out most"
    for name in baselines.BASELINES:
        assert named(name, {}) is None, name
    assert named("NVML", {"wait_gil_ratio": 0.6}) is None
    assert named("waits", {"preempted_ratio": -5}) is None, "it went down"


@test
def baselines_see_nothing_that_came_after_it_was_told():
    rows = windows({"preempted_ratio": 0.5})
    said = {"incidents": [incident(None, 20, 28, victim={"pid": 5})]}
    for name in baselines.BASELINES:
        got = baselines.renamed(said, rows, name)
        assert got["incidents"][0]["cause"] is None and got["steps"] == [], name


@test
def correlations_are_those_of_tables():
    near(baselines.pearson([(1, 2), (2, 4), (3, 6)]), 1)
    near(baselines.pearson([(1, 3), (2, 1), (3, 2)]), -0.5)
    assert baselines.pearson([(1, 3), (1, 1)]) == 0


def main():
    print(f"1..{len(TESTS)}")
    failed = 0
    for number, fn in enumerate(TESTS, 1):
        try:
            fn()
            print(f"ok {number} - {fn.__name__}")
        except (AssertionError, KeyError, ValueError, TypeError) as e:
            failed += 1
            print(f"not ok {number} - {fn.__name__}\n# {type(e).__name__}: {e}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
