"""host.py - what this host permits: cores, a cgroup with a CPU quota, links between namespaces,
GPUs, a Python with PyTorch. Each is tried or read, and where something is missing there is a
sentence."""

import glob
import importlib.util
import os
import shutil
import subprocess
import sys

from workloads import projects

from . import guard, memory_limit, netns

PERIOD_US = 100_000
STEERING = "/sys/class/net/lo/queues/rx-0/rps_cpus"
LAB = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(os.path.dirname(LAB))


def by_core(cpus):
    """In order, those of a core together. Virtual machines often do not say which those are: there
    they are neighbours."""
    def siblings(cpu):
        try:
            with open("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list" % cpu) as f:
                return int(f.read().replace("-", ",").split(",")[0])
        except (OSError, ValueError):
            return cpu
    return sorted(cpus, key=lambda cpu: (siblings(cpu), cpu))


def _mounts(kind):
    with open("/proc/self/mounts") as f:
        for line in f:
            _, path, fs, options = line.split()[:4]
            if fs == kind:
                yield path, options.split(",")


def hierarchy(controller):
    """(path, version) of a cgroup hierarchy with that controller, or None."""
    for path, _ in _mounts("cgroup2"):
        try:
            with open(path + "/cgroup.controllers") as f:
                if controller in f.read().split():
                    return path, 2
        except OSError:
            pass
    for path, options in _mounts("cgroup"):
        if controller in options:
            return path, 1
    return None


def cpu_hierarchy():
    return hierarchy("cpu")


class Group:
    """A cgroup of the job's own, whose CPU time can be limited, and, where `memory` is the path of
    one, its memory too: the same of version 2, another of version 1. keeper: the guard, who removes
    them."""

    def __init__(self, keeper, memory=True):
        self.path, self.version = self._made("cpu", keeper)
        self.memory = None
        if memory and hierarchy("memory"):
            same = hierarchy("memory")[0] == os.path.dirname(self.path)
            if same and self.version == 2:
                self._enable(os.path.dirname(self.path), "memory", keeper)
            self.memory = self.path if same else self._made("memory", keeper)[0]

    def _made(self, controller, keeper):
        root, version = hierarchy(controller)
        path = "%s/eacgm-faults-%d" % (root, os.getpid())
        if version == 2:
            self._enable(root, controller, keeper)
        os.mkdir(path)
        keeper.cgroup(path)
        return path, version

    @staticmethod
    def _enable(root, controller, keeper):
        control = root + "/cgroup.subtree_control"
        with open(control) as f:
            if controller in f.read().split():
                return
        with open(control, "w") as f:
            f.write("+" + controller)
        keeper.restore(control, "-" + controller)

    def enter(self):
        """The calling process; between fork and exec."""
        for path in {self.path, self.memory} - {None}:
            with open(path + "/cgroup.procs", "w") as f:
                f.write("0")

    def limit(self, cpus):
        """CPU time a second, in seconds; None: no limit."""
        quota = None if cpus is None else max(1000, int(cpus * PERIOD_US))
        if self.version == 2:
            name, text = "cpu.max", "%s %d" % ("max" if quota is None else quota, PERIOD_US)
        else:
            name, text = "cpu.cfs_quota_us", str(-1 if quota is None else quota)
        with open(os.path.join(self.path, name), "w") as f:
            f.write(text)


def has(python, module):
    if python == sys.executable:
        return importlib.util.find_spec(module) is not None
    found = subprocess.run([python, "-c", "import importlib.util as u; "
                            "raise SystemExit(u.find_spec('%s') is None)" % module],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return found.returncode == 0


def has_torch(python):
    return has(python, "torch")


def find_python(module="torch"):
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and has(python, module):
            return python
    return None


def find_helpers():
    for path in (os.path.join(LAB, "helpers"), os.path.join(ROOT, "build", "lab")):
        if glob.glob(os.path.join(path, "libfault_*.so")):
            return path
    return os.path.join(LAB, "helpers")


class Undo:
    """In the guard's place, for a try."""

    def __init__(self):
        self.groups, self.texts = [], []

    def cgroup(self, path):
        self.groups.append(path)

    def restore(self, path, text):
        self.texts.append((path, text))

    def all(self):
        for path in self.groups:
            guard.remove_cgroup(path)
        for path, text in self.texts:
            guard.restore(path, text)


class Host:
    def __init__(self, python=None, helpers=None, cpus=None, alone=True, gpu_alone=True,
                 clocks=False):
        """cpus: those to use, the job's first; None: all. alone: nobody else measures here;
        gpu_alone: nor on the GPU. clocks: whether those of GPUs may be set."""
        self.python = python or find_python()
        self.helpers = os.path.abspath(helpers or find_helpers())
        self.cpus = list(cpus or by_core(os.sched_getaffinity(0)))
        self.alone, self.gpu_alone = alone, gpu_alone
        self.gpus = len(glob.glob("/dev/nvidia[0-9]*"))  # their order is that of NVML, by bus
        self.root = os.geteuid() == 0
        if self.root:
            self.no_net, self.no_drop = netns.why_not()
        else:
            self.no_net = self.no_drop = "needs root"
        self.no_cpu_cgroup = self._no_cpu_cgroup()
        self.no_memory_cgroup = self.no_cpu_cgroup or memory_limit.why_not(hierarchy("memory"))
        self.no_steering = None if os.path.exists(STEERING) else \
            "packets cannot be steered to a core (CONFIG_RPS)"
        self.no_clocks = self._no_clocks(clocks)
        self.nodes = sorted(int(os.path.basename(p)[4:]) for p in
                            glob.glob("/sys/devices/system/node/node[0-9]*"))

    def _no_clocks(self, permitted):
        if not self.gpus:
            return "no GPU"
        if not permitted:
            return "clocks are set with --set-clocks alone"
        if not self.root:
            return "needs root"
        return None if shutil.which("nvidia-smi") else "there is no nvidia-smi"

    def _no_cpu_cgroup(self):
        if not cpu_hierarchy():
            return "there is no cgroup hierarchy with the cpu controller"
        if not self.root:
            return "needs root"
        undo = Undo()
        try:
            Group(undo, memory=False).limit(1)
            return None
        except OSError as e:
            return "no cgroup with a CPU quota: %s" % e
        finally:
            undo.all()

    def job_cpus(self, workload):
        """The job's cores. All of them where there are few."""
        n = workload.cpus * max(1, workload.world)
        return self.cpus if len(self.cpus) <= n else self.cpus[:n]

    def other_cpus(self, workload):
        own = set(self.job_cpus(workload))
        return [c for c in self.cpus if c not in own]

    def why_not(self, workload):
        """None, or why the workload cannot run here."""
        if not self.python:
            return "no Python with PyTorch: say --python"
        why = projects.missing(workload.projects)
        if why:
            return why
        for module in (*workload.modules, *workload.packages):
            if not has(self.python, module):
                return "%s has no %s" % (self.python, module)
        if workload.gpus > self.gpus:
            return "no GPU" if not self.gpus else "%d GPUs are needed, there are %d" % (
                workload.gpus, self.gpus)
        if "net" in workload.traits and self.no_net:
            return self.no_net
        return None
