"""cupti_fakes.py - what the tests over the fake CUPTI share (tests/fake/cupti): its folder, the
job over it, and spans as both say them."""

import os
import shutil

from harness import BUILD, expect

FAKES = os.path.join(BUILD, "tests", "fake", "cupti")
JOB = os.path.join(FAKES, "cupti_job")
CUDA = ["--gpu-timeline", "--layers", "cuda", "--profile", "off"]
FIRST = "_Z9small_addPfi"
LONG = "_ZN" + "12namespace_00" * 200 + "6kernelIfEEvPT_i"


def folder_with(t, name, library="libcupti.so.13"):
    """A folder with a CUPTI, as the loader finds it."""
    path = t.path(name)
    os.makedirs(path, exist_ok=True)
    shutil.copy(os.path.join(FAKES, library), path)
    return path


def cupti(t):
    return {"LD_LIBRARY_PATH": folder_with(t, "cupti")}


def spans_in(text):
    return sorted(line for line in text.splitlines() if line.startswith("span "))


def spans_of(t, rec):
    r = t.run([os.path.join(FAKES, "list_spans"), rec.path])
    expect(r.status == 0, "list_spans: %s" % r)
    return spans_in(r.out)


def expect_spans(t, rec, made=None):
    made = spans_in(rec.ran.out) if made is None else made
    seen = spans_of(t, rec)
    expect(made, "nothing was made: %s" % rec.ran)
    expect(seen == made, "%d made, %d seen; not seen: %r; not made: %r; notes: %r" % (
        len(made), len(seen), sorted(set(made) - set(seen))[:3],
        sorted(set(seen) - set(made))[:3], rec.report["notes"]))


def notes_of(rec):
    return [n["reason"] for n in rec.report["notes"] if n["subject"] == "gpu timeline"]


def expect_note(rec, words):
    expect(any(words in n for n in notes_of(rec)), "no note %r in %r" % (words, notes_of(rec)))
