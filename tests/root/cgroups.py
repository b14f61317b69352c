"""cgroups.py - control groups for tests, which are gone with the test. No test itself."""

import os
import time

from harness import skip


def cgroup2():
    with open("/proc/mounts") as f:
        for line in f:
            words = line.split()
            if words[2] == "cgroup2":
                return words[1]
    return skip("no cgroup v2 tree is mounted")


def _make(t, parent, name):
    path = os.path.join(parent, "eacgm-test-%d-%s" % (os.getpid(), name))
    os.mkdir(path)

    def remove():
        for _i in range(50):
            try:
                os.rmdir(path)
                return
            except OSError:
                time.sleep(0.1)
    t.at_end.append(remove)
    return path


def make_cgroup(t, name):
    return _make(t, cgroup2(), name)


def limited_cgroup(t, name, controller, v2, v1):
    """v2, v1: (file, text), the limit in either version. The first tree that has such a file."""
    with open("/proc/mounts") as f:
        mounts = [line.split() for line in f]
    trees = [(m[1], v2) for m in mounts if m[2] == "cgroup2"]
    trees += [(m[1], v1) for m in mounts if m[2] == "cgroup" and controller in m[3].split(",")]
    for folder, (file, text) in trees:
        try:
            path = _make(t, folder, name)
            with open(os.path.join(path, file), "r+") as f:
                f.write(text)
            return path
        except OSError:
            continue
    return skip("no cgroup with %s or %s can be made" % (v2[0], v1[0]))


def within(group, *command):
    """The command that becomes a member of a group, and then is that command."""
    return ["/bin/sh", "-c", "echo $$ > %s/cgroup.procs; exec \"$@\"" % group, "sh", *command]
