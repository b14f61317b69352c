/* report_model.h - what was learned, as text and as JSON. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "base/buffer.h"
#include "detect/model.h"

/* Of a recording: not learned from, for it looked faulty. */
struct learned_suspect {
	const char *path; /* of the command line */
	double from_s, to_s;
};

struct learned {
	struct model model;
	VEC(struct learned_suspect) suspects;
	char *left_out[DETECT_LAYERS]; /* why a layer was not learned; NULL: nothing is known */
};
void learned_free(struct learned *l);

/* For people: of a table's model its components, of a job's its layers. width: in columns. */
void learned_text(FILE *out, unsigned width, const struct learned *l);

/* All of a table's mixture, or of each layer's; docs/learn.md names the keys. */
json_t *learned_json(const struct learned *l);
