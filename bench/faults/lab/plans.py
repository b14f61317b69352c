"""plans.py - what is run: one workload under a plan, or several workloads one after the other that
share a stated time (gpu-1, gpu-2 and their tests)."""

from faults import FAULTS
from workloads import WORKLOADS

# Seeds of the test split lie apart from those of development, whatever the user gives.
TEST_SEEDS = 1000

SINGLE = {"dev": "every fault at low, mid, high", "test": "every fault at other intensities",
          "clean": "no fault and no change", "benign": "no fault, changes alone"}

# (workload, plan, share of the time). Clean recordings are of another launch than the episodes.
SEVERAL = {
    "gpu-1": (("gpt2", "clean", 0.11), ("gpt2", "dev", 0.25), ("cnn", "clean", 0.11),
              ("cnn", "dev", 0.25), ("features", "clean", 0.10), ("features", "dev", 0.18)),
    "gpu-1-test": (("gpt2", "test", 0.26), ("cnn", "test", 0.27), ("features", "test", 0.16),
                   ("generate", "clean", 0.10), ("generate", "test", 0.21)),
    "gpu-2": (("ddp_nvlink", "clean", 0.12), ("ddp_nvlink", "dev", 0.33),
              ("ddp_sockets", "clean", 0.15), ("ddp_sockets", "dev", 0.40)),
    "gpu-2-test": (("ddp_nvlink", "test", 0.45), ("ddp_sockets", "test", 0.55)),
    "cpu": (("cpu_gpt", "clean", 0.15), ("cpu_gpt", "dev", 0.45), ("cpu_ddp", "clean", 0.1),
            ("cpu_ddp", "dev", 0.3)),
    "cpu-test": (("cpu_gpt", "test", 0.35), ("cpu_ddp", "test", 0.3), ("cpu_loader", "clean", 0.1),
                 ("cpu_loader", "test", 0.25)),
}


class Unknown(Exception):
    """A plan or fault that there is not."""


def split_of(plan, workload, seed):
    return "test" if plan == "test" or workload.test_only or seed >= TEST_SEEDS else "dev"


def seed_of(plan, seed):
    """A test plan never has a seed of development."""
    return seed + TEST_SEEDS if plan == "test" and seed < TEST_SEEDS else seed


def faults_of(host, workload, plan, only=None, shared=False):
    """Names of the faults of a plan that can be injected here. shared: time is dear."""
    if plan in ("clean", "benign"):
        return []
    unknown = [name for name in only or [] if name not in FAULTS]
    if unknown:
        raise Unknown("there is no fault '%s'" % unknown[0])
    return [name for name, f in FAULTS.items()
            if (not only or name in only) and not f.why_not(host, workload) and
            (only or not shared or is_for(workload, name))]


def is_for(workload, fault):
    return fault in workload.chiefly if workload.chiefly else fault not in workload.weak


def benign_of(workload, plan):
    return [] if plan == "clean" else list(workload.benign)


def gpus_of(plan):
    """That its workloads need at most."""
    return max(WORKLOADS[name].gpus for name, _, _ in SEVERAL[plan])


def parts(plan, host):
    """((workload, plan, share) ..., those left out with the reason)."""
    kept, out = [], []
    for name, single, share in SEVERAL[plan]:
        why = host.why_not(WORKLOADS[name])
        if why:
            out.append((name, why))
        else:
            kept.append((WORKLOADS[name], single, share))
    total = sum(share for _, _, share in kept)
    return [(w, single, share / total) for w, single, share in kept], out
