"""agents.py - an `eacgm agent` for tests, on the processes of a control group of its own."""

import os
import re
import signal
import urllib.request

from cgroups import make_cgroup
from harness import EACGM, expect

SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Agent:
    """On the processes of a control group, at a port that is free."""

    def __init__(self, t, *options, group=None, env=None):
        self.t = t
        self.group = group or make_cgroup(t, "agent")
        self.log = t.path("agent.log")
        with open(self.log, "w") as log:
            self.p = t.start([EACGM, "agent", "--cgroup", self.group, "--listen", "127.0.0.1:0",
                              *options], stdout=log, stderr=log,
                             env=dict(os.environ, **(env or {})))
        self.port = int(t.wait_for(lambda: re.search(r"127\.0\.0\.1:(\d+)", self.said()),
                                   "the agent's address").group(1))
        t.wait_for(lambda: "attached to" in self.said(), "the agent to attach")

    def said(self):
        with open(self.log) as f:
            return f.read()

    def get(self, path="/metrics", **headers):
        q = urllib.request.Request("http://127.0.0.1:%d%s" % (self.port, path), headers=headers)
        with urllib.request.urlopen(q, timeout=20) as r:
            return r.read().decode(), r.headers

    def samples(self, **headers):
        """{name: [(labels, value)]}"""
        found = {}
        for line in self.get(**headers)[0].splitlines():
            if line.startswith("#"):
                continue
            m = SAMPLE.match(line)
            expect(m, "no sample: %r" % line)
            labels = dict(LABEL.findall(m.group(2) or ""))
            rows = found.setdefault(m.group(1), [])
            expect(labels not in [row[0] for row in rows], "twice: %s" % line)
            rows.append((labels, float(m.group(3))))
        return found

    def end(self):
        os.kill(self.p.pid, signal.SIGTERM)
        expect(self.p.wait(30) == 0, self.said())


def start_in(t, group, *args, **env):
    return t.start(["sh", "-c", "echo $$ > %s/cgroup.procs; exec \"$@\"" % group, "sh", *args],
                   env=dict(os.environ, **env))
