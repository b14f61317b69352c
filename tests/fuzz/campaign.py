"""Hostile inputs for everything that reads what others wrote: none may crash it, take it more than
10 s of CPU time or 512 MB of memory.

In one process (tests/fuzz/run_corpus.c), by the thousand: recordings and all that is made of them,
models, tables of numbers, ELF files (which debuginfod's answers are as well), unwind tables, CPython's
memory, the shim's ring, catalogs, files of /proc and cgroups, command lines, answers of those who
read files for the tracer. As commands of eacgm: changed copies of whole recordings, of which most
have their checksums made right again (change_recording.c), and the recordings of make_crafted.
The same inputs for the same seed.

usage: campaign.py BUILD [--inputs N] [--commands N] [--each N] [--seed N] [--json FILE] [--test]

--inputs in processes, --commands on changed recordings, --each on each crafted one.

--test: few inputs, as TAP, for tests/run.py (EACGM says which build). Else prints a table, and the
exit status says whether all held.
"""
import argparse
import json
import os
import pathlib
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_S, LIMIT_MB = 10, 512
CHUNK = 500  # inputs of one process
ROWS = (50000, 300000)  # of crafted recordings: most pass as a whole; most do not
KINDS = {  # fuzz target -> what its inputs are, and its share
    "recording": ("recordings", 6), "export": ("recordings, exported", 4),
    "flame": ("recordings, flame graphs", 4), "merge": ("recordings, merged", 2),
    "model": ("models", 5), "table": ("tables of numbers", 3), "elf": ("ELF files", 6),
    "sections": ("kernels' names, sections", 2), "unwind": ("unwind tables", 5),
    "cpython": ("CPython's memory", 5), "cpython_lines": ("CPython's line tables", 4),
    "jit_names": ("maps of made code", 3), "gpu_spans": ("the shim's ring", 3), "catalog": ("catalogs", 3),
    "agent_config": ("an agent's files", 2),
    "proc": ("files of /proc and cgroups", 2), "command_line": ("command lines", 2),
    "kernel_symbols": ("the kernel's functions", 1), "file_facts": ("answers about files", 2),
    "call_rings": ("rings of processes' calls", 3), "prologue": ("functions' beginnings", 2),
}
COMMANDS = (
    ("report",), ("report", "--json", "--steps"), ("report", "--html", "OUT"),
    ("detect",), ("detect", "--json"),
    ("export", "-f", "perfetto", "-o", "OUT"), ("export", "-f", "chrome", "-o", "OUT"),
    ("export", "-f", "csv", "-o", "OUT"), ("export", "-f", "jsonl", "-o", "OUT"),
    ("flame", "--kind", "cpu", "-f", "svg", "-o", "OUT"),
    ("flame", "--kind", "offcpu", "-f", "folded", "-o", "OUT"),
    ("flame", "--kind", "gpu", "-f", "pprof", "-o", "OUT"),
    ("flame", "--kind", "gpu-alloc", "-f", "speedscope", "-o", "OUT"),
    ("flame", "--kind", "gpu-inuse", "-f", "folded", "-o", "OUT"),
    ("merge", "COPY", "-o", "OUT"), ("learn", "-o", "OUT"),
    ("export", "-f", "sqlite", "-o", "OUT"), ("query", "SELECT * FROM functions"),
)


class Row:
    """One line of the table."""

    def __init__(self, name):
        self.name, self.inputs, self.crashes, self.hangs, self.large = name, 0, 0, 0, 0
        self.mb = self.slowest_s = 0
        self.found = []  # how to do it again

    def take(self, ended, mb, seconds, how):
        self.mb, self.slowest_s = max(self.mb, mb), max(self.slowest_s, seconds)
        hang, large = seconds > LIMIT_S or ended == "hang", mb > LIMIT_MB
        self.hangs += hang
        self.large += large
        self.crashes += ended == "crash"
        if hang or large or ended != "ok":
            self.found.append(f"{how}: {ended}, {mb} MB, {seconds:.1f} s")

    def held(self):
        return not self.found


def limits():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (3 * LIMIT_S, 3 * LIMIT_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))


def run(command, **kw):
    """How it ended, megabytes, seconds of CPU time."""
    # The sanitizer keeps back what was freed, 256 MB of it unless told: that is not the program's.
    env = dict(os.environ, UBSAN_OPTIONS="halt_on_error=1:exitcode=99",
               ASAN_OPTIONS="exitcode=99:abort_on_error=0:detect_leaks=0:quarantine_size_mb=32")
    started = time.monotonic()
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env,
                          preexec_fn=limits, **kw) as child:
        pid = child.pid
        while True:
            ended, status, used = os.wait4(pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() - started > 20 * LIMIT_S:
                child.kill()
                _, status, used = os.wait4(pid, 0)
                break
            time.sleep(0.002)
        child.returncode = status
    seconds = used.ru_utime + used.ru_stime
    if os.WIFSIGNALED(status):
        killed = os.WTERMSIG(status) in (9, 14, 24)
        return "hang" if killed else "crash", used.ru_maxrss // 1024, seconds
    return ("crash" if os.WEXITSTATUS(status) == 99 else "ok"), used.ru_maxrss // 1024, seconds


def in_process(build, folder, target, seed, inputs):
    """Runs changed inputs of one target; one that ends the process is counted and passed over."""
    row = Row(KINDS[target][0])
    corpus, progress = ROOT / "tests/fuzz/corpus" / target, folder / "progress"
    at = 0
    while at < inputs:
        count = min(CHUNK, inputs - at)
        program = build / "tests" / f"{target}_fuzz"
        ended, mb, _ = run([program, corpus, seed, at, count, progress])
        number, slowest_ns, slowest = struct.unpack("QQQ", progress.read_bytes())
        done = count if ended == "ok" else number - at + 1
        row.inputs += done
        row.take(ended, mb, slowest_ns / 1e9,
                 f"{target}_fuzz {corpus} {seed} {slowest if ended == 'ok' else number} 1")
        at += done
    return row


def run_command(build, folder, words, recording, row, how):
    out, copy = folder / "out", folder / "copy.eacgm"
    if "COPY" in words:
        shutil.copy(recording, copy)
    named = {"OUT": out, "COPY": copy}
    row.inputs += 1
    row.take(*run([build / "eacgm", words[0], recording,
                   *(named.get(word, word) for word in words[1:])]), f"{how}: {' '.join(words)}")
    out.unlink(missing_ok=True)


def seeds(build, folder):
    made = [folder / "timeline.eacgm", folder / "job.eacgm"]
    subprocess.run([build / "tests/make_timeline", made[0]], check=True)
    subprocess.run([build / "tests/make_job", made[1], "3", "20"], check=True)
    return sorted((ROOT / "tests/golden/recordings").glob("*.eacgm")) + made


def changed_recordings(build, folder, seed, commands):
    """Each changed recording is given to some commands in turn."""
    row, files, target = Row("recordings, commands"), seeds(build, folder), folder / "changed.eacgm"
    for n in range(commands):
        words = COMMANDS[n % len(COMMANDS)]
        number = seed * 1000003 + n
        own, other = files[n // 3 % len(files)], files[n // 7 % len(files)]
        change = [build / "tests/change_recording", str(number), own, other, target]
        subprocess.run(change, check=True)
        run_command(build, folder, words, target, row, " ".join(map(str, change)))
    return row


def crafted_recordings(build, folder, rows, each):
    """Each of them is given to so many commands, in turn."""
    row, path = Row("recordings by hand, commands"), folder / "crafted.eacgm"
    maker = build / "tests/make_crafted"
    names = subprocess.run([maker, "--list"], check=True, capture_output=True,
                           text=True).stdout.split()
    turn = 0
    for name in names:
        for n in rows:
            subprocess.run([maker, name, str(n), path], check=True)
            for _ in range(each):
                words = COMMANDS[turn % len(COMMANDS)]
                turn += 1
                run_command(build, folder, words, path, row, f"make_crafted {name} {n}")
    return row


def table(rows):
    print(f"{'inputs of':34}{'inputs':>8}{'crashes':>9}{'hangs':>7}{'> 512 MB':>10}"
          f"{'most MB':>9}{'slowest s':>11}")
    for r in rows:
        print(f"{r.name:34}{r.inputs:8}{r.crashes:9}{r.hangs:7}{r.large:10}{r.mb:9}"
              f"{r.slowest_s:11.2f}")
    for r in rows:
        for found in r.found:
            print(f"  {found}")


def tap(rows):
    print(f"1..{len(rows)}")
    for number, r in enumerate(rows, 1):
        print(f"{'ok' if r.held() else 'not ok'} {number} - {r.inputs} {r.name}: no crash, "
              f"{LIMIT_S} s, {LIMIT_MB} MB")
        for found in r.found:
            print(f"# {found}")


def all_rows(build, args, folder):
    shares = sum(share for _, share in KINDS.values())
    for target, (_, share) in KINDS.items():
        yield in_process(build, folder, target, args.seed, args.inputs * share // shares)
    yield changed_recordings(build, folder, args.seed, args.commands)
    yield crafted_recordings(build, folder, ROWS[:1] if args.test else ROWS,
                             1 if args.test else args.each)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build", nargs="?")
    parser.add_argument("--inputs", type=int, default=50000)
    parser.add_argument("--commands", type=int, default=3000)
    parser.add_argument("--each", type=int, default=len(COMMANDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    parser.add_argument("--test", action="store_true")
    args = parser.parse_args()
    if args.test:
        args.inputs, args.commands = 1000, 45
    build = pathlib.Path(args.build or pathlib.Path(os.environ["EACGM"]).parent).resolve()
    rows = []
    with tempfile.TemporaryDirectory(prefix="eacgm-campaign-") as folder:
        for row in all_rows(build, args, pathlib.Path(folder)):
            rows.append(row)
            if not args.test:
                print(f"{row.name}: {row.inputs}", file=sys.stderr, flush=True)
    (tap if args.test else table)(rows)
    if args.json:
        keys = ("name", "inputs", "crashes", "hangs", "large", "mb", "slowest_s", "found")
        pathlib.Path(args.json).write_text(json.dumps([{k: getattr(r, k) for k in keys}
                                                       for r in rows], indent=2))
    sys.exit(any(not r.held() for r in rows))


if __name__ == "__main__":
    main()
