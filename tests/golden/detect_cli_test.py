"""eacgm detect, from the command line: tables of numbers, and recordings that the tests keep.

Needs no root. Prints TAP.
"""
import csv
import json
import math
import os
import random
import resource
import signal
import subprocess
import time

import perfetto_check
from cli import EACGM, RECORDINGS, ROOT, eacgm, job, main, test

SAMPLE = RECORDINGS / "v1_gpu.eacgm"
PROTO = ROOT / "src/export/perfetto.proto"
SECOND = 1_000_000_000
JOB_START, JOB_PID = 1000 * SECOND, 4242  # of make_job.c
FAULT = (40, 55)  # seconds, in which aten::mm takes 1.6 times as long


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
ODD = [(-1.5, 15.0), (2.0, -20.0)]


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
    rarest = min(said["anomalies"], key=lambda a: a["p_value"])["row"]
    assert rarest != 101 and f" {rarest} " in few and " 101 " not in few, few
    assert "... and 2 more that are less rare" in few, few


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


# ---- recordings: a simulated job, tests/golden/make_job.c ----

def learn_job(folder):
    paths = [job(folder / f"good{i}.eacgm", i, 120) for i in range(2)]
    eacgm("learn", *paths, "-o", folder / "job.model")
    return folder / "job.model"


def overlaps(anomaly):
    start, end = (JOB_START + s * SECOND for s in FAULT)
    return anomaly["start_ns"] < end and anomaly["end_ns"] > start


@test
def a_slow_operator_is_found_with_its_calls_and_lines(folder):
    model = learn_job(folder)
    bad = job(folder / "bad.eacgm", 7, 100, *FAULT, 1.6)
    said = found(bad, "-m", model)
    assert said["kind"] == "job" and said["start_monotonic_ns"] == JOB_START
    assert said["events"] > 30000 and said["rows"] > 100 and said["events_late"] == 0
    assert 90 <= said["judged_s"] <= 101, said["judged_s"]
    assert all(overlaps(a) for a in said["anomalies"]), said["anomalies"]
    a = next(a for a in said["anomalies"] if a["layer"] == "torch")
    assert a["name"] == "aten::mm" and a["pid"] == JOB_PID and a["gpu"] is None and a["ended"]
    assert abs(a["start_ns"] - JOB_START - FAULT[0] * SECOND) <= 2 * SECOND
    assert abs(a["end_ns"] - JOB_START - FAULT[1] * SECOND) <= 2 * SECOND
    assert a["p_value"] < 1e-3 and math.isclose(a["score"], -math.log10(a["p_value"]), rel_tol=1e-6)
    assert a["why"].startswith("aten::mm took 1."), a["why"]
    assert a["features"] and 0 < sum(f["share_ratio"] for f in a["features"]) <= 1 + 1e-9
    mm = a["calls"][0]
    assert mm["key"] == "aten::mm" and 1.4 < mm["mean_ns"] / mm["usual_ns"] < 1.7, mm
    assert 0.5 < a["lost_ns"] / (mm["more_ns"]) < 1.5
    line = a["lines"][0]  # the operator is called there
    assert (line["function"], line["file"], line["line"]) == ("train", "/job/train.py", 44)
    assert line["ns"] > line["usual_ns"] > 0
    text = eacgm("detect", bad, "-m", model).stdout
    assert {a["incident"] for a in said["anomalies"]} == {1}, said["anomalies"]
    assert text.startswith(f"{bad}: 1 incident ({len(said['anomalies'])} anomalies) in "), text
    # what says most of why comes first, the other layers in a line each
    assert "1. at 40.0 s for " in text and ", torch, pid 4242, aten::mm\n" in text, text
    assert text.count("\n    also ") == len(said["anomalies"]) - 1, text
    assert all(" ".join(x["why"].split()) in " ".join(text.split()) for x in said["anomalies"])
    assert "train (/job/train.py:44)" in text
    eacgm("detect", bad, "-m", model, "--exit-code", status=3)


@test
def the_rarest_are_shown_in_order_of_time(folder):
    options = ("-m", learn_job(folder), "--alarms-per-hour", 1800,
               "--least-effect", 0)
    path = job(folder / "bad.eacgm", 7, 100, *FAULT, 1.6)
    said = found(path, *options)["anomalies"]
    incidents = list(dict.fromkeys(a["incident"] for a in said))
    worst = {i: min(a["p_value"] for a in said if a["incident"] == i) for i in incidents}
    rarest = sorted(incidents, key=worst.get)[:2]
    text = eacgm("detect", path, *options, "-n", 2).stdout
    shown = [int(line.split(".")[0]) for line in text.splitlines() if ". at " in line]
    assert len(incidents) > 2, said
    assert shown == sorted(incidents.index(i) + 1 for i in rarest), (shown, rarest)
    assert f"... and {len(incidents) - 2} more that are less rare" in text, text


@test
def a_normal_run_has_no_anomalies(folder):
    model = learn_job(folder)
    good = job(folder / "other.eacgm", 8, 200)
    assert found(good, "-m", model)["anomalies"] == []
    text = eacgm("detect", good, "-m", model, "--exit-code").stdout
    assert text.startswith(f"{good}: 0 incidents in "), text


@test
def what_is_not_normal_is_up_to_the_rate_of_alarms(folder):
    model = learn_job(folder)
    good = job(folder / "other.eacgm", 8, 200)
    counts = [found(good, "-m", model, "--alarms-per-hour", rate,
                    "--least-effect", 0)["rows_alarmed"]
              for rate in (0.01, 1, 3000)]
    assert counts[0] <= counts[1] < counts[2], counts
    # a tenth of the job's time is lost nowhere in it, however often one wants to be told
    assert found(good, "-m", model, "--alarms-per-hour", 3000)["rows_alarmed"] == 0


@test
def what_costs_little_is_not_told(folder):
    model = learn_job(folder)
    mild = job(folder / "mild.eacgm", 7, 100, *FAULT, 1.15)
    told = [len(found(mild, "-m", model, "--least-effect", percent)["anomalies"])
            for percent in (0, 3, 20)]
    assert told[0] and told[1] and not told[2], told
    for wrong in ("-1", "100", "x"):
        said = eacgm("detect", mild, "-m", model, "--least-effect", wrong, status=2)
        assert "'--least-effect' takes a number of 0 to 99" in said.stderr, said.stderr


@test
def what_is_excused_can_be_judged(folder):
    model = learn_job(folder)
    good = job(folder / "other.eacgm", 8, 60)
    unjudged = {}
    for excuse in (None, "warm-up"):
        found(good, "-m", model, "--rows", folder / "rows", *(("--without-excuse", excuse)
                                                              if excuse else ()))
        unjudged[excuse] = sum(json.loads(line)["p_value"] is None
                               for line in (folder / "rows").read_text().splitlines())
    assert unjudged["warm-up"] < unjudged[None], unjudged
    done = eacgm("detect", good, "--without-excuse", "nothing", status=2)
    assert "without-excuse" in done.stderr and "new-sizes" in done.stderr, done.stderr
    done = eacgm("detect", write(folder / "x.csv", draw(10, 8)), "-m", folder / "m.model",
                 "--without-excuse", "warm-up", status=2)
    assert "is for recordings" in done.stderr, done.stderr


@test
def the_page_names_each_excuse(folder):
    said = eacgm("detect", "x", "--without-excuse", "nothing", status=2).stderr
    names = said.split("takes one of ")[1].split(", not")[0].split("|")
    page = (ROOT / "docs/developers/detection.md").read_text()
    missing = [n for n in names if f"`{n}`" not in page]
    assert len(names) > 8 and not missing, (names, missing)


@test
def of_a_damaged_recording_the_rest_is_judged(folder):
    model = learn_job(folder)
    path = job(folder / "torn.eacgm", 7, 250, *FAULT, 1.6)  # three blocks of calls and more
    data = bytearray(path.read_bytes())
    at = len(data) // 2
    data[at:at + 16] = bytes(16)
    path.write_bytes(data)
    done = eacgm("detect", path, "-m", model, "--json")
    assert done.stderr.startswith(f"eacgm detect: '{path}' is damaged at byte "), done.stderr
    said = json.loads(done.stdout)
    assert said["events"] < 180000 and any(overlaps(a) for a in said["anomalies"])
    done = eacgm("learn", path, "-o", folder / "torn.model")
    assert done.stderr.startswith(f"eacgm learn: '{path}' is damaged at byte "), done.stderr


@test
def without_a_model_the_beginning_is_what_is_normal(folder):
    short = job(folder / "short.eacgm", 9, 10)
    why = f"'{short}': nothing could be judged: there is too little normal running in it " \
        "to learn from: a minute of work is needed, or a model (-m)\n"
    done = eacgm("detect", short, status=1)
    assert (done.stdout, done.stderr) == ("", "eacgm detect: " + why), done
    done = eacgm("detect", short, "--json", status=1)
    assert json.loads(done.stdout)["anomalies"] == [] and done.stderr == "eacgm detect: " + why
    done = eacgm("export", short, "--detect", "-o", folder / "out")  # without marks
    assert ("eacgm export: " + why) in done.stderr and (folder / "out").exists(), done
    said = found(job(folder / "bad.eacgm", 9, 150, 110, 125, 3))
    assert said["model"] is None and said["judged_s"] > 60
    assert said["anomalies"], said
    for a in said["anomalies"]:
        at = (a["start_ns"] - JOB_START) / SECOND
        assert 108 <= at <= 125, a


@test
def rows_and_events_are_written(folder):
    model = learn_job(folder)
    bad = job(folder / "bad.eacgm", 7, 100, *FAULT, 1.6)
    said = found(bad, "-m", model, "--rows", folder / "rows.jsonl",
                 "--events", folder / "events.csv")
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == said["rows"]
    assert sum(r["alarmed"] for r in rows) == said["rows_alarmed"]
    torch = [r for r in rows if r["layer"] == "torch"]
    assert 95 <= len(torch) <= 102 and all(r["pid"] == JOB_PID for r in torch)
    slow = [r for r in torch if r["features"]["slowdown"] and r["features"]["slowdown"] > 0.1]
    assert len(slow) >= 14 and all(overlaps(r) for r in slow)
    assert sum(r["events"] for r in torch) > 20000
    with open(folder / "events.csv", newline="", encoding="utf-8") as text:
        events = list(csv.DictReader(text))
    assert list(events[0]) == ["start_ns", "dur_ns", "pid", "tid", "layer", "key", "z", "gap_z",
                               "more_ns", "anomalous"]
    calls = json.loads(eacgm("report", bad, "--json").stdout)["recording"]["events"]
    assert len(events) == calls == said["events"]
    mm = [e for e in events if e["key"] == "aten::mm" and e["z"]]
    inside = [float(e["z"]) for e in mm
              if 1 < (int(e["start_ns"]) - JOB_START) / SECOND - FAULT[0] < 14]
    outside = [float(e["z"]) for e in mm
               if not -1 < (int(e["start_ns"]) - JOB_START) / SECOND - FAULT[0] < 16]
    assert sum(inside) / len(inside) > 3 > 0.5 > abs(sum(outside) / len(outside))
    marked = [e for e in events if e["anomalous"] == "1"]
    within = [e for e in marked if overlaps({"start_ns": int(e["start_ns"]),
                                             "end_ns": int(e["start_ns"]) + 1})]
    slow = [e for e in within if e["key"] == "aten::mm"]
    assert len(slow) > 0.9 * len(inside) and len(slow) > 0.9 * len(marked) > 0
    assert all(float(e["more_ns"]) > 0 for e in slow)


@test
def timelines_are_marked(folder):
    model = learn_job(folder)
    bad = job(folder / "bad.eacgm", 7, 100, *FAULT, 1.6)
    said = found(bad, "-m", model)
    eacgm("export", bad, "--detect", "-m", model, "-o", folder / "out")
    trace = perfetto_check.parse(perfetto_check.decode(folder / "out", PROTO))
    tracks = {d["uuid"][0]: d for p in trace["packet"] for d in p["track_descriptor"]}
    root = next(u for u, d in tracks.items() if d["name"] == ["anomalies"])
    below = {u: d["name"][0] for u, d in tracks.items() if d["parent_uuid"] == [root]}
    assert set(below.values()) == {a["layer"] for a in said["anomalies"]}
    told = []
    for p in trace["packet"]:
        for event in p["track_event"]:
            if event["track_uuid"][0] in below and event["type"] == ["TYPE_SLICE_BEGIN"]:
                notes = {a["name"][0]: (a["string_value"] or a["double_value"])[0]
                         for a in event["debug_annotations"]}
                told.append((p["timestamp"][0], below[event["track_uuid"][0]], notes["why"]))
    assert sorted(told) == sorted((a["start_ns"], a["layer"], a["why"])
                                  for a in said["anomalies"])
    plain = eacgm("export", bad, "-o", folder / "plain") and (folder / "plain").stat().st_size
    assert plain < (folder / "out").stat().st_size
    done = eacgm("export", bad, "-f", "csv", "--detect", status=2)
    assert "csv has no place for --detect" in done.stderr
    done = eacgm("export", bad, "-m", model, status=2)
    assert "--model is for --detect" in done.stderr


@test
def what_was_told_is_shown(folder):
    bad = job(folder / "bad.eacgm", 7, 30, 10, 15, 1.6, "told")
    said = found(bad, "--told")
    assert said["kind"] == "told" and "judged_s" not in said, said
    one, = said["anomalies"]
    start = JOB_START + 10 * SECOND
    assert (one["start_ns"], one["end_ns"], one["told_ns"]) == \
        (start, start + 5 * SECOND, start + SECOND), one
    assert one["ended"] and one["why"] == "aten::mm took longer" and one["lost_ns"] is None, one
    assert one["features"][0]["name"] == "slowdown" and one["calls"][0]["calls"] == 100, one
    assert one["lines"][0]["function"] == "train", one
    text = eacgm("detect", bad, "--told").stdout
    assert text.startswith(f"{bad}: 1 incident told while it was recorded"), text
    assert "1. at 10.0 s for 5.00 s, torch, pid 4242, aten::mm" in text, text
    assert eacgm("detect", bad, "--told", "--exit-code", status=3)
    shown, = json.loads(eacgm("report", bad, "--json").stdout)["anomalies"]  # with nine digits
    assert set(shown) == set(one) - {"lines"} and shown["calls"] == one["calls"], shown
    assert all(shown[k] == one[k] for k in ("start_ns", "end_ns", "id", "layer", "why")), shown
    text = eacgm("report", bad).stdout
    assert "torch, pid 4242: aten::mm took longer (lasted 5.00 s, p 1e-06)" in text, text
    eacgm("export", bad, "-o", folder / "out")
    trace = perfetto_check.parse(perfetto_check.decode(folder / "out", PROTO))
    assert any(d["name"] == ["anomalies"] for p in trace["packet"] for d in p["track_descriptor"])
    eacgm("merge", bad, job(folder / "other.eacgm", 3, 5), "-o", folder / "both.eacgm")
    kept, = found(folder / "both.eacgm", "--told")["anomalies"]
    assert kept["why"] == one["why"] and kept["features"] == one["features"], kept
    plain = job(folder / "plain.eacgm", 3, 5)
    assert "anomalies" not in json.loads(eacgm("report", plain, "--json").stdout)
    assert found(plain, "--told")["anomalies"] == []
    done = eacgm("detect", bad, "--told", "--rows", folder / "rows", status=2)
    assert "--told judges nothing" in done.stderr, done.stderr


@test
def models_fit_what_they_were_learned_from(folder):
    learn(folder)
    model = learn_job(folder)
    bad, table = job(folder / "bad.eacgm", 7, 40), write(folder / "x.csv", ODD)
    for args in (("detect", bad), ("export", bad, "--detect")):
        done = eacgm(*args, "-m", folder / "m.model", status=1)
        assert "was learned from a table, and this is a recording" in done.stderr, done.stderr
    done = eacgm("detect", table, "-m", model, status=1)
    assert "was learned from recordings, and this is a table" in done.stderr, done.stderr
    assert "bad.perfetto-trace" not in os.listdir(folder)
    done = eacgm("detect", bad, "-m", model, "--p", 1, status=2)
    assert "--p is for tables" in done.stderr
    assert "cannot open" in eacgm("detect", folder / "absent", "-m", model, status=1).stderr


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
    fails("x.eacgm", "--rows", "out", "--events", "out", says="need a file each", status=2)
    fails("x.csv", "-m", "m.model", "--rows", "./x.csv", says="--rows would replace 'x.csv'",
          status=2)
    fails("x.csv", "-m", "m.model", "--rows", "m.model", says="--rows would replace 'm.model'",
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


if __name__ == "__main__":
    main()
