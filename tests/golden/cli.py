"""cli.py - what tests of the command line share that need no root: runs eacgm, makes simulated
jobs, and prints TAP (https://testanything.org).

A test is a function with the decorator @test; its name says what holds, and it is given an empty
folder of its own. EACGM says which program is tested, build/eacgm where it does not.
"""
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECORDINGS = HERE / "recordings"
EACGM = os.path.abspath(os.environ.get("EACGM", ROOT / "build/eacgm"))
TOOLS = pathlib.Path(EACGM).parent / "tests"
UPDATE = os.environ.get("EACGM_UPDATE_GOLDENS") == "1"

_tests = []


def test(fn):
    _tests.append(fn)
    return fn


def eacgm(*args, status=0, **kw):
    """Runs it to its end, which is to have that exit status."""
    done = subprocess.run([EACGM, *map(str, args)], capture_output=True, text=True, check=False,
                          timeout=120, **kw)
    assert done.returncode == status, \
        f"eacgm {args} ended with {done.returncode}: {done.stderr}"
    return done


def job(path, seed, seconds, *fault):
    """A recording of a simulated job: tests/golden/make_job.c. Fault: from, to, factor, and
    "told" or from when to when it collects garbage; or "loads": none, but a loader."""
    subprocess.run([TOOLS / "make_job", path, *map(str, (seed, seconds, *fault))], check=True,
                   timeout=60)
    return path


def cpu_s():
    """CPU time of this process, and of the others that it has waited for."""
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (
        resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def main():
    print(f"1..{len(_tests)}")
    bad = 0
    for number, fn in enumerate(_tests, 1):
        name = fn.__name__.replace("_", " ")
        began, used = time.monotonic(), cpu_s()
        with tempfile.TemporaryDirectory(prefix="eacgm-cli-") as folder:
            try:
                fn(pathlib.Path(folder))
                print(f"ok {number} - {name} ({time.monotonic() - began:.1f} s, "
                      f"CPU {cpu_s() - used:.1f} s)")
            except (AssertionError, OSError, ValueError, KeyError, IndexError, StopIteration,
                    subprocess.SubprocessError) as e:
                bad += 1
                why = f"{type(e).__name__}: {e}".replace("\n", "\n# ")
                print(f"not ok {number} - {name}\n# {why}")
    sys.exit(bool(bad))
