"""guest_job.py - a job of Python for guest_check.py: calls a function of a library, without an end;
prints the function's address after the first. Knows nothing of eacgm."""

import ctypes
import os
import time

HERE = os.path.dirname(os.path.abspath(__file__))
push = ctypes.CDLL(os.path.join(HERE, "libtarget.so")).target_push
push(1)
print(ctypes.cast(push, ctypes.c_void_p).value, flush=True)
while True:
    push(1)
    time.sleep(0.05)
