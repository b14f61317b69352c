"""labels.py - the truth about a run: what was done when. Appended as things happen, so that a run
that is cut short is labelled up to there; completed and written anew at the end.

The format is in docs/results/faults.md."""

import json
import os

from . import effect


class Labels:
    def __init__(self, folder, ranks):
        self.folder, self.ranks = folder, ranks
        self.path = os.path.join(folder, "labels.jsonl")
        self.episodes, self.benign, self.failed = [], [], []
        with open(self.path, "w"):
            pass

    def add(self, row):
        {"episode": self.episodes, "benign": self.benign,
         "failed": self.failed}.get(row["type"], []).append(row)
        with open(self.path, "a") as f:
            f.write(json.dumps(row) + "\n")

    def complete(self, run, warm_ns):
        """run: the row, as it is now. Returns all rows."""
        self.take_acknowledgements()
        clean, slow = effect.fill_in(self.episodes, self.benign, self.folder, self.ranks, warm_ns,
                                     run["end_ns"])
        self.merge_calls()
        rows = [run] + sorted(
            self.benign + self.episodes + self.failed +
            [{"type": "clean", "onset_ns": a, "end_ns": b} for a, b in clean] +
            [{"type": "slow", "onset_ns": a, "end_ns": b, "slowdown_ratio": round(ratio, 4)}
             for a, b, ratio in slow] +
            [{"type": "change", "kind": kind, "onset_ns": a, "end_ns": b}
             for kind, a, b in self.own_changes()],
            key=lambda r: r["onset_ns"])
        with open(self.path + ".part", "w") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows)
        os.replace(self.path + ".part", self.path)
        return rows

    def own_changes(self):
        """Of the first rank; the others do the same."""
        return effect.own_changes(effect.read_rows(self.folder, "steps", 1)[0], self.benign)

    def take_acknowledgements(self):
        """When the job's steps saw the switches; a fault that could not be switched on is no
        episode."""
        told = effect.read_rows(self.folder, "seen", self.ranks)
        kept = []
        for e in self.episodes:
            on, off = e.pop("sequence", None), e.pop("release_sequence", None)
            rank = e["target"]["rank"]
            rows = [told[rank]] if rank is not None else list(told.values())
            failed = [r["failed"] for rank_rows in rows for r in rank_rows
                      if r["sequence"] == on and r.get("failed")]
            if failed:
                self.failed.append(dict(e, type="failed", why=failed[0]))
                continue
            e["applied_ns"] = max([e["applied_ns"]] + self.first_seen(rows, on))
            e["released_ns"] = max([e["released_ns"]] + self.first_seen(rows, off))
            kept.append(e)
        self.episodes = kept

    @staticmethod
    def first_seen(rows, sequence):
        """When each rank saw that state of the page, or a later one."""
        if sequence is None:
            return []
        seen = [[r["ns"] for r in rank_rows if r["sequence"] >= sequence] for rank_rows in rows]
        return [min(ns) for ns in seen if ns]

    def merge_calls(self):
        rows = effect.read_rows(self.folder, "calls", self.ranks)
        with open(os.path.join(self.folder, "calls.jsonl"), "w") as f:
            for r in sorted((r for rank in rows.values() for r in rank),
                            key=lambda r: r["start_ns"]):
                f.write(json.dumps(r) + "\n")
