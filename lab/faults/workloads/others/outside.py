"""outside.py - what the adapters of other people's programs share: such a program runs as it is, and
functions that it calls are wrapped from outside, so that it is told what to do and has a log of its
steps (stepper.Job).

A step ends where a wrapped function returns; what passed since the one before belongs to it. The
first of these ends is where the job says that it is ready."""

import contextlib
import functools
import os
import runpy
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import projects  # noqa: E402
import stepper  # noqa: E402


def parameters(optimizer):
    """Of a program whose model is not at hand: what the job saves where it is told to."""
    import torch
    return torch.nn.ParameterList(optimizer.param_groups[0]["params"])


class Program:
    """needed: names of projects; the program is of the first. packages: modules that it needs as
    they are installed: in place of projects where there are none, or with --installed. torch:
    whether it uses PyTorch at all."""

    def __init__(self, doc, *needed, packages=(), torch=True):
        p = stepper.parser(doc)
        p.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
        p.add_argument("--installed", action="store_true", help="packages, not checkouts")
        args, self.more = p.parse_known_args()  # more: the program's own
        self.installed = args.installed or not needed
        why = projects.not_installed(packages) if self.installed else projects.missing(needed)
        if why:
            self.cannot(why)
        if torch:
            self.set_up_torch(args)
        self.folder = self.sources = None
        if not self.installed:
            self.folder = projects.checkout(needed[0])
            self.sources = [*map(projects.source, needed)]
        self.job = stepper.Job(args)
        self.job.tell_packages(projects.versions(
            (("torch",) if torch else ()) + tuple(packages if self.installed else ())))
        self.seed, self.device, self.model = args.seed, args.device, None
        self.begun = self.busy = self.waits = False
        self.scratch = tempfile.mkdtemp(prefix="scratch-", dir=args.dir)

    @staticmethod
    def cannot(why):
        print("%s: %s" % (os.path.basename(sys.argv[0]), why), file=sys.stderr)
        sys.exit(3)

    @staticmethod
    def set_up_torch(args):
        if args.device == "cuda":
            stepper.need_gpu()
        import torch
        torch.set_num_threads(args.threads)
        torch.manual_seed(args.seed)

    # ---- the log of its steps ----

    def ended(self, phase="train", work=None):
        """A step of that phase has ended; ends the program where it is told to."""
        if self.busy:
            return  # what the job does on its own behalf is none
        self.busy = True
        try:
            if self.begun:
                self.job.ended(phase, work)
            else:
                self.job.begin(self.model, self.device)
                self.begun = True
            if not self.waits:
                self.goes_on()
        finally:
            self.busy = False

    def goes_on(self):
        """At the beginning of a step."""
        if not self.job.goes_on():
            raise SystemExit(0)

    def after(self, owner, name, phase, work=None):
        """Each call of owner.name ends a step. phase: its name, or a function of the call's
        arguments that returns it, or None where the call ends none. work: such a function."""
        inner = getattr(owner, name)

        @functools.wraps(inner)
        def outer(*args, **kwargs):
            result = inner(*args, **kwargs)
            what = phase(*args, **kwargs) if callable(phase) else phase
            if what:
                self.ended(what, work(*args, **kwargs) if work else None)
            return result
        setattr(owner, name, outer)

    def after_wait(self, owner, name):
        """While owner.name is called there is nothing to do: a step begins where it returns."""
        inner, self.waits = getattr(owner, name), True

        @functools.wraps(inner)
        def outer(*args, **kwargs):
            result = inner(*args, **kwargs)
            if self.begun:
                self.job.waited()
                self.goes_on()
            return result
        setattr(owner, name, outer)

    def after_saves(self):
        """What torch.save() writes for the program is a step of its own."""
        import torch
        self.after(torch, "save", "save")

    def after_optimizers(self, phase="train", work=None):
        """Each step of any optimizer ends one of training. Outside of what PyTorch itself puts
        around that function, which it does as the first one of a class is made."""
        from torch.optim import Optimizer
        name = next(n for n in ("_patch_step_function", "_hook_for_profile")
                    if hasattr(Optimizer, n))
        inner, known = getattr(Optimizer, name), set()

        def outer(optimizer):
            inner(optimizer)
            if type(optimizer) not in known:
                known.add(type(optimizer))
                self.after(type(optimizer), "step", phase, work)
        setattr(Optimizer, name, outer)

    def slow_reads(self, dataset, batch, workers):
        """Lets the fault `data_loader` delay what workers read: in a class of data sets."""
        import pictures
        source, slow = pictures.Source(batch, workers), {}
        inner, self.job.source = dataset.__getitem__, source

        @functools.wraps(inner)
        def outer(data, i):
            if source.read_ns.value:
                if os.getpid() not in slow:
                    slow[os.getpid()] = pictures.SlowRead()
                slow[os.getpid()].wait(source.read_ns.value)
            return inner(data, i)
        dataset.__getitem__ = outer

    # ---- running it ----

    def enter(self, folder="."):
        """As if its files were run there."""
        sys.path[:0] = [os.path.join(self.folder, folder), *self.sources]
        os.chdir(os.path.join(self.folder, folder))

    @contextlib.contextmanager
    def running(self):
        sys.dont_write_bytecode = True  # a checkout stays as it is
        try:
            yield
        finally:
            os.chdir("/")
            shutil.rmtree(self.scratch, ignore_errors=True)

    def run(self, script, *words):
        sys.argv = [script, *map(str, words), *self.more]
        with self.running():
            runpy.run_path(script, run_name="__main__")
