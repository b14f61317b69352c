"""prometheus.py - a Prometheus (Debian's package: prometheus) that scrapes one address each second, at
a port of its own on loopback, for tests and bench/scrape_http.py. Knows nothing of what it scrapes."""

import json
import os
import re
import shutil
import urllib.parse
import urllib.request

CONFIG = """global:
  scrape_interval: 1s
scrape_configs:
  - job_name: eacgm
    static_configs:
      - targets: ["127.0.0.1:%d"]
"""


UNPACKED = os.path.join(os.environ.get("EACGM_BUILD", ""), "prometheus/usr/bin")


def find(program="prometheus"):
    """Of the package that tools/unpack.sh has unpacked into the build folder, else one of PATH."""
    return shutil.which(program, path=UNPACKED) or shutil.which(program)


class Prometheus:
    def __init__(self, start, folder, port):
        """start: as subprocess.Popen; who gives it ends the process. port: of what is scraped."""
        config = os.path.join(folder, "prometheus.yml")
        with open(config, "w") as f:
            f.write(CONFIG % port)
        self.log = os.path.join(folder, "prometheus.log")
        with open(self.log, "w") as log:
            self.p = start([find(), "--config.file=" + config,
                            "--storage.tsdb.path=" + os.path.join(folder, "prometheus"),
                            "--web.listen-address=127.0.0.1:0"], stdout=log, stderr=log)

    def said(self):
        with open(self.log) as f:
            return f.read()

    def port(self):
        """None while it does not listen."""
        at = re.search(r"\baddress=127\.0\.0\.1:([1-9]\d*)", self.said())
        return at and int(at.group(1))

    def is_ready(self):
        return "Server is ready" in self.said()

    def ask(self, path, **query):
        """The data of an answer of /api/v1."""
        url = "http://127.0.0.1:%d/api/v1/%s?%s" % (self.port(), path,
                                                    urllib.parse.urlencode(query))
        with urllib.request.urlopen(url, timeout=20) as r:
            return json.load(r)["data"]

    def rows(self, query):
        """[(labels, value)] of a query of now that gives a vector."""
        return [(row["metric"], float(row["value"][1]))
                for row in self.ask("query", query=query)["result"]]
