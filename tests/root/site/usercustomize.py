"""usercustomize.py - what every Python that a test starts runs first (harness.py: PYTHONPATH). At
its end the interpreter goes through all objects for garbage, which after PyTorch's import takes a
third of a second of CPU time: what was made until then is left out of that. Destructors run as
ever."""

import atexit
import gc

atexit.register(gc.freeze)
