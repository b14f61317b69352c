#!/usr/bin/env python3
"""guest_check.py - in a guest that systemd booted (run.sh): installs eacgm's package, looks at what
systemd, the kernel and the agent say of the service. Prints TAP. It waits for conditions: the guest
may be emulated, and slow. Leaves the guest as it comes: an upgrade, stop and purge are not tried.

usage: guest_check.py PACKAGE"""

import os
import signal
import subprocess
import sys
import time
import urllib.request

UNIT = "eacgm-agent.service"
CONFIG = "/etc/eacgm/agent.yaml"
WAIT_S = 900  # far more than what is waited for takes, emulated too
# The guest may be emulated: what a start may take is no matter here.
SLOW = "/run/systemd/system/eacgm-agent.service.d"
PROBE = "probes: ['libtarget.so:target_push(u64 a) -> u64']\n"
HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = []
PACKAGE = sys.argv[1]


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
        with urllib.request.urlopen("http://127.0.0.1:9477/metrics", timeout=60) as r:
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


job = subprocess.Popen([sys.executable, os.path.join(HERE, "guest_job.py")], stdout=subprocess.PIPE,
                       text=True)


@test("the package is installed: the service is enabled, and READY came by sd_notify")
def _():
    expect(job.stdout.readline() == "ready\n", "the job")
    began = time.monotonic()
    os.makedirs(SLOW)
    with open(os.path.join(SLOW, "slow.conf"), "w") as f:
        f.write("[Service]\nTimeoutStartSec=infinity\n")
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
    append("budget: 2%\n")
    sh("systemctl", "reload", UNIT)
    wait_for(lambda: "SIGHUP: takes over --budget" in said(), "SIGHUP to be told")
    expect(is_up() == before, "the same process")
    append(PROBE)
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
