"""pytorch.py - what of PyTorch the Python has that jobs run in. Importing it takes seconds of CPU
time: run.py tries once for all files, and a file by itself once for all of its tests.

Environment: EACGM_TEST_PYTHON (default /usr/bin/python3), EACGM_TEST_TORCH (what there is, words of
"torch gloo"; it is tried where this is not said)."""

import os
import subprocess

PYTHON = os.environ.get("EACGM_TEST_PYTHON", "/usr/bin/python3")
TRIES = """
import torch
print("torch")
import torch.distributed
print("gloo" if torch.distributed.is_gloo_available() else "")
"""


def there():
    if "EACGM_TEST_TORCH" not in os.environ:
        words = ""
        if os.path.exists(PYTHON):
            words = subprocess.run([PYTHON, "-c", TRIES], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                   check=False).stdout
        os.environ["EACGM_TEST_TORCH"] = " ".join(words.split())
    return os.environ["EACGM_TEST_TORCH"].split()
