#!/usr/bin/env python3
"""attackers.py - a hostile job beside ordinary programs that start, and how long those take.

usage: attackers.py KIND SECONDS [COMMAND...]; prints one JSON line: the seconds that each start of the
command took, while the attacker of that kind did its work. Everything runs as descendants of this
program; the attacker as user nobody, in a folder of its own. It ends what it started. It measures and
judges nothing of the tracer."""

import ctypes
import json
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

NOBODY = 65534
LIBC = ctypes.CDLL(None)


def elf(sections, size, phnum=1):
    """An ELF shared library of a page, with sections of any claim: (name, type, offset, bytes)."""
    names = b"\0" + b"".join(n.encode() + b"\0" for n, _t, _o, _s in sections) + b".shstrtab\0"
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01" + bytes(9), 3, 62, 1, 0, 64, 512,
                       0, 64, 56, phnum, 64, len(sections) + 2, len(sections) + 1)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, size, size, 4096)
    out = bytearray(4096)
    out[:64] = head
    out[64:64 + 56] = load
    table, at = bytes(64), 1
    for name, kind, offset, length in sections:
        table += struct.pack("<IIQQQQIIQQ", at, kind, 2, offset, offset, length, len(sections) + 1,
                             0, 8, 24)
        at += len(name) + 1
    table += struct.pack("<IIQQQQIIQQ", at, 3, 0, 0, 2048, len(names), 0, 0, 1, 0)
    out[512:512 + len(table)] = table
    out[2048:2048 + len(names)] = names
    return bytes(out)


def map_code(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        return mmap.mmap(fd, 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
    finally:
        os.close(fd)


def tell_linker():
    """What dlopen does when it has mapped something."""
    LIBC._dl_debug_state()


def sparse(folder):
    size = 96 << 30
    number = 0
    while True:
        number += 1
        path = os.path.join(folder, "sparse%d.so" % number)
        big = size - 8192
        with open(path, "wb") as f:
            f.write(elf([(".gcc_except_table", 1, 4096, 64), (".rodata", 1, 4096, big),
                         (".dynstr", 3, 4096, big), (".dynsym", 11, 4096, big),
                         (".symtab", 2, 4096, big), (".eh_frame", 1, 4096, big),
                         (".note.stapsdt", 7, 4096, big)], size))
            f.truncate(size)
        code = map_code(path)
        tell_linker()
        time.sleep(0.05)
        code.close()
        os.unlink(path)


def debug_state(_folder):
    while True:
        tell_linker()


def new_files(folder):
    """Each time another inode of a real library, with the same bytes."""
    library = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"
    number = 0
    while True:
        number += 1
        path = os.path.join(folder, "libnew%d.so" % number)
        shutil.copyfile(library, path)
        code = map_code(path)
        tell_linker()
        code.close()
        os.unlink(path)


def mappings(folder):
    """60,000 mappings, and a change again and again."""
    path = os.path.join(folder, "many.so")
    shutil.copyfile("/bin/true", path)
    fd = os.open(path, os.O_RDONLY)
    LIBC.mmap.restype = ctypes.c_void_p
    LIBC.mmap.argtypes = [ctypes.c_void_p] + [ctypes.c_size_t] * 5
    LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def one(i):  # neighbours of one file and right become one mapping
        return LIBC.mmap(None, 4096, mmap.PROT_READ | mmap.PROT_EXEC * (i % 2), mmap.MAP_PRIVATE, fd,
                         i % 3 * 4096)

    code = [one(i) for i in range(60000)]
    while True:
        code.append(one(len(code)))
        tell_linker()
        LIBC.munmap(code.pop(random.randrange(len(code))), 4096)


def cut_short(folder):
    """A library is cut while it is read, and grows again."""
    library = max((os.path.join("/usr/lib/x86_64-linux-gnu", n)
                   for n in os.listdir("/usr/lib/x86_64-linux-gnu") if ".so" in n),
                  key=lambda p: os.path.getsize(p) if os.path.getsize(p) < 200 << 20 else 0)
    number = 0
    while True:
        number += 1
        path = os.path.join(folder, "cut%d.so" % number)
        shutil.copyfile(library, path)
        code = map_code(path)
        tell_linker()
        for _ in range(20):
            time.sleep(random.random() * 0.05)
            os.truncate(path, random.randrange(os.path.getsize(library)))
            os.truncate(path, os.path.getsize(library))
        code.close()
        os.unlink(path)


def executables(folder):
    """Programs that nobody has run before, as fast as can be."""
    number = 0
    while True:
        number += 1
        path = os.path.join(folder, "new%d" % number)
        shutil.copy("/bin/true", path)
        subprocess.run([path], check=False)
        os.unlink(path)


def nothing(_folder):
    signal.pause()


KINDS = {"nothing": nothing, "sparse": sparse, "debug_state": debug_state, "new_files": new_files,
         "mappings": mappings, "cut_short": cut_short, "executables": executables}


def start_attacker(kind, folder):
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with who started it
        KINDS[kind](folder)
    except BaseException as e:  # the parent sees that it has ended
        print("%s: %s" % (kind, e), file=sys.stderr)
    os._exit(3)


def starts(command, seconds):
    took = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        took.append(time.monotonic() - began)
        time.sleep(0.01)
    return took


def main():
    kind, seconds = sys.argv[1], float(sys.argv[2])
    command = sys.argv[3:] or ["/usr/bin/python3", "-S", "-c", "pass"]
    folder = tempfile.mkdtemp(prefix="eacgm-attack-")
    os.chmod(folder, 0o777)
    starts(command, 0.5)
    attacker = start_attacker(kind, folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the folder goes then, too
    try:
        time.sleep(1 if kind == "mappings" else 0.3)
        took = starts(command, seconds)
        ended, status = os.waitpid(attacker, os.WNOHANG)
        print(json.dumps({"kind": kind, "starts_s": took, "attacker_ended": bool(ended)}))
    finally:
        try:
            os.killpg(attacker, signal.SIGKILL)
        except ProcessLookupError:
            pass
        end = time.monotonic() + 10  # what was just killed may still be making a file
        while os.path.exists(folder) and time.monotonic() < end:
            shutil.rmtree(folder, ignore_errors=True)


main()
