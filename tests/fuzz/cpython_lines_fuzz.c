/* cpython_lines_fuzz.c - hostile line tables of CPython, debug offsets of its frames, and files
 * that say they hold its loop.
 *
 * The first byte is the version's minor number; for one of 8 to 14 the next four are the first
 * line, the next four an offset, and the rest a line table. 'x' is an image of _Py_DebugOffsets
 * (the 'x' belongs to it); an ELF file is searched for the loop.
 *
 * links: base symbolize */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbolize/cpython_frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

static void check_offsets(const uint8_t *data, size_t size)
{
	struct py_lines_layout l;
	struct py_frames f;
	struct err e;

	if (cpython_frames_from_offsets(data, size, &f, &e) == 0) {
		check(f.interpreters_head >= 24 && f.interpreters_head < 1u << 24);
		check(f.interpreter_next < 1u << 24 && f.interpreter_threads < 1u << 24);
		check(f.thread_next < 4096 && f.thread_frame < 4096 && f.thread_pthread < 4096);
		check(f.frame_previous < 4096 && f.frame_instruction < 4096);
		check(f.frame_boundary < 4096 && f.frame_code < 4096 && f.frame_copy < 4096);
		check(f.code_instructions < 4096 && f.code_copies < 4096);
		check(f.instruction == PY_INSTR_POINTER && f.boundary == PY_ENTRY_SHIM);
	}
	if (cpython_lines_layout_from_offsets(data, size, &l, &e) == 0) {
		check(l.code_lines >= 16 && l.code_lines < 4096);
		check(l.bytes_size >= 16 && l.bytes_size < 4096);
		check(l.bytes_data >= 24 && l.bytes_data < 4096);
	}
}

static void check_loop(const uint8_t *data, size_t size)
{
	uint64_t ranges[3][2];
	struct elf_file *f;
	struct err e;
	int n;

	if (elf_file_open_memory(&f, data, size, &e) < 0)
		return;
	n = cpython_eval_ranges(f, ranges, 3);
	check(n >= 0 && n <= 3);
	for (int i = 0; i < n; i++)
		check(ranges[i][0] < ranges[i][1]);
	elf_file_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t version, first_line, offset, line;

	if (size && data[0] == 'x') {
		check_offsets(data, size);
		return 0;
	}
	if (size && data[0] == 0x7f) {
		check_loop(data, size);
		return 0;
	}
	if (size < 9)
		return 0;
	version = 0x030000f0 | (uint32_t)data[0] << 16;
	memcpy(&first_line, data + 1, sizeof(first_line));
	memcpy(&offset, data + 5, sizeof(offset));
	line = cpython_line_at(version, data + 9, size - 9, first_line, offset);
	check(line == first_line || (line >= 1 && line <= INT32_MAX));
	/* past the end of what ranges and entries can cover */
	if (data[0] >= 10)
		check(cpython_line_at(version, data + 9, size - 9, first_line, UINT32_MAX) ==
		      first_line);
	return 0;
}
