"""disks.py - on which device a folder lies, whether on one at all, and how long its reads take."""

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


def reads_of(device):
    """(how many were done since boot, the seconds that they took), by /proc/diskstats."""
    with open("/proc/diskstats") as f:
        for line in f:
            fields = line.split()
            if fields[2] == device:
                return int(fields[3]), int(fields[6]) / 1e3
    return 0, 0.0
