/* cpython_frames.h - how the frames of one build of CPython hang together, and which line of
 * a code object an instruction belongs to. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "symbolize/elf_file.h"
#include "wire/unwind.h"

/* Offsets for a version (PY_VERSION_HEX), 3.8 to 3.14, of ordinary builds. For 3.13 and later
 * prefer cpython_frames_from_offsets. */
int cpython_frames(uint32_t version_hex, struct py_frames *ret, struct err *e);

/* From an image of _Py_DebugOffsets (the start of _PyRuntime, 3.13+), also of free-threaded
 * builds. Bounded by len; -EINVAL when cookie, version or offsets do not fit. */
int cpython_frames_from_offsets(const void *image, size_t len, struct py_frames *ret,
				struct err *e);

/* Whether a code object is the interpreter's own, between a call of a class and its __init__
 * (_Py_InitCleanup, Python/specialize.c, from 3.13 on): it has no source, and the interpreter
 * leaves its frames out of tracebacks. */
bool cpython_is_init_cleanup(const char *name, const char *file, uint32_t first_line);

/* Where a code object keeps its line table. */
struct py_lines_layout {
	uint16_t code_lines; /* bytes object: co_lnotab, co_linetable */
	uint16_t bytes_size; /* in a bytes object: Py_ssize_t */
	uint16_t bytes_data; /* its first byte */
};
int cpython_lines_layout(uint32_t version_hex, struct py_lines_layout *ret, struct err *e);
/* The same from an image of _Py_DebugOffsets. */
int cpython_lines_layout_from_offsets(const void *image, size_t len, struct py_lines_layout *ret,
				      struct err *e);
/* Of the interpreter in a file: from the image in it where it has one, else by version. */
int cpython_lines_layout_of(const struct elf_file *f, uint32_t version_hex,
			    struct py_lines_layout *ret, struct err *e);

/* The line of the instruction at an offset in bytes from the first one, by the line table of
 * the code object (Objects/lnotab_notes.txt, Objects/locations.md, by version); first_line
 * when the table does not cover it, is cut or is damaged. */
uint32_t cpython_line_at(uint32_t version_hex, const uint8_t *table, size_t len,
			 uint32_t first_line, uint32_t offset);

/* The address ranges [start, end) of the interpreter's loop (_PyEval_EvalFrameDefault) in a
 * file, the function itself first, then the parts that the compiler has put elsewhere.
 * Returns how many there are, at most max; 0 when the file has no interpreter. */
int cpython_eval_ranges(const struct elf_file *f, uint64_t (*ranges)[2], size_t max);
