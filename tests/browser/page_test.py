"""Opens the page of `eacgm report --html` in Chromium as a user does: goes through its views, sorts,
filters, walks its flame graph by keys, and reads back what is shown. Skips where there is no
Chromium (Debian's package: chromium).

With EACGM_SCREENSHOTS=FOLDER pictures are left there: light, dark and as wide as a phone.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import chromium

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("EACGM_BUILD", ROOT / "build"))
SHOTS = os.environ.get("EACGM_SCREENSHOTS")
RECORDINGS = ROOT / "tests/golden/recordings"
VIEWS = ["overview", "steps", "timeline", "gpus", "incidents", "functions", "flames", "ranks", "probes"]
PAGES = {"ranks": ("recording", "v1_ranks"), "profile": ("recording", "v1_profile"),
         "gpu": ("hostile", "gpu"), "names": ("names",), "job": ("job",),
         "timeline": ("timeline",), "told": ("told",)}
HOSTILE = ["</script><img src=x onerror=alert(1)>", "<b id=made>bold</b>"]
SETTLED = "new Promise((done) => setTimeout(() => requestAnimationFrame(done), 30))"
TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


def views_of(name):
    """Anomalies are shown where some were told."""
    return VIEWS[:5] + ["anomalies"] * (name == "told") + VIEWS[5:]


def make(folder):
    """Returns why the pages cannot be made, or None."""
    for name, (kind, *what) in PAGES.items():
        path = folder / f"{name}.eacgm"
        if kind == "recording":
            path = RECORDINGS / f"{what[0]}.eacgm"
        else:
            command = {"hostile": ["make_hostile", *what, path], "job": ["make_job", path, "1", "30"],
                       "told": ["make_job", path, "1", "120", "84", "104", "2.5", "told"],
                       "names": ["make_hostile", "names", path, *HOSTILE],
                       "timeline": ["make_timeline", path]}[kind]
            subprocess.run([BUILD / "tests" / command[0], *command[1:]], check=True, timeout=60)
        done = subprocess.run([BUILD / "eacgm", "report", path, "--html", folder / f"{name}.html"],
                              capture_output=True, text=True, check=False, timeout=60)
        if "without the page" in done.stderr:
            return done.stderr.strip()
        assert not done.returncode, done.stderr
    return None


class Page:
    def __init__(self, browser, folder):
        self.browser, self.folder = browser, folder

    def open(self, name, view="overview", width=1280, scheme="light"):
        self.browser.scheme(scheme)
        self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                          deviceScaleFactor=1, mobile=width < 600)
        self.browser.open("about:blank")
        self.browser.open(f"file://{self.folder}/{name}.html#{view}")
        self.settle()

    def settle(self):
        self.browser.run(SETTLED)

    def text(self, selector="main"):
        return self.browser.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def texts(self, selector):
        return self.browser.run(f"Array.from(document.querySelectorAll({json.dumps(selector)}), "
                                "(e) => e.textContent)")

    def do(self, script):
        value = self.browser.run(script)
        self.settle()
        return value

    def report(self):
        return json.loads(self.browser.run('document.getElementById("eacgm-report").textContent'))

    def shot(self, name):
        if SHOTS:
            self.browser.screenshot(f"{SHOTS}/page-{name}.png")


@test
def each_view_shows_something_of_each_recording(page):
    for name in PAGES:
        page.open(name)
        for number, view in enumerate(views_of(name), 1):
            if number < 10:
                page.browser.key(str(number))
            else:  # there is no key of that name
                page.browser.run(f"location.hash = '{view}'")
            page.settle()
            assert page.browser.run("location.hash") == f"#{view}", (name, view)
            assert page.texts("nav [aria-current]") == [page.texts("nav a")[number - 1]]
            assert len(page.text()) > 10, (name, view)
            assert not page.browser.problems, (name, view, page.browser.problems)
            page.shot(f"{name}-{view}")


@test
def the_overview_says_what_the_report_says_first(page):
    page.open("job")
    told = page.report()
    text = page.text()
    assert "nothing was lost" in text and told["recording"]["host"] in text
    assert f"{told['steps']['count']} steps of {told['steps']['kind']}" in text, text
    assert page.browser.run("document.title").endswith("eACGM")


@test
def no_view_is_wider_than_a_phone(page):
    for name in PAGES:
        for view in views_of(name):
            page.open(name, view, width=390)
            wide = page.browser.run("document.documentElement.scrollWidth")
            assert wide <= 390, (name, view, wide)
            page.shot(f"{name}-{view}-phone")


@test
def it_is_dark_where_the_reader_likes_that(page):
    def paper():
        return page.browser.run("getComputedStyle(document.documentElement).backgroundColor")
    page.open("job", scheme="light")
    light = paper()
    page.open("job", "steps", scheme="dark")
    assert light != paper()
    page.shot("job-steps-dark")


@test
def hostile_names_are_shown_as_text(page):
    page.open("names", "functions")
    cells = page.texts("tbody td:first-child")
    for name in HOSTILE:
        assert any(cell.startswith(name) for cell in cells), cells
    assert page.browser.run('document.images.length + document.querySelectorAll("#made").length') == 0
    page.open("gpu", "functions")
    cells = page.texts("tbody td:first-child")
    assert any("[31m" in cell for cell in cells)
    assert not [c for cell in cells for c in cell if c < " " or c in "\u202e\x7f\x9b"]


@test
def tables_are_sorted_and_filtered(page):
    page.open("ranks", "functions")
    told = page.report()["functions"]
    assert "ncclAllReduce" in page.texts("tbody td:first-child")

    def calls():
        return [int(t.replace(",", "").lstrip(">")) for t in page.texts("tbody td:nth-child(3)")]
    page.do('document.querySelector("th:nth-child(3) button").click()')
    assert calls() == sorted((f["calls"] for f in told), reverse=True)[:50], calls()
    assert page.texts('th[aria-sort="descending"]') == ["calls"]
    page.do('document.querySelector("th:nth-child(3) button").click()')
    assert calls() == sorted(f["calls"] for f in told)[:50]
    page.browser.key("/")
    page.browser.call("Input.insertText", text="ALLREDUCE")
    page.settle()
    assert set(page.texts("tbody td:first-child")) == {
        f["name"] for f in told if "allreduce" in f["name"].lower()}


@test
def a_flame_graph_is_walked_by_keys(page):
    page.open("profile", "flames")
    whole = page.text(".flame-words")
    assert whole.startswith("all: ") and "100 % of all" in whole, whole
    page.do('document.querySelector("canvas.flame").focus()')
    seen = [whole]
    for key in ("ArrowDown", "ArrowDown", "Enter", "ArrowUp"):
        page.browser.key(key)
        page.settle()
        seen.append(page.text(".flame-words"))
    assert len(set(seen[:3])) == 3 and seen[2] == seen[3] != seen[4] == seen[1], seen
    page.browser.key("Escape")
    page.settle()
    assert page.text(".flame-words") == whole
    assert page.browser.run("""(() => { const c = document.querySelector("canvas.flame");
        const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        return new Set(new Uint32Array(d.buffer)).size; })()""") > 3, "something is drawn"


@test
def a_step_tells_its_phases_when_it_is_clicked(page):
    page.open("job", "steps")
    page.browser.run(SETTLED)
    box = page.browser.run("""(() => { const b = document.querySelector(".u-over").getBoundingClientRect();
        return [b.x + b.width / 2, b.y + b.height / 2]; })()""")
    page.browser.click(*box)
    page.settle()
    assert page.text(".step-detail").startswith("Step "), page.text(".step-detail")


@test
def a_timeline_shows_what_gpus_did(page):
    page.open("timeline", "timeline")
    told = json.loads(page.browser.run('document.getElementById("eacgm-timeline").textContent'))
    assert {lane["of"] for lane in told["lanes"]} >= {"gpu", "calls"}, told["lanes"]
    assert "each span" in page.text(".flame-words"), page.text(".flame-words")
    page.do('document.querySelector("canvas.timeline").focus()')
    for key in ("ArrowDown", "ArrowUp"):
        page.browser.key(key)
        page.settle()
    first = page.text(".flame-words")
    page.browser.key("ArrowLeft", 8)  # with Shift
    page.settle()
    assert " at " in first and page.text(".flame-words") != first, first
    page.browser.key("Escape")
    page.settle()
    assert "of the recording" in page.text(".flame-words")
    page.shot("timeline-whole")
    assert page.browser.run("""(() => { const c = document.querySelector("canvas.timeline");
        const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        return new Set(new Uint32Array(d.buffer)).size; })()""") > 5, "something is drawn"


@test
def anomalies_lie_beside_the_mixture(page):
    page.open("told", "anomalies", scheme="dark")
    told = json.loads(page.browser.run('document.getElementById("eacgm-anomalies").textContent'))
    layers = {layer["layer"]: layer for layer in told}
    assert {"torch", "step"} <= set(layers) and any(r[4] for r in layers["torch"]["rows"]), layers.keys()
    assert "Scores" in page.text() and "standard deviations" in page.text(), page.text()
    page.shot("told-anomalies-dark")
    page.do("Array.from(document.querySelectorAll('main button')).find((b) => b.textContent.startsWith('torch ')).click()")

    def label():
        return page.browser.run("document.querySelector('canvas[role=img]').getAttribute('aria-label')")
    torch = layers["torch"]
    alarmed = sum(r[4] for r in torch["rows"])
    names = [torch["features"][torch[axis]]["name"] for axis in ("x", "y")]
    assert f"by {names[0]} and {names[1]}, {alarmed} of them alarmed, and 1 normal" in label(), label()
    other = torch["mixture"]["columns"][0]
    page.do(f"(() => {{ const s = document.querySelectorAll('main select')[1]; s.value = {other};"
            " s.dispatchEvent(new Event('change')); })()")
    assert f"By {names[0]} and {torch['features'][other]['name']}" in page.text(), page.text()
    page.open("job", "anomalies")
    assert page.texts("nav a").count("Anomalies") == 0 and "steps of" in page.text(), "nothing was told"


@test
def the_policy_lets_nothing_else_run(page):
    page.open("job")
    assert page.do("""(() => { const s = document.createElement("script");
        s.textContent = "window.ran = 1"; document.body.append(s); return !!window.ran; })()""") is False
    assert page.do('fetch("https://example.com/").then(() => "went", () => "refused")') == "refused"
    assert page.do('import("data:text/javascript,1").then(() => "went", () => "refused")') == "refused"
    page.browser.problems.clear()  # what the policy refused


def main():
    if not chromium.find():
        print("1..0 # skip there is no Chromium (package chromium)")
        return 0
    with tempfile.TemporaryDirectory(prefix="eacgm-browser-") as name:
        folder = pathlib.Path(name)
        if why := make(folder):
            print(f"1..0 # skip {why}")
            return 0
        with chromium.Chromium() as browser:
            return run(Page(browser, folder))


def run(page):
    print(f"1..{len(TESTS) + 1}", flush=True)
    bad = 0
    for number, fn in enumerate(TESTS, 1):
        name = fn.__name__.replace("_", " ")
        try:
            fn(page)
            assert not page.browser.problems, page.browser.problems
            print(f"ok {number} - {name}", flush=True)
        except (AssertionError, RuntimeError, TimeoutError, KeyError, IndexError) as e:
            bad += 1
            print(f"not ok {number} - {name}\n# {type(e).__name__}: {e}", flush=True)
        page.browser.problems.clear()
    outside = [url for url in page.browser.requests
               if not url.startswith((f"file://{page.folder}/", "about:", "data:"))]
    bad += bool(outside)
    print(f"{'not ' if outside else ''}ok {len(TESTS) + 1} - nothing else is asked for {outside[:3]}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
