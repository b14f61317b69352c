#!/usr/bin/env python3
"""outputs_test.py - root writes where others have set traps: what a trap points to is not touched,
and the recording is there or one clear line says why not. What a failure leaves, and what a crash
leaves, stands under the file's own name or not at all."""

import os
import re
import signal
import stat
import subprocess
import sys

from harness import (EACGM, PUSH, ROOT, Recording, expect, expect_one_line, log_of, main, probes,
                     skip, target, test)

OTHER = 65534
SECRET = "only root may change this\n"
SWAP = os.path.join(ROOT, "tests", "root", "jobs", "swap_folder.py")
CALLS = [target("family"), "calls", "500"]


def folder(t, name, mode=0o755, uid=OTHER):
    path = t.path(name)
    os.mkdir(path)
    os.chown(path, uid, uid)
    os.chmod(path, mode)
    return path


def secret(t):
    path = t.path("secret")
    with open(path, "w") as f:
        f.write(SECRET)
    os.chmod(path, 0o600)
    return path


def expect_secret(path):
    with open(path) as f:
        text = f.read()
    st = os.stat(path)
    expect(text == SECRET and (st.st_uid, stat.S_IMODE(st.st_mode)) == (0, 0o600),
           "the secret: %r, %r" % (text[:80], st))


def record(t, out=None, cwd=None, env=None, prefix=(), **kw):
    where = ["-o", out] if out else []
    return t.run([*prefix, EACGM, "record", "-u", "root", *where, *probes(PUSH), "--", *CALLS], cwd=cwd,
                 env=dict(os.environ, **env) if env else None, **kw)


def expect_recorded(t, path, calls=500):
    st = os.lstat(path)
    expect(stat.S_ISREG(st.st_mode), "no file of its own: %r" % (st,))
    expect(Recording(t, path).count("target_push") == calls, "the calls are not there")


def mount(t, path, size, *more):
    os.makedirs(path, exist_ok=True)
    if t.run(["mount", "-t", "tmpfs", "-o", ",".join(["size=" + size, *more]), "none",
              path]).status:
        skip("no file system can be mounted here")
    t.at_end.append(lambda: subprocess.run(["umount", "-l", path], check=False))


def fill(path):
    """Until not a byte is free."""
    for block in (4096, 1):
        with open(path, "ab", buffering=0) as f:
            try:
                while True:
                    f.write(b"x" * block)
            except OSError:
                pass


@test("a link to a file of root's in another user's folder: the link is replaced")
def _(t):
    theirs, mine = folder(t, "theirs"), secret(t)
    out = os.path.join(theirs, "eacgm.eacgm")
    os.symlink(mine, out)
    r = record(t, cwd=theirs)
    expect_secret(mine)
    expect(r.status == 0, r)
    expect_recorded(t, out)
    expect(os.listdir(theirs) == ["eacgm.eacgm"], os.listdir(theirs))


@test("a hard link to a file of root's: it gets another file, the old one stays")
def _(t):
    theirs, mine = folder(t, "theirs"), secret(t)
    out = os.path.join(theirs, "eacgm.eacgm")
    os.link(mine, out)
    r = record(t, cwd=theirs)
    expect_secret(mine)
    expect(r.status == 0, r)
    expect_recorded(t, out)


@test("a link to a folder of root's in another user's folder is not followed, by no command")
def _(t):
    theirs, mine = folder(t, "theirs"), folder(t, "mine", 0o700, 0)
    os.symlink(mine, os.path.join(theirs, "way"))
    run = t.path("run.eacgm")
    expect(record(t, run).status == 0, "recording")
    table = t.path("x.csv")
    with open(table, "w") as f:
        f.write("a,b\n" + "".join("%d,%d\n" % (i % 7, i % 11) for i in range(500)))
    out = os.path.join(theirs, "way", "out")
    for args in (["export", run, "-f", "csv"], ["flame", run, "-k", "cpu"], ["merge", run],
                 ["learn", table, "-k", "1"]):
        more = [run] if args[0] == "merge" else []
        r = t.run([EACGM, *args, *more, "-o", out])
        expect(r.status == 1 and not os.listdir(mine), "%s: %s" % (args[0], r))
        if args[0] not in ("flame", "merge"):  # these two may have nothing to write at all
            expect_one_line(r, "symbolic link", "'way'")
    expect_one_line(record(t, out), "symbolic link", "'way'")
    r = t.run([EACGM, "detect", run, "--events", out])
    expect(r.status == 1 and "symbolic link" in r.err and not os.listdir(mine), r)


@test("a folder that becomes a link while it is looked at", 120)
def _(t):
    theirs, mine = folder(t, "theirs"), folder(t, "mine", 0o777, 0)
    path, kept = os.path.join(theirs, "way"), os.path.join(mine, "kept")
    with open(kept, "w") as f:
        f.write(SECRET)
    run = t.path("run.eacgm")
    expect(record(t, run).status == 0, "recording")
    p = t.start([sys.executable, SWAP, path, mine, str(OTHER)], stdout=subprocess.PIPE, text=True)
    expect(p.stdout.readline() == "ready\n", "the attacker does not run")
    ends = {0: 0, 1: 0}
    for i in range(100):
        r = t.run([EACGM, "export", run, "-f", "csv", "-o", os.path.join(path, "kept")])
        ends[r.status] += 1
        if r.status:
            expect_one_line(r, "kept")
        expect(os.listdir(mine) == ["kept"], "%d: %r" % (i, os.listdir(mine)))
    for _i in range(5):
        expect(record(t, os.path.join(path, "kept")).status in (0, 1), "record")
    expect(p.poll() is None, "the attacker has ended")
    with open(kept) as f:
        expect(os.listdir(mine) == ["kept"] and f.read() == SECRET, "written through the link")
    print("# %d written, %d refused" % (ends[0], ends[1]))


@test("a pipe of somebody else is not opened: nobody waits for its reader")
def _(t):
    shared = folder(t, "shared", 0o1777, 0)
    out, mark = os.path.join(shared, "eacgm.eacgm"), t.path("mark")
    os.mkfifo(out, 0o666)
    os.chown(out, OTHER, OTHER)
    r = t.run([EACGM, "record", "-u", "root", "--", "touch", mark], cwd=shared, seconds=30)
    expect_one_line(r, "eacgm.eacgm", "pipe")
    expect(not os.path.exists(mark), "the command ran")
    run = t.path("run.eacgm")
    expect(record(t, run).status == 0, "recording")
    expect_one_line(t.run([EACGM, "export", run, "-o", out], seconds=30), "pipe")


@test("a file of somebody else in a folder like /tmp is refused and stays")
def _(t):
    shared = folder(t, "shared", 0o1777, 0)
    out = os.path.join(shared, "eacgm.eacgm")
    with open(out, "w") as f:
        f.write("theirs")
    os.chown(out, OTHER, OTHER)
    expect_one_line(record(t, cwd=shared), "eacgm.eacgm", "belongs to somebody else")
    with open(out) as f:
        expect(f.read() == "theirs", "it was changed")
    r = record(t, cwd=shared, env={"SUDO_UID": str(OTHER), "SUDO_GID": str(OTHER)})
    expect(r.status == 0, "who called sudo may replace a file of his own: %s" % r)
    expect_recorded(t, out)


@test("what root writes through sudo belongs to who called it")
def _(t):
    env = {"SUDO_UID": str(OTHER), "SUDO_GID": "65533"}
    run = t.path("run.eacgm")
    expect(record(t, run, env=env).status == 0, "recording")
    outputs = {"run.eacgm": [], "x.csv": ["export", run, "-f", "csv"],
               "all.eacgm": ["merge", run, t.path("other.eacgm")]}
    expect(record(t, t.path("other.eacgm")).status == 0, "recording")
    for name, args in outputs.items():
        if args:
            r = t.run([EACGM, *args, "-o", t.path(name)], env=dict(os.environ, **env))
            expect(r.status == 0, r)
        st = os.stat(t.path(name))
        expect((st.st_uid, st.st_gid) == (OTHER, 65533), "%s: %r" % (name, st))
    expect(os.stat(t.path("other.eacgm")).st_uid == 0, "without sudo it is root's")
    for bad in ({"SUDO_UID": "-1", "SUDO_GID": "0"}, {"SUDO_UID": "1; true", "SUDO_GID": "1"}):
        expect(record(t, run, env=bad).status == 0, "recording")
        expect(os.stat(run).st_uid == 0, "%r was believed" % bad)


@test("kill -9 amid a recording leaves it under its name; so does Ctrl-C", 120)
def _(t):
    for sig in (signal.SIGKILL, signal.SIGINT):
        place = folder(t, "place%d" % sig)
        out, stop = os.path.join(place, "run.eacgm"), t.path("stop%d" % sig)
        job = t.start([target("calls"), "until", stop, "1"], stdout=subprocess.DEVNULL)
        rec = t.start_record("-p", str(job.pid), *probes(PUSH), out=out)
        os.rename(out + ".log", t.path("log%d" % sig))
        t.wait_for(lambda path=out: os.path.exists(path) and
                   Recording(t, path).count("target_push") > 1000, "calls in the file", 60)
        os.kill(rec.pid, sig)
        rec.wait(timeout=30)
        expect(os.listdir(place) == ["run.eacgm"], os.listdir(place))
        seen = Recording(t, out)
        expect(seen.count("target_push") > 1000, "calls: %d" % seen.count("target_push"))
        expect(seen.report["recording"]["complete"] is (sig == signal.SIGINT), "complete")
        with open(stop, "w"):
            pass
        expect(job.wait(timeout=30) == 0, "the job ended with %s" % job.returncode)


@test("a recording that cannot begin leaves what was there")
def _(t):
    out = t.path("run.eacgm")
    with open(out, "w") as f:
        f.write("old")
    script = t.path("script")
    with open(script, "w") as f:
        f.write("#!/nonexistent/interpreter\n")
    os.chmod(script, 0o755)
    r = t.run([EACGM, "record", "-u", "root", "-o", out, "--", script])
    expect(r.status == 1 and len(r.err.strip().splitlines()) == 1, r)
    with open(out) as f:
        expect(f.read() == "old", "it was replaced: %s" % r)
    expect(sorted(os.listdir(t.dir)) == ["run.eacgm", "script"], os.listdir(t.dir))


def counts_of(line):
    found = re.search(r"(\d+) calls, (\d+) samples in .*?, lost (\d+) -> ([^;]*)(?:; (.*) could "
                      r"not be written)?", line)
    expect(found, "the last line: %r" % line)
    kept = re.findall(r"(\d+) (calls|samples)", found.group(5) or "")
    return int(found.group(1)), int(found.group(2)), {what: int(n) for n, what in kept}, found


@test("a disk that gets full: the last line counts what is in the file, and what is not", 120)
def _(t):
    disk = t.path("disk")
    mount(t, disk, "256k")
    out, stop = os.path.join(disk, "run.eacgm"), t.path("stop")
    job = t.start([target("calls"), "until", stop, "1"], stdout=subprocess.DEVNULL)
    log = t.path("log")
    with open(log, "w") as f:
        p = t.start([EACGM, "record", "-o", out, "-p", str(job.pid), *probes(PUSH)], stderr=f,
                    stdout=f)
    p.wait(timeout=60)
    with open(log) as f:
        said = f.read()
    with open(stop, "w"):
        pass
    made = job.wait(timeout=30)
    expect(p.returncode == 1 and made == 0 and "No space left on device" in said, said)
    last = [line for line in said.splitlines() if " -> " in line][-1]
    calls, samples, unwritten, _found = counts_of(last)
    seen = Recording(t, out)
    info = seen.report["recording"]
    expect(calls == info["events"] > 0, "%d told, in the file: %r" % (calls, info))
    rows = t.run([EACGM, "report", out])
    expect(rows.status == 0 and unwritten.get("calls", 0) > 0, "%r\n%s" % (unwritten, said))
    expect(os.listdir(disk) == ["run.eacgm"], os.listdir(disk))
    print("# %d calls, %d samples in the file; not written: %r" % (calls, samples, unwritten))


@test("a disk that is full: no file, what was there stays, the command is not started")
def _(t):
    disk, mark = t.path("disk"), t.path("mark")
    mount(t, disk, "64k")
    out = os.path.join(disk, "run.eacgm")
    with open(out, "w") as f:
        f.write("old")
    run = t.path("run.eacgm")
    expect(record(t, run).status == 0, "recording")
    fill(os.path.join(disk, "filler"))
    for path in (out, os.path.join(disk, "new.eacgm")):
        r = t.run([EACGM, "record", "-u", "root", "-o", path, "--", "touch", mark])
        expect_one_line(r, path, "No space left on device")
        expect(not os.path.exists(mark), "the command ran")
        for args in (["export", run, "-f", "csv"], ["merge", run, run]):
            r = t.run([EACGM, *args, "-o", path])
            expect(r.status == 1 and len(r.err.strip().splitlines()) == 1, r)
    expect(sorted(os.listdir(disk)) == ["filler", "run.eacgm"], os.listdir(disk))
    with open(out) as f:
        expect(f.read() == "old", "it was changed")


@test("places where nothing can be written: one line")
def _(t):
    disk, run = t.path("disk"), t.path("run.eacgm")
    mount(t, disk, "64k", "ro")
    expect(record(t, run).status == 0, "recording")
    for out, why in ((os.path.join(disk, "x"), "Read-only file system"),
                     (t.path("no/such/x"), "No such file"), (t.dir, "Is a directory"),
                     (run + "/x", "Not a directory"), ("/", "Is a directory"),
                     (t.path("n" * 300), "File name too long"), ("", "No such file")):
        expect_one_line(record(t, out), why) if out else None
        expect_one_line(t.run([EACGM, "export", run, "-f", "csv", "-o", out]), why)
    os.chmod(t.dir, 0o755)
    as_other = ["setpriv", "--reuid=%d" % OTHER, "--regid=%d" % OTHER, "--clear-groups"]
    eacgm = os.path.join(folder(t, "theirs"), "eacgm")
    with open(EACGM, "rb") as f, open(eacgm, "wb") as to:
        to.write(f.read())
    os.chmod(eacgm, 0o755)
    if t.run([*as_other, "true"]).status:
        skip("no setpriv")
    r = t.run([*as_other, eacgm, "export", run, "-f", "csv", "-o", t.path("x.csv")])
    expect_one_line(r, "Permission denied", "x.csv")
    r = t.run([*as_other, eacgm, "export", run, "-f", "csv", "-o",
               os.path.join(os.path.dirname(eacgm), "x.csv")])
    expect(r.status == 0, "in a folder of his own: %s" % r)


@test("pipes, devices and descriptors are written to as ever")
def _(t):
    run = t.path("run.eacgm")
    expect(record(t, run).status == 0, "recording")
    want = t.run([EACGM, "export", run, "-f", "csv", "-o", "-"]).out
    expect(want.count("\n") > 500, want[:200])
    export = "%s export %s -f csv -o " % (EACGM, run)
    for script in ("/dev/stdout", "/dev/stdout | cat", ">(cat) | cat", "/proc/self/fd/1",
                   "/dev/fd/1 | cat"):
        r = t.run(["bash", "-c", "exec 2>&-; " + export + script])
        expect(r.out == want, "-o %s: %s" % (script, r))
    expect(t.run(["sh", "-c", export + "/dev/null"]).status == 0, "/dev/null")
    expect(stat.S_ISCHR(os.stat("/dev/null").st_mode), "/dev/null is a file")
    os.mkfifo(t.path("fifo"))
    reader = t.start(["cat", t.path("fifo")], stdout=subprocess.PIPE, text=True)
    expect(t.run(["sh", "-c", export + t.path("fifo")]).status == 0, "a pipe")
    expect(t.finish(reader).out == want, "through a pipe")


if __name__ == "__main__":
    raise SystemExit(main())
