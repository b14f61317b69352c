"""otlp.py - a receiver of OTLP over HTTP for tests: it decodes what comes by OpenTelemetry's own
definitions (protos.py), strictly, and answers as it is told. It also takes profiles as Pyroscope
and Parca do. Where the definitions are not there, its tests skip.
"""

import base64
import gzip
import http.server
import json
import socket
import ssl
import threading
import urllib.parse

import protos

OTLP = "opentelemetry.proto.collector."
REQUESTS = {"/v1/metrics": OTLP + "metrics.v1.ExportMetricsServiceRequest",
            "/v1/logs": OTLP + "logs.v1.ExportLogsServiceRequest",
            "/v1/traces": OTLP + "trace.v1.ExportTraceServiceRequest"}
PROFILES = OTLP + "profiles.v1development.ExportProfilesServiceRequest"


def attributes(message):
    """{key: value}, each once."""
    pairs = [(kv["key"], next(iter(kv["value"].values()))) for kv in message["attributes"]]
    assert len(dict(pairs)) == len(pairs), "twice: %r" % pairs
    return dict(pairs)


def unpacked(headers, wire):
    assert headers["Content-Type"] == "application/x-protobuf", headers
    return gzip.decompress(wire) if headers.get("Content-Encoding") == "gzip" else wire


class Question:
    def __init__(self, path, headers, wire):
        self.path, self.headers, self.wire_bytes = path, headers, len(wire)
        raw = unpacked(headers, wire)
        self.bytes = len(raw)
        self.message = protos.decode("opentelemetry", REQUESTS[path], raw)
        rows = next(iter(self.message.values()))
        assert len(rows) == 1, "one resource"
        self.resource = attributes(rows[0]["resource"])
        scope = next(v for k, v in rows[0].items() if k.startswith("scope_"))[0]
        assert scope["scope"]["name"] == "eacgm" and scope["scope"]["version"], scope["scope"]
        self.rows = next(v for k, v in scope.items() if k in ("metrics", "log_records", "spans"))

    def points(self):
        """{name: [(attributes, value, point, metric)]}"""
        found = {}
        for m in self.rows:
            assert m["name"] not in found, "%s is there twice" % m["name"]
            kind = m.get("sum") or m["gauge"]
            if "sum" in m:
                assert kind["aggregation_temporality"] == 2, "cumulative"
            found[m["name"]] = [(attributes(p), p["as_double"], p, m) for p in kind["data_points"]]
            seen = [row[0] for row in found[m["name"]]]
            assert all(seen.count(x) == 1 for x in seen), "%s: a point is there twice" % m["name"]
        return found


def told(row):
    """What a row of a table says: "" and 0 are as if they were not there."""
    return {k: v for k, v in row.items() if v} if isinstance(row, dict) else row


class Profiles:
    """OTLP's profiles: .of is a list of (attributes of the resource, profile)."""

    def __init__(self, path, headers, wire):
        self.path, self.headers, self.raw = path, headers, unpacked(headers, wire)
        message = protos.decode("opentelemetry", PROFILES, self.raw)
        self.tables = message["dictionary"]
        self.of = []
        for r in message["resource_profiles"]:
            assert r["scope_profiles"][0]["scope"]["name"] == "eacgm", r
            self.of += [(attributes(r["resource"]), p) for p in r["scope_profiles"][0]["profiles"]]
        self.check()

    def check(self):
        """The rules of the schema: a first row that is empty, no row twice, none that nobody has."""
        used = {name: {0} for name in self.tables}

        def use(table, n):
            assert 0 <= n < len(self.tables[table]), (table, n)
            used[table].add(n)
        for name, rows in self.tables.items():
            if name == "link_table":
                assert rows == [{"trace_id": bytes(16), "span_id": bytes(8)}], rows
                continue
            assert not told(rows[0]), (name, rows[0])
            assert len({repr(told(row)) for row in rows}) == len(rows), name
            for row in rows if name != "string_table" else ():
                for key, value in row.items():
                    if key.endswith("_strindex"):
                        use("string_table", value)
                    elif key == "mapping_index":
                        use("mapping_table", value)
                    elif key in ("attribute_indices", "location_indices"):
                        for n in value:
                            use(key.replace("_indices", "_table"), n)
                    elif key == "lines":
                        for line in value:
                            use("function_table", line.get("function_index", 0))
        for _resource, p in self.of:
            for kind in (p["sample_type"], p["period_type"]):
                use("string_table", kind["type_strindex"])
                use("string_table", kind["unit_strindex"])
            stacks = [s.get("stack_index", 0) for s in p["samples"]]
            assert len(set(stacks)) == len(stacks) and len(p["profile_id"]) == 16, p
            for s in p["samples"]:
                use("stack_table", s.get("stack_index", 0))
                assert len(s["values"]) == 1, s
        for name, rows in self.tables.items():
            assert len(used[name]) == len(rows), "nobody has all of %s" % name

    def string(self, n):
        return self.tables["string_table"][n]

    def attribute(self, row, key):
        for n in row.get("attribute_indices", ()):
            a = self.tables["attribute_table"][n]
            if self.string(a["key_strindex"]) == key:
                return next(iter(a["value"].values()))
        return None

    def stacks(self, profile):
        """{(names, the leaf first): weight}"""
        t, found = self.tables, {}
        for s in profile["samples"]:
            at = t["stack_table"][s.get("stack_index", 0)].get("location_indices", ())
            names = tuple(self.string(t["function_table"][t["location_table"][n]["lines"][0][
                "function_index"]]["name_strindex"]) for n in at)
            found[names] = found.get(names, 0) + s["values"][0]
        return found


class Profile:
    """A body of Pyroscope's /ingest: pprof, gzipped by who made it."""

    def __init__(self, path, headers, wire):
        self.path, _, query = path.partition("?")
        self.query = {k: v[0] for k, v in urllib.parse.parse_qs(query, strict_parsing=True).items()}
        assert "Content-Encoding" not in headers, headers
        self.headers, self.pprof = headers, gzip.decompress(wire)


class ParcaProfile:
    """A question of Parca's WriteRaw, as its gateway takes it: protobuf's JSON."""

    def __init__(self, path, headers, wire):
        assert headers["Content-Type"] == "application/json" and \
            "Content-Encoding" not in headers, headers  # the gateway unpacks nothing
        self.path, self.headers = path, headers
        message = json.loads(wire)
        assert set(message) == {"series", "normalized"} and len(message["series"]) == 1, message
        series = message["series"][0]
        assert set(series) == {"labels", "samples"} and set(series["labels"]) == {"labels"}, series
        pairs = [(x["name"], x["value"]) for x in series["labels"]["labels"]]
        self.labels = dict(pairs)
        assert len(self.labels) == len(pairs) and len(series["samples"]) == 1, pairs
        assert set(series["samples"][0]) == {"rawProfile"}, series["samples"]
        self.pprof = gzip.decompress(base64.b64decode(series["samples"][0]["rawProfile"], validate=True))


KINDS = {"/ingest": Profile, "/api/profiles/writeraw": ParcaProfile,
         "/v1development/profiles": Profiles}


class Receiver:
    """answer(path, n) -> (status, headers, body) of the n-th question, or None: it says nothing."""

    def __init__(self, answer=None, port=0, tls=None):
        protos.need()
        self.questions, self.attempts, self.wrong = [], [], []
        self.answer = answer or (lambda path, n: (200, {}, b""))
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.take(self, body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, request, client_address):
                pass
        self.server = Server(("127.0.0.1", port), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                     do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.open = []
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def url(self, path=""):
        return "http://127.0.0.1:%d%s" % (self.port, path)

    def take(self, handler, body):
        said = self.answer(handler.path, len(self.attempts))
        self.attempts.append((handler.path, said and said[0]))
        self.open.append(handler.connection)
        if said is None:
            return
        status, headers, text = said
        if status == 200:
            try:
                kind = KINDS.get(handler.path.partition("?")[0], Question)
                self.questions.append(kind(handler.path, handler.headers, body))
            except Exception as e:  # noqa: BLE001 - told by the test
                self.wrong.append(repr(e))
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    def of(self, path):
        assert not self.wrong, self.wrong
        return [q for q in self.questions if q.path == path]

    def rows(self, path):
        return [row for q in self.of(path) for row in q.rows]

    def close(self):
        """As where its process is killed: what is open is cut."""
        self.server.shutdown()
        self.server.server_close()
        for s in self.open:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
