"""packs.py - the results of a campaign in few files of bounded size: what matters most first, so
that what finds no room is what matters least. Knows nothing of what is in them."""

import io
import os
import tarfile
import zlib

HEAD = 1536  # of a member, and what rounding its length up takes, uncompressed


class Packs:
    """Archives FOLDER/NAME-1.tar.gz and so on, each at most file_bytes long, together at most
    total_bytes; at most files of them."""

    def __init__(self, folder, files, file_bytes, total_bytes, name="campaign"):
        self.name = name
        self.folder, self.files = folder, files
        self.file_bytes, self.left = file_bytes, total_bytes
        self.tar = self.raw = None
        self.done, self.out = [], []
        self.part = None

    def _open(self):
        number = len(self.done) + 1
        self.part = os.path.join(self.folder, "%s-%d.tar.gz.part" % (self.name, number))
        self.raw = open(self.part, "wb")
        self.tar = tarfile.open(fileobj=self.raw, mode="w:gz", compresslevel=6)

    def close(self):
        """The archive that is open is whole then. An OSError leaves nothing of it."""
        if not self.tar:
            return
        try:
            self.tar.close()
            self.raw.close()
            os.replace(self.part, self.part[:-len(".part")])
        except OSError:
            self._drop()
            raise
        self.tar = None
        self.done.append(self.part[:-len(".part")])
        self.left -= os.path.getsize(self.done[-1])

    def _drop(self):
        self.tar = None
        try:
            self.raw.close()
        except OSError:
            pass  # what it still held finds no room either
        os.unlink(self.part)

    def add(self, path, name):
        """False: there is no room for it; the caller may go on with others."""
        try:
            with open(path, "rb") as f:
                data = f.read()
        except OSError:
            return False
        need = len(zlib.compress(data, 6)) + HEAD
        if self.tar and self.size() + need > min(self.file_bytes, self.left):
            self.close()
        if need + HEAD > min(self.file_bytes, self.left) or (
                not self.tar and len(self.done) >= self.files):
            self.out.append(name)
            return False
        if not self.tar:
            self._open()
        info = tarfile.TarInfo(name)
        info.size, info.mtime = len(data), int(os.stat(path).st_mtime)
        try:
            self.tar.addfile(info, io.BytesIO(data))
        except OSError:
            self._drop()
            raise
        return True

    def size(self):
        """An upper bound: less than that is still on its way through the compressor."""
        return self.raw.tell() + (1 << 18)
