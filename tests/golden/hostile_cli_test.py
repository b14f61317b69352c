"""What a terminal obeys and comes from outside never reaches it, nor a file that people look at:
names in recordings, columns of tables, words of the command line. tests/golden/hostile_strings.c
puts it into the recordings.

Needs no root. Prints TAP.
"""
import csv
import gzip
import json
import os
import pathlib
import re
import subprocess

from cli import TOOLS, eacgm, job, main, test

NAME = "\x1b[31m\u009b\r"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")
HOSTILE = "\x1b[31m\u009b\x7f\u202e\r\n\ufffd"  # as whoever reads JSON gets it
RAW = (b"\x1b[31m", b"[31m\xc2\x9b", b"\x7f\xe2\x80\xae")  # of formats that are no text


def run(*args, status=0, width="200", env=None, **kw):
    """What was said; nothing of it is a control character but a line's end."""
    env = dict(os.environ, COLUMNS=width, LC_ALL="C.UTF-8", **(env or {}))
    done = eacgm(*args, status=status, env=env, **kw)
    for text in (done.stdout, done.stderr):
        bad = CONTROL.search(text)
        assert not bad, f"{args[0]}: {text[max(0, bad.start() - 60):bad.end() + 20]!r}"
    return done.stdout + done.stderr


def sample(folder, kind):
    path = folder / f"{kind}{NAME}.eacgm"
    subprocess.run([TOOLS / "make_hostile", kind, path], check=True, timeout=60)
    return path


def hostile_job(path, *args):
    subprocess.run([TOOLS / "make_hostile_job", path, *map(str, args)], check=True, timeout=60)
    return path


@test
def reports_are_clean(folder):
    said = ""
    for kind in ("plain", "profile", "gpu", "timeline"):
        path = sample(folder, kind)
        for width in ("60", "200"):
            said += run("report", path, "--top", 0, width=width)
    assert "cuMemAlloc_v2?[31m???" in said and "aten::linear?[31m???" in said


@test
def exports_flame_graphs_and_merges_say_clean_sentences(folder):
    profile, timeline = sample(folder, "profile"), sample(folder, "timeline")
    out = folder / f"out{NAME}"
    assert "?[31m" in run("flame", profile, "-o", out)
    assert "?[31m" in run("export", profile, "-o", out)
    assert "?[31m" in run("merge", profile, timeline, "-o", folder / f"all{NAME}.eacgm")
    assert "?[31m" in run("report", folder / f"all{NAME}.eacgm")
    torn = folder / f"torn{NAME}.eacgm"
    torn.write_bytes(profile.read_bytes()[:-20])
    assert "?[31m" in run("merge", torn, timeline, "-o", folder / f"some{NAME}.eacgm")


def written(folder, *args, **kw):
    """What a command wrote into a file: no control in it, as it stands there."""
    out = folder / "out"
    run(*args, "-o", out, **kw)
    text = out.read_bytes().decode()  # it is UTF-8
    text = text.replace("\r\n", "\n") if "csv" in args else text.replace("\t", "")  # the page's
    bad = CONTROL.search(text)
    assert not bad, f"{args}: {text[max(0, bad.start() - 60):bad.end() + 20]!r}"
    return text


def strings(value):
    """All in a JSON value but keys."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for v in inner for text in strings(v)]


@test
def json_is_clean_and_says_the_same(folder):
    plain, profile = sample(folder, "plain"), sample(folder, "profile")
    rows = [json.loads(line) for line in
            written(folder, "export", plain, "-f", "jsonl").splitlines()]
    assert any(row.get("name") == "aten::linear" + HOSTILE for row in rows), rows[-1]
    trace = json.loads(written(folder, "export", plain, "-f", "chrome"))
    assert any(row["name"] == "aten::linear" + HOSTILE for row in trace["traceEvents"])
    report = json.loads(run("report", plain, "--json"))
    assert any(f["name"] == "aten::linear" + HOSTILE for f in report["functions"])
    shown = json.loads(written(folder, "flame", profile, "-f", "speedscope"))
    assert any(HOSTILE in f["name"] for f in shown["shared"]["frames"])
    good = [hostile_job(folder / f"good{i}.eacgm", i, 120) for i in range(2)]
    bad, model = hostile_job(folder / "bad.eacgm", 7, 100, 40, 55, 1.6), folder / "m.model"
    run("learn", *good, "-o", model)
    found = run("detect", bad, "-m", model, "--json", "--rows", folder / "rows", "--events",
                folder / "events.csv")
    assert any(HOSTILE in text for text in strings(json.loads(found))), found[:2000]
    for name in ("rows", "events.csv", "m.model"):
        assert not CONTROL.search((folder / name).read_bytes().decode()), name


@test
def files_to_look_at_are_clean(folder):
    plain, profile = sample(folder, "plain"), sample(folder, "profile")
    assert "aten::linear?[31m?????" in written(folder, "export", plain, "-f", "csv")
    assert "_[31m_____\ufffd;" in written(folder, "flame", profile, "-f", "folded")
    assert "\u241b[31m?\u2421?\u240d\u240a\ufffd" in written(folder, "flame", profile)
    for args in (("export", profile), ("export", sample(folder, "gpu")),
                 ("export", sample(folder, "timeline")), ("flame", profile, "-f", "pprof")):
        run(*args, "-o", folder / "out")
        data = (folder / "out").read_bytes()
        data = gzip.decompress(data) if "pprof" in args else data
        assert b"?[31m????" in data and not [raw for raw in RAW if raw in data], args


@test
def formulas_are_marked_in_csv_when_asked(folder):
    starts = ("=1+1", "+1", "-1", "@sum", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201", "a=1", "'=")
    path = folder / "formulas.eacgm"
    subprocess.run([TOOLS / "make_hostile", "names", path, *starts], check=True, timeout=60)
    for options, want in (([], list(starts)),
                          (["--csv-safe"], ["'" + s for s in starts[:8]] + list(starts[8:]))):
        text = written(folder, "export", path, "-f", "csv", *options)
        names = [row["name"] for row in csv.DictReader(text.splitlines())]
        assert names == want, (options, names)
    assert "--csv-safe is for csv" in run("export", path, "--csv-safe", status=2)


@test
def learning_and_detecting_say_clean_sentences(folder):
    good = [hostile_job(folder / f"good{i}{NAME}.eacgm", i, 120) for i in range(2)]
    bad = hostile_job(folder / f"bad{NAME}.eacgm", 7, 100, 40, 55, 1.6)
    model = folder / f"m{NAME}.model"
    assert "m?[31m??.model: learned from" in run("learn", *good, "-o", model)
    said = run("detect", bad, "-m", model)
    assert "by what" not in said and "m?[31m??.model" in said
    assert "aten::mm took 1." in said and "train.py?[31m???" in said
    short = hostile_job(folder / f"short{NAME}.eacgm", 1, 10)
    assert "nothing could be judged" in run("detect", short, status=1)


@test
def tables_are_clean(folder):
    path, model = folder / f"x{NAME}.csv", folder / "m.model"
    rows = [f"{i % 7},{i % 11}" for i in range(2000)]
    head = "a\x1b[31m\u009b,b\n"
    path.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")
    said = run("learn", path, "-o", model, "-k", 1)
    assert "x?[31m??.csv" in said and " a?[31m? " in said
    path.write_text(head + "900,3\n", encoding="utf-8")
    assert "a?[31m? is 900" in run("detect", path, "-m", model)


@test
def failures_are_clean(folder):
    absent = folder / f"absent{NAME}"
    for args in (("report", absent), ("flame", absent), ("export", absent), ("detect", absent),
                 ("learn", absent, "-o", "x"), ("merge", absent, absent, "-o", "x")):
        assert "?[31m" in run(*args, status=1)
    assert "?[31m" in run("report", f"--{NAME}", status=2)
    assert "?[31m" in run("detect", "x", "--top", NAME, status=2)
    assert "?[31m" in run(NAME, status=2)
    model = pathlib.Path(folder / f"bad{NAME}.model")
    model.write_text('{"eacgm_model": 1, "kind": "\\u001b[31m"}', encoding="utf-8")
    assert "?[31m" in run("detect", job(folder / "good.eacgm", 1, 10), "-m", model, status=1)


@test
def the_doctor_says_clean_sentences(folder):
    path = os.fsencode(folder) + b"/\xff\x1b[31m"
    with open(path, "wb"):
        pass
    for option in ([], ["--json"]):
        said = run("doctor", *option, status=1, env={"EACGM_BTF": os.fsdecode(path)})
        assert "/\ufffd?[31m" in said and "(BTF)" in said


if __name__ == "__main__":
    main()
