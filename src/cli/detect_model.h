/* detect_model.h - shows what was learned. */
#pragma once

#include <stdio.h>

#include "cli/report_json.h"
#include "detect/model.h"

/* For people: of a table's model its components, of a job's its layers. */
void model_text(FILE *out, const struct model *m);

/* All of a table's mixture, or of each layer's; docs/learn.md names the keys. */
json_t *model_summary_json(const struct model *m);

/* A number, or null where it is not finite. */
json_t *real_json(double v);
