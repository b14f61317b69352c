"""hang.py - one rank stops until the fault is switched off; the others wait in their collective.
Shows as a gap in one rank's sequence of collectives."""

import time

from .base import Hook, Inside


class Stops(Hook):
    def before_step(self):
        """Looks at the page itself: the job does not, while it stands here."""
        reader = self.job.reader
        while "hang" in reader.state.get("faults", {}):
            time.sleep(0.02)
            reader.changed()
        self.job.follow()


class Hang(Inside):
    name = "hang"
    what = "one rank stops"
    layers = ("nccl", "host")
    traits = ("ranks",)
    values, unit = (1, 1, 1), "rank"
    confusable = ("straggler",)
    hooked = Stops

    def rank(self, run, chance):
        return chance.randrange(run.world)


FAULT = Hang()
