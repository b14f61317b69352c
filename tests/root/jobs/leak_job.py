#!/usr/bin/env python3
"""leak_job.py - takes so much memory, at so much a second or, with a rate of 0, at once; keeps it for
some time and frees it before it ends.

usage: leak_job.py BYTES BYTES_PER_S SECONDS"""

import sys
import time

total, per_s, seconds = (float(word) for word in sys.argv[1:])
EVERY_S = 0.1
kept = []
began = time.monotonic()
if not per_s:
    kept.append(bytearray(b"x") * int(total))
while per_s and len(kept) * per_s * EVERY_S < total:
    kept.append(bytearray(b"x") * int(per_s * EVERY_S))
    time.sleep(max(0, began + len(kept) * EVERY_S - time.monotonic()))
time.sleep(max(0, began + seconds - time.monotonic()))
kept.clear()
