/* lost_in_line.h - anomalies whose time was lost in one line of Python. Calls of a layer can be
 * late because of what the job's own code did before it made them: a collection of garbage, a slow
 * function, a lock. Then that line is what was slow, and not the call that came after it. No I/O.
 */
#pragma once

#include <stdbool.h>

#include "incident/anomaly.h"

/* Whether half of what the anomaly lost or more was lost in that line, in its own code: not in
 * calls of PyTorch, CUDA or NCCL. */
bool lost_in_own_code(const struct anomaly *a, const struct anomaly_line *line);
/* The line, with its own code and what it called, of the anomaly where half was lost in it. Where
 * the time was lost between calls, and in the line's own code, the anomaly becomes one of Python:
 * layer, name and why are the line's. Strings are the line's. */
void lost_in_line(struct anomaly *a, const struct anomaly_line *line);
