/* report_judged.h - what a detector judged and by what, as JSON: docs/api.yaml. */
#pragma once

#include <jansson.h>

#include "incident/judged.h"

/* The caller's, both. j NULL: nothing is judged. */
json_t *judged_layers_json(struct judged *j);

#define JUDGED_CHOOSES UINT64_MAX
/* x, y: features of the layer, or JUDGED_CHOOSES. NULL: there is no such layer or feature. */
json_t *judged_layer_json(struct judged *j, const char *layer, uint64_t x, uint64_t y);
/* All layers with all features of their rows (Judged of web/src/data.ts). Nobody adds meanwhile. */
json_t *judged_whole_json(const struct judged *j);
