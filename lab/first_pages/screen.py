#!/usr/bin/python3
"""screen.py - in place of `eacgm record` in a run of the fault laboratory: has `eacgm watch` on a
terminal of 150 columns, and keeps what the terminal shows each second. Needs Debian's python3-pyte.

    EACGM=PATH EACGM_MODEL=FILE screen.py record -o FILE [OPTION...] -p PID,...

FILE gets a line of JSON for each screen: when, on CLOCK_MONOTONIC in nanoseconds, and its lines."""
import argparse
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pyte

ROWS, COLUMNS = 40, 150


def start(command):
    """(the process, the terminal's other end)"""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    p = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, start_new_session=True,
                         env=dict(os.environ, TERM="xterm-256color", LC_ALL="C.UTF-8"))
    os.close(its)
    return p, ours


def watch(p, ours, rows):
    """Until the watch has ended; Ctrl-C is handed on to it as its key."""
    stopped = []
    signal.signal(signal.SIGINT, lambda *_: stopped.append(True))
    screen = pyte.Screen(COLUMNS, ROWS)
    stream, said, kept = pyte.ByteStream(screen), False, 0
    while True:
        if stopped:
            os.write(ours, b"q")
            stopped.clear()
        if select.select([ours], [], [], 0.1)[0]:
            try:
                stream.feed(os.read(ours, 65536))
            except OSError:  # EIO: nobody has the terminal any more
                return p.wait()
        lines = [line.rstrip() for line in screen.display]
        if not said and any("q quits" in line for line in lines):
            print("eacgm: attached to it", flush=True)
            said = True
        if said and time.monotonic() >= kept + 1:
            kept = time.monotonic()
            rows.write(json.dumps({"time_ns": time.monotonic_ns(), "lines": lines}) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("command", choices=["record"])
    p.add_argument("-o", dest="file", required=True)
    p.add_argument("-p", dest="pids", required=True)
    p.add_argument("--layers", default="all")
    args, _ = p.parse_known_args()
    with open(args.file, "w") as rows:
        sys.exit(watch(*start([os.environ["EACGM"], "watch", "-p", args.pids, "--layers", args.layers,
                               "-m", os.environ["EACGM_MODEL"]]), rows))


if __name__ == "__main__":
    main()
