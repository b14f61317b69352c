#!/usr/bin/env python3
"""layers_test.py - a layer that only a catalog file names is one like the others: it is chosen, and
shown, by its name."""

import json
import os

from harness import EACGM, LIBTARGET, expect, expect_one_line, main, target, test

CATALOG = """catalog: 1
layer: mylib
libraries: ["libtarget.so"]
probes:
  - id: mylib.push
    symbols: target_push
    signature: "(u64 a) -> u64"
  - id: mylib.slow
    layer: my-other
    symbols: target_sleep
  - id: mylib.rest
    layer: user
    symbols: [target_nop, target_outer]
"""


def catalog(t):
    with open(t.path("mylib.yaml"), "w") as f:
        f.write(CATALOG)
    return ["--catalog", t.path("mylib.yaml")]


def record(t, cmd, *options):
    return t.record([target("calls"), *cmd], *catalog(t), "--profile", "off", *options)


def layers_of(rec):
    return {f["layer"]: f["calls"] for f in rec.report["functions"]}


@test("its calls are recorded, counted and reported under its name")
def _(t):
    rec = record(t, ["threads", 500, 2])
    expect(layers_of(rec) == {"mylib": 1000, "user": 1000}, "layers: %r" % layers_of(rec))
    expect({c["layer"] for c in rec.calls} == {"mylib", "user"}, "other calls were exported")
    r = t.run([EACGM, "report", rec.path, "--layer", "mylib"])
    expect(r.status == 0 and "mylib" in r.out and "target_push" in r.out
           and "target_nop" not in r.out, "the report: %s" % r)


@test("--layers chooses it, and nothing else then")
def _(t):
    rec = record(t, ["threads", 500, 2], "--layers", "mylib")
    expect(layers_of(rec) == {"mylib": 1000}, "layers: %r" % layers_of(rec))
    rec = record(t, ["threads", 500, 2], "--layers", "my-other,user")
    expect(layers_of(rec) == {"user": 1000}, "layers: %r" % layers_of(rec))


@test("--mode keeps it, and it alone, as histograms")
def _(t):
    rec = record(t, ["threads", 500, 2], "--mode", "mylib=stats")
    expect(layers_of(rec) == {"mylib": 1000, "user": 1000}, "layers: %r" % layers_of(rec))
    expect({c["layer"] for c in rec.calls} == {"user"}, "calls were kept of both")


@test("calls of two of them are nested each in their own")
def _(t):
    rec = record(t, ["nested", 20, 3])
    expect(rec.function("target_outer", "user")["nested_calls"] == 0, "outer calls are not nested")
    expect(rec.function("target_push", "mylib")["nested_calls"] == 0,
           "inner calls are of another layer")


@test("exports show it")
def _(t):
    rec = record(t, ["threads", 5, 1])
    for form in ("csv", "chrome", "perfetto"):
        r = t.run([EACGM, "export", rec.path, "-f", form, "-o", t.path("out")])
        expect(r.status == 0, "export as %s: %s" % (form, r))
        with open(t.path("out"), "rb") as f:
            expect(b"mylib" in f.read(), "%s does not name the layer" % form)
        os.unlink(t.path("out"))


@test("probes list it, with the places where it attaches")
def _(t):
    r = t.run([EACGM, "probes", *catalog(t), "--layers", "mylib,my-other", "--json", LIBTARGET])
    expect(r.status == 0, "probes: %s" % r)
    rows = {(e["layer"], e["name"], e["attached"]) for e in json.loads(r.out)["entries"]}
    expect(rows == {("mylib", "mylib.push", True), ("my-other", "mylib.slow", True)},
           "entries: %r" % rows)


@test("watch shows it")
def _(t):
    job = t.start([target("calls"), "until", t.path("end"), 1, 20])
    r = t.run([EACGM, "watch", "-p", str(job.pid), "-d", "3", *catalog(t), "--layers", "mylib"])
    expect(r.status == 0, "watch: %s" % r)
    expect(any("mylib " in line and "/s" in line for line in r.out.splitlines()),
           "no line has its calls: %s" % r)


@test("what it has of its own and no library holds is told")
def _(t):
    with open(t.path("other.yaml"), "w") as f:
        f.write("catalog: 1\nlayer: absent\nlibraries: [libabsent.so]\n"
                "probes:\n  - {id: absent.all, symbols: absent_*}\n")
    rec = t.record([target("calls"), "threads", 5, 1], "--catalog", t.path("other.yaml"))
    notes = json.dumps(rec.report.get("notes", rec.report))
    expect("libabsent.so" in notes, "no note names the library: %s" % notes[:500])


@test("a layer that no file names is refused")
def _(t):
    for option, word in (("--layers", "mylib"), ("--mode", "mylib=stats")):
        r = t.run([EACGM, "record", "-o", t.path("none"), option, word, "--",
                   target("calls"), "threads", 1, 1])
        expect_one_line(r, "there is no layer 'mylib'", status=2)


main()
