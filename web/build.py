#!/usr/bin/env python3
"""Builds the page: one HTML file with its script and its style in it, as C arrays.

usage: build.py [--or-none NONE.c] OUTPUT.c FOLDER DEPFILE

FOLDER is where npm puts what package-lock.json names (esbuild, uPlot), and where page.html is left
to look at. Where npm cannot get them, OUTPUT.c is NONE.c, if that is given. The file is cut where the program puts something in: what scripts may ask (connect-src
of the Content-Security-Policy) and the data. Its policy names script and style by their hashes, so
that no other ones run. Nothing is written here, beside the sources.
"""
import base64
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = ("package.json", "package-lock.json", ".npmrc")
NPM_SECONDS = 180
WITHOUT = "to build without the page: meson configure BUILD -Dweb=disabled"
LEFT_OUT = "the page is left out (once npm can: touch web/build.py)"
TARGET = ["--bundle", "--minify", "--charset=ascii", "--log-level=warning", "--target=es2020"]


class NoPackages(Exception):
    """One sentence."""


def get_packages(folder):
    """npm is asked only where what is wanted has changed."""
    stamp = folder / "packages.sha256"
    wanted = hashlib.sha256(b"".join((HERE / p).read_bytes() for p in PACKAGES)).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    npm = shutil.which("npm")
    if not npm:
        raise NoPackages("npm is missing: run 'make setup'")
    for name in PACKAGES:
        shutil.copyfile(HERE / name, folder / name)
    try:
        done = subprocess.run([npm, "ci", "--omit=dev", "--no-progress"], cwd=folder, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=NPM_SECONDS)
    except subprocess.TimeoutExpired:
        raise NoPackages(f"npm did not get the page's packages in {NPM_SECONDS} s") from None
    if done.returncode:
        (folder / "npm.log").write_text(done.stdout)
        said = [line for line in done.stdout.splitlines() if "npm" in line and ":" in line]
        raise NoPackages(f"npm could not get the page's packages ({said[0] if said else 'no reason told'}; "
                f"all it said is in {folder / 'npm.log'})")
    stamp.write_text(wanted)


def bundle(folder, source, *options):
    env = {**os.environ, "NODE_PATH": str(folder / "node_modules")}
    made = folder / f"made{source.suffix}"
    done = subprocess.run([str(folder / "node_modules/.bin/esbuild"), str(source), *TARGET,
                           f"--outfile={made}", f"--metafile={folder / 'made_of.json'}", *options],
                          cwd=HERE, env=env, check=False)
    if done.returncode:
        sys.exit("web: esbuild found errors, above")
    made_of = json.loads((folder / "made_of.json").read_text())["inputs"]
    return made.read_text(encoding="ascii").strip(), [(HERE / name).resolve() for name in made_of]


def policy_hash(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def policy_of(script, style):
    """Up to what scripts may ask."""
    return ("default-src 'none'; base-uri 'none'; form-action 'none'; "
            f"script-src {policy_hash(script)}; style-src {policy_hash(style)}; "
            "img-src data:; connect-src ")


def page(script, style, policy):
    """The file, with marks where it is cut."""
    for text, end in ((script, "</script"), (style, "</style")):
        if end in text.lower() or "<!--" in text:
            sys.exit(f"web: the bundle holds '{end}' or '<!--'")
    html = (HERE / "src/page.html").read_text(encoding="ascii")
    for mark, text in (("@POLICY@", policy + "\0"), ("@STYLE@", style), ("@SCRIPT@", script),
                       ("@DATA@", "\0")):
        if html.count(mark) != 1:
            sys.exit(f"web: page.html must hold {mark} once")
        html = html.replace(mark, text)
    return html


def array(name, text):
    data = text.encode("ascii") + b"\0"
    rows = ("\t" + " ".join(f"0x{byte:02x}," for byte in data[at:at + 16])
            for at in range(0, len(data), 16))
    return f"const char {name}[] = {{\n" + "\n".join(rows) + "\n};\n"


def write_depfile(depfile, output, made_of):
    pathlib.Path(depfile).write_text(
        f"{output}: " + " ".join(str(path).replace(" ", "\\ ") for path in made_of) + "\n")


def main():
    args = sys.argv[1:]
    none = args[1] if args[:1] == ["--or-none"] and len(args) == 5 else None
    if len(args) != (5 if none else 3):
        sys.exit("usage: build.py [--or-none NONE.c] OUTPUT.c FOLDER DEPFILE")
    output, folder, depfile = args[-3], pathlib.Path(args[-2]).resolve(), args[-1]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        get_packages(folder)
    except NoPackages as e:
        if not none:
            sys.exit(f"web: {e}; {WITHOUT}")
        print(f"web: {e}; {LEFT_OUT}", file=sys.stderr)
        shutil.copyfile(none, output)
        write_depfile(depfile, output, [HERE / name for name in PACKAGES])
        return
    script, scripts = bundle(folder, HERE / "src/main.ts", "--format=iife")
    style, styles = bundle(folder, HERE / "src/page.css")
    policy = policy_of(script, style)
    parts = [*page(script, style, policy).split("\0"), policy]
    assert len(parts) == 4, "cut at two marks"
    names = ("web_part_head", "web_part_body", "web_part_tail", "web_part_policy")
    (folder / "page.html").write_text("'none'".join(parts[:2]) + parts[2])
    pathlib.Path(output).write_text(
        '/* Made by build.py; do not edit. */\n#include "web/web_parts.h"\n\n'
        + "\n".join(map(array, names, parts)))
    made_of = [*scripts, *styles, HERE / "src/page.html", *(HERE / name for name in PACKAGES)]
    write_depfile(depfile, output, made_of)


main()
