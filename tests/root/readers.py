"""readers.py - the processes that read files for a running eacgm."""

import os


def children(pid):
    """The ids of a process's children, by the name that they gave themselves."""
    found = {}
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/children" % (pid, task), encoding="ascii") as f:
            for child in f.read().split():
                with open("/proc/%s/comm" % child, encoding="ascii") as name:
                    found.setdefault(name.read().strip(), []).append(int(child))
    return found


def readers(pid):
    hosts = children(pid).get("eacgm-parsers", [])
    return [reader for host in hosts for reader in children(host).get("eacgm-parser", [])]
