#!/usr/bin/env python3
"""deb_test.py - the Debian package: what is in it, that it works from where it is unpacked, and
that installing and purging it leave a system as they should. Nothing is installed on this machine: dpkg
runs in a view of it whose changes are thrown away."""

import glob
import os
import re
import shutil
import subprocess

from agents import Agent, certificate
from harness import EACGM, expect, expect_one_line, main, skip, test

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEPLOY = os.path.join(ROOT, "deploy")

# In a mount namespace of its own; $1: an empty folder, $2: the package, $3: what is run in there.
# /var/cache is empty: what others write there while it is looked through would show through.
VIEW = """
set -e
mount --make-rprivate /
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" none "$1/root" || exit 99
mount -t proc none "$1/root/proc"
mount -t tmpfs none "$1/root/run"
mount -t tmpfs none "$1/root/var/cache"
mount --rbind /sys "$1/root/sys"
mount --rbind /dev "$1/root/dev"
cp "$2" "$1/root/eacgm.deb"
exec chroot "$1/root" sh -ec "$3"
"""

# An installed file that was changed stays; a service that was disabled stays so.
LIFE = """
rm -rf /var/lib/eacgm /var/cache/eacgm
dpkg --no-triggers -i /eacgm.deb >/dev/null
eacgm --version
test -e /etc/systemd/system/multi-user.target.wants/eacgm-agent.service && echo enabled
dpkg --verify eacgm
echo 'budget: 2%' >>/etc/eacgm/agent.yaml
dpkg --no-triggers -i /eacgm.deb >/dev/null
grep -c 'budget: 2%' /etc/eacgm/agent.yaml
mkdir -p /var/lib/eacgm /var/cache/eacgm
touch /var/lib/eacgm/freeze-1.eacgm
dpkg --no-triggers -r eacgm >/dev/null
test ! -e /usr/bin/eacgm
ls /etc/eacgm /var/lib/eacgm
dpkg --no-triggers -P eacgm >/dev/null
for path in /etc/eacgm /var/lib/eacgm /var/cache/eacgm /usr/lib/eacgm; do
	test ! -e $path
done
ls /etc/systemd/system/multi-user.target.wants /etc/systemd/system | grep eacgm || echo clean
"""


made = []


def missing_page():
    """What an eacgm without the page says of itself."""
    with open(os.path.join(ROOT, "src/web/web_page.h")) as f:
        return re.search(r'#define WEB_PAGE_MISSING "(.*)"', f.read()).group(1)


def package(t):
    if made:
        return made[0]
    for tool in ("dpkg-deb", "strip", "objdump", "ninja"):
        if not shutil.which(tool):
            skip("%s is not installed" % tool)
    build = os.path.dirname(EACGM)
    if "libasan" in subprocess.run(["objdump", "-p", EACGM], capture_output=True, text=True).stdout:
        skip("a build with sanitizers needs more than glibc")
    if missing_page() in subprocess.run([EACGM, "report", "/dev/null", "--html", "-"], text=True,
                                        capture_output=True).stderr:
        skip("this eacgm was built without the page")
    r = subprocess.run(["sh", "tools/deb.sh", build], cwd=ROOT, capture_output=True, text=True)
    expect(r.returncode == 0, r.stdout + r.stderr)
    made.append(os.path.join(build, os.path.basename(r.stdout.split()[0])))
    return made[0]


@test("what is in it, and that it works from where it is unpacked", 120)
def _(t):
    deb = package(t)
    r = t.run(["dpkg-deb", "-c", deb])
    names = {line.split(None, 5)[5].lstrip(".") for line in r.out.splitlines()}
    for name in ("/usr/bin/eacgm", "/usr/lib/eacgm/libeacgm_gpu.so",
                 "/usr/lib/eacgm/libeacgm_calls.so", "/usr/share/man/man1/eacgm.1.gz",
                 "/usr/share/man/man1/eacgm-agent.1.gz",
                 "/usr/share/bash-completion/completions/eacgm", "/etc/eacgm/agent.yaml",
                 "/usr/lib/systemd/system/eacgm-agent.service", "/usr/share/doc/eacgm/copyright",
                 "/usr/share/doc/eacgm/changelog.gz"):
        expect(name in names, "%s is not in it" % name)
    wrong = [line for line in r.out.splitlines() if line.split()[1] != "root/root" or
             line[5] == "w" or line[8] == "w" or "s" in line[:10]]
    expect(not wrong, wrong)
    expect(t.run(["dpkg-deb", "-f", deb, "Depends"]).out.strip() == "libc6 (>= 2.36)", "Depends")
    scripts = t.path("control")
    expect(t.run(["dpkg-deb", "-e", deb, scripts]).status == 0, "its scripts")
    with open(os.path.join(scripts, "conffiles")) as f:
        expect(f.read() == "/etc/eacgm/agent.yaml\n", "conffiles")
    for name in ("postinst", "prerm", "postrm"):
        r = t.run(["sh", "-n", os.path.join(scripts, name)])
        expect(r.status == 0 and not r.err, r)
    root = t.path("root")
    expect(t.run(["dpkg-deb", "-x", deb, root]).status == 0, "unpacked")
    binary = os.path.join(root, "usr/bin/eacgm")
    r = t.run([binary, "--version"])
    expect(r.status == 0 and r.out == t.run([EACGM, "--version"]).out, r)
    r, ours = t.run([binary, "doctor"]), t.run([EACGM, "doctor"])
    expect(r.status == ours.status and r.out.splitlines()[:3] == ours.out.splitlines()[:3], r)
    a = Agent(t, eacgm=binary)
    page, headers = a.get("/", Accept="text/html")
    a.end()
    expect("<html" in page and "<script>" in page and headers["Content-Security-Policy"], page)
    expect("/usr/share/doc/eacgm/licenses/uplot" in names, "the licence of what the page has in it")
    # every key that the file shows, not only those that are on
    with open(os.path.join(root, "etc/eacgm/agent.yaml")) as f:
        text = f.read()
    whole = re.sub(r"(?m)^#(?!detect:)(\s*(?:- )?[a-z_]+:( .*)?)$", r"\1", text)
    expect(whole.count("\n#") < text.count("\n#") - 10, whole)
    cert, key = certificate(t, "localhost")
    with open(t.path("token"), "w") as f:
        f.write("0123456789abcdef\n")
    for name, path in (("cert.pem", cert), ("ca.pem", cert), ("key.pem", key),
                       ("token", t.path("token"))):
        expect("/etc/eacgm/" + name in whole, name)
        whole = whole.replace("/etc/eacgm/" + name, path)
    whole = whole.replace("/var/lib/eacgm/agent.db", t.path("agent.db"))
    for text in (text, whole):
        path = t.path("agent.yaml")
        with open(path, "w") as f:
            f.write(text.replace("127.0.0.1:9477", "127.0.0.1:0") + "duration: 100ms\n")
        r = t.run([binary, "agent", "-c", path, "--freeze", t.path("freezes")] +
                  (["--catalog", catalog(t)] if text == whole else []), 60)
        expect(r.status == 0 and "attached to" in r.err, r)


def catalog(t):
    path = t.path("more.yaml")
    with open(path, "w") as f:
        f.write("catalog: 1\nlibraries: [libfoo.so]\nprobes: [{id: foo.a, symbols: a}]\n")
    return path


@test("of an eacgm without the page no tarball and no package is made, and one line says so")
def _(t):
    build = t.path("build")
    os.mkdir(build)
    for name, does in (("ninja", "exit 0"), ("eacgm", """case $1 in
--version) echo eacgm 0 ;;
*) echo 'eacgm: %s' >&2; exit 1 ;;
esac""" % missing_page())):
        path = os.path.join(build, name)
        with open(path, "w") as f:
            f.write("#!/bin/sh\n%s\n" % does)
        os.chmod(path, 0o755)
    for tool in ("tools/dist.sh", "tools/deb.sh"):
        r = t.run(["sh", tool, build], cwd=ROOT,
                  env=dict(os.environ, PATH=build + ":" + os.environ["PATH"]))
        expect_one_line(r, "dist: ", "makes no page")
    expect(sorted(os.listdir(build)) == ["eacgm", "ninja"], os.listdir(build))


@test("installed, changed, installed again, removed, purged", 120)
def _(t):
    if not shutil.which("dpkg") or not shutil.which("unshare"):
        skip("there is no dpkg or no unshare")
    folder = t.path("view")
    os.mkdir(folder)
    r = t.run(["unshare", "-m", "sh", "-c", VIEW, "sh", folder, package(t), LIFE], 100)
    if r.status == 99:
        skip("no overlay can be mounted here")
    expect(r.status == 0, r)
    said = r.out.split()
    expect(said[0] == "eacgm" and "1" in said and "agent.yaml" in said and
           "freeze-1.eacgm" in said and said[-1] == "clean", r)
    if shutil.which("deb-systemd-helper"):
        expect("enabled" in said, r)
    expect(not glob.glob("/usr/share/doc/eacgm"), "this machine stays as it is")


@test("the unit: what systemd says of it")
def _(t):
    if not shutil.which("systemd-analyze"):
        skip("systemd-analyze is not installed")
    with open(os.path.join(DEPLOY, "eacgm-agent.service")) as f:
        unit = f.read().replace("/usr/bin/eacgm", EACGM).replace("man:eacgm-agent(1)", "https://x/")
    path = t.path("eacgm-agent.service")
    with open(path, "w") as f:
        f.write(unit)
    r = t.run(["systemd-analyze", "verify", "--man=no", path])
    expect(r.status == 0 and not [line for line in r.err.splitlines() if "eacgm-agent" in line], r)


@test("the capabilities that the unit leaves are enough")
def _(t):
    if not shutil.which("setpriv"):
        skip("setpriv is not installed")
    with open(os.path.join(DEPLOY, "eacgm-agent.service")) as f:
        named = [word for line in f if line.startswith("CapabilityBoundingSet=")
                 for word in line.strip().split("=")[1].split()]
    left = ",".join(["-all"] + ["+" + name[4:].lower() for name in named])
    under = ["setpriv", "--bounding-set", left, "--inh-caps=-all", "--no-new-privs"]
    said = [t.run([*run, EACGM, "agent", "--detect", "--listen", "127.0.0.1:0", "-d", "1s",
                   "--freeze", t.path("freezes")], 60) for run in ([], under)]
    for r in said:
        expect(r.status == 0 and "attached to" in r.err, r)
    lines = [sum("cannot" in line or "permi" in line for line in r.err.splitlines()) for r in said]
    expect(lines[0] == lines[1], "%s\n%s" % tuple(said))


if __name__ == "__main__":
    main()
