"""gpu_timeline_graphs_test.py - jobs that have CUDA graphs and launch none when the timeline comes
into them, over the fake CUPTI and the fake driver (tests/fake/cupti). A graph of before that is
launched beside CUPTI ends the fake job, as it does a real one."""

import os
import shutil
import signal
import subprocess
import time

from cupti_fakes import CUDA, FAKES, expect_note, folder_with, notes_of
from harness import expect, log_of, main, test

ENDS = "its timeline ends here, and CUPTI goes"


class Job:
    """A running attach_job that has not launched its graph yet."""

    def __init__(self, t, *words, env=None):
        self.t = t
        self.said = t.path("said")
        folder = folder_with(t, "cupti")
        shutil.copy(os.path.join(FAKES, "libtorch_cuda.so"), folder)
        with open(self.said, "w") as out:
            self.p = t.start([os.path.join(FAKES, "attach_job"), *words], stdout=out,
                             stderr=subprocess.STDOUT,
                             env=dict(os.environ, LD_LIBRARY_PATH=folder, **(env or {})))
        t.wait_for(lambda: "ready" in self.text(), "the job to run")

    def text(self):
        with open(self.said) as f:
            return f.read()

    def count(self):
        """launches, made, wrong so far."""
        n = self.text().count("launches ")
        os.kill(self.p.pid, signal.SIGUSR1)
        self.t.wait_for(lambda: self.text().count("launches ") > n or self.p.poll() is not None,
                        "the job to count")
        expect(self.p.poll() is None, "the job ended with %s" % self.p.poll())
        line = [x for x in self.text().splitlines() if x.startswith("launches ")][-1]
        return [int(x) for x in line.split()[1::2]]

    def has_shim(self):
        with open("/proc/%d/maps" % self.p.pid) as f:
            return "libeacgm_gpu" in f.read()

    def launch_graphs(self):
        os.kill(self.p.pid, signal.SIGUSR2)
        self.t.wait_for(lambda: "graph" in self.text() or self.p.poll() is not None,
                        "the job to launch a graph")

    def expect_works(self):
        first = self.count()[0]
        self.t.wait_for(lambda: self.count()[0] > first + 10, "the job to go on")
        expect(self.count()[2] == 0, "calls after which a register was another")


def spans_of(t, rec):
    r = t.run([os.path.join(FAKES, "list_spans"), rec.path])
    expect(r.status == 0, "list_spans: %s" % r)
    return [line for line in r.out.splitlines() if line.startswith("span ")]


def record_in(t, job, options=CUDA):
    p = t.start_record(*options, "-p", str(job.p.pid))
    t.wait_for(lambda: "stopped for" in log_of(p), "the shim to come in", 15)
    t.wait_for(lambda: job.count()[1] > 0, "work to be recorded")
    return p


@test("a graph of before is launched: the launch waits until CUPTI has gone")
def _(t):
    job = Job(t, "3", "older")
    p = record_in(t, job)
    job.launch_graphs()
    t.wait_for(lambda: ENDS in log_of(p) or job.p.poll() is not None, "the timeline's end")
    t.wait_for(lambda: not job.has_shim(), "the shim to go")
    job.expect_works()
    made = job.count()[1]
    rec = t.stop_record(p)
    expect_note(rec, ENDS)
    expect(len(spans_of(t, rec)) == made, "%d made, %d seen" % (made, len(spans_of(t, rec))))
    job.expect_works()


@test("while the recording ends too")
def _(t):
    job = Job(t, "2", "older")
    p = record_in(t, job)
    os.kill(p.pid, signal.SIGINT)
    job.launch_graphs()
    p.wait(timeout=30)
    t.wait_for(lambda: not job.has_shim(), "the shim to go")
    job.expect_works()


@test("a graph that was made since: the timeline goes on")
def _(t):
    job = Job(t, "2", "newer")
    p = record_in(t, job)
    job.launch_graphs()
    job.expect_works()
    before = job.count()[1]
    t.wait_for(lambda: job.count()[1] > before + 100, "work to be recorded")
    rec = t.stop_record(p)
    expect(not any(ENDS in n for n in notes_of(rec)), "notes: %r" % notes_of(rec))
    expect(len(spans_of(t, rec)) == job.count()[1] > before, "%d made, %d seen" % (
        job.count()[1], len(spans_of(t, rec))))


@test("eacgm is killed, and a graph of before is launched at once")
def _(t):
    for held_s in (0, 0.01):
        job = Job(t, "2", "older")
        p = record_in(t, job)
        job.launch_graphs()
        time.sleep(held_s)
        os.kill(p.pid, signal.SIGKILL)
        p.wait(timeout=30)
        t.wait_for(lambda: not job.has_shim(), "the shim to go")
        job.expect_works()
        t.kill(job.p)


@test("a graph of before is launched once eacgm was killed: it is held until CUPTI has gone")
def _(t):
    job = Job(t, "2", "older", env={"FAKE_CUPTI_ENDS_S": "2"})
    p = record_in(t, job)
    os.kill(p.pid, signal.SIGKILL)
    p.wait(timeout=30)
    expect(job.has_shim(), "CUPTI had gone before")
    job.launch_graphs()
    t.wait_for(lambda: not job.has_shim(), "the shim to go")
    job.expect_works()


@test("PyTorch says that it has made graphs: nothing comes in, at once")
def _(t):
    job = Job(t, "2", "pools")
    p = t.start_record(*CUDA, "-d", "0.5", "-p", str(job.p.pid))
    p.wait(timeout=30)
    expect_note(p.recording, "its PyTorch has made CUDA graphs")
    expect(not job.has_shim() and not spans_of(t, p.recording), "something came in")
    job.expect_works()


@test("PyTorch that has made none is no reason")
def _(t):
    job = Job(t, "2", "torch")
    rec = t.stop_record(record_in(t, job))
    expect(spans_of(t, rec) and not notes_of(rec), "notes: %r" % notes_of(rec))


if __name__ == "__main__":
    main()
