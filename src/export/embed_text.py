#!/usr/bin/env python3
"""Writes text files as C arrays: embed_text.py OUTPUT.c HEADER NAME=FILE...

Each becomes `const char NAME[]`, ended by a NUL; HEADER declares them. The texts stand in
CDATA sections of XML later, so a text that would end one is refused."""
import sys


def array(name, data):
    lines = [f"const char {name}[] = {{"]
    data += b"\0"
    for at in range(0, len(data), 16):
        lines.append("\t" + " ".join(f"0x{byte:02x}," for byte in data[at:at + 16]))
    lines.append("};")
    return "\n".join(lines)


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: embed_text.py OUTPUT.c HEADER NAME=FILE...")
    with open(sys.argv[1], "w", encoding="ascii") as output:
        output.write(f'/* Made by embed_text.py; do not edit. */\n#include "{sys.argv[2]}"\n')
        for word in sys.argv[3:]:
            name, path = word.split("=", 1)
            with open(path, "rb") as file:
                data = file.read()
            if b"]]>" in data or any(byte > 126 for byte in data):
                sys.exit(f"{path}: holds ']]>' or what is not ASCII")
            output.write("\n" + array(name, data) + "\n")


main()
