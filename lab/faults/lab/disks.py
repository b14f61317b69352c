"""disks.py - on which device a folder lies, and whether on one at all."""

import os

IN_MEMORY = ("tmpfs", "ramfs")


def device_of(folder):
    """Its name ("vda"), or None where it is not known: in memory, or on layers of others."""
    number = os.stat(folder).st_dev
    path = "/sys/dev/block/%d:%d" % (os.major(number), os.minor(number))
    return os.path.basename(os.path.realpath(path)) if os.path.exists(path) else None


def is_in_memory(folder):
    number = os.stat(folder).st_dev
    name = "%d:%d" % (os.major(number), os.minor(number))
    with open("/proc/self/mountinfo") as f:
        for line in f:
            fields, _, rest = line.partition(" - ")
            if fields.split()[2] == name:
                return rest.split()[0] in IN_MEMORY
    return False
