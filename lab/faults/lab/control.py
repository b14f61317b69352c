"""control.py - one page that the runner writes and every process of the job reads: which faults
within the job are on, which phase is wanted, when to end. Shared memory over a file, so that a
step that looks makes no system call, which a tracer would see.

Page: sequence (u64, odd while it is written), length (u64), JSON. One writer."""

import json
import mmap
import os
import struct

SIZE = 16384
HEAD = struct.Struct("=QQ")
NAME = "control"


class Writer:
    def __init__(self, folder):
        self.sequence, self.state = 0, {}
        self.path = os.path.join(folder, NAME)
        with open(self.path, "wb") as f:
            f.truncate(SIZE)
        with open(self.path, "r+b") as f:
            self.page = mmap.mmap(f.fileno(), SIZE)

    def set(self, **changes):
        """Changes keys of the state (None removes one); the sequence number that says so."""
        self.state.update(changes)
        self.state = {k: v for k, v in self.state.items() if v is not None}
        text = json.dumps(self.state).encode()
        if len(text) > SIZE - HEAD.size:
            raise ValueError("the state is longer than the page")
        HEAD.pack_into(self.page, 0, self.sequence + 1, len(text))
        self.page[HEAD.size:HEAD.size + len(text)] = text
        self.sequence += 2
        HEAD.pack_into(self.page, 0, self.sequence, len(text))
        return self.sequence

    def close(self):
        self.page.close()


class Reader:
    def __init__(self, folder):
        with open(os.path.join(folder, NAME), "rb") as f:
            self.page = mmap.mmap(f.fileno(), SIZE, prot=mmap.PROT_READ)
        self.sequence, self.state = 0, {}

    def changed(self):
        """True where the state is another than at the last call."""
        sequence, length = HEAD.unpack_from(self.page, 0)
        if sequence == self.sequence or sequence % 2 or length > SIZE - HEAD.size:
            return False
        text = bytes(self.page[HEAD.size:HEAD.size + length])
        if HEAD.unpack_from(self.page, 0)[0] != sequence:
            return False
        self.sequence, self.state = sequence, json.loads(text)
        return True
