#!/usr/bin/env python3
"""privileges_test.py - whom a command runs as, and what the tracer and its guard may do."""

import contextlib
import json
import os
import pwd
import shutil
import signal
import stat
import time

from agents import Agent
from cgroups import make_cgroup
from cupti_fakes import CUDA, FIRST, JOB, cupti, expect_spans, notes_of
from gpu_folders import expect_gone, folders, folders_below
from harness import (EACGM, PUSH, Recording, expect, expect_one_line, made_counts, main,
                     nothing_kept, probes, skip, target, test)

NOBODY = 65534
GUARD_S = 5  # where a kernel has no guard a test waits so long for it
STATUS = "cat /proc/self/status"
KEPT = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
        "Seccomp")
# linux/capability.h
SETGID, SETUID, SYS_PTRACE, SYS_ADMIN, SYS_RESOURCE = 1 << 6, 1 << 7, 1 << 19, 1 << 21, 1 << 24


def nobody():
    try:
        return pwd.getpwuid(NOBODY)
    except KeyError:
        return skip("no user has the number %d" % NOBODY)


def sudo(**changes):
    """The environment that sudo gives, when that user calls it."""
    user = nobody()
    made = dict(SUDO_UID=str(user.pw_uid), SUDO_GID=str(user.pw_gid), SUDO_USER=user.pw_name,
                SUDO_COMMAND="eacgm", HOME="/root", USER="root", LOGNAME="root",
                SHELL="/bin/bash", KEPT_AS_IT_IS="yes")
    made.update(changes)
    return {name: value for name, value in dict(os.environ, **made).items() if value is not None}


def record(t, command, *options, env=None, cwd="/"):
    out = t.path("run.eacgm")
    return t.run([EACGM, "record", "-o", out, "--profile", "off", *options, "--", *command],
                 env=env, cwd=cwd)


def status_in(text):
    lines = [line.split(":", 1) for line in text.splitlines() if ":" in line]
    return {name: value.split() for name, value in lines if name in KEPT}


def status_of(pid):
    with open("/proc/%d/status" % pid) as f:
        return status_in(f.read())


def name_of(pid):
    with open("/proc/%d/comm" % pid) as f:
        return f.read().strip()


def caps(status, name="CapEff"):
    return int(status[name][0], 16)


def children_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(word) for word in f.read().split()]


def guard_of(pid):
    """The guard is a child of eacgm's until that ends. It has its name a moment after its fork."""
    end = time.monotonic() + GUARD_S
    while time.monotonic() < end:
        for child in children_of(pid):
            with open("/proc/%d/comm" % child) as f:
                if f.read().strip() == "eacgm-guard":
                    return child
        time.sleep(0.02)
    return skip("this kernel has no guard")


def cuda(t):
    if not os.path.exists(JOB):
        skip("the fake CUPTI is not built")
    return cupti(t)


def is_alive(pid):
    return os.path.exists("/proc/%d/stat" % pid)


# ---- the command ----


@test("under sudo a command runs as the user who called")
def _(t):
    user = nobody()
    r = record(t, ["sh", "-c", "id -u; id -g; id -ru; id -G; env; " + STATUS], env=sudo())
    expect(r.status == 0, "record: %s" % r)
    lines = r.out.splitlines()
    expect(lines[:3] == ["65534", str(user.pw_gid), "65534"], "ids: %r" % lines[:3])
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    expect(sorted(map(int, lines[3].split())) == sorted(groups), "groups: %r" % lines[3])
    for line in ("HOME=" + user.pw_dir, "USER=" + user.pw_name, "LOGNAME=" + user.pw_name,
                 "SHELL=" + user.pw_shell, "KEPT_AS_IT_IS=yes", "SUDO_UID=65534"):
        expect(line in lines, "no %s in %r" % (line, lines))
    status = status_in(r.out)
    expect(status["Uid"] == ["65534"] * 4, "all ids: %r" % status["Uid"])
    expect(status["Gid"] == [str(user.pw_gid)] * 4, "all ids: %r" % status["Gid"])
    expect(caps(status) == 0 == caps(status, "CapPrm"), "capabilities: %r" % status)


@test("what such a command writes belongs to that user")
def _(t):
    home = t.path("home")
    os.mkdir(home, 0o700)
    os.chown(home, NOBODY, NOBODY)
    r = record(t, ["touch", "made"], env=sudo(), cwd=home)
    expect(r.status == 0, "record: %s" % r)
    made = os.stat(os.path.join(home, "made"))
    expect(made.st_uid == NOBODY, "owner: %d" % made.st_uid)


@test("without sudo a command runs as root, and as without eacgm")
def _(t):
    plain = t.run(["sh", "-c", STATUS])
    r = record(t, ["sh", "-c", STATUS])
    expect(r.status == 0, "record: %s" % r)
    expect(status_in(r.out) == status_in(plain.out), "under eacgm %r, without %r" % (
        status_in(r.out), status_in(plain.out)))


@test("limits and umask are as without eacgm")
def _(t):
    script = "ulimit -S -n 200; ulimit -S -l 48; umask 027; exec \"$@\""
    show = ["sh", "-c", "ulimit -n; ulimit -H -n; ulimit -l; ulimit -H -l; umask"]
    plain = t.run(["sh", "-c", script, "sh", *show])
    for env in (None, sudo()):
        r = t.run(["sh", "-c", script, "sh", EACGM, "record", "-o", t.path("run.eacgm"), "--",
                   *show], env=env, cwd="/")
        expect(r.status == 0 and r.out == plain.out, "without: %s with: %s" % (plain, r))


@test("-u says whom a command runs as")
def _(t):
    nobody()
    for options, env, uid in ((["-u", "root"], sudo(), "0"), (["-u", "0"], sudo(), "0"),
                              (["-u", str(NOBODY)], None, "65534"),
                              (["--user", nobody().pw_name], None, "65534")):
        r = record(t, ["id", "-u"], *options, env=env)
        expect(r.status == 0 and r.out.strip() == uid, "%r: %s" % (options, r))
    expect_one_line(record(t, ["id"], "-u", "nobody-has-this-name"), "nobody-has-this-name")
    expect_one_line(record(t, ["id"], "-u", "4294967295"), "4294967295")
    r = t.run([EACGM, "record", "-o", t.path("no.eacgm"), "-u", "root", "--all"])
    expect_one_line(r, "-u needs a command", status=2)


@test("doas and pkexec count as sudo does")
def _(t):
    name = nobody().pw_name
    for env in ({"DOAS_USER": name}, {"PKEXEC_UID": str(NOBODY)}):
        r = record(t, ["id", "-u"], env=dict(os.environ, **env))
        expect(r.status == 0 and r.out.strip() == "65534", "%r: %s" % (env, r))
    expect_one_line(record(t, ["id"], env=dict(os.environ, PKEXEC_UID="1x")), "PKEXEC_UID", "-u")


@test("a caller that is contradicted is believed by nobody")
def _(t):
    nobody()
    for wrong in ({"SUDO_USER": "root"}, {"SUDO_UID": "0"}, {"SUDO_UID": "x"}, {"SUDO_UID": ""},
                  {"SUDO_GID": "0"}, {"SUDO_GID": None}, {"SUDO_USER": None},
                  {"SUDO_UID": "4294967294"}):
        r = record(t, ["touch", t.path("ran")], env=sudo(**wrong))
        expect_one_line(r, "SUDO_UID", "-u")
        expect(not os.path.exists(t.path("ran")), "the command ran")
        expect(not os.path.exists(t.path("run.eacgm")), "a file was left behind")


@test("what the user may not execute is not executed, and one line says so")
def _(t):
    closed = t.path("closed")
    os.mkdir(closed, 0o700)
    shutil.copy("/bin/true", closed)
    program = os.path.join(closed, "true")
    expect_one_line(record(t, [program], env=sudo()), program, "denied", nobody().pw_name)
    expect_one_line(record(t, ["no-such-program"], env=sudo()), "command not found")
    # a folder of PATH that is closed to the user is passed over
    r = record(t, ["true"], env=sudo(PATH=closed + ":" + os.environ["PATH"]))
    expect(r.status == 0, "record: %s" % r)
    os.chmod(closed, 0o711)
    os.chmod(program, 0o700)
    r = record(t, ["true"], env=sudo(PATH=closed))
    expect_one_line(r, "true", "denied")
    expect(record(t, [program]).status == 0, "root may")
    os.chmod(closed, 0o700)
    expect_one_line(record(t, ["/bin/true"], env=sudo(), cwd=closed), "this folder", "-u")
    expect(not os.path.exists(t.path("no.eacgm")), "a file was left behind")


@test("calls of another user's command are seen from the first on")
def _(t):
    out = t.path("run.eacgm")
    r = t.run([EACGM, "record", "-o", out, *probes(PUSH), "--", target("calls"), "threads", "1000", "2"],
              env=sudo(), cwd="/")
    expect(r.status == 0, "record: %s" % r)
    rec = Recording(t, out, r)
    made = made_counts(r.out)["target_push"]
    expect(made and rec.count("target_push") == made, "%d made, %d seen" % (
        made, rec.count("target_push")))


@test("the GPU timeline of another user's command")
def _(t):
    before = folders()
    out = t.path("run.eacgm")
    r = t.run([EACGM, "record", "-o", out, *CUDA, "--", JOB, "init", "kernel", FIRST, "300",
               "1500", "copy", "1", "4096"], env=sudo(**cuda(t)), cwd="/")
    expect(r.status == 0, "record: %s" % r)
    rec = Recording(t, out, r)
    expect_spans(t, rec)
    expect(not notes_of(rec), "notes: %r" % notes_of(rec))
    expect_gone(t, folders() - before)


@test("its folders are closed to other users, and go when eacgm was killed")
def _(t):
    p = t.start_record(*CUDA, "--probes", "inprocess", "--", JOB, "init", "kernel", FIRST, "3", "1500", "sleep", "20000",
                       env=sudo(**cuda(t)), cwd="/")
    mine = list(folders_below(p.pid))
    expect(len(mine) == 2, "of the shim and of the calls told inside: %r" % mine)
    for folder in mine:
        mode = stat.S_IMODE(os.stat(folder).st_mode)
        expect(mode == 0o700, "%s has mode %o" % (folder, mode))
    guard = guard_of(p.pid)
    os.kill(p.pid, signal.SIGKILL)
    p.wait()
    t.wait_for(lambda: not is_alive(guard), "the guard to end", 30)
    for folder in mine:
        with contextlib.suppress(FileNotFoundError):  # another eacgm began, and removed it
            os.utime(folder, (1, 1))
    r = record(t, ["true"], "--gpu-timeline", env=sudo(**cuda(t)))
    expect(r.status == 0, "record: %s" % r)
    left = [folder for folder in mine if os.path.exists(folder)]
    expect(not left, "folders of the killed session were left: %r" % left)


# ---- the tracer and its guard ----


def expect_confined(status, has_capabilities):
    expect(status["NoNewPrivs"] == ["1"], "no_new_privs: %r" % status)
    expect(status["Seccomp"] == ["2"], "seccomp: %r" % status)
    expect(caps(status) == caps(status, "CapPrm"), "more is permitted: %r" % status)
    expect(caps(status) & SYS_PTRACE, "no CAP_SYS_PTRACE: %r" % status)
    expect(caps(status, "CapInh") == 0 == caps(status, "CapAmb"), "inheritable: %r" % status)
    expect(not caps(status) & ~has_capabilities, "capabilities: %x" % caps(status))


TRACER = sum(1 << n for n in (0, 1, 3, 19, 23, 34, 38, 39, 40))


def expect_all_confined(pid, more=0):
    if tuple(int(n) for n in os.uname().release.split(".")[:2]) < (6, 6):
        more |= SYS_ADMIN  # there are single links alone
    for task in os.listdir("/proc/%d/task" % pid):
        expect_confined(status_of(int(task)), TRACER | more)
    guard = guard_of(pid)
    expect_confined(status_of(guard), SYS_PTRACE)
    with open("/proc/%d/cmdline" % guard, "rb") as f:  # it is not taken for the program
        expect(f.read().rstrip(b"\0") == b"eacgm-guard", "what ps says of the guard")


def named(pids, name):
    return [pid for pid in pids if name_of(pid) == name][0]


@test("while it records, tracer and guard have few rights, and the command all of its own")
def _(t):
    p = t.start_record("--probes", "inprocess", "--", "sleep", "60", out=t.path("inside.eacgm"))
    expect_all_confined(p.pid, SETGID | SETUID)
    os.kill(named(children_of(p.pid), "sleep"), signal.SIGTERM)
    p.wait()
    p = t.start_record("--probes", "kernel", "--", "sleep", "60")
    expect_all_confined(p.pid)
    command = [c for c in children_of(p.pid) if name_of(c) == "sleep"]
    expect(len(command) == 1, "children: %r" % command)
    own, its = status_of(os.getpid()), status_of(command[0])
    expect({k: its[k] for k in KEPT} == {k: own[k] for k in KEPT}, "%r, not %r" % (its, own))
    os.kill(command[0], signal.SIGTERM)
    p.wait()


@test("likewise where it attaches, and where it watches")
def _(t):
    job = t.start(["sleep", "60"])
    p = t.start_record("-p", job.pid)
    expect_all_confined(p.pid)
    t.stop_record(p)
    log = open(t.path("watch.log"), "w+")
    p = t.start([EACGM, "watch", "-p", job.pid], stdout=log, stderr=log)
    t.wait_for(lambda: os.path.getsize(log.name), "watch to attach")
    expect_all_confined(p.pid)
    os.kill(p.pid, signal.SIGINT)
    p.wait()
    p = t.start_record("-p", job.pid, "--gpu-timeline", out=t.path("timeline.eacgm"))
    expect_all_confined(p.pid, SETGID | SETUID)
    t.stop_record(p)
    p = t.start_record("-p", job.pid, "--attach", "single", out=t.path("single.eacgm"))
    expect_all_confined(p.pid, SYS_ADMIN)
    t.stop_record(p)
    status = status_of(job.pid)
    expect(status["Seccomp"] == ["0"] and status["NoNewPrivs"] == ["0"], "job: %r" % status)


@test("likewise an agent, also with all that it may do")
def _(t):
    group = make_cgroup(t, "agent")
    more = ("--detect", "--budget", "1%", "--freeze", t.path("freezes"), "--store", t.path("a.db"))
    for options in ((), more):
        a = Agent(t, *options, group=group)
        expect_all_confined(a.p.pid)
        a.end()


@test("doctor says what runs as what, as it then does")
def _(t):
    p = t.start_record("--", "sleep", "60", env=nothing_kept(t))
    host = named(children_of(p.pid), "eacgm-parsers")
    running = [status_of(pid) for pid in (p.pid, guard_of(p.pid), host,
                                          named(children_of(host), "eacgm-parser"))]
    r = t.run([EACGM, "doctor", "--json"], env=sudo())
    rows = json.loads(r.out)["privileges"]
    expect([row["process"] for row in rows] ==
           ["command", "tracer", "guard", "parsers", "parser"], "rows: %r" % rows)
    expect(rows[0]["user"] == nobody().pw_name and rows[0]["capabilities"] is None,
           "command: %r" % rows[0])
    for row, status in zip(rows[1:], running):
        expect(len(row["capabilities"]) == bin(caps(status)).count("1"),
               "%r has %x" % (row, caps(status)))
        expect(all(c["name"] != "?" and c["reason"] for c in row["capabilities"]), "%r" % row)
    text = t.run([EACGM, "doctor"]).out
    for word in ("What runs as what", "command", "tracer", "guard", "sys_ptrace"):
        expect(word in text, "no %r in %s" % (word, text))
    os.kill(named(children_of(p.pid), "sleep"), signal.SIGTERM)
    p.wait()


@test("the kernel ends the guard last when memory is short, the command as before")
def _(t):
    if not caps(status_of(os.getpid())) & SYS_RESOURCE:
        skip("no CAP_SYS_RESOURCE here")
    p = t.start_record("--", "sleep", "60")
    guard = guard_of(p.pid)
    own = open("/proc/self/oom_score_adj").read()
    for pid in [p.pid, *children_of(p.pid)]:
        with open("/proc/%d/oom_score_adj" % pid) as f:
            value = f.read()
        expect(value == ("-1000\n" if pid == guard else own), "%d: %s" % (pid, value))
    os.kill([c for c in children_of(p.pid) if c != guard][0], signal.SIGTERM)
    p.wait()


@test("nothing is left of them when the tracer was killed")
def _(t):
    job = t.start(["sleep", "60"])
    p = t.start_record("-p", job.pid)
    guard = guard_of(p.pid)
    os.kill(p.pid, signal.SIGKILL)
    p.wait()
    t.wait_for(lambda: not is_alive(guard), "the guard to end", 30)
    expect(job.poll() is None, "the job has ended")


if __name__ == "__main__":
    raise SystemExit(main())
