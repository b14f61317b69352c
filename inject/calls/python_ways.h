/* python_ways.h - the two ways in which an interpreter tells calls. The calling thread has the
 * interpreter's lock. */
#pragma once

#include "python_api.h"

#define PYTHON_LAST_EVENT "cpython._PySys_ClearAuditHooks"

/* Somebody of ours calls the interpreter, which tells of that too. */
extern __thread bool python_at_work;

bool python_begin_monitoring(void); /* 3.12 and later */
bool python_begin_profiling(void);

/* An audit event, once profiling has begun; not of ours. */
void python_profiling_hears(const char *event);

/* True where a call succeeded; what comes back is nobody's, and its error goes. */
static inline bool python_done(PyObject *result)
{
	if (result)
		python.drop(result);
	else
		python.error_clear();
	return result != NULL;
}
