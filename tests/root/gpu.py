"""gpu.py - what the tests over the fake CUDA and NCCL share: running the programs of
targets/gpu, and reading calls with their arguments as numbers."""

import collections
import os
import re
import subprocess

from harness import BUILD, expect, target

NVML = os.path.join(BUILD, "tests", "fake", "nvml", "libnvidia-ml.so.1")

CUDA = ("--layers", "cuda")


def fake_nvml(t, script):
    path = t.path("nvml-script")
    with open(path, "w") as f:
        f.write(script)
    return {"EACGM_NVML": NVML, "EACGM_FAKE_NVML": path}


def program(name):
    path = target(os.path.join("gpu", name))
    expect(os.path.exists(path), "%s is not built" % path)
    return path


def lines(out, kind):
    """The words of the lines that begin with one."""
    return [line.split()[1:] for line in out.splitlines() if line.split()[:1] == [kind]]


def unique_id_hash(hexadecimal):
    """getHash of NCCL's src/include/bitops.h, as the log's commId has it."""
    mask = (1 << 64) - 1
    data = bytes.fromhex(hexadecimal)
    a, b = 1 ^ len(data), 1
    for i in range(0, len(data), 8):
        a = a + b & mask
        b ^= a
        a = (a ^ a >> 31) * 0x9de62bbc8cef3ce3 & mask
        b = (b ^ b >> 32) * 0x485cd6311b599e79 & mask
        a = a + int.from_bytes(data[i:i + 8], "little") & mask
    a = (a ^ a >> 31) * 0xbac3bd562846de6b & mask
    a = a + b & mask
    return (a ^ a >> 32) * 0x995a187a14e7b445 & mask


def demangled(names):
    r = subprocess.run(["c++filt"], input="\n".join(names), stdout=subprocess.PIPE, text=True,
                       check=True)
    return dict(zip(names, r.stdout.splitlines()))


def number(v):
    """An argument as a number: addresses are given as text."""
    if isinstance(v, str):
        return int(v, 0)
    return v


def succeeded(c):
    """Whether a call says that it was good: 0, or the name of 0."""
    v = c["args"]["return"]
    return v == 0 or isinstance(v, str) and v.lower().endswith("success")


def dimensions(v):
    """Three numbers, packed as the recording has them or written out."""
    if isinstance(v, (list, tuple)):
        return tuple(v)
    if isinstance(v, str) and not v.isdigit():
        return tuple(int(n) for n in re.findall(r"\d+", v))
    v = int(v)
    return v & 0x7fffffff, v >> 31 & 0xffff, v >> 47 & 0xffff


def calls_of(rec, *names, layer=None):
    return [c for c in rec.calls if (not names or c["name"] in names) and
            (layer is None or c["layer"] == layer)]


def launches_made(out):
    """(name, grid, block, shared bytes, stream) -> times, of a program's "launch" lines."""
    rows = lines(out, "launch")
    names = demangled(sorted({row[5] for row in rows}))
    made = collections.Counter()
    for times, grid, block, shared, stream, name in rows:
        stream = 0 if stream == "(nil)" else int(stream, 16)
        made[(names[name], dimensions(grid), dimensions(block), int(shared), stream)] += int(times)
    return made


def is_launch(c):
    """A launch at the driver; at the runtime the function is an argument."""
    return "grid" in c["args"] and "function" not in c["args"]


def launches_seen(rec):
    seen = collections.Counter()
    for c in rec.calls:
        if is_launch(c):
            a = c["args"]
            seen[(c["name"], dimensions(a["grid"]), dimensions(a["block"]), a["shared_bytes"],
                  number(a["stream"]))] += 1
    return seen


def expect_same(seen, made, what):
    expect(seen == made, "%s: seen but not made %r; made but not seen %r" % (
        what, dict(seen - made), dict(made - seen)))
