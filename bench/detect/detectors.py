"""detectors.py - the ways of learning and detecting that are compared, and running eacgm for them.
Reads nothing of what comes out."""

import os

import common
import data

# src/detect/learn.h, enum learn_without
INGREDIENTS = ("keys", "sizes", "gaps", "regimes", "cleaning", "mixture", "cusum", "tail",
               "pace")
CONTAMINATED = 0.2  # share of the time that is faulty
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
    """How long something that is not benign was injected."""
    return sum(x["released_ns"] - x["applied_ns"] for x in run.episodes)


def length_ns(run):
    return run.end_ns - run.start_ns


def contaminated_of(calibration, faulty):
    """Calibration runs and faulty ones of which together CONTAMINATED is faulty, as nearly as whole
    runs allow. Returns them and the share."""
    best = None
    faulty = sorted(faulty, key=lambda f: -faulty_ns(f))
    for clean in range(len(calibration) + 1):
        for some in range(1, len(faulty) + 1):
            chosen = calibration[:clean] + faulty[:some]
            whole = sum(length_ns(f) for f in chosen)
            share = sum(faulty_ns(f) for f in chosen) / whole if whole else 0
            distance = (abs(share - CONTAMINATED), -whole)
            if best is None or distance < best[0]:
                best = (distance, chosen, share)
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
