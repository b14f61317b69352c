"""bpf_maps.py - maps of a process that has BPF programs, for tests: found by name, filled, frozen.
Asks bpf(2) itself: bpftool is not everywhere."""

import ctypes
import os
import struct

from harness import expect

SYS_BPF = 321  # x86-64
MAP_GET_NEXT_KEY, MAP_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD, MAP_FREEZE, MAP_UPDATE_BATCH = 4, 14, 15, 22, 26
INFO_BYTES, NAME_AT = 80, 24  # of struct bpf_map_info (include/uapi/linux/bpf.h)
LIBC = ctypes.CDLL(None, use_errno=True)


def _bpf(command, attributes):
    buf = ctypes.create_string_buffer(attributes, 128)
    rc = LIBC.syscall(SYS_BPF, command, buf, 128)
    if rc < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return rc, buf.raw


def _name(fd):
    info = ctypes.create_string_buffer(INFO_BYTES)
    _bpf(OBJ_GET_INFO_BY_FD, struct.pack("IIQ", fd, INFO_BYTES, ctypes.addressof(info)))
    return info.raw[NAME_AT:NAME_AT + 16].split(b"\0")[0].decode()


class Map:
    """Of a process, by its name; with its keys as 32-bit numbers."""

    def __init__(self, pid, name):
        self.fd = None
        folder = "/proc/%d/fdinfo" % pid
        for n in os.listdir(folder):
            with open(os.path.join(folder, n)) as f:
                told = dict(line.split(":", 1) for line in f if ":" in line)
            if "map_id" not in told:
                continue
            fd, _ = _bpf(MAP_GET_FD_BY_ID, struct.pack("I", int(told["map_id"])))
            if _name(fd) == name:
                self.fd, self.room = fd, int(told["max_entries"])
                return
            os.close(fd)
        expect(False, "process %d has no map '%s'" % (pid, name))

    def keys(self):
        found, key, following = [], None, ctypes.c_uint32()
        while True:
            before = ctypes.c_uint32(key or 0)
            try:
                _bpf(MAP_GET_NEXT_KEY, struct.pack(
                    "IIQQ", self.fd, 0, 0 if key is None else ctypes.addressof(before),
                    ctypes.addressof(following)))
            except FileNotFoundError:
                return found
            key = following.value
            found.append(key)

    def fill(self, keys, value):
        """Entries of these keys, with values of 64 bits, as far as there is room."""
        keys = (ctypes.c_uint32 * len(keys))(*keys)
        values = (ctypes.c_uint64 * len(keys))(*[value] * len(keys))
        try:
            _bpf(MAP_UPDATE_BATCH, struct.pack("QQQQII", 0, 0, ctypes.addressof(keys),
                                               ctypes.addressof(values), len(keys), self.fd))
        except OSError as e:
            expect(e.errno == 7, e)  # E2BIG: it is full

    def freeze(self):
        """From here on user space writes nothing into it."""
        _bpf(MAP_FREEZE, struct.pack("I", self.fd))

    def close(self):
        os.close(self.fd)
