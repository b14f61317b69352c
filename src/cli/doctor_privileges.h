/* doctor_privileges.h - what runs as what while eacgm records here, and why. */
#pragma once

#include <jansson.h>

/* [{process, user, why, capabilities[{name, reason}], calls}]; the command, the tracer, its guard.
 */
json_t *doctor_privileges(void);

void doctor_privileges_print(const json_t *rows);
