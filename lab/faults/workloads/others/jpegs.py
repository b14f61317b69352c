"""jpegs.py - pictures as files, by the seed: smooth noise."""

import io
import os


def picture(chance, side):
    """The bytes of a square one."""
    from PIL import Image
    file = io.BytesIO()
    Image.frombytes("RGB", (16, 16), chance.randbytes(768)).resize((side, side)).save(file, "JPEG")
    return file.getvalue()


def folders(root, counts, side, chance, classes=4):
    """counts: {part: number of pictures}; as root/part/class/picture."""
    for part, count in counts.items():
        for i in range(count):
            folder = os.path.join(root, part, "class%d" % (i % classes))
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "%05d.jpg" % i), "wb") as f:
                f.write(picture(chance, side))
