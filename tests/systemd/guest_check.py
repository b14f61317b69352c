#!/usr/bin/env python3
"""guest_check.py - in a guest that systemd booted (run.sh): installs eacgm's package, looks at what
systemd, the kernel and the agent say of the service, from there to the purge. Prints TAP. It waits
for conditions: the guest may be emulated, and slow. Leaves the guest as it comes.

usage: guest_check.py PACKAGE LATER_PACKAGE
LATER_PACKAGE: of a higher version, and with another agent.yaml."""

import ctypes
import errno
import glob
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request

UNIT = "eacgm-agent.service"
CONFIG = "/etc/eacgm/agent.yaml"
WAIT_S = 900  # far more than what is waited for takes, emulated too
STATE = "/var/lib/eacgm"
STORE = os.path.join(STATE, "agent.db")
PORT = 9477
# The guest may be emulated: what a start or a stop may take is no matter here.
SLOW = "/run/systemd/system/eacgm-agent.service.d"
SYS_BPF, LINK_GET_NEXT_ID = 321, 31  # x86-64; enum bpf_cmd of include/uapi/linux/bpf.h
CODE_BYTES = 16  # from the beginning of the job's function: a probe is in there
PROBE = "probes: ['libtarget.so:target_push(u64 a) -> u64']\n"
HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = []
PACKAGE, LATER = sys.argv[1:]


def test(title):
    return lambda fn: TESTS.append((title, fn))


def expect(what, why):
    if not what:
        raise AssertionError(why if isinstance(why, str) else repr(why))


def sh(*args):
    """stdout; the command has to succeed."""
    r = subprocess.run(args, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
                       env=dict(os.environ, DEBIAN_FRONTEND="noninteractive", LC_ALL="C.UTF-8"))
    expect(r.returncode == 0, "%s: %d %s%s" % (" ".join(args), r.returncode, r.stdout, r.stderr))
    return r.stdout


def show(*names):
    """What systemd says of the unit: a list as names are, or one."""
    lines = dict(line.split("=", 1) for line in
                 sh("systemctl", "show", "-p", ",".join(names), UNIT).splitlines())
    return lines[names[0]] if len(names) == 1 else [lines[name] for name in names]


def pid():
    return int(show("MainPID"))


def said():
    return sh("journalctl", "-b", "-o", "cat", "--no-pager", "-u", UNIT)


def wait_for(condition, what):
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.5)
    raise AssertionError("waited for %s: %s" % (what, said()[-1500:]))


def metrics():
    """The text, "" while nobody answers."""
    try:
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % PORT, timeout=60) as r:
            return r.read().decode()
    except OSError:
        return ""


def is_up(but=0):
    """Its process, once systemd was told that it is ready; not the process `but`."""
    state, main = show("ActiveState", "MainPID")
    return int(main) if state == "active" and int(main) not in (0, but) else 0


def calls():
    """How many calls of the job's function are told."""
    return sum(float(line.rsplit(None, 1)[1]) for line in metrics().splitlines()
               if line.startswith("eacgm_calls_total{") and 'function="target_push"' in line and
               'pid="%d"' % job.pid in line)


def append(line):
    with open(CONFIG, "a") as f:
        f.write(line)


def status_of(process):
    with open("/proc/%d/status" % process) as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def code():
    """The beginning of the job's function, as the job has it in memory."""
    with open("/proc/%d/mem" % job.pid, "rb", 0) as f:
        f.seek(function)
        return f.read(CODE_BYTES)


def links():
    """Numbers of BPF's links, of whomever."""
    found, buf = set(), ctypes.create_string_buffer(128)
    libc = ctypes.CDLL(None, use_errno=True)
    after = 0
    while True:
        struct.pack_into("II", buf, 0, after, 0)
        if libc.syscall(SYS_BPF, LINK_GET_NEXT_ID, buf, len(buf)):
            expect(ctypes.get_errno() == errno.ENOENT, os.strerror(ctypes.get_errno()))
            return found
        after = struct.unpack_from("II", buf)[1]
        found.add(after)


def ours():
    """Processes of eacgm: the agent, its helpers and the guard."""
    found = []
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            with open(path) as f:
                found += [path] if f.read().startswith("eacgm") else []
        except OSError:
            pass  # it has ended
    return found


def nothing_runs():
    """No process of eacgm is there, and nothing that it attached."""
    wait_for(lambda: not ours(), "processes of eacgm to end")
    wait_for(lambda: code() == clean_code, "the probe to go out of the job")
    expect(not links() - clean_links, links() - clean_links)
    with socket.socket() as s:
        expect(s.connect_ex(("127.0.0.1", PORT)) == errno.ECONNREFUSED, "it is not served")
    expect(job.poll() is None, "the job goes on")


def is_attached():
    wait_for(lambda: code() != clean_code, "a probe in the job")
    expect(links() - clean_links, "there are links")


def stored():
    """The first and the last minute of the store, by the program that is installed."""
    row, = json.loads(sh("eacgm", "query", STORE, "--json",
                         "SELECT min(time) AS first, max(time) AS last FROM v_counters"))
    return row["first"], row["last"]


def version():
    return sh("dpkg-query", "-W", "-f", "${Version}", "eacgm")


def text_of(path):
    with open(path) as f:
        return f.read()


job = subprocess.Popen([sys.executable, os.path.join(HERE, "guest_job.py")], stdout=subprocess.PIPE,
                       text=True)
function = int(job.stdout.readline())  # its address
clean_code, clean_links = code(), links()


@test("the package is installed: the service is enabled, and READY came by sd_notify")
def _():
    began = time.monotonic()
    os.makedirs(SLOW)
    with open(os.path.join(SLOW, "slow.conf"), "w") as f:
        f.write("[Service]\nTimeoutStartSec=infinity\nTimeoutStopSec=infinity\n")
    sh("dpkg", "-i", PACKAGE)
    wait_for(is_up, "READY")
    print("# READY %.0f s after dpkg began" % (time.monotonic() - began))
    kind, enabled, status, result = show("Type", "UnitFileState", "StatusText", "Result")
    expect((kind, enabled, result) == ("notify", "enabled", "success"), (kind, enabled, result))
    expect("process" in status, status)
    print("# " + status)
    sh("dpkg", "--verify", "eacgm")


@test("reload: a budget is taken over; a probe starts the agent anew, and it serves again")
def _():
    before = pid()
    append("budget: 50%\n")  # emulated, traps cost so much that less turns probes off
    sh("systemctl", "reload", UNIT)
    wait_for(lambda: "SIGHUP: takes over --budget" in said(), "SIGHUP to be told")
    expect(is_up() == before, "the same process")
    append(PROBE + "store: {file: %s}\n" % STORE)
    sh("systemctl", "reload", UNIT)
    wait_for(lambda: is_up(before), "another process")
    expect("SIGHUP: ends, to be started again with another" in said(), said()[-1500:])
    wait_for(metrics, "it to serve")


@test("under the sandbox it traces a job of Python that ran before, and serves /metrics")
def _():
    wait_for(calls, "calls of %d" % job.pid)
    first = calls()
    wait_for(lambda: calls() > first, "more of them")
    now = status_of(pid())
    expect(now["NoNewPrivs"] == "1" and now["Seccomp"] == "2", now)
    print("# capabilities: permitted %s, bounding set %s" % (now["CapPrm"], now["CapBnd"]))
    expect(job.poll() is None, "the job goes on")


@test("the mounts: it can write its state and its cache alone")
def _():
    with open("/proc/%d/mountinfo" % pid()) as f:
        mounts = {line.split()[4]: line.split()[5].split(",")[0] for line in f}

    def how(path):
        while path not in mounts:
            path = os.path.dirname(path)
        return mounts[path]
    for path in ("/etc", "/usr", "/var/lib", "/sys", "/proc/sys", "/sys/fs/cgroup", "/home", "/root"):
        expect(how(path) == "ro", (path, mounts))
    for path in ("/var/lib/eacgm", "/var/cache/eacgm"):
        expect(how(path) == "rw", (path, mounts))
        expect(os.stat(path).st_mode & 0o7777 == 0o700, path)


@test("MemoryMax, MemoryHigh, CPUQuota and TasksMax are those of its control group")
def _():
    group = "/sys/fs/cgroup" + show("ControlGroup")
    for name, value in (("memory.max", "536870912"), ("memory.high", "402653184"),
                        ("cpu.max", "50000 100000"), ("pids.max", "128")):
        with open(os.path.join(group, name)) as f:
            found = f.read().strip()
        expect(found == value, (name, found))
    with open(os.path.join(group, "memory.peak" if os.path.exists(group + "/memory.peak") else
                           "memory.current")) as f:
        print("# memory of its group: %.0f MB" % (int(f.read()) / 1e6))


@test("kill -9: systemd starts it again, and it traces the job again")
def _():
    before, restarts = pid(), int(show("NRestarts"))
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: is_up(before), "another process")
    expect(int(show("NRestarts")) == restarts + 1, show("NRestarts"))
    wait_for(calls, "calls")


@test("the watchdog: an agent that stands still is ended and started again")
def _():
    before = pid()
    expect(int(show("WatchdogUSec").replace("s", "")) == 30, show("WatchdogUSec"))
    os.kill(before, signal.SIGSTOP)
    wait_for(lambda: is_up(before), "another process")
    expect("Watchdog timeout" in said(), said()[-1500:])
    wait_for(metrics, "it to serve")


@test("a later package: the service runs it, with the file as it was changed and with its state")
def _():
    before, old, text = is_up(), version(), text_of(CONFIG)
    wait_for(lambda: stored()[0], "a row of the store")
    first, _last = stored()
    upgraded = time.time()
    sh("dpkg", "--force-confdef", "--force-confold", "-i", LATER)
    sh("dpkg", "--compare-versions", version(), "gt", old)
    print("# from %s to %s" % (old, version()))
    after = wait_for(lambda: is_up(before), "another process")
    expect(os.path.samefile("/proc/%d/exe" % after, "/usr/bin/eacgm"), "the file that is there now")
    state = show("Result", "UnitFileState")
    expect(state == ["success", "enabled"], state)
    expect(text_of(CONFIG) == text, text_of(CONFIG))
    expect(os.path.exists(CONFIG + ".dpkg-dist"), "the later package's file was another")
    wait_for(calls, "calls, by the probe of that file")
    wait_for(lambda: stored()[1] >= upgraded - 60, "a row of after it")
    expect(stored()[0] == first, "%r %r" % (stored(), first))


@test("stop: the agent ends by itself, leaves no process, probe and link, and is not started again")
def _():
    is_attached()
    restarts, began = show("NRestarts"), time.monotonic()
    sh("systemctl", "stop", UNIT)
    print("# it took %.1f s" % (time.monotonic() - began))
    state = show("ActiveState", "SubState", "Result", "ExecMainCode", "ExecMainStatus", "NRestarts",
                 "MainPID", "Job")
    exited = "1"  # CLD_EXITED: by no signal
    expect(state[:7] == ["inactive", "dead", "success", exited, "0", restarts, "0"], state)
    nothing_runs()
    expect(show("ActiveState", "NRestarts") == ["inactive", restarts], show("ActiveState"))


@test("a file that cannot be used: it stays down, and comes up with one that can")
def _():
    text = text_of(CONFIG)
    append("no_such_key: 1\n")
    r = subprocess.run(["systemctl", "start", UNIT], capture_output=True, check=False)
    expect(r.returncode != 0, "it started")
    wait_for(lambda: show("ActiveState") == "failed", "the failure")
    expect(show("ExecMainStatus") == "2" and "no_such_key" in said(), said()[-1500:])
    with open(CONFIG, "w") as f:
        f.write(text)
    sh("systemctl", "start", UNIT)
    wait_for(calls, "calls")


@test("the unit is one that systemd understands; what it exposes")
def _():
    r = subprocess.run(["systemd-analyze", "verify", "--man=no", UNIT], capture_output=True,
                       text=True, check=False)
    expect(r.returncode == 0 and UNIT not in r.stderr, r.stderr)
    lines = sh("systemd-analyze", "security", "--no-pager", UNIT).splitlines()
    print("# " + next(line for line in lines if "Overall" in line).encode("ascii", "ignore")
          .decode().strip())


@test("remove: it is stopped and its program gone; the file and the state stay")
def _():
    is_attached()
    text = text_of(CONFIG)
    sh("dpkg", "-r", "eacgm")
    state = show("ActiveState", "Result", "ExecMainCode", "ExecMainStatus")
    print("# systemd says " + " ".join(state))
    expect(state[0] == "inactive" and state[3] == "0", state)
    nothing_runs()
    for path in ("/usr/bin/eacgm", "/usr/lib/eacgm", "/usr/lib/systemd/system/" + UNIT):
        expect(not os.path.exists(path), path)
    expect(text_of(CONFIG) == text and os.path.getsize(STORE), "what stays")
    r = subprocess.run(["systemctl", "start", UNIT], capture_output=True, check=False)
    expect(r.returncode != 0 and not ours(), "nothing can start it")


@test("purge: no unit, no state and no file of it is left, and nothing runs")
def _():
    os.remove(os.path.join(SLOW, "slow.conf"))
    os.rmdir(SLOW)
    sh("dpkg", "-P", "eacgm")
    nothing_runs()
    expect(show("LoadState", "ActiveState") == ["not-found", "inactive"], show("LoadState"))
    left = [os.path.join(folder, name) for folder, folders, names in os.walk("/")
            for name in folders + names
            if "eacgm" in name and not folder.startswith(("/proc", "/sys", HERE))]
    expect(not left, left)


def main():
    print("1..%d" % len(TESTS), flush=True)
    for n, (title, fn) in enumerate(TESTS, 1):
        began = time.monotonic()
        try:
            fn()
            line, why = "ok", ""
        except Exception as e:  # noqa: BLE001 - told, and the next is tried
            line, why = "not ok", "".join("# %s\n" % row for row in str(e).splitlines())
        print("%s %d - %s (%.0f s)\n%s" % (line, n, title, time.monotonic() - began, why), end="",
              flush=True)
    job.kill()
    print("guest: done", flush=True)


main()
