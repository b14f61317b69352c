"""Runs every test of a build folder and ends with "N passed, N failed, N skipped".

Each test is a program that prints TAP (https://testanything.org): unit tests through
cmocka, scripts by themselves. A program that crashes, hangs or plans more than it
reports counts as failed.
"""
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINE = re.compile(r"^(not )?ok\b\s*\d*\s*-?\s*(.*)$")
PLAN = re.compile(r"^1\.\.(\d+)(\s*#\s*skip\s*(.*))?$", re.I)


class Totals:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, name, text, status):
        planned = None
        seen = failed = 0
        for line in text.splitlines():
            plan = PLAN.match(line)
            if plan:
                planned = int(plan.group(1))
                if planned == 0:
                    self.skipped += 1
                    print(f"SKIP {name}: {plan.group(3) or 'no reason given'}")
                continue
            match = LINE.match(line)
            if not match:
                continue
            seen += 1
            what = match.group(2)
            skip = re.search(r"#\s*skip\s*(.*)", what, re.I)
            if match.group(1):
                failed += 1
                print(f"FAIL {name}: {what}")
            elif skip:
                self.skipped += 1
                print(f"SKIP {name}: {what}")
            else:
                self.passed += 1
        self.failed += failed
        broken = (planned is None or seen < planned) or (status != 0 and not failed)
        if broken:
            self.failed += 1
            print(f"FAIL {name}: ended with status {status} after {seen} of {planned} tests")
        return failed or broken


def run(name, command, totals, env, limit_s=600):
    start = time.monotonic()
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=limit_s)
        text, status = done.stdout.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as late:
        text, status = (late.stdout or b"").decode(errors="replace"), "timeout"
    bad = totals.add(name, text, status)
    print(f"{'FAIL' if bad else 'done'} {name} ({time.monotonic() - start:.1f} s)", flush=True)
    if bad:
        print("\n".join("    " + line for line in text.splitlines()[-60:]), flush=True)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    only = [a for a in sys.argv[2:] if not a.startswith("--")]
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP", EACGM_SOURCE_ROOT=str(ROOT),
               EACGM_BUILD=str(build), EACGM=str(build / "eacgm"), LC_ALL="C.UTF-8",
               ASAN_OPTIONS="detect_leaks=1:abort_on_error=0", UBSAN_OPTIONS="halt_on_error=1")
    totals = Totals()
    tests = [(p.stem, [str(build / "tests" / p.stem)])
             for p in sorted((ROOT / "tests/unit").glob("*_test.c"))]
    tests += [(p.stem, [str(build / "tests" / p.stem),
                        str(ROOT / "tests/fuzz/corpus" / p.stem.removesuffix("_fuzz"))])
              for p in sorted((ROOT / "tests/fuzz").glob("*_fuzz.c"))]
    tests += [(str(p.relative_to(ROOT)), ["/usr/bin/python3", str(p)])
              for folder in ("golden", "browser", "root")
              for p in sorted((ROOT / "tests" / folder).glob("*_test.py"))]
    for name, command in tests:
        if only and not any(o in name for o in only):
            continue
        if not pathlib.Path(command[0]).exists():
            totals.failed += 1
            print(f"FAIL {name}: {command[0]} was not built")
            continue
        run(name, command, totals, env)
    print(f"{totals.passed} passed, {totals.failed} failed, {totals.skipped} skipped")
    return 1 if totals.failed or not totals.passed else 0


if __name__ == "__main__":
    sys.exit(main())
