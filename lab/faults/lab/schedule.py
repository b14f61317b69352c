"""schedule.py - what happens when, decided by the seed alone: warm-up, clean stretches, episodes of
every fault in turn at shuffled intensities, and benign changes between them.

A schedule has no end: whoever runs it stops where the time is over, so that the same seed begins the
same way however long it goes on."""

import collections
import itertools
import random

Item = collections.namedtuple("Item", "gap_s kind name intensity length_s")

DEV = ("low", "mid", "high")
# So many times as long as usual a step is to take, in the test split: as many episodes in each third.
TEST = ((1.13, 1.28), (1.35, 1.9), (2.1, 3.5))
APART = ((1.1, 1.3), (1.3, 2), (2, 3))  # in the plan that causes are scored by
QUIET = 1.5  # so much longer gaps are where there are no faults

# Seconds. Dense packs episodes where time is dear, brief is for tests. In apart an incident has ended
# before the next fault, so that none is of two.
# benign_every: so many episodes to one benign change.
Pace = collections.namedtuple("Pace", "warmup first_gap gap length benign benign_every")
PACES = {"usual": Pace(8, 15, (6, 12), (5, 12), (4, 7), 4),
         "dense": Pace(5, 5, (3.5, 4.5), (4, 5), (2.5, 3.5), 6),
         "apart": Pace(8, 12, (8, 10), (6, 8), (4, 6), 8),
         "brief": Pace(1, 2.5, (1.5, 2), (2.5, 3), (1, 1.5), 4)}


def _turns(chance, names):
    """Each name once, shuffled, again and again; no name twice in a row."""
    last = None
    while True:
        turn = list(names)
        chance.shuffle(turn)
        if len(turn) > 1 and turn[0] == last:
            turn.append(turn.pop(0))
        yield from turn
        last = turn[-1]


def _intensities(chance, levels):
    """Names of levels, or of slowdowns: x1.20."""
    while True:
        for level in chance.sample(levels, len(levels)):
            yield level if isinstance(level, str) else "x%.2f" % chance.uniform(*level)


def items(seed, workload, split, faults, benign, pace, levels=None):
    """Items without end. kind: fault, benign. levels: of intensities, in place of the split's."""
    chance = random.Random("%s/%s/%s" % (seed, workload, split))
    levels = levels or (TEST if split == "test" else DEV)
    intensities = {name: _intensities(chance, levels) for name in faults}
    changes = _turns(chance, benign) if benign else None
    quiet = 1 if faults else QUIET
    gap = pace.first_gap
    for i, name in enumerate(_turns(chance, faults) if faults else itertools.repeat(None)):
        if changes and i % pace.benign_every == pace.benign_every // 2:
            yield Item(gap, "benign", next(changes), None, chance.uniform(*pace.benign))
            gap = chance.uniform(*pace.gap) * quiet
        if name:
            yield Item(gap, "fault", name, next(intensities[name]), chance.uniform(*pace.length))
            gap = chance.uniform(*pace.gap)
