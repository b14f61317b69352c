/* python_hook.h - adds an audit hook before there is an interpreter. */
#pragma once

#include "python_api.h"

void python_hook_add(python_auditor *hook);

/* When the hook hears of cpython._PySys_ClearAuditHooks. */
void python_hook_goes(void);
