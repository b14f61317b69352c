#!/usr/bin/env python3
"""report_html_cli_test.py - `eacgm report --html`: the figures in the page are those of `--json`,
whatever a job calls its things stays text, the file asks nobody for anything, and it stays small.
tests/browser/page_test.py looks at it with a browser."""
import base64
import hashlib
import html.parser
import json
import re
import subprocess
import sys

from cli import EACGM, RECORDINGS, TOOLS, eacgm, job, main, test

HOSTILE = ["</script><img src=x onerror=alert(1)>", "<!--<script>", "]]>\"'&amp;", "</SCRIPT\t>"]
MISSING = "was built without the page"
BLOCKS = ["eacgm-report", "eacgm-steps", "eacgm-counters", "eacgm-flames", "eacgm-anomalies",
          "eacgm-timeline", "eacgm-about"]
MOST = 5 << 20


class Reader(html.parser.HTMLParser):
    """As a browser takes the file apart: the policy, and what each script holds."""

    def __init__(self, text):
        super().__init__(convert_charrefs=False)
        self.tags, self.policy, self.scripts, self.style, self.on = [], "", {}, "", None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        about = dict(attrs)
        self.tags.append((tag, about))
        if about.get("http-equiv") == "Content-Security-Policy":
            self.policy = about["content"]
        self.on = about.get("id", "code") if tag == "script" else "style" if tag == "style" else None
        if tag == "script":
            assert self.on not in self.scripts, self.on
            self.scripts[self.on] = ""

    def handle_endtag(self, tag):
        self.on = None

    def handle_data(self, data):
        if self.on == "style":
            self.style += data
        elif self.on:
            self.scripts[self.on] += data

    def data(self, name):
        return json.loads(self.scripts["eacgm-" + name])


def page(path, *args):
    done = eacgm("report", path, "--html", "-", *args)
    return Reader(done.stdout)


def report(path, *args):
    return json.loads(eacgm("report", path, "--json", *args).stdout)


def sha256(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def hostile(folder, sample):
    path = folder / f"{sample}.eacgm"
    subprocess.run([TOOLS / "make_hostile", sample, path], check=True, timeout=60)
    return path


def crafted(folder, name, rows):
    path = folder / f"{name}.eacgm"
    subprocess.run([TOOLS / "make_crafted", name, str(rows), path], check=True, timeout=120)
    return path


@test
def its_report_is_that_of_json(folder):
    paths = [RECORDINGS / "v1.eacgm", RECORDINGS / "v1_gpu.eacgm", RECORDINGS / "v1_ranks.eacgm",
             RECORDINGS / "v1_profile.eacgm", job(folder / "job.eacgm", 1, 5),
             *(hostile(folder, s) for s in ("plain", "profile", "gpu", "timeline"))]
    for path in paths:
        seen = page(path)
        assert list(seen.scripts) == [*BLOCKS, "code"], list(seen.scripts)
        assert seen.data("report") == report(path), path
        left = [l["what"] for l in seen.data("about")["left_out"]]
        assert all(w.startswith(("frames of", "points of")) for w in left), (path, left)


@test
def options_choose_what_is_in_it(folder):
    path = RECORDINGS / "v1_gpu.eacgm"
    assert page(path, "--top", "2").data("report") == report(path, "--top", "2")


@test
def hostile_names_stay_text(folder):
    path = folder / "names.eacgm"
    subprocess.run([TOOLS / "make_hostile", "names", path, *HOSTILE], check=True, timeout=60)
    seen = page(path)
    names = [f["name"] for f in seen.data("report")["functions"]]
    assert names == [f["name"] for f in report(path)["functions"]]
    assert all(any(n.startswith(h) for n in names) for h in HOSTILE), names
    assert {tag for tag, _ in seen.tags} == {"html", "head", "meta", "link", "title", "style",
                                             "body", "div", "noscript", "script"}
    assert all("<" not in seen.scripts[b] for b in BLOCKS)


@test
def it_asks_nobody_for_anything(_):
    seen = page(RECORDINGS / "v1_profile.eacgm")
    for tag, about in seen.tags:
        for name in ("src", "href", "action"):
            assert about.get(name) in (None, "data:,"), (tag, about)
    policy = dict(part.strip().split(" ", 1) for part in seen.policy.split(";"))
    assert policy["default-src"] == policy["connect-src"] == policy["base-uri"] == "'none'", policy
    assert policy["script-src"] == sha256(seen.scripts["code"]), "the hash is the script's"
    assert policy["style-src"] == sha256(seen.style), "the hash is the style's"
    assert "unsafe" not in seen.policy and "*" not in seen.policy
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in seen.scripts["code"], word


@test
def steps_counters_and_flame_graphs_are_drawn_from_the_same_rows(folder):
    path = job(folder / "job.eacgm", 1, 30)
    seen, told = page(path), report(path, "--steps")
    loops = [l for p in told["steps"]["processes"] for l in p["loops"]]
    drawn = seen.data("steps")
    assert drawn and sum(d["count"] for d in drawn) == sum(l["count"] for l in loops)
    main_loop = max(loops, key=lambda l: l["count"])
    assert drawn[0]["each"] == 1 and drawn[0]["index"] == [s["index"] for s in main_loop["steps"]]
    for mine, step in zip(drawn[0]["ms"], main_loop["steps"]):
        assert abs(mine - (step["end_ns"] - step["start_ns"]) / 1e6) < 0.0011
    counters = seen.data("counters")
    shown = {(s["entity"], s["name"]) for s in counters["series"]}
    assert {(c["entity"], c["name"]) for c in told["counters"]} <= shown, shown
    told_of = {(c["entity"], c["name"]): c for c in told["counters"]}
    for series in counters["series"]:
        assert len(series["mean"]) == counters["points"]
        values = [v for v in series["mean"] if v is not None]
        sums = told_of.get((series["entity"], series["name"]))
        assert values, series
        if sums:  # the page has four digits
            near = 1e-3 * max(abs(sums["min"]), abs(sums["max"]))
            assert sums["min"] - near <= min(values) <= max(values) <= sums["max"] + near, series
    flame = page(RECORDINGS / "v1_profile.eacgm").data("flames")
    assert {f["kind"] for f in flame} >= {"cpu"}, [f["kind"] for f in flame]
    for f in flame:
        assert f["total"] == f["value"][0] and len(f["parent"]) == len(f["value"]) == len(f["is"])
        below = [0] * len(f["parent"])
        for i, parent in enumerate(f["parent"]):
            assert parent < i or i == 0
            below[parent] += f["value"][i] if i else 0
        assert all(b <= v for b, v in zip(below, f["value"])), f["kind"]


@test
def it_stays_small_and_says_what_it_left_out(folder):
    for name, rows in (("notes", 60000), ("threads_with_a_call", 60000), ("steps", 60000),
                       ("processes_of_long_text", 2000), ("layers_of_named_calls", 60000)):
        path = crafted(folder, name, rows)
        done = eacgm("report", path, "--html", "-")
        assert len(done.stdout) < MOST, (name, len(done.stdout))
        left = {l["what"]: l for l in Reader(done.stdout).data("about")["left_out"]}
        told, kept = report(path), Reader(done.stdout).data("report")
        for key in ("notes", "processes", "functions"):
            assert (key in left) == (len(kept[key]) < len(told[key])), (name, key, left)
            if key in left:
                assert left[key]["shown"] == len(kept[key]) and left[key]["of"] == len(told[key])


@test
def what_cannot_be_written_leaves_nothing(folder):
    path = RECORDINGS / "v1.eacgm"
    out = folder / "page.html"
    eacgm("report", path, "--html", out)
    assert out.read_text().startswith("<!doctype html>")
    said = eacgm("report", path, "--html", folder / "none/page.html", status=1).stderr
    assert "none" in said and len(said.splitlines()) == 1, said
    said = eacgm("report", path, "--html", "/dev/full", status=1).stderr
    assert "No space left" in said and len(said.splitlines()) == 1, said
    assert "cannot both" in eacgm("report", path, "--html", out, "--json", status=2).stderr
    assert "--section" in eacgm("report", path, "--html", out, "--section", "steps",
                                status=2).stderr
    assert re.fullmatch(r"page\.html", "\n".join(p.name for p in folder.iterdir()))


def has_page():
    done = subprocess.run([EACGM, "report", RECORDINGS / "v1.eacgm", "--html", "-"], timeout=60,
                          capture_output=True, text=True, check=False)
    assert (MISSING in done.stderr) == (done.returncode == 1 and not done.stdout), done.stderr
    return MISSING not in done.stderr


if __name__ == "__main__":
    if not has_page():
        print("1..0 # skip this eacgm was built without the page")
        sys.exit(0)
    main()
