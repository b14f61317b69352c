"""guest_folder_test.py - what is done for a process in its own view of the file system: a process
whose user swaps what was made there has nothing made, changed or removed where that user may
not."""

import os
import shutil
import subprocess
import sys

from gpu_folders import expect_gone, folders
from harness import BUILD, expect, main, target, test

SHIM = os.path.join(BUILD, "libeacgm_gpu.so")
NOBODY = 65534
TIMES = int(os.environ.get("EACGM_TEST_TIMES", "1000"))


def victim(t):
    """A folder of root's, with files as they may be named in a folder for a process."""
    path = t.path("victim")
    os.mkdir(path, 0o755)
    os.chmod(path, 0o755)
    with open(os.path.join(path, "kept"), "w") as f:
        f.write("root's")
    return path


def state(path):
    found = {}
    for folder, _dirs, files in os.walk(path):
        for name in [folder] + [os.path.join(folder, f) for f in files]:
            st = os.lstat(name)
            found[name] = (oct(st.st_mode), st.st_uid, st.st_gid, st.st_size, st.st_nlink)
    return found


def attacked(t, how, times=TIMES):
    folder = t.path("shm")
    os.mkdir(folder)
    os.chown(folder, NOBODY, NOBODY)
    path = victim(t)
    before = state(path)
    p = t.start([target("shm_swap"), how, folder, path, "/bin/sleep", "300"], user=NOBODY,
                group=NOBODY, extra_groups=[], stderr=subprocess.PIPE)
    t.wait_for(lambda: os.readlink("/proc/%d/exe" % p.pid).endswith("/sleep"),
               "the process to be there")
    if how != "mount":
        t.wait_for(lambda: os.path.lexists(os.path.join(folder, "bait")), "the attack to begin")
    r = t.run([target("guest_open"), str(p.pid), SHIM, str(times)])
    expect(r.status == 0 and "opened" in r.out, "guest_open: %s" % r)
    after = state(path)
    expect(after == before, "root's folder was %r, is %r; %s" % (before, after, r.out))
    return r


@test("folders that become links to one of root's", 120)
def _(t):
    attacked(t, "link", 3 * TIMES)


@test("folders over which one of root's is mounted", 120)
def _(t):
    attacked(t, "mount")


@test("folders in whose place one comes that has links to root's files", 120)
def _(t):
    attacked(t, "folder")


@test("a process that has rights which its user lacks is given nothing")
def _(t):
    before = folders()
    script = ("import os, time; os.setresgid(%d, %d, %d); os.setresuid(%d, %d, 0); "
              "print('ready', flush=True); time.sleep(300)" % ((NOBODY,) * 5))
    p = t.start([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    expect(p.stdout.readline() == "ready\n", "no process")
    r = t.run([target("guest_open"), str(p.pid), SHIM, "1"])
    expect("opened 0 failed 1" in r.out and "rights" in r.out, "guest_open: %s" % r)
    expect_gone(t, folders() - before)


@test("of what was left behind only its owner's own entries go")
def _(t):
    path = victim(t)
    before = state(path)
    left = "/dev/shm/eacgm-gpu-left%d" % os.getpid()
    t.at_end.append(lambda: shutil.rmtree(left, ignore_errors=True))
    os.mkdir(left)
    os.mkfifo(left + "/session")
    os.symlink(path, left + "/folder")
    os.symlink(path + "/kept", left + "/ring")
    os.mkdir(left + "/roots")
    for name in ("/session", ""):
        os.chown(left + name, NOBODY, NOBODY)
    os.utime(left, (0, 0))
    link = "/dev/shm/eacgm-gpu-link%d" % os.getpid()
    t.at_end.append(lambda: os.unlink(link))
    os.symlink(path, link)
    p = t.start(["/bin/sleep", "300"])
    r = t.run([target("guest_open"), str(p.pid), SHIM, "1"])
    expect("opened 1 failed 0" in r.out, "guest_open: %s" % r)
    expect(state(path) == before, "root's folder was %r, is %r" % (before, state(path)))
    expect(os.listdir(left) == ["roots"], "what stays: %r" % os.listdir(left))
    expect(os.path.islink(link), "a link was taken for a folder")


if __name__ == "__main__":
    raise SystemExit(main())
