"""agents.py - an `eacgm agent` for tests, on the processes of a control group of its own."""

import http.client
import itertools
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

from cgroups import make_cgroup
from harness import EACGM, expect, skip

SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Agent:
    """On the processes of a control group, at a port that is free."""
    numbers = itertools.count(1)

    def __init__(self, t, *options, group=None, env=None, ca=None, token=None, eacgm=EACGM):
        """ca: it serves by TLS with a certificate of that; token: what it asks for."""
        self.t, self.ca, self.token = t, ca, token
        self.group = group or make_cgroup(t, "agent")
        self.log = t.path("agent-%d.log" % next(Agent.numbers))
        with open(self.log, "w") as log:
            self.p = t.start([eacgm, "agent", "--cgroup", self.group,
                              *(() if "--listen" in options else ("--listen", "127.0.0.1:0")),
                              *options], stdout=log, stderr=log,
                             env=dict(os.environ, **(env or {})))
        self.port = int(t.wait_for(lambda: re.search(r"serves .*?:(\d+)/metrics", self.said()),
                                   "the agent's address").group(1))
        t.wait_for(lambda: "attached to" in self.said(), "the agent to attach")

    def said(self):
        with open(self.log) as f:
            return f.read()

    def get(self, path="/metrics", **headers):
        q = urllib.request.Request(self.url(path), headers=headers)
        with self.open(q) as r:
            return r.read().decode(), r.headers

    def open(self, q):
        if self.token and not q.has_header("Authorization"):
            q.add_header("Authorization", "Bearer " + self.token)
        context = ssl.create_default_context(cafile=self.ca) if self.ca else None
        return urllib.request.urlopen(q, timeout=20, context=context)

    def status(self, path, **how):
        try:
            with self.open(urllib.request.Request(self.url(path), **how)) as r:
                return r.status
        except urllib.error.HTTPError as e:
            return e.code

    def url(self, path):
        return "%s://127.0.0.1:%d%s" % ("https" if self.ca else "http", self.port, path)

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


def socket_of_nobody(port):
    """A connection within this host whose socket is of a user who is not root."""
    os.seteuid(65534)
    try:
        s = socket.socket()
    finally:
        os.seteuid(0)
    s.settimeout(20)
    s.connect(("127.0.0.1", port))
    return s


def posted_by_nobody(a, *bodies):
    """[(status, text)]: what such a user is answered to POST /freeze, with the agent's token."""
    told = []
    for body in bodies:
        c = http.client.HTTPConnection("127.0.0.1", a.port)
        c.sock = socket_of_nobody(a.port)
        if a.ca:
            context = ssl.create_default_context(cafile=a.ca)
            c.sock = context.wrap_socket(c.sock, server_hostname="127.0.0.1")
        c.request("POST", "/freeze", body, {"Authorization": "Bearer " + a.token} if a.token else {})
        r = c.getresponse()
        told.append((r.status, r.read().decode()))
        c.close()
    return told


def start_in(t, group, *args, **env):
    return t.start(["sh", "-c", "echo $$ > %s/cgroup.procs; exec \"$@\"" % group, "sh", *args],
                   env=dict(os.environ, **env))


def make_slow(t, a, slow, seconds=12):
    """A job (rhythm_job.py) is slow while the file is there: from when the agent judges. By the clock
    a busy machine may still be learning then, and learns it."""
    t.wait_for(lambda: a.samples()["eacgm_learning"] == [({}, 0)], a.said, 120)
    open(slow, "w").close()
    time.sleep(seconds)
    os.unlink(slow)


def rows_of(t, path):
    """The first has the metas."""
    r = t.run([EACGM, "export", path, "-f", "jsonl", "-o", "-"])
    expect(r.status == 0, r)
    return [json.loads(line) for line in r.out.splitlines()]


def certificate(t, name):
    """(certificate, key) of a host that signs for itself."""
    cert, key = t.path(name + ".pem"), t.path(name + ".key")
    try:
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key,
                               "-out", cert, "-days", "2", "-subj", "/CN=" + name, "-addext",
                               "subjectAltName=DNS:%s,IP:127.0.0.1" % name], capture_output=True)
    except FileNotFoundError:
        skip("openssl is not installed")
    expect(made.returncode == 0, made.stderr)
    return cert, key
