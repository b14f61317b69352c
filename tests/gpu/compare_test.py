#!/usr/bin/env python3
"""compare_test.py - the comparisons of compare.py and the readers of jobs/ on hand-made input:
equal input is equal, and each single change is noticed. Needs neither GPU nor PyTorch."""

import copy
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "jobs"))

import compare  # noqa: E402
import job  # noqa: E402
import nccl  # noqa: E402

TRACE = [
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "args": {"correlation": 7}},
    {"ph": "X", "cat": "cuda_driver", "name": "cuGraphLaunch", "args": {"correlation": 7}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": 8}},
    {"ph": "X", "cat": "kernel", "name": "k1(int)", "args": {"correlation": 8,
                                                            "graph node id": 0}},
    {"ph": "X", "cat": "kernel", "name": "k1(int)", "args": {"correlation": 7}},
    {"ph": "X", "cat": "kernel", "name": "_Z2k2v", "args": {"graph node id": 5}},
    {"ph": "X", "cat": "kernel", "name": "memcpy128", "args": {"graph node id": 6}},
    {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)",
     "args": {"bytes": 100, "correlation": 9}},
    {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "args": {"bytes": 4}},
    {"ph": "X", "cat": "gpu_user_annotation", "name": "step", "args": {}},
    {"ph": "M", "name": "process_name"},
]
REPORT = {
    "kernels": [{"name": "k1(int)", "launches": 1, "graph_kernels": 1},
                {"name": "k2()", "launches": 0, "graph_kernels": 1}],
    "cuda": {"launches": 1, "captured": 2, "named": 3, "graph_launches": 1, "graph_kernels": 2,
             "graph_launches_unknown": 0},
    "copies": [{"direction": "HtoD", "kind": "copy", "calls": 1, "bytes": 100,
                "graph_nodes_run": 0},
               {"direction": "DtoD", "kind": "copy", "calls": 0, "bytes": 64,
                "graph_nodes_run": 1},
               {"direction": None, "kind": "set", "calls": 1, "bytes": 4, "graph_nodes_run": 0}],
    "errors": [{"function": "cudaMalloc", "code": 2, "name": "cudaErrorMemoryAllocation",
                "calls": 4},
               {"function": "cuMemAlloc_v2", "code": 2, "name": "CUDA_ERROR_OUT_OF_MEMORY",
                "calls": 9}],
    "memory": [{"pid": 5, "device": 0, "live_bytes": 0, "peak_bytes": 400 << 20,
                "leaked_bytes": 300 << 20, "leaked_count": 2, "allocs": 3, "frees": 1}],
    "collectives": [
        {"function": "ncclAllReduce", "comm_hash": "0xa1", "pid": 5, "rank": 0, "size": 2,
         "calls": 2, "bytes": 80},
        {"function": "ncclBcast", "comm_hash": "0xa1", "pid": 5, "rank": 0, "size": 2,
         "calls": 1, "bytes": 8},
        {"function": "ncclAllReduce", "comm_hash": "0xa1", "pid": 6, "rank": 1, "size": 2,
         "calls": 2, "bytes": 80},
        {"function": "ncclBroadcast", "comm_hash": "0xa1", "pid": 6, "rank": 1, "size": 2,
         "calls": 1, "bytes": 8}],
    "communicators": [
        {"pid": 5, "hash": "0xa1", "rank": 0, "size": 2, "device": 0, "calls": 3, "bytes": 88},
        {"pid": 6, "hash": "0xa1", "rank": 1, "size": 2, "device": 1, "calls": 3, "bytes": 88}],
}
GRAPHS = {"graph_launches_made": 1, "graph_kernels_made": 2,
          "kernel_nodes_captured_in_window": 2}
COPIES = [{"direction": "HtoD", "kind": "copy", "calls": 1, "bytes": 100},
          {"direction": None, "kind": "set", "calls": 1, "bytes": 4}]
ERRORS = [{"function": "cudaMalloc", "below": "cuMemAlloc_v2", "code": 2, "calls": 4},
          {"function": "cuMemAlloc_v2", "below": None, "code": 2, "calls": 5}]
MEMORY = {"pid": 5, "live_bytes": 300 << 20, "peak_bytes": 400 << 20, "allocs": 3, "frees": 1,
          "leaked_bytes": 300 << 20, "leaked_count": 2,
          "checkpoints": [{"nvml_bytes": 500 << 20}, {"nvml_bytes": 810 << 20}]}
CUPTI_KB = [652304, 689728, 700028, 700096, 700152, 700212, 700988, 701036, 701144]
ATTACHED_KB = [1296716, 1296932, 1299616, 1299964, 1300092, 1300084, 1300252, 1303468, 1303408]
FUNCTIONS = {"ncclAllReduce": {"calls": 2, "bytes": 80}, "ncclBroadcast": {"calls": 1, "bytes": 8}}
NCCL = {"ranks": [
    {"pid": 5, "rank": 0, "communicators": [
        {"name": "world", "rank": 0, "size": 2, "functions": FUNCTIONS, "comm_hash": "0xa1"}]},
    {"pid": 6, "rank": 1, "communicators": [
        {"name": "world", "rank": 1, "size": 2, "functions": FUNCTIONS, "comm_hash": "0xa1"}]}]}
LOG = """host:1:2 [0] NCCL INFO ncclCommInitRankConfig comm 0x55f0 rank 1 nranks 2 cudaDev 1 \
nvmlDev 1 busId 1b000 commId 0xa1 - Init START
host:1:2 [0] NCCL INFO ncclCommInitRankConfig comm 0x55f0 rank 1 nranks 2 cudaDev 1 nvmlDev 1 \
busId 1b000 commId 0xa1 - Init COMPLETE
host:1:2 [0] NCCL INFO ncclCommSplit comm 0x66f0 rank 0 nranks 1 cudaDev 1 nvmlDev 1 busId \
1b000 parent 0x55f0 splitCount 1 color 3 key 0 - Init COMPLETE
"""

tests = []


def test(name):
    def add(fn):
        tests.append((name, fn))
        return fn
    return add


def set_at(data, path, value):
    changed = copy.deepcopy(data)
    at = changed
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return changed


def notices(fn, made, changes):
    """Nothing differs at first; every change of the report is noticed."""
    assert fn(made, REPORT) == [], fn(made, REPORT)
    for path, value in changes:
        assert fn(made, set_at(REPORT, path, value)), "%r = %r is not noticed" % (path, value)


@test("a trace's kernels, copies and graphs are told apart")
def _():
    p = job.device_events(TRACE)
    assert p["kernels"] == {"k1(int)": 2, "_Z2k2v": 1, "memcpy128": 1}, p
    assert p["direct_kernels"] == {"k1(int)": 1} and p["graph_launches"] == 1, p
    assert p["graph_kernels"] == {"k1(int)": 1, "_Z2k2v": 1, "memcpy128": 1}, p
    assert [(c["kind"], c["direction"], c["bytes"]) for c in p["cupti_copies"]] == [
        ("copy", "HtoD", 100), ("set", None, 4)], p


@test("kernels and names")
def _():
    p = job.device_events(TRACE)
    notices(compare.kernel_counts, p, [
        (("cuda", "launches"), 2), (("cuda", "graph_kernels"), 1),
        (("cuda", "graph_launches"), 2), (("cuda", "graph_launches_unknown"), 1),
        (("kernels", 0, "launches"), 2), (("copies", 1, "graph_nodes_run"), 2)])
    notices(compare.kernel_names, p, [
        (("kernels", 0, "launches"), 2), (("kernels", 1, "name"), "k3()"),
        (("kernels", 1, "name"), None), (("kernels", 1, "graph_kernels"), 0)])
    notices(compare.graphs, GRAPHS, [(("cuda", "captured"), 0), (("cuda", "graph_kernels"), 4),
                                     (("cuda", "graph_launches"), 4)])
    assert not compare.named(REPORT, 1.0)
    assert compare.named(set_at(REPORT, ("cuda", "named"), 2), 0.95)


@test("copies, memory and errors")
def _():
    notices(compare.copies, COPIES, [(("copies", 0, "calls"), 2), (("copies", 2, "bytes"), 5),
                                     (("copies", 0, "direction"), "DtoH")])
    notices(compare.memory, MEMORY, [
        (("memory", 0, key), 17) for key in ("live_bytes", "peak_bytes", "leaked_bytes",
                                             "leaked_count", "allocs", "frees", "pid")])
    notices(compare.memory_nvml, MEMORY, [(("memory", 0, "leaked_bytes"), 100 << 20)])
    held = set_at(REPORT, ("memory", 0), dict(REPORT["memory"][0], live_bytes=300 << 20,
                                              leaked_bytes=0, leaked_count=0))
    assert not compare.memory(MEMORY, held, running=True)
    assert compare.memory(MEMORY, REPORT, running=True) and compare.memory(MEMORY, held)
    notices(compare.errors, ERRORS, [(("errors", 0, "calls"), 3), (("errors", 1, "calls"), 8),
                                     (("errors", 0, "code"), 1), (("errors", 1, "name"), None)])
    only_driver = set_at(REPORT, ("errors",), REPORT["errors"][1:])
    assert not compare.errors(ERRORS, only_driver)
    assert compare.errors(ERRORS, set_at(only_driver, ("errors", 0, "calls"), 5))
    assert compare.errors(ERRORS, set_at(REPORT, ("errors",), []))


@test("collectives and communicators")
def _():
    notices(compare.nccl_calls, NCCL, [
        (("collectives", 0, "calls"), 3), (("collectives", 1, "bytes"), 9),
        (("collectives", 2, "comm_hash"), "0xa2"), (("collectives", 2, "rank"), 0),
        (("collectives", 3, "size"), 3), (("collectives", 0, "pid"), 9)])
    notices(compare.nccl_communicators, NCCL, [
        (("communicators", 0, "calls"), 2), (("communicators", 1, "device"), 0),
        (("communicators", 1, "hash"), "0xa2"), (("communicators",), [])])
    everywhere = copy.deepcopy(REPORT)
    for r in everywhere["collectives"]:
        r["comm_hash"] = "0xa2"
    assert compare.nccl_calls(NCCL, everywhere), "another id than NCCL's is not noticed"


@test("memory that attachments leave")
def _():
    bare, ours = compare.growths(CUPTI_KB[1:]), compare.growths(ATTACHED_KB)
    assert bare == [68, 56, 60, 776, 48, 108], bare
    assert len(ours) == 7 and sum(ours) == 6476, ours
    assert compare.left_memory(ours, bare) == [], compare.left_memory(ours, bare)
    assert compare.left_memory([kb + 100 for kb in bare], bare) == []
    assert len(compare.left_memory([kb + 200 for kb in bare], bare)) == 1, "200 kB each time"
    assert len(compare.left_memory(ours + [0, 4096], bare)) == 1, "much, once"
    assert len(compare.left_memory([kb + 2048 for kb in ours], bare)) == 2, "much each time"


@test("NCCL's log")
def _():
    assert nccl.logged(LOG) == {"0x55f0": [(1, 2, "0xa1")], "0x66f0": [(0, 1, None)]}, \
        nccl.logged(LOG)


def main():
    failed = 0
    print("1..%d" % len(tests))
    for i, (name, fn) in enumerate(tests, 1):
        try:
            fn()
            print("ok %d - %s" % (i, name))
        except AssertionError as e:
            failed = 1
            print("not ok %d - %s\n# %s" % (i, name, e))
    return failed


if __name__ == "__main__":
    sys.exit(main())
