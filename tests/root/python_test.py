#!/usr/bin/env python3
"""python_test.py - Python functions: as many calls as cProfile counts, where C enters
them; names, files and lines; the collector; imports."""

import collections
import json
import os

import pythons
from harness import expect, main, plain_name, skip, test

PYTHON = os.environ.get("EACGM_TEST_PYTHON", "/usr/bin/python3")
JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "python_job.py")
# Entered from C only; the other functions of the job may be called by Python code.
ENTERED_FROM_C = ("c_", "__next__", "__hash__", "__eq__", "__lt__", "__del__")


def of_job(rec):
    """(last part of the name, line) -> calls, of the functions in the job's file."""
    c = collections.Counter()
    for f in rec.report["functions"]:
        if f["layer"] == "python" and f.get("file", "").endswith("python_job.py"):
            c["%s:%d" % (plain_name(f).split(".")[-1], f["line"])] += f["calls"]
    return c


def compare(t, python, exact_prefixes):
    out = t.path("profile.json")
    r = t.run([python, JOB, out])
    expect(r.status == 0, "profiled: %s" % r)
    with open(out) as f:
        known = json.load(f)
    rec = t.record([python, JOB], "--layers", "python")
    seen = of_job(rec)
    wanted = {k: n for k, n in known.items() if k.startswith(exact_prefixes)}
    expect(len(wanted) >= 9, "cProfile names %d functions" % len(wanted))
    wrong = {k: (n, seen[k]) for k, n in wanted.items() if seen[k] != n}
    expect(not wrong, "cProfile's count and ours: %r" % wrong)
    expect(rec.lost() == 0, "lost: %r" % rec.report["recording"])
    return rec


@test("functions that C calls: as many as cProfile counts", 120)
def _(t):
    rec = compare(t, PYTHON, ENTERED_FROM_C)
    seen = of_job(rec)
    by_name = {k.split(":")[0]: n for k, n in seen.items()}
    script = {"c_map": 1000, "c_key": 500, "c_reduce": 300, "c_partial": 200, "c_replace": 150,
              "c_hook": 40, "c_raise": 90, "c_recurse": 105, "c_generate": 71, "__next__": 153}
    wrong = {k: (n, by_name.get(k)) for k, n in script.items() if by_name.get(k) != n}
    expect(not wrong, "the script's count and ours: %r" % wrong)


@test("other versions of Python on this machine: the same", 240)
def _(t):
    others = pythons.found()
    if not others:
        skip("no other Python")
    for version, exe in others.items():
        print("# %s: %s" % (version, exe))
        compare(t, exe, ("c_",))


@test("a virtual environment", 120)
def _(t):
    env = t.path("venv")
    if t.run([PYTHON, "-m", "venv", "--without-pip", env]).status:
        skip("no venv module")
    compare(t, os.path.join(env, "bin", "python3"), ("c_",))


@test("names, files and lines of Python functions")
def _(t):
    script = t.path("näme.py")
    with open(script, "w", encoding="utf-8") as f:
        f.write("class Outer:\n    class Innér:\n        def method(self, x):\n"
                "            return x\n\nlist(map(Outer.Innér().method, range(9)))\n"
                "list(map(lambda x: x, range(8)))\n")
    rec = t.record([PYTHON, script], "--layers", "python")
    rows = {(plain_name(f), f.get("line")): f for f in rec.report["functions"]
            if f.get("file", "").endswith("näme.py")}
    expect(("Outer.Innér.method", 3) in rows, "functions: %r" % list(rows))
    expect(rows[("Outer.Innér.method", 3)]["calls"] == 9, "calls")
    expect(rows[("<lambda>", 7)]["calls"] == 8, "lambda: %r" % list(rows))


@test("more functions than the kernel's table of code has room for: each has its name", 240)
def _(t):
    n, script = 70000, t.path("many.py")
    with open(script, "w") as f:
        f.write("import time, types\n"
                "def f(x):\n    return x\n"
                "kept, names = [], ['co_name', 'co_qualname']\n"
                "names = names[:1 + hasattr(f.__code__, 'co_qualname')]\n"
                "for i in range(%d):\n"
                "    code = f.__code__.replace(**{at: 'f%%d' %% i for at in names})\n"
                "    kept.append(types.FunctionType(code, {}))\n"
                "    list(map(kept[-1], (1,)))\n"
                "    i %% 100 or time.sleep(0.002)\n" % n)
    rec = t.record([PYTHON, script], "--layers", "python", "--profile", "off")
    seen = {plain_name(f) for f in rec.report["functions"] if f.get("file", "").endswith("many.py")}
    missing = [i for i in range(n) if "f%d" % i not in seen]
    expect(rec.lost("string_full") == 0 and not missing, "%d lost, %d missing, as f%s" % (
        rec.lost("string_full"), len(missing), missing[:1]))


@test("the garbage collector and imports")
def _(t):
    rec = t.record([PYTHON, "-c", "import gc, json\nfor i in range(12): gc.collect()"],
                   "--layers", "python")
    expect(rec.count("gc") >= 12, "gc: %d" % rec.count("gc"))
    expect(rec.count("import json") >= 1, "import of json: %r" % [
        plain_name(f) for f in rec.report["functions"]][:40])


@test("attached to a running interpreter")
def _(t):
    fifo = t.path("go")
    os.mkfifo(fifo)
    code = "def f(x): return x\nprint('ready', flush=True)\nopen(%r).read()\nlist(map(f, range(400)))"
    p = t.start([PYTHON, "-c", code % fifo], stdout=-1, stderr=-1, text=True)
    expect(p.stdout.readline() == "ready\n", "the job is ready")
    rec = t.start_record("-p", str(p.pid), "--layers", "python")
    with open(fifo, "w") as f:
        f.write("go\n")
    r = t.finish(p)
    expect(r.status == 0, "the job: %s" % r)
    rec.wait(timeout=30)
    expect(rec.recording.count("f") == 400, "f: %d" % rec.recording.count("f"))


if __name__ == "__main__":
    raise SystemExit(main())
