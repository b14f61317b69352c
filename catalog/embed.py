#!/usr/bin/env python3
"""Writes the built-in catalog as a C file: embed.py OUTPUT.c FILE.yaml...

The texts are embedded as they are and parsed at start-up by the code that also parses
users' files; nothing is checked here (tests/unit/catalog_test.c does)."""
import os
import sys


def array(number, data):
    lines = [f"static const unsigned char text{number}[] = {{"]
    for at in range(0, len(data), 16):
        lines.append("\t" + " ".join(f"0x{byte:02x}," for byte in data[at:at + 16]))
    lines.append("};")
    return "\n".join(lines)


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: embed.py OUTPUT.c FILE.yaml...")
    output, paths = sys.argv[1], sorted(sys.argv[2:], key=os.path.basename)
    arrays, rows = [], []
    for number, path in enumerate(paths):
        with open(path, "rb") as file:
            arrays.append(array(number, file.read()))
        rows.append(f'\t{{"{os.path.basename(path)}", text{number}, sizeof(text{number})}},')
    with open(output, "w", encoding="ascii") as file:
        file.write("/* Made by catalog/embed.py; do not edit. */\n")
        file.write('#include "probe/catalog_impl.h"\n\n')
        file.write("\n\n".join(arrays))
        file.write("\n\nconst struct catalog_builtin catalog_builtins[] = {\n")
        file.write("\n".join(rows))
        file.write("\n};\nconst size_t catalog_builtins_len = ")
        file.write("sizeof(catalog_builtins) / sizeof(catalog_builtins[0]);\n")


main()
