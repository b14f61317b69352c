/* python_frame.c - reads where a thread's own struct points to; what lies there is not looked at.
 *
 * From 3.13 on the interpreter says itself where that is: _Py_DebugOffsets at the beginning of
 * _PyRuntime (Include/internal/pycore_runtime.h, 3.14: pycore_debug_offsets.h). In 3.12 it is
 * PyThreadState.cframe->current_frame (Include/cpython/pystate.h). */
#include "python_frame.h"

#include <dlfcn.h>
#include <string.h>

#include "python_api.h"

#define THREAD_CFRAME_3_12 56
#define WORD_VERSION	   1
#define WORD_FRAME_3_13	   23 /* thread_state.current_frame */
#define WORD_FRAME_3_14	   26
#define THREAD_MOST	   4096

static uint64_t offset;
static bool is_indirect;

static uint64_t told_offset(void)
{
	const uint64_t *words = dlsym(RTLD_DEFAULT, "_PyRuntime");
	if (!words || memcmp(words, "xdebugpy", 8) != 0 ||
	    (words[WORD_VERSION] >> 16 & 0xff) != (uint64_t)python.minor)
		return 0;
	uint64_t at = words[python.minor == 13 ? WORD_FRAME_3_13 : WORD_FRAME_3_14];
	return at < THREAD_MOST && at % sizeof(uint64_t) == 0 ? at : 0;
}

void python_frame_begin(void)
{
	is_indirect = python.minor == 12;
	offset = 0;
	if (is_indirect)
		offset = THREAD_CFRAME_3_12;
	else if (python.minor == 13 || python.minor == 14)
		offset = told_offset();
}

static uint64_t word_at(uint64_t address)
{
	return *(const uint64_t *)(uintptr_t)address;
}

uint64_t python_frame_now(void)
{
	if (!offset)
		return 0;
	uint64_t word = word_at((uint64_t)(uintptr_t)python.thread() + offset);
	return is_indirect ? word_at(word) : word;
}
