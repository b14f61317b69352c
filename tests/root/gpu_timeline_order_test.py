"""gpu_timeline_order_test.py - several processes that have the driver's library: those that were
forked by another come last, for most of them never use a GPU, and each is waited for."""

import os
import re
import subprocess
import sys

from cupti_fakes import CUDA
from harness import TARGETS, expect, log_of, main, test

PARENT = """
import ctypes, os, sys, time
ctypes.CDLL(sys.argv[1])
for _ in range(int(sys.argv[2])):
    if not os.fork():
        break
else:
    print("ready", flush=True)
time.sleep(60)
"""
TOLD = r"process (\d+): not recorded so far"


@test("children of a process come after those that are nobody's", 120)
def _(t):
    library = os.path.join(TARGETS, "gpu", "libcuda.so.1")
    jobs = [t.start([sys.executable, "-c", PARENT, library, children], stdout=subprocess.PIPE,
                    text=True) for children in ("2", "0")]
    for job in jobs:
        expect(job.stdout.readline() == "ready\n", "a job did not start")
    p = t.start_record(*CUDA, "-p", str(jobs[0].pid), "-p", str(jobs[1].pid), ready=False)
    t.wait_for(lambda: len(re.findall(TOLD, log_of(p))) == 4, "all to be told of", 60)
    order = [int(pid) for pid in re.findall(TOLD, log_of(p))]
    expect(order[:2] == [job.pid for job in jobs], "jobs %r, told of %r" % (
        [job.pid for job in jobs], order))


if __name__ == "__main__":
    main()
