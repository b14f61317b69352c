#!/usr/bin/env python3
"""attach_again.py - attaches to a PyTorch job again and again (record --probes inprocess -p PID), and
looks whether the job computes the same, bit by bit, and how long its threads stood.

A job does the same round of work until it is told to end, and compares a hash of the result with that
of its first round, which nobody has traced. Jobs: operators, a training of two ranks with
DistributedDataParallel (gloo), and a loop that generates tokens.

usage: attach_again.py [--turns 100] [--seconds SEC] [--jobs operators,ddp,generate] [--cuda]
                       [--eacgm PATH]"""

import argparse
import hashlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TELLS = re.compile(r"process (\d+) tells (\d+) functions inside; its threads stood (\d+) times, "
                   r"([\d.]+) ms at most")
LAYERS = "python,torch,cuda,nccl"


# ---- the jobs: run by this file itself ----


def digest(tensors):
    h = hashlib.sha256()
    for x in tensors:
        h.update(x.detach().cpu().numpy().tobytes())
    return h.hexdigest()


def operators(torch, device):
    torch.manual_seed(1)
    a, b = (torch.randn(64, 64, device=device) for _ in range(2))
    results = []
    for i in range(40):
        c = torch.nn.functional.gelu(a @ b) / 8 + torch.sin(a) * i
        d, _ = torch.sort(c, dim=1)
        e = torch.cat([c.t(), d]).softmax(0)[: 64].contiguous()
        a = (e - e.mean()).clamp(-2, 2) + torch.linalg.norm(c, dim=1, keepdim=True) / 100
        results.append(a.sum())
        try:
            torch.zeros(2) @ torch.zeros(3)
        except RuntimeError:
            pass
    return digest([a, *results])


def ddp(torch, device):
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    model = torch.nn.parallel.DistributedDataParallel(model.to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(10 + torch.distributed.get_rank())
    for _ in range(10):
        loss = model(torch.randn(16, 32, device=device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return digest(model.parameters())


def generate(torch, device):
    torch.manual_seed(3)
    embed = torch.nn.Embedding(256, 64).to(device)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True).to(device)
    head = torch.nn.Linear(64, 256).to(device)
    tokens = torch.arange(8, device=device)[None]
    with torch.no_grad():
        for _ in range(24):
            logits = head(layer(embed(tokens)))[:, -1]
            token = torch.multinomial(logits.softmax(-1).cpu(), 1).to(device)
            tokens = torch.cat([tokens, token], 1)
    return digest([tokens.cpu()])


def run_job(name, device, end):
    import torch
    torch.use_deterministic_algorithms(True, warn_only=True)
    rank = 0
    if name == "ddp":
        torch.distributed.init_process_group("gloo")
        rank = torch.distributed.get_rank()
    work = globals()[name]
    first, rounds, wrong = work(torch, device), 0, 0
    print("ready %d" % os.getpid(), flush=True)
    go_on = torch.ones(1)
    while go_on.item():
        wrong += work(torch, device) != first
        rounds += 1
        go_on.fill_(float(not os.path.exists(end)))
        if name == "ddp":
            torch.distributed.broadcast(go_on, 0)
    print("done %d %d %d" % (rank, rounds, wrong), flush=True)


# ---- who attaches ----


def start_job(name, args, folder):
    end = os.path.join(folder, name + ".end")
    me = [os.path.abspath(__file__), "--job", name, "--end", end, *(["--cuda"] * args.cuda)]
    ranks = 2 if name == "ddp" else 1
    env = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", MASTER_ADDR="127.0.0.1",
               MASTER_PORT=str(20000 + os.getpid() % 20000), WORLD_SIZE=str(ranks))
    jobs, outs = [], [os.path.join(folder, "%s.%d" % (name, r)) for r in range(ranks)]
    for r, out in enumerate(outs):
        with open(out, "w") as o:
            jobs.append(subprocess.Popen([args.python, *me], stdout=o, stderr=o,
                                         env=dict(env, RANK=str(r), LOCAL_RANK=str(r))))
    def ended():
        return any(job.poll() is not None for job in jobs)

    wait_for(lambda: ended() or all("ready " in read(out) for out in outs), "the job", 300)
    if ended():
        raise SystemExit("the job ended: %s" % " ".join(read(out)[-400:] for out in outs))
    return jobs, outs, end


def read(path):
    with open(path) as f:
        return f.read()


def wait_for(condition, what, seconds):
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise SystemExit("waited for %s" % what)
        time.sleep(0.02)


def attach_once(args, folder, jobs):
    """The stops that were told, and how many calls were told inside."""
    log, rec = os.path.join(folder, "log"), os.path.join(folder, "again.eacgm")
    pids = [x for job in jobs for x in ("-p", str(job.pid))]
    with open(log, "w") as o:
        p = subprocess.Popen([args.eacgm, "record", "--probes", "inprocess", "--layers", LAYERS,
                              "--profile", "off", "-o", rec, *pids], stdout=o, stderr=o)
    limit = time.monotonic() + 20
    while len(TELLS.findall(read(log))) < len(jobs) and time.monotonic() < limit:
        time.sleep(0.02)
    time.sleep(0.1)
    p.send_signal(signal.SIGINT)
    p.wait(timeout=60)
    out = subprocess.run([args.eacgm, "export", rec, "-f", "jsonl", "-o", "/dev/stdout"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    meta = json.loads(out.stdout.split("\n", 1)[0])
    return TELLS.findall(read(log)), int(meta.get("inside_calls", 0)), meta, read(log)


def measure(name, args, folder):
    jobs, outs, end = start_job(name, args, folder)
    stops, leaves, told, missed, turn = [], [], 0, 0, 0
    limit = time.monotonic() + args.seconds
    while turn < args.turns and time.monotonic() < limit:
        seen, calls, meta, log = attach_once(args, folder, jobs)
        told += calls > 0
        missed += len(jobs) - len(seen)
        stops += [float(ms) for _, _, _, ms in seen]
        leaves.append(float(meta.get("inside_left_ms", 0)))
        if len(seen) < len(jobs):
            print("%s, turn %d: %s" % (name, turn, log.strip()), file=sys.stderr)
        if any(job.poll() is not None for job in jobs):
            raise SystemExit("%s ended in turn %d: %s" % (name, turn, [read(x) for x in outs]))
        turn += 1
    with open(end, "w"):
        pass
    status = [job.wait(timeout=120) for job in jobs]
    done = [tuple(map(int, line.split()[1:])) for out in outs for line in read(out).splitlines()
            if line.startswith("done ")]
    print("%s: %d turns, told inside in %d, %d processes missed; rounds %s, wrong %s, status %s; "
          "all threads stood for %.2f ms at most, median of turns (largest %.2f), to take off %.2f "
          "(%.2f)" % (
              name, turn, told, missed, [d[1] for d in done], [d[2] for d in done], status,
              statistics.median(stops or [0]), max(stops or [0]), statistics.median(leaves),
              max(leaves)), flush=True)
    return not any(status) and len(done) == len(jobs) and not any(d[2] for d in done)


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    a.add_argument("--turns", type=int, default=100)
    a.add_argument("--seconds", type=float, default=float("inf"), help="of turns, for each job")
    a.add_argument("--jobs", default="operators,ddp,generate")
    a.add_argument("--cuda", action="store_true")
    a.add_argument("--eacgm", default=os.path.join(ROOT, "build", "eacgm"))
    a.add_argument("--python", default=sys.executable)
    a.add_argument("--job")
    a.add_argument("--end")
    args = a.parse_args()
    if args.job:
        run_job(args.job, "cuda" if args.cuda and args.job != "ddp" else "cpu", args.end)
        return 0
    with tempfile.TemporaryDirectory(prefix="eacgm-bench-") as folder:
        return 0 if all([measure(name, args, folder) for name in args.jobs.split(",")]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
