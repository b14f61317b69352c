"""models.py - a model of a job that a test records, what is diagnosed with it, and for how long the
job has to be slow until that is told, and when that may begin. Both says the model itself: what is
learned on a busy machine tells later, and takes launches to need longer until they are as usual."""

import json
import re

from harness import EACGM, expect

LEAST_S, MOST_S = 3, 12  # how long jobs are slow
WARMUP_S = 5  # src/detect/learn_known.h
TRIES = 4


def diagnosed(t, path, model):
    """What `eacgm diagnose` says of a recording: with --json, and as text."""
    said = []
    for options in (["--json"], []):
        r = t.run([EACGM, "diagnose", path, "-m", model, *options])
        expect(r.status == 0, r)
        said.append(r.out)
    return json.loads(said[0]), said[1]


def judged_from_s(model):
    """After how many seconds of work a launch is judged."""
    with open(model, encoding="utf-8") as f:
        return WARMUP_S + json.load(f).get("clock", {}).get("start_ns", 0) / 1e9


def learned(t, record, *options):
    """(the model's path, after how many seconds of work to be slow, for how many seconds to be twice
    as slow or slower). record() makes a recording; more of them are made while the model says that
    it tells that late."""
    model, recordings = t.path("job.model"), []
    for _ in range(TRIES):
        recordings.append(record().path)
        r = t.run([EACGM, "learn", *recordings, "--window", "0.25", "--warm-up", "2", *options,
                   "-o", model])
        expect(r.status == 0, r)
        after = re.search(r" 2 x as long after ([\d.]+) s", r.out)
        # twice as long as that, for in the run to come the machine may be busier than in those
        if after and 2 * float(after[1]) + 1 <= MOST_S:
            return model, judged_from_s(model) + 1, max(LEAST_S, 2 * float(after[1]) + 1)
    raise AssertionError("the machine is too busy to learn from: %s" % r)
