"""gpu_telemetry_test.py - GPU counters and errors in a recording, over the fake NVML
(tests/fake/nvml) and a tracepoint that stands in for the driver's."""

import json
import os
import shutil
import subprocess
import time

from gpu import fake_nvml
from harness import EACGM, expect, main, skip, test

FORMAT = """name: nvidia_dev_xid
ID: %d
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:__data_loc char[] dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:u32 error_code;\toffset:12;\tsize:4;\tsigned:0;
\tfield:__data_loc char[] msg;\toffset:16;\tsize:4;\tsigned:0;
"""


@test("counters, the GPU and an Xid of NVML's are in the recording")
def _(t):
    env = fake_nvml(t, "count 1\ngpu 0 temperature 55\nxid 0 79\n")
    rec = t.record(["sleep", "1"], "--layers", "gpu", env=env)
    gpus = rec.report["gpus"]
    expect(len(gpus) == 1 and gpus[0]["uuid"], "gpus: %r" % gpus)
    counter = gpus[0]["counters"]["temperature_celsius"]
    expect(counter["last"] == 55, "temperature: %r" % counter)
    xids = [e for e in rec.report["events"] if e["name"] == "xid"]
    expect(len(xids) == 1 and "79" in xids[0]["text"] and xids[0]["entity"] == "gpu 0",
           "events: %r" % rec.report["events"])


@test("a driver that hangs does not hold up the end", 60)
def _(t):
    env = fake_nvml(t, "count 1\nspin DeviceGetTemperature 20000000\n")
    began = time.monotonic()
    rec = t.record(["sleep", "1"], "--layers", "gpu", env=env)
    took = time.monotonic() - began
    expect(took < 12, "it took %.1f s" % took)
    expect(any("NVML did not answer" in n["reason"] for n in rec.report["notes"]),
           "notes: %r" % rec.report["notes"])


def tracefs_of(t):
    """A folder that looks like tracefs with the driver's tracepoint, which is really one of the
    scheduler's: it is hit all the time, also while eacgm starts and ends."""
    if not shutil.which("unshare"):
        skip("unshare (util-linux) is not installed")
    mount, folder = t.path("tracefs"), t.path("events")
    os.mkdir(mount)
    found = subprocess.run(
        ["unshare", "-m", "sh", "-c",
         'mount -t tracefs none "$0" && cat "$0"/events/sched/sched_wakeup/id', mount],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if found.returncode:
        skip("no tracefs here: " + found.stderr.strip()[-200:])
    number = int(found.stdout)
    xid = os.path.join(folder, "events", "nvidia", "nvidia_dev_xid")
    os.makedirs(xid)
    with open(os.path.join(xid, "id"), "w") as f:
        f.write("%d\n" % number)
    with open(os.path.join(xid, "format"), "w") as f:
        f.write(FORMAT % number)
    return folder


@test("Xid errors of the tracepoint, from start to end, harm nothing")
def _(t):
    folder = tracefs_of(t)
    out = t.path("xid.eacgm")
    # the library that attaches takes either, whichever is there
    wheres = [w for w in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing") if os.path.isdir(w)]
    if not wheres:
        skip("no folder to mount over")
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", " && ".join('mount --bind "$0" ' + w for w in wheres) +
         ' && exec "$@"', folder, EACGM, "record", "--layers", "gpu", "-o", out, "--", "sleep", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=50)
    expect(ran.returncode == 0, "status %d: %s" % (ran.returncode, ran.stdout[-500:]))
    report = json.loads(t.run([EACGM, "report", "--json", out]).out)
    xids = [e for e in report["events"] if e["name"] == "xid"]
    expect(len(xids) > 10, "%d events" % len(xids))


if __name__ == "__main__":
    main()
