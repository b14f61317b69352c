"""timelines.py - the checks of run.py that are about what devices did and when: kernels against
torch.profiler's, steps against what loops wrote down, CUPTI into a running job and out again,
collectives against times of CUDA events, stragglers, hangs, and rank's recordings merged. Knows
eacgm by its command line only."""

import bisect
import json
import os
import signal
import statistics
import subprocess
import time

from compare import SHOWN, full_name, growths, left_memory

KERNEL_TIME = 0.01   # of what torch.profiler says
EVENT_TIME = 0.05    # of what CUDA events say
LEAST_US = 200  # of shorter calls launches take a part, which events count and kernels do not
LOOPS = ("train", "accumulate", "loader", "generate", "evaluate")
STOP_MS = 100
CYCLES = 20  # of CUPTI alone


def lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def by_name(pairs):
    sums = {}
    for name, n in pairs:
        sums[full_name(name)] = sums.get(full_name(name), 0) + n
    return {name: n for name, n in sums.items() if n}


def equal(t, run):
    """Two runs of the same seed, one under eacgm and one under torch.profiler."""
    steps, made_path, said_path = ("--steps", 60), t.path("made.json"), t.path("said.json")
    recording = t.record(["--gpu-timeline"], t.job("gpt2", *steps, "--json", made_path), 180)
    run(t.job("gpt2", *steps, "--profile", said_path), 180)
    with open(made_path) as f, open(said_path) as g:
        made, said = json.load(f), json.load(g)
    window = t.report(recording, made["window"])
    seen = by_name((k["name"], k["device_count"]) for k in window["kernels"])
    want = by_name(said["kernels"].items())
    t.results.holds("as many kernels of each name", [
        "%s: %d, torch.profiler has %d" % (name, seen.get(name, 0), want.get(name, 0))
        for name in sorted(set(seen) | set(want)) if seen.get(name) != want.get(name)][:SHOWN])
    total = sum(k["device_ns"] for k in window["kernels"])
    t.results.holds("their time is torch.profiler's", [] if
                    abs(total - said["kernel_ns"]) <= KERNEL_TIME * said["kernel_ns"] else
                    "%d ns, torch.profiler has %d" % (total, said["kernel_ns"]))
    whole = t.report(recording)
    line = whole["gpu_timeline"]
    t.results.holds("each kernel has its launch, and none begins before it", [] if
                    line["matched_spans"] and not line["unmatched_spans"]
                    and not line["early_spans"] and not line["unmatched_launches"] else
                    str({k: v for k, v in line.items() if not isinstance(v, list)}))
    operators = whole["gpu_operators"]
    rows = {row["name"]: row for row in operators["operators"]}
    t.results.holds("each operator has as many backward nodes as calls", [
        "%s: %s" % (name, rows.get(name)) for name in
        ("aten::addmm", "aten::native_layer_norm", "aten::gelu", "aten::embedding")
        if not rows.get(name) or rows[name]["nodes"] != rows[name]["calls"]])
    t.results.note(kernels=sum(seen.values()), names=len(seen), device_ns=total,
                   profiler_ns=said["kernel_ns"], ratio=total / said["kernel_ns"],
                   backward_ns=operators["backward_ns"],
                   backward_linked_ns=operators["backward_linked_ns"],
                   early=line["early_spans"], lost=whole["recording"]["lost"],
                   gaps=line["devices"][0]["gaps"], busy=line["devices"][0]["busy_ratio"],
                   flops=whole.get("flops"), copies=line["copies"])


# ---- steps ----

def operations(t, run, recording):
    """Starts of PyTorch's calls on the main threads of processes, by process."""
    out, _ = run([t.args.eacgm, "export", recording, "-f", "jsonl", "-o", "-"], 180)
    starts = {}
    for line in out.splitlines():
        if '"torch"' in line:
            row = json.loads(line)
            if row.get("layer") == "torch" and row.get("pid") == row.get("tid"):
                starts.setdefault(row["pid"], []).append(row["start_ns"])
    return {pid: sorted(x) for pid, x in starts.items()}


def step_problems(truth, steps, starts):
    """A boundary lies anywhere between the last operation of a step and the first of the next:
    each step ends before the loop says so, with at most one operation between the two."""
    if len(truth) != len(steps):
        return ["%d steps, the loop made %d" % (len(steps), len(truth))]
    problems = []
    for i, (want, seen) in enumerate(zip(truth, steps)):
        between = bisect.bisect_left(starts, want["end_ns"]) - bisect.bisect_left(
            starts, seen["end_ns"])
        if not want["start_ns"] < seen["end_ns"] <= want["end_ns"] or between > 1:
            problems.append("step %d ends %.1f us from where the loop says, %d operations" % (
                i, (seen["end_ns"] - want["end_ns"]) / 1e3, between))
    return problems


def one_loop(t, run, kind, truth_path, options):
    recording = t.record(["--gpu-timeline", "--profile", "off"], t.job(
        "loops", kind, "--tell", truth_path, *options), 180)
    truth, report = lines(truth_path), t.report(recording)
    phase = "inference" if kind == "generate" else "training"
    own = [(p["pid"], loop) for p in report["steps"]["processes"] for loop in p["loops"]
           if loop["kind"] == phase]
    starts = operations(t, run, recording)
    want = [row for row in truth if row["phase"] != "eval"]
    found = [step_problems(want, loop["steps"], starts[pid]) for pid, loop in own]
    good = [x for x in found if not x]
    t.results.holds("the steps of " + kind, [] if good else (found or [["no loop was found"]])[0])
    lag = [w["end_ns"] - s["end_ns"] for w, s in zip(want, own[0][1]["steps"])] if own else [0]
    t.results.note(**{kind: {"steps": len(want), "loops": len(own),
                             "median_ms": report["steps"]["median_ms"],
                             "end_before_truth_us_median": statistics.median(lag) / 1e3,
                             "end_before_truth_us_max": max(lag) / 1e3,
                             "phases_ns": report["steps"]["phases_ns"]}})


def steps(t, run):
    for kind in LOOPS:
        one_loop(t, run, kind, t.path(kind), ("--steps", 60))
    if t.gpus > 1:
        one_loop(t, run, "ddp", t.path("ddp"), ("--steps", 60))
    else:
        t.results.skip("the steps of ddp", "one GPU here")


# ---- a running job ----

def state_of(pid):
    """Mappings, threads, open files and resident memory of a process."""
    with open("/proc/%d/status" % pid) as f:
        status = dict(line.split(":", 1) for line in f)
    with open("/proc/%d/maps" % pid) as f:
        maps = f.read()
    return {"rss_kb": int(status["VmRSS"].split()[0]), "threads": int(status["Threads"]),
            "files": len(os.listdir("/proc/%d/fd" % pid)), "maps": maps.count("\n"),
            "shim": maps.count("eacgm"), "cupti": "libcupti" in maps}


def stop_ms(report):
    """The longest stop that the recording tells of, or None."""
    return report["recording"].get("gpu_attach", {}).get("longest_stop_ms")


def bare_cupti_kb(t, run):
    """Growth of a job's resident memory by each cycle of CUPTI in it, without eacgm."""
    out, _ = run(t.job("cupti_cycles", "--cycles", CYCLES, "--seconds", 0.5), 180)
    return growths(json.loads(out.splitlines()[-1])[1:])  # the first is from before


def running(t, run, training, attached, medians_of, rest):
    """CUPTI into a running job and out again, several times."""
    rounds, seconds, quiet = (5, 2, 1.5) if t.quick else (20, 2, 1.5)
    windows, during, stops, spans, before, states = [], [], [], [], [], []
    with training(t) as job:
        for _ in range(rounds):
            windows.append(rest(quiet))
            before.append(state_of(job.p.pid)["rss_kb"])
            began = time.monotonic_ns()
            with attached(t, job.p.pid, seconds, "--gpu-timeline", "--layers", "cuda",
                          "--profile", "off") as recording:
                pass
            during.append((began, time.monotonic_ns()))
            time.sleep(0.2)
            states.append(state_of(job.p.pid))
            report = t.report(recording)
            stops.append(stop_ms(report))
            spans.append(report.get("gpu_timeline", {}).get("matched_spans", 0))
            os.unlink(recording)
        windows.append(rest(quiet))
        lengths = job.finish()
    quiet_ms, during_ms = medians_of(lengths, windows), medians_of(lengths, during)
    ratios = [b / a for a, b in zip(quiet_ms, quiet_ms[1:])]
    t.results.note(stops_ms=stops, spans=spans, states=states, step_ms_untraced=quiet_ms,
                   step_ms_attached=during_ms, after_to_before=ratios, longest_steps_ms=[
                       x / 1e6 for x in sorted((b for _, b in lengths), reverse=True)[:rounds]])
    t.results.holds("kernels came every time", [] if all(spans) else str(spans))
    t.results.holds("each stop is below 100 ms", [] if None not in stops and
                    max(stops) < STOP_MS else str(stops))
    t.results.holds("the shim is gone", [] if not any(s["shim"] for s in states) else
                    str(states[-1]))
    first, last = states[1], states[-1]
    t.results.holds("no threads, files or mappings are left", [
        "%s: %s to %s" % (k, first[k], last[k]) for k in ("threads", "files", "maps")
        if last[k] > first[k] + 2])
    t.results.holds("steps are as long as before", [] if
                    abs(quiet_ms[-1] / quiet_ms[0] - 1) < 0.03 or min(ratios) < 1.02 else
                    str(quiet_ms))
    rss = [s["rss_kb"] for s in states]
    t.results.note(grown_by_attachment_kb=growths(rss), grown_between_attachments_kb=[
        b - a for a, b in zip(rss[1:], before[2:])])  # the second is part of the first
    bare = bare_cupti_kb(t, run)
    t.results.note(grown_by_bare_cycle_kb=bare)
    t.results.holds("memory grows no more than by CUPTI alone", left_memory(growths(rss), bare))


# ---- graphs ----

LATE = "its timeline ends here, and CUPTI goes"


def late_graph(t, attached):
    """A graph of before is launched while the timeline is on."""
    said = t.path("said")
    with open(said, "w") as log:
        p = subprocess.Popen(t.job("late_graph"), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                             start_new_session=True)
    try:
        for _ in range(600):
            with open(said) as f:
                if p.poll() is not None or "warm" in f.read():
                    break
            time.sleep(0.1)
        with attached(t, p.pid, 8, "--gpu-timeline", "--layers", "cuda",
                      "--profile", "off") as recording:
            time.sleep(3)
            os.kill(p.pid, signal.SIGUSR2)
        os.kill(p.pid, signal.SIGTERM)
        code = p.wait(timeout=30)
    finally:
        if p.poll() is None:
            os.killpg(p.pid, signal.SIGKILL)
    with open(said) as f:
        last = f.read().splitlines()[-1]
    report = t.report(recording)
    spans = report.get("gpu_timeline", {}).get("matched_spans", 0)
    t.results.note(said=last, code=code, spans=spans, notes=report["notes"])
    t.results.holds("the job goes on", [] if code == 0 else "%s: %s" % (code, last))
    if code == 0:
        made = json.loads(last)
        t.results.holds("its graphs ran, and computed what they should", [] if
                        made["launches"] > 100 and not made["wrong"] else last)
    t.results.holds("there is a timeline until then", [] if spans > 100 else str(spans))
    t.results.holds("a note says that it ended", [] if LATE in json.dumps(report["notes"]) else
                    str(report["notes"]))


# ---- ranks ----

SOCKETS = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}


def collective_problems(truth, rows):
    """Median times of rank 0 against the median of events around the same calls: a call that
    another process held up is in neither."""
    problems, ratios = [], {}
    for want in truth:
        if want["us"] < LEAST_US or want["function"] == "ncclSend":
            continue  # a send and a receive together are one row
        name = {"alltoall": "ncclAlltoAll"}.get(want["function"], want["function"])
        seen = [r for r in rows if r["rank"] == 0 and r["function"] == name
                and r["timed"] and abs(r["mean_bytes"] - want["bytes"]) < 0.01 * want["bytes"]]
        if len(seen) != 1:
            problems.append("%s of %d bytes: %d rows" % (want["function"], want["bytes"],
                                                         len(seen)))
            continue
        ratio = seen[0]["p50_ns"] / 1000 / want["us"]
        ratios["%s %d" % (want["function"], want["bytes"])] = ratio
        if abs(ratio - 1) > EVENT_TIME:
            problems.append("%s of %d bytes: %.1f us, events say %.1f" % (
                want["function"], want["bytes"], seen[0]["p50_ns"] / 1000, want["us"]))
    return problems, ratios


def rows_of(report):
    """With the size of one collective, as nccl-tests has it."""
    rows = report["collective_times"]["sums"]
    for row in rows:
        row["mean_bytes"] = row["bytes"] / max(row["calls"], 1)
    return rows


def collectives(t, run):
    for world in [n for n in (2, 4, 8) if n <= t.gpus]:
        for name, env, mb in (("NVLink", {}, "4,32,256"), ("sockets", SOCKETS, "16,64")):
            truth_path = t.path("truth")
            recording = t.record(["--gpu-timeline", "--layers", "cuda,nccl", "--profile", "off"],
                                 t.job("collectives", "--world", world, "--mb", mb, "--calls",
                                       20 if not env else 10, "--tell", truth_path), 180, env)
            report = t.report(recording)
            problems, ratios = collective_problems(lines(truth_path), rows_of(report))
            t.results.holds("%d ranks over %s: times of collectives" % (world, name), problems)
            t.results.note(**{"%s_%d" % (name, world): {
                "to_events": ratios, "connections": report.get("connections"),
                "rows": [{k: r[k] for k in ("function", "bytes", "calls", "p50_ns",
                                            "bus_bandwidth_bytes_per_s")}
                         for r in rows_of(report) if r["rank"] == 0]}})


def straggler(t, run):
    late = t.gpus - 1
    for name, env in (("NVLink", {}), ("sockets", SOCKETS)):
        recording = t.record(["--gpu-timeline"], t.job(
            "loops", "ddp", "--world", t.gpus, "--steps", 40, "--straggle", "%d:20" % late),
            180, env)
        named = [c["straggler"] for c in t.report(recording)["ranks"]["communicators"]
                 if c["compared"] > 40]
        t.results.holds("the rank that sleeps 20 ms a step is named, over " + name, [] if
                        named == [late] else "named %s, it is %d" % (named, late))
        t.results.note(**{name: t.report(recording)["ranks"]})


def hang(t, run):
    """One rank leaves out the last collective, the other waits for good."""
    recording, log = t.path("hang.eacgm"), t.path("log")
    with open(log, "w") as err:
        p = subprocess.Popen(
            [t.args.eacgm, "record", "--gpu-timeline", "-d", "30", "-o", recording, "--",
             *t.job("loops", "ddp", "--world", 2, "--steps", 30, "--skip", "1:29")],
            stdin=subprocess.DEVNULL, stdout=err, stderr=err, start_new_session=True,
            env=dict(os.environ, TORCH_NCCL_ENABLE_MONITORING="0"))
    named_s, began = None, time.monotonic()
    try:
        while p.poll() is None and time.monotonic() < began + 60:
            with open(log, errors="replace") as f:
                if named_s is None and "no progress" in f.read():
                    named_s = time.monotonic()
            time.sleep(0.05)
        p.wait(timeout=30)
    finally:
        try:
            os.killpg(p.pid, 9)
        except ProcessLookupError:
            pass
        p.wait()
    report = t.report(recording)
    events = [e for e in report["events"] if e["name"] == "collective_hang"]
    last_ns = max([c["call"]["start_ns"] for h in report["ranks"]["hangs"]
                   for c in h["ranks"] if c.get("call")], default=0)
    after_s = (events[0]["time_ns"] - last_ns) / 1e9 if events and last_ns else None
    with open(log, errors="replace") as f:
        said = f.read()
    t.results.note(events=events, after_s=after_s, said=said[-1500:],
                   hangs=report["ranks"]["hangs"])
    t.results.holds("named while it hangs", [] if named_s else said[-400:])
    t.results.holds("within 10 s", [] if after_s is not None and after_s < 10 else str(after_s))
    missing = [r["rank"] for h in report["ranks"]["hangs"] for r in h["ranks"]
               if not r["entered"]]
    t.results.holds("the report names the rank", [] if missing == [1] else str(missing))


def merge(t, run):
    """Each rank under an eacgm of its own; the recordings merged."""
    store, ranks, out = t.path("store"), [], t.path("merged.eacgm")
    recordings = [t.path("rank%d.eacgm" % r) for r in range(2)]
    for r in range(2):
        with open(t.path("log"), "w") as log:
            ranks.append(subprocess.Popen(
                [t.args.eacgm, "record", "--gpu-timeline", "-o", recordings[r], "--",
                 *t.job("loops", "ddp", "--steps", 40, "--straggle", "1:20", "--rank", r,
                        "--store", store)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True))
    try:
        codes = [p.wait(timeout=120) for p in ranks]
    finally:
        for p in ranks:
            try:
                os.killpg(p.pid, 9)
            except ProcessLookupError:
                pass
    t.results.holds("both recordings end well", [] if codes == [0, 0] else str(codes))
    run([t.args.eacgm, "merge", *recordings, "-o", out], 120)
    report = t.report(out)
    named = [c["straggler"] for c in report["ranks"]["communicators"] if c["compared"] > 40]
    t.results.holds("the straggler is named", [] if named == [1] else str(named))
    t.results.note(ranks=report["ranks"])


# ---- many kernels ----

LOST_SPANS = ("gpu_ring_full", "gpu_span_dropped", "gpu_span_untimed")
OWN_KERNELS = 100  # beside the graph's, at most: four with PyTorch 2.11


def storm(t, run):
    made_path, many = t.path("made.json"), 2_000_000 if t.quick else 50_000_000
    recording = t.record(["--gpu-timeline", "--layers", "cuda", "--profile", "off"],
                         t.job("storm", "--kernels", many, "--json", made_path), 500)
    with open(made_path) as f:
        made = json.load(f)
    out, _ = run([t.args.eacgm, "report", recording, "--json"], 400)
    report = json.loads(out)
    seen = sum(k["device_count"] for k in report["kernels"] if k["device_count"])
    lost = report["recording"].get("lost_by_cause") or {}
    t.results.note(made=made["kernels_made"], seconds=made["seconds"], seen=seen, lost=lost,
                   bytes=os.path.getsize(recording))
    counted = seen + sum(lost.get(cause, 0) for cause in LOST_SPANS)
    t.results.holds("every kernel is there, or counted as lost", [] if
                    made["kernels_made"] <= counted <= made["kernels_made"] + OWN_KERNELS else
                    "%d made, %d seen, lost %s" % (made["kernels_made"], seen, lost))
