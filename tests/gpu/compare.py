"""compare.py - compares what eacgm reports with what a job, or CUPTI, says happened. Pure
functions over parsed JSON: no GPU, no processes. Each returns a list of sentences, one for
each thing that differs; none means equal. What the jobs write is described in jobs/*.py, the
report's keys in docs/report.md."""

import collections
import ctypes
import functools
import re
import statistics

SHOWN = 12  # differences that are spelled out

# ---- kernels ----


@functools.lru_cache(maxsize=None)
def _demangler():
    try:
        f = getattr(ctypes.CDLL("libstdc++.so.6"), "__cxa_demangle")
    except (OSError, AttributeError):
        return None
    f.restype = ctypes.c_void_p
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    return f, free


@functools.lru_cache(maxsize=None)
def full_name(name):
    """A kernel's demangled name. torch.profiler leaves names of over 1,024 characters as they
    are in the binary."""
    if not name or not name.startswith("_Z") or not _demangler():
        return name
    demangle, free = _demangler()
    status = ctypes.c_int(0)
    p = demangle(name.encode(), None, None, ctypes.byref(status))
    if status.value or not p:
        return name
    text = ctypes.string_at(p).decode(errors="replace")
    free(p)
    return text


# A copy within the device that is a node of a graph is run by the driver as a kernel of its
# own making, and CUPTI shows it as that. To eacgm it is the copy that it was made as.
DRIVERS_OWN = re.compile(r"^memcpy\d+(_\w+)?$")


def copy_kernels(kernels):
    return sum(n for name, n in kernels.items() if DRIVERS_OWN.match(name))


def names_made(profile):
    made = collections.Counter()
    for name, n in profile["kernels"].items():
        if not DRIVERS_OWN.match(name):
            made[full_name(name)] += n
    return made


def names_seen(report):
    seen = collections.Counter()
    for k in report["kernels"]:
        n = (k.get("launches") or 0) + (k.get("graph_kernels") or 0)
        if n:
            seen[full_name(k.get("name"))] += n
    return seen


def kernel_counts(profile, report):
    """Launches, kernels of graphs and launches of graphs against CUPTI's."""
    cuda, problems = report["cuda"], []
    direct = sum(profile["direct_kernels"].values())
    copied = copy_kernels(profile["graph_kernels"])
    replayed = sum(profile["graph_kernels"].values()) - copied
    for what, seen, made in (
            ("kernels that ran", cuda["launches"] + cuda["graph_kernels"], direct + replayed),
            ("direct launches", cuda["launches"], direct),
            ("kernels of graphs", cuda["graph_kernels"], replayed),
            ("launches of graphs", cuda["graph_launches"], profile["graph_launches"])):
        if seen != made:
            problems.append("%s: %d seen, CUPTI counts %d" % (what, seen, made))
    nodes = sum(r["graph_nodes_run"] for r in report["copies"] if r["direction"] == "DtoD")
    shown = sum(r["calls"] for r in profile["cupti_copies"]
                if r["in_graph"] and r["direction"] == "DtoD")
    if nodes != copied + shown:
        problems.append("copies of graphs within the device: %d seen, CUPTI counts %d, %d of "
                        "them as kernels" % (nodes, copied + shown, copied))
    if direct + replayed == 0:
        problems.append("CUPTI saw no kernel")
    if cuda.get("graph_launches_unknown"):
        problems.append("%d launches of unknown graphs" % cuda["graph_launches_unknown"])
    rows = sum((k.get("launches") or 0) for k in report["kernels"])
    if rows != cuda["launches"]:
        problems.append("the rows of kernels add up to %d launches, not %d" % (
            rows, cuda["launches"]))
    return problems


def name_differences(profile, report):
    """[(name, seen, made)] of the names whose counts differ, the largest first."""
    made, seen = names_made(profile), names_seen(report)
    rows = [(name, seen[name], made[name]) for name in set(made) | set(seen)
            if seen[name] != made[name]]
    return sorted(rows, key=lambda r: (-abs(r[1] - r[2]), str(r[0])))


def kernel_names(profile, report):
    return ["%s: %d seen, CUPTI counts %d" % row
            for row in name_differences(profile, report)[:SHOWN]]


def named(report, least):
    """The share of launches, captured ones included, whose kernel has a name."""
    cuda = report["cuda"]
    launches = cuda["launches"] + cuda["captured"]
    if not launches:
        return ["no launch was seen"]
    if cuda["named"] < least * launches:
        return ["%d of %d launches have a name (%.2f %%)" % (
            cuda["named"], launches, 100 * cuda["named"] / launches)]
    return []


def graphs(made, report):
    """Against the nodes that the job counted in its graphs."""
    problems = []
    cuda = report["cuda"]
    if cuda["graph_launches"] != made["graph_launches_made"]:
        problems.append("%d launches of graphs seen, %d made" % (
            cuda["graph_launches"], made["graph_launches_made"]))
    if made["graph_kernels_made"] is not None:
        if cuda["graph_kernels"] != made["graph_kernels_made"]:
            problems.append("%d kernels of graphs seen, the replayed nodes are %d" % (
                cuda["graph_kernels"], made["graph_kernels_made"]))
        if cuda["captured"] != made["kernel_nodes_captured_in_window"]:
            problems.append("%d captured launches seen, %d made" % (
                cuda["captured"], made["kernel_nodes_captured_in_window"]))
    return problems


# ---- copies ----

def copies_by_key(rows):
    total = collections.defaultdict(lambda: [0, 0])
    for r in rows:
        key = "set" if r["kind"] == "set" else r["direction"]
        total[key][0] += r["calls"]
        total[key][1] += r["bytes"]
    return {k: tuple(v) for k, v in total.items() if v[0]}


def copies(made, report):
    want, seen = copies_by_key(made), copies_by_key(report["copies"])
    return ["%s: %d calls and %d bytes seen, %d and %d made" % (
        (key,) + seen.get(key, (0, 0)) + want.get(key, (0, 0)))
        for key in sorted(set(want) | set(seen)) if want.get(key) != seen.get(key)]


# ---- memory ----

NVML_SLACK_BYTES = 64 << 20  # pools and mappings grow by 2 to 32 MiB at a time
NVML_SLACK_RATIO = 0.03


def memory_row(made, report):
    rows = [r for r in report["memory"] if r["pid"] == made["pid"]]
    return rows[0] if len(rows) == 1 else None


def memory(made, report, running=False):
    """running: the recording ended before the job, so that what it holds is live and not
    leaked."""
    row = memory_row(made, report)
    if row is None:
        return ["not one row for process %d but %d" % (made["pid"], sum(
            r["pid"] == made["pid"] for r in report["memory"]))]
    none = {"leaked_bytes": 0, "leaked_count": 0} if running else {"live_bytes": 0}
    want = dict({key: made[key] for key in ("live_bytes", "peak_bytes", "leaked_bytes",
                                            "leaked_count", "allocs", "frees")}, **none)
    return ["%s: %s seen, %d made" % (key, row.get(key), n) for key, n in want.items()
            if n is not None and row.get(key) != n]


def nvml_used(made):
    """Bytes that NVML saw the job take since its context was there, without what a pool of the
    driver holds in reserve beyond what is allocated from it; None without NVML."""
    first, last = made["checkpoints"][0], made["checkpoints"][-1]
    if first["nvml_bytes"] is None or last["nvml_bytes"] is None:
        return None
    return last["nvml_bytes"] - first["nvml_bytes"] - (
        last.get("pool_spare_bytes", 0) - first.get("pool_spare_bytes", 0))


def memory_nvml(made, report):
    row, used = memory_row(made, report), nvml_used(made)
    if row is None or used is None:
        return ["nothing to compare"]
    slack = max(NVML_SLACK_BYTES, NVML_SLACK_RATIO * used)
    held = row["live_bytes"] + row["leaked_bytes"]
    if abs(held - used) > slack:
        return ["%.0f MiB held, NVML has %.0f MiB used" % (held / 2**20, used / 2**20)]
    return []


# A training's own heap moves by some 100 kB from one attachment to the next, and by a few MB
# now and then. So the median of many tells of what each leaves, the sum of the rest.
USUAL_SLACK_KB = 128
SUM_SLACK_KB = 8192


def growths(sizes):
    """From one to the next, from the second on: what comes first fills caches that stay."""
    return [b - a for a, b in zip(sizes[1:], sizes[2:])]


def left_memory(ours, bare):
    """Growth of resident memory (kB) by attachment, against that by cycle of CUPTI alone."""
    problems = []
    usual, bare_usual = statistics.median(ours), statistics.median(bare)
    if usual > bare_usual + USUAL_SLACK_KB:
        problems.append("an attachment leaves %d kB in the median, CUPTI alone %d kB" % (
            usual, bare_usual))
    grown, bare_grown = sum(ours), statistics.fmean(bare) * len(ours)
    if grown > bare_grown + SUM_SLACK_KB:
        problems.append("%d attachments leave %d kB, CUPTI alone %d kB as often" % (
            len(ours), grown, bare_grown))
    return problems


# ---- errors ----

def errors(made, report):
    seen = collections.Counter()
    for r in report["errors"]:
        seen[r["function"], r["code"]] += r["calls"]
    told_of = {r["function"] for r in report["errors"]}
    direct, through = collections.Counter(), collections.Counter()
    for r in made:
        direct[r["function"], r["code"]] += r["calls"]
        if r["below"]:
            through[r["below"], r["code"]] += r["calls"]
    problems = []
    for r in made:
        key = r["function"], r["code"]
        # a driver function may also be told with the failures that the runtime handed on;
        # it must be where the runtime's own function is not told
        allowed = {direct[key]}
        if through[key]:
            told = all(a["function"] in told_of for a in made if a["below"] == key[0])
            allowed = {direct[key], direct[key] + through[key]} if told else {
                direct[key] + through[key]}
        elif r["below"] and r["function"] not in told_of and seen[r["below"], r["code"]]:
            continue
        if seen[key] not in allowed:
            problems.append("%s, code %d: %d seen, %d made" % (*key, seen[key], direct[key]))
    wrong = [r["function"] for r in report["errors"] if not r.get("name")]
    if wrong:
        problems.append("codes without a name: %s" % ", ".join(sorted(set(wrong))))
    return problems


# ---- NCCL ----

SAME = {"ncclBcast": "ncclBroadcast"}  # the older name of one function


def _functions(rows):
    total = collections.defaultdict(lambda: [0, 0])
    for r in rows:
        name = SAME.get(r["function"], r["function"])
        total[name][0] += r["calls"]
        total[name][1] += r["bytes"]
    return {k: tuple(v) for k, v in total.items() if v[0]}


def _shown(functions):
    return ", ".join("%s %d calls %d bytes" % (k, *v) for k, v in sorted(functions.items()))


def _match_rank(rank, report, problems):
    """{communicator's name: hash} of one rank: by its rank, size and what was done on it."""
    seen = collections.defaultdict(list)
    for r in report["collectives"]:
        if r["pid"] == rank["pid"]:
            seen[r["comm_hash"], r["rank"], r["size"]].append(r)
    seen = {k: f for k, f in ((k, _functions(rows)) for k, rows in seen.items()) if f}
    found, used = {}, set()
    for comm in rank["communicators"]:
        want = {k: (v["calls"], v["bytes"]) for k, v in comm["functions"].items()}
        hits = [k for k, f in seen.items() if f == want and k[1:] == (comm["rank"],
                                                                      comm["size"])]
        where = "process %d, rank %d, communicator %s" % (rank["pid"], rank["rank"],
                                                           comm["name"])
        if len(hits) != 1:
            problems.append("%s: no communicator was seen with rank %d of %d and %s" % (
                where, comm["rank"], comm["size"], _shown(want)))
            continue
        used.add(hits[0])
        found[comm["name"]] = hits[0][0]
        logged = comm.get("comm_hash")
        if logged and int(logged, 16) != int(hits[0][0], 16):
            problems.append("%s: id %s, NCCL logged %s" % (where, hits[0][0], logged))
    for key in sorted(set(seen) - used, key=str):
        problems.append("process %d: communicator %s, rank %s of %s: seen but not made: %s" % (
            (rank["pid"],) + key + (_shown(seen[key]),)))
    return found


def nccl_calls(made, report):
    """Calls, bytes, ranks, sizes and ids of communicators."""
    problems, hashes = [], collections.defaultdict(set)
    for rank in made["ranks"]:
        for name, h in _match_rank(rank, report, problems).items():
            hashes[name].add(int(h, 16))
    owners = collections.defaultdict(list)
    for name, ids in hashes.items():
        if len(ids) > 1:
            problems.append("communicator %s has several ids: %s" % (
                name, ", ".join(hex(i) for i in sorted(ids))))
        for i in ids:
            owners[i].append(name)
    for i, names in owners.items():
        if len(names) > 1:
            problems.append("id %s stands for several communicators: %s" % (
                hex(i), ", ".join(sorted(names))))
    return problems


def nccl_communicators(made, report):
    """The list of communicators agrees with the calls on them and lies on the right GPUs."""
    problems = []
    rows = {(r["pid"], r["hash"]): r for r in report["communicators"]}
    totals = collections.defaultdict(lambda: [0, 0])
    for r in report["collectives"]:
        totals[r["pid"], r["comm_hash"]][0] += r["calls"]
        totals[r["pid"], r["comm_hash"]][1] += r["bytes"]
    for key, (calls, size) in sorted(totals.items(), key=str):
        row = rows.get(key)
        if row is None:
            problems.append("process %d: communicator %s is not listed" % key)
        elif (row["calls"], row["bytes"]) != (calls, size):
            problems.append("communicator %s: %d calls and %d bytes listed, its functions have "
                            "%d and %d" % (key[1], row["calls"], row["bytes"], calls, size))
    gpu = {rank["pid"]: rank["rank"] for rank in made["ranks"]}
    for (pid, h), row in sorted(rows.items(), key=str):
        if pid in gpu and row["device"] != gpu[pid]:
            problems.append("communicator %s of process %d: GPU %s, it is %d" % (
                h, pid, row["device"], gpu[pid]))
    listed = collections.Counter(pid for pid, _ in rows)
    for rank in made["ranks"]:
        if listed[rank["pid"]] < len(rank["communicators"]):
            problems.append("process %d: %d communicators listed, %d made" % (
                rank["pid"], listed[rank["pid"]], len(rank["communicators"])))
    return problems
