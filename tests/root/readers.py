"""readers.py - the processes that read files for a running eacgm."""

import contextlib
import os


def text_of(path):
    """Empty where the process has ended."""
    with contextlib.suppress(OSError):
        with open(path, encoding="ascii") as f:
            return f.read().strip()
    return ""


def children(pid):
    """The ids of a process's children, by the name that they gave themselves."""
    found = {}
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/%d/task" % pid):
            for child in text_of("/proc/%d/task/%s/children" % (pid, task)).split():
                found.setdefault(text_of("/proc/%s/comm" % child), []).append(int(child))
    return found


def readers(pid):
    hosts = children(pid).get("eacgm-parsers", [])
    return [reader for host in hosts for reader in children(host).get("eacgm-parser", [])]
