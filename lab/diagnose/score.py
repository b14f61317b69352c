"""score.py - how right the causes are that `eacgm diagnose --json` tells, against what the injector
wrote. Reads no files and runs nothing; evaluate.py does. Standard library alone.

An incident belongs to the episode in which it began, and is its answer where it was told before the
episode was over, GRACE_NS to each side of it; of several the one that was told first. One that stood
from before is no answer, one that was told later is `late`, and an episode without an answer is
`missed`. What began outside of episodes is an answer to `no fault`, where the job's own log does not
say that it was slow there, else to `slow by itself`. Nothing is point-adjusted: an answer counts
once, whatever else was told."""

import collections
import math
import os
import re
import statistics
import sys

LAB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(LAB, "detect"), os.path.join(LAB, "faults")]
import measures as ms  # noqa: E402
from lab import effect  # noqa: E402

GRACE_NS = 10**9  # windows are a second long
SURE = 0.8
SLOW_STEP = 0.1  # of its usual time that a step took more
SUM_WITHIN = 0.05
SHARE_WITHIN = 0.1  # of the time of all steps, between what was injected and what is told
MET_WITHIN = 0.05  # of the step time after a fault
UNKNOWN, MISSED, NO_FAULT, BY_ITSELF = "unknown", "missed", "no fault", "slow by itself"

# What a diagnosis calls the cause of a fault, where not by the fault's name; and what else of such an
# episode is true.
CALLED = {"disk_contention": "disk", "slow_reads": "data_loader", "clock": "gpu_clock",
          "hang": "straggler", "net_contention": "net_foreign", "numa_remote": "numa",
          "op_delay": "slow_call", "cuda_delay": "slow_call"}
ALSO = {"slow_reads": ("disk",)}

# How the owners of a step's time begin that are a cause's. Of "waited for X, which did Y" that is Y;
# but of causes in FIRST it is how X was waited for, or of which rank all of it is.
FIRST = ("data_loader", "python_gil", "straggler")
LAST = re.compile("(?<!waited for the GPU), which ")  # what the GPU did is no clause of its own
OWNERS = {"cpu_contention": ("could run, but ",), "cpu_throttle": ("could run, but ",),
          "interrupts": ("ran all its code more slowly",), "stopped": ("was stopped",),
          "mem_bandwidth": ("ran all its code more slowly",), "disk": ("waited for the disk",),
          "memory_reclaim": ("got pages of memory", "waited for pages", "read files into"),
          "data_loader": ("waited for data of",), "python_gc": ("collected garbage",),
          "python_gil": ("waited for Python's",), "network": ("waited for the network",),
          "net_bandwidth": ("waited for the network",), "net_loss": ("waited for the network",),
          "net_foreign": ("waited for the network",),
          "checkpoint": ("wrote a checkpoint", "waited for the disk to write"),
          "straggler": ("waited for the GPU, which waited for other ranks", "rank ")}

# logs: {pid: rows of the job's own log of its steps}, where there is one.
Run = collections.namedtuple("Run", "name labels said logs", defaults=({},))
Answer = collections.namedtuple("Answer", "truth told right confidence")


def rows_of(run, kind):
    return [r for r in run.labels if r["type"] == kind]


def called(cause):
    return CALLED.get(cause, cause)


def cause_of(incident):
    return called(incident.get("cause") or UNKNOWN)


def is_right(e, said):
    """said: None where there is nothing."""
    return called(said) == called(e["cause"]) or said in ALSO.get(e["cause"], ())


# ---- which incident is of which episode ----

def began_in(e, incident):
    over = max(e["released_ns"], e.get("recovered_ns", 0))
    return e["onset_ns"] - GRACE_NS <= incident["onset_ns"] <= over + GRACE_NS


def was_told_in(e, incident):
    return e["onset_ns"] <= incident["told_ns"] <= e["released_ns"] + GRACE_NS


def nearest(episodes, incident):
    """The episode in which it began; of two, the one that was on, or began nearer."""
    mine = [e for e in episodes if began_in(e, incident)]
    return min(mine, default=None, key=lambda e: (
        not e["onset_ns"] <= incident["onset_ns"] <= e["released_ns"],
        abs(e["onset_ns"] - incident["onset_ns"])))


def is_slow_there(run, incident):
    return any(r["onset_ns"] < incident["end_ns"] and r["end_ns"] > incident["onset_ns"]
               for r in rows_of(run, "slow"))


def stood_over(run, e):
    """Whether an incident of before went on in it."""
    return any(i["onset_ns"] < e["onset_ns"] - GRACE_NS and i["end_ns"] > e["onset_ns"]
               for i in run.said["incidents"])


class Matched:
    """The incidents of a run, sorted out."""

    def __init__(self, run):
        self.of, self.late, self.stray = collections.defaultdict(list), [], []
        episodes = rows_of(run, "episode")
        for i in sorted(run.said["incidents"], key=lambda i: i["told_ns"]):
            e = nearest(episodes, i)
            if e is None:
                self.stray.append(i)
            elif was_told_in(e, i):
                self.of[e["id"]].append(i)
            else:
                self.late.append(i)


# ---- one episode ----

def contends(e):
    """Whether a process of others takes what the job needs."""
    return (e.get("culprit") or {}).get("kind") == "process" and e["cause"] != "stopped"


def same_path(said, true):
    """A cgroup is told below its hierarchy's mount, or with it."""
    return bool(said) and (said == true or true.endswith("/" + said.strip("/")))


def is_culprit(e, incident):
    """Whether who is named is who did it; None where the label names nobody."""
    true, said = e.get("culprit"), incident.get("culprit") or {}
    if not true:
        return None
    if true["kind"] == "process":
        return said.get("pid") in e["injector_pids"] or (
            bool(said.get("command")) and said["command"] == true.get("command"))
    if true["kind"] == "cgroup":
        return same_path(said.get("cgroup"), true["cgroup"])
    if true["kind"] == "device":
        return true["device"] in (said.get("device"), "gpu%s" % said.get("gpu"))
    if true["kind"] == "rank":
        return said.get("rank") == true["rank"] or said.get("pid") == true["pid"]
    if true.get("function"):
        return true["function"] in [(x or {}).get("function") for x in (
            said, said.get("code"), incident.get("victim"))]
    return None  # the job itself: nobody to find


def verdict(e, incidents):
    """The row of an episode: what was answered, by the incidents told in it."""
    first = incidents[0] if incidents else None
    true = called(e["cause"])
    right = bool(first) and is_right(e, first.get("cause"))
    said = true if right else cause_of(first) if first else MISSED
    return {"id": e["id"], "fault": e["fault"], "cause": true, "answer": said,
            "effective": bool(e.get("effective")), "slowdown": e.get("slowdown_ratio"),
            "right": right, "alike": not right and said in map(called, e["confusable"]),
            "second": bool(first) and is_right(e, first.get("runner_up")),
            "any_right": any(is_right(e, i.get("cause")) for i in incidents),
            "confidence": first.get("confidence") if first else None,
            "contention": contends(e), "culprit_kind": (e.get("culprit") or {}).get("kind"),
            "culprit_right": is_culprit(e, first) if first else
            False if e.get("culprit") else None,
            "victim": (first.get("victim") or {}).get("pid") if first else None,
            "victim_right": (first.get("victim") or {}).get("pid") in e["target"]["pids"]
            if first else None,
            "incidents": len(incidents),
            "delay_s": (first["told_ns"] - e["onset_ns"]) / 1e9 if first else None,
            "cause_delay_s": (first["caused_ns"] - first["told_ns"]) / 1e9
            if first and first.get("caused_ns") else None,
            "onset_off_s": (first["onset_ns"] - e["applied_ns"]) / 1e9 if first else None}


# ---- causes ----

def matrix_of(answers):
    """{what was true: {what was told: how often}}"""
    found = collections.defaultdict(collections.Counter)
    for a in answers:
        found[a.truth][a.told] += 1
    return {truth: dict(row) for truth, row in sorted(found.items())}


def f1_by_cause(matrix):
    """Of every cause that was injected. What is named where nothing was, or something else was, is
    a false one of it; unknown and missed are misses and nothing else."""
    ret = {}
    for cause in matrix:
        if cause in (NO_FAULT, BY_ITSELF):
            continue
        hit = matrix[cause].get(cause, 0)
        there = sum(matrix[cause].values())
        said = sum(row.get(cause, 0) for row in matrix.values())
        ret[cause] = ms.ratio(2 * hit, there + said)
    return ret


def share(k, n):
    """With Wilson's interval, the episode as the unit."""
    value = ms.ratio(k, n)
    return {"yes": k, "of": n, "share": _number(value),
            "interval_95": [_number(x) for x in ms.wilson(value, n)]}


def _number(x):
    return None if x is None or math.isnan(x) else round(x, 4)


def tenths(answers):
    """How often a cause is right that was told with such a confidence. What is told where no fault
    is, is wrong; unknown is no cause."""
    rows = []
    for i in range(10):
        mine = [a for a in answers if a.confidence is not None and
                min(9, int(a.confidence * 10)) == i]
        if mine:
            mean = sum(a.confidence for a in mine) / len(mine)
            rows.append(dict(share(sum(a.right for a in mine), len(mine)),
                             tenth="%.1f-%.1f" % (i / 10, (i + 1) / 10),
                             confidence=_number(mean)))
    return rows


def calibration_error(rows):
    """The mean distance of confidence and share, weighed by how many there are."""
    n = sum(r["of"] for r in rows)
    return _number(sum(r["of"] * abs(r["confidence"] - r["share"]) for r in rows) / n) if n else None


def causes(rows, strays):
    """rows: verdicts of effective episodes. strays: [(run, incident)] outside of episodes."""
    told = [Answer(r["cause"], r["answer"], r["right"], r["confidence"]) for r in rows]
    others = [Answer(BY_ITSELF if is_slow_there(run, i) else NO_FAULT, cause_of(i), False,
                     i.get("confidence")) for run, i in strays]
    matrix = matrix_of(told + others)
    f1 = f1_by_cause(matrix)
    in_episodes = f1_by_cause(matrix_of(told))
    named = [a for a in told + [o for o in others if o.truth == NO_FAULT]
             if a.told not in (UNKNOWN, MISSED)]
    answered = [r for r in rows if r["answer"] != MISSED]
    sure = [a for a in named if (a.confidence or 0) >= SURE]
    calibration = tenths(named)
    mean = lambda values: _number(ms.ratio(sum(values), len(values)))
    return {
        "top_1": share(sum(r["right"] for r in rows), len(rows)),
        "top_1_of_told": share(sum(r["right"] for r in rows), len(answered)),
        "top_1_or_runner_up": share(sum(r["right"] or r["second"] for r in rows), len(rows)),
        "wrong_but_alike": share(sum(r["alike"] for r in rows), len(rows)),
        "unknown": share(sum(r["answer"] == UNKNOWN for r in rows), len(rows)),
        "missed": share(len(rows) - len(answered), len(rows)),
        "macro_f1": mean(f1.values()), "macro_f1_in_episodes": mean(in_episodes.values()),
        "f1": {cause: _number(v) for cause, v in f1.items()}, "matrix": matrix,
        "by_effect": {"%g-%g" % (low, high): share(
            sum(r["right"] for r in rows if low <= r["slowdown"] < high),
            sum(low <= r["slowdown"] < high for r in rows))
            for low, high in ((1.1, 1.3), (1.3, 2), (2, math.inf))},
        "wrong_and_sure": share(sum(not a.right for a in sure), len(named)),
        "wrong_of_sure": share(sum(not a.right for a in sure), len(sure)),
        "calibration": calibration, "calibration_error": calibration_error(calibration)}


def culprits(rows):
    """Of contention: whether the process was named, missed ones included. Of other kinds apart."""
    mine = [r for r in rows if r["contention"]]
    kinds = sorted({r["culprit_kind"] for r in rows if r["culprit_right"] is not None} - {None})
    return {"contention": share(sum(bool(r["culprit_right"]) for r in mine), len(mine)),
            "contention_of_told": share(sum(bool(r["culprit_right"]) for r in mine),
                                        sum(r["answer"] != MISSED for r in mine)),
            "by_kind": {kind: share(
                sum(bool(r["culprit_right"]) for r in rows if r["culprit_kind"] == kind),
                sum(r["culprit_kind"] == kind and r["culprit_right"] is not None for r in rows))
                for kind in kinds}}


# ---- blame ----

def parts(step):
    return sum(b["ns"] for b in step["blame"])


def adds_up(step):
    """Its parts, with what is told as unexplained, are the excess."""
    return abs(parts(step) + step["unexplained_ns"] - step["excess_ns"]) <= \
        SUM_WITHIN * abs(step["excess_ns"])


def is_explained(step):
    """Its parts are the excess without anything unexplained."""
    return abs(parts(step) - step["excess_ns"]) <= SUM_WITHIN * abs(step["excess_ns"])


def is_slow(step):
    return step["excess_ns"] >= SLOW_STEP * step["usual_ns"] > 0


def steps_in(run, e):
    return [s for s in run.said.get("steps", []) if s["pid"] in e["target"]["pids"] and
            s["start_ns"] >= e["applied_ns"] and s["end_ns"] <= e["released_ns"]]


def net_of(run):
    """{incident: which part of what its steps are blamed for it is blamed for}: steps that were
    shorter than usual are not told, but what an incident cost is less by them."""
    whole, steps = collections.Counter(), collections.Counter()
    for i in run.said["incidents"]:
        if "blame" in i and not i.get("beside"):
            whole[i.get("id")] += parts(i)
    for s in run.said.get("steps", []):
        steps[s.get("incident")] += parts(s)
    return {i: min(1, whole[i] / ns) for i, ns in steps.items() if i in whole and ns > 0}


def shares_of_steps(run, pids, start_ns, end_ns):
    """[(step, how much of it counts)] of what lies in a time: by as much as of the step does, since
    eacgm's steps begin elsewhere than the log's, and of what its incident is blamed for."""
    net = net_of(run)
    found = []
    for s in run.said.get("steps", []):
        inside = min(s["end_ns"], end_ns) - max(s["start_ns"], start_ns)
        if s["pid"] in pids and inside > 0:
            found.append((s, inside / (s["end_ns"] - s["start_ns"]) * net.get(s.get("incident"), 1)))
    return found


def injected_share(run, e):
    """What the injector knows of how steps were made longer, beside what was said of them: of the
    time of the episode. None where either says nothing."""
    steps = shares_of_steps(run, e["target"]["pids"], e["applied_ns"], e["released_ns"])
    took = e["released_ns"] - e["applied_ns"]
    if e.get("expected_share") is None or not steps:
        return None
    owned = sum(b["ns"] * part for s, part in steps for b in s["blame"] if is_of(b["owner"], e))
    log = 1 - 1 / e["slowdown_ratio"] if e.get("slowdown_ratio") else None
    return {"id": e["id"], "fault": e["fault"], "injected": e["expected_share"],
            "log": _number(log),
            "excess": _number(sum(s["excess_ns"] * part for s, part in steps) / took),
            "owned": _number(owned / took)}


def is_of(owner, e):
    """Whether an owner, in words, is of the episode's cause: its last clause, or all of it for
    causes in FIRST, begins as OWNERS say, or it ran code of the fault itself, of its file or the
    function that the label names."""
    cause, function = called(e["cause"]), (e.get("culprit") or {}).get("function")
    last = LAST.split(owner)[-1]
    starts = OWNERS.get(cause, ())
    return last.startswith(starts) or (cause in FIRST and owner.startswith(starts)) or \
        (bool(function) and last.startswith("ran %s " % function)) or \
        "(%s.py:" % e["fault"] in owner


def blame(runs):
    """Over the slow steps of all effective episodes."""
    slow, near = [], []
    for run in runs:
        for e in rows_of(run, "episode"):
            if e.get("effective"):
                slow += [s for s in steps_in(run, e) if is_slow(s)]
                near.append(injected_share(run, e))
    near = [n for n in near if n]
    off = lambda key, to: [abs(n[key] - n[to]) for n in near if n[to] is not None]
    explained = [parts(s) / s["excess_ns"] for s in slow]
    owned = off("owned", "injected")
    return {"slow_steps": len(slow),
            "adds_up": share(sum(map(adds_up, slow)), len(slow)),
            "explained": share(sum(map(is_explained, slow)), len(slow)),
            "explained_part_median": _number(ms.quantile(explained, 0.5)),
            "episodes_with_share": near,
            "excess_off_injected_median": _number(ms.quantile(off("excess", "injected"), 0.5)),
            "excess_off_log_median": _number(ms.quantile(off("excess", "log"), 0.5)),
            "owned_off_injected_median": _number(ms.quantile(owned, 0.5)),
            "owned_off_injected_p90": _number(ms.quantile(owned, 0.9)),
            "owned_within": share(sum(x <= SHARE_WITHIN for x in owned), len(owned))}


# ---- what comes true when a fault ends ----

def clean_beside(run, e):
    """(the clean time before an episode, that after it), each (start, end) or None: up to another
    episode or to a change that is no fault, for steps after it may be of another length."""
    clean = [(r["onset_ns"], r["end_ns"]) for r in rows_of(run, "clean")]
    changes = [(r["onset_ns"], r["end_ns"]) for r in rows_of(run, "benign")]
    others = [x["onset_ns"] for x in rows_of(run, "episode") if x is not e]
    before = max((c for c in clean if c[1] <= e["onset_ns"]), default=None)
    after = min((c for c in clean if c[0] >= e["recovered_ns"]), default=None)
    if before and any(before[0] <= x < e["onset_ns"] for x in others):
        before = None
    if before:
        before = max([before[0]] + [b for _, b in changes if b <= before[1]]), before[1]
    if after and any(e["onset_ns"] < x <= after[0] for x in others):
        after = None
    if after:
        after = after[0], min([after[1]] + [a for a, b in changes if b > after[0]])
    return before, after


def usual_of_phases(rows, clean):
    """{phase: the mean length of its steps in clean time}"""
    found = collections.defaultdict(list)
    for r in rows:
        if any(r["start_ns"] >= a and r["end_ns"] <= b for a, b in clean):
            found[r["phase"]].append(r["end_ns"] - r["start_ns"])
    return {phase: statistics.fmean(ns) for phase, ns in found.items()}


def as_after(log, rows, later_ns, clean):
    """How long rows of a log would have taken after a fault: those of the usual work as the steps
    that followed, by how much work they have; what else the job did, as an evaluation, as in clean
    time, or as it did where that has none."""
    phases = usual_of_phases(log.all, clean)
    ns = 0
    for r in rows:
        took = r["end_ns"] - r["start_ns"]
        if r["phase"] in effect.WORKING and not r["half"]:
            ns += later_ns * took / log.length(r)
        else:
            ns += phases.get(r["phase"], took)
    return ns


def prediction(run, e, pid):
    """What the steps of a process would take without what is blamed, beside what they took when the
    fault was over and before it began: ns of as much work. Of all the time from the first to the
    last step that the fault was on in, with what lies between steps. None where one of them is not
    known."""
    if not run.said.get("steps") or pid not in run.logs:
        return None
    log = effect.Steps(run.logs[pid])
    clean = [(r["onset_ns"], r["end_ns"]) for r in rows_of(run, "clean")]
    log.fit(clean)
    before, after = clean_beside(run, e)
    worked = list(log.overlapping(e["applied_ns"], e["released_ns"]))
    later = log.inside(*after) if after else []
    if not worked or len(later) < effect.LEAST_STEPS:
        return None
    start_ns, end_ns = worked[0]["start_ns"], worked[-1]["end_ns"]
    rows = [r for r in log.all if r["start_ns"] >= start_ns and r["end_ns"] <= end_ns]
    n = len(worked)
    blamed = sum(parts(s) * part for s, part in shares_of_steps(run, (pid,), start_ns, end_ns))
    earlier = log.inside(*before) if before else []
    mean, median = statistics.fmean(later), statistics.median(later)
    return {"mean_ns": (end_ns - start_ns) / n, "blamed_ns": blamed / n,
            "after_ns": as_after(log, rows, mean, clean) / n,
            "after_median_ns": as_after(log, rows, median, clean) / n,
            "before": statistics.fmean(earlier) / mean - 1
            if len(earlier) >= effect.LEAST_STEPS else None}


def after_release(runs, rows):
    """Whether the step time that the blame predicts comes true when the fault ends: the mean step
    of an episode by the job's own log, with what lies between steps, less the parts that are blamed
    (nothing of `unexplained`), beside what as much would take by the clean time after it. rows: verdicts. Of answered ones of their victim's
    process; `before` is how far the clean time before was from that after, which no blame can
    better."""
    victims = {(r["run"], r["id"]): r["victim"] for r in rows
               if r["effective"] and r["answer"] != MISSED}
    found = []
    for run in runs:
        for e in rows_of(run, "episode"):
            pid = victims.get((run.name, e["id"]))
            p = prediction(run, e, pid) if pid is not None else None
            if p:
                without = p["mean_ns"] - p["blamed_ns"]
                found.append({"run": run.name, "id": e["id"], "fault": e["fault"],
                              **{k: round(v) for k, v in p.items() if k != "before"},
                              "off": _number(without / p["after_ns"] - 1),
                              "off_median": _number(without / p["after_median_ns"] - 1),
                              "before": _number(p["before"])})
    return {"episodes": found, "unknown": len(victims) - len(found),
            **{key: _near([abs(f[key]) for f in found if f[key] is not None])
               for key in ("off", "off_median", "before")}}


def _near(values):
    return {"median": _number(ms.quantile(values, 0.5)), "p90": _number(ms.quantile(values, 0.9)),
            "within": share(sum(x <= MET_WITHIN for x in values), len(values))}


# ---- all ----

def score(runs):
    """Of runs: all figures, JSON-able."""
    rows, strays, late = [], [], 0
    for run in runs:
        matched = Matched(run)
        late += len(matched.late)
        strays += [(run, i) for i in matched.stray]
        rows += [dict(verdict(e, matched.of[e["id"]]), run=run.name, stood=stood_over(run, e))
                 for e in rows_of(run, "episode")]
    effective = [r for r in rows if r["effective"]]
    without = [r for r in rows if not r["effective"]]
    told = [r for r in effective if r["answer"] != MISSED]
    delays = [r["delay_s"] for r in told]
    cause_delays = [r["cause_delay_s"] for r in told if r["cause_delay_s"] is not None]
    off = [abs(r["onset_off_s"]) for r in told]
    clean_s = sum(r["end_ns"] - r["onset_ns"] for run in runs for r in rows_of(run, "clean")) / 1e9
    false = sum(not is_slow_there(run, i) for run, i in strays)
    return {
        "runs": len(runs), "episodes": len(effective), "causes": causes(effective, strays),
        "culprits": culprits(effective), "blame": blame(runs),
        "after_release": after_release(runs, rows),
        "incidents_an_episode": _number(ms.ratio(sum(r["incidents"] for r in told), len(told))),
        "victim_right": share(sum(bool(r["victim_right"]) for r in told), len(told)),
        "delay_s": {"median": _number(ms.quantile(delays, 0.5)),
                    "p95": _number(ms.quantile(delays, 0.95))},
        "cause_delay_s": {"median": _number(ms.quantile(cause_delays, 0.5)),
                          "p95": _number(ms.quantile(cause_delays, 0.95))},
        "onset_off_s": {"median": _number(ms.quantile(off, 0.5)),
                        "p95": _number(ms.quantile(off, 0.95))},
        "missed_where_one_stood": sum(r["stood"] for r in effective if r["answer"] == MISSED),
        "late": late, "false": false, "clean_s": round(clean_s, 1),
        "false_an_hour": [_number(ms.ratio(3600 * false, clean_s)),
                          *(_number(x) for x in ms.poisson_interval(false, clean_s / 3600))],
        "ineffective": {"episodes": len(without),
                        "told": sum(r["answer"] != MISSED for r in without),
                        "right": sum(r["right"] for r in without),
                        "by_fault": dict(collections.Counter(r["fault"] for r in without))},
        "rows": rows}
