"""code_flood.py - a job whose every stack is of code that was never run before.

usage: code_flood.py TIMES code|lines|deep
code: functions are made and thrown away, each with a name of its own; lines: made and kept, each
with a table of lines of some 180 KB; deep: a recursion whose path is another each time."""

import random
import sys

TIMES = int(sys.argv[1])
SPIN = "\n    n = 0\n    for i in range(%d):\n        n += i * i\n    return n\n"


def make(name, body):
    env = {}
    exec(compile("def %s():%s" % (name, body), "/made/%s.py" % name, "exec"), env)
    return env[name]


def code():
    for n in range(TIMES):
        make("made_%d_%s" % (n, "x" * 80), SPIN % 20000)()


def lines():
    """All share one table, and stay: what reads the tables of all has it many times."""
    body = "\n    if 0 + len('') > 1:\n" + "        n = 0; m = 0\n" * 20000
    module = compile("def made():%s%s" % (body, SPIN % 40000), "/made/lines.py", "exec")
    template = next(c for c in module.co_consts if hasattr(c, "co_code"))
    function, kept = type(lines), []
    for n in range(TIMES):
        kept.append(function(template.replace(co_name="made%d" % n), {}))
        kept[-1]()


def deep():
    """Each level is reached from one of three lines."""
    def step(path):
        if not path:
            return sum(i * i for i in range(20000))
        rest = path[1:]
        if path[0] == 0:
            return step(rest)
        if path[0] == 1:
            return step(rest)
        return step(rest)
    for _n in range(TIMES):
        step([random.randrange(3) for _ in range(100)])


{"code": code, "lines": lines, "deep": deep}[sys.argv[2]]()
