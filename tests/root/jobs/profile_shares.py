"""profile_shares.py - spends known shares of CPU time in known functions.

  profile_shares.py CPU_S

By the clock of the thread's own CPU time, in turns of uneven length: half() 50 %, by_generator()
25 %, by_comprehension() 15 %, c_callback() 10 % of CPU_S in the main thread; then two threads
under one GIL: three_parts() and one_part(), together another 40 % of CPU_S. Prints what each took
in seconds, as JSON. Runs on CPython 3.8 and later."""

import functools
import json
import random
import sys
import threading
import time

SHARES = {"half": 50, "by_generator": 25, "by_comprehension": 15, "c_callback": 10}
took = dict.fromkeys([*SHARES, "three_parts", "one_part"], 0.0)


def half(cpu_s):
    end = time.thread_time() + cpu_s
    n = 0
    while time.thread_time() < end:
        n += 1
    return n


def numbers(end):
    n = 0
    while time.thread_time() < end:
        n += 1
        yield n


def by_generator(cpu_s):
    return sum(numbers(time.thread_time() + cpu_s))


def is_over(end):
    return time.thread_time() >= end


def by_comprehension(cpu_s):
    end = time.thread_time() + cpu_s
    while not any([is_over(end) for _ in range(100)]):
        pass


def c_callback(cpu_s):
    """functools.reduce, written in C, calls back."""
    end = time.thread_time() + cpu_s

    def step(so_far, n):
        return so_far + n * n % 7

    while time.thread_time() < end:
        functools.reduce(step, range(200), 0)


def three_parts(cpu_s):
    half_of_it = time.thread_time() + cpu_s / 2
    while time.thread_time() < half_of_it:
        pass
    end = half_of_it + cpu_s / 2
    while time.thread_time() < end:
        pass


def one_part(cpu_s):
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        pass


def timed(fn, cpu_s):
    began = time.thread_time()
    fn(cpu_s)
    took[fn.__name__] += time.thread_time() - began


def take_turns(total_s):
    rng = random.Random(7)
    functions = {name: globals()[name] for name in SHARES}
    left = {name: total_s * share / 100 for name, share in SHARES.items()}
    while left:
        name = rng.choice(sorted(left))
        turn_s = min(left[name], rng.uniform(0.003, 0.03) * SHARES[name] / 25)
        timed(functions[name], turn_s)
        left[name] -= turn_s
        if left[name] <= 0:
            del left[name]


def main():
    total_s = float(sys.argv[1])
    take_turns(total_s)
    threads = [threading.Thread(target=timed, args=(three_parts, total_s * 0.3)),
               threading.Thread(target=timed, args=(one_part, total_s * 0.1))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(json.dumps(took))


main()
