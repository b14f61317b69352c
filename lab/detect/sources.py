"""sources.py - who says what of which sample: eacgm itself (from the data set), its parts, the
methods of methods.py (from their verdict files), and what needs no method. Judges nothing.

Verdicts are 1 alarmed, 0 not, 2 nothing said, which counts as not. A method may decide otherwise at
5:1 than at natural rates, since its threshold was chosen there; eacgm's does not know the rate."""

import json
import os

import numpy as np

import data
import measures
import truth

RATES = {"natural": None, "5:1": 5}
WINDOW_GAP_NS = 2 * 10**9  # alarmed windows nearer than this are one alert
NVML = ("hardware",)
EBPF = ("cuda", "python", "torch", "nccl", "step")


class Source:
    """name; about: what it is, one clause. Arrays are as long as the run's events or rows."""

    variant = False  # of eacgm: told against it

    def __init__(self, name, about):
        self.name, self.about = name, about

    def events(self, run, rate):
        raise NotImplementedError

    def rows(self, run, rate):
        raise NotImplementedError

    def judged(self, run):
        """Whether it said anything of the run at all."""
        return True

    def alerts(self, run):
        """[(layer, measures.Alert)]; of alarmed windows, layer by layer, process by process."""
        return alerts_of_rows(run, self.rows(run, "natural"))


def alerts_of_rows(run, alarmed):
    ret = []
    at = np.flatnonzero(alarmed == 1)
    where = list(zip(run.row_layer[at].tolist(), run.row_pid[at].tolist(),
                     run.row_gpu[at].tolist()))
    for place in sorted(set(where)):
        mine = at[[w == place for w in where]]
        windows = zip(run.row_start[mine].tolist(), run.row_end[mine].tolist())
        ret += [(truth.LAYERS[place[0]], a)
                for a in measures.alerts_of_windows(windows, WINDOW_GAP_NS)]
    return ret


class Detector(Source):
    """eacgm, or an ablation of it, as `eacgm detect` judged."""

    def __init__(self, name, key, about, layers=truth.LAYERS):
        super().__init__(name, about)
        self.key, self.layers = key, layers

    def judged(self, run):
        return self.key in run.detectors

    def _of_layers(self, verdicts, layer):
        mine = np.isin(layer, [truth.LAYERS.index(x) for x in self.layers])
        return np.where(mine, verdicts, 0)

    def events(self, run, rate):
        return self._of_layers(run.arrays["event_alarmed_" + self.key], run.event_layer)

    def rows(self, run, rate):
        return self._of_layers(run.arrays["row_alarmed_" + self.key], run.row_layer)

    def alerts(self, run):
        return [(a["layer"], measures.Alert(a["told_ns"], a["start_ns"], a["end_ns"]))
                for a in run.detectors[self.key]["anomalies"] if a["layer"] in self.layers]


class Constant(Source):
    """Always, or never."""

    def __init__(self, name, about, verdict):
        super().__init__(name, about)
        self.verdict = verdict

    def events(self, run, rate):
        return np.full(len(run.event_start), self.verdict, np.uint8)

    def rows(self, run, rate):
        return np.full(len(run.row_start), self.verdict, np.uint8)


class Random(Source):
    """Alarms a share of the samples, whatever they are."""

    def __init__(self, share):
        super().__init__("random", "alarms one sample in %.0f" % (1 / share))
        self.share = share

    def _draw(self, n, run, salt):
        seed = [salt] + list(run.name.encode())
        return (np.random.default_rng(seed).random(n) < self.share).astype(np.uint8)

    def events(self, run, rate):
        return self._draw(len(run.event_start), run, 1)

    def rows(self, run, rate):
        return self._draw(len(run.row_start), run, 2)


def check_digest(path, meta, runs):
    if meta.get("digest") != data.digest(runs):
        raise data.Bad("%s: of another data set, or of other clean time (--less-slow); run "
                       "methods.py again" % path)


class Verdicts(Source):
    """What methods.py wrote: bit 0 natural, bit 1 at 5:1, bit 2 (rows) where it may alarm falsely
    once in an hour."""

    def __init__(self, path, runs):
        try:
            with np.load(path, allow_pickle=False) as z:
                arrays = {k: z[k] for k in z.files}
            meta = json.loads(arrays.pop("meta").tobytes())
        except (OSError, ValueError, KeyError) as e:
            raise data.Bad("%s: not verdicts: %s" % (path, e)) from None
        check_digest(path, meta, runs)
        super().__init__(meta["name"], meta["about"])
        self.arrays, self.meta = arrays, meta

    def events(self, run, rate):
        return self.arrays["event/" + run.name] >> (rate != "natural") & 1

    def rows(self, run, rate):
        return self.arrays["row/" + run.name] >> (rate != "natural") & 1

    def alerts(self, run):
        return alerts_of_rows(run, self.arrays["row/" + run.name] >> 2 & 1)


def write_verdicts(path, meta, by_run):
    """by_run: {run: (event bits, row bits)}."""
    arrays = {"meta": np.frombuffer(json.dumps(meta, sort_keys=True).encode(), np.uint8)}
    for name, (events, rows) in by_run.items():
        arrays["event/" + name], arrays["row/" + name] = events, rows
    part = path + ".part.npz"
    np.savez_compressed(part, **arrays)
    os.replace(part, path)


def faulty_share(runs):
    """What the model of "contaminated" was learned from, as text: "21 %", or "18..22 %"."""
    shares = [r.detectors["contaminated"].get("faulty_share") for r in runs
              if "contaminated" in r.detectors]
    shares = sorted({"%.0f" % (100 * s) for s in shares if s is not None}, key=float)
    return "..".join(shares[:1] + shares[1:][-1:]) + " %" if shares else "some"


def sources_of(runs, verdicts, split):
    """All there is of a split, eacgm first."""
    names = sorted({d for r in runs if r.split == split for d in r.detectors})
    if "full" not in names:
        raise data.Bad("no run has what eacgm itself said")
    ret = [Detector("eacgm", "full", "eacgm detect, calibrated, without labels")]
    for d in names:
        if d.startswith("without-"):
            ret.append(Detector("eacgm " + d.replace("-", " "), d, "one ingredient left out"))
            ret[-1].variant = True
        elif d.startswith("rejudged"):
            ret.append(Detector("eacgm " + d, d, "learned and judged again from the rows"))
            ret[-1].variant = True
    if "contaminated" in names:
        ret.append(Detector("eacgm, learned with %s faulty" % faulty_share(runs), "contaminated",
                            "learned where so much of the time is faulty"))
        ret[-1].variant = True
    ret.append(Detector("NVML only", "full", "eacgm's alarms of the GPUs' counters alone", NVML))
    ret.append(Detector("eBPF only", "full", "eacgm's alarms of calls and steps alone", EBPF))
    files = sorted(os.listdir(verdicts)) if verdicts else []
    of_files = [Verdicts(os.path.join(verdicts, f), runs) for f in files if f.endswith(".npz")]
    ret += sorted(of_files, key=lambda s: s.meta.get("order", 0))
    ret += [Constant("always", "alarms everything", 1), Constant("never", "alarms nothing", 0),
            Random(1 / 6)]
    return ret
