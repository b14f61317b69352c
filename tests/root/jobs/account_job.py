"""account_job.py - a program whose main thread spends its time in one known way, and prints how
many seconds: lock, sleep, data, hog, loader, locks, burn, begin."""

import os
import subprocess
import sys
import threading
import time

TURNS = 10
TURN_S = 0.1


def waited(work):
    """Seconds of the calling thread off the CPU."""
    began, cpu = time.monotonic(), time.thread_time()
    work()
    return time.monotonic() - began - (time.thread_time() - cpu)


def lock():
    turn = [threading.Lock() for _ in range(TURNS)]
    for one in turn:
        one.acquire()

    def owner():
        for one in turn:
            time.sleep(TURN_S)
            one.release()
    thread = threading.Thread(target=owner)
    thread.start()
    took = waited(lambda: [one.acquire() for one in turn])
    thread.join()
    return took


def sleep():
    return waited(lambda: [time.sleep(TURN_S) for _ in range(TURNS)])


def data():
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        for _ in range(TURNS):
            time.sleep(TURN_S)
            os.write(theirs, b"x")
        os._exit(0)
    took = waited(lambda: [os.read(ours, 1) for _ in range(TURNS)])
    os.waitpid(child, 0)
    return took


def hog():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    child = os.fork()
    if not child:
        while os.getppid() != 1:
            pass
        os._exit(0)

    def burn():
        began = time.thread_time()
        while time.thread_time() - began < 0.8:
            pass
    took = waited(burn)
    print("hog=%d" % child, end=" ")
    os.kill(child, 9)
    os.waitpid(child, 0)
    return took


def burn():
    """CPU time, and nothing else."""
    began = time.thread_time()
    while time.thread_time() - began < 0.8:
        pass
    return 0


def compute_with(lock):
    for _ in range(20):
        with lock:
            began = time.thread_time()
            while time.thread_time() - began < 0.05:
                pass                                      # line of the holder
        time.sleep(0.002)


def locks():
    lock = threading.Lock()
    thread = threading.Thread(target=compute_with, args=(lock,))
    thread.start()

    def take():
        while thread.is_alive():
            with lock:                                    # line of the waiter
                pass
            time.sleep(0.001)
    took = waited(take)
    thread.join()
    return took


def begin():
    """Leaves a process behind that runs this file as well."""
    subprocess.Popen([sys.executable, __file__, "burn"], stdout=subprocess.DEVNULL)
    return 0


class Slow:
    def __len__(self):
        return 160

    def __getitem__(self, i):
        import torch
        time.sleep(0.05)
        return torch.zeros(8)


def loader():
    from torch.utils.data import DataLoader
    loaded = DataLoader(Slow(), batch_size=8, num_workers=2)
    return waited(lambda: [batch.sum() for batch in loaded])


def sleepy():
    """A training without a loader that sleeps in front of each step."""
    import torch
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    slept = 0.0
    for _ in range(150):
        slept += waited(lambda: time.sleep(0.01))
        optimizer.zero_grad()
        model(torch.randn(16, 64)).sum().backward()
        optimizer.step()
    return slept


if __name__ == "__main__":
    print("waited=%.6f" % globals()[sys.argv[1]](), flush=True)
