#!/usr/bin/env python3
"""agent_memory_test.py - what `eacgm agent` tells of the memory of jobs by whose it is: device
memory by the library that asked for it, over a fake driver and NVML (targets/gpu/owners.c), and
host memory by what stands behind it."""

import os
import subprocess

from agents import Agent
from gpu import NVML, lines, program
from harness import expect, main, test

FAMILY = "eacgm_gpu_process_memory_owned_bytes"
CONTEXT = 523 << 20  # what no call asks for


class Owners:
    """The program of that name, beside an NVML that says what it is told to."""

    def __init__(self, t, *options):
        self.t, self.script = t, t.path("nvml-script")
        self.has(0, 0)
        self.a = Agent(t, "--budget", "100%", "--layers", "cuda,gpu", *options,
                       env={"EACGM_NVML": NVML, "EACGM_FAKE_NVML": self.script})
        self.out = t.path("owners.out")
        with open(self.out, "w") as out:
            self.p = t.start(["sh", "-c", "echo $$ > %s/cgroup.procs; exec \"$@\"" % self.a.group,
                              "sh", program("owners")], stdin=subprocess.PIPE, stdout=out)
        self.steps = 0

    def has(self, pid, size, more=""):
        """What NVML says from now on."""
        text = "count 2\n" + more + ("process 0 %d %d 0\n" % (pid, size) if pid else "")
        with open(self.script + ".new", "w") as f:
            f.write(text)
        os.rename(self.script + ".new", self.script)

    def step(self):
        """{owner: bytes}, as the program says after its next step."""
        self.p.stdin.write(b"\n")
        self.p.stdin.flush()
        self.t.wait_for(lambda: ["%d" % self.steps] in lines(self.said(), "step"), self.said, 60)
        self.steps += 1
        return {name: int(size) for name, size in lines(self.said(), "owner")}

    def said(self):
        with open(self.out) as f:
            return f.read()

    def told(self):
        """{owner: bytes} of the metrics, and their other labels."""
        rows = [row for row in self.a.samples().get(FAMILY, [])
                if row[0]["pid"] == str(self.p.pid)]
        others = [{k: v for k, v in labels.items() if k != "owner"} for labels, _v in rows]
        return {labels["owner"]: round(v) for labels, v in rows}, others

    def expect_told(self, wanted):
        self.t.wait_for(lambda: self.told()[0] == wanted,
                        lambda: "told: %r, wanted: %r; %s" % (self.told(), wanted, self.a.said()),
                        60)


@test("device memory is its owners', and what no call explains makes up what NVML says", 180)
def _(t):
    o = Owners(t)
    made = o.step()
    total = sum(made.values()) + CONTEXT
    o.has(o.p.pid, total)
    o.expect_told({**made, "(not seen)": CONTEXT})
    labels = o.told()[1]
    expect(all(l["gpu"] == "0" and l["uuid"] and l["comm"] == "owners" for l in labels), labels)
    used = [v for l, v in o.a.samples()["eacgm_gpu_process_memory_used_bytes"]
            if l["pid"] == str(o.p.pid)]
    expect(used == [total], used)
    for _i in range(2):  # what is freed is nobody's any more; the library stays there
        made = o.step()
        o.has(o.p.pid, sum(made.values()) + CONTEXT)
        o.expect_told({**made, "(not seen)": CONTEXT})
    o.p.stdin.close()
    expect(o.p.wait(30) == 0, o.said())
    t.wait_for(lambda: not o.told()[0], "the rows of a process that has ended to go", 30)
    o.a.end()


@test("memory that was there before the agent, and on two GPUs: nothing is made up", 180)
def _(t):
    o = Owners(t)
    made = o.step()
    o.has(o.p.pid, sum(made.values()) + CONTEXT, "process 1 %d %d 0\n" % (o.p.pid, 1 << 30))
    o.expect_told({**made, "(not seen)": CONTEXT + (1 << 30)})
    expect(not any("gpu" in l or "uuid" in l for l in o.told()[1]), o.told()[1])
    late = Agent(t, "--budget", "100%", "--layers", "cuda,gpu", group=o.a.group,
                 env={"EACGM_NVML": NVML, "EACGM_FAKE_NVML": o.script})
    o.a.end()
    o.a = late
    made = o.step()  # frees what it did not see; a process is a job from its first call on
    o.has(o.p.pid, sum(made.values()) + CONTEXT)
    o.expect_told({"(not seen)": sum(made.values()) + CONTEXT})
    t.kill(o.p)
    o.a.end()


@test("host memory by what stands behind it, as the kernel tells", 120)
def _(t):
    o = Owners(t)
    o.step()
    pid = str(o.p.pid)

    kinds = {"rss_anon": "RssAnon", "rss_file": "RssFile", "rss_shmem": "RssShmem"}

    def of(what):
        rows = o.a.samples().get("eacgm_process_%s_bytes" % what, [])
        return [v for labels, v in rows if labels["pid"] == pid]

    with open("/proc/%s/status" % pid) as f:
        status = dict(line.split(":", 1) for line in f)
    wanted = [[int(status[key].split()[0]) * 1024] for key in kinds.values()]
    t.wait_for(lambda: [of(what) for what in kinds] == wanted,
               lambda: "told: %r, wanted: %r" % ([of(what) for what in kinds], wanted), 60)
    t.kill(o.p)
    o.a.end()


if __name__ == "__main__":
    raise SystemExit(main())
