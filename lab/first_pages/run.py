#!/usr/bin/env python3
"""run.py - records programs that were not written for eACGM and keeps the first 25 lines of each
report: what a new user reads. Says beside them what is true of the program.

    sudo python3 lab/first_pages/run.py --out FOLDER [--only NAME...]     twelve on a host
    sudo python3 lab/first_pages/run.py --out FOLDER --gpu --python PYTHON   six on GPUs
    python3 lab/first_pages/run.py --page docs/first-pages.md FOLDER...      the page of them

A program that is not installed is left out, and a line says so. Network is loopback alone."""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
LINES = 25

# name: (needs, what it is, what is true of it)
HOST = {
    "torch_loader": ("/usr/bin/python3", "PyTorch, two loader workers",
                     "a sample takes 2 ms, a batch of 16 by two workers 16 ms: the job waits"),
    "forest": ("/usr/bin/python3", "scikit-learn, a random forest on two threads",
               "imports at the start, then trees on both CPUs"),
    "matmul": ("/usr/bin/python3", "OpenBLAS through numpy", "products of matrices take it all"),
    "redis": ("redis-server", "redis-server under redis-benchmark",
              "the server answers requests of the network"),
    "nginx": ("nginx", "nginx under ab", "workers wait for the network and send a file"),
    "java": ("java", "Java, two threads that sort", "the virtual machine compiles, threads sort"),
    "node": ("node", "node, JSON with a timer between", "5 ms of sleep after each round"),
    "ffmpeg": ("ffmpeg", "ffmpeg, x264", "the encoder's threads have the CPUs"),
    "mpi": ("mpirun", "two MPI ranks", "rank 0 waits for rank 1, which computes 4 times as long"),
    "make": ("make", "make -j2 of a C project", "compilers have the CPUs"),
    "cgroup": ("/usr/bin/python3", "a cgroup with one PyTorch training", "as the first"),
    "all": ("ffmpeg", "the whole host for 8 s, with ffmpeg and redis", "ffmpeg has the CPUs"),
}
GPU = {
    "gpt2": ("GPT-2, batch 1 x 128", ["tests/gpu/jobs/gpt2.py"],
             "many short kernels: the host launches too slowly for the GPU"),
    "trainer": ("Hugging Face's Trainer, a small Llama", ["lab/first_pages/programs/trainer.py"],
                "short kernels, two loader workers"),
    "lightning": ("Lightning with torch.compile",
                  ["lab/first_pages/programs/lightning_compile.py"], "compiles at the start"),
    "generate": ("transformers' generate(), 480 tokens",
                 ["lab/first_pages/programs/generate_text.py"],
                 "a forward for each token, launch-bound"),
    "jax": ("JAX", ["lab/first_pages/programs/jax_mlp.py"], "compiles, then runs on the GPU"),
    "ddp": ("DistributedDataParallel on two GPUs",
            ["-m", "torch.distributed.run", "--nproc-per-node", "2",
             "lab/first_pages/programs/ddp.py"], "rank 1 sleeps 8 ms in each step"),
}


@contextlib.contextmanager
def beside(*command, cwd=None):
    """A program that runs until the end of the block."""
    p = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         start_new_session=True)
    try:
        yield p
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGTERM)
        p.wait(10)


def run(command, cwd=None, seconds=240):
    return subprocess.run([str(c) for c in command], cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False)


class Runner:
    def __init__(self, eacgm, folder):
        self.eacgm, self.folder = eacgm, folder

    def record(self, *options, cwd=None):
        return run([self.eacgm, "record", "-o", self.file, *options], cwd or self.folder)

    def command(self, *words, options=(), cwd=None):
        return self.record(*options, "--", *words, cwd=cwd)

    def attach(self, p, load, seconds=6):
        """Records a program that runs already while load runs."""
        with beside(*load):
            return self.record("-p", p.pid, "-d", seconds)

    def python(self, name):
        return self.command("/usr/bin/python3", PROGRAMS / f"{name}.py")

    torch_loader = lambda self: self.python("torch_loader")
    forest = lambda self: self.python("forest")
    matmul = lambda self: self.python("matmul")
    java = lambda self: self.command("java", PROGRAMS / "Sorts.java")
    node = lambda self: self.command("node", PROGRAMS / "pages.js")
    mpi = lambda self: self.command("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2",
                                    "/usr/bin/python3", PROGRAMS / "ranks.py")

    def redis(self):
        with beside("redis-server", "--port", "16399", "--save", "", cwd=self.folder) as server:
            time.sleep(1)
            return self.attach(server, ["redis-benchmark", "-p", "16399", "-n", "100000000", "-q"])

    def nginx(self):
        (self.folder / "index.html").write_text("x" * 20000)
        with beside("nginx", "-p", self.folder, "-c", PROGRAMS / "nginx.conf") as server:
            time.sleep(1)
            return self.attach(server, ["ab", "-n", "100000000", "-c", "20", "-t", "60",
                                        "http://127.0.0.1:18080/index.html"])

    def encoder(self):
        return ["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i",
                "testsrc2=duration=12:size=1280x720", "-c:v", "libx264", "-f", "null", "-"]

    def ffmpeg(self):
        return self.command(*self.encoder())

    def make(self):
        run([sys.executable, PROGRAMS / "project.py", self.folder / "project", 40])
        return self.command("make", "-j2", cwd=self.folder / "project")

    def cgroup(self):
        mounts = [line.split() for line in open("/proc/mounts")]
        group = pathlib.Path(next(m[1] for m in mounts if m[2] == "cgroup2"), "eacgm-first-page")
        group.mkdir(exist_ok=True)
        try:
            script = f"echo $$ > {group}/cgroup.procs; exec /usr/bin/python3 " \
                     f"{PROGRAMS / 'torch_loader.py'}"
            with beside("sh", "-c", script):
                return self.record("--cgroup", group, "-d", 8)
        finally:
            while (group / "cgroup.procs").read_text():
                time.sleep(0.1)
            group.rmdir()

    def all(self):
        with beside(*self.encoder()), \
                beside("redis-server", "--port", "16399", "--save", "", cwd=self.folder):
            time.sleep(1)
            with beside("redis-benchmark", "-p", "16399", "-n", "100000000", "-q", "-t", "get"):
                return self.record("--all", "-d", 8)


def keep(runner, out, name, title, truth, job):
    runner.file = out / f"{name}.eacgm"
    began = time.monotonic()
    done = job()
    if not runner.file.exists():
        print(f"{name}: not recorded\n{done.stdout[-2000:]}")
        return
    report = run([runner.eacgm, "report", runner.file])
    (out / f"{name}.report.txt").write_text(report.stdout)
    (out / f"{name}.json").write_text(json.dumps({
        "name": name, "title": title, "truth": truth, "said": done.stdout[-1500:],
        "seconds": round(time.monotonic() - began, 1),
        "page": report.stdout.splitlines()[:LINES]}))
    if os.path.getsize(runner.file) > 8 << 20:
        runner.file.unlink()
    print(f"== {name}: {title}\n" + "\n".join(report.stdout.splitlines()[:LINES]), flush=True)


def record_all(args):
    out = pathlib.Path(args.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    eacgm = os.path.abspath(args.eacgm)
    for name, row in (GPU if args.gpu else HOST).items():
        if args.only and name not in args.only:
            continue
        with tempfile.TemporaryDirectory(prefix="eacgm-page-") as folder:
            os.chmod(folder, 0o755)
            runner = Runner(eacgm, pathlib.Path(folder))
            if args.gpu:
                title, command, truth = row
                keep(runner, out, name, title, truth, lambda: runner.command(
                    args.python, *command, options=["--gpu-timeline"], cwd=HERE.parents[1]))
            elif not shutil.which(row[0]):
                print(f"{name}: {row[0]} is not installed")
            else:
                keep(runner, out, name, row[1], row[2], getattr(runner, name))


def page(path, folders):
    rows = {}
    for folder in folders:
        for file in pathlib.Path(folder).glob("*.json"):
            row = json.loads(file.read_text())
            rows[row["name"]] = row
    parts = [f"# First pages\n\nThe first {LINES} lines of `eacgm report` for programs that were not "
             "written for eACGM, and what is\ntrue of each. `lab/first_pages/run.py` makes them.\n"]
    for name in [*HOST, *GPU]:
        if name in rows:
            r = rows[name]
            parts.append(f"## {r['title']}\n\nTrue: {r['truth']}.\n\n```\n" +
                         "\n".join(line.rstrip() for line in r["page"]) + "\n```\n")
    pathlib.Path(path).write_text("\n".join(parts))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--eacgm", default=HERE.parents[1] / "build/eacgm")
    p.add_argument("--python", default="python3", help="the one with torch and jax, for --gpu")
    p.add_argument("--out")
    p.add_argument("--gpu", action="store_true")
    p.add_argument("--only", nargs="*", default=[])
    p.add_argument("--page")
    p.add_argument("folders", nargs="*")
    args = p.parse_args()
    if args.page:
        page(args.page, args.folders)
    elif args.out:
        record_all(args)
    else:
        p.error("--out FOLDER or --page FILE FOLDER...")


if __name__ == "__main__":
    main()
