"""Opens flame graphs in Chromium as a user does: clicks, searches, hovers, presses keys, and
reads back what is shown. Skips where there is no Chromium (Debian's package: chromium).

With EACGM_SCREENSHOTS=FOLDER pictures are left there, light and dark.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

import chromium

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("EACGM_BUILD", ROOT / "build"))
SHOTS = os.environ.get("EACGM_SCREENSHOTS")
TREES = ["training", "differential", "hostile", "deep", "wide", "one", "empty", "bytes", "large",
         "threads"]
CONTROL = 2
TESTS = []

# What is drawn: of every frame its number, text, class and place on the screen.
FRAMES = """Array.from(document.querySelectorAll(".plot rect"), (r) => {
    const box = r.getBoundingClientRect(), text = r.nextSibling;
    return {i: +r.dataset.i, class: r.getAttribute("class"), x: box.x, y: box.y,
            width: box.width, name: text && text.tagName === "text" ? text.textContent : ""};
})"""
SETTLED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def test(fn):
    TESTS.append(fn)
    return fn


class Page:
    def __init__(self, browser, folder):
        self.browser, self.folder = browser, folder

    def open(self, tree):
        self.browser.scheme("light")
        self.browser.open(self.folder / f"{tree}.svg")

    def frames(self):
        self.browser.run(SETTLED)
        return self.browser.run(FRAMES)

    def frame(self, name):
        found = [f for f in self.frames() if f["name"] == name]
        assert len(found) == 1, f"{name}: {found}"
        return found[0]

    def text(self, selector):
        return self.browser.run(f"document.querySelector({json.dumps(selector)}).textContent")

    def click(self, name):
        f = self.frame(name)
        self.browser.click(f["x"] + f["width"] / 2, f["y"] + 8)

    def hover(self, name):
        f = self.frame(name)
        self.browser.mouse("mouseMoved", f["x"] + f["width"] / 2, f["y"] + 8)
        return self.browser.run('Array.from(document.querySelector(".tip").children, '
                                '(e) => e.textContent)')

    def type(self, text):
        self.browser.call("Input.insertText", text=text)

    def shot(self, name):
        if SHOTS:
            self.browser.screenshot(f"{SHOTS}/{name}.png")


def close(a, b, within=2.5):
    return abs(a - b) <= within


@test
def frames_are_as_wide_as_they_weigh(page):
    page.open("training")
    frames = {f["name"]: f for f in page.frames() if f["name"]}
    whole = frames["all"]["width"]
    assert close(whole, 1260), whole
    for name, seconds in {"train_step": 49, "GPT.forward": 25.5, "_start": 59, "read": 6}.items():
        assert close(frames[name]["width"], whole * seconds / 60), name
    assert frames["all"]["y"] > frames["_start"]["y"] > frames["train_step"]["y"]
    assert "python" in frames["train_step"]["class"] and "native" in frames["read"]["class"]
    # siblings by name, from the left
    x = [frames[n]["x"] for n in ("AdamW.step", "GPT.forward", "Tensor.backward")]
    assert x == sorted(x)
    assert any(name.endswith("\u2026") for name in frames)
    assert page.text("h1") == "CPU time of train.py" and "60.0 s" in page.text("header p")
    page.shot("training-light")


@test
def a_click_zooms_and_escape_resets(page):
    page.open("training")
    assert page.browser.run('document.querySelector(".tools button").disabled')
    page.click("GPT.forward")
    frames = {f["name"]: f for f in page.frames()}
    assert close(frames["GPT.forward"]["width"], 1260) and close(frames["all"]["width"], 1260)
    assert close(frames["aten::linear"]["width"], 1260 * 16 / 25.5)
    assert "DataLoader.__next__" not in frames and "above" in frames["train_step"]["class"]
    page.shot("training-zoomed")
    page.click("train_step")  # a caller: back out by one
    assert "AdamW.step" in {f["name"] for f in page.frames()}
    page.browser.key("Escape")
    assert close(page.frame("train_step")["width"], 1260 * 49 / 60)
    page.click("train_step")
    page.browser.click(*page.browser.run(
        '(() => { const b = document.querySelector(".tools button").getBoundingClientRect();'
        'return [b.x + 5, b.y + 5]; })()'))
    assert "DataLoader.__next__" in {f["name"] for f in page.frames()}


@test
def a_search_marks_and_sums(page):
    page.open("training")
    page.browser.key("/")
    page.type("aten::")
    assert page.text(".matched") == "Matched 42.50 % (25.5 s)", page.text(".matched")
    hits = {f["name"] for f in page.frames() if "hit" in f["class"]}
    assert "aten::linear" in hits and "train_step" not in hits and len(hits) == 2, hits
    page.shot("training-search")
    page.browser.key("Escape")
    assert page.text(".matched") == "" and not any("hit" in f["class"] for f in page.frames())
    page.browser.key("f", CONTROL)
    page.type("adamw|^READ$".lower())
    assert page.text(".matched") == "Matched 19.17 % (11.5 s)", page.text(".matched")
    page.browser.key("Escape")
    page.browser.key("/")
    page.type("impl(at::")  # no regular expression, but part of a name
    assert page.text(".matched") == "Matched 25.00 % (15.0 s)", page.text(".matched")
    page.type("((")
    assert page.text(".matched") == "not a regular expression"
    page.browser.key("Escape")
    page.browser.key("/")
    page.type("Train_Step")  # upper case: taken as it is written
    assert page.text(".matched") == "Matched 0.00 % (0 ns)", page.text(".matched")


@test
def what_is_found_within_what_is_found_counts_once(page):
    page.open("deep")
    page.browser.key("/")
    page.type("recurse")
    assert page.text(".matched") == "Matched 100.00 % (77)", page.text(".matched")
    page.open("differential")
    page.browser.key("/")
    page.type("train_step|aten::")
    assert page.text(".matched") == "Matched 80.33 % (49.0 s), base 75.86 %", \
        page.text(".matched")


@test
def hovering_tells_all(page):
    page.open("training")
    assert page.hover("train_step") == [
        "train_step", "Python, /home/user/gpt/train.py:41", "49.0 s, 81.67 % of all",
        "itself 0 ns, 0.00 %"], page.hover("train_step")
    page.shot("training-hover")
    assert page.hover("mkl_blas_avx512_sgemm_kernel_0")[1:] == [
        "native", "/usr/lib/python3/dist-packages/torch/lib/libtorch_cpu.so",
        "15.0 s, 25.00 % of all", "itself 15.0 s, 25.00 %"]
    page.click("GPT.forward")
    assert page.hover("aten::linear")[2] == \
        "16.0 s, 26.67 % of all, 62.75 % of what is zoomed to"
    page.open("bytes")
    assert page.hover("cudaMalloc")[3] == "3.00 GiB, 85.71 % of all"


@test
def keys_turn_and_walk(page):
    page.open("training")
    page.browser.key("i")
    frames = {f["name"]: f for f in page.frames()}
    assert frames["all"]["y"] < frames["_start"]["y"] < frames["train_step"]["y"]
    page.browser.run('document.querySelector(".plot").focus()')
    walked = []
    for key in ("Down", "Down", "Right", "Down", "Up", "Left"):
        page.browser.key("Arrow" + key)
        walked.append(page.text(".tip b"))
    assert walked == ["all", "[stack cut: no rules]", "_start", "__libc_start_main", "_start",
                      "[stack cut: no rules]"], walked
    page.browser.key("Enter")
    assert close(page.frame("[stack cut: no rules]")["width"], 1260)


@test
def differences_are_coloured_and_told(page):
    page.open("differential")
    frames = {f["name"]: f for f in page.frames()}
    assert "grew l5" in frames["aten::scaled_dot_product_at\u2026"]["class"], frames.keys()
    assert frames["aten::linear"]["class"] == "same" and "only_in_base" not in frames
    tip = page.hover("GPT.forward")
    assert tip[2:] == ["25.5 s, 41.80 % of all", "itself 0 ns, 0.00 %",
                       "base 20.5 s, 35.34 % of all", "change +5.00 s, +24.39 %"], tip
    page.shot("differential-light")
    page.browser.key("b")
    shrank = next(f for f in page.frames() if f["name"].startswith("only_in"))
    assert "shrank" in shrank["class"] and close(shrank["width"], 1260 * 3 / 58), shrank
    assert page.hover(shrank["name"])[3:] == [
        "itself 0 ns, 0.00 %", "base 3.00 s, 5.17 % of all", "change -3.00 s, -100.00 %"]
    page.shot("differential-base")
    page.browser.scheme("dark")
    page.shot("differential-dark")


@test
def hostile_names_are_only_text(page):
    page.open("hostile")
    assert page.browser.run('document.querySelectorAll("script").length') == 1
    assert page.text("h1") == "</title><script>alert(0)</script> \u2402\ufffd"
    page.browser.key("/")
    page.type("<script>")
    assert page.text(".matched").startswith("Matched 8.29 %"), page.text(".matched")
    for f in page.frames():
        page.browser.mouse("mouseMoved", f["x"] + f["width"] / 2, f["y"] + 8)
        assert page.browser.run('document.querySelectorAll(".tip b *, .tip script").length') == 0
    page.shot("hostile")


@test
def every_tree_opens(page):
    for tree in TREES:
        page.open(tree)
        frames = page.frames()
        assert frames and frames[-1]["i"] >= 0 and any(f["name"] == "all" for f in frames) or \
            tree == "deep", tree
        assert len(frames) < 5000, (tree, len(frames))
        page.shot(tree)
    # the root of a deep flame is at the bottom, and in sight
    page.open("deep")
    assert page.frame("all")["y"] > 300
    assert len(page.frames()) < 100
    page.browser.key("i")
    assert page.frame("all")["y"] < 100
    page.browser.run('document.querySelector(".plot").scrollTop = 40000')
    frames = page.frames()
    assert 10 < len(frames) < 100 and all(f["name"].startswith("recurse") for f in frames)


@test
def frames_below_a_pixel_leave_no_gap(page):
    page.open("threads")
    assert len(page.frames()) == 1 and page.frame("all")["width"] > 1250
    assert page.browser.run('document.querySelectorAll(".plot path").length') == 3  # by shade
    y = page.frame("all")["y"] - 8
    for x in range(12, 1268, 5):
        assert page.browser.run(f"document.elementFromPoint({x}, {y}).localName") == "path", x
    page.browser.mouse("mouseMoved", 640, y)
    assert page.text(".tip b") == "thread_2500", page.text(".tip b")
    page.browser.click(640, y)
    assert close(page.frame("thread_2500")["width"], 1260)
    assert sum(f["name"] == "worker" for f in page.frames()) == 9
    page.browser.key("Escape")
    page.browser.key("/")
    page.type("thread_")
    assert "hit" in page.browser.run(
        f'document.elementFromPoint(640, {y}).getAttribute("class")')


@test
def a_narrow_window_is_filled(page):
    page.open("training")
    page.browser.call("Emulation.setDeviceMetricsOverride", width=480, height=700,
                      deviceScaleFactor=1, mobile=False)
    try:
        assert close(page.frame("all")["width"], 460)
        assert page.browser.run("document.querySelector('.app').scrollWidth") <= 480
        page.shot("training-narrow")
    finally:
        page.browser.call("Emulation.setDeviceMetricsOverride", width=1280, height=620,
                          deviceScaleFactor=1, mobile=False)


# Contrast as WCAG 2 defines it, of text on each fill over the page's colour.
CONTRAST = """(() => {
    const probe = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const label = document.createElementNS("http://www.w3.org/2000/svg", "text");
    const page = getComputedStyle(document.querySelector(".app")).backgroundColor;
    document.querySelector(".plot svg").append(probe, label);
    const rgb = (s) => s.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const light = (c) => c.map((v) => v / 255).map((v) =>
        v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const out = {};
    for (const name of NAMES) {
        probe.setAttribute("class", name);
        label.setAttribute("class", name.includes("hit") ? "hit" : "");
        label.parentNode.classList.toggle("searching", name.includes("hit"));
        const style = getComputedStyle(probe), part = Number(style.fillOpacity);
        const under = rgb(page), fill = rgb(style.fill).map((v, i) => v * part + under[i] * (1 - part));
        out[name] = ratio(light(rgb(getComputedStyle(label).fill)), light(fill));
    }
    const ink = (s) => light(rgb(getComputedStyle(document.querySelector(s)).color));
    out["subtitle"] = ratio(ink("header p"), light(rgb(page)));
    out["title"] = ratio(ink("h1"), light(rgb(page)));
    return out;
})()"""


@test
def text_can_be_read(page):
    names = [f"{kind} s{shade}" for shade in range(3)
             for kind in ("native", "python", "kernel", "operator", "gpu", "other")]
    names += [f"{way} l{n}" for way in ("grew", "shrank") for n in range(1, 6)]
    names += ["same", "native s0 hit"]
    page.open("training")
    for scheme in ("light", "dark"):
        page.browser.scheme(scheme)
        ratios = page.browser.run(CONTRAST.replace("NAMES", json.dumps(names)))
        poor = {k: round(v, 2) for k, v in ratios.items() if v < 4.5}
        assert not poor, f"{scheme}: {poor}"
        page.open("training")
        page.browser.scheme(scheme)
        page.shot(f"training-{scheme}")


@test
def an_image_shows_the_still_picture(page):
    html = page.folder / "image.html"
    html.write_text('<body style="margin:0"><img src="training.svg"></body>')
    page.browser.open(html)
    size = page.browser.run('[document.images[0].naturalWidth, document.images[0].naturalHeight]')
    assert size[0] == 1200 and 200 < size[1] < 400, size
    page.shot("image")
    root = ET.parse(page.folder / "training.svg").getroot()
    still = next(e for e in root if e.get("id") == "still")
    assert "train_step" in [e.text for e in still if e.tag.endswith("}text")]


def main():
    maker = BUILD / "tests/make_flames"
    if not chromium.find():
        print("1..0 # skip there is no Chromium (package chromium)")
        return 0
    if not maker.exists():
        print(f"1..0 # skip {maker} was not built")
        return 0
    print(f"1..{len(TESTS) + 1}", flush=True)
    bad = 0
    with tempfile.TemporaryDirectory(prefix="eacgm-browser-") as folder, \
            chromium.Chromium() as browser:
        subprocess.run([maker, folder], check=True, timeout=300)
        page = Page(browser, pathlib.Path(folder))
        for number, fn in enumerate(TESTS, 1):
            name = fn.__name__.replace("_", " ")
            try:
                fn(page)
                assert not browser.problems, browser.problems
                print(f"ok {number} - {name}", flush=True)
            except (AssertionError, RuntimeError, TimeoutError, KeyError, IndexError,
                    StopIteration) as e:
                bad += 1
                print(f"not ok {number} - {name}\n# {type(e).__name__}: {e}", flush=True)
            browser.problems.clear()
        outside = [url for url in browser.requests if not url.startswith(f"file://{folder}/")]
        bad += bool(outside)
        print(f"{'not ' if outside else ''}ok {len(TESTS) + 1} - nothing else is loaded {outside[:3]}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
