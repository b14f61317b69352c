"""effect.py - how much slower the job was in each episode, and when it was slower without one, from
the log of its steps. The detector sees nothing of this."""

import bisect
import itertools
import json
import os
import statistics

SLOWED = 1.10
NEAR_NS = 60 * 10**9  # clean steps that far to each side make the baseline
PIECE_NS = 10**9  # that clean time is looked at in
LEAST_STEPS = 5
WORKING = ("train", "token", "request")
CHANGES = {"eval": "evaluation", "save": "checkpoint"}  # phases, and what they are called


def read_rows(folder, name, ranks):
    rows = {}
    for rank in range(ranks):
        rows[rank] = []
        path = os.path.join(folder, "%s.%d.jsonl" % (name, rank))
        if os.path.exists(path):
            with open(path) as f:
                rows[rank] = [json.loads(line) for line in f if line.endswith("\n")]
    return rows


def _line(points):
    """(a, b) of y = a + b x, by least squares, once more without what lies far above."""
    for _ in range(2):
        mx, my = (statistics.fmean(p[i] for p in points) for i in (0, 1))
        square = sum((x - mx) ** 2 for x, _ in points)
        b = sum((x - mx) * (y - my) for x, y in points) / square if square else 0
        a = my - b * mx
        near = [(x, y) for x, y in points if y < 1.5 * (a + b * x)]
        points = near if len(near) >= LEAST_STEPS else points
    return a, b


class Steps:
    """Those of one rank that did the usual work, in order. Where they tell how much work it was,
    lengths are of as much as is done on average: the length divided by what a straight line through
    work and length of clean steps says, times that line's mean."""

    def __init__(self, rows):
        self.rows = [r for r in rows if r["phase"] in WORKING and not r["half"]]
        self.ends = [r["end_ns"] for r in self.rows]
        self.all = rows
        self.line = None

    def fit(self, clean):
        points = [(r["work"], r["end_ns"] - r["start_ns"]) for a, b in clean
                  for r in self.overlapping(a, b) if "work" in r]
        if len(points) < LEAST_STEPS:
            return
        a, b = _line(points)
        self.line = a, b, statistics.fmean(a + b * x for x, _ in points)

    def length(self, row):
        ns = row["end_ns"] - row["start_ns"]
        if not self.line or "work" not in row:
            return ns
        a, b, mean = self.line
        return ns * mean / max(a + b * row["work"], mean / 10)

    def overlapping(self, start_ns, end_ns):
        """The rows, in order."""
        for i in range(bisect.bisect_right(self.ends, start_ns), len(self.rows)):
            if self.rows[i]["start_ns"] >= end_ns:
                return
            yield self.rows[i]

    def within(self, start_ns, end_ns):
        """Lengths of those that overlap."""
        return [self.length(r) for r in self.overlapping(start_ns, end_ns)]

    def inside(self, start_ns, end_ns):
        """Lengths of those that lie in it as a whole."""
        return [self.length(r) for r in self.overlapping(start_ns, end_ns)
                if r["start_ns"] >= start_ns and r["end_ns"] <= end_ns]


def recovered_ns(logs, released_ns, end_ns):
    """When the last of the steps had ended that were under way as a fault was switched off: what
    was lost on the network is sent again seconds later. The run's end where a rank made no more."""
    ends = [released_ns]
    for s in logs:
        ends += [r["end_ns"] for r in s.all if r["start_ns"] < released_ns < r["end_ns"]]
        if s.all and s.all[-1]["end_ns"] < released_ns:
            ends.append(end_ns)
    return max(ends)


def own_changes(rows, benign):
    """[(kind, start, end)] of what the program did of its own accord, by its log: steps of a phase
    that follow one another, without what overlaps a change that the runner made."""
    found = []
    for phase, steps in itertools.groupby(rows, key=lambda r: r["phase"]):
        steps = list(steps)
        start, end = steps[0]["start_ns"], steps[-1]["end_ns"]
        if phase in CHANGES and not any(o["onset_ns"] < end and o["end_ns"] > start
                                        for o in benign):
            found.append((CHANGES[phase], start, end))
    return found


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
    """What the labels hold: steps, slowdown, baseline, noise."""
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


def _pieces(steps, clean, length_ns):
    """[(start, end, mean length of the steps there)] of clean time, each of LEAST_STEPS steps or
    more, but for the last of a stretch, which may be short. Where a step that goes on behind the
    stretch leaves no room for so many, its part in it stands for them: at least so long was it."""
    found = []
    for a, b in clean:
        for at in range(a, b, length_ns):
            end = min(b, at + length_ns)
            rows = [r for r in steps.overlapping(at, end) if r["start_ns"] >= a]
            lengths = [steps.length(r) for r in rows if r["end_ns"] <= b]
            if len(lengths) >= LEAST_STEPS or (lengths and end - at < length_ns):
                found.append((at, end, statistics.fmean(lengths)))
            elif rows and rows[-1]["end_ns"] > b:
                found.append((at, end, b - rows[-1]["start_ns"]))
    return found


def _slow_pieces(steps, clean):
    """[(start, end, ratio)] of one rank, over the median of the pieces nearby: the mean would have
    what is slow in it."""
    lengths = [x for a, b in clean for x in steps.inside(a, b)]
    if len(lengths) < LEAST_STEPS:
        return []
    pieces = _pieces(steps, clean, max(PIECE_NS, round(LEAST_STEPS * statistics.median(lengths))))
    found = []
    for start, end, mean in pieces:
        usual = statistics.median(m for s, e, m in pieces
                                  if e > start - NEAR_NS and s < end + NEAR_NS)
        if mean >= SLOWED * usual:
            found.append((start, end, mean / usual))
    return found


def slow_stretches(logs, clean):
    """[(start, end, ratio)] of clean time in which the steps of a rank took as much longer as makes
    a fault effective, in pieces of a second and of LEAST_STEPS steps; the last of each stretch of
    clean time may be shorter."""
    found = []
    for piece in sorted(p for s in logs for p in _slow_pieces(s, clean)):
        start, end, ratio = piece
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end), max(found[-1][2], ratio))
        else:
            found.append(piece)
    return found


def fill_in(episodes, benign, folder, ranks, start_ns, end_ns):
    """Into each episode: its effect on the rank that it slowed most, and when the job recovered.
    Returns the clean stretches, those that are benign included, and what of them was slow."""
    logs = [Steps(rows) for rows in read_rows(folder, "steps", ranks).values()]
    for e in episodes:
        e["recovered_ns"] = recovered_ns(logs, e["released_ns"], end_ns)
    clean = clean_stretches(episodes, start_ns, end_ns)
    usual = without(clean, benign)
    for s in logs:
        s.fit(usual)
    for e in episodes:
        effects = [effect_of(s, usual, e["applied_ns"], e["released_ns"]) for s in logs]
        effects.sort(key=lambda x: x["slowdown_ratio"] or 0)
        e.update(effects[-1] if effects else {})
    return clean, slow_stretches(logs, usual)
