#!/usr/bin/env python3
"""flops_test.py - shapes and floating-point operations of real PyTorch models on the CPU: equal to
what is worked out from the models' sizes, to the last operation."""

import json
import os

import gpu
from harness import EACGM, PYTHON, expect, main, needs_torch, test

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "flops_job.py")


def recorded(t, what, *options):
    needs_torch()
    rec = t.record([PYTHON, JOB, what], *options)
    rec.known = json.loads(rec.ran.out)
    rec.flops = rec.report["flops"]
    return rec


def expect_whole(rec):
    flops = rec.flops
    expect(rec.lost() == 0 and rec.lost("arg_fault") == 0, "lost: %r" % rec.report["recording"])
    expect(flops["coverage"]["calls_unknown"] == 0, "unknown: %r" % flops["coverage"])
    expect(flops["model_flop"] == rec.known["flop"],
           "counted %r, worked out %r: %r" % (flops["model_flop"], rec.known["flop"],
                                              flops["operators"]))
    expect(flops["hardware_flop"] == flops["model_flop"], "nothing is computed again here")
    expect(sum(o["model_flop"] for o in flops["operators"]) == flops["model_flop"], "rows")
    expect(flops["devices"] == 0 and flops["mfu_ratio"] is None, "there is no GPU")
    expect(0 < flops["host_ns"] <= flops["wall_ns"], "times: %r" % flops)


@test("a transformer's training: every operation is counted, none twice", 120)
def _(t):
    rec = recorded(t, "block")
    expect_whole(rec)
    expect({o["kind"] for o in rec.flops["operators"]} == {"matmul"}, "kinds")


@test("a CNN's training: groups, strides, transposed, gradients that nobody asked for", 120)
def _(t):
    rec = recorded(t, "cnn")
    expect_whole(rec)
    expect(rec.flops["coverage"]["calls_within"] > 0, "convolutions call each other")


@test("operators: shapes and data types as they were given", 120)
def _(t):
    rec = recorded(t, "operators", "--layers", "torch")
    expect_whole(rec)
    seen = {}
    for row in rec.calls:
        args = row.get("args") or {}
        if "a" in args:
            seen.setdefault(row["name"], []).append([args["a"], args["b"], args["dtype"]])
    known = rec.known["shapes"]
    for name, calls in known.items():
        expect(sorted(seen.get(name, []), key=str) == sorted(calls, key=str),
               "%s: %r, not %r" % (name, seen.get(name), calls))


@test("shapes in the formats that people read", 120)
def _(t):
    rec = recorded(t, "operators", "--layers", "torch", "--profile", "off")
    for name, words in (("csv", b"a=[3, 5];b=[5, 7];dtype=float32"), ("perfetto", b"[3, 5]"),
                        ("chrome", b'"a":[3,5],"b":[5,7],"dtype":"float32"')):
        out = t.path("calls." + name)
        r = t.run([EACGM, "export", rec.path, "-f", name, "-o", out])
        expect(r.status == 0, "export: %s" % r)
        with open(out, "rb") as f:
            expect(words in f.read(), "%s does not show %r" % (name, words))


@test("cuBLAS: sizes, batches and types of each of its functions", 60)
def _(t):
    rec = t.record([gpu.program("gemms")], "--layers", "cuda")
    rec.flops = rec.report["flops"]
    made = {name: int(n) for name, n in gpu.lines(rec.ran.out, "flop")}
    seen = {o["name"]: o["model_flop"] for o in rec.flops["operators"]}
    expect(seen == made and len(made) == 7, "counted %r, made %r" % (seen, made))
    formats = {o["name"]: o["format"] for o in rec.flops["operators"]}
    expect(formats == {"cublasSgemm_v2": "float32", "cublasDgemm_v2_64": "float64",
                       "cublasGemmEx": "float16", "cublasHgemmStridedBatched": "float16",
                       "cublasSgemmBatched": "float32", "cublasGemmBatchedEx": "float16",
                       "cublasGemmStridedBatchedEx": "float8"}, "formats: %r" % formats)


if __name__ == "__main__":
    raise SystemExit(main())
