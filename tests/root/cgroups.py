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


def make_cgroup(t, name):
    path = os.path.join(cgroup2(), "eacgm-test-%d-%s" % (os.getpid(), name))
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
