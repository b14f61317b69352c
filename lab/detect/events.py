"""events.py - millions of judged events to a sample of bounded size, to what a window looks like
before any normalisation, and to how much longer a layer's calls took in each episode. Reads the
arrays of `eacgm detect --events FILE.npy` in chunks, a few million events a second.

The sample is stratified: of each layer and truth as many as asked for, drawn evenly, each with the
number of events that it stands for. Sums of weights are those of all events: natural rates
come out unbiased, and the rare class is not thinned."""

import numpy as np

import truth
from data import Bad

CHUNK = 1 << 19
RAW_CALLS = ("events_per_s", "mean_ns", "p50_ns", "p99_ns", "max_ns")
# src/cli/detect_events.c
EVENT = np.lib.format.descr_to_dtype([
    ("start_ns", "<u8"), ("dur_ns", "<u8"), ("pid", "<u4"), ("tid", "<u4"), ("key", "<u4"),
    ("z", "<f4"), ("gap_z", "<f4"), ("more_ns", "<f4"), ("layer", "u1"), ("anomalous", "u1"),
    ("", "V6")])
KINDS = (truth.NORMAL, truth.ANOMALOUS, truth.LEFT_OUT)


def header_of(f, path):
    """(length, type) of the array that begins here."""
    try:
        if np.lib.format.read_magic(f) != (1, 0):
            raise ValueError("another version of the format")
        shape, _, kind = np.lib.format.read_array_header_1_0(f)
        if len(shape) != 1 or kind.hasobject:
            raise ValueError("no list of plain values")
    except (ValueError, EOFError) as e:
        raise Bad("%s: not as docs/detect.md says: %s" % (path, e)) from None
    return shape[0], kind


class Events:
    """The file of `eacgm detect --events FILE.npy`: rows (records, read where they are looked at)
    and keys, the text of each key by number."""

    def __init__(self, path):
        self.path = path
        try:
            with open(path, "rb") as f:
                count, kind = header_of(f, path)
                if kind != EVENT:
                    raise Bad("%s: other columns than docs/detect.md lists" % path)
                begin = f.tell()
                f.seek(begin + count * EVENT.itemsize)
                texts, kind = header_of(f, path)
                if kind.kind != "S":
                    raise Bad("%s: keys are no texts" % path)
                keys = f.read(texts * kind.itemsize)
        except OSError as e:
            raise Bad("%s: %s" % (path, e.strerror)) from None
        if len(keys) != texts * kind.itemsize:
            raise Bad("%s: ends in the middle" % path)
        self.keys = np.frombuffer(keys, kind) if texts else np.empty(0, "S1")
        self.rows = np.memmap(path, EVENT, "r", begin, (count,)) if count else np.empty(0, EVENT)

    def chunks(self):
        """(number of the first, columns), CHUNK events at a time."""
        for first in range(0, len(self.rows), CHUNK):
            r = np.array(self.rows[first:first + CHUNK])
            if r["layer"].max() >= len(truth.LAYERS) or r["key"].max() >= len(self.keys) or \
                    r["anomalous"].max() > 1:
                raise Bad("%s: an event of no layer or key" % self.path)
            yield first, columns_of(r)


def columns_of(r):
    """Records as columns, each contiguous."""
    column = lambda name, kind: r[name].astype(kind)
    return {"start": column("start_ns", np.int64), "dur": column("dur_ns", np.float64),
            "pid": column("pid", np.int32), "tid": column("tid", np.int32),
            "layer": column("layer", np.int8), "key": column("key", np.uint32),
            "z": column("z", np.float32), "gap_z": column("gap_z", np.float32),
            "alarmed": column("anomalous", np.uint8)}


class Stratum:
    """So many of what is added, as if drawn evenly: those of the least random numbers."""

    def __init__(self, most):
        self.most, self.seen = most, 0
        self.order, self.numbers = np.empty(0), np.empty(0, np.int64)

    def add(self, numbers, rng):
        """Events by their number in the file."""
        self.seen += len(numbers)
        order = rng.random(len(numbers))
        if len(self.order) == self.most and len(numbers):  # most of them would go again at once
            near = order < self.order.max()
            numbers, order = numbers[near], order[near]
        order = np.concatenate([self.order, order])
        numbers = np.concatenate([self.numbers, numbers])
        if len(order) > self.most:
            keep = np.argpartition(order, self.most)[:self.most]
            order, numbers = order[keep], numbers[keep]
        self.order, self.numbers = order, numbers


class Effects:
    """How much longer the calls of a layer took in an episode than the same calls take in the run's
    clean time. Calls that clean time does not have are all extra. A measurement of what was
    injected: it looks at durations alone, not at what a detector made of them."""

    def __init__(self, episodes, keys):
        self.episodes, self.keys = episodes, keys
        self.clean = self._sums()
        self.within = [self._sums() for _ in episodes]
        self.layer = np.full(keys, -1, np.int64)

    def _sums(self):
        return [np.zeros(self.keys), np.zeros(self.keys)]  # count, ns by key

    def _add(self, sums, key, dur):
        sums[0] += np.bincount(key, minlength=self.keys)
        sums[1] += np.bincount(key, weights=dur, minlength=self.keys)

    def add(self, c, end, what):
        self.layer[c["key"]] = c["layer"]
        normal = what == truth.NORMAL
        self._add(self.clean, c["key"][normal], c["dur"][normal])
        first, last = c["start"].min(), end.max()
        for e, sums in zip(self.episodes, self.within):
            if e["released_ns"] <= first or e["applied_ns"] >= last:
                continue
            near = np.flatnonzero((c["start"] < e["released_ns"]) & (end > e["applied_ns"]))
            mine = near[truth.named(e, c["layer"][near], c["pid"][near],
                                    np.full(len(near), -1))]
            self._add(sums, c["key"][mine], c["dur"][mine])

    def ratios(self):
        """[{layer: ratio}] of the episodes; a layer without calls in one of both is not in it."""
        count, ns = self.clean
        known = count >= truth.LEAST_CALLS
        usual = np.where(known, ns / np.maximum(count, 1), 0.0)
        ret = []
        for calls, took in self.within:
            ratios = {}
            for number in np.unique(self.layer[self.layer >= 0]).tolist():
                of = self.layer == number
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
            if not len(mine):
                continue
            place = np.searchsorted(starts, end[mine], side="right") - 1
            good = (place >= 0) & (end[mine] <= ends[np.maximum(place, 0)])
            ret[mine[good]] = rows[place[good]]
        return ret


class RawWindows:
    """What windows look like before any normalisation, of all events of a run."""

    def __init__(self):
        self.parts = []

    def add(self, row, dur):
        """row: the window's number, -1 none. Together they sort as one number, for the bits of
        floats that are not negative are in the floats' order."""
        mine = row >= 0
        bits = dur[mine].astype(np.float32).view(np.uint32)
        self.parts.append(row[mine].astype(np.uint64) << np.uint64(32) | bits)

    def columns(self, row_seconds):
        """len(row_seconds) x RAW_CALLS; NaN where a window has no event."""
        ret = np.full((len(row_seconds), len(RAW_CALLS)), np.nan, np.float32)
        both = np.concatenate(self.parts) if self.parts else np.empty(0, np.uint64)
        self.parts = []
        both.sort()
        dur = (both & np.uint64(0xffffffff)).astype(np.uint32).view(np.float32)
        row = (both >> np.uint64(32)).astype(np.int64)
        begin = np.searchsorted(row, np.arange(len(row_seconds) + 1))
        count = np.diff(begin)
        at = np.flatnonzero(count)
        if not len(at):
            return ret
        begin, count = begin[at], count[at]
        ret[at, 0] = count / row_seconds[at]
        ret[at, 1] = np.add.reduceat(dur, begin, dtype=np.float64) / count
        ret[at, 2] = dur[begin + count // 2]
        ret[at, 3] = dur[begin + np.minimum((count * 0.99).astype(int), count - 1)]
        ret[at, 4] = dur[begin + count - 1]
        return ret


def sample(path, origin_ns, meta, calls, rows, most, seed):
    """Of a run's events: (columns of the sample, keys, raw windows, population, layer ratios of the
    episodes). Times become those after origin_ns, as those of meta and calls are; rows: start,
    end, layer, pid as arrays. Strata are of what the injector says: which layers it did touch is
    known at the end alone."""
    told = Events(path)
    rng = np.random.default_rng(seed)
    places, effects, raw = Places(*rows), Effects(meta["episodes"], len(told.keys)), RawWindows()
    strata = {}
    for first, c in told.chunks():
        c["start"] -= origin_ns
        end = c["start"] + c["dur"].astype(np.int64)
        what, _ = truth.truth_of(meta, c["start"], end, c["layer"], c["pid"],
                                 np.full(len(end), -1, np.int16), c["tid"], calls)
        effects.add(c, end, what)
        raw.add(places.of(c["layer"], c["pid"], end), c["dur"])
        for layer in np.unique(c["layer"]).tolist():
            for kind in KINDS:
                s = strata.setdefault((layer, kind), Stratum(most if kind >= 0 else most // 8))
                s.add(first + np.flatnonzero((c["layer"] == layer) & (what == kind)), rng)
    population = {}
    for (layer, kind), s in strata.items():
        population.setdefault(truth.LAYERS[layer], [0, 0, 0])[kind if kind >= 0 else 2] = s.seen
    columns, keys = put_together(told, strata, origin_ns)
    end = columns["start"] + columns["dur"].astype(np.int64)
    columns["row"] = places.of(columns["layer"], columns["pid"], end)
    return columns, keys, raw.columns((rows[1] - rows[0]) / 1e9), population, effects.ratios()


def put_together(told, strata, origin_ns):
    """One set of columns in order of time, with weight and number in the file; and the texts of
    the keys that they have."""
    parts = [s for s in strata.values() if s.seen]
    numbers = np.concatenate([s.numbers for s in parts] or [np.empty(0, np.int64)])
    weight = np.concatenate([np.full(len(s.numbers), s.seen / len(s.numbers), np.float32)
                             for s in parts] or [np.empty(0, np.float32)])
    rows = told.rows[numbers]
    order = np.lexsort((numbers, rows["start_ns"]))
    columns = dict(columns_of(rows[order]), number=numbers[order], weight=weight[order])
    columns["start"] -= origin_ns
    texts = [k.decode("utf-8", "replace") for k in told.keys.tolist()]
    # By text, so that the same events make the same bytes.
    used = sorted(set(columns["key"].tolist()), key=lambda k: texts[k])
    place = np.zeros(len(texts), np.uint32)
    place[used] = np.arange(len(used), dtype=np.uint32)
    columns["key"] = place[columns["key"]]
    return columns, [texts[k] for k in used]


def alarms_of(path, origin_ns, columns):
    """What another detector said of the events that were sampled: 2 where it told nothing of one.
    They have the same numbers in both files, as a rule; else they are looked for."""
    told = Events(path).rows
    ret = np.full(len(columns["start"]), 2, np.uint8)
    start, dur = columns["start"] + origin_ns, columns["dur"]
    within = np.flatnonzero(columns["number"] < len(told))
    there = told[columns["number"][within]]
    same = (there["start_ns"] == start[within]) & (there["tid"] == columns["tid"][within]) & \
        (there["dur_ns"] == dur[within])
    ret[within[same]] = there["anomalous"][same]
    missing = np.flatnonzero(ret == 2)
    if not len(missing):
        return ret
    want = {key: i for key, i in zip(zip(start[missing].tolist(), columns["tid"][missing].tolist(),
                                         dur[missing].tolist()), missing.tolist())}
    for first in range(0, len(told), CHUNK):
        r = np.array(told[first:first + CHUNK])
        for e in r[np.isin(r["start_ns"], start[missing].astype(np.uint64))]:
            i = want.get((int(e["start_ns"]), int(e["tid"]), float(e["dur_ns"])))
            if i is not None:
                ret[i] = e["anomalous"]
    return ret
