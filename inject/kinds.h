/* kinds.h - which records CUPTI is asked for. Graphs as wholes are the shim's own matter. */
#pragma once

#include <stdbool.h>

#include "cupti_abi.h"

/* options: of enum gpu_options. *calls: whether the driver's calls are told too. 0, or CUPTI's
 * word; what was asked for until then stays. May be called again after a pause. */
int kinds_enable(const struct cupti *c, unsigned options, bool *calls);

void kinds_disable(const struct cupti *c);
