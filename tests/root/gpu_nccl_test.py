#!/usr/bin/env python3
"""gpu_nccl_test.py - the NCCL layer over a fake libnccl (targets/gpu): calls, bytes and
sequence numbers of every rank, and who the communicators are."""

import collections

from gpu import expect_same, lines, number, program, unique_id_hash
from harness import expect, main, test

COLLECTIVES = ("ncclAllReduce", "ncclBroadcast", "ncclReduce", "ncclAllGather",
               "ncclReduceScatter", "ncclAlltoAll", "ncclGather", "ncclScatter")


def record_ranks(t, ranks, n, keep_ms=0):
    rec = t.record([program("collectives"), ranks, n, keep_ms])
    expect(len(lines(rec.ran.out, "comm")) == 4 * ranks, "the ranks: %s" % rec.ran)
    expect(rec.lost() == 0, "lost: %r" % rec.report["recording"])
    return rec


@test("every collective of every rank, with its bytes by data type")
def _(t):
    rec = record_ranks(t, 3, 4)
    made = collections.Counter()
    for function, _what, calls, bytes_, pid in lines(rec.ran.out, "call"):
        made[(function, int(pid), "calls")] += int(calls)
        made[(function, int(pid), "bytes")] += int(bytes_)
    seen = collections.Counter()
    for c in rec.calls:
        if "sequence" in c["args"] and "error" not in c["flags"]:
            seen[(c["name"], c["pid"], "calls")] += 1
            seen[(c["name"], c["pid"], "bytes")] += c["args"]["bytes"]
    expect_same(seen, made, "calls")
    expect(rec.count("ncclBcast") == rec.made["ncclBcast"] == 12, "ncclBcast is a call around it")


@test("the report's collectives: calls and bytes by rank, communicator and function")
def _(t):
    rec = record_ranks(t, 4, 3, keep_ms=500)
    comms = {(row[3], int(row[5])): (int(row[1]), int(row[2]))
             for row in lines(rec.ran.out, "comm")}
    made, seen = collections.Counter(), collections.Counter()
    for function, what, calls, bytes_, pid in lines(rec.ran.out, "call"):
        key = (function, int(pid), *comms[(what, int(pid))])
        made[key] += int(calls)
        made[(*key, "bytes")] += int(bytes_)
    for c in rec.report["collectives"]:
        key = (c["function"], c["pid"], c["rank"], c["size"])
        seen[key] += c["calls"]
        seen[(*key, "bytes")] += c["bytes"]
    expect_same(seen, made, "collectives")


@test("communicators that are gone at once: rank, size and hash are those of their making")
def _(t):
    rec = record_ranks(t, 4, 1)
    ids = {unique_id_hash(h) for what, h in lines(rec.ran.out, "id")}
    made = collections.Counter((int(row[5]), int(row[1]), int(row[2]))
                               for row in lines(rec.ran.out, "comm") if row[3] != "split")
    rows = [c for c in rec.report["communicators"] if c["hash"] and number(c["hash"]) in ids]
    seen = collections.Counter((c["pid"], c["rank"], c["size"]) for c in rows)
    expect_same(seen, made, "communicators")
    expect({number(c["hash"]) for c in rows} == ids, "hashes: %r" % rows)
    expect(all(c["calls"] for c in rows), "their calls are theirs: %r" % rows)


@test("communicators: rank, size, device and the hash of the unique id")
def _(t):
    rec = record_ranks(t, 3, 1, keep_ms=500)
    ids = {what: unique_id_hash(h) for what, h in lines(rec.ran.out, "id")}
    made = {}
    for handle, rank, size, what, device, pid in lines(rec.ran.out, "comm"):
        made[(int(pid), what)] = (int(handle, 16), int(rank), int(size), int(device))
    by_what = collections.defaultdict(set)
    rows = {}
    for c in rec.report["communicators"]:
        rows.setdefault((c["pid"], number(c["handle"])), []).append(c)
    for (pid, what), (handle, rank, size, device) in made.items():
        found = [c for c in rows.get((pid, handle), []) if (c["rank"], c["size"]) == (rank, size)]
        expect(len(found) == 1, "%s of %d: %r" % (what, pid, rows.get((pid, handle))))
        expect(found[0]["device"] == device, "device of %s: %r" % (what, found[0]))
        by_what[what].add((number(found[0]["hash"]), rank % 2 if what == "split" else 0, size))
    for what, id_hash in ids.items():
        expect({h for h, _c, _s in by_what[what]} == {id_hash}, "%s: %r, expected 0x%x" % (
            what, by_what[what], id_hash))
    split = {h for h, _c, _s in by_what["split"]}
    expect(len(split) == 2 and not split & set(ids.values()), "split: %r" % by_what["split"])


@test("sequence numbers: from 0 without holes by communicator, apart for point to point")
def _(t):
    rec = record_ranks(t, 3, 5)
    sequences = collections.defaultdict(list)
    for c in sorted(rec.calls, key=lambda c: c["start_ns"]):
        if c["name"] in COLLECTIVES + ("ncclSend", "ncclRecv"):
            kind = "collective" if c["name"] in COLLECTIVES else "p2p"
            sequences[(c["pid"], c["args"]["comm"], kind)].append(c["args"]["sequence"])
    worlds = {(int(row[5]), row[0]) for row in lines(rec.ran.out, "comm") if row[3] == "world"}
    for (pid, comm, kind), numbers in sequences.items():
        expect(numbers == list(range(len(numbers))), "%s of %d: %r" % (kind, pid, numbers))
        if (pid, comm) in worlds:
            expect(len(numbers) == (5 * 20 if kind == "collective" else 10),
                   "%d %s" % (len(numbers), kind))
    expect(len(sequences) == 3 * 5, "communicators: %r" % list(sequences))


@test("in progress is no error, a wrong data type is one")
def _(t):
    rec = record_ranks(t, 2, 2)
    errors = {(e["function"], e["code"]): (e["calls"], e["name"]) for e in rec.report["errors"]}
    expect(errors == {("ncclAllReduce", 4): (2, "ncclInvalidArgument")}, "errors: %r" % errors)
    config = [c for c in rec.calls if c["name"] == "ncclCommInitRankConfig"]
    expect(len(config) == 2 and not any(c["flags"] for c in config), "config: %r" % config)


@test("what point to point and groups are given")
def _(t):
    rec = record_ranks(t, 3, 2)
    peers = collections.Counter()
    for c in rec.calls:
        if c["name"] in ("ncclSend", "ncclRecv"):
            peers[(c["name"], c["args"]["peer"])] += 1
    expect(peers == {(f, p): 2 for f in ("ncclSend", "ncclRecv") for p in range(3)},
           "peers: %r" % peers)
    expect(rec.count("ncclGroupStart") == rec.count("ncclGroupEnd") == 6, "groups")


@test("mode stats counts collectives")
def _(t):
    rec = t.record([program("collectives"), 2, 3], "--mode", "stats")
    made = collections.Counter()
    for function, _what, calls, _bytes, _pid in lines(rec.ran.out, "call"):
        made[function] += int(calls)
    made["ncclAllReduce"] += 2  # those with a wrong data type
    expect_same(collections.Counter({f: rec.count(f) for f in made}), made, "functions")


# ---- ranks that do not all come ----

def record_stuck(t, kind, ranks=4, n=20, keep_ms=8500):
    rec = t.record([program("stuck"), kind, ranks, n, keep_ms])
    expect(len(lines(rec.ran.out, "comm")) == ranks, "the ranks: %s" % rec.ran)
    return rec


def hangs(rec, name="collective_hang"):
    return [e for e in rec.report["events"] if e["name"] == name]


def last_entry_ns(rec):
    return max(c["start_ns"] for c in rec.calls if c["name"] in COLLECTIVES)


def expect_named(rec, said, not_by="3", entered="ranks 0, 1, 2"):
    found = hangs(rec)
    expect([e["entity"] for e in found] == ["rank 3"], "events: %r" % found)
    text = found[0]["text"]
    expect("ncclAllReduce #%d was entered by %s, not by rank %s" % (said, entered, not_by) in text
           and "(4 ranks)" in text, "the sentence: %s" % text)
    waited = (found[0]["time_ns"] - last_entry_ns(rec)) / 1e9
    expect(5 <= waited < 10, "named after %.1f s" % waited)
    told = [line for line in rec.ran.err.splitlines() if text in line]
    expect(told == ["eacgm: " + text], "standard error: %s" % rec.ran.err)


@test("a rank that skips a collective is named within 10 s")
def _(t):
    expect_named(record_stuck(t, "skips"), 20)


@test("it is named too while the others do not come back from the call")
def _(t):
    rec = record_stuck(t, "blocks")
    blocked = [c for c in rec.calls if c["name"] == "ncclAllReduce" and c["duration_ns"] > 8e9]
    expect(len(blocked) == 3, "blocked: %r" % blocked)
    expect_named(rec, 20)


@test("a rank that has ended while others wait is named, and that it has")
def _(t):
    expect_named(record_stuck(t, "ends"), 20, not_by="3 (has ended)")


@test("a rank that comes late: that it goes on is told")
def _(t):
    rec = record_stuck(t, "late", keep_ms=7000)
    expect(len(hangs(rec)) == 1, "hangs: %r" % rec.report["events"])
    resumed = hangs(rec, "collective_resumed")
    expect([e["entity"] for e in resumed] == ["rank 3"] and
           "#20 was entered by all" in resumed[0]["text"], "resumed: %r" % resumed)


@test("ranks that are level, idle, or have no communicator any more: nothing is told")
def _(t):
    for kind in ("level", "leaves"):
        rec = record_stuck(t, kind, keep_ms=7000)
        expect(not rec.report["events"], "%s: %r" % (kind, rec.report["events"]))
        expect("communicator" not in rec.ran.err, "%s: %s" % (kind, rec.ran.err))


@test("another size or function as the n-th collective is told at once")
def _(t):
    for kind, differs in (("size", "ncclAllReduce of 4004 bytes"),
                          ("function", "ncclBroadcast of 4000 bytes")):
        rec = record_stuck(t, kind, keep_ms=300)
        found = hangs(rec, "collective_mismatch")
        expect(len(found) >= 1, "%s: %r" % (kind, rec.report["events"]))
        text = found[0]["text"]
        expect("#20 is " in text and "ncclAllReduce of 4000 bytes on rank" in text and
               differs + " on rank 3" in text, "%s: %s" % (kind, text))
        expect(not hangs(rec), "%s is no hang: %r" % (kind, rec.report["events"]))


if __name__ == "__main__":
    raise SystemExit(main())
