"""memory_limit.py - how much memory a cgroup may take, above what it cannot give back: its page cache
has no room then and is reclaimed, by whoever takes more. Both versions of cgroups. Nothing is
swapped out or killed for it as long as the room is enough for what the job takes itself."""

import os

NO_LIMIT_V1 = "-1"


def _number(folder, name):
    with open(os.path.join(folder, name)) as f:
        return int(f.read())


def _write(folder, name, text):
    with open(os.path.join(folder, name), "w") as f:
        f.write(text)


def _stat(folder):
    with open(os.path.join(folder, "memory.stat")) as f:
        return {key: int(value) for key, value in (line.split() for line in f)}


def _is_v2(folder):
    return os.path.exists(os.path.join(folder, "memory.high"))


def kept(folder):
    """Bytes that it cannot give back, or had better not: all but page cache of files that nobody
    has mapped. The job's libraries are mapped: without them it would stand still."""
    stat = _stat(folder)
    if _is_v2(folder):
        used, cache, mapped = _number(folder, "memory.current"), stat["file"], stat["file_mapped"]
    else:
        used, cache, mapped = (_number(folder, "memory.usage_in_bytes"), stat["cache"],
                               stat["mapped_file"])
    return used - max(0, cache - stat["shmem"] - mapped)


def limit(folder, room):
    """That many bytes above what is kept; None: no limit."""
    if _is_v2(folder):
        _write(folder, "memory.high", "max" if room is None else str(kept(folder) + room))
    else:
        _write(folder, "memory.limit_in_bytes",
               NO_LIMIT_V1 if room is None else str(kept(folder) + room))


def why_not(hierarchy):
    """None, or why there can be no limit. hierarchy: (path, version) or None."""
    if not hierarchy:
        return "there is no cgroup hierarchy with the memory controller"
    path, version = hierarchy
    if version == 1 and not os.path.exists(os.path.join(path, "memory.limit_in_bytes")):
        return "the memory controller has no limit"
    return None
