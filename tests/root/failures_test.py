#!/usr/bin/env python3
"""failures_test.py - bad input gets one clear line, a non-zero exit status, and leaves no
half-written output behind."""

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import time

from harness import (EACGM, LIBTARGET, PUSH, TARGETS, Recording, expect, expect_one_line, main,
                     probes, size_of, skip, target, test)


def refused(t, options, *words, status=1, env=None, prefix=()):
    out = t.path("no.eacgm")
    r = t.run([*prefix, EACGM, "record", "-o", out, *options],
              env=dict(os.environ, **env) if env else None)
    expect_one_line(r, *words, status=status)
    expect(not os.path.exists(out), "an output file was left behind: %s" % r)
    return r


def dead_pid():
    with open("/proc/sys/kernel/pid_max") as f:
        for pid in range(int(f.read()) - 1, 1, -1):
            if not os.path.exists("/proc/%d" % pid):
                return pid
    return skip("every process id is taken")


@test("a process id that does not exist")
def _(t):
    refused(t, ["-p", str(dead_pid())], str(dead_pid()))


@test("process ids that are none")
def _(t):
    for bad in ("abc", "1,x", "-5", "0", "99999999999999999999", "", ","):
        r = t.run([EACGM, "record", "-o", t.path("no.eacgm"), "-p", bad])
        expect(r.status in (1, 2) and len(r.err.strip().splitlines()) == 1, "-p %r: %s" % (bad, r))
        expect(not os.path.exists(t.path("no.eacgm")), "-p %r left a file" % bad)


@test("usage errors end with 2")
def _(t):
    for bad in ([], ["--no-such-option"], ["-p"], ["--mode", "loud", "--", "true"],
                ["--layers", "nothing", "--", "true"], ["-d", "soon", "--", "true"],
                ["--burst", "2/1", "--", "true"], ["--all", "-p", "1"], ["--"],
                ["--profile", ",", "--", "true"], ["--profile", "disk", "--", "true"]):
        refused(t, bad, status=2)
    for kinds in ("off", "offcpu,gpu"):
        refused(t, ["--profile", kinds, "-F", "99", "--", "true"], "-F needs --profile cpu",
                status=2)
    expect_one_line(t.run([EACGM, "frobnicate"]), "frobnicate", status=2)


@test("a command that does not exist")
def _(t):
    refused(t, ["--", "/nonexistent/program"], "/nonexistent/program")
    refused(t, ["--", "no-such-program-anywhere"], "no-such-program-anywhere")


@test("a command that cannot be executed")
def _(t):
    path = t.path("data")
    with open(path, "w") as f:
        f.write("not a program\n")
    refused(t, ["--", path], path)
    refused(t, ["--", t.dir], t.dir)


@test("an output that cannot be written: the command is not started")
def _(t):
    mark = t.path("mark")
    for out in ("/nonexistent/folder/x.eacgm", t.dir, "/proc/x.eacgm"):
        r = t.run([EACGM, "record", "-o", out, "--", "touch", mark])
        expect_one_line(r, out)
        expect(not os.path.exists(mark), "the command ran")


@test("a control group that does not exist")
def _(t):
    refused(t, ["--cgroup", "/sys/fs/cgroup/no/such/group"], "/sys/fs/cgroup/no/such/group")


@test("not root: one line that says so")
def _(t):
    home = t.path("for-others")
    os.mkdir(home)
    os.chmod(home, 0o777)
    eacgm = os.path.join(home, "eacgm")
    shutil.copy(EACGM, eacgm)
    if t.run(["setpriv", "--version"]).status:
        skip("no setpriv")
    out = os.path.join(home, "no.eacgm")
    r = t.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all",
               "--bounding-set=-all", eacgm, "record", "-o", out, "--", "true"])
    expect_one_line(r, "root")
    expect(not os.path.exists(out), "an output file was left behind")
    r = t.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", eacgm, "doctor"])
    expect(r.status >= 0 and "root" in (r.out + r.err).lower(), "doctor without root: %s" % r)


@test("no BTF: one line that says so")
def _(t):
    refused(t, ["--", "true"], "BTF", env={"EACGM_BTF": "/nonexistent"})
    empty = t.path("empty")
    with open(empty, "w"):
        pass
    refused(t, ["--", "true"], "BTF", env={"EACGM_BTF": empty})


@test("the exit status of the command is passed on")
def _(t):
    for script, status in (("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -TERM $$", 143),
                           ("kill -SEGV $$", 139)):
        r = t.run([EACGM, "record", "-o", t.path("s.eacgm"), "--", "sh", "-c", script])
        expect(r.status == status, "%s: %s" % (script, r))


@test("standard input, output and folder of the command are its own")
def _(t):
    with open(t.path("in"), "w") as f:
        f.write("through\n")
    with open(t.path("in")) as f:
        p = t.start([EACGM, "record", "-o", t.path("s.eacgm"), "--", "sh", "-c", "cat; pwd"],
                    stdin=f, stdout=-1, stderr=-1, text=True, cwd=t.dir)
        r = t.finish(p)
    expect(r.out == "through\n%s\n" % t.dir, "output: %s" % r)


def good_recording(t):
    script = "for i in 1 2 3 4 5 6 7 8; do %s calls 500; sleep 0.2; done" % target("family")
    rec = t.record(["sh", "-c", script], *probes(PUSH))
    rec.expect_counts({"target_push": 4000})
    with open(rec.path, "rb") as f:
        return rec, f.read()


def reads(t, path, commands=("report",)):
    """Reads a file that may be bad: it never crashes, and says in one line what is wrong."""
    for command in commands:
        extra = ["-f", "jsonl", "-o", t.path("out.jsonl")] if command == "export" else []
        r = t.run([EACGM, command, path, *extra])
        expect(r.status in (0, 1), "%s of a damaged file: %s" % (command, r))
        if r.status:
            expect(len(r.err.strip().splitlines()) == 1, "one line: %s" % r)
    return r


@test("standard error that nobody reads holds up neither the recording nor its end")
def _(t):
    unread, full = os.pipe()
    t.at_end.append(lambda: os.close(unread))
    fcntl.fcntl(full, fcntl.F_SETPIPE_SZ, 4096)
    os.write(full, b"x" * 4096)
    stop, out = t.path("stop"), t.path("unread.eacgm")
    job = t.start([target("calls"), "until", stop, "1"], stdout=subprocess.DEVNULL)
    p = t.start([EACGM, "record", "-o", out, "-p", str(job.pid), *probes(PUSH), "-d", "1"],
                stderr=full)
    os.close(full)
    expect(p.wait(timeout=30) == 0, "exit status %s" % p.returncode)
    with open(stop, "w"):
        pass
    expect(Recording(t, out).count("target_push") > 0, "nothing was recorded")


@test("torn recordings are read up to the tear", 120)
def _(t):
    _rec, data = good_recording(t)
    path = t.path("torn.eacgm")
    said = seen = 0
    for part in range(1, 40):
        with open(path, "wb") as f:
            f.write(data[:len(data) * part // 40])
        r = reads(t, path, ("report",))
        if r.status == 0:
            j = t.run([EACGM, "report", "--json", path])
            import json
            report = json.loads(j.out)
            expect(report["recording"]["complete"] is False, "torn at %d/40: not complete" % part)
            seen += sum(f["calls"] for f in report["functions"])
            said += 1
    expect(said > 5 and seen > 0, "%d torn files could be read, %d calls" % (said, seen))


@test("recordings with flipped bits never crash a reader", 180)
def _(t):
    _rec, data = good_recording(t)
    path = t.path("flipped.eacgm")
    chance = random.Random(20)
    for i in range(120):
        bad = bytearray(data)
        at = chance.randrange(64) if i < 30 else chance.randrange(len(bad))
        bad[at] ^= 1 << chance.randrange(8)
        with open(path, "wb") as f:
            f.write(bad)
        reads(t, path, ("report", "export") if i % 4 == 0 else ("report",))


@test("files that are no recordings")
def _(t):
    empty = t.path("empty.eacgm")
    with open(empty, "w"):
        pass
    noise = t.path("noise.eacgm")
    with open(noise, "wb") as f:
        f.write(random.Random(1).randbytes(100000))
    for path in (empty, noise, "/etc/passwd", LIBTARGET, "/dev/null", t.dir,
                 t.path("absent.eacgm")):
        for command in ("report", "export"):
            extra = ["-f", "jsonl", "-o", t.path("out.jsonl")] if command == "export" else []
            r = t.run([EACGM, command, path, *extra])
            expect_one_line(r, path)
            expect(not os.path.exists(t.path("out.jsonl")), "%s %s left a file" % (command, path))


CATALOGS = {
    "nothing": "",
    "a list": "- a\n- b\n",
    "a scalar": "hello\n",
    "binary": "\x00\x01\x02\x03\x7f",
    "no version": "layer: user\nprobes: []\n",
    "another version": "catalog: 99\nprobes: []\n",
    "unknown key": "catalog: 1\nprobes:\n  - id: a.b\n    symbols: [x]\n    libraries: [l]\n"
                   "    frobnicate: yes\n",
    "unknown layer": "catalog: 1\nlayer: cellar\nprobes: []\n",
    "bad signature": "catalog: 1\nprobes:\n  - id: a.b\n    symbols: [x]\n    libraries: [l]\n"
                     "    signature: \"(intt x\"\n",
    "too many arguments": "catalog: 1\nprobes:\n  - id: a.b\n    symbols: [x]\n"
                          "    libraries: [l]\n    signature: \"(%s)\"\n" %
                          ", ".join("int a%d" % i for i in range(40)),
    "an id twice": "catalog: 1\nprobes:\n" + "  - id: a.b\n    symbols: [x]\n"
                   "    libraries: [l]\n" * 2,
    "broken YAML": "catalog: 1\nprobes: [ { id: ",
    "aliases": "catalog: 1\na: &a [x,x]\nb: &b [*a,*a]\nprobes: *b\n",
    "deep": "catalog: 1\nprobes: " + "[" * 5000 + "]" * 5000 + "\n",
    "long": "catalog: 1\n# " + "x" * (2 << 20) + "\nprobes: []\n",
    "a huge glob": "catalog: 1\nprobes:\n  - id: a.b\n    libraries: [l]\n    symbols: [\"%s\"]\n" %
                   ("*a" * 20000),
}


@test("hostile catalogs: one line with the file's name, the command is not started", 120)
def _(t):
    path, mark = t.path("bad.yaml"), t.path("mark")
    for what, text in CATALOGS.items():
        with open(path, "w") as f:
            f.write(text)
        r = t.run([EACGM, "record", "-o", t.path("no.eacgm"), "--catalog", path, "--", "touch",
                   mark], seconds=20)
        expect(r.status in (1, 2), "%s: %s" % (what, r))
        lines = r.err.strip().splitlines()
        expect(len(lines) == 1 and "bad.yaml" in lines[0], "%s: %s" % (what, r))
        expect(not os.path.exists(mark), "%s: the command ran" % what)
        expect(not os.path.exists(t.path("no.eacgm")), "%s: a file was left" % what)


@test("a catalog that is a folder, a device, or absent")
def _(t):
    for path in (t.dir, "/nonexistent.yaml", "/dev/zero"):
        r = t.run([EACGM, "record", "-o", t.path("no.eacgm"), "--catalog", path, "--", "true"],
                  seconds=20)
        if path == t.dir and r.status == 0:
            continue
        expect(r.status in (1, 2) and len(r.err.strip().splitlines()) == 1, "%s: %s" % (path, r))


@test("hostile --probe descriptions")
def _(t):
    for bad in ("", ":", "lib", "lib:", ":sym", "lib:sym(", "lib:sym)", "lib:sym(int)->",
                "lib:sym(double x)", "lib:sym(int a, int a) -> nonsense", "lib:sym() -> int!maybe",
                "lib:sym(ptr a@arg99)", "lib:" + "*" * 5000, "lib:sym(" + "int a," * 5000 + ")",
                "lib:sym(int a[999999999999])", "usdt:lib:one"):
        r = t.run([EACGM, "record", "-o", t.path("no.eacgm"), "--probe", bad, "--", "true"],
                  seconds=20)
        expect(r.status in (1, 2) and len(r.err.strip().splitlines()) == 1,
               "--probe %r: %s" % (bad[:60], r))
        expect(not os.path.exists(t.path("no.eacgm")), "--probe %r left a file" % bad[:60])


@test("a user catalog without rebuilding anything")
def _(t):
    path = t.path("own.yaml")
    with open(path, "w") as f:
        f.write("catalog: 1\nlibraries: [\"libtarget.so\"]\nprobes:\n  - id: own.string\n"
                "    symbols: [\"target_string\"]\n    signature: \"(str s) -> size\"\n"
                "    named_by: s\n")
    rec = t.record([target("calls"), "args", 100], "--catalog", path)
    rec.expect_counts({"odd": 50, "even": 50})


@test("a library file that is torn or hostile is not traced, and harms nobody")
def _(t):
    with open(LIBTARGET, "rb") as f:
        data = f.read()
    chance = random.Random(5)
    for i in range(6):
        bad = bytearray(data)
        for _k in range(20):  # section headers and notes at the end: the loader ignores them
            bad[chance.randrange(len(bad) - 4000, len(bad))] ^= 0xff
        path = t.path("libtarget.so")
        with open(path, "wb") as f:
            f.write(bad)
        alone = t.run([target("late"), path, "10"])
        rec = t.record([target("late"), path, "10"], *probes(PUSH), status=None)
        expect(rec.ran.status == alone.status and rec.ran.out == alone.out,
               "file %d: alone %s\ntraced %s" % (i, alone, rec.ran))


@test("no secrets: arguments and environment of the job are not in the recording")
def _(t):
    rec = t.record([target("calls"), "threads", "10", "1", "--password=hunter2secret"],
                   *probes("libtarget.so:target_*"), env={"API_TOKEN": "tok3nsecret"})
    expect(rec.count("target_push") == 10, "recorded")
    seen = b""
    with open(rec.path, "rb") as f:
        seen += f.read()
    for form in ("jsonl", "csv", "chrome", "perfetto"):
        out = t.path("out." + form)
        r = t.run([EACGM, "export", rec.path, "-f", form, "-o", out])
        expect(r.status == 0, "export: %s" % r)
        with open(out, "rb") as f:
            seen += f.read()
    seen += t.run([EACGM, "report", "--json", rec.path]).out.encode()
    for secret in (b"hunter2secret", b"tok3nsecret"):
        expect(secret not in seen, "%r is in it" % secret)


@test("doctor says what this host can trace")
def _(t):
    r = t.run([EACGM, "doctor"])
    expect(r.status in (0, 1) and len(r.out.splitlines()) > 3, "doctor: %s" % r)
    import json
    j = t.run([EACGM, "doctor", "--json"])
    expect(isinstance(json.loads(j.out), dict), "doctor --json: %s" % j)
    broken = t.run([EACGM, "doctor"], env=dict(os.environ, EACGM_BTF="/nonexistent"))
    expect(broken.status >= 0 and "btf" in broken.out.lower(), "doctor without BTF: %s" % broken)


@test("probes shows where entries would attach")
def _(t):
    import json
    p = t.start([target("calls"), "sleep", "30000"])
    t.wait_for(lambda: "libtarget" in open("/proc/%d/maps" % p.pid).read(), "it has started")
    r = t.run([EACGM, "probes", "-p", str(p.pid), "--json",
               *probes("libtarget.so:target_push(u64 a)", "libtarget.so:target_lea")])
    expect(r.status == 0, "probes: %s" % r)
    entries = json.loads(r.out)["entries"]
    text = json.dumps(entries)
    expect("libtarget.so" in text and "target_push" in text, "entries: %s" % text[-600:])
    expect(os.path.isdir(TARGETS), "targets")


CALLS_OF_A_RING = (16 << 20) // 48  # of a CPU (src/probe/rings.c), records without arguments


@test("calls that find no room are told with their times", 240)
def _(t):
    p = t.start([target("calls"), "asked"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    os.sched_setaffinity(p.pid, {min(os.sched_getaffinity(p.pid))})  # its calls are in one ring

    def calls(n):
        p.stdin.write("%d\n" % n)
        p.stdin.flush()
        expect(p.stdout.readline() == "done\n", "it ended")

    rec = t.start_record("-p", str(p.pid), *probes(PUSH))
    calls(100000)
    t.wait_for(lambda: size_of(rec.recording.path) > 100000, "calls in the recording", 60)
    stopped_ns = time.monotonic_ns()
    os.kill(rec.pid, signal.SIGSTOP)
    calls(2 * CALLS_OF_A_RING)
    size, went_on_ns = size_of(rec.recording.path), time.monotonic_ns()
    os.kill(rec.pid, signal.SIGCONT)
    t.wait_for(lambda: size_of(rec.recording.path) > size + 100000, "what the ring held", 60)
    calls(100000)
    p.communicate(timeout=30)
    rec.wait(timeout=30)
    lost, path = rec.recording.lost("ring_full"), t.path("rows.jsonl")
    expect(lost > 0, "no ring was full: %r" % rec.recording.report["recording"])
    r = t.run([EACGM, "export", rec.recording.path, "-f", "jsonl", "-o", path])
    expect(r.status == 0, r)
    with open(path) as f:
        rows = [row for row in map(json.loads, f) if row.get("name") == "lost_calls"]
    expect(rows and rows[-1]["value"] == lost, "%d lost, told: %r" % (lost, rows))
    grew = [(a["time_ns"], b["time_ns"]) for a, b in zip(rows, rows[1:])
            if a["value"] < b["value"]]
    expect(any(a < went_on_ns and b > stopped_ns for a, b in grew), "grew at %r, stopped %d to %d"
           % (grew, stopped_ns, went_on_ns))


if __name__ == "__main__":
    raise SystemExit(main())
