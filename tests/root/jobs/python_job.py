"""python_job.py - Python functions that C calls, a known number of times.

python_job.py [PROFILE]: with PROFILE, a file's path, cProfile watches and its counts are
written there as {"NAME:LINE": CALLS}. Every function here whose name begins with "c_" is
entered from C code only, never by a call in Python code.
"""

import functools
import json
import re
import sys


def c_map(x):
    return x + 1


def c_key(x):
    return -x


def c_reduce(a, b):
    return a + b


def c_partial(a, b):
    return a * b


def c_replace(match):
    return match.group(0).upper()


def c_hook(pairs):
    return len(pairs)


def c_raise(x):
    if x % 3 == 0:
        raise ValueError(x)
    return x


def c_recurse(n):
    return 1 + sum(map(c_recurse, [n - 1])) if n else 0


def c_generate(n):
    for i in range(n):
        yield i


class Counting:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Key:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return self.n % 7

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n

    def __del__(self):
        pass

    @property
    def c_property(self):
        return self.n


def work():
    list(map(c_map, range(1000)))
    sorted(range(500), key=c_key)
    functools.reduce(c_reduce, range(301))
    double = functools.partial(c_partial, 2)
    list(map(double, range(200)))
    re.sub("a", c_replace, "banana" * 50)
    json.loads("[" + ",".join(['{"a":1}'] * 40) + "]", object_hook=c_hook)
    for i in range(90):
        try:
            list(map(c_raise, [i]))
        except ValueError:
            pass
    list(map(c_recurse, [20] * 5))
    list(c_generate(70))
    for _x in range(3):
        list(Counting(50))
    keys = [Key(i) for i in range(60)]
    set(keys)
    sorted(keys)
    list(map(Key.c_property.__get__, keys))


def main():
    if len(sys.argv) < 2:
        work()
        return
    import cProfile
    profiler = cProfile.Profile()
    profiler.runcall(work)
    profiler.create_stats()
    counts = {"%s:%d" % (name, line): stat[1] for (file, line, name), stat in
              profiler.stats.items() if file == __file__}
    with open(sys.argv[1], "w") as f:
        json.dump(counts, f)


main()
