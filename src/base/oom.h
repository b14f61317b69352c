/* oom.h - how likely the kernel ends this process when memory is short (proc_pid_oom_score_adj(5)).
 */
#pragma once

#include "base/error.h"

#define OOM_NEVER (-1000)

/* The process, and what it forks from now on, may set any value without CAP_SYS_RESOURCE; its own
 * stays as it is. Call it before CAP_SYS_RESOURCE goes, and oom_allow_end after. Where the
 * capability is not there, they do nothing. */
int oom_allow_begin(void);
void oom_allow_end(int before);

/* -EACCES: it is not allowed. */
int oom_set(int value);
