"""truth.py - what was true of a window or an event, by what was injected (docs/results/faults.md). Knows no
method; the detectors never see any of this.

Of a layer, a sample is
  anomalous  in an effective episode that names this layer and this process or GPU as its target,
             between the fault's taking hold and its release: a window that lies in it by half or
             more, an event that overlaps it. Where the injector listed the very calls that it
             delayed, only events that overlap one of them in the same thread, and the
             others of that layer and process are normal;
  normal     wholly in a clean stretch, and in what is benign; clean stretches may be without what
             was slow all the same (--less-slow);
  left out   all else: windows of which less than half lies in the episode, the time in which the
             job recovers, layers and processes that the episode does not name (they may be slowed
             by it or not), and episodes that did not slow the job by 10 % (reported apart).
             Likewise layers that an episode names, since it may slow their calls, but whose
             calls did not take 10 % longer: what does not differ cannot be found in them.

The unit of a sample, for intervals: its episode, else the piece of UNIT_NS it lies in."""

import numpy as np

LAYERS = ("cuda", "python", "torch", "nccl", "hardware", "host", "step")  # src/detect/layer.h
SCORED = ("cuda", "python", "torch", "nccl", "hardware")  # the paper's table
CALLS = ("cuda", "python", "torch", "nccl")  # layers that have events
NORMAL, ANOMALOUS, LEFT_OUT = 0, 1, -1
GRACE_NS = 2 * 10**9  # after a release; clean stretches begin then, or when the job has recovered
LATE_NS = 10 * 10**9  # an alert of an episode that is told later than that is a false one
UNIT_NS = 60 * 10**9
LEAST_COVER = 0.5
LEAST_RATIO = 1.10  # of a layer's calls, over what the same calls take in the run's clean time
LEAST_CALLS = 8  # of a function in clean time, to know what it takes


def touches(episode, layer):
    """Whether an episode is to be found in a layer. layer_ratio, where it is known (events.py):
    time in the layer's calls over what the same calls take in clean time."""
    by = episode.get("layer_ratio", {}).get(layer)
    return layer in episode["layers"] and (by is None or by >= LEAST_RATIO)


def named(episode, layer, pid, gpu):
    """Which samples an episode names: layer, pid and gpu are arrays."""
    ret = np.isin(layer, [i for i, name in enumerate(LAYERS) if touches(episode, name)])
    if episode["pids"]:
        ret &= np.isin(pid, episode["pids"]) | (pid == 0)
    if episode["gpu"] is not None:
        ret &= (gpu == episode["gpu"]) | (gpu < 0)
    return ret


class Calls:
    """The calls that the injector delayed: arrays episode (its place), tid, start, end."""

    def __init__(self, episode, tid, start, end):
        self.of = {}
        for e in np.unique(episode):
            for t in np.unique(tid[episode == e]):
                at = np.flatnonzero((episode == e) & (tid == t))
                at = at[np.argsort(start[at], kind="stable")]
                # The latest end so far: calls may lie in each other.
                self.of[int(e), int(t)] = (start[at], np.maximum.accumulate(end[at]))

    def listed(self, episode):
        return any(e == episode for e, _ in self.of)

    def overlap(self, episode, tid, start, end):
        ret = np.zeros(len(tid), bool)
        for (e, t), (starts, ends) in self.of.items():
            if e != episode:
                continue
            mine = np.flatnonzero(tid == t)
            place = np.searchsorted(starts, end[mine], side="right") - 1
            ret[mine] = (place >= 0) & (ends[np.maximum(place, 0)] >= start[mine])
        return ret


def less(stretches, others):
    """[(start, end)] without what the others cover."""
    for low, high in others:
        stretches = [(a, b) for start, end in stretches
                     for a, b in ((start, min(end, low)), (max(start, high), end)) if a < b]
    return stretches


def inside_any(stretches, start, end):
    """Whether a sample lies wholly in one of [(start, end)]."""
    ret = np.zeros(len(start), bool)
    if not len(start):
        return ret
    first, last = start.min(), start.max()
    for low, high in stretches:
        if low <= last and high >= first:
            ret |= (start >= low) & (end <= high)
    return ret


def truth_of(meta, start, end, layer, pid, gpu, tid=None, calls=None):
    """(truth, unit) of samples, arrays of the same length, times as those of meta. Events have tid,
    windows have not. Units are numbers of episodes and benign stretches, beyond them of pieces."""
    episodes, benign = meta["episodes"], meta["benign"]
    windows = tid is None
    truth = np.full(len(start), LEFT_OUT, np.int8)
    unit = len(episodes) + len(benign) + (start // UNIT_NS).astype(np.int32)
    truth[inside_any(meta["clean"], start, end)] = NORMAL
    for number, b in enumerate(benign):
        unit[(start < b["end_ns"]) & (end > b["start_ns"])] = len(episodes) + number
    first, last = (start.min(), end.max()) if len(start) else (0, 0)
    for number, e in enumerate(episodes):
        if e["released_ns"] <= first or e["applied_ns"] >= last:
            continue  # of millions of events in order of time most episodes have none
        near = np.flatnonzero((start < e["released_ns"]) & (end > e["applied_ns"]))
        unit[near] = number
        if not e["effective"]:
            continue
        hit = near[named(e, layer[near], pid[near], gpu[near])]
        if windows:
            inside = np.minimum(end[hit], e["released_ns"]) - \
                np.maximum(start[hit], e["applied_ns"])
            hit = hit[inside >= LEAST_COVER * (end[hit] - start[hit])]
        elif calls is not None and calls.listed(number):
            truth[hit] = NORMAL
            hit = hit[calls.overlap(number, tid[hit], start[hit], end[hit])]
        truth[hit] = ANOMALOUS
    return truth, unit
