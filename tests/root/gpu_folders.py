"""gpu_folders.py - the folders that GPU timelines have while they are recorded, and whose they are:
tests that run beside each other see each other's."""

import glob
import os


def folders():
    return {d for p in ("/dev/shm", "/tmp", "/var/tmp") for d in glob.glob(p + "/eacgm-gpu-*")}


def processes_of(folder):
    """Whose rings are in it: of a command's processes each has a file of its number, one that was
    joined has `ring`, with its number at offset 16 (wire/gpu_ring.h)."""
    found = set()
    try:
        found |= {int(name) for name in os.listdir(folder) if name.isdigit()}
        with open(folder + "/ring", "rb") as f:
            found.add(int.from_bytes(f.read(20)[16:], "little"))
    except OSError:
        pass
    return found


def folders_of(pid):
    return {d for d in folders() if pid in processes_of(d)}


def parent_of(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as f:
            return int(f.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def is_below(pid, ancestor):
    while pid > 1 and pid != ancestor:
        pid = parent_of(pid)
    return pid == ancestor


def folders_below(ancestor):
    """Of rings of that process and of what it started."""
    return {d for d in folders() if any(is_below(pid, ancestor) for pid in processes_of(d))}


def expect_gone(t, made):
    """That folders go which may be of tests that run beside: what was left behind stays."""
    t.wait_for(lambda: not made & folders(), "%r to go" % made, 90)
