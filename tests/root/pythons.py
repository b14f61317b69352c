"""pythons.py - the CPythons 3.8 to 3.14 that tests run jobs in: those of pyenv, those that PATH has
as python3.8 to python3.14, and those that EACGM_TEST_PYTHONS names (files, with ':' in between).

A file may be a script that executes an interpreter of another root (exec chroot ...): it is asked
for its version, and has to see the folder of the tests and /tmp under their own names."""

import functools
import os
import shutil
import subprocess

VERSIONS = tuple("3.%d" % minor for minor in range(8, 15))
ASK = ("import sys, sysconfig; print('3.%d%s' % (sys.version_info[1], "
       "'t' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''))")


def _version_of(exe):
    """'3.14'; of a free-threaded build '3.14t'; '' where it is none of these."""
    if not os.access(exe, os.X_OK):
        return ""
    ran = subprocess.run([exe, "-I", "-S", "-c", ASK], stdin=subprocess.DEVNULL, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    version = ran.stdout.strip() if ran.returncode == 0 else ""
    return version if version.rstrip("t") in VERSIONS else ""


def _candidates():
    place = os.path.expanduser("~/.pyenv/versions")
    for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
        yield os.path.join(place, name, "bin", "python3")
    for version in VERSIONS:
        yield shutil.which("python" + version) or ""
    yield from os.environ.get("EACGM_TEST_PYTHONS", "").split(":")


@functools.lru_cache(maxsize=None)
def found():
    """Version -> an interpreter of it, in the order of versions; what is named last counts."""
    by_version = {_version_of(exe): exe for exe in _candidates()}
    by_version.pop("", None)
    return dict(sorted(by_version.items(), key=lambda item: int(item[0].rstrip("t")[2:])))


@functools.lru_cache(maxsize=None)
def _has_greenlet(exe):
    return subprocess.run([exe, "-c", "import greenlet"], stdin=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


def with_greenlet(system):
    """Of that one, where it is there, and of those found, the interpreters that have greenlet."""
    there = [system] if os.access(system, os.X_OK) else []
    return [exe for exe in [*there, *found().values()] if _has_greenlet(exe)]
