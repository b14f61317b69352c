/* attach_check.h - what /proc tells of a process that may keep the CUPTI shim out of it. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Whether its environment, as it was at exec(2), has a variable: "NAME=". */
bool process_has_variable(pid_t pid, const char *name);

/* Whether a session's ring is mapped. A shim without one is at rest: it stayed because CUPTI has
 * its functions. */
bool process_has_ring(pid_t pid);

/* Who traces it, 0 = nobody; its parent. */
pid_t process_tracer(pid_t pid);
pid_t process_parent(pid_t pid);
