"""effect.py - how much slower the job was in each episode, and when it was slower without one, from
the log of its steps. The detector sees nothing of this."""

import bisect
import json
import os
import statistics

SLOWED = 1.10
NEAR_NS = 60 * 10**9  # clean steps that far to each side make the baseline
PIECE_NS = 10**9  # that clean time is looked at in
LEAST_STEPS = 5
WORKING = ("train", "token")


def read_rows(folder, name, ranks):
    rows = {}
    for rank in range(ranks):
        rows[rank] = []
        path = os.path.join(folder, "%s.%d.jsonl" % (name, rank))
        if os.path.exists(path):
            with open(path) as f:
                rows[rank] = [json.loads(line) for line in f if line.endswith("\n")]
    return rows


class Steps:
    """Those of one rank that did the usual work, in order."""

    def __init__(self, rows):
        self.rows = [r for r in rows if r["phase"] in WORKING and not r["half"]]
        self.ends = [r["end_ns"] for r in self.rows]
        self.all = rows

    def within(self, start_ns, end_ns, first_ns=0, last_ns=float("inf")):
        """Those that overlap, and lie between first and last as a whole."""
        rows = self.rows[bisect.bisect_right(self.ends, start_ns):]
        found = []
        for r in rows:
            if r["start_ns"] >= end_ns:
                break
            if r["start_ns"] >= first_ns and r["end_ns"] <= last_ns:
                found.append(r["end_ns"] - r["start_ns"])
        return found

    def inside(self, start_ns, end_ns):
        """Those that lie in it as a whole."""
        rows = self.rows[bisect.bisect_right(self.ends, start_ns):]
        return [r["end_ns"] - r["start_ns"] for r in rows
                if r["start_ns"] >= start_ns and r["end_ns"] <= end_ns]


def recovered_ns(logs, released_ns):
    """When the last of the steps had ended that were under way as a fault was switched off: what was
    lost on the network is sent again seconds later."""
    return max([released_ns] + [r["end_ns"] for s in logs for r in s.all
                                if r["start_ns"] < released_ns < r["end_ns"]])


def clean_stretches(episodes, start_ns, end_ns, rest_ns=2 * 10**9):
    """Where no fault was on, from some time after the job has recovered to the next onset."""
    out, at = [], start_ns
    for e in sorted(episodes, key=lambda e: e["onset_ns"]):
        if e["onset_ns"] > at:
            out.append((at, e["onset_ns"]))
        at = max(at, e["recovered_ns"] + rest_ns)
    if end_ns > at:
        out.append((at, end_ns))
    return out


def without(stretches, others):
    """Those stretches less the others."""
    for o in others:
        left = []
        for a, b in stretches:
            for c, d in ((a, min(b, o["onset_ns"])), (max(a, o["end_ns"]), b)):
                if c < d:
                    left.append((c, d))
        stretches = left
    return stretches


def _baseline(steps, clean, start_ns, end_ns):
    lengths = []
    for a, b in clean:
        lengths += steps.inside(max(a, start_ns - NEAR_NS), min(b, end_ns + NEAR_NS))
    return lengths


def _noise(steps, clean, length_ns, baseline):
    """The largest ratio among clean stretches of that length."""
    most = None
    for a, b in clean:
        while a + length_ns <= b:
            lengths = steps.inside(a, a + length_ns)
            if len(lengths) >= LEAST_STEPS:
                most = max(most or 0, statistics.fmean(lengths) / baseline)
            a += length_ns
    return most


def effect_of(steps, clean, start_ns, end_ns):
    """What the labels hold: steps, slowdown, baseline, noise. A step that has not ended when the
    log does (a hang) lasted until then."""
    lengths = steps.within(start_ns, end_ns)
    baseline = _baseline(steps, clean, start_ns, end_ns)
    result = {"steps": len(lengths), "slowdown_ratio": None, "baseline_step_ns": None,
              "noise_ratio": None, "effective": False}
    if len(baseline) < LEAST_STEPS or not lengths:
        return result
    mean = statistics.fmean(baseline)
    noise = _noise(steps, clean, end_ns - start_ns, mean)
    result["baseline_step_ns"] = round(mean)
    result["slowdown_ratio"] = round(statistics.fmean(lengths) / mean, 4)
    result["noise_ratio"] = round(noise, 4) if noise else None
    result["effective"] = result["slowdown_ratio"] >= SLOWED
    return result


def slow_stretches(logs, clean):
    """[(start, end, ratio)] of clean time in which the steps of a rank took as much longer as makes a
    fault effective: nobody did that, and it was so."""
    found = []
    for a, b in clean:
        usual = [(s, statistics.fmean(x)) for s in logs for x in (_baseline(s, clean, a, b),)
                 if len(x) >= LEAST_STEPS]
        for at in range(a, b, PIECE_NS):
            end = min(b, at + PIECE_NS)
            ratios = [statistics.fmean(x) / mean for s, mean in usual
                      for x in (s.within(at, end, a, b),) if x]
            ratio = max(ratios, default=0)
            if ratio < SLOWED:
                continue
            if found and found[-1][1] == at:
                found[-1] = (found[-1][0], end, max(found[-1][2], ratio))
            else:
                found.append((at, end, ratio))
    return found


def fill_in(episodes, benign, folder, ranks, start_ns, end_ns):
    """Into each episode: its effect on the rank that it slowed most, and when the job had recovered.
    Returns the clean stretches, those that are benign included, and those of them that were slow."""
    logs = [Steps(rows) for rows in read_rows(folder, "steps", ranks).values()]
    for e in episodes:
        e["recovered_ns"] = recovered_ns(logs, e["released_ns"])
    clean = clean_stretches(episodes, start_ns, end_ns)
    usual = without(clean, benign)
    for e in episodes:
        effects = [effect_of(s, usual, e["applied_ns"], e["released_ns"]) for s in logs]
        effects.sort(key=lambda x: x["slowdown_ratio"] or 0)
        e.update(effects[-1] if effects else {})
    return clean, slow_stretches(logs, usual)
