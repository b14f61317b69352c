/* cpython_frames.c - how the frames of a running interpreter hang together.
 *
 * Reads: struct offsets of _PyRuntimeState, PyInterpreterState, PyThreadState and of frames on
 * x86-64, from the headers named at each row. It walks no frames: the BPF programs do, and
 * what they need to know beside the offsets is in docs/cpython.md. Debug builds (Py_DEBUG,
 * Py_TRACE_REFS) of 3.8 to 3.12 are not told apart; from 3.13 on the interpreter says its
 * offsets itself. */
#include "symbolize/cpython_frames.h"

#include <errno.h>
#include <string.h>

#define MINOR(hex)   ((hex) >> 16 & 0xff)
#define OLDEST_MINOR 8
#define NEWEST_MINOR 13

/* FRAME_OWNED_BY_CSTACK, 3.14: FRAME_OWNED_BY_INTERPRETER, and what comes after it: the owners
 * of frames that hold no code of Python. */
#define OWNED_BY_C 3

/* clang-format off */
static const struct py_frames frames[] = {
	/* _PyRuntimeState, PyInterpreterState: Include/internal/pycore_pystate.h; PyThreadState:
	 * Include/cpython/pystate.h; PyFrameObject: Include/frameobject.h. */
	[8]  = {.interpreters_head = 32, .interpreter_next = 0, .interpreter_threads = 8,
		.thread_next = 8, .thread_pthread = 176, .thread_frame = 24,
		.frame_previous = 24, .frame_code = 32, .frame_instruction = 104,
		.instruction = PY_LASTI_BYTES, .boundary = PY_ENTRY_ALWAYS},
	/* Include/internal/pycore_runtime.h, Include/internal/pycore_interp.h; the rest as before. */
	[9]  = {.interpreters_head = 32, .interpreter_next = 0, .interpreter_threads = 8,
		.thread_next = 8, .thread_pthread = 176, .thread_frame = 24,
		.frame_previous = 24, .frame_code = 32, .frame_instruction = 104,
		.instruction = PY_LASTI_BYTES, .boundary = PY_ENTRY_ALWAYS},
	/* PyFrameObject: Include/cpython/frameobject.h. */
	[10] = {.interpreters_head = 32, .interpreter_next = 0, .interpreter_threads = 8,
		.thread_next = 8, .thread_pthread = 176, .thread_frame = 24,
		.frame_previous = 24, .frame_code = 32, .frame_instruction = 96,
		.instruction = PY_LASTI_UNITS, .boundary = PY_ENTRY_ALWAYS},
	/* _PyCFrame: Include/cpython/pystate.h; _PyInterpreterFrame: prev_instr, is_entry:
	 * Include/internal/pycore_frame.h; co_code_adaptive: Include/cpython/code.h. */
	[11] = {.interpreters_head = 40, .interpreter_next = 0, .interpreter_threads = 16,
		.thread_next = 8, .thread_pthread = 152,
		.thread_frame = 56, .thread_indirect = 1, .indirect_frame = 8,
		.frame_previous = 48, .frame_code = 32, .frame_instruction = 56,
		.instruction = PY_INSTR_POINTER, .code_instructions = 184,
		.boundary = PY_ENTRY_FLAG, .frame_boundary = 68},
	/* The same headers; owner in place of is_entry. */
	[12] = {.interpreters_head = 40, .interpreter_next = 0, .interpreter_threads = 72,
		.thread_next = 8, .thread_pthread = 136,
		.thread_frame = 56, .thread_indirect = 1, .indirect_frame = 0,
		.frame_previous = 8, .frame_code = 0, .frame_instruction = 56,
		.instruction = PY_INSTR_POINTER, .code_instructions = 192,
		.boundary = PY_ENTRY_SHIM, .frame_boundary = 70, .shim_owner = OWNED_BY_C},
	/* The same headers; current_frame in place of cframe, instr_ptr of prev_instr. */
	[13] = {.interpreters_head = 632, .interpreter_next = 7264, .interpreter_threads = 7344,
		.thread_next = 8, .thread_pthread = 152, .thread_frame = 72,
		.frame_previous = 8, .frame_code = 0, .frame_instruction = 56,
		.instruction = PY_INSTR_POINTER, .code_instructions = 200,
		.boundary = PY_ENTRY_SHIM, .frame_boundary = 70, .shim_owner = OWNED_BY_C},
};
/* clang-format on */

static int check_version(uint32_t version_hex, int oldest, struct err *e)
{
	int minor = MINOR(version_hex);

	if (version_hex >> 24 == 3 && minor >= oldest && minor <= NEWEST_MINOR)
		return 0;
	return err_set(e, EINVAL, "frames of CPython %u.%d are not known here: 3.%d to 3.%d are",
		       version_hex >> 24, minor, oldest, NEWEST_MINOR);
}

int cpython_frames(uint32_t version_hex, struct py_frames *ret, struct err *e)
{
	int rc = check_version(version_hex, OLDEST_MINOR, e);

	if (rc < 0)
		return rc;
	*ret = frames[MINOR(version_hex)];
	return 0;
}

/* Where a code object keeps its line table: co_lnotab, Include/code.h (3.8, 3.9),
 * co_linetable, Include/cpython/code.h; bytes: ob_size of PyVarObject, Include/object.h, and
 * ob_sval, Include/cpython/bytesobject.h, after ob_shash. */
int cpython_lines_layout(uint32_t version_hex, struct py_lines_layout *ret, struct err *e)
{
	int rc = check_version(version_hex, OLDEST_MINOR, e);

	if (rc < 0)
		return rc;
	*ret = (struct py_lines_layout){
		.code_lines = MINOR(version_hex) <= 10 ? 120 : 136,
		.bytes_size = 16,
		.bytes_data = 32,
	};
	return 0;
}
