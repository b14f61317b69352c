/* learn_steps.h - steps that are shorter than a window, put together to rows of windows: steps that
 * follow each other closely are alike, and no evidence by themselves. No I/O. */
#pragma once

#include "detect/step_rows.h"

/* Rows of the same process and kind that start in the same window become one: its ratios are those
 * of the sums, so that one slow step counts with the time it took. Rows stay in order of starts. */
void learn_steps_join(struct step_rows *rows, uint64_t window_ns);
