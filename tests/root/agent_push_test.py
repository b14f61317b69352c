#!/usr/bin/env python3
"""agent_push_test.py - `eacgm agent --otlp`, `--pprof-push` and `--parca-push`: what a receiver gets,
by OpenTelemetry's schema and rules and as Pyroscope and Parca take it; receivers that are dead,
slow, full, hostile, or come back; and that scrapes never wait for one."""

import concurrent.futures
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import otlp
import protos
from agents import Agent, certificate, make_slow, start_in
from cgroups import make_cgroup
from gpu import fake_nvml
from harness import EACGM, PUSH, PYTHON, expect, main, needs_torch, probes, skip, target, test
from otlp import Receiver, attributes

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "rhythm_job.py")
SAME_CLOCK_NS = 10**7  # agent_push.c: what is less is no setting of the clock
CALLS = ("--budget", "100%", "--layers", "user,gpu", *probes(PUSH))
UNITS = {"s": "_seconds", "By": "_bytes", "Hz": "_hertz", "W": "_watts", "J": "_joules", "Cel": "_celsius",
         "By/s": "_bytes_per_second", "1/s": "_per_second"}


@test("what OpenTelemetry's own definitions do not have is taken for an error here")
def _(t):
    def taken(data):
        try:
            return protos.decode("opentelemetry", otlp.PROFILES, data)
        except AssertionError:
            return None
    expect(taken(b"\x12\x03\x2a\x01a")["dictionary"]["string_table"] == ["a"], "a table of strings")
    for wrong in (b"\x1a\x00", b"\x08\x01", b"\x12\x02\x40\x01",
                  b"\x12\x03\x2a\x01a\x12\x03\x2a\x01b"):  # other fields and types, one twice
        expect(taken(wrong) is None, wrong)


def agent(t, receiver, *options, **how):
    """One after another, on one control group."""
    if not hasattr(t, "group"):
        t.group = make_cgroup(t, "agent")
    return Agent(t, "--otlp", receiver if isinstance(receiver, str) else receiver.url(),
                 "--otlp-interval", "1s", *options, group=t.group, **how)


def agents_at_once(t, rows):
    """Of each row (receiver, options, how)."""
    t.group = make_cgroup(t, "agent")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return list(pool.map(lambda row: agent(t, row[0], *row[1], **row[2]), rows))


def end_at_once(agents):
    for a in agents:
        os.kill(a.p.pid, signal.SIGTERM)
    for a in agents:
        expect(a.p.wait(30) == 0, a.said())


def prometheus_name(metric):
    """As OpenTelemetry's rules make it (compatibility/prometheus_and_openmetrics)."""
    name, unit = metric["name"].replace(".", "_"), metric.get("unit", "")
    name += UNITS.get(unit, "")
    if "sum" in metric and metric["sum"].get("is_monotonic"):
        return name + "_total"
    return name + ("_ratio" if "gauge" in metric and unit == "1" else "")


@test("metrics are those of /metrics, in OpenTelemetry's names, units and kinds", 90)
def _(t):
    receiver = Receiver()
    a = agent(t, receiver, *CALLS, "--otlp-header", "X-Scope-OrgID=tenant 7", env={
        "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20a%2Cb,x-more=1",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=lab,host.name=renamed",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    began_ns = time.time_ns()
    job = start_in(t, a.group, target("calls"), "until", t.path("never"), "1", "100")
    t.wait_for(lambda: "eacgm_calls_total" in a.samples(), "calls")

    def points():
        questions = receiver.of("/v1/metrics")
        return questions[-1].points() if questions else {}
    t.wait_for(lambda: "eacgm.calls" in points() and "process.memory.usage" in points() and
               "eacgm.host.cpu" in points(), "them")
    question = receiver.of("/v1/metrics")[-1]
    expect(question.resource == {
        "service.name": "eacgm", "service.version": question.resource["service.version"],
        "service.instance.id": "%s:%d" % (socket.gethostname(), a.p.pid), "host.arch": "amd64",
        "os.type": "linux", "process.pid": a.p.pid, "host.name": "renamed",
        "deployment.environment.name": "lab"}, question.resource)
    expect(question.headers["X-Scope-OrgID"] == "tenant 7" and question.headers["x-more"] == "1" and
           question.headers["Authorization"] == "Bearer a,b" and
           question.headers["Content-Encoding"] == "gzip" and
           question.wire_bytes < question.bytes, dict(question.headers))
    found = question.points()
    labels, value, point, metric = found["eacgm.calls"][0]
    expect(labels == {"process.pid": job.pid, "process.executable.name": "calls",
                      "eacgm.layer": "user", "code.function.name": "target_push"}, labels)
    expect(metric["sum"]["is_monotonic"] and value > 0 and
           began_ns - 5e9 < point["start_time_unix_nano"] < point["time_unix_nano"] <
           time.time_ns(), (metric, began_ns))
    labels, value, point, metric = found["process.memory.usage"][0]
    expect(labels["process.pid"] == job.pid and metric["unit"] == "By" and value > 0 and
           "sum" in metric and not metric["sum"].get("is_monotonic"), metric)
    for name, rows in found.items():
        for _labels, _value, point, metric in rows:
            expect(("start_time_unix_nano" in point) == ("sum" in metric), name)
    # names: there and back
    theirs = {prometheus_name(m) for m in question.rows if m["name"].startswith("eacgm.")}
    ours = {name for name in a.samples() if name.startswith("eacgm_")}
    unlike = theirs - ours - {"eacgm_push_made_seconds"}
    expect(not unlike, "not in /metrics: %r" % unlike)
    not_pushed = {"eacgm_process_rss_bytes", "eacgm_process_threads", "eacgm_filesystem_total_bytes"}

    def missing():  # what came after the last push is in the next
        last = receiver.of("/v1/metrics")[-1]
        theirs = {prometheus_name(m) for m in last.rows if m["name"].startswith("eacgm.")}
        return {name for name in ours - theirs - not_pushed
                if not re.match("eacgm_(host|disk|interface|process)_", name)}
    t.wait_for(lambda: not missing(), "a push with all of /metrics")
    # counters go on
    first, last = (next(iter(q.points()["eacgm.calls"])) for q in (
        [q for q in receiver.of("/v1/metrics") if "eacgm.calls" in q.points()][0],
        receiver.of("/v1/metrics")[-1]))
    expect(first[1] <= last[1] and
           first[2]["start_time_unix_nano"] == last[2]["start_time_unix_nano"], (first, last))
    pushed = {name: rows for name, rows in a.samples().items() if name.startswith("eacgm_push")}
    expect(pushed["eacgm_push_sent_total"][0][1] >= 2 and
           pushed["eacgm_push_failures_total"][0][1] == 0 and
           pushed["eacgm_push_wire_bytes_total"][0][1] > 0, pushed)
    n = len(receiver.of("/v1/metrics"))
    a.end()
    expect(len(receiver.of("/v1/metrics")) > n, "the last there was")


@test("GPUs by the semantic conventions; an error of one is a log")
def _(t):
    receiver = Receiver()
    a = agent(t, receiver, env=fake_nvml(t, "count 2\nxid 1 79\n"))
    t.wait_for(lambda: receiver.of("/v1/metrics") and all(
        name in receiver.of("/v1/metrics")[-1].points() for name in (
            "hw.gpu.utilization", "hw.gpu.memory.usage", "hw.gpu.memory.limit", "hw.power",
            "hw.energy", "hw.errors")), "GPUs", 40)
    found = receiver.of("/v1/metrics")[-1].points()
    scraped = a.samples()
    uuids = {labels["uuid"] for labels, _v in scraped["eacgm_gpu_memory_total_bytes"]}
    for name, rows in found.items():
        for labels, _value, _point, _metric in rows:
            if name.startswith("hw."):
                expect(labels["hw.type"] == "gpu" and labels["hw.id"] in uuids, (name, labels))
    tasks = {labels["hw.gpu.task"] for labels, *_ in found["hw.gpu.utilization"]}
    expect(tasks == {"general", "encoder", "decoder"}, tasks)
    expect({labels["error.type"] for labels, *_ in found["hw.errors"]} ==
           {"corrected", "uncorrected"}, found["hw.errors"])
    expect({labels["hw.id"]: v for labels, v, *_ in found["hw.gpu.memory.limit"]} ==
           {labels["uuid"]: v for labels, v in scraped["eacgm_gpu_memory_total_bytes"]}, "memory")
    expect("eacgm.gpu.sm_clock" in found and
           found["eacgm.gpu.sm_clock"][0][3]["unit"] == "Hz", "others by our names")
    expect(not any("DCGM" in name for name in found), "those are Prometheus's")
    t.wait_for(lambda: receiver.rows("/v1/logs"), "a log")
    log = receiver.rows("/v1/logs")[0]
    expect(log["severity_number"] == 17 and log["severity_text"] == "ERROR" and
           log["event_name"] == "eacgm.error" and
           log["body"]["string_value"].startswith("xid of gpu 1: 79") and
           attributes(log) == {"error.type": "xid", "eacgm.of": "gpu 1"}, log)
    # the same on the page, and as a metric
    events = json.loads(a.get("/api/v1/incidents")[0])["events"]
    expect(("gpu 1", "xid", "79") in [(e["entity"], e["name"], e["text"][:2]) for e in events],
           events)
    expect([v for labels, v in a.samples()["eacgm_notices_total"] if labels["name"] == "xid"][0] > 0,
           a.samples()["eacgm_notices_total"])
    a.end()


COLLECTIVES = """catalog: 1
layer: mine
libraries: ["libtarget.so*"]
probes:
  - id: x.push
    symbols: target_push
    signature: "(u64 bytes) -> int"
    role: collective
"""


@test("collectives are spans; more than there is room for are counted", 90)
def _(t):
    receiver = Receiver()
    catalog = t.path("c.yaml")
    with open(catalog, "w") as f:
        f.write(COLLECTIVES)
    a = agent(t, receiver, "--detect", "--layers", "mine", "--catalog", catalog)  # no budget
    before_ns = time.time_ns()
    job = start_in(t, a.group, target("calls"), "threads", "50", "1")
    job.wait(20)
    t.wait_for(lambda: len(receiver.rows("/v1/traces")) >= 50, "spans")
    spans = receiver.rows("/v1/traces")
    expect(len(spans) == 50 and len({s["span_id"] for s in spans}) == 50, len(spans))
    for s in spans:
        expect(len(s["trace_id"]) == 16 and len(s["span_id"]) == 8 and s["kind"] == 1 and
               s["name"] == "target_push" and before_ns <= s["start_time_unix_nano"] <=
               s["end_time_unix_nano"] <= time.time_ns(), s)
        labels = attributes(s)
        expect(labels["process.pid"] == job.pid and labels["thread.id"] == job.pid or
               labels["thread.id"] > 0, labels)
        expect(labels["eacgm.layer"] == "mine" and "eacgm.collective.size" in labels, labels)
    start_in(t, a.group, target("calls"), "threads", "5000", "1").wait(20)
    t.wait_for(lambda: sum(v for labels, v in a.samples()["eacgm_push_left_out_total"]
                           if labels["signal"] == "spans") > 0, "some to be left out")

    def told():
        found = a.samples()
        return sum(v for labels, v in found["eacgm_push_left_out_total"] +
                   found["eacgm_push_events_total"] if labels["signal"] == "spans")
    t.wait_for(lambda: told() == 5050, "each to be pushed or counted")
    expect(max(len(q.rows) for q in receiver.of("/v1/traces")) <= 256, "the limit")
    a.end()


def clocks_ns():
    """How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC."""
    return min((time.monotonic_ns() - before, real - before)
               for before, real in ((time.monotonic_ns(), time.time_ns()) for _ in range(8)))[1]


def check_steps(t, receiver, job):
    ahead_ns = clocks_ns()
    def steps():
        return [s for s in receiver.rows("/v1/traces") if s["name"] == "training step"]
    t.wait_for(lambda: len(steps()) > 20, "steps", 60)
    found = sorted(steps(), key=lambda s: s["start_time_unix_nano"])
    for one, two in zip(found, found[1:]):
        n = [attributes(s)["eacgm.step.number"] for s in (one, two)]
        gap_ns = two["start_time_unix_nano"] - one["end_time_unix_nano"]
        set_by_ns = clocks_ns() - ahead_ns  # whoever sets the host's clock moves what comes after
        expect(n[1] == n[0] + 1 and (not gap_ns or abs(gap_ns - set_by_ns) < SAME_CLOCK_NS < abs(gap_ns)),
               (gap_ns, set_by_ns, n))
    lengths = sorted(s["end_time_unix_nano"] - s["start_time_unix_nano"] for s in found)
    expect(attributes(found[0])["process.pid"] == job.pid and
           15e6 < lengths[len(lengths) // 2] < 300e6, lengths)


@test("steps are spans, one after another; an incident is a log when it is told, and a log and a "
      "span when it has ended", 420, beside=True)
def _(t):
    needs_torch()
    receiver = Receiver()
    a = agent(t, receiver, "--detect")
    slow = t.path("slow")
    job = start_in(t, a.group, PYTHON, JOB, "400", RHYTHM_SLOW=slow)
    check_steps(t, receiver, job)
    make_slow(t, a, slow)

    def logs():
        return [log for log in receiver.rows("/v1/logs") if log["event_name"] == "eacgm.incident"]

    def logs_of(span):
        return [log for log in logs() if log["trace_id"] == span["trace_id"]]

    def spans():
        """Those of the job's own slow stretch: a busy machine makes others, which are short. A piece
        of one may be told first when it is over."""
        return [s for s in receiver.rows("/v1/traces") if "eacgm.incident.id" in attributes(s) and
                s["end_time_unix_nano"] - s["start_time_unix_nano"] > 3e9 and
                [attributes(log)["eacgm.incident.ended"] for log in logs_of(s)][:1] == [False]]
    t.wait_for(spans, lambda: "the end of an incident: %s, %r" % (a.said(), logs()), 150)
    span = spans()[0]
    labels = attributes(span)
    mine = logs_of(span)
    expect(len(mine) >= 2 and mine[-1]["body"]["string_value"] == span["name"], mine)
    for log in mine:
        found = attributes(log)
        expect(log["severity_number"] == 13 and found["eacgm.incident.id"] ==
               labels["eacgm.incident.id"] and found["process.pid"] == job.pid and
               0 <= found["eacgm.incident.confidence"] <= 1 and found["eacgm.incident.cost"] > 0 and
               found["eacgm.incident.cause"] and found["eacgm.incident.advice"] and
               log["time_unix_nano"] <= log["observed_time_unix_nano"], log)
    expect(any(": " in attributes(log).get("eacgm.incident.blame", "") for log in mine), mine)
    expect([attributes(log)["eacgm.incident.ended"] for log in mine][-1] and
           not attributes(mine[0])["eacgm.incident.ended"], mine)
    expect(span["end_time_unix_nano"] - span["start_time_unix_nano"] < 40e9 and
           span["status"]["code"] == 2, span)
    t.kill(job)
    a.end()


def counts(a):
    found = a.samples()
    return {name: int(found["eacgm_push_%s_total" % name][0][1])
            for name in ("sent", "failures", "refused", "dropped", "rejected")}


@test("no receiver: the agent goes on and says so once; it comes, goes, and comes again", 120)
def _(t):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    a = agent(t, "http://127.0.0.1:%d" % port, *CALLS)
    t.wait_for(lambda: counts(a)["failures"] >= 2, "attempts")
    expect(a.said().count("cannot push") == 1 and "no connection; tries again" in a.said(),
           a.said())
    began = time.monotonic()
    a.get()
    expect(time.monotonic() - began < 1, "a scrape waits")
    receiver = Receiver(port=port)
    t.wait_for(lambda: receiver.of("/v1/metrics"), "what waited", 40)
    t.wait_for(lambda: "again" in a.said(), "that it is said")
    expect(len(receiver.of("/v1/metrics")) >= 1 and counts(a)["dropped"] == 0, counts(a))
    receiver.close()
    failures = counts(a)["failures"]
    t.wait_for(lambda: counts(a)["failures"] > failures, "its end to be seen", 40)
    receiver = Receiver(port=port)
    t.wait_for(lambda: receiver.of("/v1/metrics"), "what waited", 60)
    a.end()


@test("429 and 503 are tried again when the receiver says so, others never", 120)
def _(t):
    seen = []

    def answer(path, n):
        seen.append(time.monotonic())
        return ((503, {"Retry-After": "2"}, b"later"), (429, {"Retry-After": "3"}, b""))[n] \
            if n < 2 else (200, {}, b"")
    receiver = Receiver(answer)
    a = agent(t, receiver)
    t.wait_for(lambda: receiver.of("/v1/metrics"), "what was tried again", 40)
    expect(seen[1] - seen[0] > 1.9 and seen[2] - seen[1] > 2.9, seen)
    expect("503 " in a.said() and a.said().count("cannot push") == 1, a.said())
    a.end()
    statuses = (400, 404, 413, 500, 301, 301)
    receiver = Receiver(lambda path, n: (statuses[min(n, 5)], {"Location": "http://127.0.0.1:1/"}, b"no"))
    a = agent(t, receiver)
    t.wait_for(lambda: counts(a)["refused"] >= len(statuses), "refusals")
    for status in statuses:  # of those in a row one is told
        expect(a.said().count("does not take /v1/metrics: %d" % status) == 1, a.said())
    expect(counts(a)["failures"] == 0, a.said())
    a.end()


@test("a receiver that leaves some out, and answers that are none")
def _(t):
    texts = [b"\x0a\x06\x08\x03\x12\x02no", b"\xff" * 200, b"\x0a\xff\xff\xff\xff\x7f", b"{}", b"\0" * 60000]
    receiver = Receiver(lambda path, n: (200, {}, texts[n % len(texts)]))
    a = agent(t, receiver)
    t.wait_for(lambda: len(receiver.of("/v1/metrics")) >= 5, "five", 30)
    t.wait_for(lambda: counts(a)["rejected"] >= 3, "3 of the first: %r" % counts(a))
    expect("left out 3 of what was pushed to /v1/metrics: no" in a.said(), a.said())
    expect(counts(a)["failures"] == 0, counts(a))
    a.end()


def raw_server(t, behave):
    """behave(connection) on a thread for each; returns the port."""
    server = socket.create_server(("127.0.0.1", 0))
    t.at_end.append(server.close)

    def serve():
        while True:
            try:
                s, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=behave, args=(s,), daemon=True).start()
    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()[1]


def dribble(s):
    try:
        s.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            s.sendall(b"x")
            time.sleep(0.2)
    except OSError:
        pass


def too_much(s):
    try:
        s.recv(100)
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n" + b"x" * 1000000)
    except OSError:
        pass


def no_http(s):
    try:
        s.recv(100)
        s.sendall(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" * 50)  # as gRPC answers
        s.close()
    except OSError:
        pass


@test("receivers that say nothing, little by little, too much, or what is no HTTP", 120)
def _(t):
    agents = agents_at_once(t, [
        ("http://127.0.0.1:%d" % raw_server(t, behave), (),
         {"env": {"OTEL_EXPORTER_OTLP_TIMEOUT": "1000"}})
        for behave in (lambda s: time.sleep(100), dribble, too_much, no_http)])
    for a in agents:
        t.wait_for(lambda: counts(a)["failures"] >= 2, "attempts", 40)
        began = time.monotonic()
        a.get()
        expect(time.monotonic() - began < 1, "a scrape waits")
        expect(a.said().count("cannot push") == 1, a.said())
    began = time.monotonic()
    end_at_once(agents)
    expect(time.monotonic() - began < 20, "an end waits")


@test("a name that nobody knows, and an end while it is looked for", 60)
def _(t):
    a = agent(t, "http://no-such-host.invalid:4318", env={"OTEL_EXPORTER_OTLP_TIMEOUT": "1000"})
    t.wait_for(lambda: counts(a)["failures"] >= 2, "attempts", 40)
    began = time.monotonic()
    a.get()
    expect(time.monotonic() - began < 1, "a scrape waits")
    a.end()
    a = agent(t, "https://no-such-host.invalid", env={"OTEL_EXPORTER_OTLP_TIMEOUT": "60000"})
    time.sleep(1.5)  # it looks, or has been told
    a.end()


@test("https: a receiver with the right certificate, and one that nobody signed for", 90)
def _(t):
    tls = certificate(t, "localhost")
    receiver = Receiver(tls=tls)
    other = certificate(t, "other")
    agents = agents_at_once(t, [
        ("https://%s:%d" % (host, receiver.port), ca, {}) for host, ca in (
            ("127.0.0.1", ("--otlp-ca", tls[0])), ("localhost", ("--otlp-ca", tls[0])),
            ("127.0.0.1", ("--otlp-ca", other[0])), ("127.0.0.1", ()))])
    taken, refused = agents[:2], agents[2:]
    for n, a in enumerate(taken):
        t.wait_for(lambda: counts(a)["sent"] >= 2, "metrics by TLS")
        expect(counts(a)["failures"] <= n, a.said())  # localhost may be ::1 first
    for a in refused:
        t.wait_for(lambda: counts(a)["failures"] >= 1, "a failure")
        expect("self-signed certificate" in a.said() and counts(a)["sent"] == 0, a.said())
    pids = {q.resource["process.pid"] for q in receiver.of("/v1/metrics")}
    expect(pids == {a.p.pid for a in taken}, pids)
    end_at_once(agents)


@test("what cannot be pushed to: one line, and nothing is started")
def _(t):
    for options, env, why in (
            (["--otlp", "collector:4318"], {}, "--otlp: 'collector:4318' is no http://HOST:PORT"),
            (["--otlp", "ftp://x"], {}, "is no http://HOST:PORT"),
            (["--otlp", "http://u:p@x"], {}, "has a user in it"),
            (["--otlp", "http://x/?a=b"], {}, "has a query"),
            (["--otlp", "http://x:99999"], {}, "http://HOST:PORT"),
            (["--otlp", "http://x", "--otlp-interval", "1ms"], {}, "--otlp-interval"),
            (["--otlp", "http://x", "--otlp-header", "a"], {}, "is no NAME=VALUE"),
            (["--otlp", "http://x", "--otlp-header", "Host=x"], {}, "is set by eacgm itself"),
            (["--otlp", "http://x", "--otlp-header", "a=b\r\nc: d"], {}, "cannot be a header"),
            (["--otlp", "https://x", "--otlp-ca", "/no/such"], {}, "/no/such"),
            (["--otlp-profiles"], {}, "--otlp-profiles: nobody to push them to"),
            (["--parca-push", "parca:7070"], {}, "--parca-push: 'parca:7070' is no http://HOST:PORT"),
            (["--parca-push", "http://x", "--parca-header", "a"], {}, "is no NAME=VALUE"),
            (["--pprof-push", "http://x", "--profile-interval", "90s"], {}, "--profile-interval"),
            ([], {"OTEL_EXPORTER_OTLP_ENDPOINT": "x"}, "is no http://HOST:PORT"),
            (["--otlp", "http://x"], {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "'grpc' is not spoken"),
            (["--otlp", "http://x"], {"OTEL_EXPORTER_OTLP_HEADERS": "a"}, "is no NAME=VALUE"),
            (["--otlp", "http://x"], {"OTEL_EXPORTER_OTLP_TIMEOUT": "x"}, "milliseconds")):
        r = t.run([EACGM, "agent", "--listen", "127.0.0.1:0", *options], env=dict(os.environ, **env))
        lines = [line for line in r.err.splitlines() if "serves" not in line]
        expect(r.status in (1, 2) and why in r.err and len(lines) == 1, r)


@test("the file says it as well; SIGTERM while nobody listens")
def _(t):
    receiver = Receiver()
    path = t.path("agent.yaml")
    with open(path, "w") as f:
        f.write("otlp:\n  url: %s\n  interval: 1s\n  headers: [\"X-A=1\", \"X-B=2 3\"]\n" %
                receiver.url("/base/"))
    receiver.answer = lambda path, n: (200, {}, b"")
    a = Agent(t, "-c", path)
    t.wait_for(lambda: receiver.attempts, "an attempt")
    expect(receiver.attempts[0][0] == "/base/v1/metrics", receiver.attempts)
    receiver.close()
    os.kill(a.p.pid, signal.SIGTERM)
    expect(a.p.wait(20) == 0, a.said())


def pprof_of(p):
    """By pprof's own definition."""
    return protos.decode(protos.PPROF, "perftools.profiles.Profile", p.pprof)


def weight_of(p):
    return sum(sum(s["value"]) for s in pprof_of(p)["sample"])


def burn(t, group, **env):
    """A job whose own function takes a processor; it calls what is traced."""
    return start_in(t, group, PYTHON, "-c", "import ctypes, sys\n"
                    "push = ctypes.CDLL(sys.argv[1]).target_push\n"
                    "def burn_in_python():\n"
                    "    while True:\n"
                    "        push(1)\n"
                    "        sum(range(20000))\n"
                    "burn_in_python()\n", target("libtarget.so"), **env)


def check_pyroscope(p, pid, began):
    name = p.query["name"]
    expect(re.fullmatch(r"[\w.-]+\{pid=%d,host=[\w.-]+,rank=3,job=47\}" % pid, name), name)
    expect(p.query["format"] == "pprof" and p.query["sampleRate"] == "99" and
           began - 20 < int(p.query["from"]) <= int(p.query["until"]) < time.time() + 1 and
           p.headers["X-Scope-OrgID"] == "7", p.query)
    profile = pprof_of(p)
    names = [profile["string_table"][f["name"]] for f in profile["function"]]
    units = [profile["string_table"][row["unit"]] for row in profile["sample_type"]]
    expect("burn_in_python (<string>)" in names and units == ["nanoseconds"] and profile["sample"],
           (names, units))


def check_parca(p, pid):
    expect(p.labels["__name__"] == "process_cpu" and p.labels["node"] == socket.gethostname() and
           p.labels["pid"] == str(pid) and p.labels["rank"] == "3" and p.labels["job"] == "47" and
           p.labels["comm"].startswith("python") and p.headers["X-Tenant"] == "9", p.labels)


def check_otlp(q, resource, profile, pid):
    expect(resource["process.pid"] == pid and resource["eacgm.rank"] == 3 and
           resource["eacgm.job"] == "47" and resource["service.name"] == "train" and
           resource["service.instance.id"] == "%s:%d" % (socket.gethostname(), pid) and
           resource["process.executable.name"].startswith("python") and
           q.headers["Authorization"] == "Bearer a", resource)
    for kind in ("sample_type", "period_type"):
        expect([q.string(profile[kind][key]) for key in ("type_strindex", "unit_strindex")] ==
               ["cpu", "nanoseconds"], profile[kind])
    expect(profile["period"] == 1000000000 // 99, profile["period"])
    stacks = q.stacks(profile)
    burns = "burn_in_python (<string>)"
    expect(any(burns in names and names[-1] != burns for names in stacks), stacks)
    t, kinds = q.tables, {}
    for row in t["location_table"][1:]:
        name = q.string(t["function_table"][row["lines"][0]["function_index"]]["name_strindex"])
        kinds[name] = q.attribute(row, "profile.frame.type")
    expect(kinds[burns] == "cpython" and "native" in kinds.values(), kinds)
    built = [q.attribute(row, "process.executable.build_id.gnu") for row in t["mapping_table"][1:]]
    expect(any(b and re.fullmatch("[0-9a-f]{16,}", b) for b in built), t["mapping_table"])


def only(found, pid):
    return [(q, p) for q in found for resource, p in q.of if resource["process.pid"] == pid]


@test("profiles of each process that ran: as Pyroscope takes them, as Parca does, and by OTLP", 120)
def _(t):
    receiver = Receiver()
    a = agent(t, receiver, "--otlp-profiles", "--profile-interval", "2s", "--pprof-push",
              receiver.url(), "--pprof-header", "X-Scope-OrgID=7", "--parca-push", receiver.url(),
              "--parca-header", "X-Tenant=9", *CALLS, env={
                  "OTEL_SERVICE_NAME": "train", "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20a"})
    job = burn(t, a.group, RANK="3", SLURM_JOB_ID="47")
    began = time.time()
    paths = ("/ingest", "/api/profiles/writeraw", "/v1development/profiles")
    t.wait_for(lambda: all(len(receiver.of(path)) >= 3 for path in paths), "profiles", 60)
    pprof = [p for p in receiver.of(paths[0]) if "pid=%d," % job.pid in p.query["name"]]
    parca = [p for p in receiver.of(paths[1]) if p.labels["pid"] == str(job.pid)]
    check_pyroscope(pprof[-1], job.pid, began)
    check_parca(parca[-1], job.pid)
    q = receiver.of(paths[2])[-1]
    resource, profile = next(x for x in q.of if x[0]["process.pid"] == job.pid)
    check_otlp(q, resource, profile, job.pid)
    # one tree, told in three ways
    expect(any(p.pprof == parca[-1].pprof for p in pprof), "Parca's is Pyroscope's")
    weights = [weight_of(p) for p in pprof]
    expect(sum(q.stacks(profile).values()) in weights, (q.stacks(profile), weights))
    expect(all(2e8 < w < 4e9 for w in weights[:3]), "two seconds of one processor: %r" % weights)
    times = [(int(p.query["from"]), int(p.query["until"])) for p in pprof]
    expect(all(one[1] == two[0] for one, two in zip(times, times[1:])), times)
    ends = [(p["time_unix_nano"], p["time_unix_nano"] + p["duration_nano"])
            for _q, p in only(receiver.of(paths[2]), job.pid)]
    expect(all(abs(one[1] - two[0]) < 1e6 for one, two in zip(ends, ends[1:])), ends)
    found = {labels["to"]: v for labels, v in a.samples()["eacgm_push_sent_total"]}
    expect(set(found) == {"otlp", "pprof", "parca"} and min(found.values()) >= 2, found)
    n = [len(receiver.of(path)) for path in paths]
    a.end()
    expect(all(len(receiver.of(path)) > k for path, k in zip(paths, n)), "the last there was")


@test("profiles: a receiver that is away, one that is busy, and one that takes metrics alone", 90)
def _(t):
    with socket.create_server(("127.0.0.1", 0)) as s:
        away = "http://127.0.0.1:%d" % s.getsockname()[1]
    no_profiles = Receiver(lambda path, n: (404 if "profiles" in path else 200, {}, b""))
    busy = Receiver(lambda path, n: ((503, {"Retry-After": "1"}, b"{}") if n < 2 else
                                     (400, {}, b"{}") if n == 2 else (200, {}, b"{}")))
    a = agent(t, no_profiles, "--otlp-profiles", "--profile-interval", "1s", "--pprof-push", away,
              "--parca-push", busy.url(), *CALLS)
    burn(t, a.group)

    def count(name, to):
        return next(v for labels, v in a.samples()["eacgm_push_%s_total" % name]
                    if labels["to"] == to)
    t.wait_for(lambda: count("refused", "otlp") >= 2, "refusals")
    t.wait_for(lambda: count("sent", "parca") >= 1, "what was tried again")
    t.wait_for(lambda: count("failures", "pprof") >= 2, "attempts")
    expect(a.said().count("does not take /v1development/profiles: 404") == 1 and
           count("sent", "otlp") >= 2 and count("failures", "otlp") == 0, a.said())
    expect(count("refused", "parca") == 1 and count("failures", "parca") == 2 and
           a.said().count("does not take /api/profiles/writeraw: 400") == 1, a.said())
    expect(count("sent", "pprof") == 0 and a.said().count("cannot push to " + away) == 1, a.said())
    began = time.monotonic()
    a.get()
    expect(time.monotonic() - began < 1, "a scrape waits")
    a.end()


if __name__ == "__main__":
    main()
