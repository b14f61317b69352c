"""Lists unit tests or fuzz targets for meson: one line each, its name and the folders it links.

usage: list_unit.py FOLDER [PATTERN]

The line "links: ..." stands in the opening comment of each tests/unit/*_test.c and
tests/fuzz/*_fuzz.c.
"""
import pathlib
import re
import sys

for path in sorted(pathlib.Path(sys.argv[1]).glob(sys.argv[2] if len(sys.argv) > 2 else "*_test.c")):
    head = path.read_text().split("*/", 1)[0]
    found = re.search(r"links:([a-z ]*)", head)
    if not found:
        sys.exit(f"{path}: no 'links:' line in the opening comment")
    print(path.stem, *found.group(1).split())
