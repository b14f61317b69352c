#!/usr/bin/env python3
"""forked.py - runs a script of PyTorch's several times, one after the other and each with words of
its own, in processes that have PyTorch already: its import takes longer than most of what tests
record.

usage: forked.py SCRIPT WORD... [-- WORD...]..."""

import os
import runpy
import sys

import torch  # noqa: F401  pylint: disable=unused-import


def runs_of(words):
    runs = [[]]
    for word in words:
        if word == "--":
            runs.append([])
        else:
            runs[-1].append(word)
    return runs


def main():
    script = sys.argv[1]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    for words in runs_of(sys.argv[2:]):
        pid = os.fork()
        if not pid:
            sys.argv = [script, *words]
            runpy.run_path(script, run_name="__main__")
            return
        status = os.waitpid(pid, 0)[1]
        if status:
            sys.exit("%s %s ended with status %d" % (script, " ".join(words), status))


if __name__ == "__main__":
    main()
