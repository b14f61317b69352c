"""eacgm merge and the report's ranks, from the command line.

The sample is tests/golden/recordings/v1_ranks.eacgm: the collectives of two ranks of a real job
(tests/unit/merge_test.c says which). Needs no root. With EACGM_UPDATE_GOLDENS=1
tests/golden/export/ranks.txt is written anew. Prints TAP.
"""
import json
import os
import resource
import shutil
import signal
import subprocess
import time

import cli
from cli import EACGM, HERE, RECORDINGS, UPDATE, main, test

GOLDEN = HERE / "export" / "ranks.txt"
SAMPLE = RECORDINGS / "v1_ranks.eacgm"
OTHER = RECORDINGS / "v1_gpu.eacgm"
MANY = 150


def eacgm(*args, **kw):
    return cli.eacgm(*args, env=dict(os.environ, COLUMNS="100"), **kw)


def section(text, first):
    """The lines of a report from one that begins so to the next empty one."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(first))
    end = next((i for i in range(begin, len(lines)) if not lines[i]), len(lines))
    return "\n".join(lines[begin:end]) + "\n"


@test
def the_report_shows_ranks(folder):
    text = section(eacgm("report", SAMPLE).stdout, "ranks")
    if UPDATE:
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), text
    ranks = json.loads(eacgm("report", SAMPLE, "--json").stdout)["ranks"]
    assert ranks["sources"] == [] and ranks["hangs"] == [] and ranks["mismatches_total"] == 0
    comm, = ranks["communicators"]
    assert comm["size"] == 2 and comm["compared"] == comm["compared_on_device"] == 549, comm
    assert [r["rank"] for r in comm["ranks"]] == [0, 1]
    assert sum(r["last"] for r in comm["ranks"]) == comm["compared"]
    assert sum(r["wait_ns"] for r in comm["ranks"]) == comm["wait_ns"]
    assert sum(r["late"] for r in comm["ranks"]) == comm["with_late_rank"]


@test
def recordings_without_ranks_have_no_section(folder):
    text = eacgm("report", RECORDINGS / "v1.eacgm").stdout
    assert "\nranks" not in text
    assert "ranks" not in json.loads(
        eacgm("report", RECORDINGS / "v1.eacgm", "--json").stdout)


@test
def the_summary_tells_sources_and_ranks(folder):
    done = eacgm("merge", SAMPLE, OTHER, "-o", folder / "out.eacgm")
    assert "2 recordings" in done.stdout and str(OTHER) in done.stdout, done.stdout
    assert section(done.stdout, "ranks").count("communicator") >= 1
    said = json.loads(eacgm("merge", SAMPLE, OTHER, "-o", folder / "out.eacgm", "--json").stdout)
    assert [s["file"] for s in said["merged"]["sources"]] == [str(SAMPLE), str(OTHER)]
    assert said["merged"]["bytes"] == (folder / "out.eacgm").stat().st_size
    sources = said["ranks"]["sources"]
    assert [s["by"] for s in sources] == ["reference", "realtime"] or \
        [s["by"] for s in sources] == ["reference", "unknown"], sources
    assert sources[1]["error_ns"] is None
    report = json.loads(eacgm("report", folder / "out.eacgm", "--json").stdout)
    assert report["ranks"]["sources"] == sources
    calls = sum(s["calls"] for s in said["merged"]["sources"])
    assert report["recording"]["events"] == calls and report["recording"]["complete"]
    assert os.listdir(folder) == ["out.eacgm"]


@test
def a_merged_recording_can_be_exported_and_reported(folder):
    eacgm("merge", SAMPLE, OTHER, "-o", folder / "out.eacgm")
    for form in ("perfetto", "chrome", "csv", "jsonl"):
        eacgm("export", folder / "out.eacgm", "-f", form, "-o", folder / "out")
        assert (folder / "out").stat().st_size > 1000, form


def copies(folder):
    for i in range(MANY):
        shutil.copy(SAMPLE, folder / f"{i}.eacgm")
    return [folder / f"{i}.eacgm" for i in range(MANY)]


@test
def interruption_leaves_nothing(folder):
    paths = copies(folder)
    (folder / "out.eacgm").write_text("before")
    names = set(os.listdir(folder))
    with subprocess.Popen([EACGM, "merge", *map(str, paths), "-o", "out.eacgm"], cwd=folder,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as merge:
        deadline = time.monotonic() + 60
        while set(os.listdir(folder)) == names:  # until it writes
            assert merge.poll() is None and time.monotonic() < deadline
            time.sleep(0.005)
        merge.send_signal(signal.SIGINT)
        _, error = merge.communicate(timeout=60)
        assert merge.returncode == 1 and "interrupted" in error, (merge.returncode, error)
    assert set(os.listdir(folder)) == names
    assert (folder / "out.eacgm").read_text() == "before"


@test
def a_full_disk_leaves_nothing(folder):
    (folder / "out.eacgm").write_text("before")
    done = eacgm("merge", SAMPLE, OTHER, "-o", folder / "out.eacgm", status=1,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
    assert "cannot write" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert os.listdir(folder) == ["out.eacgm"]
    assert (folder / "out.eacgm").read_text() == "before"


@test
def failures_say_what_is_wrong(folder):
    def fails(*args, says, status=1):
        done = eacgm("merge", *args, status=status, cwd=folder)
        assert says in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert not done.stdout, done.stdout

    shutil.copy(SAMPLE, folder / "run.eacgm")
    eacgm("merge", "run.eacgm", OTHER, "-o", "all.eacgm", cwd=folder)
    fails("run.eacgm", OTHER, says="say with -o where to write", status=2)
    fails("run.eacgm", "-o", "x", says="", status=2)
    fails("run.eacgm", "./run.eacgm", "-o", "x", says="is given twice")
    fails("run.eacgm", OTHER, "-o", "run.eacgm", says="would be written over")
    fails("all.eacgm", OTHER, "-o", "x", says="is merged already")
    fails("absent", OTHER, "-o", "x", says="cannot open 'absent'")
    fails("run.eacgm", __file__, "-o", "x", says="is not")
    assert set(os.listdir(folder)) == {"run.eacgm", "all.eacgm"}


if __name__ == "__main__":
    main()
