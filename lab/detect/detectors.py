"""detectors.py - the ways of learning and detecting that are compared, and running eacgm for them.
Reads nothing of what comes out."""

import os

import common
import data

# src/detect/learn.h, enum learn_without
INGREDIENTS = ("keys", "sizes", "gaps", "regimes", "cleaning", "mixture", "cusum", "tail",
               "pace")
CONTAMINATED = 0.2  # share of the time that is learned from that is faulty
NEAR = 0.02
SUBSETS_OF = 6
WARMUP_NS = 5e9  # src/detect/learn.c
SECONDS = 3600


class Detector:
    """A way of learning and detecting; a model for each workload."""

    def __init__(self, name, without=None, rate=None, contaminated=False):
        self.name, self.without, self.rate = name, without, rate
        self.contaminated = contaminated

    def model_of(self, workload, folder):
        """Where its model lies. Another rate needs no model of its own."""
        return os.path.join(folder, "%s.%s.model" % (
            "full" if self.rate else self.name, workload))

    def learn(self, args, folders, workload, folder):
        """Learns the workload's model, of those of the folders that it is to be learned from.
        Returns the share of the time that was faulty where that is of interest, else None."""
        from_runs = [f for f in folders if f.workload == workload and f.split == "calibration"]
        share = None
        if not from_runs:
            raise data.Bad("workload '%s' has no calibration run to learn from" % workload)
        if self.contaminated:
            from_runs, share = contaminated_of(from_runs, [
                f for f in folders if f.workload == workload and f.split == "dev"])
        command = [args.eacgm, "learn", *[f.recording for f in from_runs], "-o",
                   self.model_of(workload, folder), "--seed", args.seed]
        if self.without:
            command += ["--without", self.without]
        if args.window:
            command += ["--window", args.window]
        common.run(command, SECONDS)
        return share

    def detect(self, args, run, model, out):
        """Writes detect.json, rows.jsonl and events.npy into out."""
        os.makedirs(out, exist_ok=True)
        path = lambda name: os.path.join(out, name)
        done = common.run([args.eacgm, "detect", run.recording, "-m", model,
                           "--alarms-per-hour", self.rate or args.alarms_per_hour,
                           "--rows", path("rows.jsonl"), "--events", path("events.npy"),
                           "--json"], SECONDS)
        with open(path("detect.json"), "w", encoding="utf-8") as f:
            f.write(done.out)


def faulty_ns(run):
    """How long something was injected that slowed its job, or did what else it is for."""
    return sum(x["released_ns"] - x["applied_ns"] for x in run.episodes if x["effective"])


def learned_ns(run):
    """How much of it `eacgm learn` learns from: what comes after its warm-up."""
    return max(run.end_ns - run.start_ns - WARMUP_NS, 0)


def subsets(runs):
    """All of them, the empty one too; of many runs those of the first alone, or all."""
    some = runs[:SUBSETS_OF]
    ret = [[f for i, f in enumerate(some) if at >> i & 1] for at in range(1 << len(some))]
    return ret if some == runs else ret + [runs]


def contaminated_of(calibration, faulty):
    """Calibration runs and faulty ones, of which together CONTAMINATED of what is learned from is
    faulty, as nearly as whole runs allow; of what is as near by NEAR, the longest. Returns them and
    the share."""
    best = None
    faulty = sorted(faulty, key=lambda f: (-faulty_ns(f), f.name))
    for clean in subsets(calibration):
        for some in subsets(faulty):
            whole = sum(learned_ns(f) for f in clean + some)
            share = sum(faulty_ns(f) for f in some) / whole if whole else 0
            far = max(abs(share - CONTAMINATED) - NEAR, 0)
            if share and (best is None or (far, -whole) < best[0]):
                best = ((far, -whole), clean + some, share)
    if best is None:
        raise data.Bad("--contaminate: no development run with faults to learn from")
    return best[1], best[2]


def detectors_of(args):
    """The detectors that were asked for, eacgm as it is first."""
    ret = [Detector("full")]
    if args.contaminate:
        ret.append(Detector("contaminated", contaminated=True))
    ret += [Detector("rate-%g" % r, rate=r) for r in args.rates]
    if args.ablate is not None:
        ret += [Detector("without-" + x, without=x) for x in args.ablate or INGREDIENTS]
    return ret


def export_counters(args, run, path):
    """The GPUs' raw counters of a recording, as CSV."""
    common.run([args.eacgm, "export", run.recording, "-f", "csv", "--counters", "-o", path],
               SECONDS)
