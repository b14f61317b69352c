#!/usr/bin/env python3
"""expected_test.py - what a command mapped the last time is probed while it starts: its calls are all
seen, from the first, and what it does not map this time, or what changed, leaves no trace."""

import json
import os
import shutil

from harness import EACGM, Recording, expect, main, skip, target, test
from time import time

PROBES = ["--probe", "liba*.so:target_push(u64 n)"]
CALLS = 300


def prepare(t, *names):
    """Copies of one library, each a file of its own, old enough to be kept."""
    kind = t.run(["stat", "-f", "-c", "%T", t.dir]).out.strip()
    if kind not in ("ext2/ext3", "xfs", "btrfs") or os.statvfs(t.dir).f_flag & os.ST_NOSUID:
        skip("nothing is kept of files on %s" % kind)
    for name in names:
        shutil.copy(target("libtarget.so"), t.path(name))
    settle(t, *names)


def settle(t, *names):
    t.wait_for(lambda: all(time() - os.stat(t.path(n)).st_ctime > 2.1 for n in names), "old files")


def link_of(name):
    """None: it is gone, or no link."""
    try:
        return os.readlink(name)
    except OSError:
        return None


class Run:
    """One recording of a command that loads the library that the environment names."""

    # the pause is the command's own: what is expected is there when it loads the library
    SCRIPT = 'read go; exec "$0" "$LIBRARY" %d target_push' % CALLS

    def __init__(self, t, library, ready=None):
        out = t.path("run.eacgm")
        env = dict(os.environ, EACGM_CACHE=t.path("cache"), LIBRARY=t.path(library))
        p = t.start([EACGM, "record", *PROBES, "-o", out, "--", "/bin/sh", "-c", self.SCRIPT,
                     target("late")], stdin=-1, stdout=-1, stderr=-1, text=True, env=env)
        t.wait_for(lambda: self.is_open(p.pid, t.path(ready or library)) or
                   (not ready and self.has_command(p.pid)), "a start")
        p.stdin.write("\n")
        p.stdin.flush()
        self.result = t.finish(p)
        expect(self.result.status == 0, self.result.err)
        rec = Recording(t, out, self.result)
        self.calls, self.lost = rec.count("target_push"), rec.lost()
        exported = t.run([EACGM, "export", out, "-f", "jsonl", "-o", "-"])
        meta = json.loads(exported.out.splitlines()[0])
        self.expected, self.sites = int(meta["files_expected"]), int(meta["attach_sites"])

    @staticmethod
    def is_open(pid, path):
        """By the recorder: it has the file in hand."""
        folder = "/proc/%d/fd" % pid
        names = [os.path.join(folder, n) for n in os.listdir(folder)]
        return any(link_of(n) == path for n in names)

    @staticmethod
    def has_command(pid):
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            children = f.read().split()
        for child in children:
            try:
                with open("/proc/%s/cmdline" % child) as c:
                    if c.read().startswith("/bin/sh\0-c"):
                        return True
            except FileNotFoundError:  # what eacgm starts for a moment has ended
                pass
        return False

    def __str__(self):
        return "calls %d, lost %d, expected %d, sites %d\n%s" % (
            self.calls, self.lost, self.expected, self.sites, self.result.err)


@test("what was mapped the last time is probed before it is mapped, and no call is lost", 120)
def _(t):
    prepare(t, "liba.so")
    first = Run(t, "liba.so")
    expect(first.calls == CALLS and not first.expected, str(first))
    second = Run(t, "liba.so", ready="liba.so")
    expect(second.calls == CALLS and second.sites == first.sites and not second.lost,
           "%s\n%s" % (first, second))
    expect(second.expected >= 1, str(second))


@test("a library that is not mapped this time is in no figure", 120)
def _(t):
    prepare(t, "liba.so", "liba2.so")
    first = Run(t, "liba.so")
    second = Run(t, "liba2.so", ready="liba.so")
    expect(second.calls == CALLS and second.sites == first.sites and not second.lost,
           "%s\n%s" % (first, second))


@test("a library that has changed since is read when it is mapped", 120)
def _(t):
    prepare(t, "liba.so")
    first = Run(t, "liba.so")
    with open(t.path("liba.so"), "r+b") as f:
        f.seek(0, os.SEEK_END)
        f.write(b"\0" * 64)
    second = Run(t, "liba.so")
    expect(second.calls == CALLS and second.sites == first.sites and not second.lost,
           "%s\n%s" % (first, second))


@test("a name that is no file any more is passed over", 120)
def _(t):
    prepare(t, "liba.so", "liba2.so")
    Run(t, "liba.so")
    os.unlink(t.path("liba.so"))
    os.mkfifo(t.path("liba.so"))
    second = Run(t, "liba2.so")
    expect(second.calls == CALLS and not second.lost, str(second))


main()
