"""layout.py - which runs a campaign makes, where and when: rows that follow each other, in each of
them lanes side by side, a workload a lane, with GPUs and cores of its own; and which faults are
injected in which run, so that layers and faults take turns. Starts nothing."""

import collections
import itertools

from faults import FAULTS
from workloads import WORKLOADS

from . import plans

LEAST_CLEAN_S = 60  # start, warm-up, and 30 windows, the least that a model is learned from
MOST_CLEAN = 0.35  # of a workload's time, to have that
START_S = 20  # of a run, importing included; foreseen
LAYERS = ("cuda", "python", "torch", "nccl", "hardware")

# (plan, split, share of the workload's time): when the workload comes first, and later.
FIRST = (("clean", "dev", 0.3), ("dev", "dev", 0.27), ("test", "test", 0.43))
LATER = (("clean", "dev", 0.28), ("test", "test", 0.52), ("benign", "test", 0.2))

Run = collections.namedtuple("Run", "name workload plan seed share seconds faults")
Lane = collections.namedtuple("Lane", "gpus cpus runs")
Block = collections.namedtuple("Block", "job others spare")  # cores of a GPU's share
Layout = collections.namedtuple("Layout", "rows block_s left_out")

WAITING = 4  # cores of a block for whoever records, disturbs, or will come next
WAITING_ALONE = 6
THREADS = 2  # of a core may be two of those that the host lists: a job has both, beside nobody
PART_SEEDS = 10  # of a part at least: each lane of a row has one
JOB = max(w.cpus for w in WORKLOADS.values())


def judged(layers, workload):
    """Of a fault's layers those that the workload has events or counters of."""
    return [x for x in layers if x in LAYERS and (workload.gpus or x in ("python", "torch")) and
            (x != "nccl" or "ranks" in workload.traits)]


def whole_cores(n):
    return -(-n // THREADS) * THREADS


def blocks_of(cpus, n):
    """The cores in n equal shares, none of which has a part of a core."""
    size = len(cpus) // n // THREADS * THREADS if len(cpus) >= THREADS * n else len(cpus) // n
    waiting = WAITING if n > 1 else WAITING_ALONE
    found = []
    for i in range(n):
        mine = cpus[i * size:(i + 1) * size]
        if size < JOB + waiting:
            found.append(Block(mine, [], []))
        else:
            found.append(Block(mine[:JOB], mine[JOB:JOB + waiting], mine[JOB + waiting:]))
    return found


def rows_of(workloads, gpus):
    """[[(workload, first GPU) ...] ...]: of each kind of workload as many side by side as there are
    GPUs for, again and again where there are more GPUs than workloads."""
    rows = []
    for n in (2, 1):  # what makes the most events first: its data sets take longest
        kind = [w for w in workloads if w.gpus == n]
        lanes = gpus // n
        if not kind or not lanes:
            continue
        for at in range(0, len(kind), lanes):
            some = kind[at:at + lanes]
            if len(some) < lanes and len(kind) >= lanes:
                some = kind[-lanes:]
            rows.append([(some[i % len(some)], i * n) for i in range(lanes)])
    rows += [[(w, 0)] for w in workloads if not w.gpus]
    return rows


class Chooser:
    """Which faults a run gets: those of the layers that had the fewest, and among them those that
    were injected the least."""

    def __init__(self, host):
        self.host = host
        self.layers = collections.Counter()
        self.faults = collections.Counter()

    def possible(self, workload):
        """Names, in the order in which they are wanted now."""
        names = [n for n in plans.faults_of(self.host, workload, "dev")
                 if plans.is_for(workload, n)]
        return sorted(names, key=lambda name: self.need(name, workload))

    def need(self, name, workload):
        touched = judged(FAULTS[name].layers_in(workload), workload)
        return (min((self.layers[x] for x in touched), default=0) + 2 * self.faults[name],
                list(FAULTS).index(name))

    def choose(self, workload, plan, seed, pace, seconds):
        """As many as there is time for, each once if there are enough."""
        chosen, left = [], self.possible(workload)
        n = len(plans.planned(workload, plan, seed, left, pace, seconds))
        for _ in range(min(n, len(left))):
            left.sort(key=lambda name: self.need(name, workload))
            name = left.pop(0)
            chosen.append(name)
            self.faults[name] += 1
            self.layers.update(judged(FAULTS[name].layers_in(workload), workload))
        return chosen


def template_of(workload, template, block_s):
    """The workload's runs; their shares add up to one."""
    runs = [r for r in template
            if not (workload.test_only and r[1:2] == ("dev",) and r[0] != "clean")]
    total = sum(share for _, _, share in runs)
    if len(runs) == 1:
        return [(plan, split, 1) for plan, split, _ in runs]
    clean = max(runs[0][2] / total, min(MOST_CLEAN, LEAST_CLEAN_S / block_s))
    others = (1 - clean) / (total - runs[0][2])
    return [(plan, split, clean if plan == "clean" else share * others)
            for plan, split, share in runs]


def runs_of(chooser, workload, template, seed, pace, block_s):
    found = []
    for plan, split, share in template_of(workload, template, block_s):
        number = seed + plans.TEST_SEEDS if split == "test" else seed
        seconds = block_s * share
        faults = chooser.choose(workload, plan, number, pace, seconds - START_S) \
            if plan in ("dev", "test") else []
        found.append(Run("%s-%s-%d" % (workload.name, plan, number), workload, plan, number,
                         share, seconds, faults))
    return found


def lane_cpus(workload, mine):
    """The job's cores first: of each GPU's block as many as a rank has."""
    share = workload.cpus * workload.world // len(mine)
    job = [c for b in mine for c in b.job[:share]]
    return job + [c for b in mine for c in b.others] if mine[0].others else \
        [c for b in mine for c in b.job]


def beside_of(names, blocks):
    """[(workload, its cores) ...]: lanes without a GPU on what the blocks have to spare, one a
    block, and the blocks with what is left."""
    found, left = [], list(blocks)
    for i, w in enumerate(WORKLOADS[n] for n in names):
        at = i % len(blocks)
        job = w.cpus * w.world
        mine = left[at].spare[:whole_cores(job) + WAITING]
        if not w.gpus and len(mine) >= whole_cores(job) + THREADS:
            found.append((w, mine[:job] + mine[whole_cores(job):]))
            left[at] = left[at]._replace(spare=left[at].spare[len(mine):])
    return found, left


def layout(host, names, gpus, seconds, least_block_s, part, seed, pace, templates=(FIRST, LATER),
           beside=()):
    """Of the part so many (from 1): the rows that it has time for begin where the part before
    ended. Parts before are laid out as well, since what they had decides what is wanted. beside:
    names of workloads without GPUs that run in every row, on cores that nobody needs. ValueError:
    too late a part, its seeds would be those of the test split."""
    workloads = [WORKLOADS[n] for n in names]
    every = workloads + [WORKLOADS[n] for n in beside]
    left_out = [(w.name, host.why_not(w)) for w in every if host.why_not(w)]
    out = {name for name, _ in left_out}
    rows = rows_of([w for w in workloads if w.name not in out], gpus)
    blocks = blocks_of(host.cpus, max(1, gpus))
    others, blocks = beside_of([n for n in beside if n not in out], blocks)
    left_out += [(n, "there are no cores to spare") for n in beside
                 if n not in out and n not in [w.name for w, _ in others]]
    if not rows:
        return Layout([], 0, left_out)
    n = min(len(rows), max(1, int(seconds // least_block_s)))
    block_s = seconds / n
    chooser, turns, came = Chooser(host), itertools.cycle(rows), collections.Counter()
    seeds = max(PART_SEEDS, len(rows), max(len(row) for row in rows))  # no part has those of another
    if seed < plans.TEST_SEEDS <= seed + seeds * (part + 1):
        raise ValueError("part %d has no seeds of development left" % part)

    def runs(w, i):
        return runs_of(chooser, w, templates[came[w.name] > 0], seed + seeds * number + i, pace,
                       block_s)

    for number in range(1, part + 1):
        made = []
        for row in itertools.islice(turns, n):
            lanes = []
            for i, (w, first) in enumerate(row):
                mine = blocks[first:first + max(1, w.gpus)]
                lanes.append(Lane(list(range(first, first + w.gpus)), lane_cpus(w, mine),
                                  runs(w, i)))
            lanes += [Lane([], cpus, runs(w, len(made))) for w, cpus in others]
            came.update({lane.runs[0].workload.name for lane in lanes})
            made.append(lanes)
    return Layout(made, block_s, left_out)


def foreseen(layout_, pace):
    """[(run, its episodes) ...]"""
    return [(run, plans.planned(run.workload, run.plan, run.seed, run.faults, pace,
                                run.seconds - START_S))
            for lanes in layout_.rows for lane in lanes for run in lane.runs]
