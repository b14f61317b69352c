"""Runs every test of a build folder and ends with "N passed, N failed, N skipped".

Each test is a program that prints TAP (https://testanything.org): unit tests through
cmocka, scripts by themselves. A program that crashes, hangs or plans more than it
reports counts as failed.

Most tests of the tracer wait more than they work, so two of them run at a time. A third lane has
the time that they leave, for what needs no tracing; once that is done it takes tests of the tracer
as well. Of those with PyTorch's functions probed (TORCH) one runs at a time: the kernel has its
breakpoints in all processes that map a file, so that each makes the others' attaching take longer.
What waits nearly all the time (WAITS) has a lane of its own beside these. Those of ALONE run one by
one, and nothing beside them: what is usual is learned there, and a neighbour would be a part of it.
Beside those of SERVED_FIRST runs what needs no tracing, while a CPU is idle. Tests that trace live
processes share the machine with whatever else its host runs: they wait for conditions, never for
times, and a failure is a failure. One test boots another kernel, emulated (tests/kernels): it has
minutes to do so, and gets out of the way of what traces.

usage: run.py BUILD [PART OF A NAME...]; with names, one at a time. What a test printed is in
BUILD/test-logs.
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/root"))
import pytorch  # noqa: E402

CPU = re.compile(r"\([\d.]+ s, CPU ([\d.]+) s\)$", re.M)
REASON_CHARS = 800
LINE = re.compile(r"^(not )?ok\b\s*\d*\s*-?\s*(.*)$")
PLAN = re.compile(r"^1\.\.(\d+)(\s*#\s*skip\s*(.*))?$", re.I)


ALONE = {  # they count what the whole machine has, or take a job's CPUs
    "advice_test.py", "diagnose_net_test.py", "diagnose_ranks_test.py", "diagnose_test.py",
    "profile_follow_test.py",  # looks at all that the machine runs
    "single_links_test.py",  # attaching so waits for all others who end
}
SERVED_FIRST = {  # they compare two clocks
    "profile_test.py", "profile_hostile_test.py", "account_test.py", "waits_test.py",
    "unwind_agreement_test.py", "harm_test.py", "gpu_timeline_test.py",
}
WAITS = {"outlook_test.py"}
TORCH = {
    "faults_test.py", "flops_test.py", "gpu_ops_test.py", "phases_test.py", "record_detect_test.py",
    "standing_test.py", "steps_test.py", "torch_test.py",
}
LONG = ("watch_test.py", "inside_test.py", "agent_test.py", "faults_test.py",
        "inside_programs_test.py", "inside_modes_test.py", "gpu_timeline_attach_test.py", "steps_test.py", "phases_test.py", "gpu_ops_test.py",
        "record_detect_test.py", "agent_push_test.py", "hostile_test.py", "torch_test.py", "gpu_nccl_test.py",
        "agent_api_test.py", "privileges_test.py", "deb_test.py", "inside_attach_test.py", "leave_test.py", "counts_test.py",
        "failures_test.py", "gpu_attach_test.py", "crafted_cli_test.py",
        "load_test.sh", "pace_alarms_test", "score_test.py", "campaign.py", "detector_test")

Outcome = collections.namedtuple("Outcome", "passed failed skipped lines")


def read_tap(name, text, status):
    """What a program printed, as counts and as lines for what did not simply pass."""
    planned = None
    seen = passed = failed = skipped = 0
    lines = []
    for line in text.splitlines():
        plan = PLAN.match(line)
        if plan:
            planned = (planned or 0) + int(plan.group(1))
            if int(plan.group(1)) == 0:
                skipped += 1
                lines.append(f"SKIP {name}: {plan.group(3) or 'no reason given'}")
            continue
        match = LINE.match(line)
        if not match:
            continue
        seen += 1
        what = match.group(2)
        skip = re.search(r"#\s*skip\s*(.*)", what, re.I)
        if match.group(1):
            failed += 1
            lines.append(f"FAIL {name}: {what}")
        elif skip:
            skipped += 1
            lines.append(f"SKIP {name}: {what}")
        else:
            passed += 1
    if planned is None or seen < planned or (status != 0 and not failed):
        failed += 1
        lines.append(f"FAIL {name}: ended with status {status} after {seen} of {planned} tests")
    return Outcome(passed, failed, skipped, lines)


def failures(text):
    """Of each test that failed its line, and what follows it, shortened: logs are cut in the middle,
    and these stand at the end."""
    ret = []
    for line in text.splitlines():
        if line.startswith("not ok"):
            ret.append(line)
        elif ret and line.startswith("#   ") and len(ret[-1]) < REASON_CHARS:
            ret[-1] += "\n" + line[:REASON_CHARS]
        elif LINE.match(line):
            ret.append("")
    return [reason for reason in ret if reason]


# What needs no tracing gets out of the way of what does: it has a smaller share, or what is left.
BESIDE = ["nice", "-n", "5"]
IDLE = ["chrt", "--idle", "0"]

# In the background of a script, and under nohup, signals are ignored that tests send.
AS_AT_A_TERMINAL = ["env", "--default-signal=INT,QUIT,HUP"]


class Runner:
    def __init__(self, env, logs):
        self.env = env
        self.logs = logs  # a folder, of what each test printed
        logs.mkdir(exist_ok=True)
        self.outcomes = {}
        self.reasons = []
        self.lock = threading.Lock()

    def printed(self, command, limit_s):
        """What it printed, and its status; one that takes too long may end what it started."""
        with subprocess.Popen(command, cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as p:
            status = None
            for end, patience_s in ((None, limit_s), (p.terminate, 30), (p.kill, 5)):
                if end:
                    end()
                    status = "timeout"
                try:
                    out, _ = p.communicate(timeout=patience_s)
                    break
                except subprocess.TimeoutExpired as late:
                    out = late.stdout or b""  # others may have its end of the pipe
            return out.decode(errors="replace"), status or p.returncode

    def run(self, name, command, under=(), limit_s=600):
        """under: what runs the command."""
        start = time.monotonic()
        if not pathlib.Path(command[0]).exists():
            text, status = f"# {command[0]} was not built", "none"
        else:
            text, status = self.printed([*AS_AT_A_TERMINAL, *under, *command], limit_s)
        (self.logs / name.replace("/", "-")).write_text(text)
        outcome = read_tap(name, text, status)
        with self.lock:
            self.outcomes[name] = outcome
            word = "FAIL" if outcome.failed else "done"
            took = f"{time.monotonic() - start:.1f} s"
            if cpu := CPU.findall(text):
                took += f", CPU {sum(map(float, cpu)):.1f} s"
            print("\n".join(outcome.lines + [f"{word} {name} ({took})"]))
            if outcome.failed:
                self.reasons += [f"{name}: {reason}" for reason in failures(text)]
                print("\n".join("    " + line for line in text.splitlines()[-60:]))
            sys.stdout.flush()

    def run_lane(self, queues):
        while True:
            with self.lock:
                queue = next((q for q in queues if q), None)
                if queue is None:
                    return
                test = queue.popleft()
            self.run(*test)

    def run_all(self, *lanes):
        """Each lane runs one test at a time, of the first of its queues that has one."""
        threads = [threading.Thread(target=self.run_lane, args=(queues,)) for queues in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def run_while(self, queue, beside):
        """Runs what is in the one, and of the other meanwhile what comes first in it."""
        other = threading.Thread(target=self.run_lane, args=((beside,),))
        other.start()
        self.run_lane((queue,))
        with self.lock:
            left = list(beside)
            beside.clear()
        other.join()
        beside.extend(left)


def tests_of(build):
    """(name, command) of all."""
    scripts = [(str(p.relative_to(ROOT)), ["/usr/bin/python3", str(p)])
               for folder in ("root", "golden", "browser")
               for p in sorted((ROOT / "tests" / folder).glob("*_test.py"))]
    units = [(p.stem, [str(build / "tests" / p.stem)])
             for p in sorted((ROOT / "tests/unit").glob("*_test.c"))]
    fuzz = [(p.stem, [str(build / "tests" / p.stem),
                      str(ROOT / "tests/fuzz/corpus" / p.stem.removesuffix("_fuzz"))])
            for p in sorted((ROOT / "tests/fuzz").glob("*_fuzz.c"))]
    kernels = "tests/kernels/load_test.sh"
    scripts.append((kernels, ["/bin/sh", str(ROOT / kernels), str(build)]))
    campaign = "tests/fuzz/campaign.py"
    scripts.append((campaign, ["/usr/bin/python3", str(ROOT / campaign), "--test"]))
    return scripts + units + fuzz


def is_of_root(test):
    return test[0].startswith("tests/root/")


def file_of(test):
    return os.path.basename(test[0])


def longest_first(tests):
    """A lane that begins a long one at the end leaves the others idle."""
    return sorted(tests, key=lambda test: (*LONG, file_of(test)).index(file_of(test)))


def queue_of(tests, *how):
    return collections.deque((*test, *how) for test in longest_first(tests))


def run_in_lanes(runner, tests):
    def those_of(names):
        return [test for test in tests if file_of(test) in names]
    apart = those_of(ALONE | SERVED_FIRST | WAITS)
    others = [test for test in tests if test not in apart]
    torch = queue_of(those_of(TORCH))
    traces = queue_of(test for test in others if is_of_root(test) and file_of(test) not in TORCH)
    long, short = [], []
    for test in others:
        if not is_of_root(test):
            (long if file_of(test) in LONG else short).append(test)
    short = queue_of(short, IDLE)
    runner.run_while(queue_of(those_of(SERVED_FIRST)), short)
    beside = queue_of(long + [test[:2] for test in short], BESIDE)
    runner.run_all((torch, traces, beside), (traces, beside), (beside, traces),
                   (queue_of(those_of(WAITS)),))
    runner.run_all((queue_of(those_of(ALONE)),))


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    only = sys.argv[2:]
    if not only:
        pytorch.there()  # in the environment from here on
    runner = Runner(dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP", EACGM_SOURCE_ROOT=str(ROOT),
                         EACGM_BUILD=str(build), EACGM=str(build / "eacgm"), LC_ALL="C.UTF-8",
                         ASAN_OPTIONS="detect_leaks=1:abort_on_error=0",
                         UBSAN_OPTIONS="halt_on_error=1"), build / "test-logs")
    tests = [test for test in tests_of(build) if not only or any(o in test[0] for o in only)]
    if only:
        runner.run_all((collections.deque(tests),))
    else:
        run_in_lanes(runner, tests)
    passed, failed, skipped = (sum(getattr(o, what) for o in runner.outcomes.values())
                               for what in ("passed", "failed", "skipped"))
    for reason in runner.reasons:
        print(reason)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
