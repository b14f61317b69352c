#!/usr/bin/env python3
"""history.py - the page of an agent with a store of a week of many processes: how long the first view of
it takes in Chromium, and whether a scrape waits for what the store is asked.

usage: history.py BUILD [--processes N] [--days D] [--rounds N] [--file STORE.db]

Makes the store by BUILD/bench/week_store (1.3 GB, in half a minute or more), unless STORE.db is
there. Of each view the first is told, whose pages nobody has read since they were written to the disk
cache, and the median of the others, each a page of its own in a browser that runs: from the moment that
the page is asked for until its charts are drawn. Then it is asked without a pause for a week of the GPUs, and meanwhile
scraped. Needs root, and Chromium (Debian's package: chromium).
"""
import argparse
import multiprocessing
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/browser"))
import chromium  # noqa: E402

VIEWS = ("steps/last/604800", "gpus/last/604800", "incidents/last/604800", "steps/last/86400",
         "steps/last/3600")
# Notes when the first chart of a view was drawn, ms since the page was asked for.
WATCHES = """new MutationObserver((_, o) => {
  if (!document.querySelector("main canvas")) return;
  o.disconnect();
  requestAnimationFrame(() => { window.seen = performance.now(); });
}).observe(document, { childList: true, subtree: true });"""


class Agent:
    def __init__(self, build, store):
        self.log = tempfile.TemporaryFile("w+")
        self.p = subprocess.Popen([build / "eacgm", "agent", "--listen", "127.0.0.1:0", "--store", store,
                                   "--store-bytes", str(8 << 30)], stdout=self.log, stderr=self.log)
        limit = time.monotonic() + 60
        while not (found := re.search(r"serves http://(\S+)/metrics", self.said())):
            if self.p.poll() is not None or time.monotonic() > limit:
                sys.exit("history: the agent does not serve: " + self.said())
            time.sleep(0.05)
        self.url = f"http://{found.group(1)}/"

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def get(self, path):
        began = time.monotonic()
        with urllib.request.urlopen(self.url + path, timeout=30) as r:
            size = len(r.read())
        return time.monotonic() - began, size

    def memory(self):
        with open(f"/proc/{self.p.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024

    def end(self):
        self.p.terminate()
        self.p.wait(60)


def first_view(browser, url, view):
    browser.open("about:blank")
    browser.open(f"{url}#{view}")
    limit = time.monotonic() + 30
    while not (seen := browser.run("window.seen ?? 0")):
        if time.monotonic() > limit:
            sys.exit(f"history: {view}: " + browser.run("document.body.innerText"))
        time.sleep(0.02)
    return seen / 1e3


def ask_on(agent, path, seconds, taken):
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        taken.append(agent.get(path)[0])


def scrapes(agent, seconds, path=None):
    """Of /metrics, while two others ask for the path all the time; and of the latter."""
    with multiprocessing.Manager() as shared:
        found, taken = [], shared.list()
        others = [multiprocessing.Process(target=ask_on, args=(agent, path, seconds, taken))
                  for _ in range(2 if path else 0)]
        for other in others:
            other.start()
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            found.append(agent.get("metrics")[0])
            time.sleep(0.05)
        for other in others:
            other.join()
        return found, list(taken)


def ms(values):
    usual = sorted(values)[int(0.95 * len(values))]
    return (f"median {1e3 * statistics.median(values):.1f} ms, 95 of 100 up to {1e3 * usual:.1f},"
            f" longest {1e3 * max(values):.1f}")


def measure(agent, rounds):
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    with chromium.Chromium(1280, 900) as browser:
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=WATCHES)
        for view in VIEWS:
            first, *others = [first_view(browser, agent.url, view) for _ in range(rounds)]
            print(f"first view of {view}: {first:.2f} s at first, then {statistics.median(others):.2f} s"
                  f" ({min(others):.2f} to {max(others):.2f}, {len(others)} times)", flush=True)
    for path in ("history?last=604800", "history/processes/1/steps?last=604800",
                 "history/series/gpu?last=604800", "history/incidents?last=604800"):
        answers = [agent.get("api/v1/" + path) for _ in range(5)]
        print(f"{path}: {ms([a for a, _ in answers])}, {answers[0][1] / 1e3:.0f} kB")
    print(f"scrapes alone: {ms(scrapes(agent, 5)[0])}; memory {agent.memory():.0f} MB")
    found, taken = scrapes(agent, 10, "api/v1/history/series/gpu?last=604800")
    print(f"scrapes beside two that ask for a week of GPUs: {ms(found)}; these: {ms(taken)}, {len(taken)} of them;"
          f" memory {agent.memory():.0f} MB")


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("build", type=pathlib.Path)
    p.add_argument("--processes", type=int, default=64)
    p.add_argument("--days", type=float, default=7)
    p.add_argument("--rounds", type=int, default=6)
    p.add_argument("--file", type=pathlib.Path)
    o = p.parse_args()
    if not chromium.find():
        sys.exit("history: there is no Chromium (package chromium)")
    with tempfile.TemporaryDirectory(prefix="eacgm-history-") as folder:
        store = o.file or pathlib.Path(folder) / "week.db"
        if not store.exists():
            began = time.monotonic()
            subprocess.run([o.build / "bench/week_store", store, str(o.processes), str(o.days),
                            str(int(time.time()))], check=True)
            print(f"a store of {o.processes} processes and {o.days:g} days: {store.stat().st_size / 1e9:.2f} GB,"
                  f" made in {time.monotonic() - began:.0f} s", flush=True)
        agent = Agent(o.build, os.path.abspath(store))
        try:
            measure(agent, o.rounds)
        finally:
            agent.end()


main()
