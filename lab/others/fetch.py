#!/usr/bin/env python3
"""fetch.py - fetches the public projects that workloads of the fault laboratory run, each at the
commit that lab/faults/workloads/projects.py names.

    fetch.py --list             which there are, and which of them are here
    fetch.py [NAME...]          those (default: all), from GitHub

They come to $EACGM_OTHERS, or ~/.cache/eacgm/others. --from, or $EACGM_OTHERS_FROM, names another
place than GitHub, by a pattern: --from '/srv/mirrors/{owner}/{name}.git'."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "faults"))
from workloads.projects import PROJECTS, cache, checkout  # noqa: E402

GITHUB = "https://github.com/{owner}/{name}"


def git(folder, *words):
    subprocess.run(["git", "-C", folder, *words], check=True, stdout=subprocess.DEVNULL)


def from_github(folder, url, project):
    """One commit, and of it only what is wanted."""
    git(folder, "init", "-q")
    git(folder, "remote", "add", "origin", url)
    git(folder, "fetch", "-q", "--depth", "1", "--filter=blob:none", "origin", project.commit)
    if project.wanted:
        git(folder, "sparse-checkout", "set", "--no-cone", "/LICEN[CS]E*",
            *["/" + path for path in project.wanted],
            *["!/" + path for path in project.unwanted])
    git(folder, "-c", "advice.detachedHead=false", "checkout", "-q", "FETCH_HEAD")


def from_mirror(folder, mirror, project):
    """A mirror need not be whole."""
    paths = list(project.wanted or ["."]) + [":(exclude)" + path for path in project.unwanted]
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        git(mirror, "archive", "-o", archive.name, project.commit, "--", *paths)
        subprocess.run(["tar", "-C", folder, "-xf", archive.name], check=True)


def fetch(name, pattern):
    """In place as a whole, or not."""
    project = PROJECTS[name]
    owner, repository = project.repository.split("/")
    place = pattern.format(owner=owner, name=repository)
    os.makedirs(cache(), exist_ok=True)
    folder = tempfile.mkdtemp(prefix=".fetching-", dir=cache())
    try:
        (from_mirror if os.path.isdir(place) else from_github)(folder, place, project)
        os.chmod(folder, 0o755)
        os.rename(folder, checkout(name))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--list", action="store_true")
    p.add_argument("--from", dest="pattern", metavar="PATTERN",
                   default=os.environ.get("EACGM_OTHERS_FROM") or GITHUB)
    p.add_argument("names", nargs="*", metavar="NAME")
    args = p.parse_args()
    for name in [n for n in args.names if n not in PROJECTS]:
        p.error("there is no project '%s'; see --list" % name)
    for name in args.names or PROJECTS:
        project, there = PROJECTS[name], os.path.isdir(checkout(name))
        if not args.list and not there:
            try:
                fetch(name, args.pattern)
            except subprocess.CalledProcessError as e:
                print("fetch.py: %s: git ended with %d" % (name, e.returncode), file=sys.stderr)
                return 1
        print("%-14s %s  %s  %s" % (name, project.commit[:12], project.repository,
                                    checkout(name) if there or not args.list else "not here"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
