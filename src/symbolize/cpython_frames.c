/* cpython_frames.c - how the frames of a running interpreter hang together.
 *
 * Reads: struct offsets of _PyRuntimeState, PyInterpreterState, PyThreadState and of frames on
 * x86-64, from the headers named at each row. It walks no frames: the BPF programs do, and
 * what they need to know beside the offsets is in docs/developers/cpython.md. Debug builds
 * (Py_DEBUG, Py_TRACE_REFS) of 3.8 to 3.12 are not told apart; from 3.13 on the interpreter says
 * its offsets itself. */
#include "symbolize/cpython_frames.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define MINOR(hex)   ((hex) >> 16 & 0xff)
#define OLDEST_MINOR 8
#define NEWEST_MINOR 14

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
		.thread_frame = 56, .thread_indirect = 1, .indirect_frame = 8, .indirect_previous = 16,
		.frame_previous = 48, .frame_code = 32, .frame_instruction = 56,
		.instruction = PY_INSTR_POINTER, .code_instructions = 184,
		.boundary = PY_ENTRY_FLAG, .frame_boundary = 68},
	/* The same headers; owner in place of is_entry. */
	[12] = {.interpreters_head = 40, .interpreter_next = 0, .interpreter_threads = 72,
		.thread_next = 8, .thread_pthread = 136,
		.thread_frame = 56, .thread_indirect = 1, .indirect_frame = 0, .indirect_previous = 8,
		.frame_previous = 8, .frame_code = 0, .frame_instruction = 56,
		.instruction = PY_INSTR_POINTER, .code_instructions = 192,
		.boundary = PY_ENTRY_SHIM, .frame_boundary = 70, .shim_owner = OWNED_BY_C},
	/* The same headers; current_frame in place of cframe, instr_ptr of prev_instr. */
	[13] = {.interpreters_head = 632, .interpreter_next = 7264, .interpreter_threads = 7344,
		.thread_next = 8, .thread_pthread = 152, .thread_frame = 72,
		.frame_previous = 8, .frame_code = 0, .frame_instruction = 56,
		.instruction = PY_INSTR_POINTER, .code_instructions = 200,
		.boundary = PY_ENTRY_SHIM, .frame_boundary = 70, .shim_owner = OWNED_BY_C},
	/* 3.14.0: Include/internal/pycore_runtime_structs.h, pycore_interp_structs.h,
	 * pycore_interpframe_structs.h; PyInterpreterState has changed behind these fields in
	 * later releases of 3.14. */
	[14] = {.interpreters_head = 808, .interpreter_next = 7272, .interpreter_threads = 7344,
		.thread_next = 8, .thread_pthread = 152, .thread_frame = 72,
		.frame_previous = 8, .frame_code = 0, .code_tagged = 1, .frame_instruction = 56,
		.instruction = PY_INSTR_POINTER, .code_instructions = 208,
		.boundary = PY_ENTRY_SHIM, .frame_boundary = 74, .shim_owner = OWNED_BY_C},
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

/* co_lnotab: Include/code.h (3.8, 3.9); co_linetable: Include/cpython/code.h; ob_size of
 * PyVarObject: Include/object.h; ob_sval, after ob_shash: Include/cpython/bytesobject.h. */
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

bool cpython_is_init_cleanup(const char *name, const char *file, uint32_t first_line)
{
	return first_line == 0 && strcmp(name, "__init__") == 0 && strcmp(file, "__init__") == 0;
}

/* ---- what the interpreter says itself ---- */

/* Indices of 8-byte fields in _Py_DebugOffsets: Include/internal/pycore_runtime.h (3.13),
 * Include/internal/pycore_debug_offsets.h (3.14). The first three are the cookie "xdebugpy",
 * PY_VERSION_HEX and whether it is a free-threaded build. 0: the release has no such field. */
struct offset_fields {
	uint8_t runtime_size;
	uint8_t interpreters_head;
	uint8_t interpreter_size;
	uint8_t interpreter_next;
	uint8_t interpreter_threads;
	uint8_t thread_size;
	uint8_t thread_next;
	uint8_t thread_frame;
	uint8_t thread_pthread;
	uint8_t frame_size;
	uint8_t frame_previous;
	uint8_t frame_code;
	uint8_t frame_instruction;
	uint8_t frame_owner;
	uint8_t frame_copy;
	uint8_t code_size;
	uint8_t code_lines;
	uint8_t code_instructions;
	uint8_t code_copies;
	uint8_t bytes_size; /* the object's size; ob_size and ob_sval follow */
};
static const struct offset_fields fields_313 = {3,  5,	6,  8,	9, 19, 21, 23, 24, 28,
						29, 30, 31, 33, 0, 34, 38, 43, 0,  64};
static const struct offset_fields fields_314 = {3,  5,	6,  8,	9,  22, 24, 26, 27, 31,
						32, 33, 34, 36, 38, 39, 43, 48, 49, 74};

/* PyInterpreterState holds caches and the objects of the runtime, _PyRuntimeState the first of
 * them: a few hundred KiB each. */
#define MAX_STATE  (1u << 24)
#define MAX_STRUCT 4096

struct offsets_image {
	const uint8_t *words;
	const struct offset_fields *at;
	bool copies; /* free-threaded 3.14: threads have copies of the bytecode */
};

static uint64_t field(const struct offsets_image *o, uint8_t index)
{
	uint64_t v;

	memcpy(&v, o->words + 8 * (size_t)index, sizeof(v));
	return v;
}

static int open_offsets(const void *image, size_t len, struct offsets_image *ret, struct err *e)
{
	uint64_t free_threaded, version;
	int rc;

	if (len < 24 || memcmp(image, "xdebugpy", 8) != 0)
		return err_set(e, EINVAL,
			       "no debug offsets: _PyRuntime does not begin with \"xdebugpy\"");
	memcpy(&version, (const uint8_t *)image + 8, sizeof(version));
	memcpy(&free_threaded, (const uint8_t *)image + 16, sizeof(free_threaded));
	rc = check_version(version, 13, e);
	if (rc < 0)
		return rc;
	ret->words = image;
	ret->at = MINOR(version) == 13 ? &fields_313 : &fields_314;
	ret->copies = free_threaded && ret->at->code_copies;
	if (len < 8 * ((size_t)ret->at->bytes_size + 3))
		return err_set(e, EINVAL, "the debug offsets of CPython 3.%d are cut at %zu bytes",
			       (int)MINOR(version), len);
	return 0;
}

/* Whether a field of n bytes lies within a struct of the size, behind the first `after` bytes. */
static bool fits(const struct offsets_image *o, uint8_t index, uint64_t n, uint64_t after,
		 uint8_t size_index, uint64_t most)
{
	uint64_t offset = field(o, index), size = field(o, size_index);

	return size <= most && size >= n && offset >= after && offset <= size - n &&
	       offset % n == 0;
}

static bool plausible_state(const struct offsets_image *o)
{
	const struct offset_fields *at = o->at;

	return fits(o, at->interpreters_head, 8, 24, at->runtime_size, MAX_STATE) &&
	       fits(o, at->interpreter_next, 8, 0, at->interpreter_size, MAX_STATE) &&
	       fits(o, at->interpreter_threads, 8, 0, at->interpreter_size, MAX_STATE) &&
	       fits(o, at->thread_next, 8, 0, at->thread_size, MAX_STRUCT) &&
	       fits(o, at->thread_frame, 8, 0, at->thread_size, MAX_STRUCT) &&
	       fits(o, at->thread_pthread, 8, 0, at->thread_size, MAX_STRUCT);
}

/* PyObject_HEAD is 16 bytes at least. */
static bool plausible_frame(const struct offsets_image *o)
{
	const struct offset_fields *at = o->at;

	return fits(o, at->frame_previous, 8, 0, at->frame_size, MAX_STRUCT) &&
	       fits(o, at->frame_code, 8, 0, at->frame_size, MAX_STRUCT) &&
	       fits(o, at->frame_instruction, 8, 0, at->frame_size, MAX_STRUCT) &&
	       fits(o, at->frame_owner, 1, 0, at->frame_size, MAX_STRUCT) &&
	       fits(o, at->code_instructions, 2, 16, at->code_size, MAX_STRUCT) &&
	       (!o->copies || (fits(o, at->frame_copy, 4, 8, at->frame_size, MAX_STRUCT) &&
			       fits(o, at->code_copies, 8, 16, at->code_size, MAX_STRUCT)));
}

int cpython_frames_from_offsets(const void *image, size_t len, struct py_frames *ret, struct err *e)
{
	const struct offset_fields *at;
	struct offsets_image o;
	int rc = open_offsets(image, len, &o, e);

	if (rc < 0)
		return rc;
	at = o.at;
	if (!plausible_state(&o) || !plausible_frame(&o))
		return err_set(e, EINVAL, "the debug offsets of frames are not of a known form");
	*ret = (struct py_frames){
		.interpreters_head = field(&o, at->interpreters_head),
		.interpreter_next = field(&o, at->interpreter_next),
		.interpreter_threads = field(&o, at->interpreter_threads),
		.thread_next = field(&o, at->thread_next),
		.thread_pthread = field(&o, at->thread_pthread),
		.thread_frame = field(&o, at->thread_frame),
		.frame_previous = field(&o, at->frame_previous),
		.frame_instruction = field(&o, at->frame_instruction),
		.frame_boundary = field(&o, at->frame_owner),
		.code_instructions = field(&o, at->code_instructions),
		.instruction = PY_INSTR_POINTER,
		.boundary = PY_ENTRY_SHIM,
		.shim_owner = OWNED_BY_C,
		.frame_code = field(&o, at->frame_code),
		.code_tagged = at == &fields_314,
		.frame_copy = o.copies ? field(&o, at->frame_copy) : 0,
		.code_copies = o.copies ? field(&o, at->code_copies) : 0,
	};
	return 0;
}

int cpython_lines_layout_from_offsets(const void *image, size_t len, struct py_lines_layout *ret,
				      struct err *e)
{
	struct offsets_image o;
	int rc = open_offsets(image, len, &o, e);

	if (rc < 0)
		return rc;
	if (!fits(&o, o.at->code_lines, 8, 16, o.at->code_size, MAX_STRUCT) ||
	    !fits(&o, o.at->bytes_size + 1, 8, 16, o.at->bytes_size, MAX_STRUCT) ||
	    !fits(&o, o.at->bytes_size + 2, 1, 24, o.at->bytes_size, MAX_STRUCT))
		return err_set(e, EINVAL,
			       "the debug offsets of line tables are not of a known form");
	*ret = (struct py_lines_layout){
		.code_lines = field(&o, o.at->code_lines),
		.bytes_size = field(&o, o.at->bytes_size + 1),
		.bytes_data = field(&o, o.at->bytes_size + 2),
	};
	return 0;
}

int cpython_lines_layout_of(const struct elf_file *f, uint32_t version_hex,
			    struct py_lines_layout *ret, struct err *e)
{
	bool has_image = MINOR(version_hex) >= 13;
	struct elf_symbol runtime;

	if (!has_image || !elf_file_find(f, "_PyRuntime", &runtime))
		return cpython_lines_layout(version_hex, ret, e);
	/* how long the image is differs from version to version */
	for (size_t len = 2048; len >= 512; len /= 2) {
		const void *image = elf_file_bytes(f, runtime.address, len);

		if (image && cpython_lines_layout_from_offsets(image, len, ret, e) == 0)
			return 0;
	}
	return cpython_lines_layout(version_hex, ret, e);
}
