#!/usr/bin/env python3
"""agent_page_test.py - a PyTorch job becomes slow under `eacgm agent --detect`, and somebody who has
no more than a browser goes from the page's first view to the incident's cause, to what the job did
then, and to the timeline of the trace that was frozen. Needs Chromium (Debian's package: chromium).

With EACGM_SCREENSHOTS=FOLDER pictures are left there."""

import json
import os
import re
import sys
import time

from agents import Agent, make_slow, start_in
from harness import PYTHON, ROOT, expect, main, needs_torch, skip, test

sys.path.insert(0, os.path.join(ROOT, "tests/browser"))
import chromium  # noqa: E402

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "rhythm_job.py")
SHOTS = os.environ.get("EACGM_SCREENSHOTS")
HASH = "location.hash"


class Reader:
    """Who sits before the browser."""

    def __init__(self, t, a, browser):
        self.t, self.a, self.browser = t, a, browser

    def text(self, selector="main"):
        return self.browser.run("document.querySelector(%s)?.innerText ?? ''" % json.dumps(selector))

    def sees(self, text, selector="main", seconds=60):
        self.t.wait_for(lambda: text in self.text(selector),
                        lambda: "%r in: %s" % (text, self.text(selector)[:600]), seconds)
        return self.text(selector)

    def clicks(self, selector):
        self.t.wait_for(lambda: self.browser.run("!!document.querySelector(%s)" %
                                                 json.dumps(selector)), selector)
        self.browser.run("document.querySelector(%s).click()" % json.dumps(selector))

    def shot(self, name):
        if SHOTS:
            self.browser.screenshot("%s/agent-%s.png" % (SHOTS, name))


def incident_of(a, pid):
    """One that is explained: what others do on a busy machine may be told of as well, as unknown."""
    told = json.loads(a.get("/api/v1/incidents")[0])["incidents"]
    return [i for i in told if i["ended"] and i["pid"] == pid and
            i["cause"] not in ("", "unknown")]


def steps_of(a, pid):
    job = [j for j in json.loads(a.get("/api/v1/jobs")[0])["jobs"] if j["pid"] == pid]
    return job and job[0]["steps"] and job[0]["steps"]["count"]


@test("an injected fault, from the page's first view to its cause and its timeline", 480)
def _(t):
    needs_torch()
    if not chromium.find():
        skip("there is no Chromium (package chromium)")
    a = Agent(t, "--detect", "--freeze", t.path("freezes"), "--freeze-after", "2s")
    if "<html" not in a.get("/", Accept="text/html")[0]:
        skip("this eacgm was built without the page")
    slow = t.path("slow")
    job = start_in(t, a.group, PYTHON, JOB, "400", RHYTHM_SLOW=slow)
    t.wait_for(lambda: steps_of(a, job.pid), a.said, 60)
    make_slow(t, a, slow)
    slow_at = time.monotonic_ns() - 12e9
    found = t.wait_for(lambda: [i for i in incident_of(a, job.pid) if i["end_ns"] > slow_at],
                       lambda: "an incident since %d: %s\n%s" % (
                           slow_at, a.said(), a.get("/api/v1/incidents")[0]), 150)[0]
    t.wait_for(lambda: json.loads(a.get("/api/v1/freezes")[0])["files"], "a frozen trace")
    with chromium.Chromium(1400, 1000) as browser:
        look(Reader(t, a, browser), found, job.pid)
    t.kill(job)
    a.end()


def look(reader, found, pid):
    browser = reader.browser
    browser.open("http://127.0.0.1:%d/" % reader.a.port)
    reader.sees("rhythm_job.py (%d)" % pid)
    reader.clicks("#tab-incidents")
    reader.sees(found["what"])
    reader.clicks("a[href='#incidents/%d-%d-%d']" % (found["id"], found["pid"], found["told_ns"]))
    text = reader.sees("Around it")
    owners = [part["owner"] for part in found["blame"]]
    expect(owners, found)
    for told in (found["what"], found["advice"], *found["evidence"], *owners, "process %d" % pid):
        expect(told in text, (told, text))
    reader.sees("step time", seconds=30)
    expect("in it" in reader.text(".said"), reader.text())
    reader.shot("incident")
    reader.clicks("a[href^='#flames/%d/']" % pid)
    reader.sees("all: ")
    reader.shot("flames")
    browser.run("history.back()")
    # another incident of the busy machine may have been frozen just before, and has this one too
    reader.t.wait_for(lambda: re.search(
        "The seconds around it were frozen|that were frozen around something else|held off: freeze-",
        reader.text()), "a file")
    page = browser.run("document.querySelector('a.freeze-page').href")
    reader.t.wait_for(lambda: reader.a.status(page[page.index("/freezes/"):]) == 200, "its page", 90)
    browser.open(page + "#timeline")
    reader.sees("of the recording")
    expect(browser.run("document.querySelector('canvas.timeline')?.height > 50"), reader.text())
    reader.shot("timeline")
    expect(not browser.problems, browser.problems)


if __name__ == "__main__":
    main()
