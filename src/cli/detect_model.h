/* detect_model.h - shows what was learned. */
#pragma once

#include <stdio.h>

#include "cli/report_json.h"
#include "detect/model.h"

struct learned {
	struct model model;
	char *left_out[DETECT_LAYERS]; /* why a layer was not learned; NULL: nothing is known */
};
void learned_free(struct learned *l);

/* For people: of a table's model its components, of a job's its layers. */
void learned_text(FILE *out, const struct learned *l);

/* All of a table's mixture, or of each layer's; docs/learn.md names the keys. */
json_t *learned_json(const struct learned *l);

/* A number, or null where it is not finite. */
json_t *real_json(double v);
