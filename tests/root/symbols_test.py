#!/usr/bin/env python3
"""symbols_test.py - functions of stripped programs are named from debug files: those of this
host, and those of a debuginfod server, which is asked only when that was wanted."""

import contextlib
import ctypes.util
import functools
import http.server
import os
import re
import shutil
import signal
import socket
import subprocess
import threading

from harness import EACGM, expect, is_known, main, skip, test

SOURCE = """
static volatile unsigned long sum;
static __attribute__((noinline)) void hidden_spin(void)
{
	for (int i = 0; i < 1000000; i++)
		sum += (unsigned long)i;
}
static __attribute__((noinline)) void hidden_outer(void)
{
	for (int i = 0; i < 400; i++) {
		hidden_spin();
		sum++;
	}
}
int main(void)
{
	hidden_outer();
	return 0;
}
"""


def stripped_program(t):
    """A stripped program, its debug file and its build id."""
    if not shutil.which("gcc") or not shutil.which("objcopy"):
        skip("gcc or objcopy is not installed")
    with open(t.path("hot.c"), "w", encoding="ascii") as f:
        f.write(SOURCE)
    for command in (["gcc", "-O1", "-g", "-Wl,--build-id", "-o", "hot", "hot.c"],
                    ["objcopy", "--only-keep-debug", "hot", "hot.debug"], ["strip", "hot"]):
        expect(t.run(command, cwd=t.dir).status == 0, command)
    notes = t.run(["readelf", "-n", t.path("hot")]).out
    return t.path("hot"), t.path("hot.debug"), re.search(r"Build ID: ([0-9a-f]+)", notes).group(1)


def stacks(t, program, *options, env=None):
    """The folded CPU stacks of a run that was known when it began: on a busy host this program may
    have run to its end before."""
    last = []

    def known():
        last[:] = [recorded(t, program, *options, env=env)]
        return is_known(last[0])
    t.wait_for(known, "a run whose mappings and rules are known", 40)
    return last[0]


def recorded(t, program, *options, env=None):
    r = t.run([EACGM, "record", *options, "-o", t.path("hot.eacgm"), "--", program],
              env=dict(os.environ, **(env or {})))
    expect(r.status == 0, r.err)
    flame = t.run([EACGM, "flame", t.path("hot.eacgm"), "-f", "folded", "-o", "-"])
    expect(flame.status == 0, flame.err)
    return flame.out


@contextlib.contextmanager
def server(folder):
    """Serves a folder on a free port of loopback; yields the address and what was asked."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                         functools.partial(Handler, directory=folder)) as s:
        threading.Thread(target=s.serve_forever, daemon=True).start()
        try:
            yield "http://127.0.0.1:%d" % s.server_address[1], asked
        finally:
            s.shutdown()


def cache(t):
    """Where the process that asks keeps what it got: it is not root."""
    path = t.path("cache")
    os.mkdir(path)
    os.chmod(path, 0o777)
    return path


@contextlib.contextmanager
def mute_server():
    """Takes connections and says nothing; yields the environment and when somebody came."""
    came = threading.Event()
    taken = []

    def take(listener):
        with contextlib.suppress(OSError):
            while True:
                taken.append(listener.accept()[0])
                came.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=take, args=(listener,), daemon=True).start()
        yield {"DEBUGINFOD_URLS": "http://127.0.0.1:%d" % listener.getsockname()[1],
               "no_proxy": "127.0.0.1", "DEBUGINFOD_TIMEOUT": "600"}, came
        for connection in taken:
            connection.close()


def expect_whole(t, path):
    """The recording has its end, and the stacks are in it."""
    report = t.run([EACGM, "report", path])
    expect(report.status == 0 and "cut short" not in report.out, "%s" % report)
    flame = t.run([EACGM, "flame", path, "-f", "folded", "-o", "-"])
    expect(flame.status == 0 and "[hot]" in flame.out, "%s" % flame)


@test("a stripped program shows its path, not a wrong name")
def _(t):
    program, _, _ = stripped_program(t)
    found = stacks(t, program)
    expect("hidden" not in found and "[hot]" in found, found)


@test("a debug file of this host names its functions")
def _(t):
    program, debug, build_id = stripped_program(t)
    folder = os.path.join("/usr/lib/debug/.build-id", build_id[:2])
    made = not os.path.isdir(folder)
    there = os.path.join(folder, build_id[2:] + ".debug")
    os.makedirs(folder, exist_ok=True)
    try:
        shutil.copy(debug, there)
        found = stacks(t, program)
    finally:
        os.unlink(there)
        if made:
            os.rmdir(folder)
    expect("main;hidden_outer;hidden_spin" in found, found)


@test("a debuginfod server names them, when it may be asked")
def _(t):
    if not ctypes.util.find_library("debuginfod"):
        skip("libdebuginfod is not installed")
    program, debug, build_id = stripped_program(t)
    folder = t.path("served")
    os.makedirs(os.path.join(folder, "buildid", build_id))
    shutil.copy(debug, os.path.join(folder, "buildid", build_id, "debuginfo"))
    with server(folder) as (url, asked):
        env = {"DEBUGINFOD_URLS": url, "DEBUGINFOD_CACHE_PATH": cache(t),
               "no_proxy": "127.0.0.1"}
        found = stacks(t, program, env=env)
        expect("hidden" not in found and not asked, "asked without leave: %s" % asked)
        found = stacks(t, program, "--debuginfod", env=env)
        expect(any(build_id in path for path in asked), "not asked: %s" % asked)
    expect("main;hidden_outer;hidden_spin" in found, found)


@test("a server that says nothing costs a bounded time, and the symbols", 120)
def _(t):
    if not ctypes.util.find_library("debuginfod"):
        skip("libdebuginfod is not installed")
    program, _, _ = stripped_program(t)
    with mute_server() as (mute, came):
        found = stacks(t, program, "--debuginfod", env=dict(mute, DEBUGINFOD_CACHE_PATH=cache(t)))
        expect(came.is_set(), "the server was not asked")
    expect("hidden" not in found, found)
    expect_whole(t, t.path("hot.eacgm"))


@test("whoever ends it while a server says nothing has a whole recording", 120)
def _(t):
    if not ctypes.util.find_library("debuginfod"):
        skip("libdebuginfod is not installed")
    program, _, _ = stripped_program(t)
    for number in (signal.SIGTERM, signal.SIGINT):
        with mute_server() as (mute, came):
            p = t.start([EACGM, "record", "--debuginfod", "-o", t.path("hot.eacgm"), "--", program],
                        env=dict(os.environ, **mute), stderr=subprocess.PIPE, text=True)
            expect(came.wait(60), "the server was not asked")
            expect(p.poll() is None, "it did not wait for the server")
            p.send_signal(number)
            said = p.communicate(timeout=60)[1]
            expect(p.returncode == 0, said)
        expect_whole(t, t.path("hot.eacgm"))


@test("without a server it says so and goes on")
def _(t):
    program, _, _ = stripped_program(t)
    env = {"DEBUGINFOD_URLS": ""}
    expect("[hot]" in stacks(t, program, "--debuginfod", env=env), "stacks are there")
    report = t.run([EACGM, "report", t.path("hot.eacgm")]).out
    expect("DEBUGINFOD_URLS" in report, report)


main()
