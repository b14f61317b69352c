"""data.py - the compact data set: one .npz for each recorded run, and what is read back of it.

A file holds, times in ns after the run's beginning:
  meta             JSON: run, split ("calibration", "dev", "test"), workload, plan, seed, origin_ns
                   (when the run began, CLOCK_MONOTONIC), start_ns, end_ns, features {layer:
                   [names]}, raw {layer: [names]}, keys, population {layer: [normal, anomalous,
                   left out]} of all events, episodes[], benign[], clean [[start, end]], slow (those
                   of clean time in which the job was slower all the same; may be missing), and
                   detectors {name: {asked_per_hour, anomalies}}
  row_*            every window and step that the detector judged: start, end, layer, pid, gpu,
                   regime, events, parent and gpu_pid (0 unknown), pace (NaN unknown), parents_pace,
                   other_work (as in `eacgm detect --rows`); x, the features (NaN unknown); raw, the
                   same window before any normalisation; p_NAME and alarmed_NAME, of each detector
  event_*          a sample of the events: start, dur, layer, pid, tid, key, z, gap_z, row (-1
                   none), weight (how many events it stands for), alarmed_NAME
  call_*           the calls that were delayed one by one, where the injector lists them: episode
                   (its place), tid, start, end
Detector "full" is eacgm as it is; the others are ablations. Truth is not stored: truth.py makes it
of the episodes when the file is read. Depends on numpy."""

import hashlib
import json
import os
import zipfile

import numpy as np

import truth

FORMAT = 1

class Bad(Exception):
    """A data set, or a run, that cannot be used; one sentence."""


class Run:
    """One run: meta, arrays by name, truth and unit of rows and events. slow: what clean time is
    without, [(start, end)]."""

    def __init__(self, meta, arrays, name, slow=()):
        self.meta, self.arrays, self.name, self.slow = meta, arrays, name, slow
        self.split, self.workload = meta["split"], meta["workload"]
        self.episodes, self.benign, self.clean = meta["episodes"], meta["benign"], meta["clean"]
        a = arrays
        self.row_truth, self.row_unit = truth.truth_of(
            meta, a["row_start"], a["row_end"], a["row_layer"], a["row_pid"], a["row_gpu"])
        calls = truth.Calls(a["call_episode"], a["call_tid"], a["call_start"], a["call_end"])
        self.event_truth, self.event_unit = truth.truth_of(
            meta, a["event_start"], a["event_start"] + a["event_dur"].astype(np.int64),
            a["event_layer"], a["event_pid"], np.full(len(a["event_start"]), -1, np.int16),
            a["event_tid"], calls)

    def __getattr__(self, name):
        try:
            return self.__dict__["arrays"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def clean_of_alerts(self):
        """Where an alert is a false one: what is told just after a slow stretch is of that."""
        return truth.less(self.clean, [(a, b + truth.GRACE_NS) for a, b in self.slow])

    @property
    def detectors(self):
        return self.meta["detectors"]


def write_run(path, meta, arrays):
    """Replaces the file as a whole. The bytes are the same each time for the same content."""
    part = path + ".part"
    text = json.dumps(dict(meta, format=FORMAT), sort_keys=True).encode()
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as z:
        for name, array in sorted(dict(arrays, meta=np.frombuffer(text, np.uint8)).items()):
            info = zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            with z.open(info, "w", force_zip64=True) as f:
                np.lib.format.write_array(f, np.ascontiguousarray(array), allow_pickle=False)
    os.replace(part, path)


def read_run(path, less_slow=False):
    """less_slow: clean time is without what was slow all the same."""
    try:
        with np.load(path, allow_pickle=False) as z:
            arrays = {k: z[k] for k in z.files}
        meta = json.loads(arrays.pop("meta").tobytes())
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as e:
        raise Bad("%s: not a data set: %s" % (path, e)) from None
    if meta.get("format") != FORMAT:
        raise Bad("%s: format %r, and this reads %d" % (path, meta.get("format"), FORMAT))
    for prefix in ("row_", "event_", "call_"):
        lengths = {len(v) for k, v in arrays.items() if k.startswith(prefix)}
        if len(lengths) != 1:
            raise Bad("%s: columns of different lengths" % path)
    if less_slow and "slow" not in meta:
        raise Bad("%s: nothing says when the job was slow" % path)
    slow = meta["slow"] if less_slow else []
    meta["clean"] = truth.less(meta["clean"], slow)
    return Run(meta, arrays, os.path.basename(path)[:-len(".npz")], slow)


def read_folder(folder, less_slow=False):
    """All runs of a data set, by name."""
    try:
        names = sorted(n for n in os.listdir(folder) if n.endswith(".npz"))
    except OSError as e:
        raise Bad("%s: %s" % (folder, e.strerror)) from None
    if not names:
        raise Bad("%s: no data set there; lab/detect/dataset.py makes one" % folder)
    return [read_run(os.path.join(folder, n), less_slow) for n in names]


def digest(runs):
    """Tells whether verdicts belong to these runs, and to what is clean in them."""
    h = hashlib.sha256()
    for r in runs:
        h.update(json.dumps(r.clean).encode())
        h.update(("%s %s %d %d\n" % (r.name, r.split, len(r.row_start),
                                     len(r.event_start))).encode())
        h.update(r.event_start.tobytes())
        h.update(r.row_start.tobytes())
    return h.hexdigest()[:16]
