/* python_codes.h - numbers for the interpreter's code objects. The calling thread has the
 * interpreter. */
#pragma once

#include "python_api.h"
#include "python_calls.h"

#define PYTHON_CODE_SKIPPED 0	       /* it is not to be told */
#define PYTHON_CODE_LOST    UINT32_MAX /* there was no room to tell what it is */

/* Once; the globs of python_filter.h stay the caller's. */
bool python_codes_begin(const char *only, const char *skip);

uint32_t python_code_number(struct call_thread *t, PyObject *code);
