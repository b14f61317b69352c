/* losses.h - what the causes of losses mean: whether what a cause counts is in the recording all
 * the same. The figure "lost" is the sum of the others, wherever it is shown. */
#pragma once

#include <stdbool.h>

bool loss_is_kept(const char *cause);
