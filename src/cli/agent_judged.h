/* agent_judged.h - what a detector judged and by what, as JSON: docs/api.yaml. */
#pragma once

#include <jansson.h>

#include "session/live_judged.h"

/* The caller's, both. j NULL: nothing is judged. */
json_t *agent_judged_layers(struct live_judged *j);

#define JUDGED_CHOOSES UINT64_MAX
/* x, y: features of the layer, or JUDGED_CHOOSES. NULL: there is no such layer or feature. */
json_t *agent_judged_layer(struct live_judged *j, const char *layer, uint64_t x, uint64_t y);
