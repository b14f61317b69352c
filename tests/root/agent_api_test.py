#!/usr/bin/env python3
"""agent_api_test.py - what `eacgm agent` answers below /api/v1/, held against docs/api.yaml: each key
that comes is there, of its type, and each that is required comes. And its page, its events, and who
is not answered."""

import gzip
import http.client
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request

from agents import Agent, posted_by_nobody, start_in
from gpu import fake_nvml
from harness import EACGM, PUSH, PYTHON, ROOT, expect, main, needs_torch, probes, skip, target, test

sys.path.insert(0, os.path.join(ROOT, "tests/browser"))
import chromium  # noqa: E402

TYPES = {"string": str, "boolean": bool, "array": list, "object": dict, "null": type(None),
         "number": (int, float), "integer": int}
TRAINS = """import time, torch
m = torch.nn.Linear(32, 32)
o = torch.optim.SGD(m.parameters(), 0.1)
while True:
    o.zero_grad()
    m(torch.randn(8, 32)).square().mean().backward()
    o.step()
    time.sleep(0.01)"""


def api():
    try:
        import yaml
    except ImportError:
        skip("python3-yaml is not installed")
    with open(os.path.join(ROOT, "docs/api.yaml"), encoding="utf-8") as f:
        return yaml.safe_load(f)


def is_of(value, name):
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def check(doc, schema, value, at):
    """As JSON Schema has it, of the words that docs/api.yaml uses; a key that it does not name is
    wrong, too."""
    if "$ref" in schema:
        schema = doc["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    if "oneOf" in schema:
        schema = next(s for s in schema["oneOf"] if (s.get("type") == "null") == (value is None))
        check(doc, schema, value, at)
        return
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    expect(any(is_of(value, t) for t in types), f"{at}: {value!r} is not {types}")
    expect(value in schema.get("enum", [value]), f"{at}: {value!r}")
    if isinstance(value, list):
        for i, item in enumerate(value):
            check(doc, schema["items"], item, f"{at}[{i}]")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for key in schema.get("required", []):
            expect(key in value, f"{at}.{key} is missing")
        for key, item in value.items():
            expect(key in known or schema.get("additionalProperties"), f"{at}.{key} is not told of")
            if key in known:
                check(doc, known[key], item, f"{at}.{key}")


def answer_of(a, path):
    text, headers = a.get("/api/v1/" + path)
    expect(headers["Content-Type"] == "application/json", headers)
    return json.loads(text)


def checked(doc, a, path, template=None):
    answer = answer_of(a, path)
    said = doc["paths"]["/api/v1/" + (template or path)]["get"]["responses"]["200"]
    check(doc, said["content"]["application/json"]["schema"], answer, path)
    return answer


def refused(a, path, **headers):
    q = urllib.request.Request("http://127.0.0.1:%d%s" % (a.port, path), headers=headers)
    try:
        with urllib.request.urlopen(q, timeout=20) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def all_answers(doc, a, pid):
    for path in ("jobs", "incidents", "gpus", "series", "self", "state", "freezes",
                 "settings", "detector"):
        checked(doc, a, path)
    for kind in doc["components"]["schemas"]["Kind"]["enum"]:
        answer = checked(doc, a, "series/" + kind, "series/{kind}")
        expect({s["kind"] for s in answer["series"]} <= {kind}, kind)
    checked(doc, a, "jobs/%d/flame" % pid, "jobs/{pid}/flame")
    return checked(doc, a, "jobs/%d" % pid, "jobs/{pid}")


def frames_of(flame):
    return {flame["names"][n] for n in flame["name"]} if flame else set()


@test("a job, its functions and counters; every answer is as docs/api.yaml says", 60)
def _(t):
    doc = api()
    a = Agent(t, "--budget", "100%", "--layers", "user,gpu", *probes(PUSH),
              "--otlp-header", "Authorization=Bearer SECRET", "--otlp-header", "X-Id=SECRET=1",
              env=fake_nvml(t, "count 2\ngpu 0 temperature 55\nxid 1 79\n"))
    job = start_in(t, a.group, target("calls"), "until", t.path("never"), "1", "100", RANK="3",
                   WORLD_SIZE="8", SLURM_JOB_ID="4711")
    t.wait_for(lambda: [j for j in answer_of(a, "jobs")["jobs"] if j["pid"] == job.pid], "the job")
    t.wait_for(lambda: [c for c in answer_of(a, "jobs/%d" % job.pid)["counters"]
                        if c["name"] == "rss_bytes" and c["value"] > 0], "its memory")
    t.wait_for(lambda: answer_of(a, "gpus")["gpus"][1:], "two GPUs")
    t.wait_for(lambda: answer_of(a, "gpus")["gpus"][1]["xid"] == 79, "an error of one")
    t.wait_for(lambda: answer_of(a, "series/process")["series"], "counters over time")
    for path in ("", "/incidents", "/series/gpu", "/processes/1/steps"):
        expect(answer_of(a, "history" + path) == {"kept": False}, path)
    detail = all_answers(doc, a, job.pid)
    expect((detail["rank"], detail["world_size"], detail["job"], detail["launcher"]) ==
           (3, 8, "4711", "slurm") and detail["steps"] is None, detail)
    push = [f for f in detail["functions"] if f["name"] == "target_push"]
    expect(push and push[0]["layer"] == "user" and push[0]["calls"] > 0, detail["functions"])
    temperatures = {g["index"]: c["value"] for g in answer_of(a, "gpus")["gpus"]
                    for c in g["counters"] if c["name"] == "temperature_celsius"}
    expect(temperatures[0] == 55, temperatures)
    own = answer_of(a, "self")
    expect(own["lost"] == 0 and [row for row in own["layers"] if row["layer"] == "user"], own)
    told = {c["name"]: c["value"] for c in detail["counters"]}
    drawn = [s for s in answer_of(a, "series/process")["series"]
             if s["entity"] == "pid %d" % job.pid and s["name"] == "rss_bytes"]
    expect(drawn and drawn[0]["mean"][-1] > 0 and told["rss_bytes"] > 0, drawn)
    told = {o["name"]: o for o in answer_of(a, "settings")["options"]}
    expect(told["budget"]["values"] == ["100%"] and not told["store"]["told"], told["budget"])
    expect(told["otlp-header"]["values"] == ["Authorization=(not shown)", "X-Id=(not shown)"],
           told["otlp-header"])
    expect("SECRET" not in a.get("/api/v1/settings")[0], "no secret")
    t.kill(job)
    job.wait()
    t.wait_for(lambda: not answer_of(a, "jobs")["jobs"], "its end")
    expect(refused(a, "/api/v1/jobs/%d" % job.pid)[0] == 404, "a job that has ended")
    a.end()


def routes():
    """The paths below /api/v1/ that the agent's table of routes has."""
    with open(os.path.join(ROOT, "src/cli/agent_answers.c"), encoding="utf-8") as f:
        return re.findall(r'^\t\{"(/api/v1/[^"]*)",', f.read(), re.M)


def statuses_of_files(t, a):
    """A trace of a file that is none cannot be made."""
    name = "/freezes/freeze-20200101T000000Z-1"
    with open(os.path.join(t.path("freezes"), name[len("/freezes/"):] + ".eacgm"), "w") as f:
        f.write("no recording")
    got = {a.status(name + ending) for ending in (".eacgm", ".x", ".perfetto-trace.gz")}
    code, said = t.wait_for(lambda: not_202(a, name + ".perfetto-trace.gz"), "why not", 60)
    expect(said.startswith("cannot make the Perfetto trace of " + t.path("freezes")) and
           len(said.splitlines()) == 1, said)
    return got | {code}


@test("every path of docs/api.yaml is answered, by each status that it tells of and by no other", 120)
def _(t):
    doc = api()
    a = Agent(t, "--detect", "--layers", "user", *probes(PUSH), "--freeze", t.path("freezes"),
              "--freeze-after", "100ms", "--store", t.path("agent.db"))
    without = Agent(t, group=a.group)
    job = start_in(t, a.group, target("calls"), "until", t.path("never"), "1", "100")
    t.wait_for(lambda: answer_of(a, "jobs")["jobs"], "a job")
    t.wait_for(lambda: answer_of(a, "history?last=600")["jobs"], "a job in the store", 60)
    t.wait_for(lambda: answer_of(a, "detector")["layers"], "a layer that is judged", 60)
    kept = "/processes/%d/" % answer_of(a, "history?last=600")["jobs"][0]["id"]
    layer = answer_of(a, "detector")["layers"][0]["layer"]
    note = json.dumps({"id": "%016x" % 1, "host": "x", "why": "y", "communicators": ["%016x" % 1],
                       "time_realtime_ns": time.time_ns(), "age_ns": 0})
    asked = {
        "jobs": [""], "jobs/{pid}": [str(job.pid), "1"],
        "jobs/{pid}/flame": ["%d/flame" % job.pid, "%d/flame?from=x" % job.pid],
        "incidents": [""], "gpus": [""], "series": [""], "series/{kind}": ["host", "none"],
        "freezes": [""], "detector": [""], "detector/{layer}": [layer, "none"],
        "history": ["", "?from=x"], "history/series/{kind}": ["host", "none", "host?from=x"],
        "history/incidents": ["", "?from=x"], "settings": [""], "self": [""], "state": [""],
        "events": [""]}
    for of in ("steps", "series", "flame"):
        asked["history/processes/{id}/" + of] = [
            kept[len("/processes/"):] + of, "999999/" + of,
            kept[len("/processes/"):] + of + "?from=x"]
    paths = dict(doc["paths"])
    posts = paths.pop("/freeze")
    frozen = paths.pop("/freezes/{file}")
    expect(set(paths) == {"/api/v1/" + path for path in asked}, set(paths) ^ set(asked))
    for path, item in paths.items():
        told = {int(s) for s in item["get"]["responses"]} - {503}  # too busy: other tests
        short = path[len("/api/v1/"):]
        base = path[:path.index("{")] if "{" in path else path
        got = {a.status(base + rest) for rest in asked[short]}
        expect(list(item) == ["get"] and got == told, (path, got, told))
    for route in routes():
        expect(any(path == route or (route.endswith("/") and path.startswith(route))
                   for path in paths), "docs/api.yaml has no " + route)
    told = {int(s) for s in frozen["get"]["responses"]}
    got = statuses_of_files(t, a)
    expect(list(frozen) == ["get"] and got == told, (got, told))
    got = {a.status("/freeze", method="POST", data=body.encode()) for body in (note, "{", "")}
    got |= {without.status("/freeze", method="POST", data=b""), posted_by_nobody(a, b"")[0][0]}
    t.wait_for(lambda: a.status("/freeze", method="POST", data=b"") == 429, "it to be held off")
    got.add(429)
    expect(list(posts) == ["post"] and got == {int(s) for s in posts["post"]["responses"]}, got)
    a.end()
    without.end()


@test("the steps of each PyTorch job, with what is not normal looked for", 180)
def _(t):
    needs_torch()
    doc = api()
    a = Agent(t, "--detect", "--store", t.path("agent.db"))
    jobs = [start_in(t, a.group, PYTHON, "-c", TRAINS) for _ in range(2)]

    def steps(job):
        rows = [j["steps"] for j in answer_of(a, "jobs")["jobs"] if j["pid"] == job.pid]
        return rows and rows[0] and rows[0]["count"] > 20 and rows[0]["kind"]
    counts = []
    for job in jobs:
        t.wait_for(lambda: steps(job) == "training", "steps of each", 90)
        detail = all_answers(doc, a, job.pid)
        expect(len(detail["steps"]["history_ms"]) > 10, detail["steps"])
        counts.append(detail["steps"]["count"])
    expect(answer_of(a, "incidents")["judges"], "it judges")
    expect(answer_of(a, "state")["steps"] >= sum(counts), "the state has them too")
    told = {labels["pid"]: v for labels, v in a.samples()["eacgm_steps_total"]}
    expect(sorted(told) == sorted(str(job.pid) for job in jobs), told)

    def kept():
        with sqlite3.connect(t.path("agent.db")) as db:
            return dict(db.execute("SELECT pid, sum(steps) FROM v_steps_1s GROUP BY pid"))
    t.wait_for(lambda: all(kept().get(job.pid, 0) > 20 for job in jobs), "rows of both")
    t.wait_for(lambda: len([s for s in answer_of(a, "series/process")["series"]
                            if s["name"] == "step_time" and any(s["mean"])]) == 2,
               "the time of each one's over time")
    stacks_of(t, doc, a, jobs[0].pid)
    judged_of(t, doc, a)
    history_of(t, doc, a, [job.pid for job in jobs])
    for job in jobs:
        t.kill(job)
        job.wait()
    a.end()


def judged_of(t, doc, a):
    t.wait_for(lambda: [r for r in answer_of(a, "detector")["layers"]
                        if r["layer"] == "torch" and r["components"]], "a mixture", 90)
    told = checked(doc, a, "detector/torch", "detector/{layer}")
    expect(told["rows"] and told["ellipses"] and told["x"] != told["y"], told)
    expect(abs(sum(e["weight"] for e in told["ellipses"]) - 1) < 1e-3, told["ellipses"])
    other = answer_of(a, "detector/torch?x=1&y=0")
    expect((other["x"], other["y"]) == (1, 0), other)
    for bad in ("detector/none", "detector/", "detector/torch?x=99", "detector/torch?x=a"):
        expect(refused(a, "/api/v1/" + bad)[0] == 404, bad)


def history_of(t, doc, a, pids):
    """What the store tells of the last minutes."""
    t.wait_for(lambda: len(answer_of(a, "history?last=600")["jobs"]) == 2, "both in the store")
    told = checked(doc, a, "history?last=600", "history")
    expect(told["kept"] and {j["pid"] for j in told["jobs"]} == set(pids), told["jobs"])
    expect(all(j["steps"] > 20 and 1 < j["mean_ms"] < 1000 for j in told["jobs"]), told["jobs"])
    expect(sum(told["steps"]) >= sum(j["steps"] for j in told["jobs"]), told["steps"])
    process = "history/processes/%d" % told["jobs"][0]["id"]
    steps = checked(doc, a, process + "/steps?last=600", "history/processes/{id}/steps")
    expect(steps["bucket_s"] <= 10 and sum(steps["count"]) > 20, steps)
    t.wait_for(lambda: answer_of(a, process + "/steps?last=600")["phases"]["of"], "its phases", 60)
    phases = checked(doc, a, process + "/steps", "history/processes/{id}/steps")["phases"]["of"]
    expect({"forward", "backward"} <= {p["name"] for p in phases}, phases)
    series = checked(doc, a, process + "/series?last=600", "history/processes/{id}/series")["series"]
    expect("rss_bytes" in {s["name"] for s in series}, series)
    stored_stacks_of(t, doc, a, told["jobs"][0])
    for kind in ("host", "gpu"):
        checked(doc, a, "history/series/%s?last=600" % kind, "history/series/{kind}")
    checked(doc, a, "history/incidents?last=600", "history/incidents")
    for bad in ("?from=x", "?from=9&to=8", "?to=0", "?last=-1", "?from=5&to=5", "?after=x",
                "?to=99999999999999", "/incidents?from=2&to=1"):
        expect(refused(a, "/api/v1/history" + bad)[0] == 400, bad)
    for bad in ("/", "/x", "/processes/", "/processes/1", "/processes/x/steps",
                "/processes/999999/steps", "/processes/-1/series", "/processes/999999/flame", "/processes/1/steps/2",
                "/series/", "/series/none", "/incidents/1"):
        expect(refused(a, "/api/v1/history" + bad)[0] == 404, bad)


def stored_stacks_of(t, doc, a, job):
    """As much processor time as those in memory have."""
    path = "history/processes/%d/flame" % job["id"]

    def both():
        stored = answer_of(a, path + "?last=600")["flame"]
        live = answer_of(a, "jobs/%d/flame" % job["pid"])["pieces"]
        return stored["total"] if stored else 0, sum(p["cpu_ns"] for p in live)
    t.wait_for(lambda: both()[0] and abs(both()[0] - both()[1]) < 1000, "what both have", 60)
    told = checked(doc, a, path + "?last=600", "history/processes/{id}/flame")
    expect(any("square" in f or "backward" in f for f in frames_of(told["flame"])), told["flame"])
    ends = [told["from_s"] + (i + 1) * told["bucket_s"] for i in range(told["points"])]
    over = [told["bucket_s"] - max(0, end - told["newest_s"] - 1) for end in ends]  # of each point
    busy = sum(c * s for c, s in zip(told["cpus"], over) if c)
    expect(abs(busy - told["flame"]["total"] / 1e9) < 0.01, told)
    by_query = t.run([EACGM, "query", t.path("agent.db"), "SELECT sum(seconds) AS s, count(DISTINCT"
                      " stack) AS n FROM v_cpu WHERE pid = %d" % job["pid"], "--json"])
    row = json.loads(by_query.out)[0]
    expect(row["n"] > 5 and row["s"] >= told["flame"]["total"] / 1e9 - 0.01, row)


def stacks_of(t, doc, a, pid):
    path = "jobs/%d/flame" % pid
    t.wait_for(lambda: [p for p in answer_of(a, path)["pieces"] if p["cpu_ns"]][1:], "pieces", 60)
    whole = checked(doc, a, path, "jobs/{pid}/flame")
    expect(whole["samples"] and any("square" in f or "backward" in f for f in
                                    frames_of(whole["flame"])), frames_of(whole["flame"]))
    first, last = whole["pieces"][0], whole["pieces"][-1]
    expect(whole["from_ns"] == first["from_ns"] and whole["to_ns"] == last["to_ns"], whole["pieces"])
    one = answer_of(a, "%s?from=%d&to=%d" % (path, last["from_ns"], last["to_ns"]))
    expect(one["from_ns"] == last["from_ns"] and one["flame"]["total"] == last["cpu_ns"], one)
    expect(whole["flame"]["total"] == sum(p["cpu_ns"] for p in whole["pieces"]), whole["pieces"])
    expect(answer_of(a, path + "?to=1")["flame"] is None, "before all of them")
    for bad in ("from=x", "to=-1", "from=1e9", "from=99999999999999999999", "to="):
        expect(refused(a, "/api/v1/%s?%s" % (path, bad))[0] == 400, bad)


@test("events come each second to all who listen; no more than so many may")
def _(t):
    doc = api()
    a = Agent(t)
    listeners = []
    for _n in range(16):
        c = http.client.HTTPConnection("127.0.0.1", a.port, timeout=20)
        c.request("GET", "/api/v1/events")
        r = c.getresponse()
        expect(r.status == 200 and r.headers["Content-Type"] == "text/event-stream", r.status)
        listeners.append((c, r))
    expect(refused(a, "/api/v1/events")[0] == 503, "one too many")
    for _c, r in listeners:
        seen = []
        while len(seen) < 3:
            line = r.readline().decode().rstrip("\n")
            if line.startswith("data: "):
                seen.append(json.loads(line[6:]))
                check(doc, {"$ref": "#/components/schemas/State"}, seen[-1], "state")
        expect(seen[0]["now_ns"] < seen[1]["now_ns"] < seen[2]["now_ns"], seen)
    for c, _r in listeners[:8]:
        c.sock.close() if c.sock else None
        _r.close()
    t.wait_for(lambda: listens(a), "room when some have hung up")
    expect(a.get("/healthz")[0] == "ok\n", "it goes on")
    a.end()  # while others listen


def listens(a):
    c = http.client.HTTPConnection("127.0.0.1", a.port, timeout=20)
    c.request("GET", "/api/v1/events")
    status = c.getresponse().status
    c.close()
    return status == 200


@test("a listener that does not read harms nobody")
def _(t):
    a = Agent(t)
    c = http.client.HTTPConnection("127.0.0.1", a.port, timeout=20)
    c.request("GET", "/api/v1/events")  # and reads nothing
    until = time.monotonic() + 12  # longer than a connection may be silent
    t.wait_for(lambda: time.monotonic() > until and a.get("/healthz")[0] == "ok\n", "it goes on", 30)
    c.close()
    a.end()


@test("the page is for browsers, with a policy; the rest is for all others")
def _(t):
    a = Agent(t)
    text, headers = a.get("/")
    expect(headers["Content-Type"].startswith("text/plain") and "/api/v1/" in text, text)
    text, headers = a.get("/", Accept="text/html,*/*;q=0.8")
    if "<html" not in text:
        skip("this eacgm was built without the page")
    expect(headers["Content-Type"].startswith("text/html"), headers)
    policy = headers["Content-Security-Policy"]
    expect("default-src 'none'" in policy and "connect-src 'self'" in policy and
           "frame-ancestors 'none'" in policy and "unsafe" not in policy, policy)
    inside = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text).group(1)
    expect(policy.startswith(inside), (policy, inside))
    expect("eacgm-report" in text and 'id="eacgm-report"' not in text, "no report is in it")
    a.end()


@test("who asks by a name that somebody made to lead here, or to change something, gets nothing")
def _(t):
    a = Agent(t)
    for path in ("jobs", "incidents", "series", "self", "state", "events", "jobs/1", "history",
                 "history/incidents"):
        code, said = refused(a, "/api/v1/" + path, Host="evil.example:%d" % a.port)
        expect(code == 403 and said == "Forbidden\n", (path, code, said))
    for host in ("localhost:%d" % a.port, "127.0.0.1", "[::1]:1"):
        expect(refused(a, "/api/v1/state", Host=host)[0] == 200, host)
    for path in ("/api/v1/", "/api/v1/jobs/", "/api/v1/jobs/x", "/api/v1/jobs/-1",
                 "/api/v1/jobs/99999999999", "/api/v1/jobs/1/2", "/api/v1/series/no",
                 "/api/v1/jobs/1%00"):
        expect(refused(a, path)[0] in (400, 404), path)
    for method in ("POST", "PUT", "DELETE"):
        q = urllib.request.Request("http://127.0.0.1:%d/api/v1/jobs" % a.port, method=method,
                                   data=b"x")
        try:
            code = urllib.request.urlopen(q, timeout=20).status
        except urllib.error.HTTPError as e:
            code = e.code
        expect(code in (405, 501), (method, code))
    a.end()


@test("an assistant's tools: jobs, and the trace of the last seconds", 60)
def _(t):
    folder = t.path("freezes")
    a = Agent(t, "--budget", "100%", "--layers", "user", *probes(PUSH), "--freeze", folder,
              "--freeze-after", "200ms")
    job = start_in(t, a.group, target("calls"), "until", t.path("never"), "1", "100")
    t.wait_for(lambda: answer_of(a, "jobs")["jobs"], "a job")

    def call(tool):
        asks = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}}
        r = subprocess.run([EACGM, "mcp", "--connect", "127.0.0.1:%d" % a.port], text=True,
                           input=json.dumps(asks) + "\n", capture_output=True, timeout=30)
        return json.loads(r.stdout)["result"]
    told = call("list_jobs")["structuredContent"]["jobs"]
    expect([j["pid"] for j in told] == [job.pid], told)
    expect(call("incidents")["structuredContent"]["judges"] is False, "nothing is looked for")
    expect(call("freeze_trace")["isError"] is False, "asked")
    t.wait_for(lambda: "froze " in a.said(), "a file: %s" % a.said())
    expect(len(os.listdir(folder)) == 1, os.listdir(folder))
    t.kill(job)
    job.wait()
    a.end()


@test("frozen traces: the list, the files, a page of each; no file beside them", 90)
def _(t):
    doc = api()
    folder, secret = t.path("freezes"), t.path("secret.eacgm")
    with open(secret, "w") as f:
        f.write("secret")
    a = Agent(t, "--budget", "100%", "--layers", "user", *probes(PUSH), "--freeze", folder,
              "--freeze-after", "200ms")
    expect(checked(doc, a, "freezes")["files"] == [], "none so far")
    job = start_in(t, a.group, target("calls"), "until", t.path("never"), "1", "100")
    t.wait_for(lambda: answer_of(a, "jobs")["jobs"], "a job")
    expect(a.status("/freeze", method="POST", data=b"") == 202, "asked")
    t.wait_for(lambda: answer_of(a, "freezes")["files"], "a file")
    file = checked(doc, a, "freezes")["files"][0]
    path = os.path.join(folder, file["name"])
    os.symlink(secret, os.path.join(folder, "freeze-20200101T000000Z-1.eacgm"))
    os.mkfifo(os.path.join(folder, "freeze-20200101T000000Z-2.eacgm"))
    with open(path, "rb") as f, a.open(urllib.request.Request(a.url("/freezes/" + file["name"]))) as r:
        expect(r.read() == f.read() and r.headers["Content-Disposition"] == "attachment", r.headers)
    expect([f["name"] for f in answer_of(a, "freezes")["files"]] == [file["name"]], "links are none")
    for name in ("../secret.eacgm", "%2e%2e%2fsecret.eacgm", "..%2f..%2f..%2fetc/passwd", "", ".", "x",
                 "freeze-20200101T000000Z-1.eacgm", "freeze-20200101T000000Z-2.eacgm",
                 "freeze-20200101T000000Z-1.html", file["name"] + "/", file["name"] + "%00",
                 "..%2fsecret.perfetto-trace.gz", "freeze-20200101T000000Z-1.perfetto-trace.gz",
                 "freeze-20200101T000000Z-2.perfetto-trace.gz", ".perfetto-trace.gz",
                 file["name"] + ".perfetto-trace.gz", "x.html.perfetto-trace.gz",
                 "..%2f" + file["name"].replace(".eacgm", ".perfetto-trace.gz"),
                 file["name"].replace(".eacgm", ".eacgm.html"), "..%2f" + file["name"]):
        expect(refused(a, "/freezes/" + name)[0] in (400, 404), name)
    expect(refused(a, "/freezes/" + file["name"], Host="evil.example")[0] == 403, "by a name")
    page_of(t, a, file["name"].replace(".eacgm", ".html"))
    trace_of(t, a, path)
    t.kill(job)
    job.wait()
    a.end()


def not_202(a, path):
    code, said = refused(a, path)
    return (code, said) if code != 202 else None


def trace_of(t, a, path):
    """What `eacgm export` makes of the file, to be kept, and nothing of it beside."""
    address = "/freezes/" + os.path.basename(path).replace(".eacgm", ".perfetto-trace.gz")
    expect(refused(a, address, Host="evil.example")[0] == 403, "by a name")
    code, said = refused(a, address)
    expect(code == 202 and "The Perfetto trace of " in said and "refresh" in said, (code, said))
    t.wait_for(lambda: a.status(address) == 200, "its trace", 60)
    with a.open(urllib.request.Request(a.url(address))) as r:
        got, headers = r.read(), r.headers
    expect(headers["Content-Type"] == "application/octet-stream" and
           headers["Content-Disposition"] == "attachment", headers)
    made = t.run([EACGM, "export", path, "-f", "perfetto", "-o", t.path("by_hand")])
    expect(made.status == 0, made)
    with open(t.path("by_hand"), "rb") as f:
        expect(gzip.decompress(got) == f.read(), "what export makes")
    expect(len(os.listdir(os.path.dirname(path))) == 3, os.listdir(os.path.dirname(path)))


def page_of(t, a, name):
    if "<html" not in a.get("/", Accept="text/html")[0]:
        return
    code, said = refused(a, "/freezes/" + name)
    expect(code == 202 and "refresh" in said, (code, said))
    code, said = t.wait_for(lambda: not_202(a, "/freezes/" + name), "its page", 60)
    expect(code == 200, said)
    text, headers = a.get("/freezes/" + name)
    expect('id="eacgm-report"' in text and "target_push" in text, "the report is in it")
    expect("connect-src 'none'" in headers["Content-Security-Policy"], headers)
    children = subprocess.run(["ps", "--ppid", str(a.p.pid), "-o", "stat,comm"], text=True,
                              capture_output=True, check=False).stdout
    expect("eacgm-page" not in children, children)


@test("its page in a browser: what it shows comes by itself, and it asks nobody else", 90)
def _(t):
    if not chromium.find():
        skip("there is no Chromium (package chromium)")
    a = Agent(t, "--budget", "100%", "--layers", "user", *probes(PUSH))
    if "<html" not in a.get("/", Accept="text/html")[0]:
        skip("this eacgm was built without the page")
    with chromium.Chromium(390, 800) as browser:
        browser.open("http://127.0.0.1:%d/" % a.port)

        def text(selector="main"):
            return browser.run("document.querySelector(%s)?.innerText ?? ''" % json.dumps(selector))
        t.wait_for(lambda: "No job runs" in text(), "no job")
        job = start_in(t, a.group, target("calls"), "until", t.path("never"), "1", "100", RANK="3")
        t.wait_for(lambda: "calls (%d)" % job.pid in text(), "the job: %s" % text(), 20)
        browser.run("document.querySelector('details').open = true")
        t.wait_for(lambda: "target_push" in text() and "rss_bytes" in text(), "its functions", 20)
        expect("rank 3" in text() and "1 job process" in text("header"), text("header"))
        for number, view in enumerate(("jobs", "steps", "gpus", "incidents", "anomalies", "flames",
                                       "ranks", "freezes", "probes"), 1):
            browser.key(str(number))
            t.wait_for(lambda: len(text()) > 10, view)
            expect(browser.run("location.hash") == "#" + view, view)
            expect(browser.run("document.documentElement.scrollWidth") <= 390, view)
        t.wait_for(lambda: "What it costs" in text(), text())
        t.kill(job)
        job.wait()
        browser.key("1")
        t.wait_for(lambda: "No job runs" in text(), "its end", 20)
        # it may have asked for the job in the moment in which that ended
        problems = [p for p in browser.problems if "404 (Not Found)" not in p]
        expect(not problems, problems)
        expect(all(u.startswith(("http://127.0.0.1:%d/" % a.port, "about:", "data:"))
                   for u in browser.requests), browser.requests)
    a.end()


if __name__ == "__main__":
    main()
