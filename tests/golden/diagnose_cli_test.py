"""eacgm diagnose, from the command line: of simulated jobs, and of recordings that are none.

Needs no root. Prints TAP.
"""
import json
import pathlib
import subprocess
from collections import Counter

import perfetto_check
from cli import EACGM, RECORDINGS, eacgm, job, main, test

SECOND = 1_000_000_000
START = 1000 * SECOND  # of make_job.c
FAULT = (40, 55)  # seconds, in which aten::mm takes 1.6 times as long


def model_of(folder):
    eacgm("learn", job(folder / "clean.eacgm", 1, 90), "-o", folder / "m.model")
    return folder / "m.model"


@test
def a_slow_operator_is_told_with_its_line_and_cost(folder):
    model = model_of(folder)
    slow = job(folder / "slow.eacgm", 2, 70, *FAULT, 1.6)
    said = json.loads(eacgm("diagnose", slow, "-m", model, "--json").stdout)
    mine = [i for i in said["incidents"]
            if i["onset_ns"] < START + FAULT[1] * SECOND and i["end_ns"] > START + FAULT[0] * SECOND]
    assert len(mine) == 1, said["incidents"]
    it = mine[0]
    assert it["cause"] == "slow_call" and it["culprit"]["code"]["line"] == 44, it
    assert it["culprit"]["call"] == "aten::mm", it
    assert 0 < it["confidence"] <= 1 and it["advice"] and it["told_ns"] >= it["onset_ns"]
    assert abs(it["onset_ns"] - START - FAULT[0] * SECOND) < 2 * SECOND, it["onset_ns"]
    parts = sum(p["ns"] for p in it["blame"]) + it["unexplained_ns"]
    assert abs(parts - it["cost_ns"]) <= 0.05 * it["cost_ns"], (parts, it["cost_ns"])
    assert said["cost_ns"] >= it["cost_ns"] > SECOND


@test
def what_comes_to_a_cause_that_stands_is_told_beside_it(folder):
    model = model_of(folder)
    slow = job(folder / "slow.eacgm", 2, 70, *FAULT, 1.6, 45, 50)
    said = json.loads(eacgm("diagnose", slow, "-m", model, "--steps", "--json").stdout)
    found = [i for i in said["incidents"] if i["onset_ns"] >= START + (FAULT[0] - 2) * SECOND]
    assert [i["cause"] for i in found] == ["slow_call", "python_gc"], [
        (i["cause"], i["onset_ns"] - START, i["end_ns"] - START) for i in said["incidents"]]
    stands, gc = found
    assert stands["end_ns"] > START + (FAULT[1] - 2) * SECOND, stands["end_ns"]
    assert said["cost_ns"] == stands["cost_ns"] > 3 * gc["cost_ns"], said["cost_ns"]
    assert abs(gc["onset_ns"] - START - 45 * SECOND) < 1.5 * SECOND, gc["onset_ns"]
    assert abs(gc["end_ns"] - START - 50 * SECOND) < 1.5 * SECOND, gc["end_ns"]
    # its cost is what came: 15 ms in each of its steps, and nothing of what stood
    steps = [s for s in said["steps"] if gc["onset_ns"] <= s["start_ns"] < gc["end_ns"]]
    assert abs(gc["cost_ns"] - 15e6 * len(steps)) < 0.2 * gc["cost_ns"], (
        gc["cost_ns"], len(steps))
    assert gc["beside"] and not stands["beside"] and gc["id"] == stands["id"], said["incidents"]
    text = eacgm("diagnose", slow, "-m", model).stdout
    assert "x as long as in the rest of incident 1, " in text, text
    assert gc["blame"][0]["owner"] == "collected garbage", gc["blame"]
    assert gc["blame"][0]["ns"] > 0.9 * gc["cost_ns"], gc["blame"]
    assert gc["onset_ns"] < gc["told_ns"] <= gc["end_ns"] + SECOND, gc


@test
def slow_steps_add_up(folder):
    model = model_of(folder)
    slow = job(folder / "slow.eacgm", 2, 70, *FAULT, 1.6)
    said = json.loads(eacgm("diagnose", slow, "-m", model, "--steps", "--json").stdout)
    steps = [s for s in said["steps"] if s["excess_ns"] > 0.1 * s["usual_ns"]]
    assert len(steps) > 100, len(said["steps"])
    for s in steps:
        parts = sum(p["ns"] for p in s["blame"]) + s["unexplained_ns"]
        assert abs(parts - s["excess_ns"]) <= 0.05 * s["excess_ns"], s
    text = eacgm("diagnose", slow, "-m", model, "--steps").stdout
    assert text.count("step at ") >= len(steps), text[:500]


@test
def what_was_slow_before_anything_was_judged_is_not_what_is_usual(folder):
    model = model_of(folder)

    def usual_of(path):
        said = json.loads(eacgm("diagnose", path, "-m", model, "--steps", "--json").stdout)
        assert [i["cause"] for i in said["incidents"]] == ["slow_call"], said["incidents"]
        return said["incidents"][0]["onset_ns"], said["steps"][0]["usual_ns"]
    _, usual = usual_of(job(folder / "one.eacgm", 2, 70, *FAULT, 1.6))
    # slow since its third second, and judged from its sixth on; little is left after it
    onset, other = usual_of(job(folder / "other.eacgm", 2, 22, 2, 20, 1.6))
    assert abs(onset - START - 2 * SECOND) < 0.2 * SECOND, onset  # its first slow step
    assert abs(other - usual) < 0.03 * usual, (other, usual)


@test
def the_answer_comes_first(folder):
    model = model_of(folder)
    slow = job(folder / "slow.eacgm", 2, 70, *FAULT, 1.6)
    lines = eacgm("diagnose", slow, "-m", model).stdout.splitlines()
    assert lines[0].startswith(f"{slow}: 1 incident cost the job "), lines[0]
    assert lines[2].startswith("1. A call became slower: aten::mm, at "), lines[2]
    assert any(line.startswith("    do: ") for line in lines), lines


@test
def where_nothing_is_wrong_it_says_so(folder):
    model = model_of(folder)
    clean = job(folder / "other.eacgm", 3, 60)
    text = eacgm("diagnose", clean, "-m", model).stdout
    assert text == f"{clean}: nothing was abnormal, by {model}\n", text


@test
def what_was_told_meanwhile_is_explained_too(folder):
    told = job(folder / "told.eacgm", 2, 70, *FAULT, 1.6, "told")
    said = json.loads(eacgm("diagnose", told, "--told", "--json").stdout)
    assert [i["cause"] for i in said["incidents"]] == ["slow_call"], said
    assert said["duration_ns"] > 60 * SECOND, said["duration_ns"]
    short = job(folder / "short.eacgm", 2, 1, *FAULT, 1.6, "told")  # nothing usual is in it
    for i in json.loads(eacgm("diagnose", short, "--told", "--json").stdout)["incidents"]:
        assert i["cause"] == "unknown" and i["culprit"]["code"] is None, i
    assert "what was told while it was recorded" in eacgm("diagnose", told, "--told").stdout


def timeline_of(folder, *args):
    eacgm("export", *args, "-o", folder / "out.perfetto-trace")
    schema = pathlib.Path(__file__).resolve().parents[2] / "src/export/perfetto.proto"
    trace = perfetto_check.Trace(perfetto_check.parse(
        perfetto_check.decode(folder / "out.perfetto-trace", schema)))
    rows = {name: sorted((s for s in trace.slices if s["track"]["name"] == name),
                         key=lambda s: s["start"]) for name in ("incidents", "path of blame")}
    return trace, rows["incidents"], rows["path of blame"]


@test
def timelines_show_incidents_and_along_what_their_time_went(folder):
    model = model_of(folder)
    slow = job(folder / "slow.eacgm", 2, 70, *FAULT, 1.6)
    said = json.loads(eacgm("diagnose", slow, "-m", model, "--steps", "--json").stdout)
    heading = eacgm("diagnose", slow, "-m", model).stdout.splitlines()[2]
    trace, incidents, path = timeline_of(folder, slow, "--detect", "-m", model)
    shown, = incidents
    it, = said["incidents"]
    assert f"1. {shown['name']}" == heading, (shown, heading)
    assert (shown["start"], shown["end"]) == (it["onset_ns"], it["end_ns"]), shown
    notes = {name: value for name, (_, value) in shown["args"].items()}
    assert notes["cause"] == it["cause"] and notes["do"] == it["advice"], notes
    assert abs(notes["cost_ns"] - it["cost_ns"]) < 1 and notes["confidence"] == it["confidence"]
    assert notes["blame 1"].endswith(": " + it["blame"][0]["owner"]), notes
    assert notes["pid"] == 4242 and notes["incident"] == 1, notes
    process = trace.tracks[path[0]["track"]["parent"]]
    assert process["kind"] == "process" and process["pid"] == 4242, process
    for step in said["steps"]:  # its slices have all of it, one after the other
        within = [s for s in path if step["start_ns"] <= s["start"] < step["end_ns"]]
        assert within[0]["start"] == step["start_ns"] and within[-1]["end"] == step["end_ns"], step
        assert all(a["end"] == b["start"] for a, b in zip(within, within[1:])), within
    first, last = said["steps"][0]["start_ns"], said["steps"][-1]["end_ns"]
    assert path[0]["start"] == first and path[-1]["end"] == last, (path[0], path[-1])
    assert all(a["end"] <= b["start"] for a, b in zip(path, path[1:]))
    assert all(s["args"] == {"incident": ("uint", 1)} for s in path)
    took = Counter()
    for s in path:
        took[s["name"]] += s["end"] - s["start"]
    owner = it["blame"][0]
    assert owner["owner"] == "ran train (train.py:44)", owner
    assert abs(took[owner["owner"]] - owner["whole_ns"]) < 0.01 * owner["whole_ns"], (took, owner)


@test
def timelines_show_why_of_what_was_told_and_nothing_where_all_is_well(folder):
    told = job(folder / "told.eacgm", 2, 70, *FAULT, 1.6, "told")
    _, (shown,), path = timeline_of(folder, told)
    assert shown["name"].startswith("A call became slower: aten::mm, at "), shown
    assert shown["start"] == START + 40 * SECOND, shown
    assert abs(shown["end"] - (START + 55 * SECOND)) < SECOND // 2, shown  # with its last slow step
    assert path and all(START + 39 * SECOND < s["start"] < START + 56 * SECOND for s in path)
    plain = job(folder / "plain.eacgm", 2, 20)
    trace, incidents, path = timeline_of(folder, plain)
    names = {row["name"] for row in trace.tracks.values()}
    assert not incidents and not path and not names & {"incidents", "path of blame"}, names


@test
def wrong_use_gets_one_line(folder):
    model = folder / "no.model"
    for args, status in ((("missing.eacgm",), 1), ((__file__,), 1), ((), 2),
                         ((RECORDINGS / "v1.eacgm", "--top", "x"), 2),
                         ((RECORDINGS / "v1.eacgm", "-m", model, "--told"), 2),
                         ((RECORDINGS / "v1.eacgm", "-m", model), 1),
                         ((RECORDINGS / "v1.eacgm",), 1)):  # too short to judge
        done = subprocess.run([EACGM, "diagnose", *map(str, args)], capture_output=True,
                              text=True, check=False, cwd=folder, timeout=60)
        assert done.returncode == status, (args, done)
        assert done.stdout == "" and done.stderr.startswith("eacgm diagnose: "), (args, done)


@test
def recordings_of_gpus_and_ranks_are_read(folder):
    for name in ("v1_gpu.eacgm", "v1_profile.eacgm", "v1_ranks.eacgm"):
        done = subprocess.run([EACGM, "diagnose", RECORDINGS / name, "--told", "--json"],
                              capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0 and json.loads(done.stdout)["incidents"] == [], (name, done)


main()
