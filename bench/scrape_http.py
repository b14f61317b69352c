#!/usr/bin/env python3
"""scrape_http.py - how long a scrape of made-up series takes through the agent's server: by Prometheus
itself (its scrape_duration_seconds, with its own reading of the answer), and by a plain GET.

usage: scrape_http.py BUILD [--scrapes N] [PROCESSES FUNCTIONS_EACH COUNTERS_EACH GPUS]

The series are those of BUILD/bench/scrape, which serves them: 34 114 60 8, the default, are 10,166.
Nothing is traced meanwhile, and no lock is waited for. What Prometheus itself takes is told by the same
text from a server that has it ready. Of a GET also the server's CPU time is told, in which other work of
the machine has no part. Needs Prometheus (Debian's package: prometheus).
"""
import argparse
import http.server
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/root"))
import prometheus  # noqa: E402


def ready_server(port):
    """A server that answers what the other one would."""
    q = urllib.request.Request(f"http://127.0.0.1:{port}/metrics",
                               headers={"Accept": "application/openmetrics-text"})
    with urllib.request.urlopen(q, timeout=30) as r:
        body, kind = r.read(), r.headers["Content-Type"]

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass
    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def get(port):
    """Seconds and bytes of one answer."""
    began = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as r:
        size = len(r.read())
    return time.monotonic() - began, size


def cpu_ns(pid):
    """Of all its threads (proc(5), schedstat)."""
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))


def ms(values):
    usual = sorted(values)[int(0.95 * len(values))]
    return (f"median {1e3 * statistics.median(values):.1f} ms, 95 of 100 up to {1e3 * usual:.1f},"
            f" longest {1e3 * max(values):.1f} ({len(values)})")


def by_prometheus(port, scrapes):
    """Seconds of each of that many scrapes, and the samples of the last."""
    with tempfile.TemporaryDirectory(prefix="eacgm-scrape-") as folder:
        p = prometheus.Prometheus(subprocess.Popen, folder, port)
        try:
            while not p.is_ready() or not p.rows("scrape_duration_seconds"):
                if p.p.poll() is not None:
                    sys.exit("scrape_http: " + p.said())
                time.sleep(0.1)
            time.sleep(scrapes)
            found = p.ask("query", query=f"scrape_duration_seconds[{scrapes}s]")["result"][0]
            if [v for _, v in p.rows("up")] != [1]:
                sys.exit(f"scrape_http: {p.ask('targets')}")
            return [float(v) for _, v in found["values"]], p.rows("scrape_samples_scraped")[0][1]
        finally:
            p.p.terminate()
            p.p.wait()


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("build", type=pathlib.Path)
    p.add_argument("--scrapes", type=int, default=60)
    p.add_argument("size", nargs="*", default=["34", "114", "60", "8"])
    o = p.parse_args()
    if not prometheus.find():
        sys.exit("scrape_http: there is no Prometheus (package prometheus)")
    serves = subprocess.Popen([o.build / "bench/scrape", *o.size, "serve"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    try:
        port = int(serves.stdout.readline())
        taken, samples = by_prometheus(port, o.scrapes)
        before = cpu_ns(serves.pid)
        answers = [get(port) for _ in range(o.scrapes)]
        each = (cpu_ns(serves.pid) - before) / o.scrapes
        with ready_server(port) as ready:
            own, _ = by_prometheus(ready.server_port, o.scrapes)
            ready.shutdown()
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs; {samples:.0f} samples,"
              f" {answers[0][1]} bytes\n"
              f"GET: {ms([a for a, _ in answers])}; the server's CPU time {each / 1e6:.1f} ms each\n"
              f"scrape_duration_seconds: {ms(taken)}\n"
              f"of a text that is ready: {ms(own)}")
    finally:
        serves.stdin.close()
        serves.wait()


if __name__ == "__main__":
    main()
