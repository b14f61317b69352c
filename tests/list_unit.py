"""Lists unit tests for meson: one line each, the test's name and the folders it links.

The line "links: ..." stands in the opening comment of each tests/unit/*_test.c.
"""
import pathlib
import re
import sys

for path in sorted(pathlib.Path(sys.argv[1]).glob("*_test.c")):
    head = path.read_text().split("*/", 1)[0]
    found = re.search(r"links:([a-z ]*)", head)
    if not found:
        sys.exit(f"{path}: no 'links:' line in the opening comment")
    print(path.stem, *found.group(1).split())
