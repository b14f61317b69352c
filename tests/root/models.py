"""models.py - a model of a job that a test records, and for how long the job has to be slow until that
is told. How long says the model itself: what is learned on a busy machine tells later."""

import re

from harness import EACGM, expect

LEAST_S, MOST_S = 3, 12  # how long jobs are slow
TRIES = 4


def learned(t, record, *options):
    """(the model's path, for how many seconds to be twice as slow or slower). record() makes a
    recording; more of them are made while the model says that it tells that late."""
    model, recordings = t.path("job.model"), []
    for _ in range(TRIES):
        recordings.append(record().path)
        r = t.run([EACGM, "learn", *recordings, "--window", "0.25", "--warm-up", "2", *options,
                   "-o", model])
        expect(r.status == 0, r)
        after = re.search(r" 2 x as long after ([\d.]+) s", r.out)
        # twice as long as that, for in the run to come the machine may be busier than in those
        if after and 2 * float(after[1]) + 1 <= MOST_S:
            return model, max(LEAST_S, 2 * float(after[1]) + 1)
    raise AssertionError("the machine is too busy to learn from: %s" % r)
