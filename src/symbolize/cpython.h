/* cpython.h - which CPython a file holds, and the offsets in it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "symbolize/elf_file.h"
#include "wire/event.h"

/* True when the file defines a CPython interpreter (_PyEval_EvalFrameDefault). */
bool cpython_present(const struct elf_file *f);

/* The version of the interpreter in f: from Py_Version (3.11+), else the name
 * (libpython3.8.so.1.0, python3.9), else the version string in .rodata. 0x030b02f0 style
 * hexadecimal (PY_VERSION_HEX). path is the file's name. */
int cpython_version(const struct elf_file *f, const char *path, uint32_t *ret, struct err *e);

/* Offsets for a version, 3.8 to 3.14. For 3.13+ prefer cpython_layout_from_offsets. */
int cpython_layout(uint32_t version_hex, struct py_layout *ret, struct err *e);

/* Offsets from an image of _Py_DebugOffsets (the start of _PyRuntime, 3.13+), also for
 * free-threaded builds. Bounded by len; -EINVAL when cookie or version do not fit. */
int cpython_layout_from_offsets(const void *image, size_t len, struct py_layout *ret,
				struct err *e);

/* The register (0 = rdi) of _PyEval_EvalFrameDefault that holds the frame: 0 in 3.8, else 1. */
int cpython_frame_register(uint32_t version_hex);

/* The characters of a str object as BPF captured them, as UTF-8. width: 1, 2 or 4 bytes
 * per character, 0x80 for ASCII. Writes at most size - 1 bytes and a NUL; returns the
 * length. Invalid code points become U+FFFD. */
size_t cpython_string_utf8(const uint8_t *bytes, size_t len, uint8_t width, char *ret, size_t size);
