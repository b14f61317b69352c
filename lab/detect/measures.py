"""measures.py - the arithmetic of the scores: confusion counts and what is made of them, intervals,
and which alerts found which episodes. Standard library alone. Reads no files and knows no method.

Samples of one episode are no independent evidence, so the unit of every interval is the episode
(or, of what is normal, a stretch of the recording): counts are given unit by unit.

Sources: Wilson, "Probable inference, the law of succession, and statistical inference", 1927;
Garwood, "Fiducial limits for the Poisson distribution", 1936; Matthews, "Comparison of the
predicted and observed secondary structure of T4 phage lysozyme", 1975; Efron, "Bootstrap methods",
1979. Scores are never point-adjusted: an alarmed sample does not make its neighbours right."""

import collections
import math
import random

Z95 = 1.959963984540054  # of the normal distribution, two-sided 95 %

Counts = collections.namedtuple("Counts", "tp fp fn tn")
Counts.__doc__ = "Samples, or sums of their weights."

MEASURES = ("accuracy", "precision", "recall", "f1", "mcc")


def add_up(counts):
    """The sum of many Counts."""
    return Counts(*(math.fsum(c[i] for c in counts) for i in range(4)))


def at_ratio(c, normal_per_anomalous):
    """What the counts would be, had the same detector met so many normal samples for each anomalous
    one: rows of the confusion matrix are scaled, rates within them stay. None where a class is
    empty."""
    anomalous, normal = c.tp + c.fn, c.fp + c.tn
    if not anomalous or not normal:
        return None
    n = normal_per_anomalous / normal
    return Counts(c.tp / anomalous, c.fp * n, c.fn / anomalous, c.tn * n)


def ratio(part, whole):
    return part / whole if whole else math.nan


def accuracy(c):
    return ratio(c.tp + c.tn, sum(c))


def precision(c):
    """NaN where nothing was alarmed."""
    return ratio(c.tp, c.tp + c.fp)


def recall(c):
    return ratio(c.tp, c.tp + c.fn)


def f1(c):
    """0 where there was something to find and nothing was alarmed."""
    return ratio(2 * c.tp, 2 * c.tp + c.fp + c.fn)


def mcc(c):
    """Matthews' correlation; 0 where a margin is empty, which is its limit."""
    margins = (c.tp + c.fp) * (c.tp + c.fn) * (c.tn + c.fp) * (c.tn + c.fn)
    return (c.tp * c.tn - c.fp * c.fn) / math.sqrt(margins) if margins else 0.0


def measures(c):
    """All of MEASURES; of None (a class is empty) all NaN."""
    if c is None:
        return dict.fromkeys(MEASURES, math.nan)
    return {"accuracy": accuracy(c), "precision": precision(c), "recall": recall(c), "f1": f1(c),
            "mcc": mcc(c)}


# ---- intervals ----

def wilson(share, n, z=Z95):
    """The interval of a proportion that was seen over n units."""
    if not n or math.isnan(share):
        return (math.nan, math.nan)
    middle = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return (max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale))


def poisson_below(k, mean):
    """P(X <= k)."""
    term = math.exp(-mean)
    total = term
    for i in range(1, k + 1):
        term *= mean / i
        total += term
    return min(1.0, total)


def solve(function, low, high):
    """Where a falling function is 0, by halving."""
    for _ in range(200):
        middle = (low + high) / 2
        if function(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def poisson_interval(k, exposure):
    """The 95 % interval of a rate, k events over an exposure (hours, say). Exact (Garwood); where
    k is above 600 by the normal distribution, since exp(-mean) would be 0."""
    if not exposure > 0:
        return (math.nan, math.nan)
    if k > 600:
        return ((k - Z95 * math.sqrt(k)) / exposure, (k + Z95 * math.sqrt(k)) / exposure)
    most = k + 10 * math.sqrt(k + 1) + 10
    low = 0.0 if k == 0 else solve(lambda m: poisson_below(k - 1, m) - 0.975, 0.0, most)
    high = solve(lambda m: poisson_below(k, m) - 0.025, 0.0, most)
    return (low / exposure, high / exposure)


def quantile(values, q):
    """Of a few values, between neighbours in proportion; NaN of none."""
    values = sorted(values)
    if not values:
        return math.nan
    at = q * (len(values) - 1)
    below = math.floor(at)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (at - below)


def bootstrap(strata, value, resamples=1000, seed=1):
    """95 % percentile intervals of the numbers in the dict value(units). strata: lists of units;
    each is drawn from by itself, so that a resample has as many units of each kind. Resamples in
    which a number is NaN are left out of its interval."""
    strata = [s for s in strata if s]
    rng = random.Random(seed)
    seen = {name: [] for name in value([u for s in strata for u in s])}
    for _ in range(resamples):
        for name, number in value([u for s in strata for u in rng.choices(s, k=len(s))]).items():
            if not math.isnan(number):
                seen[name].append(number)
    return {name: (quantile(v, 0.025), quantile(v, 0.975)) for name, v in seen.items()}


def with_intervals(units, normal_per_anomalous=None, resamples=1000, seed=1):
    """{measure: (value, low, high)} of Counts given unit by unit; at the natural rate, or at a
    ratio. F1 and MCC by bootstrap over units, those with anomalous samples and the others apart;
    proportions by Wilson, n being the units that have samples in the denominator."""
    units = [u for u in units if sum(u)]

    def value(chosen):
        c = add_up(chosen)
        return at_ratio(c, normal_per_anomalous) if normal_per_anomalous else c

    def numbers(chosen):
        whole = measures(value(chosen))
        return {"f1": whole["f1"], "mcc": whole["mcc"]}

    whole = measures(value(units)) if units else measures(None)
    ret = {}
    n = {"accuracy": len(units), "precision": sum(1 for u in units if u.tp + u.fp),
         "recall": sum(1 for u in units if u.tp + u.fn)}
    for name, count in n.items():
        ret[name] = (whole[name], *wilson(whole[name], count))
    faulty = [u for u in units if u.tp + u.fn]
    spread = bootstrap([faulty, [u for u in units if not u.tp + u.fn]], numbers, resamples, seed)
    for name in ("f1", "mcc"):
        ret[name] = (whole[name], *spread[name])
    return ret


# ---- episodes and alerts ----

# start, end: from onset to release of what was injected. effective: it slowed the job enough. Times
# in ns.
Episode = collections.namedtuple("Episode", "start end effective")
# told: when the detector could say so, at the end of the first window that was alarmed.
Alert = collections.namedtuple("Alert", "told start end")


def match(episodes, benign, clean, alerts, grace, late=0):
    """Which alerts found which episodes of one run. An episode is found by the first alert that was
    told from its onset to its end plus grace, both included; an alert that was told before the
    onset does not count, whatever it covers. Within the grace of one episode and in another
    it is the other's. benign, clean: [(start, end)] of what differs and is no fault, and of what
    is without fault; benign stretches lie in clean ones, and what is told in them is apart.

    An alert told after the grace, but no later than late after the episode's end, whose own first
    window lies in the episode, is late: it found nothing, and is not false either.

    Returns {"found": {index of an effective episode: delay}, "ineffective": the same of the others,
    "benign": {index: number of alerts}, "late": [alerts], "false": [alerts], "elsewhere": [alerts
    told outside all of these, where nobody knows what was true]}."""
    ret = {"found": {}, "ineffective": {}, "benign": {}, "late": [], "false": [], "elsewhere": []}
    for alert in sorted(alerts):
        told = alert.told
        within = [i for i, e in enumerate(episodes) if e.start <= told <= e.end + grace]
        mild = [i for i, (start, end) in enumerate(benign) if start <= told <= end]
        if within:
            i = max(within, key=lambda i: (told <= episodes[i].end, episodes[i].start))
            found = ret["found" if episodes[i].effective else "ineffective"]
            found.setdefault(i, told - episodes[i].start)
        elif mild:
            ret["benign"][mild[0]] = ret["benign"].get(mild[0], 0) + 1
        elif any(e.start <= alert.start <= e.end and told <= e.end + late for e in episodes):
            ret["late"].append(alert)
        elif any(start <= told <= end for start, end in clean):
            ret["false"].append(alert)
        else:
            ret["elsewhere"].append(alert)
    return ret


def covered(stretches):
    """How much time [(start, end)] cover, each moment once."""
    total, at = 0, -math.inf
    for start, end in sorted(stretches):
        if end > at:
            total += end - max(start, at)
            at = end
    return total


def alerts_of_windows(windows, gap):
    """Alerts of alarmed windows, [(start, end)] of one process or device: windows that are at most
    gap apart are one alert, told when the first of them has ended."""
    ret = []
    for start, end in sorted(windows):
        if ret and start - ret[-1].end <= gap:
            ret[-1] = ret[-1]._replace(end=max(end, ret[-1].end))
        else:
            ret.append(Alert(end, start, end))
    return ret
