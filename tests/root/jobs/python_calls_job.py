"""python_calls_job.py CASE [FILE] - Python calls of all kinds; with FILE the case runs under
cProfile, whose counts go there as JSON: {"name (file:line)": calls}; greenlets_until runs until the
file is there."""

import asyncio
import gc
import json
import os
import signal
import sys
import threading


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


class Odd(Exception):
    pass


def count(n):
    for i in range(n):
        yield i


def delegate(n):
    yield from count(n)


def stubborn():
    while True:
        try:
            yield 1
        except Odd:
            pass


def fail(n):
    if n:
        fail(n - 1)
    raise Odd


def caught(n):
    try:
        fail(n)
    except Odd:
        return n


def called_at_end():
    pass


def wrap(f):
    def wrapper(*args):
        return f(*args)
    return wrapper


@wrap
def wrapped(x):
    return x


class Thing:
    def __init__(self, v):
        self.v = v

    def __len__(self):
        return self.v

    def __getattr__(self, name):
        return name

    @property
    def double(self):
        return 2 * self.v

    @classmethod
    def one(cls):
        return cls(1)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        return True

    def __call__(self, x):
        return x

    def __del__(self):
        called_at_end()


def functions():
    fib(15)
    for i in range(20):
        caught(i)
    things = [Thing(i) for i in range(30)]
    for x in things:
        len(x), x.double, x.other, x(3), Thing.one()
    with Thing(1):
        raise Odd
    del things, x
    sorted(range(50), key=lambda v: -v)
    list(map(wrapped, range(9)))
    {k: fib(k) for k in range(5)}, list(fib(1) for k in range(4))

    class Sub(Thing):
        field = fib(2)
    Sub(1)
    for i in range(200):  # code objects that go, at addresses that come again
        made = {}
        exec(compile("def made(): return 1", "made%d.py" % (i % 7), "exec"), made)
        made["made"]()


def generators():
    sum(count(100)), list(delegate(50))
    g = stubborn()
    next(g)
    for _i in range(5):
        g.throw(Odd())
    g.close()
    for g in (count(5), delegate(5)):
        next(g)
        try:
            g.throw(Odd())
        except Odd:
            pass
    g = delegate(9)
    next(g)
    del g
    gc.collect()


def down(n):
    return 1 + down(n - 1) if n else 0


def forever():
    forever()


def depths():
    sys.setrecursionlimit(6000)
    down(900), down(5000)
    sys.setrecursionlimit(500)
    try:
        forever()
    except RecursionError:
        pass


async def leaf(n):
    await asyncio.sleep(0)
    if n % 7 == 3:
        raise Odd
    return n


async def several(n):
    for i in range(n):
        yield i
    await leaf(1)


async def top():
    await asyncio.gather(*[leaf(i) for i in range(20)], return_exceptions=True)
    async for x in several(10):
        await leaf(x * 7)
    task = asyncio.ensure_future(asyncio.sleep(10))
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass


def coroutines():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(top())
    loop.close()


def all_kinds():
    functions()
    generators()
    depths()
    coroutines()


def nothing():
    pass


# ---- not under cProfile ----


def threads():
    """20 * 177 calls of fib in threads, 2 * 177 in threads of threads, 67 in each of 3 children."""
    def nested():
        t = threading.Thread(target=fib, args=(10,))
        t.start()
        t.join()
    ts = [threading.Thread(target=fib, args=(10,)) for _i in range(20)]
    ts += [threading.Thread(target=nested) for _i in range(2)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    for status in (3, 4, 5):
        pid = os.fork()
        if not pid:
            fib(8)
            if status == 5:
                sys.exit(5)
            os._exit(status)
        print("child", os.waitpid(pid, 0)[1])


def at_once():
    """Twelve calls of each of 1,500 functions, which six threads meet at a time."""
    made, begin = {}, threading.Barrier(6)
    for i in range(1500):
        exec(compile("def made_%d(): pass" % i, "made", "exec"), made)
    functions = [made["made_%d" % i] for i in range(1500)]

    def run():
        for _i in range(2):
            begin.wait()
            for f in functions:
                f()
    ts = [threading.Thread(target=run) for _i in range(6)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()


def held(n):
    """Called in many stacks of a thread at a time, and left in the order of calls."""
    import greenlet
    greenlet.getcurrent().parent.switch(n)
    if n % 3 == 2:
        raise Odd
    return fib(n)


def in_stack(n):
    try:
        return sum(map(held, (n,)))
    except Odd:
        return -1


def greenlets():
    """In each of two threads 20 calls of held that overlap, ten times."""
    import greenlet

    def rounds():
        for _i in range(10):
            stacks = [greenlet.greenlet(in_stack) for _n in range(20)]
            for n, stack in enumerate(stacks):
                stack.switch(n % 7)
            said.append(sum(stack.switch() for stack in stacks))
        killed_one = greenlet.greenlet(in_stack)
        killed_one.switch(1)
        killed_one.throw()
    said = []
    t = threading.Thread(target=rounds)
    t.start()
    rounds()
    t.join()
    print(said)


def greenlets_until(path):
    """Until the file is there."""
    import greenlet
    done, wrong = 0, 0
    while not os.path.exists(path):
        stacks = [greenlet.greenlet(in_stack) for _n in range(20)]
        for n, stack in enumerate(stacks):
            stack.switch(n % 7)
        wrong += [stack.switch() for stack in stacks] != [
            -1 if n % 7 % 3 == 2 else fib(n % 7) for n in range(20)]
        done += 1
    print(done, "rounds:", "%d are wrong" % wrong if wrong else "all as expected")


def own_profiler():
    import cProfile
    fib(5)  # 15
    p = cProfile.Profile()
    p.enable()
    fib(6)  # 25
    p.disable()
    print([(e.code.co_name, e.callcount) for e in p.getstats() if not isinstance(e.code, str)])
    print(sys.getprofile())
    fib(7)  # 41


class Late:
    def __del__(self):
        fib(4)


def end():
    """Threads and objects that are there still when the interpreter ends."""
    global kept
    kept = Late()
    threading.Thread(target=lambda: [fib(3) for i in count(10 ** 9)], daemon=True).start()
    sys.exit(9)


def killed():
    fib(5)
    os.kill(os.getpid(), signal.SIGKILL)


def long_run():
    print("begun", flush=True)
    for i in range(400):
        fib(16)
    print("done")


def main(case, out=None):
    run = globals()[case]
    if out is None or case == "greenlets_until":
        run(*filter(None, (out,)))
        return
    import cProfile
    p = cProfile.Profile()
    p.enable()
    try:
        run()
    finally:
        p.disable()
    counts = {}
    for e in p.getstats():
        if not isinstance(e.code, str):
            name = getattr(e.code, "co_qualname", e.code.co_name)
            key = "%s (%s:%d)" % (name, e.code.co_filename, e.code.co_firstlineno)
            counts[key] = counts.get(key, 0) + e.callcount
    with open(out, "w") as f:
        json.dump(counts, f)


if __name__ == "__main__":
    main(*sys.argv[1:])
