"""otlp.py - a receiver of OTLP over HTTP for tests: it decodes what comes by the whole schema of
OpenTelemetry, strictly, and answers as it is told.

The numbers of fields are those of opentelemetry/proto/*/v1/*.proto and profiles/v1development of
the public repository open-telemetry/opentelemetry-proto (ac2c4b5d1f3a, behind 1.11.0), written down
here by themselves: a field that the schema does not have, or of another type on the wire, is an
error. It also takes profiles as Pyroscope and Parca do.
"""

import base64
import gzip
import http.server
import json
import socket
import ssl
import struct
import threading
import urllib.parse

ATTRIBUTES = "KeyValue*"
SCHEMA = {
    "ExportMetricsServiceRequest": {1: ("resource_metrics", "ResourceMetrics*")},
    "ExportLogsServiceRequest": {1: ("resource_logs", "ResourceLogs*")},
    "ExportTraceServiceRequest": {1: ("resource_spans", "ResourceSpans*")},
    "ResourceMetrics": {1: ("resource", "Resource"), 2: ("scope_metrics", "ScopeMetrics*"),
                        3: ("schema_url", "string")},
    "ResourceLogs": {1: ("resource", "Resource"), 2: ("scope_logs", "ScopeLogs*"),
                     3: ("schema_url", "string")},
    "ResourceSpans": {1: ("resource", "Resource"), 2: ("scope_spans", "ScopeSpans*"),
                      3: ("schema_url", "string")},
    "Resource": {1: ("attributes", ATTRIBUTES), 2: ("dropped_attributes_count", "varint")},
    "InstrumentationScope": {1: ("name", "string"), 2: ("version", "string"),
                             3: ("attributes", ATTRIBUTES), 4: ("dropped_attributes_count", "varint")},
    "KeyValue": {1: ("key", "string"), 2: ("value", "AnyValue")},
    "AnyValue": {1: ("string_value", "string"), 2: ("bool_value", "bool"), 3: ("int_value", "int64"),
                 4: ("double_value", "double"), 7: ("bytes_value", "bytes")},
    "ScopeMetrics": {1: ("scope", "InstrumentationScope"), 2: ("metrics", "Metric*"),
                     3: ("schema_url", "string")},
    "Metric": {1: ("name", "string"), 2: ("description", "string"), 3: ("unit", "string"),
               5: ("gauge", "Gauge"), 7: ("sum", "Sum")},
    "Gauge": {1: ("data_points", "NumberDataPoint*")},
    "Sum": {1: ("data_points", "NumberDataPoint*"), 2: ("aggregation_temporality", "varint"),
            3: ("is_monotonic", "bool")},
    "NumberDataPoint": {7: ("attributes", ATTRIBUTES), 2: ("start_time_unix_nano", "fixed64"),
                        3: ("time_unix_nano", "fixed64"), 4: ("as_double", "double"),
                        6: ("as_int", "sfixed64"), 8: ("flags", "varint")},
    "ScopeLogs": {1: ("scope", "InstrumentationScope"), 2: ("log_records", "LogRecord*"),
                  3: ("schema_url", "string")},
    "LogRecord": {1: ("time_unix_nano", "fixed64"), 2: ("severity_number", "varint"),
                  3: ("severity_text", "string"), 5: ("body", "AnyValue"), 6: ("attributes", ATTRIBUTES),
                  7: ("dropped_attributes_count", "varint"), 8: ("flags", "fixed32"),
                  9: ("trace_id", "bytes"), 10: ("span_id", "bytes"),
                  11: ("observed_time_unix_nano", "fixed64"), 12: ("event_name", "string")},
    "ScopeSpans": {1: ("scope", "InstrumentationScope"), 2: ("spans", "Span*"),
                   3: ("schema_url", "string")},
    "Span": {1: ("trace_id", "bytes"), 2: ("span_id", "bytes"), 3: ("trace_state", "string"),
             4: ("parent_span_id", "bytes"), 5: ("name", "string"), 6: ("kind", "varint"),
             7: ("start_time_unix_nano", "fixed64"), 8: ("end_time_unix_nano", "fixed64"),
             9: ("attributes", ATTRIBUTES), 10: ("dropped_attributes_count", "varint"),
             15: ("status", "Status"), 16: ("flags", "fixed32")},
    "Status": {2: ("message", "string"), 3: ("code", "varint")},
    "ExportProfilesServiceRequest": {1: ("resource_profiles", "ResourceProfiles*"),
                                     2: ("dictionary", "ProfilesDictionary")},
    "ProfilesDictionary": {1: ("mapping_table", "Mapping*"), 2: ("location_table", "Location*"),
                           3: ("function_table", "Function*"), 4: ("link_table", "Link*"),
                           5: ("string_table", "string*"), 6: ("attribute_table", "KeyValueAndUnit*"),
                           7: ("stack_table", "Stack*")},
    "ResourceProfiles": {1: ("resource", "Resource"), 2: ("scope_profiles", "ScopeProfiles*"),
                         3: ("schema_url", "string")},
    "ScopeProfiles": {1: ("scope", "InstrumentationScope"), 2: ("profiles", "Profile*"),
                      3: ("schema_url", "string")},
    "Profile": {1: ("sample_type", "ValueType"), 2: ("samples", "Sample*"),
                3: ("time_unix_nano", "fixed64"), 4: ("duration_nano", "varint"),
                5: ("period_type", "ValueType"), 6: ("period", "int64"), 7: ("profile_id", "bytes"),
                8: ("dropped_attributes_count", "varint"), 9: ("original_payload_format", "string"),
                10: ("original_payload", "bytes"), 11: ("attribute_indices", "packed")},
    "Link": {1: ("trace_id", "bytes"), 2: ("span_id", "bytes")},
    "ValueType": {1: ("type_strindex", "varint"), 2: ("unit_strindex", "varint")},
    "Sample": {1: ("stack_index", "varint"), 2: ("attribute_indices", "packed"),
               3: ("link_index", "varint"), 4: ("values", "packed"),
               5: ("timestamps_unix_nano", "bytes")},
    "Mapping": {1: ("memory_start", "varint"), 2: ("memory_limit", "varint"),
                3: ("file_offset", "varint"), 4: ("filename_strindex", "varint"),
                5: ("attribute_indices", "packed")},
    "Stack": {1: ("location_indices", "packed")},
    "Location": {1: ("mapping_index", "varint"), 2: ("address", "varint"), 3: ("lines", "Line*"),
                 4: ("attribute_indices", "packed")},
    "Line": {1: ("function_index", "varint"), 2: ("line", "int64"), 3: ("column", "int64")},
    "Function": {1: ("name_strindex", "varint"), 2: ("system_name_strindex", "varint"),
                 3: ("filename_strindex", "varint"), 4: ("start_line", "int64")},
    "KeyValueAndUnit": {1: ("key_strindex", "varint"), 2: ("value", "AnyValue"),
                        3: ("unit_strindex", "varint")},
}
WIRE = {"varint": 0, "bool": 0, "int64": 0, "double": 1, "fixed64": 1, "sfixed64": 1, "fixed32": 5}
REQUESTS = {"/v1/metrics": "ExportMetricsServiceRequest", "/v1/logs": "ExportLogsServiceRequest",
            "/v1/traces": "ExportTraceServiceRequest"}


def varint(data, at):
    n = shift = 0
    while True:
        byte = data[at]
        at += 1
        n |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return n, at
        assert shift < 70, "a varint that does not end"


def scalar(kind, data, at):
    if kind in ("varint", "bool", "int64"):
        n, at = varint(data, at)
        n = n - (1 << 64) if kind == "int64" and n >> 63 else n
        return bool(n) if kind == "bool" else n, at
    size = 4 if kind == "fixed32" else 8
    form = {"double": "<d", "fixed64": "<Q", "sfixed64": "<q", "fixed32": "<I"}[kind]
    return struct.unpack(form, data[at:at + size])[0], at + size


def varints(data):
    found, at = [], 0
    while at < len(data):
        n, at = varint(data, at)
        found.append(n)
    return found


def decode(message, data):
    """A message as a dict; lists are there where the schema repeats."""
    found = {name: [] for name, kind in SCHEMA[message].values() if kind.endswith("*")}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        assert number in SCHEMA[message], "%s has no field %d" % (message, number)
        name, kind = SCHEMA[message][number]
        assert wire == WIRE.get(kind, 2), "%s.%s has the wire type %d" % (message, name, wire)
        if kind in WIRE:
            found[name], at = scalar(kind, data, at)
            continue
        size, at = varint(data, at)
        assert at + size <= len(data), "%s.%s is cut" % (message, name)
        part, at = data[at:at + size], at + size
        if kind == "string":
            found[name] = part.decode("utf-8")
        elif kind == "string*":
            found[name].append(part.decode("utf-8"))
        elif kind == "packed":
            found[name] = varints(part)
        elif kind == "bytes":
            found[name] = part
        elif kind.endswith("*"):
            found[name].append(decode(kind[:-1], part))
        else:
            assert name not in found, "%s.%s is there twice" % (message, name)
            found[name] = decode(kind, part)
    return found


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
        self.message = decode(REQUESTS[path], raw)
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
        message = decode("ExportProfilesServiceRequest", self.raw)
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
                            use("function_table", line["function_index"])
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
