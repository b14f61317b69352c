"""Writes a C project of so many files into the folder that is named, for make."""
import pathlib
import sys

folder, n = pathlib.Path(sys.argv[1]), int(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
for i in range(n):
    body = "\n".join(f"double f{i}_{k}(double x) {{ for (int i = 0; i < {k}; i++) "
                     f"x = x * sin(x + i) + {k}; return x; }}" for k in range(120))
    (folder / f"part{i}.c").write_text("#include <math.h>\n#include <stdio.h>\n"
                                       f"#include <stdlib.h>\n#include <string.h>\n{body}\n")
(folder / "main.c").write_text("int main(void) { return 0; }\n")
(folder / "Makefile").write_text(
    "CFLAGS = -O2\nobjects = main.o " + " ".join(f"part{i}.o" for i in range(n)) +
    "\nprogram: $(objects)\n\t$(CC) -o $@ $^ -lm\n")
