"""events.py - millions of judged events to a sample of bounded size, to what a window looks like
before any normalisation, and to how much longer a layer's calls took in each episode. Streams the
CSV of `eacgm detect --events` in chunks.

The sample is stratified: of each layer and truth as many as asked for, drawn evenly, each with the
number of events that it stands for. Sums of weights are those of all events: natural rates
come out unbiased, and the rare class is not thinned."""

import csv
import itertools

import numpy as np

import truth
from data import Bad

CHUNK = 200000
RAW_CALLS = ("events_per_s", "mean_ns", "p50_ns", "p99_ns", "max_ns")
HEADS = ("start_ns", "dur_ns", "pid", "tid", "layer", "key", "z", "gap_z", "anomalous")
_LAYER = {name: number for number, name in enumerate(truth.LAYERS)}
_FLAG = {"1": 1, "0": 0, "true": 1, "false": 0}


def number_or_nan(text):
    return float(text) if text else np.nan


def columns_of(rows, place, path):
    try:
        columns = list(zip(*rows))
        get = lambda name: columns[place[name]]
        # By way of Python's numbers: numpy is slow at reading strings.
        integers = lambda name, kind: np.array(list(map(int, get(name))), dtype=kind)
        return {
            "start": integers("start_ns", np.int64),
            "dur": integers("dur_ns", np.float64),
            "pid": integers("pid", np.int32),
            "tid": integers("tid", np.int32),
            "layer": np.array([_LAYER[x] for x in get("layer")], np.int8),
            "key": get("key"),
            "z": np.array([number_or_nan(x) for x in get("z")], np.float32),
            "gap_z": np.array([number_or_nan(x) for x in get("gap_z")], np.float32),
            "alarmed": np.array([_FLAG[x] for x in get("anomalous")], np.uint8),
        }
    except (ValueError, KeyError, IndexError) as e:
        raise Bad("%s: a line is not as docs/detect.md says: %s" % (path, e)) from None


def chunks_of(path):
    """The file's columns, CHUNK lines at a time."""
    try:
        with open(path, newline="", encoding="utf-8", errors="replace") as f:
            lines = csv.reader(f)
            heads = next(lines, None) or []
            place = {name: heads.index(name) for name in HEADS if name in heads}
            if len(place) != len(HEADS):
                raise Bad("%s: lacks columns: %s" % (
                    path, ", ".join(n for n in HEADS if n not in place)))
            while True:
                rows = list(itertools.islice(lines, CHUNK))
                if not rows:
                    return
                yield columns_of(rows, place, path)
    except OSError as e:
        raise Bad("%s: %s" % (path, e.strerror)) from None
    except csv.Error as e:
        raise Bad("%s: %s" % (path, e)) from None


class Stratum:
    """So many of what is added, as if drawn evenly: those of the least random numbers."""

    def __init__(self, most):
        self.most, self.seen = most, 0
        self.order = np.empty(0)
        self.columns = None

    def add(self, columns, chosen, rng):
        at = np.flatnonzero(chosen)
        self.seen += len(at)
        order = rng.random(len(at))
        if len(self.order) == self.most and len(at):  # most of them would go again at once
            near = order < self.order.max()
            at, order = at[near], order[near]
        if not len(at):
            return
        new = {k: ([v[i] for i in at] if k == "key" else v[at]) for k, v in columns.items()}
        if self.columns is not None:
            order = np.concatenate([self.order, order])
            new = {k: (v + new[k] if k == "key" else np.concatenate([v, new[k]]))
                   for k, v in self.columns.items()}
        keep = np.sort(np.argpartition(order, self.most)[:self.most]) \
            if len(order) > self.most else np.arange(len(order))
        self.order = order[keep]
        self.columns = {k: ([v[i] for i in keep] if k == "key" else v[keep])
                        for k, v in new.items()}


class Effects:
    """How much longer the calls of a layer took in an episode than the same calls take in the run's
    clean time. Calls that clean time does not have are all extra. A measurement of what was
    injected: it looks at durations alone, not at what a detector made of them."""

    def __init__(self, episodes):
        self.episodes = episodes
        self.numbers = {}
        self.clean = [np.zeros(0), np.zeros(0)]  # count, ns by number of layer and key
        self.within = [[np.zeros(0), np.zeros(0)] for _ in episodes]
        self.layer = []

    def _number(self, c):
        ret = np.empty(len(c["key"]), np.int64)
        for i, place in enumerate(zip(c["layer"].tolist(), c["key"])):
            number = self.numbers.get(place)
            if number is None:
                number = self.numbers[place] = len(self.numbers)
                self.layer.append(place[0])
            ret[i] = number
        return ret

    def _add(self, sums, numbers, dur):
        for i, weights in enumerate((None, dur)):
            more = np.bincount(numbers, weights=weights,
                               minlength=len(self.numbers)).astype(np.float64)
            more[:len(sums[i])] += sums[i]
            sums[i] = more

    def add(self, c, end, what):
        numbers = self._number(c)
        normal = what == truth.NORMAL
        self._add(self.clean, numbers[normal], c["dur"][normal])
        for e, sums in zip(self.episodes, self.within):
            mine = (c["start"] < e["released_ns"]) & (end > e["applied_ns"])
            if mine.any():
                mine &= truth.named(e, c["layer"], c["pid"], np.full(len(end), -1))
                self._add(sums, numbers[mine], c["dur"][mine])

    def ratios(self):
        """[{layer: ratio}] of the episodes; a layer without calls in one of both is not in it."""
        n = len(self.numbers)
        whole = lambda sums: [np.pad(x, (0, n - len(x))) for x in sums]
        count, ns = whole(self.clean)
        known = count >= truth.LEAST_CALLS
        usual = np.where(known, ns / np.maximum(count, 1), 0.0)
        layer = np.array(self.layer, np.int64)
        ret = []
        for sums in self.within:
            calls, took = whole(sums)
            ratios = {}
            for number in sorted(set(layer.tolist())):
                of = layer == number
                expected = float((calls * usual)[of].sum())
                if expected > 0:
                    ratios[truth.LAYERS[number]] = float(took[of].sum()) / expected
            ret.append(ratios)
        return ret


class Places:
    """Which window an event is of: that of its layer and process in which it ended."""

    def __init__(self, row_start, row_end, row_layer, row_pid):
        self.groups = {}
        for layer, pid in set(zip(row_layer.tolist(), row_pid.tolist())):
            at = np.flatnonzero((row_layer == layer) & (row_pid == pid))
            at = at[np.argsort(row_start[at], kind="stable")]
            self.groups[layer, pid] = (at, row_start[at], row_end[at])

    def of(self, layer, pid, end):
        ret = np.full(len(end), -1, np.int32)
        for (of_layer, of_pid), (rows, starts, ends) in self.groups.items():
            mine = np.flatnonzero((layer == of_layer) & (pid == of_pid))
            place = np.searchsorted(starts, end[mine], side="right") - 1
            good = (place >= 0) & (end[mine] <= ends[np.maximum(place, 0)])
            ret[mine[good]] = rows[place[good]]
        return ret


def raw_windows(n_rows, row_seconds, row_of, dur):
    """n_rows x RAW_CALLS of all events of a run; NaN where a window has none."""
    ret = np.full((n_rows, len(RAW_CALLS)), np.nan, np.float32)
    order = np.lexsort((dur, row_of))
    row_of, dur = row_of[order], dur[order]
    first = np.searchsorted(row_of, 0)
    row_of, dur = row_of[first:], dur[first:]
    rows, begin, count = np.unique(row_of, return_index=True, return_counts=True)
    if not len(rows):
        return ret
    ret[rows, 0] = count / row_seconds[rows]
    ret[rows, 1] = np.add.reduceat(dur, begin) / count
    ret[rows, 2] = dur[begin + count // 2]
    ret[rows, 3] = dur[begin + np.minimum((count * 0.99).astype(int), count - 1)]
    ret[rows, 4] = dur[begin + count - 1]
    return ret


def sample(path, origin_ns, meta, calls, rows, most, seed):
    """Of a run's events: (columns of the sample, keys, raw_windows, population, layer ratios of the
    episodes). Times become those after origin_ns, as those of meta and calls are; rows: start,
    end, layer, pid as arrays. Strata are of what the injector says: which layers it did touch is
    known at the end alone."""
    rng = np.random.default_rng(seed)
    places, effects = Places(*rows), Effects(meta["episodes"])
    strata, all_rows, all_durs = {}, [np.empty(0, np.int32)], [np.empty(0, np.float32)]
    for c in chunks_of(path):
        c["start"] -= origin_ns
        end = c["start"] + c["dur"].astype(np.int64)
        what, _ = truth.truth_of(meta, c["start"], end, c["layer"], c["pid"],
                                 np.full(len(end), -1, np.int16), c["tid"], calls)
        effects.add(c, end, what)
        c["row"] = places.of(c["layer"], c["pid"], end)
        all_rows.append(c["row"])
        all_durs.append(c["dur"].astype(np.float32))
        for layer in set(c["layer"].tolist()):
            for kind in (truth.NORMAL, truth.ANOMALOUS, truth.LEFT_OUT):
                s = strata.setdefault((layer, kind), Stratum(most if kind >= 0 else most // 8))
                s.add(c, (c["layer"] == layer) & (what == kind), rng)
    raw = raw_windows(len(rows[0]), (rows[1] - rows[0]) / 1e9, np.concatenate(all_rows),
                      np.concatenate(all_durs))
    population = {}
    for (layer, kind), s in strata.items():
        population.setdefault(truth.LAYERS[layer], [0, 0, 0])[kind if kind >= 0 else 2] = s.seen
    return (*put_together(strata), raw, population, effects.ratios())


def put_together(strata):
    """One set of columns in order of time; keys by number."""
    parts = [s for s in strata.values() if s.seen]
    names = ("start", "dur", "pid", "tid", "layer", "z", "gap_z", "alarmed", "row")
    if not parts:
        empty = {n: np.empty(0, np.int64) for n in names}
        return dict(empty, weight=np.empty(0, np.float32), key=np.empty(0, np.uint16)), []
    columns = {n: np.concatenate([s.columns[n] for s in parts]) for n in names}
    columns["weight"] = np.concatenate(
        [np.full(len(s.order), s.seen / len(s.order), np.float32) for s in parts])
    texts = [k for s in parts for k in s.columns["key"]]
    keys = sorted(set(texts))
    place = {k: n for n, k in enumerate(keys)}
    columns["key"] = np.array([place[k] for k in texts], np.uint32)
    order = np.lexsort((columns["tid"], columns["start"]))
    return {n: v[order] for n, v in columns.items()}, keys


def alarms_of(path, origin_ns, columns):
    """What another detector said of the events that were sampled: found by start, thread and
    duration. 2 where it told nothing of one."""
    want = {}
    for i, key in enumerate(zip((columns["start"] + origin_ns).tolist(), columns["tid"].tolist(),
                                columns["dur"].tolist())):
        want.setdefault(key, []).append(i)
    starts = {str(start) for start, _, _ in want}
    ret = np.full(len(columns["start"]), 2, np.uint8)
    for row in lines_that_begin(path, starts):
        try:
            key = (int(row[HEADS.index("start_ns")]), int(row[HEADS.index("tid")]),
                   float(row[HEADS.index("dur_ns")]))
            for i in want.get(key, ()):
                ret[i] = _FLAG[row[HEADS.index("anomalous")]]
        except (ValueError, KeyError, IndexError) as e:
            raise Bad("%s: a line is not as docs/detect.md says: %r" % (path, e)) from None
    return ret


def lines_that_begin(path, starts):
    """Rows whose first cell is one of starts; of the others nothing but that cell is read."""
    try:
        with open(path, newline="", encoding="utf-8", errors="replace") as f:
            heads = next(csv.reader([f.readline()]), [])
            if tuple(heads) != HEADS:
                raise Bad("%s: other columns than docs/detect.md lists" % path)
            yield from csv.reader(line for line in f if line.partition(",")[0] in starts)
    except OSError as e:
        raise Bad("%s: %s" % (path, e.strerror)) from None
