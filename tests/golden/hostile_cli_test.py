"""What a terminal obeys and comes from outside never reaches it: names in recordings, columns of
tables, words of the command line. tests/golden/hostile_strings.c puts it into the recordings.

Needs no root. Prints TAP.
"""
import os
import pathlib
import re
import subprocess

from cli import TOOLS, eacgm, job, main, test

NAME = "\x1b[31m\u009b\r"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")


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
    assert "nothing could be judged" in run("detect", short)


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
