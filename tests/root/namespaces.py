"""namespaces.py - network namespaces for tests, which are gone with the test. No test itself."""

import os
import shutil
import subprocess

from harness import skip


def ip(*words):
    r = subprocess.run(["ip", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if r.returncode:
        skip("ip %s: %s" % (" ".join(words), r.stdout.strip()))


def make_namespaces(t):
    """Two of them with a pair of interfaces between: 10.231.7.1 and .2."""
    if not shutil.which("ip"):
        skip("needs ip")
    names = ["eacgm-%d-%s" % (os.getpid(), side) for side in "ab"]
    for name in names:
        ip("netns", "add", name)
        t.at_end.append(lambda name=name: subprocess.run(["ip", "netns", "del", name], check=False))
    ip("link", "add", "eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0", "netns",
       names[1])
    for i, name in enumerate(names):
        ip("-n", name, "addr", "add", "10.231.7.%d/24" % (i + 1), "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
    return names
