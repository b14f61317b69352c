#!/usr/bin/env python3
"""flops_check.py - on a GPU host: what eacgm counts equals what PyTorch's FlopCounterMode counts,
for GPT-2, a CNN and a CUDA graph (jobs/flops.py).

usage: sudo python3 tests/gpu/flops_check.py EACGM [PYTHON [KIND...]]

Prints TAP and, for each, speed, utilisation and coverage."""

import json
import os
import subprocess
import sys
import tempfile

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs", "flops.py")


def last_json(text):
    return json.loads([line for line in text.splitlines() if line.startswith("{")][-1])


def check(eacgm, python, kind, folder):
    """The report's "flops", and what it should have counted."""
    counted = subprocess.run([python, JOB, kind, "--count"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    path = os.path.join(folder, kind + ".eacgm")
    ran = subprocess.run([eacgm, "record", "--gpu-timeline", "--profile", "off", "-o", path, "--",
                          python, JOB, kind], check=True, text=True, stdout=subprocess.PIPE).stdout
    report = subprocess.run([eacgm, "report", "--json", path], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    known = last_json(counted)["flop"] * last_json(ran)["steps"]
    return json.loads(report)["flops"], known


def percent(ratio):
    return "unknown" if ratio is None else "%.2f %%" % (100 * ratio)


def main():
    eacgm, python = sys.argv[1], (sys.argv + [sys.executable])[2]
    kinds = sys.argv[3:] or ["gpt2", "cnn", "graph"]
    failed = 0
    print("1..%d" % len(kinds))
    with tempfile.TemporaryDirectory(prefix="eacgm-flops-") as folder:
        for i, kind in enumerate(kinds):
            flops, known = check(eacgm, python, kind, folder)
            good = flops["hardware_flop"] == known and not flops["coverage"]["calls_unknown"]
            failed += not good
            print("%sok %d - %s: counted %d, FlopCounterMode %d" % (
                "" if good else "not ", i + 1, kind, flops["hardware_flop"], known))
            print("# MFU %s, HFU %s, %r TFLOP/s in its kernels, covers %s; %r" % (
                percent(flops["mfu_ratio"]), percent(flops["hfu_ratio"]),
                flops["tflops_counted"], percent(flops["coverage"]["ratio"]), flops["coverage"]))
            for row in flops["operators"][:6] + flops["graphs"][:3]:
                print("#   %s %s: %d calls, %r TFLOP/s" % (row["name"], row["format"],
                                                           row["calls"], row["tflops"]))
            print("# others: %r" % [(o["name"][:60], o["ns"]) for o in flops["others"][:5]])
            sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
