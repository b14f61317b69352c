"""Opens an agent's page in Chromium on answers that a test makes up: an incident to its cause,
flame graphs over a stretch of time, frozen traces, a thousand processes. Skips where there is no
Chromium (Debian's package: chromium).

With EACGM_SCREENSHOTS=FOLDER pictures are left there. How long the first view takes is printed.
"""
import itertools
import json
import os
import pathlib
import re
import sys
import tempfile
import time

import chromium
from fake_agent import NOW, FakeAgent, page_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("EACGM_BUILD", ROOT / "build"))
SHOTS = os.environ.get("EACGM_SCREENSHOTS")
ONLY = os.environ.get("EACGM_ONLY")
POINTS, BUCKET_S = 300, 2.0
SECOND = 10 ** 9
ONSET, END = NOW - 200 * SECOND, NOW - 140 * SECOND
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e"
TESTS = []
# Notes when what a view is of was drawn first, ms since the page was asked for.
WATCHES = """new MutationObserver((_, o) => {
  if (!document.querySelector("main .job, main details, main canvas")) return;
  o.disconnect();
  requestAnimationFrame(() => { window.seen = performance.now(); });
}).observe(document, { childList: true, subtree: true });"""


def test(fn):
    TESTS.append(fn)
    return fn


# ---- answers ----

def job(pid, rank=None, world=None, steps=None, **more):
    return {"pid": pid, "parent_pid": 1, "comm": "python3", "script": "train.py", "rank": rank,
            "local_rank": rank, "world_size": world, "job": "4711" if world else None,
            "launcher": "slurm" if world else None, "pod": None, "namespace": None,
            "pod_uid": None, "container": None, "age_s": 812.4, "calls": 1_204_331 + pid,
            "errors": 0, "call_s": 31.2, "collective_calls": 0, "collective_s": 0.0,
            "flops_per_s": None, "mfu": None, "steps": steps, **more}


STEPS = {"kind": "training", "count": 4210, "last_ms": 31.2, "median_ms": 30.8, "longest_ms": 88.1,
         "since_last_s": 0.01, "marker": "optimizer.step",
         "phases": ["train.py (100): forward 40 %, backward 45 %, optimizer 15 %"]}


def is_in(point):
    return ONSET <= NOW - (POINTS - 1 - point) * BUCKET_S * SECOND <= END + BUCKET_S * SECOND


def serie(entity, kind, name, unit, usual, within, wave=0.02):
    mean = [(within if is_in(i) else usual) * (1 + wave * ((i * 7 % 11) - 5) / 5)
            for i in range(POINTS)]
    return {"entity": entity, "kind": kind, "name": name, "unit": unit, "mean": mean}


def series():
    made = [serie("gpu 0", "gpu", "busy_ratio", "ratio", 0.95, 0.4),
            serie("gpu 0", "gpu", "power_w", "W", 400, 210),
            serie("gpu 0", "gpu", "memory_used_bytes", "bytes", 4e10, 4e10),
            serie("host", "host", "cpu_ratio", "ratio", 0.3, 0.98),
            serie("pid 200", "process", "cpu_ratio", "ratio", 0.1, 7.8),
            serie("pid 300", "process", "cpu_ratio", "ratio", 0.1, 9.9),
            {**serie("pid 100", "process", "step_time", "ns", 31e6, 82e6),
             "max": serie("", "", "", "", 40e6, 160e6)["mean"]}]
    return {"bucket_s": BUCKET_S, "points": POINTS, "last_ns": NOW, "left_out": 0, "series": made}


def incident(number=7, **more):
    return {"id": number, "onset_ns": ONSET, "end_ns": END, "told_ns": ONSET + 8 * SECOND,
            "caused_ns": ONSET + 9 * SECOND, "ended": True, "pid": 100, "victim": {"pid": 100},
            "cause": "cpu_contention", "what": "another process takes the CPUs of the job",
            "confidence": 0.93, "runner_up": "slow_loader",
            "against": "the loader's queue was never empty", "cost_ns": 41.2e9, "usual_ns": 31e6,
            "unexplained_ns": 2.1e9,
            "culprit": {"kind": "process", "pid": 200, "command": "stress-ng --cpu 8"},
            "blame": [{"owner": "runnable: other processes ran", "ns": 33e9},
                      {"owner": "the job's own Python", "ns": 6.1e9}],
            "evidence": ["the main thread waited for a CPU for 55 % of the time, usually 1 %",
                         "process 200 (stress-ng) used 7.8 CPUs, 0.1 before " + HOSTILE],
            "advice": "pin the job to CPUs of its own, or move the other process", **more}


def incidents(*list_):
    anomalies = [{"id": 3, "start_ns": ONSET, "end_ns": END, "ended": True, "layer": "torch",
                  "entity": "pid 100", "why": "optimizer.step took 82 ms, usually 31 ms"}]
    return {"judges": True, "learning": False, "now_ns": NOW, "incidents": list(list_),
            "anomalies": anomalies,
            "causes": [{"cause": "cpu_contention", "incidents": 1, "cost_s": 41.2}],
            "events": [{"time_ns": NOW - 61 * SECOND, "entity": "gpu 0", "name": "early_warning",
                        "text": "device memory runs out in 4 min " + HOSTILE}]}


FRAMES = [(0, "all", 5), (0, "<module> (train.py:88)", 1), (1, "train_step (train.py:40)", 1),
          (2, "forward (model.py:12)", 1), (3, "aten::linear", 3), (4, "cublasGemmEx", 0),
          (2, "at::backward", 0), (6, "do_syscall_64", 2), (1, "save (train.py:70)", 1)]


def flame(scale=1.0):
    value = [int(v * scale) for v in (9e9, 9e9, 7e9, 4e9, 3e9, 2e9, 3e9, 1e9, 2e9)]
    return {"kind": "cpu", "title": "CPU time of process 100", "unit": "ns", "total": value[0],
            "names": [f[1] for f in FRAMES], "parent": [f[0] for f in FRAMES],
            "name": list(range(len(FRAMES))), "is": [f[2] for f in FRAMES], "value": value}


def stacks(query):
    """Pieces of ten seconds; what is asked for is cut to them."""
    pieces = [{"from_ns": NOW - (60 - i) * 10 * SECOND, "to_ns": NOW - (59 - i) * 10 * SECOND,
               "cpu_ns": int((9 + i % 5) * 1e9)} for i in range(60)]
    lo, hi = int(query.get("from", 0)), int(query.get("to", 2 ** 62))
    inside = [p for p in pieces if p["to_ns"] > lo and p["from_ns"] < hi]
    return {"samples": True, "pid": 100, "pieces": pieces, "left_out": [],
            "from_ns": inside[0]["from_ns"] if inside else 0,
            "to_ns": inside[-1]["to_ns"] if inside else 0,
            "flame": flame(len(inside)) if inside else None}


FREEZE = "freeze-20261126T193634Z-1.eacgm"


def freezes():
    real = 1_795_721_794 * SECOND
    return {"freezes": True, "now_ns": NOW, "now_realtime_ns": real + (NOW - ONSET),
            "files": [{"name": FREEZE, "time_realtime_ns": real, "bytes": 3_120_411,
                       "from_ns": ONSET - 10 * SECOND, "until_ns": ONSET + 5 * SECOND}],
            "told": []}


def self_answer():
    return {"version": "0.1.0", "host": "node1", "age_s": 4021.0, "own_cpu_cores": 0.012,
            "own_resident_bytes": 61e6, "probe_cpu_cores": 0.03, "job_cpu_cores": 6.1,
            "cost_ratio": 0.0049, "lost": 0, "unjudged": 0, "left_out": 0, "freezes": True,
            "frozen": 1, "held_off": 2, "judges": True, "learning": False,
            "own_budget": {"limit_cores": 0.005, "always_cores": 0.0042, "fixed_cores": 0.003, "call_s": 4e-7},
            "turned_down": [{"layer": "cuda", "function": "cuLaunchKernel", "seen_ratio": 0.02,
                             "in_bursts": True, "budget": "own"},
                            {"layer": "torch", "function": "aten::add", "seen_ratio": 0.1,
                             "in_bursts": True, "budget": "jobs"}],
            "layers": [{"layer": "torch", "calls": 1204331, "calls_per_s": 15200.0,
                        "busiest": "aten::linear"}]}


def judged(query):
    features = [{"name": n, "unit": "ln ratio", "what": f"what {n} is"}
                for n in ("duration", "gap", "errors")]
    rows = [[NOW - (600 - i) * SECOND, NOW - (599 - i) * SECOND, 100, -1, 400 <= i < 460,
             12.0 + i % 5 if 400 <= i < 460 else -2.0 + i % 3 / 3,
             (i * 37 % 100 - 50) / 400 + (1.1 if 400 <= i < 460 else 0), (i * 53 % 100 - 50) / 300]
            for i in range(600)]
    ellipses = [{"weight": 0.8, "x": 0.0, "y": 0.0, "xx": 0.006, "xy": 0.003, "yy": 0.011},
                {"weight": 0.2, "x": 0.1, "y": 0.1, "xx": 0.002, "xy": -0.001, "yy": 0.004}]
    return {"layer": "torch", "features": features, "x": int(query.get("x", 0)),
            "y": int(query.get("y", 1)), "ellipses": ellipses, "rows": rows}


DETECTOR = {"judges": True, "layers": [
    {"layer": "host", "rows": 600, "alarmed": 0, "components": 3},
    {"layer": "torch", "rows": 600, "alarmed": 60, "components": 2}]}
SETTINGS = {"file": "/etc/eacgm/agent.yaml", "options": [
    {"name": "detect", "told": True, "values": [""], "help": "Look for what is not normal."},
    {"name": "otlp-header", "told": True, "values": ["Authorization=(not shown)"], "help": "A header."},
    {"name": "store", "told": False, "values": [], "help": "Keep what is known there."}]}


# ---- what a store tells ----

WEEK_S = 7 * 86400
LAST_S = 1_800_000_000  # of the store


def stretch(query, points=400):
    """What of a stretch is kept: the last week."""
    to = min(int(query.get("to", LAST_S)), LAST_S)
    start = max(int(query["from"]) if "from" in query else to - int(query["last"]), LAST_S - WEEK_S)
    bucket = max(1, (to - start) // points)
    n = max(0, (to - start) // bucket)
    return {"kept": True, "from_s": start, "to_s": start + n * bucket, "bucket_s": bucket,
            "points": n, "oldest_s": LAST_S - WEEK_S, "newest_s": LAST_S}


def stored_job(number, **more):
    return {"id": number, "pid": 1000 + number, "start_s": LAST_S - WEEK_S, "end_s": None,
            "comm": "python3", "script": "train.py", "rank": number - 1, "local_rank": 0,
            "world_size": 2, "job": "4711", "launcher": "slurm", "pod": "trainer-0",
            "namespace": "ai", "container": None, "container_name": "trainer",
            "steps": 19_000_000, "mean_ms": 31.1, "longest_ms": 160.0, **more}


def history(query, jobs=None):
    told = stretch(query)
    jobs = jobs or [stored_job(1), stored_job(2, script="other.py", steps=0, mean_ms=None,
                                              longest_ms=None, end_s=LAST_S - 86400)]
    return {**told, "jobs": jobs, "jobs_all": len(jobs),
            "steps": [1200 + i % 50 for i in range(told["points"])]}


def stored_steps(query):
    told = stretch(query)
    n = told["points"]
    minutes = max(1, n // 2)
    wave = [31 + 2 * ((i * 7) % 11 - 5) / 5 + (40 if n // 2 < i < n // 2 + 20 else 0) for i in range(n)]
    return {**told, "process": stored_job(1), "mean_ms": wave, "longest_ms": [v * 1.8 for v in wave],
            "count": [900] * n,
            "phases": {"from_s": told["from_s"], "bucket_s": 2 * told["bucket_s"], "points": minutes,
                       "of": [{"name": name, "ms": [31 * share + i % 3 for i in range(minutes)]}
                              for name, share in (("forward", 0.4), ("backward", 0.45), ("load", 0.1))]}}


def stored_series(kind, names, query):
    told = stretch(query)
    n = told["points"]
    made = [{"entity": f"{kind} {i}", "kind": kind, "name": name, "unit": unit,
             "mean": [base * (1 + (k * (3 + i) % 17) / 100) for k in range(n)],
             "max": [base * 1.3 for _ in range(n)]}
            for name, unit, base in names for i in range(2)]
    return {**told, "series_all": 100, "series": made[int(query.get("after", 0)) and 2:]}


def stored_flame(query):
    told = stretch(query)
    n = told["points"]
    return {**told, "process": stored_job(1), "cpus": [1 + i % 5 / 10 if i % 40 < 35 else None for i in range(n)],
            "flame": flame(100), "left_out": []}


GPU_NAMES = (("sm_ratio", "ratio", 0.8), ("power_watts", "W", 500), ("memory_used_bytes", "bytes", 6e10))


def stored_incidents(query):
    told = stretch(query)
    middle = (told["from_s"] + told["to_s"]) // 2 * SECOND
    length = (told["to_s"] - told["from_s"]) * SECOND // 20
    one = {**incident(3), "run": 1, "onset_ns": middle, "end_ns": middle + length, "told_ns": middle}
    return {**told, "incidents": [one], "incidents_all": 1, "events_all": 1,
            "events": [{"time_ns": middle, "entity": "gpu 0", "name": "xid", "text": "79 " + HOSTILE}]}


def usual(agent, **more):
    """All answers at once: a page that is open may ask meanwhile."""
    jobs = [job(100, steps=STEPS, flops_per_s=3.14e14, mfu=0.3174), job(200, script="other.py", flops_per_s=640.2)]
    agent.state.update(jobs=2, incidents=1)
    agent.answers = {
        "jobs": {"jobs": jobs}, "series": series(), "self": self_answer(), "freezes": freezes(),
        "detector": DETECTOR, "detector/torch": judged, "detector/host": judged, "settings": SETTINGS, "incidents": incidents(incident()), "jobs/100/flame": stacks, "jobs/200/flame": stacks,
        "gpus": {"gpus": [{"index": 0, "parent": None, "name": "NVIDIA H200", "uuid": "GPU-1",
                           "bus_id": "0:1", "driver": "570", "xid": None, "counters": []}]},
        "jobs/100": {**jobs[0], "functions": [], "functions_all": 0, "counters": [],
                     "kernels": [{"name": "nvjet_hsh_128x256", "launches": 81_204},
                                 {"name": "layer_norm" + HOSTILE, "launches": 12}],
                     "steps": {**STEPS, "history_ms": [30 + i % 7 for i in range(240)]}}, **more}


def with_store(agent):
    usual(agent, **{
        "history": history, "history/processes/1/steps": stored_steps,
        "history/processes/1/flame": stored_flame,
        "history/processes/2/flame": lambda q: {**stored_flame(q), "flame": None},
        "history/incidents": stored_incidents,
        "history/series/gpu": lambda q: stored_series("gpu", GPU_NAMES, q),
        "history/series/host": lambda q: stored_series("host", (("cpu_ratio", "ratio", 0.3),), q),
        "history/processes/1/series": lambda q: stored_series("process", (("rss_bytes", "bytes", 4e9),), q)})


# ---- the page ----

class Page:
    def __init__(self, browser, agent):
        self.browser, self.agent = browser, agent

    def open(self, view, width=1280, scheme="light", height=900):
        self.browser.scheme(scheme)
        self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                          deviceScaleFactor=1, mobile=width < 600)
        self.leave()
        self.browser.open(f"{self.agent.url}#{view}")

    def leave(self):
        """A page that is open goes on to ask, for what the next answers may lack."""
        self.browser.open("about:blank")

    def text(self, selector="main"):
        return self.browser.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def texts(self, selector):
        return self.browser.run(f"Array.from(document.querySelectorAll({json.dumps(selector)}), "
                                "(e) => e.textContent)")

    def wait(self, condition, what, seconds=30):
        limit = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < limit, (what, self.text("header"), self.text()[:1500], self.agent.asked[-6:],
                self.browser.run("[document.hidden, performance.now()]"))
            time.sleep(0.05)
        return value

    def click(self, selector):
        self.browser.run(f"document.querySelector({json.dumps(selector)}).click()")

    def shot(self, name):
        if SHOTS:
            time.sleep(0.5)
            self.browser.screenshot(f"{SHOTS}/live-{name}.png")


@test
def an_incident_opens_to_its_cause(page):
    usual(page.agent)
    page.open("incidents")
    page.wait(lambda: "another process takes" in page.text(), "the list")
    assert "device memory runs out in 4 min" in page.text() and "61.0 s ago" in page.text(), page.text()
    assert "stress-ng" not in page.text(), "the list is short"
    page.shot("incidents")
    page.click(".incident-link")
    page.wait(lambda: "step time" in page.text(), "what is around it")
    assert page.browser.run("location.hash") == f"#incidents/7-100-{ONSET + 8 * SECOND}"
    text = page.text()
    for wanted in ("Who: process stress-ng --cpu 8 (200)", "pin the job to CPUs", "confidence 93 %",
                   "Whose the time was", "33.0 s", "Evidence", "55 % of the time",
                   "Next likely: slow_loader, but the loader's queue", "nobody's: not explained"):
        assert wanted in text, (wanted, text)
    assert "timeline and report" in text and "what process 200 did in it" in text
    charts = page.texts(".chart strong")
    assert charts[0] == "pid 100 step time", charts
    assert {"gpu 0 busy_ratio", "host cpu_ratio", "pid 200 cpu_ratio"} <= set(charts), charts
    assert "pid 300 cpu_ratio" not in charts, "it has no part in it"
    assert "gpu 0 memory_used_bytes" not in charts, "it did not change"
    said = page.texts(".said")
    assert re.match(r"in it 8[123]\.\d ms on average, else 3[01]\.\d ms", said[0]), said
    assert "optimizer.step took 82 ms" in text
    page.shot("incident")
    page.browser.run("history.back()")
    page.wait(lambda: "By cause" in page.text(), "the list again")


@test
def an_incident_that_goes_on_is_brought_up_to_date(page):
    usual(page.agent)
    page.agent.answers["incidents"] = incidents(incident(ended=False, cause="", what="",
                                                         evidence=[], end_ns=ONSET + SECOND))
    page.open("incidents/7")
    page.wait(lambda: "unknown" in page.text() and "not over" in page.text(), "no cause yet")
    page.agent.answers["incidents"] = incidents(incident())
    page.wait(lambda: "55 % of the time" in page.text(), "its cause")
    page.open("incidents/99")
    page.wait(lambda: "no incident 99" in page.text(), "one that is not there")


@test
def each_piece_of_an_incident_opens(page):
    usual(page.agent)
    page.agent.answers["incidents"] = incidents(incident(), incident(
        told_ns=ONSET + 30 * SECOND, what="garbage is collected", evidence=["gc took 40 %"]))
    page.open("incidents")
    page.wait(lambda: "garbage is collected" in page.text(), "both")
    assert len(page.texts(".incident-link")) == 2
    page.browser.run(f"location.hash = 'incidents/7-100-{ONSET + 30 * SECOND}'")
    page.wait(lambda: "gc took 40 %" in page.text(), "the second")
    page.browser.run(f"location.hash = 'incidents/7-100-{ONSET + 8 * SECOND}'")
    page.wait(lambda: "55 % of the time" in page.text(), "the first")


@test
def what_names_hold_is_text(page):
    usual(page.agent)
    page.open("incidents/7")
    page.wait(lambda: "onerror=alert(1)>?" in page.text(), "the name as text")
    assert page.browser.run("document.images.length") == 0


@test
def a_job_says_how_fast_it_computes(page):
    usual(page.agent)
    page.open("jobs")
    page.wait(lambda: "314 TFLOP/s, 32 % of its GPUs' peak" in page.text(), "its speed")
    assert "; 640 FLOP/s" in page.text() and page.text().count("peak") == 1, "it has no GPU"
    page.click(".job summary")
    page.wait(lambda: "81,204" in page.text() and "nvjet_hsh_128x256" in page.text(), "kernels")
    assert page.browser.run("document.images.length") == 0, "a name is text"
    page.shot("job")


@test
def flame_graphs_are_of_a_chosen_time(page):
    usual(page.agent)
    page.open("flames")
    page.wait(lambda: "all: 54.0 s" in page.text(), "the last minute")  # of six pieces
    assert page.texts("[aria-current='true']") == ["now", "last minute"]
    page.shot("flames")
    page.click("a[href='#flames/100/600']")
    page.wait(lambda: "all: 540 s" in page.text() or "all: 9 min" in page.text(), "ten minutes")
    page.browser.run("location.hash = 'incidents/7'")
    page.wait(lambda: "what process 100 did in it" in page.text(), "the incident")
    page.click(f"a[href='#flames/100/{ONSET}/{END}']")
    page.wait(lambda: "all: 54.0 s" in page.text(), "the incident's minute")
    box = page.browser.run("""(() => { const b = document.querySelector(".u-over").getBoundingClientRect();
        return [b.x, b.y + b.height / 2, b.width]; })()""")
    x, y, width = box
    page.browser.mouse("mouseMoved", x + width * 0.5, y)
    page.browser.mouse("mousePressed", x + width * 0.5, y)
    page.browser.mouse("mouseMoved", x + width * 0.8, y)
    page.browser.mouse("mouseReleased", x + width * 0.8, y)
    page.wait(lambda: page.browser.run("location.hash") != f"#flames/100/{ONSET}/{END}", "a stretch")
    first, last = map(int, page.browser.run("location.hash").split("/")[2:])
    assert 150 * SECOND < last - first < 210 * SECOND, (first, last)  # 30 % of ten minutes
    page.wait(lambda: "all: 1" in page.text() or "all: 2" in page.text(), "its flame graph")


@test
def frozen_traces_are_offered(page):
    usual(page.agent)
    page.open("freezes")
    page.wait(lambda: FREEZE in page.text(), "the file")
    hrefs = page.browser.run("Array.from(document.querySelectorAll('.freezes a'), (a) => a.pathname)")
    assert hrefs == [f"/freezes/{FREEZE[:-6]}.html", f"/freezes/{FREEZE}"], hrefs
    assert "3.12 MB" in page.text() and "ui.perfetto.dev" in page.text(), page.text()
    link = page.browser.run("(() => { const a = document.querySelector('a[href^=https]');"
                            " return [a.href, a.rel, a.target]; })()")
    assert link == ["https://ui.perfetto.dev/", "noopener noreferrer", "_blank"], link
    page.shot("freezes")
    page.agent.answers["freezes"] = {**freezes(), "files": [], "freezes": False}
    page.wait(lambda: "--freeze FOLDER" in page.text(), "how it is turned on")


def keeps_a_trace(page):
    """By the button of the file that is shown, while the agent makes it."""
    path, made = f"/freezes/{FREEZE[:-6]}.perfetto-trace.gz", [False]
    page.agent.files[path] = lambda: (
        (200, "application/octet-stream", b"packed" * 1000) if made[0] else (202, "text/html", b"comes"))
    with tempfile.TemporaryDirectory() as folder:
        page.browser.keep_downloads(folder)
        page.browser.run("document.querySelector('.freeze-trace').focus()")
        page.browser.key("Enter")
        page.wait(lambda: "the Perfetto trace is being made" in page.text(), "that it takes a while")
        page.wait(lambda: page.agent.asked.count(path) > 1, "that it is asked for again")
        made[0] = True
        file = pathlib.Path(folder, path[len("/freezes/"):])
        page.wait(file.exists, "what was kept")
        assert file.read_bytes() == b"packed" * 1000
    page.wait(lambda: "being made" not in page.text(), "that it is done")
    assert page.browser.run("document.activeElement.className") == "freeze-trace", "it keeps the focus"


@test
def a_perfetto_trace_is_kept(page):
    usual(page.agent)
    page.open("freezes")
    page.wait(lambda: FREEZE in page.text(), "the file")
    keeps_a_trace(page)
    page.open("incidents/7")
    page.wait(lambda: page.texts(".freeze-trace"), "that of an incident")
    keeps_a_trace(page)
    page.agent.files = {f"/freezes/{FREEZE[:-6]}.perfetto-trace.gz": lambda: (
        500, "text/plain", b"cannot make the Perfetto trace of it: it has more than 32 MB\n")}
    page.click(".freeze-trace")
    page.wait(lambda: "it has more than 32 MB" in page.text(), "why not")
    page.browser.problems.clear()  # 500
    page.agent.files = {}


@test
def a_trace_that_is_frozen_after_its_incident_was_opened_is_offered(page):
    usual(page.agent)
    page.agent.answers["freezes"] = {**freezes(), "files": []}
    page.open("incidents/7")
    page.wait(lambda: "Around it" in page.text(), "the incident")
    assert "frozen" not in page.text(), page.text()
    page.agent.answers["freezes"] = freezes()
    page.wait(lambda: "The seconds around it were frozen: timeline and report" in page.text(), "it")
    assert page.browser.run("document.querySelectorAll('a.freeze-page').length") == 1


@test
def an_incident_without_a_file_of_its_own_says_which_has_it_or_why_none(page):
    usual(page.agent)
    got = freezes()
    file = {**got["files"][0], "time_realtime_ns": got["files"][0]["time_realtime_ns"] - 8 * SECOND}
    page.agent.answers["freezes"] = {**got, "files": [file]}
    page.open("incidents/7")
    page.wait(lambda: "It lies in the seconds that were frozen around something else: timeline" in page.text(),
              "which has it")
    held_off = {"time_ns": ONSET, "name": "freeze_held_off",
                "text": f"not frozen: incident: x: held off: {FREEZE} is of the same, 8.0 s before it"}
    page.agent.answers["freezes"] = {**got, "told": [held_off], "files": [
        {**file, "from_ns": ONSET - 18 * SECOND, "until_ns": ONSET - 3 * SECOND}]}
    page.wait(lambda: "8.0 s before it. timeline and report, the file" in page.text(), "why none has")
    assert "Not frozen: incident: x: held off" in page.text(), page.text()
    page.open("freezes")
    page.wait(lambda: "UTC: not frozen: incident: x" in page.text(), "the list")


@test
def a_digit_chooses_a_view(page):
    usual(page.agent)
    page.open("jobs")
    page.wait(lambda: "train.py (100)" in page.text(), "the first")
    page.browser.key("0")
    page.wait(lambda: page.browser.run("location.hash") == "#settings", "the tenth")
    page.browser.key("4")
    page.wait(lambda: page.browser.run("location.hash") == "#incidents", "the fourth")
    page.browser.key(" ")
    page.wait(lambda: "another process takes" in page.text(), "the incident")
    assert page.browser.run("location.hash") == "#incidents", "it is no digit"


@test
def ranks_tell_who_the_others_wait_for(page):
    usual(page.agent)
    page.agent.answers["jobs"] = {"jobs": [
        job(100 + i, rank=i, world=4, collective_calls=9000, collective_s=2.0 if i == 2 else 40.0 + i)
        for i in range(4)]}
    page.open("ranks")
    page.wait(lambda: "Rank 2 (102) spends 2.00 s in collectives" in page.text(), "the late one")
    assert "slurm 4711 of 4 ranks" in page.text() and len(page.texts("tbody tr")) == 4
    page.shot("ranks")


@test
def anomalies_lie_beside_the_mixture(page):
    usual(page.agent)
    page.open("anomalies")
    page.wait(lambda: "By duration and gap" in page.text(), "the layer that alarmed")
    assert page.texts("[aria-current='true']") == ["torch (60 of 600)"]
    label = page.browser.run("document.querySelector('canvas[role=img]').getAttribute('aria-label')")
    assert label.startswith("600 rows by duration and gap, 60 of them alarmed, and 2 normals"), label
    page.shot("anomalies")
    page.browser.run("(() => { const s = document.querySelectorAll('select')[1]; s.value = 2;"
                     " s.dispatchEvent(new Event('change')); })()")
    page.wait(lambda: "By duration and errors" in page.text(), "another feature")


def drag(page, first, last):
    """Over parts of the first chart's width."""
    page.wait(lambda: page.browser.run("!!document.querySelector('.u-over')"), "a chart")
    box = page.browser.run("""(() => { const o = document.querySelector(".u-over");
        o.scrollIntoView({ block: "center" }); const b = o.getBoundingClientRect();
        return [b.x, b.y + b.height / 2, b.width]; })()""")
    x, y, width = box
    page.browser.mouse("mouseMoved", x + width * first, y)
    page.browser.mouse("mousePressed", x + width * first, y)
    page.browser.mouse("mouseMoved", x + width * last, y)
    page.browser.mouse("mouseReleased", x + width * last, y)


@test
def a_stretch_of_days_is_chosen(page):
    with_store(page.agent)
    page.open("steps")
    page.wait(lambda: "The last steps" in page.text(), "those of now")
    page.wait(lambda: page.texts("a[href='#steps/last/604800']"), "its link")
    page.click("a[href='#steps/last/604800']")
    page.wait(lambda: "19,000,000 steps, 31.1 ms on average" in page.text(), "those of a week")
    assert page.texts("main [aria-label='time'] [aria-current]") == ["week"]
    assert page.texts(".chart strong") == ["Step time", "Phases of a step, on average", "Steps of all jobs"]
    assert "1 incident then" in page.text() and "each point is of 25 min" in page.text(), page.text()
    page.shot("steps-week")
    drag(page, 0.25, 0.5)
    page.wait(lambda: re.fullmatch(r"#steps/\d+-\d+", page.browser.run("location.hash")), "an interval")
    first, last = map(int, page.browser.run("location.hash")[7:].split("-"))
    assert abs(first - (LAST_S - 0.75 * WEEK_S)) < 7200 and abs(last - first - WEEK_S / 4) < 7200, (first, last)
    page.wait(lambda: "earlier" in page.text() and f"from={first}&to={last}" in str(page.agent.asked[-8:]), "its steps")
    page.shot("steps-interval")
    page.click("#tab-gpus")
    page.wait(lambda: "sm_ratio" in page.text() and "power_watts" in page.text(), "the GPUs of then")
    assert page.browser.run("location.hash") == f"#gpus/{first}-{last}", "the time goes from view to view"
    page.shot("gpus-interval")
    page.browser.run("Array.from(document.querySelectorAll('main button')).find("
                     "(b) => b.textContent === 'show more counters').click()")
    page.wait(lambda: any("after=64" in a for a in page.agent.asked[-5:]), "more of them")
    page.wait(lambda: page.texts(f"a[href='#gpus/{first}-{last}/host']"), "the host's link")
    page.click(f"a[href='#gpus/{first}-{last}/host']")
    page.wait(lambda: "cpu_ratio" in page.text(), "the host")
    page.click("#tab-incidents")
    page.wait(lambda: "another process takes the CPUs" in page.text() and "79 </script>" in page.text(), "what was told then")
    page.wait(lambda: page.texts("main .incident-list summary"), "its line")
    page.click("main .incident-list summary")
    page.wait(lambda: "Whose the time was" in page.text() and "pin the job to CPUs" in page.text(), "its cause")
    page.shot("incidents-interval")
    page.click("#tab-flames")
    page.wait(lambda: "train.py (1001): 15 min 0 s of CPU time" in page.text(".answer") and "all: 15 min" in page.text(), "its stacks")
    assert page.browser.run("location.hash") == f"#flames/{first}-{last}"
    assert page.texts(".chart strong") == ["CPUs that it used"]
    page.shot("flames-interval")
    page.browser.run("(() => { const s = document.querySelector('main select'); s.value = 2;"
                     " s.dispatchEvent(new Event('change')); })()")
    page.wait(lambda: "stacks come each ten seconds" in page.text(), "another process, without stacks")
    assert page.browser.run("location.hash") == f"#flames/{first}-{last}/2"
    page.browser.key("2")
    page.wait(lambda: page.browser.run("location.hash") == f"#steps/{first}-{last}", "by keys, too")
    page.wait(lambda: page.texts("main a[href='#steps']") == ["now"], "its links")
    page.click("main a[href='#steps']")
    page.wait(lambda: "The last steps" in page.text() and "Phases" not in page.text(), "now again")


@test
def a_process_of_then_is_chosen(page):
    with_store(page.agent)
    page.open("steps/last/86400")
    page.wait(lambda: "train.py (1001)" in page.text(".answer"), "the one with most steps")
    page.browser.run("(() => { const s = document.querySelector('main select'); s.value = 2;"
                     " s.dispatchEvent(new Event('change')); })()")
    page.wait(lambda: "other.py (1002): no steps then" in page.text(".answer"), "the other")
    assert page.browser.run("location.hash") == "#steps/last/86400/2"
    for view in ("steps", "flames"):
        page.open(f"{view}/last/86400/77")
        page.wait(lambda: "did not run then, or is not listed: this is train.py (1001)" in page.text(), "that it is another")
    page.open("gpus/last/86400/1")
    page.wait(lambda: "rss_bytes" in page.text(), "its counters")


@test
def what_a_store_cannot_tell_is_said(page):
    with_store(page.agent)
    for name in ("history", "history/incidents", "history/series/gpu"):
        page.agent.answers[name] = {"kept": False}
    for view in ("steps", "gpus", "incidents", "flames"):
        page.open(f"{view}/last/3600")
        page.wait(lambda: "--store FILE" in page.text(), view)
    with_store(page.agent)
    page.open(f"steps/100-200")
    page.agent.answers["history"] = page.agent.answers["history/incidents"] = {**stretch({"last": 60}), "points": 0}
    page.open(f"steps/100-300")
    page.wait(lambda: "Nothing is kept of that time: the store has" in page.text(), "what there is")
    with_store(page.agent)
    page.agent.answers["history"] = (503, {"error": "it would take longer than it may: choose a shorter time"})
    page.open("steps/last/604800")
    page.wait(lambda: "cannot be shown: it would take longer" in page.text("[role=alert]"), "why")
    page.shot("history-error")
    with_store(page.agent)
    page.wait(lambda: "Step time" in page.text() and not page.text("[role=alert]"), "it is asked again")
    page.browser.problems.clear()  # the browser says that there was a 503
    page.click("main a[href='#steps/last/86400']")
    page.wait(lambda: page.texts("[aria-label='time'] [aria-current]") == ["day"], "another one")
    page.open("steps/7-3/x")  # no stretch
    page.wait(lambda: "The last steps" in page.text(), "now")


@test
def what_is_turned_down_says_for_which_budget(page):
    usual(page.agent)
    page.open("probes")
    page.wait(lambda: "Turned down to keep the budget" in page.text(), "it is shown")
    text = page.text()
    assert re.search(r"cuLaunchKernel\s+cuda\s+2.0 %\s+the agent's own", text), text
    assert re.search(r"aten::add\s+torch\s+10 %\s+the jobs'", text), text
    assert "of its own budget" in text and "0.42 % of 0.50 % of a CPU; 0.30 % without any call" in text, text
    kept = page.agent.answers["self"]
    page.agent.answers["self"] = {**kept, "own_budget": None}
    page.wait(lambda: "of its own budget" not in page.text(), "there is none")


@test
def settings_are_shown_without_secrets(page):
    usual(page.agent)
    page.open("settings")
    page.wait(lambda: "/etc/eacgm/agent.yaml" in page.text(), "where they are from")
    assert [c for c in page.texts("tbody td:nth-child(2)")][:2] == ["yes", "Authorization=(not shown)"]


@test
def what_fails_is_said_and_gets_better(page):
    usual(page.agent)
    kept = page.agent.answers.pop("self")
    page.open("probes")
    page.wait(lambda: "404" in page.text("header"), "what fails")
    page.browser.problems.clear()
    page.agent.answers["self"] = kept
    page.wait(lambda: "What it costs" in page.text(), "it comes back")
    page.wait(lambda: "2 job processes" in page.text("header"), "and is not said any more")
    page.browser.problems.clear()


TOKEN = "right-._~+/=0123456789"


def says_a_token(page, text):
    """By keys: the field has the focus, and what is in it is selected."""
    page.wait(lambda: page.browser.run("document.activeElement.id") == "token", "the field")
    page.browser.type(text)
    page.browser.key("Enter")


def with_token(page, view):
    """Who asks has not said one in this tab."""
    usual(page.agent)
    page.open("settings")
    page.browser.run("sessionStorage.clear()")
    page.leave()
    page.agent.token = TOKEN
    page.open(view)


@test
def a_token_is_asked_for(page):
    with_token(page, "jobs")
    before = page.agent.asked.count("/api/v1/state")
    page.wait(lambda: "This agent asks for a token" in page.text("form:not([hidden])"), "the field")
    field = page.browser.run("""(() => { const f = document.querySelector("#token");
        return [f.type, f.autocomplete, f.labels[0].textContent]; })()""")
    assert field == ["text", "off", "Token"], field
    assert "train.py" not in page.browser.run("document.body.textContent"), "nothing of a job"
    assert page.browser.run("['nav', 'main', 'footer'].every((n) => document.querySelector(n).hidden)")
    says_a_token(page, "wrong-token-0123456789")
    page.wait(lambda: page.text("[role=alert]") == "The agent does not take this token.", "that it is wrong")
    assert page.agent.asked.count("/api/v1/state") == before + 1, "it was tried once"
    says_a_token(page, "w\u00f6rong")
    page.wait(lambda: page.text("[role=alert]") == "The agent does not take this token.", "that it is none")
    page.shot("token")
    kept = "[sessionStorage.length, localStorage.length, document.cookie]"
    assert page.agent.asked.count("/api/v1/state") == before + 1, "it is not tried"
    assert page.browser.run(kept) == [0, 0, ""], page.browser.run(kept)
    says_a_token(page, TOKEN)
    page.wait(lambda: "train.py (100)" in page.text(), "what is behind it")
    assert page.browser.run("document.querySelector('form').hidden && !document.querySelector('nav').hidden")
    page.wait(lambda: "2 job processes" in page.text("header"), "what comes by events")
    page.agent.state.update(jobs=3)
    page.wait(lambda: "3 job processes" in page.text("header"), "what comes next")
    assert page.browser.run(kept) == [1, 0, ""], page.browser.run(kept)
    refused = page.agent.refused
    page.open("incidents")
    page.wait(lambda: "another process takes" in page.text(), "this tab says it by itself")
    assert page.agent.refused == refused and not any(TOKEN in path for path in page.agent.asked)
    page.agent.token = "another-0123456789"
    page.wait(lambda: "The agent does not take this token." in page.text("form:not([hidden])"), "it is another by now")
    assert page.browser.run(kept)[0] == 0, "it is not kept any more"
    page.agent.token = None
    says_a_token(page, TOKEN)
    page.wait(lambda: "another process takes" in page.text(), "none is asked for any more")
    page.browser.problems.clear()  # the browser says that there were 401


@test
def files_come_with_the_token_too(page):
    with_token(page, "freezes")
    made, stem = [False], "/freezes/" + FREEZE[:-6]
    page.agent.files = {
        stem + ".eacgm": ("application/octet-stream", b"a recording" * 1000),
        stem + ".html": lambda: (200, "text/html; charset=utf-8", b"<h1>its page</h1>") if made[0] else
                                (202, "text/html", b"comes")}
    says_a_token(page, TOKEN)
    page.wait(lambda: FREEZE in page.text(), "the file")
    with tempfile.TemporaryDirectory() as folder:
        page.browser.keep_downloads(folder)
        page.click("a.freeze-file")
        file = pathlib.Path(folder, FREEZE)
        page.wait(file.exists, "what was kept")
        assert file.read_bytes() == b"a recording" * 1000
    keeps_a_trace(page)
    page.click("a.freeze-page")
    page.wait(lambda: "the page is being made" in page.text(), "that it takes a while")
    page.browser.key("1")
    page.wait(lambda: "train.py (100)" in page.text(), "another view")
    made[0] = True
    page.browser.key("8")
    page.wait(lambda: "the page is made: the link opens it" in page.text(), "it")
    link = "document.querySelector('a.freeze-page')"
    assert page.browser.run(f"[{link}.protocol, {link}.target]") == ["blob:", "_blank"]
    page.agent.files[stem + ".eacgm"] = lambda: (404, "text/plain", b"there is no such file\n")
    page.click("a.freeze-file")
    page.wait(lambda: "there is no such file" in page.text(), "what the agent says")
    loads = page.browser.loads
    page.browser.run(f"{link}.target = ''")
    page.click("a.freeze-page")
    page.wait(lambda: page.text("h1") == "its page" and page.browser.loads > loads, "the page")
    page.browser.problems.clear()  # 401, 404
    page.agent.token, page.agent.files = None, {}


@test
def events_may_come_in_any_pieces(page):
    usual(page.agent)
    page.agent.pieces = lambda event: [b": nothing\r\nretry: 10\nid: 7\r", b"\n", *(
        event.replace(b"\n", b"\r\n")[i:i + 7] for i in range(0, len(event) + 3, 7)), b"data: {}\n\n"]
    page.open("jobs")
    for jobs in (5, 6):
        page.agent.state.update(jobs=jobs)
        page.wait(lambda: f"{jobs} job processes" in page.text("header"), "what they tell")
    page.agent.pieces = lambda event: [event]


VIEWS = ["jobs", "steps", "gpus", "incidents", "incidents/7", "anomalies", "flames", "ranks", "freezes", "probes",
         "settings", "steps/last/604800", "gpus/last/604800", "incidents/last/604800"]


# Controls that can be seen: what somebody with a mouse can use.
CONTROLS = """Array.from(document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']"))
    .filter((e) => e.checkVisibility() && !e.disabled)"""
# Notes what has the focus; "end": nothing or what had it before; else why somebody would not see it.
FOCUSED = """(() => { const e = document.activeElement, s = getComputedStyle(e), b = e.getBoundingClientRect();
    window.trail ??= [];
    if (e === document.body || window.trail.includes(e)) return "end";
    const before = window.trail.at(-1), what = " " + e.outerHTML.slice(0, 120);
    window.trail.push(e);
    const x = Math.max(0, Math.min(innerWidth - 1, b.x + b.width / 2)), y = Math.max(0, Math.min(innerHeight - 1, b.y + b.height / 2));
    const top = document.elementFromPoint(x, y);
    if (s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 2) return "no outline:" + what;
    if (b.bottom <= 0 || b.top >= innerHeight || b.right <= 0 || b.left >= innerWidth || b.width < 2 || b.height < 2) return "out of sight:" + what;
    if (!top || !(e.contains(top) || top.contains(e))) return "covered by " + top?.outerHTML.slice(0, 80) + ":" + what;
    return before?.isConnected && !(before.compareDocumentPosition(e) & 4) ? "comes too late:" + what : ""; })()"""


def walk(page, view):
    """From the page's first control to its last, by Tab alone."""
    for _ in range(500):
        page.browser.key("Tab")
        told = page.browser.run(FOCUSED)
        if told == "end":
            break
        assert not told, (view, told)
    missing = page.browser.run(f"{CONTROLS}.filter((e) => !window.trail.includes(e)).map((e) => e.outerHTML.slice(0, 120))")
    assert not missing, (view, missing)
    return page.browser.run("window.trail.length")


def another_look(page, view):
    """What is on the screen is brought up to date; settings never are, a week when it has another point."""
    asked = len(page.agent.answered)
    page.wait(lambda: view == "settings" or "/last/" in view or
              len(page.agent.answered) > asked and not page.agent.owes(), "another look", 40)


@test
def every_control_is_reached_by_tab(page):
    with_store(page.agent)
    for view in VIEWS:
        page.open(view)
        page.wait(lambda: len(page.text()) > 20 and not page.agent.owes(), view)
        another_look(page, view)
        assert walk(page, view) >= 11, "ten views, and what skips them"


@test
def what_has_the_focus_keeps_it(page):
    """While what is on the screen is brought up to date."""
    with_store(page.agent)
    page.agent.answers["incidents"] = lambda _: incidents(incident(), incident(
        8, onset_ns=ONSET + next(moved)))
    moved = itertools.count()
    inside = f"{CONTROLS}.filter((e) => document.querySelector('main').contains(e))"
    for view in VIEWS:
        page.open(view)
        page.wait(lambda: len(page.text()) > 20 and not page.agent.owes(), view)
        count = page.browser.run(f"{inside}.length")
        for number in {0, count - 1} if count else ():
            page.browser.run(f"{inside}[{number}].focus()")
            what = page.browser.run("document.activeElement.outerHTML.slice(0, 120)")
            another_look(page, view)
            assert page.browser.run("document.querySelector('main').contains(document.activeElement)"
                                    " && document.activeElement.tagName !== 'MAIN'"), (view, number, what)


@test
def who_chooses_by_keys_goes_on_from_there(page):
    with_store(page.agent)
    of = "(() => { const e = document.activeElement; return e.getAttribute('href') ?? e.getAttribute('aria-label'); })()"
    page.open("steps/last/86400")
    page.wait(lambda: page.texts("main select"), "processes")
    page.browser.run("(() => { const s = document.querySelector('main select'); s.focus(); s.value = 2;"
                     " s.dispatchEvent(new Event('change')); })()")
    page.wait(lambda: "other.py (1002): no steps then" in page.text(".answer"), "the other")
    page.wait(lambda: page.browser.run(of) == "process", "the field has the focus still")
    for view, link in (("steps/last/86400", "#steps/last/604800"), ("gpus/last/86400", "#gpus/last/86400/host"),
                       ("flames/100/60", "#flames/100/300"), ("anomalies", "#anomalies/host")):
        page.open(view)
        page.wait(lambda: page.texts(f"main a[href='{link}']"), link)
        page.browser.run(f"document.querySelector(\"main a[href='{link}']\").focus()")
        page.browser.key("Enter")
        page.wait(lambda: page.browser.run("location.hash") == link and
                  page.texts(f"main a[href='{link}'][aria-current]") and not page.agent.owes(), link)
        page.wait(lambda: page.browser.run(of) == link, "the link has the focus still")
    first, last = LAST_S - 4000, LAST_S
    page.open(f"steps/{first}-{last}")
    page.wait(lambda: "closer" in page.texts("main a.button"), "closer")
    page.browser.run("Array.from(document.querySelectorAll('main a.button')).find((a) => a.textContent === 'closer').focus()")
    page.browser.key("Enter")
    page.wait(lambda: page.browser.run("location.hash") == f"#steps/{first + 1000}-{last - 1000}", "the half in the middle")


@test
def an_incident_is_opened_by_keys(page):
    usual(page.agent)
    page.agent.answers["incidents"] = incidents(incident(8, what="the first"), incident())
    page.open("jobs")
    page.wait(lambda: "train.py (100)" in page.text(), "the first view")
    page.browser.key("4")
    page.wait(lambda: page.texts(".incident-link")[1:], "the incidents")
    on = "document.activeElement.textContent"
    for _ in range(40):
        page.browser.key("Tab")
        if page.browser.run(on) == "another process takes the CPUs of the job":
            break
    assert page.browser.run("document.activeElement.className") == "incident-link", page.browser.run(on)
    page.browser.key("Enter")
    page.wait(lambda: "stress-ng --cpu 8" in page.text() and page.texts("a.freeze-page"), "its cause")
    page.wait(lambda: "another process takes" in page.browser.run(on), "the focus goes to what was opened")
    page.browser.key("Tab")
    assert page.browser.run("document.activeElement.className") == "freeze-page", page.browser.run(on)
    page.browser.run("history.back()")
    page.wait(lambda: page.texts(".incident-link")[1:], "the incidents again")
    page.wait(lambda: page.browser.run("document.activeElement.className") == "incident-link" and
              "another process" in page.browser.run(on), "the focus is where it was")


# What looked like something else: fields as if they were off, a chart's legend as if it were a table.
ODD = """Array.from(document.querySelectorAll("main select, .u-legend td")).filter((e) => {
    const s = getComputedStyle(e);
    return e.tagName === "SELECT" ? s.color !== getComputedStyle(document.documentElement).color
        : s.borderBottomWidth !== "0px" || s.position === "sticky"; }).map((e) => e.outerHTML.slice(0, 80))"""


@test
def every_view_fits_a_phone_and_has_its_dark_side(page):
    with_store(page.agent)
    for view in VIEWS:
        for width, scheme in ((390, "light"), (1400, "dark")):
            page.open(view, width, scheme)
            page.wait(lambda: len(page.text()) > 20 and not page.agent.owes(), view)
            assert page.browser.run("document.documentElement.scrollWidth") <= width, (view, width)
            odd = page.browser.run(ODD)
            assert not odd, (view, width, odd)
            page.shot(f"{view.replace('/', '-')}-{width}-{scheme}")


def cpu_of(browser):
    rows = browser.call("Performance.getMetrics")["metrics"]
    return next(row["value"] for row in rows if row["name"] == "TaskDuration")


@test
def a_thousand_processes(page):
    usual(page.agent)
    jobs = {"jobs": [job(1000 + i, rank=i, world=1000, steps=None) for i in range(1000)]}
    many = series()
    many["series"] += [serie(f"pid {1000 + i}", "process", "rss_bytes", "bytes", 4e9 + i, 4e9)
                       for i in range(500)]
    page.agent.state.update(jobs=1000)
    page.agent.answers.update({"jobs": json.dumps(jobs).encode(), "series": json.dumps(many).encode()})
    for view, wanted in (("jobs", "(1000)"), ("gpus", "Processes"), ("flames", "No stacks|CPU")):
        page.agent.answers["jobs/1000/flame"] = stacks
        page.open(view)
        page.wait(lambda: any(w in page.text() for w in wanted.split("|")), view)
        page.wait(lambda: page.browser.run("!!window.seen"), "when it was seen")
        print(f"# first view of {view}, 1,000 processes: {page.browser.run('window.seen') / 1e3:.2f} s,"
              f" CPU of its thread up to now {cpu_of(page.browser):.2f} s", flush=True)
    page.leave()
    with_store(page.agent)
    page.agent.answers["history"] = lambda q: history(q, [stored_job(i + 1) for i in range(1000)])
    page.open("steps/last/604800")
    page.wait(lambda: page.browser.run("document.querySelectorAll('main option').length") == 1000, "all of them")
    page.wait(lambda: page.browser.run("!!window.seen"), "when it was seen")
    print(f"# first view of a week, 1,000 processes: {page.browser.run('window.seen') / 1e3:.2f} s", flush=True)
    page.agent.answers.update({"jobs": json.dumps(jobs).encode()})
    page.open("jobs")
    page.wait(lambda: "(1000)" in page.text(), "jobs")
    page.browser.key("/")
    page.browser.call("Input.insertText", text="1777")
    page.wait(lambda: page.browser.run("Array.from(document.querySelectorAll('.job')).filter("
                                       "(e) => e.offsetParent).length") == 1, "the one")
    page.shot("jobs-1000")


def main():
    page = page_of(BUILD)
    if not chromium.find():
        print("1..0 # skip there is no Chromium (package chromium)")
        return 0
    if not page:
        print("1..0 # skip this eacgm was built without the page")
        return 0
    with FakeAgent(page) as agent, chromium.Chromium() as browser:
        browser.call("Performance.enable", timeDomain="threadTicks")
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=WATCHES)
        return run(Page(browser, agent))


def run(page):
    print(f"1..{len(TESTS) + 1}", flush=True)
    bad = 0
    for number, fn in enumerate(TESTS, 1):
        name = fn.__name__.replace("_", " ")
        if ONLY and not re.search(ONLY, name):
            continue
        try:
            page.leave()
            fn(page)
            assert not page.browser.problems, page.browser.problems
            print(f"ok {number} - {name}", flush=True)
        except (AssertionError, RuntimeError, TimeoutError, KeyError, IndexError) as e:
            bad += 1
            print(f"not ok {number} - {name}\n# {type(e).__name__}: {e}", flush=True)
        page.browser.problems.clear()
    outside = [url for url in page.browser.requests
               if not url.startswith((page.agent.url, "about:", "data:", "blob:" + page.agent.url))]
    bad += bool(outside)
    print(f"{'not ' if outside else ''}ok {len(TESTS) + 1} - nobody else is asked {outside[:3]}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
