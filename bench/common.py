"""common.py - what the benchmarks share: running commands with a time limit, reading
recordings through eacgm's command line, medians with an interval, tables and JSON files.

Knows nothing of what is measured. Only processes that were started here are ever ended."""

import collections
import json
import os
import re
import platform
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BENCH = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(BENCH)
RESAMPLES = 5000

# what eacgm records here runs as it does; results belong to who called
CALLER = [int(os.environ.get(name, -1)) for name in ("SUDO_UID", "SUDO_GID")]
for _name in ("SUDO_UID", "SUDO_GID", "SUDO_USER", "DOAS_USER", "PKEXEC_UID"):
    os.environ.pop(_name, None)

Ran = collections.namedtuple("Ran", "out err wall_s cpu_s")


class Failed(Exception):
    """A command that did not do what the figure needs."""


def end_group(p):
    """Ends a process group that run() started."""
    try:
        os.killpg(p.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    p.wait()


def run(args, seconds, env=None):
    """Runs a command to its end. The CPU time is of it and of what it started."""
    args = [str(a) for a in args]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    try:
        p = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, errors="replace",
                             start_new_session=True, env=dict(os.environ, **(env or {})))
    except OSError as e:
        raise Failed("cannot run %s: %s" % (args[0], e.strerror)) from None
    try:
        out, err = p.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        end_group(p)
        raise Failed("%s did not end in %d s" % (" ".join(args), seconds)) from None
    except BaseException:
        end_group(p)
        raise
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if p.returncode:
        last = (err.strip() or out.strip() or "no output").splitlines()[-1]
        raise Failed("%s ended with %d: %s" % (" ".join(args), p.returncode, last[:400]))
    return Ran(out, err, wall, after.ru_utime + after.ru_stime - before.ru_utime -
               before.ru_stime)


# ---- copies of what a job maps ----

def parents():
    """{pid: parent}"""
    ret = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % name) as f:
                ret[int(name)] = int(f.read().rpartition(")")[2].split()[1])
        except OSError:
            pass
    return ret


def family_of(pid):
    """A process, and all that it and they have forked, those that live."""
    parent, ret = parents(), [pid]
    for one in parent:
        above = parent.get(one)
        while above and above != pid:
            above = parent.get(above)
        if above:
            ret.append(one)
    return ret


def together_of(pid):
    """Memory of the agent and of all that it has forked, what they share counted once."""
    total = 0
    for one in family_of(pid):
        try:
            with open("/proc/%d/smaps_rollup" % one) as f:
                total += int(re.search(r"^Pss:\s+(\d+)", f.read(), re.M).group(1)) * 1024
        except (OSError, AttributeError):
            pass
    return total


def copies_of(pid, folder):
    """Copies, in a folder, of the files whose code a process maps: pairs of path and copy."""
    with open("/proc/%d/maps" % pid) as f:
        parts = [line.split(maxsplit=5) for line in f]
    paths = sorted({p[5].strip() for p in parts if len(p) == 6 and "x" in p[1]})
    ret = []
    for path in filter(os.path.isfile, paths):
        ret.append((path, os.path.join(folder, str(len(ret)))))
        shutil.copy2(*ret[-1])
    return ret


def apart(copies):
    """Of a command that is to see copies in the place of their files, the words before it: the kernel's
    probes are of a file, and felt by all processes that map it."""
    mounts = ["mount --bind '%s' '%s'" % (copy, path) for path, copy in copies]
    return ["unshare", "-m", "sh", "-ec", "\n".join(
        ["mount --make-rprivate /", *mounts, 'exec "$@"']), "sh"]


# ---- recordings ----

def report_of(eacgm, path, seconds=120):
    return json.loads(run([eacgm, "report", "--json", path], seconds).out)


def metas_of(eacgm, path):
    """What eacgm wrote about the recording itself: the first line of its JSON lines."""
    p = subprocess.Popen([eacgm, "export", path, "-f", "jsonl", "-o", "-"], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         start_new_session=True)
    try:
        return json.loads(p.stdout.readline())
    finally:
        p.stdout.close()
        end_group(p)


def lost_calls(by_cause):
    """Calls that are not in the recording; other losses are not calls (wire/event.h)."""
    return sum(by_cause.get(cause, 0) for cause in (
        "ring_full", "stack_full", "no_state", "hist_full", "bad_record", "write_error"))


def add_up(dicts):
    total = collections.Counter()
    for d in dicts:
        total.update(d)
    return dict(total)


def summary_of(eacgm, path):
    """The figures of one recording that every benchmark wants."""
    rec = report_of(eacgm, path)["recording"]
    meta = metas_of(eacgm, path)
    wall_ns = int(meta["end_monotonic_ns"]) - int(meta["start_monotonic_ns"])
    return {"events": rec["events"], "lost": rec["lost"], "incomplete": rec["incomplete"],
            "lost_by_cause": rec["lost_by_cause"],
            "bytes": rec["bytes"], "bytes_per_event": rec["bytes_per_event"],
            "duration_s": wall_ns / 1e9, "collector_cpu_s": int(meta["collector_cpu_ns"]) / 1e9,
            "job_cpu_s": int(meta["job_cpu_ns"]) / 1e9, "attach_ms": float(meta["attach_ms"]),
            "plan_ms": float(meta["plan_ms"]), "sites": int(meta["attach_sites"]),
            "sites_stepped": int(meta["attach_sites_stepped"]),
            "method": meta["attach_method"]}


# ---- statistics ----

def interval(values, seed=1):
    """Median and its 95 % interval, percentile bootstrap (Efron 1979), the same each time."""
    values = list(values)
    rng = random.Random(seed)
    medians = sorted(statistics.median(rng.choices(values, k=len(values)))
                     for _ in range(RESAMPLES))
    return {"median": statistics.median(values), "low": medians[int(RESAMPLES * 0.025)],
            "high": medians[int(RESAMPLES * 0.975) - 1], "n": len(values)}


# ---- output ----

def print_table(title, heads, rows):
    """Rows of strings; the first column is left-aligned."""
    widths = [max(len(str(r[i])) for r in [heads] + rows) for i in range(len(heads))]
    print("\n" + title)
    for row in [heads] + rows:
        print("  ".join(str(c).ljust(w) if i == 0 else str(c).rjust(w)
                        for i, (c, w) in enumerate(zip(row, widths))).rstrip())
    sys.stdout.flush()


def say(text):
    """Progress, on a terminal only."""
    if sys.stderr.isatty():
        print("\r\033[K" + text[:110], end="", file=sys.stderr, flush=True)


def said():
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _cpu_model():
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def _version(eacgm):
    try:
        return run([eacgm, "--version"], 20).out.split()[-1]
    except (Failed, IndexError):
        return None


class Results:
    """One JSON file of one benchmark: when, where, with what settings, and the figures."""

    def __init__(self, name, eacgm, settings):
        self.data = {"bench": name, "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                     "machine": {"cpu": _cpu_model(), "cpus": len(os.sched_getaffinity(0)),
                                 "kernel": platform.release(),
                                 "load_at_start": os.getloadavg()[0]},
                     "eacgm_version": _version(eacgm), "settings": settings}

    def __setitem__(self, key, value):
        self.data[key] = value

    def write(self, path):
        if not path:
            return
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, exist_ok=True)
        fd, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(fd, "w") as f:
            json.dump(self.data, f, indent=1)
            f.write("\n")
        os.chmod(temporary, 0o644)
        os.chown(temporary, *CALLER)
        os.replace(temporary, path)


def add_common(parser):
    parser.add_argument("--build", default=os.path.join(ROOT, "build"),
                        help="build folder (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")


def main_of(fn):
    """Runs a benchmark; failures are one line."""
    if os.geteuid() != 0:
        print("%s: needs root" % os.path.basename(sys.argv[0]), file=sys.stderr)
        return 1
    try:
        return fn()
    except Failed as e:
        said()
        print("%s: %s" % (os.path.basename(sys.argv[0]), e), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        said()
        return 130
