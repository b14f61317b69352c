#!/usr/bin/env python3
"""host_evaluation_test.py - what lab/detect/host.py does beside recording and judging: its lanes, how
many alarms there are an hour and how well that is known, and that tasks end in time whatever they
do. Needs no root, no eacgm and no recording. Prints TAP."""

import os
import pathlib
import sys
import tempfile
import time
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lab/detect"))
import host
from workloads import WORKLOADS

TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


class Parser:
    @staticmethod
    def error(text):
        raise ValueError(text)


def lanes(**given):
    args = types.SimpleNamespace(smoke=False, with_faults=False, lane=None, call=2, pace="dense")
    args.__dict__.update(given)
    return host.lanes_of(args, ["cpu_gpt"], Parser)


def refused(**given):
    try:
        lanes(**given)
    except ValueError as e:
        return str(e)
    return None


@test
def poisson_intervals_are_those_of_the_tables(_):
    for k, low, high in ((0, 0, 3.689), (1, 0.0253, 5.572), (3, 0.619, 8.767), (10, 4.795, 18.390),
                         (100, 81.364, 121.627)):
        found = host.poisson_interval(k)
        assert abs(found[0] - low) < 2e-3 and abs(found[1] - high) < 2e-3, (k, found)


@test
def alarms_are_counted_by_launches_rate_and_least_effect(_):
    rates = {host.asked(r, least): {"alarms": int(r) + (not least), "not_slow": 0}
             for r in host.RATES for least in host.LEASTS}
    rows = [{"launches": n, "seconds": 1800, "rates": rates} for n in (1, 1, 2)]
    table = {(r["launches"], r["asked_per_hour"], r["least_effect"], r["counted"]): r
             for r in host.alarms_table(rows)}
    assert len(table) == 2 * 3 * 2 * 2
    of_one, of_two = table[1, 10, 10, "alarms"], table[2, 10, 10, "alarms"]
    assert of_one["alarms"] == 20 and of_one["per_hour"] == 20
    assert of_two["hours"] == 0.5 and of_two["per_hour"] == 20
    assert table[1, 10, 0, "alarms"]["alarms"] == 22
    assert table[1, 10, 10, "not_slow"]["interval_95"] == [0, 3.69]


class Planned:
    """Of a run, as much as its judging is planned by."""

    def __init__(self, plan, seed):
        self.plan, self.seed, self.name, self.episodes = plan, seed, "job-%s-%d" % (plan, seed), []


def alarms_planned(launches):
    """{launch: those that each model was learned from that says how many alarms it has}"""
    judging = host.Judging.__new__(host.Judging)
    judging.args, judging.options = types.SimpleNamespace(eacgm="", learned=None), []
    judging.models = judging.kept = ""
    judging.learned, judging.faulty = {}, {}
    judging.by = {"job": [Planned("clean", seed) for seed in range(launches)]}
    judging.tasks = host.Tasks(lambda text: None, 1, 0)
    judging.add_all()
    names = [name for _, name, *_ in judging.tasks.waiting]
    assert len(names) == len(set(names)), names
    ret = {run.seed: [] for run in judging.by["job"]}
    for _, name, _, args, after in judging.tasks.waiting:
        assert after is None or after in names, (name, after)
        if name.startswith("alarms"):
            ret[args[1].seed].append([r.seed for r in args[2]])
    return ret


@test
def each_clean_launch_has_the_alarms_of_a_model_of_all_others(_):
    assert alarms_planned(1) == {0: []}
    assert alarms_planned(2) == {0: [[1]], 1: [[0]]}
    planned = alarms_planned(3)
    assert planned == {0: [[1, 2]], 1: [[0], [0, 2]], 2: [[0], [0, 1]]}, planned


@test
def calls_have_seeds_of_their_own(_):
    first, second = (lanes(call=n)[0] for n in (1, 2))
    assert [r.plan for r in first] == [plan for plan, _, _ in host.RUNS]
    assert not {(r.plan, r.seed) for r in first} & {(r.plan, r.seed) for r in second}
    for names in host.CALLS.values():
        assert set(names) <= set(WORKLOADS)


@test
def lanes_may_be_given(_):
    found, = lanes(lane=["cpu_text:clean/1/0.5,test/3/2"])
    assert [(r.workload, r.plan, r.seed, r.seconds) for r in found] == [
        ("cpu_text", "clean", 1, 30), ("cpu_text", "test", 3, 120)]
    assert "no workload" in refused(lane=["nothing:clean/1/1"])
    assert "PLAN/SEED/MINUTES" in refused(lane=["cpu_text:clean"])
    assert len(lanes(smoke=True, with_faults=True)[0]) == 2


@test
def live_runs_are_judged_by_the_model_of_most_launches(folder):
    models = os.path.join(folder, "models")
    os.mkdir(models)
    clean, faulty = lanes(lane=["cpu_text:clean/1/1,apart/1/1"])[0]
    args = types.SimpleNamespace(live=True, work=folder, learned=None, record_options=None)
    assert host.record_options(args, faulty) is None  # nothing was learned yet
    for name in ("cpu_text-2.model", "cpu_text-10.model", "cpu_text-without-3.model",
                 "cpu_text_b-30.model", "starts.json"):
        pathlib.Path(models, name).touch()
    said = host.record_options(args, faulty).split()
    assert said == [*WORKLOADS["cpu_text"].record, "--detect=%s/cpu_text-10.model" % models], said
    assert host.record_options(args, clean) is None
    args.record_options = "--layers torch"
    assert host.record_options(args, faulty).split()[:2] == ["--layers", "torch"]
    args.work, args.learned = os.path.join(folder, "other"), folder
    assert host.record_options(args, faulty).endswith("cpu_text-10.model")
    args.live = False
    assert host.record_options(args, faulty) == "--layers torch"


def fails():
    raise ValueError("as it must")


LIMIT_S, LATE_S, LASTS_S = 4, 6, 60  # of all; when what a task started would write; of a task


def lasts(path):
    if os.fork() == 0:  # what a task starts is ended with it
        time.sleep(LATE_S)
        pathlib.Path(path).touch()
        os._exit(0)
    time.sleep(LASTS_S)


@test
def tasks_end_in_time(folder):
    said, path = [], os.path.join(folder, "late")
    tasks = host.Tasks(said.append, 2, time.monotonic() + LIMIT_S)
    tasks.add(0, "fails", fails)
    tasks.add(1, "behind it", max, 1, 2, after="fails")
    tasks.add(0, "works", max, 3, 4)
    tasks.add(1, "behind", min, 3, 4, after="works")
    tasks.add(2, "lasts", lasts, path)
    began = time.monotonic()
    tasks.run()
    assert time.monotonic() - began < LASTS_S / 2
    assert tasks.results == {"works": 4, "behind": 3}, tasks.results
    whys = {f["task"]: f["why"] for f in tasks.failed}
    assert "as it must" in whys["fails"] and whys["lasts"] == "the time was over", whys
    time.sleep(max(0, began + LATE_S + 1.7 - time.monotonic()))
    assert not os.path.exists(path), "what a task had started went on"


@test
def quiet_lanes_have_whole_cores(_folder):
    cores = host.Cores(list(range(8)), quiet=True)
    assert cores.has(2) and not cores.has(4)
    first = cores.take(2)
    assert first == [0, 2, 6], first  # the last is the recorder's
    second = cores.take(1)
    assert second == [4, 7] and not cores.has(1), second
    cores.give(first)
    assert cores.has(2) and cores.take(2) == [0, 2, 6]
    shared = host.Cores(list(range(4)), quiet=False)
    assert shared.take(1) == [0, 1] and shared.has(1) and not shared.has(2)


@test
def lanes_are_spread_over_gpus(_folder):
    def lane(gpus, gpu=0):
        return types.SimpleNamespace(workload=types.SimpleNamespace(gpus=gpus), gpu=gpu)
    on = host.Recording.__new__(host.Recording)
    on.host, on.args = types.SimpleNamespace(gpus=2), types.SimpleNamespace(gpu_at_once=2)
    on.running = [lane(0)]
    for wanted, gpu in ((0, 0), (1, 0), (1, 1), (1, 0), (1, 1), (1, None), (2, None), (0, 0)):
        assert on.free_gpu(wanted) == gpu, (wanted, [x.gpu for x in on.running])
        on.running.append(lane(wanted, gpu or 0) if gpu is not None else lane(0))
    on.running = [lane(1)]
    assert on.free_gpu(2) == 0 and on.free_gpu(1) == 1


def main():
    failed = 0
    print(f"1..{len(TESTS)}")
    for i, fn in enumerate(TESTS, 1):
        with tempfile.TemporaryDirectory() as folder:
            try:
                fn(folder)
                print(f"ok {i} - {fn.__name__.replace('_', ' ')}")
            except (AssertionError, OSError, ValueError, KeyError) as e:
                failed = 1
                print(f"not ok {i} - {fn.__name__.replace('_', ' ')}\n# {type(e).__name__}: {e}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
