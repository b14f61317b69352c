#!/usr/bin/env python3
"""others_test.py - the fault laboratory's workloads of other people: the table of projects is whole,
an adapter whose project is not there says so in one line, fetch.py brings one commit and what is
wanted of it, and a program's own evaluations and checkpoints are told as changes. None of the
projects is needed. Prints TAP."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
FETCH = ROOT / "lab/others/fetch.py"
sys.path[:0] = [str(ROOT / "lab/faults"), str(FETCH.parent)]
import fetch
from faults import FAULTS
from lab import effect, plans, schedule
from lab.host import Host
from workloads import WORKLOADS, projects

OTHERS = [w for w in WORKLOADS.values() if w.projects]
INSTALLED = [w for w in WORKLOADS.values() if w.packages]
TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


def script(workload):
    return ROOT / "lab/faults/workloads" / workload.script


@test
def every_project_has_a_commit_and_a_licence(_):
    for name, p in projects.PROJECTS.items():
        assert re.fullmatch("[0-9a-f]{40}", p.commit), f"{name}: {p.commit}"
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", p.repository), f"{name}: {p.repository}"
        assert p.licence, f"{name} has no licence"
        for path in (*p.wanted, *p.unwanted, p.source):
            assert not path.startswith(("/", "..")), f"{name}: {path}"


@test
def every_workload_has_its_script_and_projects(_):
    assert OTHERS
    for w in OTHERS:
        assert script(w).is_file(), w.script
        assert w.test_only, f"{w.name} is not of the test split alone"
        assert set(w.projects) <= set(projects.PROJECTS), f"{w.name}: {w.projects}"
    used = {name for w in OTHERS for name in w.projects}
    assert used == set(projects.PROJECTS), f"nobody uses {set(projects.PROJECTS) - used}"


@test
def every_adapter_is_a_workload(_):
    known = {script(w).name for w in OTHERS + INSTALLED} | {"outside.py", "jpegs.py"}
    there = {p.name for p in script(OTHERS[0]).parent.glob("*.py")}
    assert there == known, there ^ known


@test
def every_package_has_a_workload_a_licence_and_a_script(_):
    assert INSTALLED
    for w in INSTALLED:
        assert script(w).is_file(), w.script
        assert w.test_only and not w.projects, w.name
        assert set(w.packages) <= set(projects.PACKAGES), f"{w.name}: {w.packages}"
    for name, p in projects.PACKAGES.items():
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", p.repository), f"{name}: {p.repository}"
        assert p.licence and p.distribution, name
    used = {name for w in INSTALLED for name in w.packages}
    assert used == set(projects.PACKAGES), f"nobody uses {set(projects.PACKAGES) - used}"


@test
def the_readme_tells_of_every_program_of_others(_):
    text = (ROOT / "lab/faults/README.md").read_text(encoding="utf-8")
    for w in OTHERS + INSTALLED:
        assert f"\n| `{w.name}`" in text, f"{w.name} is not in the table"


@test
def one_that_is_not_installed_says_so(_):
    for w in INSTALLED:
        # -S: a Python without what is installed beside it
        r = subprocess.run([sys.executable, "-S", "-E", script(w), *w.arguments],
                           capture_output=True, text=True)
        assert r.returncode == 3, f"{w.name} ended with {r.returncode}: {r.stderr}"
        assert re.fullmatch(r"[^\n]* not installed\n", r.stderr), r.stderr


@test
def versions_are_of_what_is_installed(_):
    assert projects.versions(["no_such_module"]) == {"no_such_module": None}


@test
def a_job_without_pytorch_has_no_faults_of_it(_):
    host = types.SimpleNamespace(alone=True, gpu_alone=True, no_cpu_cgroup=None, no_net=None,
                                 no_drop=None, no_memory_cgroup=None, no_steering=None,
                                 no_clocks=None, nodes=[0], helpers="", other_cpus=lambda w: [1, 2])
    names = {n for n, f in FAULTS.items() if not f.why_not(host, WORKLOADS["jax_gpu"])}
    assert {"python_gc", "cpu_throttle", "gpu_contention", "checkpoint"} <= names, names
    assert not {"op_delay", "excess_sync", "launch_bound", "alloc_churn", "gpu_slow"} & names, names
    assert "op_delay" not in {n for n, f in FAULTS.items()
                              if not f.why_not(host, WORKLOADS["compile_gpu"])}
    host.gpu_alone = False
    for name in ("gpu_contention", "gpu_slow", "pcie"):
        assert FAULTS[name].why_not(host, WORKLOADS["features"]), name


@test
def two_minutes_have_eight_benign_changes(_):
    pace = schedule.PACES["dense"]
    for w in WORKLOADS.values():
        at = pace.warmup
        for count, item in enumerate(schedule.items(1, w.name, "test", (),
                                                    plans.benign_of(w, "benign"), pace)):
            at += item.gap_s + item.length_s
            if at > 120 - plans.START_S:
                break
        assert count >= 8, f"{w.name}: {count}"


@test
def one_that_is_not_fetched_says_so(folder):
    env = dict(os.environ, EACGM_OTHERS=folder)
    for path in {script(w) for w in OTHERS}:
        r = subprocess.run([sys.executable, path], env=env, capture_output=True, text=True)
        assert r.returncode == 3, f"{path.name} ended with {r.returncode}: {r.stderr}"
        assert re.fullmatch(r"[^\n]* not fetched: lab/others/fetch.py [^\n]+\n", r.stderr), r.stderr


@test
def the_list_of_workloads_says_so(folder):
    os.environ["EACGM_OTHERS"] = folder
    host = types.SimpleNamespace(python=sys.executable, gpus=0)
    for w in OTHERS:
        assert "not fetched" in (Host.why_not(host, w) or ""), w.name
    for name in projects.PROJECTS:
        os.makedirs(projects.checkout(name))
    for w in OTHERS:
        assert "not fetched" not in (Host.why_not(host, w) or ""), w.name


def repository(folder):
    """A git repository with one commit; its commit."""
    git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b"]
    files = {"LICENSE": "free", "tool/run.py": "pass", "tool/large": "x", "other/y": "y"}
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "config", "uploadpack.allowFilter", "true"], check=True)
    for name, text in files.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True,
                          text=True).stdout.strip()


def files_of(path):
    return sorted(str(p.relative_to(path)) for p in pathlib.Path(path).rglob("*")
                  if p.is_file() and ".git" not in p.parts)


@test
def a_project_is_fetched_at_its_commit(folder):
    home = os.path.join(folder, "owner", "tool")
    os.makedirs(home)
    commit = repository(home)
    project = projects.Project("owner/tool", commit, "MIT", ("tool",), ("tool/large",))
    os.environ["EACGM_OTHERS"] = os.path.join(folder, "cache")
    for name, place in (("mirrored", folder), ("cloned", "file://" + folder)):
        projects.PROJECTS[name] = project
        try:
            fetch.fetch(name, place + "/{owner}/{name}")
            found = files_of(projects.checkout(name))
        finally:
            del projects.PROJECTS[name]
        assert "tool/run.py" in found, f"{name}: {found}"
        assert not {"tool/large", "other/y"} & set(found), f"{name}: {found}"


@test
def one_that_cannot_be_fetched_leaves_nothing(folder):
    env = dict(os.environ, EACGM_OTHERS=folder)
    r = subprocess.run([sys.executable, FETCH, "--from", "file:///nowhere/{owner}/{name}",
                        "nanoGPT"], env=env, capture_output=True, text=True)
    assert r.returncode == 1 and "fetch.py: nanoGPT: " in r.stderr, r
    assert os.listdir(folder) == [], os.listdir(folder)


@test
def own_evaluations_and_checkpoints_are_changes(_):
    phases = "train train eval eval save train eval train save".split()
    rows = [{"phase": phase, "start_ns": 10 * i, "end_ns": 10 * i + 10}
            for i, phase in enumerate(phases)]
    asked_for = [{"onset_ns": 62, "end_ns": 65}]  # by the runner
    found = effect.own_changes(rows, asked_for)
    assert found == [("evaluation", 20, 40), ("checkpoint", 40, 50), ("checkpoint", 80, 90)], found


def main():
    failed = 0
    print(f"1..{len(TESTS)}")
    for i, fn in enumerate(TESTS, 1):
        before = os.environ.get("EACGM_OTHERS")
        with tempfile.TemporaryDirectory() as folder:
            try:
                fn(folder)
                print(f"ok {i} - {fn.__name__.replace('_', ' ')}")
            except (AssertionError, OSError, subprocess.CalledProcessError) as e:
                failed = 1
                print(f"not ok {i} - {fn.__name__.replace('_', ' ')}\n# {type(e).__name__}: {e}")
        os.environ.pop("EACGM_OTHERS", None)
        if before is not None:
            os.environ["EACGM_OTHERS"] = before
    return failed


if __name__ == "__main__":
    sys.exit(main())
