"""A soak of `eacgm agent`: jobs that live, processes that are born and die every second, a scrape each
second, and a `kill -9` of the agent each minute, for as long as is asked.

usage: soak.py EACGM [--seconds S] [--kill-every S] [--jobs N] [--births PER_S] [--out FILE.jsonl]
               [--apart] [-- AGENT OPTION...]

A line for each life of the agent: its memory in the last third beside the middle third (the first
is its start), with that of the processes that it forks, who read files and wait for its end; its
own alone; its descriptors and threads at both, the slowest scrape, how many jobs have steps, what
was lost; its BPF links, programs, maps and their entries, and files below its store's folder, after
a third of it and at its end (not with --kill-every), when those who were born have ended and what
was of them has had its time to go; and of its end by `kill -9` how far the store's newest row was
behind, how long probes stayed in a job, and how long until the next one served. The last life ends
by SIGTERM. `--kill-every 0` has it live once. --out gets all of it, a JSON object a line. --apart:
the jobs map copies of their files, in a mount namespace, so that other tracers may run: their
probes are not counted as ours.

Fails (exit status 1, a line for each reason) where memory grew by more than 5 % or above 128 MB;
descriptors by more than 10 %; links, programs, maps, entries of a map or files by as much from one
quiet time to the other; where an entry of a process stayed that is gone; a link, program or map was
there after the agent; a folder stayed in /tmp, /var/tmp or /dev/shm; a store lacked more than its
last second and what a scrape's period may hide, or was damaged; or a probe stayed. A process that
is born is a Python that imports PyTorch every tenth time, else one that ends at once.
"""
import argparse
import array
import collections
import ctypes
import json
import os
import re
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import common
import held

JOB = """
import sys, time, torch
torch.set_num_threads(1)
m = torch.nn.Linear(64, 64)
o = torch.optim.SGD(m.parameters(), 0.01)
while True:
    o.zero_grad()
    m(torch.randn(8, 64)).sum().backward()
    o.step()
    time.sleep(0.01)
"""
SHORT = "import sys"
TORCH = "import torch; torch.randn(8, 8) @ torch.randn(8, 8)"
TRAP = 0xcc  # what a probe puts in place of an instruction's first byte
PAGE = os.sysconf("SC_PAGE_SIZE")
MEMORY_RATIO, MEMORY_BYTES = 1.05, 128e6
DESCRIPTORS_RATIO = 1.1  # some are of each process, also of those that others start here
ENTRIES_LEAST = 16  # of a map: fewer more are no growth
HELD_EVERY = 5  # looks; it takes some hundredths of a second
GONE_LOOKS = 3  # so often in a row an entry is of a process that is gone: it stays
LEFT_S = 30  # what is made for a while is taken away
QUIET_LOOKS, QUIET_MOST_S = 65, 180  # rules of files that nobody maps are kept for a minute
COUNTED = ("links", "programs", "maps", "files")
BEHIND_S = 2  # a row is of a whole second: it is up to one old before the next is due
PROBES_S = 30  # the kernel takes them out, and the guard is there for ten seconds; no other tracer may run
SHORTEST_S = 30  # a life in which thirds say something


def state_of(pid):
    with open("/proc/%d/status" % pid) as f:
        text = f.read()
    return {"rss": int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) * 1024,
            "threads": int(re.search(r"Threads:\s+(\d+)", text).group(1)),
            "fds": len(os.listdir("/proc/%d/fd" % pid))}


def scrape(port):
    began = time.monotonic()
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=20) as r:
        text = r.read().decode()
    return time.monotonic() - began, text


def own_pages(pid, start, end):
    """Pages of a mapping of a file that are the process's own, as those are that were written to
    (Documentation/admin-guide/mm/pagemap.rst)."""
    entries = array.array("Q")
    with open("/proc/%d/pagemap" % pid, "rb", 0) as f:
        f.seek(start // PAGE * 8)
        entries.frombytes(f.read((end - start) // PAGE * 8))
    return [start + i * PAGE for i, entry in enumerate(entries)
            if entry >> 63 and not entry >> 61 & 1]


def traps_in(pid, start, end, path, offset):
    """How many instructions of a mapping are not as in the file, but a breakpoint."""
    found = 0
    try:
        with open("/proc/%d/mem" % pid, "rb", 0) as mem, open(path, "rb") as f:
            for at in own_pages(pid, start, end):
                mem.seek(at)
                f.seek(offset + at - start)
                found += sum(a != b and b == TRAP for a, b in zip(f.read(PAGE), mem.read(PAGE)))
    except OSError:
        pass
    return found


def traps_of(pid):
    """Of each file of a process."""
    found = collections.Counter()
    with open("/proc/%d/maps" % pid) as f:
        for line in f:
            parts = line.split(maxsplit=5)
            if "x" not in parts[1] or len(parts) < 6 or not parts[5].startswith("/"):
                continue
            start, end = (int(x, 16) for x in parts[0].split("-"))
            path = parts[5].strip()
            found[os.path.basename(path)] += traps_in(pid, start, end, path, int(parts[2], 16))
    return +found


def probes_go(pid):
    """Seconds until no probe is in a process, at most PROBES_S; those that are left."""
    began = time.monotonic()
    while True:
        left = traps_of(pid)
        took = time.monotonic() - began
        if not left or took > PROBES_S:
            return took, left
        time.sleep(0.2)  # a look takes as much of a CPU


def set_apart(python, folder):
    """From here on this process and its children see copies of the files that a job maps."""
    new_namespace = 0x20000  # CLONE_NEWNS
    if ctypes.CDLL(None, use_errno=True).unshare(new_namespace):
        sys.exit("--apart: no mount namespace: %s" % os.strerror(ctypes.get_errno()))
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    job = subprocess.Popen([python, "-c", "import sys, torch\nprint(flush=True)\nsys.stdin.read()"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    job.stdout.readline()
    for path, copy in common.copies_of(job.pid, folder):
        subprocess.run(["mount", "--bind", copy, path], check=True)
    job.communicate()


class Store:
    def __init__(self, path):
        self.path = path

    def ask(self, sql):
        with sqlite3.connect("file:%s?mode=ro" % self.path, uri=True, timeout=10) as db:
            return db.execute(sql).fetchone()[0]

    def newest(self):
        return self.ask("SELECT max(time) FROM counters_1s")

    def bytes(self):
        return self.ask("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")

    def whole(self):
        return self.ask("PRAGMA integrity_check") == "ok"


def objects_left(objects):
    """What the kernel still has of them when their time is over, by kinds."""
    end = time.monotonic() + LEFT_S
    while held.still_there(objects) and time.monotonic() < end:
        time.sleep(0.2)
    return held.still_there(objects)


class Life:
    """One agent, from its start to its end."""

    def __init__(self, number, eacgm, options, folder):
        self.number, self.rows, self.slowest, self.text = number, [], 0, ""
        self.folder, self.held, self.gone, self.quiet = folder, [], [], []
        self.began = time.monotonic()
        self.log = tempfile.TemporaryFile("w+")
        self.p = subprocess.Popen([eacgm, "agent", "--listen", "127.0.0.1:0", *options],
                                  stderr=self.log, stdout=self.log,
                                  env=dict(os.environ, EACGM_CACHE=os.path.join(folder, "cache")))
        while not ("attached to" in self.said() and "serves" in self.said()):
            if self.p.poll() is not None:
                sys.exit(self.said())
            time.sleep(0.05)
        self.port = int(re.search(r"127\.0\.0\.1:(\d+)", self.said()).group(1))
        self.started_s = time.monotonic() - self.began
        self.look()

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def look(self):
        took, self.text = scrape(self.port)
        self.slowest = max(self.slowest, took)
        if len(self.rows) % HELD_EVERY == 0:
            self.look_at_held()
        self.rows.append(dict(state_of(self.p.pid), together=common.together_of(self.p.pid),
                              at_s=time.monotonic() - self.began, samples=self.text.count("\n")))

    def look_at_held(self):
        row = held.held_by(self.p.pid)
        self.gone = [*self.gone, row.pop("of_gone")][-GONE_LOOKS:]
        self.held.append(dict(row, files=held.files_below(self.folder)))

    def stays(self):
        """{map: entries of processes that are gone since some looks}"""
        if len(self.gone) < GONE_LOOKS:
            return {}
        return dict(collections.Counter(name for name, _pid in set.intersection(*self.gone)))

    def settle(self):
        """No process is born: keeps what is held when it shrinks no more."""
        least, since, end = None, 0, time.monotonic() + QUIET_MOST_S
        while since < QUIET_LOOKS and time.monotonic() < end:
            self.look()
            self.look_at_held()
            entries = sum(self.held[-1]["entries"].values())
            since = 0 if least is None or entries < least else since + 1
            least = entries if least is None else min(least, entries)
            time.sleep(1)
        self.quiet.append(self.held[-1])

    def held_at(self):
        """What it held at both quiet times, or at none."""
        if len(self.quiet) < 2:
            return {}
        ret = {key: [row[key] for row in self.quiet] for key in COUNTED}
        names = {name for row in self.quiet for name in row["entries"]}
        ret["entries"] = {name: [row["entries"].get(name, 0) for row in self.quiet]
                          for name in sorted(names)}
        return ret

    def killed(self, store, job):
        had, objects = traps_of(job), held.objects_of(self.p.pid)
        self.p.kill()
        at = time.time()
        self.p.wait()
        behind = at - store.newest()
        took, left = probes_go(job)
        return {"behind_s": behind, "probes": sum(had.values()), "probes_s": took,
                "probes_left": left, "objects_left": objects_left(objects)}

    def ended(self):
        objects = held.objects_of(self.p.pid)
        self.p.send_signal(signal.SIGTERM)
        return {"status": self.p.wait(60), "objects_left": objects_left(objects)}

    def summary(self, end):
        third = len(self.rows) // 3
        middle, last = self.rows[third:2 * third], self.rows[2 * third:]
        lost = re.search(r"^eacgm_lost_events_total (\S+)", self.text, re.M)
        steps = re.findall(r'^eacgm_steps_total\{pid="(\d+)"', self.text, re.M)
        ret = {"life": self.number, "seconds": time.monotonic() - self.began,
               "started_s": self.started_s, "slowest_scrape_s": self.slowest,
               "jobs_with_steps": len(set(steps)), "lost": float(lost.group(1)) if lost else None,
               "most_rss": max(row["rss"] for row in self.rows),
               "most_together": max(row["together"] for row in self.rows),
               "samples": self.rows[-1]["samples"], **end, **self.held_at(),
               "entries_of_gone": self.stays()}
        for key in ("rss", "together", "fds", "threads"):
            ret[key] = [statistics.mean(row[key] for row in part) for part in (middle or last, last)]
        return ret


def grew(s):
    """What is held more of than before, as sentences."""
    for key in COUNTED if "entries" in s else ():
        if s[key][1] > DESCRIPTORS_RATIO * s[key][0]:
            yield "%s grew from %d to %d" % (key, *s[key])
    for name, (before, now) in s.get("entries", {}).items():
        if now > DESCRIPTORS_RATIO * before + ENTRIES_LEAST:
            yield "entries of %s grew from %d to %d" % (name, before, now)


def wrong_with(s, asked_s):
    """What a life's summary says against it."""
    long = s["seconds"] >= SHORTEST_S and asked_s >= SHORTEST_S
    return [why for bad, why in (
        (long and s["together"][1] > MEMORY_RATIO * s["together"][0],
         "memory grew from %.1f to %.1f MB" % tuple(v / 1e6 for v in s["together"])),
        (s["most_together"] > MEMORY_BYTES, "memory of %.1f MB" % (s["most_together"] / 1e6)),
        (long and s["fds"][1] > DESCRIPTORS_RATIO * s["fds"][0],
         "descriptors grew from %.1f to %.1f" % tuple(s["fds"])),
        (s.get("behind_s", 0) > BEHIND_S, "the store lacks %.1f s" % s.get("behind_s", 0)),
        (s.get("probes_left"), "probes stayed in a job: " + ", ".join(
            "%d of %s" % (n, path) for path, n in s.get("probes_left", {}).items())),
        (s.get("status", 0) != 0, "exit status %d" % s.get("status", 0)),
        (s.get("objects_left"), "still there after it: %s" % s.get("objects_left")),
        (s["entries_of_gone"], "entries of processes that are gone: " + ", ".join(
            "%d of %s" % (n, name) for name, n in sorted(s["entries_of_gone"].items()))),
    ) if bad] + list(grew(s))


def told(s):
    line = ("life %d: %.0f s, started in %.1f s, memory %.1f to %.1f MB (%+.1f %%, %.1f at most), "
            "of these the agent itself %.1f to %.1f (resident; %.1f at most), descriptors %.1f to "
            "%.1f, threads %.1f to %.1f, %d samples, slowest scrape %.0f ms, "
            "steps of %d jobs, lost %s"
            % (s["life"], s["seconds"], s["started_s"], *(v / 1e6 for v in s["together"]),
               100 * (s["together"][1] / s["together"][0] - 1), s["most_together"] / 1e6,
               *(v / 1e6 for v in s["rss"]), s["most_rss"] / 1e6, *s["fds"],
               *s["threads"], s["samples"], 1e3 * s["slowest_scrape_s"], s["jobs_with_steps"],
               s["lost"]))
    if "entries" in s:
        line += "; " + ", ".join("%s %d to %d" % (key, *s[key]) for key in COUNTED)
        line += ", entries %d to %d" % tuple(sum(both[i] for both in s["entries"].values())
                                             for i in (0, 1))
    if "behind_s" in s:
        line += ("; killed: the store's newest row %.2f s behind, %d probes of a job gone within %.1f s"
                 % (s["behind_s"], s["probes"], s["probes_s"]))
    return line


class Soak:
    def __init__(self, o, folder):
        self.o, self.folder, self.left_before = o, folder, held.own_left()
        self.store = Store(os.path.join(folder, "soak.db"))
        self.options = ["--store", self.store.path, *o.options]
        self.jobs, self.young, self.births, self.lives, self.wrong = [], [], 0, [], []
        self.life = None
        self.out = open(o.out, "w") if o.out else None

    def start(self):
        return Life(len(self.lives) + 1, self.o.eacgm, self.options, self.folder)

    def bear(self):
        for _ in range(max(1, round(self.o.births))):
            self.births += 1
            self.young.append(subprocess.Popen(
                [self.o.python, "-c", SHORT if self.births % 10 else TORCH]))
        self.young = [child for child in self.young if child.poll() is None]

    def rest(self, life):
        """Until those who were born have ended, and what was of them is gone."""
        end = time.monotonic() + QUIET_MOST_S
        while self.young and time.monotonic() < end:
            life.look()
            time.sleep(1)
            self.young = [child for child in self.young if child.poll() is None]
        life.settle()

    def over(self, life, end):
        s = life.summary(end)
        self.lives.append(s)
        wrong = wrong_with(s, self.o.kill_every or self.o.seconds)
        self.wrong += ["life %d: %s" % (s["life"], why) for why in wrong]
        print(told(s) + "".join("; WRONG: " + why for why in wrong), flush=True)
        if self.out:
            self.out.write(json.dumps(dict(s, rows=life.rows, held=life.held)) + "\n")
            self.out.flush()

    def run(self):
        o = self.o
        self.life = life = self.start()
        self.jobs = [subprocess.Popen([o.python, "-c", JOB]) for _ in range(o.jobs)]
        began = time.monotonic()
        while time.monotonic() - began < o.seconds:
            tick = time.monotonic()
            self.bear()
            life.look()
            if o.kill_every and tick - life.began > o.kill_every:
                job = self.jobs[len(self.lives) % len(self.jobs)]
                self.over(life, life.killed(self.store, job.pid))
                self.life = life = self.start()
            if not o.kill_every and not life.quiet and tick - began > o.seconds / 3:
                self.rest(life)
                began += time.monotonic() - tick  # nobody was born
            time.sleep(max(0, tick + 1 - time.monotonic()))
        if life.quiet:
            self.rest(life)
        self.over(life, life.ended())

    def end(self):
        for child in self.jobs + self.young + ([self.life.p] if self.life else []):
            child.kill()
            child.wait()

    def left(self):
        """What an agent made elsewhere, and nobody took away."""
        end = time.monotonic() + LEFT_S
        while held.own_left() - self.left_before and time.monotonic() < end:
            time.sleep(0.5)
        return sorted(held.own_left() - self.left_before)

    def conclude(self):
        self.wrong += ["left: " + path for path in self.left()]
        if not self.store.whole():
            self.wrong.append("the store is damaged")
        kills = [s for s in self.lives if "behind_s" in s]
        print("%.0f s, %d processes born, %d lives, %d by kill -9: memory %.1f MB at most, the store "
              "%.2f s behind at most, %.1f MB, slowest scrape %.0f ms, lost %.0f; %s"
              % (self.o.seconds, self.births, len(self.lives), len(kills),
                 max(s["most_together"] for s in self.lives) / 1e6,
                 max((s["behind_s"] for s in kills), default=0),
                 self.store.bytes() / 1e6,
                 1e3 * max(s["slowest_scrape_s"] for s in self.lives),
                 sum(s["lost"] or 0 for s in self.lives),
                 "; ".join(["WRONG: " + why for why in self.wrong]) or "all as it is to be"))
        return 1 if self.wrong else 0


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    a.add_argument("eacgm")
    a.add_argument("--seconds", type=float, default=3600)
    a.add_argument("--kill-every", type=float, default=60)
    a.add_argument("--jobs", type=int, default=5)
    a.add_argument("--births", type=float, default=5)
    a.add_argument("--python", default="/usr/bin/python3")
    a.add_argument("--out")
    a.add_argument("--apart", action="store_true")
    words, options = sys.argv[1:], []
    if "--" in words:
        words, options = words[:words.index("--")], words[words.index("--") + 1:]
    a.set_defaults(options=options)
    with tempfile.TemporaryDirectory(prefix="eacgm-soak-") as folder:
        o = a.parse_args(words)
        if o.apart:
            set_apart(o.python, folder)
        soak = Soak(o, folder)
        try:
            soak.run()
        finally:
            soak.end()
        sys.exit(soak.conclude())


if __name__ == "__main__":
    main()
