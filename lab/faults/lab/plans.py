"""plans.py - what a run does: with which faults, of which split, with which seed. Which runs there
are is the user's business, or that of layout.py."""

from faults import FAULTS

from . import schedule

# Seeds of the test split lie apart from those of development, whatever the user gives.
TEST_SEEDS = 1000
START_S = 25  # that a run takes to start and end; foreseen, not promised

PLANS = {"dev": "every fault at low, mid, high", "test": "every fault at other intensities",
         "apart": "every fault at x1.1 to x3, episodes 8 s apart: to score causes by",
         "clean": "no fault and no change", "benign": "no fault, changes alone"}


class Unknown(Exception):
    """A plan or fault that there is not."""


def split_of(plan, workload, seed):
    return "test" if plan == "test" or workload.test_only or seed >= TEST_SEEDS else "dev"


def levels_of(plan):
    """Of intensities, in place of the split's, or None."""
    return schedule.APART if plan == "apart" else None


def pace_of(plan, pace=None, usual="usual"):
    """The name of the plan's own pace, or that of other plans, where none is asked for."""
    return pace or ("apart" if plan == "apart" else usual)


def seed_of(plan, seed):
    """A test plan never has a seed of development."""
    return seed + TEST_SEEDS if plan == "test" and seed < TEST_SEEDS else seed


def faults_of(host, workload, plan, only=None):
    """Names of the faults of a plan that can be injected here."""
    if plan in ("clean", "benign"):
        return []
    unknown = [name for name in only or [] if name not in FAULTS]
    if unknown:
        raise Unknown("there is no fault '%s'" % unknown[0])
    return [name for name, f in FAULTS.items()
            if (not only or name in only) and not f.why_not(host, workload)]


def is_for(workload, fault):
    """Whether a workload gets that fault where time is dear."""
    return fault in workload.chiefly if workload.chiefly else fault not in workload.weak


def benign_of(workload, plan):
    return [] if plan == "clean" else list(workload.benign)


def planned(workload, plan, seed, faults, pace, seconds):
    """The episodes that there is time for."""
    at, found = pace.warmup, []
    for item in schedule.items(seed, workload.name, split_of(plan, workload, seed), faults,
                               benign_of(workload, plan), pace, levels_of(plan)) if faults else ():
        at += item.gap_s + item.length_s
        if at > seconds:
            break
        found += [item] if item.kind == "fault" else []
    return found
