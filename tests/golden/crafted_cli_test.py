"""Recordings of a few KB that stand for millions of rows, or for text without end: read as far as
their size can explain, with a sentence that says so. tests/golden/make_crafted.c makes them.

Needs no root. Prints TAP.
"""
import json
import os
import resource
import subprocess

from cli import EACGM, TOOLS, eacgm, main, test

ROWS = "more rows than a recording of its size can hold"
TEXT = "repeat more text than a recording of its size can hold"


def crafted(folder, name, rows):
    path = folder / f"{name}.eacgm"
    subprocess.run([TOOLS / "make_crafted", name, str(rows), path], check=True, timeout=120)
    return path


def report(path):
    return json.loads(eacgm("report", "--json", path).stdout)


@test
def rows_that_a_size_cannot_hold_are_cut_off(folder):
    for name in ("notes", "maps", "calls", "spans", "counters", "samples_in_centuries"):
        path = crafted(folder, name, 1500000)
        said = report(path)["recording"]
        assert ROWS in said["damage"]["message"], said
        assert "damaged" in eacgm("report", path).stdout
        assert said["events"] <= 65536 + 32 * path.stat().st_size


@test
def text_that_a_size_cannot_hold_is_cut_off(folder):
    for name in ("notes_of_long_text", "processes_of_long_text"):
        path = crafted(folder, name, 30000)
        done = eacgm("report", "--json", path)
        assert TEXT in json.loads(done.stdout)["recording"]["damage"]["message"]
        assert len(done.stdout) < 64 << 20
    said = eacgm("report", crafted(folder, "probes_of_long_text", 30000)).stdout
    assert "blocks of calls could not be read" in said and "repeats more text" in said


@test
def what_is_within_the_bounds_is_whole(folder):
    for name in ("notes", "threads_with_a_call", "losses_by_cause", "layers_called", "steps"):
        said = report(crafted(folder, name, 60000))
        assert said["recording"]["damage"] is None, name
    said = report(crafted(folder, "notes", 60000))
    assert len(said["notes"]) == 60000


@test
def numbers_of_functions_do_not_overflow(folder):
    said = report(crafted(folder, "layers_of_named_calls", 70000))
    assert said["recording"]["damage"] is None
    assert sum(f["calls"] for f in said["functions"]) == 70000


@test
def deep_stacks_begin_anew(folder):
    path, out = crafted(folder, "chain_of_samples", 20000), folder / "out"
    eacgm("flame", path, "-f", "folded", "-o", out)
    lines = out.read_text(encoding="utf-8").splitlines()
    assert len(lines) > 4900 and all(line.count(";") <= 1024 for line in lines)
    assert sum(line.startswith("[cut: (lost)]") for line in lines) > 3900
    eacgm("export", path, "-f", "perfetto", "-o", out)
    assert out.stat().st_size < 64 << 20


def bounded(*words):
    """Runs eacgm, which must end well, in time and in the memory that a crafted file may take."""
    with subprocess.Popen([EACGM, *map(str, words)], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU,
                                                                (25, 25))) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = status
    assert os.WIFEXITED(status) and used.ru_maxrss < 512 << 10, (words, status, used.ru_maxrss)


@test
def a_file_of_kilobytes_takes_no_gigabytes(folder):
    path, out = crafted(folder, "deep_stack_of_many_processes", 40000), folder / "out"
    bounded("report", path)
    bounded("flame", path, "--threads", "-o", out)
    for name in ("gpu_processes", "spans_of_many_devices", "layers_of_named_calls",
                 "waits_of_many_probes", "calls_nested", "calls_open", "calls_of_many_durations",
                 "allocations_on_many_devices"):
        bounded("report", "--json", "--steps", crafted(folder, name, 120000))
    path = crafted(folder, "allocations_on_many_devices", 120000)
    bounded("flame", "--kind", "gpu-inuse", "--at", "peak", path, "-o", out)
    path = crafted(folder, "spans_in_centuries", 120000)
    bounded("detect", path)
    bounded("diagnose", path)
    bounded("learn", path, "-o", out)


@test
def many_functions_take_no_minutes(folder):
    for name in ("allocations_of_many_functions", "waits_of_many_probes"):
        bounded("report", crafted(folder, name, 400000))


@test
def many_incidents_of_many_steps_take_no_minutes(folder):
    path = crafted(folder, "steps_with_incidents", 200000)
    assert len(json.loads(eacgm("diagnose", path, "--told", "--json").stdout)["incidents"]) == 1000
    bounded("diagnose", path, "--told")


@test
def many_ranks_take_no_minutes(folder):
    for name in ("sends_of_many_ranks", "collectives_of_many_ranks",
                 "collectives_of_unknown_comms", "collectives_of_comms_unlike"):
        path, copy = crafted(folder, name, 120000), folder / "copy.eacgm"
        copy.write_bytes(path.read_bytes())
        bounded("report", path)
        bounded("merge", path, copy, "-o", folder / "out")


@test
def a_merged_file_without_sources_is_no_crash(folder):
    path, copy = crafted(folder, "metas", 120000), folder / "copy.eacgm"
    copy.write_bytes(path.read_bytes())
    bounded("merge", path, copy, "-o", folder / "out")


@test
def devices_that_are_left_out_are_told(folder):
    path = crafted(folder, "spans_of_many_devices", 20000)
    said = report(path)["gpu_timeline"]
    assert len(said["devices"]) + said["devices_left_out"] == 20000
    assert "more devices, which were left out" in eacgm("report", path, "--full").stdout


if __name__ == "__main__":
    main()
