"""held.py - what a process and those that it forked hold of the kernel's BPF objects, and of files:
links, programs and maps by /proc/PID/fdinfo, entries of hash maps by bpf(2). Maps of other kinds
have a size that never changes; storage of tasks goes with its task."""
import ctypes
import errno
import glob
import os
import platform
import struct

import common

SYS_BPF = {"x86_64": 321, "aarch64": 280}.get(platform.machine())
PROG_GET_FD_BY_ID, MAP_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD, MAP_LOOKUP_BATCH = 13, 14, 15, 24
LINK_GET_FD_BY_ID = 30
BY_NUMBER = {"links": LINK_GET_FD_BY_ID, "programs": PROG_GET_FD_BY_ID, "maps": MAP_GET_FD_BY_ID}
HASH = 1  # enum bpf_map_type
BATCH = 2048  # entries; all of a hash bucket have to fit
FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
OWN_NAMES = ("eacgm-gpu-*", "eacgm-debuginfod-*")  # of what an agent makes there, for a while

libc = ctypes.CDLL(None, use_errno=True)


class Gone(Exception):
    """An object that is no more, or never was."""


def bpf(command, attributes):
    """attributes: a ctypes buffer, changed by the kernel. Returns (result, errno)."""
    rc = libc.syscall(SYS_BPF, command, attributes, ctypes.sizeof(attributes))
    return rc, ctypes.get_errno() if rc < 0 else 0


def packed(form, *values, room=128):
    return ctypes.create_string_buffer(struct.pack(form, *values).ljust(room, b"\0"), room)


class HashMap:
    """A hash map of somebody: its name, and the keys that it has."""

    def __init__(self, number):
        self.fd, why = bpf(MAP_GET_FD_BY_ID, packed("=I", number))
        if self.fd < 0:
            raise Gone(os.strerror(why))
        info = ctypes.create_string_buffer(128)
        rc, why = bpf(OBJ_GET_INFO_BY_FD, packed("=IIQ", self.fd, 128, ctypes.addressof(info)))
        if rc < 0:
            os.close(self.fd)
            raise Gone(os.strerror(why))
        self.type, _id, self.key_bytes, self.value_bytes = struct.unpack_from("=IIII", info)
        self.name = info.raw[24:40].split(b"\0")[0].decode()

    def close(self):
        os.close(self.fd)

    def keys(self):
        """As of a moment each, while others may add and take away."""
        count = BATCH
        keys = ctypes.create_string_buffer(count * self.key_bytes)
        values = ctypes.create_string_buffer(count * ((self.value_bytes + 7) // 8 * 8))
        token, found, first = ctypes.create_string_buffer(8), [], True
        while True:
            attributes = packed("=QQQQIIQQ", 0 if first else ctypes.addressof(token),
                                ctypes.addressof(token), ctypes.addressof(keys),
                                ctypes.addressof(values), count, self.fd, 0, 0)
            rc, why = bpf(MAP_LOOKUP_BATCH, attributes)
            got = struct.unpack_from("=I", attributes, 32)[0]
            if rc < 0 and why != errno.ENOENT:  # that: these were the last
                raise Gone(os.strerror(why))
            found += [keys.raw[i * self.key_bytes:(i + 1) * self.key_bytes] for i in range(got)]
            if rc < 0:
                return found
            first = False


def tree_of(pid):
    """A process and all that it has forked, and they."""
    parent, ret = common.parents(), []
    for one in parent:
        above = one
        while above and above != pid:
            above = parent.get(above)
        if above:
            ret.append(one)
    return ret


def objects_of(pid):
    """{"links": numbers, "programs": numbers, "maps": {number: type}} that its descriptors are of;
    the same number is one."""
    ret = {"links": set(), "programs": set(), "maps": {}}
    for one in tree_of(pid):
        for path in glob.glob("/proc/%d/fdinfo/*" % one):
            try:
                with open(path) as f:
                    about = dict(line.split(":", 1) for line in f if ":" in line)
            except OSError:
                continue
            if "link_id" in about:
                ret["links"].add(int(about["link_id"]))
            elif "map_id" in about:
                ret["maps"][int(about["map_id"])] = int(about["map_type"])
            elif "prog_id" in about:
                ret["programs"].add(int(about["prog_id"]))
    return ret


def still_there(objects):
    """Of what objects_of() told: {kind: how many the kernel still has}, without those of which it
    has none."""
    ret = {}
    for kind, numbers in objects.items():
        for number in numbers:
            fd, _why = bpf(BY_NUMBER[kind], packed("=I", number))
            if fd >= 0:
                os.close(fd)
                ret[kind] = ret.get(kind, 0) + 1
    return ret


def is_alive(pid):
    return os.path.exists("/proc/%d" % pid)


def held_by(pid):
    """How many links, programs, maps; how many entries in hash maps that do not forget by
    themselves, by their names; and of those that are of processes, as keys of four bytes are, the
    ones whose process is gone: {(map, pid)}."""
    objects = objects_of(pid)
    ret = {kind: len(numbers) for kind, numbers in objects.items()}
    ret["entries"], ret["of_gone"] = {}, set()
    for number in sorted(n for n, kind in objects["maps"].items() if kind == HASH):
        try:
            m = HashMap(number)
        except Gone:
            continue
        try:
            keys = m.keys()
        except Gone:
            continue
        finally:
            m.close()
        ret["entries"][m.name] = ret["entries"].get(m.name, 0) + len(keys)
        if m.key_bytes == 4:
            pids = [struct.unpack("=I", key)[0] for key in keys]
            ret["of_gone"] |= {(m.name, one) for one in pids if not is_alive(one)}
    return ret


def files_below(folder):
    return sum(len(files) for _path, _folders, files in os.walk(folder))


def own_left():
    """What agents made in folders for files of a while."""
    return {path for folder in FOLDERS for name in OWN_NAMES
            for path in glob.glob(os.path.join(folder, name))}
