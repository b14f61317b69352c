"""Reads a Perfetto trace back through protoc and checks that it holds together.

Decodes with the minimal schema in src/export/perfetto.proto, so a field with a wrong
number or type shows as a bare number and fails. Knows nothing of eacgm's own code.
"""
import re
import subprocess
import sys
from collections import defaultdict

CLEARED, NEEDS_STATE = 1, 2
MONOTONIC, REALTIME = 3, 1
WORK_FLOW = 1 << 62  # numbers from here on: src/export/work_flows.h
CALL_FLOW = 1 << 61  # likewise: src/export/call_flows.h
NODE = "autograd::engine::evaluate_function: "  # as torch.profiler names nodes
LINE = re.compile(r'^\s*(?:(\w+) \{|(\w+): (.*)|(\}))\s*$')
ESCAPE = re.compile(rb'\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)', re.S)
PLAIN = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}


class Bad(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Bad(what)


def unescape(match):
    text = match.group(1)
    if text[:1].isdigit():
        return bytes([int(text, 8)])
    if text[:1] == b"x" and len(text) > 1:
        return bytes([int(text[1:], 16)])
    return PLAIN.get(text, text)


def value(text):
    if text.startswith('"'):
        return ESCAPE.sub(unescape, text[1:-1].encode()).decode(errors="surrogateescape")
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text  # the name of an enum's value


def parse(text):
    """protoc's text format as {field: [values]}."""
    root = defaultdict(list)
    stack = [root]
    for line in text.splitlines():
        match = LINE.match(line)
        need(match, f"cannot read {line!r}")
        message, field, rest, end = match.groups()
        name = message or field
        # protoc shows fields that the schema lacks by their number
        need(not name or not name.isdigit(), f"field {name} is not in the schema")
        if message:
            stack[-1][message].append(defaultdict(list))
            stack.append(stack[-1][message][-1])
        elif end:
            stack.pop()
        else:
            stack[-1][field].append(value(rest))
    need(len(stack) == 1, "braces do not match")
    return root


def one(message, field, default=None):
    values = message.get(field, [])
    need(len(values) <= 1, f"{field} is given {len(values)} times")
    return values[0] if values else default


class Trace:
    """Tracks, slices, instants and counters, with all interned numbers resolved."""

    def __init__(self, root):
        self.tracks, self.slices, self.instants = {}, [], []
        self.flows = defaultdict(list)  # number: [slice, ...] in order of writing
        self.counters = defaultdict(list)
        self.clocks = {}
        self.interned = defaultdict(dict)
        self.open = defaultdict(list)
        self.now = {}
        self.work_flows = 0  # from calls to GPU slices
        self.backward = []  # an operator and the backward node that it made
        self.samples = []  # of threads: pid, tid, time, stack
        packets = root["packet"]
        need(packets, "no packets")
        for index, packet in enumerate(packets):
            self.packet(index, packet)
        for number, rows in self.flows.items():
            need(len(rows) == 2, f"flow {number} has {len(rows)} ends")
            if number >= WORK_FLOW:
                self.work_flow(number, *rows)
            elif number >= CALL_FLOW:
                self.call_flow(number, *rows)
        for track, spans in self.open.items():
            need(not spans, f"{spans} never end on {self.tracks[track]}")

    def work_flow(self, number, call, work):
        """From a call of a thread to what it started on a stream, which did not begin before."""
        need(call["track"]["kind"] == "thread", f"flow {number} leaves {call['track']}")
        device = self.device(work)
        need(device, f"flow {number} ends on no stream")
        need(call["track"]["parent"] == device["parent"], f"flow {number} leaves its process")
        need(call["args"]["correlation"] == work["args"]["correlation"],
             f"flow {number} joins two correlations")
        need(call["start"] <= work["start"], f"flow {number} goes back in time")
        self.work_flows += 1

    def device(self, row):
        """The track of the GPU that a slice ran on, None for one of no GPU."""
        parent = self.tracks.get(row["track"]["parent"])
        return parent if parent and re.fullmatch(r"GPU -?\d+", parent["name"] or "") else None

    def gpu_slices(self):
        return [s for s in self.slices if self.device(s)]

    def call_flow(self, number, *rows):
        """The two threads' calls come in any order."""
        operator, node = sorted(rows, key=lambda row: row["start"])
        need(node["name"].startswith(NODE) and "Backward" in node["name"],
             f"flow {number} ends at {node['name']}")
        self.backward.append((operator["name"], node["name"].removeprefix(NODE)))

    def packet(self, index, p):
        need(one(p, "trusted_packet_sequence_id") == 1, "packet without sequence")
        flags = one(p, "sequence_flags")
        need(flags == (CLEARED if index == 0 else NEEDS_STATE), f"sequence flags {flags}")
        if index == 0:
            defaults = one(p, "trace_packet_defaults")
            need(defaults and one(defaults, "timestamp_clock_id") == MONOTONIC, "no default clock")
            self.clock_snapshot(one(p, "clock_snapshot"))
        self.intern(one(p, "interned_data", {}))
        if p.get("track_descriptor"):
            self.track(one(p, "track_descriptor"))
        if p.get("track_event"):
            self.event(one(p, "timestamp"), one(p, "track_event"))
        if p.get("perf_sample"):
            sample = one(p, "perf_sample")
            self.samples.append((one(sample, "pid"), one(sample, "tid"), one(p, "timestamp"),
                                 self.stack(sample)))

    def clock_snapshot(self, snapshot):
        need(snapshot, "the first packet has no clock snapshot")
        for clock in snapshot["clocks"]:
            self.clocks[one(clock, "clock_id")] = one(clock, "timestamp")
        need(MONOTONIC in self.clocks, "no monotonic clock")
        need(one(snapshot, "primary_trace_clock") == "BUILTIN_CLOCK_MONOTONIC", "primary clock")

    def intern(self, data):
        for kind in ("event_categories", "event_names", "debug_annotation_names"):
            for row in data.get(kind, []):
                self.define(kind, one(row, "iid"), one(row, "name"))
        for row in data.get("debug_annotation_string_values", []):
            self.define("strings", one(row, "iid"), one(row, "str", ""))
        for row in data.get("source_locations", []):
            self.define("places", one(row, "iid"), (one(row, "file_name"), one(row, "line_number"),
                                                    one(row, "function_name")))

        self.intern_stacks(data)

    def intern_stacks(self, data):
        for kind in ("function_names", "mapping_paths", "source_paths", "build_ids"):
            for row in data.get(kind, []):
                self.define(kind, one(row, "iid"), one(row, "str", ""))
        for row in data.get("mappings", []):
            self.define("mappings", one(row, "iid"),
                        "/".join(self.lookup("mapping_paths", i) for i in row["path_string_ids"]))
        for row in data.get("frames", []):
            name, source = one(row, "function_name_id"), one(row, "source_path_iid")
            self.define("frames", one(row, "iid"), {
                "name": self.lookup("function_names", name) if name else "",
                "mapping": self.lookup("mappings", one(row, "mapping_id")),
                "address": one(row, "rel_pc"), "line": one(row, "line_number"),
                "source": self.lookup("source_paths", source) if source else "",
                "kind": one(row, "kind")})
        for row in data.get("callstacks", []):
            need(row["frame_ids"], "an empty stack")
            self.define("callstacks", one(row, "iid"),
                        [self.lookup("frames", i) for i in row["frame_ids"]])

    def stack(self, message):
        iid = one(message, "callstack_iid")
        return self.lookup("callstacks", iid) if iid else None

    def define(self, kind, iid, what):
        need(iid, f"{kind}: number 0 means none")
        need(iid not in self.interned[kind], f"{kind} {iid} is defined twice")
        self.interned[kind][iid] = what

    def lookup(self, kind, iid):
        need(iid in self.interned[kind], f"{kind} {iid} is used before it is defined")
        return self.interned[kind][iid]

    def track(self, d):
        uuid, rank = one(d, "uuid"), one(d, "sibling_order_rank")
        if uuid == 0:
            need(not self.tracks, "the root comes behind other tracks")
            need(one(d, "process_ordering") == "PROCESS_ORDERING_EXPLICIT", "processes' order")
            need(one(d, "thread_ordering") == "THREAD_ORDERING_EXPLICIT", "threads' order")
            self.tracks[0] = {"kind": "root", "name": None, "parent": None}
            return
        need(0 in self.tracks, "no root")
        need(uuid not in self.tracks, f"track {uuid} is described twice")
        parent = one(d, "parent_uuid")
        need(parent is None or parent in self.tracks, f"track {uuid}: parent {parent} is unknown")
        row = {"kind": "plain", "name": one(d, "name"), "parent": parent, "rank": rank,
               "ordering": one(d, "child_ordering")}
        for kind in ("process", "thread", "counter"):
            if d.get(kind):
                fields = one(d, kind)
                row.update({k: v[0] if len(v) == 1 else v for k, v in fields.items()}, kind=kind)
        need(rank or row["kind"] not in ("process", "thread"), f"{row} has no place")
        need(rank is None or row["kind"] in ("process", "thread")
             or self.tracks[parent]["ordering"] == "EXPLICIT", f"the place of {row} has no meaning")
        self.tracks[uuid] = row

    def args(self, event):
        args = {}
        for a in event.get("debug_annotations", []):
            name = one(a, "name")
            if name is None:
                name = self.lookup("debug_annotation_names", one(a, "name_iid"))
            kinds = [k for k in a if k not in ("name", "name_iid")]
            need(len(kinds) == 1, f"annotation {name} has values {kinds}")
            v = one(a, kinds[0])
            if kinds[0] == "string_value_iid":
                v = self.lookup("strings", v)
            args[name] = (kinds[0].replace("_value", "").replace("_iid", ""), v)
        return args

    def event(self, time, e):
        uuid, kind = one(e, "track_uuid"), one(e, "type")
        need(uuid in self.tracks, f"event on unknown track {uuid}")
        track = self.tracks[uuid]
        if kind == "TYPE_COUNTER":
            need(track["kind"] == "counter", "counter value on another track")
            self.counters[uuid].append((time, one(e, "double_counter_value")))
            return
        need(time >= self.now.get(uuid, 0), f"time goes back on {track}")
        self.now[uuid] = time
        if kind == "TYPE_SLICE_END":
            need(self.open[uuid], f"end without begin on {track}")
            row = self.open[uuid].pop()
            row["end"] = time
            self.slices.append(row)
            return
        row = {"track": track, "start": time, "args": self.args(e), "depth": len(self.open[uuid]),
               "stack": self.stack(e)}
        row["name"] = one(e, "name") or self.lookup("event_names", one(e, "name_iid"))
        row["categories"] = [self.lookup("event_categories", c)
                             for c in e.get("category_iids", [])] + e.get("categories", [])
        place = one(e, "source_location_iid")
        row["place"] = self.lookup("places", place) if place else None
        if kind == "TYPE_SLICE_BEGIN":
            self.open[uuid].append(row)
            self.flow(e, row)
        else:
            need(kind == "TYPE_INSTANT", f"event of type {kind}")
            self.instants.append(row)


    def flow(self, event, row):
        for number in event.get("flow_ids", []):
            need(number and (not self.flows[number] or CALL_FLOW <= number < WORK_FLOW),
                 f"flow {number} begins twice")
            self.flows[number].append(row)
        for number in event.get("terminating_flow_ids", []):
            begun = len(self.flows[number])
            need(begun == 1 or (not begun and CALL_FLOW <= number < WORK_FLOW),
                 f"flow {number} ends without a begin, or twice")
            self.flows[number].append(row)


def decode(path, proto):
    with open(path, "rb") as f:
        done = subprocess.run(
            ["protoc", "--decode=eacgm.Trace", f"--proto_path={proto.parent}", proto.name],
            stdin=f, capture_output=True, check=False)
    need(done.returncode == 0, f"protoc: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode()


if __name__ == "__main__":
    import pathlib
    schema = pathlib.Path(__file__).resolve().parents[2] / "src/export/perfetto.proto"
    try:
        t = Trace(parse(decode(sys.argv[1], schema)))
    except Bad as bad:
        sys.exit(f"perfetto_check: {bad}")
    print(f"{len(t.tracks)} tracks, {len(t.slices)} slices, {len(t.instants)} instants, "
          f"{sum(map(len, t.counters.values()))} counter values, {t.work_flows} arrows to the GPU")
