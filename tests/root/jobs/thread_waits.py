"""thread_waits.py - many threads at once that sleep again and again.

usage: thread_waits.py THREADS TIMES"""

import sys
import threading
import time

THREADS, TIMES = int(sys.argv[1]), int(sys.argv[2])
begin = threading.Event()


def wait():
    begin.wait()
    for _i in range(TIMES):
        time.sleep(0.001)


threading.stack_size(65536)
threads = [threading.Thread(target=wait) for _i in range(THREADS)]
for thread in threads:
    thread.start()
began = time.monotonic()
begin.set()
for thread in threads:
    thread.join()
print("threads %d in %.2f s" % (THREADS, time.monotonic() - began), flush=True)
